/*
 * What plain C does with the bare system calls, in one process (the ping: in two): no sandbox, no
 * check, no answer. Every figure of ours stands beside one of these.
 *
 * All return 0, or -1 after saying why. Names are relative to the working directory.
 */
#ifndef KODA_BENCH_FLOOR_H
#define KODA_BENCH_FLOOR_H

#include <stddef.h>
#include <sys/types.h>

/* A second process that sends back what it gets: 64 bytes over a socketpair, blocking read and write. */
struct floor_peer {
	int fd;
	pid_t pid;
};
int floor_peer_start(struct floor_peer *ret);
void floor_peer_stop(struct floor_peer *peer);
int floor_ping(const struct floor_peer *peer);

/* open(O_CREAT|O_EXCL, 0600) of a temporary name beside it, write until all is out, close, rename. */
int floor_write(const char *name, const void *data, size_t len);

/* open, fstat, read all, close. Returns the bytes read. */
ssize_t floor_read(const char *name, void *buf, size_t size);

/* The same, for bulk: one pass with a buffer of that size. */
ssize_t floor_read_bulk(const char *name, void *buf, size_t size);

/* floor_read, memmem, the new content in a second buffer, floor_write. No digest. */
int floor_edit(const char *name, const char *from, const char *to);

/* posix_spawn and waitpid. */
int floor_spawn(const char *program);

/* The same found in PATH, with arguments, in that directory (NULL: here), and nothing to read. */
int floor_run(const char *const *argv, const char *dir);

/* floor_run with standard output and error each read through a pipe until their end. The first of what came on standard
 * output is kept, as a string. */
int floor_capture(const char *const *argv, const char *dir, char *ret, size_t size);

/* openat2(RESOLVE_BENEATH, O_PATH) and close. */
int floor_resolve(int dir, const char *path);

#endif
