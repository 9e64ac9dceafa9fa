/* SPDX-License-Identifier: Apache-2.0 */
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

#define NONE   -1
#define LAUNCH "/usr/libexec/koda-sandbox/koda-sandbox-launch"
#define NO_SETTINGS                                                                                \
	.launch = LAUNCH, .apparmor_restrict_userns = NONE, .unprivileged_userns_clone = NONE,     \
	.max_user_namespaces = 31000

static const struct {
	const char *label;
	struct remedy_facts facts;
	struct userns_outcome refused;
	const char *why, *remedy;
} refusals[] = {
	{ "Ubuntu 24.04 without the profile",
	    { .launch = LAUNCH,
		.apparmor = true,
		.apparmor_restrict_userns = 1,
		.unprivileged_userns_clone = 1,
		.max_user_namespaces = 31000 },
	    { USERNS_CAPABILITY, EPERM, false },
	    "cannot use a capability in a user namespace (Operation not permitted): AppArmor lets "
	    "only programs with a profile",
	    "printf 'abi <abi/4.0>,\\nprofile koda-sandbox \"" LAUNCH
	    "\" flags=(unconfined) { userns, }\\n' | sudo tee /etc/apparmor.d/koda-sandbox && sudo "
	    "apparmor_parser -r /etc/apparmor.d/koda-sandbox" },
	{ "Ubuntu 24.04, its profile installed and not loaded",
	    { .launch = LAUNCH,
		.apparmor = true,
		.profile = true,
		.apparmor_restrict_userns = 1,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = 31000 },
	    { USERNS_USER, EACCES, false },
	    "cannot make a user namespace (Permission denied): AppArmor",
	    "sudo apparmor_parser -r /etc/apparmor.d/koda-sandbox" },
	{ "a path that a shell would read otherwise",
	    { .launch = "/home/o'neil/koda-sandbox-launch",
		.apparmor = true,
		.apparmor_restrict_userns = 1,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = 31000 },
	    { USERNS_CAPABILITY, EPERM, false }, "cannot use a capability",
	    "install koda-sandbox below /usr or /usr/local" },
	{ "Ubuntu's switch, in a container",
	    { .launch = LAUNCH,
		.container = REMEDY_DOCKER,
		.profile = true,
		.apparmor_restrict_userns = 1,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = 31000 },
	    { USERNS_CAPABILITY, EPERM, false }, "cannot use a capability",
	    "on the machine of the container: sudo apparmor_parser" },
	{ "bwrap-userns-restrict", { NO_SETTINGS, .apparmor = true }, { USERNS_KEPT, EPERM, false },
	    "cannot keep a capability in bubblewrap (Operation not permitted): AppArmor's profile "
	    "for bubblewrap (bwrap-userns-restrict)",
	    "printf 'abi <abi/4.0>," },
	{ "a bubblewrap that keeps nothing", { NO_SETTINGS }, { USERNS_KEPT, EPERM, false },
	    "cannot keep a capability in bubblewrap (Operation not permitted): bubblewrap starts",
	    "install bubblewrap from your distribution again" },
	{ "Debian's old switch",
	    { .launch = LAUNCH,
		.apparmor_restrict_userns = NONE,
		.unprivileged_userns_clone = 0,
		.max_user_namespaces = 31000 },
	    { USERNS_USER, EPERM, false },
	    "cannot make a user namespace (Operation not permitted): kernel.",
	    "sudo sysctl -w kernel.unprivileged_userns_clone=1" },
	{ "none allowed",
	    { .launch = LAUNCH,
		.container = REMEDY_DOCKER,
		.apparmor_restrict_userns = NONE,
		.unprivileged_userns_clone = NONE,
		.max_user_namespaces = 0 },
	    { USERNS_USER, ENOSPC, false }, "cannot make a user namespace",
	    "sudo sysctl -w user.max_user_namespaces=15000" },
	{ "too many", { NO_SETTINGS }, { USERNS_USER, ENOSPC, false },
	    "cannot make a user namespace", "sudo sysctl -w user.max_user_namespaces=15000" },
	{ "Docker's filter", { NO_SETTINGS, .container = REMEDY_DOCKER, .root = true },
	    { USERNS_USER, EPERM, true },
	    "cannot make a user namespace (Operation not permitted): a seccomp",
	    "docker run --security-opt seccomp=unconfined" },
	{ "Podman's filter", { NO_SETTINGS, .container = REMEDY_PODMAN },
	    { USERNS_USER, EPERM, true }, "cannot make a user namespace",
	    "podman run --security-opt seccomp=unconfined" },
	{ "Kubernetes' filter", { NO_SETTINGS, .container = REMEDY_KUBERNETES },
	    { USERNS_USER, EPERM, true }, "cannot make a user namespace",
	    "set securityContext.seccompProfile.type: Unconfined" },
	{ "a service's filter", { NO_SETTINGS }, { USERNS_MOUNT_NS, EPERM, true },
	    "cannot make a mount namespace", "start it where no filter refuses" },
	{ "Docker's AppArmor profile",
	    { NO_SETTINGS, .container = REMEDY_DOCKER, .label = "docker-default (enforce)" },
	    { USERNS_MOUNT, EACCES, false },
	    "cannot mount in a user namespace (Permission denied): the AppArmor profile",
	    "docker run --security-opt apparmor=unconfined" },
	{ "Docker's /proc", { NO_SETTINGS, .container = REMEDY_DOCKER, .proc_covered = true },
	    { USERNS_PROC, EPERM, false }, "cannot mount /proc in a user namespace",
	    "docker run --security-opt systempaths=unconfined" },
	{ "Podman's /proc", { NO_SETTINGS, .container = REMEDY_PODMAN, .proc_covered = true },
	    { USERNS_PROC, EPERM, false }, "cannot mount /proc",
	    "podman run --security-opt unmask=ALL" },
	{ "Kubernetes' /proc",
	    { NO_SETTINGS, .container = REMEDY_KUBERNETES, .proc_covered = true },
	    { USERNS_PROC, EPERM, false }, "cannot mount /proc",
	    "set hostUsers: false for the pod and securityContext.procMount: Unmasked" },
	{ "a chroot", { NO_SETTINGS, .container = REMEDY_DOCKER, .chrooted = true },
	    { USERNS_USER, EPERM, false }, "cannot make a user namespace",
	    "enter the directory with" },
	{ "inside another", { NO_SETTINGS, .nested = true }, { USERNS_USER, EPERM, false },
	    "cannot make a user namespace", "start it outside of that sandbox" },
	{ "a container whose cause is not known", { NO_SETTINGS, .container = REMEDY_DOCKER },
	    { USERNS_MOUNT, EPERM, false }, "cannot mount in a user namespace",
	    "look for the refusal in dmesg" },
	{ "a kernel without", { NO_SETTINGS }, { USERNS_USER, EINVAL, false },
	    "cannot make a user namespace", "a kernel with CONFIG_USER_NS" },
};

static void
begins(const char *text, const char *with)
{
	if (strncmp(text, with, strlen(with)) != 0)
		fail_msg("'%s' instead of '%s'", text, with);
}

static void
check_refusal(void **state)
{
	size_t i = (uintptr_t)*state;
	char why[REMEDY_WHY], remedy[REMEDY_MAX];

	remedy_namespaces(&refusals[i].facts, &refusals[i].refused, why, remedy);
	begins(why, refusals[i].why);
	begins(remedy, refusals[i].remedy);
}

static const struct {
	const char *label;
	struct remedy_facts facts;
	int errnum;
	const char *why, *remedy;
} listeners[] = {
	{ "WSL2", { .wsl = true }, EBUSY, "cannot install a seccomp filter with a listener (Device",
	    "set networkingMode=nat in the section [wsl2] of .wslconfig" },
	{ "another listener", { .wsl = false }, EBUSY, "cannot install a seccomp filter",
	    "start it outside of the program that installed that filter" },
	{ "inside another", { .nested = true }, EBUSY, "cannot install a seccomp filter",
	    "start it outside of that sandbox" },
	{ "an old kernel", { .wsl = false }, EINVAL, "cannot install a seccomp filter",
	    "Linux 5.9 or newer" },
};

static void
check_listener(void **state)
{
	size_t i = (uintptr_t)*state;
	char why[REMEDY_WHY], remedy[REMEDY_MAX];

	remedy_listener(&listeners[i].facts, listeners[i].errnum, why, remedy);
	begins(why, listeners[i].why);
	begins(remedy, listeners[i].remedy);
}

#define ROOT  "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
#define PROC  "23 22 0:20 / /proc rw - proc proc rw\n"
#define KCORE "24 23 0:5 /null /proc/kcore rw - tmpfs tmpfs rw\n"

static const struct {
	const char *label, *mountinfo;
	bool chrooted, proc_covered;
} mounts[] = {
	{ "a machine", ROOT PROC, false, false },
	{ "a container's /proc", ROOT PROC KCORE, false, true },
	{ "a chroot's mounts", PROC, true, false },
	{ "another order", KCORE PROC ROOT, false, true },
	{ "no line", "", false, false },
	{ "half a line", "22 1 8:1", true, false },
};

static void
check_mounts(void **state)
{
	size_t i = (uintptr_t)*state;
	struct remedy_facts facts = { 0 };

	remedy_parse_mounts(mounts[i].mountinfo, &facts);
	assert_int_equal(facts.chrooted, mounts[i].chrooted);
	assert_int_equal(facts.proc_covered, mounts[i].proc_covered);
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
	struct CMUnitTest tests[N_ELEMENTS(systems) + N_ELEMENTS(refusals) + N_ELEMENTS(listeners) +
	    N_ELEMENTS(mounts) + 1];
	size_t n = 0;

	CASES(systems, check_system);
	CASES(refusals, check_refusal);
	CASES(listeners, check_listener);
	CASES(mounts, check_mounts);
	tests[n++] =
	    (struct CMUnitTest){ "no scratch directory", no_scratch_directory, NULL, NULL, NULL };
	return cmocka_run_group_tests_name("remedy", tests, NULL, NULL);
}
