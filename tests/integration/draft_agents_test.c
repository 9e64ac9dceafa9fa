/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/review, worker/ops/op_merge.c: agents that work on one project at the same time, each in a draft
 * of its own, with git, make and the compiler; and a parent that merges one draft after the other. What
 * an agent changed is in the project, or it was reported as a conflict and is still in its draft.
 */
#include <string.h>

#include "tests/kit/drafting.h"
#include "tests/kit/process.h"

#define AGENTS_MAX 10
#define TOLD_MAX   1024
#define TEXT_MAX   65536

/* What an agent changed, and what became of it. */
struct told_change {
	char path[256]; /* below the root */
	enum koda_change_kind kind;
	enum koda_apply_outcome outcome;
	bool merged;
};

struct agent {
	struct koda_slot *slot;
	struct koda_command *command;
	char id[64];
	struct told_change *told;
	size_t n_told;
};

struct agents {
	struct fixture f;
	struct agent agent[AGENTS_MAX];
	unsigned n;
};

/* Each agent has a line of report.c, which is its own, and the version, which everybody changes. */
static const char prepare[] =
    "set -e; cd \"$1\"; n=$2\n"
    "printf '.PHONY: all\\nall: out/report\\n"
    "out/report: report.c version.h $(wildcard part*.c)\\n"
    "\\tmkdir -p out\\n\\tcc -o $@ report.c $(wildcard part*.c)\\n' >Makefile\n"
    "echo '#define VERSION \"none\"' >version.h\n"
    "{ echo '#include <stdio.h>'; echo '#include \"version.h\"'; echo 'int main(void)'; echo '{'\n"
    "  i=0; while [ $i -lt $n ]; do\n"
    "    echo '\tputs(\"--\");'; echo \"\t/* agent $i: */\"; echo '\tputs(\"--\");'; i=$((i + 1)); done\n"
    "  echo '\treturn puts(VERSION) < 0;'; echo '}'; } >report.c\n"
    "git init -q -b main .; git config user.email a@example.org; git config user.name A\n"
    "echo out >.gitignore; git add .; git commit -qm first\n";

/* What agent $i does. Every tool replaces files in its own way. */
static const char work[] =
    "set -e; i=%u\n"
    "git checkout -q -b agent-$i\n"
    "printf '#include <stdio.h>\\nvoid part%%s(void) { puts(\"agent %%s\"); }\\n' $i $i >part$i.c\n"
    "sed -i \"s|.*/. agent $i: ./|&\\n\\tvoid part$i(void); part$i();|\" report.c\n"
    "echo \"#define VERSION \\\"agent $i\\\"\" >version.h\n"
    "make -s; ./out/report | grep -q \"^agent $i\\$\"\n"
    "git add -A; git commit -qm \"agent $i\"; git gc -q --auto; test -z \"$(git status --porcelain)\"\n";

/* ---- working ---- */

static void
begin(struct agents *a, unsigned n)
{
	char number[16];

	*a = (struct agents){ .n = n };
	snprintf(number, sizeof(number), "%u", n);
	fixture_prepare(&a->f, KODA_AUTO);
	a->f.options.commands = true;
	a->f.options.max_slots = n;
	process_shell(prepare, a->f.root, number, NULL);
	fixture_open(&a->f);
}

static void
start(struct agents *a, unsigned i)
{
	struct koda_command_options o = { 0 };
	struct agent *one = &a->agent[i];
	struct koda_error err;
	char shell[2048];

	one->slot = draft_open_slot(&a->f, NULL);
	snprintf(one->id, sizeof(one->id), "%s", koda_slot_draft(one->slot));
	snprintf(shell, sizeof(shell), work, i);
	o.shell = shell;
	one->command = koda_command_start(one->slot, &o, NULL, NULL, &err);
	if (one->command == NULL)
		fail_msg("agent %u: %s", i, err.message);
}

static void
finish(struct agents *a, unsigned i)
{
	struct agent *one = &a->agent[i];
	struct koda_command_result r;
	struct koda_error err;
	int over;

	while ((over = koda_command_wait(one->command, PATIENCE_MS, &err)) == 0)
		continue;
	if (over < 0 || koda_command_result(one->command, &r, &err) < 0)
		fail_msg("agent %u: %s", i, err.message);
	if (r.status != 0)
		fail_msg("agent %u: %d: %.*s%.*s", i, r.status, (int)r.out.head_len, r.out.head,
		    (int)r.err.head_len, r.err.head);
	koda_command_result_done(&r);
	koda_command_free(one->command);
	koda_slot_release(one->slot);
}

/* ---- merging ---- */

static const char *
below(const struct agents *a, const char *path)
{
	return path + strlen(a->f.root) + 1;
}

struct merging_agent {
	struct agents *all;
	struct agent *agent;
	unsigned shown; /* conflicts that the diff shows */
};

static int
on_applied(void *data, const struct koda_applied *one)
{
	struct merging_agent *m = data;
	struct told_change *told;

	m->agent->told = reallocarray(m->agent->told, m->agent->n_told + 1, sizeof(*told));
	assert_non_null(m->agent->told);
	told = &m->agent->told[m->agent->n_told++];
	*told = (struct told_change){ .kind = one->kind,
		.outcome = one->outcome,
		.merged = one->merged };
	snprintf(told->path, sizeof(told->path), "%s", below(m->all, one->path));
	return 0;
}

static int
on_change(void *data, const struct koda_change *c)
{
	struct merging_agent *m = data;

	if (c->rule != NULL)
		fail_msg("%s is refused: %s", c->path, c->reason);
	m->shown += c->conflict;
	return 0;
}

/* What a merge gives is shown before it is applied. */
static int
on_merge(void *data, const struct koda_merge *merge)
{
	const struct merging_agent *m = data;

	if (strcmp(below(m->all, merge->path), "report.c") == 0)
		assert_int_equal(merge->outcome, KODA_MERGE_CLEAN);
	if (strcmp(below(m->all, merge->path), "version.h") == 0)
		assert_int_equal(merge->outcome, KODA_MERGE_OVERLAPS);
	return 0;
}

static void
merge(struct agents *a, unsigned i)
{
	const struct koda_apply_options o = { .take = KODA_TAKE_MERGE };
	struct merging_agent m = { a, &a->agent[i], 0 };
	struct koda_error err;
	struct koda_draft *d = koda_draft_open(a->f.ses, a->agent[i].id, &err);

	if (d == NULL)
		fail_msg("draft of agent %u: %s", i, err.message);
	if (koda_draft_changes(d, on_change, &m, NULL, &err) != 0 ||
	    koda_draft_merges(d, on_merge, &m, &err) != 0 ||
	    koda_draft_apply(d, &o, on_applied, &m, NULL, &err) != 0)
		fail_msg("merge agent %u: %s", i, err.message);
	/* Only the first one finds the project as it was. */
	assert_true(i == 0 ? m.shown == 0 : m.shown > 0);
	koda_draft_close(d);
}

static const struct told_change *
find_told(const struct agent *one, const char *path)
{
	for (size_t i = 0; i < one->n_told; i++)
		if (strcmp(one->told[i].path, path) == 0)
			return &one->told[i];
	fail_msg("nothing was reported of %s", path);
	return NULL;
}

static void
became(const struct agent *one, const char *path, enum koda_apply_outcome outcome, bool merged)
{
	const struct told_change *told = find_told(one, path);

	if (told->outcome != outcome || told->merged != merged)
		fail_msg("%s: %s%s", path, koda_apply_outcome_name(told->outcome),
		    told->merged ? ", merged" : "");
}

/* ---- nothing is lost ---- */

/* What an agent's version of the file is, made again outside of any draft. */
static void
read_model(const struct agents *a, unsigned i, const char *path, char ret[TEXT_MAX],
    size_t *ret_len)
{
	char file[PATH_MAX];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(file, sizeof(file), "%s/model%u/%s", a->f.dir, i, path);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail_msg("%s: %s", file, strerror(errno));
	n = read(fd, ret, TEXT_MAX);
	assert_true(n >= 0 && n < TEXT_MAX);
	*ret_len = (size_t)n;
}

static void
is_in_draft(struct koda_draft *d, const struct agents *a, unsigned i, const char *path)
{
	static char want[TEXT_MAX];
	struct koda_result r;
	struct koda_error err;
	size_t len;

	read_model(a, i, path, want, &len);
	if (koda_draft_read(d, at(&a->f, path), false, 0, &r, &err) < 0)
		fail_msg("%s: %s", path, err.message);
	assert_int_equal(r.size, len);
	assert_memory_equal(r.data, want, len);
	koda_result_done(&r);
}

struct left_in_draft {
	const struct agents *all;
	struct agent *agent;
	size_t n;
};

static int
on_left(void *data, const struct koda_change *c)
{
	struct left_in_draft *l = data;

	became(l->agent, below(l->all, c->path), KODA_APPLY_CONFLICT, false);
	/* Index and HEAD are left out together. */
	assert_true(c->conflict || strncmp(below(l->all, c->path), ".git/", 5) == 0);
	l->n++;
	return 0;
}

/* Everything that was not applied is a conflict, and is in the agent's draft. */
static void
check_draft(struct agents *a, unsigned i)
{
	struct left_in_draft left = { a, &a->agent[i], 0 };
	struct koda_draft *d;
	struct koda_error err;
	size_t conflicts = 0;

	for (size_t k = 0; k < left.agent->n_told; k++) {
		const struct told_change *told = &left.agent->told[k];

		if (told->outcome != KODA_APPLIED && told->outcome != KODA_APPLY_CONFLICT)
			fail_msg("%s: %s", told->path, koda_apply_outcome_name(told->outcome));
		conflicts += told->outcome == KODA_APPLY_CONFLICT;
	}
	d = koda_draft_open(a->f.ses, left.agent->id, &err);
	if (i == 0) {
		/* Nothing was left in it. */
		assert_null(d);
		assert_int_equal(conflicts, 0);
		return;
	}
	if (d == NULL || koda_draft_changes(d, on_left, &left, NULL, &err) != 0)
		fail_msg("draft of agent %u: %s", i, err.message);
	assert_int_equal(left.n, conflicts);
	is_in_draft(d, a, i, "version.h");
	koda_draft_close(d);
}

/* Every agent was on a branch of its own. HEAD and index can be only one's, but the objects of all have
 * been applied, so that the parent makes the branch. */
static void
take_branch(struct agents *a, unsigned i, const char *ref)
{
	struct koda_result r;
	struct koda_error err;
	struct koda_draft *d = koda_draft_open(a->f.ses, a->agent[i].id, &err);
	char commit[64];

	if (d == NULL || koda_draft_read(d, at(&a->f, ref), false, 0, &r, &err) < 0)
		fail_msg("%s: %s", ref, err.message);
	assert_int_equal(r.size, 41);
	snprintf(commit, sizeof(commit), "%.40s", (const char *)r.data);
	koda_result_done(&r);
	koda_draft_close(d);
	process_shell("git -C \"$1\" update-ref \"$2\" \"$3\"", a->f.root, ref + strlen(".git/"),
	    commit);
}

static void
check_agent(struct agents *a, unsigned i)
{
	struct agent *one = &a->agent[i];
	char path[64];

	check_draft(a, i);
	became(one, "report.c", KODA_APPLIED, i > 0);
	became(one, "version.h", i == 0 ? KODA_APPLIED : KODA_APPLY_CONFLICT, false);
	became(one, "out/report", i == 0 ? KODA_APPLIED : KODA_APPLY_CONFLICT, false);
	snprintf(path, sizeof(path), "part%u.c", i);
	became(one, path, KODA_APPLIED, false);
	snprintf(path, sizeof(path), ".git/refs/heads/agent-%u", i);
	became(one, path, i == 0 ? KODA_APPLIED : KODA_APPLY_CONFLICT, false);
	if (i > 0)
		take_branch(a, i, path);
	free(one->told);
}

/*
 * The model does the same without drafts: each agent in a clone of its own, and what the project has to
 * be is what git merges of that. The working tree has the first agent's version, and every agent's lines;
 * the repository is whole and has every agent's commit.
 */
static const char compare[] =
    "set -e; cd \"$1\"; n=$2; dir=$3\n"
    "git fsck --full --strict >$dir/fsck 2>&1 || { cat $dir/fsck; exit 1; }\n"
    "i=0; while [ $i -lt $n ]; do\n"
    "  for file in report.c part$i.c version.h; do\n"
    "    git show agent-$i:$file | cmp - $dir/model$i/$file; done\n"
    "  cmp part$i.c $dir/model$i/part$i.c\n"
    "  cp report.c $dir/was; git -C $dir/model0 fetch -q ../model$i agent-$i\n"
    "  [ $i = 0 ] || git -C $dir/model0 merge -q -X ours -m m FETCH_HEAD >/dev/null; i=$((i + 1)); done\n"
    "for file in report.c version.h Makefile; do cmp $file $dir/model0/$file; done\n"
    "touch report.c; make -s; ./out/report >$dir/printed\n"
    "i=0; while [ $i -lt $n ]; do grep -qx \"agent $i\" $dir/printed; i=$((i + 1)); done\n";

static void
make_models(const struct agents *a)
{
	for (unsigned i = 0; i < a->n; i++) {
		char shell[2048], number[16];

		snprintf(shell, sizeof(shell), work, i);
		snprintf(number, sizeof(number), "%u", i);
		process_shell("cd \"$1\" && git clone -q project model$2 && cd model$2 && "
			      "git config user.email a@example.org && git config user.name A && "
			      "eval \"$3\"",
		    a->f.dir, number, shell);
	}
}

static void
work_and_merge(unsigned n)
{
	struct agents a;
	char number[16];

	begin(&a, n);
	snprintf(number, sizeof(number), "%u", n);
	make_models(&a);
	for (unsigned i = 0; i < n; i++)
		start(&a, i);
	for (unsigned i = 0; i < n; i++)
		finish(&a, i);
	for (unsigned i = 0; i < n; i++)
		merge(&a, i);
	for (unsigned i = 0; i < n; i++)
		check_agent(&a, i);
	assert_int_equal(count_temps(&a.f), 0);
	process_shell(compare, a.f.root, number, a.f.dir);
	fixture_end(&a.f);
}

static void
two_agents(void **state)
{
	work_and_merge(2);
}

static void
ten_agents(void **state)
{
	work_and_merge(AGENTS_MAX);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_agents),
		cmocka_unit_test(ten_agents),
	};

	return cmocka_run_group_tests_name("draft_agents", tests, NULL, NULL);
}
