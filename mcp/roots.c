/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/roots.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/ask.h"
#include "mcp/connection_out.h"
#include "mcp/text.h"
#include "mcp/uri.h"

/* Returns whether inner is outer, or below it. */
static bool
contains(const char *outer, const char *inner)
{
	size_t len = strlen(outer);

	while (len > 1 && outer[len - 1] == '/')
		len--;
	return strncmp(outer, inner, len) == 0 &&
	    (len == 1 || inner[len] == '\0' || inner[len] == '/');
}

static bool
fits(const struct connection *conn, const json_t *root)
{
	const char *uri = json_string_value(json_object_get(root, "uri"));
	char *path = uri != NULL ? uri_to_path(uri) : NULL;
	bool ret = path != NULL && (contains(path, conn->root) || contains(conn->root, path));

	free(path);
	return ret;
}

static void
on_roots(void *data, const json_t *result)
{
	struct connection *conn = data;
	const json_t *roots = json_object_get(result, "roots"), *root;
	struct text t = { 0 };
	const bool again = conn->roots_changed;
	size_t i;

	conn->roots_asked = conn->roots_changed = false;
	if (again && result != NULL) {
		roots_ask(conn);
		return;
	}
	if (json_array_size(roots) == 0)
		return;
	json_array_foreach(roots, i, root)
	{
		if (fits(conn, root))
			return;
	}
	text_printf(&t, "none of the client's roots is '");
	text_show_string(&t, conn->root);
	text_printf(&t, "' or overlaps it, and these tools work nowhere else");
	text_add(&t, "", 1);
	connection_log(conn, LEVEL_WARNING, t.p);
	text_done(&t);
}

void
roots_ask(struct connection *conn)
{
	if (!conn->has_roots)
		return;
	/* One question at a time: a client that reports changes but never answers must not make
	 * us hold a question for each report. */
	conn->roots_changed = conn->roots_asked;
	if (!conn->roots_asked)
		connection_ask(conn, "roots/list", NULL, on_roots, conn);
	conn->roots_asked = true;
}
