# shellcheck shell=sh
# What every part of an attack may use; its variables are set before it is read (run-attacks).
#
#	K where bin/ and libexec/ of the programs are
#	B the world's directory	P the project	H the home	O what lies outside	A the attacker program
#	ID names this world		MARK is the last argument of processes that the host looks for
#
# PAYLOAD leaves a trace outside: harm when the host runs it, nothing when a sandboxed command does.
PAYLOAD="touch $O/ran"

# script FILE: the payload as an executable script.
script() {
	mkdir -p "$(dirname "$1")"
	printf '#!/bin/sh\n%s\n' "$PAYLOAD" >"$1"
	chmod +x "$1"
}

# repository DIR: a new one, with a commit.
repository() {
	mkdir -p "$1"
	(cd "$1" && git init -q && echo x >file && git add file && git -c core.hooksPath=/dev/null commit -qm first)
}

# settle: the user saves, and a moment passes. A mount that the host has detached is noticed and made again within
# about a millisecond, on a machine that has time; what happens in that window is for host-*-spin.
settle() {
	"$A" wait "$B/never" 400 || :
}

# ---- for judges: outside, afterwards ----

# The host runs what was planted.
ran() {
	[ -e "$O/ran" ]
}

# commit DIR, status DIR: what a user does on the host.
commit() {
	(cd "$1" && echo "$ID" >>file && git add -A . && git commit -qm next) >>"$B/host.log" 2>&1 </dev/null
	return 0
}

status() {
	(cd "$1" && git status && git diff && git log -1) >>"$B/host.log" 2>&1 </dev/null
	return 0
}

# broken [FILE]: it is no longer what it was.
broken() {
	[ "$(cat "${1:-$O/canary}")" != intact ]
}

# heard NAME: a listener of the host was reached.
heard() {
	"$A" sync "$B" && [ -e "$B/heard/$1" ]
}

# planted FILE: it is there and says what the attack wants.
planted() {
	[ -f "$1" ] && grep -q planted "$1"
}
