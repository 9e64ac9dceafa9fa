/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main() of a test program whose cases stand in tables: it fills `tests`, an array of
 * CMUnitTest with `n` entries so far.
 */
#ifndef KODA_TESTS_KIT_CASES_H
#define KODA_TESTS_KIT_CASES_H

/* A case for each row, named by its `label`; fn finds the row's number in *state. */
#define CASES(table, fn)                                                                           \
	for (size_t row = 0; row < N_ELEMENTS(table); row++)                                       \
		tests[n++] = (struct CMUnitTest)                                                   \
		{                                                                                  \
			(table)[row].label, fn, NULL, NULL, (void *)row                            \
		}

/* Cases that have no table. */
#define OTHERS(list)                                                                               \
	for (size_t at_other = 0; at_other < N_ELEMENTS(list); at_other++)                         \
	tests[n++] = (list)[at_other]

#endif
