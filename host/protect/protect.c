#include "host/protect/protect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/command/command.h"
#include "host/policy/defaults.h"
#include "host/protect/journal.h"
#include "host/protect/neighbours.h"
#include "host/protect/reason.h"
#include "host/protect/watches.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/rules/names.h"

/* Enough for a home directory of a million names, cold. */
#define SCAN_MS 120000
/* Known places per request to a new worker: half a frame. */
#define KNOWN_PAGE    (512u << 10)
#define COMPARE_TRIES 3

struct waiter {
	struct waiter *next;
	protect_done_fn *done;
	void *data;
};

struct protect {
	Koda__Place **place; /* each its own copy (protobuf-c's allocator) */
	/* Hash table of places by path: index plus one; 0 is free. n_buckets is a power of two, or
	 * 0. */
	uint32_t *bucket;
	size_t n_buckets;
	/* For each place: it existed before any command ran, or was mounted while no command was
	 * running. No command has changed it since it was reported. */
	bool *sure;
	size_t n, size;
	uint8_t token[TOKEN_BYTES]; /* of the worker that watches */
	bool scanned;               /* a worker has scanned at least once */
	uint64_t mounted_boot;      /* the boot of the sandbox that has this plan mounted */
	/* The worker does not know yet that the reported places are mounted. */
	bool mounted_news;
	bool plan_old; /* places were added that are not mounted yet */
	bool said_unwatched;
	bool said_cut, too_many; /* not all places are known */
	struct journal journal;
	bool journaled;        /* the journal was begun, or cannot be */
	uint64_t journal_boot; /* the boot of the sandbox that the journal knows */
	/* Number of commands begun, and its value when the last complete comparison without running
	 * commands began. While they differ, something that a command left may be unknown. */
	uint64_t begun, seen, seen_next;
	/* Deadline in ns of the slot's last comparison; 0 if the slot is not ending. */
	uint64_t until;
	bool left;  /* something planted could not be moved */
	bool again; /* the next comparison tries that once more */
	/* The comparison under way, and the waiters for it and for the one after it. */
	bool running, more;
	enum protect_how how, how_next;
	unsigned tries;
	struct waiter *now, *next;
	char *blame;
};

struct protect *
protect_new(void)
{
	struct protect *p = calloc(1, sizeof(*p));

	if (p != NULL)
		p->journal = (struct journal)JOURNAL_NONE;
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
	p->n_buckets = 0;
}

void
protect_free(struct protect *p)
{
	if (p == NULL)
		return;
	journal_end(&p->journal, p->begun == p->seen);
	forget_places(p);
	free(p->place);
	free(p->bucket);
	free(p->sure);
	free_waiters(p->now);
	free_waiters(p->next);
	free(p->blame);
	free(p);
}

/* ---- the worker's results ---- */

/* The worker's data is untrusted input. */
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

/* Returns the bucket of the place with that path, or the free one where it would go. */
static uint32_t *
bucket_of(struct protect *p, ProtobufCBinaryData path)
{
	uint32_t h = 2166136261u;
	size_t at;

	for (size_t i = 0; i < path.len; i++)
		h = (h ^ path.data[i]) * 16777619u;
	for (at = (h ^ h >> 15) & (p->n_buckets - 1); p->bucket[at] != 0;
	     at = (at + 1) & (p->n_buckets - 1)) {
		const ProtobufCBinaryData other = p->place[p->bucket[at] - 1]->path;

		if (other.len == path.len && memcmp(other.data, path.data, path.len) == 0)
			break;
	}
	return &p->bucket[at];
}

/* Makes room in the buckets for one more place. */
static int
index_places(struct protect *p, struct koda_error *err)
{
	size_t wanted = p->n_buckets == 0 ? 256 : p->n_buckets;

	while (wanted < 2 * (p->n + 1))
		wanted *= 2;
	if (wanted == p->n_buckets)
		return 0;
	free(p->bucket);
	p->bucket = calloc(wanted, sizeof(*p->bucket));
	p->n_buckets = p->bucket != NULL ? wanted : 0;
	if (p->bucket == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	for (size_t i = 0; i < p->n; i++)
		*bucket_of(p, p->place[i]->path) = (uint32_t)i + 1;
	return 0;
}

static int
add_place(struct sandbox *sb, const Koda__Place *place, bool sure, struct koda_error *err)
{
	struct protect *p = sb->protect;
	size_t len = koda__place__get_packed_size(place);
	cleanup_free uint8_t *packed = malloc(len);
	Koda__Place *copy;
	uint32_t *bucket;
	size_t at;

	if (check_place(sb, place, err) < 0 || index_places(p, err) < 0)
		return -1;
	bucket = bucket_of(p, place->path);
	at = *bucket != 0 ? *bucket - 1 : p->n;
	/* Places that are never mounted must not use up the room of those that are. */
	if (at >= (place->kind == KODA__PLACE_KIND__PLACE_GIT_ENTRY ? PROTECT_PLACES_MAX / 2
								    : PROTECT_PLACES_MAX)) {
		p->too_many = true;
		return 0;
	}
	if (at == p->size) {
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
	if (at < p->n) /* a newer report of the same place */
		koda__place__free_unpacked(p->place[at], NULL);
	else
		p->n++;
	p->sure[at] = sure;
	p->place[at] = copy;
	*bucket = (uint32_t)at + 1;
	p->plan_old = true;
	return 0;
}

static void
record(struct violations *to, const char *blame, enum koda_violation_kind kind, const char *target,
    const char *rule, const char *detail)
{
	const struct koda_violation v = { .kind = kind,
		.target = target,
		.command = blame != NULL ? blame : "",
		.rule = rule,
		.detail = detail,
		.certain = true };

	violations_record(to, &v);
}

static void
note(struct sandbox *sb, enum koda_violation_kind kind, const char *target, const char *rule,
    const char *detail)
{
	record(&sb->violations, sb->protect->blame, kind, target, rule, detail);
}

static void
note_cut(struct sandbox *sb)
{
	if (sb->protect->said_cut)
		return;
	sb->protect->said_cut = true;
	note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_covered",
	    "there are too many files, or links in protected places, to look at all of them: what "
	    "commands plant may "
	    "not be found");
}

static void
note_unwatched(struct sandbox *sb, int errnum)
{
	char text[WATCHES_TEXT_MAX];
	struct watches watches;

	if (sb->protect->said_unwatched)
		return;
	sb->protect->said_unwatched = true;
	watches_look(&watches);
	watches_sentence(&watches, errnum, text, sizeof(text));
	session_event(sb->slot->ses, KODA_EVENT_DEGRADED, "%s", text);
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

/* With several commands it is unknown which one planted it, so it counts against each. Whether a
 * neighbour may have planted it matters only the second time. */
static void
charge(struct sandbox *sb, const Koda__Change *change)
{
	cleanup_free char *path = NULL;
	struct koda_command *next;

	switch ((int)change->kind) {
	case KODA__CHANGE_KIND__CHANGE_ASIDE:
	case KODA__CHANGE_KIND__CHANGE_QUARANTINED:
	case KODA__CHANGE_KIND__CHANGE_DISARMED:
		break;
	default:
		return;
	}
	path = strndup((const char *)change->path.data, change->path.len);
	if (path == NULL)
		return;
	for (struct koda_command *c = sb->commands; c != NULL; c = next) {
		const size_t others = planted_is_known(&c->planted, path)
		    ? neighbours_at(&sb->state, &sb->protect->journal, path)
		    : 0;

		next = c->next;
		command_planted(c, path, others);
	}
}

/* Returns how many planted things may be kept: the smallest number that any running command has
 * left. */
static uint32_t
may_keep(const struct sandbox *sb)
{
	uint32_t left = PLANTED_MAX;

	for (const struct koda_command *c = sb->commands; c != NULL; c = c->next) {
		if (planted_left(&c->planted) < left)
			left = planted_left(&c->planted);
	}
	return left;
}

void
protect_tell(struct violations *to, const char *blame, const char *home, const Koda__Change *change)
{
	cleanup_free char *path = strndup((const char *)change->path.data, change->path.len);
	cleanup_free char *kept = NULL;
	char detail[KODA_MESSAGE_MAX], rule[64], reason[REASON_MAX];
	const char *told;

	if (path == NULL)
		return;
	if (change->has_quarantined)
		kept = strndup((const char *)change->quarantined.data, change->quarantined.len);
	snprintf(rule, sizeof(rule), "%.*s", (int)change->rule.len,
	    (const char *)change->rule.data);
	switch ((int)change->kind) {
	case KODA__CHANGE_KIND__CHANGE_ASIDE:
		snprintf(detail, sizeof(detail), "planted, and %s%.*s",
		    change->has_detail ? "renamed: " : "removed",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		break;
	case KODA__CHANGE_KIND__CHANGE_QUARANTINED:
		snprintf(detail, sizeof(detail), "planted, and moved to quarantine as %s%s%.*s",
		    kept == NULL ? "?" : kept, change->has_detail ? ": " : "",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		if (reason_of(rule, path, home, reason))
			snprintf(detail + strlen(detail), sizeof(detail) - strlen(detail), ". %s",
			    reason);
		break;
	case KODA__CHANGE_KIND__CHANGE_DISARMED:
		snprintf(detail, sizeof(detail),
		    "keys that could run something were taken out; the whole is %s%s%.*s",
		    kept != NULL ? "in quarantine as " : "beside it, as ", kept != NULL ? kept : "",
		    kept == NULL && change->has_detail ? (int)change->detail.len : 0,
		    kept == NULL && change->has_detail ? (const char *)change->detail.data : "");
		break;
	case KODA__CHANGE_KIND__CHANGE_LEFT:
		snprintf(detail, sizeof(detail), "planted, and still there: %.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		break;
	case KODA__CHANGE_KIND__CHANGE_CAME:
		snprintf(detail, sizeof(detail),
		    "names that tools of the host obey came with this directory, and stay: %.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		record(to, blame, KODA_VIOLATION_NOTE, path, rule, detail);
		return;
	case KODA__CHANGE_KIND__CHANGE_TOLD:
		told = reason_told(path);
		snprintf(detail, sizeof(detail), "changed, and %s: look at it first",
		    told != NULL ? told : "others follow it");
		record(to, blame, KODA_VIOLATION_NOTE, path, rule, detail);
		return;
	case KODA__CHANGE_KIND__CHANGE_HIDES:
		snprintf(detail, sizeof(detail), "%.*s",
		    change->has_detail ? (int)change->detail.len : 0,
		    change->has_detail ? (const char *)change->detail.data : "");
		record(to, blame, KODA_VIOLATION_NOTE, path, rule, detail);
		return;
	default:
		record(to, blame, KODA_VIOLATION_OTHER, path, "changed_outside",
		    "changed meanwhile by somebody outside the sandbox; left as it is");
		return;
	}
	record(to, blame, KODA_VIOLATION_FILE_WRITE, path, rule, detail);
}

static int
take_compared(void *data, const Koda__Reply *reply, struct koda_error *err)
{
	struct sandbox *sb = data;

	if (reply->result_case != KODA__REPLY__RESULT_COMPARED)
		return err_set(err, KODA_PROTOCOL, 0, "a reply of another kind than Compare's");
	for (size_t i = 0; i < reply->compared->n_change; i++) {
		const Koda__Change *change = reply->compared->change[i];

		sb->protect->left |= change->kind == KODA__CHANGE_KIND__CHANGE_LEFT;
		protect_tell(&sb->violations, sb->protect->blame, sb->slot->ses->home, change);
		charge(sb, change);
	}
	for (size_t i = 0; i < reply->compared->n_place; i++) {
		if (add_place(sb, reply->compared->place[i], false, err) < 0)
			return -1;
	}
	if (reply->compared->has_cut && reply->compared->cut)
		note_cut(sb);
	if (!reply->compared->watched)
		note_unwatched(sb, (int)reply->compared->watch_errno);
	sb->protect->more = reply->compared->has_more && reply->compared->more;
	return 0;
}

/* ---- requests ---- */

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

static bool
is_cache(const struct sandbox *sb, const char *dir)
{
	bool cache = false;

	for (size_t k = 0; k < sb->caches.n && !cache; k++)
		cache = strcmp(dir, sb->caches.v[k].path) == 0;
	return cache;
}

/* Lists the directories that the worker scans: those in which commands can plant on the host. That
 * excludes caches: those with layers never reach the host, and shared ones are too large to scan,
 * and their tools own the content. */
static size_t
fill_below(const struct sandbox *sb, ProtobufCBinaryData *below)
{
	size_t n = 0;

	for (size_t i = 0; i < sb->view.n_writable; i++) {
		const char *dir = sb->view.writable[i];
		if (!is_cache(sb, dir))
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

	if (p->until == 0 || left > SCAN_MS)
		return SCAN_MS;
	return (unsigned)left;
}

/* Sends the request and waits for the reply. */
static int
ask(struct sandbox *sb, struct packed *request,
    int (*take)(void *data, const Koda__Reply *reply, struct koda_error *err),
    struct koda_error *err)
{
	struct call c = { .take = take, .take_data = sb };

	sb->protect->more = false;
	slot_submit_ours(sb->slot, request, patience_ms(sb->protect), &c);
	slot_run(sb->slot, &c);
	if (c.err.code != KODA_OK && err != NULL)
		*err = c.err;
	call_done(&c);
	return c.err.code == KODA_OK ? 0 : -1;
}

static int
ask_scan(struct sandbox *sb, Koda__Scan *msg, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	struct packed packed;

	req.op_case = KODA__REQUEST__OP_SCAN;
	req.scan = msg;
	if (pack(sb, &req, &packed, err) < 0)
		return -1;
	return ask(sb, &packed, take_scanned, err) < 0
	    ? err_wrap(err, "look for what is to be protected")
	    : 0;
}

/* Forgets the places that commands may have changed since they were reported. They will be found
 * and judged again. */
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
	p->n_buckets = 0;
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

static int
scan(struct sandbox *sb, struct koda_error *err)
{
	cleanup_free ProtobufCBinaryData *told_names = NULL;
	cleanup_free char(*names)[NAMES_RULE_MAX + 1] = NULL;
	struct protect *p = sb->protect;
	cleanup_free ProtobufCBinaryData *below = calloc(sb->view.n_writable + 1, sizeof(*below));
	/* The reply adds places while the known ones are still being sent. */
	size_t n_known = 0, told = 0;
	cleanup_free Koda__Place **known = NULL;
	Koda__Scan msg = KODA__SCAN__INIT;

	if (p->scanned) {
		forget_unsure(p);
		n_known = p->n;
	}
	known = calloc(n_known + 1, sizeof(*known));
	if (below == NULL || known == NULL || fill_told(&msg, &told_names, &names) < 0)
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
		msg.n_told = 0;
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
	struct view_input in = sandbox_view_input(sb);
	struct view view = { 0 };
	int r = places == NULL || paths == NULL ? err_set(err, KODA_INTERNAL, ENOMEM, "plan") : 0;

	in.git_dir = sb->root_is_git_dir ? ses->root : sb->git_dir;
	in.places = places;
	for (size_t i = 0; r == 0 && i < p->n; i++) {
		const Koda__Place *from = p->place[i];

		/* Nothing can be mounted on a link. Mounts would get in the way where packages are
		 * unpacked, and are not needed on an entry that may only disappear. The comparison
		 * guards all of these. */
		if (from->type == KODA__FILE_TYPE__FILE_SYMLINK ||
		    from->kind == KODA__PLACE_KIND__PLACE_GIT_ENTRY ||
		    from->kind == KODA__PLACE_KIND__PLACE_GUARDED)
			continue;
		paths[i] = strndup((const char *)from->path.data, from->path.len);
		if (paths[i] == NULL)
			r = err_set(err, KODA_INTERNAL, ENOMEM, "plan");
		places[in.n_places++] = (struct view_place){
			.kind = from->kind == KODA__PLACE_KIND__PLACE_GIT_DIR ? VIEW_PLACE_GIT_DIR
			    : from->kind == KODA__PLACE_KIND__PLACE_RULE      ? VIEW_PLACE_RULE
			    : from->kind == KODA__PLACE_KIND__PLACE_NAME      ? VIEW_PLACE_NAME
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
 * A mount over a repository that a command is just making breaks that command. A mount over a
 * directory that a command has open, or as its working directory, does not close it to that command
 * or to a process that receives it from there, and the worker could no longer take away what was
 * planted in it. Until no command runs and everything was compared, the comparison guards it.
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

static int compare_now(struct sandbox *sb, struct koda_error *err);

/*
 * What commands of a running neighbour session have just planted did not exist before, so it must
 * not be known. Only a new worker can be given a list of known places, so a new one is started,
 * which then takes it away.
 */
static int
forget_planted(struct sandbox *sb, struct koda_error *err)
{
	struct protect *p = sb->protect;
	cleanup_free bool *planted = calloc(p->n + 1, sizeof(*planted));
	size_t n, kept = 0;

	if (planted == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "places");
	n = neighbours_planted(&sb->state, p->place, p->n, planted);
	if (n == 0)
		return 0;
	for (size_t i = 0; i < p->n; i++) {
		if (planted[i]) {
			koda__place__free_unpacked(p->place[i], NULL);
			continue;
		}
		p->sure[kept] = p->sure[i];
		p->place[kept++] = p->place[i];
	}
	p->n = kept;
	slot_renew(sb->slot);
	if (scan(sb, err) < 0)
		return -1;
	memcpy(p->token, sb->slot->token, TOKEN_BYTES);
	return 1;
}

int
protect_prepare(struct sandbox *sb, struct koda_error *err)
{
	struct protect *p = sb->protect;
	int planted = 0;

	if (!is_watching(sb)) {
		const bool first = !p->scanned;

		if (scan(sb, err) < 0)
			return -1;
		memcpy(p->token, sb->slot->token, TOKEN_BYTES);
		p->scanned = true;
		if (first && (planted = forget_planted(sb, err)) < 0)
			return -1;
	}
	if (planted > 0) {
		free(p->blame);
		p->blame = strdup("a command of another session");
		p->how = PROTECT_WHOLLY;
		if (compare_now(sb, err) < 0)
			return -1;
	}
	if (p->mounted_boot == sb->boots && (!p->plan_old || in_use(sb)))
		return 0;
	if (plan(sb, err) < 0 || sandbox_mount(sb, err) < 0)
		return -1;
	p->plan_old = false;
	p->mounted_boot = sb->boots;
	p->mounted_news = true;
	for (size_t i = 0; i < p->n; i++) {
		if (!p->sure[i])
			journal_add(&p->journal, p->place[i]);
		p->sure[i] = true;
	}
	return 0;
}

/* ---- comparing ---- */

static int begin(struct sandbox *sb, struct koda_error *err);

static bool
anything_runs(const struct sandbox *sb)
{
	const struct koda_command *c = sb->commands;

	while (c != NULL && c->state != COMMAND_RUNNING)
		c = c->next;
	return c != NULL || sb->n_given_up > 0;
}

static void
finish_comparison(struct sandbox *sb)
{
	struct protect *p = sb->protect;
	struct koda_error err;
	struct waiter *w = p->now;

	p->now = p->next;
	p->next = NULL;
	p->how = p->how_next;
	p->how_next = PROTECT_LOOK;
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

	/* The worker died on the way, and its replacement had not scanned. */
	if (err != NULL && sb->up && sb->slot->state == SLOT_UP && !is_watching(sb) &&
	    ++p->tries < COMPARE_TRIES && begin(sb, &why) == 0)
		return;
	if (err == NULL && p->more && begin(sb, &why) == 0)
		return;
	if (err == NULL && !p->more)
		p->seen = p->seen_next;
	if (err != NULL)
		note(sb, KODA_VIOLATION_OTHER, sb->slot->ses->root, "not_compared", err->message);
	p->tries = 0;
	finish_comparison(sb);
}

static int
pack_compare(struct sandbox *sb, struct packed *ret, struct koda_error *err)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Compare msg = KODA__COMPARE__INIT;

	req.op_case = KODA__REQUEST__OP_COMPARE;
	req.compare = &msg;
	msg.has_keep = true;
	msg.keep = may_keep(sb);
	msg.has_look = msg.look = sb->protect->how == PROTECT_LOOK;
	msg.has_gentle = msg.gentle = sb->protect->how == PROTECT_GENTLY;
	msg.has_busy = msg.busy = anything_runs(sb);
	/* The comparison that judges a last time must be a complete one. */
	if (sb->protect->how == PROTECT_WHOLLY) {
		msg.has_mounted = msg.mounted = sb->protect->mounted_news && !sb->protect->plan_old;
		sb->protect->mounted_news = false;
	}
	msg.has_again = msg.again = sb->protect->again;
	sb->protect->again = false;
	if (sb->protect->blame != NULL && sb->protect->blame[0] != '\0') {
		msg.has_command = true;
		msg.command = message_text(sb->protect->blame);
		if (msg.command.len > COMMAND_TOLD_MAX)
			msg.command.len = COMMAND_TOLD_MAX;
	}
	return pack(sb, &req, ret, err);
}

static int
begin(struct sandbox *sb, struct koda_error *err)
{
	struct koda_slot *slot = sb->slot;
	struct protect *p = sb->protect;
	struct packed packed;
	struct call *c;

	/* The worker died: its replacement first has to scan everything. */
	if (!is_watching(sb) && slot->state == SLOT_UP && protect_prepare(sb, err) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "compare");
	if (pack_compare(sb, &packed, err) < 0) {
		free(c);
		return -1;
	}
	/* If a comparison has several replies, the first one decides when it looked. */
	if (!p->more)
		p->seen_next = anything_runs(sb) || p->how != PROTECT_WHOLLY ? p->seen : p->begun;
	c->take = take_compared;
	c->take_data = sb;
	c->done = on_compared;
	c->data = sb;
	p->running = true;
	p->more = false;
	slot_submit_ours(slot, &packed, SCAN_MS, c);
	slot->ses->n_async++;
	slot_advance(slot);
	session_rearm(slot->ses, slot);
	return 0;
}

int
protect_compare(struct sandbox *sb, enum protect_how how, const char *blame, protect_done_fn *done,
    void *data, struct koda_error *err)
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
	/* A comparison under way may have looked before the change that this caller asks about. */
	for (end = p->running ? &p->next : &p->now; *end != NULL; end = &(*end)->next)
		;
	*end = w;
	if (p->running) {
		if (how > p->how_next)
			p->how_next = how;
		return 0;
	}
	p->how = how;
	if (begin(sb, err) == 0)
		return 0;
	*end = NULL;
	free(w);
	return -1;
}

void
protect_look(struct sandbox *sb)
{
	if (!sb->protect->running && is_watching(sb) && sb->slot->state == SLOT_UP &&
	    !koda_policy_get(sb->slot->policy)->flag[KODA_ALLOW_GIT_CONFIG])
		protect_compare(sb, PROTECT_LOOK, sandbox_only_command(sb), NULL, NULL, NULL);
}

/* Writes down which places are known, and by what rules they were found. If that fails, the user is
 * warned once. */
static void
begin_journal(struct sandbox *sb)
{
	struct protect *p = sb->protect;
	struct koda_session *ses = sb->slot->ses;
	const size_t n = sb->view.n_writable;
	cleanup_free const char **dir = calloc(n + 1, sizeof(*dir)),
				**cache = calloc(n + 1, sizeof(*cache));
	cleanup_free Koda__Place **place = calloc(p->n + 1, sizeof(Koda__Place *));
	struct journal_input in = { .root = ses->root,
		.policy = koda_policy_get(sb->slot->policy),
		.dir = dir,
		.cache = cache,
		.place = place };
	struct koda_error err = { 0 };
	int fd;

	/* With an incomplete scan, files that existed before would later be taken for planted
	 * ones. */
	if (p->said_cut || p->too_many || sb->state.fd < 0)
		return;
	if (dir == NULL || cache == NULL || place == NULL)
		return;
	for (size_t i = 0; i < n; i++) {
		/* Writes there do not reach the host. */
		if (view_is_cached(&sb->view, sb->view.writable[i]))
			continue;
		if (is_cache(sb, sb->view.writable[i]))
			cache[in.n_caches++] = sb->view.writable[i];
		else
			dir[in.n_dirs++] = sb->view.writable[i];
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->sure[i])
			place[in.n_places++] = p->place[i];
	fd = in.n_dirs + in.n_caches > 0 ? state_journal(&sb->state, true) : -1;
	if (in.n_dirs + in.n_caches == 0 ||
	    (fd >= 0 && journal_begin(&p->journal, fd, &in, &err) == 0))
		return;
	if (fd < 0)
		err_set(&err, KODA_IO, errno, "write below '%s'", ses->state);
	if (!ses->said_state)
		session_event(ses, KODA_EVENT_DEGRADED,
		    "%s: if this program is killed, the next one will not know what its commands planted",
		    err.message);
	ses->said_state = true;
}

void
protect_command_begins(struct sandbox *sb)
{
	struct protect *p = sb->protect;

	if (!p->journaled)
		begin_journal(sb);
	p->journaled = true;
	/* The init of the slot's processes: the kernel reports its end only after all of them are
	 * gone. bwrap, the fallback, waits for it. */
	if (p->journal_boot != sb->boots)
		journal_process(&p->journal, sb->init_fd >= 0 ? sb->init_pid : sb->bwrap.pid);
	p->journal_boot = sb->boots;
	p->begun++;
}

void
protect_abandon(struct protect *p)
{
	journal_end(&p->journal, false);
}

bool
protect_had_commands(const struct sandbox *sb)
{
	return sb->protect->begun > 0;
}

/* Compares once and takes all replies. */
static int
compare_now(struct sandbox *sb, struct koda_error *err)
{
	struct packed packed;

	do {
		if (pack_compare(sb, &packed, err) < 0 || ask(sb, &packed, take_compared, err) < 0)
			return -1;
	} while (sb->protect->more);
	return 0;
}

int
protect_compare_last(struct sandbox *sb, uint64_t until, struct koda_error *err)
{
	struct protect *p = sb->protect;
	int r = -1;

	if (sb->view.n_writable == 0) {
		p->seen = p->begun;
		return 0;
	}
	p->until = until;
	p->how = PROTECT_WHOLLY;
	for (unsigned i = 0; r < 0 && i < COMPARE_TRIES && monotonic_ns() < until; i++) {
		/* Until the last page of the previous reply has been taken, the worker does not
		 * look again: then another comparison is needed. */
		const bool telling = p->running || p->more;

		if (!is_watching(sb)) {
			if (scan(sb, err) < 0)
				continue;
			memcpy(p->token, sb->slot->token, TOKEN_BYTES);
			p->scanned = true;
		}
		r = telling ? compare_now(sb, err) : 0;
		r = r == 0 ? compare_now(sb, err) : r;
	}
	/* A mount point cannot be moved, and the plan also covers paths of rules where something
	 * appeared later. No command needs the mounts any more. */
	if (r == 0 && p->left && !anything_runs(sb) && sandbox_unmount(sb, err) == 0) {
		p->again = true;
		r = compare_now(sb, err);
	}
	if (r == 0 && !anything_runs(sb))
		p->seen = p->begun;
	return r;
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
