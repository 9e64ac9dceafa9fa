/*
 * The same work in plain C with bare system calls, in one process (the ping: two): no sandbox, no
 * check, no answer. Our figures are compared with these.
 *
 * All return 0, or -1 after printing why. Names are relative to the working directory.
 */
#ifndef KODA_BENCH_FLOOR_H
#define KODA_BENCH_FLOOR_H

#include <stddef.h>
#include <sys/types.h>

/* A second process that sends back what it gets: 64 bytes over a socketpair, blocking read and
 * write. */
struct floor_peer {
	int fd;
	pid_t pid;
};
int floor_peer_start(struct floor_peer *ret);
void floor_peer_stop(struct floor_peer *peer);
int floor_ping(const struct floor_peer *peer);

/* open(O_CREAT|O_EXCL, 0600) of a temporary name in the same directory, write everything, close,
 * rename. */
int floor_write(const char *name, const void *data, size_t len);

/* open, fstat, read all, close. Returns the bytes read. */
ssize_t floor_read(const char *name, void *buf, size_t size);

/* Like floor_read(), for bulk: one pass with a buffer of that size. */
ssize_t floor_read_bulk(const char *name, void *buf, size_t size);

/* floor_read, memmem, the new content in a second buffer, floor_write. No digest. */
int floor_edit(const char *name, const char *from, const char *to);

/* posix_spawn and waitpid. */
int floor_spawn(const char *program);

/* Like floor_spawn(), but argv[0] is looked up in PATH; runs in dir (NULL: here) without input. */
int floor_run(const char *const *argv, const char *dir);

/* floor_run() with standard output and error each read through a pipe until their end. Stores the
 * beginning of standard output in ret, as a string. */
int floor_capture(const char *const *argv, const char *dir, char *ret, size_t size);

/* openat2(RESOLVE_BENEATH, O_PATH) and close. */
int floor_resolve(int dir, const char *path);

#endif
