/* SPDX-License-Identifier: Apache-2.0 */
#include "search/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/cleanup.h"

/* Up to this number, insertion sort is fastest. */
#define INSERTION_MAX 12

int
names_init(struct dir_names *s)
{
	*s = NAMES_EMPTY;
	s->buffer = malloc(NAMES_BUFFER_BYTES);
	return s->buffer != NULL ? 0 : -1;
}

void
names_done(struct dir_names *s)
{
	free(s->text);
	free(s->name);
	free(s->spare);
	free(s->buffer);
	*s = NAMES_EMPTY;
}

/* ---- reading ---- */

static int
grow_text(struct dir_names *s, size_t need)
{
	size_t size = s->text_size == 0 ? NAMES_BUFFER_BYTES : s->text_size;
	char *grown;

	while (size - s->used < need)
		size *= 2;
	if (size == s->text_size)
		return 0;
	if (size > NAMES_BYTES_MAX) {
		errno = EOVERFLOW;
		return -1;
	}
	grown = realloc(s->text, size);
	if (grown == NULL)
		return -1;
	s->text = grown;
	s->text_size = size;
	return 0;
}

static int
grow_names(struct dir_names *s)
{
	const size_t size = s->size == 0 ? 1024 : s->size * 2;
	struct dir_name *grown;

	if (s->n < s->size)
		return 0;
	grown = reallocarray(s->name, size, sizeof(*grown));
	if (grown == NULL)
		return -1;
	s->name = grown;
	grown = reallocarray(s->spare, size, sizeof(*grown));
	if (grown == NULL)
		return -1;
	s->spare = grown;
	s->size = size;
	return 0;
}

static unsigned
special_of(const char *name, size_t len, unsigned char type)
{
	const bool file = type == DT_REG || type == DT_UNKNOWN;

	if (len < 4 || name[0] != '.')
		return 0;
	if (strcmp(name, ".git") == 0)
		return NAMES_GIT | (type == DT_DIR || type == DT_UNKNOWN ? NAMES_GIT_DIR : 0);
	if (file && strcmp(name, ".gitignore") == 0)
		return NAMES_GITIGNORE;
	if (file && strcmp(name, ".ignore") == 0)
		return NAMES_IGNORE;
	return file && strcmp(name, ".rgignore") == 0 ? NAMES_RGIGNORE : 0;
}

static int
push(struct dir_names *s, const char *name, size_t len, unsigned char type)
{
	if (len > NAMES_NAME_MAX) {
		errno = EOVERFLOW;
		return -1;
	}
	if (grow_text(s, len + 2) < 0 || grow_names(s) < 0)
		return -1;
	memcpy(s->text + s->used, name, len);
	memcpy(s->text + s->used + len, "/", 2);
	s->name[s->n++] =
	    (struct dir_name){ .at = (uint32_t)s->used, .len = (uint16_t)len, .type = type };
	s->used += len + 2;
	return 0;
}

int
names_take(struct dir_names *s, const void *records, size_t len, unsigned *special)
{
	const unsigned char *record = records, *end = record + len;
	struct dirent64 d;

	while (record < end) {
		const char *name = (const char *)record + offsetof(struct dirent64, d_name);
		size_t n;

		memcpy(&d, record, offsetof(struct dirent64, d_name));
		record += d.d_reclen;
		if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
			continue;
		n = strlen(name);
		*special |= special_of(name, n, d.d_type);
		if (push(s, name, n, d.d_type) < 0)
			return -1;
	}
	return 0;
}

int
names_read(struct dir_names *s, int dir_fd, unsigned *ret_special)
{
	ssize_t n;

	*ret_special = 0;
	while ((n = getdents64(dir_fd, s->buffer, NAMES_BUFFER_BYTES)) > 0) {
		if (names_take(s, s->buffer, (size_t)n, ret_special) < 0)
			return -1;
	}
	/* ENOENT: the directory was removed after it was opened, so it has no names. */
	return n == 0 || errno == ENOENT ? 0 : -1;
}

bool
names_settle(struct dir_name *name, const struct dir_names *s, int dir_fd)
{
	cleanup_free char *text = NULL;
	struct stat st;

	if (name->type != DT_UNKNOWN)
		return true;
	text = strndup(name_text(s, name), name->len);
	if (text == NULL || fstatat(dir_fd, text, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	name->type = IFTODT(st.st_mode);
	return true;
}

/* ---- sorting ---- */

static size_t
sorted_len(const struct dir_name *a)
{
	return a->len + (a->type == DT_DIR ? 1u : 0u);
}

static void
set_key(struct dir_names *s, struct dir_name *a)
{
	const size_t len = sorted_len(a);
	unsigned char first[sizeof(a->key)] = { 0 };

	memcpy(first, name_text(s, a), len < sizeof(first) ? len : sizeof(first));
	a->key = 0;
	for (size_t i = 0; i < sizeof(first); i++)
		a->key = a->key << 8 | first[i];
}

static bool
is_before(const struct dir_names *s, const struct dir_name *a, const struct dir_name *b)
{
	const size_t n = sorted_len(a), m = sorted_len(b);
	int r;

	if (a->key != b->key)
		return a->key < b->key;
	r = memcmp(name_text(s, a), name_text(s, b), n < m ? n : m);
	return r != 0 ? r < 0 : n < m;
}

static void
insertion_sort(const struct dir_names *s, struct dir_name *a, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		const struct dir_name x = a[i];
		size_t k = i;

		for (; k > 0 && is_before(s, &x, &a[k - 1]); k--)
			a[k] = a[k - 1];
		a[k] = x;
	}
}

static void
merge_sort(const struct dir_names *s, struct dir_name *a, struct dir_name *spare, size_t n)
{
	const size_t half = n / 2;
	size_t i = 0, k = half, to = 0;

	if (n <= INSERTION_MAX) {
		insertion_sort(s, a, n);
		return;
	}
	merge_sort(s, a, spare, half);
	merge_sort(s, a + half, spare, n - half);
	if (!is_before(s, &a[half], &a[half - 1]))
		return;
	memcpy(spare, a, half * sizeof(*a));
	while (i < half && k < n)
		a[to++] = is_before(s, &a[k], &spare[i]) ? a[k++] : spare[i++];
	memcpy(a + to, spare + i, (half - i) * sizeof(*a));
}

void
names_sort(struct dir_names *s, size_t from)
{
	for (size_t i = from; i < s->n; i++)
		set_key(s, &s->name[i]);
	if (s->n > from)
		merge_sort(s, s->name + from, s->spare, s->n - from);
}
