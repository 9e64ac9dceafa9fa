/*
 * Where the helper programs are: beside the program or library that this code was loaded from,
 * never found by PATH, which a project may control. They are searched for once, when a session
 * opens, before the project is looked at.
 */
#ifndef KODA_HOST_MACHINE_HELPERS_H
#define KODA_HOST_MACHINE_HELPERS_H

#include "shared/base/bytes.h"
#include "shared/base/err.h"

/*
 * dir NULL: <directory of this code>/../libexec/koda-sandbox, also from lib/ and lib/<triplet>/.
 * Writes the program's absolute path to ret. Returns 0, or -1 with *err set; refuses a program that
 * is writable by everybody.
 */
int helpers_find(const char *dir, const char *name, char ret[PATH_LEN_MAX + 1],
    struct koda_error *err);

/* Like helpers_find(), for bubblewrap in one of the system's directories. Refuses a set-user-id
 * one. */
int helpers_find_bwrap(char ret[PATH_LEN_MAX + 1], struct koda_error *err);

#endif
