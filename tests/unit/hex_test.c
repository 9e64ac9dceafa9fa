/* SPDX-License-Identifier: Apache-2.0 */
/* shared/base/hex.h: hexadecimal digits: what is written, and what is read and refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/base/hex.h"

static void
each_byte_there_and_back(void **state)
{
	for (unsigned i = 0; i < 256; i++) {
		uint8_t byte = (uint8_t)i, back = (uint8_t)~i;
		char text[4] = "xxx";

		hex_put(text, &byte, 1);
		assert_int_equal(strtoul(text, NULL, 16), i);
		assert_int_equal(strlen(text), 2);
		assert_int_equal(text[3], '\0');
		assert_true(hex_parse(&back, 1, text));
		assert_int_equal(back, i);
		assert_int_equal(hex_digit((unsigned char)i) >= 0,
		    i != 0 && strchr("0123456789abcdefABCDEF", (int)i) != NULL);
	}
}

static void
what_is_read(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} rows[] = {
		{ "00ff7f", true },
		{ "00FF7f", true },
		{ "00ff7f and more", true },
		{ "00ff7", false },
		{ "", false },
		{ "0", false },
		{ "00fg7f", false },
		{ "00f", false },
		{ "0x00ff", false },
		{ " 00ff7", false },
	};

	for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
		/* In a block of its own, so that a read past the NUL is found. */
		cleanup_free char *text = strdup(rows[i].text);
		uint8_t bytes[3];

		assert_non_null(text);
		if (hex_parse(bytes, sizeof(bytes), text) != rows[i].good)
			fail_msg("'%s'", rows[i].text);
		if (rows[i].good)
			assert_memory_equal(bytes, "\x00\xff\x7f", 3);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_there_and_back),
		cmocka_unit_test(what_is_read),
	};

	return cmocka_run_group_tests_name("hex", tests, NULL, NULL);
}
