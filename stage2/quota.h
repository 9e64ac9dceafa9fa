/*
 * The limits of the slot as a whole: memory and tasks of all commands together, where no cgroup holds them. The
 * command that uses most is ended. Nothing is done while no command runs.
 */
#ifndef KODA_STAGE2_QUOTA_H
#define KODA_STAGE2_QUOTA_H

#include "stage2/stage2.h"

struct quota;

/* For the limits that Boot names; NULL with err->code KODA_OK: it names none. */
struct quota *quota_new(const struct stage2 *s, const Koda__Boot *boot, struct koda_error *err);

/* In ms; -1: nothing to look at. q may be NULL, here and below. */
int quota_timeout(struct quota *q, const struct commands *c);
/* Look, if it is time, and end what is too large. */
void quota_look(struct stage2 *s);

#endif
