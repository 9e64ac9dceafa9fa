/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/confine/lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/cleanup.h"

/* The kernel's interface up to ABI 7, defined here because the distribution's header ends at 2. */
#define LL_CREATE_VERSION  (1u << 0)
#define LL_PATH_BENEATH    1
#define LL_FS_EXECUTE      (UINT64_C(1) << 0)
#define LL_FS_WRITE_FILE   (UINT64_C(1) << 1)
#define LL_FS_READ_FILE    (UINT64_C(1) << 2)
#define LL_FS_READ_DIR     (UINT64_C(1) << 3)
#define LL_FS_REMOVE_DIR   (UINT64_C(1) << 4)
#define LL_FS_REMOVE_FILE  (UINT64_C(1) << 5)
#define LL_FS_MAKE_CHAR    (UINT64_C(1) << 6)
#define LL_FS_MAKE_DIR     (UINT64_C(1) << 7)
#define LL_FS_MAKE_REG     (UINT64_C(1) << 8)
#define LL_FS_MAKE_SOCK    (UINT64_C(1) << 9)
#define LL_FS_MAKE_FIFO    (UINT64_C(1) << 10)
#define LL_FS_MAKE_BLOCK   (UINT64_C(1) << 11)
#define LL_FS_MAKE_SYM     (UINT64_C(1) << 12)
#define LL_FS_REFER        (UINT64_C(1) << 13) /* ABI 2 */
#define LL_FS_TRUNCATE     (UINT64_C(1) << 14) /* ABI 3 */
#define LL_FS_IOCTL_DEV    (UINT64_C(1) << 15) /* ABI 5 */
#define LL_NET_BIND_TCP    (UINT64_C(1) << 0)  /* ABI 4 */
#define LL_NET_CONNECT_TCP (UINT64_C(1) << 1)
#define LL_SCOPE_ABSTRACT  (UINT64_C(1) << 0) /* ABI 6 */
#define LL_SCOPE_SIGNAL    (UINT64_C(1) << 1)

#define ABI_REFER    2
#define ABI_TRUNCATE 3
#define ABI_NET      4
#define ABI_IOCTL    5
#define ABI_SCOPE    6

#define FILTER_NEW_LISTENER       (1u << 3)
#define FILTER_WAIT_KILLABLE_RECV (1u << 5) /* Linux 5.19 */

struct ll_ruleset {
	uint64_t handled_fs, handled_net, scoped;
};

struct ll_path_beneath {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

unsigned
lockdown_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_CREATE_VERSION);

	return abi > 0 ? (unsigned)abi : 0;
}

bool
lockdown_refuses_moves(unsigned abi)
{
	return abi > 0 && abi < ABI_REFER;
}

/* A hard limit that is already lower cannot be raised without a capability, and stays. */
static int
no_core(struct koda_error *err)
{
	struct rlimit core;

	if (getrlimit(RLIMIT_CORE, &core) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "read the core limit");
	if (core.rlim_max > LOCKDOWN_CORE_LIMIT)
		core.rlim_max = LOCKDOWN_CORE_LIMIT;
	core.rlim_cur = core.rlim_max;
	if (setrlimit(RLIMIT_CORE, &core) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "set the core limit");
	return 0;
}

int
lockdown_process(struct koda_error *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "no_new_privs");
	/* No process of the same user may read its memory or take its descriptors. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "become non-dumpable");
	return no_core(err);
}

int
lockdown_limits(const struct lockdown_limit *limits, size_t n, struct koda_error *err)
{
	for (size_t i = 0; i < n; i++) {
		struct rlimit now;
		rlim_t value = (rlim_t)limits[i].value;

		if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
			return err_set(err, KODA_UNSUPPORTED, errno, "limit %d",
			    limits[i].resource);
		if (now.rlim_max > value)
			now.rlim_max = value;
		if (now.rlim_cur > now.rlim_max)
			now.rlim_cur = now.rlim_max;
		if (setrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0)
			return err_set(err, KODA_UNSUPPORTED, errno, "limit %d",
			    limits[i].resource);
	}
	return 0;
}

/* Returns every right that this kernel can refuse, except reading. A right that is handled and
 * never granted (execute, sockets, FIFOs, devices) is not available anywhere. */
static uint64_t
handled_fs(unsigned abi, unsigned allow)
{
	uint64_t rights = LL_FS_EXECUTE | LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE |
	    LL_FS_MAKE_CHAR | LL_FS_MAKE_DIR | LL_FS_MAKE_REG | LL_FS_MAKE_SOCK | LL_FS_MAKE_FIFO |
	    LL_FS_MAKE_BLOCK | LL_FS_MAKE_SYM;

	if (abi >= ABI_REFER)
		rights |= LL_FS_REFER;
	if (abi >= ABI_TRUNCATE && (allow & LOCKDOWN_TRUNCATE) == 0)
		rights |= LL_FS_TRUNCATE;
	if (abi >= ABI_IOCTL)
		rights |= LL_FS_IOCTL_DEV;
	return rights;
}

static int
add_rule(int ruleset, int fd, uint64_t rights, struct koda_error *err)
{
	/* The kernel refuses a rule with rights that a file cannot have. */
	const uint64_t of_file =
	    LL_FS_EXECUTE | LL_FS_WRITE_FILE | LL_FS_READ_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV;
	struct ll_path_beneath beneath = { rights, fd };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "Landlock rule");
	if (!S_ISDIR(st.st_mode))
		beneath.allowed &= of_file;
	if (syscall(SYS_landlock_add_rule, ruleset, LL_PATH_BENEATH, &beneath, 0) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "Landlock rule");
	return 0;
}

/* Grant `rights` below `fds`, as far as they are handled. Other handled rights are not available
 * anywhere. */
static int
restrict_to(struct ll_ruleset *set, unsigned allow, const int *fds, size_t n, uint64_t rights,
    unsigned abi, unsigned *ret_abi, struct koda_error *err)
{
	cleanup_close int ruleset = -1;

	if (abi == 0) {
		*ret_abi = 0;
		return 0;
	}
	if (abi >= ABI_NET)
		set->handled_net = ((allow & LOCKDOWN_TCP_BIND) != 0 ? 0 : LL_NET_BIND_TCP) |
		    ((allow & LOCKDOWN_TCP_CONNECT) != 0 ? 0 : LL_NET_CONNECT_TCP);
	if (abi >= ABI_SCOPE)
		set->scoped = LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL;
	/* Older kernels accept a larger struct if the fields that they do not know are zero. */
	ruleset = (int)syscall(SYS_landlock_create_ruleset, set, sizeof(*set), 0);
	if (ruleset < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "Landlock ruleset");
	for (size_t i = 0; i < n; i++)
		if (add_rule(ruleset, fds[i], rights & set->handled_fs, err) < 0)
			return -1;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "Landlock");
	*ret_abi = abi;
	return 0;
}

int
lockdown_landlock_allowing(unsigned allow, const int *writable, size_t n, unsigned abi,
    unsigned *ret_abi, struct koda_error *err)
{
	struct ll_ruleset set = { .handled_fs = handled_fs(abi, allow) };
	/* Renaming an existing link, even to remove it, needs the right to make links; so does
	 * bringing one from a draft to a project on another file system. */
	uint64_t changes = LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_REMOVE_FILE |
	    LL_FS_REMOVE_DIR | LL_FS_MAKE_REG | LL_FS_MAKE_DIR | LL_FS_MAKE_SYM | LL_FS_REFER;

	if ((allow & LOCKDOWN_EXECUTE) != 0)
		set.handled_fs &= ~LL_FS_EXECUTE;
	if ((allow & LOCKDOWN_SPECIAL) != 0)
		changes |= LL_FS_MAKE_SOCK | LL_FS_MAKE_FIFO | LL_FS_IOCTL_DEV;
	return restrict_to(&set, allow, writable, n, changes, abi, ret_abi, err);
}

int
lockdown_landlock_reading(unsigned allow, const int *readable, size_t n, unsigned abi,
    unsigned *ret_abi, struct koda_error *err)
{
	const uint64_t reads = LL_FS_READ_FILE | LL_FS_READ_DIR;
	struct ll_ruleset set = { .handled_fs = handled_fs(abi, allow) | reads };

	return restrict_to(&set, allow, readable, n, reads, abi, ret_abi, err);
}

int
lockdown_landlock(const int *writable, size_t n, unsigned abi, unsigned *ret_abi,
    struct koda_error *err)
{
	return lockdown_landlock_allowing(0, writable, n, abi, ret_abi, err);
}

/* Makes the place of `path` below the current directory, with all directories above it: a
 * directory, or an empty file. */
static int
make_place(const char *path, bool directory)
{
	char part[PATH_MAX];
	size_t len = 0;
	int fd;

	while (path[len] != '\0') {
		len += strspn(path + len, "/");
		len += strcspn(path + len, "/");
		if (len >= sizeof(part))
			return -1;
		memcpy(part, path, len);
		part[len] = '\0';
		if (path[len] == '\0' && !directory) {
			fd = open(part + 1, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
			return fd < 0 ? -1 : close(fd);
		}
		if (mkdir(part + 1, 0700) < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

/* The current directory is the new root directory. */
static int
show_place(const char *path)
{
	struct stat st, there;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : -1;
	/* Another place that is shown contains it. */
	if (stat(path + 1, &there) == 0 && there.st_dev == st.st_dev && there.st_ino == st.st_ino)
		return 0;
	if (make_place(path, S_ISDIR(st.st_mode)) < 0)
		return -1;
	return mount(path, path + 1, NULL, MS_BIND | MS_REC, NULL);
}

static int
write_text(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* The user remains who it is: who has no number in its namespace cannot make files. */
static int
map_user(uid_t uid, gid_t gid)
{
	char users[32], groups[32];

	snprintf(users, sizeof(users), "%u %u 1", uid, uid);
	snprintf(groups, sizeof(groups), "%u %u 1", gid, gid);
	return write_text("/proc/self/setgroups", "deny") < 0 ||
		write_text("/proc/self/uid_map", users) < 0 ||
		write_text("/proc/self/gid_map", groups) < 0
	    ? -1
	    : 0;
}

#define NEW_ROOT "/proc" /* exists everywhere, and nothing in it is shown */

int
lockdown_view(const char *const *paths, size_t n, struct koda_error *err)
{
	const uid_t uid = geteuid();
	const gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || map_user(uid, gid) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make a mount namespace");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", NEW_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0 ||
	    chdir(NEW_ROOT) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "make a root directory");
	for (size_t i = 0; i < n; i++)
		if (show_place(paths[i]) < 0)
			return err_set(err, KODA_UNSUPPORTED, errno, "show '%s'", paths[i]);
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "leave the root directory");
	return 0;
}

int
lockdown_capabilities(struct koda_error *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, none) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "drop capabilities");
	return 0;
}

#define GUARD_CAP CAP_SYS_PTRACE

int
lockdown_guard(struct koda_error *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct one[_LINUX_CAPABILITY_U32S_3] = {
		{ .effective = CAP_TO_MASK(GUARD_CAP),
		    .permitted = CAP_TO_MASK(GUARD_CAP),
		    .inheritable = CAP_TO_MASK(GUARD_CAP) },
	};

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &header, one) < 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, GUARD_CAP, 0, 0) < 0)
		return err_set(err, KODA_UNSUPPORTED, errno, "keep one capability");
	return 0;
}

int
lockdown_unguard(struct koda_error *err)
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, GUARD_CAP, 0, 0) <= 0)
		return 0;
	return lockdown_capabilities(err);
}

int
lockdown_keyring(struct koda_error *err)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return err_set(err, KODA_UNSUPPORTED, errno, "session keyring");
	return 0;
}

bool
lockdown_seccomp_available(void)
{
	const uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* Returns a descriptor or 0, or -errno. */
static int
install(const struct sock_filter *filter, size_t n, unsigned flags)
{
	const struct sock_fprog prog = { .len = (unsigned short)n,
		.filter = (struct sock_filter *)(uintptr_t)filter };
	long r;

	if (n == 0 || n > BPF_MAXINSNS)
		return -E2BIG;
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	return r < 0 ? -errno : (int)r;
}

int
lockdown_seccomp(const struct sock_filter *filter, size_t n, struct koda_error *err)
{
	int r = install(filter, n, 0);

	return r < 0 ? err_set(err, KODA_UNSUPPORTED, -r, "seccomp") : 0;
}

#define LOW_HALF (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(uint32_t) : 0)

int
lockdown_no_truncation(unsigned abi, struct koda_error *err)
{
	/* The caller's main filter kills calls of other architectures, truncate() and creat(). */
	static const struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		    offsetof(struct seccomp_data, args[2]) + LOW_HALF),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TRUNC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	if (abi >= ABI_TRUNCATE)
		return 0;
	return lockdown_seccomp(filter, N_ELEMENTS(filter), err) < 0 ? -1 : 1;
}

int
lockdown_seccomp_listening(const struct sock_filter *filter, size_t n, int *ret,
    struct koda_error *err)
{
	int r = install(filter, n, FILTER_NEW_LISTENER | FILTER_WAIT_KILLABLE_RECV);

	if (r == -EINVAL)
		r = install(filter, n, FILTER_NEW_LISTENER);
	if (r < 0)
		return err_set(err, KODA_UNSUPPORTED, -r, "seccomp with a listener");
	*ret = r;
	return 0;
}

int
lockdown_listener_try(void)
{
	static const struct sock_filter allow = { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW };
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	r = install(&allow, 1, FILTER_NEW_LISTENER);
	return r < 0 ? -r : 0;
}
