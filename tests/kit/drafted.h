/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A project, a draft that the test makes by hand as overlayfs would, and a real koda-fs-worker that
 * lists what the draft changes, over raw frames.
 */
#ifndef KODA_TESTS_KIT_DRAFTED_H
#define KODA_TESTS_KIT_DRAFTED_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/frame.h"
#include "shared/wire/message.h"
#include "shared/wire/protocol.h"

#define DRAFTED __attribute__((unused)) static

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s: %s", #x, strerror(errno));                                   \
	} while (0)

#define OPAQUE_MARK "user.overlay.opaque"

static char base[PATH_MAX / 8], root[PATH_MAX / 4], upper[PATH_MAX / 4], drafted_dir[PATH_MAX / 4];
/* Of the layer, if it is not the root; "". */
static char layer_path[PATH_MAX / 2];

/* ---- the disk ---- */

static bool project_is_new; /* it was changed in this tick of the file system's clock, maybe */

/* What the draft has is later than the project, in the file system's clock, whose ticks take some
 * milliseconds. */
DRAFTED void
wait_for_tick(void)
{
	char path[PATH_MAX];
	struct stat first, now;
	int fd;

	snprintf(path, sizeof(path), "%s/tick", base);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	must(fd >= 0 && futimens(fd, NULL) == 0 && fstat(fd, &first) == 0);
	do
		must(futimens(fd, NULL) == 0 && fstat(fd, &now) == 0);
	while (now.st_ctim.tv_sec * 1000 + now.st_ctim.tv_nsec / 1000000 <
	    first.st_ctim.tv_sec * 1000 + first.st_ctim.tv_nsec / 1000000 + 20);
	close(fd);
	project_is_new = false;
}

DRAFTED const char *
in(const char *top, const char *name)
{
	static char path[8][2 * PATH_MAX];
	static unsigned next;
	char *p = path[next++ % 8];

	if (top == root)
		project_is_new = true;
	else if (top == upper && project_is_new)
		wait_for_tick();
	snprintf(p, sizeof(path[0]), "%s/%s", top, name);
	return p;
}

DRAFTED void
put(const char *top, const char *name, const char *text)
{
	int fd = open(in(top, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct stat st;

	must(fd >= 0);
	must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	/* As overlayfs marks what it copies from the project, with its time. */
	if (top == upper && lstat(in(root, name), &st) == 0) {
		const struct timespec times[] = { st.st_atim, st.st_mtim };

		must(fsetxattr(fd, "user.overlay.origin", "", 0, 0) == 0);
		must(futimens(fd, times) == 0);
	}
	close(fd);
}

/* Makes directories, each after those above it. */
DRAFTED void
dirs(const char *top, const char *const *names)
{
	for (; *names != NULL; names++)
		must(mkdir(in(top, *names), 0755) == 0 || errno == EEXIST);
}
#define DIRS(top, ...) dirs(top, (const char *const[]){ __VA_ARGS__, NULL })

DRAFTED void
delete_in_draft(const char *name)
{
	must(mknod(in(upper, name), S_IFCHR | 0600, makedev(0, 0)) == 0);
}

DRAFTED void
mark(const char *name, const char *attribute, const char *value)
{
	must(setxattr(in(upper, name), attribute, value, strlen(value), 0) == 0);
}

/* The name's ctime becomes later than that of everything that is there now. */
DRAFTED void
touch_later(const char *path)
{
	struct stat before, after;

	must(lstat(path, &before) == 0);
	do {
		must(utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0);
		must(lstat(path, &after) == 0);
	} while (after.st_ctim.tv_sec * 1000 + after.st_ctim.tv_nsec / 1000000 <
	    before.st_ctim.tv_sec * 1000 + before.st_ctim.tv_nsec / 1000000 + 20);
}

DRAFTED int
drafted_make(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX / 16];
	cleanup_free char *real = NULL;

	snprintf(path, sizeof(path), "%s/drafted.XXXXXX", tmp != NULL ? tmp : "/tmp");
	must(mkdtemp(path) != NULL);
	real = realpath(path, NULL);
	must(real != NULL);
	snprintf(base, sizeof(base), "%s", real);
	snprintf(root, sizeof(root), "%s/root", base);
	snprintf(drafted_dir, sizeof(drafted_dir), "%s/draft", base);
	snprintf(upper, sizeof(upper), "%s/0/u", drafted_dir);
	layer_path[0] = '\0';
	umask(022);
	DIRS(base, "root", "draft", "draft/0", "draft/0/u", "draft/0/w");
	return 0;
}

DRAFTED int
drafted_remove(void **state)
{
	char line[PATH_MAX];

	snprintf(line, sizeof(line), "cd / && chmod -R u+rwX '%s'; rm -rf '%s'", base, base);
	must(system(line) == 0);
	return 0;
}

/* ---- the worker ---- */

struct lister {
	pid_t pid;
	struct frame_stream fs;
	struct arena arena;
	uint64_t id;
	int fd; /* that came with the last reply; -1 */
};

DRAFTED const Koda__Reply *
ask(struct lister *w, Koda__Request *req, int send_fd)
{
	struct koda_error err = { 0 };
	const Koda__Reply *rep;
	const uint8_t *data;
	ssize_t queued;
	size_t len;
	int r;

	arena_reset(&w->arena);
	req->id = w->id++;
	queued = message_queue(&w->fs, &req->base, &err);
	if (queued >= 0 && send_fd >= 0)
		queued = frame_flush_with_fd(&w->fs, (size_t)queued, send_fd, 10000, &err);
	if (queued < 0 || (frame_pending(&w->fs) > 0 && frame_flush(&w->fs, true, &err) != 1))
		fail_msg("%s", err.message);
	while ((r = frame_next(&w->fs, &data, &len, &err)) == 0)
		if (frame_fill(&w->fs, true, &err) < 0)
			fail_msg("the worker ended");
	must(r == 1);
	rep = (const Koda__Reply *)message_unpack(&koda__reply__descriptor, data, len, &w->arena,
	    &err);
	if (rep == NULL)
		fail_msg("%s", err.message);
	assert_int_equal(rep->id, req->id);
	return rep;
}

DRAFTED void
add_rule(struct policy *policy, enum koda_list list, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	must(policy_list_add(&policy->list[list], path, NULL) == 0);
}

DRAFTED void
pack_rules(uint8_t **ret, size_t *ret_len)
{
	struct policy policy;
	struct koda_error err;

	policy_init(&policy);
	must(policy_list_add(&policy.list[KODA_ALLOW_WRITE], root, NULL) == 0);
	add_rule(&policy, KODA_DENY_WRITE_WITHIN_ALLOW, ".vscode");
	add_rule(&policy, KODA_DENY_WRITE_WITHIN_ALLOW, ".envrc");
	add_rule(&policy, KODA_DENY_WRITE_WITHIN_ALLOW, "deep/er/rc");
	add_rule(&policy, KODA_DENY_READ, "secret");
	must(policy_list_add(&policy.list[KODA_DENY_WRITE_NAMES], ".idea", NULL) == 0);
	must(policy_list_add(&policy.list[KODA_DENY_WRITE_NAMES], ".github/hooks", NULL) == 0);
	must(policy_pack(&policy, ret, ret_len, &err) == 0);
	policy_done(&policy);
}

/* draft: a directory with the layer 0 of the directory `path`. */
DRAFTED void
seal_lister(struct lister *w, const char *path, int draft)
{
	static const uint8_t token[TOKEN_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Seal msg = KODA__SEAL__INIT;
	Koda__DraftLayer layer = KODA__DRAFT_LAYER__INIT, *layers[] = { &layer };
	cleanup_free uint8_t *packed = NULL;
	struct stat st;
	size_t len;

	pack_rules(&packed, &len);
	must(stat(path, &st) == 0);
	msg.protocol = KODA_PROTOCOL_VERSION;
	msg.policy = (ProtobufCBinaryData){ len, packed };
	msg.mode = KODA__MODE__MODE_AUTO;
	msg.root = message_text(path);
	layer.path = message_text(layer_path[0] != '\0' ? layer_path : path);
	msg.root_dev = st.st_dev;
	msg.root_ino = st.st_ino;
	if (layer_path[0] != '\0')
		must(stat(layer_path, &st) == 0);
	layer.dev = st.st_dev;
	layer.ino = st.st_ino;
	msg.home = message_text(getenv("HOME"));
	msg.token = (ProtobufCBinaryData){ sizeof(token), (uint8_t *)(uintptr_t)token };
	msg.has_draft = msg.draft = true;
	layer.name = message_text("0");
	msg.draft_layer = layers;
	msg.n_draft_layer = 1;
	req.op_case = KODA__REQUEST__OP_SEAL;
	req.seal = &msg;
	assert_int_equal(ask(w, &req, draft)->result_case, KODA__REPLY__RESULT_READY);
}

DRAFTED void
lister_start_in(struct lister *w, const char *path, const char *draft)
{
	cleanup_close int fd = open(draft, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int sv[2];

	must(fd >= 0);
	*w = (struct lister){ .id = 1, .fd = -1 };
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	w->pid = fork();
	must(w->pid >= 0);
	if (w->pid == 0) {
		if (sv[1] == 3)
			fcntl(3, F_SETFD, 0);
		else
			dup2(sv[1], 3);
		execl(KODA_TEST_HELPER_DIR "/koda-fs-worker", "koda-fs-worker", (char *)NULL);
		_exit(127);
	}
	close(sv[1]);
	frame_init(&w->fs, sv[0]);
	arena_init(&w->arena);
	seal_lister(w, path, fd);
}

DRAFTED void
lister_start(struct lister *w)
{
	lister_start_in(w, root, drafted_dir);
}

DRAFTED void
lister_end(struct lister *w)
{
	int status = 0;

	frame_done(&w->fs);
	arena_done(&w->arena);
	while (waitpid(w->pid, &status, 0) < 0)
		must(errno == EINTR);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the worker ended with status 0x%x", status);
}

/* ---- what it lists ---- */

/* A change as a line: "created file a", then " !RULE" if it is refused, " conflict", " (N)". */
struct list {
	char **line, **path;
	Koda__DraftKind *kind;
	size_t n, room, pages;
	bool cut;
};

DRAFTED void
list_done(struct list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->line[i]);
		free(list->path[i]);
	}
	free(list->line);
	free(list->path);
	free(list->kind);
	*list = (struct list){ 0 };
}

DRAFTED char *
line_of(const Koda__DraftEntry *e, const char *top)
{
	static const char *const kinds[] = { "?", "created", "changed", "deleted", "mode" };
	static const char *const types[] = { "?", "file", "dir", "link", "other" };
	const Koda__DraftSide *side = e->after != NULL ? e->after : e->before;
	char count[32] = "", *line = NULL;

	assert_non_null(side);
	assert_true((e->before == NULL) == (e->kind == KODA__DRAFT_KIND__DRAFT_CREATED));
	assert_true((e->after == NULL) == (e->kind == KODA__DRAFT_KIND__DRAFT_DELETED));
	assert_true((e->has_rule != 0) == (e->has_reason != 0));
	assert_true(!e->has_rule || e->reason.len > 10);
	assert_true(e->path.len > strlen(top) && memcmp(e->path.data, top, strlen(top)) == 0);
	if (e->has_entries && e->entries > 0)
		snprintf(count, sizeof(count), " (%llu)", (unsigned long long)e->entries);
	must(asprintf(&line, "%s %s %.*s%s%.*s%s%s", kinds[e->kind], types[side->type],
		 (int)(e->path.len - strlen(top) - 1), (const char *)e->path.data + strlen(top) + 1,
		 e->has_rule ? " !" : "", (int)e->rule.len, (const char *)e->rule.data,
		 e->conflict ? " conflict" : "", count) > 0);
	return line;
}

DRAFTED void
take_entry(struct list *list, const Koda__DraftEntry *e, const char *top)
{
	if (list->n == list->room) {
		list->room = list->room == 0 ? 256 : 2 * list->room;
		list->line = reallocarray(list->line, list->room, sizeof(*list->line));
		list->path = reallocarray(list->path, list->room, sizeof(*list->path));
		list->kind = reallocarray(list->kind, list->room, sizeof(*list->kind));
		must(list->line != NULL && list->path != NULL && list->kind != NULL);
	}
	list->line[list->n] = line_of(e, top);
	list->path[list->n] = strndup((const char *)e->path.data, e->path.len);
	list->kind[list->n++] = e->kind;
}

/* One page after that change (NULL: the first). Returns the reply, which may be an error. */
DRAFTED const Koda__Reply *
ask_page(struct lister *w, const char *after, Koda__DraftKind kind)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Changes msg = KODA__CHANGES__INIT;

	msg.has_after = msg.has_after_kind = after != NULL;
	if (after != NULL) {
		msg.after = message_text(after);
		msg.after_kind = kind;
	}
	req.op_case = KODA__REQUEST__OP_CHANGES;
	req.changes = &msg;
	return ask(w, &req, -1);
}

/* All that follows that change. */
DRAFTED void
list_after(struct lister *w, const char *top, const char *after, Koda__DraftKind kind,
    struct list *list)
{
	bool more = true;

	*list = (struct list){ 0 };
	while (more) {
		const Koda__Reply *rep = ask_page(w, after, kind);

		if (rep->result_case != KODA__REPLY__RESULT_CHANGES)
			fail_msg("error %d: %.*s", rep->error->code, (int)rep->error->message.len,
			    (const char *)rep->error->message.data);
		for (size_t i = 0; i < rep->changes->n_entry; i++)
			take_entry(list, rep->changes->entry[i], top);
		more = rep->changes->more;
		list->cut |= rep->changes->cut;
		list->pages++;
		if (more) {
			assert_true(list->n > 0);
			after = list->path[list->n - 1];
			kind = list->kind[list->n - 1];
		}
	}
}

DRAFTED void
expect_lines(const struct list *list, const char *const *lines, size_t n)
{
	for (size_t i = 0; i < n || i < list->n; i++) {
		const char *want = i < n ? lines[i] : "(the end)";
		const char *is = i < list->n ? list->line[i] : "(the end)";

		if (strcmp(want, is) != 0) {
			for (size_t k = 0; k < list->n; k++)
				print_message("#   %s\n", list->line[k]);
			fail_msg("change %zu is '%s', not '%s'", i, is, want);
		}
	}
}

/* The draft changes exactly that. */
DRAFTED void
expect_list(const char *const *lines, size_t n)
{
	struct lister w;
	struct list list;

	lister_start(&w);
	list_after(&w, root, NULL, 0, &list);
	expect_lines(&list, lines, n);
	list_done(&list);
	lister_end(&w);
}
#define EXPECT(...)                                                                                \
	expect_list((const char *const[]){ __VA_ARGS__ },                                          \
	    N_ELEMENTS(((const char *const[]){ __VA_ARGS__ })))

#endif
