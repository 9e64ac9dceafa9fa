/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/clone/clone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define USAGE "usage: clone make FROM INTO FILES BYTES [LEAVE-OUT]... | clone collect INTO"
#define SHOWN 400

int
clone_fail(const char *what, const char *path, int errnum)
{
	char shown[SHOWN];

	bytes_show(shown, sizeof(shown), path, strlen(path));
	fprintf(stderr, "%s '%s'%s%s\n", what, shown, errnum != 0 ? ": " : "",
	    errnum != 0 ? strerror(errnum) : "");
	return CLONE_STATUS_FAILED;
}

static int
by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct name_list {
	char **v;
	size_t n;
};

static int
add_name(struct name_list *l, const char *name)
{
	char **grown = reallocarray(l->v, l->n + 2, sizeof(*grown));

	if (grown == NULL)
		return -1;
	l->v = grown;
	l->v[l->n] = strdup(name);
	if (l->v[l->n] == NULL)
		return -1;
	l->v[++l->n] = NULL;
	return 0;
}

static void
close_dir(DIR **d)
{
	if (*d != NULL)
		closedir(*d);
}

void
clone_names_free(char **names)
{
	for (size_t i = 0; names != NULL && names[i] != NULL; i++)
		free(names[i]);
	free(names);
}

char **
clone_names(int fd)
{
	cleanup(close_dir) DIR *d = NULL;
	struct name_list l = { calloc(1, sizeof(*l.v)), 0 };
	int again = openat(fd, ".", CLONE_OPEN_DIR);
	const struct dirent *e;
	bool whole;

	d = again < 0 ? NULL : fdopendir(again);
	if (d == NULL || l.v == NULL) {
		free(l.v);
		if (again >= 0 && d == NULL)
			close(again);
		return NULL;
	}
	for (errno = 0; (e = readdir(d)) != NULL; errno = 0)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    add_name(&l, e->d_name) < 0)
			break;
	whole = e == NULL && errno == 0;
	if (!whole) {
		clone_names_free(l.v);
		return NULL;
	}
	if (l.n > 1)
		qsort(l.v, l.n, sizeof(*l.v), by_bytes);
	return l.v;
}

static bool
take_number(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

int
clone_main(int argc, char **argv)
{
	const bool make = argc >= 5 && strcmp(argv[0], "make") == 0;
	cleanup_close int into = -1;
	struct clone_limits limits;

	if (!make && (argc != 2 || strcmp(argv[0], "collect") != 0)) {
		fputs(USAGE "\n", stderr);
		return CLONE_STATUS_FAILED;
	}
	if (make && (!take_number(argv[3], &limits.files) || !take_number(argv[4], &limits.bytes)))
		return clone_fail("not a number:", argv[4], 0);
	umask(077);
	into = open(argv[make ? 2 : 1], CLONE_OPEN_DIR);
	if (into < 0)
		return clone_fail("open", argv[make ? 2 : 1], errno);
	return make ? clone_make(argv[1], into, &limits, (const char *const *)argv + 5)
		    : clone_collect(into);
}
