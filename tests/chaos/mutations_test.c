/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many changes over eight slots while their workers are killed at any moment. Afterwards the disk
 * matches a model that believes only the answers: a change answered with success is there exactly
 * once (lines are numbered), one answered with an error is not there, and nothing unfinished is
 * left.
 *
 * KODA_CHAOS_OPS: how many changes in all. KODA_SOAK_SECONDS: for how long in all instead.
 */
#include <signal.h>

#include "include/koda/sandbox.h"
#include "tests/kit/proof_session.h"

#define OPS         3000
#define SLOTS       8
#define OUTSTANDING 12
#define FILES       5
#define TREES       3
#define BATCH       400 /* changes between two checks of the disk */
#define LINE_MAX_   64
#define LARGE       (96u << 10) /* sent as a descriptor */

/* ---- the model ---- */

struct file {
	char path[96]; /* from the root */
	char *text;
};

struct model {
	struct file file[256];
	size_t n_files;
	char dir[128][96];
	size_t n_dirs;
};

static struct file *
model_file(struct model *m, const char *path)
{
	for (size_t i = 0; i < m->n_files; i++) {
		if (strcmp(m->file[i].path, path) == 0)
			return &m->file[i];
	}
	return NULL;
}

static bool
model_has_dir(const struct model *m, const char *path)
{
	for (size_t i = 0; i < m->n_dirs; i++) {
		if (strcmp(m->dir[i], path) == 0)
			return true;
	}
	return false;
}

static void
model_add_dir(struct model *m, const char *path)
{
	if (model_has_dir(m, path))
		return;
	assert_true(m->n_dirs < N_ELEMENTS(m->dir));
	snprintf(m->dir[m->n_dirs++], sizeof(m->dir[0]), "%s", path);
}

static void
model_add_parents(struct model *m, const char *path)
{
	char dir[96];

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *slash = strchr(dir, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		model_add_dir(m, dir);
		*slash = '/';
	}
}

static bool
model_has_parent(const struct model *m, const char *path)
{
	char dir[96], *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash == NULL)
		return true;
	*slash = '\0';
	return model_has_dir(m, dir);
}

static void
model_put(struct model *m, const char *path, const char *text)
{
	struct file *f = model_file(m, path);

	if (f == NULL) {
		assert_true(m->n_files < N_ELEMENTS(m->file));
		f = &m->file[m->n_files++];
		snprintf(f->path, sizeof(f->path), "%s", path);
		f->text = NULL;
	}
	free(f->text);
	f->text = strdup(text);
	assert_non_null(f->text);
}

static void
model_drop(struct model *m, struct file *f)
{
	free(f->text);
	*f = m->file[--m->n_files];
}

static void
model_drop_tree(struct model *m, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < m->n_files;) {
		if (strncmp(m->file[i].path, path, len) == 0 && m->file[i].path[len] == '/')
			model_drop(m, &m->file[i]);
		else
			i++;
	}
	for (size_t i = 0; i < m->n_dirs;) {
		if (strncmp(m->dir[i], path, len) == 0 &&
		    (m->dir[i][len] == '/' || m->dir[i][len] == '\0'))
			memcpy(m->dir[i], m->dir[--m->n_dirs], sizeof(m->dir[0]));
		else
			i++;
	}
}

/* ---- a change ---- */

enum act {
	WRITE,     /* new content, small or too large for a frame */
	WRITE_NEW, /* only if the file does not exist */
	APPEND,    /* one more numbered line, by an edit */
	REMOVE,
	RENAME,
	RENAME_OVER,
	MKDIR,
	REMOVE_TREE,
	WRITE_SHARED, /* in a directory that all slots race to make */
	N_ACTS,
};

static const char *const act_names[] = { "write", "write new", "append", "remove", "rename",
	"rename over", "mkdir", "remove tree", "write shared" };

struct lane;

struct change {
	struct lane *lane;
	struct change *next;
	enum act act;
	uint64_t number;
	char path[96], to[96];
	char *text; /* write */
	char line[LINE_MAX_];
	bool answered;
	enum koda_code code; /* KODA_OK: it reports success */
	char message[KODA_MESSAGE_MAX];
	bool recovered;
};

struct lane {
	struct run *run;
	struct koda_slot *slot;
	unsigned index, outstanding;
	uint64_t answers, answers_at_kill;
	unsigned kills_in_a_row;
	struct change *first, **last; /* in the order of the requests */
};

struct run {
	char root[PATH_MAX];
	struct rng rng;
	struct model model;
	struct lane lane[SLOTS];
	struct koda_session *ses;
	uint64_t sent, kills, done[N_ACTS], refused, given_up, recovered;
};

/* An edit replaces this last line, which is in every file once. */
#define END "end\n"

static void
say_change(const struct change *c, const char *what)
{
	fail_msg("%s %s (%s), number %llu in slot %u: %s (answered: %d %s)", act_names[c->act],
	    c->path, c->to, (unsigned long long)c->number, c->lane->index, what, (int)c->code,
	    c->message);
}

/* Reports whether the model allows the change. */
static bool
is_possible(struct model *m, const struct change *c)
{
	switch (c->act) {
	case WRITE:
	case WRITE_SHARED:
		return true;
	case WRITE_NEW:
		return model_file(m, c->path) == NULL;
	case APPEND:
	case REMOVE:
		return model_file(m, c->path) != NULL;
	case RENAME:
		return model_file(m, c->path) != NULL && model_file(m, c->to) == NULL &&
		    model_has_parent(m, c->to);
	case RENAME_OVER:
		return model_file(m, c->path) != NULL && model_has_parent(m, c->to);
	case MKDIR:
		return !model_has_dir(m, c->path) && model_has_parent(m, c->path);
	case REMOVE_TREE:
		return model_has_dir(m, c->path);
	case N_ACTS:
		break;
	}
	return false;
}

static void
apply(struct model *m, const struct change *c)
{
	struct file *f = model_file(m, c->path);
	char *text = NULL;

	switch (c->act) {
	case WRITE:
	case WRITE_NEW:
	case WRITE_SHARED:
		model_add_parents(m, c->path);
		model_put(m, c->path, c->text);
		break;
	case APPEND:
		if (asprintf(&text, "%.*s%s" END, (int)(strlen(f->text) - strlen(END)), f->text,
			c->line) < 0)
			fail();
		free(f->text);
		f->text = text;
		break;
	case REMOVE:
		model_drop(m, f);
		break;
	case RENAME:
	case RENAME_OVER:
		if (strcmp(c->path, c->to) == 0)
			break;
		model_put(m, c->to, f->text);
		model_drop(m, model_file(m, c->path));
		break;
	case MKDIR:
		model_add_dir(m, c->path);
		break;
	case REMOVE_TREE:
		model_drop_tree(m, c->path);
		break;
	case N_ACTS:
		break;
	}
}

/* Checks whether the answers are possible in the order of the requests, and updates the model. */
static void
settle(struct lane *lane)
{
	struct run *run = lane->run;

	while (lane->first != NULL && lane->first->answered) {
		struct change *c = lane->first;
		bool possible = is_possible(&run->model, c);

		if (c->code == KODA_OK) {
			if (!possible)
				say_change(c, "cannot have been done");
			apply(&run->model, c);
			run->done[c->act]++;
			run->recovered += c->recovered;
		} else if (c->code == KODA_WORKER) {
			/* Its workers died twice during it, and it reports that it did not
			 * happen. */
			run->given_up++;
		} else if (c->code == KODA_IO || c->code == KODA_CONFLICT) {
			if (possible)
				say_change(c, "could have been done");
			run->refused++;
		} else {
			say_change(c, "is no answer that can be");
		}
		lane->first = c->next;
		if (lane->first == NULL)
			lane->last = &lane->first;
		free(c->text);
		free(c);
	}
}

static void
change_done(void *data, const struct koda_result *res, const struct koda_error *err)
{
	struct change *c = data;

	if (c->answered)
		say_change(c, "was answered twice");
	c->answered = true;
	c->lane->outstanding--;
	c->lane->answers++;
	if (err != NULL) {
		c->code = err->code;
		snprintf(c->message, sizeof(c->message), "%s", err->message);
	} else {
		c->recovered = res->recovered;
	}
}

static char *
new_text(struct run *run, const char *line)
{
	const unsigned n = rng_below(&run->rng, 12);
	/* Empty except for the last line; small; now and then larger than a frame. */
	size_t pad = n == 0 ? LARGE : n < 3 ? 0 : rng_below(&run->rng, 3000);
	size_t len = strlen(line);
	char *text = malloc(len + pad + sizeof(END) + 1);

	assert_non_null(text);
	memcpy(text, line, len);
	memset(text + len, 'x', pad);
	if (pad > 0)
		text[len + pad++] = '\n';
	strcpy(text + len + pad, END);
	return text;
}

static void
any_file(struct lane *lane, char ret[96])
{
	struct rng *r = &lane->run->rng;

	if (rng_below(r, 3) == 0)
		snprintf(ret, 96, "s%u/t%u/a/f%u", lane->index, rng_below(r, TREES),
		    rng_below(r, 2));
	else if (rng_below(r, 4) == 0)
		snprintf(ret, 96, "common/s%u-%u", lane->index, rng_below(r, 2));
	else
		snprintf(ret, 96, "s%u/f%u", lane->index, rng_below(r, FILES));
}

static void
send_one(struct lane *lane)
{
	static const enum act odds[] = { WRITE, WRITE, WRITE_NEW, APPEND, APPEND, APPEND, APPEND,
		APPEND, REMOVE, RENAME, RENAME_OVER, MKDIR, REMOVE_TREE, WRITE_SHARED };
	struct run *run = lane->run;
	struct rng *r = &run->rng;
	struct change *c = calloc(1, sizeof(*c));
	char replacement[LINE_MAX_ + sizeof(END)];
	struct koda_edit edit = { END, strlen(END), replacement, 0, false };
	struct koda_op op = { .path = NULL };
	struct koda_error err;

	assert_non_null(c);
	c->lane = lane;
	c->number = ++run->sent;
	c->act = odds[rng_below(r, N_ELEMENTS(odds))];
	snprintf(c->line, sizeof(c->line), "line %llu of slot %u\n", (unsigned long long)c->number,
	    lane->index);
	any_file(lane, c->path);
	any_file(lane, c->to);
	op.path = c->path;
	switch (c->act) {
	case WRITE_SHARED:
		/* The numbering makes the slots collide in directories that do not exist yet. */
		snprintf(c->path, sizeof(c->path), "shared/%llu/x/s%u",
		    (unsigned long long)(c->number / 64) % 20, lane->index);
		/* fall through */
	case WRITE:
	case WRITE_NEW:
		op.kind = KODA_OP_WRITE;
		op.if_absent = c->act == WRITE_NEW;
		c->text = new_text(run, c->line);
		op.data = c->text;
		op.len = strlen(c->text);
		break;
	case APPEND:
		op.kind = KODA_OP_EDIT;
		snprintf(replacement, sizeof(replacement), "%s" END, c->line);
		edit.new_len = strlen(replacement);
		op.edits = &edit;
		op.n_edits = 1;
		break;
	case REMOVE:
		op.kind = KODA_OP_REMOVE;
		break;
	case RENAME:
	case RENAME_OVER:
		op.kind = KODA_OP_RENAME;
		op.flags = c->act == RENAME_OVER ? KODA_OVERWRITE : 0;
		op.to = c->to;
		break;
	case MKDIR:
		op.kind = KODA_OP_MKDIR;
		snprintf(c->path, sizeof(c->path), "s%u/t%u", lane->index, rng_below(r, TREES));
		break;
	case REMOVE_TREE:
		op.kind = KODA_OP_REMOVE;
		op.flags = KODA_RECURSIVE;
		snprintf(c->path, sizeof(c->path), "s%u/t%u", lane->index, rng_below(r, TREES));
		break;
	case N_ACTS:
		break;
	}
	*lane->last = c;
	lane->last = &c->next;
	lane->outstanding++;
	if (koda_call_async(lane->slot, &op, change_done, c, &err) < 0)
		fail_msg("call: %s", err.message);
}

/* ---- checking ---- */

static size_t
count_below(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	size_t n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			n += 1 + count_below(dirfd(d), e->d_name);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

static void
no_temps_below(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (strncmp(e->d_name, ".koda-", 6) == 0)
			fail_msg("left behind: '%s' in '%s'", e->d_name, name);
		no_temps_below(dirfd(d), e->d_name);
	}
	if (d != NULL)
		closedir(d);
}

static void
no_temps(const struct run *run)
{
	no_temps_below(AT_FDCWD, run->root);
}

static void
compare(struct run *run)
{
	struct model *m = &run->model;

	for (size_t i = 0; i < m->n_files; i++) {
		cleanup_free char *now = proof_get(proof_path("%s/%s", run->root, m->file[i].path));

		if (now == NULL)
			fail_msg("'%s' is not there", m->file[i].path);
		if (strcmp(now, m->file[i].text) != 0)
			fail_msg("'%s' is\n%.600s\nand should be\n%.600s", m->file[i].path, now,
			    m->file[i].text);
	}
	for (size_t i = 0; i < m->n_dirs; i++) {
		struct stat st;

		if (stat(proof_path("%s/%s", run->root, m->dir[i]), &st) < 0 ||
		    !S_ISDIR(st.st_mode))
			fail_msg("directory '%s' is not there", m->dir[i]);
	}
	no_temps(run);
	assert_int_equal(count_below(AT_FDCWD, run->root), m->n_files + m->n_dirs);
}

/* ---- the test ---- */

/* Never kills so often in a row that a slot gives up an operation for good: that is another
 * test. */
static void
maybe_kill(struct run *run)
{
	struct lane *lane = &run->lane[rng_below(&run->rng, SLOTS)];
	int pid = koda_slot_pid(lane->slot);

	if (rng_below(&run->rng, 3) == 0 || lane->outstanding == 0 || pid <= 0)
		return;
	if (lane->answers == lane->answers_at_kill) {
		if (lane->kills_in_a_row >= 2)
			return;
		lane->kills_in_a_row++;
	} else {
		lane->kills_in_a_row = 1;
	}
	lane->answers_at_kill = lane->answers;
	/* The pid is still this worker: only the dispatcher, which is this thread, reaps it. */
	if (kill(pid, SIGKILL) == 0)
		run->kills++;
}

/* Waits a random time, so that a worker is at some point of its work. */
static void
let_it_work(struct run *run)
{
	double until = proof_seconds() + rng_below(&run->rng, 400) / 1e6;

	while (proof_seconds() < until)
		;
}

static void
turn(struct run *run, bool more)
{
	struct koda_error err;

	for (unsigned i = 0; i < SLOTS; i++) {
		struct lane *lane = &run->lane[i];

		while (more && lane->outstanding < OUTSTANDING)
			send_one(lane);
	}
	assert_true(koda_session_dispatch(run->ses, 20, &err) >= 0);
	for (unsigned i = 0; i < SLOTS; i++)
		settle(&run->lane[i]);
	let_it_work(run);
	maybe_kill(run);
}

static bool
is_quiet(const struct run *run)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		if (run->lane[i].first != NULL)
			return false;
	}
	return true;
}

static uint64_t seed;

static void
chaos(const char *worker)
{
	static struct run run;
	const double soak = (double)proof_number("KODA_SOAK_SECONDS", 0) / 2;
	const uint64_t ops = soak > 0 ? UINT64_MAX : proof_number("KODA_CHAOS_OPS", OPS) / 2;
	const double until = proof_seconds() + (soak > 0 ? soak : 1e9);
	char base[PATH_MAX], helpers[PATH_MAX];
	struct koda_stats stats;
	uint64_t next_look;

	memset(&run, 0, sizeof(run));
	run.rng.s = seed;
	proof_mkdtemp(base);
	snprintf(run.root, sizeof(run.root), "%s", proof_path("%s/root", base));
	snprintf(helpers, sizeof(helpers), "%s", proof_path("%s/helpers", base));
	proof_mkdir(run.root);
	proof_mkdir(helpers);
	assert_int_equal(symlink(worker, proof_path("%s/koda-fs-worker", helpers)), 0);
	proof_mkdir(proof_path("%s/common", run.root));
	model_add_dir(&run.model, "common");
	run.ses = proof_session(run.root, KODA_AUTO, NULL, helpers);
	for (unsigned i = 0; i < SLOTS; i++) {
		run.lane[i].run = &run;
		run.lane[i].index = i;
		run.lane[i].slot = proof_slot(run.ses);
		run.lane[i].last = &run.lane[i].first;
	}

	for (next_look = BATCH; run.sent < ops && proof_seconds() < until;) {
		turn(&run, true);
		if (run.sent < next_look)
			continue;
		while (!is_quiet(&run))
			turn(&run, false);
		compare(&run);
		next_look = run.sent + BATCH;
	}
	while (!is_quiet(&run))
		turn(&run, false);
	compare(&run);

	koda_session_stats(run.ses, &stats);
	fprintf(stderr,
	    "# %llu changes, %llu kills, %llu respawns, %llu recovered, %llu found to have happened, "
	    "%llu impossible, %llu given up\n",
	    (unsigned long long)run.sent, (unsigned long long)run.kills,
	    (unsigned long long)stats.respawns, (unsigned long long)stats.recovered,
	    (unsigned long long)run.recovered, (unsigned long long)run.refused,
	    (unsigned long long)run.given_up);
	for (int i = 0; i < N_ACTS; i++) {
		if (run.done[i] == 0)
			fail_msg("never done: %s", act_names[i]);
	}
	/* A chaos test without any kills proves nothing. */
	assert_true(run.kills > run.sent / 200 && stats.recovered > 0);
	for (unsigned i = 0; i < SLOTS; i++)
		koda_slot_release(run.lane[i].slot);
	koda_session_close(run.ses);
	assert_int_equal(proof_temps(run.root), 0);
	while (run.model.n_files > 0)
		model_drop(&run.model, &run.model.file[0]);
	proof_rmtree(base);
}

static void
killed_at_any_moment(void **state)
{
	chaos(KODA_TEST_HELPER_DIR "/koda-fs-worker");
}

/* Runs workers that stretch the short moments between two steps. */
static void
killed_between_two_steps(void **state)
{
	chaos(KODA_TEST_VARIANT_DIR "/koda-fs-worker-slow");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_at_any_moment),
		cmocka_unit_test(killed_between_two_steps),
	};

	setenv("KODA_TEST_QUIET", "1", 0);
	seed = proof_seed();
	return cmocka_run_group_tests_name("chaos", tests, NULL, NULL);
}
