/* SPDX-License-Identifier: Apache-2.0 */
/* What a scan has to report: changes, new places, and how much it covers. */
#ifndef KODA_WORKER_SCAN_SCAN_RESULTS_H
#define KODA_WORKER_SCAN_SCAN_RESULTS_H

#include "worker/scan/scan_found.h"

struct scan;

/* Add a change. */
void scan_tell(struct scan *sc, Koda__ChangeKind kind, enum what what, const char *path,
    const struct quarantined *kept, const char *detail);
void forget_changes(struct scan *sc);

bool scan_watched(const struct scan *sc);
/* Returns the errno for which the scan watches nothing; 0 if it watches. */
int scan_watch_errno(const struct scan *sc);
/* Returns true if something was not scanned, or not reported. */
bool scan_cut(const struct scan *sc);
/* Returns the next change that was not taken yet, or NULL. The scan owns it; it is valid until the
 * next comparison. */
const struct scan_change *scan_next_change(struct scan *sc);
const struct known *scan_next_place(struct scan *sc);
/* Undo the last scan_next_change() or scan_next_place(): it does not fit into this reply. */
void scan_put_back_change(struct scan *sc);
void scan_put_back_place(struct scan *sc, const struct known *place);
bool scan_has_more(const struct scan *sc);

#endif
