#include "host/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/bytes.h"
#include "shared/cleanup.h"
#include "shared/policy.h"

#define HASH_BYTES 8
#define NAME_SHOWN 40 /* of the root's own name, so that a person finds it */

char *
state_quarantine_path(const char *root, const char *home)
{
	const char *state = getenv("XDG_STATE_HOME"), *name = strrchr(root, '/') + 1;
	uint8_t hash[crypto_generichash_BYTES];
	char hex[2 * HASH_BYTES + 1], shown[NAME_SHOWN + 1];
	char *path;
	size_t n = 0;

	if ((state == NULL || state[0] != '/') && home[0] != '/')
		return NULL;
	for (; name[n] != '\0' && n < NAME_SHOWN; n++)
		shown[n] = name[n] > ' ' && name[n] < 127 ? name[n] : '_';
	shown[n] = '\0';
	if (shown[0] == '.')
		shown[0] = '_';
	crypto_generichash(hash, sizeof(hash), (const uint8_t *)root, strlen(root), NULL, 0);
	sodium_bin2hex(hex, sizeof(hex), hash, HASH_BYTES);
	if (state != NULL && state[0] == '/') {
		if (asprintf(&path, "%s/koda-sandbox/quarantine/%s-%s", state, shown, hex) < 0)
			return NULL;
	} else if (asprintf(&path, "%s/.local/state/koda-sandbox/quarantine/%s-%s", home, shown,
		       hex) < 0) {
		return NULL;
	}
	return path;
}

/* mkdir -p, mode 0700. */
static int
make(const char *path)
{
	cleanup_free char *part = NULL;

	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	part = strdup(path);
	if (part == NULL)
		return -1;
	for (int again = 0; again < 10; again++) {
		for (char *p = part + 1; *p != '\0'; p++) {
			if (*p != '/')
				continue;
			*p = '\0';
			mkdir(part, 0700);
			*p = '/';
		}
		if (mkdir(part, 0700) == 0 || errno == EEXIST)
			return 0;
		if (errno != ENOENT)
			return -1;
	}
	return -1;
}

int
state_quarantine(const char *root, const char *home, char **ret, struct koda_error *err)
{
	cleanup_free char *path = state_quarantine_path(root, home);
	struct stat st;

	*ret = NULL;
	if (path == NULL || make(path) < 0)
		return 0;
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "'%s' is where planted files are kept, and it is not a directory of this user",
		    path);
	/* As the kernel will call it: the view is made of canonical paths. */
	*ret = realpath(path, NULL);
	return *ret == NULL ? err_set(err, KODA_UNSUPPORTED, errno, "'%s'", path) : 0;
}

char *
state_baseline_path(const char *quarantine, const struct policy *policy)
{
	static const enum koda_list lists[] = { KODA_ALLOW_WRITE, KODA_DENY_WRITE_WITHIN_ALLOW };
	crypto_generichash_state hash;
	uint8_t digest[HASH_BYTES > crypto_generichash_BYTES_MIN ? HASH_BYTES
								 : crypto_generichash_BYTES_MIN];
	const uint8_t git = policy->flag[KODA_ALLOW_GIT_CONFIG];
	char hex[2 * HASH_BYTES + 1];
	char *path;

	crypto_generichash_init(&hash, NULL, 0, sizeof(digest));
	for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
		const struct policy_list *list = &policy->list[lists[i]];

		for (size_t k = 0; k < list->n; k++)
			crypto_generichash_update(&hash, (const uint8_t *)list->v[k],
			    strlen(list->v[k]) + 1);
		crypto_generichash_update(&hash, (const uint8_t *)"", 1);
	}
	crypto_generichash_update(&hash, &git, 1);
	crypto_generichash_final(&hash, digest, sizeof(digest));
	sodium_bin2hex(hex, sizeof(hex), digest, HASH_BYTES);
	return asprintf(&path, "%s.known-%s", quarantine, hex) < 0 ? NULL : path;
}

int
state_open_directory(const char *path, struct koda_error *err)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (fd < 0)
		err_set(err, errno == ENOSYS ? KODA_UNSUPPORTED : KODA_IO, errno,
		    "open '%s', which commands may write", path);
	return fd;
}
