/* SPDX-License-Identifier: Apache-2.0 */
#include "host/caches/cache_project.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/caches/cache_layers.h"
#include "host/caches/cache_tree.h"
#include "host/machine/state.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"

#define HASHED_MAX 64

/* The file system's own number survives a reboot, which can renumber devices; a file system
 * without one reports 0. The birth time tells the directory from a later one with the same
 * inode; an unknown birth time counts as 0. */
static int
identity_of(const char *root, char ret[CACHE_IDENTITY + 1])
{
	cleanup_close int fd = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint8_t hash[crypto_generichash_BYTES];
	char text[128];
	uint64_t number = 0;
	struct statfs fs;
	struct statx st;
	int len;

	if (fd < 0 || fstatfs(fd, &fs) < 0 ||
	    statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0)
		return -1;
	memcpy(&number, &fs.f_fsid,
	    sizeof(fs.f_fsid) < sizeof(number) ? sizeof(fs.f_fsid) : sizeof(number));
	if (number == 0)
		number = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	if ((st.stx_mask & STATX_BTIME) == 0)
		st.stx_btime = (struct statx_timestamp){ 0 };
	len = snprintf(text, sizeof(text), "%llx %llx %lld.%u", (unsigned long long)number,
	    (unsigned long long)st.stx_ino, (long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
	crypto_generichash(hash, sizeof(hash), (const uint8_t *)text, (size_t)len, NULL, 0);
	sodium_bin2hex(ret, CACHE_IDENTITY + 1, hash, CACHE_IDENTITY / 2);
	return 0;
}

char *
cache_project_path(const char *root, const char *home, struct koda_error *err)
{
	cleanup_free char *path = state_caches_path(root, home);
	char identity[CACHE_IDENTITY + 1], *ret;

	if (path == NULL) {
		err_set(err, KODA_UNSUPPORTED, 0,
		    "there is no home directory to keep them in, and XDG_STATE_HOME is not set");
		return NULL;
	}
	if (identity_of(root, identity) < 0) {
		err_set(err, KODA_UNSUPPORTED, errno, "examine the root '%s'", root);
		return NULL;
	}
	if (asprintf(&ret, "%s-%s", path, identity) < 0) {
		err_set(err, KODA_INTERNAL, ENOMEM, "caches");
		return NULL;
	}
	return ret;
}

static const char *
last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/* Also matches the names of older versions, which have no identity. */
bool
cache_project_is_of(const char *one, const char *path)
{
	const char *name = last_name(one), *all = last_name(path);
	size_t len = strlen(all);

	if (strncmp(name, all, len) != 0)
		return false;
	return name[len] == '\0' ||
	    (name[len] == '-' && strlen(name + len + 1) == CACHE_IDENTITY &&
		strspn(name + len + 1, "0123456789abcdef") == CACHE_IDENTITY);
}

void
cache_project_remove_others(int caches, const char *path, uint64_t deadline)
{
	const char *own = last_name(path);
	cleanup_free char *all = strdup(own);
	cleanup(closedir_at) DIR *d = cache_read_dir(caches);
	struct dirent *ent;

	if (all == NULL || strlen(all) <= CACHE_IDENTITY + 1)
		return;
	all[strlen(all) - CACHE_IDENTITY - 1] = '\0';
	while (d != NULL && monotonic_ns() < deadline && (ent = readdir(d)) != NULL)
		if (strcmp(ent->d_name, own) != 0 && cache_project_is_of(ent->d_name, all))
			cache_remove_project(caches, ent->d_name, deadline);
}
