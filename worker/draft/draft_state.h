/* SPDX-License-Identifier: Apache-2.0 */
/* Where a walk of a draft is, and what it found at the last name. See draft_walk.h. */
#ifndef KODA_WORKER_DRAFT_DRAFT_STATE_H
#define KODA_WORKER_DRAFT_DRAFT_STATE_H

#include "shared/rules/names.h"
#include "worker/draft/draft_names.h"
#include "worker/draft/upper.h"
#include "worker/session.h"

/* The levels whose descriptors stay open. Below them a directory is left by "..", and must then be
 * the one that was entered: a role has fewer descriptors (fds_max) than a draft may have levels. */
#define DRAFT_FDS_KEPT 24
/* Bytes of a file that are read at once. */
#define DRAFT_BUFFER (64u << 10)

struct draft_id {
	dev_t dev;
	ino_t ino;
};

struct draft_refusal {
	char rule[64];
	char reason[KODA_MESSAGE_MAX];
};

/* Which of the names that make a git directory are there, as bits of draft_shape.c. */
struct draft_shape {
	bool known;
	uint32_t project, upper;
};

/* A directory that is being walked. */
struct draft_level {
	int upper, lower; /* -1: closed meanwhile, or (lower) not in the project */
	struct draft_id upper_id, lower_id;
	bool in_project;
	bool opaque;       /* what is in the project's is deleted, except the names in the upper */
	int64_t opaque_ns; /* since when; 0: unknown */
	/* The project's directory changed since: what is in it need not be what the draft hid. */
	bool renewed;
	bool below_refs; /* of a git directory */
	bool in_repo;    /* that the draft makes, and that may be applied */
	size_t len;      /* of its path */
	struct draft_names names;
	size_t next;
	bool is_refused; /* the draft makes the directory, and may not */
	struct draft_refusal refusal;
	struct draft_shape shape;
	/* The innermost git directory that it is, or is in: one more than its level. 0: none. */
	bool git_known;
	size_t git;
};

/* A name that is being looked at. */
struct draft_name {
	const char *name;
	struct upper up;
	bool in_project;
	struct upper_stat low; /* if it is in the project */
	int fd;                /* of a directory in the upper; -1: none, or it cannot be read */
};

/* Two sentences about what a file hides (worker/scan/hidden.h). */
#define DRAFT_NOTE_SIZE 544

struct draft_change {
	Koda__DraftKind kind;
	bool has_before, has_after, conflict, is_refused;
	uint64_t entries; /* below a directory that is deleted */
	struct draft_refusal refusal;
	char note[DRAFT_NOTE_SIZE]; /* what a person should know about it, or "" */
};

/* What a look at everything in a directory found. */
struct draft_ahead {
	bool refused; /* something at that path is */
	bool cut;     /* there is too much in it */
	char path[PATH_LEN_MAX + 1];
	struct draft_refusal refusal;
};

struct draft_walk {
	struct session *ses;
	size_t layer;
	char path[PATH_LEN_MAX + NAME_LEN_MAX + 2]; /* of the last name */
	uint64_t left;                              /* names that may still be read */
	bool cut;
	int64_t begun_ns; /* when the layer was made; 0: unknown */
	/* The changes of the last name, 0 to 2, and what it is. */
	struct draft_change change[2];
	size_t n_changes;
	struct draft_name name;
	char target_before[PATH_LEN_MAX + 1], target_after[PATH_LEN_MAX + 1];
	/* The last change that was reported; "": none. */
	char last[PATH_LEN_MAX + 1];
	Koda__DraftKind last_kind;
	_Alignas(16) uint8_t buf[2][DRAFT_BUFFER];
	struct koda_error scratch;
	struct names_index *names; /* of deny_write_names; NULL: not made yet */
	bool makes_repo;           /* the last name is a repository, all of which may be applied */
	uint64_t ahead_left;       /* names that may still be read to find that out */
	/* Goes through the directory that was looked at, in a walk of its own, as far as the first
	 * change that is refused, apart from locks of git. Returns 0, or -1 with *err set. */
	int (*look_ahead)(struct draft_walk *w, struct draft_ahead *ret, struct koda_error *err);
	size_t n_levels;
	struct draft_level level[DRAFT_DEPTH_MAX];
};

/* The directory that w->name is in. */
static inline struct draft_level *
draft_walk_top(struct draft_walk *w)
{
	return &w->level[w->n_levels - 1];
}

#endif
