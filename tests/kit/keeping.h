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
	uint64_t changes, undone;
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
	k->n_entries++;
	return 0;
}

static UNUSED void
look(struct kept *k)
{
	struct koda_error err;

	k->n_entries = 0;
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
turn(struct kept *k, bool redo, enum koda_take take)
{
	const struct koda_undo_options o = { .redo = redo, .take = take };
	struct koda_error err;

	k->told[0] = '\0';
	if (koda_history_undo(k->f.ses, k->id, &o, on_applied, k, &err) != 0)
		fail_msg("%s: %s", redo ? "redo" : "undo", err.message);
	return k->told;
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
