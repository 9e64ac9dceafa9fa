/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/confine/rights.h"

#include "shared/base/cleanup.h"

#define HELD(by)                                                                                   \
	{                                                                                          \
		RIGHT_HELD, by                                                                     \
	}
#define WEAKER(by)                                                                                 \
	{                                                                                          \
		RIGHT_WEAKER, by                                                                   \
	}
#define LOST(by)                                                                                   \
	{                                                                                          \
		RIGHT_LOST, by                                                                     \
	}
#define NOT_NEEDED                                                                                 \
	{                                                                                          \
		RIGHT_HELD, ""                                                                     \
	}

/* clang-format off */
const struct right rights[] = {
	{ "files", "writing, making and removing outside of what may be written", 1, "5.13", {
		[CONFINED_COMMANDS] = HELD("read-only mounts, /proc too, and the filter, which makes no devices"),
		[CONFINED_WORKER] =   LOST("a worker that was taken over could change every file of the user"),
		[CONFINED_SEARCH] =   HELD("the filter opens files only for reading"),
		[CONFINED_PROXY] =    HELD("the filter opens files only for reading"),
	} },
	/* A read-only mount does not keep a process from opening a FIFO for writing. */
	{ "fifos", "writing to FIFOs outside of what may be written", 1, "5.13", {
		[CONFINED_COMMANDS] = LOST("a command can write to FIFOs of the user that it sees"),
		[CONFINED_WORKER] =   LOST("a worker that was taken over could write to every FIFO of the user"),
		[CONFINED_SEARCH] =   HELD("the filter opens files only for reading"),
		[CONFINED_PROXY] =    HELD("the filter opens files only for reading"),
	} },
	{ "reading", "reading beside the places that the process needs", 1, "5.13", {
		[CONFINED_COMMANDS] = NOT_NEEDED,
		[CONFINED_WORKER] =   NOT_NEEDED,
		[CONFINED_SEARCH] =   WEAKER("a search that was taken over can read what the user can read"),
		[CONFINED_PROXY] =    HELD("a mount namespace of its own, with nothing else in it"),
	} },
	{ "trace", "tracing processes outside its own domain", 1, "5.13", {
		[CONFINED_COMMANDS] = HELD("what they could trace has a capability that they lack, or is not dumpable"),
		[CONFINED_WORKER] =   HELD("the filter has no ptrace"),
		[CONFINED_SEARCH] =   HELD("the filter has no ptrace"),
		[CONFINED_PROXY] =    HELD("the filter has no ptrace"),
	} },
	/* Landlock of ABI 1 refuses every rename and link between two directories. */
	{ "moves", "renames and links between directories", 2, "5.19", {
		[CONFINED_COMMANDS] = HELD("Landlock refuses all of them, allowed ones included"),
		[CONFINED_WORKER] =   HELD("Landlock refuses all of them, allowed ones included"),
		[CONFINED_SEARCH] =   HELD("the filter has no such call"),
		[CONFINED_PROXY] =    HELD("the filter has no such call"),
	} },
	{ "truncation", "emptying files outside of what may be written", 3, "6.2", {
		[CONFINED_COMMANDS] = HELD("read-only mounts"),
		[CONFINED_WORKER] =   HELD("a second filter: no openat2, and no openat that truncates"),
		[CONFINED_SEARCH] =   HELD("the filter opens files only for reading"),
		[CONFINED_PROXY] =    HELD("the filter opens files only for reading"),
	} },
	{ "tcp", "TCP ports and connections", 4, "6.7", {
		[CONFINED_COMMANDS] = HELD("the network namespace, and the filter, which refuses to listen"),
		[CONFINED_WORKER] =   HELD("the filter has no sockets"),
		[CONFINED_SEARCH] =   HELD("the filter has no sockets"),
		[CONFINED_PROXY] =    HELD("the filter has no listen"),
	} },
	{ "devices", "ioctl of devices", 5, "6.10", {
		[CONFINED_COMMANDS] = HELD("a /dev of its own, and the filter's list of ioctls"),
		[CONFINED_WORKER] =   HELD("the filter has no ioctl"),
		[CONFINED_SEARCH] =   HELD("the filter has no ioctl"),
		[CONFINED_PROXY] =    HELD("the filter's one ioctl"),
	} },
	{ "abstract_sockets", "connecting to abstract sockets of other processes", 6, "6.12", {
		[CONFINED_COMMANDS] = HELD("the network namespace"),
		[CONFINED_WORKER] =   HELD("the filter has no sockets"),
		[CONFINED_SEARCH] =   HELD("the filter has no sockets"),
		[CONFINED_PROXY] =    HELD("the filter has no Unix sockets"),
	} },
	{ "signals", "signalling other processes", 6, "6.12", {
		[CONFINED_COMMANDS] = WEAKER("commands can end the slot's worker, which is started again; the pid namespace hides the rest"),
		[CONFINED_WORKER] =   HELD("the filter has no kill"),
		[CONFINED_SEARCH] =   HELD("the filter has no kill"),
		[CONFINED_PROXY] =    HELD("the filter has no kill"),
	} },
};
/* clang-format on */

const size_t rights_n = N_ELEMENTS(rights);

const struct right *
rights_lost(enum confined_kind who, unsigned abi)
{
	for (size_t i = 0; i < rights_n; i++)
		if (rights[i].abi > abi && rights[i].without[who].how == RIGHT_LOST)
			return &rights[i];
	return NULL;
}
