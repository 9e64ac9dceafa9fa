// SPDX-License-Identifier: Apache-2.0
// The revision of 2026-07-28, which the second generation of the official SDK speaks: no handshake, each request says what it
// is; what the server asks is an answer (input_required) that the client calls again with.
import assert from "node:assert/strict";
import { KODA, packages, runTests, serverArguments, test, textOf, within, withWire, withWorld } from "./harness.mjs";

const { Client } = packages("@modelcontextprotocol/client");
const { StdioClientTransport } = packages("@modelcontextprotocol/client/stdio");

const VERSION = "2026-07-28";
const META = { "io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {} };

// The SDK starts the command line twice, once to look.
const connect = async (world, args, options = {}) => {
	const client = new Client({ name: "modern", version: "1" }, { versionNegotiation: { mode: { pin: VERSION } }, ...options });
	await within(client.connect(new StdioClientTransport({ command: KODA, args, cwd: world.root, env: world.environment,
		stderr: "ignore" })), "connect");
	return client;
};

const withModern = (files, mode, run, options) => withWorld(files, async (world) => {
	const client = await connect(world, serverArguments(world, mode), options);
	try {
		await run(client, world);
	} finally {
		await client.close();
	}
});

const ASKS = { capabilities: { elicitation: {} } };

test("discovered, listed, called", withModern({ "a.txt": "line 1\n" }, "auto", async (client) => {
	assert.ok((await client.listTools()).tools.length > 0);
	assert.match(textOf(await client.callTool({ name: "read_file", arguments: { path: "a.txt" } })), /line 1/);
}));

for (const [answer, written] of [["accept", true], ["decline", false], ["cancel", false]])
	test(`asked in Safe: ${answer}`, withModern({}, "safe", async (client, world) => {
		let asked = 0;
		client.setRequestHandler("elicitation/create", async (request) => {
			asked++;
			assert.match(request.params.message, /b\.txt/);
			return answer === "accept" ? { action: "accept", content: defaults(request.params.requestedSchema) } : { action: answer };
		});
		const result = await client.callTool({ name: "write_file", arguments: { path: "b.txt", content: "b\n" } });
		assert.equal(asked, 1);
		assert.equal(world.has("b.txt"), written);
		assert.equal(Boolean(result.isError), !written);
	}, ASKS));

// The first of each choice.
const defaults = (schema) => Object.fromEntries(Object.entries(schema?.properties ?? {}).map(([key, p]) =>
	[key, p.default ?? p.enum?.[0] ?? p.oneOf?.[0]?.const ?? true]));

const accepts = (client) => {
	const asked = [];
	client.setRequestHandler("elicitation/create", async ({ params }) => {
		asked.push(params.message);
		return { action: "accept", content: defaults(params.requestedSchema) };
	});
	return asked;
};

test("asked in Safe: many at once", withModern({}, "safe", async (client, world) => {
	const asked = accepts(client), names = Array.from({ length: 32 }, (_, i) => `f${i}`);
	const results = await Promise.all(names.map((path) => client.callTool({ name: "write_file", arguments: { path, content: path } })));
	assert.ok(results.every((r) => !r.isError));
	assert.equal(asked.length, names.length);
	names.forEach((name) => assert.equal(world.get(name), name));
}, ASKS));

test("asked in Safe: for the host of a command, then for what it did", withModern({}, "safe", async (client, world) => {
	const asked = accepts(client);
	const result = await client.callTool({ name: "run_command",
		arguments: { command: "curl -s -o /dev/null --max-time 20 http://unnamed.example/; echo over | tee made" } });
	assert.match(textOf(result), /over/);
	assert.equal(asked.length, 2);
	assert.match(asked[0], /'unnamed\.example', port 80/);
	assert.match(asked[1], /created 'made'/);
	assert.equal(world.get("made"), "over\n");
}, ASKS));

test("nobody to ask", withModern({}, "safe", async (client, world) => {
	const result = await client.callTool({ name: "write_file", arguments: { path: "b.txt", content: "b\n" } });
	assert.match(textOf(result), /cannot ask the user/);
	assert.ok(!world.has("b.txt"));
}));

test("a child is asked for itself", withModern({}, "safe", async (parent, world) => {
	const askedParent = accepts(parent);
	const opened = await parent.callTool({ name: "open_child", arguments: { name: "one", mode: "safe" } });
	assert.ok(!opened.isError, textOf(opened));
	const child = await connect(world, opened.structuredContent.command.slice(1), ASKS), asked = accepts(child), before = askedParent.length;
	try {
		const result = await child.callTool({ name: "write_file", arguments: { path: "b.txt", content: "b\n" } });
		assert.ok(!result.isError, textOf(result));
		assert.equal(asked.length, 1);
		assert.equal(askedParent.length, before);
		assert.equal(world.get("b.txt"), "b\n");
	} finally {
		await child.close();
	}
}, ASKS));

test("a client of both eras takes this one", withModern({}, "auto", async (client) => {
	assert.equal(client.getNegotiatedProtocolVersion(), VERSION);
}, { versionNegotiation: { mode: "auto" } }));

test("an unknown revision: told which there are", withWire({}, "auto", async (wire) => {
	const answer = await wire.ask("server/discover", { _meta: { ...META, "io.modelcontextprotocol/protocolVersion": "2099-01-01" } });
	assert.equal(answer.error.code, -32022);
	assert.ok(answer.error.data.supported.includes(VERSION));
}));

test("both eras on one server, not on one connection", withWire({ "a.txt": "line 1\n" }, "auto", async (wire) => {
	const answer = await wire.ask("tools/call", { name: "read_file", arguments: { path: "a.txt" }, _meta: META });
	assert.match(textOf(answer.result), /line 1/);
	assert.equal(answer.result.resultType, "complete");
}));

await runTests();
