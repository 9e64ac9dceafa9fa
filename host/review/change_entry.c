/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of a worker's list of changes, which is untrusted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/policy/reason.h"
#include "host/review/state.h"
#include "shared/base/bytes.h"

int
change_broken(const char *what, struct koda_error *err)
{
	return err_set(err, KODA_PROTOCOL, 0, "the worker's list of changes: %s", what);
}

static char *
text_of(const ProtobufCBinaryData *b)
{
	return b->len > 0 && memchr(b->data, '\0', b->len) == NULL
	    ? strndup((const char *)b->data, b->len)
	    : NULL;
}

static bool
side_fits(const Koda__DraftSide *s)
{
	return s == NULL ||
	    (s->has_target == (s->type == KODA__FILE_TYPE__FILE_SYMLINK) && s->mode <= 07777 &&
		(!s->has_target ||
		    (s->target.len <= PATH_LEN_MAX &&
			memchr(s->target.data == NULL ? (const uint8_t *)"" : s->target.data, '\0',
			    s->target.len) == NULL)));
}

static bool
kind_fits(const Koda__DraftEntry *e)
{
	const bool before = e->before != NULL, after = e->after != NULL;

	switch (e->kind) {
	case KODA__DRAFT_KIND__DRAFT_CREATED:
		return after;
	case KODA__DRAFT_KIND__DRAFT_DELETED:
		return before && !after;
	case KODA__DRAFT_KIND__DRAFT_CHANGED:
	case KODA__DRAFT_KIND__DRAFT_MODE:
		return before && after && e->before->type == e->after->type;
	case KODA__DRAFT_KIND__DRAFT_RENAMED: /* only in the history */
	case _KODA__DRAFT_KIND_IS_INT_SIZE:
		break;
	}
	return false;
}

/* Adds why the place is protected, where the table of places has it. */
static void
explain_reason(struct reviewed *c)
{
	char text[KODA_MESSAGE_MAX], *more;

	if (strlen(c->reason) >= sizeof(text))
		return;
	strcpy(text, c->reason);
	reason_append(c->rule, c->path, text, sizeof(text));
	more = strdup(text);
	if (more == NULL)
		return;
	free(c->reason);
	c->reason = more;
}

int
change_take(const struct draft *d, uint32_t layer, const Koda__DraftEntry *e, struct reviewed *ret,
    struct koda_error *err)
{
	if (e->layer != layer)
		return change_broken("another layer", err);
	if (!path_is_canonical(e->path.data, e->path.len))
		return change_broken("an invalid path", err);
	ret->path = text_of(&e->path);
	if (ret->path == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "changes");
	if (!path_is_inside(ret->path, d->dir[layer].path))
		return change_broken("a path outside of the draft", err);
	if (!kind_fits(e) || !side_fits(e->before) || !side_fits(e->after))
		return change_broken("what is there does not fit the kind of change", err);
	ret->layer = e->layer;
	ret->kind = e->kind;
	ret->conflict = e->has_conflict && e->conflict;
	ret->entries = e->has_entries ? e->entries : 0;
	if (side_take(&ret->before, e->before, err) < 0 ||
	    side_take(&ret->after, e->after, err) < 0)
		return -1;
	if (e->has_note) {
		ret->note = text_of(&e->note);
		if (ret->note == NULL)
			return change_broken("a note is not text", err);
	}
	if (!e->has_rule)
		return 0;
	ret->rule = text_of(&e->rule);
	ret->reason = e->has_reason ? text_of(&e->reason) : strdup("the policy refuses it");
	if (ret->rule != NULL && ret->reason != NULL)
		explain_reason(ret);
	return ret->rule != NULL && ret->reason != NULL
	    ? 0
	    : change_broken("a rule or a reason is not text", err);
}
