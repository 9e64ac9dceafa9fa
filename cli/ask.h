/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the user, on the terminal itself: standard input may be the content, standard output a pipe.
 * What is shown is show/question.h.
 */
#ifndef KODA_CLI_ASK_H
#define KODA_CLI_ASK_H

#include <stdbool.h>

#include "include/koda/sandbox.h"
#include "show/question.h"

struct ask {
	bool nobody; /* set if a question came up and there was no terminal */
	struct question_about about;
};

/* Returns whether there is a terminal to ask on. */
bool ask_possible(void);

/* Asks the user. Anything but a clear yes is no. Only a host can be allowed for the session. */
enum koda_scope ask_scope(struct ask *ask, const struct koda_question *question);
bool ask_yes(struct ask *ask, const struct koda_question *question);

/* Asks the user, and answers the question. */
void ask_user(struct ask *ask, const struct koda_question *question);

#endif
