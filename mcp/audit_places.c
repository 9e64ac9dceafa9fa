/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/audit_places.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/fault.h"

struct place_search {
	struct audit_places *places;
	bool source; /* the next argument is a place that the sandbox mounts writable */
	bool no_memory;
};

static int
add(struct place_search *search, const char *path)
{
	struct audit_places *places = search->places;
	char **more = realloc(places->path, (places->n + 1) * sizeof(*more));

	if (more != NULL)
		places->path = more;
	if (more == NULL || (more[places->n] = strdup(path)) == NULL) {
		search->no_memory = true;
		return -1;
	}
	places->n++;
	return 0;
}

static int
on_field(void *data, const char *section, const char *field, const char *value)
{
	bool is_place = strcmp(section, "fs") == 0 && strcmp(field, "allow_write") == 0;

	return is_place && value != NULL ? add(data, value) : 0;
}

static int
on_argument(void *data, const char *argument, const char *comment)
{
	struct place_search *search = data;
	bool source = search->source;

	search->source = strcmp(argument, "--bind") == 0;
	return source ? add(search, argument) : 0;
}

int
audit_places_find(const char *root, enum koda_mode mode, const struct koda_policy *policy,
    struct audit_places *ret, struct koda_error *err)
{
	struct audit_places places = { 0 };
	struct place_search search = { .places = &places };

	*err = (struct koda_error){ 0 };
	if (add(&search, root) == 0 && koda_policy_visit(policy, on_field, &search) == 0 &&
	    koda_sandbox_arguments(root, mode, policy, on_argument, &search, err) == 0) {
		*ret = places;
		return 0;
	}
	audit_places_done(&places);
	return search.no_memory ? fault_set(err, KODA_INTERNAL, 0, "out of memory") : -1;
}

void
audit_places_done(struct audit_places *places)
{
	for (size_t i = 0; i < places->n; i++)
		free(places->path[i]);
	free(places->path);
	*places = (struct audit_places){ 0 };
}
