// SPDX-License-Identifier: Apache-2.0
// Sessions that begin and end in every way, and calls without number: nothing stays behind.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { done, family, lives, processes, random, refused, resident, runTests, test, until, Wire, withWire, withWorld } from "./harness.mjs";

const SANITIZED = process.env.KODA_MCP_SANITIZED === "1";
const SESSIONS = +(process.env.KODA_MCP_SESSIONS ?? (SANITIZED ? 200 : 1000));
const CALLS = +(process.env.KODA_MCP_CALLS ?? (SANITIZED ? 3000 : 10_000));
const AT_ONCE = 4; // as many as keep two processors busy
// What the server may hold after all those calls, and what of it may have come in the second half of them. A heap goes on
// finding its shape for long; the smallest block, lost once in a call, would be twice that. (What is lost more rarely is
// found by the address sanitizer's look at the end.)
const RESIDENT_KIB = 6 << 10, GROWTH_KIB = 80;

const ENDS = ["end", "SIGTERM", "SIGINT", "SIGKILL", "unanswered"];

async function session(world, r, seen) {
	const wire = new Wire(world, r.pick(["auto", "safe", "plan"]));
	await wire.initialize();
	// Most of the time is the kernel sandbox's, which the first call starts: some only look around, or come and go.
	if (r.chance(0.5))
		await wire.ask("tools/list");
	if (r.chance(0.4))
		await done(wire, "read_file", { path: "a.txt" });
	if (r.chance(0.05))
		await wire.call("run_command", { command: "sleep 600 & true", background: true });
	for (const process of family(wire.pid))
		seen.set(`${process.pid}:${process.start}`, process);
	const how = r.pick(ENDS);
	if (how === "end")
		assert.deepEqual(await wire.end(), { code: 0, signal: null }, wire.stderr);
	else if (how === "unanswered") {
		for (let i = 0; i < 20; i++)
			wire.send({ jsonrpc: "2.0", id: `u${i}`, method: "tools/call", params: { name: "read_file", arguments: { path: "a.txt" } } });
		assert.deepEqual(await wire.end(), { code: 0, signal: null }, wire.stderr);
	} else
		await wire.kill(how);
}

// Names below, without what is in the files.
const names = (dir) => fs.readdirSync(dir, { recursive: true }).map(String).sort();

test(`${SESSIONS} sessions leave nothing`, withWorld({ "a.txt": "a\n" }, async (world) => {
	const r = random(7), seen = new Map();
	const temporary = fs.readdirSync(process.env.TMPDIR).sort();
	let left = SESSIONS;
	await Promise.all(Array.from({ length: AT_ONCE }, async () => {
		while (left-- > 0)
			await session(world, r, seen);
	}));
	assert.ok(seen.size >= SESSIONS, "what they had started was seen");
	await until(() => ![...seen.values()].some(lives), "the end of all that they had started", 5000)
		.catch(() => assert.fail(`left: ${JSON.stringify([...seen.values()].filter(lives))}`));
	assert.deepEqual(names(world.root), ["a.txt"]);
	// The sockets of one that was killed are taken away by the next that starts.
	const last = new Wire(world);
	await last.initialize();
	assert.deepEqual(await last.end(), { code: 0, signal: null }, last.stderr);
	assert.deepEqual(names(world.runtime).filter((name) => name.includes("/")), []);
	assert.deepEqual(names(world.outside), ["canary"]);
	assert.deepEqual(fs.readdirSync(process.env.TMPDIR).sort(), temporary);
	assert.deepEqual(fs.readdirSync("/dev/shm").filter((name) => name.includes("koda")), []);
}));

const EDIT = (i) => ({ path: "edited.txt", edits: [{ old: `value ${i % 2}`, new: `value ${(i + 1) % 2}` }] });
const STEPS = [
	(wire) => done(wire, "read_file", { path: "a.txt" }),
	(wire, i) => done(wire, "write_file", { path: `written-${i % 50}.txt`, content: `content ${i}\n` }),
	(wire) => done(wire, "list_directory", { path: "." }),
	(wire) => refused(wire, "write_file", { path: ".git/hooks/pre-commit", content: "x" }),
	(wire) => refused(wire, "read_file", { path: "no such file" }),
	(wire) => wire.ask("no/such/method"),
	(wire) => wire.ask("tools/list"),
];

const openSlots = (pid) => +/FDSize:\s+([0-9]+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "latin1"))[1];

test(`${CALLS} calls: memory, descriptors and processes as before`, withWire({ "a.txt": "a\n".repeat(2000), "edited.txt": "value 0\n" }, "auto", async (wire, world) => {
	let before, edits = 0;
	await wire.initialize();
	const children = () => family(wire.pid, processes()).length;
	for (let i = 0; i < CALLS; i += 16) {
		await Promise.all(Array.from({ length: 16 }, (_, k) => STEPS[(i + k) % STEPS.length](wire, i + k)));
		await done(wire, "edit_file", EDIT(edits++));
		if (before === undefined && i >= CALLS / 2)
			before = { resident: resident(wire.pid), slots: openSlots(wire.pid), children: children() };
	}
	assert.equal(world.get("edited.txt"), `value ${edits % 2}\n`);
	assert.equal(openSlots(wire.pid), before.slots);
	assert.equal(children(), before.children);
	assert.equal(names(world.root).filter((name) => !/^(a|edited|written-\d+)\.txt$/.test(path.basename(name))).length, 0);
	if (SANITIZED)
		return;
	assert.ok(resident(wire.pid) <= RESIDENT_KIB, `${resident(wire.pid)} KiB`);
	assert.ok(resident(wire.pid) - before.resident <= GROWTH_KIB, `${before.resident} KiB, then ${resident(wire.pid)} KiB`);
}));

await runTests();
