/* What the user is asked, in words. Pure: of what the library found, and of the file as it was read. */
#ifndef KODA_MCP_QUESTION_H
#define KODA_MCP_QUESTION_H

#include "mcp/text.h"

/* What is known besides what the library tells. */
struct question_before {
	const void *old; /* the content that a write or an edit replaces; NULL: not known */
	size_t old_len;
	enum koda_file_type
	    replaced; /* rename: what stands at its new name; KODA_FILE_NONE: nothing */
	uint64_t replaced_size;
	bool background; /* run: it goes on when the call is answered */
};

/* Before a question of which not all is shown. It is offered for once only. */
#define QUESTION_CUT                                                                               \
	"NOT ALL OF THIS IS SHOWN: parts are left out where [...] stands, so it can be allowed once only."

/* False: nobody can be asked about that. */
bool question_write(struct text *t, const struct koda_question *q,
    const struct question_before *before);

/* The form beside it: for how long. covers: what a yes for the session would cover, or NULL: nothing. */
json_t *question_form(enum koda_op_kind kind, const char *covers, size_t covers_len);
/* accept is a yes; the form only says for how long. What it cannot say is no yes. */
enum koda_scope question_scope(const json_t *result);
/* Is it the content of a file that changes? */
bool question_is_content(enum koda_op_kind kind);

/* One of argv, as a shell would have to be told it. */
void question_word(struct text *t, const char *word);

#endif
