/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_reply.h"

#include <string.h>

#include "shared/wire/protocol.h"
#include "worker/files/change.h"
#include "worker/scan/scan_results.h"

/* Items in one reply. Bounds the memory into which a frame unpacks. */
#define ITEMS_MAX 2000
/* Packed size of one item without its texts. */
#define PLACE_BYTES  80
#define CHANGE_BYTES 96

static ProtobufCBinaryData
copied(struct session *ses, const char *text, struct koda_error *err)
{
	size_t len = strlen(text);
	char *copy = session_alloc(ses, len + 1, err);

	if (copy != NULL)
		memcpy(copy, text, len);
	return bytes_of(copy, copy != NULL ? len : 0);
}

static Koda__PlaceKind
kind_of(const struct known *k)
{
	return k->guarded                                 ? KODA__PLACE_KIND__PLACE_GUARDED
	    : k->what == WHAT_PIN                         ? KODA__PLACE_KIND__PLACE_GIT_DIR
	    : k->what == WHAT_RULE                        ? KODA__PLACE_KIND__PLACE_RULE
	    : k->what == WHAT_STRANGE                     ? KODA__PLACE_KIND__PLACE_GIT_ENTRY
	    : k->what == WHAT_NAME || k->what == WHAT_LED ? KODA__PLACE_KIND__PLACE_NAME
							  : KODA__PLACE_KIND__PLACE_PROTECTED;
}

int
scan_places(struct session *ses, struct scan *sc, Koda__Place ***ret, size_t *ret_n, size_t used,
    struct koda_error *err)
{
	const struct known *k = scan_next_place(sc);
	Koda__Place **list;
	size_t n = 0;

	*ret_n = 0;
	if (k == NULL)
		return 0;
	list = session_alloc(ses, ITEMS_MAX * sizeof(*list), err);
	if (list == NULL)
		return -1;
	for (; k != NULL; k = scan_next_place(sc)) {
		Koda__Place *p;

		used += PLACE_BYTES + strlen(k->path);
		if (n == ITEMS_MAX || used > PAGE_MAX) {
			scan_put_back_place(sc, k);
			break;
		}
		p = session_alloc(ses, sizeof(*p), err);
		if (p == NULL)
			return -1;
		koda__place__init(p);
		p->kind = kind_of(k);
		p->path = copied(ses, k->path, err);
		p->type = file_type_of(k->stamp.mode);
		p->dev = k->stamp.dev;
		p->ino = k->stamp.ino;
		p->size = k->stamp.size;
		p->mtime_ns = k->stamp.mtime_ns;
		p->ctime_ns = k->stamp.ctime_ns;
		if (p->path.data == NULL)
			return -1;
		list[n++] = p;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int
scan_changes(struct session *ses, struct scan *sc, Koda__Change ***ret, size_t *ret_n, size_t *used,
    struct koda_error *err)
{
	const struct scan_change *c = scan_next_change(sc);
	Koda__Change **list;
	size_t n = 0;

	*ret_n = 0;
	if (c == NULL)
		return 0;
	list = session_alloc(ses, ITEMS_MAX * sizeof(*list), err);
	if (list == NULL)
		return -1;
	for (; c != NULL; c = scan_next_change(sc)) {
		Koda__Change *m;

		*used +=
		    CHANGE_BYTES + strlen(c->path) + (c->detail != NULL ? strlen(c->detail) : 0);
		if (n == ITEMS_MAX || *used > PAGE_MAX) {
			scan_put_back_change(sc);
			break;
		}
		m = session_alloc(ses, sizeof(*m), err);
		if (m == NULL)
			return -1;
		koda__change__init(m);
		m->kind = c->kind;
		m->path = copied(ses, c->path, err);
		m->rule = copied(ses, c->rule, err);
		m->has_detail = c->detail != NULL;
		if (c->detail != NULL)
			m->detail = copied(ses, c->detail, err);
		m->has_quarantined = c->quarantined[0] != '\0';
		if (m->has_quarantined)
			m->quarantined = copied(ses, c->quarantined, err);
		if (m->path.data == NULL || m->rule.data == NULL)
			return -1;
		list[n++] = m;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
