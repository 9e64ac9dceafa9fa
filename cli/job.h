/*
 * One operation or search of one command: session, slot, the path as the worker wants it, and what is told
 * about the end. Opens nothing that an agent may name; the root is the user's word.
 */
#ifndef KODA_CLI_JOB_H
#define KODA_CLI_JOB_H

#include <stdio.h>

#include "cli/ask.h"
#include "cli/command.h"

struct job {
	const struct cli *cli;
	char *root; /* canonical */
	char *cwd;  /* canonical, NULL when there is none any more */
	struct ask ask;
	bool commands; /* what commands may do is asked for, too */
	struct koda_session *session;
	struct koda_slot *slot;
	char *path, *to; /* what op points to */
	struct koda_op op;
	struct koda_result result;
};

/*
 * Open a session for the operation `kind` with the command's options and words in job->op. No
 * worker runs yet. EXIT_DONE, or the status after having told why; job_end() in either case.
 */
int job_begin(struct job *job, const struct cli *cli, enum koda_op_kind kind);
/* Start the worker, do it, fill job->result. EXIT_DONE, or the status after having told why. */
int job_run(struct job *job);

/* The same in steps, for what is no operation. Each returns EXIT_DONE, or the status after having told why. */
int job_find(struct job *job, const struct cli *cli); /* where we are; job_end() in either case */
int job_place(const struct job *job, const char *word, char **ret); /* to free() */
int job_open(struct job *job);
int job_acquire(struct job *job); /* starts the worker */

void job_end(struct job *job);

/* The path as the user thinks of it: relative when it is below the current directory. Not escaped.
 */
const char *job_shown(const struct job *job, const char *path);

/* Print the end of a mutation: as JSON, as the line that `verb` begins ("wrote 12 bytes to"), or
 * nothing. Returns the exit status. */
int job_tell_mutation(const struct job *job, const char *done, const char *would);

/* What of path is below dir, both canonical: "" for dir itself, NULL for anything else. */
const char *job_below(const char *path, const char *dir);

/* The canonical directory that --root names; EXIT_DONE with *ret the caller's, or the status. */
int job_find_root(const struct cli *cli, char **ret);

#endif
