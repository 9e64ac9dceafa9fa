/* SPDX-License-Identifier: Apache-2.0 */
/* Renames of files, or of their directories, that free a name or move it out of reach of a rule. */
#include "tests/escape/escape.h"

#define REPO                                                                                       \
	"d root/.git", "f root/.git/HEAD", "d root/.git/objects", "d root/.git/refs",              \
	    "f root/.git/config"

/* clang-format off */
static const struct attack attacks[] = {
	{ "read-secret-rename: the denied file to a readable name", { NULL },
		{ { RENAME, "private/key", "k" }, { READ, "k", NULL } }, .secret = true },
	{ "read-secret-rename: the denied directory", { NULL },
		{ { RENAME, "private", "p" }, { READ, "p/key", NULL } }, .secret = true },
	{ "read-secret-rename: what the denied directory lies in", { "d root/a" },
		{ { RENAME, "@/root", "@/out/r" }, { READ, "@/out/r/private/key", NULL } }, .secret = true },
	{ "read-secret-rename: out of the denied directory, over a file", { NULL },
		{ { RENAME, "private/key", "file" }, { READ, "file", NULL } }, .secret = true },
	{ "read-secret-rename: the whole into the readable hole", { NULL },
		{ { RENAME, "private/key", "private/open/k" }, { READ, "private/open/k", NULL } }, .secret = true },
	{ "rename into a protected name: config", { REPO },
		{ { WRITE, "evil", NULL }, { RENAME, "evil", ".git/config" } }, .evil = "root/.git/config" },
	{ "rename into a protected name: from beside it", { REPO },
		{ { WRITE, ".git/x", NULL }, { RENAME, ".git/x", ".git/config" } }, .evil = "root/.git/config" },
	{ "rename into a protected name: config.lock", { REPO },
		{ { WRITE, "evil", NULL }, { RENAME, "evil", ".git/config.lock" } }, .evil = "root/.git/config.lock" },
	{ "rename into a protected name: the hooks' directory", { REPO },
		{ { WRITE, "h/pre-commit", NULL }, { RENAME, "h", ".git/hooks" } },
		.evil = "root/.git/hooks/pre-commit" },
	{ "rename into a protected name: a directory becomes .git", { NULL },
		{ { WRITE, "g/config", NULL }, { RENAME, "g", ".git" } }, .evil = "root/.git/config" },
	{ "rename into a protected name: a file becomes .git", { NULL },
		{ { WRITE, "g", "gitdir: EVIL\n" }, { RENAME, "g", ".git" } }, .evil = "root/.git" },
	{ "rename into a protected name: a module's directory", { REPO },
		{ { WRITE, "m/config", NULL }, { RENAME, "m", ".git/modules" } }, .evil = "root/.git/modules/config" },
	{ "git-mv-dotgit: away, another in its place", { REPO },
		{ { RENAME, ".git", "old" }, { WRITE, ".git/config", NULL } }, .evil = "root/.git/config" },
	{ "git-mv-dotgit: away, changed, and back", { REPO },
		{ { RENAME, ".git", "old" }, { WRITE, "old/config", NULL }, { RENAME, "old", ".git" } },
		.evil = "root/.git/config" },
	{ "git-mv-dotgit: removed, another in its place", { REPO },
		{ { REMOVE_ALL, ".git", NULL }, { WRITE, ".git/config", NULL } }, .evil = "root/.git/config" },
	{ "git-nested-rename: what a repository lies in", { "d root/n", "d root/n/.git", "f root/n/.git/config" },
		{ { RENAME, "n", "m" }, { RENAME, "m/.git", "m/g" }, { WRITE, "m/g/config", NULL },
		  { RENAME, "m/g", "m/.git" } }, .evil = "root/m/.git/config" },
	{ "git-nested-rename: removed with what it lies in", { "d root/n", "d root/n/.git", "f root/n/.git/config" },
		{ { REMOVE_ALL, "n", NULL }, { WRITE, "n/.git/config", NULL } }, .evil = "root/n/.git/config" },
	{ "koda-agents: by a rename of the directory", { NULL },
		{ { MKDIR, ".koda", NULL }, { WRITE, "a/x.md", NULL }, { RENAME, "a", ".koda/agents" } }, .evil = "root/.koda/agents/x.md" },
	{ "koda-agents: into an existing .koda", { "d root/.koda" },
		{ { WRITE, "a/x.md", NULL }, { RENAME, "a", ".koda/agents" } }, .evil = "root/.koda/agents/x.md" },
	{ "koda-agents: .koda made by a rename", { NULL },
		{ { WRITE, "k/agents/x.md", NULL }, { RENAME, "k", ".koda" } }, .evil = "root/.koda/agents/x.md" },
	{ "koda-agents: .koda away, changed, and back", { "d root/.koda", "d root/.koda/agents", "f root/.koda/agents/x" },
		{ { RENAME, ".koda", "k" }, { WRITE, "k/agents/x", NULL }, { RENAME, "k", ".koda" } },
		.evil = "root/.koda/agents/x" },
	{ "koda-agents: what .koda lies in away, changed, and back",
		{ "d root/n", "d root/n/.koda", "d root/n/.koda/skills", "f root/n/.koda/skills/x" },
		{ { RENAME, "n", "m" }, { RENAME, "m/.koda", "m/k" }, { WRITE, "m/k/skills/x", NULL },
		  { RENAME, "m/k", "m/.koda" } }, .evil = "root/m/.koda/skills/x" },
};
/* clang-format on */

int
main(void)
{
	return run_attacks("rename", attacks, N_ELEMENTS(attacks));
}
