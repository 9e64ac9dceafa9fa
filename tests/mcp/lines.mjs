// SPDX-License-Identifier: Apache-2.0
// What no client would send: lines that are mutations of valid ones, by a seed. Each line that asks gets one valid
// answer, no line ends the server, and afterwards it works as before.
import assert from "node:assert/strict";
import { done, lives, processes, random, runTests, test, textOf, until, Wire, within, withWire, withWorld } from "./harness.mjs";

const SEED = +(process.env.KODA_MCP_SEED ?? 1);
const LINES = +(process.env.KODA_MCP_LINES ?? 10_000);
const BATCH = 100; // lines between two looks at what came back

const CALLS = [
	["read_file", { path: "a.txt" }],
	["read_file", { path: "a.txt", offset: 2, limit: 3 }],
	["read_file", { path: "missing" }],
	["write_file", { path: "b.txt", content: "one\ntwo\n" }],
	["edit_file", { path: "a.txt", edits: [{ old: "line 3\n", new: "line 3\n", all: false }] }],
	["list_directory", { path: "." }],
	["move", { from: "b.txt", to: "c.txt" }],
	["remove", { path: "c.txt" }],
	["explain_access", { path: ".git/config", access: "write" }],
	["no_such_tool", {}],
];

// Of one length, so that what is left of one that was cut is never another's.
let serial = 0;
const id = () => `q${String(serial++).padStart(6, "0")}`;

const TEMPLATES = [
	() => ({ jsonrpc: "2.0", id: id(), method: "ping" }),
	() => ({ jsonrpc: "2.0", id: id(), method: "tools/list" }),
	() => ({ jsonrpc: "2.0", id: id(), method: "tools/list", params: { cursor: "AAAA" } }),
	...CALLS.map(([name, args]) => () => ({ jsonrpc: "2.0", id: id(), method: "tools/call",
		params: { name, arguments: structuredClone(args), _meta: { progressToken: 7 } } })),
	() => ({ jsonrpc: "2.0", id: id(), method: "initialize",
		params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } } }),
	() => ({ jsonrpc: "2.0", id: id(), method: "resources/list" }),
	() => ({ jsonrpc: "2.0", id: id(), method: "resources/templates/list" }),
	() => ({ jsonrpc: "2.0", id: id(), method: "resources/read", params: { uri: "file:///a.txt" } }),
	() => ({ jsonrpc: "2.0", id: id(), method: "logging/setLevel", params: { level: "debug" } }),
	() => ({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "never", reason: "none" } }),
	() => ({ jsonrpc: "2.0", method: "notifications/initialized" }),
	() => ({ jsonrpc: "2.0", method: "notifications/roots/list_changed" }),
	() => ({ jsonrpc: "2.0", id: "nobody asked", result: { action: "accept", content: { answer: "yes" } } }),
	() => ({ jsonrpc: "2.0", id: "nobody asked", error: { code: -1, message: "no" } }),
];

const VALUES = [null, true, false, 0, -1, 1.5, 1e308, 2 ** 53, -(2 ** 63), "", "a", "../../outside/canary", "\u0000", "\ud800",
	"\u202e", "x".repeat(5000), [], {}, [[]], [null], { a: 1 }, "/etc/passwd", ".git/hooks/pre-commit"];

// Somewhere in the tree another value, or one member more or less.
function mutateTree(message, r) {
	const places = [];
	const visit = (node) => {
		if (node === null || typeof node !== "object")
			return;
		for (const key of Object.keys(node)) {
			places.push([node, key]);
			visit(node[key]);
		}
	};
	visit(message);
	const [node, key] = r.pick(places);
	switch (r.below(4)) {
	case 0:
		delete node[key];
		break;
	case 1:
		node[r.pick(["id", "method", "params", "extra", "jsonrpc", "__proto__ ", ""])] = structuredClone(r.pick(VALUES));
		break;
	case 2:
		node[key] = { [key]: node[key] };
		break;
	default:
		node[key] = structuredClone(r.pick(VALUES));
	}
}

const PIECES = ["\0", "\x1b[2J", "\xff\xfe", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", '"', "\\", "\\u0000", "\\ud800", "{", "}", "[", "]", ",", ":",
	"1e999", "-", "99999999999999999999999", '"id":1,', "//", "NaN", "\r", "\ufeff", "[".repeat(3000), '{"a":'.repeat(500), "x".repeat(70000)];

function mutateBytes(line, r) {
	const at = r.below(line.length + 1);
	switch (r.below(6)) {
	case 0: // one byte
		return Buffer.concat([line.subarray(0, at), Buffer.from([r.below(256)]), line.subarray(at + 1)]);
	case 1: // cut off
		return line.subarray(0, at);
	case 2: { // some of it twice
		const end = Math.min(line.length, at + r.below(40));
		return Buffer.concat([line.subarray(0, end), line.subarray(at)]);
	}
	case 3: // some of it gone
		return Buffer.concat([line.subarray(0, at), line.subarray(at + 1 + r.below(20))]);
	case 4: // another behind it
		return Buffer.concat([line, Buffer.from(JSON.stringify(r.pick(TEMPLATES)()))]);
	default:
		return Buffer.concat([line.subarray(0, at), Buffer.from(r.pick(PIECES), "latin1"), line.subarray(at)]);
	}
}

function makeLine(r) {
	const message = r.pick(TEMPLATES)();
	for (let n = r.below(3); n > 0; n--)
		mutateTree(message, r);
	// What JavaScript drops, and a batch now and then, which no version that is spoken here has.
	let line = Buffer.from(JSON.stringify(r.chance(0.02) ? [message] : message) ?? "null");
	for (let n = r.below(3); n > 0; n--)
		line = mutateBytes(line, r);
	return Buffer.from(line.map((byte) => (byte === 10 ? 32 : byte)));
}

// What is due: how many answers at least and at most, and to which id. What one parser takes and another does not (numbers
// beyond all bounds, a name twice, half a character) is due an error or what it would be due else.
function due(line) {
	let message;
	if (/^[ \t\r]*$/.test(line.toString("latin1")))
		return { least: 0, most: 1 };
	try {
		message = JSON.parse(line.toString("utf8"));
	} catch {
		return { least: 1, most: 1 };
	}
	if (message === null || typeof message !== "object" || Array.isArray(message))
		return { least: 1, most: 1 };
	if (typeof message.method === "string" && (typeof message.id === "string" || Number.isSafeInteger(message.id)))
		return { least: 1, most: 1, id: /^q\d{6}$/.test(message.id) ? message.id : undefined };
	if ((typeof message.method === "string" && !("id" in message)) || "result" in message || "error" in message)
		return { least: 0, most: 1 };
	return { least: 1, most: 1 };
}

function checkForm(message) {
	assert.equal(message.jsonrpc, "2.0");
	if (message.method !== undefined) {
		assert.equal(typeof message.method, "string");
		return;
	}
	assert.ok("id" in message && (message.id === null || ["string", "number"].includes(typeof message.id)), "an id");
	assert.ok(("result" in message) !== ("error" in message), "a result or an error");
	if ("error" in message) {
		assert.ok(Number.isInteger(message.error.code), "a code");
		assert.equal(typeof message.error.message, "string");
		assert.ok(message.error.message.length > 0);
	} else {
		assert.equal(typeof message.result, "object");
	}
}

test(`${LINES} mutated lines, seed ${SEED}`, withWire({ "a.txt": "line 1\nline 2\nline 3\n" }, "auto", async (wire, world) => {
	const r = random(SEED), batches = [], owed = new Map();
	await wire.initialize();
	const before = world.picture(world.outside, world.home);
	wire.listeners.push((message) => {
		checkForm(message);
		if (message.method !== undefined || (typeof message.id === "number" && wire.waiting.has(message.id)))
			return;
		// Calls are answered as they finish, maybe in another batch's time; everything else at once.
		const batch = owed.get(message.id) ?? batches.at(-1);
		batch.came++;
	});
	const fail = (batch, why) => {
		throw new Error(`${why}: ${batch.came} answers, ${batch.least} to ${batch.most} are due\n` +
			batch.lines.map((line) => JSON.stringify(line.toString("latin1").slice(0, 200))).join("\n"));
	};
	for (let sent = 0; sent < LINES; sent += BATCH) {
		const batch = { lines: Array.from({ length: BATCH }, () => makeLine(r)), came: 0, least: 0, most: 0 };
		batches.push(batch);
		for (const line of batch.lines) {
			const d = due(line);
			batch.least += d.least;
			batch.most += d.most;
			if (d.id !== undefined)
				owed.set(d.id, batch);
			wire.send(line);
		}
		await until(() => batch.came >= batch.least, "answers", 20_000).catch((e) => fail(batch, e.message));
		await wire.ask("ping", undefined, 1_000_000 + sent);
	}
	await done(wire, "list_directory", { path: "." });
	for (const batch of batches)
		if (batch.came < batch.least || batch.came > batch.most)
			fail(batch, "in the end");
	assert.deepEqual(world.picture(world.outside, world.home), before);
	world.put("a.txt", "still here\n");
	assert.match(textOf(await done(wire, "read_file", { path: "a.txt" })), /still here/);
}));

// ---- one by one: the exact error ----

const INITIALIZED = true;
const CASES = [
	["not JSON", "{", -32700, null],
	["cut in a string", '{"jsonrpc":"2.0","id":1,"method":"pi', -32700, null],
	["invalid UTF-8", Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', "latin1"), -32700, null],
	["a surrogate by itself", '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', -32700, null],
	["a name twice", '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700, null],
	["nested a thousand deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${"[".repeat(1000)}${"]".repeat(1000)}}}`, -32700, null],
	["a number beyond all bounds", '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e999}}', -32700, null],
	["an integer beyond all bounds", '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":99999999999999999999}}', -32700, null],
	["two objects on a line", '{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', -32700, null],
	["a string", '"ping"', -32600, null],
	["an empty batch", "[]", -32600, null],
	["an object with nothing in it", "{}", -32600, null],
	["another jsonrpc", '{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600],
	["no jsonrpc", '{"id":1,"method":"ping"}', -32600],
	["an id that is null", '{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, null],
	["an id that is an object", '{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, null],
	["a method that is a number", '{"jsonrpc":"2.0","id":1,"method":5}', -32600],
	["params that are a string", '{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', [-32600, -32602]],
	["an unknown method", '{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601, 1],
	["an unknown tool", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no_such","arguments":{}}}', -32602, 1],
	["a tool without name", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602, 1],
	["a cursor that nobody gave out", '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"nonsense"}}', -32602, 1],
	["a level that does not exist", '{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}', -32602, 1],
	["before initialize", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', [-32600, -32002], 1, !INITIALIZED],
];
for (const [name, line, code, wantedId, initialized = INITIALIZED] of CASES)
	test(`error: ${name}`, withWire({}, "auto", async (wire) => {
		if (initialized)
			await wire.initialize();
		const answer = new Promise((resolve) => wire.listeners.push((message) => message.error && resolve(message)));
		wire.send(line);
		const message = await within(answer, "an error");
		checkForm(message);
		assert.ok([code].flat().includes(message.error.code), JSON.stringify(message));
		if (wantedId !== undefined)
			assert.equal(message.id, wantedId);
		assert.ok((await wire.ask("ping")).result);
	}));

test("a line longer than any may be", withWire({}, "auto", async (wire) => {
	await wire.initialize();
	const answer = new Promise((resolve) => wire.listeners.push((message) => message.error && resolve(message)));
	wire.send(Buffer.alloc(64 << 20, 0x20));
	const message = await within(answer, "an error");
	assert.ok([-32700, -32600].includes(message.error.code), JSON.stringify(message));
	assert.ok((await wire.ask("ping")).result);
}));

test("blank lines and carriage returns", withWire({}, "auto", async (wire) => {
	await wire.initialize();
	wire.send("");
	wire.send("\r");
	wire.send('{"jsonrpc":"2.0","id":"r","method":"ping"}\r');
	assert.ok((await wire.ask("ping")).result);
}));

test("a line without end before the end of input", withWorld({}, async (world) => {
	const wire = new Wire(world);
	await wire.initialize();
	const family = [...processes().values()].filter((p) => p.pid === wire.pid);
	wire.child.stdin.write('{"jsonrpc":"2.0","id":1,"met');
	assert.deepEqual(await wire.end(), { code: 0, signal: null });
	assert.ok(!family.some(lives));
}));

await runTests();
