#include "tests/kit/said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void
has(const struct bytes *b, const char *what)
{
	if (strstr(b->data, what) == NULL)
		fail_msg("expected '%s' in: %s", what, b->data);
}

void
has_not(const struct bytes *b, const char *what)
{
	if (strstr(b->data, what) != NULL)
		fail_msg("did not expect '%s' in: %s", what, b->data);
}

void
is(const struct bytes *b, const char *what)
{
	assert_string_equal(b->data, what);
}
