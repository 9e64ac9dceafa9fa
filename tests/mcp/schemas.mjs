// SPDX-License-Identifier: Apache-2.0
// Every schema is a JSON Schema, every structured output holds to its own, and what a schema forbids is refused.
import assert from "node:assert/strict";
import { done, packages, runTests, test, textOf, Wire, withClient, withWire, World } from "./harness.mjs";

const Ajv = packages("ajv/dist/2020.js").default;

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const FILES = { "a.txt": "line 1\nline 2\nline 3\n", "src/main.c": "int\nmain(void)\n{\n\treturn 0;\n}\n", "image.png": PNG, "empty": "",
	"binary": Buffer.from([0, 1, 2, 255]) };

// Each tool, in Auto: what is asked, and what of the answer can be told in advance. "fails": the result is an error.
const CALLS = [
	["read_file", { path: "a.txt" }, /line 1\nline 2\nline 3/],
	["read_file", { path: "a.txt", offset: 2, limit: 1 }, /^line 2\n?$/m],
	["read_file", { path: "a.txt", numbered: true }, /2\s+line 2/],
	["read_file", { path: "image.png" }],
	["read_file", { path: "binary" }],
	["read_file", { path: "empty" }],
	["read_file", { path: "missing" }, "fails"],
	["write_file", { path: "new/deep/file.txt", content: "new\n" }],
	["write_file", { path: "new/deep/file.txt", content: "newer\n" }],
	["write_file", { path: ".git/config", content: "x" }, "fails"],
	["edit_file", { path: "a.txt", edits: [{ old: "line 2", new: "second" }] }],
	["edit_file", { path: "a.txt", edits: [{ old: "line", new: "row", all: true }, { old: "second", new: "line 2" }] }],
	["edit_file", { path: "a.txt", edits: [{ old: "not in it", new: "x" }] }, "fails"],
	["list_directory", { path: "." }, /a\.txt/],
	["list_directory", { path: "missing" }, "fails"],
	["move", { from: "new/deep/file.txt", to: "moved.txt" }],
	["move", { from: "missing", to: "x" }, "fails"],
	["remove", { path: "moved.txt" }],
	["remove", { path: "missing" }, "fails"],
	["explain_access", { path: "a.txt" }],
	["explain_access", { path: ".git/hooks/x", access: "write" }],
	["explain_access", { host: "evil.example" }],
	["glob", { pattern: "**/*.c" }, /src\/main\.c/],
	["grep", { pattern: "ret[u]rn" }, /main\.c/],
	["grep", { pattern: "(" }, "fails"],
	["tree", { path: "." }, /main\.c/],
	["run_command", { command: "echo out; echo err >&2; exit 3" }, /out/],
	["run_command", { command: "sleep 100", timeout: 1 }],
	["run_command", { command: "sleep 100", background: true }],
	["command_list", {}],
	["run_command", { command: "echo new >drafted; rm a.txt; mkdir .vscode; echo x >.vscode/x", draft: true }, /holds 4 changes, 2 refused by the policy back/],
	["run_command", { command: "true", draft: true, background: true }, "fails"],
	["draft_diff", {}, "fails"],
	["history", {}, /8 changes/],
	["undo", {}, /8 of 8 changes/],
	["undo", { redo: true }, /8 of 8 changes/],
	["undo", { redo: true }, "fails"],
	["open_child", { name: "one", mode: "plan", deny_read: ["src"], domains: ["github.com"], network: false }, /--child/],
	["open_child", { name: "../one" }, "fails"],
	["list_children", {}, /one/],
	["close_child", { name: "one" }],
	["close_child", { name: "one" }, "fails"],
];
// Those need what a call before them has told.
const LATER = {
	command_output: (ids) => ({ id: ids.command }),
	command_stop: (ids) => ({ id: ids.command }),
	draft_diff: (ids) => ({ draft: ids.draft }),
	draft_apply: (ids) => ({ draft: ids.draft, paths: ["drafted"] }),
	draft_discard: (ids) => ({ draft: ids.draft }),
	history: () => ({ limit: 1 }),
	undo: () => ({ paths: ["drafted"] }),
};

const listTools = async (client) => {
	const all = [];
	for (let cursor; ;) {
		const page = await client.listTools(cursor === undefined ? {} : { cursor });
		all.push(...page.tools);
		cursor = page.nextCursor;
		if (cursor === undefined)
			return all;
	}
};

for (const mode of ["plan", "safe", "auto"])
	test(`${mode}: every tool is described, by schemas that are schemas`, withClient(FILES, mode, async (client) => {
		// Unknown keywords, and types that cannot be, are errors.
		const ajv = new Ajv({ strict: true, allErrors: true });
		const tools = await listTools(client);
		assert.equal(new Set(tools.map((tool) => tool.name)).size, tools.length);
		for (const tool of tools) {
			assert.equal(tool.inputSchema.type, "object", tool.name);
			assert.equal(tool.outputSchema.type, "object", tool.name);
			ajv.compile(tool.inputSchema);
			ajv.compile(tool.outputSchema);
			for (const [name, property] of Object.entries(tool.inputSchema.properties ?? {}))
				assert.ok(property.description ?? property.enum ?? property.type, `${tool.name}.${name}`);
			assert.ok(tool.title?.length > 0, tool.name);
			// A model pays for each token of it in each conversation.
			assert.ok(tool.description.length > 20 && tool.description.length < 800, `${tool.name}: ${tool.description.length}`);
			for (const hint of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"])
				assert.equal(typeof tool.annotations[hint], "boolean", `${tool.name}.${hint}`);
			if (tool.annotations.readOnlyHint)
				assert.ok(!tool.annotations.destructiveHint, tool.name);
		}
		const unavailable = tools.filter((tool) => /unavailable/i.test(tool.description)).map((tool) => tool.name);
		for (const name of ["write_file", "edit_file", "move", "remove"])
			assert.equal(unavailable.includes(name), mode === "plan", name);
	}));

test("every tool: its structured output holds to its schema", withClient(FILES, "auto", async (client) => {
	const ajv = new Ajv({ strict: true, allErrors: true });
	const tools = new Map((await listTools(client)).map((tool) => [tool.name, tool]));
	const tried = new Set(), ids = {};
	const call = async (name, args, wanted) => {
		const tool = tools.get(name);
		tried.add(name);
		const result = await client.callTool({ name, arguments: args });
		const about = `${name} ${JSON.stringify(args)}: ${JSON.stringify(result).slice(0, 1000)}`;
		assert.ok(ajv.validate(tool.inputSchema, args), about);
		assert.ok(result.content.length > 0, about);
		if (wanted === "fails") {
			assert.equal(result.isError, true, about);
			assert.ok(textOf(result).length > 0, about);
		} else if (wanted instanceof RegExp) {
			assert.match(textOf(result), wanted, about);
		}
		if (!result.isError) {
			assert.ok(ajv.validate(tool.outputSchema, result.structuredContent), `${about}\n${JSON.stringify(ajv.errors)}`);
			assert.deepEqual(Object.keys(result.structuredContent).filter((key) => !(key in tool.outputSchema.properties)), [], about);
		}
		return result;
	};
	for (const [name, args, wanted] of CALLS) {
		if (!tools.has(name))
			continue;
		const result = await call(name, args, wanted);
		if (args.background)
			ids.command = result.structuredContent?.id ?? ids.command;
		if (args.draft)
			ids.draft = result.structuredContent?.draft ?? ids.draft;
	}
	for (const [name, make] of Object.entries(LATER)) {
		if (!tools.has(name))
			continue;
		await call(name, make(ids));
	}
	assert.deepEqual([...tools.keys()].filter((name) => !tried.has(name)), []);
}));

test("an image is an image", withClient(FILES, "auto", async (client) => {
	const result = await done(client, "read_file", { path: "image.png" });
	const image = result.content.find((c) => c.type === "image");
	assert.equal(image.mimeType, "image/png");
	assert.deepEqual(Buffer.from(image.data, "base64"), PNG);
}));

// What a schema does not let through reaches no tool. From a value that holds: each member left out, or of another type.
test("what a schema forbids is refused", withWire(FILES, "auto", async (wire, world) => {
	const ajv = new Ajv({ strict: false });
	const picture = () => world.picture(world.root, world.outside, world.home), before = picture();
	await wire.initialize({}, "2025-11-25");
	const { tools } = (await wire.ask("tools/list")).result;
	let refused = 0;
	for (const tool of tools) {
		const example = CALLS.find(([name]) => name === tool.name)?.[1] ?? {};
		const wrong = [{ ...example, unheardOf: 1 }];
		for (const key of Object.keys(tool.inputSchema.properties))
			for (const value of [null, 7.5, -1, "", "\u0000", [], {}, true, [[]], "x".repeat(70000)])
				wrong.push({ ...example, [key]: value });
		for (const key of tool.inputSchema.required ?? [])
			wrong.push(Object.fromEntries(Object.entries(example).filter(([name]) => name !== key)));
		for (const args of wrong) {
			if (ajv.validate(tool.inputSchema, args))
				continue;
			const answer = await wire.ask("tools/call", { name: tool.name, arguments: args });
			assert.ok(answer.error?.code === -32602 || answer.result?.isError, `${tool.name} ${JSON.stringify(args).slice(0, 200)}: ${JSON.stringify(answer)}`);
			refused++;
		}
	}
	assert.ok(refused > 100, `${refused}`);
	assert.deepEqual(picture(), before);
}));

await runTests();
