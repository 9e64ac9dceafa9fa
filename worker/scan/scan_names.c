/*
 * deny_write_names in a scan, and which directories a command has just made.
 *
 * Matching places of the first scan are protected like any other. Those that appear later are taken
 * away, unless they are below a directory that the same command made: a clone, or an unpacked
 * package. There they stay and are reported, once for each such directory.
 *
 * A directory is new as long as the command that made it may still run (an era). A moved directory
 * is not new: its watch shows that. Nor is one that took the place of another: the scan keeps the
 * paths that went away in this era to detect that. If events were lost, nothing counts as new.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/scan/linked.h"
#include "worker/scan/scan_state.h"

/* Paths per era; a megabyte for each set. A command that exceeds this is throwing a tree away, and
 * then nothing counts as new. */
#define PATHS_MAX (64u << 10)
/* Moved directories per era, each of which is looked up among all nodes. A person or a tool moves
 * fewer. */
#define MOVED_TO_MAX 256
/*
 * stage2 takes 4,096 mounts (STAGE2_MOUNTS_MAX), of which rules and repositories need some. A place
 * beyond this limit is compared like a package: a tree full of matching names, which a command can
 * make, must not prevent the next command from running.
 */
#define NAMED_MOUNTS_MAX 2500
/* Limits for the content of a place that is not mounted. Settings of an editor have less. */
#define DEEP_ENTRIES_MAX 4096
#define DEEP_MAX         16
/* Reported changes per comparison. A user does not review more file by file. */
#define TOLD_MAX 64

bool
scan_names_begin(struct scan *sc)
{
	const struct policy_list *denied = &sc->who->policy->list[KODA_DENY_WRITE_NAMES];

	sc->era = 1;
	sc->rules.v = calloc(denied->n + 1, sizeof(*sc->rules.v));
	if (sc->rules.v == NULL)
		return false;
	if (denied->n > 0)
		memcpy(sc->rules.v, denied->v, denied->n * sizeof(*sc->rules.v));
	sc->rules.n = sc->n_denied = denied->n;
	return true;
}

int
scan_add_told(struct scan *sc, const char *name, struct koda_error *err)
{
	char **grown;

	if (names_check(name, err) < 0)
		return -1;
	if (sc->rules.n >= POLICY_RULES_MAX || sc->by_name != NULL)
		return err_set(err, KODA_INVALID, 0, "too many names, or too late");
	grown = reallocarray(sc->rules.v, sc->rules.n + 1, sizeof(*grown));
	if (grown == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
	sc->rules.v = grown;
	grown[sc->rules.n] = strdup(name);
	if (grown[sc->rules.n] == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "scan");
	sc->rules.n++;
	return 0;
}

int
scan_names_ready(struct scan *sc)
{
	if (sc->by_name == NULL)
		sc->by_name = names_index_new(&sc->rules);
	return sc->by_name != NULL ? 0 : -1;
}

static void
came_done(struct scan *sc)
{
	for (size_t i = 0; i < sc->n_came; i++)
		free(sc->came[i].path);
	free(sc->came);
	sc->came = NULL;
	sc->n_came = sc->came_size = 0;
}

void
scan_names_done(struct scan *sc)
{
	names_index_free(sc->by_name);
	for (size_t i = sc->n_denied; i < sc->rules.n; i++)
		free(sc->rules.v[i]);
	free(sc->rules.v);
	free(sc->last_dir);
	free(sc->made.slot);
	free(sc->gone.slot);
	came_done(sc);
}

bool
is_vendored(const struct scan *sc, const char *path)
{
	for (size_t i = 0; i < sc->n_roots; i++) {
		/* The path of the project itself does not matter. */
		if (path_is_inside(path, sc->root[i].path))
			return names_is_vendored(path + strlen(sc->root[i].path));
	}
	return false;
}

/* Places inside such a place are not reported separately. */
struct names_found
named_in(const struct scan *sc, int fd, const struct dirent64 *e, const char *path, size_t len,
    uint32_t idx)
{
	const struct names_found none = { 0 };
	struct names_found found;
	unsigned char type = e->d_type;
	struct stat st;

	if (sc->node[idx].inside)
		return none;
	found = names_index_find(sc->by_name, path, len, e->d_name);
	if (found.rule == NULL || found.last)
		return found;
	if (found.at >= sc->n_denied)
		return none;
	if (type == DT_UNKNOWN && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		type = IFTODT(st.st_mode);
	return type == DT_LNK || (type != DT_DIR && found.parts > 1) ? found : none;
}

bool
take_mounts(struct scan *sc, const char *path)
{
	const size_t dir_len = (size_t)(strrchr(path, '/') - path);
	uint32_t cost = 1;

	/* Places in one directory come one after the other, and share the mounts above them. */
	if (sc->last_dir == NULL || strlen(sc->last_dir) != dir_len ||
	    memcmp(sc->last_dir, path, dir_len) != 0) {
		for (size_t i = 0; i < sc->n_roots; i++) {
			const size_t len = strlen(sc->root[i].path);

			if (!path_is_inside(path, sc->root[i].path))
				continue;
			for (const char *p = path + len; p < path + dir_len; p++)
				cost += *p == '/';
			break;
		}
	}
	if (sc->mounts + cost > NAMED_MOUNTS_MAX)
		return false;
	sc->mounts += cost;
	free(sc->last_dir);
	sc->last_dir = strndup(path, dir_len);
	return true;
}

/* ---- appeared and removed paths ---- */

static uint64_t
digest(const char *text)
{
	uint64_t h = 14695981039346656037u;

	/* On a file system that ignores case, the same path may come back spelled differently. */
	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)(*text >= 'A' && *text <= 'Z' ? *text | 0x20 : *text)) *
		    1099511628211u;
	return h | 1;
}

static uint64_t *
slot_of(const struct path_set *set, uint64_t value)
{
	size_t i = (size_t)(value ^ value >> 32) & (set->size - 1);

	while (set->slot[i] != 0 && set->slot[i] != value)
		i = (i + 1) & (set->size - 1);
	return &set->slot[i];
}

static bool
set_has(const struct path_set *set, const char *path)
{
	return set->n > 0 && *slot_of(set, digest(path)) != 0;
}

/* Returns false if there is no room. */
static bool
set_add(struct path_set *set, uint64_t value)
{
	uint64_t *at;

	if (set->n >= PATHS_MAX)
		return false;
	if (2 * (set->n + 1) > set->size) {
		struct path_set more = { .size = set->size == 0 ? 64 : 2 * set->size };

		more.slot = calloc(more.size, sizeof(*more.slot));
		if (more.slot == NULL)
			return false;
		for (size_t i = 0; i < set->size; i++) {
			if (set->slot[i] != 0)
				*slot_of(&more, set->slot[i]) = set->slot[i];
		}
		more.n = set->n;
		free(set->slot);
		*set = more;
	}
	at = slot_of(set, value);
	set->n += *at == 0;
	*at = value;
	return true;
}

/* Directories that package managers fill are judged by their known content, not by paths, because
 * they are replaced all the time. */
static bool
path_of(struct scan *sc, uint32_t idx, const char *name, char path[PATH_LEN_MAX + 1])
{
	if (sc->unsure || sc->node[idx].vendored)
		return false;
	if (node_path(sc, idx, name, path) > 0)
		return true;
	sc->unsure = true;
	return false;
}

void
note_made(struct scan *sc, uint32_t idx, const char *name)
{
	char path[PATH_LEN_MAX + 1];

	if (path_of(sc, idx, name, path) && !set_has(&sc->gone, path) &&
	    !set_add(&sc->made, digest(path)))
		sc->unsure = true;
}

/* A directory can be moved over an empty one; no other event reports that while a process has the
 * empty one open. */
void
note_moved_to(struct scan *sc, uint32_t idx, const char *name)
{
	char path[PATH_LEN_MAX + 1];

	if (!path_of(sc, idx, name, path))
		return;
	if (++sc->moved_to > MOVED_TO_MAX)
		sc->unsure = true;
	for (uint32_t i = 0; i < sc->n_nodes && !sc->unsure; i++) {
		const struct node *n = &sc->node[i];

		if (n->parent == idx && n->name != NULL && n->born != sc->era &&
		    strcmp(n->name, name) == 0 && !set_add(&sc->gone, digest(path)))
			sc->unsure = true;
	}
}

void
note_gone(struct scan *sc, uint32_t idx, const char *name)
{
	char path[PATH_LEN_MAX + 1];

	if (path_of(sc, idx, name, path) && !set_has(&sc->made, path) &&
	    !set_add(&sc->gone, digest(path)))
		sc->unsure = true;
}

static bool
took_a_place(struct scan *sc, uint32_t idx)
{
	char path[PATH_LEN_MAX + 1];

	if (sc->node[idx].vendored)
		return false;
	return !path_of(sc, idx, NULL, path) || set_has(&sc->gone, path);
}

uint32_t
made_with(struct scan *sc, uint32_t idx, size_t up)
{
	uint32_t top = NONE;

	for (; up > 0 && idx != NONE; up--)
		idx = sc->node[idx].parent;
	/* Without watches, no directory is recognized from one comparison to the next. */
	if (!sc->watched || !sc->started)
		return NONE;
	for (; idx != NONE && sc->node[idx].born == sc->era; idx = sc->node[idx].parent) {
		if (took_a_place(sc, idx))
			return NONE;
		top = idx;
	}
	return top;
}

void
end_era(struct scan *sc)
{
	sc->era++;
	sc->unsure = false;
	sc->moved_to = 0;
	free(sc->made.slot);
	free(sc->gone.slot);
	sc->made = sc->gone = (struct path_set){ 0 };
}

/* ---- places that came with a directory ---- */

/* There are many packages: report the directory that holds them all. */
static uint32_t
reported_as(const struct scan *sc, uint32_t made)
{
	while (sc->node[made].vendored && sc->node[made].parent != NONE &&
	    sc->node[sc->node[made].parent].vendored)
		made = sc->node[made].parent;
	return made;
}

void
note_came(struct scan *sc, uint32_t made, const char *path)
{
	const char *rule = names_rule_at(&sc->who->policy->list[KODA_DENY_WRITE_NAMES], path);
	char top[PATH_LEN_MAX + 1];
	struct came *c = NULL;

	if (node_path(sc, reported_as(sc, made), NULL, top) == 0)
		return;
	for (size_t i = 0; i < sc->n_came && c == NULL; i++) {
		if (strcmp(sc->came[i].path, top) == 0)
			c = &sc->came[i];
	}
	if (c == NULL) {
		if (scan_grow(&sc->came, sc->n_came, &sc->came_size, sizeof(*sc->came)) < 0) {
			sc->cut = true;
			return;
		}
		c = &sc->came[sc->n_came];
		*c = (struct came){ .path = strdup(top) };
		if (c->path == NULL) {
			sc->cut = true;
			return;
		}
		sc->n_came++;
	}
	c->n++;
	for (size_t i = 0; i < N_ELEMENTS(c->rule) && rule != NULL && c->rule[i] != rule; i++) {
		if (c->rule[i] == NULL) {
			c->rule[i] = rule;
			break;
		}
	}
}

void
tell_came(struct scan *sc)
{
	for (size_t i = 0; i < sc->n_came; i++) {
		const struct came *c = &sc->came[i];
		char detail[N_ELEMENTS(c->rule) * (NAMES_RULE_MAX + 2) + 32];
		int n = snprintf(detail, sizeof(detail), "%u:", c->n);

		for (size_t k = 0; k < N_ELEMENTS(c->rule) && c->rule[k] != NULL; k++)
			n += snprintf(detail + n, sizeof(detail) - (size_t)n, "%s %s",
			    k > 0 ? "," : "", c->rule[k]);
		scan_tell(sc, KODA__CHANGE_KIND__CHANGE_CAME, WHAT_NAME, c->path, NULL, detail);
	}
	came_done(sc);
}

/* ---- changes that are only reported ---- */

enum seen
found_told(struct scan *sc, const char *path, const struct stat *st, struct known *k, uint32_t made)
{
	struct stamp stamp;

	stamp_of(st, &stamp);
	if (k != NULL && same_stamp(WHAT_TOLD, &k->stamp, &stamp))
		return SEEN_OPEN;
	/* Files that this worker finds at its start are known, and those in a clone or a package
	 * are part of it. */
	if (sc->started && made == NONE && !is_vendored(sc, path)) {
		if (++sc->n_told <= TOLD_MAX)
			scan_tell(sc, KODA__CHANGE_KIND__CHANGE_TOLD, WHAT_TOLD, path, NULL, NULL);
		else
			sc->cut = true;
	}
	k = remember(sc, WHAT_TOLD, path, &stamp, true);
	if (k != NULL)
		k->guarded = true;
	return SEEN_OPEN;
}

/* ---- content of a place that is not mounted ---- */

static uint64_t
mix(uint64_t h, uint64_t value)
{
	h ^= value;
	h *= 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t
time_ns(const struct timespec *at)
{
	return (uint64_t)at->tv_sec * 1000000000 + (uint64_t)at->tv_nsec;
}

struct deep {
	unsigned entries;
	bool content; /* compute the checksum of contents, too */
};

/* The sums do not depend on the order of the entries. */
static uint64_t
deep(int dir_fd, const char *name, struct deep *how, unsigned depth, uint64_t *content)
{
	cleanup_close int fd =
	    openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup(closedir_at) DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	uint64_t sum = 0;
	struct dirent *e;

	*content = 0;
	if (d == NULL)
		return (uint64_t)errno;
	fd = -1;
	while ((e = readdir(d)) != NULL && ++how->entries <= DEEP_ENTRIES_MAX) {
		uint64_t h = digest(e->d_name), in = 0, by_content;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		h = mix(mix(h, st.st_ino), st.st_mode);
		if (S_ISDIR(st.st_mode)) {
			if (depth < DEEP_MAX)
				h = mix(h, deep(dirfd(d), e->d_name, how, depth + 1, &in));
			by_content = mix(h, in);
		} else {
			h = mix(h, (uint64_t)st.st_size);
			h = mix(h, time_ns(&st.st_mtim));
			if (how->content)
				in = linked_sum(dirfd(d), e->d_name, &st);
			by_content = mix(h, in);
			h = mix(h, time_ns(&st.st_ctim));
		}
		*content += by_content;
		sum += h;
	}
	return sum;
}

uint64_t
deep_of(int dir_fd, const char *name, const struct stat *st, uint64_t *content)
{
	struct deep how = { .content = content != NULL };
	uint64_t sum = 0, by_content = 0;

	if (S_ISDIR(st->st_mode))
		sum = deep(dir_fd, name, &how, 0, &by_content);
	else if (content != NULL)
		by_content = linked_sum(dir_fd, name, st);
	if (content != NULL)
		*content = by_content | 1;
	return sum | 1;
}

/* ---- for a session without commands ---- */

int
scan_learn_led(struct scan *sc, struct koda_error *err)
{
	const struct policy_list *rules = &sc->who->policy->list[KODA_DENY_WRITE_WITHIN_ALLOW];
	const struct policy_list *roots = &sc->who->policy->list[KODA_ALLOW_WRITE];

	for (size_t i = 0; i < roots->n; i++) {
		if (scan_add_root(sc, roots->v[i], err) < 0)
			return -1;
	}
	sc->phase = PHASE_LEARN;
	for (size_t i = 0; i < rules->n; i++) {
		const char *name = strrchr(rules->v[i], '/') + 1;
		cleanup_close int fd = -1;
		struct stamp stamp;
		struct stat st;

		if (!scan_covers(sc, rules->v[i]))
			continue;
		fd = resolve_canonical_dir(sc->res, rules->v[i], (size_t)(name - rules->v[i]) - 1);
		if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		stamp_of(&st, &stamp);
		remember(sc, WHAT_RULE, rules->v[i], &stamp, true);
	}
	find_all_targets(sc);
	sc->phase = PHASE_JUDGE;
	return 0;
}

const char *
scan_led(const struct scan *sc, const char *path, bool below, enum access_rule *ret)
{
	for (size_t i = 0; i < sc->n_guards; i++) {
		const struct guard *g = &sc->guard[i];

		if (g->what == WHAT_RULE ||
		    (!path_is_inside(path, g->path) && !(below && path_is_inside(g->path, path))))
			continue;
		*ret = g->what == WHAT_LED ? ACCESS_RULE_LINK : ACCESS_RULE_GIT_CONFIG;
		return g->path;
	}
	return NULL;
}

const char *
scan_guarded(const struct scan *sc, size_t i)
{
	for (size_t k = 0; k < sc->n_guards; k++)
		if (sc->guard[k].what != WHAT_RULE && i-- == 0)
			return sc->guard[k].path;
	return NULL;
}
