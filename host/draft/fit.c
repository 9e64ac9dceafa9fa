/* SPDX-License-Identifier: Apache-2.0 */
#include "host/draft/fit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define PROBE "user.koda-draft"

#define WITHOUT "or work without a draft"

void
draft_fit_kernel_remedy(char *ret, size_t size)
{
	snprintf(ret, size,
	    "a draft needs " DRAFT_FIT_NEEDS "; 'koda-sandbox doctor' tries one. Without a draft "
	    "the command changes the project");
}

int
draft_fit_remedy(struct koda_error *err, const char *state)
{
	size_t len = err == NULL ? 0 : strlen(err->message);

	if (err == NULL)
		return -1;
	snprintf(err->message + len, sizeof(err->message) - len,
	    ": make room in '%.200s' and let this user write it, set XDG_STATE_HOME to another "
	    "directory, " WITHOUT,
	    state);
	return -1;
}

/* mountinfo writes blanks, and characters that would break a line, as \ooo. */
static void
unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* Returns the first mount in the directory that is mounted on the same mount as the directory is
 * on, owned by the caller; NULL if there is none. */
static char *
find_mount_in(const char *dir)
{
	cleanup_free char *line = NULL;
	char *found = NULL, *path;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	unsigned long long parent;
	struct statx st;
	size_t size = 0;

	if (f == NULL || statx(AT_FDCWD, dir, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &st) < 0 ||
	    (st.stx_mask & STATX_MNT_ID) == 0) {
		if (f != NULL)
			fclose(f);
		return NULL; /* the kernel refuses what it cannot do */
	}
	while (found == NULL && getline(&line, &size, f) > 0) {
		/* id parent major:minor root path ... NOLINTNEXTLINE(cert-err34-c): the kernel's own */
		if (sscanf(line, "%*u %llu %*s %*s %ms", &parent, &path) != 2)
			continue;
		unescape(path);
		if (parent == st.stx_mnt_id && strcmp(path, dir) != 0 && path_is_inside(path, dir))
			found = take_ptr(&path);
		free(path);
	}
	fclose(f);
	return found;
}

/*
 * In the sandbox's user namespace only the user and the user's own group exist, and overlayfs copies no
 * file that belongs to another user or group. The files of a project mostly have the owner and the
 * group of its directory.
 */
static int
check_owner(const char *dir, struct koda_error *err)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return err_set(err, KODA_IO, errno, "look at '%.300s'", dir);
	if (st.st_uid != geteuid())
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%.200s' cannot have a draft, because it belongs to another user (%u): work as "
		    "that user, " WITHOUT,
		    dir, (unsigned)st.st_uid);
	if (st.st_gid != getegid())
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%.200s' cannot have a draft, because it belongs to the group %u, and files of "
		    "other groups than the user's own (%u) cannot be changed in one: change the "
		    "group with 'chgrp -R', start with 'newgrp', " WITHOUT,
		    dir, (unsigned)st.st_gid, (unsigned)getegid());
	return 0;
}

int
draft_fit_directories(const char *state, const char *const *dirs, size_t n, struct koda_error *err)
{
	for (size_t i = 0; i < n; i++) {
		cleanup_free char *mounted = find_mount_in(dirs[i]);

		if (check_owner(dirs[i], err) < 0)
			return -1;
		if (mounted != NULL)
			return err_set(err, KODA_UNSUPPORTED, 0,
			    "'%.200s' cannot have a draft, because another file system is mounted in "
			    "it, at '%.200s': unmount that, " WITHOUT,
			    dirs[i], mounted);
		if (path_is_inside(state, dirs[i]))
			return err_set(err, KODA_UNSUPPORTED, 0,
			    "'%.200s' cannot have a draft, because the drafts would be in it, in "
			    "'%.200s': set XDG_STATE_HOME to a directory outside, " WITHOUT,
			    dirs[i], state);
	}
	return 0;
}

int
draft_fit_layers(const char *state, const struct draft *d, struct koda_error *err)
{
	for (size_t i = 0; i < d->n_dirs; i++) {
		char name[sizeof(d->dir[i].name) + 2];
		cleanup_close int fd = -1;

		snprintf(name, sizeof(name), "%s/u", d->dir[i].name);
		fd = openat(d->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return err_set(err, KODA_IO, errno, "open draft '%s'", d->id);
		if (fsetxattr(fd, PROBE, "", 0, 0) == 0) {
			fremovexattr(fd, PROBE);
			continue;
		}
		if (errno == EOPNOTSUPP)
			return err_set(err, KODA_UNSUPPORTED, 0,
			    "the file system of '%.200s' has no extended attributes for users, "
			    "which drafts need: set XDG_STATE_HOME to a directory on ext4, xfs or "
			    "btrfs, " WITHOUT,
			    state);
		err_set(err, KODA_IO, errno, "set an attribute in draft '%s'", d->id);
		return draft_fit_remedy(err, state);
	}
	return 0;
}
