/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/port.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"
#include "shared/rules/egress.h"

#define CONNECTIONS_MAX 1024 /* kept for koda_slot_connections; the oldest is dropped */

void
port_watch_all(struct egress_port *first, struct loop *loop, bool watched)
{
	for (struct egress_port *p = first; p != NULL; p = p->next) {
		if (watched && p->fd >= 0)
			loop_watch(loop, &p->source, p->fd, EPOLLIN);
		else
			loop_unwatch(loop, &p->source);
	}
}

void
port_unserve_all(struct egress_port *first)
{
	for (struct egress_port *p = first; p != NULL; p = p->next) {
		p->served = false;
		if (p->connections != NULL)
			connections_cut(p->connections, "the egress proxy ended");
	}
}

void
port_close(struct egress_port *port, struct loop *loop)
{
	loop_unwatch(loop, &port->source);
	close_at(&port->fd);
	port->fd = -1;
	port->served = false;
}

void
port_close_all(struct egress_port *first, struct loop *loop)
{
	for (struct egress_port *p = first; p != NULL; p = p->next)
		port_close(p, loop);
}

struct egress_port *
port_find(struct egress_port *first, uint64_t slot)
{
	struct egress_port *p = first;

	while (p != NULL && p->slot != slot)
		p = p->next;
	return p;
}

void
port_unlink(struct egress_port **first, struct egress_port *port)
{
	struct egress_port **at = first;

	while (*at != port)
		at = &(*at)->next;
	*at = port->next;
}

int
port_serve(struct egress_port *port, struct egress_wire *wire, struct koda_error *err)
{
	if (wire_send_serve(wire, port->slot, port->of.consent, port->fd, err) < 0)
		return -1;
	port->served = true;
	return 0;
}

static void
record_violation(const struct egress_port *port, const struct koda_connection *one)
{
	char target[DOMAIN_HOST_MAX + 16], rule[256], detail[EGRESS_SENTENCE_MAX];
	const struct koda_violation v = { .kind = KODA_VIOLATION_NETWORK_OUTBOUND,
		.target = target,
		.command = port->of.blame(port->of.data),
		.rule = rule,
		.detail = detail,
		.certain = true };

	snprintf(target, sizeof(target), "%s:%u", one->host, one->port);
	bytes_show(rule, sizeof(rule), one->rule, strlen(one->rule));
	bytes_show(detail, sizeof(detail), one->detail, strlen(one->detail));
	violations_record(port->of.violations, &v);
}

void
port_record(struct egress_port *port, uint64_t id, const struct koda_connection *one)
{
	if (port->connections == NULL)
		port->connections = connections_new(CONNECTIONS_MAX);
	if (port->connections != NULL)
		connections_report(port->connections, id, one);
	if (one->outcome == KODA_CONNECTION_DENIED)
		record_violation(port, one);
}
