/* SPDX-License-Identifier: Apache-2.0 */
/*
 * koda-fs-worker as a program that a command's sandbox runs: copies a project, and collects what was
 * changed in the copy. It knows no policy: the sandbox hides what must not be read, and lets it write
 * to one directory. Names and contents are whatever commands made; nothing is opened through a link,
 * and only regular files, directories and symbolic links are copied.
 *
 *	clone make FROM INTO FILES BYTES [LEAVE-OUT]...
 *	clone collect INTO
 *
 * In the directory INTO: `tree` is the copy, `base` what was in it at first (clone_base.h), and
 * `upper` what was changed since, in the form of an overlay's upper directory, and `gone` the paths of
 * what was deleted, each with a NUL. Lines on standard
 * output: "at FILES BYTES" now and then, and "done FILES BYTES LEFT-OUT" at the end.
 */
#ifndef KODA_WORKER_CLONE_CLONE_H
#define KODA_WORKER_CLONE_CLONE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define CLONE_TREE  "tree"
#define CLONE_BASE  "base"
#define CLONE_UPPER "upper"
#define CLONE_GONE  "gone"

/* Levels of directories, each of which needs three descriptors. */
#define CLONE_DEPTH_MAX 256
/* Bytes of a path below the top. */
#define CLONE_PATH_MAX 4096

#define CLONE_STATUS_FAILED    1
#define CLONE_STATUS_TOO_LARGE 3 /* more files or bytes than allowed */

/* Runs the arguments after "clone". Returns the exit status. */
int clone_main(int argc, char **argv);

struct clone_limits {
	uint64_t files; /* names of any kind */
	uint64_t bytes; /* that are written: what the file system shares costs nothing */
};
/* They return an exit status, and print why it is not 0. */
int clone_make(const char *from, int into, const struct clone_limits *limits,
    const char *const *leave_out);
int clone_collect(int into);

/* ---- what they share ---- */

#define CLONE_OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Prints the reason for errno's value (0: none), and returns CLONE_STATUS_FAILED. */
int clone_fail(const char *what, const char *path, int errnum);
/* Reads all names of a directory, sorted; NULL ends the list. Returns NULL with errno. */
char **clone_names(int fd);
void clone_names_free(char **names);

struct clone_copied {
	uint64_t written; /* bytes that are not shared with the source */
	bool gone;        /* there is no such regular file any more, or it cannot be read */
};
/* Copies the regular file to a new name, with mode and time, sharing its blocks if possible. Writes at
 * most max bytes. Returns 0, or -1 with errno: EFBIG if it would be more. */
int clone_copy(int from, const char *name, int to, const char *as, uint64_t max,
    struct clone_copied *ret);
/* Does the same with a symbolic link. */
int clone_copy_link(int from, const char *name, int to, const char *as);

#endif
