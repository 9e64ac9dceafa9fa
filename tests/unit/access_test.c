/* SPDX-License-Identifier: Apache-2.0 */
/* shared/rules/access.c: which path may be read or written, in which mode and by which rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/base/cleanup.h"
#include "shared/rules/access.h"
#include "tests/kit/cases.h"

#define HOME "/home/u"

/* ---- a policy and a disk to judge by ---- */

static struct policy policy;

static void
add(enum koda_list list, const char *rule)
{
	assert_int_equal(policy_list_add(&policy.list[list], rule, NULL), 0);
}

static int
setup(void **state)
{
	policy_init(&policy);
	add(KODA_DENY_READ, "/secret");
	add(KODA_DENY_READ, "/p/private");
	add(KODA_DENY_READ, "/p/private/open/not");
	add(KODA_ALLOW_READ_WITHIN_DENY, "/p/private/open");
	add(KODA_ALLOW_WRITE, "/p");
	add(KODA_ALLOW_WRITE, "/etc");
	add(KODA_ALLOW_WRITE, "/q/file.txt");
	add(KODA_ALLOW_WRITE, HOME);
	add(KODA_DENY_WRITE_WITHIN_ALLOW, "/p/fixed");
	add(KODA_DENY_WRITE_WITHIN_ALLOW, "/p/a/b");
	add(KODA_DENY_WRITE_NAMES, ".vscode");
	add(KODA_DENY_WRITE_NAMES, ".github/hooks");
	add(KODA_DENY_WRITE_NAMES, "*.code-workspace");
	add(KODA_DENY_WRITE_NAMES, "mise.*.toml");
	return 0;
}

static int
teardown(void **state)
{
	policy_done(&policy);
	return 0;
}

/* What the disk holds, as full paths. */
static bool
disk_has(void *data, const char *path, size_t dir_len, const char *name)
{
	const char *const *entries = data;
	char full[256];

	snprintf(full, sizeof(full), "%.*s/%s", (int)dir_len, path, name);
	for (; *entries != NULL; entries++) {
		if (strcmp(*entries, full) == 0)
			return true;
	}
	return false;
}

static const char *const disk[] = {
	/* a bare repository */
	"/p/bare/HEAD",
	"/p/bare/objects",
	"/p/bare/refs",
	"/p/bare/config",
	"/p/bare/hooks",
	/* a repository without configuration */
	"/p/plain/HEAD",
	"/p/plain/objects",
	"/p/plain/refs",
	/* almost a repository, with configuration */
	"/p/conf/HEAD",
	"/p/conf/objects",
	"/p/conf/config",
	"/p/hook/objects",
	"/p/hook/refs",
	"/p/hook/hooks",
	"/p/rem/objects",
	"/p/rem/refs",
	"/p/rem/remotes",
	"/p/wtconf/HEAD",
	"/p/wtconf/refs",
	"/p/wtconf/config.worktree",
	/* a repository that a commondir leads to */
	"/p/led/objects",
	"/p/led/refs",
	"/p/led/worktrees",
	/* almost a repository, without configuration */
	"/p/almost/HEAD",
	"/p/almost/objects",
	/* not yet a worktree's administrative directory */
	"/p/common/commondir",
	"/p/head/HEAD",
	/* an ordinary project with such names */
	"/p/app/config",
	"/p/app/hooks",
	"/p/app/objects",
	/* a repository hidden among references */
	"/p/sly/.git/refs/heads/HEAD",
	"/p/sly/.git/refs/heads/objects",
	"/p/sly/.git/refs/heads/refs",
	NULL,
};

/* ---- judge ---- */

#define R            ACCESS_OP_READ
#define W            ACCESS_OP_WRITE
#define MK           ACCESS_OP_MKDIR
#define RM           ACCESS_OP_REMOVE
#define RF           ACCESS_OP_RENAME_FROM
#define RT           ACCESS_OP_RENAME_TO
#define H            ACCESS_OP_HOP
#define HC           ACCESS_OP_HOP_CHANGE
#define OK_DEFAULT   true, ACCESS_RULE_DEFAULT_READ
#define OK_HOLE      true, ACCESS_RULE_READ_HOLE
#define OK_WRITE     true, ACCESS_RULE_ALLOW_WRITE
#define NO_WRITE     false, ACCESS_RULE_ALLOW_WRITE
#define NO_DB        false, ACCESS_RULE_FULLY_DENIED
#define NO_PROC      false, ACCESS_RULE_PROCESS_WINDOW
#define NO_READ      false, ACCESS_RULE_DENY_READ
#define NO_SYSTEM    false, ACCESS_RULE_SYSTEM_PLACE
#define NO_KODA      false, ACCESS_RULE_KODA_PLACE
#define NO_GIT       false, ACCESS_RULE_GIT_CONFIG
#define NO_DENYWRITE false, ACCESS_RULE_DENY_WRITE
#define NO_NAME      false, ACCESS_RULE_DENY_NAME

/* clang-format off */
static const struct {
	enum access_op op;
	const char *path;
	bool allowed;
	enum access_rule rule;
} cases[] = {
	/* the koda database (PATH-03) */
	{ R,  HOME "/.config/koda/db", NO_DB },
	{ R,  HOME "/.config/koda/db/main.sqlite", NO_DB },
	{ W,  HOME "/.config/koda/db/main.sqlite", NO_DB },
	{ H,  HOME "/.config/koda/db", NO_DB },
	{ HC, HOME "/.config/koda/db/x", NO_DB },
	{ MK, "/p/.config/koda/db", NO_DB },
	{ R,  "/.config/koda/db", NO_DB },
	{ R,  "/elsewhere/other/.config/koda/db/x/y", NO_DB },
	{ R,  HOME "/.CONFIG/Koda/DB/x", NO_DB },
	{ R,  HOME "/.con\xef\xac\x81g/koda/db", NO_DB },       /* fi ligature */
	{ R,  HOME "/.con\xef\xac\x82g/koda/db", OK_DEFAULT },  /* fl ligature */
	{ R,  HOME "/.config/koda", OK_DEFAULT },
	{ R,  HOME "/.local/state/koda-sandbox", NO_DB },
	{ R,  HOME "/.local/state/koda-sandbox/quarantine/p-1/e/what", NO_DB },
	{ W,  HOME "/.Local/STATE/Koda-Sandbox/journal/x", NO_DB },
	{ MK, "/p/.local/state/koda-sandbox", NO_DB },
	{ H,  "/p/.local/state/koda-sandbox", NO_DB },
	{ R,  HOME "/.local/state/koda-sandboxes", OK_DEFAULT },
	{ R,  HOME "/.local/state", OK_DEFAULT },
	{ R,  HOME "/.config/koda/dbx", OK_DEFAULT },
	{ R,  HOME "/.config/koda/db.bak", OK_DEFAULT },
	{ R,  HOME "/.config/kodax/db", OK_DEFAULT },
	{ R,  HOME "/config/koda/db", OK_DEFAULT },
	{ R,  HOME "/.config/x/koda/db", OK_DEFAULT },
	{ R,  HOME "/.config/koda/x/db", OK_DEFAULT },
	{ R,  HOME "/.ssh/id_rsa", OK_DEFAULT },

	/* windows into processes */
	{ R,  "/proc", NO_PROC },
	{ R,  "/proc/self/environ", NO_PROC },
	{ R,  "/proc/cpuinfo", NO_PROC },
	{ W,  "/proc/1/mem", NO_PROC },
	{ H,  "/proc/self", NO_PROC },
	{ HC, "/proc/self/cwd", NO_PROC },
	{ R,  "/procedure", OK_DEFAULT },
	{ R,  "/p/proc/x", OK_DEFAULT },

	/* reading: the longest rule decides, a tie denies */
	{ R,  "/", OK_DEFAULT },
	{ R,  "/etc/passwd", OK_DEFAULT },
	{ R,  "/secret", NO_READ },
	{ R,  "/secret/x", NO_READ },
	{ R,  "/secrets", OK_DEFAULT },
	{ R,  "/p/private/x", NO_READ },
	{ R,  "/p/private/open", OK_HOLE },
	{ R,  "/p/private/open/x", OK_HOLE },
	{ R,  "/p/private/open/not", NO_READ },
	{ R,  "/p/private/open/not/x", NO_READ },
	{ R,  "/p/private/opened", NO_READ },
	{ H,  "/secret/link", NO_READ },
	{ H,  "/p/link", OK_DEFAULT },
	{ R,  "/p/.git/config", OK_DEFAULT },
	{ R,  "/p/.koda/agents/x", OK_DEFAULT },

	/* changing: allow_write, by whole components (PATH-01) */
	{ W,  "/p/x", OK_WRITE },
	{ W,  "/p/a/deep/er/x", OK_WRITE },
	{ MK, "/p/x", OK_WRITE },
	{ RM, "/p/x", OK_WRITE },
	{ RF, "/p/x", OK_WRITE },
	{ RT, "/p/x", OK_WRITE },
	{ W,  "/px/x", NO_WRITE },
	{ W,  "/q/x", NO_WRITE },
	{ W,  "/q/file.txt", OK_WRITE },
	{ W,  "/q/file.txt.bak", NO_WRITE },
	{ RM, "/usr/bin/env", NO_WRITE },
	{ HC, "/q/link", OK_WRITE },
	{ HC, "/usr/link", OK_WRITE },

	/* changing: what may not be read may not be changed */
	{ W,  "/p/private/x", NO_READ },
	{ W,  "/p/private/open/x", OK_WRITE },
	{ W,  "/p/private/open/not/x", NO_READ },
	{ RM, "/p/private/x", NO_READ },
	{ RF, "/p/private/x", NO_READ },
	{ RT, "/p/private/x", NO_READ },
	{ HC, "/secret/link", NO_READ },

	/* changing: deny_write_within_allow wins at any length */
	{ W,  "/p/fixed", NO_DENYWRITE },
	{ W,  "/p/fixed/x", NO_DENYWRITE },
	{ RM, "/p/fixed/x", NO_DENYWRITE },
	{ RT, "/p/fixed", NO_DENYWRITE },
	{ HC, "/p/fixed/link", NO_DENYWRITE },
	{ W,  "/p/fixedness", OK_WRITE },
	{ W,  "/p/a/b/c", NO_DENYWRITE },
	{ W,  "/p/a/c", OK_WRITE },

	/* changing: deny_write_names, at any depth, with everything below, in any case */
	{ W,  "/p/.vscode", NO_NAME },
	{ W,  "/p/x/y/.vscode", NO_NAME },
	{ W,  "/p/x/.vscode/a/tasks.json", NO_NAME },
	{ MK, "/p/x/.vscode", NO_NAME },
	{ RM, "/p/x/.vscode/tasks.json", NO_NAME },
	{ RF, "/p/x/.vscode", NO_NAME },
	{ RT, "/p/x/.vscode", NO_NAME },
	{ HC, "/p/x/.vscode/link", NO_NAME },
	{ R,  "/p/x/.vscode/tasks.json", OK_DEFAULT },
	{ W,  "/p/x/.VSCode/tasks.json", NO_NAME },
	{ W,  "/p/x/.v\xc5\xbf""code/tasks.json", NO_NAME },  /* the long s */
	{ W,  "/p/x/.vs\xe2\x80\x8b""code/x", NO_NAME },     /* an ignorable one */
	{ W,  "/p/x/.vscode. /tasks.json", NO_NAME },         /* FAT */
	{ W,  "/p/x/VSCODE~1/tasks.json", NO_NAME },
	{ W,  "/p/x/vscode~1x/tasks.json", NO_NAME },
	{ W,  "/p/x/vscodes~1/tasks.json", OK_WRITE },
	{ W,  "/p/x/.vscode~/tasks.json", OK_WRITE },
	{ W,  "/p/x/.vscodeignore", OK_WRITE },
	{ W,  "/p/x/vscode", OK_WRITE },
	{ W,  "/p/x/.github/hooks/a.json", NO_NAME },
	{ W,  "/p/x/.GitHub/Hooks", NO_NAME },
	{ W,  "/p/x/.github/workflows/hooks", OK_WRITE },
	{ W,  "/p/x/.github/x", OK_WRITE },
	{ MK, "/p/x/.github", OK_WRITE },
	{ W,  "/p/hooks", OK_WRITE },
	{ W,  "/p/x/a.code-workspace", NO_NAME },
	{ W,  "/p/x/\xd1\x84.Code-Workspace", NO_NAME },
	{ W,  "/p/x/.code-workspace", NO_NAME },
	{ W,  "/p/x/code-workspace", OK_WRITE },
	{ W,  "/p/x/abcdef~1.cod", NO_NAME },
	{ W,  "/p/x/abcdef~1.txt", OK_WRITE },
	{ W,  "/p/mise.local.toml", NO_NAME },
	{ W,  "/p/mise..toml", NO_NAME },
	{ W,  "/p/mise.toml", OK_WRITE },
	{ W,  "/p/private/.vscode", NO_READ },
	{ W,  "/r/.vscode/x", NO_NAME },

	/* dangerous system places (PATH-02) */
	{ W,  "/", NO_SYSTEM },
	{ RM, "/", NO_SYSTEM },
	{ W,  "/p", NO_SYSTEM },
	{ RM, "/etc", NO_SYSTEM },
	{ MK, "/etc", NO_SYSTEM },
	{ RT, "/usr", NO_SYSTEM },
	{ W,  "/foo.txt", NO_SYSTEM },
	{ W,  "/etc/x", OK_WRITE },
	{ W,  HOME, NO_SYSTEM },
	{ RM, HOME, NO_SYSTEM },
	{ W,  HOME "/x", OK_WRITE },
	{ RM, "/p/*", NO_SYSTEM },
	{ RM, "/p/\\*", NO_SYSTEM },
	{ W,  "/p/a*", OK_WRITE },
	{ W,  "/p/*/a", OK_WRITE },
	{ HC, "/home", OK_WRITE },
	{ HC, "/bin", OK_WRITE },

	/* .koda */
	{ W,  "/p/.koda/agents/x.md", NO_KODA },
	{ W,  "/p/.koda/skills/x/SKILL.md", NO_KODA },
	{ MK, "/p/.koda/agents", NO_KODA },
	{ MK, "/p/.koda/skills", NO_KODA },
	{ RM, "/p/.koda/agents/x.md", NO_KODA },
	{ RM, "/p/.koda/skills", NO_KODA },
	{ RF, "/p/.koda/agents", NO_KODA },
	{ RT, "/p/.koda/agents", NO_KODA },
	{ RT, "/p/.koda", NO_KODA },
	{ HC, "/p/.koda/agents", NO_KODA },
	{ W,  "/p/a/deep/.koda/agents/x", NO_KODA },
	{ W,  "/p/.KODA/Agents/x", NO_KODA },
	{ W,  "/p/.\xe2\x84\xaaoda/agents/x", NO_KODA },     /* Kelvin sign */
	{ W,  "/p/.koda/agent\xc5\xbf/x", NO_KODA },         /* long s */
	{ W,  "/p/.koda/\xe2\x80\x8bskills/x", NO_KODA },    /* zero width space */
	{ W,  "/p/.koda/notes", OK_WRITE },
	{ MK, "/p/.koda", OK_WRITE },
	{ W,  "/p/.koda/x/agents/y", OK_WRITE },
	{ W,  "/p/koda/agents/x", OK_WRITE },
	{ W,  "/p/agents/x", OK_WRITE },

	/* git, by name */
	{ W,  "/p/.git", NO_GIT },
	{ MK, "/p/.git", OK_WRITE },
	{ RT, "/p/.git", NO_GIT },
	{ RM, "/p/.git", NO_GIT },
	{ RF, "/p/.git", NO_GIT },
	{ HC, "/p/.git", NO_GIT },
	{ W,  "/p/sub/.git", NO_GIT },
	{ W,  "/p/.git/config", NO_GIT },
	{ W,  "/p/.git/config.lock", NO_GIT },
	{ W,  "/p/.git/config.worktree", NO_GIT },
	{ W,  "/p/.git/rebase-merge/git-rebase-todo", NO_GIT },
	{ W,  "/p/.git/rebase-apply/rebasing", NO_GIT },
	{ MK, "/p/.git/rebase-merge", NO_GIT },
	{ W,  "/p/.git/sequencer/opts", NO_GIT },
	{ W,  "/p/.git/refs/heads/rebase-merge", OK_WRITE },
	{ RM, "/p/.git/config", NO_GIT },
	{ RF, "/p/.git/config", NO_GIT },
	{ RT, "/p/.git/config", NO_GIT },
	{ HC, "/p/.git/config", NO_GIT },
	{ MK, "/p/.git/hooks", NO_GIT },
	{ W,  "/p/.git/hooks/pre-commit", NO_GIT },
	{ W,  "/p/.git/hooks/a/b", NO_GIT },
	{ RT, "/p/.git/hooks", NO_GIT },
	{ MK, "/p/.git/remotes", NO_GIT },
	{ W,  "/p/.git/remotes/origin", NO_GIT },
	{ W,  "/p/.git/remotes/a/b", NO_GIT },
	{ RT, "/p/.git/remotes/origin", NO_GIT },
	{ W,  "/p/.git/branches/main", NO_GIT },
	{ RM, "/p/.git/branches", NO_GIT },
	{ W,  "/p/.git/Branches/main", NO_GIT },
	{ W,  "/p/.git/BRANCH~1/main", NO_GIT },
	{ W,  "/p/.git/modules/sub/remotes/origin", NO_GIT },
	{ W,  "/p/.git/worktrees/w/branches/main", NO_GIT },
	{ W,  "/p/a/.git/remotes/origin", NO_GIT },
	{ W,  "/p/.git/refs/remotes/origin/main", OK_WRITE },
	{ W,  "/p/.git/logs/refs/remotes/origin/main", OK_WRITE },
	{ W,  "/p/.git/refs/heads/branches/x", OK_WRITE },
	{ W,  "/p/remotes/origin", OK_WRITE },
	{ W,  "/p/branches/main", OK_WRITE },
	{ W,  "/p/.git/commondir", NO_GIT },
	{ W,  "/p/.git/gitdir", NO_GIT },
	{ W,  "/p/.git/objects/info/alternates", NO_GIT },
	{ W,  "/p/.git/objects/info/http-alternates", NO_GIT },
	{ W,  "/p/.git/modules/sub/config", NO_GIT },
	{ W,  "/p/.git/modules/sub/hooks/x", NO_GIT },
	{ W,  "/p/.git/modules/a/b/c/config", NO_GIT },
	{ W,  "/p/.git/modules/refs/config", NO_GIT },       /* a submodule may have that name */
	{ W,  "/p/.git/modules/logs/refs/hooks/x", NO_GIT },
	{ W,  "/p/.git/modules/sub/objects/info/alternates", NO_GIT },
	{ W,  "/p/.git/modules/sub/modules/inner/config", NO_GIT },
	{ RT, "/p/.git/modules/sub", NO_GIT },
	{ W,  "/p/.git/worktrees/w/config.worktree", NO_GIT },
	{ W,  "/p/.git/worktrees/w/commondir", NO_GIT },
	{ W,  "/p/.git/worktrees/w/gitdir", NO_GIT },
	{ W,  "/p/.git/worktrees/refs/gitdir", NO_GIT },
	{ RT, "/p/.git/worktrees/w", NO_GIT },
	{ RT, "/p/.git/index", NO_GIT },
	{ W,  "/p/.git/other/hooks/x", NO_GIT },
	{ W,  "/p/.git/refs/.git/config", NO_GIT },
	{ W,  "/p/a/b.d/c/.git/config", NO_GIT },
	{ W,  "/p/node_modules/x/.git/hooks/y", NO_GIT },
	{ W,  "/p/.git/HEAD", OK_WRITE },
	{ W,  "/p/.git/index", OK_WRITE },
	{ W,  "/p/.git/info/exclude", OK_WRITE },
	{ W,  "/p/.git/refs/heads/config", OK_WRITE },
	{ W,  "/p/.git/refs/tags/hooks/x", OK_WRITE },
	{ W,  "/p/.git/logs/refs/heads/hooks", OK_WRITE },
	{ W,  "/p/.git/objects/aa/bb", OK_WRITE },
	{ W,  "/p/.git/worktrees/config/HEAD", OK_WRITE },
	{ W,  "/p/.gitignore", OK_WRITE },
	{ W,  "/p/.gitlab/hooks/x", OK_WRITE },
	{ W,  "/p/git/config", OK_WRITE },
	{ W,  "/p/x.git/config", OK_WRITE },
	{ W,  "/p/config", OK_WRITE },
	{ W,  "/p/hooks/x", OK_WRITE },

	/* git, by a name that a case-insensitive or FAT-like file system takes for it */
	{ W,  "/p/.GIT/config", NO_GIT },
	{ W,  "/p/.Git/Config", NO_GIT },
	{ W,  "/p/.git/HOOKS/x", NO_GIT },
	{ W,  "/p/.g\xe2\x80\x8cit/config", NO_GIT },        /* zero width non-joiner */
	{ W,  "/p/.gi\xc2\xadt/config", NO_GIT },            /* soft hyphen */
	{ W,  "/p/\xef\xbb\xbf.git/config", NO_GIT },        /* byte order mark */
	{ W,  "/p/.git\xe2\x80\xae\xe2\x80\xac/config", NO_GIT },        /* bidi override */
	{ W,  "/p/.git\xf3\xa0\x80\x81/config", NO_GIT },    /* tag character */
	{ W,  "/p/.git/con\xef\xac\x81g", NO_GIT },          /* fi ligature */
	{ W,  "/p/.git/hoo\xe2\x84\xaas/x", NO_GIT },        /* Kelvin sign */
	{ W,  "/p/.git/hook\xc5\xbf/x", NO_GIT },            /* long s */
	{ W,  "/p/.git./config", NO_GIT },
	{ W,  "/p/.git /config", NO_GIT },
	{ W,  "/p/.git. . /config", NO_GIT },
	{ W,  "/p/.git/config.", NO_GIT },
	{ W,  "/p/.git/config..............................", NO_GIT },
	{ W,  "/p/GIT~1/config", NO_GIT },
	{ W,  "/p/.git/CONFIG~1.LOC", NO_GIT },
	{ RT, "/p/git~2", NO_GIT },
	{ W,  "/p/.git::$INDEX_ALLOCATION/config", NO_GIT }, /* NTFS: a stream of it */
	{ W,  "/p/.git:$I30:$INDEX_ALLOCATION/hooks/x", NO_GIT },
	{ W,  "/p/GIT~1::$INDEX_ALLOCATION/config", NO_GIT },
	{ W,  "/p/.git . :x/config", NO_GIT },
	{ W,  "/p/.git/config::$DATA", NO_GIT },
	{ W,  "/p/.git/HOOKS:$I30:$INDEX_ALLOCATION/x", NO_GIT },
	{ RT, "/p/.git::$INDEX_ALLOCATION", NO_GIT },
	{ W,  "/p/.git\\config", NO_GIT },                  /* git's slash on Windows */
	{ W,  "/p/a\\.git\\config", NO_GIT },
	{ W,  "/p/a very long name that does not fold\\.git", NO_GIT },
	{ W,  "/p/.git/config\\x", NO_GIT },
	{ W,  "/p/:.git/config", OK_WRITE },
	{ W,  "/p/a:.git/config", OK_WRITE },
	{ W,  "/p/.gitx:y/config", OK_WRITE },
	{ W,  "/p/a\\b/config", OK_WRITE },
	{ W,  "/p/.git\xff/config", OK_WRITE },
	{ W,  "/p/.gi\xc5\xa5/config", OK_WRITE },           /* t with caron is another letter */
	{ W,  "/p/..git/config", OK_WRITE },
	{ W,  "/p/.g it/config", OK_WRITE },
	{ W,  "/p/git~x/config", OK_WRITE },

	/* git, by shape */
	{ W,  "/p/bare/config", NO_GIT },
	{ W,  "/p/bare/CONFIG", NO_GIT },
	{ RM, "/p/bare/config", NO_GIT },
	{ RF, "/p/bare/hooks", NO_GIT },
	{ W,  "/p/bare/config.worktree", NO_GIT },
	{ W,  "/p/bare/hooks/update", NO_GIT },
	{ W,  "/p/bare/commondir", NO_GIT },
	{ W,  "/p/bare/remotes/origin", NO_GIT },
	{ MK, "/p/plain/branches", NO_GIT },
	{ W,  "/p/rem/HEAD", NO_GIT },                       /* it has legacy remotes already */
	{ W,  "/p/plain/config", NO_GIT },
	{ MK, "/p/plain/hooks", NO_GIT },
	{ W,  "/p/plain/hooks/x", NO_GIT },
	{ RT, "/p/plain/hooks", NO_GIT },
	{ W,  "/p/plain/HEAD", OK_WRITE },
	{ W,  "/p/plain/refs/heads/config", OK_WRITE },
	{ MK, "/p/conf/refs", NO_GIT },
	{ W,  "/p/conf/refs/heads/main", NO_GIT },
	{ RT, "/p/conf/refs", NO_GIT },
	{ MK, "/p/conf/Refs", NO_GIT },
	{ W,  "/p/conf/commondir", NO_GIT },
	{ W,  "/p/conf/config", OK_WRITE },
	{ W,  "/p/hook/HEAD", NO_GIT },
	{ RT, "/p/hook/HEAD", NO_GIT },
	{ RM, "/p/hook/refs", OK_WRITE },
	{ W,  "/p/wtconf/objects/x", NO_GIT },
	{ W,  "/p/led/config", NO_GIT },
	{ W,  "/p/led/hooks/update", NO_GIT },
	{ MK, "/p/hook/worktrees", NO_GIT },
	{ W,  "/p/hook/worktrees/w/x", NO_GIT },
	{ MK, "/p/app/worktrees", OK_WRITE },
	{ MK, "/p/almost/refs", OK_WRITE },
	{ W,  "/p/almost/config", OK_WRITE },
	{ W,  "/p/almost/commondir", NO_GIT },
	{ W,  "/p/common/HEAD", NO_GIT },                    /* its config could be anywhere */
	{ W,  "/p/head/commondir", NO_GIT },
	{ W,  "/p/new/commondir", OK_WRITE },
	{ W,  "/p/app/config", OK_WRITE },
	{ W,  "/p/app/hooks/useState.ts", OK_WRITE },
	{ W,  "/p/app/objects/x", OK_WRITE },
	{ W,  "/p/sly/.git/refs/heads/config", NO_GIT },
	{ W,  "/p/sly/.git/refs/heads/other", OK_WRITE },
};
/* clang-format on */

static const char *const op_names[] = { "read", "write", "mkdir", "remove", "rename from",
	"rename to", "hop", "hop for a change" };
static char labels[N_ELEMENTS(cases)][128];

static void
judge_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };
	struct access_disk on = { (void *)disk, disk_has };
	struct access_verdict v = access_judge(&who, cases[i].op, cases[i].path, &on);

	assert_string_equal(access_rule_name(v.rule), access_rule_name(cases[i].rule));
	assert_int_equal(v.allowed, cases[i].allowed);
}

static void
without_a_home(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, "", NULL };

	assert_false(access_judge(&who, R, "/x/.config/koda/db", NULL).allowed);
	assert_false(access_judge(&who, W, HOME "/.config/koda/db/x", NULL).allowed);
	assert_true(access_judge(&who, W, HOME "/x", NULL).allowed);
	assert_true(access_judge(&who, W, HOME, NULL).allowed);
	who.home = NULL;
	assert_false(access_judge(&who, R, "/x/.config/koda/db", NULL).allowed);
}

/* The library's own state is out of reach wherever XDG_STATE_HOME puts it. */
static void
own_state_anywhere(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, "/p/deep/st/koda-sandbox" };
	char buf[256];
	struct access_verdict v = access_judge(&who, R, "/p/deep/st/koda-sandbox/journal/x", NULL);

	assert_int_equal(v.rule, ACCESS_RULE_FULLY_DENIED);
	assert_string_equal(access_reason(&who, R, v, buf, sizeof(buf)),
	    "agents may not access koda-sandbox's own state");
	assert_false(access_judge(&who, W, "/p/deep/st/koda-sandbox", NULL).allowed);
	assert_false(access_judge(&who, MK, "/p/deep/st/koda-sandbox/quarantine", NULL).allowed);
	assert_true(access_judge(&who, W, "/p/deep/st/other", NULL).allowed);
	assert_true(access_judge(&who, R, "/p/deep/st/koda-sandbox2", NULL).allowed);
	/* A directory that contains it cannot be renamed or removed either. */
	assert_int_equal(access_judge_tree(&who, RF, "/p/deep").rule, ACCESS_RULE_TREE);
	assert_int_equal(access_judge_tree(&who, RM, "/p/deep/st").rule, ACCESS_RULE_TREE);
	assert_true(access_judge_tree(&who, RF, "/p/other").allowed);
	assert_false(access_reads_all_in(&who, "/p/deep"));
	assert_true(access_reads_all_in(&who, "/p/other"));
	assert_true(access_protected_entry(&who, "state", "koda-sandbox"));
	assert_false(access_protected_entry(&who, "state", "other"));
}

static void
without_a_disk_names_still_protect(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };

	assert_false(access_judge(&who, W, "/p/.git/config", NULL).allowed);
	assert_true(access_judge(&who, W, "/p/bare/config", NULL).allowed);
}

static void
a_path_that_is_none_is_refused(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };

	for (int op = ACCESS_OP_READ; op <= ACCESS_OP_HOP_CHANGE; op++) {
		assert_false(access_judge(&who, (enum access_op)op, "relative", NULL).allowed);
		assert_false(access_judge(&who, (enum access_op)op, "", NULL).allowed);
		assert_false(access_judge(&who, (enum access_op)op, NULL, NULL).allowed);
	}
}

static void
a_new_policy_reads_and_changes_nothing(void **state)
{
	cleanup(policy_done) struct policy p;
	struct access_subject who = { &p, KODA_AUTO, HOME, NULL };

	policy_init(&p);
	assert_true(access_judge(&who, R, "/a/b", NULL).allowed);
	for (int op = ACCESS_OP_WRITE; op <= ACCESS_OP_RENAME_TO; op++)
		assert_false(access_judge(&who, (enum access_op)op, "/a/b", NULL).allowed);
	p.list[KODA_ALLOW_WRITE].present = true;
	assert_false(access_judge(&who, W, "/a/b", NULL).allowed);
}

static void
trust_forbids_every_change_and_no_read(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };

	policy.trust = KODA_TRUST_FORBID;
	assert_true(access_judge(&who, R, "/p/x", NULL).allowed);
	assert_true(access_judge(&who, H, "/p/x", NULL).allowed);
	for (int op = ACCESS_OP_WRITE; op <= ACCESS_OP_HOP_CHANGE; op++) {
		struct access_verdict v;

		if (op == ACCESS_OP_HOP)
			continue;
		v = access_judge(&who, (enum access_op)op, "/p/x", NULL);
		assert_false(v.allowed);
		assert_int_equal(v.rule, ACCESS_RULE_TRUST);
	}
	policy.trust = KODA_TRUST_REQUIRE; /* approval is the host's job */
	assert_true(access_judge(&who, W, "/p/x", NULL).allowed);
	who.mode = KODA_PLAN;
	assert_int_equal(access_judge(&who, W, "/p/x", NULL).rule, ACCESS_RULE_TRUST);
}

static void
allow_git_config_opens_git_and_nothing_else(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };
	struct access_disk on = { (void *)disk, disk_has };

	policy.flag[KODA_ALLOW_GIT_CONFIG] = true;
	assert_true(access_judge(&who, W, "/p/.git/config", &on).allowed);
	assert_true(access_judge(&who, W, "/p/bare/hooks/x", &on).allowed);
	assert_true(access_judge(&who, RT, "/p/.git", &on).allowed);
	assert_false(access_judge(&who, W, "/p/.koda/agents/x", &on).allowed);
	add(KODA_DENY_WRITE_WITHIN_ALLOW, "/p/.git/config");
	assert_int_equal(access_judge(&who, W, "/p/.git/config", &on).rule, ACCESS_RULE_DENY_WRITE);
}

static void
the_rule_is_told(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };

	assert_string_equal(access_judge(&who, R, "/p/private/open/not/x", NULL).by,
	    "/p/private/open/not");
	assert_string_equal(access_judge(&who, R, "/p/private/open/x", NULL).by, "/p/private/open");
	assert_string_equal(access_judge(&who, W, "/p/fixed/x", NULL).by, "/p/fixed");
	assert_string_equal(access_judge(&who, W, "/p/x", NULL).by, "/p");
	assert_string_equal(access_judge(&who, W, "/p/.git/hooks/x", NULL).by, "hooks");
	assert_null(access_judge(&who, W, "/q/x", NULL).by);
}

/* ---- trees ---- */

static const struct {
	const char *label, *path;
	bool want;
} trees[] = {
	{ "tree: ordinary", "/p/x", true },
	{ "tree: a sibling of what is denied", "/p/fixedness", true },
	{ "tree: deny_write below", "/p/a", false },
	{ "tree: deny_read below", "/p/private/open", false },
	{ "tree: the root itself", "/p", false },
	{ "tree: a root without a deny in it", "/etc", false },
	{ "tree: above a root", "/q", false },
	{ "tree: /", "/", false },
	{ "tree: the home directory", HOME, false },
	{ "tree: above the home directory", "/home", false },
	{ "tree: home's .config", HOME "/.config", false },
	{ "tree: home's .config/koda", HOME "/.config/koda", false },
	{ "tree: another one's .config/koda", "/p/.config/koda", false },
	{ "tree: beside the database", HOME "/.config/other", true },
	{ "tree: below home", HOME "/work", true },
	{ "tree: a name that only begins so", "/pp", true },
};

static void
tree_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };
	struct access_verdict rm = access_judge_tree(&who, RM, trees[i].path);
	struct access_verdict mv = access_judge_tree(&who, RF, trees[i].path);

	assert_int_equal(rm.allowed, trees[i].want);
	assert_int_equal(mv.allowed, trees[i].want);
	if (!trees[i].want) {
		assert_int_equal(rm.rule, ACCESS_RULE_TREE);
		assert_non_null(rm.by);
	}
}

static void
entries_that_protect_a_tree(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };

	assert_true(access_protected_entry(&who, "x", ".git"));
	assert_true(access_protected_entry(&who, "x", ".GIT"));
	assert_true(access_protected_entry(&who, ".koda", "agents"));
	assert_true(access_protected_entry(&who, ".Koda", "SKILLS"));
	assert_true(access_protected_entry(&who, "koda", "db"));
	assert_false(access_protected_entry(&who, "x", "agents"));
	assert_false(access_protected_entry(&who, ".koda", "notes"));
	assert_false(access_protected_entry(&who, "x", ".gitignore"));
	assert_false(access_protected_entry(&who, "x", "db"));
	policy.flag[KODA_ALLOW_GIT_CONFIG] = true;
	assert_false(access_protected_entry(&who, "x", ".git"));
	assert_true(access_protected_entry(&who, ".koda", "agents"));
}

static void
names_that_protect_a_tree(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };

	assert_string_equal(access_name_rule(&who, "/p/x/.VSCode"), ".vscode");
	/* The walk asks about each entry, so it has met the parent already. */
	assert_null(access_name_rule(&who, "/p/.vscode/x"));
	assert_string_equal(access_name_rule(&who, "/p/x/.github/hooks"), ".github/hooks");
	assert_null(access_name_rule(&who, "/p/x/.github"));
	/* A protected name inside an installed package may be removed with it. */
	assert_null(access_name_rule(&who, "/p/node_modules/x/.vscode"));
	assert_non_null(access_name_rule(&who, "/p/my_node_modules/x/.vscode"));
	/* A package directory above the writable root does not count. */
	add(KODA_ALLOW_WRITE, "/w/vendor/q");
	assert_non_null(access_name_rule(&who, "/w/vendor/q/x/.vscode"));
	/* A directory renamed to the first name of a rule may bring the other names with it. */
	assert_int_equal(access_judge_tree(&who, RT, "/p/x/.github").rule, ACCESS_RULE_TREE);
	assert_string_equal(access_judge_tree(&who, RT, "/p/x/.GitHub").by, ".github/hooks");
	assert_true(access_judge_tree(&who, RF, "/p/x/.github").allowed);
	assert_true(access_judge_tree(&who, RT, "/p/x/github").allowed);
	/* KODA_ALLOW_GIT_CONFIG does not change deny_write_names. */
	policy.flag[KODA_ALLOW_GIT_CONFIG] = true;
	assert_int_equal(access_judge(&who, W, "/p/x/.vscode", NULL).rule, ACCESS_RULE_DENY_NAME);
}

static void
what_git_takes_for_a_git_directory(void **state)
{
	for (int i = 0; i < 32; i++) {
		bool head = i & 1, objects = i & 2, refs = i & 4, commondir = i & 8;
		bool worktrees = i & 16, want = (i & 7) == 7 || (i & 9) == 9 || (i & 22) == 22;

		assert_int_equal(access_is_git_dir(head, objects, refs, commondir, worktrees),
		    want);
	}
}

/* ---- sentences ---- */

static const struct {
	enum access_op op;
	enum koda_mode mode;
	const char *path, *want;
} sentences[] = {
	{ W, KODA_SAFE, "/p/.git/config",
	    "refused to write '/p/.git/config': git configuration and hooks run programs on the host "
	    "(rule git_config, mode safe)" },
	{ W, KODA_PLAN, "/p/x",
	    "refused to write '/p/x': Plan mode does not allow changes "
	    "(rule trust, mode plan)" },
	{ R, KODA_AUTO, "/secret/x",
	    "refused to read '/secret/x': deny_read names '/secret' (rule deny_read, mode auto)" },
	{ RM, KODA_AUTO, "/p/private/x",
	    "refused to remove '/p/private/x': deny_read names '/p/private', and what may not be read "
	    "may not be changed (rule deny_read, mode auto)" },
	{ MK, KODA_SAFE, "/q/new",
	    "refused to make the directory '/q/new': no rule of allow_write names it "
	    "(rule allow_write, mode safe)" },
	{ RF, KODA_SAFE, "/p/fixed/x",
	    "refused to move '/p/fixed/x': deny_write_within_allow names '/p/fixed' "
	    "(rule deny_write_within_allow, mode safe)" },
	{ W, KODA_AUTO, "/p/x/.vscode/tasks.json",
	    "refused to write '/p/x/.vscode/tasks.json': deny_write_names has '.vscode', at any depth "
	    "(rule deny_write_names, mode auto)" },
	{ RT, KODA_SAFE, "/p/.koda",
	    "refused to move something to '/p/.koda': .koda/agents and .koda/skills tell other agents "
	    "what to do (rule koda_place, mode safe)" },
	{ H, KODA_SAFE, "/proc/self",
	    "refused to follow the link '/proc/self': files in /proc belong to processes, not to the "
	    "project (rule process_window, mode safe)" },
	{ W, KODA_SAFE, "/secret/\x1b[2J\xe2\x80\xae\xe2\x80\xac",
	    "refused to write '/secret/\\x1b[2J\\u{202e}\\u{202c}': deny_read names '/secret', and what may not be "
	    "read may not be changed (rule deny_read, mode safe)" },
};

static void
sentence_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct access_subject who = { &policy, sentences[i].mode, HOME, NULL };
	struct koda_error err = { 0 };
	struct access_verdict v = access_judge(&who, sentences[i].op, sentences[i].path, NULL);

	assert_false(v.allowed);
	assert_int_equal(access_refuse(&err, &who, sentences[i].op, sentences[i].path, v), -1);
	assert_string_equal(err.message, sentences[i].want);
	assert_int_equal(err.code, KODA_POLICY_DENIED);
	assert_int_equal(err.errnum, 0);
	assert_string_equal(err.path, sentences[i].path);
	assert_string_equal(err.rule, access_rule_name(v.rule));
}

/* However long the path and the rule are, the rule and the mode at the end are not cut off. */
static void
a_sentence_is_never_cut(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };
	struct koda_error err;
	char path[4000];
	struct access_verdict v;
	static const char tail[] = "(rule deny_read, mode safe)";

	for (int control = 0; control < 2; control++) {
		memset(path, control ? '\n' : 'x', sizeof(path));
		path[0] = '/';
		path[sizeof(path) - 1] = '\0';
		add(KODA_DENY_READ, path);
		v = access_judge(&who, W, path, NULL);
		assert_int_equal(v.rule, ACCESS_RULE_DENY_READ);
		access_refuse(&err, &who, W, path, v);
		assert_non_null(strstr(err.message, "...'"));
		assert_string_equal(err.message + strlen(err.message) - strlen(tail), tail);
	}
}

static void
a_forbidding_policy_outside_plan_names_trust(void **state)
{
	struct access_subject who = { &policy, KODA_AUTO, HOME, NULL };
	struct koda_error err;

	policy.trust = KODA_TRUST_FORBID;
	access_refuse(&err, &who, W, "/p/x", access_judge(&who, W, "/p/x", NULL));
	assert_string_equal(err.message,
	    "refused to write '/p/x': the trust of this policy does not allow changes "
	    "(rule trust, mode auto)");
}

static void
reasons_of_what_is_allowed(void **state)
{
	struct access_subject who = { &policy, KODA_SAFE, HOME, NULL };
	char buf[256];

	assert_string_equal(access_reason(&who, R, access_judge(&who, R, "/x/y", NULL), buf,
				sizeof(buf)),
	    "no rule denies reading it");
	assert_string_equal(access_reason(&who, R, access_judge(&who, R, "/p/private/open", NULL),
				buf, sizeof(buf)),
	    "allow_read_within_deny names '/p/private/open'");
	assert_string_equal(access_reason(&who, W, access_judge(&who, W, "/p/x", NULL), buf,
				sizeof(buf)),
	    "allow_write names '/p'");
}

static void
every_rule_has_a_name_of_its_own(void **state)
{
	for (int i = 0; i <= ACCESS_RULE_TREE; i++) {
		for (int k = 0; k < i; k++)
			assert_string_not_equal(access_rule_name((enum access_rule)i),
			    access_rule_name((enum access_rule)k));
	}
}

int
main(void)
{
#define SINGLE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	static const struct CMUnitTest single[] = {
		SINGLE(without_a_home),
		SINGLE(own_state_anywhere),
		SINGLE(without_a_disk_names_still_protect),
		SINGLE(a_path_that_is_none_is_refused),
		SINGLE(a_new_policy_reads_and_changes_nothing),
		SINGLE(trust_forbids_every_change_and_no_read),
		SINGLE(allow_git_config_opens_git_and_nothing_else),
		SINGLE(the_rule_is_told),
		SINGLE(entries_that_protect_a_tree),
		SINGLE(names_that_protect_a_tree),
		SINGLE(what_git_takes_for_a_git_directory),
		SINGLE(a_sentence_is_never_cut),
		SINGLE(a_forbidding_policy_outside_plan_names_trust),
		SINGLE(reasons_of_what_is_allowed),
		SINGLE(every_rule_has_a_name_of_its_own),
	};
	struct CMUnitTest tests[N_ELEMENTS(single) + N_ELEMENTS(cases) + N_ELEMENTS(trees) +
	    N_ELEMENTS(sentences)];
	size_t n = 0;

#define TABLE(rows, label_of, fn)                                                                  \
	for (uintptr_t i = 0; i < N_ELEMENTS(rows); i++)                                           \
	tests[n++] = (struct CMUnitTest){ label_of, fn, setup, teardown, (void *)i }
	OTHERS(single);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		snprintf(labels[i], sizeof(labels[i]), "judge %s %s", op_names[cases[i].op],
		    cases[i].path);
	TABLE(cases, labels[i], judge_case);
	TABLE(trees, trees[i].label, tree_case);
	TABLE(sentences, sentences[i].want, sentence_case);
	return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
