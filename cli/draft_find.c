/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/draft_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/job.h"
#include "cli/output.h"

/* How many ids an error names. */
#define NAMED_MAX 4

struct id_search {
	const char *given;
	size_t len;
	struct draft_found *ret;
	size_t n;
	bool exact;
	char named[NAMED_MAX * (FOUND_ID_MAX + 2)];
};

static void
take_found(struct id_search *s, const char *id, const char *root, enum koda_workspace copy)
{
	const bool exact = strcmp(id, s->given) == 0;
	const size_t len = strlen(s->named);

	if (s->exact || strncmp(id, s->given, s->len) != 0)
		return;
	if (exact)
		s->n = 0;
	s->exact = exact;
	if (s->n++ < NAMED_MAX)
		snprintf(s->named + len, sizeof(s->named) - len, "%s%.*s", len > 0 ? ", " : "",
		    FOUND_ID_MAX - 1, id);
	if (s->n > 1)
		return;
	snprintf(s->ret->id, sizeof(s->ret->id), "%s", id);
	s->ret->copy = copy;
	free(s->ret->root);
	s->ret->root = output_alloc(strlen(root) + 1);
	strcpy(s->ret->root, root);
}

static int
on_draft(void *data, const struct koda_drafted *one)
{
	take_found(data, one->id, one->root, KODA_WORKSPACE_DRAFT);
	return 0;
}

static int
on_copy(void *data, const struct koda_copied *one)
{
	take_found(data, one->id, one->root, one->kind);
	return 0;
}

static int
on_entry(void *data, const struct koda_history_entry *one)
{
	take_found(data, one->id, one->root, KODA_WORKSPACE_DIRECT);
	return 0;
}

/* What is looked for. */
enum found_among { AMONG_DRAFTS, AMONG_DRAFTS_AND_COPIES, AMONG_HISTORY };

static int
visit(const char *root, enum found_among among, struct id_search *s, struct koda_error *err)
{
	if (among == AMONG_HISTORY)
		return koda_history_visit(root, on_entry, s, err);
	if (koda_drafts_visit(root, on_draft, s, err) < 0)
		return -1;
	return among == AMONG_DRAFTS ? 0 : koda_copies_visit(root, on_copy, s, err);
}

static int
find(const struct cli *cli, const char *given, enum found_among among, struct draft_found *ret)
{
	const bool history = among == AMONG_HISTORY;
	struct id_search s = { .given = given, .len = strlen(given), .ret = ret };
	struct koda_error err = { 0 };
	char *root = NULL;
	int status = job_find_root(cli, &root);

	*ret = (struct draft_found){ 0 };
	if (status != EXIT_DONE)
		return status;
	if (s.len > 0 && visit(root, among, &s, &err) < 0)
		status = output_error(cli, &err, NULL);
	if (status == EXIT_DONE && s.len > 0 && s.n == 0 && !args_has(&cli->args, OPT_ROOT) &&
	    visit(NULL, among, &s, &err) < 0)
		status = output_error(cli, &err, NULL);
	free(root);
	if (status != EXIT_DONE || s.n == 1)
		return status;
	err = (struct koda_error){ .code = KODA_INVALID };
	if (s.n == 0)
		snprintf(err.message, sizeof(err.message), "there is no %s '%.100s'",
		    history ? "entry of the history with the id" : "draft", given);
	else
		snprintf(err.message, sizeof(err.message),
		    "'%.100s' is the beginning of %zu ids: %s%s", given, s.n, s.named,
		    s.n > NAMED_MAX ? ", ..." : "");
	free(ret->root);
	ret->root = NULL;
	return output_error(cli, &err,
	    s.n > 1       ? "give more of the id"
		: history ? "'koda-sandbox history --all' lists them"
			  : "'koda-sandbox drafts --all' lists them");
}

int
draft_find(const struct cli *cli, const char *given, struct draft_found *ret)
{
	return find(cli, given, AMONG_DRAFTS, ret);
}

int
draft_or_copy_find(const struct cli *cli, const char *given, struct draft_found *ret)
{
	return find(cli, given, AMONG_DRAFTS_AND_COPIES, ret);
}

int
history_find(const struct cli *cli, const char *given, struct draft_found *ret)
{
	return find(cli, given, AMONG_HISTORY, ret);
}

const char *
draft_age(double when, char buf[AGE_SIZE])
{
	const double age = (double)time(NULL) - when;

	if (age < 60)
		snprintf(buf, AGE_SIZE, "just now");
	else if (age < 3600)
		snprintf(buf, AGE_SIZE, "%d min ago", (int)(age / 60));
	else if (age < 2 * 86400)
		snprintf(buf, AGE_SIZE, "%d h ago", (int)(age / 3600));
	else
		snprintf(buf, AGE_SIZE, "%.0f days ago", age / 86400);
	return buf;
}

const char *
draft_time(double when, char buf[AGE_SIZE])
{
	time_t seconds = (time_t)when;
	struct tm tm;

	if (localtime_r(&seconds, &tm) == NULL ||
	    strftime(buf, AGE_SIZE, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(buf, AGE_SIZE, "?");
	return buf;
}
