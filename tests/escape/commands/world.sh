# SPDX-License-Identifier: Apache-2.0
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

# index_entry PATH TEXT [+x]: the index of the repository here has that entry, as no git would write it.
index_entry() {
	python3 - "$1" "$(printf '%s\n' "$2" | git hash-object -w --stdin)" "${3-}" <<\END
import hashlib, os, subprocess, sys
path, oid, x = sys.argv[1].encode(), sys.argv[2], sys.argv[3]
# git refuses the path itself, so another one of its length is put there first, before all others.
held = b"!" * len(path)
mode = "100755" if x else "100644"
subprocess.run(["git", "update-index", "--add", "--cacheinfo", b"%s,%s,%s" % (mode.encode(), oid.encode(), held)], check=True)
index = subprocess.run(["git", "rev-parse", "--git-path", "index"], capture_output=True, check=True).stdout.strip()
text = open(index, "rb").read()[:-20].replace(held, path)
with open(index + b".new", "wb") as f:
    f.write(text + hashlib.sha1(text).digest())
os.rename(index + b".new", index)
END
}

# settle [MS]: the user saves, and a moment passes. A mount that the host has detached is noticed and made again within
# about a millisecond, on a machine that has time; what happens in that window is for host-*-spin. With ten processes for
# each processor half a second was too short.
settle() {
	"$A" wait "$B/never" "${1:-1500}" || :
}

# bait DIR: inside, after what is planted. looked DIR: outside, the host has compared everything since then, while the
# command runs: what the bait says is gone. Without a sandbox nobody looks.
bait() {
	git init -q "$P/$1" && git -C "$P/$1" config core.pager bait
}
looked() {
	looks=0
	while [ $looks -lt 25 ] && git config -f "$P/$1/.git/config" core.pager; do
		looks=$((looks + 1))
		settle 200
	done
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

# changed FILE...: one of those that the world has in the home directory is not what it was.
changed() {
	for file; do
		[ "$(cat "$file")" = "# intact" ] || return 0
	done
	return 1
}

# heard NAME: a listener of the host was reached.
heard() {
	"$A" sync "$B" && [ -e "$B/heard/$1" ]
}

# planted FILE: it is there and says what the attack wants.
planted() {
	[ -f "$1" ] && grep -q planted "$1"
}
