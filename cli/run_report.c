/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/show.h"
#include "shared/base/utf8.h"
#include "show/told.h"
#include "show/visible.h"

#define VIOLATIONS_MAX 100 /* as many as a slot keeps */

struct run_violations {
	struct koda_violation list[VIOLATIONS_MAX]; /* the slot's */
	size_t n;
};

static int
on_violation(void *data, const struct koda_violation *violation)
{
	struct run_violations *all = data;

	all->list[all->n++] = *violation;
	return all->n == VIOLATIONS_MAX;
}

void
run_report_violations(const struct koda_slot *slot)
{
	struct run_violations all = { .n = 0 };
	bool colour = output_colour(STDERR_FILENO);
	struct told *told;
	char *block, *line;

	koda_slot_violations(slot, on_violation, &all);
	if (all.n == 0)
		return;
	block = koda_violations_render(all.list, all.n);
	if (block == NULL)
		output_no_memory();
	for (line = block; *line != '\0';) {
		size_t len = strcspn(line, "\n");

		/* Targets are text that a command printed. */
		fputs(colour ? "\033[33m" : "", stderr);
		show(stderr, line, len, SHOW_TABS);
		fputs(colour ? "\033[0m\n" : "\n", stderr);
		line += len + (line[len] == '\n');
	}
	free(block);
	/*
	 * What the sandbox itself observed it can also explain: where something planted was moved,
	 * for example.
	 */
	told = output_alloc(all.n * sizeof(*told));
	for (size_t i = 0; i < all.n; i++)
		told[i] = (struct told){ all.list[i].target, all.list[i].detail };
	told_sentences(told, all.n, show_put, stderr);
	free(told);
}

struct run_failures {
	char *detail[TOLD_FAILURES_MAX];
	size_t n;
};

static int
on_failure(void *data, const struct koda_connection *c)
{
	struct run_failures *all = data;

	/* A connection that its client gave up is not reported. */
	if (c->outcome != KODA_CONNECTION_FAILED || c->detail[0] == '\0' ||
	    strcmp(c->rule, "client") == 0)
		return 0;
	for (size_t i = 0; i < all->n; i++) {
		if (strcmp(all->detail[i], c->detail) == 0)
			return 0;
	}
	all->detail[all->n] = strdup(c->detail);
	if (all->detail[all->n] == NULL)
		output_no_memory();
	return ++all->n == TOLD_FAILURES_MAX;
}

void
run_report_failures(struct koda_slot *slot)
{
	struct run_failures all = { .n = 0 };

	koda_slot_connections(slot, on_failure, &all);
	for (size_t i = 0; i < all.n; i++) {
		const struct told told = { "", all.detail[i] };

		told_sentences(&told, 1, show_put, stderr);
		free(all.detail[i]);
	}
}

/* Before a gap a character may be cut in two: leaves that out, so that the text remains UTF-8. */
static size_t
whole_head(const struct koda_output *o)
{
	size_t len = o->head_len;

	if (o->left_out == 0)
		return len;
	for (size_t cut = 0; cut < 4 && cut < len; cut++) {
		if (utf8_is_valid(o->head, len - cut))
			return len - cut;
	}
	return len;
}

static size_t
cut_of_tail(const struct koda_output *o)
{
	for (size_t cut = 0; o->left_out > 0 && cut < 4 && cut < o->tail_len; cut++) {
		if (utf8_is_valid(o->tail + cut, o->tail_len - cut))
			return cut;
	}
	return 0;
}

static bool
is_text(const char *data, size_t len)
{
	return utf8_is_valid(data, len) && (len == 0 || memchr(data, '\0', len) == NULL);
}

static json_t *
output_of(const struct koda_output *o)
{
	json_t *object = json_object();
	size_t head_len = whole_head(o), cut = cut_of_tail(o);
	bool lossy = !is_text(o->head, head_len) ||
	    (o->tail_len > 0 && !is_text(o->tail + cut, o->tail_len - cut));

	json_object_set_new(object, "head", show_json_lossy(o->head, o->head_len));
	json_object_set_new(object, "tail", show_json_lossy(o->tail, o->tail_len));
	json_object_set_new(object, "left_out", json_integer((json_int_t)o->left_out));
	json_object_set_new(object, "total", json_integer((json_int_t)o->total));
	json_object_set_new(object, "lossy", json_boolean(lossy));
	if (lossy) {
		json_object_set_new(object, "head_base64", show_json_base64(o->head, o->head_len));
		json_object_set_new(object, "tail_base64", show_json_base64(o->tail, o->tail_len));
	}
	return object;
}

static void
set_text(json_t *object, const char *key, const char *text)
{
	json_object_set_new(object, key,
	    text[0] != '\0' ? show_json_lossy(text, strlen(text)) : json_null());
}

static json_t *
violations_of(const struct koda_command_result *result)
{
	json_t *list = json_array();

	for (size_t i = 0; i < result->n_violations; i++) {
		const struct koda_violation *v = &result->violations[i];
		json_t *object = json_object();

		json_object_set_new(object, "kind", json_string(koda_violation_kind_name(v->kind)));
		set_text(object, "target", v->target);
		set_text(object, "command", v->command);
		set_text(object, "rule", v->rule);
		set_text(object, "detail", v->detail);
		json_object_set_new(object, "time", json_real(v->time));
		json_object_set_new(object, "certain", json_boolean(v->certain));
		json_array_append_new(list, object);
	}
	return list;
}

static int
on_connection(void *data, const struct koda_connection *c)
{
	json_t *object = json_object();

	json_object_set_new(object, "protocol", json_string(c->protocol));
	set_text(object, "host", c->host);
	json_object_set_new(object, "port", json_integer((json_int_t)c->port));
	json_object_set_new(object, "verdict",
	    json_string(koda_connection_outcome_name(c->outcome)));
	set_text(object, "rule", c->rule);
	set_text(object, "detail", c->detail);
	json_object_set_new(object, "open", json_boolean(c->open));
	json_object_set_new(object, "bytes_up", json_integer((json_int_t)c->up));
	json_object_set_new(object, "bytes_down", json_integer((json_int_t)c->down));
	json_object_set_new(object, "duration_ms",
	    json_integer((json_int_t)(c->duration_us / 1000)));
	return json_array_append_new(data, object);
}

json_t *
run_report_json(const struct run_subject *subject, struct koda_slot *slot,
    const struct koda_command_result *result)
{
	json_t *object = output_object(), *command = json_array(), *usage = json_object();
	json_t *connections = json_array();
	const char *limit = koda_limit_hit_name(result->hit);

	json_object_set_new(object, "status", json_integer(result->status));
	json_object_set_new(object, "signal", json_integer(result->signal));
	if (result->signal != 0 && sigabbrev_np(result->signal) != NULL) {
		char name[32];

		snprintf(name, sizeof(name), "SIG%s", sigabbrev_np(result->signal));
		json_object_set_new(object, "signal_name", json_string(name));
	}
	json_object_set_new(object, "limit", limit[0] != '\0' ? json_string(limit) : json_null());
	json_object_set_new(object, "stdout", output_of(&result->out));
	json_object_set_new(object, "stderr", output_of(&result->err));
	json_object_set_new(object, "violations", violations_of(result));
	koda_slot_connections(slot, on_connection, connections);
	json_object_set_new(object, "connections", connections);
	json_object_set_new(usage, "wall_us", json_integer((json_int_t)result->wall_us));
	json_object_set_new(usage, "user_us", json_integer((json_int_t)result->user_us));
	json_object_set_new(usage, "system_us", json_integer((json_int_t)result->system_us));
	json_object_set_new(usage, "max_rss_kib", json_integer((json_int_t)result->max_rss_kib));
	json_object_set_new(object, "usage", usage);
	json_object_set_new(object, "left_behind", json_integer((json_int_t)result->left_behind));
	if (subject->shell != NULL)
		json_object_set_new(object, "shell",
		    show_json_lossy(subject->shell, strlen(subject->shell)));
	for (size_t i = 0; subject->argv != NULL && subject->argv[i] != NULL; i++)
		json_array_append_new(command,
		    show_json_lossy(subject->argv[i], strlen(subject->argv[i])));
	if (subject->argv != NULL)
		json_object_set_new(object, "command", command);
	else
		json_decref(command);
	show_json_path(object, "root", subject->root);
	show_json_path(object, "cwd", subject->cwd);
	json_object_set_new(object, "mode", json_string(args_mode_name(subject->cli->args.mode)));
	return object;
}

struct held_back {
	char names[512];
	size_t n;
};

static int
on_variable(void *data, const char *name, const char *value, bool passed)
{
	struct held_back *held = data;
	size_t len = strlen(held->names);

	if (passed)
		return 0;
	snprintf(held->names + len, sizeof(held->names) - len, "%s%s", held->n > 0 ? ", " : "",
	    name);
	held->n++;
	return 0;
}

void
run_report_environment(const struct run_subject *subject)
{
	struct held_back held = { 0 };
	char text[640];

	/* The tool decides what else is passed on, but not what is held back. */
	koda_environment(subject->argv != NULL ? subject->argv[0] : "sh", on_variable, &held);
	if (held.n == 0)
		return;
	snprintf(text, sizeof(text),
	    "not passed to the command, because they carry credentials: %s", held.names);
	output_note(NULL, text);
}

void
run_report_times(const struct koda_command_result *result)
{
	char text[256];

	snprintf(text, sizeof(text),
	    "%.3f s (%.3f s user, %.3f s system); at most %" PRIu64 " KiB of memory; %" PRIu64
	    " process%s left behind and ended",
	    (double)result->wall_us / 1e6, (double)result->user_us / 1e6,
	    (double)result->system_us / 1e6, result->max_rss_kib, result->left_behind,
	    result->left_behind == 1 ? "" : "es");
	output_note(NULL, text);
}

void
run_report_limit(const struct koda_command_result *result)
{
	static const char *const texts[] = {
		[KODA_HIT_WALL_TIME] = "the command was ended because its time was up",
		[KODA_HIT_CPU_TIME] = "the command was ended because it used up its processor time",
		[KODA_HIT_FILE_SIZE] =
		    "the command tried to make a file larger than the policy allows",
		[KODA_HIT_MEMORY] = "the command used more memory than the policy allows",
		[KODA_HIT_PROCESSES] =
		    "the command tried to start more processes than the policy allows",
		[KODA_HIT_OUTPUT] = "the command printed more than is kept",
		[KODA_HIT_PLANTED] =
		    "the command planted something again after it was taken away, or too much, and was ended",
	};
	char text[160];

	if (result->hit == KODA_HIT_NONE || (size_t)result->hit >= sizeof(texts) / sizeof(texts[0]))
		return;
	if (result->hit == KODA_HIT_WALL_TIME)
		snprintf(text, sizeof(text), "%s, after %.1f s (%s)", texts[result->hit],
		    (double)result->wall_us / 1e6, koda_limit_hit_name(result->hit));
	else
		snprintf(text, sizeof(text), "%s (%s)", texts[result->hit],
		    koda_limit_hit_name(result->hit));
	output_note(NULL, text);
}
