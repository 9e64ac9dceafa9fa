/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows and deletes what is in quarantine. An attacker wrote it, so it is opened by descriptor,
 * never followed, and read up to a limit. The caller must make it safe to display.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/protect/quarantine.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

/* Names in one thing: as many as a worker copies. */
#define PARTS_MAX 10000

struct quarantine_look {
	koda_quarantined_part_fn *fn;
	void *data;
	size_t left; /* bytes of content that may still be reported */
	size_t parts;
};

static int
look_at_file(struct quarantine_look *l, int dir, const char *name,
    struct koda_quarantined_part *part)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_free uint8_t *data = NULL;
	size_t want = part->size < l->left ? (size_t)part->size : l->left, len = 0;
	ssize_t n = 1;

	data = fd < 0 ? NULL : malloc(want + 1);
	while (data != NULL && len < want && n > 0) {
		n = read(fd, data + len, want - len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			len += (size_t)n;
	}
	l->left -= len;
	part->content = data;
	part->len = len;
	return l->fn(l->data, part);
}

/* rel: the path inside the thing; "" is the thing itself. */
static int look_at(struct quarantine_look *l, int dir, const char *name, const char *rel,
    unsigned depth);

static int
look_into(struct quarantine_look *l, int dir, const char *name, const char *rel, unsigned depth)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (d == NULL) {
		close_at(&fd);
		return 0; /* its maker removed the permissions; its own line shows the mode */
	}
	while (r == 0 && (e = readdir(d)) != NULL) {
		char below[PATH_LEN_MAX + NAME_LEN_MAX + 2];

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (strlen(rel) > PATH_LEN_MAX)
			continue;
		snprintf(below, sizeof(below), "%s%s%s", rel, rel[0] != '\0' ? "/" : "", e->d_name);
		r = look_at(l, dirfd(d), e->d_name, below, depth + 1);
	}
	return r;
}

static int
look_at(struct quarantine_look *l, int dir, const char *name, const char *rel, unsigned depth)
{
	struct koda_quarantined_part part = { .path = rel };
	char target[PATH_LEN_MAX + 1];
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || l->parts++ >= PARTS_MAX ||
	    depth > QUARANTINE_DEPTH_MAX)
		return 0;
	part.mode = st.st_mode & 07777;
	if (S_ISREG(st.st_mode)) {
		part.type = KODA_FILE_REGULAR;
		part.size = (uint64_t)st.st_size;
		return look_at_file(l, dir, name, &part);
	}
	part.type = S_ISDIR(st.st_mode) ? KODA_FILE_DIRECTORY
	    : S_ISLNK(st.st_mode)       ? KODA_FILE_SYMLINK
					: KODA_FILE_OTHER;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		part.target = target;
	}
	r = l->fn(l->data, &part);
	return r != 0 || !S_ISDIR(st.st_mode) ? r : look_into(l, dir, name, rel, depth);
}

/* Reports what exists only in the record: links that could not be made in the place to which the
 * thing was copied, and things without content. */
static int
look_at_record(struct quarantine_look *l, const struct manifest *m)
{
	const char *const end = m->text + m->len;
	int r = 0;

	for (const char *p = m->text; r == 0 && p < end; p += strlen(p) + 1) {
		struct koda_quarantined_part part = { 0 };
		const char *next = p + strlen(p) + 1;
		const bool link = strncmp(p, "link /" QUARANTINE_WHAT, 6 + 4) == 0;

		if (!link && strncmp(p, "dropped /" QUARANTINE_WHAT, 9 + 4) != 0)
			continue;
		part.path = p + (link ? 6 + 4 : 9 + 4);
		part.path += part.path[0] == '/';
		part.type = link ? KODA_FILE_SYMLINK : KODA_FILE_OTHER;
		if (link && next < end && strncmp(next, "target ", 7) == 0)
			part.target = next + 7;
		if (l->parts++ < PARTS_MAX)
			r = l->fn(l->data, &part);
	}
	return r;
}

int
koda_quarantine_show(const char *root, const char *name, size_t max, koda_quarantined_fn *fn,
    koda_quarantined_part_fn *part, void *data, struct koda_error *err)
{
	cleanup(quarantine_entry_done) struct quarantine_entry e = QUARANTINE_ENTRY_NONE;
	struct quarantine_look l = { .fn = part, .data = data, .left = max };
	cleanup_free char *of = NULL;
	const char *slash = strchr(name, '/');
	struct koda_quarantined one;
	int r;

	if (quarantine_find(root, name, false, &e, err) < 0)
		return -1;
	of = slash != NULL ? strndup(name, (size_t)(slash - name)) : state_quarantine_name(e.root);
	if (of == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "quarantine");
	one = quarantine_tell(of, e.name, e.fd, &e.manifest);
	r = fn(data, &one);
	if (r == 0)
		r = look_at(&l, e.fd, QUARANTINE_WHAT, "", 0);
	return r != 0 ? r : look_at_record(&l, &e.manifest);
}

int
koda_quarantine_delete(const char *root, const char *name, struct koda_error *err)
{
	cleanup(quarantine_entry_done) struct quarantine_entry e = QUARANTINE_ENTRY_NONE;

	if (quarantine_find(root, name, true, &e, err) < 0)
		return -1;
	if (quarantine_remove(e.dir, e.name) == 0)
		return 0;
	return err_set(err, KODA_IO, errno, "remove '%.300s' from the quarantine", name);
}
