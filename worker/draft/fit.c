/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/fit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define MARKS "user.overlay."
/* Enough for most files' list of attributes; the kernel's XATTR_LIST_MAX. */
#define LIST_FIRST 512
#define LIST_MAX   (64u << 10)

bool
fit_is_mark(const char *attribute)
{
	return strncmp(attribute, MARKS, sizeof(MARKS) - 1) == 0;
}

struct fit_list {
	char first[LIST_FIRST], *big;
	const char *names;
	ssize_t n;
};

static void
fit_list_done(struct fit_list *l)
{
	free(l->big);
}

/* itself: the path names it. Otherwise it names a descriptor below /proc/self/fd. */
static int
fit_list_read(struct fit_list *l, const char *path, bool itself)
{
	ssize_t (*const list)(const char *, char *, size_t) = itself ? llistxattr : listxattr;

	l->big = NULL;
	l->names = l->first;
	l->n = list(path, l->first, sizeof(l->first));
	if (l->n < 0 && errno == ERANGE) {
		l->big = malloc(LIST_MAX);
		if (l->big == NULL)
			return -1;
		l->names = l->big;
		l->n = list(path, l->big, LIST_MAX);
	}
	if (l->n < 0 && errno == EOPNOTSUPP)
		l->n = 0;
	return l->n < 0 ? -1 : 0;
}

#define EACH_NAME(l, at)                                                                           \
	for (const char *at = (l)->names; at < (l)->names + (l)->n; at += strlen(at) + 1)

static void
refuse(struct fit *ret, const char *rule, const char *reason)
{
	ret->rule = rule;
	ret->reason = reason;
}

int
fit_look(int dir, const char *name, const struct stat *st, uid_t me, struct fit *ret)
{
	cleanup(fit_list_done) struct fit_list l = { .n = 0 };
	char path[NAME_LEN_MAX + 16];

	*ret = (struct fit){ NULL, NULL, false };
	if (S_ISDIR(st->st_mode))
		refuse(ret, "special_file",
		    "a directory of a draft is made, and what is in it comes one by one");
	else if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
		refuse(ret, "special_file", "it is a socket, a FIFO or a device");
	else if (st->st_uid != me)
		refuse(ret, "owner", "it belongs to another user");
	else if (S_ISREG(st->st_mode) && (st->st_mode & (S_ISUID | S_ISGID)) != 0)
		refuse(ret, "set_id",
		    "it would run as another user or group (set-user-ID, set-group-ID)");
	/* A link can have neither attributes of users nor capabilities. */
	if (ret->rule != NULL || S_ISLNK(st->st_mode))
		return 0;
	snprintf(path, sizeof(path), "%d/%s", dir, name);
	if (fit_list_read(&l, path, true) < 0)
		return -1;
	EACH_NAME(&l, attribute)
	{
		if (fit_is_mark(attribute))
			ret->marked = true;
		else if (strcmp(attribute, "security.capability") == 0)
			refuse(ret, "file_capability", "it has file capabilities");
	}
	return 0;
}

int
fit_strip(int fd)
{
	cleanup(fit_list_done) struct fit_list l = { .n = 0 };
	char path[16];

	snprintf(path, sizeof(path), "%d", fd);
	if (fit_list_read(&l, path, false) < 0)
		return -1;
	EACH_NAME(&l, name)
	{
		if (fit_is_mark(name) && removexattr(path, name) < 0 && errno != ENODATA)
			return -1;
	}
	return 0;
}
