/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the worker which places are to be protected, and keeps its answer, which is untrusted. */
#ifndef KODA_HOST_PROTECT_PROTECT_SCAN_H
#define KODA_HOST_PROTECT_PROTECT_SCAN_H

#include "host/protect/protect_state.h"

/* How long a request may take: enough for a home directory of a million names, cold. */
#define PROTECT_SCAN_MS 120000

/* Have the worker scan. A new worker is told which places were there before any command. Waits. */
int protect_scan(struct protect *p, struct koda_error *err);
/* Returns true if the slot's present worker has scanned, and watches. */
bool protect_is_watching(const struct protect *p);
/* Returns true if the directory is one of the caches. */
bool protect_is_cache(const struct protect *p, const char *dir);

/* Check a place that the worker reported, and keep a copy. */
int protect_add_place(struct protect *p, const Koda__Place *place, bool sure,
    struct koda_error *err);
/* Send the request, which is consumed, and wait for the reply. */
int protect_ask(struct protect *p, struct packed *request,
    int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err),
    struct koda_error *err);

/* Fill in the next page of the n known places, from *told on, which is advanced. */
void protect_known_page(Koda__Scan *msg, Koda__Place **known, size_t n, size_t *told);

#endif
