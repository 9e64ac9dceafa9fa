/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caches: lists and removes what commands wrote to caches, which is kept for the next session of
 * the same root.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/output.h"
#include "cli/show.h"

struct list {
	json_t *objects; /* NULL: print instead */
	size_t n;
};

static void
print_size(uint64_t bytes, bool more)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t i = 0;

	for (; value >= 1024 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		value /= 1024;
	printf(i == 0 ? "%s%.0f %s" : "%s%.1f %s", more ? "more than " : "", value, units[i]);
}

static int
on_cached(void *data, const struct koda_cached *one)
{
	struct list *list = data;
	json_t *object;
	time_t when = (time_t)one->used;
	char text[32];
	struct tm tm;

	list->n++;
	if (list->objects == NULL) {
		if (localtime_r(&when, &tm) == NULL ||
		    strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm) == 0)
			snprintf(text, sizeof(text), "?");
		show_string(stdout, one->root[0] != '\0' ? one->root : one->path);
		fputs("  ", stdout);
		print_size(one->bytes, one->more);
		printf("  last used %s%s\n", text, one->in_use ? ", in use now" : "");
		return 0;
	}
	object = json_object();
	show_json_path(object, "root", one->root);
	show_json_path(object, "path", one->path);
	json_object_set_new(object, "bytes", json_integer((json_int_t)one->bytes));
	json_object_set_new(object, "names", json_integer((json_int_t)one->names));
	json_object_set_new(object, "more", json_boolean(one->more));
	json_object_set_new(object, "layers", json_integer((json_int_t)one->layers));
	json_object_set_new(object, "in_use", json_boolean(one->in_use));
	json_object_set_new(object, "used", json_real(one->used));
	json_array_append_new(list->objects, object);
	return 0;
}

int
cmd_caches_list(const struct cli *cli)
{
	bool json = args_has(&cli->args, OPT_JSON);
	struct list list = { .objects = json ? json_array() : NULL };
	struct koda_error err = { 0 };
	json_t *object;

	if (koda_caches_visit(on_cached, &list, &err) < 0) {
		json_decref(list.objects);
		return output_error(cli, &err, NULL);
	}
	if (!json) {
		if (list.n == 0)
			output_note(NULL, "no command has written to a cache");
		return output_done(EXIT_DONE);
	}
	object = output_object();
	json_object_set_new(object, "caches", list.objects);
	return output_json(object);
}

int
cmd_caches_clear(const struct cli *cli)
{
	struct koda_error err = { 0 };
	size_t in_use = 0;
	const char *root = cli->words[0] != NULL ? cli->words[0]
	    : args_has(&cli->args, OPT_ROOT)     ? cli->args.root
						 : NULL;

	if (koda_caches_clear(root, &in_use, &err) < 0)
		return output_error(cli, &err, NULL);
	if (in_use > 0) {
		err.code = KODA_CONFLICT;
		snprintf(err.message, sizeof(err.message),
		    "the caches of %zu root%s are in use and were not removed", in_use,
		    in_use == 1 ? "" : "s");
		return output_error(cli, &err,
		    "end the sessions of the roots that 'koda-sandbox caches list' shows as in use");
	}
	if (args_has(&cli->args, OPT_JSON))
		return output_json(output_object());
	return output_done(EXIT_DONE);
}
