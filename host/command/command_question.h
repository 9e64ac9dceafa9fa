/* SPDX-License-Identifier: Apache-2.0 */
/* The question to the embedder about a command, which is shown as it will be executed. */
#ifndef KODA_HOST_COMMAND_COMMAND_QUESTION_H
#define KODA_HOST_COMMAND_COMMAND_QUESTION_H

#include "host/approve/asked.h"
#include "host/command/state.h"

/* Ask about it. ops->answer() gets the command. */
void command_question_ask(struct koda_command *c, const struct asked_ops *ops);
/* For asked_ops: notes in c->error why the command is not approved. */
void command_question_refuse(void *command, const char *why);
/* The command has ended: so does its question, if there is one. */
void command_question_done(struct koda_command *c);

#endif
