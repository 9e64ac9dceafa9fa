/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "shared/base/cleanup.h"

/* bwrap brings the loopback interface up before it drops its capabilities; stage2 has none for
 * that. If a socket were bound while the interface is down, the port would look right, but no
 * connection would get an answer. */
static int
check_loopback(int fd, struct koda_error *err)
{
	struct ifreq lo = { .ifr_name = "lo" };

	if (ioctl(fd, SIOCGIFFLAGS, &lo) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "examine the loopback interface");
	if ((lo.ifr_flags & IFF_UP) == 0)
		return err_set(err, KODA_UNSUPPORTED, ENETDOWN, "the loopback interface is down");
	return 0;
}

int
netns_listen(unsigned port, struct koda_error *err)
{
	static const int on = 1;
	const struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "a socket for port %u", port);
	if (check_loopback(fd, err) < 0)
		return -1;
	/* Accepted connections inherit it from here, also those made before the proxy accepts.
	 * If it were set later, these would miss it, and small pieces would wait for
	 * acknowledgements. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "TCP_NODELAY");
	/* Neither SO_REUSEADDR nor SO_REUSEPORT: no other socket can be bound to this port, with
	 * any options. */
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, NETNS_BACKLOG) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "listen on 127.0.0.1:%u", port);
	return take_fd(&fd);
}
