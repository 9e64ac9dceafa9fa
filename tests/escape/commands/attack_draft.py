# SPDX-License-Identifier: Apache-2.0
"""What tests/escape/commands/run-attacks does with drafts: the user who decides on them."""
import glob
import hashlib
import os
import stat
import subprocess

PATIENCE_SECONDS = int(os.environ.get("KODA_ATTACK_PATIENCE") or 30)  # of one command; none takes 10 seconds


class Failure(Exception):
    pass


def tail(path, lines=12):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-lines:])
    except FileNotFoundError:
        return ""


class Draft:
    """The drafts of a world, and the user who decides on them."""

    def __init__(self, world):
        self.world, self.what = world, world.tree.draft
        self.id = None
        self.state = world.vars["H"] + "/.local/state"
        if path_contains(world.expand(world.attack.first("root", "$P")), self.state):
            self.state = world.environ["XDG_STATE_HOME"] = world.base + "/state"  # else there are no drafts
        os.makedirs(self.state + "/koda-sandbox", mode=0o700)  # not by the first run

    def rules(self):
        """Words for policy-run, which follow its mode."""
        return ["draft", self.id or "new"]

    def words(self, root):
        return ["draft", "run", self.id] if self.id else ["run", "--draft", "--root", root]

    def directories(self):
        return sorted(d for d in glob.glob(self.state + "/koda-sandbox/drafts/*/*") if os.path.isdir(d))

    def show(self, places, over):
        """What a command wants the host to see, the host would not see in a draft: show it as an empty file."""
        while not over.wait(0.005):
            for place in places:
                name = self.world.expand(place)
                root = self.world.expand(self.world.attack.first("root", "$P"))
                for found in glob.glob(f"{self.state}/koda-sandbox/drafts/*/*/0/u/{os.path.relpath(name, root)}"):
                    shown = os.path.join(os.path.dirname(name), os.path.basename(found))
                    if stat.S_ISREG(os.lstat(found).st_mode) and not os.path.lexists(shown):
                        with open(shown, "x", encoding="ascii"):
                            pass

    def everything(self):
        """What is in the world, but for our own state."""
        own, found = self.state + "/koda-sandbox", {}
        for part in "PHO":
            for path, dirs, files in os.walk(self.world.vars[part]):
                dirs[:] = [d for d in dirs if f"{path}/{d}" != own]
                for name in [path] + [f"{path}/{f}" for f in files + dirs]:
                    found[name] = fingerprint(name)
        return found

    def decide(self, last):
        """After a run. A draft that is to be discarded serves the second run, too."""
        for place in self.directories():
            self.id = os.path.basename(place)
            if self.what == "apply" or last:
                self.call(self.what, self.id)
        if self.what == "apply":
            self.id = None
        elif last and (left := self.directories()):
            raise Failure("drafts were left: " + " ".join(left))

    def call(self, *words):
        world = self.world
        root = world.expand(world.attack.first("root", "$P"))
        # What the user is told of a draft belongs to what is told of its command.
        with open(world.out, "ab") as log:
            done = subprocess.run([world.koda, "draft", *words], cwd=root, env=world.environ,
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=PATIENCE_SECONDS, check=False)
        if done.returncode not in (0, 1, 3, 4):  # 1, 3 and 4: something could not be applied
            raise Failure(f"draft {' '.join(words)} failed:\n" + tail(world.out))


def path_contains(directory, path):
    return os.path.commonpath([directory, path]) == directory


def fingerprint(name):
    st = os.lstat(name)
    content = None
    if stat.S_ISLNK(st.st_mode):
        content = os.readlink(name)
    elif stat.S_ISREG(st.st_mode) and os.access(name, os.R_OK):
        with open(name, "rb") as f:
            content = hashlib.sha1(f.read()).hexdigest()
    same = (st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_nlink)
    # In a directory the host makes the places where it mounts caches, for as long as the sandbox is there.
    return same if stat.S_ISDIR(st.st_mode) else (*same, st.st_size, st.st_mtime_ns, st.st_ctime_ns, content)


def differences(before, after):
    names = sorted(n for n in before | after if before.get(n) != after.get(n))
    return "; ".join(f"{n}: {before.get(n)} -> {after.get(n)}" for n in names[:5])
