/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/draft_open.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "mcp/digest.h"

/* ---- the draft ---- */

static bool
is_whole(const struct koda_result *result, size_t len)
{
	return result->size == len;
}

/* Copies the content of a result, at most max bytes. Returns NULL if it cannot be read. */
static char *
copy_content(const struct koda_result *result, size_t max, size_t *ret_len)
{
	size_t len = result->fd >= 0 ? (size_t)result->size : result->len, n = 0;
	char *ret;

	if (len > max)
		len = max;
	ret = output_alloc(len);
	if (result->fd < 0) {
		if (len > 0)
			memcpy(ret, result->data, len);
		*ret_len = len;
		return ret;
	}
	while (n < len) {
		const ssize_t r = pread(result->fd, ret + n, len - n, (off_t)n);

		if (r <= 0)
			break;
		n += (size_t)r;
	}
	*ret_len = n;
	return ret;
}

static void
read_side(void *data, const char *path, bool before, size_t max, struct changes_content *ret)
{
	struct draft_open *d = data;
	struct koda_result result = { .fd = -1 };
	struct koda_error err;
	uint8_t digest[KODA_DIGEST_BYTES];

	*ret = (struct changes_content){ 0 };
	if (koda_draft_read(d->draft, path, before, max, &result, &err) < 0)
		return;
	ret->data = copy_content(&result, max, &ret->len);
	ret->whole = is_whole(&result, ret->len);
	if (ret->whole && memchr(ret->data, '\0', ret->len) != NULL) {
		digest_bytes(ret->data, ret->len, digest);
		show_digest(ret->digest, digest);
	}
	koda_result_done(&result);
}

struct loading {
	struct changes *changes;
	draft_wanted_fn *wanted;
	void *data;
};

static int
on_change(void *data, const struct koda_change *change)
{
	struct loading *l = data;

	if (l->wanted == NULL || l->wanted(l->data, change))
		changes_add(l->changes, change);
	return 0;
}

struct loading_merges {
	struct changes *changes;
	size_t next;
};

static int
on_merge(void *data, const struct koda_merge *merge)
{
	struct loading_merges *l = data;

	changes_add_merge(l->changes, merge, &l->next);
	return 0;
}

static int
load(struct draft_open *d, draft_wanted_fn *wanted, void *data, struct koda_error *err)
{
	struct loading loading = { &d->changes, wanted, data };
	struct loading_merges merges = { &d->changes, 0 };
	bool cut = false;

	changes_done(&d->changes);
	if (koda_draft_changes(d->draft, on_change, &loading, &cut, err) < 0)
		return -1;
	d->changes.cut = cut;
	if (d->changes.count.conflicts > 0 &&
	    koda_draft_merges(d->draft, on_merge, &merges, err) < 0)
		return -1;
	changes_pair(&d->changes, &d->reader);
	changes_finish(&d->changes);
	return 0;
}

int
draft_open(struct draft_open *ret, struct koda_session *session, const char *id, const char *root,
    const char *cwd, draft_wanted_fn *wanted, void *data, struct koda_error *err)
{
	*ret = (struct draft_open){ 0 };
	ret->reader = (struct changes_reader){ read_side, ret };
	ret->view = (struct changes_view){ &ret->changes, &ret->reader, root, cwd };
	ret->draft = koda_draft_open(session, id, err);
	return ret->draft == NULL ? -1 : load(ret, wanted, data, err);
}

int
draft_open_again(struct draft_open *d, struct koda_error *err)
{
	return load(d, NULL, NULL, err);
}

void
draft_close(struct draft_open *d)
{
	changes_done(&d->changes);
	koda_draft_close(d->draft);
	d->draft = NULL;
}

void
changes_set_json(json_t *object, const struct changes *c)
{
	const struct changes_count *n = &c->count;
	const struct {
		const char *key;
		uint64_t value;
	} rows[] = {
		{ "created", n->created },
		{ "changed", n->changed },
		{ "deleted", n->deleted },
		{ "mode", n->mode },
		{ "refused", n->refused },
		{ "conflicts", n->conflicts },
		{ "bytes", n->bytes },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		json_object_set_new(object, rows[i].key, json_integer((json_int_t)rows[i].value));
	json_object_set_new(object, "cut", json_boolean(c->cut));
}

/* ---- outcomes ---- */

/* More complaints than a person reads. */
#define COMPLAINTS_MAX 50

void
outcomes_put_json(json_t *object)
{
	/* On a terminal nothing untrusted may arrive unescaped, not in JSON either. */
	json_dumpf(object, stdout,
	    JSON_COMPACT | (isatty(STDOUT_FILENO) ? (size_t)JSON_ENSURE_ASCII : 0));
	json_decref(object);
	putchar('\n');
}

json_t *
outcome_json(const struct koda_applied *one)
{
	json_t *object = json_object();

	json_object_set_new(object, "type", json_string("change"));
	show_json_path(object, "path", one->path);
	json_object_set_new(object, "kind", json_string(koda_change_kind_name(one->kind)));
	json_object_set_new(object, "outcome", json_string(koda_apply_outcome_name(one->outcome)));
	if (one->merged)
		json_object_set_new(object, "merged", json_true());
	if (one->rule != NULL)
		json_object_set_new(object, "rule", show_json_lossy(one->rule, strlen(one->rule)));
	if (one->reason != NULL)
		json_object_set_new(object, "reason",
		    show_json_lossy(one->reason, strlen(one->reason)));
	if (one->note != NULL)
		json_object_set_new(object, "note", show_json_lossy(one->note, strlen(one->note)));
	return object;
}

static void
complain(struct outcomes *o, const struct koda_applied *one)
{
	const char *reason = one->reason != NULL && one->reason[0] != '\0' ? one->reason
	    : one->outcome == KODA_APPLY_CONFLICT ? "it changed in the project since"
	    : one->outcome == KODA_APPLY_REFUSED  ? "the policy does not allow it"
						  : "the system refused it";
	bool has_rule;
	char *text;

	if (one->together != NULL && strcmp(one->together, o->together) == 0)
		return;
	if (one->together != NULL)
		snprintf(o->together, sizeof(o->together), "%s", one->together);
	if (o->complaints++ >= COMPLAINTS_MAX)
		return;
	reason = changes_reason(reason, one->path, one->rule, &has_rule);
	if (asprintf(&text, "'%s': %s%s%s%s",
		changes_shown(o->view, one->together != NULL ? one->together : one->path), reason,
		has_rule ? "" : " (", has_rule ? "" : one->rule, has_rule ? "" : ")") < 0)
		output_no_memory();
	output_note(o->not_applied, text);
	free(text);
}

static void
warn(struct outcomes *o, const struct koda_applied *one)
{
	char *text;

	if (o->complaints++ >= COMPLAINTS_MAX)
		return;
	if (asprintf(&text, "'%s': %s", changes_shown(o->view, one->path), one->note) < 0)
		output_no_memory();
	output_note("warning", text);
	free(text);
}

int
outcomes_take(void *data, const struct koda_applied *one)
{
	struct outcomes *o = data;
	int signo;

	if ((size_t)one->outcome < sizeof(o->n) / sizeof(o->n[0]))
		o->n[one->outcome]++;
	if (args_has(&o->cli->args, OPT_JSON)) {
		outcomes_put_json(outcome_json(one));
	} else if (one->outcome == KODA_APPLIED && (o->list || o->dry_run)) {
		printf("%s ", o->dry_run ? o->would : o->applied);
		show_string(stdout, changes_shown(o->view, one->path));
		printf(" (%s%s)\n", koda_change_kind_name(one->kind),
		    one->merged ? ", merged" : "");
	} else if (one->outcome != KODA_APPLIED && one->outcome != KODA_APPLY_SKIPPED) {
		complain(o, one);
	}
	if (one->note != NULL && !args_has(&o->cli->args, OPT_JSON))
		warn(o, one);
	while (o->signals >= 0 && (signo = signals_next(o->signals)) != 0)
		o->stopped = o->stopped || signo == SIGINT || signo == SIGTERM || signo == SIGHUP;
	return o->stopped;
}

uint64_t
outcomes_left(const struct outcomes *o)
{
	return o->n[KODA_APPLY_REFUSED] + o->n[KODA_APPLY_CONFLICT] + o->n[KODA_APPLY_FAILED] +
	    o->n[KODA_APPLY_UNLISTED];
}

int
outcomes_status(const struct outcomes *o)
{
	if (o->complaints > COMPLAINTS_MAX) {
		char text[96];

		snprintf(text, sizeof(text), "%llu more changes",
		    (unsigned long long)(o->complaints - COMPLAINTS_MAX));
		output_note(o->not_applied, text);
	}
	if (o->n[KODA_APPLY_FAILED] + o->n[KODA_APPLY_UNLISTED] > 0 || o->stopped)
		return EXIT_FAILED;
	if (o->n[KODA_APPLY_CONFLICT] > 0)
		return EXIT_CONFLICT;
	return o->n[KODA_APPLY_REFUSED] > 0 ? EXIT_REFUSED : EXIT_DONE;
}

json_t *
outcomes_json(const struct outcomes *o)
{
	json_t *object = json_object();

	json_object_set_new(object, "type", json_string("summary"));
	json_object_set_new(object, "ok", json_true());
	json_object_set_new(object, "dry_run", json_boolean(o->dry_run));
	for (enum koda_apply_outcome i = KODA_APPLIED; i <= KODA_APPLY_UNLISTED; i++)
		json_object_set_new(object, koda_apply_outcome_name(i),
		    json_integer((json_int_t)o->n[i]));
	return object;
}
