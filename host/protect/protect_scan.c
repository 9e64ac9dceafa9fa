/* SPDX-License-Identifier: Apache-2.0 */
#include "host/protect/protect_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/policy/defaults.h"
#include "host/protect/protect_note.h"
#include "host/slot/slot.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/rules/names.h"

/* Known places per request to a new worker: half a frame. */
#define KNOWN_PAGE (512u << 10)

/* ---- the worker's places ---- */

/* The worker's data is untrusted input. */
static int
check_place(const struct protect *p, const Koda__Place *place, struct koda_error *err)
{
	bool inside = false;

	if (path_check(place->path.data, place->path.len, err) < 0 || place->path.data[0] != '/')
		return err_set(err, KODA_PROTOCOL, 0, "a place with an invalid path");
	for (size_t i = 0; i < p->sb->view.n_writable && !inside; i++) {
		const char *dir = p->sb->view.writable[i];
		size_t len = strlen(dir);

		inside = strcmp(dir, "/") == 0 ||
		    (place->path.len > len && memcmp(place->path.data, dir, len) == 0 &&
			place->path.data[len] == '/');
	}
	if (!inside)
		return err_set(err, KODA_PROTOCOL, 0, "a place outside the writable directories");
	return 0;
}

int
protect_add_place(struct protect *p, const Koda__Place *place, bool sure, struct koda_error *err)
{
	/* Places that are never mounted must not use up the room of those that are. */
	const size_t most = place->kind == KODA__PLACE_KIND__PLACE_GIT_ENTRY
	    ? PROTECT_PLACES_MAX / 2
	    : PROTECT_PLACES_MAX;
	int r;

	if (check_place(p, place, err) < 0)
		return -1;
	r = place_set_add(&p->places, place, sure, most, err);
	p->too_many = p->too_many || r > 0;
	p->plan_old = p->plan_old || r == 0;
	return r < 0 ? -1 : 0;
}

static int
take_scanned(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct protect *p = data;

	if (reply->result_case != KODA__REPLY__RESULT_SCANNED)
		return err_set(err, KODA_PROTOCOL, 0, "the reply to Scan has the wrong type");
	for (size_t i = 0; i < reply->scanned->n_place; i++) {
		if (protect_add_place(p, reply->scanned->place[i], !p->scanned, err) < 0)
			return -1;
	}
	if (reply->scanned->has_cut && reply->scanned->cut)
		protect_note_cut(p);
	p->more = reply->scanned->has_more && reply->scanned->more;
	return 0;
}

/* ---- requests ---- */

bool
protect_is_cache(const struct protect *p, const char *dir)
{
	bool cache = false;

	for (size_t k = 0; k < p->sb->caches.n && !cache; k++)
		cache = strcmp(dir, p->sb->caches.v[k].path) == 0;
	return cache;
}

/* Lists the directories that the worker scans: those in which commands can plant on the host. That
 * excludes caches: those with layers never reach the host, and shared ones are too large to scan,
 * and their tools own the content. */
static size_t
fill_below(const struct protect *p, ProtobufCBinaryData *below)
{
	size_t n = 0;

	for (size_t i = 0; i < p->sb->view.n_writable; i++) {
		const char *dir = p->sb->view.writable[i];
		if (!protect_is_cache(p, dir))
			below[n++] =
			    (ProtobufCBinaryData){ strlen(dir), (uint8_t *)(uintptr_t)dir };
	}
	return n;
}

/* Returns how long a request may take. */
static unsigned
patience_ms(const struct protect *p)
{
	const uint64_t now = monotonic_ns();
	uint64_t left = p->until > now ? (p->until - now) / 1000000 : 0;

	if (p->until == 0 || left > PROTECT_SCAN_MS)
		return PROTECT_SCAN_MS;
	return (unsigned)left;
}

/* A worker that was started outside of the sandbox, because that could not be built again, cannot
 * take away what commands planted: what it finds does not count. */
static int
check_inside(const struct protect *p, struct koda_error *err)
{
	return p->slot->commands != NULL
	    ? 0
	    : err_set(err, KODA_UNSUPPORTED, 0, "the kernel sandbox does not work any more");
}

int
protect_ask(struct protect *p, struct packed *request,
    int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err),
    struct koda_error *err)
{
	p->more = false;
	if (check_inside(p, err) < 0) {
		packed_done(request);
		return -1;
	}
	if (slot_ask_ours(p->slot, request, patience_ms(p), take, p, err) < 0)
		return -1;
	return check_inside(p, err);
}

static int
ask_scan(struct protect *p, Koda__Scan *msg, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	struct packed packed;

	req.op_case = KODA__REQUEST__OP_SCAN;
	req.scan = msg;
	if (slot_pack_ours(p->slot, &req, &packed, err) < 0)
		return -1;
	return protect_ask(p, &packed, take_scanned, err) < 0
	    ? err_wrap(err, "look for what to protect")
	    : 0;
}

/* Fills in the file names whose changes are only reported: case-folded, each in its own buffer. */
static int
fill_told(Koda__Scan *msg, ProtobufCBinaryData **ret, char (**ret_names)[NAMES_RULE_MAX + 1])
{
	size_t n = 0;

	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++)
		n += d->where == DEFAULT_TOLD;
	*ret = calloc(n + 1, sizeof(**ret));
	*ret_names = calloc(n + 1, sizeof(**ret_names));
	if (*ret == NULL || *ret_names == NULL)
		return -1;
	n = 0;
	for (const struct default_place *d = default_protected; d->name[0] != '\0'; d++) {
		char *name = (*ret_names)[n];

		if (d->where != DEFAULT_TOLD)
			continue;
		snprintf(name, NAMES_RULE_MAX + 1, "%s", d->name);
		names_normalise(name);
		(*ret)[n++] = (ProtobufCBinaryData){ strlen(name), (uint8_t *)name };
	}
	msg->told = *ret;
	msg->n_told = n;
	return 0;
}

void
protect_known_page(Koda__Scan *msg, Koda__Place **known, size_t n, size_t *told)
{
	size_t bytes = 0;

	msg->known = known + *told;
	msg->n_known = 0;
	while (*told < n && bytes < KNOWN_PAGE) {
		bytes += koda__place__get_packed_size(known[(*told)++]) + 8;
		msg->n_known++;
	}
	msg->has_more = msg->more = *told < n;
}

static int
scan(struct protect *p, struct koda_error *err)
{
	cleanup_free ProtobufCBinaryData *told_names = NULL;
	cleanup_free char(*names)[NAMES_RULE_MAX + 1] = NULL;
	cleanup_free ProtobufCBinaryData *below =
	    calloc(p->sb->view.n_writable + 1, sizeof(*below));
	/* The reply adds places while the known ones are still being sent. */
	size_t n_known = 0, told = 0;
	cleanup_free Koda__Place **known = NULL;
	Koda__Scan msg = KODA__SCAN__INIT;

	if (p->scanned) {
		place_set_forget_unsure(&p->places);
		n_known = p->places.n;
	}
	known = calloc(n_known + 1, sizeof(*known));
	if (below == NULL || known == NULL || fill_told(&msg, &told_names, &names) < 0)
		return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
	msg.n_below = fill_below(p, below);
	if (msg.n_below == 0)
		return 0;
	if (n_known > 0)
		memcpy(known, p->places.place, n_known * sizeof(*known));
	msg.below = below;
	msg.has_resumed = msg.resumed = p->scanned;
	do {
		protect_known_page(&msg, known, n_known, &told);
		if (ask_scan(p, &msg, err) < 0)
			return -1;
		msg.n_told = 0;
	} while (told < n_known);
	while (p->more) {
		Koda__Scan next = KODA__SCAN__INIT;

		next.has_next = next.next = true;
		if (ask_scan(p, &next, err) < 0)
			return -1;
	}
	return 0;
}

int
protect_scan(struct protect *p, struct koda_error *err)
{
	if (scan(p, err) < 0)
		return -1;
	memcpy(p->token, p->slot->token, TOKEN_BYTES);
	p->scanned = true;
	return 0;
}

bool
protect_is_watching(const struct protect *p)
{
	return p->scanned && memcmp(p->token, p->slot->token, TOKEN_BYTES) == 0;
}
