/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* SipHash-2-4 (Aumasson and Bernstein): without the secret key an attacker cannot find two trees
 * with the same sum. */
struct sip {
	uint64_t v[4];
	uint64_t tail; /* bytes that do not fill a word yet */
	uint64_t len;
};

static uint64_t keys[2][2];

static uint64_t
turn(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void
sip_rounds(uint64_t v[4], unsigned n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = turn(v[1], 13) ^ v[0];
		v[3] = turn(v[3], 16) ^ v[2];
		v[0] = turn(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = turn(v[1], 17) ^ v[2];
		v[3] = turn(v[3], 21) ^ v[0];
		v[2] = turn(v[2], 32);
	}
}

static void
sip_word(struct sip *s, uint64_t word)
{
	s->v[3] ^= word;
	sip_rounds(s->v, 2);
	s->v[0] ^= word;
}

static void
sip_begin(struct sip *s, const uint64_t key[2])
{
	*s = (struct sip){ .v = { key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
			       key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573 } };
}

static void
sip_add(struct sip *s, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		s->tail |= (uint64_t)p[i] << (8 * (s->len % 8));
		if (++s->len % 8 == 0) {
			sip_word(s, s->tail);
			s->tail = 0;
		}
	}
}

static uint64_t
sip_end(struct sip *s)
{
	sip_word(s, s->tail | s->len << 56);
	s->v[2] ^= 0xff;
	sip_rounds(s->v, 4);
	return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

struct tree_walk {
	struct tree_state *state;
	dev_t dev;
	unsigned left;
};

/* Adds the entry's hash to a sum, so that the order in which a directory returns its entries
 * does not matter. */
static void
add(struct tree_walk *walk, ino_t dir, const char *name, const struct stat *st)
{
	const uint64_t facts[] = {
		dir,
		st->st_ino,
		st->st_mode,
		(uint64_t)st->st_size,
		(uint64_t)st->st_ctim.tv_sec,
		(uint64_t)st->st_ctim.tv_nsec,
		(uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec,
	};

	for (size_t i = 0; i < 2; i++) {
		struct sip s;

		sip_begin(&s, keys[i]);
		sip_add(&s, facts, sizeof(facts));
		sip_add(&s, name, strlen(name));
		walk->state->sum[i] += sip_end(&s);
	}
}

static bool
is_entry(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Takes ownership of fd. A directory that may not be read, or has gone meanwhile, counts only by
 * its own metadata. */
static bool
look_below(struct tree_walk *walk, int fd, ino_t dir, unsigned depth)
{
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	bool ok = true;
	struct dirent *e;

	if (d == NULL) {
		if (fd >= 0)
			close(fd);
		return true;
	}
	while (ok && (e = readdir(d)) != NULL) {
		struct stat st;

		if (!is_entry(e->d_name) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (walk->left-- == 0 || depth == TREE_DEPTH_MAX) {
			ok = false;
			break;
		}
		add(walk, dir, e->d_name, &st);
		if (S_ISDIR(st.st_mode) && st.st_dev == walk->dev)
			ok = look_below(walk,
			    openat(dirfd(d), e->d_name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
			    st.st_ino, depth + 1);
	}
	closedir(d);
	return ok;
}

bool
tree_look(const char *root, struct tree_state *ret)
{
	struct tree_walk walk = { .state = ret, .left = TREE_ENTRIES_MAX };
	struct stat st;
	int fd;

	*ret = (struct tree_state){ 0 };
	if (keys[0][0] == 0 && getrandom(keys, sizeof(keys), 0) != (ssize_t)sizeof(keys))
		return false;
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) < 0) {
		close(fd);
		return false;
	}
	walk.dev = st.st_dev;
	add(&walk, 0, "", &st);
	return look_below(&walk, fd, st.st_ino, 0);
}
