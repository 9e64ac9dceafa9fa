/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with this machine, and the one command that corrects it. Pure except for
 * remedy_look(): what was found is passed in as data, so that each distribution and each container
 * can be tested on any other. A remedy is given for a cause that was found, never for a guess.
 *
 * Tests: tests/unit/remedy_test.c; the causes made for real: tests/integration/refused_test.c.
 */
#ifndef KODA_HOST_MACHINE_REMEDY_H
#define KODA_HOST_MACHINE_REMEDY_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/confine/userns.h"

/* A path, and the words around it. */
#define REMEDY_MAX 640
#define REMEDY_WHY 256

/* Where AppArmor's tools look for profiles, and the name that ours is installed under. */
#define REMEDY_PROFILE "/etc/apparmor.d/koda-sandbox"

enum remedy_container {
	REMEDY_NO_CONTAINER,
	REMEDY_KUBERNETES,
	REMEDY_PODMAN,
	REMEDY_DOCKER,
	REMEDY_LXC,
	REMEDY_OTHER_CONTAINER,
	REMEDY_N_CONTAINERS,
};

struct remedy_facts {
	/* ID and ID_LIKE from os-release, with blanks around each: " ubuntu debian ". */
	char distribution[64];
	enum remedy_container container;
	bool root;
	bool nested;       /* this process is a command in a koda-sandbox */
	bool chrooted;     /* its root is not a mount, so it came from chroot() */
	bool proc_covered; /* something is mounted below /proc */
	bool apparmor;     /* the kernel has AppArmor, and it is on */
	bool profile;      /* AppArmor's directory has our profile, for this installation */
	bool wsl;
	char label[128]; /* this process's AppArmor profile; "": unconfined */
	/* koda-sandbox-launch, which the profile is for; "": not installed. */
	const char *launch;
	/* Settings of the kernel; -1: this kernel does not have it. */
	long apparmor_restrict_userns;
	long unprivileged_userns_clone;
	long max_user_namespaces;
};

/* launch: kept in ret, not copied. */
void remedy_look(struct remedy_facts *ret, const char *launch);
/* Fills ret, the `distribution` of remedy_facts, from the text of an os-release file. */
void remedy_parse_os_release(const char *text, char *ret, unsigned size);
/* Fills the facts that the text of a mountinfo file shows: chrooted, proc_covered. */
void remedy_parse_mounts(const char *text, struct remedy_facts *ret);

/* The install command, such as "sudo apt install bubblewrap"; the commands of all known systems if
 * this one is unknown. */
const char *remedy_install_bubblewrap(const struct remedy_facts *facts);

/* Writes the cause of what was refused, judged by the facts, to why (REMEDY_WHY bytes), and what to
 * do about it to ret (REMEDY_MAX bytes). */
void remedy_namespaces(const struct remedy_facts *facts, const struct userns_outcome *refused,
    char *why, char *ret);

/* The same for a filter with a listener that could not be installed. */
void remedy_listener(const struct remedy_facts *facts, int errnum, char *why, char *ret);

#endif
