/* SPDX-License-Identifier: Apache-2.0 */
#include "search/watchdog.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static struct {
	struct grep *grep; /* NULL: no match is watched */
	bool compiling;
	unsigned ticks; /* of compiling; used by the handler only */
	int fd;
	pid_t parent;
	size_t len;
	uint8_t frame[256];
} watch;

static bool
is_too_long(void)
{
	struct grep *grep = __atomic_load_n(&watch.grep, __ATOMIC_ACQUIRE);

	if (grep != NULL)
		return grep_ticks(grep) >= WATCHDOG_TICKS;
	return __atomic_load_n(&watch.compiling, __ATOMIC_ACQUIRE) &&
	    ++watch.ticks >= WATCHDOG_TICKS;
}

static void
on_tick(int signo)
{
	ssize_t n;

	if (getppid() != watch.parent)
		_exit(1);
	if (!is_too_long())
		return;
	/* During a match no frame is queued or partly sent. */
	n = write(watch.fd, watch.frame, watch.len);
	_exit(n == (ssize_t)watch.len ? 0 : 1);
}

int
watchdog_install(void)
{
	const struct itimerval tick = { { 0, WATCHDOG_TICK_MS * 1000 },
		{ 0, WATCHDOG_TICK_MS * 1000 } };
	struct sigaction act = { .sa_handler = on_tick, .sa_flags = SA_RESTART };

	watch.parent = getppid();
	sigemptyset(&act.sa_mask);
	if (sigaction(SIGPROF, &act, NULL) < 0)
		return -1;
	return setitimer(ITIMER_PROF, &tick, NULL);
}

/* Packs the reply for the signal handler to send. The handler must not act meanwhile, so this
 * stops the watchdog. */
static void
prepare(struct session *ses, const char *text)
{
	Koda__Error msg = KODA__ERROR__INIT;
	Koda__Reply rep = KODA__REPLY__INIT;

	watchdog_stop();
	msg.code = KODA__ERROR_CODE__TOO_LARGE;
	msg.message = bytes_of(text, strlen(text));
	rep.id = ses->id;
	rep.result_case = KODA__REPLY__RESULT_ERROR;
	rep.error = &msg;
	watch.len = message_put_frame(&rep.base, watch.frame, sizeof(watch.frame));
	if (watch.len == 0)
		abort();
	watch.fd = ses->fs.fd;
}

void
watchdog_compiling(struct session *ses)
{
	prepare(ses, "compiling the pattern takes too long: make it simpler");
	watch.ticks = 0;
	__atomic_store_n(&watch.compiling, true, __ATOMIC_RELEASE);
}

void
watchdog_watch(struct session *ses, struct grep *grep)
{
	prepare(ses, "matching the pattern takes too long: make it simpler");
	__atomic_store_n(&watch.grep, grep, __ATOMIC_RELEASE);
}

void
watchdog_stop(void)
{
	__atomic_store_n(&watch.compiling, false, __ATOMIC_RELEASE);
	__atomic_store_n(&watch.grep, NULL, __ATOMIC_RELEASE);
}
