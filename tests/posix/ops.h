/* SPDX-License-Identifier: Apache-2.0 */
/*
 * posix-ops: a list of file operations, each in a directory of its own. A test runs it in a direct
 * slot and in a draft, and compares what each operation prints.
 *
 * Each operation starts in a directory with, unless it has a preparation of its own:
 *	f g         files
 *	h1 h2       two links of one file
 *	l dl no     links to f, to d, and to nothing
 *	d/x d/sub/y a directory with content, and n, the same
 *	e           an empty directory
 *	exe         a script
 *	fifo
 *	big         BIG_SIZE bytes
 */
#ifndef KODA_TESTS_POSIX_OPS_H
#define KODA_TESTS_POSIX_OPS_H

#include <stdbool.h>
#include <stddef.h>

#define BIG_SIZE 100000

struct op {
	const char *name;
	void (*run)(void);
	void (*prepare)(void); /* NULL: as above */
	void (*run_of)(int n); /* instead of run: the n-th of a table */
	int n;
};

/* Adds to what the operation prints. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "ok", or the name of the error number if r is negative. */
const char *er(long r);
/* What is there: "file:content", "dir", "link:target", "none" and so on. */
void say_what(const char *path);

/* They end the operation when they fail. */
void put(const char *path, const char *text);
void append(const char *path, const char *text);
int must(int r);
void read_from(int fd, char *ret, size_t size);

/* Adds an operation to the list; the name is copied. */
void add_op(const struct op *op);
void add_all(const struct op *ops, size_t n);

void add_open_ops(void);
void add_rename_ops(void);
void add_name_ops(void);
void add_readdir_ops(void);
void add_content_ops(void);
void add_inode_ops(void);
void add_lock_ops(void);
void add_tool_ops(void);

/* A row of such a list; it is prepared as above with NULL. */
#define OP(name_, run_, prepare_)                                                                  \
	{                                                                                          \
		.name = (name_), .run = (run_), .prepare = (prepare_)                              \
	}
#define ADD_ALL(ops) add_all(ops, sizeof(ops) / sizeof((ops)[0]))

#endif
