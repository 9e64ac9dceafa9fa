/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces libFuzzer: run the target over every file of the given folders, so that each seed and
 * each past crash stays a test. Finding no file at all is a failure.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "shared/base/cleanup.h"

static int
replay_file(int dir, const char *name)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	cleanup_free uint8_t *exact = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode))
		return 0;
	/* Exactly as long as the file, so that a sanitizer sees a read beyond its end. */
	exact = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
	if (exact == NULL || read(fd, exact, (size_t)st.st_size) != st.st_size)
		return -1;
	fprintf(stderr, "# %s\n", name);
	LLVMFuzzerTestOneInput(exact, (size_t)st.st_size);
	return 1;
}

static int
replay_folder(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	if (d == NULL)
		return -1;
	while ((e = readdir(d)) != NULL) {
		int r = replay_file(dirfd(d), e->d_name);

		if (r < 0) {
			fprintf(stderr, "%s/%s: %s\n", path, e->d_name, strerror(errno));
			closedir(d);
			return -1;
		}
		n += r;
	}
	closedir(d);
	return n;
}

int
main(int argc, char **argv)
{
	int n = 0;

	for (int i = 1; i < argc; i++) {
		int r = replay_folder(argv[i]);

		if (r < 0)
			return 1;
		n += r;
	}
	fprintf(stderr, "# %d inputs\n", n);
	return n > 0 ? 0 : 1;
}
