/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/watches.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>

#include "shared/base/cleanup.h"

/* Enough for a few hundred slots, and for large projects. */
#define INSTANCES_WANTED 1024
#define WATCHES_WANTED   524288

static long
read_limit(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[32];
	long n = -1;

	if (f == NULL)
		return -1;
	if (fgets(line, sizeof(line), f) != NULL)
		n = strtol(line, NULL, 10);
	fclose(f);
	return n;
}

void
watches_look(struct watches *ret)
{
	cleanup_close int fd = inotify_init1(IN_CLOEXEC);

	ret->no_instance = fd < 0;
	ret->instances = read_limit("/proc/sys/fs/inotify/max_user_instances");
	ret->own_instances = read_limit("/proc/sys/user/max_inotify_instances");
	ret->watches = read_limit("/proc/sys/fs/inotify/max_user_watches");
	ret->own_watches = read_limit("/proc/sys/user/max_inotify_watches");
}

/* The lower of two limits, which is reached first. */
struct limit {
	const char *name;
	long now, wanted;
};

static struct limit
lower(struct limit host, struct limit own)
{
	return own.now >= 0 && (host.now < 0 || own.now < host.now) ? own : host;
}

static struct limit
instances(const struct watches *w)
{
	return lower((struct limit){ "fs.inotify.max_user_instances", w->instances,
			 INSTANCES_WANTED },
	    (struct limit){ "user.max_inotify_instances", w->own_instances, INSTANCES_WANTED });
}

static struct limit
watches(const struct watches *w)
{
	return lower((struct limit){ "fs.inotify.max_user_watches", w->watches, WATCHES_WANTED },
	    (struct limit){ "user.max_inotify_watches", w->own_watches, WATCHES_WANTED });
}

bool
watches_are_low(const struct watches *w)
{
	struct limit i = instances(w), d = watches(w);

	return w->no_instance || (i.now >= 0 && i.now < WATCHES_INSTANCES_LOW) ||
	    (d.now >= 0 && d.now < WATCHES_WATCHES_LOW);
}

static struct limit
scarce(const struct watches *w)
{
	struct limit i = instances(w);

	return w->no_instance || (i.now >= 0 && i.now < WATCHES_INSTANCES_LOW) ? i : watches(w);
}

static long
more(const struct limit *l)
{
	return l->now < l->wanted ? l->wanted : 2 * l->now;
}

void
watches_remedy(const struct watches *w, char *ret, size_t size)
{
	struct limit l = scarce(w);

	snprintf(ret, size, "sudo sysctl -w %s=%ld", l.name, more(&l));
}

void
watches_sentence(const struct watches *w, int errnum, char *ret, size_t size)
{
	struct limit l = errnum == ENOSPC ? watches(w) : instances(w);
	char now[32] = "its limit";

	if (l.now >= 0)
		snprintf(now, sizeof(now), "%ld", l.now);
	snprintf(ret, size,
	    "cannot watch the project: this user's programs have used up %s (%s). The sandbox looks at "
	    "the whole project after each command instead, which is slower. To raise it: sudo sysctl "
	    "-w %s=%ld",
	    l.name, now, l.name, more(&l));
}
