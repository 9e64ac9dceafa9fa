/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into every test program: KODA_TEST_FILTER selects the cases that run (`make check`);
 * '*' and '?' are wildcards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void
choose_cases(void)
{
	const char *filter = getenv("KODA_TEST_FILTER");

	if (filter != NULL && filter[0] != '\0')
		cmocka_set_test_filter(filter);
}
