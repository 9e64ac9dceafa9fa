/* A descriptor in the session's epoll set. Stands first in what it belongs to. */
#ifndef KODA_HOST_LOOP_SOURCE_H
#define KODA_HOST_LOOP_SOURCE_H

#include <stdint.h>

struct source {
	void (*ready)(struct source *source);
	int fd; /* watched now, or -1 */
	uint32_t events;
};

#endif
