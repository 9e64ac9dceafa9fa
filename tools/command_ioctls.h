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
static const unsigned long command_ioctls[] = {
	/* any descriptor */
	FIONREAD, FIONBIO, FIOASYNC, FIOCLEX, FIONCLEX, FIOQSIZE,
	/* terminals: the modes, also of the C libraries that use the newer calls */
	TCGETS, TCSETS, TCSETSW, TCSETSF, TCGETS2, TCSETS2, TCSETSW2, TCSETSF2, TCGETA, TCSETA, TCSETAW, TCSETAF,
	TCSBRK, TCSBRKP, TCXONC, TCFLSH, TIOCSBRK, TIOCCBRK, TIOCOUTQ, TIOCGETD,
	/* ... the session, job control, the size */
	TIOCSCTTY, TIOCNOTTY, TIOCGSID, TIOCGPGRP, TIOCSPGRP, TIOCGWINSZ, TIOCSWINSZ,
	/* ... new ones (script, tmux, ssh, expect) */
	TIOCGPTN, TIOCSPTLCK, TIOCGPTLCK, TIOCGPTPEER, TIOCPKT, TIOCGPKT, TIOCSIG, TIOCGDEV,
	/* files: cp --reflink, filefrag, lsattr */
	FICLONE, FICLONERANGE, FS_IOC_FIEMAP, FIGETBSZ, FS_IOC_GETFLAGS, FS_IOC_GETVERSION, FS_IOC_FSGETXATTR,
	/* sockets: what is waiting; interfaces, as getifaddrs() and if_nametoindex() ask for
	 * them */
	SIOCATMARK, SIOCOUTQNSD, SIOCGPGRP, FIOGETOWN, SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR,
	SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC, SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX,
	SIOCGIFTXQLEN, SIOCGIFMAP,
	/* /dev/random */
	RNDGETENTCNT,
};
/* clang-format on */

#endif
