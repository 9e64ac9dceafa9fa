/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/restrict.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "shared/base/cleanup.h"

#define ASIDE_DIR   "/run/koda/aside"
#define ASIDE_BYTES (1u << 20)
#define ASIDE_FILES 8192

static int aside_fd = -1; /* the root of a file system that nothing but this leads to */
static unsigned aside_n;

/* Mounts a file system for the places, and an empty one over it. */
static int
make_aside(void)
{
	cleanup_close int at = -1, fs = -1, cover = -1, root = -1;

	if (aside_fd >= 0)
		return 0;
	if ((mkdir("/run/koda", 0755) < 0 && errno != EEXIST) ||
	    (mkdir(ASIDE_DIR, 0755) < 0 && errno != EEXIST))
		return -1;
	at = resolve(AT_FDCWD, ASIDE_DIR);
	fs = mounts_tmpfs(ASIDE_BYTES, ASIDE_FILES, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	cover = mounts_tmpfs(ASIDE_BYTES, 1, MOUNT_ATTR_RDONLY);
	if (at < 0 || fs < 0 || cover < 0 || attach(fs, at) < 0)
		return -1;
	root = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || attach(cover, fs) < 0)
		return -1;
	aside_fd = take_fd(&root);
	return 0;
}

/* Attaches a mount that is attached nowhere. */
static int
put_aside(int mount_fd)
{
	cleanup_close int at = -1;
	char name[16];
	struct stat st;

	if (fstat(mount_fd, &st) < 0 || make_aside() < 0)
		return -1;
	/* The last one has most often moved on. If not, its place is busy, and stays. */
	snprintf(name, sizeof(name), "%u", aside_n);
	if (unlinkat(aside_fd, name, 0) < 0 && errno == EISDIR)
		unlinkat(aside_fd, name, AT_REMOVEDIR);
	snprintf(name, sizeof(name), "%u", ++aside_n);
	at = mounts_make_place(aside_fd, name, S_ISDIR(st.st_mode));
	return at < 0 ? -1 : attach(mount_fd, at);
}

static int
remount(int mount_fd, uint64_t attributes)
{
	/* These have the same numbers as attributes, as flags of mount(), and in statvfs. What is
	 * set stays: the kernel refuses to clear what a user namespace has not set itself. */
	const unsigned long same = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
	struct statvfs fs;
	char link[32];

	if (fstatvfs(mount_fd, &fs) < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", mount_fd);
	return mount(NULL, link, NULL,
	    MS_REMOUNT | MS_BIND | ((fs.f_flag | (unsigned long)attributes) & same), NULL);
}

static bool
contains(const int *v, size_t n, int x)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == x)
			return true;
	return false;
}

#define BELOW_MAX 4096

/* Handles all mounts below this one. mountinfo has a mount after the one that it is attached to,
 * unless that was moved, so look until nothing is found any more. */
static int
remount_below(int mount_fd, int id, uint64_t attributes)
{
	static int done[BELOW_MAX];
	cleanup_free char *line = NULL, *base = NULL;
	size_t size = 0, n = 0, before;
	struct mount_line m;

	done[n++] = id;
	do {
		FILE *f = fopen("/proc/self/mountinfo", "re");

		before = n;
		while (f != NULL && getline(&line, &size, f) > 0) {
			cleanup_close int fd = -1;
			const char *rel;

			if (!mounts_read_line(line, &m))
				continue;
			if (m.id == id && base == NULL)
				base = strdup(m.path);
			if (base == NULL || n == BELOW_MAX || !contains(done, n, m.parent) ||
			    contains(done, n, m.id))
				continue;
			done[n++] = m.id;
			rel = m.path + (strcmp(base, "/") == 0 ? 0 : strlen(base));
			rel += strspn(rel, "/");
			fd = *rel == '\0' ? -1 : resolve(mount_fd, rel);
			/* Something else is mounted over it, and was found as well. */
			if (fd >= 0 && mount_id(fd) == m.id && remount(fd, attributes) < 0) {
				fclose(f);
				return -1;
			}
		}
		if (f == NULL || n == BELOW_MAX) {
			if (f != NULL)
				fclose(f);
			errno = f == NULL ? errno : E2BIG;
			return -1;
		}
		fclose(f);
	} while (n > before);
	return 0;
}

static int
restrict_before_5_12(int mount_fd, uint64_t attributes, unsigned recursive)
{
	const int64_t id = mount_id(mount_fd);
	dev_t device;

	if (id < 0 || (mounts_device(id, &device) < 0 && put_aside(mount_fd) < 0) ||
	    remount(mount_fd, attributes) < 0)
		return -1;
	return recursive == 0 ? 0 : remount_below(mount_fd, (int)id, attributes);
}

int
restrict_mount(int mount_fd, uint64_t attributes, unsigned recursive)
{
	struct mount_attr attr = { .attr_set = attributes };

	if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | recursive, &attr,
		sizeof(attr)) == 0)
		return 0;
	return errno == ENOSYS ? restrict_before_5_12(mount_fd, attributes, recursive) : -1;
}
