/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/slot/incoming.h"
#include "shared/base/cleanup.h"

int
record_new(void)
{
	cleanup_close int fd = memfd_create("koda-record", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, RECORD_BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -1;
	return take_fd(&fd);
}

static int
take_note(struct call *c, const Koda__Reply *reply, const uint8_t *frame, size_t len,
    struct koda_error *err)
{
	if (!request_is_mutation(c->kind))
		return err_set(err, KODA_PROTOCOL, 0,
		    "the record names a request that changes nothing");
	switch ((int)reply->result_case) {
	case KODA__REPLY__RESULT_PREPARED:
	case KODA__REPLY__RESULT_COMMITTED:
	case KODA__REPLY__RESULT_VERDICT:
	case KODA__REPLY__RESULT_OUTCOME: /* this and ERROR: final replies that were not sent yet */
	case KODA__REPLY__RESULT_ERROR:
		return incoming_take(c, reply, -1, frame, len, err);
	default:
		return err_set(err, KODA_PROTOCOL, 0, "the record has an unexpected message");
	}
}

/* Takes the frames that the dead worker left in the record: the progress of its last changes, and
 * the replies that it had not sent yet. No process can change them any more; they are as untrusted
 * as frames from the socket. */
static int
take_notes(struct koda_slot *slot, const uint8_t *p, size_t left, struct koda_error *err)
{
	while (left > 4) {
		size_t len = frame_get_length(p);
		struct call *c = slot->head;
		Koda__Reply *reply;

		if (len == 0 || len > left - 4)
			break;
		arena_reset(&slot->arena);
		reply = (Koda__Reply *)message_unpack(&koda__reply__descriptor, p + 4, len,
		    &slot->arena, err);
		if (reply == NULL)
			return -1;
		while (c != NULL && !(c->state == CALL_SENT && c->id == reply->id))
			c = c->next;
		/* NULL: the call has been answered. */
		if (c != NULL && take_note(c, reply, p + 4, len, err) < 0)
			return -1;
		p += 4 + len;
		left -= 4 + len;
	}
	return left == 0 ? 0 : err_set(err, KODA_PROTOCOL, 0, "the record is cut off");
}

void
record_read(struct koda_slot *slot)
{
	cleanup_close int fd = slot->record_fd;
	cleanup_free uint8_t *frames = NULL;
	struct koda_error err;
	uint64_t used = 0;

	slot->record_fd = -1;
	if (fd < 0 || slot->broken)
		return;
	if (pread(fd, &used, sizeof(used), offsetof(struct record, used)) != sizeof(used) ||
	    used > sizeof(((struct record *)NULL)->frames))
		err_set(&err, KODA_PROTOCOL, 0, "the record has an invalid length");
	else if (used == 0)
		return;
	else if ((frames = malloc(used)) == NULL ||
	    pread(fd, frames, used, offsetof(struct record, frames)) != (ssize_t)used)
		err_set(&err, KODA_INTERNAL, ENOMEM, "read the dead worker's record");
	else if (take_notes(slot, frames, used, &err) == 0)
		return;
	slot->broken = true;
	slot->failure = err;
}
