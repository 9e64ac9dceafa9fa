/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seed FOLDER: write the first inputs of every fuzz target, one folder per target: each message
 * with each of its fields, and inputs that broke parsers elsewhere. Crashes that fuzzing finds are
 * added to the corpus by hand; this program makes the rest again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "proto/history.pb-c.h"
#include "proto/worker.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"
#include "shared/wire/protocol.h"

static const char *folder;

#define bin(text)    ((ProtobufCBinaryData){ sizeof(text) - 1, (uint8_t *)(uintptr_t)(text) })
#define bin_n(p, n)  ((ProtobufCBinaryData){ (n), (uint8_t *)(uintptr_t)(p) })
#define TEXT_OF(lit) (lit), sizeof(lit) - 1

static const uint8_t digest[KODA_DIGEST_BYTES] = { 1, 2, 3 };

static void
save(const char *target, const char *name, const void *data, size_t len)
{
	char path[4096];
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", folder, target);
	must(mkdir(path, 0755) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/%s/%s", folder, target, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	must(fd >= 0 && write(fd, data, len) == (ssize_t)len);
}

static void
save_message(const char *name, const ProtobufCMessage *msg)
{
	size_t len = protobuf_c_message_get_packed_size(msg);
	cleanup_free uint8_t *data = malloc(len + 5);
	const bool request = msg->descriptor == &koda__request__descriptor;

	must(data != NULL && protobuf_c_message_pack(msg, data + 5) == len);
	save("message", name, data + 5, len);
	save(request ? "valid" : "marshal", name, data + 5, len);
	data[0] = (uint8_t)len; /* how to cut it */
	for (unsigned i = 0; i < 4; i++)
		data[1 + i] = (uint8_t)(len >> (24 - 8 * i));
	if (len < 300)
		save("frame", name, data, len + 5);
}

/* ---- requests ---- */

#define REQUEST(lower, UPPER, Type)                                                                \
	Koda__Request req = KODA__REQUEST__INIT;                                                   \
	Type m;                                                                                    \
	req.id = 7;                                                                                \
	req.op_case = KODA__REQUEST__OP_##UPPER;                                                   \
	req.lower = &m;                                                                            \
	koda__##lower##__init(&m)

static void
seed_simple(void)
{
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Ping ping = KODA__PING__INIT;
	Koda__Shutdown bye = KODA__SHUTDOWN__INIT;

	req.id = 1;
	req.op_case = KODA__REQUEST__OP_PING;
	req.ping = &ping;
	save_message("ping", &req.base);
	req.id = UINT64_MAX;
	req.op_case = KODA__REQUEST__OP_SHUTDOWN;
	req.shutdown = &bye;
	save_message("shutdown", &req.base);
}

static void
seed_seal(const uint8_t *policy, size_t len)
{
	REQUEST(seal, SEAL, Koda__Seal);

	m.protocol = KODA_PROTOCOL_VERSION;
	m.policy = bin_n(policy, len);
	m.mode = KODA__MODE__MODE_AUTO;
	m.root = bin("/home/u/p");
	m.root_dev = 1;
	m.root_ino = 2;
	m.home = bin("/home/u");
	m.token = bin("12345678");
	save_message("seal", &req.base);
	m.root = bin("/home/u/../p");
	save_message("seal-dotdot", &req.base);
	m.token = bin("123456789");
	save_message("seal-long-token", &req.base);
}

static void
seed_read(void)
{
	REQUEST(read, READ, Koda__Read);

	m.path = bin("src/main.c");
	save_message("read", &req.base);
	m.has_offset = m.has_max = m.has_digest = m.digest = true;
	m.offset = UINT64_MAX;
	m.max = 1;
	save_message("read-all-fields", &req.base);
	m.path = bin("a\0b");
	save_message("read-nul", &req.base);
	m.path = bin("");
	save_message("read-empty", &req.base);
}

static void
seed_write(void)
{
	Koda__Guard guard = KODA__GUARD__INIT;
	REQUEST(write, WRITE, Koda__Write);

	m.path = bin("a/b");
	m.has_content = true;
	m.content = bin("text\n");
	save_message("write", &req.base);
	guard.has_digest = guard.has_path = guard.has_absent = guard.absent = true;
	guard.digest = bin_n(digest, sizeof(digest));
	guard.path = bin("/home/u/p/a/b");
	m.guard = &guard;
	m.has_durable = m.durable = m.has_digest = m.digest = m.has_dry_run = m.dry_run = true;
	save_message("write-all-fields", &req.base);
	m.has_descriptor = m.descriptor = true;
	save_message("write-both", &req.base);
	m.has_content = false;
	guard.digest.len = 3;
	save_message("write-short-digest", &req.base);
}

static void
seed_edit(void)
{
	Koda__Replacement one = KODA__REPLACEMENT__INIT, two = KODA__REPLACEMENT__INIT;
	Koda__Replacement *both[] = { &one, &two };
	REQUEST(edit, EDIT, Koda__Edit);

	m.path = bin("a");
	m.replacement = both;
	m.n_replacement = 2;
	one.old = bin("old");
	one.new_ = bin("new");
	two.old = bin("");
	two.new_ = bin("\xff");
	two.has_all = two.all = true;
	save_message("edit", &req.base);
}

static void
seed_scan(void)
{
	Koda__Place place = KODA__PLACE__INIT, *list[] = { &place };
	ProtobufCBinaryData below[] = { bin("/home/u/p"), bin("/home/u/.cache") };
	{
		REQUEST(scan, SCAN, Koda__Scan);

		m.below = below;
		m.n_below = 2;
		save_message("scan", &req.base);
		place.kind = KODA__PLACE_KIND__PLACE_PROTECTED;
		place.path = bin("/home/u/p/.git/config");
		place.type = KODA__FILE_TYPE__FILE_REGULAR;
		place.dev = place.ino = place.size = 7;
		place.mtime_ns = -1;
		m.known = list;
		m.n_known = 1;
		m.has_resumed = m.resumed = m.has_more = m.more = true;
		save_message("scan-known", &req.base);
		place.path = bin("/home/../p");
		save_message("scan-dotdot", &req.base);
	}
	{
		REQUEST(compare, COMPARE, Koda__Compare);

		m.has_mounted = m.mounted = true;
		save_message("compare", &req.base);
	}
}

#define GITCONFIG(name, text) save("gitconfig", name, text, sizeof(text) - 1)

static void
seed_gitconfig(void)
{
	GITCONFIG("clone",
	    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
	    "[remote \"origin\"]\n\turl = https://example.org/a.git\n"
	    "\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
	    "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n");
	GITCONFIG("quotes", "[a \"b\\\"c\"] d = \"x # \\t\\\\\" ; e\n f = g\\\n h\r\n");
	GITCONFIG("key-alone", "\xef\xbb\xbf[core]\nbare");
	GITCONFIG("old", "[branch.Main]\nremote = -x@y:z\n");
	GITCONFIG("program", "[alias]\nst = !sh 'a b' \"c\" d;e|f\n[include]\npath=~/x\n");
	GITCONFIG("broken", "[a \"b\nc = \"d");
	GITCONFIG("todo", "pick 1 a\nexec make\n# b\n");
	GITCONFIG("gitfile", "gitdir: ../.git/worktrees/a\n");
}

static void
seed_rest(void)
{
	{
		REQUEST(stat, STAT, Koda__Stat);

		m.path = bin("a/");
		m.has_digest = m.digest = true;
		save_message("stat", &req.base);
	}
	{
		REQUEST(list, LIST, Koda__List);

		m.path = bin(".");
		m.has_after = true;
		m.after = bin("name");
		save_message("list", &req.base);
	}
	{
		REQUEST(mkdir, MKDIR, Koda__Mkdir);

		m.path = bin("a/b/c");
		m.has_parents = m.parents = true;
		save_message("mkdir", &req.base);
	}
	{
		REQUEST(remove, REMOVE, Koda__Remove);

		m.path = bin("/tmp/a");
		m.has_recursive = m.recursive = true;
		save_message("remove", &req.base);
	}
	{
		REQUEST(rename, RENAME, Koda__Rename);

		m.from = bin("a");
		m.to = bin("b");
		m.has_overwrite = m.overwrite = m.has_guard_to = true;
		m.guard_to = bin("/home/u/p/b");
		save_message("rename", &req.base);
	}
	{
		REQUEST(explain, EXPLAIN, Koda__Explain);

		m.path = bin(".git/config");
		m.access = KODA__ACCESS__ACCESS_WRITE;
		save_message("explain", &req.base);
	}
}

static void
fill_prepared(Koda__Prepared *prepared, Koda__Outcome *outcome)
{
	koda__prepared__init(prepared);
	koda__outcome__init(outcome);
	prepared->place = bin("/home/u/p/a");
	prepared->has_temp = true;
	prepared->temp = bin(".koda-0123456789abcdef-7");
	prepared->dev = 1;
	prepared->ino = 2;
	prepared->outcome = outcome;
	outcome->path = bin("/home/u/p/a");
	outcome->has_size = true;
	outcome->size = 5;
}

static void
seed_recover(void)
{
	Koda__Prepared prepared;
	Koda__Outcome outcome;
	Koda__Verdict verdict = KODA__VERDICT__INIT;
	REQUEST(recover, RECOVER, Koda__Recover);

	m.request = 6;
	m.token = bin("12345678");
	m.path = bin("a");
	m.kind = KODA__KIND__KIND_WRITE;
	save_message("recover", &req.base);
	fill_prepared(&prepared, &outcome);
	m.prepared = &prepared;
	verdict.happened = KODA__HAPPENED__HAPPENED;
	m.verdict = &verdict;
	m.has_committed = m.committed = true;
	save_message("recover-all-fields", &req.base);
	prepared.temp = bin("../../x");
	save_message("recover-temp-elsewhere", &req.base);
	prepared.temp = bin("");
	prepared.place = bin("/");
	save_message("recover-root", &req.base);
}

/* ---- replies ---- */

#define REPLY(lower, UPPER, Type, init)                                                            \
	Koda__Reply rep = KODA__REPLY__INIT;                                                       \
	Type m;                                                                                    \
	rep.id = 7;                                                                                \
	rep.result_case = KODA__REPLY__RESULT_##UPPER;                                             \
	rep.lower = &m;                                                                            \
	koda__##init##__init(&m)

static void
seed_replies(void)
{
	{
		REPLY(error, ERROR, Koda__Error, error);

		m.code = KODA__ERROR_CODE__POLICY_DENIED;
		m.message = bin("refused \x1b[31m\xe2\x80\xae");
		m.has_errnum = m.has_path = m.has_rule = true;
		m.errnum = 13;
		m.path = bin("/a");
		m.rule = bin("deny_read");
		save_message("reply-error", &rep.base);
	}
	{
		Koda__Enforcement enforcement = KODA__ENFORCEMENT__INIT;
		REPLY(ready, READY, Koda__Ready, ready);

		m.protocol = 1;
		m.policy_digest = bin_n(digest, sizeof(digest));
		m.enforcement = &enforcement;
		enforcement.landlock_abi = 5;
		enforcement.seccomp = true;
		save_message("reply-ready", &rep.base);
	}
	{
		REPLY(pong, PONG, Koda__Pong, pong);

		save_message("reply-pong", &rep.base);
	}
	{
		REPLY(read, READ, Koda__ReadReply, read_reply);

		m.path = bin("/a");
		m.size = 3;
		m.has_content = true;
		m.content = bin("abc");
		save_message("reply-read", &rep.base);
		m.has_more = m.more = m.has_digest = true;
		m.digest = bin_n(digest, sizeof(digest));
		m.size = 1u << 20;
		save_message("reply-read-more", &rep.base);
		m.has_descriptor = m.descriptor = true;
		m.has_content = m.has_more = false;
		save_message("reply-read-descriptor", &rep.base);
	}
	{
		uint64_t lines[] = { 1, UINT64_MAX };
		REPLY(outcome, OUTCOME, Koda__Outcome, outcome);

		m.path = bin("/home/u/p/a");
		save_message("reply-outcome", &rep.base);
		m.has_created = m.created = m.has_size = m.has_size_before = m.has_replacements =
		    true;
		m.size = 9;
		m.line = lines;
		m.n_line = 2;
		m.has_type = m.has_to = m.has_entries = m.has_digest = m.has_digest_before = true;
		m.type = KODA__FILE_TYPE__FILE_REGULAR;
		m.to = bin("/home/u/p/b");
		m.digest = m.digest_before = bin_n(digest, sizeof(digest));
		save_message("reply-outcome-all-fields", &rep.base);
		m.path = bin("relative");
		save_message("reply-outcome-relative", &rep.base);
	}
	{
		REPLY(stat, STAT, Koda__StatReply, stat_reply);

		m.path = bin("/a");
		m.type = KODA__FILE_TYPE__FILE_SYMLINK;
		m.mtime_ns = INT64_MIN;
		m.has_target = true;
		m.target = bin("../x");
		save_message("reply-stat", &rep.base);
	}
	{
		Koda__Entry a = KODA__ENTRY__INIT, b = KODA__ENTRY__INIT;
		Koda__Entry *entries[] = { &a, &b };
		REPLY(list, LIST, Koda__ListReply, list_reply);

		a.name = bin("a");
		a.type = KODA__FILE_TYPE__FILE_DIRECTORY;
		b.name = bin("b");
		b.type = KODA__FILE_TYPE__FILE_OTHER;
		m.path = bin("/d");
		m.entry = entries;
		m.n_entry = 2;
		m.has_more = m.more = m.has_hidden = true;
		m.hidden = 3;
		save_message("reply-list", &rep.base);
		a.name = bin("b/c");
		save_message("reply-list-bad-name", &rep.base);
		a.name = bin("c");
		save_message("reply-list-unsorted", &rep.base);
	}
	{
		ProtobufCBinaryData hops[] = { bin("/l"), bin("/m") };
		REPLY(explained, EXPLAINED, Koda__Explained, explained);

		m.path = bin("/a");
		m.rule = bin("default");
		m.reason = bin("no rule denies reading it");
		m.hop = hops;
		m.n_hop = 2;
		save_message("reply-explained", &rep.base);
	}
	{
		Koda__Outcome outcome;
		REPLY(prepared, PREPARED, Koda__Prepared, prepared);

		fill_prepared(&m, &outcome);
		save_message("reply-prepared", &rep.base);
		m.has_temp = false;
		m.has_to = true;
		m.to = bin("/home/u/p/b");
		save_message("reply-prepared-rename", &rep.base);
	}
	{
		REPLY(recovered, RECOVERED, Koda__Verdict, verdict);

		m.happened = KODA__HAPPENED__CANNOT_TELL;
		m.has_digest_now = true;
		m.digest_now = bin_n(digest, sizeof(digest));
		save_message("reply-recovered", &rep.base);
	}
}

/* ---- invalid messages ---- */

static void
seed_broken(void)
{
	/* Each is written as a message of its own, and within a frame. */
	static const struct {
		const char *name, *data;
		size_t len;
	} messages[] = {
		{ "empty", TEXT_OF("") },
		{ "unknown-field", TEXT_OF("\x08\x01\xfa\x01\x01x") },
		{ "scalar-twice", TEXT_OF("\x08\x01\x08\x02\x1a\x00") },
		{ "oneof-twice", TEXT_OF("\x08\x01\x1a\x00\x22\x00") },
		{ "no-id", TEXT_OF("\x1a\x00") },
		{ "no-op", TEXT_OF("\x08\x01") },
		{ "endless-varint", TEXT_OF("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") },
		{ "length-beyond", TEXT_OF("\x08\x01\x2a\x7f\x0a") },
		{ "group", TEXT_OF("\x08\x01\x1b\x1c") },
		{ "nested",
		    TEXT_OF("\x72\x72\x72\x72\x72\x72\x72\x72\x72\x72\x72\x72\x72\x72\x72\x72") },
		{ "field-0", TEXT_OF("\x00\x01") },
	};
	static const struct {
		const char *name, *data;
		size_t len;
	} frames[] = {
		{ "length-max", TEXT_OF("\x00\xff\xff\xff\xff") },
		{ "length-0", TEXT_OF("\x01\x00\x00\x00\x00") },
		{ "length-limit", TEXT_OF("\x00\x00\x10\x00\x00x") },
		{ "length-limit-1", TEXT_OF("\x02\x00\x10\x00\x01x") },
		{ "three", TEXT_OF("\x03\0\0\0\1a\0\0\0\2bb\0\0\0\3ccc") },
		{ "three-and-half", TEXT_OF("\x01\0\0\0\1a\0\0\0\2bb\0\0\0\3c") },
		{ "half-a-length", TEXT_OF("\x01\0\0") },
	};

	for (size_t i = 0; i < N_ELEMENTS(messages); i++) {
		save("message", messages[i].name, messages[i].data, messages[i].len);
		save("valid", messages[i].name, messages[i].data, messages[i].len);
		save("marshal", messages[i].name, messages[i].data, messages[i].len);
	}
	for (size_t i = 0; i < N_ELEMENTS(frames); i++)
		save("frame", frames[i].name, frames[i].data, frames[i].len);
}

/* ---- the history ---- */

static size_t
put_record(uint8_t *to, const Koda__HistoryRecord *record)
{
	const size_t len = koda__history_record__get_packed_size(record);

	for (unsigned i = 0; i < 4; i++)
		to[i] = (uint8_t)(len >> (24 - 8 * i));
	return 4 + koda__history_record__pack(record, to + 4);
}

/* Two items, their results, a turn and its end. */
static void
seed_history(void)
{
	Koda__HistoryAbout about = KODA__HISTORY_ABOUT__INIT;
	Koda__HistoryItem item = KODA__HISTORY_ITEM__INIT;
	Koda__HistoryDone done = KODA__HISTORY_DONE__INIT;
	Koda__HistoryTurn turn = KODA__HISTORY_TURN__INIT;
	Koda__SwapItem swap = KODA__SWAP_ITEM__INIT;
	Koda__DraftSide side = KODA__DRAFT_SIDE__INIT;
	ProtobufCBinaryData names[] = { bin("0"), bin("x-1") };
	uint8_t data[1024] = { 1 };
	size_t n = 1;

#define RECORD(UPPER, lower, value)                                                                \
	n += put_record(data + n,                                                                  \
	    &(Koda__HistoryRecord){ PROTOBUF_C_MESSAGE_INIT(&koda__history_record__descriptor),    \
		.what_case = KODA__HISTORY_RECORD__WHAT_##UPPER, .lower = (value) })
	about.version = 1;
	about.root = bin("/home/u/p");
	about.begun_ns = 5;
	n += koda__history_about__pack(&about, data + n);
	save("history", "about", data, n);
	about.has_draft = true;
	about.draft = bin("abc");
	n = 1 + koda__history_about__pack(&about, data + 1);
	save("history", "about-draft", data, n);
	data[0] = 0;
	n = 1;
	side.type = KODA__FILE_TYPE__FILE_SYMLINK;
	side.has_target = true;
	side.target = bin("target");
	item.item = &swap;
	item.kind = KODA__DRAFT_KIND__DRAFT_CHANGED;
	item.before = item.after = &side;
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		swap.name = names[i];
		swap.place = bin("/home/u/p/a");
		RECORD(ITEM, item, &item);
	}
	save("history", "items", data, n);
	done.outcome = KODA__SWAP_OUTCOME__SWAP_DONE;
	done.here = done.held = &side;
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		done.name = names[i];
		RECORD(DONE, done, &done);
	}
	save("history", "results", data, n);
	turn.undone = true;
	turn.name = names;
	turn.n_name = N_ELEMENTS(names);
	RECORD(TURN, turn, &turn);
	save("history", "turn", data, n);
	save("history", "turn-cut", data, n - 3);
	RECORD(FINISHED, finished, true);
	save("history", "finished", data, n);
	n = 1;
	swap.place = bin("/home/u/../p");
	RECORD(ITEM, item, &item);
	save("history", "dots", data, n);
	n = 1;
	done.name = bin("none");
	RECORD(DONE, done, &done);
	save("history", "no-such-item", data, n);
#undef RECORD
}

/* ---- drafts ---- */

static void
save_changes(const char *name, Koda__DraftEntry *entry)
{
	Koda__Reply reply = KODA__REPLY__INIT;
	Koda__ChangesReply page = KODA__CHANGES_REPLY__INIT;
	Koda__DraftEntry *entries[] = { entry, entry };
	uint8_t data[1024];

	reply.id = 1;
	reply.result_case = KODA__REPLY__RESULT_CHANGES;
	reply.changes = &page;
	page.entry = entries;
	page.n_entry = N_ELEMENTS(entries);
	must(koda__reply__get_packed_size(&reply) <= sizeof(data));
	save("changes", name, data, koda__reply__pack(&reply, data));
}

static void
seed_changes(void)
{
	Koda__DraftEntry entry = KODA__DRAFT_ENTRY__INIT;
	Koda__DraftSide file = KODA__DRAFT_SIDE__INIT, link = KODA__DRAFT_SIDE__INIT;

	file.type = KODA__FILE_TYPE__FILE_REGULAR;
	file.mode = 0644;
	link.type = KODA__FILE_TYPE__FILE_SYMLINK;
	link.mode = 0777;
	link.has_target = true;
	link.target = bin("target");
	entry.path = bin("/p/a");
	entry.kind = KODA__DRAFT_KIND__DRAFT_CREATED;
	entry.after = &link;
	save_changes("created", &entry);
	entry.kind = KODA__DRAFT_KIND__DRAFT_CHANGED;
	entry.before = entry.after = &file;
	entry.has_rule = entry.has_reason = entry.has_conflict = entry.conflict = true;
	entry.rule = bin("git_config");
	entry.reason = bin("because");
	save_changes("refused", &entry);
	entry.kind = KODA__DRAFT_KIND__DRAFT_DELETED;
	save_changes("deleted-and-there", &entry);
	entry.after = NULL;
	entry.path = bin("/q");
	save_changes("outside", &entry);
	entry.path = bin("/p/../q");
	save_changes("dots", &entry);
}

/* ---- policies ---- */

static void
save_policies(const char *name, const struct policy *a, const struct policy *b)
{
	cleanup_free uint8_t *first = NULL, *second = NULL, *both = NULL;
	struct koda_error err;
	size_t n = 0, k = 0;

	must(policy_pack(a, &first, &n, &err) == 0);
	must(policy_pack(b, &second, &k, &err) == 0);
	must(n < 65536);
	both = malloc(2 + n + k);
	must(both != NULL);
	both[0] = (uint8_t)(n >> 8);
	both[1] = (uint8_t)n;
	memcpy(both + 2, first, n);
	memcpy(both + 2 + n, second, k);
	save("policy", name, both, 2 + n + k);
	save("message", name, first, n);
}

static void
add(struct policy *p, enum koda_list list, const char *rule)
{
	must(policy_list_add(&p->list[list], rule, NULL) == 0);
}

static void
seed_policies(void)
{
	struct policy none, full, reads;
	cleanup_free uint8_t *packed = NULL;
	struct koda_error err;
	size_t len;

	policy_init(&none);
	policy_init(&full);
	policy_init(&reads);
	add(&full, KODA_ALLOW_WRITE, "/home/u/p");
	add(&full, KODA_ALLOW_WRITE, "/tmp");
	add(&full, KODA_DENY_WRITE_WITHIN_ALLOW, "/home/u/p/.git/config");
	add(&full, KODA_DENY_READ, "/home/u/p/secret");
	add(&full, KODA_ALLOW_READ_WITHIN_DENY, "/home/u/p/secret/open");
	add(&full, KODA_ALLOWED_DOMAINS, "github.com");
	add(&full, KODA_ALLOWED_DOMAINS, "*.github.com:443");
	add(&full, KODA_DENIED_DOMAINS, "x");
	add(&full, KODA_DENY_WRITE_NAMES, ".vscode");
	add(&full, KODA_DENY_WRITE_NAMES, "*.x/y");
	full.flag[KODA_ALLOW_LOCAL_BINDING] = true;
	full.limit[KODA_MAX_FILE_BYTES].set = true;
	full.limit[KODA_MAX_FILE_BYTES].value = 4096;
	full.depth = 10;
	full.trust = KODA_TRUST_REQUIRE;
	full.ca_bundle = strdup("/etc/ca.pem");
	must(full.ca_bundle != NULL);
	add(&reads, KODA_DENY_READ, "/home");
	add(&reads, KODA_ALLOW_READ_WITHIN_DENY, "/home/u/p");
	add(&reads, KODA_ALLOW_WRITE, "/home/u");
	reads.flag[KODA_ANY_DOMAIN] = reads.flag[KODA_ALLOW_GIT_CONFIG] = true;
	reads.list[KODA_ALLOWED_DOMAINS].present = true;
	save_policies("none-none", &none, &none);
	save_policies("full-none", &full, &none);
	save_policies("full-reads", &full, &reads);
	save_policies("reads-full", &reads, &full);
	must(policy_pack(&full, &packed, &len, &err) == 0);
	seed_seal(packed, len);
	save("policy", "cut", packed, len / 2);
	policy_done(&none);
	policy_done(&full);
	policy_done(&reads);
}

/* ---- texts ---- */

static void
seed_texts(void)
{
	static const struct {
		const char *target, *name, *data;
		size_t len;
	} texts[] = {
		{ "stderr", "gnu",
		    TEXT_OF(
			"touch: cannot touch '/a b/c': Permission denied\nls: cannot open directory '/root': Permission denied\n") },
		{ "stderr", "shell", TEXT_OF("bash: line 1: /etc/a b: Permission denied") },
		{ "stderr", "dash",
		    TEXT_OF("sh: 1: cannot create out.txt: Read-only file system") },
		{ "stderr", "node",
		    TEXT_OF("Error: EACCES: permission denied, rename '/a' -> '/b'") },
		{ "stderr", "node-spawn", TEXT_OF("Error: spawn /x/run EACCES") },
		{ "stderr", "python",
		    TEXT_OF("PermissionError: [Errno 13] Permission denied: 'x y'") },
		{ "stderr", "quote-open", TEXT_OF("rm: cannot remove `/a b: Permission denied") },
		{ "stderr", "quote-wide",
		    TEXT_OF("rm: \xe2\x80\x98/a b\xe2\x80\x99: Permission denied\xe2\x80") },
		{ "stderr", "unix",
		    TEXT_OF("connect to unix:///var/run/docker.sock: permission denied") },
		{ "stderr", "unix-short", TEXT_OF("unix:// unix:/ :// Permission denied") },
		{ "stderr", "net",
		    TEXT_OF("ssh: connect to host example.com port 22: Network is unreachable") },
		{ "stderr", "net-name", TEXT_OF("curl: (6) Could not resolve host: [::1]:.") },
		{ "stderr", "colour",
		    TEXT_OF("\x1b[31mrm: cannot remove '/a'\x1b[0m: Permission denied\x1b[") },
		{ "stderr", "slash", TEXT_OF("touch: cannot touch '/': Permission denied") },
		{ "stderr", "reason-first", TEXT_OF("Permission denied") },
		{ "stderr", "reason-colon", TEXT_OF(": Permission denied") },
		{ "stderr", "nul", TEXT_OF("cat: /a\0/b: Permission denied") },
		{ "domain", "plain", TEXT_OF("github.com\ngithub.com") },
		{ "domain", "wildcard", TEXT_OF("*.GitHub.com.\na.github.com") },
		{ "domain", "wildcard-two", TEXT_OF("*.github.com\na.b.github.com") },
		{ "domain", "suffix", TEXT_OF("github.com\nevilgithub.com") },
		{ "domain", "port", TEXT_OF("example.org:8443\nexample.org") },
		{ "domain", "port-0", TEXT_OF("example.org:0") },
		{ "domain", "port-large", TEXT_OF("example.org:65536") },
		{ "domain", "star-only", TEXT_OF("*") },
		{ "domain", "star-inside", TEXT_OF("a.*.com") },
		{ "domain", "ip", TEXT_OF("127.0.0.1\n127.0.0.1") },
		{ "domain", "ip-odd", TEXT_OF("0x7f.1") },
		{ "domain", "ip6", TEXT_OF("[::1]:80") },
		{ "domain", "idn", TEXT_OF("ex\xc3\xa4mple.org") },
		{ "domain", "dots", TEXT_OF("a..b") },
		{ "domain", "userinfo", TEXT_OF("a@b.c") },
		{ "domain", "long-label",
		    TEXT_OF(
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.org") },
		{ "domain", "any-sni", TEXT_OF("*.A.test.:8443 Any-SNI\nx.a.test:8443") },
		{ "domain", "any-sni-twice", TEXT_OF("a.test any-sni any-sni\na.test") },
		{ "domain", "host-nul", TEXT_OF("a.test\na.test\0.evil.test") },
		{ "domain", "host-userinfo", TEXT_OF("a.test\na.test@evil.test:443") },
		{ "domain", "host-ports", TEXT_OF("a.test\na.test:443:80") },
		{ "domain", "host-crlf", TEXT_OF("a.test\na.test\r\nHost: b.test") },
		{ "domain", "host-ip6", TEXT_OF("[::1]\n[0:0::1]:443") },
		{ "domain", "host-ip6-bare", TEXT_OF("[::1]\n2001:DB8::1") },
		{ "domain", "host-mapped", TEXT_OF("127.0.0.1\n[::ffff:7f00:1]:80") },
		{ "domain", "host-zone", TEXT_OF("[::1]\n[fe80::1%25lo]:80") },
		{ "domain", "host-decimal", TEXT_OF("a.test\n2130706433:80") },
		{ "domain", "host-octal", TEXT_OF("a.test\n0177.0.0.1") },
		{ "domain", "host-short", TEXT_OF("a.test\n127.1") },
		{ "domain", "host-full-width", TEXT_OF("a.test\na\xef\xbc\x8etest:80") },
		{ "domain", "host-dot", TEXT_OF("a.test\nA.TEST.:443") },
		{ "address", "loopback", TEXT_OF("\x04\x7f\0\0\x01") },
		{ "address", "public", TEXT_OF("\x04\x08\x08\x08\x08") },
		{ "address", "mapped",
		    TEXT_OF("\x06\0\0\0\0\0\0\0\0\0\0\xff\xff\xa9\xfe\xa9\xfe") },
		{ "address", "nat64", TEXT_OF("\x06\0\x64\xff\x9b\0\0\0\0\0\0\0\0\x0a\0\0\x01") },
		{ "address", "6to4", TEXT_OF("\x06\x20\x02\x7f\0\0\x01\0\0\0\0\0\0\0\0\0\x01") },
		{ "address", "teredo",
		    TEXT_OF("\x06\x20\x01\0\0\x08\x08\x08\x08\0\0\0\0\x80\xff\xff\xfe") },
		{ "address", "isatap",
		    TEXT_OF("\x06\x2a\0\x14\x50\0\0\0\0\0\0\x5e\xfe\xc0\xa8\0\x01") },
		{ "address", "unique-local",
		    TEXT_OF("\x06\xfd\0\x0e\xc2\0\0\0\0\0\0\0\0\0\0\x02\x54") },
		{ "address", "prefix", TEXT_OF("172.16.5.1/12") },
		{ "address", "prefix6", TEXT_OF("[2001:db8::1]/29") },
		{ "address", "prefix-bad", TEXT_OF("10.0.0.0/08") },
		{ "resolve", "plain", TEXT_OF("a/b/f") },
		{ "resolve", "dots", TEXT_OF("./a//./b/../b/f") },
		{ "resolve", "up", TEXT_OF("../out/f") },
		{ "resolve", "up-by-link", TEXT_OF("a/up/out/f") },
		{ "resolve", "up-by-link-and-more", TEXT_OF("a/up/../../../../..") },
		{ "resolve", "link", TEXT_OF("l/f") },
		{ "resolve", "link-slash", TEXT_OF("l/") },
		{ "resolve", "over", TEXT_OF("a/over/f/") },
		{ "resolve", "loop", TEXT_OF("loop/x") },
		{ "resolve", "gone", TEXT_OF("gone/x/../y") },
		{ "resolve", "absolute", TEXT_OF("/etc/../usr/bin/") },
		{ "resolve", "absolute-link", TEXT_OF("abs/etc/passwd") },
		{ "resolve", "missing", TEXT_OF("x/y/z/") },
		{ "resolve", "missing-dots", TEXT_OF("x/./y/...") },
		{ "resolve", "through-file", TEXT_OF("f/x") },
		{ "resolve", "nul", TEXT_OF("a\0b") },
		{ "resolve", "odd-bytes", TEXT_OF("\xff\xfe\x1b[31m\xe2\x80\xae/\xc0\xaf/\n") },
		{ "resolve", "empty", TEXT_OF("") },
		{ "resolve", "slashes", TEXT_OF("////") },
	};
	char name[PATH_MAX];

	for (size_t i = 0; i < N_ELEMENTS(texts); i++)
		save(texts[i].target, texts[i].name, texts[i].data, texts[i].len);
	memset(name, 'n', sizeof(name));
	save("resolve", "long-name", name, 256);
	save("resolve", "longest-name", name, 255);
	for (size_t i = 200; i < sizeof(name); i += 200)
		name[i] = '/';
	save("resolve", "longest-path", name, 4095);
	save("resolve", "long-path", name, 4096);
}

/* Input from the network. The corpus also has real hellos of clients, in addition to these. */
static void
seed_proxy(void)
{
	static const struct {
		const char *target, *name, *data;
		size_t len;
	} texts[] = {
		/* clang-format off */
		/* first byte: 0 request; 1 response, + 2 to HEAD, + 4 to CONNECT */
		{ "http", "connect", TEXT_OF("\0CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nProxy-Connection: Keep-Alive\r\n\r\n\x16\x03\x01") },
		{ "http", "absolute", TEXT_OF("\0GET http://a.test:8080/b?c=d HTTP/1.1\r\nHost: a.test:8080\r\nAccept: */*\r\n\r\n") },
		{ "http", "absolute6", TEXT_OF("\0GET http://[2001:DB8::1] HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n") },
		{ "http", "origin", TEXT_OF("\0\r\nPOST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello") },
		{ "http", "chunked", TEXT_OF("\0POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n0\r\n\r\n") },
		{ "http", "upgrade", TEXT_OF("\0GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n") },
		{ "http", "options", TEXT_OF("\0OPTIONS * HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n") },
		{ "http", "cl-te", TEXT_OF("\0POST http://a.test/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n") },
		{ "http", "cl-cl", TEXT_OF("\0POST http://a.test/ HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n") },
		{ "http", "te-identity", TEXT_OF("\0POST http://a.test/ HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n") },
		{ "http", "fold", TEXT_OF("\0GET http://a.test/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n") },
		{ "http", "lf", TEXT_OF("\0GET http://a.test/ HTTP/1.1\nHost: a.test\n\n") },
		{ "http", "userinfo", TEXT_OF("\0GET http://a.test@b.test/ HTTP/1.1\r\n\r\n") },
		{ "http", "preface", TEXT_OF("\0PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") },
		{ "http", "response-length", TEXT_OF("\1HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello") },
		{ "http", "response-chunked", TEXT_OF("\1HTTP/1.1 404\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n0\r\n\r\n") },
		{ "http", "response-close", TEXT_OF("\1HTTP/1.0 200 OK\r\n\r\nhello") },
		{ "http", "response-101", TEXT_OF("\1HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00") },
		{ "http", "response-head", TEXT_OF("\3HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n") },
		{ "http", "response-connect", TEXT_OF("\5HTTP/1.1 200 Connection established\r\n\r\nSSH-2.0-x\r\n") },
		/* first byte: the framing (chunked, length, close); then the size of pieces */
		{ "body", "chunks", TEXT_OF("\0\3" "5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\nGET /") },
		{ "body", "trailers", TEXT_OF("\0\1" "000A\r\n0123456789\r\n0\r\nA: b\r\nC:\td\r\n\r\n") },
		{ "body", "empty", TEXT_OF("\0\7" "0\r\n\r\n") },
		{ "body", "extension", TEXT_OF("\0\3" "5;a=b\r\nhello\r\n0\r\n\r\n") },
		{ "body", "large", TEXT_OF("\0\3" "7fffffffffffffff\r\nhello") },
		{ "body", "too-large", TEXT_OF("\0\3" "10000000000000005\r\nhello\r\n0\r\n\r\n") },
		{ "body", "lf", TEXT_OF("\0\3" "5\nhello\n0\n\n") },
		{ "body", "length", TEXT_OF("\4\3" "helloGET /") },
		{ "body", "close", TEXT_OF("\2\3" "hello\r\n\r\n") },
		/* first byte: which half of it; 5 kinds */
		{ "socks", "greeting", TEXT_OF("\0\5\2\2\0") },
		{ "socks", "greeting-login", TEXT_OF("\0\5\1\2") },
		{ "socks", "name", TEXT_OF("\1\5\1\0\3\6a.test\1\xbb") },
		{ "socks", "ipv4", TEXT_OF("\1\5\1\0\1\xc0\0\2\1\1\xbb") },
		{ "socks", "ipv6", TEXT_OF("\1\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\1\xbb") },
		{ "socks", "bind", TEXT_OF("\1\5\2\0\1\0\0\0\0\0\0") },
		{ "socks", "nul", TEXT_OF("\1\5\1\0\3\10a.test\0b\1\xbb") },
		{ "socks", "socks4", TEXT_OF("\1\4\1\1\xbb\1\2\3\4u\0") },
		{ "socks", "method", TEXT_OF("\x82\5\2") },
		{ "socks", "logged-in", TEXT_OF("\3\1\0") },
		{ "socks", "reply", TEXT_OF("\4\5\0\0\1\0\0\0\0\0\0SSH") },
		{ "socks", "reply-name", TEXT_OF("\4\5\0\0\3\6a.test\1\xbb") },
		{ "socks", "reply-refused", TEXT_OF("\4\5\5") },
		/* first byte: the size of records, less one */
		{ "hello", "split", TEXT_OF("\0\x16\3\1\0\2\1\0\x16\3\1\0\x3e\0\x3c\3\3" "0123456789abcdef0123456789abcdef\0\0\2\x13\1\1\0\0\x11\0\0\0\x0b\0\x09\0\0\6a.test\xff\1") },
		{ "hello", "encrypted", TEXT_OF("\2\x16\3\1\0\x42\1\0\0\x3e\3\3" "0123456789abcdef0123456789abcdef\0\0\2\x13\1\1\0\0\x13\0\0\0\x0b\0\x09\0\0\6a.test\xfe\x0d\0\0") },
		{ "hello", "two-names", TEXT_OF("\7\x16\3\1\0\x47\1\0\0\x43\3\3" "0123456789abcdef0123456789abcdef\0\0\2\x13\1\1\0\0\x18\0\0\0\x14\0\x12\0\0\6a.test\0\0\6b.test") },
		{ "hello", "http", TEXT_OF("\0GET / HTTP/1.1\r\n\r\n") },
		{ "hello", "sslv2", TEXT_OF("\0\x80\x2e\1\3\1\0\x15\0\0\0\x10") },
		{ "upstream", "http", TEXT_OF("http://proxy.test:3128/\n\nlocalhost,.a.test\nb.a.test") },
		{ "upstream", "credentials", TEXT_OF("http://us%40er:p%3a%2f@proxy.test\n\n\na.test") },
		{ "upstream", "all", TEXT_OF("\nsocks5h://user:word@[2001:db8::1]:1081\n10.0.0.0/8, 192.0.2.1:8443 [::1]:80\n10.1.2.3") },
		{ "upstream", "plain", TEXT_OF("proxy.test:3128\nsocks://x\n*\na.test") },
		{ "upstream", "https", TEXT_OF("https://proxy.test\n\n*.a.test:443\na.test") },
		{ "upstream", "path", TEXT_OF("http://user:se/cret@proxy.test\n\n\na.test") },
		{ "upstream", "percent", TEXT_OF("http://user:%00%zz%@proxy.test\n\n\na.test") },
		/* clang-format on */
	};

	for (size_t i = 0; i < N_ELEMENTS(texts); i++)
		save(texts[i].target, texts[i].name, texts[i].data, texts[i].len);
}

int
main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: seed FOLDER\n");
		return 2;
	}
	folder = argv[1];
	seed_simple();
	seed_read();
	seed_write();
	seed_edit();
	seed_rest();
	seed_scan();
	seed_gitconfig();
	seed_recover();
	seed_replies();
	seed_broken();
	seed_history();
	seed_changes();
	seed_policies();
	seed_texts();
	seed_proxy();
	return 0;
}
