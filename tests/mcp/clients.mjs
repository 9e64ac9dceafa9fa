// SPDX-License-Identifier: Apache-2.0
// What the official SDK's client, of the first and of the second generation, and the Inspector's command line have from
// the server: each tool, in each mode, and all that the protocol has around them.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { connect, done, family, KODA, lives, packages, refused, runTests, serverArguments, test, textOf, until, Wire, withClient, within, withWire,
	withWorld } from "./harness.mjs";

const types = packages("@modelcontextprotocol/sdk/types.js");
const FILES = { "a.txt": "line 1\nline 2\nline 3\n", "src/main.c": "int\nmain(void)\n{\n\treturn 0;\n}\n" };

// All of them, page by page.
async function listAll(client, method, key) {
	const all = [];
	for (let cursor; ;) {
		const page = await client[method](cursor === undefined ? {} : { cursor });
		all.push(...page[key]);
		cursor = page.nextCursor;
		if (cursor === undefined)
			return all;
	}
}

// ---- versions ----

for (const version of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
	test(`version ${version}: negotiated, and what it has`, withWire(FILES, "auto", async (wire) => {
		const result = await wire.initialize({}, version);
		assert.equal(result.protocolVersion, version);
		assert.equal(result.serverInfo.name, "koda-sandbox");
		const { tools } = (await wire.ask("tools/list")).result;
		const modern = version >= "2025-06-18";
		assert.equal(tools.every((tool) => tool.outputSchema !== undefined), modern);
		assert.equal(tools.some((tool) => tool.annotations !== undefined), version >= "2025-03-26");
		const read = await wire.call("read_file", { path: "a.txt" });
		assert.match(textOf(read), /line 2/);
		assert.equal(read.structuredContent !== undefined, modern);
	}));

test("a version of the future: ours is offered", withWire(FILES, "auto", async (wire) => {
	assert.equal((await wire.initialize({}, "2099-01-01")).protocolVersion, "2025-11-25");
}));

test("a batch, in the version that has them", withWire(FILES, "auto", async (wire) => {
	await wire.initialize({}, "2025-03-26");
	const answers = new Promise((resolve) => wire.child.stdout.on("data", (text) => {
		if (text.toString().startsWith("["))
			resolve(JSON.parse(text.toString()));
	}));
	wire.take = () => {};
	wire.send([{ jsonrpc: "2.0", id: 1, method: "ping" }, { jsonrpc: "2.0", method: "notifications/initialized" },
		{ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "read_file", arguments: { path: "a.txt" } } }]);
	assert.deepEqual((await within(answers, "the answers")).map((a) => a.id).sort(), [1, 2]);
}));

test("a client of the second generation, which asks first whether the server is of the third", withWorld(FILES, async (world) => {
	const { Client } = packages("@modelcontextprotocol/client");
	const { StdioClientTransport } = packages("@modelcontextprotocol/client/stdio");
	for (const mode of ["legacy", "auto"]) {
		const client = new Client({ name: "second", version: "1" }, { versionNegotiation: { mode } });
		await within(client.connect(new StdioClientTransport({ command: KODA, args: serverArguments(world), cwd: world.root,
			env: world.environment, stderr: "ignore" })), `connect, ${mode}`);
		assert.ok((await client.listTools()).tools.length > 0);
		assert.match(textOf(await client.callTool({ name: "read_file", arguments: { path: "a.txt" } })), /line 1/);
		await client.close();
	}
}));

// ---- many at once, cancellation ----

test("64 calls at once, answered as they finish", withClient(FILES, "auto", async (client, world) => {
	await Promise.all(Array.from({ length: 64 }, async (_, i) => {
		await done(client, "write_file", { path: `many/${i}.txt`, content: `content ${i}\n` });
		assert.match(textOf(await done(client, "read_file", { path: `many/${i}.txt` })), new RegExp(`content ${i}\\n`));
		await refused(client, "write_file", { path: `.git/hooks/${i}`, content: "x" });
	}));
	assert.equal(fs.readdirSync(world.path("many")).length, 64);
}));

test("64 edits of one file at once, each happens once", withClient({ "n.txt": Array.from({ length: 64 }, (_, i) => `item ${i};\n`).join("") }, "auto",
	async (client, world) => {
		await Promise.all(Array.from({ length: 64 }, (_, i) =>
			done(client, "edit_file", { path: "n.txt", edits: [{ old: `item ${i};`, new: `done ${i};` }] })));
		assert.equal(world.get("n.txt"), Array.from({ length: 64 }, (_, i) => `done ${i};\n`).join(""));
	}));

test("a read overtakes a question that nobody has answered", withClient(FILES, "safe", async (client) => {
	const asked = client.callTool({ name: "write_file", arguments: { path: "b.txt", content: "b" } });
	assert.match(textOf(await done(client, "read_file", { path: "a.txt" })), /line 1/);
	await asked;
}, () => ({ capabilities: { elicitation: {} },
	handlers: [[types.ElicitRequestSchema, () => new Promise((resolve) => setTimeout(() => resolve({ action: "decline" }), 500))]] })));

test("cancelled while it is asked for: withdrawn, nothing written", withWire(FILES, "safe", async (wire, world) => {
	let question;
	const asked = new Promise((resolve) => {
		wire.onRequest = (message) => {
			question = message;
			resolve();
		};
	});
	await wire.initialize({ elicitation: {} });
	wire.send({ jsonrpc: "2.0", id: "slow", method: "tools/call", params: { name: "write_file", arguments: { path: "b.txt", content: "b" } } });
	await within(asked, "the question");
	wire.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "slow", reason: "the user" } });
	await until(() => wire.notifications.some((n) => n.method === "notifications/cancelled" && n.params.requestId === question.id), "the question's withdrawal");
	// Too late: what was asked is not asked any more.
	wire.send({ jsonrpc: "2.0", id: question.id, result: { action: "accept", content: {} } });
	assert.ok((await wire.ask("ping")).result);
	assert.ok(!world.has("b.txt"));
}));

// ---- logging, resources, roots ----

test("logging: by level", withClient(FILES, "auto", async (client) => {
	const heard = [];
	const killWorker = async () => {
		const worker = await until(() => family(client.serverPid).find((p) => p.name === "koda-fs-worker" && lives(p)), "a worker");
		process.kill(worker.pid, "SIGKILL");
		await done(client, "read_file", { path: "a.txt" });
	};
	client.setNotificationHandler(types.LoggingMessageNotificationSchema, (n) => heard.push(n.params.level));
	await client.setLoggingLevel("debug");
	await done(client, "read_file", { path: "a.txt" });
	await killWorker();
	await until(() => heard.includes("debug") && heard.includes("warning"), "a worker's death, and the next one's start");
	await client.setLoggingLevel("warning");
	heard.length = 0;
	await killWorker();
	await until(() => heard.includes("warning"), "the worker's death");
	assert.ok(heard.every((level) => level === "warning"), heard.join());
	await client.setLoggingLevel("emergency");
	heard.length = 0;
	await killWorker();
	await client.ping();
	assert.deepEqual(heard, []);
}));

test("resources: listed, read, by template; nothing outside", withClient({ ...FILES, "image.bin": Buffer.from([0, 255, 254]) }, "auto",
	async (client, world) => {
		const listed = await listAll(client, "listResources", "resources");
		const uri = (name) => listed.find((r) => r.uri.endsWith(`/${name}`))?.uri;
		assert.ok(uri("a.txt"), JSON.stringify(listed));
		const [text] = (await client.readResource({ uri: uri("a.txt") })).contents;
		assert.equal(text.text, FILES["a.txt"]);
		const [blob] = (await client.readResource({ uri: uri("image.bin") })).contents;
		assert.deepEqual([...Buffer.from(blob.blob, "base64")], [0, 255, 254]);
		assert.ok((await listAll(client, "listResourceTemplates", "resourceTemplates")).length > 0);
		await assert.rejects(client.readResource({ uri: `file://${world.root}/missing` }), (e) => e.code === -32002);
		await assert.rejects(client.readResource({ uri: "https://example.org/" }));
	}));

test("roots: asked for, and never a way out", withWorld(FILES, async (world) => {
	let asked = 0;
	const client = await connect(world, "auto", { capabilities: { roots: { listChanged: true } },
		handlers: [[types.ListRootsRequestSchema, () => {
			asked++;
			return { roots: [{ uri: `file://${world.outside}`, name: "outside" }] };
		}]] });
	try {
		await until(() => asked > 0, "the question for roots");
		await client.sendRootsListChanged();
		await until(() => asked > 1, "another one");
		await refused(client, "write_file", { path: path.join(world.outside, "new"), content: "x" });
		assert.deepEqual(fs.readdirSync(world.outside), ["canary"]);
	} finally {
		await client.close();
	}
}));

// ---- the Inspector ----

// The first generation's command line: the second is the same protocol, needs a newer node and brings a browser's page.
const INSPECTOR = packages.resolve("@modelcontextprotocol/inspector-cli/build/cli.js");
const inspect = async (world, ...words) => {
	const { stdout } = await promisify(execFile)(process.execPath, ["--no-deprecation", INSPECTOR, "--cli", KODA, ...serverArguments(world), ...words],
		{ cwd: world.root, env: world.environment, timeout: 60_000 });
	return JSON.parse(stdout);
};

test("the Inspector lists tools", withWorld(FILES, async (world) => {
	const { tools } = await inspect(world, "--method", "tools/list");
	assert.ok(tools.some((tool) => tool.name === "read_file"));
}));

test("the Inspector calls a tool", withWorld(FILES, async (world) => {
	const result = await inspect(world, "--method", "tools/call", "--tool-name", "read_file", "--tool-arg", "path=a.txt");
	assert.match(textOf(result), /line 2/);
}));

test("the Inspector is refused", withWorld(FILES, async (world) => {
	const result = await inspect(world, "--method", "tools/call", "--tool-name", "write_file", "--tool-arg", "path=.git/hooks/x", "--tool-arg", "content=x");
	assert.equal(result.isError, true);
	assert.ok(!world.has(".git/hooks/x"));
}));

test("the Inspector reads a resource", withWorld(FILES, async (world) => {
	const { resources } = await inspect(world, "--method", "resources/list");
	const { uri } = resources.find((r) => r.uri.endsWith("/a.txt"));
	const result = await inspect(world, "--method", "resources/read", "--uri", uri);
	assert.equal(result.contents[0].text, FILES["a.txt"]);
}));

await runTests();
