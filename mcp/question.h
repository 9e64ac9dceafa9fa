/* The wording of questions to the user. Pure: made from what the library found, and from the
 * file as it was read. */
#ifndef KODA_MCP_QUESTION_H
#define KODA_MCP_QUESTION_H

#include "mcp/text.h"

/* What is known besides what the library reports. */
struct question_before {
	const void *old; /* the content that a write or an edit replaces; NULL: unknown */
	size_t old_len;
	/* Rename: the type of the file at the new name; KODA_FILE_NONE: there is none. */
	enum koda_file_type replaced;
	uint64_t replaced_size;
	bool background; /* run: the command goes on after the call is answered */
};

/* Precedes a question that is not shown in full. Such a question can be allowed once only. */
#define QUESTION_CUT                                                                               \
	"NOT ALL OF THIS IS SHOWN: parts are left out where [...] stands, so it can be allowed once only."

/* Writes the question. Returns false if the user cannot be asked about this operation. */
bool question_write(struct text *t, const struct koda_question *q,
    const struct question_before *before);

/* Returns the form beside the question, which asks for how long. covers is what a yes for the
 * session would cover; NULL: the session is not offered. */
json_t *question_form(enum koda_op_kind kind, const char *covers, size_t covers_len);
/* Returns the scope of an answer. The action "accept" is a yes; the form only says for how long.
 * A scope that the form cannot express is not a yes. */
enum koda_scope question_scope(const json_t *result);
/* Returns whether the operation changes the content of a file. */
bool question_is_content(enum koda_op_kind kind);

/* Writes one word of argv, quoted as a shell needs it. */
void question_word(struct text *t, const char *word);

#endif
