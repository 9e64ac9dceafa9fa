/* A descriptor in the session's epoll set. Stands first in what it belongs to. */
#ifndef KODA_HOST_SOURCE_H
#define KODA_HOST_SOURCE_H

#include <stdint.h>

struct source {
	void (*ready)(struct source *source);
	int fd; /* watched now, or -1 */
	uint32_t events;
};

/* Something of a session that is over, and whose caller is to be told. In line for that while ses is set. */
struct koda_session;
struct notice {
	struct notice *next;
	struct koda_session *ses;
	void (*tell)(struct notice *notice); /* calls back; may free it */
};

#endif
