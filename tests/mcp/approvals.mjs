// SPDX-License-Identifier: Apache-2.0
// Safe: who is asked, what is shown, what an answer covers. Whoever answers is played by this program, as a client's window
// would; what happened is looked at on disk.
import assert from "node:assert/strict";
import fs from "node:fs";
import { connect, done, packages, refused, runTests, test, textOf, withWorld } from "./harness.mjs";

const { ElicitRequestSchema } = packages("@modelcontextprotocol/sdk/types.js");
const Ajv = packages("ajv/dist/2020.js").default;

const FILES = { "a.txt": "one\ntwo\nthree\n", "b.txt": "b\n", "src/x.c": "int x;\n", "src/deep/y.c": "int y;\n" };

const once = { action: "accept", content: { scope: "once" } };
const session = { action: "accept", content: { scope: "session" } };
const decline = { action: "decline" };
const cancel = { action: "cancel" };

// answers: in this order, one a question; a function is called with the question. What was asked is in `asked`.
const safely = (answers, run) => withWorld(FILES, async (world) => {
	const asked = [];
	const client = await connect(world, "safe", { capabilities: { elicitation: { form: {} } }, handlers: [[ElicitRequestSchema, async ({ params }) => {
		asked.push(params);
		const answer = answers[asked.length - 1];
		assert.ok(answer !== undefined, `an unexpected question: ${params.message}`);
		return typeof answer === "function" ? answer(params, world) : answer;
	}]] });
	try {
		await run(client, world, asked);
		assert.equal(asked.length, answers.length, "questions");
	} finally {
		await client.close();
	}
});

const write = { path: "new.txt", content: "new\n" };

test("accept once: done once, asked again", safely([once, decline], async (client, world) => {
	await done(client, "write_file", write);
	assert.equal(world.get("new.txt"), "new\n");
	await refused(client, "write_file", { ...write, content: "newer\n" });
	assert.equal(world.get("new.txt"), "new\n");
}));

test("accept, and no word for how long: once", safely([{ action: "accept", content: {} }, decline], async (client, world) => {
	await done(client, "write_file", write);
	await refused(client, "write_file", { ...write, content: "newer\n" });
	assert.equal(world.get("new.txt"), "new\n");
}));

for (const [name, answer] of [["decline", decline], ["cancel", cancel], ["a word that was not offered", { action: "accept", content: { scope: "forever" } }]])
	test(`${name}: not done`, safely([answer], async (client, world) => {
		await refused(client, "write_file", write);
		assert.ok(!world.has("new.txt"));
	}));

test("a client that answers with an error: not done", safely([() => {
	throw new Error("no window");
}], async (client, world) => {
	await refused(client, "write_file", write);
	assert.ok(!world.has("new.txt"));
}));

test("a client that cannot ask: refused, and told what would help", withWorld(FILES, async (world) => {
	const client = await connect(world, "safe");
	try {
		for (const [name, args] of [["write_file", write], ["edit_file", { path: "a.txt", edits: [{ old: "two", new: "2" }] }],
			["move", { from: "a.txt", to: "c.txt" }], ["remove", { path: "a.txt" }]])
			assert.match(textOf(await refused(client, name, args)), /auto/i);
		assert.match(textOf(await done(client, "read_file", { path: "a.txt" })), /two/);
		assert.deepEqual(fs.readdirSync(world.root).sort(), ["a.txt", "b.txt", "src"]);
		assert.equal(world.get("a.txt"), FILES["a.txt"]);
	} finally {
		await client.close();
	}
}));

test("what is asked is a form that the protocol knows", safely([decline, decline, decline, decline], async (client, world, asked) => {
	await refused(client, "write_file", write);
	await refused(client, "edit_file", { path: "a.txt", edits: [{ old: "two", new: "2" }] });
	await refused(client, "move", { from: "a.txt", to: "b.txt", overwrite: true });
	await refused(client, "remove", { path: "src", recursive: true });
	for (const { message, requestedSchema } of asked) {
		assert.ok(message.length > 0 && message.length < 100_000);
		assert.equal(requestedSchema.type, "object");
		const check = new Ajv({ strict: false }).compile(requestedSchema);
		assert.ok(check(once.content), JSON.stringify(requestedSchema));
		assert.ok(!check({ scope: "forever" }));
	}
}));

test("an edit is shown as what changes, with the place", safely([once], async (client, world, asked) => {
	await done(client, "edit_file", { path: "a.txt", edits: [{ old: "two", new: "2" }] });
	assert.match(asked[0].message, /^-two$/m);
	assert.match(asked[0].message, /^\+2$/m);
	assert.ok(asked[0].message.includes(`${fs.realpathSync(world.root)}/a.txt`), asked[0].message);
	assert.equal(world.get("a.txt"), "one\n2\nthree\n");
}));

test("a link is shown as where it leads", safely([decline], async (client, world, asked) => {
	fs.symlinkSync("src/x.c", world.path("innocent.txt"));
	await refused(client, "edit_file", { path: "innocent.txt", edits: [{ old: "int x", new: "int z" }] });
	assert.ok(asked[0].message.includes("/src/x.c"), asked[0].message);
	assert.equal(world.get("src/x.c"), FILES["src/x.c"]);
}));

test("what looks like something else is shown as it is", safely([decline, decline], async (client, world, asked) => {
	await refused(client, "write_file", { path: "a\u202etxt.exe", content: "x" });
	await refused(client, "write_file", { path: "c.txt", content: "harmless\u001b[2K\r\u202eevil\u0007\n" });
	for (const { message } of asked)
		assert.doesNotMatch(message, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
}));

test("a move names both, and what it replaces", safely([once], async (client, world, asked) => {
	await done(client, "move", { from: "a.txt", to: "b.txt", overwrite: true });
	assert.match(asked[0].message, /a\.txt/);
	assert.match(asked[0].message, /b\.txt/);
	assert.match(asked[0].message, /replac/i);
	assert.equal(world.get("b.txt"), FILES["a.txt"]);
	assert.ok(!world.has("a.txt"));
}));

test("a removal says how much", safely([once], async (client, world, asked) => {
	await done(client, "remove", { path: "src", recursive: true });
	assert.match(asked[0].message, /src/);
	assert.ok(!world.has("src"));
}));

test("for the session: edits and writes below that directory, nothing else", safely([session, decline, decline, decline], async (client, world, asked) => {
	await done(client, "edit_file", { path: "src/x.c", edits: [{ old: "int x", new: "int z" }] });
	assert.ok(JSON.stringify(asked[0].requestedSchema).includes("src"), "which directory is said");
	await done(client, "write_file", { path: "src/new.c", content: "int n;\n" });
	await done(client, "edit_file", { path: "src/deep/y.c", edits: [{ old: "int y", new: "int w" }] });
	assert.equal(asked.length, 1);
	await refused(client, "write_file", { path: "a.txt", content: "x" });
	await refused(client, "move", { from: "src/x.c", to: "src/moved.c" });
	await refused(client, "remove", { path: "src/x.c" });
	assert.equal(world.get("a.txt"), FILES["a.txt"]);
	assert.ok(world.has("src/x.c"));
}));

test("for the session: no link leads out of it", safely([session, decline], async (client, world) => {
	await done(client, "edit_file", { path: "src/x.c", edits: [{ old: "int x", new: "int z" }] });
	fs.symlinkSync("../a.txt", world.path("src/way"));
	await refused(client, "edit_file", { path: "src/way", edits: [{ old: "two", new: "2" }] });
	assert.equal(world.get("a.txt"), FILES["a.txt"]);
}));

test("for the session: a directory whose name begins alike is another", safely([session, decline], async (client, world) => {
	fs.mkdirSync(world.path("src2"));
	await done(client, "write_file", { path: "src/x.c", content: "x" });
	await refused(client, "write_file", { path: "src2/x.c", content: "x" });
	assert.ok(!world.has("src2/x.c"));
}));

test("for the session: protected places stay so, and are not asked for", safely([session], async (client, world) => {
	await done(client, "write_file", { path: "root.txt", content: "x" });
	await refused(client, "write_file", { path: ".git/hooks/pre-commit", content: "x" });
	await refused(client, "write_file", { path: "../outside/canary", content: "x" });
	assert.equal(fs.readFileSync(`${world.outside}/canary`, "utf8"), "intact\n");
}));

test("the file is changed while the question stands: a conflict", safely([(params, world) => {
	world.put("a.txt", "something else\ntwo\n");
	return once;
}], async (client, world) => {
	await refused(client, "edit_file", { path: "a.txt", edits: [{ old: "two", new: "2" }] });
	assert.equal(world.get("a.txt"), "something else\ntwo\n");
}));

test("the place becomes a link while the question stands: nothing outside is written", safely([(params, world) => {
	fs.rmSync(world.path("a.txt"));
	fs.symlinkSync(`${world.outside}/canary`, world.path("a.txt"));
	return once;
}], async (client, world) => {
	await refused(client, "write_file", { path: "a.txt", content: "owned\n" });
	assert.equal(fs.readFileSync(`${world.outside}/canary`, "utf8"), "intact\n");
}));

test("many at once: one question after the other, each for its own", safely(Array(16).fill((params) =>
	(/file-\d*[02468]\.txt/.test(params.message) ? once : decline)), async (client, world) => {
	await Promise.all(Array.from({ length: 16 }, (_, i) => client.callTool({ name: "write_file", arguments: { path: `file-${i}.txt`, content: "x" } })));
	for (let i = 0; i < 16; i++)
		assert.equal(world.has(`file-${i}.txt`), i % 2 === 0, `${i}`);
}));

test("Plan: nobody is asked, nothing is changed", withWorld(FILES, async (world) => {
	const client = await connect(world, "plan", { capabilities: { elicitation: {} }, handlers: [[ElicitRequestSchema, () => assert.fail("asked")]] });
	try {
		const before = world.picture();
		await refused(client, "write_file", write, /plan/i);
		await refused(client, "edit_file", { path: "a.txt", edits: [{ old: "two", new: "2" }] }, /plan/i);
		await refused(client, "move", { from: "a.txt", to: "c.txt" }, /plan/i);
		await refused(client, "remove", { path: "a.txt" }, /plan/i);
		assert.match(textOf(await done(client, "read_file", { path: "a.txt" })), /two/);
		assert.deepEqual(world.picture(), before);
	} finally {
		await client.close();
	}
}));

await runTests();
