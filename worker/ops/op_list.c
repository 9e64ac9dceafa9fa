/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/change.h"
#include "worker/ops/op.h"
#include "worker/say.h"

/* All names of one directory: ten million short ones. */
#define NAMES_BYTES_MAX (256u << 20)
/* Packed size of an entry without its name: tags, type and the longest size. */
#define ENTRY_BYTES 24

struct list_names {
	char *bytes; /* for each entry: the type, the name, a NUL */
	size_t len, size;
	size_t n;
	uint64_t hidden;
};

static void
names_done(struct list_names *names)
{
	free(names->bytes);
}

static int
names_add(struct list_names *names, unsigned char type, const char *name)
{
	size_t k = strlen(name) + 2;

	if (names->len + k > names->size) {
		size_t size = names->size == 0 ? 4096 : names->size * 2;
		char *bytes = size > NAMES_BYTES_MAX ? NULL : realloc(names->bytes, size);

		if (bytes == NULL)
			return -1;
		names->bytes = bytes;
		names->size = size;
	}
	names->bytes[names->len] = (char)type;
	memcpy(names->bytes + names->len + 1, name, k - 1);
	names->len += k;
	names->n++;
	return 0;
}

/* strcmp compares unsigned bytes. The type precedes the name. */
static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a + 1, *(const char *const *)b + 1);
}

static bool
is_behind(const char *name, const Koda__List *ask)
{
	size_t k = strlen(name), n = ask->after.len;
	int r;

	if (!ask->has_after || n == 0)
		return true;
	r = memcmp(name, ask->after.data, k < n ? k : n);
	return r > 0 || (r == 0 && k > n);
}

static int
read_names(struct session *ses, const Koda__List *ask, DIR *d, struct list_names *names,
    struct koda_error *err)
{
	const struct place *at = &ses->at;
	char path[PATH_LEN_MAX + NAME_LEN_MAX + 2];
	int n = snprintf(path, sizeof(path), "%s/", strlen(at->path) == 1 ? "" : at->path);
	const bool all = access_reads_all_in(&ses->who, at->path);
	struct dirent *e;

	while (errno = 0, (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (!all) {
			snprintf(path + n, sizeof(path) - (size_t)n, "%s", e->d_name);
			if (!access_judge(&ses->who, ACCESS_OP_READ, path, NULL).allowed) {
				names->hidden++;
				continue;
			}
		}
		if (is_behind(e->d_name, ask) && names_add(names, e->d_type, e->d_name) < 0)
			return say(err, KODA_TOO_LARGE, 0, "too many names for a list:", at->path);
	}
	return errno == 0 ? 0 : say(err, KODA_IO, errno, "list", at->path);
}

/* Fills an entry from the directory's own data; looks at the file only for a size that is wanted
 * or a type that is unknown. Returns false if the file is gone. */
static bool
look_at(DIR *d, const char *entry, bool sizes, Koda__Entry *ret)
{
	unsigned char type = (unsigned char)entry[0];
	struct stat st = { 0 };

	koda__entry__init(ret);
	ret->name = bytes_of(entry + 1, strlen(entry + 1));
	if (type == DT_UNKNOWN || (type == DT_REG && sizes)) {
		if (fstatat(dirfd(d), entry + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		ret->type = file_type_of(st.st_mode);
		ret->size = S_ISREG(st.st_mode) && sizes ? (uint64_t)st.st_size : 0;
	} else {
		ret->type = file_type_of((mode_t)DTTOIF(type));
	}
	return true;
}

static int
fill_page(struct session *ses, DIR *d, struct list_names *names, const Koda__List *ask,
    Koda__ListReply *msg, struct koda_error *err)
{
	const bool sizes = !ask->has_names_only || !ask->names_only;
	cleanup_free const char **sorted = malloc((names->n + 1) * sizeof(*sorted));
	size_t bytes = strlen(ses->at.path), n = 0;
	Koda__Entry *entries;

	if (sorted == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "list");
	for (size_t at = 0; at < names->len; at += strlen(names->bytes + at + 1) + 2)
		sorted[n++] = names->bytes + at;
	qsort(sorted, n, sizeof(*sorted), compare);
	for (n = 0; n < names->n; n++) {
		bytes += strlen(sorted[n] + 1) + ENTRY_BYTES;
		if (bytes > PAGE_MAX)
			break;
	}
	msg->has_more = true;
	msg->more = n < names->n;
	msg->entry = session_alloc(ses, (n + 1) * sizeof(*msg->entry), err);
	entries = msg->entry == NULL ? NULL : session_alloc(ses, (n + 1) * sizeof(*entries), err);
	if (entries == NULL)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (look_at(d, sorted[i], sizes, &entries[msg->n_entry])) {
			msg->entry[msg->n_entry] = &entries[msg->n_entry];
			msg->n_entry++;
		}
	}
	return 0;
}

/* Copies the names into the request's memory: they are packed after `names` is freed. */
static int
keep_names(struct session *ses, Koda__ListReply *msg, struct koda_error *err)
{
	size_t bytes = 0;
	uint8_t *p;

	for (size_t i = 0; i < msg->n_entry; i++)
		bytes += msg->entry[i]->name.len;
	p = session_alloc(ses, bytes + 1, err);
	if (p == NULL)
		return -1;
	for (size_t i = 0; i < msg->n_entry; i++) {
		ProtobufCBinaryData *name = &msg->entry[i]->name;

		memcpy(p, name->data, name->len);
		name->data = p;
		p += name->len;
	}
	return 0;
}

int
op_list(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const Koda__List *ask = req->list;
	const struct place *at = &ses->at;
	Koda__ListReply *msg = session_alloc(ses, sizeof(*msg), err);
	cleanup(names_done) struct list_names names = { 0 };
	cleanup(closedir_at) DIR *d = NULL;
	int fd;

	if (msg == NULL || session_place(ses, ask->path, 0, ACCESS_OP_READ, &ses->at, err) < 0)
		return -1;
	if (at->target_fd < 0)
		return say(err, KODA_IO, ENOENT, "list", at->path);
	if (!S_ISDIR(at->st.st_mode))
		return say(err, KODA_IO, ENOTDIR, "list", at->path);
	if (session_verify_target(ses, at, err) < 0)
		return -1;
	fd = openat(at->target_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return say(err, KODA_IO, errno, "list", at->path);
	d = fdopendir(fd);
	if (d == NULL) {
		say(err, KODA_IO, errno, "list", at->path);
		close(fd);
		return -1;
	}
	koda__list_reply__init(msg);
	msg->path = bytes_of(at->path, strlen(at->path));
	if (read_names(ses, ask, d, &names, err) < 0 ||
	    fill_page(ses, d, &names, ask, msg, err) < 0 || keep_names(ses, msg, err) < 0)
		return -1;
	msg->has_hidden = true;
	msg->hidden = names.hidden;
	rep->result_case = KODA__REPLY__RESULT_LIST;
	rep->list = msg;
	return 0;
}
