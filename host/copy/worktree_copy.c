/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/worktree_copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/copy/confined.h"
#include "host/copy/tree.h"
#include "host/copy/worktree_script.h"
#include "shared/base/cleanup.h"

#define STATUS_NO 3 /* the scripts' own */

static void
free_confined(struct confined **c)
{
	confined_free(*c);
}

enum { GIT, COMMON, TREE, BRANCH, BASE, EXPECTED, MESSAGE, N_VARIABLES };

struct script_variables {
	char *v[N_VARIABLES + 1];
};

static void
variables_done(struct script_variables *v)
{
	for (size_t i = 0; i < N_VARIABLES; i++)
		free(v->v[i]);
}

static int
fill(struct script_variables *v, const struct copy_record *r, const char *expected,
    struct koda_error *err)
{
	static const char *const name[N_VARIABLES] = { "KODA_GIT", "KODA_COMMON", "KODA_TREE",
		"KODA_BRANCH", "KODA_BASE", "KODA_EXPECTED", "KODA_MESSAGE" };
	cleanup_free char *message = NULL;
	const char *value[N_VARIABLES] = { r->git, r->common, r->tree, r->branch,
		r->base != NULL ? r->base : "", expected != NULL ? expected : "" };

	if (asprintf(&message, "Work of %s, committed by koda-sandbox", r->agent) < 0) {
		message = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	}
	value[MESSAGE] = message;
	for (size_t i = 0; i < N_VARIABLES; i++) {
		free(v->v[i]);
		if (asprintf(&v->v[i], "%s=%s", name[i], value[i]) < 0) {
			v->v[i] = NULL;
			return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
		}
	}
	return 0;
}

static int
run(struct confined *c, const struct copy_record *r, const struct script_variables *v,
    const char *script, char **ret, struct koda_error *err)
{
	return confined_run(c, script, (const char *const *)v->v, r->busy_fd, ret, err);
}

int
worktree_add(const struct koda_session *ses, struct copy_record *r, struct koda_error *err)
{
	cleanup(free_confined) struct confined *c = confined_new(ses, r->common, r->tree, err);
	cleanup(variables_done) struct script_variables v = { 0 };
	cleanup_free char *base = NULL, *said = NULL;
	int status;

	if (c == NULL || fill(&v, r, NULL, err) < 0)
		return -1;
	status = run(c, r, &v, worktree_script_base, &base, err);
	if (status == STATUS_NO)
		return err_set(err, KODA_INVALID, 0,
		    "'%.300s' has no commit yet, so there is nothing for a worktree to begin with",
		    r->top);
	if (status != 0)
		return -1;
	base[strcspn(base, "\n")] = '\0';
	r->base = base;
	status = fill(&v, r, NULL, err) < 0 ? -1 : run(c, r, &v, worktree_script_add, &said, err);
	r->base = NULL;
	return status != 0 ? -1 : copy_record_ready(r, base, err);
}

static int
parse(char *said, struct worktree_state *ret, struct koda_error *err)
{
	uint64_t value[6] = { 0 };
	static const char *const name[] = { "commits", "changes", "other", "staged", "doing",
		"committed" };
	unsigned seen = 0;

	for (char *line = said, *next; *line != '\0'; line = next) {
		next = line + strcspn(line, "\n");
		if (*next != '\0')
			*next++ = '\0';
		for (size_t i = 0; i < N_ELEMENTS(name); i++) {
			size_t len = strlen(name[i]);

			if (strncmp(line, name[i], len) == 0 && line[len] == ' ') {
				value[i] = strtoull(line + len + 1, NULL, 10);
				seen |= 1u << i;
			}
		}
	}
	/* All but the last one are always there: what is missing must not pass for 0. */
	if ((seen & 0x1f) != 0x1f)
		return err_set(err, KODA_IO, 0, "git did not report what is in the worktree");
	*ret = (struct worktree_state){ value[0], value[1], value[2] != 0, value[3] != 0,
		value[4] != 0, value[5] != 0 };
	return 0;
}

int
worktree_look(const struct koda_session *ses, const struct copy_record *r, bool commit,
    struct worktree_state *ret, struct koda_error *err)
{
	cleanup(free_confined) struct confined *c = confined_new(ses, r->common, r->tree, err);
	cleanup(variables_done) struct script_variables v = { 0 };
	cleanup_free char *said = NULL;
	int status = STATUS_NO;

	if (c == NULL || fill(&v, r, NULL, err) < 0)
		return -1;
	if (commit)
		status = run(c, r, &v, worktree_script_commit, &said, err);
	if (status == STATUS_NO) {
		free(said);
		said = NULL;
		status = run(c, r, &v, worktree_script_look, &said, err);
	}
	return status != 0 ? -1 : parse(said, ret, err);
}

int
worktree_remove(const struct koda_session *ses, const struct copy_record *r, bool keep_branch,
    const char *expected, struct koda_error *err)
{
	int status = 0;

	if (!keep_branch && access(r->common, F_OK) == 0) {
		cleanup(free_confined) struct confined *c = confined_new(ses, r->common, NULL, err);
		cleanup(variables_done) struct script_variables v = { 0 };
		cleanup_free char *said = NULL;

		if (c == NULL || fill(&v, r, expected, err) < 0)
			return -1;
		status = run(c, r, &v, worktree_script_remove, &said, err);
		if (status != 0 && status != STATUS_NO)
			return -1;
	}
	if (tree_remove(r->tree, r->id, err) < 0 ||
	    tree_remove_private(r->common, r->tree, r->id, err) < 0)
		return -1;
	return status == STATUS_NO;
}
