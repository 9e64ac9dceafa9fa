/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of `true` in other programs' sandboxes, compared with a cold start of ours. A program
 * that is not installed is left out, which is not a failure.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "shared/base/cleanup.h"

static char srt[PATH_MAX], codex[PATH_MAX];

static int
srt_floor(void *data)
{
	const char *const argv[] = { srt, "true", NULL };

	return floor_run(argv, "tree");
}

static int
codex_floor(void *data)
{
	const char *const argv[] = { codex, "sandbox", "true", NULL };

	return floor_run(argv, "tree");
}

static int
firejail_floor(void *data)
{
	static const char *const argv[] = { "firejail", "--quiet", "--noprofile", "--net=none",
		"true", NULL };

	return floor_run(argv, "tree");
}

/* clang-format off */
static const struct row rows[] = {
	{ "peer_srt",      "us", 1e-3, { command_cold, srt_floor,      .batch = 1, .repeat = 1 }, 1.0 / 40, 8, 0 },
	{ "peer_codex",    "us", 1e-3, { command_cold, codex_floor,    .batch = 1, .repeat = 1 }, 1.0 / 5, 8, 0 },
	{ "peer_firejail", "us", 1e-3, { command_cold, firejail_floor, .batch = 1, .repeat = 1 }, 0, 8, 0 },
};
/* clang-format on */

static void
make_all(const struct setting *set)
{
	command_make(set);
	snprintf(srt, sizeof(srt), "%s/node_modules/.bin/srt", set->peers);
	snprintf(codex, sizeof(codex), "%s/node_modules/.bin/codex", set->peers);
}

static const char *
missing(const struct row *row)
{
	step_fn *floor = row->race.floor;

	if ((floor == srt_floor && access(srt, X_OK) < 0) ||
	    (floor == codex_floor && access(codex, X_OK) < 0) ||
	    (floor == firejail_floor && access("/usr/bin/firejail", X_OK) < 0))
		return "not installed";
	return floor(row->race.data) < 0 ? "it does not work here" : NULL;
}

static int
start(void)
{
	return 0;
}

static void
stop(void)
{
}

const struct group peer_group = { "peers", rows, N_ELEMENTS(rows), make_all, start, stop, NULL,
	missing };
