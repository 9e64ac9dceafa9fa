/* SPDX-License-Identifier: Apache-2.0 */
#include "host/copy/worktree_script.h"

/* clang-format off */

/* Without these, git would also read the user's configuration and attributes, which are trusted but
 * name programs for other purposes. GIT_ALLOW_PROTOCOL beats every protocol.*.allow of the project:
 * in a partial clone git would fetch what is missing, through a program. */
#define PRELUDE                                                                                    \
	"set -eu\n"                                                                                \
	"export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1\n"  \
	"export GIT_ALLOW_PROTOCOL=none GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0\n"              \
	"unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_PAGER XDG_CONFIG_HOME || :\n"              \
	"export HOME=/nonexistent\n"                                                               \
	"settings() {\n"                                                                           \
	"	git -c core.hooksPath=/dev/null -c core.fsmonitor=false \\\n"                      \
	"	    -c core.sparseCheckout=false -c core.attributesFile=/dev/null \\\n"            \
	"	    -c core.excludesFile=/dev/null -c core.sshCommand=false -c core.editor=false \\\n" \
	"	    -c core.pager=cat -c core.askPass=false -c core.alternateRefsCommand=false \\\n" \
	"	    -c core.gitProxy=false -c credential.helper= -c gpg.program=false \\\n"        \
	"	    -c commit.gpgSign=false -c gc.auto=0 -c maintenance.auto=false \\\n"           \
	"	    -c submodule.recurse=false -c advice.addEmbeddedRepo=false \"$@\"\n"           \
	"}\n"

/* A worktree that the project was may be gone. core.worktree would move git to another directory. */
#define PROJECT                                                                                    \
	"G=$KODA_GIT\n"                                                                            \
	"[ -d \"$G\" ] || G=$KODA_COMMON\n"                                                        \
	"project() { settings --git-dir=\"$G\" --work-tree=/ \"$@\"; }\n"

/* The worktree's own git directory: found by what it says, as the worktree's `.git` is the agent's. */
#define OWN                                                                                        \
	"A=\n"                                                                                     \
	"for d in \"$KODA_COMMON\"/worktrees/*/; do\n"                                             \
	"	d=${d%/}\n"                                                                        \
	"	if [ -f \"$d/gitdir\" ] && [ \"$(cat \"$d/gitdir\")\" = \"$KODA_TREE/.git\" ]; then\n" \
	"		A=$d\n"                                                                    \
	"	fi\n"                                                                              \
	"done\n"                                                                                   \
	"own() { settings --git-dir=\"$A\" \"$@\"; }\n"

#define CLEAN                                                                                      \
	"S=$(mktemp -d)\n"                                                                         \
	"mkdir \"$S/objects\" \"$S/refs\"\n"                                                       \
	"echo \"$KODA_BASE\" >\"$S/HEAD\"\n"                                                       \
	"echo '[core]' >\"$S/config\"\n"                                                           \
	"echo 'repositoryformatversion = 1' >>\"$S/config\"\n"                                     \
	"if [ ${#KODA_BASE} -eq 64 ]; then\n"                                                      \
	"	echo '[extensions]' >>\"$S/config\"\n"                                             \
	"	echo 'objectFormat = sha256' >>\"$S/config\"\n"                                    \
	"fi\n"                                                                                     \
	"clean() {\n"                                                                              \
	"	GIT_DIR=$S GIT_OBJECT_DIRECTORY=$KODA_COMMON/objects GIT_WORK_TREE=$KODA_TREE \\\n" \
	"	    GIT_INDEX_FILE=${I:-$S/index} settings \"$@\"\n"                               \
	"}\n"                                                                                      \
	"cd \"$KODA_TREE\" 2>/dev/null || cd /\n"

const char worktree_script_base[] = PRELUDE PROJECT
    "project rev-parse -q --verify 'HEAD^{commit}' || exit 3\n";

const char worktree_script_add[] = PRELUDE PROJECT CLEAN
    "project worktree add -q --no-checkout --lock -b \"$KODA_BRANCH\" \"$KODA_TREE\" "
    "\"$KODA_BASE\"\n" OWN
    "[ -n \"$A\" ]\n"
    "clean read-tree --reset -u \"$KODA_BASE\"\n"
    "cp \"$S/index\" \"$A/index.koda\"\n"
    "mv \"$A/index.koda\" \"$A/index\"\n"
    "[ -z \"$(clean status --porcelain --ignore-submodules=all)\" ]\n";

/*
 * Count with `find` what git does not know, too: git reports nothing in a directory `.git`, in a
 * submodule, or in a directory that cannot be read. What is not a directory is either in the commit
 * or another file, so the numbers differ if there is one.
 */
#define COMPARE                                                                                    \
	"compare() {\n"                                                                            \
	"	changes=0 other=0\n"                                                               \
	"	[ -d \"$KODA_TREE\" ] || return 0\n"                                               \
	"	echo \"$1\" >\"$S/HEAD\"\n"                                                        \
	"	rm -f \"$S/index\"\n"                                                              \
	"	clean read-tree --reset \"$1\"\n"                                                  \
	"	clean status --porcelain --no-renames --untracked-files=all --ignored=matching \\\n" \
	"	    --ignore-submodules=all >\"$S/status\"\n"                                      \
	"	changes=$(wc -l <\"$S/status\")\n"                                                 \
	"	known=$(clean ls-files -s -z | tr '\\0\\n' '\\n ' | grep -vc '^160000 ' || :)\n"   \
	"	find . -path ./.git -prune -o ! -type d -exec printf '%.0sx' {} + >\"$S/here\" \\\n" \
	"	    2>/dev/null || other=1\n"                                                      \
	"	[ -f .git ] || other=1\n"                                                          \
	"	[ \"$changes\" -gt 0 ] || [ \"$(wc -c <\"$S/here\")\" -eq \"$known\" ] || other=1\n" \
	"}\n"

/*
 * commits: if there are any, files are compared with HEAD, else with the commit at the beginning,
 * which HEAD then is. They are those on the branch, on HEAD, and in the logs of both, whatever references there are now.
 * doing: a merge or the like is under way, or the git directory has what git's later versions put
 * there.
 */
#define STATE                                                                                      \
	"tip=$(project rev-parse -q --verify \"refs/heads/$KODA_BRANCH\" || :)\n"                  \
	"head= commits=0 staged=0 doing=0\n"                                                       \
	"if [ -n \"$A\" ]; then\n"                                                                 \
	"	head=$(own rev-parse -q --verify 'HEAD^{commit}' || :)\n"                          \
	"	for n in $(ls -A \"$A\"); do\n"                                                    \
	"		case $n in\n"                                                              \
	"		HEAD | commondir | gitdir | index | locked | logs | ORIG_HEAD) ;;\n"       \
	"		COMMIT_EDITMSG | FETCH_HEAD | info | refs | config.worktree) ;;\n"         \
	"		*) doing=1 ;;\n"                                                           \
	"		esac\n"                                                                    \
	"	done\n"                                                                            \
	"	if [ -n \"$(own for-each-ref refs/worktree refs/bisect refs/rewritten)\" ]; then\n" \
	"		doing=1\n"                                                                 \
	"	fi\n"                                                                              \
	"fi\n"                                                                                     \
	"for c in $tip $head $(cat \"$A/logs/HEAD\" \"$KODA_COMMON/logs/refs/heads/$KODA_BRANCH\" " \
	"2>/dev/null | cut -d ' ' -f 2); do\n"                                                     \
	"	[ \"$c\" = \"$KODA_BASE\" ] || echo \"$c\"\n"                                      \
	"done | sort -u >\"$S/commits\"\n"                                                         \
	"commits=$(wc -l <\"$S/commits\")\n"

/* An index that cannot be read, or needs files of its own, counts as different. */
#define STAGED                                                                                     \
	"theirs() {\n"                                                                             \
	"	rm -f \"$S/theirs\"\n"                                                             \
	"	cp \"$A/index\" \"$S/theirs\" || return 1\n"                                       \
	"	[ -z \"$(I=$S/theirs clean diff-index --cached --name-only --ignore-submodules=all \\\n" \
	"	    \"$@\" || echo x)\" ]\n"                                                       \
	"}\n"

#define REPORT                                                                                     \
	"echo \"commits $commits\"\n"                                                              \
	"echo \"changes $changes\"\n"                                                              \
	"echo \"other $other\"\n"                                                                  \
	"echo \"staged $staged\"\n"                                                                \
	"echo \"doing $doing\"\n"

const char worktree_script_look[] = PRELUDE PROJECT OWN CLEAN COMPARE STATE STAGED
    "compare \"${head:-$KODA_BASE}\"\n"
    "if [ -n \"$A\" ]; then theirs \"${head:-$KODA_BASE}\" || staged=1; fi\n" REPORT;

/* git would ask for the state of a submodule that has files, by a git that reads its configuration. */
#define SUBMODULES                                                                                 \
	"submodules() {\n"                                                                         \
	"	clean ls-files -s -z | tr '\\0\\n' '\\n?' | sed -n 's/^160000 [^\t]*\t//p' |\n"    \
	"	    while IFS= read -r p; do\n"                                                    \
	"		[ -z \"$(find \"./$p\" -mindepth 1 2>&1)\" ] || echo \"$p\"\n"             \
	"	done\n"                                                                            \
	"}\n"

/* What was put into the index, and is not in the commit, may be the only copy of a file. */
const char worktree_script_commit[] = PRELUDE PROJECT OWN CLEAN COMPARE STATE STAGED SUBMODULES
    "[ -n \"$A\" ] && [ -n \"$tip\" ] && [ \"$doing\" -eq 0 ] || exit 3\n"
    "[ \"$(own symbolic-ref -q HEAD)\" = \"refs/heads/$KODA_BRANCH\" ] || exit 3\n"
    "compare \"$tip\"\n"
    "[ -z \"$(submodules)\" ] || exit 3\n"
    "export GIT_AUTHOR_NAME=koda GIT_AUTHOR_EMAIL=koda@localhost\n"
    "export GIT_COMMITTER_NAME=koda GIT_COMMITTER_EMAIL=koda@localhost\n"
    "clean add -A . 2>/dev/null || exit 3\n"
    "tree=$(clean write-tree)\n"
    "new=$tip\n"
    "if [ \"$tree\" != \"$(clean rev-parse \"$tip^{tree}\")\" ]; then\n"
    "	new=$(clean commit-tree \"$tree\" -p \"$tip\" -m \"$KODA_MESSAGE\")\n"
    "	project update-ref -m koda-sandbox \"refs/heads/$KODA_BRANCH\" \"$new\" \"$tip\"\n"
    "	echo 'committed 1'\n"
    "fi\n"
    "theirs \"$tip\" || theirs --diff-filter=A \"$new\" || staged=1\n"
    "compare \"$new\"\n"
    "if [ \"$staged\" -eq 0 ]; then\n"
    "	cp \"$S/index\" \"$A/index.koda\"\n"
    "	mv \"$A/index.koda\" \"$A/index\"\n"
    "fi\n"
    "commits=$(clean rev-list --count \"$KODA_BASE..$new\")\n" REPORT;

/* The lock is one of a git that was killed with its host: no other process uses the branch now. */
const char worktree_script_remove[] = PRELUDE PROJECT
    "rm -f \"$KODA_COMMON/refs/heads/$KODA_BRANCH.lock\"\n"
    "tip=$(project rev-parse -q --verify \"refs/heads/$KODA_BRANCH\" || :)\n"
    "[ -n \"$tip\" ] || exit 0\n"
    "[ \"${KODA_EXPECTED:-$tip}\" = \"$tip\" ] || exit 3\n"
    "project update-ref -d \"refs/heads/$KODA_BRANCH\" \"$tip\"\n";
/* clang-format on */
