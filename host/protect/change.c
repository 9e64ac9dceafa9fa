/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/policy/reason.h"
#include "shared/base/cleanup.h"

void
change_record(struct violations *to, const char *blame, enum koda_violation_kind kind,
    const char *target, const char *rule, const char *detail)
{
	const struct koda_violation v = { .kind = kind,
		.target = target,
		.command = blame != NULL ? blame : "",
		.rule = rule,
		.detail = detail,
		.certain = true };

	violations_record(to, &v);
}

void
change_tell(struct violations *to, const char *blame, const char *home, const Koda__Change *change)
{
	cleanup_free char *path = strndup((const char *)change->path.data, change->path.len);
	cleanup_free char *kept = NULL;
	char detail[KODA_MESSAGE_MAX], rule[64], reason[REASON_MAX];
	const char *told;

	if (path == NULL)
		return;
	if (change->has_quarantined)
		kept = strndup((const char *)change->quarantined.data, change->quarantined.len);
	snprintf(rule, sizeof(rule), "%.*s", (int)change->rule.len,
	    (const char *)change->rule.data);
	switch ((int)change->kind) {
	case KODA__CHANGE_KIND__CHANGE_ASIDE:
		snprintf(detail, sizeof(detail), "planted, and %s%.*s",
		    change->has_detail ? "renamed: " : "removed",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		break;
	case KODA__CHANGE_KIND__CHANGE_QUARANTINED:
		snprintf(detail, sizeof(detail), "planted, and moved to quarantine as %s%s%.*s",
		    kept == NULL ? "?" : kept, change->has_detail ? ": " : "",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		if (reason_of(rule, path, home, reason))
			snprintf(detail + strlen(detail), sizeof(detail) - strlen(detail), ". %s",
			    reason);
		break;
	case KODA__CHANGE_KIND__CHANGE_DISARMED:
		snprintf(detail, sizeof(detail),
		    "keys that could run a program were removed; the original is %s%s%.*s",
		    kept != NULL ? "in quarantine as " : "beside it, as ", kept != NULL ? kept : "",
		    kept == NULL && change->has_detail ? (int)change->detail.len : 0,
		    kept == NULL && change->has_detail ? (const char *)change->detail.data : "");
		break;
	case KODA__CHANGE_KIND__CHANGE_LEFT:
		snprintf(detail, sizeof(detail), "planted, and still there: %.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		break;
	case KODA__CHANGE_KIND__CHANGE_CAME:
		snprintf(detail, sizeof(detail),
		    "names that tools on the host obey came with this directory, and were left: "
		    "%.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		change_record(to, blame, KODA_VIOLATION_NOTE, path, rule, detail);
		return;
	case KODA__CHANGE_KIND__CHANGE_TOLD:
		told = reason_told(path);
		snprintf(detail, sizeof(detail), "changed, and %s: check it first",
		    told != NULL ? told : "other programs follow it");
		change_record(to, blame, KODA_VIOLATION_NOTE, path, rule, detail);
		return;
	case KODA__CHANGE_KIND__CHANGE_HIDES:
		snprintf(detail, sizeof(detail), "%.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		change_record(to, blame, KODA_VIOLATION_NOTE, path, rule, detail);
		return;
	default:
		change_record(to, blame, KODA_VIOLATION_OTHER, path, "changed_outside",
		    "changed meanwhile by a process outside the sandbox; left as it is");
		return;
	}
	change_record(to, blame, KODA_VIOLATION_FILE_WRITE, path, rule, detail);
}
