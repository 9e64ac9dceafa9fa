/* Small pure things about paths and bytes as they cross a boundary. */
#ifndef KODA_SHARED_BASE_BYTES_H
#define KODA_SHARED_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "shared/base/err.h"

/* The kernel's PATH_MAX and NAME_MAX, without its terminating NUL. */
#define PATH_LEN_MAX 4095
#define NAME_LEN_MAX 255

/*
 * Is that a path the kernel could take as it is: not empty, no NUL, not over-long, no component
 * over-long? Sense only; nothing is looked up. 0, or -1 with KODA_INVALID naming what is wrong.
 */
int path_check(const uint8_t *path, size_t len, struct koda_error *err);

/* Components that lead nowhere but down, a name below a directory: none is empty, over-long, "." or "..". */
bool path_is_relative(const void *path, size_t len);
/* Absolute, and in the one form that a path has: "/", or one behind which it is relative. */
bool path_is_canonical(const void *path, size_t len);

/* Is `path` the place `dir` or below it, by whole components? Both canonical ("/" is the parent of all). */
bool path_is_inside(const char *path, const char *dir);

/* Bytes to show to a person: control, bidi and invalid UTF-8 bytes are escaped as \xNN or \u{...}.
 * Writes at most size bytes with the NUL; returns the length it would have had. */
size_t bytes_show(char *buf, size_t size, const void *data, size_t len);

#endif
