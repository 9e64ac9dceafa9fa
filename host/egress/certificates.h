/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates that commands trust in a session that intercepts: the system's, the policy's,
 * and that of the proxy's CA, as one file in a directory of the host that the view shows read-only.
 * It is a directory because a restarted proxy has another CA: the file is replaced, and a process
 * that opens it afterwards gets the new one.
 */
#ifndef KODA_HOST_EGRESS_CERTIFICATES_H
#define KODA_HOST_EGRESS_CERTIFICATES_H

#include "shared/base/err.h"

/* Make a directory for that file, 0700, in the user's runtime or temporary directory. The caller
 * owns the path; NULL with *err set. *ret_held holds the directory; close it after the directory
 * was removed. A directory that no process holds was left by a killed host, and is removed when
 * the next one is made. */
char *certificates_make(const char *name, int *ret_held, struct koda_error *err);
/* Does the data have the form of exactly one certificate in PEM? */
bool certificates_is_pem(const void *data, size_t len);
/* Replace the file. ca_bundle: the policy's, or NULL. */
int certificates_write(const char *dir, const char *name, const char *ca_bundle, const void *ca,
    size_t ca_len, struct koda_error *err);
/* Remove the directory and the file, and free dir. Accepts NULL. */
void certificates_remove(char *dir, const char *name);

#endif
