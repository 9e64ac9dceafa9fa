/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks as data: what is there before, what an agent asks for step by step, and what must not
 * come of it. Each is carried out twice in a new world: by a naive tool that does what it is told
 * with the C library, where it has to succeed, or it is no attack; and by a slot, where it has to
 * fail, and the slot has to work as before.
 */
#ifndef KODA_TESTS_ESCAPE_ESCAPE_H
#define KODA_TESTS_ESCAPE_ESCAPE_H

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "include/koda/sandbox.h"
#include "tests/kit/proof_session.h"

#define SETUP_MAX 16
#define STEPS_MAX 10
#define SEEN_MAX  65536
/* A descriptor that the attacked process happens to have open, of a file that may not be read. */
#define OPEN_FD 50

enum verb {
	END = 0,
	WRITE, /* a: path, b: content (NULL: EVIL) */
	READ,
	EDIT, /* a: path; "mark" becomes b (NULL: EVIL) */
	STAT,
	LIST,
	MKDIR,
	REMOVE,
	REMOVE_ALL,
	RENAME, /* a to b */
};

struct step {
	enum verb verb;
	const char *a, *b;
};

/*
 * Paths start at the root; '@' is the directory that holds the root and what is outside; '%p' is
 * the attacked process.
 *
 * The world: @/root, @/root/file (mark), @/root/private/key (SECRET, deny_read) with the readable
 * hole @/root/private/open, @/out/canary, @/out/d/canary, @/home.
 */
struct attack {
	const char *name;
	/* "d path", "f path" (mark), "e path" (empty), "l target path", "h old new", "p path"
	 * (FIFO), "s path" (socket): paths start at @ */
	const char *setup[SETUP_MAX];
	struct step step[STEPS_MAX];
	/* The forbidden outcomes: none of these may happen. */
	bool outside; /* anything outside of the root changed */
	bool secret;  /* SECRET or a name next to it was seen */
	bool hangs;   /* it never ends */
	const char
	    *evil; /* that file (from @) contains EVIL; with '+': all of these do, or exist */
	bool done; /* the slot may succeed, in a way that does no harm */
	enum koda_mode mode; /* 0: auto */
};

struct world {
	char base[PATH_MAX], root[PATH_MAX];
	uint64_t outside;
	char *seen; /* shared with the naive process */
	bool hung;
	unsigned refused;
};

static struct world world;
static pid_t attacked; /* the host */

static const char *
at_base(const char *path)
{
	return proof_path("%s/%s", world.base, path);
}

static void
setup_one(const char *line)
{
	const char *what = line + 2, *space = strrchr(what, ' ');
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	cleanup_close int fd = -1;
	char first[2 * PATH_MAX];

	snprintf(first, sizeof(first), "%.*s", space != NULL ? (int)(space - what) : 0, what);
	switch (line[0]) {
	case 'd':
		proof_mkdir(at_base(what));
		break;
	case 'f':
		proof_put(at_base(what), "mark\n");
		break;
	case 'e':
		proof_put(at_base(what), "");
		break;
	case 'l':
		if (first[0] == '@')
			snprintf(first, sizeof(first), "%s%.*s", world.base,
			    (int)(space - what) - 1, what + 1);
		assert_int_equal(symlink(first, at_base(space + 1)), 0);
		break;
	case 'h':
		assert_int_equal(link(at_base(first), at_base(space + 1)), 0);
		break;
	case 'p':
		assert_int_equal(mkfifo(at_base(what), 0666), 0);
		break;
	case 's':
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", at_base(what));
		assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
		break;
	default:
		fail_msg("setup: %s", line);
	}
}

static uint64_t
sum_outside(void)
{
	return proof_sum(at_base("out")) * 31 + proof_sum(at_base("home"));
}

static void
world_make(const struct attack *a)
{
	static const char *const common[] = { "d root", "f root/file", "d root/sub",
		"d root/private", "d root/private/open", "f root/private/open/note", "d out",
		"f out/canary", "d out/d", "f out/d/canary", "d home", "f home/.bashrc",
		"d home/.config", "d home/.config/koda", "d home/.config/koda/db", "d home/.local",
		"d home/.local/state", "d home/.local/state/koda-sandbox", "d state" };

	proof_mkdtemp(world.base);
	snprintf(world.root, sizeof(world.root), "%s", at_base("root"));
	for (size_t i = 0; i < N_ELEMENTS(common); i++)
		setup_one(common[i]);
	proof_put(at_base("root/private/key"), "SECRET mark\n");
	proof_put(at_base("home/.config/koda/db/sessions"), "SECRET mark\n");
	proof_put(at_base("home/.local/state/koda-sandbox/kept"), "SECRET mark\n");
	for (size_t i = 0; i < SETUP_MAX && a->setup[i] != NULL; i++)
		setup_one(a->setup[i]);
	world.outside = sum_outside();
	world.hung = false;
	world.refused = 0;
	world.seen =
	    mmap(NULL, SEEN_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(world.seen != MAP_FAILED);
}

static void
world_drop(void)
{
	munmap(world.seen, SEEN_MAX);
	proof_rmtree(world.base);
}

static void
saw(const char *data, size_t len)
{
	size_t n = strlen(world.seen);

	for (size_t i = 0; i < len && n + 1 < SEEN_MAX; i++)
		world.seen[n++] = data[i] == '\0' ? '\n' : data[i];
}

/* Reports whether each of the files exists, and one of them is the attacker's. */
static bool
is_evil(const char *paths)
{
	char list[PATH_MAX], *p = list, *one;
	bool evil = false;

	snprintf(list, sizeof(list), "%s", paths);
	while ((one = strtok_r(p, "+", &p)) != NULL) {
		cleanup_free char *now = proof_get(at_base(one));

		if (!proof_exists(at_base(one)))
			return false;
		evil |= now != NULL && strstr(now, "EVIL") != NULL;
	}
	return evil;
}

static bool
is_harmed(const struct attack *a)
{
	return (a->outside && sum_outside() != world.outside) ||
	    (a->secret && strstr(world.seen, "SECRET") != NULL) || (a->hangs && world.hung) ||
	    (a->evil != NULL && is_evil(a->evil));
}

static const char *
path_of(const char *text)
{
	const char *at = strchr(text, '@'), *p = strstr(text, "%p");

	if (at != NULL)
		return proof_path("%.*s%s%s", (int)(at - text), text, world.base, at + 1);
	if (p != NULL)
		return proof_path("%.*s%d%s", (int)(p - text), text, (int)attacked, p + 2);
	return text;
}

/* ---- a naive tool ---- */

static void
naive_parents(const char *path)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *slash = strchr(dir + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(dir, 0755);
		*slash = '/';
	}
}

static void
naive_write(const char *path, const char *text)
{
	cleanup_close int fd = -1;

	naive_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		perror(path);
}

static char *
naive_read(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY);
	size_t n = 0, size = 0;
	char *buf = NULL;
	ssize_t r;

	while (fd >= 0) {
		if (size - n < 4096)
			buf = realloc(buf, size += 4096);
		r = read(fd, buf + n, size - n - 1);
		if (r <= 0)
			break;
		n += (size_t)r;
		if (n > (64u << 20))
			n = 0; /* no terminator */
	}
	if (buf != NULL) {
		buf[n] = '\0';
		saw(buf, n);
	}
	return buf;
}

static void
naive_step(const struct step *s, const char *a, const char *b)
{
	struct dirent *e;
	struct stat st;
	char *text, *at;
	DIR *d;

	switch (s->verb) {
	case WRITE:
		naive_write(a, s->b != NULL ? s->b : "EVIL\n");
		break;
	case READ:
		free(naive_read(a));
		break;
	case EDIT:
		text = naive_read(a);
		at = text != NULL ? strstr(text, "mark") : NULL;
		if (at != NULL) {
			memcpy(at, "EVIL", 4);
			naive_write(a, text);
		}
		free(text);
		break;
	case STAT:
		if (stat(a, &st) == 0)
			saw("SECRET is there", 15);
		break;
	case LIST:
		d = opendir(a);
		while (d != NULL && (e = readdir(d)) != NULL) {
			if (strcmp(e->d_name, "key") == 0)
				saw("SECRET name", 11);
		}
		if (d != NULL)
			closedir(d);
		break;
	case MKDIR:
		naive_parents(a);
		mkdir(a, 0755);
		break;
	case REMOVE:
		remove(a);
		break;
	case REMOVE_ALL:
		proof_rmtree(a);
		break;
	case RENAME:
		rename(a, b);
		break;
	case END:
		break;
	}
}

static void
naive(const struct attack *a)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (chdir(world.root) < 0)
			_exit(1);
		if (a->hangs)
			alarm(1);
		for (const struct step *s = a->step; s->verb != END; s++)
			naive_step(s, path_of(s->a), s->b != NULL ? path_of(s->b) : NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	world.hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
	if (!world.hung)
		assert_int_equal(status, 0);
}

/* ---- a slot ---- */

static void
slot_step(struct koda_slot *slot, const struct step *s)
{
	struct koda_edit edit = { "mark", 4, s->b != NULL ? s->b : "EVIL", 4, true };
	struct koda_op op = { .path = path_of(s->a), .timeout_ms = 10000 };
	struct koda_result res;
	struct koda_error err;

	switch (s->verb) {
	case WRITE:
		op.kind = KODA_OP_WRITE;
		op.data = s->b != NULL ? s->b : "EVIL\n";
		op.len = strlen(op.data);
		break;
	case READ:
		op.kind = KODA_OP_READ;
		break;
	case EDIT:
		op.kind = KODA_OP_EDIT;
		edit.new_len = strlen(edit.new_text);
		op.edits = &edit;
		op.n_edits = 1;
		break;
	case STAT:
		op.kind = KODA_OP_STAT;
		break;
	case LIST:
		op.kind = KODA_OP_LIST;
		break;
	case MKDIR:
		op.kind = KODA_OP_MKDIR;
		op.flags = KODA_PARENTS;
		break;
	case REMOVE:
		op.kind = KODA_OP_REMOVE;
		break;
	case REMOVE_ALL:
		op.kind = KODA_OP_REMOVE;
		op.flags = KODA_RECURSIVE;
		break;
	case RENAME:
		op.kind = KODA_OP_RENAME;
		op.flags = KODA_OVERWRITE;
		op.to = path_of(s->b);
		break;
	case END:
		return;
	}
	if (koda_call(slot, &op, &res, &err) < 0) {
		world.refused++;
		saw(err.message, strlen(err.message));
		if (err.code == KODA_TIMEOUT)
			world.hung = true;
		if (err.code == KODA_WORKER || err.code == KODA_PROTOCOL ||
		    err.code == KODA_INTERNAL)
			fail_msg("%s: %s", op.path, err.message);
		return;
	}
	if (s->verb == STAT)
		saw("SECRET is there", 15);
	saw((const char *)res.data, res.len);
	for (size_t i = 0; i < res.n_entries; i++) {
		if (strcmp(res.entries[i].name, "key") == 0)
			saw("SECRET name", 11);
	}
	koda_result_done(&res);
}

static struct koda_policy *
escape_policy(enum koda_mode mode)
{
	struct koda_error err;
	struct koda_policy *p = koda_policy_for_agent(mode, world.root, &err);

	if (p == NULL)
		fail_msg("policy: %s", err.message);
	assert_int_equal(koda_policy_add(p, KODA_DENY_READ, at_base("root/private"), &err), 0);
	assert_int_equal(koda_policy_add(p, KODA_ALLOW_READ_WITHIN_DENY,
			     at_base("root/private/open"), &err),
	    0);
	assert_int_equal(koda_policy_freeze(p, &err), 0);
	return p;
}

static void
sandboxed(const struct attack *a)
{
	const enum koda_mode mode = a->mode != 0 ? a->mode : KODA_AUTO;
	struct koda_policy *policy = escape_policy(mode);
	struct koda_session *ses;
	struct koda_slot *slot;
	struct koda_result res;
	struct koda_error err;
	struct koda_stats stats;
	int pid;

	setenv("HOME", at_base("home"), 1);
	/* The history of what the attack changes is the host's, and no harm. */
	setenv("XDG_STATE_HOME", at_base("state"), 1);
	ses = proof_session(world.root, mode, policy, NULL);
	slot = proof_slot(ses);
	pid = koda_slot_pid(slot);
	for (const struct step *s = a->step; s->verb != END; s++)
		slot_step(slot, s);

	/* The worker is still the same process, and works as before. */
	if (mode == KODA_AUTO) {
		if (koda_fs_write(slot, "sub/after", "after\n", 6, &res, &err) < 0)
			fail_msg("afterwards: %s", err.message);
		koda_result_done(&res);
		assert_true(proof_holds(at_base("root/sub/after"), "after\n"));
	}
	if (koda_fs_read(slot, "private/open/note", &res, &err) < 0)
		fail_msg("afterwards: %s", err.message);
	koda_result_done(&res);
	assert_int_equal(koda_slot_pid(slot), pid);
	koda_session_stats(ses, &stats);
	assert_int_equal(stats.respawns, 0);
	koda_slot_release(slot);
	koda_session_close(ses);
	koda_policy_free(policy);
	assert_int_equal(proof_temps(world.base), 0);
}

static void
run_attack(void **state)
{
	const struct attack *a = *state;

	world_make(a);
	naive(a);
	if (!is_harmed(a))
		fail_msg("%s is no attack: it fails without the sandbox too", a->name);
	world_drop();

	world_make(a);
	sandboxed(a);
	if (is_harmed(a))
		fail_msg("%s succeeds; seen: %s", a->name, world.seen);
	/* Whatever else the slot did: nothing outside changed, and it saw no secret. */
	assert_int_equal(sum_outside(), world.outside);
	assert_null(strstr(world.seen, "SECRET"));
	if (!a->done && world.refused == 0)
		fail_msg("%s: nothing was refused", a->name);
	if (a->done && world.refused > 0)
		fail_msg("%s: can be done without harm, but was refused: %s", a->name, world.seen);
	world_drop();
}

static int
run_attacks(const char *group, const struct attack *attacks, size_t n)
{
	struct CMUnitTest *tests = calloc(n, sizeof(*tests));
	int failed;

	if (tests == NULL)
		return 1;
	attacked = getpid();
	for (size_t i = 0; i < n; i++)
		tests[i] = (struct CMUnitTest){ attacks[i].name, run_attack, NULL, NULL,
			(void *)(uintptr_t)&attacks[i] };
	failed = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
	free(tests);
	return failed;
}

#endif
