/* SPDX-License-Identifier: Apache-2.0 */
/* fs read: content to standard output, byte for byte. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/output.h"
#include "cli/show.h"

/* A JSON string is built and escaped in memory, with several times the size of the content. Larger
 * content should be read through a pipe. */
#define JSON_CONTENT_MAX (64u << 20)
#define COPY_CHUNK       (256u << 10)
#define SENDFILE_MAX     (1u << 30) /* one call takes less than 2 GiB anyway */

/* Returns how many bytes of the file were requested. */
static uint64_t
wanted(const struct job *job)
{
	uint64_t left = job->op.offset < job->result.size ? job->result.size - job->op.offset : 0;

	if (job->result.fd < 0)
		return job->result.len;
	return job->op.max != 0 && job->op.max < left ? job->op.max : left;
}

static int
shrunk(const struct job *job)
{
	struct koda_error err = { .code = KODA_CONFLICT };

	snprintf(err.path, sizeof(err.path), "%s", job->result.path);
	snprintf(err.message, sizeof(err.message), "'%.400s' became shorter while it was read",
	    job->result.path);
	return output_error(job->cli, &err, "read it again");
}

static int
unreadable(const struct job *job)
{
	struct koda_error err = { .code = KODA_IO, .errnum = errno };

	snprintf(err.path, sizeof(err.path), "%s", job->result.path);
	snprintf(err.message, sizeof(err.message), "read '%.400s': %m", job->result.path);
	return output_error(job->cli, &err, NULL);
}

/* Copies by read and write, where sendfile fails: for example into a file opened for appending. */
static int
copy_by_hand(const struct job *job, uint64_t offset, uint64_t left)
{
	char *buf = output_alloc(COPY_CHUNK);
	int status = EXIT_DONE;

	while (left > 0 && status == EXIT_DONE) {
		size_t chunk = left < COPY_CHUNK ? (size_t)left : COPY_CHUNK;
		ssize_t n = pread(job->result.fd, buf, chunk, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			status = unreadable(job);
		else if (n == 0)
			status = shrunk(job);
		else if (output_bytes(buf, (size_t)n) < 0)
			status = output_lost();
		offset += n > 0 ? (uint64_t)n : 0;
		left -= n > 0 ? (uint64_t)n : 0;
	}
	free(buf);
	return status;
}

static int
copy(const struct job *job, uint64_t left)
{
	off_t offset = (off_t)job->op.offset;

	while (left > 0) {
		ssize_t n = sendfile(STDOUT_FILENO, job->result.fd, &offset,
		    left < SENDFILE_MAX ? (size_t)left : SENDFILE_MAX);

		if (n == 0)
			return shrunk(job);
		if (n > 0)
			left -= (uint64_t)n;
		else if (errno != EINTR) /* copying by hand shows which side failed */
			return copy_by_hand(job, (uint64_t)offset, left);
	}
	return EXIT_DONE;
}

static int
tell_json(const struct job *job, const uint8_t *data, size_t len)
{
	const struct koda_result *result = &job->result;
	json_t *object = output_object();
	char digest[SHOW_DIGEST_SIZE];

	show_json_path(object, "path", result->path);
	json_object_set_new(object, "size", json_integer((json_int_t)result->size));
	json_object_set_new(object, "offset", json_integer((json_int_t)job->op.offset));
	json_object_set_new(object, "length", json_integer((json_int_t)len));
	if (result->has_digest) {
		show_digest(digest, result->digest);
		json_object_set_new(object, "digest", json_string(digest));
	}
	show_json_content(object, data, len);
	return output_json(object);
}

static int
read_json(const struct job *job, uint64_t len)
{
	uint8_t *buf;
	size_t have = 0;
	int status;

	if (len > JSON_CONTENT_MAX) {
		struct koda_error err = { .code = KODA_TOO_LARGE };

		snprintf(err.path, sizeof(err.path), "%s", job->result.path);
		snprintf(err.message, sizeof(err.message),
		    "cannot print '%.400s' as JSON: it has %llu bytes, and at most %u are printed",
		    job->result.path, (unsigned long long)len, JSON_CONTENT_MAX);
		return output_error(job->cli, &err,
		    "read it without --json, or in parts with --offset and --max");
	}
	if (job->result.fd < 0)
		return tell_json(job, job->result.data, job->result.len);

	buf = output_alloc((size_t)len);
	while (have < len) {
		ssize_t n = pread(job->result.fd, buf + have, (size_t)len - have,
		    (off_t)(job->op.offset + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			status = n < 0 ? unreadable(job) : shrunk(job);
			free(buf);
			return status;
		}
		have += (size_t)n;
	}
	status = tell_json(job, buf, have);
	free(buf);
	return status;
}

static int
read_plain(const struct job *job, uint64_t len)
{
	char digest[SHOW_DIGEST_SIZE];
	int status = EXIT_DONE;

	if (job->result.fd >= 0)
		status = copy(job, len);
	else if (output_bytes(job->result.data, job->result.len) < 0)
		status = output_lost();
	if (status == EXIT_DONE && job->result.has_digest) {
		/* Standard output is only for the content. */
		show_digest(digest, job->result.digest);
		fprintf(stderr, "%s\n", digest);
	}
	return status;
}

int
cmd_read(const struct cli *cli)
{
	struct job job;
	int status = job_begin(&job, cli, KODA_OP_READ);

	if (status == EXIT_DONE)
		status = job_run(&job);
	if (status == EXIT_DONE)
		status = args_has(&cli->args, OPT_JSON) ? read_json(&job, wanted(&job))
							: read_plain(&job, wanted(&job));
	job_end(&job);
	return status;
}
