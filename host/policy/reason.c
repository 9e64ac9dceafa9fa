/* SPDX-License-Identifier: Apache-2.0 */
#include "host/policy/reason.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/machine/home.h"
#include "host/policy/defaults.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "shared/rules/names.h"

static bool
is_of_table(const char *rule)
{
	static const enum access_rule rules[] = { ACCESS_RULE_DENY_WRITE, ACCESS_RULE_DENY_NAME,
		ACCESS_RULE_TREE };

	for (size_t i = 0; i < N_ELEMENTS(rules); i++) {
		if (strcmp(rule, access_rule_name(rules[i])) == 0)
			return true;
	}
	return false;
}

/* Returns true if the row names the path or a place above it. A row of the project matches at any
 * depth. */
static bool
names(const struct default_place *row, const char *path, const char *home)
{
	char name[NAMES_RULE_MAX + 1];
	char *one[] = { name };
	const struct policy_list list = { .present = true, .n = 1, .v = one };
	const size_t len = strcmp(home, "/") == 0 ? 0 : strlen(home);

	if ((row->where & (DEFAULT_PROJECT | DEFAULT_TOLD)) != 0 &&
	    strlen(row->name) <= NAMES_RULE_MAX) {
		strcpy(name, row->name);
		names_normalise(name);
		if (names_rule_of(&list, path) != NULL)
			return true;
	}
	return (row->where & DEFAULT_HOME) != 0 && home[0] == '/' && path_is_inside(path, home) &&
	    path[len] == '/' && path_is_inside(path + len + 1, row->name);
}

bool
reason_of(const char *rule, const char *path, const char *home, char ret[REASON_MAX])
{
	if (!is_of_table(rule) || path[0] != '/')
		return false;
	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		if (d->where == DEFAULT_TOLD || !names(d, path, home))
			continue;
		snprintf(ret, REASON_MAX,
		    "'%s' is protected: %s; change it yourself, outside the sandbox", d->name,
		    d->reason);
		return true;
	}
	return false;
}

const char *
reason_told(const char *path)
{
	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		if (d->where == DEFAULT_TOLD && names(d, path, ""))
			return d->reason;
	}
	return NULL;
}

void
reason_append(const char *rule, const char *path, char *message, size_t size)
{
	cleanup_free char *home = NULL;
	char reason[REASON_MAX];
	size_t len = strlen(message);

	if (!is_of_table(rule))
		return;
	home = home_find();
	if (reason_of(rule, path, home != NULL ? home : "", reason) &&
	    len + 2 + strlen(reason) < size)
		sprintf(message + len, ". %s", reason);
}
