/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on other processes, on what processes share, and on the terminal. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/cleanup.h"
#include "tests/escape/commands/attacker/attacker.h"

/* As long as "intact", which it replaces. */
#define BROKEN "broken"

static int
poke_ptrace(pid_t pid, uintptr_t address)
{
	long word;
	int status;

	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0)
		return failed("ptrace");
	waitpid(pid, &status, 0);
	memcpy(&word, BROKEN "\0", sizeof(word));
	if (ptrace(PTRACE_POKEDATA, pid, address, word) < 0)
		failed("poke");
	return ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0 ? failed("detach") : 0;
}

/* poke HOW PID ADDRESS -: writes into another process. */
int
poke_main(int argc, char **argv)
{
	const char *how = argv[1];
	pid_t pid = atoi(argv[2]);
	uintptr_t address = strtoul(argv[3], NULL, 0);
	char text[] = BROKEN, path[64];
	struct iovec mine = { .iov_base = text, .iov_len = sizeof(text) };
	struct iovec theirs = { .iov_base = (void *)address, .iov_len = sizeof(text) };

	if (strcmp(how, "ptrace") == 0)
		return poke_ptrace(pid, address);
	if (strcmp(how, "vm") == 0)
		return process_vm_writev(pid, &mine, 1, &theirs, 1, 0) < 0 ? failed("write") : 0;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	cleanup_close int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return failed(path);
	return pwrite(fd, text, sizeof(text), (off_t)address) < 0 ? failed("write") : 0;
}

/* peek PID ADDRESS: prints the memory there. */
int
peek_main(int argc, char **argv)
{
	char text[64] = "", path[64];

	snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, text, sizeof(text) - 1, strtol(argv[2], NULL, 0)) < 0)
		return failed(path);
	puts(text);
	return 0;
}

/* ---- looking for a secret in the memory of all processes ---- */

static void
show_hits(const char *text, size_t len, const char *wanted)
{
	const char *end = text + len, *at = text;

	while ((at = memmem(at, (size_t)(end - at), wanted, strlen(wanted))) != NULL) {
		size_t n = 0;

		while (at + n < end && n < 80 && isgraph((unsigned char)at[n]))
			n++;
		printf("%.*s\n", (int)n, at);
		at += n;
	}
}

static void
scan_process(pid_t pid, const char *wanted)
{
	static char text[1 << 20];
	char path[64], line[512];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if ((maps = fopen(path, "re")) == NULL)
		return;
	while (fgets(line, sizeof(line), maps) != NULL) {
		unsigned long from, to;
		struct iovec mine = { .iov_base = text }, theirs;
		ssize_t n;

		if (sscanf(line, "%lx-%lx", &from, &to) != 2 ||
		    (strstr(line, "[stack]") == NULL && strstr(line, "[heap]") == NULL))
			continue;
		mine.iov_len = to - from < sizeof(text) ? to - from : sizeof(text);
		/* For a stack, read its end, where the environment is. */
		theirs = (struct iovec){ .iov_base = (void *)(to - mine.iov_len),
			.iov_len = mine.iov_len };
		if ((n = process_vm_readv(pid, &mine, 1, &theirs, 1, 0)) > 0)
			show_hits(text, (size_t)n, wanted);
	}
	fclose(maps);
}

static void
scan_file(pid_t pid, const char *name, const char *wanted)
{
	char path[64], text[65536];
	ssize_t n;
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0 && (n = read(fd, text, sizeof(text))) > 0)
		show_hits(text, (size_t)n, wanted);
}

/* scan WORD: prints what begins with WORD in memory, environment and arguments of each visible
 * process. */
int
scan_main(int argc, char **argv)
{
	DIR *dir = opendir("/proc");
	const struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		pid_t pid = atoi(d->d_name);

		if (pid <= 0 || pid == getpid())
			continue;
		scan_file(pid, "environ", argv[1]);
		scan_file(pid, "cmdline", argv[1]);
		scan_process(pid, argv[1]);
	}
	if (dir != NULL)
		closedir(dir);
	return 0;
}

/* limit PID: lowers its limit of descriptors. */
int
limit_main(int argc, char **argv)
{
	struct rlimit lim = { .rlim_cur = 77, .rlim_max = 4096 };

	return prlimit(atoi(argv[1]), RLIMIT_NOFILE, &lim, NULL) < 0 ? failed("prlimit") : 0;
}

int
nice_main(int argc, char **argv)
{
	return setpriority(PRIO_PROCESS, (id_t)atoi(argv[1]), 19) < 0 ? failed("setpriority") : 0;
}

/* kill HOW PID */
int
kill_main(int argc, char **argv)
{
	pid_t pid = atoi(argv[2]);
	siginfo_t info = { .si_signo = SIGKILL, .si_code = SI_QUEUE };
	int fd;

	if (strcmp(argv[1], "kill") == 0)
		return kill(pid, SIGKILL) < 0 ? failed("kill") : 0;
	if (strcmp(argv[1], "tgkill") == 0)
		return syscall(SYS_tgkill, pid, pid, SIGKILL) < 0 ? failed("tgkill") : 0;
	if (strcmp(argv[1], "queue") == 0)
		return syscall(SYS_rt_sigqueueinfo, pid, SIGKILL, &info) < 0 ? failed("queue") : 0;
	if ((fd = (int)syscall(SYS_pidfd_open, pid, 0)) < 0)
		return failed("pidfd");
	return syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) < 0 ? failed("pidfd") : 0;
}

/* ---- System V and POSIX IPC: WHAT KEY [TEXT] ---- */

int
shm_main(int argc, char **argv)
{
	key_t key = (key_t)strtoul(argv[2], NULL, 0);
	bool make = strcmp(argv[1], "make") == 0;
	int id = shmget(key, 4096, make ? IPC_CREAT | IPC_EXCL | 0600 : 0600);
	char *p;

	if (id < 0)
		return failed("shmget");
	if (strcmp(argv[1], "remove") == 0)
		return shmctl(id, IPC_RMID, NULL) < 0 ? failed("shmctl") : 0;
	if ((p = shmat(id, NULL, 0)) == (void *)-1)
		return failed("shmat");
	if (argc > 3)
		strcpy(p, argv[3]);
	puts(p);
	return 0;
}

int
sem_main(int argc, char **argv)
{
	key_t key = (key_t)strtoul(argv[2], NULL, 0);
	int id = semget(key, 1, strcmp(argv[1], "make") == 0 ? IPC_CREAT | IPC_EXCL | 0600 : 0600);

	if (id < 0)
		return failed("semget");
	if (strcmp(argv[1], "remove") == 0)
		return semctl(id, 0, IPC_RMID) < 0 ? failed("semctl") : 0;
	if (argc > 3 && semctl(id, 0, SETVAL, atoi(argv[3])) < 0)
		return failed("semctl");
	printf("%d\n", semctl(id, 0, GETVAL));
	return 0;
}

int
msg_main(int argc, char **argv)
{
	key_t key = (key_t)strtoul(argv[2], NULL, 0);
	int id = msgget(key, strcmp(argv[1], "make") == 0 ? IPC_CREAT | IPC_EXCL | 0600 : 0600);
	struct {
		long type;
		char text[64];
	} m = { .type = 1 };

	if (id < 0)
		return failed("msgget");
	if (strcmp(argv[1], "remove") == 0)
		return msgctl(id, IPC_RMID, NULL) < 0 ? failed("msgctl") : 0;
	if (strcmp(argv[1], "make") == 0)
		return 0;
	if (argc > 3) {
		snprintf(m.text, sizeof(m.text), "%s", argv[3]);
		return msgsnd(id, &m, sizeof(m.text), IPC_NOWAIT) < 0 ? failed("msgsnd") : 0;
	}
	if (msgrcv(id, &m, sizeof(m.text), 0, IPC_NOWAIT) < 0)
		return failed("msgrcv");
	puts(m.text);
	return 0;
}

int
mq_main(int argc, char **argv)
{
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 64 };
	char text[64] = "";
	mqd_t q;

	if (strcmp(argv[1], "remove") == 0)
		return mq_unlink(argv[2]) < 0 ? failed("mq_unlink") : 0;
	q = strcmp(argv[1], "make") == 0
	    ? mq_open(argv[2], O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &attr)
	    : mq_open(argv[2], O_RDWR | O_NONBLOCK);
	if (q == (mqd_t)-1)
		return failed("mq_open");
	if (strcmp(argv[1], "make") == 0)
		return 0;
	if (argc > 3)
		return mq_send(q, argv[3], strlen(argv[3]), 0) < 0 ? failed("mq_send") : 0;
	if (mq_receive(q, text, sizeof(text), NULL) < 0)
		return failed("mq_receive");
	puts(text);
	return 0;
}

/* ---- keyrings ---- */

#define KEY_SESSION  (-3)
#define KEY_USER     (-4)
#define KEYCTL_JOIN  1
#define KEYCTL_FIND  10
#define KEYCTL_READ  11
#define KEYCTL_UNLNK 9

static int
key_show(int ring, const char *name)
{
	char text[128] = "";
	long key = syscall(SYS_keyctl, KEYCTL_FIND, ring, "user", name, 0);

	if (key < 0 || syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof(text) - 1, 0) < 0)
		return failed("keyctl");
	puts(text);
	return 0;
}

/*
 * key session TEXT COMMAND...: runs COMMAND with a session keyring that has the key; key read; key
 * request; key add-user NAME TEXT, key read-user NAME, key drop-user NAME.
 */
int
key_main(int argc, char **argv)
{
	const char *how = argv[1];

	if (strcmp(how, "session") == 0 && argc > 3) {
		if (syscall(SYS_keyctl, KEYCTL_JOIN, NULL) < 0)
			return failed("session keyring");
		if (syscall(SYS_add_key, "user", "koda-attack", argv[2], strlen(argv[2]),
			KEY_SESSION) < 0)
			return failed("add_key");
		execvp(argv[3], argv + 3);
		return failed(argv[3]);
	}
	if (strcmp(how, "read") == 0)
		return key_show(KEY_SESSION, "koda-attack");
	if (strcmp(how, "request") == 0) {
		char text[128] = "";
		long key = syscall(SYS_request_key, "user", "koda-attack", NULL, 0);

		if (key < 0 || syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof(text) - 1, 0) < 0)
			return failed("request_key");
		puts(text);
		return 0;
	}
	if (strcmp(how, "add-user") == 0 && argc > 3)
		return syscall(SYS_add_key, "user", argv[2], argv[3], strlen(argv[3]), KEY_USER) < 0
		    ? failed("add_key")
		    : 0;
	if (strcmp(how, "read-user") == 0 && argc > 2)
		return key_show(KEY_USER, argv[2]);
	if (strcmp(how, "drop-user") == 0 && argc > 2) {
		long key = syscall(SYS_keyctl, KEYCTL_FIND, KEY_USER, "user", argv[2], 0);

		return key < 0 || syscall(SYS_keyctl, KEYCTL_UNLNK, key, KEY_USER) < 0
		    ? failed("unlink")
		    : 0;
	}
	return 2;
}

/* tiocsti plain|high TEXT: injects TEXT as if it had been typed at the terminal. */
int
tiocsti_main(int argc, char **argv)
{
	unsigned long request = TIOCSTI;
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	/* The kernel uses only the low 32 bits. */
	if (strcmp(argv[1], "high") == 0)
		request |= 1ul << 32;
	for (int i = -1; i <= 2; i++) {
		int tty = i < 0 ? fd : i;
		bool done = tty >= 0;

		for (const char *p = argv[2]; done && *p != '\0'; p++)
			done = syscall(SYS_ioctl, tty, request, p) == 0;
		if (done)
			return 0;
	}
	return failed("TIOCSTI");
}
