/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that a test starts and talks to through pipes. Each function fails the case when the
 * process does not do what it should.
 */
#ifndef KODA_TESTS_KIT_PROCESS_H
#define KODA_TESTS_KIT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Longer than anything here takes; a test that waits this long has failed. */
#define PATIENCE_MS 20000

struct process {
	pid_t pid;
	/* The test's ends of the pipes: it writes to `in` and reads the others. -1: closed, and of
	 * `err` that the process has the test's. */
	int in, out, err;
};

struct process process_start(const char *const *argv);
/* With the test's standard error. */
struct process process_start_loud(const char *const *argv);

/* Returns whether something can be read from fd within ms. */
bool process_readable(int fd, int ms);
/* Returns the next line without the newline, or "" at the end. Valid until the next call. */
const char *process_line(int fd);
void process_say(const struct process *p, const char *line);
/* Says the line and returns the next line of its output. */
const char *process_ask(const struct process *p, const char *line);

void process_close_input(struct process *p);
/* Closes the pipes. */
void process_forget(struct process *p);
/* Waits for the end and closes the pipes. Returns the exit status as a shell would: 128 + n for a
 * signal. */
int process_wait(struct process *p);
/* Closes its input, and waits for it to end. */
int process_finish(struct process *p);
/* Waits for the end of all processes of the test. With PR_SET_CHILD_SUBREAPER that includes orphans.
 * SIGALRM ends the test if a process stays. */
void process_wait_all(void);

/* Runs a shell script, which must succeed, with the arguments as $1 and on, so that names need no
 * quoting. */
void process_shell(const char *script, const char *one, const char *two, const char *three);

uint64_t clock_ms(void);
long resident_kib(pid_t pid);

#endif
