/*
 * What commands could plant, and what is to be kept from them: the places that the slot's worker found, the plan made
 * of them, and the comparison after commands. Everything that reads the project is done by the worker; here is only
 * what it reported, checked.
 */
#ifndef KODA_HOST_PROTECT_H
#define KODA_HOST_PROTECT_H

#include "host/sandbox.h"

#define PROTECT_PLACES_MAX                                                                         \
	20000 /* of one slot; a tree with more repositories is not covered in full, and said so */
#define PROTECT_INTERVAL_MS 2000 /* between comparisons while a background command runs */

struct protect *protect_new(void);
void protect_free(struct protect *p);

/* Have the worker look (anew when it is another worker), plan, mount. Waits. The slot's worker is up. */
int protect_prepare(struct sandbox *sb, struct koda_error *err);

/* Have it compare. done is called, once, from the loop: what was found is in the slot's violations; new
 * places are mounted before the next command runs. blame: the command, for the violations. */
typedef void protect_done_fn(void *data);
int protect_compare(struct sandbox *sb, const char *blame, protect_done_fn *done, void *data,
    struct koda_error *err);
/* What a command left will not be looked at by this slot: the next one has to. */
void protect_not_compared(struct sandbox *sb);
/* Whoever waits is gone. */
void protect_forget(struct sandbox *sb, void *data);

#endif
