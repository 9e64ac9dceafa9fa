/* SPDX-License-Identifier: Apache-2.0 */
/* Which lie a hostile program tells: the text of the file `behaviour` beside the program, because the
 * host passes it neither arguments nor an environment. */
#ifndef KODA_TESTS_KIT_BEHAVIOUR_H
#define KODA_TESTS_KIT_BEHAVIOUR_H

#include <stdbool.h>

/* Fills behaviour. Ends the program if the file cannot be read. */
void read_behaviour(void);
/* Is it this one? */
bool is(const char *what);
extern char behaviour[64];

#endif
