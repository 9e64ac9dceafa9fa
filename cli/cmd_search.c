/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs glob, fs grep and fs tree: prints results as they come. The exit status is grep's, so it is 2
 * for every failure. A signal ends the process as usual: the search process notices that and exits
 * too.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/output.h"
#include "cli/search_args.h"
#include "cli/search_json.h"
#include "cli/search_print.h"

struct search_output {
	const struct cli *cli;
	struct search_args args;
	struct job job;
	char **places; /* the operands, as the library wants them */
	size_t n_places;
	struct search_printer printer;
	bool json, json_ascii;
	uint64_t told; /* results printed, without context and troubles */
	uint64_t told_troubles;
	bool lost; /* the reader of the output is gone */
};

/* Prints a note after everything that was printed before. */
static void
note(const char *kind, const char *text)
{
	fflush(stdout);
	output_note(kind, text);
}

/* ---- while results come ---- */

static void
print_json_line(const struct search_output *s, json_t *object)
{
	/* On a terminal nothing untrusted may arrive unescaped, not in JSON either. */
	json_dumpf(object, stdout, JSON_COMPACT | (s->json_ascii ? JSON_ENSURE_ASCII : 0));
	json_decref(object);
	putchar('\n');
}

static void
tell_trouble(struct search_output *s, const struct koda_found *found)
{
	struct search_name name = search_name(s->printer.operands, s->printer.n_operands, found);
	size_t size = strlen(name.operand) + strlen(name.slash) + strlen(name.below) +
	    strlen(found->reason) + sizeof(": ");
	char *text = output_alloc(size);

	snprintf(text, size, "%s%s%s: %s", name.operand, name.slash, name.below, found->reason);
	note(NULL, text);
	free(text);
	s->told_troubles++;
}

/* Is this a directory that contains none of the files that a restricted listing is about? */
static bool
is_empty_way(const struct search_output *s, const struct koda_found *found)
{
	const struct koda_search_options *o = &s->args.options;

	return found->kind == KODA_FOUND_ENTRY && found->type == KODA_FILE_DIRECTORY &&
	    found->files == 0 && found->depth > 0 && o->n_globs + o->n_types > 0;
}

static int
on_found(void *data, const struct koda_found *found)
{
	struct search_output *s = data;

	if (is_empty_way(s, found))
		return 0;
	if (found->kind == KODA_FOUND_TROUBLE)
		tell_trouble(s, found);
	else if (found->kind != KODA_FOUND_CONTEXT)
		s->told++;
	/* One result is enough. */
	if (s->args.quiet)
		return s->told > 0;
	if (s->json)
		print_json_line(s,
		    search_json_found(s->printer.operands, s->printer.n_operands, found));
	else if (search_print(&s->printer, found) < 0)
		output_no_memory();
	s->lost = ferror(stdout) != 0;
	return s->lost;
}

/* ---- at the end ---- */

/* Reports what the reader cannot see from what was printed. */
static void
tell_rest(const struct search_output *s, const struct koda_search_result *result)
{
	char text[128];

	if (result->troubles > s->told_troubles) {
		snprintf(text, sizeof(text), "%" PRIu64 " more could not be read",
		    result->troubles - s->told_troubles);
		note(NULL, text);
	}
	if (result->hidden > 0) {
		snprintf(text, sizeof(text), "%" PRIu64 " hidden by the policy", result->hidden);
		note(NULL, text);
	}
	if (result->more && !s->args.quiet && !s->lost) {
		snprintf(text, sizeof(text),
		    "stopped at a limit after %" PRIu64 " result%s: there are more", result->found,
		    result->found == 1 ? "" : "s");
		note("warning", text);
	}
	if (args_has(&s->cli->args, OPT_VERBOSE)) {
		snprintf(text, sizeof(text),
		    "%" PRIu64 " files searched, %" PRIu64 " binary files skipped%s", result->files,
		    result->binary,
		    result->recovered ? "; the search process died, and another one continued"
				      : "");
		note(NULL, text);
	}
}

/* A reader that has gone away has read what it wanted: that is not an error. */
static int
finish_output(int status)
{
	if (output_is_whole())
		return status;
	if (errno == EPIPE)
		return status;
	output_lost();
	return EXIT_TROUBLE;
}

static int
do_search(struct search_output *s)
{
	struct koda_search_result result = { 0 };
	struct koda_error err = { 0 };
	bool failed;

	s->args.options.paths = (const char *const *)s->places;
	s->args.options.n_paths = s->n_places;
	failed = koda_search(s->job.slot, &s->args.options, on_found, s, &result, &err) < 0;
	fflush(stdout);
	if (failed) {
		output_error(s->cli, &err, NULL);
	} else {
		tell_rest(s, &result);
		if (s->json && !s->args.quiet)
			print_json_line(s, search_json_result(&result));
	}
	failed = failed || result.troubles > 0;
	if (failed && !(s->args.quiet && s->told > 0))
		return finish_output(EXIT_TROUBLE);
	return finish_output(s->told > 0 ? EXIT_DONE : EXIT_NOTHING);
}

/* ---- before the search ---- */

static int
find_places(struct search_output *s)
{
	static const char *const here[] = { ".", NULL };
	const char *const *words = (const char *const *)s->args.paths;
	size_t n = 0;

	while (words[n] != NULL)
		n++;
	s->printer.operands = words;
	s->printer.n_operands = n;
	if (n == 0) {
		words = here;
		n = 1;
	}
	s->places = output_alloc(n * sizeof(*s->places));
	for (; s->n_places < n; s->n_places++) {
		int status = job_place(&s->job, words[s->n_places], &s->places[s->n_places]);

		if (status != EXIT_DONE)
			return status;
	}
	return EXIT_DONE;
}

static int
run_search(struct search_output *s)
{
	int status = job_find(&s->job, s->cli);

	if (status == EXIT_DONE)
		status = find_places(s);
	if (status == EXIT_DONE)
		status = job_open(&s->job);
	if (status == EXIT_DONE)
		status = job_acquire(&s->job);
	status = status == EXIT_DONE ? do_search(s) : EXIT_TROUBLE;
	for (size_t i = 0; i < s->n_places; i++)
		free(s->places[i]);
	free(s->places);
	job_end(&s->job);
	return status;
}

static int
print_type(void *data, const char *name, const char *const *globs)
{
	json_t *types = data, *list;

	if (types == NULL) {
		printf("%s:", name);
		for (size_t i = 0; globs[i] != NULL; i++)
			printf("%s %s", i > 0 ? "," : "", globs[i]);
		putchar('\n');
		return 0;
	}
	list = json_array();
	for (size_t i = 0; globs[i] != NULL; i++)
		json_array_append_new(list, json_string(globs[i]));
	json_object_set_new(types, name, list);
	return 0;
}

static int
list_types(const struct search_output *s)
{
	json_t *object, *types;

	if (!s->json) {
		koda_search_types(print_type, NULL);
		return finish_output(EXIT_DONE);
	}
	object = output_object();
	types = json_object();
	koda_search_types(print_type, types);
	json_object_set_new(object, "types", types);
	return output_json(object) == EXIT_DONE ? EXIT_DONE : EXIT_TROUBLE;
}

static int
search(const struct cli *cli, enum koda_search_kind kind)
{
	struct search_output s = { .cli = cli };
	char why[ARGS_WHY_MAX];
	bool terminal = isatty(STDOUT_FILENO);
	int status;

	s.json = args_has(&cli->args, OPT_JSON);
	s.json_ascii = terminal;
	if (search_args_read(kind, &cli->args, cli->words, &s.args, why) < 0) {
		status = output_usage(cli, "%s", why);
	} else if (s.args.type_list) {
		status = list_types(&s);
	} else {
		s.printer.f = stdout;
		s.printer.style =
		    search_args_style(&s.args, terminal, output_colour(STDOUT_FILENO));
		status = run_search(&s);
	}
	search_print_done(&s.printer);
	search_args_done(&s.args);
	return status;
}

int
cmd_glob(const struct cli *cli)
{
	return search(cli, KODA_SEARCH_GLOB);
}

int
cmd_grep(const struct cli *cli)
{
	return search(cli, KODA_SEARCH_GREP);
}

int
cmd_tree(const struct cli *cli)
{
	return search(cli, KODA_SEARCH_TREE);
}
