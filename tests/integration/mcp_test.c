/* SPDX-License-Identifier: Apache-2.0 */
/* The MCP server as clients use it: a real process, lines in, lines out, effects on disk. */
#include "tests/kit/cases.h"
#include "tests/kit/mcp.h"
#include "tests/kit/sanitized.h"

/* ---- one line, one answer ---- */

#define INIT                                                                                       \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\"}}"
#define ASK(rest)  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":" rest "}"
#define TOOL(rest) ASK("\"tools/call\",\"params\":{\"name\":" rest "}")
/* Without a handshake. */
#define META(version)                                                                              \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version                        \
	"\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define SAY(method, version) ASK("\"" method "\",\"params\":{" META(version) "}")
#define NOW                  "2026-07-28"

/* clang-format off */
static const struct exchange {
	const char *label;
	const char *version; /* NULL: before initialize */
	const char *line;
	const char *want[3]; /* each must occur in the answer */
} exchanges[] = {
	{ "ping", "2025-11-25", ASK("\"ping\""), { "\"id\":1,\"result\":{}" } },
	{ "ping before initialize", NULL, ASK("\"ping\""), { "\"id\":1,\"result\":{}" } },
	{ "a request before initialize", NULL, ASK("\"tools/list\""), { "\"id\":1,\"error\":{\"code\":-32600" } },
	{ "initialize twice", "2025-11-25", ASK("\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\"}"), { "-32600" } },
	{ "initialize without a version", NULL, ASK("\"initialize\",\"params\":{}"), { "-32602", "protocolVersion" } },
	{ "2024-11-05", NULL, ASK("\"initialize\",\"params\":{\"protocolVersion\":\"2024-11-05\"}"), { "\"protocolVersion\":\"2024-11-05\"" } },
	{ "2025-03-26", NULL, ASK("\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}"), { "\"protocolVersion\":\"2025-03-26\"" } },
	{ "2025-06-18", NULL, ASK("\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\"}"), { "\"protocolVersion\":\"2025-06-18\"" } },
	{ "2025-11-25", NULL, ASK("\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\"}"), { "\"protocolVersion\":\"2025-11-25\"" } },
	{ "a version of the future", NULL, ASK("\"initialize\",\"params\":{\"protocolVersion\":\"2099-01-01\"}"), { "\"protocolVersion\":\"2025-11-25\"" } },
	{ "no method", "2025-11-25", ASK("\"tools/burn\""), { "\"id\":1,\"error\":{\"code\":-32601" } },
	{ "a notification's name as request", "2025-11-25", ASK("\"notifications/initialized\""), { "-32601" } },
	{ "no JSON", "2025-11-25", "{\"jsonrpc\":", { "\"id\":null,\"error\":{\"code\":-32700" } },
	{ "an empty line", "2025-11-25", "", { "\"id\":null,\"error\":{\"code\":-32700" } },
	{ "no request", "2025-11-25", "7", { "\"id\":null,\"error\":{\"code\":-32600" } },
	{ "a batch where there is none", "2025-06-18", "[" ASK("\"ping\"") "]", { "\"id\":null,\"error\":{\"code\":-32600", "batches" } },
	{ "a batch", "2025-03-26", "[" ASK("\"ping\"") ",5,{\"jsonrpc\":\"2.0\",\"method\":\"x\"},[]]",
	    { "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600", "a batch cannot contain a batch" } },
	{ "initialize in a batch", "2025-03-26", "[" ASK("\"initialize\",\"params\":{\"protocolVersion\":\"2025-03-26\"}") "]", { "[{", "-32600" } },
	{ "level", "2025-11-25", ASK("\"logging/setLevel\",\"params\":{\"level\":\"debug\"}"), { "\"result\":{}" } },
	{ "no level", "2025-11-25", ASK("\"logging/setLevel\",\"params\":{\"level\":\"loud\"}"), { "-32602" } },
	{ "tools", "2025-11-25", ASK("\"tools/list\""), { "\"name\":\"read_file\"", "\"outputSchema\"", "\"readOnlyHint\":true" } },
	{ "no cursor", "2025-11-25", ASK("\"tools/list\",\"params\":{\"cursor\":\"x\"}"), { "-32602" } },
	{ "a cursor that is a number", "2025-11-25", ASK("\"tools/list\",\"params\":{\"cursor\":1}"), { "-32602" } },
	{ "no tool", "2025-11-25", TOOL("\"burn\""), { "\"error\":{\"code\":-32602", "there is no such tool" } },
	{ "a tool without a name", "2025-11-25", ASK("\"tools/call\",\"params\":{}"), { "-32602" } },
	{ "a call without params", "2025-11-25", ASK("\"tools/call\""), { "-32602" } },
	{ "arguments by position", "2025-11-25", TOOL("\"read_file\",\"arguments\":[\"a\"]"), { "\"error\":{\"code\":-32602" } },
	{ "wrong arguments", "2025-06-18", TOOL("\"read_file\",\"arguments\":{\"path\":5}"), { "\"error\":{\"code\":-32602", "path: is not a string" } },
	{ "wrong arguments, for the model", "2025-11-25", TOOL("\"read_file\",\"arguments\":{\"path\":5}"), { "\"result\":", "path: is not a string", "\"isError\":true" } },
	{ "a path with a NUL", "2025-11-25", TOOL("\"read_file\",\"arguments\":{\"path\":\"a\\u0000b\"}"), { "\"isError\":true", "NUL" } },
	{ "no digest", "2025-11-25", TOOL("\"remove\",\"arguments\":{\"path\":\"a\",\"if_digest\":\"zz00000000000000000000000000000000000000000000000000000000000000\"}"), { "\"isError\":true", "if_digest" } },
	{ "a file that is not there", "2025-11-25", TOOL("\"read_file\",\"arguments\":{\"path\":\"no\"}"), { "\"isError\":true", "No such file" } },
	{ "a directory as file", "2025-11-25", TOOL("\"read_file\",\"arguments\":{\"path\":\".\"}"), { "\"isError\":true", "list_directory" } },
	{ "nothing to explain", "2025-11-25", TOOL("\"explain_access\",\"arguments\":{}"), { "\"isError\":true" } },
	{ "a path explained", "2025-11-25", TOOL("\"explain_access\",\"arguments\":{\"path\":\"/etc/x\",\"access\":\"write\"}"), { "\"allowed\":false", "\"rule\":\"allow_write\"", "\"command\":{\"allowed\":false" } },
	{ "a host explained", "2025-11-25", TOOL("\"explain_access\",\"arguments\":{\"host\":\"example.org:80\"}"), { "\"allowed\":false", "\"port\":80", "\"asks\":false" } },
	{ "a template", "2025-11-25", ASK("\"resources/templates/list\""), { "\"uriTemplate\":\"file:///", "/{+path}\"" } },
	{ "no file URI", "2025-11-25", ASK("\"resources/read\",\"params\":{\"uri\":\"http://a/b\"}"), { "-32602" } },
	{ "a resource that is not there", "2025-11-25", ASK("\"resources/read\",\"params\":{\"uri\":\"file:///no/such\"}"), { "\"error\":{\"code\":-32002" } },
	{ "discovered", NULL, SAY("server/discover", NOW), { "\"supportedVersions\":[\"2026-07-28\",\"2025-11-25\",", "\"resultType\":\"complete\"", "\"instructions\":\"Sandboxed" } },
	{ "who is discovered", NULL, SAY("server/discover", NOW), { "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"koda-sandbox\"", "\"ttlMs\":0,\"cacheScope\":\"private\"", "\"capabilities\":{\"tools\":{\"listChanged\":false},\"resources\":{\"subscribe\":false,\"listChanged\":false}}" } },
	{ "discovered by nobody", NULL, ASK("\"server/discover\""), { "\"error\":{\"code\":-32602", "protocolVersion" } },
	{ "discovered after a handshake", "2025-11-25", SAY("server/discover", NOW), { "-32601" } },
	{ "a revision of the future", NULL, SAY("tools/list", "2099-01-01"), { "\"error\":{\"code\":-32022", "\"data\":{\"supported\":[\"2026-07-28\",", "\"requested\":\"2099-01-01\"" } },
	{ "a revision with a handshake, without it", NULL, SAY("tools/list", "2025-11-25"), { "-32022" } },
	{ "a revision that is no name", NULL, ASK("\"tools/list\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":5}}"), { "-32602" } },
	{ "a client that does not say what it can", NULL, ASK("\"tools/list\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"), { "-32602", "clientCapabilities" } },
	{ "tools, without a handshake", NULL, SAY("tools/list", NOW), { "\"name\":\"read_file\"", "\"resultType\":\"complete\"", "\"ttlMs\":0" } },
	{ "a tool, without a handshake", NULL, TOOL("\"list_directory\"," META(NOW)), { "\"structuredContent\":", "\"resultType\":\"complete\"" } },
	{ "an unknown requestState", NULL, TOOL("\"list_directory\",\"requestState\":\"x\"," META(NOW)), { "\"error\":{\"code\":-32602", "requestState" } },
	{ "a requestState that is no text", NULL, TOOL("\"list_directory\",\"requestState\":null," META(NOW)), { "\"error\":{\"code\":-32602", "requestState" } },
	{ "no resource, without a handshake", NULL, ASK("\"resources/read\",\"params\":{\"uri\":\"file:///no/such\"," META(NOW) "}"), { "\"error\":{\"code\":-32602" } },
	{ "ping, which went with the handshake", NULL, SAY("ping", NOW), { "-32601" } },
	{ "a level, which went with the handshake", NULL, SAY("logging/setLevel", NOW), { "-32601" } },
	{ "a handshake that needs none", NULL, SAY("initialize", NOW), { "-32601" } },
	{ "a resource that is no cursor", "2025-11-25", ASK("\"resources/list\",\"params\":{\"cursor\":\"%\"}"), { "-32602" } },
};
/* clang-format on */

static void
test_exchange(void **state)
{
	const struct exchange *e = *state;
	struct client c = client_start("auto");
	char line[256], *text;
	json_t *message;

	if (e->version != NULL) {
		snprintf(line, sizeof(line), INIT, e->version);
		send_line(&c, line);
		message = receive(&c);
		says(message, "result.protocolVersion", e->version);
		json_decref(message);
	}
	send_line(&c, e->line);
	message = receive(&c);
	text = json_dumps(message, JSON_COMPACT);
	for (size_t i = 0; i < N_ELEMENTS(e->want) && e->want[i] != NULL; i++) {
		if (strstr(text, e->want[i]) == NULL)
			fail_msg("%s is not in %s", e->want[i], text);
	}
	free(text);
	json_decref(message);
	/* The session goes on, whatever the line was. */
	if (e->version != NULL)
		json_decref(ask(&c, "ping", NULL));
	client_end(&c);
}

/* Fields are not sent to a client of a revision that did not have them. */
static void
test_old_versions(void **state)
{
	struct client c = client_start("auto");
	json_t *message;

	json_decref(initialize(&c, "2024-11-05", "{}"));
	message = ask(&c, "tools/list", NULL);
	is_missing(message, "result.tools.0.annotations");
	is_missing(message, "result.tools.0.outputSchema");
	is_missing(message, "result.tools.0.title");
	json_decref(message);
	put_text("a", "x\n");
	message = call_tool(&c, "read_file", json_pack("{s:s}", "path", "a"));
	says(message, "result.content.0.text", "x\n");
	is_missing(message, "result.structuredContent");
	json_decref(message);
	client_end(&c);
}

/*
 * After server/discover a client may still choose either protocol; after that the choice is final.
 */
static void
test_one_or_the_other(void **state)
{
	struct client c = client_start("auto");
	json_t *message;

	send_line(&c, SAY("server/discover", NOW));
	json_decref(receive(&c));
	message = initialize(&c, "2025-11-25", "{}");
	says(message, "result.protocolVersion", "2025-11-25");
	json_decref(message);
	message = ask(&c, "tools/list", NULL);
	is_missing(message, "result.resultType");
	json_decref(message);
	client_end(&c);

	c = client_start("auto");
	send_line(&c, SAY("tools/list", NOW));
	json_decref(receive(&c));
	message = ask(&c, "tools/list", NULL);
	counts(message, "error.code", -32602);
	json_decref(message);
	client_end(&c);
}

static void
test_too_long(void **state)
{
	const size_t n = 17 << 20;
	struct client c = client_open("auto", "{}");
	char *line = malloc(n);
	json_t *message;

	assert_non_null(line);
	memset(line, '[', n);
	send_bytes(&c, line, n);
	send_line(&c, "");
	message = receive(&c);
	counts(message, "error.code", -32700);
	says_part(message, "error.message", "a line may have at most");
	json_decref(message);
	json_decref(ask(&c, "ping", NULL));
	free(line);
	client_end(&c);
}

/* ---- files ---- */

static void
test_write_read_edit(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	message = call_tool(&c, "write_file",
	    json_pack("{s:s, s:s}", "path", "new/dir/a.txt", "content", "one\ntwo\nthree\n"));
	went_well(message);
	is_true(message, "result.structuredContent.created");
	counts(message, "result.structuredContent.size", 14);
	json_decref(message);
	holds_text("new/dir/a.txt", "one\ntwo\nthree\n");

	message = call_tool(&c, "read_file",
	    json_pack("{s:s, s:i, s:i, s:b}", "path", "new/dir/a.txt", "offset", 2, "limit", 1,
		"numbered", 1));
	says(message, "result.structuredContent.content", "     2\ttwo\n");
	says(message, "result.content.0.text", "     2\ttwo\n");
	is_true(message, "result.structuredContent.more");
	counts(message, "result.structuredContent.next_offset", 3);
	json_decref(message);

	message = call_tool(&c, "edit_file",
	    json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:s, s:b}]}", "path", "new/dir/a.txt", "edits",
		"old", "two", "new", "2", "old", "e", "new", "E", "all", 1));
	went_well(message);
	counts(message, "result.structuredContent.replacements", 4);
	json_decref(message);
	holds_text("new/dir/a.txt", "onE\n2\nthrEE\n");

	/* All edits or none. */
	message = call_tool(&c, "edit_file",
	    json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "path", "new/dir/a.txt", "edits", "old",
		"2", "new", "two", "old", "nowhere", "new", ""));
	went_wrong(message, "conflict");
	json_decref(message);
	holds_text("new/dir/a.txt", "onE\n2\nthrEE\n");
	client_end(&c);
}

static void
test_bytes(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	put_bytes("a.bin", "ab\0cd", 5);
	message = call_tool(&c, "read_file", json_pack("{s:s}", "path", "a.bin"));
	went_wrong(message, "invalid");
	json_decref(message);
	message = call_tool(&c, "read_file",
	    json_pack("{s:s, s:s, s:i, s:i}", "path", "a.bin", "unit", "bytes", "offset", 1,
		"limit", 3));
	says(message, "result.structuredContent.encoding", "base64");
	says(message, "result.structuredContent.content", "YgBj");
	is_true(message, "result.structuredContent.more");
	json_decref(message);
	put_bytes("latin", "caf\xe9\n", 5);
	message = call_tool(&c, "read_file", json_pack("{s:s}", "path", "latin"));
	says(message, "result.structuredContent.encoding", "utf-8-lossy");
	says(message, "result.structuredContent.content", "caf\xef\xbf\xbd\n");
	json_decref(message);
	client_end(&c);
}

static void
test_image(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	put_bytes("a.png", "\x89PNG\r\n\x1a\n\0\0\0\0", 12);
	message = call_tool(&c, "read_file", json_pack("{s:s}", "path", "a.png"));
	says(message, "result.content.0.type", "image");
	says(message, "result.content.0.mimeType", "image/png");
	says(message, "result.content.0.data", "iVBORw0KGgoAAAAA");
	says(message, "result.structuredContent.encoding", "image");
	json_decref(message);
	client_end(&c);
}

/* A file that the worker hands over as a descriptor from the slot's own mount view. */
static void
test_large(void **state)
{
	enum { LINES = 100000 };
	struct client c = client_open("auto", "{}");
	char *text = malloc(LINES * 8 + 1);
	json_t *message;

	assert_non_null(text);
	for (int i = 0; i < LINES; i++)
		sprintf(text + (size_t)i * 8, "%07d\n", i);
	put_bytes("large", text, LINES * 8);
	message = call_tool(&c, "read_file",
	    json_pack("{s:s, s:i, s:i}", "path", "large", "offset", 90000, "limit", 2));
	says(message, "result.structuredContent.content", "0089999\n0090000\n");
	counts(message, "result.structuredContent.size", LINES * 8);
	json_decref(message);
	/* A page ends with a whole line. */
	message =
	    call_tool(&c, "read_file", json_pack("{s:s, s:i}", "path", "large", "limit", LINES));
	counts(message, "result.structuredContent.count", 32768);
	counts(message, "result.structuredContent.next_offset", 32769);
	json_decref(message);
	free(text);
	client_end(&c);
}

static json_t *
edit_args(const char *path, const char *old, const char *new)
{
	return json_pack("{s:s, s:[{s:s, s:s}]}", "path", path, "edits", "old", old, "new", new);
}

static void
test_stale(void **state)
{
	static const char *const names[] = { "a", "./a", "link" };

	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		struct client c = client_open("auto", "{}");
		json_t *message;

		put_text("a", "one\n");
		process_shell("ln -sf a \"$1/link\"", project, NULL, NULL);
		json_decref(call_tool(&c, "read_file", json_pack("{s:s}", "path", "a")));
		put_text("a", "one and others\n");
		message = call_tool(&c, "edit_file", edit_args(names[i], "one", "1"));
		went_wrong(message, "conflict");
		says_part(message, "result.content.0.text", "read it again");
		json_decref(message);
		message = call_tool(&c, "write_file",
		    json_pack("{s:s, s:s}", "path", names[i], "content", "mine"));
		went_wrong(message, "conflict");
		json_decref(message);
		holds_text("a", "one and others\n");
		json_decref(call_tool(&c, "read_file", json_pack("{s:s}", "path", "a")));
		message = call_tool(&c, "edit_file", edit_args(names[i], "one", "1"));
		went_well(message);
		json_decref(message);
		holds_text("a", "1 and others\n");
		client_end(&c);
	}
}

/* Edits that a client sends together do not make each other stale. */
static void
test_own_edits(void **state)
{
	struct client c = client_open("auto", "{}");

	put_text("a", "0 1 2 3 4 5 6 7");
	json_decref(call_tool(&c, "read_file", json_pack("{s:s}", "path", "a")));
	for (int i = 0; i < 8; i++) {
		char old[2] = { (char)('0' + i), '\0' }, new[2] = { (char)('a' + i), '\0' };

		request_tool(&c, "edit_file", edit_args("a", old, new));
	}
	for (int i = 0; i < 8; i++) {
		json_t *message = receive(&c);

		went_well(message);
		json_decref(message);
	}
	holds_text("a", "a b c d e f g h");
	client_end(&c);
}

static void
test_if_digest(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message, *read;

	put_text("a", "one\n");
	read = call_tool(&c, "read_file", json_pack("{s:s}", "path", "a"));
	put_text("a", "two\n");
	message = call_tool(&c, "remove",
	    json_pack("{s:s, s:s}", "path", "a", "if_digest",
		string_at(read, "result.structuredContent.digest")));
	went_wrong(message, "conflict");
	json_decref(message);
	json_decref(read);
	holds_text("a", "two\n");
	client_end(&c);
}

static void
test_move_remove(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	put_text("a", "a");
	put_text("b", "b");
	message = call_tool(&c, "move", json_pack("{s:s, s:s}", "from", "a", "to", "b"));
	is_true(message, "result.isError");
	json_decref(message);
	holds_text("b", "b");
	message = call_tool(&c, "move",
	    json_pack("{s:s, s:s, s:b}", "from", "a", "to", "b", "overwrite", 1));
	went_well(message);
	json_decref(message);
	holds_text("b", "a");
	holds_text("a", NULL);
	process_shell("mkdir -p \"$1/d/e\" && touch \"$1/d/e/f\"", project, NULL, NULL);
	message = call_tool(&c, "remove", json_pack("{s:s}", "path", "d"));
	is_true(message, "result.isError");
	json_decref(message);
	holds_text("d/e/f", "");
	message = call_tool(&c, "remove", json_pack("{s:s, s:b}", "path", "d", "recursive", 1));
	went_well(message);
	says(message, "result.structuredContent.type", "directory");
	json_decref(message);
	assert_int_equal(access(at_root("d"), F_OK), -1);
	client_end(&c);
}

static void
test_list(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message;

	process_shell("cd \"$1\" && mkdir d && ln -s d l && printf xx >f && touch a b c", project,
	    NULL, NULL);
	message = call_tool(&c, "list_directory", json_object());
	is_missing(message, "result.structuredContent.entries.4.size");
	says(message, "result.content.0.text", "a\nb\nc\nd/\nf\nl@\n");
	json_decref(message);
	message = call_tool(&c, "list_directory", json_pack("{s:b}", "sizes", 1));
	says(message, "result.content.0.text", "a\t0\nb\t0\nc\t0\nd/\nf\t2\nl@\n");
	counts(message, "result.structuredContent.total", 6);
	says(message, "result.structuredContent.entries.3.name", "d");
	says(message, "result.structuredContent.entries.3.type", "directory");
	counts(message, "result.structuredContent.entries.4.size", 2);
	says(message, "result.structuredContent.entries.5.type", "symlink");
	json_decref(message);
	message = call_tool(&c, "list_directory", json_pack("{s:i, s:i}", "offset", 1, "limit", 2));
	says(message, "result.structuredContent.entries.0.name", "b");
	is_missing(message, "result.structuredContent.entries.2");
	is_true(message, "result.structuredContent.more");
	json_decref(message);
	client_end(&c);
}

static void
test_outside(void **state)
{
	struct client c = client_open("auto", "{}");
	char path[PATH_MAX + 8];
	json_t *message;

	snprintf(path, sizeof(path), "%s/x", outside);
	message =
	    call_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", path, "content", "x"));
	went_wrong(message, "policy_denied");
	says(message, "result._meta.koda-sandbox/error.rule", "allow_write");
	json_decref(message);
	process_shell("ln -s \"$2\" \"$1/link\"", project, outside, NULL);
	message =
	    call_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "link/x", "content", "x"));
	went_wrong(message, "policy_denied");
	json_decref(message);
	assert_int_equal(access(path, F_OK), -1);
	message = call_tool(&c, "write_file",
	    json_pack("{s:s, s:s}", "path", ".git/hooks/pre-commit", "content", "x"));
	went_wrong(message, "policy_denied");
	json_decref(message);
	assert_int_equal(access(at_root(".git"), F_OK), -1);
	client_end(&c);
}

static void
test_plan(void **state)
{
	struct client c = client_open("plan", "{\"elicitation\":{}}");
	json_t *message = ask(&c, "tools/list", NULL);
	const json_t *tool;
	size_t i, unavailable = 0;

	json_array_foreach(look(message, "result.tools"), i, tool)
	{
		if (look(tool, "_meta.koda-sandbox/available") == NULL)
			continue;
		unavailable++;
		says_part(tool, "description", "Unavailable in plan mode");
	}
	assert_true(unavailable >= 4);
	json_decref(message);
	message = call_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "a", "content", "x"));
	went_wrong(message, "policy_denied");
	says_part(message, "result.content.0.text", "Plan mode");
	json_decref(message);
	holds_text("a", NULL);
	client_end(&c);
}

static void
test_at_once(void **state)
{
	struct client c = client_open("auto", "{}");
	bool seen[64] = { false };
	json_int_t first = c.next_id;

	for (int i = 0; i < 64; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%d", i);
		request_tool(&c, "write_file",
		    json_pack("{s:s, s:s}", "path", name, "content", name));
	}
	for (int i = 0; i < 64; i++) {
		json_t *message = receive(&c);
		json_int_t id = json_integer_value(look(message, "id"));

		went_well(message);
		assert_in_range(id, first, first + 63);
		assert_false(seen[id - first]);
		seen[id - first] = true;
		json_decref(message);
	}
	holds_text("f63", "f63");
	client_end(&c);
}

/* ---- resources ---- */

static void
test_resources(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message, *params = NULL;
	size_t n = 0, pages = 0;
	char last[256] = "", uri[PATH_MAX + 32];

	process_shell(
	    "cd \"$1\" && mkdir -p a b/c .hidden && touch .hidden/x && "
	    "for i in $(seq 250); do : >\"b/f $i\"; done && printf hi >b/c/deep && touch a.txt",
	    project, NULL, NULL);
	do {
		const json_t *one;
		size_t i;

		message = ask(&c, "resources/list", params);
		json_array_foreach(look(message, "result.resources"), i, one)
		{
			says_part(one, "uri", "file:///");
			assert_string_not_equal(string_at(one, "name"), last);
			snprintf(last, sizeof(last), "%s", string_at(one, "name"));
			n++;
		}
		pages++;
		params = look(message, "result.nextCursor") == NULL
		    ? NULL
		    : json_pack("{s:s}", "cursor", string_at(message, "result.nextCursor"));
		json_decref(message);
	} while (params != NULL);
	assert_int_equal(n, 252);
	assert_int_equal(pages, 3);

	snprintf(uri, sizeof(uri), "file://%s/b/c/deep", project);
	message = ask(&c, "resources/read", json_pack("{s:s}", "uri", uri));
	says(message, "result.contents.0.text", "hi");
	says(message, "result.contents.0.uri", uri);
	json_decref(message);
	put_bytes("bin", "\0\1", 2);
	snprintf(uri, sizeof(uri), "file://%s/b%%69n", project);
	message = ask(&c, "resources/read", json_pack("{s:s}", "uri", uri));
	says(message, "result.contents.0.blob", "AAE=");
	json_decref(message);
	client_end(&c);
}

/* A page may end anywhere: also at a long path whose bytes each need an escape in the cursor. */
static void
test_resources_far_down(void **state)
{
	struct client c = client_open("auto", "{}");
	json_t *message, *params = NULL;
	size_t n = 0;

	process_shell("name=$(printf '\342\202\254%.0s' $(seq 80)) && d=$1 && "
		      "for i in $(seq 12); do d=$d/$name; done && mkdir -p \"$d\" && cd \"$d\" && "
		      "for i in $(seq 150); do : >\"$name$i\"; done",
	    project, NULL, NULL);
	do {
		message = ask(&c, "resources/list", params);
		if (!json_is_array(look(message, "result.resources")))
			fail_msg("after %zu: %s", n, string_at(message, "error.message"));
		n += json_array_size(look(message, "result.resources"));
		params = look(message, "result.nextCursor") == NULL
		    ? NULL
		    : json_pack("{s:s}", "cursor", string_at(message, "result.nextCursor"));
		json_decref(message);
	} while (params != NULL);
	assert_int_equal(n, 150);
	client_end(&c);
}

/* ---- the client's roots, and its log ---- */

static void
test_roots(void **state)
{
	struct client c = client_open("auto", "{\"roots\":{}}");
	json_t *message = receive(&c);
	char uri[PATH_MAX + 32];

	says(message, "method", "roots/list");
	send_json(&c,
	    json_pack("{s:s, s:O, s:{s:[{s:s}]}}", "jsonrpc", "2.0", "id", look(message, "id"),
		"result", "roots", "uri", "file:///somewhere/else"));
	json_decref(message);
	message = receive(&c);
	says(message, "method", "notifications/message");
	says(message, "params.level", "warning");
	json_decref(message);
	/* The foreign root is logged, and changes nothing. */
	message = call_tool(&c, "write_file",
	    json_pack("{s:s, s:s}", "path", "/somewhere/else", "content", "x"));
	went_wrong(message, "policy_denied");
	json_decref(message);
	send_line(&c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}");
	message = receive(&c);
	says(message, "method", "roots/list");
	snprintf(uri, sizeof(uri), "file://%s", project);
	send_json(&c,
	    json_pack("{s:s, s:O, s:{s:[{s:s}]}}", "jsonrpc", "2.0", "id", look(message, "id"),
		"result", "roots", "uri", uri));
	json_decref(message);
	json_decref(ask(&c, "ping", NULL));
	client_end(&c);
}

/*
 * A client that keeps reporting changes of its roots is asked for them once, and once more after it
 * has answered.
 */
static void
test_roots_unanswered(void **state)
{
	struct client c = client_open("auto", "{\"roots\":{}}");
	json_t *asked = receive(&c), *message;

	says(asked, "method", "roots/list");
	for (int i = 0; i < 100; i++)
		send_line(&c,
		    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}");
	message = ask(&c, "ping", NULL);
	is_missing(message, "method");
	json_decref(message);
	send_json(&c,
	    json_pack("{s:s, s:O, s:{s:[]}}", "jsonrpc", "2.0", "id", look(asked, "id"), "result",
		"roots"));
	json_decref(asked);
	message = receive(&c);
	says(message, "method", "roots/list");
	json_decref(message);
	json_decref(ask(&c, "ping", NULL));
	expect_silence(&c, 50);
	client_end(&c);
}

/* ---- the end ---- */

static void
test_end_of_input(void **state)
{
	struct client c = client_start("auto");
	json_t *message;
	int n = 0;

	send_line(&c,
	    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
	    "\"2025-11-25\"}}");
	for (int i = 0; i < 20; i++)
		request_tool(&c, "write_file",
		    json_pack("{s:s, s:s}", "path", "a", "content", "x"));
	/* The last line needs no newline. */
	send_bytes(&c, "{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"ping\"}", 41);
	process_close_input(&c.p);
	while ((message = receive(&c)) != NULL) {
		n++;
		json_decref(message);
	}
	assert_int_equal(n, 22);
	assert_int_equal(client_wait(&c), 0);
	holds_text("a", "x");
}

static void
test_end_at_once(void **state)
{
	struct client c = client_start("auto");

	client_end(&c);
}

static void
end_by_signal(int signo)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	uint64_t start;

	request_tool(&c, "write_file", json_pack("{s:s, s:s}", "path", "a", "content", "x"));
	json_decref(receive(&c)); /* the question, which gets no answer */
	start = clock_ms();
	kill(c.p.pid, signo);
	assert_int_equal(client_wait(&c), 0);
	assert_true(clock_ms() - start < 1000 * (SANITIZED ? 5 : 1));
	holds_text("a", NULL);
}

static void
test_sigterm(void **state)
{
	end_by_signal(SIGTERM);
}

static void
test_sigint(void **state)
{
	end_by_signal(SIGINT);
}

static void
test_reader_gone(void **state)
{
	struct client c = client_open("auto", "{}");

	json_decref(ask(&c, "ping", NULL));
	close(c.p.out);
	c.p.out = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(client_wait(&c), 0);
}

/* Auto promises a sandbox: without one the server does not fall back to less. */
static void
test_no_sandbox(void **state)
{
	static const char script[] =
	    "cd \"$1/libexec/koda-sandbox\" && mv koda-sandbox-stage2 kept && "
	    "cp /bin/false koda-sandbox-stage2";
	struct client c;
	json_t *message;

	process_shell(script, prefix, NULL, NULL);
	c = client_start("auto");
	json_decref(initialize(&c, "2025-11-25", "{}"));
	message = receive(&c);
	says(message, "params.level", "critical");
	json_decref(message);
	assert_null(receive(&c));
	assert_int_equal(client_wait(&c), 88);
	process_shell("cd \"$1/libexec/koda-sandbox\" && mv kept koda-sandbox-stage2", prefix, NULL,
	    NULL);
}

/* ---- a client that never reads ---- */

static void
test_never_reads(void **state)
{
	static char text[256 << 10], pad[2 << 10];
	struct client c = client_open("auto", "{}");
	struct pollfd pfd = { .fd = c.p.in, .events = POLLOUT };
	int sent = 0, got = 0;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = i % 64 == 63 ? '\n' : 'x';
	put_bytes("a", text, sizeof(text));
	/*
	 * Until the server takes no more: its own pipe is full of answers that the client does not
	 * read. A line is short enough to fit when poll() reports space.
	 */
	memset(pad, 'x', sizeof(pad) - 1);
	while (poll(&pfd, 1, 500 * (SANITIZED ? 4 : 1)) == 1) {
		request(&c, "tools/call",
		    json_pack("{s:s, s:{s:s, s:i}, s:{s:s}}", "name", "read_file", "arguments",
			"path", "a", "limit", 100000, "_meta", "pad", pad));
		if (++sent > 1000)
			fail_msg("it takes more and more");
	}
	assert_true(sent > 10);
	if (!SANITIZED)
		assert_true(resident_kib(c.p.pid) < 40 << 10);
	/* After that all requests are answered. */
	for (; got < sent; got++) {
		json_t *message = receive(&c);

		went_well(message);
		json_decref(message);
	}
	client_end(&c);
}

static void
test_memory(void **state)
{
	struct client c = client_open("auto", "{}");

	put_text("a", "one\ntwo\n");
	for (int i = 0; i < 500; i++) {
		json_decref(call_tool(&c, "read_file", json_pack("{s:s}", "path", "a")));
		json_decref(call_tool(&c, "edit_file",
		    edit_args("a", i % 2 ? "1" : "one", i % 2 ? "one" : "1")));
	}
	if (!SANITIZED)
		assert_true(resident_kib(c.p.pid) < 6 << 10);
	client_end(&c);
}

/* Lines that arrive faster than the server handles them stay in the pipe. */
static void
test_many_lines(void **state)
{
	struct client c = client_open("auto", "{}");
	char piece[4096];
	size_t n = 0;
	long before;

	while (n < sizeof(piece) - 64)
		n += (size_t)sprintf(piece + n, "{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}\n");
	json_decref(ask(&c, "ping", NULL));
	before = resident_kib(c.p.pid);
	for (size_t sent = 0; sent < 32u << 20; sent += n)
		send_bytes(&c, piece, n);
	if (!SANITIZED)
		assert_true(resident_kib(c.p.pid) < before + 2048);
	json_decref(ask(&c, "ping", NULL));
	client_end(&c);
}

/* The server holds the arguments of waiting calls only up to a limit. */
static void
test_large_calls_wait(void **state)
{
	struct client c = client_open("safe", "{\"elicitation\":{}}");
	const size_t len = 15u << 20;
	char *content = malloc(len + 1);
	json_t *message;

	assert_non_null(content);
	memset(content, 'x', len);
	content[len] = '\0';
	for (int i = 0; i < 5; i++)
		request_tool(&c, "write_file",
		    json_pack("{s:s, s:s}", "path", "a", "content", content));
	free(content);
	message = receive(&c);
	if (look(message, "method") != NULL) {
		json_decref(message);
		message = receive(&c);
	}
	went_wrong(message, "too_large");
	says_part(message, "result.content.0.text", "wait for one of them");
	json_decref(message);
	client_end(&c);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, make_project, remove_project)

int
main(void)
{
	const struct CMUnitTest single[] = {
		TEST(test_old_versions),
		TEST(test_one_or_the_other),
		TEST(test_too_long),
		TEST(test_write_read_edit),
		TEST(test_bytes),
		TEST(test_image),
		TEST(test_large),
		TEST(test_stale),
		TEST(test_own_edits),
		TEST(test_if_digest),
		TEST(test_move_remove),
		TEST(test_list),
		TEST(test_outside),
		TEST(test_plan),
		TEST(test_at_once),
		TEST(test_resources),
		TEST(test_resources_far_down),
		TEST(test_roots),
		TEST(test_roots_unanswered),
		TEST(test_end_of_input),
		TEST(test_end_at_once),
		TEST(test_sigterm),
		TEST(test_sigint),
		TEST(test_reader_gone),
		TEST(test_no_sandbox),
		TEST(test_never_reads),
		TEST(test_memory),
		TEST(test_many_lines),
		TEST(test_large_calls_wait),
	};
	struct CMUnitTest tests[N_ELEMENTS(exchanges) + N_ELEMENTS(single)];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(exchanges); i++)
		tests[n++] = (struct CMUnitTest){ exchanges[i].label, test_exchange, make_project,
			remove_project, (void *)&exchanges[i] };
	OTHERS(single);
	return cmocka_run_group_tests_name("mcp", tests, make_installation, remove_installation);
}
