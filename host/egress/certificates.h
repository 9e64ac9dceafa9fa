/*
 * What commands trust in a session that intercepts: the system's certificates, the policy's, and that of the proxy's CA, as one
 * file in a directory of the host that the view shows read-only. A directory, because a proxy that was started anew has
 * another CA: the file is replaced, and who opens it after that finds the new one.
 */
#ifndef KODA_HOST_EGRESS_CERTIFICATES_H
#define KODA_HOST_EGRESS_CERTIFICATES_H

#include "shared/base/err.h"

/* A directory for that file, 0700, in the user's runtime or temporary directory. The caller's; NULL with *err set. It is held
 * by *ret_held, to be closed when it was removed: what nobody holds is a killed host's, and goes when the next is made. */
char *certificates_make(const char *name, int *ret_held, struct koda_error *err);
/* Is that one certificate in PEM and nothing more, by its form? */
bool certificates_is_pem(const void *data, size_t len);
/* Replace the file. ca_bundle: the policy's, or NULL. */
int certificates_write(const char *dir, const char *name, const char *ca_bundle, const void *ca,
    size_t ca_len, struct koda_error *err);
/* Removes directory and file, and frees dir. Accepts NULL. */
void certificates_remove(char *dir, const char *name);

#endif
