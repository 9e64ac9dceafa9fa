#include "host/command/command_question.h"

#include <string.h>

void
command_question_refuse(void *about, const char *why)
{
	struct koda_command *c = about;
	char shown[384];

	bytes_show(shown, sizeof(shown), c->name, strlen(c->name));
	err_set(&c->error, KODA_NOT_APPROVED, 0,
	    "'%s' was not run: the %s mode's policy wants each command approved, and %s", shown,
	    asked_mode_name(c->of->slot->ses->mode), why);
}

void
command_question_done(struct koda_command *c)
{
	asked_end(&c->asked);
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
	if (a == NULL) {
		asked_refuse(ops, c, ASKED_NO_ROOM);
		return;
	}
	a->question = (struct koda_question){
		.kind = KODA_OP_RUN,
		.mode = ses->mode,
		.path = c->cwd,
		.argv = (const char *const *)c->argv,
		.cwd = c->cwd,
		.env = (const char *const *)c->added,
	};
	asked_put(a, ses->approve, ses->data);
}
