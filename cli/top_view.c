/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/show.h"

struct top_view {
	FILE *to;
	const struct top_size *size;
	unsigned lines, left_out;
};

/* ---- a line ---- */

/* Returns the bytes of at most so many characters of s, which is UTF-8 from show(). */
static size_t
bytes_of(const char *s, size_t len, size_t characters)
{
	for (size_t i = 0; i < len; i++) {
		if (((unsigned char)s[i] & 0xc0) == 0x80)
			continue;
		if (characters == 0)
			return i;
		characters--;
	}
	return len;
}

static void
put_line(struct top_view *view, const char *colour, const char *line, size_t len)
{
	const struct top_size *size = view->size;

	/* The last row says how many lines did not fit. */
	if (size->rows != 0 && view->lines + 1 >= size->rows) {
		view->left_out++;
		return;
	}
	if (size->columns != 0)
		len = bytes_of(line, len, size->columns);
	fputs(size->colour ? colour : "", view->to);
	fwrite(line, 1, len, view->to);
	fputs(size->colour && colour[0] != '\0' ? "\033[0m" : "", view->to);
	fputs(size->end, view->to);
	view->lines++;
}

static void __attribute__((format(printf, 3, 4)))
put(struct top_view *view, const char *colour, const char *fmt, ...)
{
	char *line;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&line, fmt, ap);
	va_end(ap);
	if (n < 0)
		output_no_memory();
	put_line(view, colour, line, (size_t)n);
	free(line);
}

#define PLAIN   ""
#define HEADING "\033[1m"
#define TITLES  "\033[2m"

/* ---- values ---- */

static const char *
string(const json_t *row, const char *key)
{
	const char *value = json_string_value(json_object_get(row, key));

	return value != NULL ? value : "";
}

/*
 * Escapes untrusted text for a column of `width` characters; 0: any width. The caller must free()
 * it.
 */
static char *
shown(const json_t *row, const char *key, size_t width)
{
	const char *value = string(row, key);
	char *text = NULL;
	size_t len = 0, keep;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		output_no_memory();
	show_string(f, value);
	if (fclose(f) != 0)
		output_no_memory();
	keep = width == 0 ? len : bytes_of(text, len, width);
	text[keep] = '\0';
	return text;
}

/* Returns how many spaces pad the text to the width of the column. */
static int
padding(const char *text, int width)
{
	int n = 0;

	for (const char *p = text; *p != '\0'; p++)
		n += ((unsigned char)*p & 0xc0) != 0x80;
	return n < width ? width - n : 0;
}

static long long
integer(const json_t *row, const char *key)
{
	return (long long)json_integer_value(json_object_get(row, key));
}

#define AMOUNT_SIZE 24
static const char *
amount(char buf[AMOUNT_SIZE], double bytes)
{
	static const char units[] = "BKMGT";
	size_t unit = 0;

	while (bytes >= 1024 && unit + 2 < sizeof(units)) {
		bytes /= 1024;
		unit++;
	}
	snprintf(buf, AMOUNT_SIZE, unit == 0 ? "%.0f%c" : "%.1f%c", bytes, units[unit]);
	return buf;
}

static const char *
duration(char buf[AMOUNT_SIZE], long long us)
{
	if (us < 1000)
		snprintf(buf, AMOUNT_SIZE, "%lld us", us);
	else if (us < 1000000)
		snprintf(buf, AMOUNT_SIZE, "%.1f ms", (double)us / 1e3);
	else
		snprintf(buf, AMOUNT_SIZE, "%.1f s", (double)us / 1e6);
	return buf;
}

/* ---- the tables ---- */

#define NAME_WIDTH 16

static void
put_session(struct top_view *view, const json_t *row)
{
	char *name = shown(row, "name", NAME_WIDTH), *mode = shown(row, "mode", 4);
	char *root = shown(row, "root", 0);

	put(view, PLAIN, "  %s%*s  %-4s %5lld %7lld %8lld %7lld %8lld %10lld  %s", name,
	    padding(name, NAME_WIDTH), "", mode, integer(row, "slots"), integer(row, "workers"),
	    integer(row, "calls"), integer(row, "refusals"), integer(row, "respawns"),
	    integer(row, "violations"), root);
	free(name);
	free(mode);
	free(root);
}

static void
put_worker(struct top_view *view, const json_t *row)
{
	char *session = shown(row, "session", NAME_WIDTH);
	char buf[AMOUNT_SIZE];

	put(view, PLAIN, "  %s%*s  %7lld %8s", session, padding(session, NAME_WIDTH), "",
	    integer(row, "pid"), amount(buf, (double)integer(row, "rss_kib") * 1024));
	free(session);
}

static void
put_command(struct top_view *view, const json_t *row)
{
	char *session = shown(row, "session", NAME_WIDTH), *line = shown(row, "command", 0);

	put(view, PLAIN, "  %s%*s  %7.1f s  %s", session, padding(session, NAME_WIDTH), "",
	    json_number_value(json_object_get(row, "seconds")), line);
	free(session);
	free(line);
}

static void
put_connection(struct top_view *view, const json_t *row)
{
	char *session = shown(row, "session", NAME_WIDTH), *host = shown(row, "host", 0);
	char *verdict = shown(row, "verdict", 8);
	char up[AMOUNT_SIZE], down[AMOUNT_SIZE];

	put(view, PLAIN, "  %s%*s  %-8s %8s %8s  %s:%lld", session, padding(session, NAME_WIDTH),
	    "", verdict, amount(up, (double)integer(row, "bytes_up")),
	    amount(down, (double)integer(row, "bytes_down")), host, integer(row, "port"));
	free(session);
	free(host);
	free(verdict);
}

static void
put_tool(struct top_view *view, const json_t *row)
{
	char *name = shown(row, "name", NAME_WIDTH);
	char p50[AMOUNT_SIZE], p99[AMOUNT_SIZE];

	put(view, PLAIN, "  %s%*s  %8lld %9s %9s", name, padding(name, NAME_WIDTH), "",
	    integer(row, "calls"), duration(p50, integer(row, "p50_us")),
	    duration(p99, integer(row, "p99_us")));
	free(name);
}

static const struct {
	const char *list, *titles;
	void (*put)(struct top_view *, const json_t *);
} tables[] = {
	/* clang-format off */
	{ "sessions",    "  SESSION           MODE SLOTS WORKERS    CALLS REFUSED RESPAWNS VIOLATIONS  ROOT", put_session },
	{ "workers",     "  WORKERS OF            PID   MEMORY", put_worker },
	{ "commands",    "  COMMANDS OF            TIME  COMMAND", put_command },
	{ "connections", "  CONNECTIONS OF    VERDICT        UP     DOWN  HOST", put_connection },
	{ "tools",       "  TOOL                 CALLS       P50       P99", put_tool },
	/* clang-format on */
};

static void
put_number(struct top_view *view, const char *key, const json_t *value)
{
	json_t *one = json_object();
	char *name;

	/* As a value: the servers' keys are as untrusted as any text. */
	json_object_set_new(one, "key", json_string(key));
	name = shown(one, "key", 0);
	put(view, PLAIN, "  %s: %lld", name, (long long)json_integer_value(value));
	free(name);
	json_decref(one);
}

static void
put_server(struct top_view *view, const json_t *server)
{
	json_t *numbers = json_object_get(server, "numbers");
	const char *key;
	json_t *value;

	if (json_is_true(json_object_get(server, "silent"))) {
		char *name = shown(server, "name", 0);

		put(view, HEADING, "server %s does not answer", name);
		free(name);
		return;
	}
	put(view, HEADING, "server %lld", integer(server, "pid"));
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		const json_t *rows = json_object_get(server, tables[i].list);

		if (json_array_size(rows) > 0)
			put(view, TITLES, "%s", tables[i].titles);
		for (size_t k = 0; k < json_array_size(rows); k++)
			tables[i].put(view, json_array_get(rows, k));
	}
	json_object_foreach(numbers, key, value)
	{
		put_number(view, key, value);
	}
	if (integer(server, "left_out") > 0)
		put(view, PLAIN, "  and %lld more rows that the server left out",
		    integer(server, "left_out"));
}

unsigned
top_view(FILE *f, const json_t *servers, const struct top_size *size)
{
	struct top_view view = { .to = f, .size = size };

	if (json_array_size(servers) == 0)
		put(&view, PLAIN, "no server is running");
	for (size_t i = 0; i < json_array_size(servers); i++)
		put_server(&view, json_array_get(servers, i));
	if (view.left_out > 0) {
		fprintf(f, "... and %u lines more", view.left_out);
		view.lines++;
	}
	return view.lines;
}
