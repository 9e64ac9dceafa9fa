/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/refusals.h"

#include "shared/base/clock.h"

void
refusals_tell(struct stage2 *s, struct refusals *r, const char *target)
{
	const uint64_t second = monotonic_ns() / NS_PER_S;

	if (r->second != second) {
		r->second = second;
		r->told = 0;
	}
	if (r->told++ < REFUSALS_PER_SECOND)
		stage2_event(s, r->kind, target, 0, 0);
	else
		r->untold++;
}

void
refusals_tell_untold(struct stage2 *s, struct refusals *r)
{
	Koda__Report report = KODA__REPORT__INIT;
	Koda__Event event = KODA__EVENT__INIT;

	if (r->untold == 0)
		return;
	report.report_case = KODA__REPORT__REPORT_EVENT;
	report.event = &event;
	event.kind = r->kind;
	event.has_untold = true;
	event.untold = r->untold;
	r->untold = 0;
	stage2_report(s, &report);
}
