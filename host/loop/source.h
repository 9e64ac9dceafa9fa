/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor in the session's epoll set. Always the first member of its owner, so it can be cast
 * back. */
#ifndef KODA_HOST_LOOP_SOURCE_H
#define KODA_HOST_LOOP_SOURCE_H

#include <stdint.h>

struct source {
	void (*ready)(struct source *source);
	int fd; /* watched now, or -1 */
	uint32_t events;
};

#endif
