/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker with a history is doing, in a file `<token>.now` in `old` of the history's entry: the
 * Recover that has to be asked of another worker if this one and its host die together. (If only the
 * worker dies, its host has the record for that.) Written before a change has a temporary name in the
 * project. A worker that ends by itself removes the file.
 *
 * If the file cannot be written, the worker goes on without.
 */
#ifndef KODA_WORKER_FILES_KEEP_NOW_H
#define KODA_WORKER_FILES_KEEP_NOW_H

#include "worker/session.h"

/* Write, Edit or Mkdir is going to make something under a temporary name. */
void keep_now_change(struct session *ses, Koda__Kind kind, const struct place *at);
/* Remove is going to move something to a temporary name; committed: it is going to be deleted there. Or
 * Rename is going to write down what it does next. */
void keep_now_remove(struct session *ses, const Koda__Prepared *prepared, bool recursive,
    bool committed);
void keep_now_rename(struct session *ses, const Koda__Prepared *prepared);

/* The worker ends by itself, with nothing under way. */
void keep_now_end(struct session *ses);
/* Nothing is left to do for the worker with that token. */
void keep_now_forget(const struct session *ses, const uint8_t token[TOKEN_BYTES]);

#endif
