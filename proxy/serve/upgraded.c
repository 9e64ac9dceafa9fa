/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/serve/upgraded.h"

enum upgraded_result
upgraded_pump(struct side *c, struct side *s, struct account *account)
{
	bool progress;

	if (c->mute || s->mute || c->broken || s->broken)
		return UPGRADED_BROKEN;
	if (buffer_filled(&c->out) > 0 || buffer_filled(&s->out) > 0)
		return UPGRADED_WAITS;
	if (c->s.ssl == NULL && s->s.ssl == NULL && !c->ended && !s->ended)
		return UPGRADED_PLAIN;
	progress = side_pump(c, s, &account->up);
	progress |= side_pump(s, c, &account->down);
	if (c->shut && s->shut)
		return UPGRADED_OVER;
	return progress ? UPGRADED_MOVED : UPGRADED_WAITS;
}

struct relay *
upgraded_relay(struct proxy *p, struct side *c, struct side *s, struct account *account,
    relay_fn *fn, void *data)
{
	struct relay *r;

	ev_io_stop(c->loop, &c->io);
	ev_io_stop(s->loop, &s->io);
	r = relay_start(p, c->s.fd, s->s.fd, buffer_first(&c->in), buffer_filled(&c->in),
	    buffer_first(&s->in), buffer_filled(&s->in), account, fn, data);
	if (r == NULL)
		return NULL;
	c->s.fd = s->s.fd = -1;
	buffer_clear(&c->in);
	buffer_clear(&s->in);
	return r;
}
