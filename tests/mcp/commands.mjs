// SPDX-License-Identifier: Apache-2.0
// Commands through the SDK: what comes back, while they run and afterwards, and that they end when they are to.
import assert from "node:assert/strict";
import { connect, done, family, lives, packages, refused, runTests, test, textOf, until, Wire, withClient, withWire, withWorld } from "./harness.mjs";

const { ElicitRequestSchema } = packages("@modelcontextprotocol/sdk/types.js");
const PATIENCE_MS = 60_000;

const run = (client, args, options = {}) => client.callTool({ name: "run_command", arguments: args }, undefined, { timeout: PATIENCE_MS, ...options });
const named = (client, name) => family(client.serverPid ?? client.pid).filter((p) => p.name === name && lives(p));

test("both streams and the status", withClient({}, "auto", async (client) => {
	const result = await run(client, { command: "echo to out; echo to err >&2; exit 3" });
	assert.ok(!result.isError);
	assert.equal(result.structuredContent.exit_code, 3);
	assert.match(textOf(result), /to out/);
	assert.match(textOf(result), /to err/);
}));

test("a command that cannot be found is a result", withClient({}, "auto", async (client) => {
	const result = await run(client, { command: "no_such_command" });
	assert.equal(result.structuredContent.exit_code, 127);
}));

test("64 at once", withClient({}, "auto", async (client) => {
	// More than may run: some are told to wait for others, none is lost.
	const results = await Promise.all(Array.from({ length: 64 }, (_, i) => run(client, { command: `sleep 0.2; echo ${i} | tee ran-${i}` })));
	const ran = results.filter((result) => !result.isError);
	assert.ok(ran.length >= 16, `${ran.length}`);
	for (const [i, result] of results.entries())
		if (!result.isError)
			assert.match(textOf(result), new RegExp(`^${i}$`, "m"));
		else
			assert.match(textOf(result), /at once|under way|wait/i);
}));

test("the timeout", withClient({}, "auto", async (client) => {
	const begin = Date.now(), result = await run(client, { command: "echo before; sleep 600 & sleep 600", timeout: 1 });
	assert.ok(Date.now() - begin < 20_000);
	assert.match(textOf(result), /before/);
	assert.match(JSON.stringify(result.structuredContent), /wall_time/);
	assert.deepEqual(named(client, "sleep"), []);
}));

test("progress, while it runs", withClient({}, "auto", async (client) => {
	const heard = [];
	const result = await run(client, { command: "for i in 1 2 3 4 5; do echo step $i; sleep 0.4; done" },
		{ onprogress: (progress) => heard.push(progress), resetTimeoutOnProgress: true });
	assert.match(textOf(result), /step 5/);
	assert.ok(heard.length >= 2, `${heard.length}`);
	assert.ok(heard.every((p, i) => i === 0 || p.progress > heard[i - 1].progress), "it grows");
	assert.match(heard.map((p) => p.message ?? "").join("\n"), /step 2/);
}));

test("a flood is cut, and said to be", withClient({}, "auto", async (client) => {
	const result = await run(client, { command: "echo first; yes | head -c 50000000; echo last" });
	assert.match(textOf(result), /first/);
	assert.match(textOf(result), /last/);
	assert.ok(JSON.stringify(result).length < 1_000_000, `${JSON.stringify(result).length}`);
}));

test("cancelled: it ends, with all that it started", withClient({}, "auto", async (client) => {
	const controller = new AbortController();
	const running = run(client, { command: "sleep 600 & sleep 600" }, { signal: controller.signal });
	await until(() => named(client, "sleep").length === 2, "the command");
	controller.abort("enough");
	await assert.rejects(running);
	await until(() => named(client, "sleep").length === 0, "its end", 10_000);
	assert.match(textOf(await run(client, { command: "echo still" })), /still/);
}));

test("in the background: listed, read, stopped", withClient({}, "auto", async (client) => {
	const { id } = (await done(client, "run_command", { command: "while :; do echo tick; sleep 0.1; done", background: true })).structuredContent;
	await until(async () => /tick/.test(textOf(await done(client, "command_output", { id }))), "its output");
	assert.ok(JSON.stringify((await done(client, "command_list")).structuredContent).includes(id));
	await done(client, "command_stop", { id });
	await until(() => named(client, "sleep").length === 0, "its end", 10_000);
	await refused(client, "command_output", { id: "0".repeat(16) });
	await refused(client, "command_stop", { id: "../.." });
}));

test("a server in the background is there for the next command", withClient({ "index.html": "served\n" }, "auto", async (client) => {
	await done(client, "run_command", { command: "exec python3 -m http.server 8123 --bind 127.0.0.1", background: true });
	const result = await run(client, { command: "for i in $(seq 100); do curl -sf --noproxy '*' http://127.0.0.1:8123/index.html && exit 0; sleep 0.1; done; exit 1" });
	assert.match(textOf(result), /served/);
}));

test("the end of input ends what runs", withWire({}, "auto", async (wire) => {
	await wire.initialize();
	await wire.call("run_command", { command: "trap '' TERM; sleep 600", background: true });
	wire.call("run_command", { command: "sleep 601" }).catch(() => {});
	await until(() => named(wire, "sleep").length === 2, "both");
	const all = family(wire.pid);
	assert.deepEqual(await wire.end(), { code: 0, signal: null });
	await until(() => !all.some(lives), "their end", 5000);
}));

test("what a command may not is refused by the kernel, and said", withClient({}, "auto", async (client, world) => {
	const result = await run(client, { command: `echo x >${world.outside}/new; echo x >.git/hooks/x; curl -s -o /dev/null -w '%{http_code}' http://denied.example/` });
	assert.match(textOf(result), /403/);
	assert.match(textOf(result), /denied\.example/);
	assert.deepEqual(world.picture(world.outside), { [`${world.outside}/canary`]: "intact\n" });
}));

// ---- Safe ----

const safely = (answers, go) => withWorld({ "a.txt": "a\n" }, async (world) => {
	const asked = [];
	const client = await connect(world, "safe", { capabilities: { elicitation: { form: {} } }, handlers: [[ElicitRequestSchema, ({ params }) => {
		asked.push(params);
		const answer = answers[asked.length - 1];
		assert.ok(answer !== undefined, `an unexpected question: ${params.message}`);
		return answer;
	}]] });
	try {
		await go(client, world, asked);
		assert.equal(asked.length, answers.length, "questions");
	} finally {
		await client.close();
	}
});
const once = { action: "accept", content: { scope: "once" } }, session = { action: "accept", content: { scope: "session" } };
const decline = { action: "decline" };

test("Safe: the exact command and directory are shown", safely([once, decline], async (client, world, asked) => {
	const command = "echo 'a  b' >written; true \u202e # not what it seems";
	await run(client, { command });
	assert.ok(asked[0].message.includes("echo 'a  b' >written"), asked[0].message);
	assert.ok(asked[0].message.includes("project"), asked[0].message);
	assert.ok(!asked[0].message.includes("\u202e"));
	assert.equal(world.get("written"), "a  b\n");
	const declined = await run(client, { command: "rm written; echo removed" });
	assert.equal(declined.structuredContent.discarded, true);
	assert.equal(declined.structuredContent.applied, 0);
	assert.match(textOf(declined), /removed\n.*\n.*the project is as it was before/);
	assert.ok(world.has("written"));
}));

test("Safe: for the session, exactly this command, until something changes", safely([session, decline, decline], async (client, world, asked) => {
	await run(client, { command: "echo b >>a.txt" });
	await run(client, { command: "echo b >>a.txt" });
	assert.equal(world.get("a.txt"), "a\nb\nb\n");
	assert.equal(asked.length, 1);
	await run(client, { command: "echo b >>a.txt " });
	world.put("a.txt", "changed\n");
	await run(client, { command: "echo b >>a.txt" });
	assert.equal(world.get("a.txt"), "changed\n");
}));

test("Safe: what changes nothing is not asked about", safely([], async (client) => {
	assert.match(textOf(await run(client, { command: "cat a.txt" })), /^a\n.*\n.*changed nothing/);
}));

test("Safe: a client that cannot ask", withWorld({}, async (world) => {
	const client = await connect(world, "safe");
	assert.match(textOf(await run(client, { command: "touch made" })), /this client cannot ask the user/);
	assert.ok(!world.has("made"));
	await client.close();
}));

test("Plan: commands run, and change nothing", withClient({ "a.txt": "a\n" }, "plan", async (client, world) => {
	const result = await run(client, { command: "cat a.txt; echo x >a.txt; touch new; curl -sf --max-time 3 http://github.com/ || echo unreachable" });
	assert.match(textOf(result), /^a$/m);
	assert.match(textOf(result), /unreachable/);
	assert.equal(world.get("a.txt"), "a\n");
	assert.ok(!world.has("new"));
}));

await runTests();
