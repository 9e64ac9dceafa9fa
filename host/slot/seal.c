/* SPDX-License-Identifier: Apache-2.0 */
#include "host/slot/seal.h"

#include <errno.h>
#include <sodium.h>

#include "host/context/event.h"
#include "shared/base/cleanup.h"
#include "shared/confine/lockdown.h"

/* Returns whether there is one. */
static bool
add_fd(int fds[SEAL_FDS_MAX], size_t *n, int fd)
{
	if (fd >= 0)
		fds[(*n)++] = fd;
	return fd >= 0;
}

int
seal_queue(const struct koda_slot *slot, struct frame_stream *fs, uint64_t id,
    const uint8_t token[TOKEN_BYTES], bool with_places, struct koda_error *err)
{
	const struct koda_session *ses = slot->ses;
	struct seal_places places = { .quarantine_fd = -1, .draft_fd = -1, .history_fd = -1 };
	Koda__DraftLayer layer[DRAFT_LAYERS_MAX], *layers[DRAFT_LAYERS_MAX];
	ProtobufCBinaryData dir[SEAL_PLACES_MAX];
	int fds[SEAL_FDS_MAX];
	size_t n_fds = 0;
	Koda__Request req = KODA__REQUEST__INIT;
	Koda__Seal seal = KODA__SEAL__INIT;
	const uint8_t *packed;
	ssize_t packed_len;
	size_t len;

	slot->client->places(slot, with_places, &places);
	packed = koda_policy_packed(slot->policy, &len);
	seal.protocol = KODA_PROTOCOL_VERSION;
	seal.policy = (ProtobufCBinaryData){ len, (uint8_t *)packed };
	seal.mode = (Koda__Mode)ses->mode;
	seal.root = message_text(ses->root);
	seal.root_dev = places.root_ino != 0 ? places.root_dev : ses->root_dev;
	seal.root_ino = places.root_ino != 0 ? places.root_ino : ses->root_ino;
	seal.home = message_text(ses->home);
	seal.token = (ProtobufCBinaryData){ TOKEN_BYTES, (uint8_t *)(uintptr_t)token };
	seal.has_quarantine = seal.quarantine = add_fd(fds, &n_fds, places.quarantine_fd);
	seal.has_draft = seal.draft = add_fd(fds, &n_fds, places.draft_fd);
	seal.has_draft_made_ns = seal.has_draft_mounted_ns = seal.draft;
	seal.draft_made_ns = places.draft_made_ns;
	seal.draft_mounted_ns = places.draft_mounted_ns;
	seal.has_history = seal.history = add_fd(fds, &n_fds, places.history_fd);
	for (size_t i = 0; i < places.n_layers; i++) {
		koda__draft_layer__init(&layer[i]);
		layer[i].path = message_text(places.layer[i].path);
		layer[i].dev = places.layer[i].dev;
		layer[i].ino = places.layer[i].ino;
		layer[i].name = message_text(places.layer[i].name);
		layers[i] = &layer[i];
	}
	seal.draft_layer = layers;
	seal.n_draft_layer = places.n_layers;
	seal.has_state = ses->state != NULL;
	if (seal.has_state)
		seal.state = message_text(ses->state);
	for (size_t i = 0; i < places.n; i++)
		dir[i] = message_text(places.dir[i]);
	seal.commands_write = dir;
	seal.n_commands_write = places.n;
	req.id = id;
	req.op_case = KODA__REQUEST__OP_SEAL;
	req.seal = &seal;
	packed_len = message_queue(fs, &req.base, err);
	if (packed_len < 0 || n_fds == 0)
		return packed_len < 0 ? -1 : 0;
	if (frame_flush_with_fds(fs, (size_t)packed_len, fds, n_fds, SLOT_READY_MS, err) == 0)
		return 0;
	/* The process is dead already, which its socket shows. */
	return err->errnum == EPIPE || err->errnum == ECONNRESET ? 0 : -1;
}

/* Is the process confined in full? If not, Auto does not start. */
static int
check_enforcement(struct koda_session *ses, enum confined_kind who,
    const struct koda_enforcement *has, struct koda_error *err)
{
	const struct right *lost = rights_lost(who, has->landlock_abi);
	const unsigned kernel = lockdown_landlock_abi();
	struct koda_error why;

	/* A worker that has less than the kernel could give it is not ours. */
	if (lost == NULL && has->landlock_abi >= kernel && has->seccomp)
		return 0;
	err_set(&why, KODA_UNSUPPORTED, 0,
	    "this kernel cannot confine the worker fully (Landlock ABI %u, %u needed; seccomp "
	    "%s): %s",
	    has->landlock_abi, lost != NULL ? lost->abi : kernel, has->seccomp ? "yes" : "no",
	    ses->mode == KODA_AUTO ? "Auto does not start; use --mode safe, or " RIGHTS_REMEDY
				   : "file operations rely on the worker's own checks");
	if (ses->mode == KODA_AUTO) {
		*err = why;
		return -1;
	}
	if (!ses->said_degraded)
		session_event(ses, KODA_EVENT_DEGRADED, "%s", why.message);
	ses->said_degraded = true;
	return 0;
}

int
seal_check(const struct koda_slot *slot, enum confined_kind who, const Koda__Reply *reply,
    struct koda_enforcement *ret, struct koda_error *err)
{
	const Koda__Ready *ready = reply->ready;

	if (reply->result_case == KODA__REPLY__RESULT_ERROR) {
		struct koda_result none = { .fd = -1 };

		reply_take(KODA_OP_PING, reply, -1, NULL, &none, err);
		err_wrap(err, "the worker cannot start");
		return 1;
	}
	if (reply->result_case != KODA__REPLY__RESULT_READY)
		return err_set(err, KODA_PROTOCOL, 0, "the worker's first reply is not Ready");
	if (ready->protocol != KODA_PROTOCOL_VERSION) {
		err_set(err, KODA_UNSUPPORTED, 0,
		    "the worker speaks protocol %u and this library %u: install both from one build",
		    ready->protocol, KODA_PROTOCOL_VERSION);
		return 1;
	}
	if (ready->policy_digest.len != KODA_DIGEST_BYTES ||
	    sodium_memcmp(ready->policy_digest.data, koda_policy_digest(slot->policy),
		KODA_DIGEST_BYTES) != 0)
		return err_set(err, KODA_PROTOCOL, 0,
		    "the worker reports another policy than the one it was given");
	*ret = (struct koda_enforcement){
		.landlock_abi = ready->enforcement->landlock_abi,
		.seccomp = ready->enforcement->seccomp,
		.mount_view = slot->commands != NULL,
	};
	return check_enforcement(slot->ses, who, ret, err) < 0 ? 1 : 0;
}
