/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/helpers.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/machine/users.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"

/* The shared library if this code is in one, else of the program. For the program
 * itself dladdr() returns argv[0], which may be anything. */
static int
own_file(char ret[PATH_MAX], struct koda_error *err)
{
	Dl_info info;
	ssize_t n;

	if (dladdr((void *)helpers_find, &info) != 0 && info.dli_fname != NULL &&
	    strstr(info.dli_fname, ".so") != NULL && realpath(info.dli_fname, ret) != NULL)
		return 0;
	n = readlink("/proc/self/exe", ret, PATH_MAX - 1);
	if (n < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "read /proc/self/exe");
	ret[n] = '\0';
	return 0;
}

static int
own_directory(char *ret, size_t size, struct koda_error *err)
{
	char file[PATH_MAX], *slash;

	if (own_file(file, err) < 0)
		return -1;
	slash = strrchr(file, '/');
	if (slash == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0, "cannot find out where this program is");
	*slash = '\0';
	if (strlen(file) >= size)
		return err_set(err, KODA_UNSUPPORTED, ENAMETOOLONG, "this program's directory");
	strcpy(ret, file);
	return 0;
}

/* Returns the owner of this code, or root if that cannot be found out. */
static uid_t
own_user(void)
{
	char file[PATH_MAX];
	struct stat st;

	return own_file(file, NULL) < 0 || stat(file, &st) < 0 ? 0 : st.st_uid;
}

enum helpers_flaw
helpers_judge(const struct stat *st, const struct helpers_who *who)
{
	const bool roots = st->st_uid == 0 || (who->root_elsewhere && st->st_uid == who->overflow);

	if (!roots && st->st_uid != who->user && st->st_uid != who->code)
		return HELPERS_OTHERS_OWN;
	if ((st->st_mode & S_IWOTH) != 0)
		return HELPERS_OTHERS_WRITE;
	if ((st->st_mode & S_IWGRP) != 0 && !who->group_is_private)
		return HELPERS_GROUP_WRITES;
	return HELPERS_TRUSTED;
}

/* Are there users that this user namespace does not map? Then the system's programs may seem to
 * belong to the overflow user, like the files of any other user outside. They are trusted there:
 * the process that set up the namespace chose its files, and without them nothing could run. */
static bool
is_root_elsewhere(void)
{
	char text[256];
	unsigned long inside, outside, n;

	return io_read_text("/proc/self/uid_map", text, sizeof(text)) > 0 &&
	    /* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
	    (sscanf(text, "%lu %lu %lu", &inside, &outside, &n) != 3 || n < UINT32_MAX);
}

static uid_t
overflow_user(void)
{
	char text[32];
	ssize_t n = io_read_text("/proc/sys/kernel/overflowuid", text, sizeof(text));

	return n > 0 ? (uid_t)strtoul(text, NULL, 10) : 65534;
}

/*
 * Does the group belong to the user alone? Many distributions give each user a group of the same
 * name and a umask of 002, so only that group can also write what a developer builds. An
 * administrator can add members, so the members are read. Other users with it as their first group
 * are not searched for: that takes the whole list of users, which a directory server may not even
 * give out, and no user gets another user's own group by accident. With an access list, the bits of
 * the group cover every user and group in the list.
 */
static bool
is_private(const char *path, gid_t gid, uid_t uid)
{
	struct passwd pw;
	struct group gr;
	char user_text[4096], group_text[4096];

	if (!users_find(uid, &pw, user_text, sizeof(user_text)) ||
	    !users_find_group(gid, &gr, group_text, sizeof(group_text)) || pw.pw_gid != gid ||
	    strcmp(pw.pw_name, gr.gr_name) != 0)
		return false;
	for (char **member = gr.gr_mem; *member != NULL; member++) {
		if (strcmp(*member, pw.pw_name) != 0)
			return false;
	}
	return getxattr(path, "system.posix_acl_access", NULL, 0) <= 0;
}

/* A process that can write the helper controls the sandbox. */
static int
check_program(const char *path, struct koda_error *err)
{
	struct helpers_who who = { .user = geteuid(), .code = own_user() };
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "helper '%s'", path);
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
		return err_set(err, KODA_UNSUPPORTED, 0, "helper '%s' is not a program", path);
	if (st.st_uid != 0 && st.st_uid != who.user) {
		who.root_elsewhere = is_root_elsewhere();
		who.overflow = overflow_user();
	}
	if ((st.st_mode & S_IWGRP) != 0)
		who.group_is_private =
		    is_private(path, st.st_gid, who.user) || is_private(path, st.st_gid, 0);
	switch (helpers_judge(&st, &who)) {
	case HELPERS_OTHERS_OWN:
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "helper '%s' belongs to user %u, who could change it: install it as root or as "
		    "yourself, or chown it",
		    path, (unsigned)st.st_uid);
	case HELPERS_OTHERS_WRITE:
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "every user may write helper '%s': chmod go-w '%s'", path, path);
	case HELPERS_GROUP_WRITES:
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "helper '%s' can be written by group %u, which has other members than you: "
		    "chmod g-w '%s'",
		    path, (unsigned)st.st_gid, path);
	case HELPERS_TRUSTED:
		break;
	}
	return 0;
}

static const char *const beside[] = {
	"/../libexec/koda-sandbox",
	"/../../libexec/koda-sandbox",
};

size_t
helpers_own(char ret[HELPERS_OWN][PATH_LEN_MAX + 1])
{
	char file[PATH_MAX], own[PATH_LEN_MAX + 1], path[PATH_LEN_MAX + 1];
	size_t n = 0;

	if (own_file(file, NULL) == 0 && strlen(file) <= PATH_LEN_MAX)
		strcpy(ret[n++], file);
	if (own_directory(own, sizeof(own), NULL) < 0)
		return n;
	for (size_t i = 0; i < N_ELEMENTS(beside); i++) {
		cleanup_free char *real = NULL;

		if (snprintf(path, sizeof(path), "%s%s", own, beside[i]) < (int)sizeof(path))
			real = realpath(path, NULL);
		if (real == NULL || strlen(real) > PATH_LEN_MAX)
			continue;
		strcpy(ret[n++], real);
		break;
	}
	return n;
}

int
helpers_find(const char *dir, const char *name, char ret[PATH_LEN_MAX + 1], struct koda_error *err)
{
	char own[PATH_LEN_MAX + 1], path[PATH_LEN_MAX + 1];
	cleanup_free char *real = NULL;

	if (dir != NULL) {
		if (dir[0] != '/')
			return err_set(err, KODA_INVALID, 0, "helper_dir '%s' is not absolute",
			    dir);
		if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
			return err_set(err, KODA_INVALID, ENAMETOOLONG, "helper_dir");
		real = realpath(path, NULL);
	} else {
		if (own_directory(own, sizeof(own), err) < 0)
			return -1;
		for (size_t i = 0; real == NULL && i < N_ELEMENTS(beside); i++)
			if (snprintf(path, sizeof(path), "%s%s/%s", own, beside[i], name) <
			    (int)sizeof(path))
				real = realpath(path, NULL);
	}
	if (real == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "%s is not where it was installed (../libexec/koda-sandbox beside the program or "
		    "library): run 'make install' again",
		    name);
	if (strlen(real) > PATH_LEN_MAX)
		return err_set(err, KODA_UNSUPPORTED, ENAMETOOLONG, "helper '%s'", name);
	if (check_program(real, err) < 0)
		return -1;
	strcpy(ret, real);
	return 0;
}

/* With other rights than the host's it could be made to do things that the host may not. */
static int
refuse_rights(const char *path, struct koda_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "'%s'", path);
	if ((st.st_mode & (S_ISUID | S_ISGID)) != 0)
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%s' is set-user-id, which koda-sandbox refuses; with user "
		    "namespaces it is not needed (chmod u-s %s)",
		    path, path);
	return 0;
}

static int
find_system_bwrap(char ret[PATH_LEN_MAX + 1], struct koda_error *err)
{
	/* Never found by PATH: a project's directory may be first in it. */
	static const char *const places[] = { "/usr/bin/bwrap", "/bin/bwrap",
		"/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap" };

	for (size_t i = 0; i < N_ELEMENTS(places); i++) {
		if (access(places[i], F_OK) < 0)
			continue;
		if (check_program(places[i], err) < 0 || refuse_rights(places[i], err) < 0)
			return -1;
		strcpy(ret, places[i]);
		return 0;
	}
	return err_set(err, KODA_UNSUPPORTED, 0,
	    "bubblewrap is not installed: apt install bubblewrap, dnf install bubblewrap or pacman -S "
	    "bubblewrap");
}

int
helpers_find_bwrap(char ret[PATH_LEN_MAX + 1], struct koda_error *err)
{
	char bundled[PATH_LEN_MAX + 1];

	/* The system's comes first: its maker corrects it, and may have a profile for it. */
	if (find_system_bwrap(ret, err) == 0)
		return 0;
	if (helpers_find(NULL, "bwrap", bundled, NULL) < 0 || refuse_rights(bundled, NULL) < 0)
		return -1;
	strcpy(ret, bundled);
	return 0;
}
