/*
 * The one command that makes a machine fit, for the system that it runs. Pure but for remedy_look():
 * what was found is data, so that each distribution can be tested on any.
 */
#ifndef KODA_HOST_MACHINE_REMEDY_H
#define KODA_HOST_MACHINE_REMEDY_H

#include <stdbool.h>

#define REMEDY_MAX 320

struct remedy_facts {
	char distribution
	    [64]; /* ID and ID_LIKE of os-release, with blanks around each: " ubuntu debian " */
	bool container;
	bool root;
	/* Switches of the kernel; -1: it has no such one. */
	long apparmor_restrict_userns;
	long unprivileged_userns_clone;
	long max_user_namespaces;
};

void remedy_look(struct remedy_facts *ret);
/* From the text of an os-release. */
void remedy_parse_os_release(const char *text, char *ret, unsigned size);

/* "sudo apt install bubblewrap"; all that there are when the system is unknown. */
const char *remedy_install_bubblewrap(const struct remedy_facts *facts);

/* Why namespaces are refused, by what was found: *ret_why, and what to do about it. errnum: the refusal's. */
const char *remedy_namespaces(const struct remedy_facts *facts, int errnum, const char **ret_why);

#endif
