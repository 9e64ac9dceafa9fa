/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the results of a scan into one page of a reply. */
#ifndef KODA_WORKER_SCAN_SCAN_REPLY_H
#define KODA_WORKER_SCAN_SCAN_REPLY_H

#include "worker/session.h"

/* Add places until the reply, which already has `used` bytes, is a full page. */
int scan_places(struct session *ses, struct scan *sc, Koda__Place ***ret, size_t *ret_n,
    size_t used, struct koda_error *err);
/* Like scan_places(), for changes. Increases *used. */
int scan_changes(struct session *ses, struct scan *sc, Koda__Change ***ret, size_t *ret_n,
    size_t *used, struct koda_error *err);

#endif
