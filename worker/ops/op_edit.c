/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/change.h"
#include "worker/files/digest.h"
#include "worker/ops/op.h"
#include "worker/say.h"

struct edit_text {
	uint8_t *data; /* malloc'd */
	size_t len;
};

static void
text_done(struct edit_text *t)
{
	free(t->data);
}

static const uint8_t *
find(const struct edit_text *t, size_t from, ProtobufCBinaryData what)
{
	return memmem(t->data + from, t->len - from, what.data, what.len);
}

/* Returns the number of non-overlapping occurrences. */
static size_t
count(const struct edit_text *t, ProtobufCBinaryData what)
{
	const uint8_t *p;
	size_t n = 0;

	for (size_t at = 0; (p = find(t, at, what)) != NULL; n++)
		at = (size_t)(p - t->data) + what.len;
	return n;
}

static int
edit_error(struct koda_error *err, const struct place *at, enum koda_code code, size_t i,
    const char *why)
{
	char shown[512];

	bytes_show(shown, sizeof(shown), at->path, strlen(at->path));
	err_set(err, code, 0, "edit '%s': replacement %zu: %s", shown, i + 1, why);
	return err_about(err, at->path, NULL);
}

static uint64_t
line_of(const struct edit_text *t, const uint8_t *p)
{
	uint64_t line = 1;

	for (const uint8_t *q = t->data; (q = memchr(q, '\n', (size_t)(p - q))) != NULL; q++)
		line++;
	return line;
}

/* A conflict of the text, not of the whole file: the rule lets a program tell the two apart. */
static int
conflict(struct koda_error *err, const struct place *at, size_t i, const char *rule,
    const char *why)
{
	edit_error(err, at, KODA_CONFLICT, i, why);
	return err_about(err, at->path, rule);
}

/* Applies one replacement to *t. ret_line may be NULL: counting lines takes a while. */
static int
apply(struct session *ses, struct edit_text *t, const Koda__Replacement *rep, size_t i,
    uint64_t *ret_line, uint64_t *total, struct koda_error *err)
{
	const struct place *at = &ses->at;
	const bool all = rep->has_all && rep->all;
	const uint8_t *first = find(t, 0, rep->old), *p;
	size_t n = 1, from = 0, len, put = 0;
	char why[96];
	uint8_t *data;

	if (first == NULL)
		return conflict(err, at, i, "old_missing", "the old text occurs 0 times");
	if (all) {
		n = count(t, rep->old);
	} else if (find(t, (size_t)(first - t->data) + 1, rep->old) != NULL) {
		/* Searched from the next byte on: of two overlapping occurrences neither is
		 * clearly the intended one. */
		n = count(t, rep->old);
		snprintf(why, sizeof(why), "the old text occurs %zu times, not just once",
		    n > 1 ? n : 2);
		return conflict(err, at, i, "old_repeated", why);
	}
	if (ret_line != NULL)
		*ret_line = line_of(t, first);
	*total += n;
	len = t->len - n * rep->old.len;
	if (rep->new_.len > 0 &&
	    n > (EDIT_BYTES_MAX - (len < EDIT_BYTES_MAX ? len : EDIT_BYTES_MAX)) / rep->new_.len)
		return edit_error(err, at, KODA_TOO_LARGE, i,
		    "the result is too large for an edit");
	len += n * rep->new_.len;
	data = malloc(len > 0 ? len : 1);
	if (data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "edit");
	for (; n > 0 && (p = find(t, from, rep->old)) != NULL; n--) {
		size_t keep = (size_t)(p - t->data) - from;

		memcpy(data + put, t->data + from, keep);
		if (rep->new_.len > 0)
			memcpy(data + put + keep, rep->new_.data, rep->new_.len);
		put += keep + rep->new_.len;
		from += keep + rep->old.len;
	}
	memcpy(data + put, t->data + from, t->len - from);
	free(t->data);
	t->data = data;
	t->len = len;
	return 0;
}

/* Reads the whole file, at most the size that it had: it may grow or shrink meanwhile. */
static int
read_text(int fd, const struct place *at, struct edit_text *ret, struct koda_error *err)
{
	size_t size = (size_t)at->st.st_size;

	ret->data = malloc(size > 0 ? size : 1);
	if (ret->data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "edit");
	while (ret->len < size) {
		ssize_t n = pread(fd, ret->data + ret->len, size - ret->len, (off_t)ret->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return say(err, KODA_IO, errno, "read", at->path);
		if (n == 0)
			break;
		ret->len += (size_t)n;
	}
	return 0;
}

static int
edit_check(struct session *ses, const Koda__Edit *ask, struct koda_error *err)
{
	const struct place *at = &ses->at;

	for (size_t i = 0; i < ask->n_replacement; i++) {
		const Koda__Replacement *r = ask->replacement[i];

		if (r->old.len == 0)
			return edit_error(err, at, KODA_INVALID, i, "the old text is empty");
		if (r->old.len == r->new_.len && memcmp(r->old.data, r->new_.data, r->old.len) == 0)
			return edit_error(err, at, KODA_INVALID, i, "old and new text are equal");
	}
	if (ask->n_replacement == 0)
		return say(err, KODA_INVALID, 0, "no replacement for", at->path);
	if (guard_check(ask->guard, at, err) < 0)
		return -1;
	if (at->target_fd < 0)
		return say(err, KODA_IO, ENOENT, "edit", at->path);
	if (S_ISDIR(at->st.st_mode))
		return say(err, KODA_IO, EISDIR, "edit", at->path);
	if (refuse_special(at, "edit", err) < 0 || may_write(ses, at, "edit", err) < 0)
		return -1;
	if ((uint64_t)at->st.st_size > EDIT_BYTES_MAX)
		return say(err, KODA_TOO_LARGE, 0, "too large for an edit:", at->path);
	return 0;
}

static int
edit_text(struct session *ses, const Koda__Edit *ask, struct edit_text *t, struct outcome *out,
    struct koda_error *err)
{
	const bool dry = ask->has_dry_run && ask->dry_run;
	uint64_t *lines = session_alloc(ses, ask->n_replacement * sizeof(*lines), err);

	if (lines == NULL)
		return -1;
	digest_bytes(t->data, t->len, out->digest_before);
	if (guard_compare(ask->guard, &ses->at, out->digest_before, err) < 0)
		return -1;
	out->msg.size_before = t->len;
	for (size_t i = 0; i < ask->n_replacement; i++)
		if (apply(ses, t, ask->replacement[i], i, dry ? &lines[i] : NULL,
			&out->msg.replacements, err) < 0)
			return -1;
	if (t->len > ses->max_file_bytes)
		return say(err, KODA_TOO_LARGE, 0,
		    "more bytes than max_file_bytes of the policy allows:", ses->at.path);
	digest_bytes(t->data, t->len, out->digest);
	out->msg.has_replacements = true;
	out->msg.has_digest = out->msg.has_digest_before = true;
	out->msg.digest = bytes_of(out->digest, KODA_DIGEST_BYTES);
	out->msg.digest_before = bytes_of(out->digest_before, KODA_DIGEST_BYTES);
	out->msg.has_size = true;
	out->msg.size = t->len;
	out->msg.has_created = true;
	if (dry) {
		out->msg.n_line = ask->n_replacement;
		out->msg.line = lines;
	}
	return 0;
}

/* One attempt. Returns 1 if another process was faster: start again from resolving. */
static int
try_edit(struct session *ses, const Koda__Edit *ask, Koda__Reply *rep, struct koda_error *err)
{
	struct place *at = &ses->at;
	cleanup(text_done) struct edit_text text = { NULL, 0 };
	cleanup_close int fd = -1;
	struct file_content content = { .fd = -1 };
	struct outcome *out;
	int r;

	if (session_place(ses, ask->path, RESOLVE_PARENT, ACCESS_OP_WRITE, at, err) < 0 ||
	    edit_check(ses, ask, err) < 0)
		return -1;
	out = outcome_new(ses, at, err);
	if (out == NULL)
		return -1;
	r = open_to_change(ses, at, &fd, err);
	if (r != 0)
		return r;
	if (read_text(fd, at, &text, err) < 0 || edit_text(ses, ask, &text, out, err) < 0)
		return -1;
	rep->result_case = KODA__REPLY__RESULT_OUTCOME;
	rep->outcome = &out->msg;
	if (ask->has_dry_run && ask->dry_run)
		return 0;
	content.data = text.data;
	content.len = text.len;

	const struct file_change change = {
		.at = at,
		.content = &content,
		.outcome = &out->msg,
		.durable = ask->has_durable && ask->durable,
		.same = true,
	};
	return change_perform(ses, &change, err);
}

int
op_edit(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__Edit *ask = req->edit;
	int r = 1;

	if (ask->path.len > 0 && ask->path.data[ask->path.len - 1] == '/')
		return err_set(err, KODA_INVALID, 0,
		    "edit: a path that ends in '/' names a directory");
	for (int i = 0; r == 1 && i < LOCK_TRIES; i++) {
		place_done(&ses->at);
		r = try_edit(ses, ask, rep, err);
	}
	if (r == 1)
		return say(err, KODA_CONFLICT, 0, "gave up: another process keeps changing",
		    ses->at.path);
	return r;
}
