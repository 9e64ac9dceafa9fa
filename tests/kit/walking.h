/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over the test's own directory, with everything it reports as one text. */
#ifndef KODA_TESTS_KIT_WALKING_H
#define KODA_TESTS_KIT_WALKING_H

#include "tests/kit/proof.h"

#include "search/walk.h"
#include "search/walk_rules.h"

#define TOLD_MAX (4u << 20)

static char root[PATH_MAX];

/* ---- what the walk reports ---- */

struct told {
	/* Paths, each followed by a space; with `marks` each is preceded by its type. */
	char *text;
	size_t len;
	bool marks;
	size_t files, troubles;
	int errnum; /* of the last error */
	char trouble[PATH_MAX];
	uint64_t hidden;
	const char *refuse;           /* end of the path that may not be read */
	const char *act_at, *stop_at; /* a mark and a path */
	void (*act)(void);
};

static int
tell(struct told *t, const char *mark, const struct walk_entry *e)
{
	char what[PATH_MAX + 8];
	const int n = snprintf(what, sizeof(what), "%s%s", mark, e->path);

	assert_int_equal(strlen(e->path), e->len);
	if (t->act_at != NULL && strcmp(t->act_at, what) == 0)
		t->act();
	if (t->marks || mark[0] == '\0') {
		assert_true(t->len + (size_t)n + 2 < TOLD_MAX);
		memcpy(t->text + t->len, what, (size_t)n);
		memcpy(t->text + t->len + n, " ", 2);
		t->len += (size_t)n + 1;
	}
	return t->stop_at != NULL && strcmp(t->stop_at, what) == 0;
}

static bool
is_readable(void *data, const char *path, bool is_dir)
{
	const struct told *t = data;
	const size_t n = strlen(path), k = t->refuse != NULL ? strlen(t->refuse) : 0;

	assert_true(path[0] == '/' && (n == 1 || path[n - 1] != '/'));
	assert_null(strstr(path, "//"));
	return t->refuse == NULL || n < k || strcmp(path + n - k, t->refuse) != 0;
}

static int
on_enter(void *data, const struct walk_entry *e)
{
	assert_int_equal(e->type, DT_DIR);
	return tell(data, ">", e);
}

static int
on_leave(void *data, const struct walk_entry *e)
{
	return tell(data, "<", e);
}

static int
on_file(void *data, const struct walk_entry *e)
{
	struct told *t = data;
	const char *mark = "";

	t->files++;
	if (t->marks && e->type != DT_REG)
		mark = e->type == DT_LNK ? "link:"
		    : e->type == DT_FIFO ? "fifo:"
		    : e->type == DT_SOCK ? "socket:"
		    : e->type == DT_CHR  ? "device:"
					 : "?:";
	return tell(t, mark, e);
}

static void
on_trouble(void *data, const struct walk_entry *e, int errnum)
{
	struct told *t = data;

	t->troubles++;
	t->errnum = errnum;
	snprintf(t->trouble, sizeof(t->trouble), "%s", e->path);
}

static proof_unused void
told_done(struct told *t)
{
	free(t->text);
}

static int
walk_place_at(const struct walk_rules_options *o, const struct walk_place *place, struct told *t,
    struct koda_error *err)
{
	const struct walk_hooks hooks = { .data = t,
		.readable = is_readable,
		.enter = on_enter,
		.leave = on_leave,
		.file = on_file,
		.trouble = on_trouble };
	struct walk_counts counts = { 0 };
	struct walk_rules *rules = walk_rules_new(o, err);
	int r;

	if (rules == NULL)
		fail_msg("%s", err->message);
	if (t->text == NULL)
		t->text = calloc(1, TOLD_MAX);
	assert_non_null(t->text);
	t->len = 0;
	t->text[0] = '\0';
	r = walk(rules, place, &hooks, &counts, err);
	t->hidden = counts.hidden;
	walk_rules_free(rules);
	return r;
}

static proof_unused int
walk_at(const struct walk_rules_options *o, const char *path, struct told *t)
{
	cleanup_close int fd = open(path, O_PATH | O_CLOEXEC);
	const struct walk_place place = { .fd = fd, .path = path };
	struct koda_error err = { 0 };
	int r;

	assert_true(fd >= 0);
	r = walk_place_at(o, &place, t, &err);
	if (r < 0)
		fail_msg("%s", err.message);
	return r;
}

static proof_unused void
expect(const struct walk_rules_options *o, struct told *t, const char *want)
{
	assert_int_equal(walk_at(o, root, t), 0);
	assert_string_equal(t->text, want);
}

static const proof_unused struct walk_rules_options no_options;

/* ---- trees ---- */

static proof_unused const char *
in_root(const char *name)
{
	return proof_path("%s/%s", root, name);
}

/* Makes "a/b" or "a/b=content" with its parent directories; "a/" is a directory. */
static proof_unused void
put(const char *spec)
{
	const char *equals = strchr(spec, '=');
	const size_t len = equals != NULL ? (size_t)(equals - spec) : strlen(spec);
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%.*s", (int)len, spec);
	for (char *s = name; (s = strchr(s, '/')) != NULL; s++) {
		*s = '\0';
		proof_mkdir(in_root(name));
		*s = '/';
	}
	if (len > 0 && name[len - 1] != '/')
		proof_put(in_root(name), equals != NULL ? equals + 1 : "");
}

static proof_unused int
set_up(void **state)
{
	proof_mkdtemp(root);
	return 0;
}

static proof_unused int
tear_down(void **state)
{
	proof_rmtree(root);
	return 0;
}

/* ---- cases ---- */

#define TEST(f)                                                                                    \
	(struct CMUnitTest)                                                                        \
	{                                                                                          \
#f, f, set_up, tear_down, NULL                                                     \
	}

#endif
