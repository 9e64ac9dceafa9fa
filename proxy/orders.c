/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/orders.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/accept/listener.h"
#include "proxy/questions.h"
#include "shared/base/cleanup.h"
#include "shared/base/io.h"

/* ---- the start ---- */

static bool
is_granted_host(const Koda__EgressGrant *g, char ret[DOMAIN_HOST_MAX + 1])
{
	enum domain_kind kind;

	return g->port >= 1 && g->port <= 65535 &&
	    domain_host_parse(g->host.data, g->host.len, true, ret, &kind) == NULL &&
	    strlen(ret) == g->host.len && memcmp(ret, g->host.data, g->host.len) == 0;
}

/* Copy a variable that the host has set to *ret, which the caller frees. */
static int
copy_variable(bool has, const ProtobufCBinaryData *value, char **ret, struct koda_error *err)
{
	if (!has)
		return 0;
	if (value->len > UPSTREAM_VALUE_MAX ||
	    (value->len > 0 && memchr(value->data, '\0', value->len)))
		return err_set(err, KODA_PROTOCOL, 0, "an invalid variable");
	*ret = strndup((const char *)value->data, value->len);
	return *ret != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "start");
}

static int
take_upstream(struct proxy *p, const Koda__EgressUpstream *u, struct koda_error *err)
{
	cleanup_free char *https = NULL, *http = NULL, *all = NULL, *no = NULL;

	if (copy_variable(u->has_https_proxy, &u->https_proxy, &https, err) < 0 ||
	    copy_variable(u->has_http_proxy, &u->http_proxy, &http, err) < 0 ||
	    copy_variable(u->has_all_proxy, &u->all_proxy, &all, err) < 0 ||
	    copy_variable(u->has_no_proxy, &u->no_proxy, &no, err) < 0)
		return -1;
	return upstream_parse(&(struct upstream_variables){ https, http, all, no }, &p->upstream,
	    err);
}

static int
fill_proxy(struct proxy *p, const Koda__EgressStart *start, bool *ret_intercept,
    struct koda_error *err)
{
	if (start->policy.len > POLICY_PACKED_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "a policy that is too large");
	if (start->n_grant > QUESTIONS_GRANTS_MAX)
		return err_set(err, KODA_PROTOCOL, 0, "too many grants");
	if (policy_unpack(start->policy.data, start->policy.len, &p->policy, err) < 0)
		return -1;
	p->mode = (enum koda_mode)start->mode;
	p->ask = start->ask;
	for (size_t i = 0; i < start->n_grant; i++) {
		char host[DOMAIN_HOST_MAX + 1];

		if (!is_granted_host(start->grant[i], host))
			return err_set(err, KODA_PROTOCOL, 0, "a grant for an invalid host");
		questions_grant(p->questions, host, start->grant[i]->port);
	}
	if (take_upstream(p, start->upstream, err) < 0)
		return -1;
	p->rules = egress_rules_new(&p->policy, err);
	if (p->rules == NULL)
		return -1;
	*ret_intercept = start->intercept;
	return 0;
}

static int
take_start(struct proxy *p, const Koda__EgressStart *start, bool *ret_intercept,
    struct koda_error *err)
{
	p->questions = questions_new(p);
	if (p->questions == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "start");
	if (fill_proxy(p, start, ret_intercept, err) == 0)
		return 0;
	questions_free(take_ptr(&p->questions));
	return -1;
}

/* ---- slots ---- */

static int
socket_option(int fd, int option)
{
	socklen_t len = sizeof(int);
	int value;

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

static int
serve_slot(struct proxy *p, const Koda__EgressServe *msg, int fd, struct koda_error *err)
{
	cleanup_close int listening = fd;

	if (listener_find(p, msg->slot) != NULL)
		return err_set(err, KODA_PROTOCOL, 0, "that slot is served already");
	if (socket_option(listening, SO_DOMAIN) != AF_INET ||
	    socket_option(listening, SO_TYPE) != SOCK_STREAM ||
	    socket_option(listening, SO_ACCEPTCONN) != 1 || set_nonblocking(listening) < 0)
		return err_set(err, KODA_PROTOCOL, 0, "that is not a listening socket");
	if (listener_new(p, msg->slot, msg->consent_for, take_fd(&listening)) == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "slot");
	return 0;
}

static int
drop_slot(struct proxy *p, const Koda__EgressDrop *msg, struct koda_error *err)
{
	struct listener *l = listener_find(p, msg->slot);

	if (l == NULL)
		return err_set(err, KODA_PROTOCOL, 0, "no such slot");
	listener_free(l);
	return 0;
}

static int
take_order(struct proxy *p, const Koda__EgressOrder *o, int fd, struct koda_error *err)
{
	if (o->order_case == KODA__EGRESS_ORDER__ORDER_SERVE)
		return serve_slot(p, o->serve, fd, err);
	if (o->order_case == KODA__EGRESS_ORDER__ORDER_DROP)
		return drop_slot(p, o->drop, err);
	questions_answer(p->questions, o->answer->question, o->answer->consent);
	return 0;
}

static void
resume_listeners(struct proxy *p)
{
	for (struct listener *l = p->listeners; l != NULL; l = l->next)
		listener_resume(l);
}

const struct control_handler orders_handler = {
	.start = take_start,
	.order = take_order,
	.caught_up = resume_listeners,
};
