/* SPDX-License-Identifier: Apache-2.0 */
/* fs write: standard input becomes the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/output.h"
#include "shared/base/io.h"

/* Content up to this size is sent in a frame, more in a sealed memfd. */
#define INLINE_MAX (64u << 10)
#define COPY_CHUNK (256u << 10)

/*
 * The time limit: the bytes per millisecond of the slowest disk worth waiting for, plus the time
 * for the rest of the operation. The session's own limit does not know how much there is to copy.
 */
#define SLOW_BYTES_PER_MS 5000
#define OPERATION_MS      30000

struct write_content {
	char *head; /* the first INLINE_MAX bytes, or all */
	size_t head_len;
	int fd; /* all of it, sealed; -1 if it is all in head */
	uint64_t size;
};

static int
failed(const struct cli *cli, enum koda_code code, int errnum, const char *what)
{
	struct koda_error err = { .code = code, .errnum = errnum };

	snprintf(err.path, sizeof(err.path), "%s", cli->words[0]);
	if (errnum != 0)
		snprintf(err.message, sizeof(err.message), "%s: %s", what, strerror(errnum));
	else
		snprintf(err.message, sizeof(err.message), "%s", what);
	return output_error(cli, &err, NULL);
}

static ssize_t
read_some(void *buf, size_t size)
{
	ssize_t n;

	do {
		n = read(STDIN_FILENO, buf, size);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* Finds the policy's limit, so that an endless standard input does not use up all memory. */
static int
find_limit(void *data, const char *section, const char *field, const char *value)
{
	uint64_t *limit = data;

	if (strcmp(section, "limits") == 0 && strcmp(field, "max_file_bytes") == 0 && value != NULL)
		*limit = strtoull(value, NULL, 10);
	return 0;
}

/* The content did not fit into head: copies all of it to a memfd, piece by piece. */
static int
read_rest(const struct cli *cli, struct write_content *content, uint64_t limit)
{
	char *buf = output_alloc(COPY_CHUNK);
	int status = EXIT_DONE;
	ssize_t n;

	content->fd = memfd_create("koda-content", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (content->fd < 0 || write_all(content->fd, content->head, content->head_len) < 0)
		status = failed(cli, KODA_INTERNAL, errno, "cannot hold the content in memory");
	while (status == EXIT_DONE && (n = read_some(buf, COPY_CHUNK)) != 0) {
		if (n < 0)
			status = failed(cli, KODA_IO, errno, "read standard input");
		else if ((uint64_t)n > limit - content->size)
			status = failed(cli, KODA_TOO_LARGE, 0,
			    "standard input has more bytes than the policy allows for a file");
		else if (write_all(content->fd, buf, (size_t)n) < 0)
			status =
			    failed(cli, KODA_INTERNAL, errno, "cannot hold the content in memory");
		else
			content->size += (uint64_t)n;
	}
	if (status == EXIT_DONE &&
	    fcntl(content->fd, F_ADD_SEALS,
		F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		status = failed(cli, KODA_INTERNAL, errno, "cannot freeze the content");
	free(buf);
	return status;
}

static int
read_content(const struct job *job, struct write_content *content)
{
	uint64_t limit = UINT64_MAX;
	ssize_t n = 1;

	koda_policy_visit(koda_session_policy(job->session), find_limit, &limit);
	/* One byte more than fits shows whether there is more. */
	content->head = output_alloc(INLINE_MAX + 1);
	while (content->head_len <= INLINE_MAX && n > 0) {
		n = read_some(content->head + content->head_len,
		    INLINE_MAX + 1 - content->head_len);
		if (n < 0)
			return failed(job->cli, KODA_IO, errno, "read standard input");
		content->head_len += (size_t)n;
	}
	content->size = content->head_len;
	if (content->size > limit)
		return failed(job->cli, KODA_TOO_LARGE, 0,
		    "standard input has more bytes than the policy allows for a file");
	return content->head_len > INLINE_MAX ? read_rest(job->cli, content, limit) : EXIT_DONE;
}

static int
write_content(struct job *job, const struct write_content *content)
{
	uint64_t ms = OPERATION_MS + content->size / SLOW_BYTES_PER_MS;
	char done[64], would[64];
	int status;

	if (content->fd >= 0) {
		job->op.fd = content->fd;
	} else {
		job->op.data = content->head;
		job->op.len = content->head_len;
	}
	job->op.timeout_ms = ms < INT32_MAX ? (unsigned)ms : INT32_MAX;
	job->ask.about.data = content->head;
	job->ask.about.len = content->head_len;
	status = job_run(job);
	if (status != EXIT_DONE)
		return status;
	snprintf(done, sizeof(done), "wrote %llu bytes to", (unsigned long long)content->size);
	snprintf(would, sizeof(would), "would write %llu bytes to",
	    (unsigned long long)content->size);
	return job_tell_mutation(job, done, would);
}

int
cmd_write(const struct cli *cli)
{
	struct write_content content = { .fd = -1 };
	struct job job;
	int status = job_begin(&job, cli, KODA_OP_WRITE);

	if (status == EXIT_DONE)
		status = read_content(&job, &content);
	if (status == EXIT_DONE)
		status = write_content(&job, &content);
	job_end(&job);
	if (content.fd >= 0)
		close(content.fd);
	free(content.head);
	return status;
}
