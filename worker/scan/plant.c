/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/plant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/io.h"
#include "worker/files/resolve.h"
#include "worker/files/tree.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_results.h"

char *
plant_read(int dir_fd, const char *name, size_t max, struct stat *ret_st, size_t *ret_len)
{
	/* A FIFO must not block this process, and a device must not be triggered. */
	cleanup_close int fd =
	    openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	cleanup_free char *text = NULL;
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return NULL;
	if (!S_ISREG(ret_st->st_mode)) {
		errno = EINVAL;
		return NULL;
	}
	if (ret_st->st_size > (off_t)max) {
		errno = EFBIG;
		return NULL;
	}
	/* What is appended meanwhile is not read: only what was read counts. */
	max = (size_t)ret_st->st_size;
	text = malloc(max + 1);
	while (text != NULL && len < max && n > 0) {
		n = read(fd, text + len, max - len);
		if (n < 0 && errno != EINTR)
			return NULL;
		if (n > 0)
			len += (size_t)n;
		else if (n < 0)
			n = 1;
	}
	if (text == NULL)
		return NULL;
	text[len] = '\0';
	*ret_len = len;
	return take_ptr(&text);
}

bool
plant_same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Restores write permission that the owner of the directory has removed; this process has the same
 * owner. */
static bool
make_writable(int dir_fd, mode_t *ret_was)
{
	struct stat st;

	if (fstat(dir_fd, &st) < 0 || (st.st_mode & 0300) == 0300)
		return false;
	*ret_was = st.st_mode & 07777;
	return fchmod(dir_fd, *ret_was | 0700) == 0;
}

/* Reports what quarantine_move() has taken from p->path. */
static void
tell_moved(struct scan *sc, const struct plant *p, const struct quarantined *kept, const char *why)
{
	scan_tell(sc,
	    kept->name[0] != '\0' ? KODA__CHANGE_KIND__CHANGE_QUARANTINED
				  : KODA__CHANGE_KIND__CHANGE_ASIDE,
	    p->what, p->path, kept, kept->aside[0] != '\0' ? kept->aside : why);
}

enum plant_end
plant_take_away(struct scan *sc, const struct plant *p, const char *why)
{
	struct quarantine *q = scan_quarantine(sc);
	struct quarantined kept;
	const char *rule = scan_rule(p->what);
	mode_t was = 0;
	int r = quarantine_move(q, p->dir_fd, p->name, p->path, rule, &p->st, &kept);
	const bool changed = r < 0 && errno == EACCES && make_writable(p->dir_fd, &was);

	if (changed) {
		r = quarantine_move(q, p->dir_fd, p->name, p->path, rule, &p->st, &kept);
		fchmod(p->dir_fd, was);
	}
	if (r > 0)
		return PLANT_AGAIN;
	if (r < 0) {
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL,
		    q->fd < 0 ? "there is no quarantine" : strerror(errno));
		return PLANT_LEFT;
	}
	tell_moved(sc, p, &kept, why);
	return PLANT_GONE;
}

/* The rename that put the new file at p->path has caught another file than the worker had read.
 * That file is at temp now. Takes all of it away. */
static void
take_exchanged(struct scan *sc, const struct plant *p, const char *temp, const struct stat *caught)
{
	struct quarantined kept;
	const int r = quarantine_move(scan_quarantine(sc), p->dir_fd, temp, p->path,
	    scan_rule(p->what), caught, &kept);

	if (r == 0)
		tell_moved(sc, p, &kept, NULL);
	else if (r < 0) /* it stays at a name that means nothing */
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_ASIDE, p->what, p->path, NULL, temp);
	else
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL,
		    "another process moved it");
}

int
plant_write_anew(struct scan *sc, struct plant *p, const char *text, size_t len, bool keep_old,
    char *aside, size_t aside_size)
{
	struct stat now;
	char temp[TEMP_NAME_SIZE + 8];
	cleanup_close int fd = -1;
	int r;

	fd = quarantine_temp_file(scan_quarantine(sc), p->dir_fd, temp, sizeof(temp));
	if (fd < 0)
		return -1;
	if (write_all(fd, text, len) < 0 || fchmod(fd, (p->st.st_mode & 0666) | 0400) < 0 ||
	    fstat(fd, &now) < 0)
		goto failed;
	r = renameat2(p->dir_fd, temp, p->dir_fd, p->name, RENAME_EXCHANGE);
	if (r < 0 && errno == EINVAL) {
		r = renameat2(p->dir_fd, temp, p->dir_fd, p->name, 0);
		temp[0] = '\0';
	}
	if (r < 0) {
		if (errno != ENOENT)
			goto failed;
		unlinkat(p->dir_fd, temp, 0);
		return 1;
	}
	if (temp[0] != '\0') {
		struct stat old;

		if (fstatat(p->dir_fd, temp, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !plant_same_inode(&old, &p->st)) {
			take_exchanged(sc, p, temp, &old);
		} else if (keep_old) {
			snprintf(aside, aside_size, "%s", temp);
		} else {
			unlinkat(p->dir_fd, temp, 0);
		}
	}
	p->st = now;
	/* The rename has changed its ctime. */
	if (fstat(fd, &now) == 0)
		p->st = now;
	p->ours = true;
	return 0;
failed:
	r = errno;
	unlinkat(p->dir_fd, temp, 0);
	errno = r;
	return -1;
}

enum plant_end
plant_left(struct scan *sc, const struct plant *p)
{
	scan_tell(sc, KODA__CHANGE_KIND__CHANGE_LEFT, p->what, p->path, NULL, strerror(errno));
	return PLANT_LEFT;
}

enum plant_end
plant_keep_fresh(struct scan *sc, struct plant *p, const char *text, size_t len)
{
	int r;

	if (p->ours || scan_is_gentle(sc))
		return PLANT_KEPT;
	if (scan_quarantine(sc)->fd < 0)
		return PLANT_KEPT;
	r = plant_write_anew(sc, p, text, len, false, NULL, 0);
	return r == 0 ? PLANT_KEPT : r > 0 ? PLANT_AGAIN : plant_left(sc, p);
}

/* ---- where a pointer leads ---- */

bool
plant_leads_below(struct scan *sc, const char *dir, const char *to, struct place *at)
{
	char text[2 * PATH_LEN_MAX + 2];
	struct koda_error err;

	if (to[0] == '/')
		snprintf(text, sizeof(text), "%s", to);
	else
		snprintf(text, sizeof(text), "%s/%s", dir, to);
	if (resolve(scan_resolver(sc), (const uint8_t *)text, strlen(text), 0, at, &err) < 0)
		return false;
	/* A link cannot be a mount point: a command could later make it lead elsewhere, to a cache
	 * for instance. */
	for (size_t i = 0; i < at->n_hops; i++) {
		if (scan_covers(sc, at->hop[i]))
			return false;
	}
	return scan_covers(sc, at->path) && (scan_keeps(sc, at->path) || !scan_keeps(sc, dir));
}

bool
plant_leads_inside(struct scan *sc, const char *dir, const char *to, struct place *at)
{
	return plant_leads_below(sc, dir, to, at) && at->target_fd >= 0 && S_ISDIR(at->st.st_mode);
}

void
plant_dir_of(const char *path, char ret[PATH_LEN_MAX + 1])
{
	size_t n = (size_t)(strrchr(path, '/') - path);

	memcpy(ret, path, n);
	ret[n] = '\0';
}
