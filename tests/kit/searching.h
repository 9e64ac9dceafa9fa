/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches as text: what the callbacks reported, one item a line, and a project to search; a
 * search that takes long, and the process that runs it. Used together with
 * tests/kit/hosting.h.
 */
#ifndef KODA_TESTS_KIT_SEARCHING_H
#define KODA_TESTS_KIT_SEARCHING_H

#include "tests/kit/family.h"
#include "tests/kit/hosting.h"

/* ---- a search as text ---- */

/* What the callbacks reported, one item a line: easy to write down and to compare. */
struct told {
	char text[1 << 16];
	size_t len;
	size_t n;
	int stop_after; /* the callback returns non-zero at this item; 0: never */
	void (*then)(struct told *told);
	void *data;
	bool over;
};

static void __attribute__((format(printf, 2, 3))) note(struct told *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->text + t->len, sizeof(t->text) - t->len, fmt, ap);
	va_end(ap);
	if (n > 0 && t->len + (size_t)n < sizeof(t->text))
		t->len += (size_t)n;
}

static int
on_found(void *data, const struct koda_found *f)
{
	struct told *t = data;

	t->n++;
	switch (f->kind) {
	case KODA_FOUND_FILE:
		note(t, "%s", f->path);
		break;
	case KODA_FOUND_MATCH:
	case KODA_FOUND_CONTEXT:
		note(t, "%s%c%llu%c%.*s", f->path, f->kind == KODA_FOUND_MATCH ? ':' : '-',
		    (unsigned long long)f->line, f->kind == KODA_FOUND_MATCH ? ':' : '-',
		    (int)f->len, f->text);
		for (size_t i = 0; i < f->n_spans; i++)
			note(t, "[%zu,%zu]", f->spans[i].start, f->spans[i].end);
		break;
	case KODA_FOUND_COUNT:
		note(t, "%s=%llu", f->path, (unsigned long long)f->count);
		break;
	case KODA_FOUND_BINARY:
		note(t, "%s binary at %llu", f->path, (unsigned long long)f->offset);
		break;
	case KODA_FOUND_ENTRY:
		if (f->type == KODA_FILE_DIRECTORY)
			note(t, "%u %s/ %llu in %llu", f->depth, f->path,
			    (unsigned long long)f->size, (unsigned long long)f->files);
		else
			note(t, "%u %s %llu", f->depth, f->path, (unsigned long long)f->size);
		break;
	case KODA_FOUND_TROUBLE:
		note(t, "trouble %u %s: %s", f->place, f->path, f->reason);
		break;
	}
	note(t, "\n");
	if (t->then != NULL)
		t->then(t);
	return t->stop_after > 0 && t->n >= (size_t)t->stop_after;
}

static void
on_over(void *data, struct koda_search *search)
{
	struct told *t = data;

	t->over = true;
}

static struct told told;

static enum koda_code
search(struct koda_slot *slot, const struct koda_search_options *o, struct koda_search_result *ret,
    struct koda_error *err)
{
	told.len = told.n = 0;
	told.text[0] = '\0';
	memset(err, 0, sizeof(*err));
	return koda_search(slot, o, on_found, &told, ret, err) == 0 ? KODA_OK : err->code;
}

static void
expect(struct koda_slot *slot, const struct koda_search_options *o, const char *want)
{
	struct koda_search_result result;
	struct koda_error err;

	if (search(slot, o, &result, &err) != KODA_OK)
		fail_msg("%s", err.message);
	assert_string_equal(told.text, want);
}

static UNUSED void
expect_refused(struct koda_slot *slot, const struct koda_search_options *o, enum koda_code code,
    const char *says)
{
	struct koda_search_result result;
	struct koda_error err;

	search(slot, o, &result, &err);
	assert_code(&err, code);
	if (strstr(err.message, says) == NULL)
		fail_msg("'%s' does not say '%s'", err.message, says);
}

#define STRINGS(...)   ((const char *const[]){ __VA_ARGS__ })
#define N_STRINGS(...) (sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))
#define GLOB(...)                                                                                  \
	((struct koda_search_options){ .kind = KODA_SEARCH_GLOB,                                   \
	    .globs = STRINGS(__VA_ARGS__),                                                         \
	    .n_globs = N_STRINGS(__VA_ARGS__) })
#define GREP(p, ...)                                                                               \
	((struct koda_search_options){ .kind = KODA_SEARCH_GREP,                                   \
	    .patterns = STRINGS(p),                                                                \
	    .n_patterns = 1,                                                                       \
	    ##__VA_ARGS__ })
#define IN(...)   .paths = STRINGS(__VA_ARGS__), .n_paths = N_STRINGS(__VA_ARGS__)
#define TREE(...) ((struct koda_search_options){ .kind = KODA_SEARCH_TREE, ##__VA_ARGS__ })

static void
make_dir(const struct fixture *f, const char *name)
{
	assert_int_equal(mkdir(at(f, name), 0755), 0);
}

static void
start_project(struct fixture *f, enum koda_mode mode, bool commands)
{
	fixture_prepare(f, mode);
	f->options.commands = commands;
	make_dir(f, "src");
	make_dir(f, "src/deep");
	make_dir(f, "out");
	make_dir(f, ".hidden");
	put_text(f, "src/a.c", "int a;\nint b; int c;\nreturn;\n");
	put_text(f, "src/a.h", "int a(void);\n");
	put_text(f, "src/deep/z.c", "no\nnumbers\n");
	put_text(f, "src-x", "int after;\n");
	put_text(f, "out/a.o", "int object;\n");
	put_text(f, ".hidden/h.c", "int hidden;\n");
	put_text(f, ".ignore", "out/\n");
	put_text(f, "note.txt", "plain\n");
	fixture_open(f);
	f->slot = fixture_acquire(f);
}

/* ---- a long search ---- */

/* A sparse file of terabytes, searched as text for what it does not contain: longer than any
 * test. */
static void
put_burden(const struct fixture *f)
{
	int fd = open(at(f, "burden"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)1 << 42), 0);
	close(fd);
}

static const char *const burden[] = { "burden" }, *const not_in_it[] = { "x.y|z+w" };
static const struct koda_search_options long_search = { .kind = KODA_SEARCH_GREP,
	.flags = KODA_SEARCH_TEXT,
	.paths = burden,
	.n_paths = 1,
	.patterns = not_in_it,
	.n_patterns = 1 };

/* Returns the search process of this process; 0: none. */
static int
searching_process(void)
{
	pid_t pid = 0;

	family_count(getpid(), "koda-fs-search", &pid);
	return (int)pid;
}

static void
wait_gone(int pid)
{
	for (uint64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end; blink()) {
		char state = process_state(pid);

		if (state == 0 || state == 'Z')
			return;
	}
	fail_msg("process %d is still there", pid);
}

/* ---- deaths ---- */

#define MANY 200000

static void
put_many(const struct fixture *f)
{
	char *text = malloc(MANY * 8 + 1);
	size_t len = 0;

	assert_non_null(text);
	for (int i = 0; i < MANY; i++)
		len += (size_t)sprintf(text + len, "%07d\n", i);
	put_file(at(f, "many"), text, len);
	free(text);
}

static uint64_t next_line;
static int kills_left;

/* Expects each line once, in order; kills the process in the middle. */
static int
in_order(void *data, const struct koda_found *f)
{
	char want[16];
	int pid;

	snprintf(want, sizeof(want), "%07d", (int)next_line);
	assert_int_equal(f->line, next_line + 1);
	assert_int_equal(f->len, 7);
	assert_memory_equal(f->text, want, 7);
	next_line++;
	if (kills_left > 0 && next_line % 1000 == 0 && (pid = searching_process()) > 0) {
		/* The previous process may be gone between the lookup and the kill: in a sandbox
		 * the init reaps it. */
		if (kill(pid, SIGKILL) == 0)
			kills_left--;
		else
			assert_int_equal(errno, ESRCH);
	}
	return 0;
}

/* ---- cases that are the same in a sandbox: with a state they run in one ---- */

static UNUSED void
cancelled(void **state)
{
	const bool commands = *state != NULL;
	struct koda_search_options o = long_search;
	struct koda_search *s;
	struct koda_error err;
	struct fixture f;
	int pid;

	start_project(&f, KODA_AUTO, commands);
	put_burden(&f);
	s = koda_search_start(f.slot, &o, on_found, on_over, &told, &err);
	assert_non_null(s);
	assert_int_equal(koda_search_wait(s, 100, &err), 0);
	pid = searching_process();
	assert_true(pid > 0);
	told.over = false;
	koda_search_free(s);
	wait_gone(pid);
	/* A cancelled search must not call back into freed data, and the slot goes on. */
	assert_int_equal(koda_session_dispatch(f.ses, 0, &err), 0);
	assert_false(told.over);
	expect(f.slot, &GREP("plain", IN("note.txt")), ":1:plain[0,5]\n");
	fixture_end(&f);
}

/* The slot's worker does other work meanwhile, and other searches run. */
static UNUSED void
beside(void **state)
{
	const bool commands = *state != NULL;
	struct koda_search_options o = long_search;
	struct koda_search *s[8];
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, commands);
	put_burden(&f);
	for (int i = 0; i < 7; i++)
		assert_non_null(s[i] = koda_search_start(f.slot, &o, NULL, NULL, NULL, &err));
	for (int i = 0; i < 20; i++)
		assert_int_equal(do_call(f.slot, &WRITE("w", "new"), &err), KODA_OK);
	expect(f.slot, &GREP("plain", IN("note.txt")), ":1:plain[0,5]\n");
	assert_non_null(s[7] = koda_search_start(f.slot, &o, NULL, NULL, NULL, &err));
	assert_null(koda_search_start(f.slot, &o, NULL, NULL, NULL, &err));
	assert_code(&err, KODA_INTERNAL);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(koda_search_wait(s[i], 0, &err), 0);
		koda_search_free(s[i]);
	}
	expect(f.slot, &GREP("plain", IN("note.txt")), ":1:plain[0,5]\n");
	fixture_end(&f);
}

static UNUSED void
killed(void **state)
{
	const bool commands = *state != NULL;
	struct koda_search_options o = GREP("^[0-9]", IN("many"));
	struct koda_search_result result;
	struct koda_error err;
	struct fixture f;

	start_project(&f, KODA_AUTO, commands);
	put_many(&f);
	next_line = 0;
	kills_left = 1;
	if (koda_search(f.slot, &o, in_order, NULL, &result, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(kills_left, 0);
	assert_int_equal(next_line, MANY);
	assert_int_equal(result.found, MANY);
	assert_true(result.recovered);
	/* The search is killed each time: the host gives it up. */
	next_line = 0;
	kills_left = 100;
	assert_int_equal(koda_search(f.slot, &o, in_order, NULL, &result, &err), -1);
	assert_code(&err, KODA_WORKER);
	assert_true(next_line < MANY);
	expect(f.slot, &GREP("plain", IN("note.txt")), ":1:plain[0,5]\n");
	fixture_end(&f);
}

#endif
