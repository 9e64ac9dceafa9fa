/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ioctls that a command may make. Every other number gets ENOTTY, the error of a file that does not implement it,
 * which programs expect. The list names what is allowed, because each file system adds ioctls of its own: flags that
 * make a file immutable, encrypted, verified or case-insensitive, subvolumes, swapped extents.
 *
 * Allowed are ioctls that read, that change the caller's own descriptors, and that operate a terminal. Not allowed:
 *
 *	TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD, KD*, VT_*   act on the user's terminal, which a command may have open
 *	TIOCEXCL                                            keeps every other process from opening that terminal
 *	FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR                  chattr: the flags stay, and affect the user's tools
 *	FS_IOC_ENABLE_VERITY, FS_IOC_SET_ENCRYPTION_POLICY  the user could not write there again
 *	BTRFS_IOC_*, EXT4_IOC_*, XFS_IOC_*                  the same, and large parts of the kernel
 *	SIOCS*, SIOCETHTOOL                                 a command cannot configure its network
 *	NS_GET_*, PIDFD_*, LOOP_*, BLK*                     namespaces and devices
 */
#ifndef KODA_TOOLS_COMMAND_IOCTLS_H
#define KODA_TOOLS_COMMAND_IOCTLS_H

#include <asm/termbits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

/* clang-format off */
#define COMMAND_IOCTLS(X) \
	/* any descriptor */ \
	X(FIONREAD) X(FIONBIO) X(FIOASYNC) X(FIOCLEX) X(FIONCLEX) X(FIOQSIZE) \
	/* terminals: the modes, also of the C libraries that use the newer calls */ \
	X(TCGETS) X(TCSETS) X(TCSETSW) X(TCSETSF) X(TCGETS2) X(TCSETS2) X(TCSETSW2) X(TCSETSF2) \
	X(TCGETA) X(TCSETA) X(TCSETAW) X(TCSETAF) \
	X(TCSBRK) X(TCSBRKP) X(TCXONC) X(TCFLSH) X(TIOCSBRK) X(TIOCCBRK) X(TIOCOUTQ) X(TIOCGETD) \
	/* ... the session, job control, the size */ \
	X(TIOCSCTTY) X(TIOCNOTTY) X(TIOCGSID) X(TIOCGPGRP) X(TIOCSPGRP) X(TIOCGWINSZ) X(TIOCSWINSZ) \
	/* ... new ones (script, tmux, ssh, expect) */ \
	X(TIOCGPTN) X(TIOCSPTLCK) X(TIOCGPTLCK) X(TIOCGPTPEER) X(TIOCPKT) X(TIOCGPKT) X(TIOCSIG) X(TIOCGDEV) \
	/* files: cp --reflink, filefrag, lsattr */ \
	X(FICLONE) X(FICLONERANGE) X(FS_IOC_FIEMAP) X(FIGETBSZ) X(FS_IOC_GETFLAGS) X(FS_IOC_GETVERSION) \
	X(FS_IOC_FSGETXATTR) \
	/* sockets: what is waiting; interfaces, as getifaddrs() and if_nametoindex() ask for \
	 * them */ \
	X(SIOCATMARK) X(SIOCOUTQNSD) X(SIOCGPGRP) X(FIOGETOWN) X(SIOCGIFNAME) X(SIOCGIFCONF) X(SIOCGIFFLAGS) \
	X(SIOCGIFADDR) X(SIOCGIFDSTADDR) X(SIOCGIFBRDADDR) X(SIOCGIFNETMASK) X(SIOCGIFMETRIC) X(SIOCGIFMTU) \
	X(SIOCGIFHWADDR) X(SIOCGIFINDEX) X(SIOCGIFTXQLEN) X(SIOCGIFMAP) \
	/* /dev/random */ \
	X(RNDGETENTCNT)
/* clang-format on */

#endif
