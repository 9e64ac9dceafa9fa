/* SPDX-License-Identifier: Apache-2.0 */
#include "search/op_search.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>

#include "search/grep.h"
#include "search/listing.h"
#include "search/newest.h"
#include "search/places.h"
#include "search/sink.h"
#include "search/walk_rules.h"
#include "search/watchdog.h"
#include "shared/base/cleanup.h"
#include "worker/files/change.h"
#include "worker/say.h"

/* After this many files check whether the queued items have waited long enough. */
#define FILES_PER_TICK 64

struct search_task {
	struct session *ses;
	const Koda__Search *ask;
	struct places places;
	const struct search_place *place; /* the current one */
	struct walk_rules *rules;
	struct grep *grep;
	struct sink *sink;
	struct tree_listing listing;
	struct newest newest;
	Koda__Searched sum;
	/* The current file's path below its place. */
	const char *path;
	size_t path_len;
	/* where a hook puts the error when it stops the walk with `failed` */
	struct koda_error *err;
	bool failed;
};

static void
search_done(struct search_task *s)
{
	watchdog_stop();
	grep_free(s->grep);
	walk_rules_free(s->rules);
	listing_done(&s->listing);
	newest_done(&s->newest);
	places_done(&s->places);
	if (s->sink != NULL)
		sink_done(s->sink);
	free(s->sink);
}

static bool
wants(const struct search_task *s, unsigned flag)
{
	return (s->ask->flags & flag) != 0;
}

/* ---- reporting ---- */

static int
fail(struct search_task *s)
{
	s->failed = true;
	return 1;
}

static void
item_begin(const struct search_task *s, Koda__FoundItem *item, Koda__FoundKind kind)
{
	koda__found_item__init(item);
	item->kind = kind;
	item->place = (uint32_t)(s->place - s->places.v);
	item->path = bytes_of(s->path, s->path_len);
}

/* Reports an item. Returns non-zero to stop. */
static int
tell(struct search_task *s, const Koda__FoundItem *item)
{
	if (s->sum.found == s->ask->limit) {
		s->sum.more = true;
		return 1;
	}
	s->sum.found++;
	return sink_add(s->sink, item, s->err) < 0 ? fail(s) : 0;
}

static void
tell_trouble(struct search_task *s, const char *path, size_t len, const char *text)
{
	Koda__FoundItem item;

	if (s->sum.troubles++ >= SEARCH_TROUBLES_MAX)
		return;
	item_begin(s, &item, KODA__FOUND_KIND__FOUND_TROUBLE);
	item.path = bytes_of(path, len);
	item.has_text = true;
	item.text = bytes_of(text, strlen(text));
	if (sink_add(s->sink, &item, s->err) < 0)
		fail(s);
}

static void
on_trouble(void *data, const struct walk_entry *entry, int errnum)
{
	tell_trouble(data, entry->path, entry->len, strerror(errnum));
}

/* ---- what the policy allows to be read ---- */

/* Hidden directories are entered if they lead to a path that the rule excepts. */
static bool
leads_to_hole(const struct policy_list *holes, const char *path)
{
	for (size_t i = 0; i < holes->n; i++)
		if (path_is_inside(holes->v[i], path))
			return true;
	return false;
}

static bool
readable(void *data, const char *path, bool is_dir)
{
	const struct search_task *s = data;
	const struct session *ses = s->ses;
	struct access_verdict verdict = access_judge(&ses->who, ACCESS_OP_READ, path, NULL);

	return verdict.allowed ||
	    (is_dir && verdict.rule == ACCESS_RULE_DENY_READ &&
		leads_to_hole(&ses->policy.list[KODA_ALLOW_READ_WITHIN_DENY], path));
}

/* ---- glob ---- */

/* Handles a file of a Glob. known: its status, or NULL if it was not read yet. Returns non-zero
 * to stop. */
static int
glob_file(struct search_task *s, int dir_fd, const char *name, const struct stat *known)
{
	Koda__FoundItem item;
	struct stat st;

	s->sum.files++;
	if (wants(s, KODA_SEARCH_NEWEST)) {
		if (known != NULL)
			st = *known;
		else if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		return newest_add(&s->newest, s->path, s->path_len,
			   (uint32_t)(s->place - s->places.v),
			   (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec, s->err) < 0
		    ? fail(s)
		    : 0;
	}
	item_begin(s, &item, KODA__FOUND_KIND__FOUND_FILE);
	item.has_type = true;
	item.type = KODA__FILE_TYPE__FILE_REGULAR;
	return tell(s, &item);
}

static int
tell_newest(struct search_task *s)
{
	newest_sort(&s->newest);
	s->sum.more |= s->newest.more;
	for (size_t i = 0; i < s->newest.n; i++) {
		const struct newest_file *f = &s->newest.v[i];
		Koda__FoundItem item;

		s->place = &s->places.v[f->place];
		s->path = f->path;
		s->path_len = f->len;
		item_begin(s, &item, KODA__FOUND_KIND__FOUND_FILE);
		item.has_type = item.has_mtime_ns = true;
		item.type = KODA__FILE_TYPE__FILE_REGULAR;
		item.mtime_ns = f->mtime_ns;
		if (tell(s, &item) != 0)
			return s->failed ? -1 : 0;
	}
	return 0;
}

/* ---- grep ---- */

static int
on_line(void *data, const struct grep_line *line)
{
	struct search_task *s = data;
	uint32_t spans[2 * 64], *span = spans;
	Koda__FoundItem item;
	int r;

	if (2 * line->n_spans > N_ELEMENTS(spans)) {
		span = malloc(2 * line->n_spans * sizeof(*span));
		if (span == NULL) {
			err_set(s->err, KODA_INTERNAL, ENOMEM, "a line with many matches");
			return fail(s);
		}
	}
	item_begin(s, &item,
	    line->is_match ? KODA__FOUND_KIND__FOUND_MATCH : KODA__FOUND_KIND__FOUND_CONTEXT);
	item.has_line = item.has_offset = item.has_text = true;
	item.line = line->line;
	item.offset = line->offset;
	item.text = bytes_of(line->text, line->len);
	item.has_cut_before = line->cut_before > 0;
	item.cut_before = line->cut_before;
	item.has_cut_after = line->cut_after > 0;
	item.cut_after = line->cut_after;
	for (size_t i = 0; i < line->n_spans; i++) {
		span[2 * i] = (uint32_t)line->spans[i].start;
		span[2 * i + 1] = (uint32_t)line->spans[i].end;
	}
	item.span = span;
	item.n_span = 2 * line->n_spans;
	/* A line of context does not count as found. */
	r = line->is_match ? tell(s, &item) : sink_add(s->sink, &item, s->err) < 0 ? fail(s) : 0;
	if (span != spans)
		free(span);
	return r;
}

static int
tell_file_result(struct search_task *s, const struct grep_file *got, bool named)
{
	Koda__FoundItem item;

	if (wants(s, KODA_SEARCH_FILES) || wants(s, KODA_SEARCH_FILES_WITHOUT)) {
		/* A skipped file has neither matched nor failed to match. */
		if ((got->matches > 0) != wants(s, KODA_SEARCH_FILES) || (got->binary && !named))
			return 0;
		item_begin(s, &item, KODA__FOUND_KIND__FOUND_FILE);
		item.has_type = true;
		item.type = KODA__FILE_TYPE__FILE_REGULAR;
		return tell(s, &item);
	}
	if (wants(s, KODA_SEARCH_COUNT) || wants(s, KODA_SEARCH_COUNT_MATCHES)) {
		if (got->count == 0)
			return 0;
		item_begin(s, &item, KODA__FOUND_KIND__FOUND_COUNT);
		item.has_count = true;
		item.count = got->count;
		return tell(s, &item);
	}
	if (!got->binary || got->matches == 0)
		return 0;
	item_begin(s, &item, KODA__FOUND_KIND__FOUND_BINARY);
	item.has_offset = true;
	item.offset = got->nul_at;
	return tell(s, &item);
}

/* Searches an open file. Returns non-zero to stop. */
static int
grep_open_file(struct search_task *s, int fd, const struct stat *st, bool named)
{
	struct grep_file got = { 0 };
	struct koda_error err = { 0 };
	int r = grep_file(s->grep, fd, (uint64_t)st->st_size, named, on_line, s, &got, &err);

	if (s->failed)
		return 1;
	if (r < 0 && err.code == KODA_IO) {
		tell_trouble(s, s->path, s->path_len, strerror(err.errnum));
		return s->failed;
	}
	if (r < 0) {
		*s->err = err;
		return fail(s);
	}
	s->sum.files++;
	s->sum.bytes += got.bytes;
	s->sum.matches += got.matches;
	s->sum.files_matched += got.matches > 0;
	s->sum.binary += got.binary && !named;
	if (s->sum.more)
		return 1;
	return tell_file_result(s, &got, named);
}

static int
grep_named(struct search_task *s, int dir_fd, const char *name)
{
	cleanup_close int fd =
	    openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct statfs fs;
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ELOOP))
		return 0; /* gone meanwhile, or replaced by a link */
	if (fd < 0 || fstat(fd, &st) < 0) {
		tell_trouble(s, s->path, s->path_len, strerror(errno));
		return s->failed;
	}
	if (!S_ISREG(st.st_mode))
		return 0;
	/* proc, mounted where the judge does not expect it: its files report size 0. */
	if (st.st_size == 0 && st.st_dev != s->place->st.st_dev &&
	    (fstatfs(fd, &fs) < 0 || (unsigned long)fs.f_type == PROC_SUPER_MAGIC))
		return 0;
	if (s->sum.files % FILES_PER_TICK == 0 && sink_tick(s->sink, s->err) < 0)
		return fail(s);
	return grep_open_file(s, fd, &st, false);
}

/* ---- the walk's hooks ---- */

static void
here(struct search_task *s, const struct walk_entry *entry)
{
	s->path = entry->path;
	s->path_len = entry->len;
}

static int
on_file(void *data, const struct walk_entry *entry)
{
	struct search_task *s = data;
	const mode_t mode = (mode_t)DTTOIF(entry->type);
	struct stat st = { 0 };

	here(s, entry);
	if (s->ask->kind == KODA__SEARCH_KIND__SEARCH_TREE) {
		s->sum.files++;
		if (S_ISREG(mode) &&
		    fstatat(entry->dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		return listing_file(&s->listing, entry->path, entry->len, entry->depth,
			   file_type_of(mode), (uint64_t)st.st_size, s->err) < 0
		    ? fail(s)
		    : 0;
	}
	if (!S_ISREG(mode))
		return 0;
	if (s->ask->kind == KODA__SEARCH_KIND__SEARCH_GLOB)
		return glob_file(s, entry->dir_fd, entry->name, NULL);
	return grep_named(s, entry->dir_fd, entry->name);
}

static int
on_enter(void *data, const struct walk_entry *entry)
{
	struct search_task *s = data;

	if (s->ask->kind != KODA__SEARCH_KIND__SEARCH_TREE)
		return 0;
	return listing_enter(&s->listing, entry->path, entry->len, entry->depth, s->err) < 0
	    ? fail(s)
	    : 0;
}

static int
on_leave(void *data, const struct walk_entry *entry)
{
	struct search_task *s = data;

	if (s->ask->kind == KODA__SEARCH_KIND__SEARCH_TREE)
		listing_leave(&s->listing);
	return 0;
}

/* ---- one place ---- */

static int
tell_listing(struct search_task *s)
{
	for (size_t i = 0; i < s->listing.n; i++) {
		const struct listing_entry *e = &s->listing.v[i];
		Koda__FoundItem item;

		s->path = s->listing.text + e->name;
		s->path_len = e->len;
		item_begin(s, &item, KODA__FOUND_KIND__FOUND_ENTRY);
		item.has_type = item.has_size = item.has_depth = true;
		item.type = (Koda__FileType)e->type;
		item.size = e->size;
		item.depth = e->depth;
		item.has_files = item.type == KODA__FILE_TYPE__FILE_DIRECTORY;
		item.files = e->files;
		if (tell(s, &item) != 0)
			return s->failed ? -1 : 0;
	}
	s->sum.more |= s->listing.more;
	return 0;
}

static int
search_directory(struct search_task *s, struct koda_error *err)
{
	const struct walk_hooks hooks = { .data = s,
		.readable = readable,
		.enter = on_enter,
		.file = on_file,
		.leave = on_leave,
		.trouble = on_trouble };
	const struct walk_place place = { .fd = s->place->fd,
		.path = s->place->path,
		.parents = s->place->parents,
		.n_parents = s->place->n_parents,
		.in_repository = s->place->in_repository };
	struct walk_counts counts = { 0 };
	int r;

	listing_init(&s->listing, s->ask->max_depth, s->ask->limit - s->sum.found);
	r = walk(s->rules, &place, &hooks, &counts, err);
	s->sum.hidden += counts.hidden;
	if (r < 0 || s->failed)
		return -1;
	if (s->ask->kind == KODA__SEARCH_KIND__SEARCH_TREE)
		r = tell_listing(s);
	listing_done(&s->listing);
	return r < 0 ? -1 : 0;
}

/* Searches a file that was requested by name: no ignore rule applies to it. */
static int
search_file(struct search_task *s)
{
	struct koda_error *err = s->err;
	int r;

	s->path = "";
	s->path_len = 0;
	if (s->ask->kind == KODA__SEARCH_KIND__SEARCH_GREP) {
		grep_open_file(s, s->place->fd, &s->place->st, true);
		return s->failed ? -1 : 0;
	}
	if (s->ask->kind == KODA__SEARCH_KIND__SEARCH_GLOB) {
		glob_file(s, -1, "", &s->place->st);
		return s->failed ? -1 : 0;
	}
	listing_init(&s->listing, s->ask->max_depth, s->ask->limit - s->sum.found);
	s->sum.files++;
	if (listing_file(&s->listing, "", 0, 0, KODA__FILE_TYPE__FILE_REGULAR,
		(uint64_t)s->place->st.st_size, err) < 0)
		return -1;
	r = tell_listing(s);
	listing_done(&s->listing);
	return r;
}

static int
search_places(struct search_task *s, struct koda_error *err)
{
	for (size_t i = 0; i < s->places.n && !s->sum.more; i++) {
		s->place = &s->places.v[i];
		if (s->place->fd < 0)
			tell_trouble(s, "", 0, s->place->why.message);
		else if ((S_ISDIR(s->place->st.st_mode) ? search_directory(s, err)
							: search_file(s)) < 0)
			return -1;
		if (s->failed)
			return -1;
	}
	return wants(s, KODA_SEARCH_NEWEST) ? tell_newest(s) : 0;
}

/* ---- the request ---- */

/*
 * Returns fields of the request as strings: valid_request() has checked that they have no NUL.
 * In the message the next field follows directly, so each is copied, into the arena, with a NUL.
 * NULL with *err set.
 */
static const char *const *
strings_of(struct search_task *s, size_t n, const ProtobufCBinaryData *v, struct koda_error *err)
{
	const char **ret = session_alloc(s->ses, (n + 1) * sizeof(*ret), err);

	for (size_t i = 0; ret != NULL && i < n; i++) {
		char *text = session_alloc(s->ses, v[i].len + 1, err);

		if (text == NULL)
			return NULL;
		if (v[i].len > 0)
			memcpy(text, v[i].data, v[i].len);
		ret[i] = text;
	}
	return ret;
}

static int
compile(struct search_task *s, struct koda_error *err)
{
	const Koda__Search *ask = s->ask;
	struct walk_rules_options rules = { .flags = (unsigned)ask->flags,
		.n_globs = ask->n_glob,
		.n_types = ask->n_type,
		.n_types_not = ask->n_type_not,
		.global = s->places.global,
		.global_len = s->places.global_len,
		/* The sums of a tree include everything below. */
		.max_depth = ask->kind == KODA__SEARCH_KIND__SEARCH_TREE ? 0 : ask->max_depth };
	struct grep_options grep = { .flags = (unsigned)ask->flags,
		.n_patterns = ask->n_pattern,
		.before = ask->before,
		.after = ask->after,
		.max_per_file = ask->max_per_file,
		.max_columns = ask->max_columns };

	if ((rules.globs = strings_of(s, ask->n_glob, ask->glob, err)) == NULL ||
	    (rules.types = strings_of(s, ask->n_type, ask->type, err)) == NULL ||
	    (rules.types_not = strings_of(s, ask->n_type_not, ask->type_not, err)) == NULL ||
	    (grep.patterns = strings_of(s, ask->n_pattern, ask->pattern, err)) == NULL)
		return -1;
	s->rules = walk_rules_new(&rules, err);
	if (s->rules == NULL)
		return -1;
	if (ask->kind != KODA__SEARCH_KIND__SEARCH_GREP)
		return 0;
	/* The watchdog's message must not overtake a reply: the one to the Seal is still queued. */
	if (session_flush(s->ses, err) < 0)
		return -1;
	watchdog_compiling(s->ses);
	s->grep = grep_new(&grep, err);
	if (s->grep == NULL) {
		watchdog_stop();
		return -1;
	}
	watchdog_watch(s->ses, s->grep);
	return 0;
}

int
op_search(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	cleanup(search_done) struct search_task s = { .ses = ses, .ask = req->search, .err = err };
	Koda__Searched *sum = session_alloc(ses, sizeof(*sum), err);

	/* One search per process, however it ends: whatever a pattern did to the process ends
	 * with it. */
	ses->ended = true;
	koda__searched__init(&s.sum);
	newest_init(&s.newest, s.ask->limit);
	if (sum == NULL || places_open(ses, s.ask, &s.places, err) < 0 ||
	    /* The pattern is the first input made to do harm: compile it only when confined. */
	    places_lock(&s.places, err) < 0 || compile(&s, err) < 0)
		return -1;
	s.sink = malloc(sizeof(*s.sink));
	if (s.sink == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "search");
	sink_init(s.sink, ses);
	if (search_places(&s, err) < 0 || sink_flush(s.sink, err) < 0)
		return -1;
	*sum = s.sum;
	rep->result_case = KODA__REPLY__RESULT_SEARCHED;
	rep->searched = sum;
	return 0;
}
