/* SPDX-License-Identifier: Apache-2.0 */
#include "host/command/command_question.h"

#include <string.h>

void
command_question_refuse(void *about, const char *why)
{
	struct koda_command *c = about;
	char shown[384];

	bytes_show(shown, sizeof(shown), c->name, strlen(c->name));
	err_set(&c->error, KODA_NOT_APPROVED, 0,
	    "'%s' was not run: in %s mode each command needs the user's approval, and %s", shown,
	    asked_mode_name(c->of->slot->ses->mode), why);
}

void
command_question_done(struct koda_command *c)
{
	asked_end(&c->asked);
}

/* Copies a list that ends with NULL. Returns NULL if memory is short. */
static const char *const *
copy_list(struct arena *arena, char *const *list)
{
	size_t n = 0;
	char **copy;

	while (list[n] != NULL)
		n++;
	copy = arena_alloc(arena, (n + 1) * sizeof(*copy));
	for (size_t i = 0; copy != NULL && i < n; i++) {
		const size_t size = strlen(list[i]) + 1;

		copy[i] = arena_alloc(arena, size);
		if (copy[i] == NULL)
			return NULL;
		memcpy(copy[i], list[i], size);
	}
	return (const char *const *)copy;
}

/* Makes copies: the embedder may read the question until it answers, also after the command is
 * gone. */
static int
fill_question(struct asked *a, const struct koda_command *c)
{
	char *const cwd[] = { c->cwd, NULL };
	const char *const *path = copy_list(&a->arena, cwd);

	a->question = (struct koda_question){
		.kind = KODA_OP_RUN,
		.mode = c->of->slot->ses->mode,
		.argv = copy_list(&a->arena, c->argv),
		.env = c->added == NULL ? NULL : copy_list(&a->arena, c->added),
	};
	if (path == NULL || a->question.argv == NULL ||
	    (c->added != NULL && a->question.env == NULL))
		return -1;
	a->question.path = a->question.cwd = path[0];
	return 0;
}

void
command_question_ask(struct koda_command *c, const struct asked_ops *ops)
{
	const struct koda_session *ses = c->of->slot->ses;
	struct asked *a;

	if (ses->approve == NULL) {
		asked_refuse(ops, c, ASKED_NOBODY);
		return;
	}
	a = asked_new(ops, c, &c->asked, c->sync);
	if (a == NULL || fill_question(a, c) < 0) {
		command_question_done(c);
		asked_refuse(ops, c, ASKED_NO_ROOM);
		return;
	}
	asked_put(a, ses->approve, ses->data);
}
