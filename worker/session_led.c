/* SPDX-License-Identifier: Apache-2.0 */
/* What protected places lead to, for judging changes. */
#include "shared/base/cleanup.h"
#include "worker/scan/scan.h"
#include "worker/scan/scan_led.h"
#include "worker/session.h"

/* Made before the first change: in a session without commands, no scan has looked for these
 * links. */
const struct scan *
session_led(struct session *ses)
{
	const struct quarantine none = { .fd = -1 };
	struct koda_error dropped;

	if (ses->scan != NULL && ses->scanned)
		return ses->scan;
	if (ses->led == NULL) {
		ses->led = scan_new(&ses->res, &ses->who, none);
		if (ses->led == NULL || scan_learn_led(ses->led, &dropped) < 0) {
			scan_free(ses->led);
			ses->led = NULL;
		}
	}
	return ses->led;
}

/* What a protected place leads to is protected like it; the policy's text alone cannot tell. */
struct access_verdict
session_judge_led(struct session *ses, enum access_op op, const char *path,
    struct access_verdict so_far)
{
	const bool below =
	    op == ACCESS_OP_REMOVE || op == ACCESS_OP_RENAME_FROM || op == ACCESS_OP_RENAME_TO;
	struct access_verdict no = { .allowed = false };
	const struct scan *led;

	if (!so_far.allowed || op == ACCESS_OP_READ || op == ACCESS_OP_HOP ||
	    op == ACCESS_OP_HOP_CHANGE)
		return so_far;
	led = session_led(ses);
	no.rule = ACCESS_RULE_LINK;
	if (led == NULL)
		return no; /* unknown what is protected: refuse */
	no.by = scan_led(led, path, below, &no.rule);
	return no.by != NULL ? no : so_far;
}
