/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A project whose file operations are kept in the history: a picture of it, what the history says of
 * it, and taking that back.
 */
#ifndef KODA_TESTS_KIT_KEEPING_H
#define KODA_TESTS_KIT_KEEPING_H

#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/kit/hosting.h"

#define TEXT_MAX 16384

struct kept {
	struct fixture f;
	char state[PATH_MAX];
	char id[64];
	uint64_t changes, undone; /* of the last entry */
	double changed;
	uint64_t bytes; /* of all */
	size_t n_entries;
	char listed[4096], told[4096];
	const char *before; /* the project, as it was */
};

static char events[4096];

static UNUSED void
on_event(void *data, enum koda_event_kind kind, const char *text)
{
	if (kind == KODA_EVENT_DEGRADED)
		snprintf(events + strlen(events), sizeof(events) - strlen(events), "%s\n", text);
}

static UNUSED void
shell(const char *script, const char *one)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-ec", script, one, (char *)NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("%s: 0x%x", script, status);
}

/* Names, types, modes, times of content, targets, attributes and content. The caller frees it. */
static UNUSED char *
picture(const struct fixture *f)
{
	static const char script[] =
	    "cd \"$0\" && { find . -mindepth 1 -type d -printf '%P d %m\\n' -o -mindepth 1 "
	    "-printf '%P %y %m %T@ %l\\n' | sort; find . -type f -exec md5sum {} + | sort; "
	    "find . -type f | sort | while read -r f; do "
	    "python3 -c 'import os,sys;p=sys.argv[1];print(p,[(a,os.getxattr(p,a)) for a in "
	    "os.listxattr(p)])' \"$f\"; done; }";
	char *ret = calloc(1, TEXT_MAX);
	size_t len = 0;
	int out[2], status;
	ssize_t n;
	pid_t pid;

	assert_non_null(ret);
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		execl("/bin/sh", "sh", "-c", script, f->root, (char *)NULL);
		_exit(99);
	}
	close(out[1]);
	while ((n = read(out[0], ret + len, TEXT_MAX - 1 - len)) > 0)
		len += (size_t)n;
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return ret;
}

static UNUSED void
assert_picture(const struct fixture *f, const char *expected)
{
	cleanup_free char *now = picture(f);

	assert_string_equal(now, expected);
}

static UNUSED void
arrange(const struct fixture *f)
{
	shell("cd \"$0\"; printf 'one two' >old; touch -d 2020-01-02 old; chmod 640 old; "
	      "printf 'other' >other; touch -d 2020-01-03 other; ln -s old link; "
	      "touch -hd 2020-01-04 link; mkdir -p dir/sub empty; printf a >dir/a; "
	      "printf b >dir/sub/b; chmod 750 dir/sub; touch -d 2020-01-05 dir/a dir/sub/b",
	    f->root);
	setxattr(at(f, "old"), "user.note", "kept", 4, 0);
}

/* ---- every operation ---- */

static const struct koda_edit edit = { "two", 3, "two two!", 8, false };
#define EDIT(p)                                                                                    \
	{                                                                                          \
		.kind = KODA_OP_EDIT, .path = (p), .edits = &edit, .n_edits = 1                    \
	}
#define PUT(p, text)                                                                               \
	{                                                                                          \
		.kind = KODA_OP_WRITE, .path = (p), .data = (text), .len = sizeof(text) - 1        \
	}
#define MKDIR(p)                                                                                   \
	{                                                                                          \
		.kind = KODA_OP_MKDIR, .path = (p), .flags = KODA_PARENTS                          \
	}
#define REMOVE(p)                                                                                  \
	{                                                                                          \
		.kind = KODA_OP_REMOVE, .path = (p), .flags = KODA_RECURSIVE                       \
	}
#define RENAME(p, q, over)                                                                         \
	{                                                                                          \
		.kind = KODA_OP_RENAME, .path = (p), .to = (q),                                    \
		.flags = (over) ? KODA_OVERWRITE : 0                                               \
	}

static const struct scene {
	const char *label, *listed;
	struct koda_op op[6];
	int last; /* point at which a worker of it can stop; 0: not asked */
} scenes[] = {
	{ "replace", "changed old\n", { PUT("old", "new") }, 4 },
	{ "edit", "changed old\n", { EDIT("old") }, 4 },
	{ "create", "created fresh\n", { PUT("fresh", "x") }, 4 },
	{ "create with directories", "created x\ncreated x/y\ncreated x/y/z\n",
	    { PUT("x/y/z", "deep") }, 4 },
	{ "mkdir", "created p\ncreated p/q\n", { MKDIR("p/q") }, 4 },
	{ "remove a file", "deleted old\n", { REMOVE("old") }, 5 },
	{ "remove a link", "deleted link\n", { REMOVE("link") }, 5 },
	{ "remove an empty directory", "deleted empty\n",
	    { { .kind = KODA_OP_REMOVE, .path = "empty" } }, 5 },
	{ "remove a tree", "deleted dir\n", { REMOVE("dir") }, 5 },
	{ "rename", "renamed old moved\n", { RENAME("old", "moved", false) }, 4 },
	{ "rename a directory", "renamed dir dir2\n", { RENAME("dir", "dir2", false) }, 4 },
	{ "rename over a file", "deleted other\nrenamed old other\n",
	    { RENAME("old", "other", true) }, 4 },
	{ "the same file many times",
	    "changed old\nchanged old\nrenamed old moved\nchanged moved\ndeleted moved\ncreated old\n",
	    { PUT("old", "1"), PUT("old", "22"), RENAME("old", "moved", false), PUT("moved", "333"),
		REMOVE("moved"), PUT("old", "4444") },
	    0 },
	{ "a new file, changed and removed", "created n\nchanged n\ndeleted n\n",
	    { PUT("n", "1 two"), EDIT("n"), REMOVE("n") }, 0 },
	{ "a new directory, filled and moved",
	    "created d\ncreated d/e\ncreated d/e/f\nrenamed d g\nchanged g/e/f\n",
	    { PUT("d/e/f", "1"), RENAME("d", "g", false), PUT("g/e/f", "2") }, 0 },
};

/* ---- sessions ---- */

static UNUSED void
begin(struct kept *k, const char *where)
{
	memset(k, 0, sizeof(*k));
	events[0] = '\0';
	fixture_prepare(&k->f, KODA_AUTO);
	snprintf(k->state, sizeof(k->state), "%s/state.XXXXXX", where != NULL ? where : k->f.dir);
	assert_non_null(mkdtemp(k->state));
	setenv("XDG_STATE_HOME", k->state, 1);
	k->f.options.event = on_event;
	arrange(&k->f);
}

static UNUSED void
start(struct kept *k)
{
	fixture_open(&k->f);
	k->f.slot = fixture_acquire(&k->f);
}

static UNUSED void
restart(struct kept *k)
{
	koda_session_close(k->f.ses);
	start(k);
}

static UNUSED void
end(struct kept *k)
{
	fixture_end(&k->f);
	unsetenv("XDG_STATE_HOME");
	shell("rm -rf \"$0\"", k->state);
}

static UNUSED void
run(struct kept *k, const struct scene *s)
{
	struct koda_error err;

	for (size_t i = 0; i < N_ELEMENTS(s->op) && s->op[i].kind != 0; i++)
		assert_code((do_call(k->f.slot, &s->op[i], &err), &err), KODA_OK);
}

/* ---- the history ---- */

static UNUSED int
on_entry(void *data, const struct koda_history_entry *one)
{
	struct kept *k = data;

	assert_int_equal(one->kind, KODA_HISTORY_FILES);
	assert_false(one->unfinished);
	snprintf(k->id, sizeof(k->id), "%s", one->id);
	k->changes = one->changes;
	k->undone = one->undone;
	k->changed = one->changed;
	k->bytes += one->bytes;
	k->n_entries++;
	return 0;
}

static UNUSED void
look(struct kept *k)
{
	struct koda_error err;

	k->n_entries = 0;
	k->bytes = 0;
	if (koda_history_visit(k->f.root, on_entry, k, &err) != 0)
		fail_msg("visit: %s", err.message);
}

static UNUSED const char *
below(const struct kept *k, const char *path)
{
	return path + strlen(k->f.root) + 1;
}

static UNUSED int
on_change(void *data, const struct koda_change *c)
{
	struct kept *k = data;
	const size_t len = strlen(k->listed);

	snprintf(k->listed + len, sizeof(k->listed) - len, "%s %s%s%s%s\n",
	    koda_change_kind_name(c->kind), below(k, c->path), c->to != NULL ? " " : "",
	    c->to != NULL ? below(k, c->to) : "", c->reason != NULL ? " not kept" : "");
	return 0;
}

static UNUSED const char *
list(struct kept *k)
{
	struct koda_error err;

	k->listed[0] = '\0';
	if (koda_history_changes(k->f.root, k->id, on_change, k, &err) != 0)
		fail_msg("changes: %s", err.message);
	return k->listed;
}

static UNUSED int
on_applied(void *data, const struct koda_applied *one)
{
	struct kept *k = data;
	const size_t len = strlen(k->told);

	snprintf(k->told + len, sizeof(k->told) - len, "%s %s %s%s%s\n",
	    koda_apply_outcome_name(one->outcome), koda_change_kind_name(one->kind),
	    below(k, one->path), one->reason != NULL ? ": " : "",
	    one->reason != NULL ? one->reason : "");
	return 0;
}

static UNUSED const char *
turn_with(struct kept *k, const struct koda_undo_options *o)
{
	struct koda_error err;

	k->told[0] = '\0';
	if (koda_history_undo(k->f.ses, k->id, o, on_applied, k, &err) != 0)
		fail_msg("%s: %s", o->redo ? "redo" : "undo", err.message);
	return k->told;
}

static UNUSED const char *
turn(struct kept *k, bool redo, enum koda_take take)
{
	return turn_with(k, &(struct koda_undo_options){ .redo = redo, .take = take });
}

static UNUSED void
assert_all_applied(const struct kept *k)
{
	const char *line = k->told;

	assert_true(*line != '\0');
	for (; *line != '\0'; line = strchr(line, '\n') + 1)
		if (strncmp(line, "applied ", 8) != 0)
			fail_msg("%s", k->told);
}

#endif
