/* SPDX-License-Identifier: Apache-2.0 */
#include "stage2/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shared/base/cleanup.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define SHELL        "/bin/sh"

/*
 * They need a few hundred bytes, and the kernel's structures for wait4. The buffer for path lookup
 * is in the slot.
 */
#define STACK_SIZE (16u << 10)
struct stacks {
	char reaper[STACK_SIZE] __attribute__((aligned(16)));
	char command[STACK_SIZE] __attribute__((aligned(16)));
};

/*
 * System calls without errno, which the processes that share this memory would overwrite for each
 * other. The sanitizers do not know such processes: with them, and on architectures without the
 * assembler code below, each process has a copy of the memory.
 */
#if defined(__SANITIZE_ADDRESS__)
#define COPIED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define COPIED 1
#endif
#endif

#if defined(__x86_64__)
static inline long
raw(long nr, long a, long b, long c, long d)
{
	long r;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return r;
}
#elif defined(__aarch64__)
static inline long
raw(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#else
#undef COPIED
#define COPIED 1
static inline long
raw(long nr, long a, long b, long c, long d)
{
	long r = syscall(nr, a, b, c, d);

	return r < 0 ? -errno : r;
}
#endif

#define P(p) ((long)(uintptr_t)(p))

#ifdef COPIED
#define SHARE_MEMORY 0
static long
raw_clone(int (*run)(void *), void *data, char *stack, long flags, _Atomic(pid_t) *ret_pid)
{
	int r = clone(run, stack, (int)flags, data, ret_pid);

	return r < 0 ? -errno : r;
}
#else
#define SHARE_MEMORY CLONE_VM
/*
 * clone(2) of a process that calls run(data), which must not return. `stack` is the upper end of
 * its stack, aligned to 16 bytes. Returns the process, which *ret_pid contains as well, or -errno.
 */
#if defined(__x86_64__)
static inline long
raw_clone(int (*run)(void *), void *data, char *stack, long flags, _Atomic(pid_t) *ret_pid)
{
	long r;
	register long no_tid __asm__("r10") = 0;
	register long no_tls __asm__("r8") = 0;
	register int (*in_child)(void *) __asm__("r12") = run;
	register void *its_data __asm__("r13") = data;

	/* The child has the same registers, apart from rax and the stack. */
	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(r)
			 : "0"((long)SYS_clone), "D"(flags), "S"(stack), "d"(ret_pid), "r"(no_tid),
			 "r"(no_tls), "r"(in_child), "r"(its_data)
			 : "rcx", "r11", "memory", "cc");
	return r;
}
#else
static inline long
raw_clone(int (*run)(void *), void *data, char *stack, long flags, _Atomic(pid_t) *ret_pid)
{
	register long nr __asm__("x8") = SYS_clone;
	register long r __asm__("x0") = flags;
	register char *its_stack __asm__("x1") = stack;
	register _Atomic(pid_t) *pid __asm__("x2") = ret_pid;
	register long no_tls __asm__("x3") = 0;
	register long no_tid __asm__("x4") = 0;
	register int (*in_child)(void *) __asm__("x10") = run;
	register void *its_data __asm__("x11") = data;

	/* The child has the same registers, apart from x0 and the stack. */
	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x11\n\t"
			 "blr x10\n\t"
			 "brk 1\n"
			 "1:"
			 : "+r"(r)
			 : "r"(nr), "r"(its_stack), "r"(pid), "r"(no_tls), "r"(no_tid),
			 "r"(in_child), "r"(its_data)
			 : "memory", "cc");
	return r;
}
#endif
#endif

/* For functions that run on a stack that no sanitizer knows. */
#define own_stack __attribute__((no_sanitize("address")))

/* The kernel's signal set of 64 signals, not the C library's; what rt_sigaction takes. */
#define KERNEL_SIGSET_SIZE 8

struct exec_slot *
exec_slots_new(struct koda_error *err)
{
	/* Pages are allocated when they are first written. */
	void *p = mmap(NULL, STAGE2_COMMANDS_MAX * sizeof(struct exec_slot), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		err_set(err, KODA_INTERNAL, errno, "memory for commands");
		return NULL;
	}
	return p;
}

static bool
is_string(const ProtobufCBinaryData *b)
{
	return b->len == 0 || memchr(b->data, '\0', b->len) == NULL;
}

const char *
exec_valid(const Koda__Exec *order)
{
	if (order->n_argv == 0)
		return "no argument";
	for (size_t i = 0; i < order->n_argv; i++)
		if (!is_string(&order->argv[i]))
			return "an argument with a NUL byte";
	for (size_t i = 0; i < order->n_env; i++)
		if (!is_string(&order->env[i]))
			return "a variable with a NUL byte";
	if (order->cwd.len == 0 || order->cwd.len >= PATH_MAX || order->cwd.data[0] != '/' ||
	    !is_string(&order->cwd))
		return "a working directory that is not absolute";
	if (order->n_limit > EXEC_LIMITS_MAX)
		return "too many limits";
	for (size_t i = 0; i < order->n_limit; i++)
		if (order->limit[i]->resource >= RLIM_NLIMITS ||
		    order->limit[i]->soft > order->limit[i]->hard)
			return "an invalid limit";
	return NULL;
}

/*
 * Reserves size bytes in the slot and copies len bytes of data there. Returns NULL if there is no
 * room.
 */
static void *
put_bytes(struct exec_slot *slot, const void *data, size_t len, size_t size)
{
	size_t at = (slot->used + 15) & ~(size_t)15;
	char *p = slot->data + at;

	if (at > EXEC_DATA || size > EXEC_DATA - at)
		return NULL;
	slot->used = at + size;
	if (len > 0)
		memcpy(p, data, len);
	return p;
}

static char *
put_string(struct exec_slot *slot, const ProtobufCBinaryData *b)
{
	char *p = slot->data + slot->used;

	if (b->len >= EXEC_DATA - slot->used)
		return NULL;
	slot->used += b->len + 1;
	if (b->len > 0)
		memcpy(p, b->data, b->len);
	p[b->len] = '\0';
	return p;
}

static char **
put_vector(struct exec_slot *slot, const ProtobufCBinaryData *b, size_t n)
{
	/* One more in front: "/bin/sh" for a script without a "#!" line. */
	char **v = put_bytes(slot, NULL, 0, (n + 2) * sizeof(*v));

	if (v == NULL)
		return NULL;
	v++;
	for (size_t i = 0; i < n; i++) {
		v[i] = put_string(slot, &b[i]);
		if (v[i] == NULL)
			return NULL;
	}
	v[n] = NULL;
	return v;
}

/* A lower existing limit stays. The command would inherit pid 1's limits, so compare with these. */
static int
put_limit(struct exec_slot *slot, const Koda__ResourceLimit *want)
{
	struct exec_limit *l = &slot->limit[slot->n_limits];
	struct rlimit64 now;

	l->resource = (int)want->resource;
	if (prlimit64(0, (__rlimit_resource_t)l->resource, NULL, &now) < 0)
		return -1;
	l->value.rlim_max = want->hard < now.rlim_max ? want->hard : now.rlim_max;
	l->value.rlim_cur = want->soft < l->value.rlim_max ? want->soft : l->value.rlim_max;
	slot->n_limits++;
	return 0;
}

int
exec_fill(struct exec_slot *slot, const Koda__Exec *order)
{
	slot->tty = order->has_tty && order->tty;
	slot->background = order->has_background && order->background;
	slot->n_limits = 0;
	slot->used = 0;
	slot->errnum = slot->status = 0;
	slot->reaper = 0;
	slot->command = 0;
	slot->step = 0;
	slot->state = EXEC_ORDERED;
	for (size_t i = 0; i < order->n_limit; i++)
		if (put_limit(slot, order->limit[i]) < 0)
			return -1;
	slot->argv = put_vector(slot, order->argv, order->n_argv);
	slot->envp = put_vector(slot, order->env, order->n_env);
	slot->cwd = put_string(slot, &order->cwd);
	if (slot->argv == NULL || slot->envp == NULL || slot->cwd == NULL)
		return -1;
	slot->path = DEFAULT_PATH;
	for (char **e = slot->envp; *e != NULL; e++)
		if (strncmp(*e, "PATH=", 5) == 0) {
			slot->path = *e + 5;
			break;
		}
	return 0;
}

void
exec_clear(struct exec_slot *slot)
{
	/* What an ordinary environment needs is kept for the next command. */
	const size_t from = 64u << 10;

	if (slot->used > from)
		madvise((char *)slot + from, sizeof(*slot) - from, MADV_REMOVE);
	slot->used = 0;
}

/* ---- the command, until execve: shares memory, its reaper waits for it ---- */

static own_stack _Noreturn void
leave_process(int status)
{
	for (;;)
		raw(SYS_exit_group, status, 0, 0, 0);
}

static own_stack _Noreturn void
fail_launch(struct exec_slot *slot, Koda__FailedStep step, long r)
{
	slot->errnum = (int)-r;
	slot->step = (int)step;
	leave_process(127);
}

/*
 * Returns only on failure. A script without a first line that names its program is run by the
 * shell, as execvp and every shell do.
 */
static long
try_file(struct exec_slot *slot, const char *file)
{
	long r = raw(SYS_execve, P(file), P(slot->argv), P(slot->envp), 0);

	if (r == -ENOEXEC) {
		char **v = slot->argv - 1, *first = slot->argv[0];

		v[0] = (char *)(uintptr_t)SHELL;
		v[1] = (char *)(uintptr_t)file;
		r = raw(SYS_execve, P(SHELL), P(v), P(slot->envp), 0);
		v[1] = first;
	}
	return r;
}

static long
try_path(struct exec_slot *slot)
{
	const char *name = slot->argv[0], *dir = slot->path, *end;
	size_t name_len = strlen(name);
	bool refused = false;

	if (name_len == 0)
		return -ENOENT;
	if (strchr(name, '/') != NULL)
		return try_file(slot, name);
	for (;; dir = end + 1) {
		size_t len;
		long r;

		end = strchrnul(dir, ':');
		len = (size_t)(end - dir);
		if (len + 1 + name_len < sizeof(slot->candidate)) {
			char *p = slot->candidate;

			memcpy(p, dir, len);
			p += len;
			if (len > 0)
				*p++ = '/';
			memcpy(p, name, name_len + 1);
			r = try_file(slot, slot->candidate);
			/* Where we may not even search there is no file, as in shells. */
			if (r == -EACCES)
				refused = refused ||
				    raw(SYS_faccessat, AT_FDCWD, P(slot->candidate), F_OK, 0) == 0;
			else if (r != -ENOENT && r != -ENOTDIR && r != -ESTALE && r != -ENODEV &&
			    r != -ETIMEDOUT && r != -ELOOP && r != -ENAMETOOLONG)
				return r;
		}
		if (*end == '\0')
			return refused ? -EACCES : -ENOENT;
	}
}

static own_stack int
become_command(void *data)
{
	struct exec_slot *slot = data;
	const uint64_t no_signals = 0;
	long r;

	/*
	 * A session of its own, so that a signal to its group reaches only the command, and its
	 * terminal is its own.
	 */
	r = raw(SYS_setsid, 0, 0, 0, 0);
	if (r < 0)
		fail_launch(slot, KODA__FAILED_STEP__FAILED_STEP_FORK, r);
	if (slot->tty) {
		r = raw(SYS_ioctl, 0, TIOCSCTTY, 0, 0);
		if (r < 0)
			fail_launch(slot, KODA__FAILED_STEP__FAILED_STEP_TTY, r);
	}
	r = raw(SYS_chdir, P(slot->cwd), 0, 0, 0);
	if (r < 0)
		fail_launch(slot, KODA__FAILED_STEP__FAILED_STEP_CWD, r);
	for (size_t i = 0; i < slot->n_limits; i++) {
		r = raw(SYS_prlimit64, 0, slot->limit[i].resource, P(&slot->limit[i].value), 0);
		if (r < 0)
			fail_launch(slot, KODA__FAILED_STEP__FAILED_STEP_LIMITS, r);
	}
	/* The template has reset all signals, so execve leaves each with its default action. */
	raw(SYS_rt_sigprocmask, SIG_SETMASK, P(&no_signals), 0, KERNEL_SIGSET_SIZE);
	r = try_path(slot);
	fail_launch(slot, KODA__FAILED_STEP__FAILED_STEP_EXEC, r);
}

/* ---- the reaper ---- */

struct launch {
	struct exec_slot *slot;
	struct stacks *stacks;
};

/*
 * Waits for the command, and for a background command also for everything that it left. Otherwise
 * processes that outlive the first one are not waited for: pid 1 finds them.
 */
static own_stack int
become_reaper(void *data)
{
	const struct launch launch = *(struct launch *)data;
	struct exec_slot *slot = launch.slot;
	bool command_ended = false;
	long pid;

	if (raw(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0) < 0)
		leave_process(1);
	/* CLONE_VFORK suspends the reaper until the command has called execve or ended. */
	pid = raw_clone(become_command, slot, launch.stacks->command + STACK_SIZE,
	    SHARE_MEMORY | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD, &slot->command);
	raw(SYS_close_range, 0, ~0u, 0, 0);
	if (pid < 0) {
		slot->errnum = (int)-pid;
		slot->step = KODA__FAILED_STEP__FAILED_STEP_FORK;
		leave_process(1);
	}
	slot->state = EXEC_LAUNCHED;
	for (;;) {
		int status;
		long r = raw(SYS_wait4, -1, P(&status), __WALL, 0);

		if (r == -EINTR)
			continue;
		if (r < 0)
			break; /* ECHILD: nothing is left, of a background command either */
		if (r != pid)
			continue;
		command_ended = true;
		slot->status = status;
		if (!slot->background)
			break;
	}
	if (command_ended)
		slot->state = EXEC_DONE;
	leave_process(0);
}

/* ---- the template ---- */

/*
 * Receives the number of the requested slot, and the command's descriptors as 0, 1 and 2: they are
 * the lowest free ones.
 */
static bool
receive_request(int fd, struct exec_request *ret)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(3 * sizeof(int))];
	} control;
	struct iovec iov = { ret, sizeof(*ret) };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;
	int fds[3];

	do {
		n = recvmsg(fd, &msg, 0);
	} while (n < 0 && errno == EINTR);
	c = n == (ssize_t)sizeof(*ret) ? CMSG_FIRSTHDR(&msg) : NULL;
	if (c == NULL || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(fds)))
		return false;
	memcpy(fds, CMSG_DATA(c), sizeof(fds));
	return fds[0] == 0 && fds[1] == 1 && fds[2] == 2 && ret->slot < STAGE2_COMMANDS_MAX;
}

_Noreturn void
exec_serve(int fd, struct exec_slot *slots)
{
	struct stacks *stacks = mmap(NULL, STAGE2_COMMANDS_MAX * sizeof(*stacks),
	    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	static struct launch launch[STAGE2_COMMANDS_MAX];
	struct exec_request req;

	if (stacks == MAP_FAILED)
		_exit(1);
	while (receive_request(fd, &req)) {
		struct exec_slot *slot = &slots[req.slot];
		struct launch *l = &launch[req.slot];
		long r;

		*l = (struct launch){ slot, &stacks[req.slot] };
		/*
		 * CLONE_PARENT: the reaper becomes a child of pid 1, and the template has nothing
		 * to do with it. pid 1 knows its pid before it has run.
		 */
		r = raw_clone(become_reaper, l, l->stacks->reaper + STACK_SIZE,
		    SHARE_MEMORY | CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD, &slot->reaper);
		if (r < 0) {
			slot->errnum = (int)-r;
			slot->step = KODA__FAILED_STEP__FAILED_STEP_FORK;
			/* There is no child of pid 1 whose end would report the failure. */
			while (send(fd, &req, sizeof(req), MSG_NOSIGNAL) < 0 && errno == EINTR)
				;
		}
		syscall(SYS_close_range, 0, 2, 0);
	}
	_exit(0);
}
