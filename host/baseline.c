#include "host/baseline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shared/cleanup.h"

/* A frame each: 4 bytes of length, and the place. */
#define HEADER       4
#define BYTES_MAX    (16u << 20) /* PROTECT_PLACES_MAX of them, with long paths */
#define PLACE_MAX    (16u << 10)
#define WAIT_MS      10000 /* for somebody who looks through a large project */
#define WAIT_TICK_MS 5

static int
lock_shared(int fd)
{
	const struct timespec tick = { .tv_nsec = WAIT_TICK_MS * 1000000 };

	for (int ms = 0; ms < WAIT_MS; ms += WAIT_TICK_MS) {
		if (flock(fd, LOCK_SH | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return -1;
		nanosleep(&tick, NULL);
	}
	return -1;
}

/* The file that has the name now, locked: 1 alone, 0 with others. Whoever was last has removed it under our hands. */
static int
open_locked(struct baseline *b, struct koda_error *err)
{
	for (int i = 0; i < 10; i++) {
		struct stat st;
		int alone;

		b->fd = open(b->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (b->fd < 0)
			return err_set(err, KODA_IO, errno, "open '%s'", b->path);
		alone = flock(b->fd, LOCK_EX | LOCK_NB) == 0;
		if (!alone && lock_shared(b->fd) < 0)
			return err_set(err, KODA_IO, errno, "lock '%s'", b->path);
		if (fstat(b->fd, &st) == 0 && st.st_nlink > 0 && S_ISREG(st.st_mode) &&
		    st.st_uid == geteuid())
			return alone;
		close_at(&b->fd);
		b->fd = -1;
	}
	return err_set(err, KODA_IO, 0, "'%s' is not a file of this user", b->path);
}

/* Is the host's own file, but an old or a torn one is possible: what does not make sense ends it. */
static int
load(struct baseline *b, baseline_place_fn *fn, void *data, size_t *ret_n, struct koda_error *err)
{
	cleanup_free uint8_t *text = NULL;
	struct stat st;
	size_t at = 0, size;

	if (fstat(b->fd, &st) < 0 || st.st_size > BYTES_MAX)
		return err_set(err, KODA_IO, 0, "'%s' is too large", b->path);
	size = (size_t)st.st_size;
	text = malloc(size + 1);
	if (text == NULL || pread(b->fd, text, size, 0) != (ssize_t)size)
		return err_set(err, KODA_IO, errno, "read '%s'", b->path);
	while (size - at > HEADER) {
		size_t len = (size_t)text[at] << 24 | (size_t)text[at + 1] << 16 |
		    (size_t)text[at + 2] << 8 | text[at + 3];
		Koda__Place *place;
		int r;

		if (len == 0 || len > PLACE_MAX || len > size - at - HEADER)
			break;
		place = koda__place__unpack(NULL, len, text + at + HEADER);
		if (place == NULL)
			break;
		r = fn(data, place, err);
		koda__place__free_unpacked(place, NULL);
		if (r < 0)
			return -1;
		at += HEADER + len;
		(*ret_n)++;
	}
	/* What comes next follows what makes sense. */
	return lseek(b->fd, (off_t)at, SEEK_SET) < 0 ? -1 : 0;
}

int
baseline_open(struct baseline *b, char *path, baseline_place_fn *fn, void *data,
    struct koda_error *err)
{
	size_t n = 0;
	int alone;

	*b = (struct baseline){ .path = path, .fd = -1 };
	if (path == NULL)
		return 0;
	alone = open_locked(b, err);
	if (alone < 0)
		return -1;
	if (load(b, fn, data, &n, err) < 0)
		return -1;
	if (n > 0 && alone)
		flock(b->fd, LOCK_SH);
	return n > 0;
}

void
baseline_add(struct baseline *b, const Koda__Place *place)
{
	size_t len = koda__place__get_packed_size(place);
	uint8_t frame[HEADER + PLACE_MAX];

	if (b->fd < 0 || b->failed)
		return;
	frame[0] = (uint8_t)(len >> 24);
	frame[1] = (uint8_t)(len >> 16);
	frame[2] = (uint8_t)(len >> 8);
	frame[3] = (uint8_t)len;
	if (len > PLACE_MAX) {
		b->failed = true;
		return;
	}
	koda__place__pack(place, frame + HEADER);
	/* Others append too. */
	if (lseek(b->fd, 0, SEEK_END) < 0 ||
	    write(b->fd, frame, HEADER + len) != (ssize_t)(HEADER + len))
		b->failed = true;
}

void
baseline_ready(struct baseline *b)
{
	/* One without content looks as if nobody had looked. */
	static const Koda__Place nothing = KODA__PLACE__INIT;
	struct stat st;
	Koda__Place none = nothing;
	char root[] = "/";

	if (b->fd < 0)
		return;
	none.kind = KODA__PLACE_KIND__PLACE_GIT_DIR;
	none.type = KODA__FILE_TYPE__FILE_DIRECTORY;
	none.path = (ProtobufCBinaryData){ 1, (uint8_t *)root };
	if (fstat(b->fd, &st) == 0 && st.st_size == 0)
		baseline_add(b, &none);
	flock(b->fd, LOCK_SH);
}

void
baseline_close(struct baseline *b, bool compared)
{
	if (b->fd >= 0 && (compared || b->failed) && flock(b->fd, LOCK_EX | LOCK_NB) == 0 &&
	    (ftruncate(b->fd, 0) == 0 || b->failed))
		unlink(b->path);
	close_at(&b->fd);
	free(b->path);
	*b = (struct baseline)BASELINE_NONE;
}
