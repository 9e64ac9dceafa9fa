/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines that refuse a part of what a sandbox needs: doctor and run name the cause that was found,
 * and what to do about it, and nothing else. (host/sandbox/trial.c, host/machine/remedy.c,
 * shared/confine/userns.c, launch/main.c)
 */
#include "tests/kit/run_scene.h"

/* Stands in for bubblewrap and gives its program no capability, as AppArmor's profile for it does.
 * The real one is a copy. */
#define POWERLESS                                                                                  \
	"cp /usr/bin/bwrap \"$1/real-bwrap\" && { echo '#!/bin/bash'; echo before=; "              \
	"echo 'while [ $# -gt 0 ] && [ \"$1\" != -- ]; do before+=(\"$1\"); shift; done'; "        \
	"echo exec \"$1/real-bwrap\" '\"${before[@]:1}\" --cap-drop ALL \"$@\"'; } "               \
	">\"$1/powerless\" && chmod 755 \"$1/powerless\""

static const struct scene {
	const char *label, *what;
	const char *row; /* of doctor: the only one about the kernel that says NO */
	/* In that row and in the message of run. remedy NULL: it depends on the container that the
	 * test runs in (tests/unit/remedy_test.c). absent: the remedy of another cause. */
	const char *why, *remedy, *absent;
} scenes[] = {
	{ "no user namespace may be made", "limit", "user_namespaces",
	    "cannot make a user namespace (No space left on device): user.max_user_namespaces is 0",
	    "sudo sysctl -w user.max_user_namespaces=15000", "docker run" },
	{ "a container's filter", "filter", "user_namespaces",
	    "cannot make a user namespace (Operation not permitted): a seccomp filter refuses what a "
	    "sandbox needs",
	    NULL, "systempaths" },
	{ "a part of /proc is covered", "proc", "namespaces",
	    "cannot mount /proc in a user namespace (Operation not permitted): parts of /proc are "
	    "covered, so the kernel refuses to mount another one",
	    NULL, "seccomp=unconfined" },
	{ "capabilities are lost in bubblewrap", "kept", "capabilities",
	    "cannot keep a capability in bubblewrap (Operation not permitted): ", NULL,
	    "docker run" },
	{ "in a chroot", "chroot", "user_namespaces",
	    "cannot make a user namespace (Operation not permitted): a process in a chroot cannot make "
	    "a user namespace",
	    "unshare --mount", "docker run" },
	{ "the listener is taken", "listener", "seccomp_notify",
	    "cannot install a seccomp filter with a listener (Device or resource busy): another "
	    "process is the listener for this one, and the kernel allows only one",
	    "start it outside of the program that installed that filter", "docker run" },
	{ "neither Landlock nor a listener", "confine", "seccomp_notify",
	    "cannot install a seccomp filter with a listener (Invalid argument)",
	    "Linux 5.9 or newer", "docker run" },
};

static void
refuse(struct run *r, const char *what, const char *word, const char *last)
{
	char refuse[] = KODA_TEST_BUILD_DIR "/tests/kit/refuse", program[PATH_MAX + 32];
	char powerless[PATH_MAX + 32], *argv[10];
	size_t n = 0;

	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	snprintf(powerless, sizeof(powerless), "%s/powerless", prefix);
	argv[n++] = refuse;
	argv[n++] = (char *)(uintptr_t)what;
	if (strcmp(what, "kept") == 0)
		argv[n++] = powerless;
	argv[n++] = program;
	argv[n++] = (char *)(uintptr_t)word;
	if (last != NULL) {
		argv[n++] = (char *)(uintptr_t) "--mode";
		argv[n++] = (char *)(uintptr_t) "auto";
		argv[n++] = (char *)(uintptr_t) "--";
		argv[n++] = (char *)(uintptr_t)last;
	}
	argv[n] = NULL;
	run_v(r, argv);
}

/* Finds doctor's row of that name that says NO. */
static void
has_row(const struct run *r, const char *name)
{
	char row[64];

	snprintf(row, sizeof(row), "NO  %s ", name);
	has(OUT(r), row);
}

static void
doctor_names_it(void **state)
{
	const struct scene *scene = *state;
	struct run r = { .in = END_NULL };

	refuse(&r, scene->what, "doctor", NULL);
	ended(&r, 1);
	has_row(&r, scene->row);
	has(OUT(&r), scene->why);
	if (scene->remedy != NULL)
		has(OUT(&r), scene->remedy);
	has_not(OUT(&r), scene->absent);
	/* What needs the sandbox has no remedy of its own. */
	has_not(OUT(&r), "overlayfs");
	has_not(OUT(&r), "if everything above works");
	run_done(&r);
}

static void
run_names_it(void **state)
{
	const struct scene *scene = *state;
	struct run r = { .in = END_NULL };

	refuse(&r, scene->what, "run", "true");
	assert_int_not_equal(r.status, 0);
	has(ERR(&r), scene->why);
	if (scene->remedy != NULL)
		has(ERR(&r), scene->remedy);
	has_not(ERR(&r), scene->absent);
	run_done(&r);
}

/* A command that starts a sandbox: the same for both. */
static void
inside_another(void **state)
{
	struct run r = { .in = END_NULL };
	char program[PATH_MAX + 32];

	/* Below the project, because a sandbox shows nothing else of /tmp. */
	process_shell("cp -r \"$1/bin\" \"$1/libexec\" \"$2\"", prefix, project, NULL);
	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", project);
	go(&r, "run", "--mode", "auto", "--", program, "doctor", NULL);
	has_row(&r, "user_namespaces");
	has(OUT(&r), "this is already inside a koda-sandbox, and no sandbox starts in another");
	has(OUT(&r), "start it outside of that sandbox");
	has_not(OUT(&r), "docker run");
	run_done(&r);
	r = (struct run){ .in = END_NULL };
	go(&r, "run", "--mode", "auto", "--", program, "run", "--mode", "auto", "--", "true", NULL);
	has(ERR(&r), "this is already inside a koda-sandbox, and no sandbox starts in another");
	run_done(&r);
}

/* The programs of these tests refuse nothing by themselves. */
static void
nothing_refused(void **state)
{
	struct run r = { .in = END_NULL };

	go(&r, "doctor", NULL);
	ended(&r, 0);
	has_not(OUT(&r), "cannot ");
	run_done(&r);
}

static int
make_all(void **state)
{
	if (make_installation(state) < 0)
		return -1;
	process_shell(POWERLESS, prefix, NULL, NULL);
	return 0;
}

int
main(void)
{
	static const struct CMUnitTest single[] = {
		cmocka_unit_test_setup_teardown(nothing_refused, make_project, remove_project),
		cmocka_unit_test_setup_teardown(inside_another, make_project, remove_project),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + 2 * N_ELEMENTS(scenes)];
	char labels[N_ELEMENTS(scenes)][2][80];
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(single); i++)
		tests[n++] = single[i];
	for (size_t i = 0; i < N_ELEMENTS(scenes); i++) {
		snprintf(labels[i][0], sizeof(labels[i][0]), "%s: doctor", scenes[i].label);
		snprintf(labels[i][1], sizeof(labels[i][1]), "%s: run", scenes[i].label);
		tests[n++] = (struct CMUnitTest){ labels[i][0], doctor_names_it, make_project,
			remove_project, (void *)(uintptr_t)&scenes[i] };
		tests[n++] = (struct CMUnitTest){ labels[i][1], run_names_it, make_project,
			remove_project, (void *)(uintptr_t)&scenes[i] };
	}
	return cmocka_run_group_tests_name("refused", tests, make_all, remove_installation);
}
