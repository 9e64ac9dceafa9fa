/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a path: it is checked, displayed, and resolved (which opens only with O_PATH) in a
 * small tree that contains links, with openat2 and without. Both ways find the same place, and its
 * path is canonical.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "shared/base/cleanup.h"
#include "worker/files/resolve.h"

static char base[128], root[256];
static struct resolver resolver = { .depth = 40 };

static void
remove_tree(void)
{
	static const char *const below[] = { "root/a/b/f", "root/a/b", "root/a/up", "root/a/over",
		"root/a", "root/f", "root/l", "root/loop", "root/pool", "root/gone", "root/abs",
		"root", "out/f", "out" };
	char path[512];

	for (size_t i = 0; i < N_ELEMENTS(below); i++) {
		snprintf(path, sizeof(path), "%s/%s", base, below[i]);
		remove(path);
	}
	remove(base);
}

static void
make_tree(void)
{
	const char *tmp = getenv("TMPDIR");
	cleanup_free char *real = NULL;
	char path[512];

#define AT(name) (snprintf(path, sizeof(path), "%s/%s", base, (name)), path)
	snprintf(path, sizeof(path), "%s/resolve.XXXXXX",
	    tmp != NULL && strlen(tmp) < 90 ? tmp : "/tmp");
	must(mkdtemp(path) != NULL);
	real = realpath(path, NULL);
	must(real != NULL && strlen(real) < sizeof(base));
	strcpy(base, real);
	snprintf(root, sizeof(root), "%s/root", base);
	atexit(remove_tree);
	must(mkdir(AT("root"), 0755) == 0 && mkdir(AT("out"), 0755) == 0);
	must(mkdir(AT("root/a"), 0755) == 0 && mkdir(AT("root/a/b"), 0755) == 0);
	must(close(creat(AT("root/f"), 0644)) == 0 && close(creat(AT("out/f"), 0644)) == 0);
	must(close(creat(AT("root/a/b/f"), 0644)) == 0);
	must(symlink("a/b", AT("root/l")) == 0 && symlink("../..", AT("root/a/up")) == 0);
	must(symlink("../../out", AT("root/a/over")) == 0 && symlink("pool", AT("root/loop")) == 0);
	must(symlink("loop/", AT("root/pool")) == 0 && symlink("no/where", AT("root/gone")) == 0);
	must(symlink("/", AT("root/abs")) == 0);
#undef AT
	resolver.root = root;
	resolver.root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	resolver.proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(resolver.root_fd >= 0 && resolver.proc_fd >= 0);
}

static void
must_be_canonical(const char *path)
{
	must(path[0] == '/' && strlen(path) <= PATH_LEN_MAX);
	if (path[1] == '\0')
		return;
	for (const char *p = path; *p != '\0';) {
		size_t k = strcspn(p + 1, "/");

		must(*p == '/' && k > 0);
		must(!(k == 1 && p[1] == '.') && !(k == 2 && p[1] == '.' && p[2] == '.'));
		p += 1 + k;
	}
}

static void
check_shown(const uint8_t *data, size_t size)
{
	char big[4096], small[24];
	size_t n = bytes_show(big, sizeof(big), data, size),
	       m = bytes_show(small, sizeof(small), data, size);

	must(n == m && bytes_show(NULL, 0, data, size) == n);
	must(strlen(big) <= n && (n >= sizeof(big) || strlen(big) == n));
	must(strlen(small) < sizeof(small) && strncmp(big, small, strlen(small)) == 0);
	for (const char *p = big; *p != '\0'; p++)
		must((unsigned char)*p >= 0x20 && *p != 0x7f);
}

static void
resolve_both(const uint8_t *data, size_t size, unsigned flags)
{
	struct resolver walk = resolver;
	struct place a, b;
	struct koda_error err_a = { 0 }, err_b = { 0 };
	int r, s;

	walk.no_openat2 = true;
	r = resolve(&resolver, data, size, flags, &a, &err_a);
	s = resolve(&walk, data, size, flags, &b, &err_b);
	must(r == s && err_a.code == err_b.code && strcmp(a.path, b.path) == 0);
	must(path_check(data, size, NULL) == 0 || (r == -1 && err_a.code == KODA_INVALID));
	if (r == 0) {
		must_be_canonical(a.path);
		must((a.target_fd >= 0) == (b.target_fd >= 0) && a.wants_dir == b.wants_dir);
		must(a.n_hops == b.n_hops);
		if (a.target_fd >= 0)
			must(a.st.st_dev == b.st.st_dev && a.st.st_ino == b.st.st_ino);
		if ((flags & RESOLVE_PARENT) != 0)
			must(a.parent_fd >= 0 && b.parent_fd >= 0 && strcmp(a.name, b.name) == 0 &&
			    strcmp(a.missing, b.missing) == 0);
	} else {
		must(a.target_fd == -1 && a.parent_fd == -1 && b.target_fd == -1 &&
		    b.parent_fd == -1);
		must(err_a.message[0] != '\0');
	}
	place_done(&a);
	place_done(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (root[0] == '\0')
		make_tree();
	if (size > 2 * PATH_LEN_MAX)
		return 0;
	check_shown(data, size);
	/* Entries below proc come and go between the two resolutions. */
	if (memmem(data, size, "proc", 4) != NULL || memmem(data, size, "dev", 3) != NULL)
		return 0;
	for (unsigned flags = 0; flags < 4; flags++)
		resolve_both(data, size, flags);
	return 0;
}
