/* SPDX-License-Identifier: Apache-2.0 */
/* One function per kind of request: judge, act, reply. Called only through the dispatch table. */
#ifndef KODA_WORKER_OPS_OP_H
#define KODA_WORKER_OPS_OP_H

#include "worker/session.h"

int op_ping(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_shutdown(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_read(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_write(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_edit(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_stat(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_list(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_mkdir(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_remove(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_rename(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_explain(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_recover(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_record(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_scan(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_guarded(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_compare(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_changes(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_read_draft(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_swap(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);
int op_merge(struct session *, const Koda__Request *, Koda__Reply *, struct koda_error *);

#endif
