/* SPDX-License-Identifier: Apache-2.0 */
#include "show/told.h"

#include <stdbool.h>
#include <string.h>

/* Targets are text that a command printed. */
static void
show_string(const char *s, visible_put_fn *put, void *to)
{
	visible_show(s, strlen(s), false, put, to);
}

/* A program that tries again is refused again: that is reported only once. */
static bool
was_told(const struct told *all, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(all[k].target, all[i].target) == 0 &&
		    strcmp(all[k].detail, all[i].detail) == 0)
			return true;
	return false;
}

void
told_sentences(const struct told *all, size_t n, visible_put_fn *put, void *to)
{
	for (size_t i = 0; i < n; i++) {
		const struct told *one = &all[i];

		if (one->detail[0] == '\0' || was_told(all, i))
			continue;
		visible_put_own("koda-sandbox: ", put, to);
		/* The sentence may begin with the target already. */
		if (one->target[0] != '\0' &&
		    strncmp(one->detail, one->target, strlen(one->target)) != 0) {
			visible_put_own("'", put, to);
			show_string(one->target, put, to);
			visible_put_own("': ", put, to);
		}
		show_string(one->detail, put, to);
		visible_put_own("\n", put, to);
	}
}
