/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session over a scratch project, with the test's own directory of helpers: the base of every
 * test of the host. The directory of helpers belongs to the fixture, so that a test can choose
 * which worker starts next while the session runs.
 */
#ifndef KODA_TESTS_KIT_HOSTING_H
#define KODA_TESTS_KIT_HOSTING_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "include/koda/sandbox.h"
#include "shared/base/cleanup.h"

#define UNUSED __attribute__((unused))

/* Longer than anything here takes; a test that waits this long has failed. */
#define PATIENCE_MS 20000

struct fixture {
	char dir[PATH_MAX - 64], root[PATH_MAX - 32], helpers[PATH_MAX - 32];
	struct koda_session_options options;
	struct koda_session *ses;
	struct koda_slot *slot;
};

static UNUSED uint64_t
clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The pause between two polls for something that has no notification. */
static UNUSED void
blink(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static UNUSED const char *
at(const struct fixture *f, const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", f->root, name);
	return p;
}

static UNUSED void
put_file(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static UNUSED void
put_text(const struct fixture *f, const char *name, const char *text)
{
	put_file(at(f, name), text, strlen(text));
}

/* Returns the content, or NULL if there is no such file. The buffer is static. */
static UNUSED const char *
get_text(const struct fixture *f, const char *name)
{
	static char text[2][4096];
	static unsigned next;
	char *p = text[next++ % 2];
	cleanup_close int fd = open(at(f, name), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, p, sizeof(text[0]) - 1);

	if (n < 0)
		return NULL;
	p[n] = '\0';
	return p;
}

static UNUSED bool
exists(const struct fixture *f, const char *name)
{
	struct stat st;

	return lstat(at(f, name), &st) == 0;
}

static int temps_found;

static UNUSED int
count_temp(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	temps_found += strncmp(path + ftw->base, ".koda-", 6) == 0;
	return 0;
}

static UNUSED int
count_temps(const struct fixture *f)
{
	temps_found = 0;
	assert_int_equal(nftw(f->root, count_temp, 16, FTW_PHYS), 0);
	return temps_found;
}

static UNUSED int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

/* From now on a copy of this program is started as that helper. */
static UNUSED void
put_copy(const struct fixture *f, const char *helper, const char *program)
{
	char fresh[PATH_MAX], name[PATH_MAX], buf[65536];
	cleanup_close int from = open(program, O_RDONLY | O_CLOEXEC), to = -1;
	ssize_t n;

	snprintf(fresh, sizeof(fresh), "%s/fresh", f->helpers);
	snprintf(name, sizeof(name), "%s/%s", f->helpers, helper);
	assert_true(from >= 0);
	to = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_true(to >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(to, buf, (size_t)n), n);
	close(take_fd(&to));
	assert_int_equal(rename(fresh, name), 0);
}

static UNUSED void
put_worker(const struct fixture *f, const char *program)
{
	put_copy(f, "koda-fs-worker", program);
}

static UNUSED void
put_real_worker(const struct fixture *f)
{
	put_worker(f, KODA_TEST_HELPER_DIR "/koda-fs-worker");
}

static UNUSED void
put_stopping_worker(const struct fixture *f, int point)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/koda-fs-worker-stop%d", KODA_TEST_VARIANT_DIR, point);
	put_worker(f, path);
}

static UNUSED void
put_link(const struct fixture *f, const char *helper, const char *program)
{
	char fresh[PATH_MAX], name[PATH_MAX];

	snprintf(fresh, sizeof(fresh), "%s/fresh-link", f->helpers);
	snprintf(name, sizeof(name), "%s/%s", f->helpers, helper);
	assert_int_equal(symlink(program, fresh), 0);
	assert_int_equal(rename(fresh, name), 0);
}

/* From now on a copy of this program is started as the proxy. */
static UNUSED void
put_proxy(const struct fixture *f, const char *program)
{
	put_link(f, "koda-egress-proxy", program);
}

/* From now on a copy of this program is started as the search; only sessions opened later use
 * it. */
static UNUSED void
put_search(const struct fixture *f, const char *program)
{
	put_link(f, "koda-fs-search", program);
}

/* Makes a project, and options for a session over it, but opens no session. */
static UNUSED void
fixture_prepare(struct fixture *f, enum koda_mode mode)
{
	const char *tmp = getenv("TMPDIR");
	cleanup_free char *real = NULL;
	char dir[PATH_MAX - 128];

	memset(f, 0, sizeof(*f));
	snprintf(dir, sizeof(dir), "%s/host.XXXXXX", tmp == NULL ? "/tmp" : tmp);
	assert_non_null(mkdtemp(dir));
	real = realpath(dir, NULL);
	assert_non_null(real);
	snprintf(f->dir, sizeof(f->dir), "%s", real);
	snprintf(f->root, sizeof(f->root), "%s/project", f->dir);
	snprintf(f->helpers, sizeof(f->helpers), "%s/helpers", f->dir);
	assert_int_equal(mkdir(f->root, 0755), 0);
	assert_int_equal(mkdir(f->helpers, 0755), 0);
	put_real_worker(f);
	put_search(f, KODA_TEST_SEARCH);
	snprintf(dir, sizeof(dir), "%s/koda-sandbox-stage2", f->helpers);
	assert_int_equal(symlink(KODA_TEST_STAGE2, dir), 0);
	put_proxy(f, KODA_TEST_PROXY);
	snprintf(dir, sizeof(dir), "%s/koda-egress-connect", f->helpers);
	assert_int_equal(symlink(KODA_TEST_CONNECT, dir), 0);
	snprintf(dir, sizeof(dir), "%s/koda-sandbox-launch", f->helpers);
	assert_int_equal(symlink(KODA_TEST_LAUNCH, dir), 0);
	f->options = (struct koda_session_options)KODA_SESSION_OPTIONS_INIT;
	f->options.root = f->root;
	f->options.mode = mode;
	f->options.helper_dir = f->helpers;
}

static UNUSED void
fixture_open(struct fixture *f)
{
	struct koda_error err;

	f->ses = koda_session_open(&f->options, &err);
	if (f->ses == NULL)
		fail_msg("open: %s", err.message);
}

static UNUSED struct koda_slot *
fixture_acquire(struct fixture *f)
{
	struct koda_error err;
	struct koda_slot *slot = koda_slot_acquire(f->ses, NULL, &err);

	if (slot == NULL)
		fail_msg("acquire: %s", err.message);
	return slot;
}

static UNUSED void
fixture_start(struct fixture *f, enum koda_mode mode)
{
	fixture_prepare(f, mode);
	fixture_open(f);
	f->slot = fixture_acquire(f);
}

static UNUSED void
fixture_end(struct fixture *f)
{
	koda_session_close(f->ses);
	assert_int_equal(nftw(f->dir, remove_one, 16, FTW_PHYS | FTW_DEPTH), 0);
}

/* Returns the state letter of /proc/PID/stat; 0 if the process is gone. */
static UNUSED char
process_state(int pid)
{
	char path[64], text[512];
	cleanup_close int fd = -1;
	ssize_t n;
	char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	return p == NULL ? 0 : p[2];
}

static UNUSED bool
wait_for_state(int pid, char state)
{
	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end; blink())
		if (process_state(pid) == state)
			return true;
	return false;
}

/* ---- asynchronous calls ---- */

struct answer {
	bool done;
	int times;
	struct koda_error err; /* code KODA_OK: success */
	char path[1024];
	bool recovered, created;
	uint64_t size, replacements, removed;
	size_t n_entries, len;
	char data[256];
	unsigned order; /* position among all answers */
};

static unsigned answers;

static UNUSED void
on_answer(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct answer *a = data;

	a->done = true;
	a->times++;
	a->order = answers++;
	if (err != NULL) {
		a->err = *err;
		return;
	}
	a->err.code = KODA_OK;
	snprintf(a->path, sizeof(a->path), "%s", result->path == NULL ? "" : result->path);
	a->recovered = result->recovered;
	a->created = result->created;
	a->size = result->size;
	a->replacements = result->replacements;
	a->removed = result->removed;
	a->n_entries = result->n_entries;
	a->len = result->len;
	if (result->data != NULL)
		memcpy(a->data, result->data,
		    result->len < sizeof(a->data) ? result->len : sizeof(a->data));
}

static UNUSED void
start_call(struct koda_slot *slot, const struct koda_op *op, struct answer *a)
{
	struct koda_error err;

	memset(a, 0, sizeof(*a));
	if (koda_call_async(slot, op, on_answer, a, &err) < 0)
		fail_msg("call: %s", err.message);
}

static UNUSED void
wait_answer(struct koda_session *ses, const struct answer *a)
{
	struct koda_error err;
	uint64_t end = clock_ms() + PATIENCE_MS;

	while (!a->done && clock_ms() < end)
		assert_true(koda_session_dispatch(ses, 200, &err) >= 0);
	assert_true(a->done);
}

#define assert_code(err, want)                                                                     \
	do {                                                                                       \
		if ((err)->code != (want))                                                         \
			fail_msg("%s, not %s: %s", koda_code_name((err)->code),                    \
			    koda_code_name(want), (err)->code == KODA_OK ? "" : (err)->message);   \
	} while (0)

/* Runs the call, waits for it, and returns its code. */
static UNUSED enum koda_code
do_call(struct koda_slot *slot, const struct koda_op *op, struct koda_error *err)
{
	struct koda_result result;
	int r;

	memset(err, 0, sizeof(*err));
	r = koda_call(slot, op, &result, err);
	koda_result_done(&result);
	return r == 0 ? KODA_OK : err->code;
}

#define WRITE(p, text, ...)                                                                        \
	((struct koda_op){ .kind = KODA_OP_WRITE,                                                  \
	    .path = (p),                                                                           \
	    .data = (text),                                                                        \
	    .len = strlen(text),                                                                   \
	    ##__VA_ARGS__ })
#define STAT(p, ...) ((struct koda_op){ .kind = KODA_OP_STAT, .path = (p), ##__VA_ARGS__ })
#define PING(...)    ((struct koda_op){ .kind = KODA_OP_PING, ##__VA_ARGS__ })

#endif
