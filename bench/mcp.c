/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of the MCP server. mcp_group compares it with the same calls through the library, which
 * shows what the server adds. mcp_peer_group compares it with another MCP server, through the same
 * client.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/mcp_client.h"
#include "shared/base/cleanup.h"

#define READ_SIZE    4096u
#define EDIT_SIZE    (16u << 10)
#define ENTRIES      1000
#define CALLS        10000 /* calls before the last measurement of memory */
#define CALLS_BRIEF  2000
#define CALLS_BEFORE 1000 /* calls before the first one: caches and buffers are filled by then */

#define FROM "the quick brown fox"
#define TO   "the quick green fox"

static struct {
	const char *root, *program, *helpers;
	char tree[PATH_MAX], peer[PATH_MAX];
	unsigned calls;
	struct mcp_client ours, cold, theirs;
	struct koda_session *ses;
	struct koda_slot *slot;
	bool edited[2];
} w = { .ours = MCP_CLIENT_EMPTY, .cold = MCP_CLIENT_EMPTY, .theirs = MCP_CLIENT_EMPTY };

static int
start_ours(struct mcp_client *ret)
{
	const char *const argv[] = { w.program, "mcp", "--mode", "auto", "--root", w.tree, NULL };

	return mcp_start(ret, argv, w.tree);
}

static int
do_op(const struct koda_op *op, const char *what)
{
	struct koda_result result;
	struct koda_error e;

	if (koda_call(w.slot, op, &result, &e) < 0)
		return complain_error(what, &e);
	koda_result_done(&result);
	return 0;
}

/* ---- the rows ---- */

static int
start_step(void *data)
{
	return start_ours(&w.cold);
}

static int
stop_step(void *data)
{
	return mcp_stop(&w.cold);
}

static int
first_run_step(void *data)
{
	return start_ours(&w.cold) < 0 ? -1
				       : mcp_call(&w.cold, "run_command", "{\"command\":\"true\"}");
}

static int
read_ours(void *data)
{
	return mcp_call(&w.ours, "read_file", "{\"path\":\"read\"}");
}

/* Read with the digest, because the server asks for it with each read. */
static int
read_library(void *data)
{
	const struct koda_op op = { .kind = KODA_OP_READ, .flags = KODA_DIGEST, .path = "read" };

	return do_op(&op, "read");
}

static void
edit_arguments(const char *path, const char *more, const char *old_key, const char *new_key,
    bool *edited, char *ret, size_t size)
{
	snprintf(ret, size, "{\"path\":\"%s\",\"edits\":[{\"%s\":\"%s\",\"%s\":\"%s\"}]%s}", path,
	    old_key, *edited ? TO : FROM, new_key, *edited ? FROM : TO, more);
	*edited = !*edited;
}

static int
edit_ours(void *data)
{
	char arguments[512];

	edit_arguments("edit-ours", "", "old", "new", &w.edited[0], arguments, sizeof(arguments));
	return mcp_call(&w.ours, "edit_file", arguments);
}

static int
edit_library(void *data)
{
	bool back = w.edited[1];
	const struct koda_edit edit = { .old_text = back ? TO : FROM,
		.old_len = strlen(FROM),
		.new_text = back ? FROM : TO,
		.new_len = strlen(TO) };
	const struct koda_op op = { .kind = KODA_OP_EDIT,
		.flags = KODA_DIGEST,
		.path = "edit-theirs",
		.edits = &edit,
		.n_edits = 1 };

	w.edited[1] = !back;
	return do_op(&op, "edit");
}

static int
list_ours(void *data)
{
	return mcp_call(&w.ours, "list_directory", "{\"path\":\"many\"}");
}

static int
read_peer(void *data)
{
	char arguments[PATH_MAX + 32];

	snprintf(arguments, sizeof(arguments), "{\"path\":\"%s/read\"}", w.tree);
	return mcp_call(&w.theirs, "read_text_file", arguments);
}

static int
edit_peer(void *data)
{
	char arguments[PATH_MAX + 512], path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/edit-theirs", w.tree);
	edit_arguments(path, ",\"dryRun\":false", "oldText", "newText", &w.edited[1], arguments,
	    sizeof(arguments));
	return mcp_call(&w.theirs, "edit_file", arguments);
}

static int
list_peer(void *data)
{
	char arguments[PATH_MAX + 32];

	snprintf(arguments, sizeof(arguments), "{\"path\":\"%s/many\"}", w.tree);
	return mcp_call(&w.theirs, "list_directory", arguments);
}

/* clang-format off */
static const struct row rows[] = {
	{ "mcp_start",     "us", 1e-3, { start_step,     NULL,         stop_step, .batch = 4, .repeat = 1 }, 0, 4, 5000 },
	{ "mcp_start_run", "us", 1e-3, { first_run_step, command_cold, stop_step, .batch = 4, .repeat = 1 }, 1.3, 4, 0 },
	{ "mcp_read",      "us", 1e-3, { read_ours,      read_library, .batch = 32, .repeat = 1 }, -60, 4, 0 },
	{ "mcp_edit",      "us", 1e-3, { edit_ours,      edit_library, .batch = 16, .repeat = 1 }, -60, 4, 0 },
};

static const struct row peer_rows[] = {
	{ "mcp_peer_read", "us", 1e-3, { read_ours, read_peer, .batch = 16, .repeat = 1 }, 1.0 / 5, 4, 0 },
	{ "mcp_peer_edit", "us", 1e-3, { edit_ours, edit_peer, .batch = 8,  .repeat = 1 }, 1.0 / 5, 4, 0 },
	{ "mcp_peer_list", "us", 1e-3, { list_ours, list_peer, .batch = 8,  .repeat = 1 }, 1.0 / 5, 4, 0 },
};
/* clang-format on */

/* ---- setting up ---- */

static void
make_edited(const char *name)
{
	char text[EDIT_SIZE];

	for (size_t i = 0; i < EDIT_SIZE; i++)
		text[i] = i % 64 == 63 ? '\n' : (char)('a' + i % 23);
	memcpy(text + EDIT_SIZE * 3 / 4, FROM, strlen(FROM));
	put_file(name, text, EDIT_SIZE);
}

static void
make_all(const struct setting *set)
{
	char name[64], text[READ_SIZE];

	/* exec_cold is a floor here, so this group needs the same home and repository. */
	command_make(set);
	w.root = set->root;
	w.program = set->program;
	w.helpers = set->helpers;
	w.calls = set->brief ? CALLS_BRIEF : CALLS;
	snprintf(w.tree, sizeof(w.tree), "%s/tree", set->root);
	if (set->peers != NULL)
		snprintf(w.peer, sizeof(w.peer), "%s/mcp/node_modules/.bin/mcp-server-filesystem",
		    set->peers);
	for (size_t i = 0; i < READ_SIZE; i++)
		text[i] = i % 64 == 63 ? '\n' : (char)('a' + i % 23);
	put_file("tree/read", text, READ_SIZE);
	make_edited("tree/edit-ours");
	make_edited("tree/edit-theirs");
	if (mkdir("tree/many", 0755) < 0)
		err(1, "tree/many");
	for (unsigned i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "tree/many/entry-%u.txt", i);
		put_file(name, "", 0);
	}
}

static int
start_library(void)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_error e;

	options.root = w.tree;
	options.mode = KODA_AUTO;
	options.helper_dir = w.helpers;
	options.commands = true;
	w.ses = koda_session_open(&options, &e);
	if (w.ses == NULL)
		return complain_error("session", &e);
	w.slot = koda_slot_acquire(w.ses, NULL, &e);
	return w.slot == NULL ? complain_error("slot", &e) : 0;
}

static int
start(void)
{
	return start_ours(&w.ours) < 0 ? -1 : start_library();
}

static void
stop(void)
{
	mcp_stop(&w.ours);
	mcp_stop(&w.cold);
	koda_slot_release(w.slot);
	koda_session_close(w.ses);
	w.slot = NULL;
	w.ses = NULL;
}

/* Return the resident memory of a process in KiB, including pages mapped from files, because that
 * is the figure that users see. Returns 0 if it cannot be read. */
static double
resident(pid_t pid)
{
	char path[64], line[256];
	double kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, "VmRSS:", strlen("VmRSS:")) == 0)
			kib = strtod(line + strlen("VmRSS:"), NULL);
	}
	fclose(f);
	return kib;
}

static size_t
measure(struct value *ret)
{
	static int (*const steps[])(void *) = { read_ours, edit_ours, list_ours };
	double before = 0, after;

	ret[0] = (struct value){ .name = "mcp_memory", .unit = "KiB", .reach = 6u << 10 };
	/* A few more pages of heap are no leak. A leak of ten bytes per call would be 88 KiB in a
	 * full run. */
	ret[1] = (struct value){ .name = "mcp_memory_growth", .unit = "KiB", .reach = 64 };
	for (unsigned i = 0; i < w.calls; i++) {
		if (steps[i % N_ELEMENTS(steps)](NULL) < 0)
			return 2;
		if (i == CALLS_BEFORE)
			before = resident(w.ours.pid);
	}
	after = resident(w.ours.pid);
	if (before <= 0 || after <= 0)
		return 2;
	ret[0].figure = (struct figure){ after, after };
	ret[1].figure = (struct figure){ after - before, after - before };
	ret[0].has = ret[1].has = true;
	return 2;
}

const struct group mcp_group = { "mcp", rows, N_ELEMENTS(rows), make_all, start, stop, measure,
	NULL };

/* ---- another MCP server ---- */

static int
start_both(void)
{
	const char *const argv[] = { "node", w.peer, w.tree, NULL };

	if (start_ours(&w.ours) < 0)
		return -1;
	/* If this fails, missing() reports it for each row. */
	if (mcp_start(&w.theirs, argv, w.tree) < 0)
		mcp_stop(&w.theirs);
	return 0;
}

static void
stop_both(void)
{
	mcp_stop(&w.ours);
	mcp_stop(&w.theirs);
}

static const char *
missing(const struct row *row)
{
	return w.theirs.pid < 0 ? "not installed" : NULL;
}

const struct group mcp_peer_group = { "mcp_peers", peer_rows, N_ELEMENTS(peer_rows), make_all,
	start_both, stop_both, NULL, missing };
