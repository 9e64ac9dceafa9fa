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

const char *
remedy_namespaces(const struct remedy_facts *facts, int errnum, const char **ret_why)
{
	if (facts->max_user_namespaces == 0) {
		*ret_why = "user.max_user_namespaces is 0";
		return "sudo sysctl -w user.max_user_namespaces=15000";
	}
	if (!facts->root && facts->unprivileged_userns_clone == 0) {
		*ret_why = "kernel.unprivileged_userns_clone is 0";
		return "sudo sysctl -w kernel.unprivileged_userns_clone=1";
	}
	if (!facts->root && facts->apparmor_restrict_userns > 0) {
		*ret_why = "AppArmor removes their capabilities "
			   "(kernel.apparmor_restrict_unprivileged_userns)";
		return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
	}
	if (facts->container) {
		*ret_why = "this container may not create nested ones";
		return "start the container with nesting allowed: docker run --security-opt "
		       "seccomp=unconfined --security-opt apparmor=unconfined --security-opt "
		       "systempaths=unconfined, or lxc config set NAME security.nesting true";
	}
	if (errnum == ENOSPC || errnum == EUSERS) {
		*ret_why = "too many are in use, or they are nested too deep";
		return "sudo sysctl -w user.max_user_namespaces=15000";
	}
	if (errnum == EINVAL || errnum == ENOSYS) {
		*ret_why = "this kernel does not have them";
		return "a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and "
		       "CONFIG_UTS_NS";
	}
	*ret_why = "the kernel or a security module refuses them";
	return "look for the refusal in dmesg";
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

static bool
in_container(void)
{
	static const char *const marks[] = { "/run/.containerenv", "/.dockerenv",
		"/run/systemd/container", "/dev/.lxc-boot-id" };

	for (size_t i = 0; i < N_ELEMENTS(marks); i++) {
		if (access(marks[i], F_OK) == 0)
			return true;
	}
	return false;
}

void
remedy_look(struct remedy_facts *ret)
{
	char text[4096];

	io_read_text("/etc/os-release", text, sizeof(text));
	if (text[0] == '\0')
		io_read_text("/usr/lib/os-release", text, sizeof(text));
	remedy_parse_os_release(text, ret->distribution, sizeof(ret->distribution));
	ret->container = in_container();
	ret->root = geteuid() == 0;
	ret->apparmor_restrict_userns =
	    read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
	ret->unprivileged_userns_clone = read_switch("/proc/sys/kernel/unprivileged_userns_clone");
	ret->max_user_namespaces = read_switch("/proc/sys/user/max_user_namespaces");
}
