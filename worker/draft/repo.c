/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/draft/repo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "worker/scan/gitconfig.h"
#include "worker/scan/gitvar.h"
#include "worker/scan/plant.h"

#define SAMPLE ".sample"

/* ---- configuration ---- */

/*
 * Readers of git's configuration differ in what they do with escapes, continued lines and quotes. What
 * git writes for inert variables needs none, apart from the quotes of a section's name.
 */
static bool
has_one_reading(const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *line = text + at, *nl = memchr(line, '\n', len - at);
		const size_t n = nl == NULL ? len - at : (size_t)(nl - line);

		for (size_t i = 0; i < n; i++)
			if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f ||
			    line[i] == '\\' || (line[i] == '"' && line[0] != '['))
				return false;
		/* A variable after the section's name, in one line. */
		if (n > 0 && line[0] == '[' && line[n - 1] != ']')
			return false;
		at += n + 1;
	}
	return true;
}

static bool
is_inert(int dir_fd, const char *name)
{
	struct gitconfig c = { 0 };
	struct stat st;
	size_t len;
	cleanup_free char *text = plant_read(dir_fd, name, GITCONFIG_BYTES_MAX, &st, &len);
	bool good =
	    text != NULL && has_one_reading(text, len) && gitconfig_parse(text, len, &c) == 0;

	for (size_t i = 0; good && i < c.n; i++)
		good = gitvar_is_inert(&c.var[i]);
	gitconfig_done(&c);
	return good;
}

/* ---- names ---- */

static bool
is_sample(const char *name)
{
	const size_t len = strlen(name), k = sizeof(SAMPLE) - 1;

	return len > k && strcmp(name + len - k, SAMPLE) == 0;
}

bool
repo_may_have(const char *below, int dir_fd, const char *name, mode_t type)
{
	/* What makes a directory a git directory, and directories that git makes empty. */
	static const struct {
		const char *name;
		mode_t type;
	} names[] = {
		{ "HEAD", S_IFREG },
		{ "objects", S_IFDIR },
		{ "refs", S_IFDIR },
		{ "hooks", S_IFDIR },
		{ "branches", S_IFDIR },
		{ "remotes", S_IFDIR },
	};

	if (strcmp(below, "config") == 0 || strcmp(below, "config.worktree") == 0)
		return (type & S_IFMT) == S_IFREG && is_inert(dir_fd, name);
	if (strncmp(below, "hooks/", strlen("hooks/")) == 0)
		return (type & S_IFMT) == S_IFREG && is_sample(below) &&
		    strchr(below + strlen("hooks/"), '/') == NULL;
	for (size_t i = 0; i < N_ELEMENTS(names); i++)
		if (strcmp(below, names[i].name) == 0)
			return (type & S_IFMT) == names[i].type;
	return false;
}

/* ---- whole directories ---- */

/* Does the directory hold only what is allowed there, or is missing? */
static bool
has_only(int git_dir, const char *name, bool samples)
{
	int fd = openat(git_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;

	if (d == NULL) {
		const bool missing = fd < 0 && errno == ENOENT;

		close_at(&fd);
		return missing;
	}
	while (errno = 0, (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (!samples || !is_sample(e->d_name) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			return false;
	}
	return errno == 0;
}

static bool
is_missing(int git_dir, const char *name)
{
	struct stat st;

	return fstatat(git_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    (errno == ENOENT || errno == ENOTDIR);
}

bool
repo_is_harmless(int git_dir)
{
	static const char *const configs[] = { "config", "config.worktree" };
	static const char *const never[] = { "commondir", "gitdir", "config.lock", "rebase-merge",
		"rebase-apply", "sequencer", "objects/info/alternates",
		"objects/info/http-alternates" };

	for (size_t i = 0; i < N_ELEMENTS(configs); i++)
		if (!is_missing(git_dir, configs[i]) && !is_inert(git_dir, configs[i]))
			return false;
	for (size_t i = 0; i < N_ELEMENTS(never); i++)
		if (!is_missing(git_dir, never[i]))
			return false;
	return has_only(git_dir, "hooks", true) && has_only(git_dir, "branches", false) &&
	    has_only(git_dir, "remotes", false);
}
