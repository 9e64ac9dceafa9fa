/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/reach/own_address.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/rules/address.h"

static bool
can_bind(const struct sockaddr *sa)
{
	struct sockaddr_storage ss = { 0 };
	cleanup_close int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno != EAFNOSUPPORT; /* unknown: treated as this machine's */
	memcpy(&ss, sa, address_length(sa));
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)&ss)->sin6_port = 0;
	else
		((struct sockaddr_in *)&ss)->sin_port = 0;
	return bind(fd, (struct sockaddr *)&ss, address_length(sa)) == 0;
}

/* Is sa one of this machine's addresses? The kernel reaches such an address from itself. */
static bool
is_source(const struct sockaddr *sa)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	cleanup_close int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno != EAFNOSUPPORT;
	if (connect(fd, sa, address_length(sa)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return false;
	if (sa->sa_family == AF_INET6)
		return memcmp(&((struct sockaddr_in6 *)&ss)->sin6_addr,
			   &((const struct sockaddr_in6 *)sa)->sin6_addr,
			   sizeof(struct in6_addr)) == 0;
	return ((struct sockaddr_in *)&ss)->sin_addr.s_addr ==
	    ((const struct sockaddr_in *)sa)->sin_addr.s_addr;
}

/* Does bind() succeed for every address (ip_nonlocal_bind)? Tested with an address that no
 * machine has. */
static bool
binds_anything(int family)
{
	static int known[2] = { -1, -1 };
	int *k = &known[family == AF_INET6];

	if (*k < 0) {
		int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		const struct sockaddr_in in = { .sin_family = AF_INET,
			.sin_addr.s_addr = htonl(0xc0000201) /* 192.0.2.1 */ };
		const struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
			.sin6_addr.s6_addr = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } };

		/* Without a free descriptor the question stays open for the next call; until
		 * then can_bind() fails, too, and treats every address as this machine's. */
		if (fd < 0 && errno != EAFNOSUPPORT)
			return false;
		if (fd >= 0)
			close(fd);
		*k = can_bind(family == AF_INET6 ? (const struct sockaddr *)&in6
						 : (const struct sockaddr *)&in);
	}
	return *k > 0;
}

bool
is_own_address(const struct sockaddr *sa)
{
	return binds_anything(sa->sa_family) ? is_source(sa) : can_bind(sa);
}
