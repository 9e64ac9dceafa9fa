#include "mcp/question.h"

#include <stdlib.h>
#include <string.h>

#include "mcp/diff.h"
#include "mcp/memory.h"
#include "show/asked.h"

/* The result of an edit is computed again here to show it; a larger one is shown replacement by
 * replacement. */
#define SHOWN_WHOLE_MAX (4u << 20)

/* Escapes quotes in a name: otherwise one could look like the closing quote, and the text after
 * it would be read as ours. */
static void
quoted(struct text *t, const char *path)
{
	text_printf(t, "'");
	for (const char *p = path; *p != '\0';) {
		size_t n = strcspn(p, "'\\");

		text_ask(t, p, n);
		p += n;
		if (*p != '\0')
			text_printf(t, "\\%c", *p++);
	}
	text_printf(t, "'");
}

static bool
is_text(const void *data, size_t len)
{
	return len == 0 || memchr(data, '\0', len) == NULL;
}

/* Maximum work: an edit copies the content, and many replacements copy it in many pieces. The
 * loop waits for this, some hundredths of a second at this limit. */
#define SHOWN_WORK_MAX (32u << 20)
#define PIECE_WORK     16

/* Replaces *content with the result of one replacement, and adds to *total and *work. Returns
 * false if it exceeds the limits. */
static bool
apply(struct text *content, const struct koda_edit *edit, uint64_t *total, uint64_t *work)
{
	struct text next = { 0 };
	const char *p = content->p, *end = p + content->len, *hit;
	bool more = true, fits = true;

	while (more && fits && edit->old_len > 0 &&
	    (hit = memmem(p, (size_t)(end - p), edit->old_text, edit->old_len)) != NULL) {
		text_add(&next, p, (size_t)(hit - p));
		text_add(&next, edit->new_text, edit->new_len);
		p = hit + edit->old_len;
		++*total;
		*work += PIECE_WORK;
		more = edit->all;
		fits = next.len <= SHOWN_WHOLE_MAX && *work <= SHOWN_WORK_MAX;
	}
	text_add(&next, p, (size_t)(end - p));
	/* An empty result is still a text. */
	if (next.p == NULL)
		next.p = memory_zero(1);
	*work += content->len + next.len;
	text_done(content);
	*content = next;
	return fits && *work <= SHOWN_WORK_MAX;
}

/* Shows the diff of the whole file, if the content that was read and the library's counts agree. */
static bool
show_edit_whole(struct text *t, const struct koda_question *q, const struct question_before *before)
{
	struct text now = { 0 };
	uint64_t total = 0, work = 0;
	bool same = before->old != NULL && before->old_len == q->size_before &&
	    before->old_len <= SHOWN_WHOLE_MAX && before->old_len > 0 &&
	    is_text(before->old, before->old_len);

	if (!same)
		return false;
	text_add(&now, before->old, before->old_len);
	for (size_t i = 0; i < q->n_edits && same; i++)
		same = apply(&now, &q->edits[i], &total, &work);
	same = same && total == q->replacements && now.len == q->size_after;
	if (same)
		diff_unified(t, before->old, before->old_len, now.p, now.len);
	text_done(&now);
	return same;
}

static void
show_replacements(struct text *t, const struct koda_question *q)
{
	for (size_t i = 0; i < q->n_edits; i++) {
		const struct koda_edit *e = &q->edits[i];

		text_printf(t, "@@ %s", e->all ? "each occurrence" : "once");
		if (q->lines != NULL)
			text_printf(t, ", %sline %llu", e->all ? "the first in " : "in ",
			    (unsigned long long)q->lines[i]);
		text_printf(t, " @@\n");
		diff_lines(t, '-', e->old_text, e->old_len);
		diff_lines(t, '+', e->new_text, e->new_len);
	}
}

static void
show_written(struct text *t, const struct koda_question *q, const struct question_before *before)
{
	const bool replaces = q->type != KODA_FILE_NONE;

	if (q->len > 0 && !is_text(q->data, q->len)) {
		text_printf(t, "(binary content)\n");
	} else if (replaces && before->old != NULL && before->old_len == q->size_before &&
	    is_text(before->old, before->old_len)) {
		diff_unified(t, before->old, before->old_len, q->data, q->len);
		if (before->old_len == q->len &&
		    (q->len == 0 || memcmp(before->old, q->data, q->len) == 0))
			text_printf(t, "(the content stays the same)\n");
	} else {
		if (replaces)
			text_printf(t,
			    "(what is there now cannot be shown; the new content is:)\n");
		diff_lines(t, '+', q->data, q->len);
	}
}

static void
word_part(struct text *t, const char *p, size_t len)
{
	const char *end = p + len;

	while (p < end) {
		const char *quote = memchr(p, '\'', (size_t)(end - p));
		size_t n = (size_t)((quote != NULL ? quote : end) - p);

		text_ask(t, p, n);
		if (quote != NULL)
			text_printf(t, "'\\''");
		p += n + (quote != NULL);
	}
}

void
question_word(struct text *t, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "%+,-./:=@_";
	const size_t len = strlen(word);
	size_t head, tail;

	if (len > 0 && len <= ASKED_LINE_MAX && word[strspn(word, plain)] == '\0') {
		text_printf(t, "%s", word);
		return;
	}
	text_printf(t, "'");
	if (asked_split(word, len, &head, &tail)) {
		word_part(t, word, head);
		text_printf(t, ASKED_BYTES_CUT, tail - head);
		t->cut = true;
	}
	word_part(t, word + (head < tail ? tail : 0), head < tail ? len - tail : len);
	text_printf(t, "'");
}

/* Shows words, one per line or on one line: if there are more than a person reads, only the
 * first and the last ones. */
static void
show_words(struct text *t, const char *const *words, const char *before, const char *between)
{
	size_t n = 0;

	while (words != NULL && words[n] != NULL)
		n++;
	for (size_t i = 0; i < n; i++) {
		if (!asked_is_hidden(i, n)) {
			text_printf(t, "%s", i > 0 && before[0] == '\0' ? between : before);
			question_word(t, words[i]);
			text_printf(t, "%s", before[0] != '\0' ? between : "");
		} else if (i == ASKED_LINES_HEAD) {
			text_printf(t, " [... %zu words are left out here ...]%s", asked_hidden(n),
			    before[0] != '\0' ? between : "");
			t->cut = true;
		}
	}
}

static void
show_command(struct text *t, const struct koda_question *q, const struct question_before *before)
{
	const char *const *argv = q->argv;

	text_printf(t, "run%s in ", before->background ? " in the background" : "");
	quoted(t, q->cwd);
	text_printf(t, "\n");
	show_words(t, q->env, "with ", "\n");
	/* A script is read line by line. */
	if (argv[0] != NULL && strcmp(argv[0], "sh") == 0 && argv[1] != NULL &&
	    strcmp(argv[1], "-c") == 0 && argv[2] != NULL && argv[3] == NULL) {
		text_printf(t, "sh -c\n");
		diff_script(t, argv[2]);
		return;
	}
	show_words(t, argv, "", " ");
	text_printf(t, "\n");
}

static const char *
type_in_words(enum koda_file_type type)
{
	switch (type) {
	case KODA_FILE_DIRECTORY:
		return "directory";
	case KODA_FILE_SYMLINK:
		return "symbolic link";
	case KODA_FILE_REGULAR:
		return "file";
	case KODA_FILE_NONE:
	case KODA_FILE_OTHER:
		break;
	}
	return "special file";
}

static void
show_move(struct text *t, const struct koda_question *q, const struct question_before *before)
{
	text_printf(t, "move the %s ", type_in_words(q->type));
	quoted(t, q->path);
	text_printf(t, "\nto ");
	quoted(t, q->to);
	if (before->replaced == KODA_FILE_REGULAR)
		text_printf(t, "\nreplacing the file of %llu bytes that is there",
		    (unsigned long long)before->replaced_size);
	else if (before->replaced != KODA_FILE_NONE)
		text_printf(t, "\nreplacing the %s that is there", type_in_words(before->replaced));
	text_printf(t, "\n");
}

static void
show_removal(struct text *t, const struct koda_question *q)
{
	text_printf(t, "remove the %s ", type_in_words(q->type));
	quoted(t, q->path);
	if (q->type == KODA_FILE_DIRECTORY)
		text_printf(t, ", %llu names go", (unsigned long long)q->entries);
	else
		text_printf(t, ", %llu bytes", (unsigned long long)q->size_before);
	text_printf(t, "\n");
}

static void
show_content(struct text *t, const struct koda_question *q, const struct question_before *before)
{
	const bool edit = q->kind == KODA_OP_EDIT, creates = q->type == KODA_FILE_NONE;

	text_printf(t, "%s ", edit ? "edit" : creates ? "create" : "replace");
	quoted(t, q->path);
	text_printf(t, ", ");
	if (!creates)
		text_printf(t, "%llu -> ", (unsigned long long)q->size_before);
	text_printf(t, "%llu bytes", (unsigned long long)q->size_after);
	if (edit)
		text_printf(t, ", %llu replacement%s", (unsigned long long)q->replacements,
		    q->replacements == 1 ? "" : "s");
	text_printf(t, "\n\n");
	if (!edit)
		show_written(t, q, before);
	else if (!show_edit_whole(t, q, before))
		show_replacements(t, q);
}

bool
question_write(struct text *t, const struct koda_question *q, const struct question_before *before)
{
	switch (q->kind) {
	case KODA_OP_WRITE:
	case KODA_OP_EDIT:
		show_content(t, q, before);
		return true;
	case KODA_OP_MKDIR:
		text_printf(t, "make the directory ");
		quoted(t, q->path);
		text_printf(t, "\n");
		return true;
	case KODA_OP_REMOVE:
		show_removal(t, q);
		return true;
	case KODA_OP_RENAME:
		if (q->to == NULL)
			return false;
		show_move(t, q, before);
		return true;
	case KODA_OP_RUN:
		if (q->argv == NULL || q->cwd == NULL)
			return false;
		show_command(t, q, before);
		return true;
	case KODA_OP_CONNECT:
		if (q->host == NULL)
			return false;
		text_printf(t, "a command wants to reach ");
		quoted(t, q->host);
		text_printf(t, ", port %u, which no rule names\n", q->port);
		return true;
	case KODA_OP_PING:
	case KODA_OP_READ:
	case KODA_OP_STAT:
	case KODA_OP_LIST:
	case KODA_OP_EXPLAIN:
		break;
	}
	return false;
}

bool
question_is_content(enum koda_op_kind kind)
{
	return kind == KODA_OP_WRITE || kind == KODA_OP_EDIT;
}

json_t *
question_form(enum koda_op_kind kind, const char *covers, size_t covers_len)
{
	const bool longer = covers != NULL || kind == KODA_OP_CONNECT;
	json_t *values = json_pack("[s]", "once"), *names = json_pack("[s]", "This once");
	struct text t = { 0 };

	if (longer) {
		text_printf(&t, "This session: ");
		if (question_is_content(kind)) {
			text_printf(&t, "writing and editing files below '");
			text_ask(&t, covers, covers_len);
			text_printf(&t, "'");
		} else if (kind == KODA_OP_RUN) {
			text_printf(&t,
			    "exactly this command, until a file below the root changes");
		} else {
			text_printf(&t, "this host and port");
		}
		json_array_append_new(values, json_string_nocheck("session"));
		json_array_append_new(names, text_json(&t));
	}
	return json_pack("{s:s, s:{s:{s:s, s:s, s:o, s:o, s:s}}}", "type", "object", "properties",
	    "scope", "type", "string", "title", "Allow", "enum", values, "enumNames", names,
	    "default", "once");
}

enum koda_scope
question_scope(const json_t *result)
{
	const json_t *action = json_object_get(result, "action"),
		     *content = json_object_get(result, "content"),
		     *scope = json_object_get(content, "scope");

	if (!json_is_string(action) || strcmp(json_string_value(action), "accept") != 0 ||
	    (content != NULL && !json_is_object(content)))
		return KODA_SCOPE_NO;
	if (scope == NULL)
		return KODA_SCOPE_ONCE;
	if (!json_is_string(scope))
		return KODA_SCOPE_NO;
	if (strcmp(json_string_value(scope), "session") == 0)
		return KODA_SCOPE_SESSION;
	return strcmp(json_string_value(scope), "once") == 0 ? KODA_SCOPE_ONCE : KODA_SCOPE_NO;
}
