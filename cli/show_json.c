/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted bytes as JSON: no byte is lost, and none breaks the reader. */
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/show.h"
#include "shared/base/utf8.h"
#include "show/visible.h"

json_t *
show_json_lossy(const void *data, size_t len)
{
	char *text = output_alloc(VISIBLE_LOSSY_SIZE(len));
	json_t *ret = json_stringn(text, visible_lossy(data, len, len, text));

	free(text);
	return ret;
}

json_t *
show_json_base64(const void *data, size_t len)
{
	size_t n = VISIBLE_BASE64_LEN(len);
	char *text = output_alloc(n + 1);
	json_t *ret;

	visible_base64(data, len, text);
	ret = json_stringn_nocheck(text, n);
	free(text);
	return ret;
}

void
show_json_path(json_t *object, const char *key, const char *path)
{
	size_t len = strlen(path);
	char other[64];

	json_object_set_new(object, key, show_json_lossy(path, len));
	if (utf8_is_valid(path, len))
		return;
	snprintf(other, sizeof(other), "%s_base64", key);
	json_object_set_new(object, other, show_json_base64(path, len));
}

void
show_json_content(json_t *object, const void *data, size_t len)
{
	/* U+0000 is valid JSON, but many readers truncate the string there or refuse it. */
	bool text = utf8_is_valid(data, len) && (len == 0 || memchr(data, '\0', len) == NULL);

	json_object_set_new(object, "encoding", json_string(text ? "utf-8" : "base64"));
	json_object_set_new(object, "content",
	    text ? json_stringn_nocheck(data, len) : show_json_base64(data, len));
}
