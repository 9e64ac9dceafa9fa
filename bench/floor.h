/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the measured rows in plain C with bare system calls, in one process (two for the
 * ping), without a sandbox, checks or replies. Our figures are compared with these.
 *
 * All functions return 0, or -1 after printing why, unless their comments say otherwise. Names are
 * relative to the working directory.
 */
#ifndef KODA_BENCH_FLOOR_H
#define KODA_BENCH_FLOOR_H

#include <stddef.h>
#include <sys/types.h>

/* A second process that sends back 64 bytes over a socketpair, with blocking reads and writes. */
struct floor_peer {
	int fd;
	pid_t pid;
};
int floor_peer_start(struct floor_peer *ret);
void floor_peer_stop(struct floor_peer *peer);
int floor_ping(const struct floor_peer *peer);

/* Create a temporary file in the same directory with open(O_CREAT|O_EXCL, 0600), write all data,
 * close it and rename it to name. */
int floor_write(const char *name, const void *data, size_t len);

/* Open a file, fstat() it, read all of it into buf and close it. Returns the number of bytes read,
 * or -1. */
ssize_t floor_read(const char *name, void *buf, size_t size);

/* Read a file once from beginning to end, `size` bytes at a time, each time into the beginning of
 * buf. Returns the number of bytes read, or -1. */
ssize_t floor_read_bulk(const char *name, void *buf, size_t size);

/* Replace the first `from` in a file with `to`: floor_read(), memmem(), build the new content in a
 * second buffer, floor_write(). Computes no digest. */
int floor_edit(const char *name, const char *from, const char *to);

/* Start a program with posix_spawn(), without arguments, and wait until it ends. An exit status
 * other than 0 is a failure. */
int floor_spawn(const char *program);

/* Like floor_spawn(), but with arguments, our environment and /dev/null as input. Searches for
 * argv[0] in PATH and runs it in dir (NULL: the working directory). */
int floor_run(const char *const *argv, const char *dir);

/* Like floor_run(), but read standard output and standard error through a pipe each, until both
 * end. Stores the beginning of standard output in ret, as a string. */
int floor_capture(const char *const *argv, const char *dir, char *ret, size_t size);

/* Open path below dir with openat2(RESOLVE_BENEATH, O_PATH), and close it. */
int floor_resolve(int dir, const char *path);

/* For each name below `upper`: lstat() it, list its attributes, and lstat() the same name below `lower`,
 * where it need not exist. */
int floor_compare(const char *upper, const char *lower);

/* Make the directories of `from` in `to`, which is made, and rename each file to its place there, if
 * nothing is there. Both have one level of directories. */
int floor_move(const char *from, const char *to);

#endif
