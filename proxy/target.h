/* SPDX-License-Identifier: Apache-2.0 */
/* Where a connection goes: a host and a port. */
#ifndef KODA_PROXY_TARGET_H
#define KODA_PROXY_TARGET_H

#include "shared/rules/domain.h"

struct target {
	char host[DOMAIN_HOST_MAX + 1]; /* canonical */
	enum domain_kind kind;
	unsigned port;
};

#endif
