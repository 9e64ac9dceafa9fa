/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a project (koda_copy_*). This folder is above all others of the host: a copy is worked on
 * by sessions of the public interface, and needs no support in slots, sandboxes and workers.
 */
#ifndef KODA_HOST_COPY_COPY_H
#define KODA_HOST_COPY_COPY_H

#include "host/context/context.h"
#include "host/copy/record.h"

struct koda_copy {
	struct koda_session *ses;
	struct copy_record record;
	char *root; /* record.tree and record.prefix */
	char *reason, *hint;
};

#endif
