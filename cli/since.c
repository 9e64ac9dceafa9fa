/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/since.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_MAX (100ull * 366 * 86400) /* a hundred years */

/* Reads digits and one letter. */
static bool
parse_age(const char *text, time_t now, double *ret)
{
	static const struct {
		char letter;
		unsigned seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 604800 } };
	unsigned long long n = 0;
	const char *p = text;

	for (; isdigit((unsigned char)*p); p++) {
		n = n * 10 + (unsigned)(*p - '0');
		if (n > SECONDS_MAX)
			return false;
	}
	if (p == text || p[0] == '\0' || p[1] != '\0')
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (units[i].letter == *p) {
			*ret = (double)now - (double)n * units[i].seconds;
			return true;
		}
	}
	return false;
}

static bool
parse_clock(const char *text, time_t now, double *ret)
{
	struct tm tm, given = { 0 };
	const char *end = strptime(text, "%H:%M", &given);
	time_t when;

	if (end == NULL || *end != '\0' || localtime_r(&now, &tm) == NULL)
		return false;
	tm.tm_hour = given.tm_hour;
	tm.tm_min = given.tm_min;
	tm.tm_sec = 0;
	tm.tm_isdst = -1;
	when = mktime(&tm);
	if (when > now) {
		tm.tm_mday--;
		tm.tm_isdst = -1;
		when = mktime(&tm);
	}
	*ret = (double)when;
	return true;
}

static bool
parse_date(const char *text, double *ret)
{
	static const char *const formats[] = { "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S",
		"%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S" };

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *end = strptime(text, formats[i], &tm);

		if (end == NULL || *end != '\0')
			continue;
		tm.tm_isdst = -1;
		*ret = (double)mktime(&tm);
		return true;
	}
	return false;
}

static bool
parse_epoch(const char *text, double *ret)
{
	char *end;

	if (text[0] != '@' || !isdigit((unsigned char)text[1]))
		return false;
	*ret = strtod(text + 1, &end);
	return *end == '\0';
}

int
since_parse(const char *text, time_t now, double *ret, char why[ARGS_WHY_MAX])
{
	if (parse_age(text, now, ret) || parse_clock(text, now, ret) || parse_date(text, ret) ||
	    parse_epoch(text, ret))
		return 0;
	return args_fail(why,
	    "--since needs a time such as 30m, 2h, 3d, 14:30, '2026-01-31 14:30' or @SECONDS, not '%.100s'",
	    text);
}
