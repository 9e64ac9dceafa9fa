/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each confined process gets from Landlock: one row for each right, with the ABI that has it
 * and, for each kind of process, what holds the same promise on a kernel without it. Which process
 * is confined in full is decided here and nowhere else. This is a table; lockdown.h acts.
 */
#ifndef KODA_SHARED_CONFINE_RIGHTS_H
#define KODA_SHARED_CONFINE_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

enum confined_kind {
	CONFINED_COMMANDS, /* the template, and every command that descends from it */
	CONFINED_WORKER,
	CONFINED_SEARCH,
	CONFINED_PROXY,
	CONFINED_N,
};

enum right_without {
	RIGHT_HELD,   /* something else holds the same promise */
	RIGHT_WEAKER, /* the process could do more if it was taken over; no promise rests on it */
	RIGHT_LOST,   /* nothing holds the promise: the process is not confined in full */
};

struct right {
	const char *name; /* as doctor prints it */
	const char *what;
	unsigned abi;       /* the first that has it */
	const char *kernel; /* the first Linux that has that ABI */
	struct {
		enum right_without how;
		const char *by; /* what holds it, or what is lost */
	} without[CONFINED_N];
};

/* What helps a kernel that has lost one. */
#define RIGHTS_REMEDY "Linux 5.13 or newer with landlock in the kernel's lsm= list"

extern const struct right rights[];
extern const size_t rights_n;

/* Returns the first right that a process with this ABI has lost, or NULL if it is confined in
 * full. `abi` is that of its domain. */
const struct right *rights_lost(enum confined_kind who, unsigned abi);

#endif
