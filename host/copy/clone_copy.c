/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/clone_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/caches/cache_tree.h"
#include "host/copy/confined.h"
#include "host/copy/tree.h"
#include "host/draft/store.h"
#include "host/machine/state.h"
#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define STATUS_TOO_LARGE 3 /* worker/clone/clone.h */
#define UPPER            "upper"
#define GONE             "gone"
#define NUMBER_SIZE      24
#define FIXED_WORDS      7 /* the program, "clone", "make", FROM, INTO, FILES, BYTES */

static void
free_confined(struct confined **c)
{
	confined_free(*c);
}

/* ---- making ---- */

/* Names of the project as the program wants them: below the root. Returns NULL with *err set. */
static const char *
below_root(const struct koda_session *ses, const char *path, struct koda_error *err)
{
	const char *below = path;

	if (path[0] == '/' && path_is_below(path, ses->root))
		below = path + strlen(ses->root) + (ses->root[1] != '\0');
	if (below[0] != '\0' && below[0] != '/')
		return below;
	err_set(err, KODA_INVALID, 0, "leave out of a clone: '%.300s' is not below the root", path);
	return NULL;
}

/* Reads the numbers of a line "WORD NUMBER NUMBER ..." of the program. */
static bool
take_numbers(const char *line, const char *word, uint64_t *ret, size_t n)
{
	size_t len = strlen(word);

	if (strncmp(line, word, len) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		char *end;

		if (line[len] != ' ')
			return false;
		line += len + 1;
		ret[i] = strtoull(line, &end, 10);
		len = (size_t)(end - line);
		if (len == 0)
			return false;
	}
	return true;
}

struct progress_of {
	const struct koda_copy_options *o;
};

static bool
on_line(void *data, const char *line)
{
	const struct koda_copy_options *o = ((const struct progress_of *)data)->o;
	uint64_t v[2];

	if (o->progress == NULL || !take_numbers(line, "at", v, N_ELEMENTS(v)))
		return true;
	return o->progress(o->data, v[0], v[1]) == 0;
}

static int
run_make(const struct koda_session *ses, const struct koda_copy_options *o,
    const struct copy_record *r, struct confined *c, struct koda_error *err)
{
	struct progress_of progress = { o };
	char files[NUMBER_SIZE], bytes[NUMBER_SIZE];
	cleanup_free const char **argv = NULL;
	cleanup_free char *said = NULL;
	size_t n = 0;
	int status;

	while (o->leave_out != NULL && o->leave_out[n] != NULL)
		n++;
	argv = calloc(FIXED_WORDS + n + 1, sizeof(*argv));
	if (argv == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "copy");
	snprintf(files, sizeof(files), "%" PRIu64,
	    o->max_files != 0 ? o->max_files : (uint64_t)CLONE_FILES_MAX);
	snprintf(bytes, sizeof(bytes), "%" PRIu64,
	    o->max_bytes != 0 ? o->max_bytes : CLONE_BYTES_MAX);
	memcpy(argv,
	    (const char *const[FIXED_WORDS]){ ses->worker_path, "clone", "make", ses->root, r->tree,
		files, bytes },
	    FIXED_WORDS * sizeof(*argv));
	for (size_t i = 0; i < n; i++) {
		argv[FIXED_WORDS + i] = below_root(ses, o->leave_out[i], err);
		if (argv[FIXED_WORDS + i] == NULL)
			return -1;
	}
	status = confined_run_program(c, argv, r->busy_fd, on_line, &progress, &said, err);
	if (status == STATUS_TOO_LARGE)
		return err_set(err, KODA_TOO_LARGE, 0,
		    "'%.300s' is too large to clone (%s files, %s bytes): leave directories out, "
		    "allow more, or use a worktree or a draft",
		    ses->root, files, bytes);
	return status == 0 ? 0 : -1;
}

int
clone_add(const struct koda_session *ses, const struct koda_copy_options *o, struct copy_record *r,
    struct koda_error *err)
{
	cleanup(free_confined) struct confined *c = confined_for_clone(ses, r->tree, err);

	if (c == NULL || run_make(ses, o, r, c, err) < 0)
		return -1;
	return copy_record_ready(r, "", err);
}

/* ---- collecting ---- */

static int
open_clone(const struct copy_record *r, struct koda_error *err)
{
	cleanup_close int fd = state_open_directory(r->tree, err);
	int again = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || again >= 0
	    ? again
	    : err_set(err, KODA_IO, errno, "open the clone at '%.300s'", r->tree);
}

/* What a collection that was interrupted has left. */
static int
empty_upper(int clone, struct koda_error *err)
{
	cleanup_close int fd =
	    openat(clone, UPPER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 ? errno == ENOENT : cache_tree_empty(fd, CACHE_NO_DEADLINE) >= 0)
		return 0;
	return err_set(err, KODA_IO, errno, "prepare a clone for being collected");
}

/* Returns whether anything was changed, or -1 with *err set. */
static int
run_collect(const struct koda_session *ses, const struct copy_record *r, struct koda_error *err)
{
	cleanup(free_confined) struct confined *c = confined_for_clone(ses, r->tree, err);
	const char *const argv[] = { ses->worker_path, "clone", "collect", r->tree, NULL };
	cleanup_free char *said = NULL;
	uint64_t n;

	if (c == NULL || confined_run_program(c, argv, r->busy_fd, NULL, NULL, &said, err) != 0)
		return -1;
	if (!take_numbers(said, "done", &n, 1))
		return err_set(err, KODA_IO, 0, "it is not known what was changed in the clone");
	return n > 0;
}

/* Is there the draft that the record names? */
static int
has_draft(const struct koda_session *ses, const struct copy_record *r, struct koda_error *err)
{
	struct draft d;
	struct koda_error why;

	if (r->draft == NULL)
		return 0;
	if (draft_open(ses->state, r->root, r->draft, &d, &why) == 0) {
		draft_close(&d);
		return 1;
	}
	if (why.code == KODA_INVALID)
		return 0;
	if (why.code == KODA_CONFLICT)
		return 1;
	*err = why;
	return -1;
}

static int
on_named(void *data, const char *id, struct koda_error *err)
{
	return copy_record_collected(data, id, err);
}

int
clone_collect(const struct koda_session *ses, struct copy_record *r, struct koda_error *err)
{
	cleanup_close int clone = -1;
	int there = has_draft(ses, r, err);

	if (there != 0)
		return there;
	clone = open_clone(r, err);
	if (clone < 0 || empty_upper(clone, err) < 0)
		return -1;
	there = run_collect(ses, r, err);
	if (there <= 0)
		return there;
	return draft_make_of(ses->state, r->root, r->begun_ns, clone, UPPER, GONE, on_named, r,
		   err) < 0
	    ? -1
	    : 1;
}

int
clone_forget(const struct koda_session *ses, const struct copy_record *r, struct koda_error *err)
{
	struct draft d;
	int r0 = has_draft(ses, r, err);

	if (r0 <= 0)
		return r0;
	if (draft_open(ses->state, r->root, r->draft, &d, err) < 0)
		return -1;
	if (draft_discard(ses->state, &d, err) == 0)
		return 0;
	draft_close(&d);
	return -1;
}
