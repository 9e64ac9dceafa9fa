/* SPDX-License-Identifier: Apache-2.0 */
/* What a process or a session may have left behind. */
#ifndef KODA_TESTS_KIT_LEAKS_H
#define KODA_TESTS_KIT_LEAKS_H

#include <stddef.h>

/* Names in a directory, . and .. among them. */
size_t count_entries(const char *path);
/* Open descriptors of this process, the one that counts among them. */
size_t count_descriptors(void);
/* Directories of certificates in TMPDIR. */
size_t count_certificates(void);

#endif
