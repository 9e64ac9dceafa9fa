/* SPDX-License-Identifier: Apache-2.0 */
#include "host/policy/programs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define NPMRC_MAX 65536 /* far more than a page of settings; the rest of the file is ignored */

/* A path that cannot be in a rule is ignored: it cannot be a place for programs either. */
static int
add(struct policy_list *list, const char *dir, const char *name, struct koda_error *err)
{
	cleanup_free char *path = NULL;

	if (asprintf(&path, "%s%s", dir, name) < 0) {
		path = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	}
	return dir[0] != '/' || policy_path_check(path, NULL) < 0
	    ? 0
	    : policy_list_add(list, path, err);
}

static int
add_path(struct policy_list *list, struct koda_error *err)
{
	const char *path = getenv("PATH");
	cleanup_free char *copy = strdup(path != NULL ? path : "");
	char *rest = copy, *entry;

	if (copy == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	while ((entry = strsep(&rest, ":")) != NULL) {
		if (add(list, entry, "", err) < 0)
			return -1;
	}
	return 0;
}

static int
add_prefix(struct policy_list *list, const char *home, const char *prefix, struct koda_error *err)
{
	static const char *const variables[] = { "~/", "${HOME}/", "$HOME/" };
	cleanup_free char *whole = NULL;

	for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
		size_t len = strlen(variables[i]);

		if (strncmp(prefix, variables[i], len) != 0)
			continue;
		if (asprintf(&whole, "%s/%s", home, prefix + len) < 0) {
			whole = NULL;
			return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
		}
		prefix = whole;
		break;
	}
	return add(list, prefix, "/bin", err) < 0 ? -1
						  : add(list, prefix, "/lib/node_modules", err);
}

/* Returns the value of a line `prefix = value`, or NULL. Modifies the line. */
static char *
prefix_of(char *line)
{
	char *end;

	line += strspn(line, " \t");
	if (strncmp(line, "prefix", strlen("prefix")) != 0)
		return NULL;
	line += strlen("prefix");
	line += strspn(line, " \t");
	if (*line != '=')
		return NULL;
	line++;
	line += strspn(line, " \t\"'");
	end = line + strlen(line);
	while (end > line && strchr(" \t\r\"'/", end[-1]) != NULL)
		*--end = '\0';
	return *line != '\0' ? line : NULL;
}

int
programs_find(const char *home, struct policy_list *ret, struct koda_error *err)
{
	const char *set = getenv("NPM_CONFIG_PREFIX");
	cleanup_free char *path = NULL, *text = NULL;
	cleanup_close int fd = -1;
	char *rest, *line;
	ssize_t n;

	if (add_path(ret, err) < 0)
		return -1;
	if (set != NULL && add_prefix(ret, home, set, err) < 0)
		return -1;
	if (home[0] != '/')
		return 0;
	text = malloc(NPMRC_MAX + 1);
	if (text == NULL || asprintf(&path, "%s/.npmrc", home) < 0) {
		path = NULL;
		return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	n = fd < 0 ? 0 : read(fd, text, NPMRC_MAX);
	text[n > 0 ? n : 0] = '\0';
	rest = text;
	while ((line = strsep(&rest, "\n")) != NULL) {
		const char *prefix = prefix_of(line);

		if (prefix != NULL && add_prefix(ret, home, prefix, err) < 0)
			return -1;
	}
	return 0;
}
