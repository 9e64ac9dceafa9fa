/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for the other names (hard links) of protected files, and judges again what they may have
 * changed. */
#ifndef KODA_WORKER_SCAN_LINKED_SEARCH_H
#define KODA_WORKER_SCAN_LINKED_SEARCH_H

struct scan;

/* Before the first command: find the other names of known files, where commands can write, and
 * protect them. */
void linked_find_all(struct scan *sc);
/* Judge places that are not mounted, or have a second name, because a write through that name
 * causes no event. Each call looks at some of them. -1: no memory. */
int linked_look_again(struct scan *sc);

#endif
