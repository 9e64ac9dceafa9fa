/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of searching. Ours is the library, in a session that is already open; the floor is
 * ripgrep with one thread, on the same tree and for the same pattern. Both must find the same
 * number of matches. The page cache is warm: every row searches before it is timed.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "bench/memory.h"
#include "shared/base/cleanup.h"

#define FILES       24000
#define FILES_BRIEF 2400
#define DIRECTORIES 240
#define LINES       90 /* lines per file, which makes it about 2.8 kB */
#define MANY        200000
#define MANY_BRIEF  2000
#define LARGE       (UINT64_C(3) << 30)
#define LARGE_BRIEF (UINT64_C(1) << 28)
#define RG_OUTPUT   (32u << 20)
#define FOR_EVER    ((off_t)1 << 42) /* size of a sparse file that no search finishes */

static const char *const rg_places[] = { "/usr/bin/rg", "/usr/local/bin/rg", "/bin/rg" };

static struct {
	struct setting set;
	struct koda_session *ses;
	struct koda_slot *slot;
	const char *rg;
	char *output;
	char tree[4096];
	double measured;
	struct koda_search *beside;
} w;

/* ---- the tree ---- */

static uint32_t
next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Write lines that look like source code to text, some of which match what the rows search for.
 * Returns the length. */
static size_t
make_text(uint32_t *state, char *text, size_t size)
{
	static const char *const words[] = { "static", "int", "buffer", "return", "struct",
		"length", "const", "char", "offset", "if", "else", "while", "count", "index",
		"error", "value", "open", "close", "read", "write", "next", "list", "node",
		"parse" };
	size_t len = 0;

	for (int line = 0; line < LINES && len + 256 < size; line++) {
		const uint32_t kind = next_random(state) % 997;

		for (uint32_t n = 3 + next_random(state) % 6; n > 0; n--)
			len += (size_t)snprintf(text + len, size - len, "%s%s",
			    words[next_random(state) % N_ELEMENTS(words)], n > 1 ? " " : "");
		if (kind == 1)
			len += (size_t)snprintf(text + len, size - len, " frobnicate_buffer(%u)",
			    kind);
		if (kind == 2)
			len += (size_t)snprintf(text + len, size - len, " Frobnicate_Buffer(%u)",
			    kind);
		if (kind == 3)
			len += (size_t)snprintf(text + len, size - len, " 2026-0%u-1%u",
			    next_random(state) % 9, next_random(state) % 9);
		text[len++] = '\n';
	}
	return len;
}

static void
make_directory(const char *name)
{
	if (mkdir(name, 0755) < 0)
		err(1, "%s", name);
}

static void
make_tree(bool brief)
{
	static char text[64u << 10];
	static const char *const suffixes[] = { "c", "h", "py", "txt", "o" };
	const unsigned files = brief ? FILES_BRIEF : FILES;
	uint32_t state = 7;
	char name[128];

	make_directory("tree");
	/* So that tree/.gitignore applies, and no .gitignore above it. */
	make_directory("tree/.git");
	put_file("tree/.gitignore", "*.o\nbuild/\n/cache-*\n!keep.o\n", 27);
	for (unsigned d = 0; d < DIRECTORIES; d++) {
		snprintf(name, sizeof(name), "tree/module-%u", d / 8);
		if (d % 8 == 0)
			make_directory(name);
		snprintf(name, sizeof(name), "tree/module-%u/part-%u", d / 8, d % 8);
		make_directory(name);
		for (unsigned f = 0; f < files / DIRECTORIES; f++) {
			size_t len = make_text(&state, text, sizeof(text));

			snprintf(name, sizeof(name), "tree/module-%u/part-%u/file_%u.%s", d / 8,
			    d % 8, f, suffixes[f % N_ELEMENTS(suffixes)]);
			put_file(name, text, len);
		}
	}
}

/* Create the files for the measurement of memory, one large and many small, and the endless file
 * for the rows that need a search that is still running. */
static void
make_burden(bool brief)
{
	const unsigned many = brief ? MANY_BRIEF : MANY;
	char name[128];
	int fd;

	make_directory("burden");
	/* So that a .gitignore around the build directory does not apply. */
	make_directory("burden/.git");
	for (unsigned i = 0; i < many; i++) {
		if (i % 1000 == 0) {
			snprintf(name, sizeof(name), "burden/%u", i / 1000);
			make_directory(name);
		}
		snprintf(name, sizeof(name), "burden/%u/%u", i / 1000, i);
		put_file(name, "one line\n", 9);
	}
	fd = open("burden/large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)(brief ? LARGE_BRIEF : LARGE)) < 0)
		err(1, "burden/large");
	close(fd);
	fd = open("endless", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, FOR_EVER) < 0)
		err(1, "endless");
	close(fd);
}

static void
make(const struct setting *set)
{
	w.set = *set;
	make_tree(set->brief);
	make_burden(set->brief);
	snprintf(w.tree, sizeof(w.tree), "%s/tree", set->root);
	w.output = malloc(RG_OUTPUT);
	if (w.output == NULL)
		err(1, "output");
	for (size_t i = 0; i < N_ELEMENTS(rg_places) && w.rg == NULL; i++)
		if (access(rg_places[i], X_OK) == 0)
			w.rg = rg_places[i];
}

static int
start(void)
{
	struct koda_session_options o = KODA_SESSION_OPTIONS_INIT;
	struct koda_error e;

	o.root = w.set.root;
	o.mode = KODA_AUTO;
	o.helper_dir = w.set.helpers;
	o.timeout_ms = 600000;
	w.ses = koda_session_open(&o, &e);
	if (w.ses == NULL)
		return complain_error("session", &e);
	w.slot = koda_slot_acquire(w.ses, NULL, &e);
	return w.slot == NULL ? complain_error("slot", &e) : 0;
}

static void
stop(void)
{
	koda_search_free(w.beside);
	w.beside = NULL;
	koda_session_close(w.ses);
}

/* ---- the same search, by both ---- */

struct question {
	const char *name;
	enum koda_search_kind kind;
	unsigned flags;
	const char *pattern; /* the glob of KODA_SEARCH_GLOB */
	const char *rg[6];
};

static const struct question literal = { "literal", KODA_SEARCH_GREP, KODA_SEARCH_FIXED,
	"frobnicate_buffer(", { "-n", "-F", "-e", "frobnicate_buffer(" } };
static const struct question none = { "none", KODA_SEARCH_GREP, KODA_SEARCH_FIXED,
	"no_such_name_at_all", { "-n", "-F", "-e", "no_such_name_at_all" } };
static const struct question icase = { "icase", KODA_SEARCH_GREP,
	KODA_SEARCH_FIXED | KODA_SEARCH_IGNORE_CASE, "FROBNICATE_buffer",
	{ "-n", "-F", "-i", "-e", "FROBNICATE_buffer" } };
static const struct question regex = { "regex", KODA_SEARCH_GREP, 0,
	"frob[a-z]+_[a-z]+\\([0-9]+\\)", { "-n", "-e", "frob[a-z]+_[a-z]+\\([0-9]+\\)" } };
/* No literal text in it is longer than one character. */
static const struct question pattern = { "pattern", KODA_SEARCH_GREP, 0,
	"[0-9]{4}-[0-9]{2}-[0-9]{2}", { "-n", "-e", "[0-9]{4}-[0-9]{2}-[0-9]{2}" } };
static const struct question glob = { "glob", KODA_SEARCH_GLOB, 0, "*.h",
	{ "--files", "-g", "*.h" } };

static size_t found;

static int
count(void *data, const struct koda_found *f)
{
	found++;
	return 0;
}

static int
ask(const struct question *q)
{
	const char *const path = w.tree, *const one = q->pattern;
	struct koda_search_options o = { .kind = q->kind,
		.flags = q->flags,
		.paths = &path,
		.n_paths = 1 };
	struct koda_search_result result;
	struct koda_error e;

	if (q->kind == KODA_SEARCH_GLOB) {
		o.globs = &one;
		o.n_globs = 1;
	} else {
		o.patterns = &one;
		o.n_patterns = 1;
	}
	found = 0;
	return koda_search(w.slot, &o, count, NULL, &result, &e) < 0 ? complain_error(q->name, &e)
								     : 0;
}

/* Run rg for the same search. Returns 0 if it finds as much as our last search did, -1 after
 * printing why otherwise. rg exits with 1 if it finds nothing; the shell turns that into
 * success. */
static int
ask_rg(const struct question *q)
{
	const char *argv[16] = { "/bin/sh", "-c", "\"$@\" || [ $? -eq 1 ]", "rg", w.rg, "-j1",
		"--color=never" };
	size_t n = 7, lines = 0;

	for (size_t i = 0; q->rg[i] != NULL; i++)
		argv[n++] = q->rg[i];
	argv[n++] = w.tree;
	if (floor_capture(argv, NULL, w.output, RG_OUTPUT) < 0)
		return -1;
	for (const char *p = w.output; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	if (lines == found)
		return 0;
	fprintf(stderr, "%s: ours found %zu, rg %zu\n", q->name, found, lines);
	return -1;
}

#define SIDES(name)                                                                                \
	static int ours_##name(void *data)                                                         \
	{                                                                                          \
		return ask(&name);                                                                 \
	}                                                                                          \
	static int rg_##name(void *data)                                                           \
	{                                                                                          \
		return ask_rg(&name);                                                              \
	}
SIDES(literal)
SIDES(none)
SIDES(icase)
SIDES(regex)
SIDES(pattern)
SIDES(glob)

/* ---- latency ---- */

static double
now_ns(void)
{
	return now_seconds() * 1e9;
}

static int
note_first(void *data, const struct koda_found *f)
{
	if (w.measured == 0)
		w.measured = now_ns();
	return 0;
}

static struct koda_search *
begin(const char *path, const char *what, koda_found_fn *fn)
{
	struct koda_search_options o = { .kind = KODA_SEARCH_GREP,
		.flags = KODA_SEARCH_TEXT,
		.paths = &path,
		.n_paths = 1,
		.patterns = &what,
		.n_patterns = 1 };
	struct koda_error e;
	struct koda_search *s = koda_search_start(w.slot, &o, fn, NULL, NULL, &e);

	if (s == NULL)
		complain_error("search", &e);
	return s;
}

static int
first_match(void *data)
{
	double began = now_ns();
	struct koda_search *s;
	struct koda_error e;
	int r = 0;

	w.measured = 0;
	s = begin(w.tree, "frobnicate_buffer", note_first);
	while (s != NULL && w.measured == 0 && r == 0)
		r = koda_search_wait(s, 100, &e);
	koda_search_free(s);
	w.measured -= began;
	return s == NULL || r < 0 ? -1 : 0;
}

/* Measure the time from the call that cancels a search to the end of its process. */
static int
cancel(void *data)
{
	struct koda_search *s = begin("endless", "nothing", NULL);
	struct pollfd pfd = { .events = POLLIN };
	struct koda_error e;
	double began;
	int pid;

	if (s == NULL || koda_search_wait(s, 20, &e) < 0)
		return -1;
	pid = memory_child("koda-fs-search", 0);
	pfd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	began = now_ns();
	koda_search_free(s);
	if (pfd.fd < 0 || poll(&pfd, 1, 10000) != 1) {
		fprintf(stderr, "cancel: the process is still there\n");
		return -1;
	}
	w.measured = now_ns() - began;
	close(pfd.fd);
	return 0;
}

/* ---- a write during a search ---- */

static int
write_once(void)
{
	static const char content[4096];
	struct koda_result result;
	struct koda_error e;
	int r = koda_fs_write(w.slot, "beside", content, sizeof(content), &result, &e);

	koda_result_done(&result);
	return r < 0 ? complain_error("write", &e) : 0;
}

static int
write_beside(void *data)
{
	if (w.beside == NULL && (w.beside = begin("endless", "nothing", NULL)) == NULL)
		return -1;
	return write_once();
}

static int
write_quiet(void *data)
{
	koda_search_free(w.beside);
	w.beside = NULL;
	return write_once();
}

/* clang-format off */
static const struct row rows[] = {
	{ "grep_literal", "ms", 1e-6, { ours_literal, rg_literal, .batch = 1, .repeat = 1 }, 1.1, 4, 0 },
	{ "grep_none",    "ms", 1e-6, { ours_none,    rg_none,    .batch = 1, .repeat = 1 }, 1.1, 4, 0 },
	{ "grep_icase",   "ms", 1e-6, { ours_icase,   rg_icase,   .batch = 1, .repeat = 1 }, 1.3, 4, 0 },
	{ "grep_regex",   "ms", 1e-6, { ours_regex,   rg_regex,   .batch = 1, .repeat = 1 }, 1.3, 4, 0 },
	{ "grep_pattern", "ms", 1e-6, { ours_pattern, rg_pattern, .batch = 1, .repeat = 1 }, 1.3, 4, 0 },
	{ "glob",         "ms", 1e-6, { ours_glob,    rg_glob,    .batch = 1, .repeat = 1 }, 1.0, 4, 0 },
	{ "first_match",  "ms", 1e-6, { first_match, NULL, .batch = 1, .repeat = 1, .measured = &w.measured }, 0, 4, 20 },
	{ "search_cancel", "ms", 1e-6, { cancel, NULL, .batch = 1, .repeat = 1, .measured = &w.measured }, 0, 4, 50 },
	{ "write_beside", "us", 1e-3, { write_beside, write_quiet, .batch = 16, .repeat = 1 }, 0, 4, 0 },
};
/* clang-format on */

static const char *
missing(const struct row *row)
{
	return row->race.floor != NULL && w.rg == NULL && strcmp(row->name, "write_beside") != 0
	    ? "ripgrep is not installed: apt install ripgrep"
	    : NULL;
}

/* ---- memory ---- */

/* Return the peak resident memory of a process in KiB, or 0 if there is no such process. */
static double
most_resident(int pid)
{
	char path[64], line[256];
	unsigned long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL &&
	    sscanf(line, "VmHWM: %lu", &kib) != 1)
		;
	if (f != NULL)
		fclose(f);
	return (double)kib;
}

static size_t
measure(struct value *ret)
{
	struct koda_search *s = begin("burden", "no_such_name", NULL);
	struct koda_search_result result;
	double most = 0, samples[2];
	struct koda_error e;
	int pid = memory_child("koda-fs-search", 0);

	while (s != NULL && koda_search_wait(s, 5, &e) == 0) {
		double now = most_resident(pid);

		most = now > most ? now : most;
	}
	if (s == NULL || koda_search_result(s, &result, &e) < 0)
		complain_error("memory", &e);
	koda_search_free(s);
	samples[0] = samples[1] = most / 1024;
	*ret = (struct value){ "search_memory", "MiB", figure_of(samples, 2, false), most > 0, 16 };
	return 1;
}

const struct group search_group = { "search", rows, N_ELEMENTS(rows), make, start, stop, measure,
	missing };
