/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation or search of one command of koda-sandbox: session, slot, the path in the form that
 * the worker wants, and how the end is reported. Opens nothing that an agent may name; the root
 * comes from the user.
 */
#ifndef KODA_CLI_JOB_H
#define KODA_CLI_JOB_H

#include <stdio.h>

#include "cli/ask.h"
#include "cli/command.h"

struct job {
	const struct cli *cli;
	char *root; /* canonical */
	char *cwd;  /* canonical, NULL if it does not exist any more */
	struct ask ask;
	bool commands; /* explain: also report what commands may do */
	struct koda_session *session;
	struct koda_slot *slot;
	char *path, *to; /* op points to them */
	struct koda_op op;
	struct koda_result result;
};

/*
 * Opens a session for the operation `kind`, and fills job->op from the command's options and words.
 * Starts no worker. Returns EXIT_DONE, or the status after printing why. Call job_end() in either
 * case.
 */
int job_begin(struct job *job, const struct cli *cli, enum koda_op_kind kind);
/*
 * Starts the worker, does the operation, fills job->result. Returns EXIT_DONE, or the status after
 * printing why.
 */
int job_run(struct job *job);

/*
 * The same in steps, for everything that is not an operation. Each returns EXIT_DONE, or the status
 * after printing why. job_find() finds the root and the current directory; call job_end() in either
 * case. job_place() converts the user's path to the worker's; the caller must free() *ret.
 * job_acquire() starts the worker.
 */
int job_find(struct job *job, const struct cli *cli);
int job_place(const struct job *job, const char *word, char **ret);
int job_open(struct job *job);
int job_acquire(struct job *job);

void job_end(struct job *job);

/* Returns the path for the user: relative if it is below the current directory. Not escaped. */
const char *job_shown(const struct job *job, const char *path);

/*
 * Prints the result of a mutation: as JSON, as a line that begins with `done` ("wrote 12 bytes to")
 * or for a dry run with `would`, or not at all. Returns the exit status.
 */
int job_tell_mutation(const struct job *job, const char *done, const char *would);

/* Returns the part of path below dir, both canonical: "" for dir itself, NULL if there is none. */
const char *job_below(const char *path, const char *dir);

/*
 * Finds the canonical directory that --root names. Returns EXIT_DONE with *ret, which the caller
 * must free(), or the status.
 */
int job_find_root(const struct cli *cli, char **ret);

#endif
