/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/sandbox_end.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/context/event.h"
#include "host/sandbox/cache_boot.h"
#include "host/sandbox/orphan.h"
#include "host/sandbox/sandbox_arguments.h"
#include "shared/base/cleanup.h"

/* How long to wait for a killed bwrap to be gone before its children are searched for. */
#define ORPHAN_MS 100
/* How long to wait for a killed init and its processes to be gone; usually some milliseconds. */
#define GONE_MS 2000

/* The init ends only after all processes in its namespace have ended. */
static bool
is_gone(int init_fd)
{
	struct pollfd p = { .fd = init_fd, .events = POLLIN };

	return poll(&p, 1, GONE_MS) > 0;
}

void
sandbox_forget(struct sandbox *sb)
{
	const bool spawned = sb->fs.fd >= 0;
	bool gone;

	loop_unwatch(&sb->ses->loop, &sb->source);
	loop_unwatch(&sb->ses->loop, &sb->end.source);
	egress_drop(&sb->egress);
	/* stage2 ends when its socket is closed, and everything ends with stage2. */
	frame_done(&sb->fs);
	/* A stage2 that hangs does not notice the closed socket, and its commands would run on. */
	if (sb->init_fd >= 0)
		syscall(SYS_pidfd_send_signal, sb->init_fd, SIGKILL, NULL, 0);
	gone = sb->points.fd < 0 || sb->init_fd < 0 || is_gone(sb->init_fd);
	close_at(&sb->init_fd);
	sb->init_fd = -1;
	if (sb->bwrap.pidfd >= 0) {
		child_kill(&sb->bwrap);
		if (!sb->up)
			child_gone(&sb->bwrap, ORPHAN_MS);
		leaving_adopt(&sb->ses->leaving, &sb->bwrap);
	}
	/* End a child of bwrap that does not notice the closed socket (host/sandbox/orphan). */
	if (spawned && !sb->up)
		orphan_end(sb->peer, FD_CONTROL);
	cache_boot_close(sb, gone);
	close_at(&sb->said_fd);
	sb->said_fd = -1;
	sb->up = sb->full = false;
}

void
sandbox_kill(struct sandbox *sb, const struct koda_error *why)
{
	if (!sb->up)
		return;
	session_event(sb->ses, KODA_EVENT_DEATH, "the sandbox of a slot is gone: %s", why->message);
	sandbox_forget(sb);
	sb->client->lost(sb->data, why);
}
