/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes three files in the background while the program runs a loop of its own, here libev's. Any
 * other loop works the same way: watch koda_session_fd() for reading, and call
 * koda_session_dispatch(session, 0) when it is readable.
 *
 *	cc own_loop.c $(pkg-config --cflags --libs koda-sandbox) -lev && ./a.out DIRECTORY
 */
#include <ev.h>
#include <stdio.h>

#include <koda/sandbox.h>

static void
on_written(void *data, const struct koda_result *result, const struct koda_error *err)
{
	int *left = data;

	if (err != NULL)
		fprintf(stderr, "own_loop: %s\n", err->message);
	else
		printf("wrote %s\n", result->path);
	if (--*left == 0)
		ev_break(EV_DEFAULT_ EVBREAK_ALL);
}

static void
on_session(struct ev_loop *loop, ev_io *io, int revents)
{
	struct koda_error err;

	(void)revents;
	if (koda_session_dispatch(io->data, 0, &err) >= 0)
		return;
	fprintf(stderr, "own_loop: %s\n", err.message);
	ev_break(loop, EVBREAK_ALL);
}

static int
write_all(struct koda_slot *slot, int *left, struct koda_error *err)
{
	static const char *const names[] = { "one", "two", "three" };

	for (int i = 0; i < 3; i++) {
		const struct koda_op op = { .kind = KODA_OP_WRITE,
			.path = names[i],
			.data = "text\n",
			.len = 5 };

		if (koda_call_async(slot, &op, on_written, left, err) < 0)
			return -1;
		++*left;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct ev_loop *loop = EV_DEFAULT;
	struct koda_session *session;
	struct koda_slot *slot = NULL;
	struct koda_error err;
	int left = 0;
	ev_io io;

	options.root = argc > 1 ? argv[1] : ".";
	options.mode = KODA_AUTO;
	session = koda_session_open(&options, &err);
	if (session != NULL)
		slot = koda_slot_acquire(session, NULL, &err);
	if (slot == NULL || write_all(slot, &left, &err) < 0) {
		fprintf(stderr, "own_loop: %s\n", err.message);
		koda_session_close(session);
		return 1;
	}
	ev_io_init(&io, on_session, koda_session_fd(session), EV_READ);
	io.data = session;
	ev_io_start(loop, &io);
	ev_run(loop, 0);
	ev_io_stop(loop, &io);
	koda_slot_release(slot);
	koda_session_close(session);
	return left != 0;
}
