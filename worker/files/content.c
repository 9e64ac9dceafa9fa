/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/content.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "worker/files/digest.h"
#include "worker/say.h"

/* Could a read of this descriptor by the host block, or return something else to the host than
 * to this worker? */
static bool
must_not_pass(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || (unsigned long)fs.f_type == FUSE_SUPER_MAGIC ||
	    (unsigned long)fs.f_type == PROC_SUPER_MAGIC;
}

/* Reads `want` bytes from offset; fewer if the file has become shorter. Returns how many, or -1
 * with errno. */
static ssize_t
read_piece(int fd, uint8_t *buf, size_t want, uint64_t offset)
{
	size_t got = 0;

	while (got < want) {
		ssize_t n = pread(fd, buf + got, want - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static int
read_inline(struct session *ses, int fd, const char *path, uint64_t offset, size_t want,
    Koda__ReadReply *msg, struct koda_error *err)
{
	/* Not zeroed: only what is read into it is sent. */
	uint8_t *buf = ses->arena.allocator.alloc(&ses->arena, want > 0 ? want : 1);
	ssize_t got;

	if (buf == NULL)
		return err_set(err, KODA_INTERNAL, ENOMEM, "read");
	got = read_piece(fd, buf, want, offset);
	if (got < 0)
		return say(err, KODA_IO, errno, "read", path);
	/* The announced size and the content have to agree, also for files that report no size. */
	if ((size_t)got < want && offset + (uint64_t)got < msg->size)
		msg->size = offset + (uint64_t)got;
	if (got > 0 && offset + (uint64_t)got > msg->size)
		msg->size = offset + (uint64_t)got;
	msg->has_content = true;
	msg->content = bytes_of(buf, (size_t)got);
	return 0;
}

static int
read_digest(struct session *ses, int fd, const char *path, Koda__ReadReply *msg,
    struct koda_error *err)
{
	uint8_t *digest = session_alloc(ses, KODA_DIGEST_BYTES, err);

	if (digest == NULL)
		return -1;
	/* If the whole file is sent, hash the content sent: both then are of the same moment. */
	if (msg->has_content && msg->content.len == msg->size)
		digest_bytes(msg->content.data, msg->content.len, digest);
	else if (digest_file(fd, digest) < 0)
		return say(err, KODA_IO, errno, "read", path);
	msg->has_digest = true;
	msg->digest = bytes_of(digest, KODA_DIGEST_BYTES);
	return 0;
}

int
content_reply(struct session *ses, int fd, const char *path, uint64_t size,
    const struct content_range *range, Koda__Reply *rep, struct koda_error *err)
{
	cleanup_close int file = fd;
	Koda__ReadReply *msg = session_alloc(ses, sizeof(*msg), err);
	/* 0 means all, as in the public interface. */
	uint64_t want = range->max > 0 ? range->max : UINT64_MAX, left;

	if (msg == NULL)
		return -1;
	koda__read_reply__init(msg);
	msg->path = bytes_of(path, strlen(path));
	msg->size = size;
	left = msg->size > range->offset ? msg->size - range->offset : 0;
	/* Files that the kernel generates report size 0 and have content. */
	if (msg->size == 0)
		left = INLINE_MAX;
	if (want > left)
		want = left;
	if (want > INLINE_MAX && !must_not_pass(file)) {
		msg->has_descriptor = msg->descriptor = true;
	} else {
		const bool more = want > PAGE_MAX;

		if (more)
			want = PAGE_MAX;
		if (read_inline(ses, file, path, range->offset, (size_t)want, msg, err) < 0)
			return -1;
		/* If it is shorter than a page, the file has become shorter and has ended. */
		msg->has_more = msg->more = more && msg->content.len == want;
	}
	if (range->digest && read_digest(ses, file, path, msg, err) < 0)
		return -1;
	if (msg->descriptor)
		ses->send_fd = take_fd(&file);
	rep->result_case = KODA__REPLY__RESULT_READ;
	rep->read = msg;
	return 0;
}
