/* SPDX-License-Identifier: Apache-2.0 */
#include "host/context/event.h"

#include <stdarg.h>
#include <stdio.h>

void
session_event(struct koda_session *ses, enum koda_event_kind kind, const char *fmt, ...)
{
	char text[KODA_MESSAGE_MAX];
	va_list ap;

	if (ses->event == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ses->in_event = true;
	ses->depth++;
	ses->event(ses->data, kind, text);
	ses->depth--;
	ses->in_event = false;
}

bool
session_degrade(struct koda_session *ses, const struct koda_error *why)
{
	if (ses->mode == KODA_AUTO)
		return false;
	if (ses->commands)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "the kernel sandbox does not work, so this session has file operations "
		    "only and no commands: %s",
		    why->message);
	ses->commands = false;
	return true;
}
