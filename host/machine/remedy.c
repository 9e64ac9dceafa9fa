/* SPDX-License-Identifier: Apache-2.0 */
#include "host/machine/remedy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "shared/base/io.h"

static const struct {
	const char *names; /* as in os-release */
	const char *install;
} distributions[] = {
	{ " debian ubuntu ", "sudo apt install bubblewrap" },
	{ " fedora rhel centos ", "sudo dnf install bubblewrap" },
	{ " arch ", "sudo pacman -S bubblewrap" },
	{ " suse opensuse ", "sudo zypper install bubblewrap" },
	{ " alpine ", "sudo apk add bubblewrap" },
};

/* Do a and b have a word in common? Both have blanks around each word. */
static bool
share_a_word(const char *a, const char *b)
{
	const char *p = a;

	while (*p == ' ' && p[1] != '\0') {
		size_t len = strcspn(p + 1, " ") + 2;
		char word[66];

		if (len < sizeof(word)) {
			snprintf(word, sizeof(word), "%.*s", (int)len, p);
			if (strstr(b, word) != NULL)
				return true;
		}
		p += len - 1;
	}
	return false;
}

const char *
remedy_install_bubblewrap(const struct remedy_facts *facts)
{
	for (size_t i = 0; i < N_ELEMENTS(distributions); i++) {
		if (share_a_word(facts->distribution, distributions[i].names))
			return distributions[i].install;
	}
	return "install the package bubblewrap: sudo apt install bubblewrap (Debian, Ubuntu), sudo dnf "
	       "install bubblewrap (Fedora), sudo pacman -S bubblewrap (Arch)";
}

/* What to change, by the kind of container. */
/* clang-format off */
typedef const char *const by_container[REMEDY_N_CONTAINERS];

static by_container allow_filter = {
	[REMEDY_NO_CONTAINER] = "start it where no filter refuses unshare() and mount() (a service: RestrictNamespaces=no and no SystemCallFilter=)",
	[REMEDY_KUBERNETES] = "set securityContext.seccompProfile.type: Unconfined for the container",
	[REMEDY_PODMAN] = "podman run --security-opt seccomp=unconfined",
	[REMEDY_DOCKER] = "docker run --security-opt seccomp=unconfined",
	[REMEDY_LXC] = "lxc config set NAME security.nesting true",
	[REMEDY_OTHER_CONTAINER] = "start the container without a seccomp filter",
};

static by_container allow_mount = {
	[REMEDY_NO_CONTAINER] = "start it outside of that profile, or allow userns and mount in it",
	[REMEDY_KUBERNETES] = "set securityContext.appArmorProfile.type: Unconfined for the container",
	[REMEDY_PODMAN] = "podman run --security-opt apparmor=unconfined",
	[REMEDY_DOCKER] = "docker run --security-opt apparmor=unconfined",
	[REMEDY_LXC] = "lxc config set NAME security.nesting true",
	[REMEDY_OTHER_CONTAINER] = "start the container without an AppArmor profile",
};

static by_container uncover_proc = {
	[REMEDY_NO_CONTAINER] = "'findmnt -R /proc' shows what to unmount",
	[REMEDY_KUBERNETES] = "set hostUsers: false for the pod and securityContext.procMount: Unmasked for the container",
	[REMEDY_PODMAN] = "podman run --security-opt unmask=ALL",
	[REMEDY_DOCKER] = "docker run --security-opt systempaths=unconfined",
	[REMEDY_LXC] = "lxc config set NAME security.nesting true",
	[REMEDY_OTHER_CONTAINER] = "start the container with a /proc that nothing covers",
};
/* clang-format on */

/* A path that neither a shell nor printf nor AppArmor reads otherwise than as itself, and that fits. */
static bool
is_plain(const char *path)
{
	return strlen(path) < REMEDY_MAX / 2 &&
	    path[strspn(path,
		"/-._+0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

/* Loads our profile; writes it first if it is not there. */
static void
write_profile_command(const struct remedy_facts *facts, char *ret)
{
	const char *where =
	    facts->container != REMEDY_NO_CONTAINER ? "on the machine of the container: " : "";

	if (facts->profile)
		snprintf(ret, REMEDY_MAX, "%ssudo apparmor_parser -r " REMEDY_PROFILE, where);
	else if (facts->launch[0] == '\0')
		snprintf(ret, REMEDY_MAX, "install koda-sandbox again: make install");
	else if (!is_plain(facts->launch))
		snprintf(ret, REMEDY_MAX,
		    "install koda-sandbox below /usr or /usr/local, where its AppArmor profile is "
		    "installed with it");
	else
		snprintf(ret, REMEDY_MAX,
		    "%sprintf 'abi <abi/4.0>,\\nprofile koda-sandbox \"%s\" flags=(unconfined) { "
		    "userns, }\\n' | sudo tee " REMEDY_PROFILE
		    " && sudo apparmor_parser -r " REMEDY_PROFILE,
		    where, facts->launch);
}

static bool
is_refusal(int errnum)
{
	return errnum == EPERM || errnum == EACCES;
}

static bool
is_nested(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return f->nested;
}

static bool
is_limited_to_none(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->step == USERNS_USER && f->max_user_namespaces == 0;
}

static bool
is_for_root_alone(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->step == USERNS_USER && is_refusal(o->errnum) && !f->root &&
	    f->unprivileged_userns_clone == 0;
}

/* As Ubuntu has it: the namespace is made, and nothing may be done in it; in 23.10, not made. */
static bool
is_restricted(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return (o->step == USERNS_USER || o->step == USERNS_CAPABILITY) && is_refusal(o->errnum) &&
	    !f->root && f->label[0] == '\0' && f->apparmor_restrict_userns > 0;
}

static bool
is_lost_to_apparmor(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->step == USERNS_KEPT && f->apparmor;
}

static bool
is_lost(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->step == USERNS_KEPT;
}

static bool
is_in_chroot(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->step == USERNS_USER && o->errnum == EPERM && f->chrooted;
}

static bool
is_filtered(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->filtered;
}

static bool
is_under_profile(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return f->label[0] != '\0' && is_refusal(o->errnum);
}

static bool
is_proc_covered(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->step == USERNS_PROC && o->errnum == EPERM && f->proc_covered;
}

static bool
is_used_up(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->errnum == ENOSPC || o->errnum == EUSERS;
}

static bool
is_not_built(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return o->errnum == EINVAL || o->errnum == ENOSYS;
}

static bool
is_any(const struct remedy_facts *f, const struct userns_outcome *o)
{
	return true;
}

/* The first row that applies. A row has one of: a text, a text for each kind of container, a
 * function. docs/PLATFORMS.md lists each cause with its meaning (tools/check-docs). */
/* clang-format off */
static const struct {
	bool (*applies)(const struct remedy_facts *, const struct userns_outcome *);
	const char *why, *remedy;
	by_container *remedies;
	void (*write)(const struct remedy_facts *, char *);
} causes[] = {
	{ is_nested, "this is already inside a koda-sandbox, and no sandbox starts in another",
	    .remedy = "start it outside of that sandbox" },
	{ is_limited_to_none, "user.max_user_namespaces is 0",
	    .remedy = "sudo sysctl -w user.max_user_namespaces=15000" },
	{ is_for_root_alone, "kernel.unprivileged_userns_clone is 0",
	    .remedy = "sudo sysctl -w kernel.unprivileged_userns_clone=1" },
	{ is_restricted, "AppArmor lets only programs with a profile use user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
	    .write = write_profile_command },
	{ is_lost_to_apparmor, "AppArmor's profile for bubblewrap (bwrap-userns-restrict) removes the capabilities of what bubblewrap starts",
	    .write = write_profile_command },
	{ is_lost, "bubblewrap starts its program without the capability that --cap-add names",
	    .remedy = "install bubblewrap from your distribution again" },
	{ is_in_chroot, "a process in a chroot cannot make a user namespace",
	    .remedy = "enter the directory with 'unshare --mount' and 'pivot_root', or with systemd-nspawn, instead of chroot" },
	{ is_filtered, "a seccomp filter refuses what a sandbox needs", .remedies = &allow_filter },
	{ is_under_profile, "the AppArmor profile of this process refuses what a sandbox needs", .remedies = &allow_mount },
	{ is_proc_covered, "parts of /proc are covered, so the kernel refuses to mount another one", .remedies = &uncover_proc },
	{ is_used_up, "too many namespaces are in use, or they are nested too deep",
	    .remedy = "sudo sysctl -w user.max_user_namespaces=15000" },
	{ is_not_built, "this kernel does not have what a sandbox needs",
	    .remedy = "a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS" },
	{ is_any, "the kernel or a security module refuses what a sandbox needs",
	    .remedy = "look for the refusal in dmesg" },
};

/* What was tried, as the object of "cannot". */
static const char *const attempts[] = {
	[USERNS_USER] = "make a user namespace",
	[USERNS_CAPABILITY] = "use a capability in a user namespace",
	[USERNS_MOUNT_NS] = "make a mount namespace",
	[USERNS_PID_NS] = "make a pid namespace",
	[USERNS_NET_NS] = "make a network namespace",
	[USERNS_IPC_NS] = "make an ipc namespace",
	[USERNS_UTS_NS] = "make a uts namespace",
	[USERNS_MOUNT] = "mount in a user namespace",
	[USERNS_PROC] = "mount /proc in a user namespace",
	[USERNS_KEPT] = "keep a capability in bubblewrap",
};
/* clang-format on */

void
remedy_namespaces(const struct remedy_facts *facts, const struct userns_outcome *refused, char *why,
    char *ret)
{
	size_t i = 0;

	while (!causes[i].applies(facts, refused))
		i++;
	snprintf(why, REMEDY_WHY, "cannot %s (%s): %s", attempts[refused->step],
	    strerrordesc_np(refused->errnum), causes[i].why);
	if (causes[i].write != NULL)
		causes[i].write(facts, ret);
	else
		snprintf(ret, REMEDY_MAX, "%s",
		    causes[i].remedies != NULL ? (*causes[i].remedies)[facts->container]
					       : causes[i].remedy);
}

void
remedy_listener(const struct remedy_facts *facts, int errnum, char *why, char *ret)
{
	const char *text = "Linux 5.9 or newer, and a container that lets seccomp() through";

	if (facts->nested)
		text = "start it outside of that sandbox";
	else if (errnum == EBUSY && facts->wsl)
		text = "set networkingMode=nat in the section [wsl2] of .wslconfig, then run wsl "
		       "--shutdown";
	else if (errnum == EBUSY)
		text = "start it outside of the program that installed that filter";
	snprintf(ret, REMEDY_MAX, "%s", text);
	snprintf(why, REMEDY_WHY, "cannot install a seccomp filter with a listener (%s)%s",
	    strerrordesc_np(errnum),
	    facts->nested ? ": this is already inside a koda-sandbox"
		: errnum == EBUSY
		? ": another process is the listener for this one, and the kernel "
		  "allows only one"
		: "");
}

/* Appends the value of NAME=value or NAME="value" to ret, as words with blanks around each. */
static void
append_words(const char *line, char *ret, unsigned size)
{
	size_t len = strlen(ret);

	for (const char *p = strchr(line, '=') + 1; *p != '\n' && *p != '\0'; p++) {
		if (*p == '"' || *p == '\'')
			continue;
		if (len + 2 >= size)
			break;
		ret[len++] = *p;
	}
	if (ret[len - 1] != ' ')
		ret[len++] = ' ';
	ret[len] = '\0';
}

void
remedy_parse_os_release(const char *text, char *ret, unsigned size)
{
	snprintf(ret, size, " ");
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "ID=", 3) == 0 || strncmp(line, "ID_LIKE=", 8) == 0)
			append_words(line, ret, size);
	}
}

static long
read_switch(const char *path)
{
	char text[32], *end;
	long value;

	io_read_text(path, text, sizeof(text));
	value = strtol(text, &end, 10);
	return end == text ? -1 : value;
}

static enum remedy_container
find_container(void)
{
	static const struct {
		const char *mark;
		enum remedy_container kind;
	} marks[] = {
		{ "/var/run/secrets/kubernetes.io", REMEDY_KUBERNETES },
		{ "/run/.containerenv", REMEDY_PODMAN },
		{ "/.dockerenv", REMEDY_DOCKER },
		{ "/dev/.lxc-boot-id", REMEDY_LXC },
		{ "/dev/lxd", REMEDY_LXC },
		{ "/run/systemd/container", REMEDY_OTHER_CONTAINER },
	};

	for (size_t i = 0; i < N_ELEMENTS(marks); i++) {
		if (access(marks[i].mark, F_OK) == 0)
			return marks[i].kind;
	}
	return REMEDY_NO_CONTAINER;
}

/* The fifth word of a line is where it is mounted. */
void
remedy_parse_mounts(const char *text, struct remedy_facts *ret)
{
	ret->chrooted = text[0] != '\0';
	ret->proc_covered = false;
	for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
		const char *p;

		line += *line == '\n';
		p = line;
		for (int i = 0; i < 4 && p != NULL; i++)
			p = (p = strchr(p, ' ')) != NULL ? p + 1 : NULL;
		if (p == NULL)
			break;
		if (strncmp(p, "/ ", 2) == 0)
			ret->chrooted = false;
		if (strncmp(p, "/proc/", 6) == 0)
			ret->proc_covered = true;
	}
}

#define MOUNTS_SIZE (256 * 1024) /* a line takes 100 bytes; 30 mounts are usual */

static void
look_at_mounts(struct remedy_facts *ret)
{
	cleanup_free char *text = malloc(MOUNTS_SIZE);

	if (text != NULL && io_read_text("/proc/self/mountinfo", text, MOUNTS_SIZE) > 0)
		remedy_parse_mounts(text, ret);
}

/* The text of a small file contains the words. */
static bool
says(const char *path, const char *words)
{
	char text[4096];

	return io_read_text(path, text, sizeof(text)) > 0 && strstr(text, words) != NULL;
}

static void
look_at_apparmor(struct remedy_facts *ret)
{
	ret->apparmor = says("/sys/module/apparmor/parameters/enabled", "Y");
	io_read_text("/proc/self/attr/apparmor/current", ret->label, sizeof(ret->label));
	ret->label[strcspn(ret->label, "\n")] = '\0';
	/* A profile with flags=(unconfined) refuses nothing. */
	if (strcmp(ret->label, "unconfined") == 0 || strstr(ret->label, " (unconfined)") != NULL)
		ret->label[0] = '\0';
	ret->profile = ret->launch[0] != '\0' && says(REMEDY_PROFILE, ret->launch);
}

void
remedy_look(struct remedy_facts *ret, const char *launch)
{
	char text[4096];

	*ret = (struct remedy_facts){ .launch = launch };
	io_read_text("/etc/os-release", text, sizeof(text));
	if (text[0] == '\0')
		io_read_text("/usr/lib/os-release", text, sizeof(text));
	remedy_parse_os_release(text, ret->distribution, sizeof(ret->distribution));
	ret->container = find_container();
	ret->root = geteuid() == 0;
	/* stage2, the first process of a sandbox, has this name. */
	ret->nested = says("/proc/1/comm", "koda-stage2\n");
	ret->wsl = says("/proc/sys/kernel/osrelease", "WSL2");
	look_at_mounts(ret);
	look_at_apparmor(ret);
	ret->apparmor_restrict_userns =
	    read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
	ret->unprivileged_userns_clone = read_switch("/proc/sys/kernel/unprivileged_userns_clone");
	ret->max_user_namespaces = read_switch("/proc/sys/user/max_user_namespaces");
}
