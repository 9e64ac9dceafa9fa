/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'koda-sandbox run' on kernels that have less (tests/kit/old_kernel): what each mode does there,
 * what it prints, and that commands get no more than they should.
 */
#include "tests/kit/cases.h"
#include "tests/kit/run_scene.h"

#define NO_LANDLOCK "commands run without Landlock"

struct kernel {
	const char *label, *version, *mode, *shell;
	int status;
	const char *says; /* expected on standard error, or NULL */
};

/* clang-format off */
static const struct kernel kernels[] = {
	{ "no mount_setattr: auto", "5.11", "auto", "echo ran", 88, "does not confine commands fully" },
	{ "no mount_setattr: plan", "5.11", "plan", "test -e .", 0, NO_LANDLOCK },
	{ "no mount_setattr: plan changes nothing", "5.11", "plan", "touch new", 1, "deny file-write*" },
	{ "no mount_setattr: nor what is mounted in it", "5.11", "plan", "touch /proc/sys/new", 1, "cannot touch" },
	{ "no mount_setattr: nothing is emptied", "5.11", "plan", "truncate -s 0 plain", 1, "Read-only" },
	{ "no mount_setattr: not what /proc sets", "5.11", "plan", "echo 900 >/proc/self/oom_score_adj", 2, "Read-only" },
	{ "no mount_setattr: mounts that wait cannot be seen", "5.11", "plan",
	    "test -z \"$(ls -A /run/koda/aside)\" && ! touch /run/koda/aside/new 2>/dev/null", 0, NO_LANDLOCK },
	{ "no Landlock: auto", "5.12", "auto", "echo ran", 88, "does not confine commands fully" },
	{ "no Landlock: auto names what helps", "5.12", "auto", "echo ran", 88, "try: --mode safe" },
	{ "no Landlock: plan", "5.12", "plan", "test -e .", 0, NO_LANDLOCK },
	{ "no Landlock: plan changes nothing", "5.12", "plan", "touch new", 1, "deny file-write*" },
	{ "no Landlock: not what is outside", "5.12", "plan", "echo x >\"$HOME/new\"", 2, "Read-only" },
	{ "no Landlock: nothing is emptied", "5.12", "plan", "truncate -s 0 plain", 1, "Read-only" },
	{ "no Landlock: not what /proc sets", "5.12", "plan", "echo 900 >/proc/self/oom_score_adj", 2, "Read-only" },
	{ "no Landlock: no whiteout", "5.12", "plan", "mknod /tmp/gone c 0 0", 1, "not permitted" },
	{ "no Landlock: files move", "5.12", "plan", "mkdir /tmp/a /tmp/b && touch /tmp/a/x && mv /tmp/a/x /tmp/b/", 0, NO_LANDLOCK },
	{ "no Landlock: the worker cannot be traced", "5.12", "plan",
	    "for p in /proc/[0-9]*; do grep -q '^Name:.koda' $p/status && cat $p/environ && exit 9; done; exit 0", 0, NO_LANDLOCK },
	{ "answers can be interrupted", "5.18", "plan", "ln -s x /tmp/link && test -L /tmp/link", 0, NO_LANDLOCK },
};
/* clang-format on */

static void
test_kernel(void **state)
{
	const struct kernel *k = *state;
	char shim[] = KODA_TEST_BUILD_DIR "/tests/kit/old_kernel", program[PATH_MAX + 32];
	char run_word[] = "run", mode_word[] = "--mode", c_word[] = "-c";
	char *argv[] = { shim, (char *)k->version, program, run_word, mode_word, (char *)k->mode,
		c_word, (char *)k->shell, NULL };
	struct run r = { .in = END_NULL };

	put_text("plain", "full\n");
	snprintf(program, sizeof(program), "%s/bin/koda-sandbox", prefix);
	run_v(&r, argv);
	ended(&r, k->status);
	is(OUT(&r), "");
	has(ERR(&r), k->says);
	file_is("plain", "full\n");
	run_done(&r);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(kernels)];
	size_t n = 0;

	if (!has_inotify())
		return skip_all(NO_INOTIFY);
	for (size_t i = 0; i < N_ELEMENTS(kernels); i++)
		tests[n++] = (struct CMUnitTest){ kernels[i].label, test_kernel, make_project,
			remove_project, (void *)(uintptr_t)&kernels[i] };
	return cmocka_run_group_tests_name("old_kernels", tests, make_installation,
	    remove_installation);
}
