/* host/machine/remedy.c: the one command for each system, and which kernel setting it changes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/machine/remedy.h"
#include "include/koda/sandbox.h"
#include "shared/base/cleanup.h"
#include "tests/kit/cases.h"

static const struct {
	const char *label, *os_release, *install;
} systems[] = {
	{ "Debian", "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n",
	    "sudo apt install bubblewrap" },
	{ "Ubuntu", "ID=ubuntu\nID_LIKE=debian\n", "sudo apt install bubblewrap" },
	{ "Mint", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "sudo apt install bubblewrap" },
	{ "Fedora", "NAME=x\nID=fedora\n", "sudo dnf install bubblewrap" },
	{ "Rocky", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
	    "sudo dnf install bubblewrap" },
	{ "Arch", "ID=arch\n", "sudo pacman -S bubblewrap" },
	{ "Manjaro", "ID=manjaro\nID_LIKE=arch", "sudo pacman -S bubblewrap" },
	{ "Tumbleweed", "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n",
	    "sudo zypper install bubblewrap" },
	{ "Alpine", "ID=alpine\n", "sudo apk add bubblewrap" },
	{ "an unknown one", "ID=archaic\nVERSION_ID=3\n", "install the package bubblewrap" },
	{ "none", "", "install the package bubblewrap" },
	{ "an endless one",
	    "ID=debian\nID_LIKE=\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"\n",
	    "sudo apt install bubblewrap" },
};

static void
check_system(void **state)
{
	size_t i = (uintptr_t)*state;
	struct remedy_facts facts = { 0 };
	const char *install;

	remedy_parse_os_release(systems[i].os_release, facts.distribution,
	    sizeof(facts.distribution));
	install = remedy_install_bubblewrap(&facts);
	assert_int_equal(strncmp(install, systems[i].install, strlen(systems[i].install)), 0);
}

#define NONE -1

static const struct {
	const char *label;
	struct remedy_facts facts;
	int errnum;
	const char *remedy;
} refusals[] = {
	{ "Ubuntu's AppArmor switch",
	    { .apparmor_restrict_userns = 1,
		.unprivileged_userns_clone = 1,
		.max_user_namespaces = 31000 },
	    EPERM, "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" },
	{ "Debian's old switch",
	    { .apparmor_restrict_userns = NONE,
		.unprivileged_userns_clone = 0,
		.max_user_namespaces = 31000 },
	    EPERM, "sudo sysctl -w kernel.unprivileged_userns_clone=1" },
	{ "none allowed",
	    { .apparmor_restrict_userns = NONE,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = 0 },
	    ENOSPC, "sudo sysctl -w user.max_user_namespaces=" },
	{ "too many",
	    { .apparmor_restrict_userns = NONE,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = 10 },
	    ENOSPC, "sudo sysctl -w user.max_user_namespaces=" },
	{ "a container",
	    { .container = true,
		.root = true,
		.apparmor_restrict_userns = 1,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = 31000 },
	    EPERM, "start the container with nesting allowed" },
	{ "a kernel without",
	    { .apparmor_restrict_userns = NONE,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = NONE },
	    EINVAL, "a kernel with CONFIG_USER_NS" },
};

static void
check_refusal(void **state)
{
	size_t i = (uintptr_t)*state;
	const char *why = NULL,
		   *remedy = remedy_namespaces(&refusals[i].facts, refusals[i].errnum, &why);

	assert_int_equal(strncmp(remedy, refusals[i].remedy, strlen(refusals[i].remedy)), 0);
	assert_non_null(why);
	assert_true(why[0] != '\0');
}

static int
note_remedy(void *data, const struct koda_capability *c)
{
	unsigned *n = data;

	if (strcmp(c->name, "worker") != 0 && strcmp(c->name, "egress") != 0)
		return 0;
	assert_false(c->available);
	if (strstr(c->remedy, "TMPDIR") == NULL)
		fail_msg("%s: %s", c->name, c->remedy);
	++*n;
	return 0;
}

/* What is tried out needs a directory; loopback is not what is missing. */
static void
no_scratch_directory(void **state)
{
	unsigned n = 0;

	assert_int_equal(setenv("TMPDIR", "/nonexistent/koda", 1), 0);
	assert_int_equal(koda_doctor(NULL, note_remedy, &n), 0);
	assert_int_equal(n, 2);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(systems) + N_ELEMENTS(refusals) + 1];
	size_t n = 0;

	CASES(systems, check_system);
	CASES(refusals, check_refusal);
	tests[n++] =
	    (struct CMUnitTest){ "no scratch directory", no_scratch_directory, NULL, NULL, NULL };
	return cmocka_run_group_tests_name("remedy", tests, NULL, NULL);
}
