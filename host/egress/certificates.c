/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/certificates.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/open_exact.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"

#define FRESH      "fresh.pem"
#define BUNDLE_MAX (16u << 20) /* limit of one file; a system's has a quarter of a megabyte */
#define PIECE      65536

#define PREFIX "koda-certificates-"
#define TRIES  3

/* Remove directories that killed hosts have left: no process locks them any more. */
static void
sweep(const char *base, const char *name)
{
	DIR *all = opendir(base);
	const struct dirent *entry;
	struct stat st;

	while (all != NULL && (entry = readdir(all)) != NULL) {
		cleanup_close int at = -1;

		if (strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) != 0)
			continue;
		at = openat(dirfd(all), entry->d_name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (at < 0 || fstat(at, &st) < 0 || st.st_uid != geteuid() ||
		    flock(at, LOCK_EX | LOCK_NB) < 0)
			continue;
		unlinkat(at, FRESH, 0);
		unlinkat(at, name, 0);
		unlinkat(dirfd(all), entry->d_name, AT_REMOVEDIR);
	}
	if (all != NULL)
		closedir(all);
}

/* Open and lock the directory. Returns -1 also if another host has swept it away before. */
static int
hold(const char *dir)
{
	cleanup_close int at = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (at < 0 || flock(at, LOCK_EX | LOCK_NB) < 0 || fstat(at, &st) < 0 || st.st_nlink == 0)
		return -1;
	return take_fd(&at);
}

char *
certificates_make(const char *name, int *ret_held, struct koda_error *err)
{
	const char *bases[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
	char dir[PATH_LEN_MAX + 1], *real;

	for (size_t i = 0; i < TRIES * N_ELEMENTS(bases); i++) {
		const char *base = bases[i / TRIES];

		if (base == NULL || base[0] != '/' ||
		    snprintf(dir, sizeof(dir), "%s/" PREFIX "XXXXXX", base) >= (int)sizeof(dir))
			continue;
		sweep(base, name);
		if (mkdtemp(dir) == NULL)
			continue;
		/* bwrap must not get a path with a link. */
		real = realpath(dir, NULL);
		if (real != NULL && (*ret_held = hold(real)) >= 0)
			return real;
		free(real);
		rmdir(dir);
	}
	err_set(err, KODA_UNSUPPORTED, errno, "make a directory for certificates");
	return NULL;
}

bool
certificates_is_pem(const void *data, size_t len)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----\n";
	static const char end[] = "-----END CERTIFICATE-----\n";
	const char *p = data;

	if (len < sizeof(begin) - 1 + sizeof(end) - 1 || memcmp(p, begin, sizeof(begin) - 1) != 0 ||
	    memcmp(p + len - (sizeof(end) - 1), end, sizeof(end) - 1) != 0)
		return false;
	for (size_t i = sizeof(begin) - 1; i < len - (sizeof(end) - 1); i++) {
		if (!isalnum((unsigned char)p[i]) && memchr("+/=\n", p[i], 4) == NULL)
			return false;
	}
	return true;
}

/* Returns -1 with errno. Appends a newline, because a file that ends without one would run into
 * the next one. */
static int
append_file(int to, int from)
{
	cleanup_free char *buf = malloc(PIECE);
	size_t total = 0;
	ssize_t n;

	if (buf == NULL)
		return -1;
	while ((n = read(from, buf, PIECE)) > 0) {
		total += (size_t)n;
		if (total > BUNDLE_MAX) {
			errno = EFBIG;
			return -1;
		}
		if (write_all(to, buf, (size_t)n) < 0)
			return -1;
	}
	return n < 0 ? -1 : write_all(to, "\n", 1);
}

/* Copy only the certificates from a file that the policy names: people keep keys beside their
 * certificates, and commands can read everything here. Takes from, also on failure. Returns -1
 * with errno. */
static int
append_certificates(int to, int from)
{
	static const char begin[] = "-----BEGIN ", end[] = "-----END ";
	FILE *in = fdopen(from, "r");
	cleanup_free char *line = NULL;
	size_t size = 0, total = 0;
	bool ours = false;
	ssize_t n;
	int r = 0;

	if (in == NULL) {
		close(from);
		return -1;
	}
	while (r == 0 && (n = getline(&line, &size, in)) > 0) {
		total += (size_t)n;
		if (total > BUNDLE_MAX) {
			errno = EFBIG;
			r = -1;
		}
		if (strncmp(line, begin, sizeof(begin) - 1) == 0)
			ours = strstr(line, "CERTIFICATE-----") != NULL;
		if (r == 0 && ours)
			r = write_all(to, line, (size_t)n);
		if (strncmp(line, end, sizeof(end) - 1) == 0)
			ours = false;
	}
	if (ferror(in))
		r = -1;
	fclose(in);
	return r < 0 ? -1 : write_all(to, "\n", 1);
}

static int
append_system(int to)
{
	static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };

	for (size_t i = 0; i < N_ELEMENTS(places); i++) {
		cleanup_close int from = open(places[i], O_RDONLY | O_CLOEXEC);

		if (from >= 0)
			return append_file(to, from);
	}
	return 0; /* this machine trusts no certificates */
}

static int
append_bundle(int to, const char *ca_bundle, struct koda_error *err)
{
	cleanup_close int from = -1;
	struct stat st;

	if (ca_bundle == NULL)
		return 0;
	/* Opening a FIFO would block. */
	from = open_exact(ca_bundle, O_RDONLY | O_NONBLOCK);
	if (from < 0 || fstat(from, &st) < 0)
		return err_set(err, KODA_IO, errno, "ca_bundle '%s'", ca_bundle);
	if (!S_ISREG(st.st_mode))
		return err_set(err, KODA_INVALID, 0, "ca_bundle '%s' is not a file", ca_bundle);
	if (append_certificates(to, take_fd(&from)) < 0)
		return err_set(err, KODA_IO, errno, "ca_bundle '%s'", ca_bundle);
	return 0;
}

int
certificates_write(const char *dir, const char *name, const char *ca_bundle, const void *ca,
    size_t ca_len, struct koda_error *err)
{
	cleanup_close int at = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), to = -1;

	if (at >= 0) {
		unlinkat(at, FRESH, 0);
		to = openat(at, FRESH, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	}
	if (to < 0)
		return err_set(err, KODA_IO, errno, "write the certificates in '%s'", dir);
	if (append_bundle(to, ca_bundle, err) < 0)
		return -1;
	if (append_system(to) < 0 || write_all(to, ca, ca_len) < 0 ||
	    renameat(at, FRESH, at, name) < 0)
		return err_set(err, KODA_IO, errno, "write the certificates in '%s'", dir);
	return 0;
}

void
certificates_remove(char *dir, const char *name)
{
	cleanup_close int at = -1;

	if (dir == NULL)
		return;
	at = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (at >= 0) {
		unlinkat(at, FRESH, 0);
		unlinkat(at, name, 0);
	}
	rmdir(dir);
	free(dir);
}
