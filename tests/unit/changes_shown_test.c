/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/changes.c, changes_show.c, changes_stat.c: how the changes of a draft are shown. Commands chose
 * every name, target and content here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/changes_show.h"
#include "tests/kit/sheet.h"

/* The files that the reader finds. */
struct file {
	const char *path;
	bool before;
	const char *text;
	size_t len; /* 0: as long as the string */
};

struct scene {
	struct changes changes;
	struct changes_reader reader;
	struct changes_view view;
	const struct file *files;
	unsigned reads;
	struct sheet sheet;
};

static void
read_file(void *data, const char *path, bool before, size_t max, struct changes_content *ret)
{
	struct scene *s = data;

	s->reads++;
	*ret = (struct changes_content){ 0 };
	for (const struct file *f = s->files; f != NULL && f->path != NULL; f++) {
		const size_t len = f->len > 0 ? f->len : strlen(f->text);

		if (f->before != before || strcmp(f->path, path) != 0)
			continue;
		ret->whole = len <= max;
		ret->len = ret->whole ? len : max;
		ret->data = malloc(ret->len + 1);
		assert_non_null(ret->data);
		memcpy(ret->data, f->text, ret->len);
		if (memchr(f->text, '\0', len) != NULL)
			strcpy(ret->digest, before ? "d1" : "d2");
	}
}

static void
begin(struct scene *s, const struct file *files, enum page_style style)
{
	*s = (struct scene){ .files = files };
	s->reader = (struct changes_reader){ read_file, s };
	s->view = (struct changes_view){ &s->changes, &s->reader, "/p", "/p" };
	sheet_begin(&s->sheet, style);
}

static void
end(struct scene *s)
{
	sheet_end(&s->sheet);
	changes_done(&s->changes);
}

#define REGULAR(n)                                                                                 \
	&(const struct koda_change_side)                                                           \
	{                                                                                          \
		.type = KODA_FILE_REGULAR, .size = (n), .mode = 0644                               \
	}
#define DIRECTORY                                                                                  \
	&(const struct koda_change_side)                                                           \
	{                                                                                          \
		.type = KODA_FILE_DIRECTORY, .mode = 0755                                          \
	}

static void
add(struct scene *s, const char *path, const struct koda_change_side *before,
    const struct koda_change_side *after)
{
	const struct koda_change change = { .path = path,
		.kind = before == NULL ? KODA_CHANGE_CREATED
		    : after == NULL    ? KODA_CHANGE_DELETED
				       : KODA_CHANGE_CHANGED,
		.before = before,
		.after = after };

	changes_add(&s->changes, &change);
}

static void
finish(struct scene *s)
{
	changes_pair(&s->changes, &s->reader);
	changes_finish(&s->changes);
}

static const char *
summary(struct scene *s)
{
	finish(s);
	changes_show_counts(&s->sheet.page, &s->changes);
	page_print(&s->sheet.page, "\n");
	changes_show_summary(&s->sheet.page, &s->view);
	return sheet_read(&s->sheet);
}

static const char *
diffs(struct scene *s, bool patch)
{
	finish(s);
	changes_show_diffs(&s->sheet.page, &s->view, 0, SIZE_MAX, SIZE_MAX, patch);
	return sheet_read(&s->sheet);
}

static void
important_ones_first(void **state)
{
	const struct koda_change refused = { .path = "/p/.git/hooks/pre-commit",
		.kind = KODA_CHANGE_CREATED,
		.after = REGULAR(9),
		.rule = "deny_write",
		.reason = "git runs it" };
	const struct koda_change conflict = { .path = "/p/both",
		.kind = KODA_CHANGE_CHANGED,
		.before = REGULAR(1),
		.after = REGULAR(2),
		.conflict = true };
	const struct koda_change mode = { .path = "/p/run",
		.kind = KODA_CHANGE_MODE,
		.before = &(struct koda_change_side){ KODA_FILE_REGULAR, 3, 0644, 0, NULL },
		.after = &(struct koda_change_side){ KODA_FILE_REGULAR, 3, 0755, 0, NULL } };
	const struct koda_change gone = { .path = "/p/old",
		.kind = KODA_CHANGE_DELETED,
		.before = DIRECTORY,
		.entries = 12 };
	struct scene s;

	begin(&s, NULL, PAGE_TERMINAL);
	changes_add(&s.changes, &refused);
	changes_add(&s.changes, &conflict);
	changes_add(&s.changes, &mode);
	changes_add(&s.changes, &gone);
	add(&s, "/p/new/sub/x", NULL, REGULAR(20));
	add(&s, "/p/new", NULL, DIRECTORY);
	add(&s, "/p/new/sub", NULL, DIRECTORY);
	add(&s, "/p/new-er", NULL, REGULAR(4));
	add(&s, "/p/a", REGULAR(10), REGULAR(30));
	assert_string_equal(summary(&s),
	    "2 changed, 1 deleted, 5 created, 1 with other permissions (65 bytes); 1 conflict, "
	    "1 refused by the policy\n"
	    "  changed  a (10 -> 30 bytes)\n"
	    "  deleted  old/ (with 12 names in it)\n"
	    "  created  new/ (1 file in it, 20 bytes)\n"
	    "  created  new-er (4 bytes)\n"
	    "  mode     run (0644 -> 0755)\n"
	    "  CONFLICT changed both (1 -> 2 bytes): it changed in the project since\n"
	    "  REFUSED  created .git/hooks/pre-commit (9 bytes): git runs it (deny_write)\n");
	end(&s);
}

/* A reason does not repeat what stands before it. */
static void
reasons(void **state)
{
	static const struct {
		const char *reason, *shown;
		bool has_rule;
	} cases[] = {
		{ "why", "why", false },
		{ "refused to write '/p/a': why (rule r1, mode safe)", "why (rule r1, mode safe)",
		    true },
		{ "refused to write '/p/a': r1 names '/p/a' (rule r1, mode safe). 'a' is protected: x",
		    "'a' is protected: x", false },
		{ "refused to write '/p/b': why", "refused to write '/p/b': why", false },
		{ " is protected: x", " is protected: x", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool has_rule;

		assert_string_equal(changes_reason(cases[i].reason, "/p/a", "r1", &has_rule),
		    cases[i].shown);
		assert_int_equal(has_rule, cases[i].has_rule);
	}
}

/* However much was created, what needs attention is shown, and the rest is counted. */
static void
many(void **state)
{
	const char *text;
	struct scene s;

	begin(&s, NULL, PAGE_TERMINAL);
	for (int i = 0; i < 100000; i++) {
		char path[300];
		const struct koda_change one = { .path = path,
			.kind = KODA_CHANGE_CREATED,
			.after = REGULAR(1),
			.rule = i % 1000 == 0 ? "deny_write_names" : NULL,
			.reason = "tools obey it" };

		snprintf(path, sizeof(path), "/p/%05d", i);
		changes_add(&s.changes, &one);
	}
	text = summary(&s);
	assert_non_null(strstr(text, "  ... and 99870 more\n"));
	assert_non_null(strstr(text, "  REFUSED  created 00000 "));
	assert_non_null(strstr(text, "  ... and 90 more refused\n"));
	end(&s);
}

static void
not_all_kept(void **state)
{
	char path[4096];
	const char *text;
	struct scene s;

	begin(&s, NULL, PAGE_TERMINAL);
	memset(path, 'x', sizeof(path));
	for (int i = 0; i < 20000; i++) {
		snprintf(path, sizeof(path), "/p/%05d", i);
		path[8] = 'x';
		path[sizeof(path) - 1] = '\0';
		add(&s, path, NULL, REGULAR(1));
	}
	assert_true(s.changes.bytes < CHANGES_BYTES_MAX + 8192);
	text = summary(&s);
	assert_non_null(strstr(text, "20000 created"));
	assert_non_null(strstr(text, " more that do not fit here\n"));
	end(&s);
}

/* No name can look like our own text, or act on a terminal. */
static void
hostile_names(void **state)
{
	const struct koda_change refused = { .path = "/p/x\033[2J",
		.kind = KODA_CHANGE_CREATED,
		.after = REGULAR(1),
		.rule = "r\nule",
		.reason = "rea\033son" };
	const struct koda_change link = { .path = "/p/l",
		.kind = KODA_CHANGE_CREATED,
		.after = &(struct koda_change_side){ KODA_FILE_SYMLINK, 0, 0777, 0, "/e\ttc" } };
	const char *text;
	struct scene s;

	begin(&s, NULL, PAGE_COLOUR);
	add(&s, "/p/a\n  changed  b", NULL, REGULAR(1));
	add(&s, "/p/quote' (9 bytes)", NULL, REGULAR(1));
	add(&s, "/p/\xff\xe2\x80\xae", NULL, REGULAR(1));
	changes_add(&s.changes, &refused);
	changes_add(&s.changes, &link);
	text = summary(&s);
	assert_non_null(strstr(text, "'a\\x0a  changed  b' (1 byte)\n"));
	assert_non_null(strstr(text, "'quote\\' (9 bytes)' (1 byte)\n"));
	assert_non_null(strstr(text, "\\xff\\u{202e}"));
	assert_non_null(strstr(text, "'x\\x1b[2J' (1 byte): rea\\x1bson (r\\x0aule)\n"));
	assert_non_null(strstr(text, "l -> '/e\\x09tc'\n"));
	assert_null(strstr(text, "\033[2J"));
	end(&s);
}

#define COMMIT_A "1111111aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define COMMIT_B "2222222bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void
git_is_one_line(void **state)
{
	static const struct file files[] = {
		{ "/p/.git/refs/heads/main", true, COMMIT_A "\n", 0 },
		{ "/p/.git/refs/heads/main", false, COMMIT_B "\n", 0 },
		{ "/p/.git/refs/heads/new", false, COMMIT_B "\n", 0 },
		{ "/p/.git/HEAD", true, "ref: refs/heads/main\n", 0 },
		{ "/p/.git/HEAD", false, "ref: refs/heads/new\n", 0 },
		{ NULL, false, NULL, 0 },
	};
	struct scene s;

	begin(&s, files, PAGE_TERMINAL);
	add(&s, "/p/.git/objects/11", NULL, DIRECTORY);
	add(&s, "/p/.git/objects/11/11", NULL, REGULAR(100));
	add(&s, "/p/.git/refs/heads/main", REGULAR(41), REGULAR(41));
	add(&s, "/p/.git/refs/heads/new", NULL, REGULAR(41));
	add(&s, "/p/.git/HEAD", REGULAR(21), REGULAR(20));
	add(&s, "/p/.github", NULL, REGULAR(1));
	assert_string_equal(diffs(&s, false),
	    "  git      .git/ (4 files); HEAD main -> new; main 1111111 -> 2222222; new at 2222222\n"
	    "created .github (1 byte)\nits content could not be read\n+ 1 byte\n");
	end(&s);
}

static void
renamed(void **state)
{
	static const struct file files[] = {
		{ "/p/a", true, "same\n", 0 },
		{ "/p/b", true, "abcd\n", 0 },
		{ "/p/d/b", false, "same\n", 0 },
		{ "/p/c", false, "efgh\n", 0 },
		{ NULL, false, NULL, 0 },
	};
	struct scene s;

	begin(&s, files, PAGE_TERMINAL);
	add(&s, "/p/a", REGULAR(5), NULL);
	add(&s, "/p/b", REGULAR(5), NULL);
	add(&s, "/p/c", NULL, REGULAR(5));
	add(&s, "/p/d", NULL, DIRECTORY);
	add(&s, "/p/d/b", NULL, REGULAR(5));
	assert_string_equal(summary(&s),
	    "2 deleted, 3 created (10 bytes)\n"
	    "  deleted  b\n"
	    "  renamed  a -> d/b\n"
	    "  created  c (5 bytes)\n"
	    "  created  d/\n");
	end(&s);
}

#define GONE(n)                                                                                    \
	&(const struct koda_change)                                                                \
	{                                                                                          \
		.path = "/p/old", .kind = KODA_CHANGE_DELETED, .before = DIRECTORY, .entries = (n) \
	}

/* A directory is one line if all of it, and nothing else, is in the new one. */
static void
renamed_directory(void **state)
{
	static const struct file files[] = {
		{ "/p/old/a", true, "same\n", 0 },
		{ "/p/old/in/b", true, "", 0 },
		{ "/p/new/a", false, "same\n", 0 },
		{ "/p/new/in/b", false, "", 0 },
		{ "/p/other", false, "same\n", 0 },
		{ NULL, false, NULL, 0 },
	};
	static const struct {
		uint64_t entries, size;
		bool one;
	} cases[] = { { 3, 5, true }, { 4, 5, false }, { 3, 1 << 21, false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene s;

		begin(&s, files, PAGE_TERMINAL);
		changes_add(&s.changes, GONE(cases[i].entries));
		add(&s, "/p/new", NULL, DIRECTORY);
		add(&s, "/p/new/a", NULL, REGULAR(cases[i].size));
		add(&s, "/p/new/in", NULL, DIRECTORY);
		add(&s, "/p/new/in/b", NULL, REGULAR(0));
		add(&s, "/p/other", NULL, REGULAR(5));
		summary(&s);
		if (cases[i].one)
			assert_string_equal(s.sheet.p,
			    "1 deleted, 5 created (10 bytes)\n"
			    "  renamed  old/ -> new/ (3 names in it)\n"
			    "  created  other (5 bytes)\n");
		else
			assert_null(strstr(s.sheet.p, "renamed"));
		end(&s);
	}
}

/* The work for recognising renamed files has a limit. */
static void
pairs_are_limited(void **state)
{
	struct scene s;

	begin(&s, NULL, PAGE_TERMINAL);
	for (int i = 0; i < 2000; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/p/gone/%d", i);
		add(&s, path, REGULAR(7), NULL);
		snprintf(path, sizeof(path), "/p/come/%d", i);
		add(&s, path, NULL, REGULAR(7));
	}
	finish(&s);
	assert_in_range(s.reads, 2, 200);
	end(&s);
}

static void
patch(void **state)
{
	static const struct file files[] = {
		{ "/p/a", true, "one\ntwo\n", 0 },
		{ "/p/a", false, "one\n2\n", 0 },
		{ "/p/n", false, "new\n", 0 },
		{ "/p/bin", true, "a\0b", 3 },
		{ "/p/bin", false, "a\0bc", 4 },
		{ NULL, false, NULL, 0 },
	};
	struct scene s;

	begin(&s, files, PAGE_MESSAGE);
	add(&s, "/p/a", REGULAR(8), REGULAR(6));
	add(&s, "/p/n", NULL, REGULAR(4));
	add(&s, "/p/bin", REGULAR(3), REGULAR(4));
	assert_string_equal(diffs(&s, true),
	    "changed a (8 -> 6 bytes)\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
	    "changed bin (3 -> 4 bytes)\nbinary file\n- 3 bytes, BLAKE2b d1\n+ 4 bytes, BLAKE2b d2\n"
	    "created n (4 bytes)\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+new\n");
	end(&s);
}

/* A diff that the user asked for has all lines, however long they are. */
static void
whole(void **state)
{
	char *text = malloc(20000 * 3 + 1);
	const char *shown;
	size_t n = 0;
	struct file files[] = { { "/p/n", false, text, 0 }, { NULL, false, NULL, 0 } };
	struct scene s;

	assert_non_null(text);
	for (size_t i = 0; i < 20000; i++)
		strcpy(text + 3 * i, i % 100 < 10 ? "\n\n\n" : "xy\n");
	begin(&s, files, PAGE_MESSAGE);
	s.sheet.page.medium.whole = true;
	add(&s, "/p/n", NULL, REGULAR(60000));
	shown = diffs(&s, false);
	assert_null(strstr(shown, "left out"));
	for (const char *p = shown; (p = strstr(p, "\n+")) != NULL; p++)
		n++;
	assert_int_equal(n, 18000 + 3 * 2000);
	assert_false(s.sheet.page.cut);
	end(&s);
	free(text);
}

static void
stat(void **state)
{
	static const struct file files[] = {
		{ "/p/a", true, "one\ntwo\n", 0 },
		{ "/p/a", false, "one\n2\n3\n", 0 },
		{ "/p/src/n", false, "new\n", 0 },
		{ "/p/bin", true, "a\0b", 3 },
		{ "/p/bin", false, "a\0bc", 4 },
		{ NULL, false, NULL, 0 },
	};
	const struct koda_change refused = { .path = "/p/.git/hooks/h",
		.kind = KODA_CHANGE_CREATED,
		.after = REGULAR(4),
		.rule = "git_config" };
	struct scene s;

	begin(&s, files, PAGE_TERMINAL);
	add(&s, "/p/a", REGULAR(8), REGULAR(8));
	add(&s, "/p/src", NULL, DIRECTORY);
	add(&s, "/p/src/n", NULL, REGULAR(4));
	add(&s, "/p/bin", REGULAR(3), REGULAR(4));
	add(&s, "/p/.git/x", NULL, REGULAR(3));
	changes_add(&s.changes, &refused);
	finish(&s);
	changes_show_stat(&s.sheet.page, &s.view);
	assert_string_equal(sheet_read(&s.sheet),
	    " .git/hooks/h | Bin 0 -> 4 bytes refused (git_config)\n a            | 3 ++-\n"
	    " bin          | Bin 3 -> 4 bytes\n src/n        | 1 +\n  git      .git/ (1 file)\n"
	    " 4 files changed, 3 insertions(+), 1 deletion(-)\n");
	end(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(important_ones_first),
		cmocka_unit_test(reasons),
		cmocka_unit_test(many),
		cmocka_unit_test(not_all_kept),
		cmocka_unit_test(hostile_names),
		cmocka_unit_test(git_is_one_line),
		cmocka_unit_test(renamed_directory),
		cmocka_unit_test(renamed),
		cmocka_unit_test(pairs_are_limited),
		cmocka_unit_test(patch),
		cmocka_unit_test(whole),
		cmocka_unit_test(stat),
	};

	return cmocka_run_group_tests_name("changes_shown", tests, NULL, NULL);
}
