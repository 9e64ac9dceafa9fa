// SPDX-License-Identifier: Apache-2.0
// The server's helpers die under load. What is in flight is answered, and truly: what was said to be done is there, what was
// said not to be done is not, and where nobody can know that is said. Then the server works as before.
import assert from "node:assert/strict";
import fs from "node:fs";
import { done, family, lives, random, resident, runTests, test, textOf, until, withWire } from "./harness.mjs";

const ROUNDS = +(process.env.KODA_MCP_CHAOS_ROUNDS ?? 15);
const FLIGHTS = 24; // calls in flight while something dies

const killOne = (r, wire, name) => {
	const there = family(wire.pid).filter((p) => p.name.startsWith(name) && lives(p));
	if (there.length === 0)
		return false;
	try {
		process.kill(r.pick(there).pid, "SIGKILL");
	} catch (e) {
		if (e.code !== "ESRCH")
			throw e;
	}
	return true;
};

const codeOf = (result) => result._meta?.["koda-sandbox/error"]?.code ?? (result.isError ? "?" : "OK");

for (const name of ["koda-fs-worker", "koda-stage2", "koda-template", "bwrap"])
	test(`${name} dies under load, ${ROUNDS} times`, withWire({ "a.txt": "a\n" }, "auto", async (wire, world) => {
		const r = random(3);
		let killed = 0, unknown = 0;
		await wire.initialize();
		await done(wire, "run_command", { command: "true" });
		for (let round = 0; round < ROUNDS; round++) {
			const flights = Array.from({ length: FLIGHTS }, async (_, i) => {
				const file = `f${i}.txt`, text = `round ${round}\n`;
				const old = world.has(file) ? world.get(file) : null;
				const result = await wire.call("write_file", { path: file, content: text });
				return { file, text, old, result };
			});
			const commands = Array.from({ length: 3 }, (_, i) => wire.call("run_command", { command: `sleep 0.05; echo ${round} >c${i}.txt; cat c${i}.txt` })
				.then((result) => ({ i, result })));
			await until(() => killOne(r, wire, name), `${name} to be there`).then(() => killed++);
			for (const { file, text, old, result } of await Promise.all(flights)) {
				const now = world.has(file) ? world.get(file) : null;
				if (!result.isError)
					assert.equal(now, text, `${file} was said to be written`);
				else if (codeOf(result) === "UNKNOWN") {
					unknown++;
					assert.ok(now === text || now === old, `${file}: neither old nor new`);
				} else
					assert.equal(now, old, `${file}: ${textOf(result)}`);
			}
			for (const { i, result } of await Promise.all(commands))
				if (!result.isError)
					assert.match(textOf(result), new RegExp(`^${round}$`, "m"), `c${i}.txt`);
			// What died when all had been answered is found out by the next call, which is told so; the one after it is served.
			for (const [tool, args, wanted] of [["run_command", { command: "echo lives" }, /lives/], ["read_file", { path: "a.txt" }, /^a$/m]]) {
				const first = await wire.call(tool, args);
				assert.match(textOf(first.isError ? await done(wire, tool, args) : first), wanted);
			}
		}
		assert.equal(killed, ROUNDS);
		assert.ok(unknown <= killed * FLIGHTS / 2, `${unknown} of ${killed * FLIGHTS} unknown`);
		assert.deepEqual(fs.readdirSync(world.root).filter((n) => !/^(a|f\d+|c\d+)\.txt$/.test(n)), []);
	}));

test(`the proxy dies under load, ${ROUNDS} times`, withWire({}, "auto", async (wire) => {
	const r = random(4);
	await wire.initialize();
	const ask = "curl -s -o /dev/null -w '%{http_code}\\n' --max-time 10 http://denied.example/";
	assert.match(textOf(await done(wire, "run_command", { command: ask })), /403/);
	for (let round = 0; round < ROUNDS; round++) {
		const flights = Array.from({ length: 4 }, () => wire.call("run_command", { command: `for i in 1 2 3 4 5; do ${ask}; done; true` }));
		await until(() => killOne(r, wire, "koda-egress"), "the proxy to be there");
		for (const result of await Promise.all(flights))
			// A connection that died with it is told as such by curl: 000.
			for (const line of textOf(result).split("\n").filter((l) => /^[0-9]{3}$/.test(l)))
				assert.ok(["403", "000"].includes(line), line);
		assert.match(textOf(await done(wire, "run_command", { command: ask })), /403/);
	}
}));

test("the server dies: nothing of it lives on", withWire({}, "auto", async (wire) => {
	await wire.initialize();
	const running = wire.call("run_command", { command: "sleep 600 & sleep 600" }).catch(() => {});
	await until(() => family(wire.pid).filter((p) => p.name === "sleep").length === 2, "the command");
	const all = family(wire.pid);
	await wire.kill();
	await running;
	await until(() => !all.some(lives), "their end", 5000);
}));

test("SIGTERM under load ends all within a second", withWire({ "a.txt": "a\n" }, "auto", async (wire) => {
	await wire.initialize();
	wire.call("run_command", { command: "trap '' TERM; sleep 600 & sleep 600" }).catch(() => {});
	await until(() => family(wire.pid).filter((p) => p.name === "sleep").length === 2, "the command");
	for (let i = 0; i < 50; i++)
		wire.call("write_file", { path: `f${i}`, content: "x".repeat(10_000) }).catch(() => {});
	const all = family(wire.pid), begin = Date.now();
	await wire.kill("SIGTERM");
	await until(() => !all.some(lives), "their end", 5000);
	assert.ok(Date.now() - begin < (process.env.KODA_MCP_SANITIZED === "1" ? 3000 : 1000), `${Date.now() - begin} ms`);
}));

test("a client that does not read does not make it grow", withWire({ "big.txt": "x".repeat(100_000) + "\n" }, "auto", async (wire) => {
	await wire.initialize();
	await done(wire, "read_file", { path: "big.txt" });
	wire.child.stdout.pause();
	// Each answer has the content twice: eighty megabytes, of which a pipe takes 64 KiB.
	const calls = 400, answers = new Set();
	wire.listeners.push((message) => answers.add(message.id));
	for (let i = 0; i < calls; i++)
		wire.send({ jsonrpc: "2.0", id: `p${i}`, method: "tools/call", params: { name: "read_file", arguments: { path: "big.txt" } } });
	let last = -1, still = 0;
	await until(() => {
		const now = resident(wire.pid);
		still = now === last ? still + 1 : 0;
		last = now;
		return still === 100;
	}, "it to wait");
	if (process.env.KODA_MCP_SANITIZED !== "1")
		assert.ok(last < 40 << 10, `${last} KiB`);
	wire.child.stdout.resume();
	await until(() => answers.size >= calls, "the answers");
}));

await runTests();
