/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the helper programs are: beside the program or library that this code was loaded from,
 * never found by PATH, which a project may control. They are searched for once, when a session
 * opens, before the project is looked at.
 */
#ifndef KODA_HOST_MACHINE_HELPERS_H
#define KODA_HOST_MACHINE_HELPERS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/base/err.h"

/* Why a program must not be started by this user: another user could have written it. */
enum helpers_flaw {
	HELPERS_TRUSTED,
	HELPERS_OTHERS_OWN,
	HELPERS_OTHERS_WRITE,
	HELPERS_GROUP_WRITES,
};

/* Facts about an owner and a group that are not in the file's stat. */
struct helpers_who {
	uid_t user;          /* the user that starts the program */
	uid_t code;          /* the owner of this code, who could change it */
	bool root_elsewhere; /* root may be unmapped here: its files show the overflow user */
	uid_t overflow;
	bool group_is_private; /* no other user is in the file's group */
};

/* The decision alone. */
enum helpers_flaw helpers_judge(const struct stat *st, const struct helpers_who *who);

/*
 * dir NULL: <directory of this code>/../libexec/koda-sandbox, also from lib/ and lib/<triplet>/.
 * Writes the program's absolute path to ret. Returns 0, or -1 with *err set; refuses a program that
 * a user other than root, this one and the owner of this code owns or can write.
 */
int helpers_find(const char *dir, const char *name, char ret[PATH_LEN_MAX + 1],
    struct koda_error *err);

/* What a process must not write that the sandbox confines: the program or library that this code was
 * loaded from, and the directory of the helpers beside it. */
#define HELPERS_OWN 2

/* Writes the canonical paths of those that exist to ret. Returns how many. */
size_t helpers_own(char ret[HELPERS_OWN][PATH_LEN_MAX + 1]);

/* Like helpers_find(), for bubblewrap in one of the system's directories, or if there is none, beside
 * the helpers, where the static tarball has it. Refuses a set-user-id one. */
int helpers_find_bwrap(char ret[PATH_LEN_MAX + 1], struct koda_error *err);

#endif
