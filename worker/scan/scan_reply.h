/* What a scan has to tell, as it goes into an answer: a page of it. */
#ifndef KODA_WORKER_SCAN_SCAN_REPLY_H
#define KODA_WORKER_SCAN_SCAN_REPLY_H

#include "worker/scan/scan.h"
#include "worker/session.h"

/* Places until the answer, which has `used` bytes already, is a page. */
int scan_places(struct session *ses, struct scan *sc, Koda__Place ***ret, size_t *ret_n,
    size_t used, struct koda_error *err);
/* The same for changes; *used grows. */
int scan_changes(struct session *ses, struct scan *sc, Koda__Change ***ret, size_t *ret_n,
    size_t *used, struct koda_error *err);

#endif
