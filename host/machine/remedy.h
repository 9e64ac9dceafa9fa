/*
 * The one command that makes this machine fit, chosen for its distribution. Pure except for
 * remedy_look(): what was found is passed in as data, so that each distribution can be tested on
 * any other.
 */
#ifndef KODA_HOST_MACHINE_REMEDY_H
#define KODA_HOST_MACHINE_REMEDY_H

#include <stdbool.h>

#define REMEDY_MAX 320

struct remedy_facts {
	/* ID and ID_LIKE from os-release, with blanks around each: " ubuntu debian ". */
	char distribution[64];
	bool container;
	bool root;
	/* Settings of the kernel; -1: this kernel does not have it. */
	long apparmor_restrict_userns;
	long unprivileged_userns_clone;
	long max_user_namespaces;
};

void remedy_look(struct remedy_facts *ret);
/* Fills ret, the `distribution` of remedy_facts, from the text of an os-release file. */
void remedy_parse_os_release(const char *text, char *ret, unsigned size);

/* The install command, such as "sudo apt install bubblewrap"; the commands of all known systems if
 * this one is unknown. */
const char *remedy_install_bubblewrap(const struct remedy_facts *facts);

/* Why namespaces are refused, judged by the facts: sets *ret_why and returns what to do about it.
 * errnum: the refusal's errno. */
const char *remedy_namespaces(const struct remedy_facts *facts, int errnum, const char **ret_why);

#endif
