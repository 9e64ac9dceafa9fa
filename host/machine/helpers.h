/*
 * Where the helper programs are: beside the program or library that this code was loaded from, never
 * by PATH, which a project may lead. Found once, when a session opens, before the project is looked at.
 */
#ifndef KODA_HOST_MACHINE_HELPERS_H
#define KODA_HOST_MACHINE_HELPERS_H

#include "shared/base/bytes.h"
#include "shared/base/err.h"

/*
 * dir NULL: <where we are>/../libexec/koda-sandbox, also from lib/ and lib/<triplet>/. Writes the
 * absolute path of the program; refuses one that others than its owner and root can replace.
 */
int helpers_find(const char *dir, const char *name, char ret[PATH_LEN_MAX + 1],
    struct koda_error *err);

/* bubblewrap, in one of the places that a system has it in. Not set-user-id. */
int helpers_find_bwrap(char ret[PATH_LEN_MAX + 1], struct koda_error *err);

#endif
