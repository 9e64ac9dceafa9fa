/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to make the user's next git command run what an agent wrote: .git in all its forms,
 * and a directory that becomes a repository piece by piece, in every order.
 */
#include "tests/escape/escape.h"

#define REPO                                                                                       \
	"d root/.git", "f root/.git/HEAD", "d root/.git/objects", "d root/.git/refs",              \
	    "f root/.git/config"
#define BARE                                                                                       \
	"d root/bare", "f root/bare/HEAD", "d root/bare/objects", "d root/bare/refs",              \
	    "f root/bare/config"
#define FSMONITOR "[core]\n\tfsmonitor = EVIL\n"

/* clang-format off */
static const struct attack attacks[] = {
	{ "git-hook", { REPO, "d root/.git/hooks" },
		{ { WRITE, ".git/hooks/pre-commit", NULL } }, .evil = "root/.git/hooks/pre-commit" },
	{ "git-hook: what a hook leads to by a link",
		{ REPO, "d root/.git/hooks", "d root/scripts", "f root/scripts/check",
		    "l ../../scripts/check root/.git/hooks/pre-commit" },
		{ { WRITE, "scripts/check", NULL } }, .evil = "root/scripts/check" },
	{ "git-hook: the directory of what it leads to, away and anew",
		{ REPO, "d root/.git/hooks", "d root/scripts", "f root/scripts/check",
		    "l ../../scripts/check root/.git/hooks/pre-commit" },
		{ { RENAME, "scripts", "old" }, { WRITE, "scripts/check", NULL } },
		.evil = "root/scripts/check" },
	{ "git-hook: the link on the way, removed and made a file",
		{ REPO, "d root/.git/hooks", "d root/scripts", "l /nowhere/else root/scripts/check",
		    "l ../../scripts/check root/.git/hooks/pre-commit" },
		{ { REMOVE, "scripts/check", NULL }, { WRITE, "scripts/check", NULL } },
		.evil = "root/scripts/check" },
	{ "git-hook: one that leads to nothing yet",
		{ REPO, "d root/.git/hooks", "d root/scripts",
		    "l ../../scripts/check root/.git/hooks/pre-commit" },
		{ { WRITE, "scripts/check", NULL } }, .evil = "root/scripts/check" },
	{ "names: .vscode of a package", { "d root/packages", "d root/packages/app" },
		{ { WRITE, "packages/app/.vscode/tasks.json", NULL } },
		.evil = "root/packages/app/.vscode/tasks.json" },
	{ "names: made elsewhere, renamed into place", { "d root/packages", "d root/x" },
		{ { WRITE, "x/tasks.json", NULL }, { RENAME, "x", "packages/.vscode" } },
		.evil = "root/packages/.vscode/tasks.json" },
	{ "names: the first part renamed into place", { "d root/packages", "d root/x", "d root/x/hooks" },
		{ { WRITE, "x/hooks/a.json", NULL }, { RENAME, "x", "packages/.github" } },
		.evil = "root/packages/.github/hooks/a.json" },
	{ "names: its package away, changed and back",
		{ "d root/packages", "d root/packages/.vscode", "f root/packages/.vscode/tasks.json" },
		{ { RENAME, "packages", "y" }, { WRITE, "y/.vscode/tasks.json", NULL },
		    { RENAME, "y", "packages" } },
		.evil = "root/packages/.vscode/tasks.json" },
	{ "git-hook-nodir", { REPO },
		{ { WRITE, ".git/hooks/pre-commit", NULL } }, .evil = "root/.git/hooks/pre-commit" },
	{ "git-hook: mkdir, then a file in it", { REPO },
		{ { MKDIR, ".git/hooks", NULL }, { WRITE, ".git/hooks/x", NULL } }, .evil = "root/.git/hooks/x" },
	{ "git-hook: edit one", { REPO, "d root/.git/hooks", "f root/.git/hooks/pre-push" },
		{ { EDIT, ".git/hooks/pre-push", NULL } }, .evil = "root/.git/hooks/pre-push" },
	{ "git-config-fsmonitor", { REPO },
		{ { WRITE, ".git/config", FSMONITOR } }, .evil = "root/.git/config" },
	{ "git-config-fsmonitor: edit", { REPO },
		{ { EDIT, ".git/config", NULL } }, .evil = "root/.git/config" },
	{ "git-config-fsmonitor: through a link to the directory", { REPO, "l .git root/g" },
		{ { WRITE, "g/config", FSMONITOR } }, .evil = "root/.git/config" },
	{ "git-config-fsmonitor: through a link to the file", { REPO, "l .git/config root/c" },
		{ { WRITE, "c", FSMONITOR } }, .evil = "root/.git/config" },
	{ "git-config-fsmonitor: dots and slashes", { REPO },
		{ { WRITE, "sub/..//.git/./config", FSMONITOR } }, .evil = "root/.git/config" },
	{ "git-config: removed, then written", { REPO },
		{ { REMOVE, ".git/config", NULL }, { WRITE, ".git/config", NULL } }, .evil = "root/.git/config" },
	{ "git-config: the lock that git renames over it", { REPO },
		{ { WRITE, ".git/config.lock", FSMONITOR } }, .evil = "root/.git/config.lock" },
	{ "git-config-worktree", { REPO },
		{ { WRITE, ".git/config.worktree", FSMONITOR } }, .evil = "root/.git/config.worktree" },
	{ "git-init-new", { NULL },
		{ { WRITE, ".git/HEAD", "ref: refs/heads/main\n" }, { WRITE, ".git/config", FSMONITOR } },
		.evil = "root/.git/config" },
	{ "git-worktree-gitfile", { "f root/.git" },
		{ { WRITE, ".git", "gitdir: EVIL\n" } }, .evil = "root/.git" },
	{ "git-worktree-gitfile: edit", { "f root/.git" },
		{ { EDIT, ".git", NULL } }, .evil = "root/.git" },
	{ "git-worktree-gitfile: where nothing is", { NULL },
		{ { WRITE, "sub/.git", "gitdir: EVIL\n" } }, .evil = "root/sub/.git" },
	{ "git-worktree-common: commondir", { REPO },
		{ { WRITE, ".git/commondir", "EVIL\n" } }, .evil = "root/.git/commondir" },
	{ "git-worktree-common: of a linked worktree", { REPO, "d root/.git/worktrees", "d root/.git/worktrees/w" },
		{ { WRITE, ".git/worktrees/w/commondir", "EVIL\n" } }, .evil = "root/.git/worktrees/w/commondir" },
	{ "git-worktree-common: its gitdir", { REPO, "d root/.git/worktrees", "d root/.git/worktrees/w" },
		{ { WRITE, ".git/worktrees/w/gitdir", "EVIL\n" } }, .evil = "root/.git/worktrees/w/gitdir" },
	{ "git-worktree-common: its config", { REPO, "d root/.git/worktrees", "d root/.git/worktrees/w" },
		{ { WRITE, ".git/worktrees/w/config.worktree", NULL } },
		.evil = "root/.git/worktrees/w/config.worktree" },
	{ "git-submodule: config", { REPO, "d root/.git/modules", "d root/.git/modules/s" },
		{ { WRITE, ".git/modules/s/config", FSMONITOR } }, .evil = "root/.git/modules/s/config" },
	{ "git-submodule: a name with components", { REPO },
		{ { WRITE, ".git/modules/a/b/c/hooks/post-checkout", NULL } },
		.evil = "root/.git/modules/a/b/c/hooks/post-checkout" },
	{ "git-submodule: its gitfile", { REPO, "d root/s", "f root/s/.git" },
		{ { WRITE, "s/.git", "gitdir: EVIL\n" } }, .evil = "root/s/.git" },
	{ "git-nested1-config", { "d root/n", "d root/n/.git" },
		{ { WRITE, "n/.git/config", FSMONITOR } }, .evil = "root/n/.git/config" },
	{ "git-nested1-hook", { "d root/n", "d root/n/.git" },
		{ { WRITE, "n/.git/hooks/post-checkout", NULL } }, .evil = "root/n/.git/hooks/post-checkout" },
	{ "git-nested-deep", { NULL },
		{ { WRITE, "a/b/c/d/e/f/g/h/.git/config", FSMONITOR } }, .evil = "root/a/b/c/d/e/f/g/h/.git/config" },
	{ "git-nested-ignored", { "d root/node_modules", "d root/node_modules/x" },
		{ { WRITE, "node_modules/x/.git/config", FSMONITOR } }, .evil = "root/node_modules/x/.git/config" },
	{ "git-nested-oddname", { NULL },
		{ { WRITE, "odd\n\xff name/.git/config", FSMONITOR } }, .evil = "root/odd\n\xff name/.git/config" },
	{ "git-symlink-dotgit", { "l dotgit root/.git", "d root/dotgit", "f root/dotgit/HEAD", "d root/dotgit/objects",
		"d root/dotgit/refs", "f root/dotgit/config" },
		{ { WRITE, "dotgit/config", FSMONITOR } }, .evil = "root/dotgit/config" },
	{ "git-symlink-dotgit: by the link", { "l dotgit root/.git", "d root/dotgit", "f root/dotgit/HEAD",
		"d root/dotgit/objects", "d root/dotgit/refs", "f root/dotgit/config" },
		{ { WRITE, ".git/config", FSMONITOR } }, .evil = "root/dotgit/config" },
	{ "git-symlink-dotgit: the link itself removed, a directory instead", { "l dotgit root/.git", "d root/dotgit" },
		{ { REMOVE, ".git", NULL }, { WRITE, ".git/config", FSMONITOR } }, .evil = "root/.git/config" },
	{ "git-bare-subdir: config", { BARE },
		{ { WRITE, "bare/config", FSMONITOR } }, .evil = "root/bare/config" },
	{ "git-bare-subdir: hook", { BARE },
		{ { WRITE, "bare/hooks/post-update", NULL } }, .evil = "root/bare/hooks/post-update" },
	{ "git-bare-subdir: config by a rename", { BARE },
		{ { WRITE, "evil", FSMONITOR }, { RENAME, "evil", "bare/config" } }, .evil = "root/bare/config" },
	{ "git-bare-subdir: moved, changed, and back", { BARE },
		{ { RENAME, "bare/HEAD", "bare/H" }, { WRITE, "bare/config", FSMONITOR },
		  { RENAME, "bare/H", "bare/HEAD" } }, .evil = "root/bare/config+root/bare/HEAD" },
	{ "git-bare-subdir: its objects away, changed, and back", { BARE },
		{ { RENAME, "bare/objects", "bare/o" }, { WRITE, "bare/config", FSMONITOR },
		  { RENAME, "bare/o", "bare/objects" } }, .evil = "root/bare/config+root/bare/objects" },
	{ "git-alternates", { REPO },
		{ { WRITE, ".git/objects/info/alternates", "EVIL\n" } }, .evil = "root/.git/objects/info/alternates" },
	{ "casefold: .GIT/config", { NULL },
		{ { WRITE, ".GIT/config", FSMONITOR } }, .evil = "root/.GIT/config" },
	{ "casefold: .Git/HOOKS", { NULL },
		{ { WRITE, ".Git/HOOKS/pre-commit", NULL } }, .evil = "root/.Git/HOOKS/pre-commit" },
	{ "casefold: .git/CONFIG", { REPO },
		{ { WRITE, ".git/CONFIG", FSMONITOR } }, .evil = "root/.git/CONFIG" },
	{ "casefold: a character that is dropped", { NULL },
		{ { WRITE, ".g\xe2\x80\x8bit/config", FSMONITOR } }, .evil = "root/.g\xe2\x80\x8bit/config" },
	{ "casefold: a trailing dot", { NULL },
		{ { WRITE, ".git./config", FSMONITOR } }, .evil = "root/.git./config" },
	{ "casefold: the short name of FAT", { NULL },
		{ { WRITE, "GIT~1/config", FSMONITOR } }, .evil = "root/GIT~1/config" },
	{ "casefold: .Koda/Agents", { NULL },
		{ { WRITE, ".Koda/Agents/x.md", NULL } }, .evil = "root/.Koda/Agents/x.md" },
	{ "koda-agents", { NULL },
		{ { WRITE, ".koda/agents/x.md", NULL } }, .evil = "root/.koda/agents/x.md" },
	{ "koda-agents: mkdir first", { "d root/.koda" },
		{ { MKDIR, ".koda/agents", NULL }, { WRITE, ".koda/agents/x.md", NULL } },
		.evil = "root/.koda/agents/x.md" },
	{ "koda-agents: edit", { "d root/.koda", "d root/.koda/agents", "f root/.koda/agents/x.md" },
		{ { EDIT, ".koda/agents/x.md", NULL } }, .evil = "root/.koda/agents/x.md" },
	{ "koda-skills: nested", { NULL },
		{ { WRITE, "a/b/.koda/skills/s/SKILL.md", NULL } }, .evil = "root/a/b/.koda/skills/s/SKILL.md" },
	{ "koda-skills: through a link", { "d root/.koda", "d root/.koda/skills", "l .koda/skills root/s" },
		{ { WRITE, "s/x.md", NULL } }, .evil = "root/.koda/skills/x.md" },
};

/* The four parts of a bare repository; each kind is made in each of the 24 orders. */
static const struct kind {
	const char *name;
	struct step piece[4];
	const char *evil;
} kinds[] = {
	{ "config", { { WRITE, "b/HEAD", "ref: refs/heads/main\n" }, { WRITE, "b/objects/info/x", "x" },
		{ WRITE, "b/refs/heads/main", "x" }, { WRITE, "b/config", FSMONITOR } },
		"root/b/HEAD+root/b/objects+root/b/refs+root/b/config" },
	{ "hooks", { { WRITE, "b/HEAD", "ref: refs/heads/main\n" }, { MKDIR, "b/objects", NULL },
		{ MKDIR, "b/refs", NULL }, { WRITE, "b/hooks/pre-commit", NULL } },
		"root/b/HEAD+root/b/objects+root/b/refs+root/b/hooks/pre-commit" },
	{ "renames", { { RENAME, "prepared/h", "b/HEAD" }, { RENAME, "prepared/o", "b/objects" },
		{ RENAME, "prepared/r", "b/refs" }, { RENAME, "prepared/evil", "b/config" } },
		"root/b/HEAD+root/b/objects+root/b/refs+root/b/config" },
};
/* clang-format on */

#define ORDERS 24

static struct attack assembled[N_ELEMENTS(kinds) * ORDERS + 2];
static char labels[N_ELEMENTS(assembled)][96];

/* Returns the n-th order of four. */
static void
order(unsigned n, unsigned ret[4])
{
	unsigned left[4] = { 0, 1, 2, 3 };

	for (unsigned i = 0, k = 4; i < 4; i++, k--) {
		unsigned at = n % k;

		n /= k;
		ret[i] = left[at];
		memmove(left + at, left + at + 1, (k - at - 1) * sizeof(left[0]));
	}
}

static size_t
assemble(void)
{
	static const char *const prepared[] = { "d root/b", "d root/prepared", "f root/prepared/h",
		"d root/prepared/o", "d root/prepared/r", "f root/prepared/plain" };
	size_t n = 0;

	for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
		for (unsigned k = 0; k < ORDERS; k++) {
			struct attack *a = &assembled[n];
			unsigned at[4], steps = 0;

			order(k, at);
			snprintf(labels[n], sizeof(labels[n]), "git-assembled: %s, order %u%u%u%u",
			    kinds[i].name, at[0], at[1], at[2], at[3]);
			a->name = labels[n++];
			memcpy(a->setup, prepared, sizeof(prepared));
			a->evil = kinds[i].evil;
			if (kinds[i].piece[3].verb == RENAME)
				a->step[steps++] =
				    (struct step){ WRITE, "prepared/evil", FSMONITOR };
			for (unsigned j = 0; j < 4; j++)
				a->step[steps++] = kinds[i].piece[at[j]];
		}
	}
	/* The directory of a linked worktree: HEAD, and a pointer to the rest. */
	for (unsigned k = 0; k < 2; k++) {
		struct attack *a = &assembled[n];

		snprintf(labels[n], sizeof(labels[n]), "git-assembled: commondir %s",
		    k == 0 ? "last" : "first");
		a->name = labels[n++];
		a->step[k] = (struct step){ WRITE, "b/HEAD", "ref: refs/heads/main\n" };
		a->step[1 - k] = (struct step){ WRITE, "b/commondir", "EVIL\n" };
		a->evil = "root/b/HEAD+root/b/commondir";
	}
	return n;
}

int
main(void)
{
	static struct attack all[N_ELEMENTS(attacks) + N_ELEMENTS(assembled)];
	size_t n = assemble();

	memcpy(all, attacks, sizeof(attacks));
	memcpy(all + N_ELEMENTS(attacks), assembled, n * sizeof(assembled[0]));
	return run_attacks("git", all, N_ELEMENTS(attacks) + n);
}
