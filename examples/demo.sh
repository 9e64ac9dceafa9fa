#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh [KODA-SANDBOX]: what koda-sandbox does, shown on a project that is gone afterwards.
# Fails when anything that it claims does not hold. KODA_DEMO_MIB: how big the file of the edit is, for slow machines.
set -uo pipefail

koda=${1:-koda-sandbox}
if ! koda=$(command -v -- "$koda"); then
	echo "demo: cannot find ${1:-koda-sandbox}" >&2
	exit 2
fi
koda=$(realpath -- "$koda")

bold='' green='' red='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' dim=$'\e[2m' plain=$'\e[0m'
fi

scratch=$(mktemp -d) || exit 2
scratch=$(realpath -- "$scratch")
cleanup() {
	# An edit may be under way, its worker stopped by us.
	if [ -n "${editor:-}" ]; then
		kill -9 "$editor" ${worker:+"$worker"} 2>/dev/null
	fi
	rm -rf -- "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export NO_COLOR=1 # the sentences are coloured here
export XDG_STATE_HOME=$scratch/state # where quarantine is: not among the user's own

failures=0
title() {
	printf '\n%s%s%s\n' "$bold" "$*" "$plain"
}
good() {
	printf '  %sok%s   %s\n' "$green" "$plain" "$*"
}
bad() {
	printf '  %sFAIL%s %s\n' "$red" "$plain" "$*"
	failures=$((failures + 1))
}
expect() { # WHAT COMMAND...
	local what=$1
	shift
	if "$@"; then good "$what"; else bad "$what"; fi
}
# The command is shown as one would type it, also where its output is taken.
exec 3>&1
fs() {
	local word line='koda-sandbox --mode auto fs'
	for word; do
		case $word in
		*[!a-zA-Z0-9_./+-]*) line+=" '$word'" ;;
		*) line+=" $word" ;;
		esac
	done
	printf '  %s$ %s%s\n' "$dim" "$line" "$plain" >&3
	"$koda" --mode auto fs "$@"
}
refused() { # WHAT STAYS-AWAY FS-ARGUMENTS...
	local what=$1 path=$2 sentence
	shift 2
	if sentence=$(echo 'stolen' | fs "$@" 2>"$scratch/refusal"); then
		bad "$what: it was let through"
		return
	fi
	sentence=$(grep -m 1 '^koda-sandbox: ' "$scratch/refusal")
	printf '       %s\n' "$sentence"
	if [ -e "$path" ]; then bad "$what: refused, but the file exists"; else good "$what: refused"; fi
}

mkdir -p "$scratch/project/.git/hooks" "$scratch/outside"
echo 'ref: refs/heads/main' >"$scratch/project/.git/HEAD"
ln -s ../outside "$scratch/project/notes"
cd "$scratch/project" || exit 2

title 'Files are written and edited by a worker that is confined to the project.'
printf 'int main(void) { return 1; }\n' | fs write src/main.c || bad 'the write failed'
fs edit src/main.c --old 'return 1' --new 'return 0' || bad 'the edit failed'
expect 'what was written is what is there' \
	test "$(fs read src/main.c)" = 'int main(void) { return 0; }'

title 'What leaves the project is refused, whatever it looks like.'
refused "a path with '..'" "$scratch/loot" write ../loot
refused 'a symbolic link to the outside' "$scratch/outside/loot" write notes/loot
refused 'a git hook, which git would run' .git/hooks/pre-commit write .git/hooks/pre-commit

title 'Searches find what is in the project, and enter no link.'
echo 'a needle outside' >"$scratch/outside/hay"
echo 'a needle inside' >hay
expect 'the line inside is found, and nothing else' test "$(fs grep needle)" = 'hay:a needle inside'
echo 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' >hay
if fs grep '(a|aa)+$' 2>"$scratch/refusal"; then bad 'a pattern that never ends was answered'; fi
sed -n 's/^koda-sandbox: /       /p' "$scratch/refusal"
expect 'a pattern that would take for ever is ended' grep -q '^koda-sandbox: ' "$scratch/refusal"
rm hay

mib=${KODA_DEMO_MIB:-64}
title "A worker is killed in the middle of an edit of $mib MiB."
{
	yes 'one of the many lines of a big file' | head -c $((mib << 20))
	printf '\ncounter:\n'
} | fs write big.txt || bad 'the write failed'
caught=
for _ in 1 2 3 4 5; do
	"$koda" --mode auto --verbose fs edit big.txt --old 'counter:' --new 'counter: +1' \
		>"$scratch/stdout" 2>"$scratch/stderr" &
	editor=$!
	# The temporary file stands beside the target for as long as it is being written.
	until { file=$(compgen -G '.koda-*') && [ -s "$file" ]; } || ! kill -0 "$editor" 2>/dev/null; do :; done
	worker=$(sed -n 's/^koda-sandbox: worker \([0-9]*\) is ready.*/\1/p' "$scratch/stderr")
	if [ -n "$worker" ] && kill -STOP "$worker" 2>/dev/null && compgen -G '.koda-*' >/dev/null; then
		caught=1
	fi
	if [ -n "$caught" ]; then
		printf '       worker %s is stopped, with %s of the new file written\n' "$worker" \
			"$(du -h --apparent-size .koda-* | cut -f 1)"
	fi
	[ -z "$worker" ] || kill -KILL "$worker" 2>/dev/null
	wait "$editor"
	status=$?
	editor='' worker=''
	[ -z "$caught" ] || break
	# The edit was faster than we: once more from the beginning.
	"$koda" --mode auto fs edit big.txt --old 'counter: +1' --new 'counter:' 2>/dev/null
done
expect 'the worker was stopped in the middle of the edit and killed' test -n "$caught"
sed -n 's/^koda-sandbox: \(worker .*\)/       \1/p' "$scratch/stderr"
expect 'the edit was reported as done' test "$status" -eq 0
expect 'one worker died' \
	test "$(grep -c '^koda-sandbox: worker [0-9]* killed by SIGKILL' "$scratch/stderr")" -eq 1
expect 'another took its place' \
	test "$(grep -c '^koda-sandbox: worker [0-9]* started' "$scratch/stderr")" -eq 2
expect 'the edit happened exactly once' test "$(tail -n 1 big.txt)" = 'counter: +1'
expect 'no byte is torn or missing' test "$(stat -c %s big.txt)" -eq $(((mib << 20) + 13))
expect 'nothing is left behind' test -z "$(compgen -G '.koda-*')"

title 'A command runs in a kernel sandbox, and leaves nothing behind that a tool on the host would run.'
command() { # SHELL
	printf "  %s\$ koda-sandbox run --mode auto -c '%s'%s\n" "$dim" "$1" "$plain"
	"$koda" run --mode auto -c "$1" 2>"$scratch/stderr"
}
echo 'a secret of the host' >"$scratch/outside/canary"
command 'echo built > out.txt'
expect 'it writes in the project' test "$(cat out.txt)" = built
command "echo changed > $scratch/outside/canary"
sed -n 's/^/       /p' "$scratch/stderr"
expect 'it does not write outside' test "$(cat "$scratch/outside/canary")" = 'a secret of the host'
command 'mkdir -p lib/.git/hooks && echo "touch owned" > lib/.git/hooks/post-checkout && mkdir lib/.git/objects lib/.git/refs && echo "ref: refs/heads/main" > lib/.git/HEAD'
sed -n 's/^/       /p' "$scratch/stderr"
expect 'the hook that it planted in a new repository is gone' test ! -e lib/.git/hooks/post-checkout
expect 'and kept in quarantine' \
	test "$("$koda" quarantine list | grep -c post-checkout)" -ge 1

title 'In a draft you decide on what a command did, not on what it says it will do; and can take it back.'
draft() { # ARGUMENT...
	printf '  %s$ koda-sandbox %s%s\n' "$dim" "$*" "$plain"
	"$koda" "$@" 2>"$scratch/stderr" | tee "$scratch/shown" | sed 's/^/       /'
}
for i in 0 1 2 3 4 5 6 7 8 9; do printf 'int f%s(void);\n' "$i" >"src/f$i.h"; done
printf "  %s\$ koda-sandbox run --mode auto --draft -c '...'%s\n" "$dim" "$plain"
"$koda" run --mode auto --draft 2>"$scratch/stderr" </dev/null \
	-c 'sed -i "s/int/long/" src/f*.h; echo "touch owned" > .git/hooks/post-merge'
sed -n 's/^/       /p' "$scratch/stderr"
expect 'nothing of it is in the project' test -z "$(grep -l long src/f*.h)"
id=$("$koda" drafts | cut -d ' ' -f 1)
draft draft diff "$id" --stat
draft draft diff "$id" src/f3.h
draft draft apply "$id" src/f3.h src/f4.h
expect 'a part of it is applied' test "$(grep -l long src/f*.h | tr '\n' ' ')" = 'src/f3.h src/f4.h '
draft draft apply "$id"
sed -n 's/^/       /p' "$scratch/stderr"
expect 'then all of it' test "$(grep -l long src/f*.h | wc -l)" -eq 10
expect 'except the hook that it planted' test ! -e .git/hooks/post-merge
draft undo --since 1h
expect 'and all ten files are as they were' test -z "$(grep -l long src/f*.h)"
draft draft discard "$id"

title 'Two agents change one file at the same time, each in a draft of its own; both changes are kept.'
printf '%s\n' one two three four five >list.txt
for change in s/one/ONE/ s/five/FIVE/; do
	printf "  %s\$ koda-sandbox run --mode auto --draft -- sed -i %s list.txt &%s\n" "$dim" "$change" "$plain"
	"$koda" run --mode auto --draft </dev/null 2>/dev/null -- sed -i "$change" list.txt &
done
wait
mapfile -t ids < <("$koda" drafts | cut -d ' ' -f 1)
expect 'there are two drafts' test "${#ids[@]}" -eq 2
draft draft apply "${ids[0]}"
draft draft diff "${ids[1]}"
expect 'the second one is in conflict, and merges' grep -q 'merges cleanly' "$scratch/shown"
draft draft apply "${ids[1]}" --take merge
expect 'both changes are in the file' test "$(tr '\n' ' ' <list.txt)" = 'ONE two three four FIVE '

title 'The only way out goes by name.'
# curl may not be here; bash speaks enough HTTP for one request.
cat >ask.sh <<'END'
exec 3<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"
printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
sed -n 's/^HTTP.* 403/403/p; /is refused/p' <&3
END
command 'bash ask.sh http://evil.example/' >"$scratch/stdout"
sed '2,$s/^/       /' "$scratch/stdout"
expect 'a host that no rule names is refused, with the reason' grep -q 'evil.example:80 is refused: no rule' "$scratch/stdout"
expect 'and a violation, although the command ended well' grep -q 'deny network-outbound evil.example:80' "$scratch/stderr"

if [ "$failures" -gt 0 ]; then
	title "$failures of these checks failed."
	exit 1
fi
title 'All of this works.'
