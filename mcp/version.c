/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/version.h"

#include <string.h>

#include "include/koda/sandbox.h"

#define META_SERVER "io.modelcontextprotocol/serverInfo"

/* clang-format off */
const struct version version_newest =
	{ .name = "2026-07-28", .annotations = true, .structured = true, .arguments_told = true, .rounds = true };
/* The revisions with a handshake. */
static const struct version versions[] = {
	{ .name = "2025-11-25", .annotations = true, .structured = true, .arguments_told = true },
	{ .name = "2025-06-18", .annotations = true, .structured = true },
	{ .name = "2025-03-26", .annotations = true, .batches = true },
	{ .name = "2024-11-05" },
};
/* clang-format on */

const struct version *
version_negotiate(const char *wanted)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		if (strcmp(versions[i].name, wanted) == 0)
			return &versions[i];
	}
	/* Unknown revision: offer the newest of these, and the client disconnects if it cannot
	 * speak it. */
	return &versions[0];
}

json_t *
version_names(void)
{
	json_t *ret = json_pack("[s]", version_newest.name);

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		json_array_append_new(ret, json_string_nocheck(versions[i].name));
	return ret;
}

json_t *
version_server_info(const struct version *version)
{
	json_t *ret = json_pack("{s:s, s:s}", "name", "koda-sandbox", "version", koda_version());

	if (version->structured)
		json_object_set_new_nocheck(ret, "title", json_string_nocheck("koda-sandbox"));
	return ret;
}

json_t *
version_result(json_t *result, bool cacheable)
{
	json_t *meta = json_object_get(result, "_meta");

	if (json_object_get(result, "resultType") == NULL)
		json_object_set_new_nocheck(result, "resultType", json_string_nocheck("complete"));
	/* Files and their listings change: a client that caches an answer must ask again before
	 * using it. */
	if (cacheable) {
		json_object_set_new_nocheck(result, "ttlMs", json_integer(0));
		json_object_set_new_nocheck(result, "cacheScope", json_string_nocheck("private"));
	}
	if (meta != NULL)
		json_object_set_new_nocheck(meta, META_SERVER,
		    version_server_info(&version_newest));
	else
		json_object_set_new_nocheck(result, "_meta",
		    json_pack("{s:o}", META_SERVER, version_server_info(&version_newest)));
	return result;
}

static bool
has_member(const json_t *object, const char *key)
{
	return json_is_object(json_object_get(object, key));
}

bool
version_has_forms(const json_t *can)
{
	const json_t *elicitation = json_object_get(can, "elicitation");

	return json_is_object(elicitation) &&
	    (has_member(elicitation, "form") || !has_member(elicitation, "url"));
}
