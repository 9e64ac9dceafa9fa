/* SPDX-License-Identifier: Apache-2.0 */
#include "host/context/violations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

static const struct {
	const char *name, *line;
} kinds[KODA_N_VIOLATION_KINDS] = {
	[KODA_VIOLATION_FILE_READ] = { "file_read", "deny file-read*" },
	[KODA_VIOLATION_FILE_WRITE] = { "file_write", "deny file-write*" },
	[KODA_VIOLATION_NETWORK_OUTBOUND] = { "network_outbound", "deny network-outbound" },
	[KODA_VIOLATION_PROCESS_EXEC] = { "process_exec", "deny process-exec*" },
	[KODA_VIOLATION_OTHER] = { "other", "deny" },
	[KODA_VIOLATION_NOTE] = { "note", "note" },
};

KODA_API const char *
koda_violation_kind_name(enum koda_violation_kind kind)
{
	return (size_t)kind < N_ELEMENTS(kinds) ? kinds[kind].name : "other";
}

/* ---- the ring ---- */

/* The four strings of a violation are in one block, which starts with the first. */
#define N_STRINGS 4

static void
strings_of(const struct koda_violation *v, const char *ret[N_STRINGS])
{
	ret[0] = v->target != NULL ? v->target : "";
	ret[1] = v->command != NULL ? v->command : "";
	ret[2] = v->rule != NULL ? v->rule : "";
	ret[3] = v->detail != NULL ? v->detail : "";
}

static size_t
strings_size(const struct koda_violation *v)
{
	const char *s[N_STRINGS];
	size_t size = 0;

	strings_of(v, s);
	for (size_t i = 0; i < N_STRINGS; i++)
		size += strlen(s[i]) + 1;
	return size;
}

/* Copies the strings of v to `at`, which has room for strings_size(v) bytes, and makes the returned
 * copy point there. */
static struct koda_violation
copy_to(const struct koda_violation *v, char *at)
{
	struct koda_violation copy = *v;
	const char **to[N_STRINGS] = { &copy.target, &copy.command, &copy.rule, &copy.detail };
	const char *s[N_STRINGS];

	strings_of(v, s);
	for (size_t i = 0; i < N_STRINGS; i++) {
		*to[i] = at;
		at = stpcpy(at, s[i]) + 1;
	}
	return copy;
}

void
violations_init(struct violations *v, size_t capacity)
{
	*v = (struct violations){
		.capacity = capacity < VIOLATIONS_MAX ? capacity : VIOLATIONS_MAX,
	};
}

void
violations_done(struct violations *v)
{
	for (size_t i = 0; i < v->n; i++)
		free((void *)(uintptr_t)v->ring[(v->start + i) % v->capacity].target);
	violations_init(v, v->capacity);
}

void
violations_record(struct violations *v, const struct koda_violation *one)
{
	struct koda_violation *at, copy;
	struct timespec ts;
	char *block;

	if (v->capacity == 0)
		return;
	block = malloc(strings_size(one));
	if (block == NULL)
		return;
	copy = copy_to(one, block); /* copy first: *one may be the entry that is dropped */
	if (v->n == v->capacity) {
		free((void *)(uintptr_t)v->ring[v->start].target);
		v->start = (v->start + 1) % v->capacity;
		v->n--;
	}
	at = &v->ring[(v->start + v->n) % v->capacity];
	*at = copy;
	if ((size_t)at->kind >= N_ELEMENTS(kinds))
		at->kind = KODA_VIOLATION_OTHER;
	if (at->time == 0) {
		clock_gettime(CLOCK_REALTIME, &ts);
		at->time = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
	}
	v->n++;
	v->recorded++;
}

const struct koda_violation *
violations_at(const struct violations *v, size_t i)
{
	return i < v->n ? &v->ring[(v->start + i) % v->capacity] : NULL;
}

size_t
violations_count(const struct violations *v, enum koda_violation_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++)
		n += violations_at(v, i)->kind == kind;
	return n;
}

struct koda_violation *
violations_since(const struct violations *v, uint64_t since, size_t *ret_n)
{
	uint64_t new = since < v->recorded ? v->recorded - since : 0;
	size_t n = new < v->n ? (size_t) new : v->n, size = n * sizeof(struct koda_violation);
	struct koda_violation *copies = NULL;
	char *at;

	for (size_t i = v->n - n; i < v->n; i++)
		size += strings_size(violations_at(v, i));
	if (n > 0)
		copies = malloc(size);
	*ret_n = copies != NULL ? n : 0;
	at = (char *)(copies + *ret_n);
	for (size_t i = 0; i < *ret_n; i++) {
		const struct koda_violation *one = violations_at(v, v->n - n + i);

		copies[i] = copy_to(one, at);
		at += strings_size(one);
	}
	return copies;
}

/* ---- for a model to read ---- */

/*
 * Prints what a command chose (a file's name) on one line: bytes_show() leaves no control
 * character, and '<' is escaped so that a forged tag cannot end the block for the model that reads
 * it.
 */
static void
show_target(FILE *out, const char *target)
{
	char shown[4 * KODA_PATH_SHOWN_MAX];

	bytes_show(shown, sizeof(shown), target, strlen(target));
	for (const char *at = shown; *at != '\0'; at++) {
		if (*at == '<')
			fputs("\\x3c", out);
		else
			fputc(*at, out);
	}
}

/* A guess without a target is the least informative; it is marked "(uncertain)". */
KODA_API char *
koda_violations_render(const struct koda_violation *violations, size_t n)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	if (n == 0)
		return NULL;
	out = open_memstream(&text, &size);
	if (out == NULL)
		return NULL;
	fputs("<sandbox_violations>\n", out);
	for (size_t i = 0; i < n; i++) {
		const struct koda_violation *v = &violations[i];
		bool known = (size_t)v->kind < N_ELEMENTS(kinds);

		fputs(kinds[known ? v->kind : KODA_VIOLATION_OTHER].line, out);
		if (v->target != NULL && v->target[0] != '\0') {
			fputc(' ', out);
			show_target(out, v->target);
		} else if (!v->certain) {
			fputs(" (uncertain)", out);
		}
		fputc('\n', out);
	}
	fputs("</sandbox_violations>\n", out);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
