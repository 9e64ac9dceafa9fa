/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_bench [--short] [--json FILE] [--dir DIR] [--only ROW|GROUP] [--peers DIR]: measure what
 * the sandbox costs and what the same work costs without it, in the same run. GROUP is files,
 * search, filters, commands, drafts, changes, network or mcp, and with --peers it is peers,
 * change_peers, proxies or mcp_peers. A missed goal is not a failure; a row that does not work is
 * one.
 *
 * The ratios that count are measured with all processes on one processor, because a wake-up across
 * processors costs several times as much as one on the same processor, and the scheduler decides
 * which of them happens. The columns "free" show the same with processes where the kernel puts
 * them.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/report.h"
#include "shared/base/cleanup.h"

#define ROWS_MAX 16 /* rows per group */

int
complain_error(const char *what, const struct koda_error *e)
{
	fprintf(stderr, "%s: %s: %s\n", what, koda_code_name(e->code), e->message);
	return -1;
}

void
put_file(const char *name, const void *data, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	for (size_t at = 0; fd >= 0 && at < len;) {
		ssize_t n = write(fd, (const char *)data + at, len - at);

		if (n < 0)
			err(1, "%s", name);
		at += (size_t)n;
	}
	if (fd < 0 || close(fd) < 0)
		err(1, "%s", name);
}

void
copy_program(const char *from, const char *to)
{
	cleanup_close int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	char buf[64u << 10];
	ssize_t n;

	if (in < 0 || out < 0)
		err(1, "%s", in < 0 ? from : to);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			err(1, "%s", to);
	if (n < 0 || close(out) < 0)
		err(1, "%s", to);
}

/* ---- paths ---- */

/* Find koda-sandbox and its helpers as `make install` installs them, where tools/bench put them.
 * Ends the program if they are missing. */
static void
find_installed(struct setting *set)
{
	set->program = KODA_BENCH_PROGRAM;
	set->helpers = KODA_BENCH_HELPER_DIR;
	if (access(set->program, X_OK) < 0 || access(set->helpers, X_OK) < 0)
		err(1, "%s (tools/bench installs it)", set->program);
}

static const char *
make_root(const char *dir)
{
	static char real[PATH_MAX];
	char template[PATH_MAX];

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		err(1, "%s", dir);
	snprintf(template, sizeof(template), "%s/bench.XXXXXX", dir);
	if (mkdtemp(template) == NULL || realpath(template, real) == NULL || chdir(real) < 0)
		err(1, "%s", template);
	return real;
}

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

/* ---- running ---- */

struct run {
	const struct group *group;
	const char *only;
	bool brief, peers;
	struct result results[ROWS_MAX];
	const char *missing[ROWS_MAX];
	struct value values[VALUES_MAX];
	size_t n_values;
};

static bool
wanted(const struct run *run, const struct row *row)
{
	return run->only == NULL || strcmp(run->only, row->name) == 0 ||
	    strcmp(run->only, run->group->name) == 0;
}

static bool
any_wanted(const struct run *run)
{
	bool any = false;

	for (size_t i = 0; i < run->group->n_rows; i++)
		any = any || wanted(run, &run->group->rows[i]);
	return any;
}

static bool
run_rows(struct run *run, bool pinned)
{
	const struct group *g = run->group;
	double seconds = pinned ? (run->brief ? 0.6 : 5) : (run->brief ? 0.2 : 2);
	bool ok = true;

	if (pin(pinned) < 0)
		err(1, "processor affinity");
	if (g->start() < 0)
		return false;
	if (pinned && (run->only == NULL || strcmp(run->only, g->name) == 0) && g->measure != NULL)
		run->n_values = g->measure(run->values);
	for (size_t i = 0; i < g->n_rows; i++) {
		if (!wanted(run, &g->rows[i]))
			continue;
		if (pinned && g->missing != NULL)
			run->missing[i] = g->missing(&g->rows[i]);
		if (run->missing[i] != NULL)
			continue;
		if (race_run(&g->rows[i].race, seconds, run->brief ? 2 : g->rows[i].min,
			&run->results[i].outcome[!pinned]) == 0)
			run->results[i].ran[!pinned] = true;
		else
			ok = false;
	}
	g->stop();
	return ok;
}

static void
tell(const struct run *run, bool as_json)
{
	for (size_t i = 0; i < run->group->n_rows; i++) {
		const struct row *row = &run->group->rows[i];

		if (!wanted(run, row))
			continue;
		if (run->missing[i] != NULL)
			printf("%-18s %s\n", row->name, run->missing[i]);
		else
			report_row(row, &run->results[i]);
		if (as_json)
			json_row(row, &run->results[i]);
	}
	for (size_t i = 0; i < run->n_values; i++) {
		report_value(&run->values[i]);
		if (as_json)
			json_value(&run->values[i]);
	}
}

static bool
run_group(const struct group *group, const struct setting *set, const char *only, bool as_json)
{
	struct setting own = *set;
	struct run run = { .group = group, .only = only, .brief = set->brief };
	char root[PATH_MAX];
	bool ok;

	if (!any_wanted(&run))
		return true;
	snprintf(root, sizeof(root), "%s/%s", set->root, group->name);
	own.root = root;
	if (mkdir(root, 0755) < 0 || chdir(root) < 0)
		err(1, "%s", root);
	group->make(&own);
	ok = run_rows(&run, true);
	ok = run_rows(&run, false) && ok;
	tell(&run, as_json);
	if (chdir(set->root) < 0)
		err(1, "%s", set->root);
	return ok || group->missing != NULL;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "short", no_argument, NULL, 's' },
		{ "json", required_argument, NULL, 'j' },
		{ "dir", required_argument, NULL, 'd' },
		{ "only", required_argument, NULL, 'o' },
		{ "peers", required_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	const char *dir = KODA_BENCH_DIR, *only = NULL;
	struct setting set = { 0 };
	FILE *json = NULL;
	bool ok;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 's':
			set.brief = true;
			break;
		case 'j':
			json = fopen(optarg, "we");
			if (json == NULL)
				err(1, "%s", optarg);
			break;
		case 'd':
			dir = optarg;
			break;
		case 'o':
			only = optarg;
			break;
		case 'p':
			set.peers = realpath(optarg, NULL);
			if (set.peers == NULL)
				err(1, "%s", optarg);
			break;
		default:
			return 2;
		}
	}
	umask(022);
	find_installed(&set);
	set.root = make_root(dir);
	report_head();
	if (json != NULL)
		json_begin(json);
	if (set.peers != NULL) {
		ok = run_group(&peer_group, &set, only, json != NULL);
		ok = run_group(&change_peer_group, &set, only, json != NULL) && ok;
		ok = run_group(&proxy_group, &set, only, json != NULL) && ok;
		ok = run_group(&mcp_peer_group, &set, only, json != NULL) && ok;
	} else {
		ok = run_group(&file_group, &set, only, json != NULL);
		ok = run_group(&search_group, &set, only, json != NULL) && ok;
		ok = run_group(&filter_group, &set, only, json != NULL) && ok;
		ok = run_group(&command_group, &set, only, json != NULL) && ok;
		ok = run_group(&draft_group, &set, only, json != NULL) && ok;
		ok = run_group(&change_group, &set, only, json != NULL) && ok;
		ok = run_group(&network_group, &set, only, json != NULL) && ok;
		ok = run_group(&mcp_group, &set, only, json != NULL) && ok;
	}
	if (json != NULL)
		json_end();
	if (chdir("/") < 0 || nftw(set.root, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
		warn("%s", set.root);
	return ok ? 0 : 1;
}
