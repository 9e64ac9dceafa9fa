/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person is asked, in words: the only place that renders a question, for the terminal and for
 * MCP. It shows what the library found, and the file as it was read; never what a request claims.
 */
#ifndef KODA_SHOW_QUESTION_H
#define KODA_SHOW_QUESTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/koda/sandbox.h"
#include "show/page.h"
#include "show/visible.h"

/* What is known besides what the library reports. All of it may be 0: unknown. */
struct question_about {
	/* the content that a write or an edit replaces; NULL: unknown */
	const void *old;
	size_t old_len;
	/* write: the content, or its beginning, if the question does not carry it */
	const void *data;
	size_t len;
	/* rename: the type of the file at the new name; KODA_FILE_NONE: there is none */
	enum koda_file_type replaced;
	uint64_t replaced_size;
	/* rename: there may be a file at the new name, of which nothing else is known */
	bool may_replace;
	/* run: the command goes on after the call is answered */
	bool background;
	/* connect: the command that is running, its text or its first word; NULL: unknown */
	const char *command;
};

/*
 * Shows the question. Returns false if the user cannot be asked about this operation, or there is
 * no memory: then nothing was put, and the answer is no. *ret_cut: it is not shown in full, which
 * its first line says; it may be allowed once only.
 */
bool question_show(const struct koda_question *q, const struct question_about *about,
    struct page_medium medium, visible_put_fn *put, void *to, bool *ret_cut);

/*
 * Shows what a yes for the session covers. covers: the directory of a write or an edit, otherwise
 * unused.
 */
void question_show_session(enum koda_op_kind kind, const void *covers, size_t len,
    visible_put_fn *put, void *to);

/* Does the operation change the content of a file? */
bool question_is_content(enum koda_op_kind kind);

#endif
