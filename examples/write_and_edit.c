/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a file and edits it, through a worker that cannot leave the directory given.
 *
 *	cc write_and_edit.c $(pkg-config --cflags --libs koda-sandbox) && ./a.out DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include <koda/sandbox.h>

static int
write_and_edit(struct koda_slot *slot, struct koda_error *err)
{
	static const char text[] = "#include <stdio.h>\n\nint main(void) { puts(\"hello\"); }\n";
	const struct koda_edit edit = { "hello", 5, "goodbye", 7, false };
	struct koda_result result;

	if (koda_fs_write(slot, "src/main.c", text, strlen(text), &result, err) < 0)
		return -1;
	printf("wrote %s\n", result.path);
	koda_result_done(&result);

	if (koda_fs_edit(slot, "src/main.c", &edit, 1, &result, err) < 0)
		return -1;
	printf("edited it: %llu bytes before, %llu after\n", (unsigned long long)result.size_before,
	    (unsigned long long)result.size);
	koda_result_done(&result);

	/* Refused by the worker, whatever the path looks like. */
	if (koda_fs_write(slot, ".git/hooks/pre-commit", "#!/bin/sh\n", 10, &result, err) < 0)
		printf("refused: %s\n", err->message);
	return 0;
}

int
main(int argc, char **argv)
{
	struct koda_session_options options = KODA_SESSION_OPTIONS_INIT;
	struct koda_error err;
	struct koda_session *session;
	struct koda_slot *slot = NULL;
	int r = -1;

	options.root = argc > 1 ? argv[1] : ".";
	options.mode = KODA_AUTO;
	session = koda_session_open(&options, &err);
	if (session != NULL)
		slot = koda_slot_acquire(session, NULL, &err);
	if (slot != NULL)
		r = write_and_edit(slot, &err);
	if (r < 0)
		fprintf(stderr, "write_and_edit: %s\n", err.message);
	koda_slot_release(slot);
	koda_session_close(session);
	return r < 0;
}
