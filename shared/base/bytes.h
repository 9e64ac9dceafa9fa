/* SPDX-License-Identifier: Apache-2.0 */
/* Pure functions for paths and bytes that cross a trust boundary. */
#ifndef KODA_SHARED_BASE_BYTES_H
#define KODA_SHARED_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "shared/base/err.h"

/* The kernel's PATH_MAX and NAME_MAX without the terminating NUL. */
#define PATH_LEN_MAX 4095
#define NAME_LEN_MAX 255

/*
 * Checks that the kernel could take the path as it is: not empty, no NUL, not too long, no
 * component too long. Looks nothing up. Returns 0, or -1 with KODA_INVALID and a message that names
 * the problem.
 */
int path_check(const uint8_t *path, size_t len, struct koda_error *err);

/* Is this a relative path that only goes down: no component is empty, too long, "." or ".."? */
bool path_is_relative(const void *path, size_t len);
/*
 * Is this an absolute path in canonical form: "/", or "/" followed by a path for which
 * path_is_relative() is true?
 */
bool path_is_canonical(const void *path, size_t len);

/*
 * Is `path` the same as `dir` or below it, by whole components? Both must be canonical. Everything
 * is inside "/".
 */
bool path_is_inside(const char *path, const char *dir);
/* The same, but not if it is `dir` itself. */
bool path_is_below(const char *path, const char *dir);

/*
 * Formats bytes for a person: control, bidi and invalid UTF-8 bytes are escaped as \xNN or \u{...}.
 * Writes at most size bytes including the NUL. Returns the length of the full result without the
 * NUL.
 */
size_t bytes_show(char *buf, size_t size, const void *data, size_t len);

#endif
