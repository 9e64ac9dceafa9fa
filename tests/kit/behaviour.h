/* Which lie a hostile program tells: the text of the file `behaviour` beside the program, because the
 * host passes it neither arguments nor an environment. */
#ifndef KODA_TESTS_KIT_BEHAVIOUR_H
#define KODA_TESTS_KIT_BEHAVIOUR_H

#include <stdbool.h>

/* Ends the program if there is none. */
void read_behaviour(void);
/* Is it this one? */
bool is(const char *what);
extern char behaviour[64];

#endif
