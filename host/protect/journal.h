/*
 * "A session was here and has not looked at what its commands left": on disk from before the first command until the last
 * comparison. So a host that was killed does not make what its command planted look like the user's own, neither to a session
 * of the same root nor to one of a directory above or below it, nor to one with other rules.
 *
 * A journal is of directories, not of a policy: a file for each directory that is looked through, one for the caches. It has
 * all that is needed to finish the comparison as its session would have done (host/protect/recovery). A lock says that its host
 * lives; one without is unfinished. It lies where no command sees it, and is checked all the same.
 */
#ifndef KODA_HOST_PROTECT_JOURNAL_H
#define KODA_HOST_PROTECT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "proto/journal.pb-c.h"
#include "shared/base/err.h"

struct policy;

/* The directories in which commands of a policy may write are as many, and the caches are one more. */
#define JOURNAL_FILES_MAX 64

struct journal_file {
	char name[64];
	int fd;    /* locked */
	char *dir; /* NULL: of the caches */
};

struct journal {
	int dir_fd; /* -1: there is none */
	struct journal_file file[JOURNAL_FILES_MAX];
	size_t n;
	bool
	    failed; /* something could not be written: an unfinished one is worth nothing any more */
};

#define JOURNAL_NONE                                                                               \
	{                                                                                          \
		.dir_fd = -1                                                                       \
	}

struct journal_input {
	const char *root;
	const struct policy *policy;
	const char *const *dir; /* looked through */
	size_t n_dirs;
	const char *const *cache;
	size_t n_caches;
	Koda__Place *const *place;
	size_t n_places;
};

/* Write all of it, before the first command. dir_fd is consumed. -1 with *err set: nothing is written. */
int journal_begin(struct journal *j, int dir_fd, const struct journal_input *in,
    struct koda_error *err);
/* What is known from now on; and a process that has to be gone before anything can be finished. */
void journal_add(struct journal *j, const Koda__Place *place);
void journal_process(struct journal *j, pid_t pid);
pid_t journal_parent_of(pid_t pid); /* 0: nobody knows */
/* compared: nothing that a command left is unseen. Else it stays. */
void journal_end(struct journal *j, bool compared);

/* ---- those of others ---- */

/* One that is unfinished. */
struct journal_found {
	const char *name;
	bool live; /* its host has the lock */
	time_t written;
	Koda__Journal *journal; /* NULL: it is damaged */
	Koda__Place **more;
	size_t n_more;
};

/*
 * Those that no live host holds. wanted: is this one to be finished? Then the processes of its host are waited for, and another host
 * that finishes it just now, and finish is called with it, locked: 1: it is finished and goes away, 0: it stays, -1: give up.
 * *ret_left: one that is wanted took too long, and was left alone.
 */
struct journal_visitor {
	bool (*wanted)(void *data, const struct journal_found *found);
	int (*finish)(void *data, const struct journal_found *found, struct koda_error *err);
	void *data;
};
int journal_visit(int dir_fd, const struct journal_visitor *by, bool *ret_left,
    struct koda_error *err);

/* All that are not finished, as they are just now, whether their hosts live or not. */
void journal_visit_all(int dir_fd, void (*fn)(void *data, const struct journal_found *found),
    void *data);

/* Is the name of a damaged one that of a journal of this root, or of a directory that it is in? */
bool journal_is_of(const char *name, const char *root);

#endif
