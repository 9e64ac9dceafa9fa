/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system's users and groups. A program with shared libraries asks the C library, which may ask
 * a directory server (users.c). A static one reads /etc/passwd and /etc/group (users_files.c): the
 * C library would load parts of the system that belong to another version of it.
 */
#ifndef KODA_HOST_MACHINE_USERS_H
#define KODA_HOST_MACHINE_USERS_H

#include <grp.h>
#include <pwd.h>
#include <stdbool.h>

/* Fill *ret, whose strings are in buf. Return false if there is no such user or group, or it does
 * not fit. */
bool users_find(uid_t uid, struct passwd *ret, char *buf, size_t size);
bool users_find_group(gid_t gid, struct group *ret, char *buf, size_t size);

#endif
