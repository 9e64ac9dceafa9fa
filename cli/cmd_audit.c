/* SPDX-License-Identifier: Apache-2.0 */
/* audit verify: is a log still what the server wrote? */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "cli/show.h"
#include "mcp/audit.h"
#include "mcp/digest.h"

struct verdict {
	struct audit_chain chain;
	uint64_t head_line; /* the line that --head is the digest of */
	const char *path;
	bool has_head;
};

/* Returns how many intents have no outcome: the server died before it, or could not write it. */
static uint64_t
unfinished(const struct audit_chain *chain)
{
	return chain->intents > chain->outcomes ? chain->intents - chain->outcomes : 0;
}

static int
tell_broken(const struct cli *cli, const struct verdict *v, uint64_t line,
    const struct koda_error *err)
{
	json_t *object, *error;

	if (!args_has(&cli->args, OPT_JSON)) {
		struct koda_error shown = *err;

		shown.code = KODA_INVALID;
		return output_error(cli, &shown, NULL);
	}
	output_note(NULL, err->message);
	object = json_object();
	error = json_object();
	json_object_set_new(object, "ok", json_false());
	json_object_set_new(error, "code", json_string("broken"));
	json_object_set_new(error, "message", json_string(err->message));
	show_json_path(error, "path", v->path);
	json_object_set_new(error, "line",
	    line != 0 ? json_integer((json_int_t)line) : json_null());
	json_object_set_new(object, "error", error);
	output_json(object);
	return EXIT_FAILED;
}

static int
tell_json(const struct verdict *v, const char *head)
{
	const struct audit_chain *chain = &v->chain;
	json_t *object = output_object();

	show_json_path(object, "path", v->path);
	json_object_set_new(object, "lines", json_integer((json_int_t)chain->lines));
	json_object_set_new(object, "starts", json_integer((json_int_t)chain->starts));
	json_object_set_new(object, "events", json_integer((json_int_t)chain->events));
	json_object_set_new(object, "unfinished", json_integer((json_int_t)unfinished(chain)));
	json_object_set_new(object, "lost", json_integer((json_int_t)chain->lost));
	json_object_set_new(object, "torn", json_integer((json_int_t)chain->torn));
	json_object_set_new(object, "head", json_string(head));
	/* The lines up to --head, the only ones that something outside of the log confirms. */
	json_object_set_new(object, "vouched_lines",
	    v->has_head ? json_integer((json_int_t)v->head_line) : json_null());
	return output_json(object);
}

static int
tell_plain(const struct verdict *v, const char *head)
{
	const struct audit_chain *chain = &v->chain;

	printf("unbroken: %" PRIu64 " line%s, %" PRIu64 " server start%s\n", chain->lines,
	    chain->lines == 1 ? "" : "s", chain->starts, chain->starts == 1 ? "" : "s");
	if (unfinished(chain) != 0)
		printf("without an outcome: %" PRIu64
		       " intents, because the server died or could not write it\n",
		    unfinished(chain));
	if (chain->torn != 0)
		printf(
		    "torn: %" PRIu64
		    " lines, each reported by the line after it; what they announced was not done\n",
		    chain->torn);
	printf("head: %s\n", head);
	if (!v->has_head)
		puts(
		    "Lines missing at the end are found only with --head, the head that the server printed when it ended.");
	else if (v->head_line == chain->lines)
		puts("No line is missing at the end: the log's head is the given one.");
	else
		printf("The given head is that of line %" PRIu64
		       "; lines missing after it are not found.\n",
		    v->head_line);
	return output_done(EXIT_DONE);
}

int
cmd_audit_verify(const struct cli *cli)
{
	const uint8_t *wanted = args_has(&cli->args, OPT_HEAD) ? cli->args.head : NULL;
	struct verdict v = { .path = cli->words[0], .has_head = wanted != NULL };
	struct koda_error err = { 0 };
	char head[DIGEST_HEX_SIZE];

	if (audit_verify(v.path, wanted, &v.chain, &v.head_line, &err) < 0)
		return err.code == KODA_CONFLICT ? tell_broken(cli, &v, v.chain.broken_line, &err)
						 : output_error(cli, &err, NULL);
	if (wanted != NULL && v.head_line == 0) {
		snprintf(err.message, sizeof(err.message),
		    "no line has the given head: lines are missing at the end, or the log was written again from the beginning");
		return tell_broken(cli, &v, 0, &err);
	}
	digest_hex(v.chain.head, sizeof(v.chain.head), head);
	return args_has(&cli->args, OPT_JSON) ? tell_json(&v, head) : tell_plain(&v, head);
}
