/* SPDX-License-Identifier: Apache-2.0 */
#include "host/search/search.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/context/entry.h"
#include "host/context/event.h"
#include "host/context/handle.h"
#include "host/context/turn.h"
#include "host/search/marshal_search.h"
#include "host/slot/seal.h"
#include "shared/base/cleanup.h"
#include "shared/base/clock.h"
#include "shared/base/filetypes.h"

/* Holds an unpacked page of five hundred items: one block instead of a malloc() for each item. */
#define PAGE_ARENA (256u << 10)
/* Bytes of an item that are hashed in one call; longer ones take three. */
#define DIGEST_AT_ONCE 256
/* How long to wait for a killed process; the whole session waits meanwhile. It is gone much sooner,
 * or hangs in the kernel. */
#define GONE_MS 500
/* The two requests that a search process gets. */
#define SEAL_ID   1
#define SEARCH_ID 2

struct koda_search {
	/* Its socket. First, because a source is cast back to its search. */
	struct source source;
	struct koda_search *prev, *next; /* the slot's list */
	struct koda_slot *slot;          /* NULL once it is over */
	struct handle handle;
	struct child child;
	/* The process is in the sandbox: stage2's child, and not the host's to reap. */
	bool in_sandbox;
	struct frame_stream fs;
	struct arena arena;
	struct packed request;
	uint8_t token[TOKEN_BYTES];
	bool sealed;       /* a valid Ready has come */
	bool readable;     /* the socket has data */
	uint64_t deadline; /* ns */
	unsigned timeout_ms;
	unsigned deaths;
	struct marshal_found found;
	/* The number of items reported so far and a digest of them. The next process starts from
	 * the beginning, and has to send the same items first. */
	uint64_t told, skip;
	uint64_t told_digest, skip_digest, seen_digest;
	koda_found_fn *fn;
	koda_search_done_fn *done;
	void *data;
	struct koda_search_result result;
	struct koda_error error;
};

/* ---- the end of it ---- */

static void
end_process(struct koda_search *s)
{
	struct koda_session *ses = s->slot->ses;

	if (s->fs.fd < 0)
		return;
	loop_unwatch(&ses->loop, &s->source);
	frame_done(&s->fs);
	s->fs.fd = -1;
	s->readable = false;
	child_kill(&s->child);
	if (s->in_sandbox)
		close_at(&s->child.pidfd);
	else
		leaving_adopt(&ses->leaving, &s->child);
	s->child.pidfd = -1;
}

static void
detach(struct koda_search *s)
{
	struct koda_slot *slot = s->slot;

	if (s->prev != NULL)
		s->prev->next = s->next;
	else
		slot->searches = s->next;
	if (s->next != NULL)
		s->next->prev = s->prev;
	s->prev = s->next = NULL;
	slot->n_searches--;
	s->slot = NULL;
}

/* The only place where a search ends. */
static void
over(struct koda_search *s)
{
	end_process(s);
	detach(s);
	handle_over(&s->handle, s->done != NULL);
}

static void
fail(struct koda_search *s, const struct koda_error *why)
{
	s->error = *why;
	memset(&s->result, 0, sizeof(s->result));
	if (why->code == KODA_POLICY_DENIED)
		s->slot->ses->stats.refusals++;
	over(s);
}

static void
destroy(struct koda_search *s)
{
	marshal_found_done(&s->found);
	packed_done(&s->request);
	arena_done(&s->arena);
	free(s);
}

/* ---- the beginning ---- */

static void
on_readable(struct source *source)
{
	/* search_tick() reports the items: a callback that ran here could free other sources of
	 * this round. */
	((struct koda_search *)source)->readable = true;
}

static int
spawn(struct koda_search *s, int fd, struct koda_error *err)
{
	struct koda_slot *slot = s->slot;

	if (slot->ses->search_path[0] == '\0')
		return err_set(err, KODA_UNSUPPORTED, 0,
		    "koda-fs-search is not where it was installed (../libexec/koda-sandbox beside the "
		    "program or library): run 'make install' again");
	s->in_sandbox = slot->commands != NULL;
	return slot->client->launch(slot, SLOT_SEARCH, fd, &s->child, err);
}

static int
begin(struct koda_search *s, struct koda_error *err)
{
	struct koda_session *ses = s->slot->ses;
	int pair[2];
	uint8_t *to;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, KODA_INTERNAL, errno, "socketpair");
	if (spawn(s, pair[1], err) < 0) {
		close(pair[0]);
		close(pair[1]);
		return -1;
	}
	close(pair[1]);
	frame_init(&s->fs, pair[0]);
	s->sealed = false;
	marshal_found_again(&s->found);
	s->skip = s->told;
	s->skip_digest = s->told_digest;
	s->seen_digest = 0;
	s->told = 0;
	ses->stats.spawns++;
	session_event(ses, KODA_EVENT_SPAWN, "search %d started", (int)s->child.pid);
	randombytes_buf(s->token, sizeof(s->token));
	/* The process gets the search together with its policy, and starts as soon as it is
	 * confined. Both fit in the socket. */
	if (seal_queue(s->slot, &s->fs, SEAL_ID, s->token, false, err) < 0 ||
	    (to = frame_reserve(&s->fs, s->request.len, err)) == NULL) {
		end_process(s);
		return -1;
	}
	memcpy(to, s->request.data, s->request.len);
	frame_flush(&s->fs, false, NULL); /* an error shows as the process's death */
	loop_watch(&ses->loop, &s->source, s->fs.fd,
	    EPOLLIN | (frame_pending(&s->fs) > 0 ? (uint32_t)EPOLLOUT : 0));
	loop_wake_at(&ses->loop, s->deadline);
	return 0;
}

/* ---- what it says ---- */

/* Lets the host detect that the next process sends other items. Cheap, since it runs for each line;
 * it detects accidents only, since a process that lies can lie the first time. */
static uint64_t
mix(uint64_t digest, const void *data, size_t len)
{
	unsigned char key[crypto_shorthash_KEYBYTES] = { 0 };
	uint64_t ret;

	memcpy(key, &digest, sizeof(digest));
	crypto_shorthash((unsigned char *)&ret, len > 0 ? data : key, len, key);
	return ret;
}

static uint64_t
digest_of(const struct koda_search *s, const struct koda_found *f, uint64_t digest)
{
	struct {
		uint64_t numbers[6];
		char bytes[DIGEST_AT_ONCE];
	} item;
	const size_t path_len = s->found.path_len, len = path_len + f->len;

	_Static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "what mix() returns");
	item.numbers[0] = (uint64_t)f->kind << 32 | f->place;
	item.numbers[1] = f->line;
	item.numbers[2] = f->offset;
	item.numbers[3] = f->count;
	item.numbers[4] = f->size;
	item.numbers[5] = path_len;
	if (len > sizeof(item.bytes)) {
		digest = mix(digest, item.numbers, sizeof(item.numbers));
		digest = mix(digest, f->path, path_len);
		return mix(digest, f->text, f->len);
	}
	memcpy(item.bytes, f->path, path_len);
	if (f->len > 0)
		memcpy(item.bytes + path_len, f->text, f->len);
	return mix(digest, &item, sizeof(item.numbers) + len);
}

/* The process is gone: starts another one, or ends the search. Returns false if the search is
 * over. */
static bool
again(struct koda_search *s, const char *how)
{
	struct koda_error err;

	if (s->handle.is_unwanted) { /* freed by a callback just now */
		over(s);
		return false;
	}
	end_process(s);
	if (++s->deaths < SEARCH_DEATHS_MAX) {
		/* This process may have died before it reported as much as the previous one: keep
		 * the larger count for the next process. */
		if (s->told < s->skip) {
			s->told = s->skip;
			s->told_digest = s->skip_digest;
		}
		if (begin(s, &err) == 0)
			return true;
	} else {
		err_set(&err, KODA_WORKER, 0,
		    "the search process died %u times during this search (%s)", s->deaths, how);
	}
	fail(s, &err);
	return false;
}

static bool
protocol_error(struct koda_search *s, const struct koda_error *why)
{
	session_event(s->slot->ses, KODA_EVENT_DEATH,
	    "search %d broke the protocol and was killed: %s", (int)s->child.pid, why->message);
	return again(s, why->message);
}

/* Reports one item. Returns false if the search is over or freed. */
static bool
tell(struct koda_search *s, const struct koda_found *f)
{
	struct koda_error err;
	int r;

	s->seen_digest = digest_of(s, f, s->seen_digest);
	if (++s->told <= s->skip) {
		if (s->told == s->skip && s->seen_digest != s->skip_digest) {
			err_set(&err, KODA_CONFLICT, 0,
			    "the search process died, and its successor found other results "
			    "because files have changed meanwhile: search again");
			fail(s, &err);
			return false;
		}
		return true;
	}
	s->told_digest = s->seen_digest;
	if (s->fn == NULL)
		return true;
	r = s->fn(s->data, f);
	if (s->handle.freed)
		return false;
	if (r == 0)
		return true;
	s->result = (struct koda_search_result){ .more = true, .found = s->found.found };
	over(s);
	return false;
}

/* Returns false if the search is over or freed, or another process runs now. */
static bool
on_found(struct koda_search *s, const Koda__Found *page)
{
	struct koda_found f;
	struct koda_error err;

	marshal_found_page(&s->found);
	for (size_t i = 0; i < page->n_item; i++) {
		if (marshal_found_item(&s->found, page->item[i], &f, &err) < 0) {
			protocol_error(s, &err);
			return false;
		}
		if (!tell(s, &f))
			return false;
	}
	return true;
}

static bool
on_answer(struct koda_search *s, const Koda__Reply *reply)
{
	struct koda_error err;

	if (reply->result_case == KODA__REPLY__RESULT_ERROR) {
		struct koda_result none = { .fd = -1 };

		reply_take(KODA_OP_PING, reply, -1, NULL, &none, &err);
		if (err.code == KODA_PROTOCOL) {
			protocol_error(s, &err);
			return false;
		}
		fail(s, &err);
		return false;
	}
	if (marshal_searched(&s->found, reply->searched, &s->result, &err) < 0) {
		protocol_error(s, &err);
		return false;
	}
	if (s->told < s->skip) {
		err_set(&err, KODA_CONFLICT, 0,
		    "the search process died, and its successor found fewer results because "
		    "files have changed meanwhile: search again");
		fail(s, &err);
		return false;
	}
	s->result.recovered = s->deaths > 0;
	over(s);
	return false;
}

/* Returns false if the rest of the socket's data does not matter any more. */
static bool
on_frame(struct koda_search *s, const uint8_t *frame, size_t len)
{
	struct koda_enforcement enforcement;
	struct koda_error err;
	Koda__Reply *reply;
	int r;

	arena_reset(&s->arena);
	reply =
	    (Koda__Reply *)message_unpack(&koda__reply__descriptor, frame, len, &s->arena, &err);
	if (reply == NULL) {
		protocol_error(s, &err);
		return false;
	}
	if (!s->sealed && reply->id == SEAL_ID) {
		r = seal_check(s->slot, CONFINED_SEARCH, reply, &enforcement, &err);
		if (r < 0)
			protocol_error(s, &err);
		else if (r > 0)
			fail(s, &err);
		s->sealed = r == 0;
		return r == 0;
	}
	if (s->sealed && reply->id == SEARCH_ID) {
		switch ((int)reply->result_case) {
		case KODA__REPLY__RESULT_FOUND:
			return on_found(s, reply->found);
		case KODA__REPLY__RESULT_SEARCHED:
		case KODA__REPLY__RESULT_ERROR:
			return on_answer(s, reply);
		default:
			break;
		}
	}
	err_set(&err, KODA_PROTOCOL, 0, "a reply of the wrong type");
	protocol_error(s, &err);
	return false;
}

/* Reads once and processes what has come. The search may be over afterwards, or freed. */
static void
read_socket(struct koda_search *s)
{
	const uint8_t *frame;
	struct koda_error err;
	const char *how;
	char buf[64];
	size_t len;
	int r;

	if (frame_pending(&s->fs) > 0 && frame_flush(&s->fs, false, NULL) > 0)
		loop_watch(&s->slot->ses->loop, &s->source, s->fs.fd, EPOLLIN);
	r = frame_fill(&s->fs, false, &err);
	while (r > 0 && (r = frame_next(&s->fs, &frame, &len, &err)) > 0) {
		if (!on_frame(s, frame, len))
			return;
		if (frame_fds_waiting(&s->fs) > 0)
			r = err_set(&err, KODA_PROTOCOL, 0, "an unexpected descriptor");
	}
	if (r >= 0)
		return;
	if (!s->fs.eof) {
		protocol_error(s, &err);
		return;
	}
	/* The socket is closed because the process ended, and then the signal has no effect; or it
	 * only closed the socket. */
	child_kill(&s->child);
	how = child_gone(&s->child, GONE_MS) ? child_end(&s->child, buf, sizeof(buf))
					     : "hangs in the kernel";
	session_event(s->slot->ses, KODA_EVENT_DEATH, "search %d %s", (int)s->child.pid, how);
	again(s, how);
}

/* ---- for the loop ---- */

void
search_tick(struct koda_slot *slot)
{
	struct koda_search *s;
	uint64_t now;

	if (slot->n_searches == 0)
		return;
	/* A callback may free this search and others: start from the beginning of the list each
	 * time. */
	for (s = slot->searches; s != NULL;) {
		if (!s->readable) {
			s = s->next;
			continue;
		}
		s->readable = false;
		handle_hold(&s->handle);
		read_socket(s);
		handle_let_go(&s->handle);
		s = slot->searches;
	}
	now = monotonic_ns();
	for (s = slot->searches; s != NULL;) {
		struct koda_search *next = s->next;
		struct koda_error err;

		if (now >= s->deadline) {
			err_set(&err, KODA_TIMEOUT, 0,
			    "the search was not finished within %u ms: search fewer files, or "
			    "for fewer results",
			    s->timeout_ms);
			fail(s, &err);
		}
		s = next;
	}
}

uint64_t
search_next_time(const struct koda_slot *slot)
{
	uint64_t first = UINT64_MAX;

	for (const struct koda_search *s = slot->searches; s != NULL; s = s->next)
		if (s->deadline < first)
			first = s->deadline;
	return first;
}

void
search_close_all(struct koda_slot *slot)
{
	struct koda_error err;

	err_set(&err, KODA_WORKER, 0, "the slot was closed before the search was finished");
	while (slot->searches != NULL)
		fail(slot->searches, &err);
}

void
search_abandon_all(struct koda_slot *slot)
{
	for (struct koda_search *s = slot->searches; s != NULL; s = s->next) {
		close_at(&s->child.pidfd);
		s->child.pidfd = -1;
		s->source.fd = -1; /* the epoll set is shared with the parent */
	}
}

/* ---- the interface ---- */

static struct koda_search *
search_of(struct handle *handle)
{
	return (struct koda_search *)((char *)handle - offsetof(struct koda_search, handle));
}

static void
tell_over(struct handle *handle)
{
	struct koda_search *s = search_of(handle);

	s->done(s->data, s);
}

static void
give_up(struct handle *handle)
{
	koda_search_free(search_of(handle));
}

static void
destroy_handle(struct handle *handle)
{
	destroy(search_of(handle));
}

struct koda_search *
koda_search_start(struct koda_slot *slot, const struct koda_search_options *options,
    koda_found_fn *found, koda_search_done_fn *done, void *data, struct koda_error *err)
{
	struct koda_session *ses = slot->ses;
	struct koda_search *s;

	err_clear(err);
	if (session_check(ses, err) < 0)
		return NULL;
	if (slot->n_searches >= SEARCHES_MAX) {
		err_set(err, KODA_INTERNAL, 0,
		    "%d searches are already running in this slot, which is the limit: wait "
		    "until one is finished",
		    SEARCHES_MAX);
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		err_set(err, KODA_INTERNAL, ENOMEM, "search");
		return NULL;
	}
	arena_init_large(&s->arena, PAGE_ARENA);
	s->source = (struct source){ .ready = on_readable, .fd = -1 };
	s->fs.fd = s->child.pidfd = -1;
	s->handle = (struct handle){ .ses = ses,
		.tell = tell_over,
		.give_up = give_up,
		.destroy = destroy_handle };
	s->fn = found;
	s->done = done;
	s->data = data;
	s->slot = slot;
	marshal_found_init(&s->found, options);
	s->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : ses->timeout_ms;
	s->deadline = monotonic_ns() + s->timeout_ms * NS_PER_MS;
	session_enter(ses);
	if (marshal_search(options, SEARCH_ID, &s->request, err) < 0 || begin(s, err) < 0) {
		destroy(s);
		session_leave(ses);
		return NULL;
	}
	s->next = slot->searches;
	if (slot->searches != NULL)
		slot->searches->prev = s;
	slot->searches = s;
	slot->n_searches++;
	ses->n_under_way++;
	ses->stats.calls++;
	session_leave(ses);
	return s;
}

int
koda_search_wait(struct koda_search *s, int timeout_ms, struct koda_error *err)
{
	return turn_until_over(&s->handle, timeout_ms, err);
}

int
koda_search_result(const struct koda_search *s, struct koda_search_result *ret,
    struct koda_error *err)
{
	memset(ret, 0, sizeof(*ret));
	if (!s->handle.over)
		return err_set(err, KODA_INVALID, 0, "the search is not finished");
	if (s->error.code != KODA_OK) {
		if (err != NULL)
			*err = s->error;
		return -1;
	}
	*ret = s->result;
	return 0;
}

void
koda_search_free(struct koda_search *s)
{
	if (s == NULL)
		return;
	s->done = NULL;
	s->fn = NULL;
	if (handle_postpone(&s->handle))
		return;
	if (!s->handle.over && *s->slot->ses->here == 1) {
		over(s);
	} else if (!s->handle.over) {
		/* in a forked child the process is the parent's */
		close_at(&s->child.pidfd);
		frame_done(&s->fs);
		detach(s);
	}
	handle_free(&s->handle);
}

int
koda_search(struct koda_slot *slot, const struct koda_search_options *options, koda_found_fn *found,
    void *data, struct koda_search_result *ret, struct koda_error *err)
{
	struct koda_search *s;
	int r;

	memset(ret, 0, sizeof(*ret));
	s = koda_search_start(slot, options, found, NULL, data, err);
	if (s == NULL)
		return -1;
	r = koda_search_wait(s, -1, err);
	if (r > 0)
		r = koda_search_result(s, ret, err);
	koda_search_free(s);
	return r < 0 ? -1 : 0;
}

int
koda_search_types(koda_search_type_fn *fn, void *data)
{
	int stop = 0;

	for (size_t i = 0; stop == 0 && i < n_filetypes; i++)
		stop = fn(data, filetypes[i].name, filetypes[i].globs);
	return stop;
}
