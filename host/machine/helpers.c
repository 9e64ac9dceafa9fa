#include "host/machine/helpers.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* The directory of the shared library if this code is in one, else of the program. For the program
 * itself dladdr() returns argv[0], which may be anything. */
static int
own_directory(char *ret, size_t size, struct koda_error *err)
{
	Dl_info info;
	char exe[PATH_MAX];
	cleanup_free char *real = NULL;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "read /proc/self/exe");
	exe[n] = '\0';
	if (dladdr((void *)helpers_find, &info) != 0 && info.dli_fname != NULL &&
	    strstr(info.dli_fname, ".so") != NULL)
		real = realpath(info.dli_fname, NULL);
	slash = strrchr(real == NULL ? exe : real, '/');
	if (slash == NULL)
		return err_set(err, KODA_UNSUPPORTED, 0, "cannot tell where this program is");
	*slash = '\0';
	if (strlen(real == NULL ? exe : real) >= size)
		return err_set(err, KODA_UNSUPPORTED, ENAMETOOLONG, "this program's directory");
	strcpy(ret, real == NULL ? exe : real);
	return 0;
}

/* A process that can write the helper controls the sandbox. */
static int
check_program(const char *path, struct koda_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "helper '%s'", path);
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
		return err_set(err, KODA_UNSUPPORTED, 0, "helper '%s' is not a program", path);
	if ((st.st_mode & S_IWOTH) != 0)
		return err_set(err, KODA_UNSUPPORTED, 0, "helper '%s' can be written by everybody",
		    path);
	return 0;
}

int
helpers_find(const char *dir, const char *name, char ret[PATH_LEN_MAX + 1], struct koda_error *err)
{
	static const char *const beside[] = {
		"/../libexec/koda-sandbox",
		"/../../libexec/koda-sandbox",
	};
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

int
helpers_find_bwrap(char ret[PATH_LEN_MAX + 1], struct koda_error *err)
{
	/* Never found by PATH: a project's directory may be first in it. */
	static const char *const places[] = { "/usr/bin/bwrap", "/bin/bwrap",
		"/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap" };
	struct stat st;

	for (size_t i = 0; i < N_ELEMENTS(places); i++) {
		if (stat(places[i], &st) < 0)
			continue;
		if (check_program(places[i], err) < 0)
			return -1;
		/* With other rights than the host's it could be made to do things that the host may
		 * not. */
		if ((st.st_mode & (S_ISUID | S_ISGID)) != 0)
			return err_set(err, KODA_UNSUPPORTED, 0,
			    "'%s' is set-user-id: user namespaces are what it is needed for here "
			    "(chmod u-s %s)",
			    places[i], places[i]);
		strcpy(ret, places[i]);
		return 0;
	}
	return err_set(err, KODA_UNSUPPORTED, 0,
	    "bubblewrap is not installed: apt install bubblewrap, dnf install bubblewrap or pacman -S "
	    "bubblewrap");
}
