#include "host/protect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/baseline.h"
#include "host/command.h"
#include "host/state.h"
#include "shared/cleanup.h"

#define SCAN_MS       120000       /* a home directory of a million names, cold */
#define KNOWN_PAGE    (512u << 10) /* of what is told to a successor at once: half a frame */
#define COMPARE_TRIES 3

struct waiter {
	struct waiter *next;
	protect_done_fn *done;
	void *data;
};

struct protect {
	Koda__Place **place; /* each a copy of its own (protobuf-c's allocator) */
	/* Of each: it was there before any command ran, or is mounted where nobody was before: no command has changed it
	 * since it was told. */
	bool *sure;
	size_t n, size;
	uint8_t token[TOKEN_BYTES]; /* of the worker that watches */
	bool scanned;               /* a worker has, ever */
	uint64_t mounted_boot;      /* the boot of the sandbox that has the plan */
	bool mounted_news;          /* the worker does not know yet that what it found is mounted */
	bool plan_old;              /* places came that are not mounted yet */
	bool said_cut;
	struct baseline baseline;
	bool based;   /* the baseline is open, or there is none */
	bool loading; /* from it: what comes is not news to it */
	bool left;    /* what a command left was not compared */
	/* The comparison under way, and who waits for it or for the one after it. */
	bool running, more;
	unsigned tries;
	struct waiter *now, *next;
	char *blame;
};

struct protect *
protect_new(void)
{
	struct protect *p = calloc(1, sizeof(*p));

	if (p != NULL)
		p->baseline = (struct baseline)BASELINE_NONE;
	return p;
}

static void
free_waiters(struct waiter *w)
{
	while (w != NULL) {
		struct waiter *next = w->next;

		free(w);
		w = next;
	}
}

static void
forget_places(struct protect *p)
{
	for (size_t i = 0; i < p->n; i++)
		koda__place__free_unpacked(p->place[i], NULL);
	p->n = 0;
}

void
protect_free(struct protect *p)
{
	if (p == NULL)
		return;
	baseline_close(&p->baseline, !p->left);
	forget_places(p);
	free(p->place);
	free(p->sure);
	free_waiters(p->now);
	free_waiters(p->next);
	free(p->blame);
	free(p);
}

/* ---- what the worker found ---- */

/* Untrusted input. */
static int
check_place(const struct sandbox *sb, const Koda__Place *place, struct koda_error *err)
{
	bool inside = false;

	if (path_check(place->path.data, place->path.len, err) < 0 || place->path.data[0] != '/')
		return err_set(err, KODA_PROTOCOL, 0, "a place without a path");
	for (size_t i = 0; i < sb->view.n_writable && !inside; i++) {
		const char *dir = sb->view.writable[i];
		size_t len = strlen(dir);

		inside = strcmp(dir, "/") == 0 ||
		    (place->path.len > len && memcmp(place->path.data, dir, len) == 0 &&
			place->path.data[len] == '/');
	}
	if (!inside)
		return err_set(err, KODA_PROTOCOL, 0, "a place that no command can write");
	return 0;
}

static int
add_place(struct sandbox *sb, const Koda__Place *place, bool sure, struct koda_error *err)
{
	struct protect *p = sb->protect;
	size_t len = koda__place__get_packed_size(place);
	cleanup_free uint8_t *packed = malloc(len);
	Koda__Place *copy;

	if (check_place(sb, place, err) < 0)
		return -1;
	for (size_t i = 0; i < p->n; i++) {
		if (p->place[i]->path.len == place->path.len &&
		    memcmp(p->place[i]->path.data, place->path.data, place->path.len) == 0) {
			/* A newer look at the same. */
			koda__place__free_unpacked(p->place[i], NULL);
			p->place[i] = p->place[--p->n];
			p->sure[i] = p->sure[p->n];
			break;
		}
	}
	if (p->n >= PROTECT_PLACES_MAX)
		return 0;
	if (p->n == p->size) {
		size_t more = p->size == 0 ? 64 : 2 * p->size;
		Koda__Place **list = realloc(p->place, more * sizeof(*list));
		bool *sure_list;

		if (list == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "places");
		p->place = list;
		sure_list = realloc(p->sure, more * sizeof(*sure_list));
		if (sure_list == NULL)
			return err_set(err, KODA_INTERNAL, ENOMEM, "places");
		p->sure = sure_list;
		p->size = more;
	}
	if (packed == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	koda__place__pack(place, packed);
	copy = koda__place__unpack(NULL, len, packed);
	if (copy == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	p->sure[p->n] = sure;
	p->place[p->n++] = copy;
	p->plan_old = true;
	if (sure && !p->loading)
		baseline_add(&p->baseline, copy);
	return 0;
}

static int
add_known(void *data, const Koda__Place *place, struct koda_error *err)
{
	/* Of another version, or of a file that was cut: what makes no sense is not known. */
	if (check_place(data, place, NULL) < 0)
		return 0;
	return add_place(data, place, true, err);
}

/* Where others of the same rules look too; by what decides what a place is. */
static int
open_baseline(struct sandbox *sb, struct koda_error *err)
{
	struct protect *p = sb->protect;
	int r;

	p->loading = true;
	r = baseline_open(&p->baseline,
	    sb->quarantine == NULL
		? NULL
		: state_baseline_path(sb->quarantine, koda_policy_get(sb->slot->policy)),
	    add_known, sb, err);
	p->loading = false;
	if (r < 0)
		return err_wrap(err, "what was there before commands ran");
	p->based = true;
	p->scanned = r > 0;
	return r;
}

static void
note(struct sandbox *sb, enum koda_violation_kind kind, const char *target, const char *rule,
    const char *detail)
{
	const struct koda_violation v = { .kind = kind,
		.target = target,
		.command = sb->protect->blame != NULL ? sb->protect->blame : "",
		.rule = rule,
		.detail = detail,
		.certain = true };

	violations_record(&sb->violations, &v);
}

static void
note_cut(struct sandbox *sb)
{
	if (sb->protect->said_cut)
		return;
	sb->protect->said_cut = true;
	note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_covered",
	    "there are too many files here to look at all of them: what commands plant deep inside may "
	    "not be found");
}

static int
take_scanned(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct sandbox *sb = data;

	if (reply->result_case != KODA__REPLY__RESULT_SCANNED)
		return err_set(err, KODA_PROTOCOL, 0, "a reply of another kind than Scan's");
	for (size_t i = 0; i < reply->scanned->n_place; i++) {
		if (add_place(sb, reply->scanned->place[i], !sb->protect->scanned, err) < 0)
			return -1;
	}
	if (reply->scanned->has_cut && reply->scanned->cut)
		note_cut(sb);
	sb->protect->more = reply->scanned->has_more && reply->scanned->more;
	return 0;
}

static void
on_change(struct sandbox *sb, const Koda__Change *change)
{
	cleanup_free char *path = strndup((const char *)change->path.data, change->path.len);
	cleanup_free char *kept = NULL;
	char detail[KODA_MESSAGE_MAX], rule[64];

	if (path == NULL)
		return;
	if (change->has_quarantined)
		kept = strndup((const char *)change->quarantined.data, change->quarantined.len);
	snprintf(rule, sizeof(rule), "%.*s", (int)change->rule.len,
	    (const char *)change->rule.data);
	switch ((int)change->kind) {
	case KODA__CHANGE_KIND__CHANGE_ASIDE:
		snprintf(detail, sizeof(detail), "planted, and renamed: %.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		break;
	case KODA__CHANGE_KIND__CHANGE_QUARANTINED:
		snprintf(detail, sizeof(detail), "planted, and moved to quarantine as %s",
		    kept == NULL ? "?" : kept);
		break;
	case KODA__CHANGE_KIND__CHANGE_DISARMED:
		snprintf(detail, sizeof(detail),
		    "keys that could run something were taken out; the whole is in quarantine as %s",
		    kept == NULL ? "?" : kept);
		break;
	case KODA__CHANGE_KIND__CHANGE_LEFT:
		snprintf(detail, sizeof(detail), "planted, and still there: %.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		break;
	default:
		note(sb, KODA_VIOLATION_OTHER, path, "changed_outside",
		    "changed meanwhile by somebody outside the sandbox; left as it is");
		return;
	}
	note(sb, KODA_VIOLATION_FILE_WRITE, path, rule, detail);
}

static int
take_compared(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct sandbox *sb = data;

	if (reply->result_case != KODA__REPLY__RESULT_COMPARED)
		return err_set(err, KODA_PROTOCOL, 0, "a reply of another kind than Compare's");
	for (size_t i = 0; i < reply->compared->n_change; i++)
		on_change(sb, reply->compared->change[i]);
	for (size_t i = 0; i < reply->compared->n_place; i++) {
		if (add_place(sb, reply->compared->place[i], false, err) < 0)
			return -1;
	}
	if (reply->compared->has_cut && reply->compared->cut)
		note_cut(sb);
	sb->protect->more = reply->compared->has_more && reply->compared->more;
	return 0;
}

/* ---- asking ---- */

static int
pack(struct sandbox *sb, Koda__Request *req, struct packed *ret, struct koda_error *err)
{
	req->id = sb->slot->next_id;
	ret->len = koda__request__get_packed_size(req);
	ret->data = malloc(ret->len);
	if (ret->data == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "request");
	koda__request__pack(req, ret->data);
	return 0;
}

/* Where commands may plant: the caches are not looked through, what the host runs from them is read-only. */
static size_t
fill_below(const struct sandbox *sb, ProtobufCBinaryData *below)
{
	size_t n = 0;

	for (size_t i = 0; i < sb->view.n_writable; i++) {
		const char *dir = sb->view.writable[i];
		bool cache = false;

		for (size_t k = 0; k < sb->n_package_caches && !cache; k++)
			cache = strcmp(dir, sb->caches[k]) == 0;
		if (!cache)
			below[n++] =
			    (ProtobufCBinaryData){ strlen(dir), (uint8_t *)(uintptr_t)dir };
	}
	return n;
}

static bool
searches(const struct sandbox *sb)
{
	cleanup_free ProtobufCBinaryData *below = calloc(sb->view.n_writable + 1, sizeof(*below));

	return below != NULL && fill_below(sb, below) > 0;
}

static int
ask_scan(struct sandbox *sb, Koda__Scan *msg, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	struct packed packed;
	struct call c = { 0 };

	req.op_case = KODA__REQUEST__OP_SCAN;
	req.scan = msg;
	if (pack(sb, &req, &packed, err) < 0)
		return -1;
	c.take = take_scanned;
	c.take_data = sb;
	sb->protect->more = false;
	slot_submit_ours(sb->slot, &packed, SCAN_MS, &c);
	slot_run(sb->slot, &c);
	if (c.err.code != KODA_OK && err != NULL)
		*err = c.err;
	call_done(&c);
	return c.err.code == KODA_OK ? 0 : err_wrap(err, "look for what is to be protected");
}

/* What commands may have changed since it was told is found again, and judged. */
static void
forget_unsure(struct protect *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (!p->sure[i]) {
			koda__place__free_unpacked(p->place[i], NULL);
			continue;
		}
		p->sure[kept] = true;
		p->place[kept++] = p->place[i];
	}
	p->n = kept;
}

static int
scan(struct sandbox *sb, struct koda_error *err)
{
	struct protect *p = sb->protect;
	cleanup_free ProtobufCBinaryData *below = calloc(sb->view.n_writable + 1, sizeof(*below));
	/* What it finds is added while what was known is still being told. */
	size_t n_known = 0, told = 0;
	cleanup_free Koda__Place **known = NULL;
	Koda__Scan msg = KODA__SCAN__INIT;

	if (p->scanned) {
		forget_unsure(p);
		n_known = p->n;
	}
	known = calloc(n_known + 1, sizeof(*known));
	if (below == NULL || known == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
	msg.n_below = fill_below(sb, below);
	if (msg.n_below == 0)
		return 0;
	if (n_known > 0)
		memcpy(known, p->place, n_known * sizeof(*known));
	msg.below = below;
	msg.has_resumed = msg.resumed = p->scanned;
	do {
		size_t bytes = 0;

		msg.known = known + told;
		msg.n_known = 0;
		while (told < n_known && bytes < KNOWN_PAGE) {
			bytes += koda__place__get_packed_size(known[told++]) + 8;
			msg.n_known++;
		}
		msg.has_more = msg.more = told < n_known;
		if (ask_scan(sb, &msg, err) < 0)
			return -1;
	} while (told < n_known);
	while (p->more) {
		Koda__Scan next = KODA__SCAN__INIT;

		next.has_next = next.next = true;
		if (ask_scan(sb, &next, err) < 0)
			return -1;
	}
	return 0;
}

static int
plan(struct sandbox *sb, struct koda_error *err)
{
	const struct koda_session *ses = sb->slot->ses;
	struct protect *p = sb->protect;
	cleanup_free struct view_place *places = calloc(p->n + 1, sizeof(*places));
	cleanup_free char **paths = calloc(p->n + 1, sizeof(*paths));
	struct view_input in = { .policy = koda_policy_get(sb->slot->policy),
		.mode = ses->mode,
		.root = ses->root,
		.home = ses->home,
		.caches = (const char *const *)sb->caches,
		.n_caches = sb->n_caches,
		.places = places,
		.n_places = 0 };
	struct view view = { 0 };
	int r = places == NULL || paths == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "plan") : 0;

	for (size_t i = 0; r == 0 && i < p->n; i++) {
		const Koda__Place *from = p->place[i];

		/* Nothing can be mounted on a link itself: only the comparison guards it. */
		if (from->type == KODA__FILE_TYPE__FILE_SYMLINK)
			continue;
		paths[i] = strndup((const char *)from->path.data, from->path.len);
		if (paths[i] == NULL)
			r = err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		places[in.n_places++] = (struct view_place){
			.kind = from->kind == KODA__PLACE_KIND__PLACE_GIT_DIR ? VIEW_PLACE_GIT_DIR
			    : from->kind == KODA__PLACE_KIND__PLACE_RULE      ? VIEW_PLACE_RULE
									 : VIEW_PLACE_PROTECTED,
			.path = paths[i],
			.dev = (dev_t)from->dev,
			.ino = (ino_t)from->ino,
			.directory = from->type == KODA__FILE_TYPE__FILE_DIRECTORY,
		};
	}
	if (r == 0)
		r = view_plan(&in, &view, err);
	for (size_t i = 0; paths != NULL && i < p->n; i++)
		free(paths[i]);
	if (r < 0)
		return -1;
	view_done(&sb->view);
	sb->view = view;
	return 0;
}

static bool
is_watching(const struct sandbox *sb)
{
	return sb->protect->scanned &&
	    memcmp(sb->protect->token, sb->slot->token, TOKEN_BYTES) == 0;
}

/*
 * What is mounted over a repository that a command is just making breaks that command. What is mounted over a directory
 * that a command has open, or is in, does not close it to that command, nor to whoever else gets it from there; and what
 * was planted in it the worker could not take away any more. Until nobody runs, and all of it was looked at, the
 * comparison guards.
 */
static bool
in_use(const struct sandbox *sb)
{
	if (sb->protect->running)
		return true;
	for (const struct koda_command *c = sb->commands; c != NULL; c = c->next)
		if (c->state == COMMAND_RUNNING || c->state == COMMAND_COMPARING)
			return true;
	return false;
}

int
protect_prepare(struct sandbox *sb, struct koda_error *err)
{
	struct protect *p = sb->protect;
	int resumed = 0;

	if (!p->based && searches(sb) && (resumed = open_baseline(sb, err)) < 0)
		return -1;
	if (!is_watching(sb)) {
		if (scan(sb, err) < 0)
			return -1;
		memcpy(p->token, sb->slot->token, TOKEN_BYTES);
		p->scanned = true;
		baseline_ready(&p->baseline);
	}
	/* What a host that was killed, or another slot, has let happen and not looked at. */
	if (resumed > 0 && protect_compare(sb, "a command of another session", NULL, NULL, err) < 0)
		return -1;
	if (p->mounted_boot == sb->boots && (!p->plan_old || in_use(sb)))
		return 0;
	if (plan(sb, err) < 0 || sandbox_mount(sb, err) < 0)
		return -1;
	p->plan_old = false;
	p->mounted_boot = sb->boots;
	p->mounted_news = true;
	for (size_t i = 0; i < p->n; i++) {
		if (!p->sure[i])
			baseline_add(&p->baseline, p->place[i]);
		p->sure[i] = true;
	}
	return 0;
}

/* ---- comparing ---- */

static int begin(struct sandbox *sb, struct koda_error *err);

static void
finish_comparison(struct sandbox *sb)
{
	struct protect *p = sb->protect;
	struct koda_error err;
	struct waiter *w = p->now;

	p->now = p->next;
	p->next = NULL;
	p->running = false;
	while (w != NULL) {
		struct waiter *next = w->next;

		if (w->done != NULL)
			w->done(w->data);
		free(w);
		w = next;
	}
	if (p->now != NULL && !p->running && begin(sb, &err) < 0) {
		note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_compared", err.message);
		finish_comparison(sb);
	}
}

static void
on_compared(void *data, const struct koda_result *result, const struct koda_error *err)
{
	struct sandbox *sb = data;
	struct protect *p = sb->protect;
	struct koda_error why;

	/* By a worker that had not scanned: the one that had died on the way. */
	if (err != NULL && sb->up && sb->slot->state == SLOT_UP && !is_watching(sb) &&
	    ++p->tries < COMPARE_TRIES && begin(sb, &why) == 0)
		return;
	if (err == NULL && p->more && begin(sb, &why) == 0)
		return;
	if (err != NULL)
		note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_compared", err->message);
	p->tries = 0;
	finish_comparison(sb);
}

static int
begin(struct sandbox *sb, struct koda_error *err)
{
	struct koda_slot *slot = sb->slot;
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Compare msg = KODA__COMPARE__INIT;
	struct packed packed;
	struct call *c;

	/* Its worker died: the next one has to look at everything first. */
	if (!is_watching(sb) && slot->state == SLOT_UP && protect_prepare(sb, err) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "compare");
	req.op_case = KODA__REQUEST__OP_COMPARE;
	req.compare = &msg;
	msg.has_mounted = msg.mounted = sb->protect->mounted_news && !sb->protect->plan_old;
	sb->protect->mounted_news = false;
	if (pack(sb, &req, &packed, err) < 0) {
		free(c);
		return -1;
	}
	c->take = take_compared;
	c->take_data = sb;
	c->done = on_compared;
	c->data = sb;
	sb->protect->running = true;
	sb->protect->more = false;
	slot_submit_ours(slot, &packed, SCAN_MS, c);
	slot->ses->n_async++;
	slot_advance(slot);
	session_rearm(slot->ses, slot);
	return 0;
}

int
protect_compare(struct sandbox *sb, const char *blame, protect_done_fn *done, void *data,
    struct koda_error *err)
{
	struct protect *p = sb->protect;
	struct waiter *w, **end;

	if (sb->view.n_writable == 0) {
		if (done != NULL)
			done(data);
		return 0;
	}
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "compare");
	w->done = done;
	w->data = data;
	free(p->blame);
	p->blame = strdup(blame);
	/* One that is under way may have looked before what is asked about. */
	for (end = p->running ? &p->next : &p->now; *end != NULL; end = &(*end)->next)
		;
	*end = w;
	if (p->running)
		return 0;
	if (begin(sb, err) == 0)
		return 0;
	*end = NULL;
	free(w);
	return -1;
}

void
protect_not_compared(struct sandbox *sb)
{
	sb->protect->left = true;
}

void
protect_forget(struct sandbox *sb, void *data)
{
	for (struct waiter *w = sb->protect->now; w != NULL; w = w->next)
		if (w->data == data)
			w->done = NULL;
	for (struct waiter *w = sb->protect->next; w != NULL; w = w->next)
		if (w->data == data)
			w->done = NULL;
}
