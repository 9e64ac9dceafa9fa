/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/mounts.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "shared/base/cleanup.h"

static int
set_number(int fs, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, name, text, 0);
}

int
mounts_tmpfs(uint64_t bytes, uint64_t inodes, uint64_t attributes)
{
	cleanup_close int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
	    set_number(fs, "size", bytes) < 0 || set_number(fs, "nr_inodes", inodes) < 0 ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
}

int
mounts_make_place(int root, const char *rel, bool directory)
{
	cleanup_close int at = fcntl(root, F_DUPFD_CLOEXEC, 3), next = -1;
	char name[NAME_MAX + 1];

	while (at >= 0) {
		const char *slash = strchrnul(rel, '/');
		size_t len = (size_t)(slash - rel);
		bool last = *slash == '\0';

		if (len == 0 || len > NAME_MAX)
			return -1;
		memcpy(name, rel, len);
		name[len] = '\0';
		if (!last || directory) {
			if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
				return -1;
		} else {
			next = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
			if (next < 0)
				return -1;
			close(take_fd(&next));
		}
		next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		close(take_fd(&at));
		at = take_fd(&next);
		if (last)
			break;
		rel = slash + 1;
	}
	return take_fd(&at);
}

int
mounts_detach(int fd, int64_t id)
{
	char link[32];

	if (fd < 0 || mount_id(fd) != id)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return umount2(link, MNT_DETACH);
}

int
mounts_device(int64_t id, dev_t *ret)
{
	FILE *f = id < 0 ? NULL : fopen("/proc/self/mountinfo", "re");
	cleanup_free char *line = NULL;
	unsigned major, minor;
	size_t size = 0;
	int one, r = -1;

	while (f != NULL && r < 0 && getline(&line, &size, f) > 0) {
		/* id parent major:minor ... NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
		if (sscanf(line, "%d %*d %u:%u", &one, &major, &minor) == 3 && one == id) {
			*ret = makedev(major, minor);
			r = 0;
		}
	}
	if (f != NULL)
		fclose(f);
	return r;
}

/* mountinfo writes blanks, and characters that would break a line, as \ooo. */
static void
unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

bool
mounts_read_line(char *line, struct mount_line *ret)
{
	char *save = NULL, *field[5]; /* id parent major:minor root path */

	for (size_t i = 0; i < N_ELEMENTS(field); i++) {
		field[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
		if (field[i] == NULL)
			return false;
	}
	unescape(field[4]);
	*ret = (struct mount_line){ (int)strtol(field[0], NULL, 10),
		(int)strtol(field[1], NULL, 10), field[4] };
	return true;
}
