/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/gitindex.h"

#include <string.h>
#include <sys/stat.h>

#include "shared/base/bytes.h"
#include "shared/base/cleanup.h"

#define HEADER       12
#define STAT_BYTES   40 /* times, device, inode, mode, owner, size */
#define MODE_AT      24
#define MODE_LINK    0160000
#define FLAG_VALID   0x8000 /* assume-unchanged */
#define FLAG_MORE    0x4000
#define FLAG_LENGTH  0x0fff
#define MORE_SKIP    0x4000 /* skip-worktree */
#define MORE_KNOWN   0x6000 /* and intent-to-add */
#define VARINT_BYTES 4      /* a path needs no more */

struct index_reader {
	const uint8_t *text;
	size_t end;  /* start of the checksum */
	size_t hash; /* length of an object name */
	unsigned version;
	uint32_t n;
	/* The blocks of entries that the extension lists; NULL if it is absent. */
	const uint8_t *blocks;
	size_t n_blocks;
	struct gitindex_base base;
};

static uint32_t
get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static unsigned
get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* Reads how many bytes to remove from the previous path, in git's own encoding of numbers. */
static bool
read_strip(const struct index_reader *r, size_t *at, size_t *ret)
{
	size_t value;

	if (*at >= r->end)
		return false;
	value = r->text[*at] & 0x7f;
	for (unsigned i = 1; (r->text[(*at)++] & 0x80) != 0; i++) {
		if (i == VARINT_BYTES || *at >= r->end)
			return false;
		value = ((value + 1) << 7) | (r->text[*at] & 0x7f);
	}
	*ret = value;
	return true;
}

/* Reads the path at *at and moves *at past the entry. In version 4 the path continues what is kept
 * of the previous one. begins: the entry is the first of a block. */
static bool
read_path(const struct index_reader *r, size_t start, unsigned flags, bool begins, size_t *at,
    char path[PATH_LEN_MAX + 1], size_t *len)
{
	const size_t said = flags & FLAG_LENGTH;
	const uint8_t *nul;
	size_t kept = 0, more;

	if (r->version == 4) {
		size_t strip;

		if (!read_strip(r, at, &strip) || strip > *len)
			return false;
		/* A program that starts reading at this block knows no previous path. */
		if (begins && strip != *len)
			return false;
		kept = *len - strip;
	}
	nul = *at < r->end ? memchr(r->text + *at, '\0', r->end - *at) : NULL;
	if (nul == NULL)
		return false;
	more = (size_t)(nul - (r->text + *at));
	if (kept + more > PATH_LEN_MAX)
		return false;
	memcpy(path + kept, r->text + *at, more);
	*len = kept + more;
	path[*len] = '\0';
	if (said != (*len < FLAG_LENGTH ? *len : FLAG_LENGTH))
		return false;
	*at += more + 1;
	/* In versions 2 and 3 each entry is padded to a multiple of eight bytes. */
	if (r->version < 4) {
		const size_t behind = start + ((*at - start + 7) & ~(size_t)7);

		if (behind > r->end)
			return false;
		for (; *at < behind; (*at)++) {
			if (r->text[*at] != '\0')
				return false;
		}
	}
	return true;
}

/* Reads all entries; fn may be NULL. Returns where they end, or 0 if they are invalid. */
static size_t
read_entries(const struct index_reader *r, gitindex_fn *fn, void *data)
{
	char path[PATH_LEN_MAX + 1];
	size_t at = HEADER, len = 0, block = 0;
	uint32_t in_block = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		const size_t start = at;
		struct gitindex_entry e = { .path = path };
		const bool begins = r->blocks != NULL && in_block == 0;
		unsigned flags, more = 0;
		uint32_t mode;

		if (begins) {
			/* A program that reads block by block must see the same entries. */
			if (block == r->n_blocks || get32(r->blocks + 8 * block) != at)
				return 0;
			in_block = get32(r->blocks + 8 * block++ + 4);
			if (in_block == 0)
				return 0;
		}
		in_block--;
		if (r->end - at < STAT_BYTES + r->hash + 2)
			return 0;
		mode = get32(r->text + at + MODE_AT);
		e.object = r->text + at + STAT_BYTES;
		e.object_len = r->hash;
		at += STAT_BYTES + r->hash;
		flags = get16(r->text + at);
		at += 2;
		if ((flags & FLAG_MORE) != 0) {
			if (r->version < 3 || r->end - at < 2)
				return 0;
			more = get16(r->text + at);
			at += 2;
			if ((more & ~(unsigned)MORE_KNOWN) != 0)
				return 0;
		}
		if (!read_path(r, start, flags, begins, &at, path, &len))
			return 0;
		e.len = len;
		/* git checks no other bits of the mode. */
		e.link = (mode & S_IFMT) == MODE_LINK;
		e.hidden = (flags & FLAG_VALID) != 0 || (more & MORE_SKIP) != 0;
		if (fn != NULL)
			fn(data, &e);
	}
	if (r->blocks != NULL && (block != r->n_blocks || in_block != 0))
		return 0;
	return at;
}

/* Reads what follows the entries, up to the checksum: extensions, each with its length. */
static bool
read_extensions(struct index_reader *r, size_t entries_end)
{
	size_t at = entries_end;

	while (at < r->end) {
		const uint8_t *name = r->text + at;
		size_t len;

		if (r->end - at < 8)
			return false;
		len = get32(name + 4);
		at += 8;
		if (r->end - at < len)
			return false;
		if (memcmp(name, "IEOT", 4) == 0) {
			if (r->blocks != NULL || len < 4 || (len - 4) % 8 != 0 ||
			    get32(name + 8) != 1)
				return false;
			r->blocks = name + 12;
			r->n_blocks = (len - 4) / 8;
		} else if (memcmp(name, "EOIE", 4) == 0) {
			if (len != 4 + r->hash || get32(name + 8) != entries_end)
				return false;
		}
		if (memcmp(name, "link", 4) == 0) {
			static const uint8_t none[GITINDEX_OBJECT_MAX];

			if (r->base.name != NULL || len < r->hash)
				return false;
			r->base.name = name + 8;
			r->base.len = memcmp(name + 8, none, r->hash) != 0 ? r->hash : 0;
		}
		at += len;
	}
	return at == r->end;
}

int
gitindex_parse(const uint8_t *text, size_t len, gitindex_fn *fn, void *data,
    struct gitindex_base *ret_base)
{
	static const size_t hashes[] = { 20, GITINDEX_OBJECT_MAX };
	struct index_reader good = { 0 };

	if (len < HEADER || len > GITINDEX_BYTES_MAX || memcmp(text, "DIRC", 4) != 0)
		return -1;
	/* Only the configuration says how long object names are. Exactly one length must make the
	 * index valid. */
	for (size_t i = 0; i < N_ELEMENTS(hashes); i++) {
		struct index_reader r = { .text = text,
			.hash = hashes[i],
			.version = get32(text + 4),
			.n = get32(text + 8) };
		size_t end;

		if (r.version < 2 || r.version > 4 || len < HEADER + r.hash)
			break;
		r.end = len - r.hash;
		end = read_entries(&r, NULL, NULL);
		if (end == 0 || !read_extensions(&r, end))
			continue;
		if (r.blocks != NULL && read_entries(&r, NULL, NULL) != end)
			continue;
		if (good.text != NULL)
			return -1;
		good = r;
	}
	if (good.text == NULL)
		return -1;
	read_entries(&good, fn, data);
	if (ret_base != NULL)
		*ret_base = good.base;
	return 0;
}
