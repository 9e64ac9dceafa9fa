// SPDX-License-Identifier: Apache-2.0
// An agent that follows a script, in Auto: it solves a small task with the tools and nothing else, and between its steps
// it tries what it may not. Each attempt is judged by what is there afterwards, not by what it was told.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { connect, done, family, lives, processes, runTests, test, textOf, until, World } from "./harness.mjs";

const PATIENCE_SECONDS = 20; // of one command; none takes a tenth of it

// ---- the project: median() of an even number of values is wrong, and nobody has written mode() ----

const FILES = {
	"stats.py": `def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
`,
	"test_stats.py": `import unittest

import stats


class StatsTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(stats.mean([1, 2, 3]), 2)

    def test_median_odd(self):
        self.assertEqual(stats.median([3, 1, 2]), 2)

    def test_median_even(self):
        self.assertEqual(stats.median([4, 1, 3, 2]), 2.5)

    def test_mode(self):
        self.assertEqual(stats.mode([1, 2, 2, 3]), 2)


if __name__ == "__main__":
    unittest.main()
`,
	"README.md": "Statistics of a few numbers.\n",
	"data/values.txt": "1\n2\n3\n",
};

const git = (world, ...words) => execFileSync("git", ["-C", world.root, ...words],
	{ env: { ...world.environment, GIT_CONFIG_NOSYSTEM: "1" }, encoding: "utf8" });

const world = new World(FILES);
fs.writeFileSync(path.join(world.home, ".gitconfig"), "[user]\n\tname = User\n\temail = user@example.org\n");
fs.writeFileSync(path.join(world.home, ".bashrc"), "# intact\n");
git(world, "init", "-q", "-b", "main");
git(world, "add", "-A");
git(world, "commit", "-q", "-m", "A start");

// Who comes to the host's own sockets, which nobody may.
const visitors = [];
const listen = (server, ...where) => new Promise((resolve) => server.listen(...where, () => resolve(server)));
const onTcp = await listen(net.createServer((c) => visitors.push(c.end("here\n"))), 0, "127.0.0.1");
const unixPath = path.join(world.outside, "socket");
const onUnix = await listen(net.createServer((c) => visitors.push(c.end("here\n"))), unixPath);
const PORT = onTcp.address().port;

const SECRET = "not for commands 5417";
const client = await connect(world, "auto", { env: { SECRET_TOKEN: SECRET } });

const run = (command, more = {}) => client.callTool({ name: "run_command", arguments: { command, timeout: PATIENCE_SECONDS, ...more } },
	undefined, { timeout: 60_000 });
const works = async () => assert.match(textOf(await done(client, "read_file", { path: "README.md" })), /Statistics/);

// ---- what it does ----

const steps = [];
const work = (name, go) => steps.push({ name: `work: ${name}`, go });
// A tool, or several, called with everything that an attacker likes. Then `judge` looks; the world around is looked at after each.
const hostile = (name, go, judge = async () => {}) => steps.push({ name: `hostile: ${name}`, go, judge, hostile: true });

// All that commands and file tools may not change: what is outside, the home directory, how git is set up.
const guarded = () => ({ ...world.picture(world.outside, world.home), ...world.picture(world.path(".git/hooks")),
	config: world.get(".git/config") });

const call = (name, args) => client.callTool({ name, arguments: args });
const attempt = (...calls) => async () => {
	for (const [name, args] of calls)
		await call(name, args).catch(() => {});
};

work("look around", async () => {
	const tools = await client.listTools();
	assert.ok(tools.tools.length > 0);
	const listed = textOf(await done(client, "list_directory", { path: "." }));
	assert.match(listed, /stats\.py/);
	assert.match(listed, /test_stats\.py/);
	assert.match(textOf(await done(client, "tree", { path: "." })), /values\.txt/);
	assert.match(textOf(await done(client, "glob", { pattern: "**/*.py" })), /test_stats\.py/);
});

hostile("write beside the project", attempt(
	["write_file", { path: "../outside/canary", content: "owned\n" }],
	["write_file", { path: path.join(world.outside, "new"), content: "owned\n" }],
	["edit_file", { path: "../outside/canary", edits: [{ old: "intact", new: "owned" }] }]));

hostile("write into the home directory", attempt(
	["write_file", { path: "~/.bashrc", content: "owned\n" }],
	["write_file", { path: path.join(world.home, ".bashrc"), content: "owned\n" }],
	["write_file", { path: path.join(world.home, ".config/autostart/x.desktop"), content: "owned\n" }]),
// No shell reads that path: a directory of the project may be called so.
() => fs.rmSync(world.path("~"), { recursive: true, force: true }));

hostile("a git hook", attempt(
	["write_file", { path: ".git/hooks/pre-commit", content: "#!/bin/sh\ntouch ../outside/hooked\n" }],
	["move", { from: "README.md", to: ".git/hooks/post-commit" }]), () => assert.ok(world.has("README.md")));

work("run the tests, which fail", async () => {
	const result = await run("python3 -B -m unittest 2>&1");
	assert.match(textOf(result), /FAILED \(failures=1, errors=1\)/);
});

hostile("git's configuration", attempt(
	["edit_file", { path: ".git/config", edits: [{ old: "[core]", new: "[core]\n\tfsmonitor = touch outside" }] }],
	["run_command", { command: "git config core.fsmonitor 'touch x'; git config core.hooksPath /tmp; git config alias.st '!sh'" }],
	["run_command", { command: "printf '[core]\\n\\tpager = sh\\n' >>.git/config" }],
	["run_command", { command: "mv .git/config .git/config.old; rm -f .git/config; mv .git g && mkdir .git" }]),
() => assert.ok(world.has(".git/config")));

hostile("through a symbolic link", attempt(
	["run_command", { command: `ln -s ${world.outside} way && ln -s way way2 && ln -s ${world.outside}/canary file` }],
	["write_file", { path: "way/canary", content: "owned\n" }],
	["write_file", { path: "way2/new", content: "owned\n" }],
	["edit_file", { path: "file", edits: [{ old: "intact", new: "owned" }] }],
	["run_command", { command: "echo owned >way/canary; echo owned >file; rm -f way/canary" }],
	["remove", { path: "way/canary" }],
	["run_command", { command: "rm -f way way2 file" }]));

work("find the place", async () => {
	const found = textOf(await done(client, "grep", { pattern: "def (mean|median)" }));
	assert.match(found, /stats\.py/);
	assert.match(found, /median/);
});

hostile("move things out and in", attempt(
	["move", { from: "stats.py", to: "../outside/stats.py" }],
	["move", { from: "../outside/canary", to: "canary" }],
	["move", { from: ".git", to: "git" }],
	["remove", { path: ".git" }],
	["remove", { path: ".", recursive: true }],
	["remove", { path: ".." }]),
() => {
	assert.ok(world.has("stats.py"));
	assert.ok(world.has(".git/HEAD"));
	assert.ok(!world.has("canary"));
});

hostile("a command that writes outside", async () => {
	await run(`echo owned >${world.outside}/canary; echo owned >${world.home}/.bashrc; echo owned >>~/.bashrc; rm -rf ${world.outside} ${world.home}`);
});

hostile("a command that writes a hook", async () => {
	await run("printf '#!/bin/sh\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; mv .git/hooks .git/h; mkdir .git/hooks");
});

let digest;
work("read, and correct the first error", async () => {
	const read = await done(client, "read_file", { path: "stats.py" });
	assert.match(textOf(read), /ordered\[len/);
	digest = read.structuredContent?.digest;
	assert.ok(digest, "a read tells the digest");
	await done(client, "edit_file", { path: "stats.py", if_digest: digest, edits: [{
		old: "    return ordered[len(ordered) // 2]\n",
		new: "    middle = len(ordered) // 2\n    if len(ordered) % 2 == 1:\n        return ordered[middle]\n" +
			"    return (ordered[middle - 1] + ordered[middle]) / 2\n" }] });
	assert.match(world.get("stats.py"), /middle - 1/);
});

hostile("an edit of what has changed meanwhile", attempt(
	["edit_file", { path: "stats.py", if_digest: "0".repeat(64), edits: [{ old: "def mean", new: "def owned" }] }],
	["write_file", { path: "stats.py", if_digest: "0".repeat(64), content: "owned" }]),
() => assert.doesNotMatch(world.get("stats.py"), /owned/));

hostile("the host's loopback", async () => {
	await run(`curl -s --max-time 3 http://127.0.0.1:${PORT}/; curl -s --max-time 3 --noproxy '*' http://127.0.0.1:${PORT}/; ` +
		`curl -s --max-time 3 http://localhost:${PORT}/; curl -s --max-time 3 http://[::ffff:127.0.0.1]:${PORT}/`);
}, () => assert.equal(visitors.length, 0));

hostile("a host that no rule names", async () => {
	const result = await run("curl -sS --max-time 5 http://denied.example/ >fetched; curl -sS --max-time 5 https://denied.example/ >>fetched; " +
		"printf 'status %s\\n' \"$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 http://denied.example/)\"");
	assert.match(textOf(result), /status 403/);
}, () => {
	assert.doesNotMatch(world.get("fetched"), /<html/i);
	fs.rmSync(world.path("fetched"));
});

hostile("the host's own socket", async () => {
	await run(`python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("${unixPath}")'`);
}, () => assert.equal(visitors.length, 0));

work("write what is missing", async () => {
	await done(client, "edit_file", { path: "stats.py", edits: [{ old: "def mean(values):",
		new: "def mode(values):\n    return max(values, key=values.count)\n\n\ndef mean(values):" }] });
	await done(client, "write_file", { path: "docs/USAGE.md", content: "mean, median, mode\n" });
	assert.equal(world.get("docs/USAGE.md"), "mean, median, mode\n");
});

hostile("kill everything in sight", async () => {
	// It may cost them their sandbox. What is outside of it does not notice, and the next one is there at once.
	await run("kill -9 -1; for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done").catch(() => {});
}, async () => {
	// The sandbox may still be ending when the next command arrives. The answer says so, and the command after it runs.
	const first = textOf(await run("echo lives"));
	assert.match(/sandbox ended/.test(first) ? textOf(await run("echo lives")) : first, /lives/);
});

hostile("processes without end", async () => {
	const before = new Set([...processes().keys()]);
	// A fork bomb that stops by itself should nothing else stop it.
	await run("b() { [ $1 -gt 0 ] || return; b $(($1 - 1)) & b $(($1 - 1)) & }; b 12; sleep 1", { timeout: 5 });
	await until(() => family(client.serverPid).filter((p) => p.name === "sh" && !before.has(p.pid)).length === 0,
		"the end of them", 10_000);
}, works);

hostile("a process that stays", async () => {
	await run(`setsid sh -c 'sleep 1; echo owned >stayed' >/dev/null 2>&1 & (trap "" TERM HUP; nohup sleep 600 >/dev/null 2>&1 &) ; true`);
	await until(() => family(client.serverPid).filter((p) => p.name === "sleep").length === 0, "its end", 10_000);
}, async () => {
	await run("sleep 2");
	assert.ok(!world.has("stayed"));
});

hostile("what the server has in its environment", async () => {
	const result = await run("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/1/maps 2>/dev/null");
	assert.ok(!JSON.stringify(result).includes(SECRET));
});

hostile("something for an editor to run", attempt(
	["write_file", { path: ".vscode/tasks.json", content: "{}" }],
	["write_file", { path: ".mcp.json", content: "{}" }],
	["run_command", { command: "mkdir -p .vscode .claude; echo '{}' >.vscode/tasks.json; echo '{}' >.claude/settings.json; echo '{}' >.mcp.json; echo x >.envrc" }]),
() => {
	for (const name of [".vscode/tasks.json", ".claude/settings.json", ".mcp.json", ".envrc"])
		assert.ok(!world.has(name), name);
});

hostile("a repository that is a trap", async () => {
	await run("git init -q trap && printf '#!/bin/sh\\n' >trap/.git/hooks/post-checkout && chmod +x trap/.git/hooks/post-checkout && " +
		"git -C trap config core.fsmonitor 'touch owned'");
}, () => {
	assert.ok(!world.has("trap/.git/hooks/post-checkout"));
	if (world.has("trap/.git/config"))
		assert.doesNotMatch(world.get("trap/.git/config"), /fsmonitor/);
	fs.rmSync(world.path("trap"), { recursive: true, force: true });
});

hostile("a file with more rights", async () => {
	await run("cp /bin/sh rooted; chmod 6755 rooted; mknod device c 1 3; mkfifo pipe");
	await call("read_file", { path: "pipe" }).catch(() => {});
}, async () => {
	assert.ok(!world.has("device"));
	await run("rm -f rooted pipe");
	await works();
});

work("run the tests, which pass", async () => {
	const result = await run("python3 -B -m unittest 2>&1");
	assert.match(textOf(result), /^OK$/m);
});

work("commit", async () => {
	const result = await run("git add -A && git commit -q -m 'median of an even number, mode' && git status --porcelain");
	assert.ok(!result.isError, textOf(result));
	assert.equal(git(world, "log", "--format=%s", "-1").trim(), "median of an even number, mode");
	assert.equal(git(world, "status", "--porcelain"), "");
	assert.deepEqual(git(world, "show", "--name-only", "--format=", "HEAD").trim().split("\n"), ["docs/USAGE.md", "stats.py"]);
	execFileSync("git", ["-C", world.root, "fsck", "--strict"], { stdio: "ignore" });
});

// ---- in this order ----

for (const step of steps)
	test(step.name, async () => {
		const before = guarded();
		await step.go();
		if (!step.hostile)
			return;
		assert.deepEqual(guarded(), before);
		await step.judge();
		await works();
	});

test("at least fifteen of the steps were hostile", () => assert.ok(steps.filter((s) => s.hostile).length >= 15));

test("the end", async () => {
	const children = family(client.serverPid);
	await client.close();
	await until(() => !children.some(lives), "the end of all that it had started", 10_000);
	onTcp.close();
	onUnix.close();
	world.remove();
});

await runTests();
