/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/protect_note.h"

#include "host/protect/change.h"

void
protect_note(struct protect *p, enum koda_violation_kind kind, const char *target, const char *rule,
    const char *detail)
{
	change_record(p->violations, p->blame, kind, target, rule, detail);
}

void
protect_note_cut(struct protect *p)
{
	if (p->said_cut)
		return;
	p->said_cut = true;
	protect_note(p, KODA_VIOLATION_OTHER, p->slot->ses->root, "not_covered",
	    "there are too many files, or links in protected places, to check all of them: what "
	    "commands plant in the rest is not detected");
}
