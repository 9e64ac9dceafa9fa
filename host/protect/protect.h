/*
 * What commands could plant, and what is to be kept from them: the places that the slot's worker found, the plan made
 * of them, and the comparison after commands. Everything that reads the project is done by the worker; here is only
 * what it reported, checked.
 */
#ifndef KODA_HOST_PROTECT_PROTECT_H
#define KODA_HOST_PROTECT_PROTECT_H

#include "host/sandbox/sandbox.h"

#define PROTECT_PLACES_MAX                                                                         \
	20000 /* of one slot; a tree with more repositories is not covered in full, and said so */
#define PROTECT_INTERVAL_MS 2000 /* between comparisons while a background command runs */
/* Between looks at what the host's git would use, while any command runs: they take less than a thousandth of a
 * processor, and a person's prompt runs git not much more often. */
#define PROTECT_LOOK_MS 50

struct protect *protect_new(void);
void protect_free(struct protect *p);
/* In a forked child: what is on disk is the parent's. */
void protect_abandon(struct protect *p);
/* Record what a comparison found as a violation. home: of the user, for the reason. */
void protect_tell(struct violations *to, const char *blame, const char *home,
    const Koda__Change *change);

/* Have the worker look (anew when it is another worker), plan, mount. Waits. The slot's worker is up. */
int protect_prepare(struct sandbox *sb, struct koda_error *err);

/* Have it compare. done is called, once, from the loop: what was found is in the slot's violations; new
 * places are mounted before the next command runs. blame: the command, for the violations. */
typedef void protect_done_fn(void *data);
enum protect_how {
	PROTECT_LOOK,   /* only what the host's git would use right now */
	PROTECT_GENTLY, /* everything, but git may be at work: what is harmless is left as it is */
	PROTECT_WHOLLY,
};
int protect_compare(struct sandbox *sb, enum protect_how how, const char *blame,
    protect_done_fn *done, void *data, struct koda_error *err);
/* The smallest of them, if nothing else is under way. */
void protect_look(struct sandbox *sb);
/* A command is about to begin: from now on there is something to look for, also for the next session if this one is killed. */
void protect_command_begins(struct sandbox *sb);
/* Has a command run here, ever? */
bool protect_had_commands(const struct sandbox *sb);
/*
 * The last comparison of a slot, after its commands have been ended: waits for it, at most until that time (ns). Builds
 * sandbox and worker again if they are gone. -1: it was not finished, and the next session has to do it.
 */
int protect_compare_last(struct sandbox *sb, uint64_t until, struct koda_error *err);
/* Whoever waits is gone. */
void protect_forget(struct sandbox *sb, void *data);

#endif
