// SPDX-License-Identifier: Apache-2.0
// Children, through their own clients: whatever a child can do, each of its ancestors can. Policies and deeds are random, by a
// seed; what may be is told by a model that knows nothing but the words that the children were opened with.
import assert from "node:assert/strict";
import fs from "node:fs";
import { done, family, lives, random, refused, runTests, test, textOf, until, Wire, withWire } from "./harness.mjs";

const SEED = +(process.env.KODA_MCP_SEED ?? 1);
const FAMILIES = 12, DEEDS = 40; // of each family, by any of its members
const DIRS = ["a", "a/deep", "b", "b/deep", "c"];
const FILES = Object.fromEntries(DIRS.flatMap((dir) => ["one", "two"].map((name) => [`${dir}/${name}.txt`, `content of ${dir}/${name}\n`])));
const HOSTS = ["github.com", "codeload.github.com", "denied.example"];
const MODES = ["plan", "safe", "auto"];

// The arguments of the program that a child's client starts, and which may be anywhere.
const argumentsOf = (opened) => opened.structuredContent.command.slice(1);

let serial = 0;
const newName = () => `child-${serial++}`;

async function join(world, opened) {
	const child = new Wire(world, null, { args: argumentsOf(opened) });
	await child.initialize();
	child.name = opened.structuredContent.name;
	return child;
}

const open = async (world, parent, args) => join(world, await done(parent, "open_child", { name: newName(), ...args }));

// ---- the model ----

const inside = (file, places) => places.some((place) => file === place || file.startsWith(`${place}/`));

// What one of a family may do: what all from the eldest to it were given.
const mayRead = (lineage, file) => lineage.every((m) => !inside(file, m.deny_read ?? []));
const mayWrite = (lineage, file) => lineage.every((m) => (m.mode ?? "auto") === "auto" &&
	inside(file, [m.subdirectory ?? file]) && !inside(file, m.deny_write ?? []) && !inside(file, m.deny_read ?? []));
const mayReach = (lineage, host) => host !== "denied.example" && lineage.every((m) => m.network !== false && (m.mode ?? "auto") !== "plan" &&
	(m.domains === undefined || m.domains.includes(host)));

function randomChild(r) {
	const some = (list, p) => list.filter(() => r.chance(p));
	const args = { name: newName(), mode: r.chance(0.8) ? "auto" : r.pick(MODES) };
	if (r.chance(0.5))
		args.deny_read = some([...DIRS, ...Object.keys(FILES)], 0.15);
	if (r.chance(0.5))
		args.deny_write = some([...DIRS, ...Object.keys(FILES)], 0.15);
	if (r.chance(0.3))
		args.subdirectory = r.pick(DIRS);
	if (r.chance(0.3))
		args.network = false;
	if (r.chance(0.3))
		args.domains = some(HOSTS.slice(0, 2), 0.5);
	return args;
}

// ---- deeds ----

async function read(member, lineage, world, r) {
	const file = r.pick(Object.keys(FILES)), full = world.path(file);
	const result = r.chance(0.7) || !member.commands ? await member.call("read_file", { path: full }) : await member.call("run_command", { command: `cat '${full}'` });
	const came = JSON.stringify(result).includes(fs.readFileSync(full, "utf8").trim());
	assert.ok(!came || mayRead(lineage, file), `${file} was read: ${JSON.stringify(lineage)}`);
	return came;
}

async function write(member, lineage, world, r) {
	const file = r.chance(0.8) ? r.pick(Object.keys(FILES)) : `${r.pick(DIRS)}/new-${r.below(3)}.txt`, full = world.path(file);
	const before = fs.existsSync(full) ? fs.readFileSync(full, "utf8") : null, content = `content ${r.below(1e9)}`;
	const tries = [() => member.call("write_file", { path: full, content: `${content}\n` }),
		() => member.commands && member.call("run_command", { command: `echo '${content}' >'${full}'` }),
		() => member.call("edit_file", { path: full, edits: [{ old: (before ?? "?").trim() || "?", new: content }] }),
		() => member.call("remove", { path: full })];
	await r.pick(tries)();
	const after = fs.existsSync(full) ? fs.readFileSync(full, "utf8") : null;
	if (after !== before)
		assert.ok(mayWrite(lineage, file), `${file} was changed: ${JSON.stringify(lineage)}`);
	// The next draw finds all of them.
	if (after === null && file in FILES)
		fs.writeFileSync(full, before);
	return after !== before;
}

async function reach(member, lineage, world, r) {
	const host = r.pick(HOSTS);
	const { structuredContent } = await done(member, "explain_access", { host });
	if (structuredContent.allowed && !structuredContent.asks)
		assert.ok(mayReach(lineage, host), `${host} may be reached: ${JSON.stringify(lineage)}`);
	return structuredContent.allowed;
}

test(`${FAMILIES} families, seed ${SEED}: nobody does what an ancestor may not`, async () => {
	const r = random(SEED), happened = { read: 0, write: 0, reach: 0 };
	for (let n = 0; n < FAMILIES; n++)
		await withWire(FILES, "auto", async (wire, world) => {
			await wire.initialize();
			const members = [{ wire, lineage: [{ mode: "auto" }] }];
			const before = world.picture(world.outside, world.home);
			wire.commands = (await wire.ask("tools/list")).result.tools.some((tool) => tool.name === "run_command");
			for (let tries = 0; tries < 10 && members.length < 4; tries++) {
				const parent = r.pick(members), words = randomChild(r);
				const absolute = (list) => list?.map((name) => world.path(name));
				const result = await parent.wire.call("open_child", { ...words, deny_read: absolute(words.deny_read ?? []),
					deny_write: absolute(words.deny_write ?? []), ...(words.subdirectory && { subdirectory: world.path(words.subdirectory) }) });
				const above = MODES.indexOf(words.mode) > Math.min(...parent.lineage.map((m) => MODES.indexOf(m.mode)));
				const beside = words.subdirectory !== undefined && parent.lineage.some((m) => !inside(words.subdirectory, [m.subdirectory ?? words.subdirectory]));
				if (above || beside)
					assert.ok(result.isError, `${JSON.stringify(words)} of ${JSON.stringify(parent.lineage)}`);
				if (result.isError)
					continue;
				const child = await join(world, result);
				child.commands = wire.commands;
				members.push({ wire: child, lineage: [...parent.lineage, words] });
			}
			for (let i = 0; i < DEEDS; i++) {
				const member = r.pick(members), [kind, deed] = r.pick([["read", read], ["write", write], ["reach", reach]]);
				if (await deed(member.wire, member.lineage, world, r) && member !== members[0])
					happened[kind]++;
			}
			assert.deepEqual(world.picture(world.outside, world.home), before);
			for (const member of members.slice(1).reverse())
				await member.wire.end();
		})();
	// A model that forbids everything would hold, too.
	for (const [kind, times] of Object.entries(happened))
		assert.ok(times > 10, `${kind}: ${times}`);
});

// ---- one by one ----

test("a token is good once", withWire(FILES, "auto", async (wire, world) => {
	await wire.initialize();
	const opened = await done(wire, "open_child", { name: newName(), mode: "auto" }), child = await join(world, opened);
	assert.notEqual((await new Wire(world, null, { args: argumentsOf(opened) }).closed).code, 0);
	assert.match(textOf(await done(child, "read_file", { path: "a/one.txt" })), /content/);
	assert.deepEqual(await child.end(), { code: 0, signal: null });
}));

test("closing a child ends its commands and its children", withWire(FILES, "auto", async (wire, world) => {
	await wire.initialize();
	const child = await open(world, wire, { mode: "auto" }), grandchild = await open(world, child, { mode: "auto" });
	for (const one of [child, grandchild])
		one.call("run_command", { command: "sleep 600" }).catch(() => {});
	await until(() => family(wire.pid).filter((p) => p.name === "sleep").length === 2, "both commands");
	await done(wire, "close_child", { name: child.name });
	await child.closed;
	await grandchild.closed;
	await until(() => family(wire.pid).filter((p) => p.name === "sleep").length === 0, "their end");
	assert.match(textOf(await done(wire, "read_file", { path: "a/one.txt" })), /content/);
}));

test("the parent's end is the children's", withWire(FILES, "auto", async (wire, world) => {
	await wire.initialize();
	const child = await open(world, wire, { mode: "auto" });
	child.call("run_command", { command: "sleep 600" }).catch(() => {});
	await until(() => family(wire.pid).some((p) => p.name === "sleep"), "the command");
	const all = family(wire.pid);
	await wire.kill();
	await child.closed;
	await until(() => !all.some(lives), "their end", 5000);
}));

test("a child that does not read holds up nobody", withWire({ "big.txt": "x".repeat(200_000) }, "auto", async (wire, world) => {
	await wire.initialize();
	const child = await open(world, wire, { mode: "auto" });
	child.child.stdout.pause();
	for (let i = 0; i < 300; i++)
		child.send({ jsonrpc: "2.0", id: `p${i}`, method: "tools/call", params: { name: "read_file", arguments: { path: "big.txt" } } });
	for (let i = 0; i < 50; i++)
		await done(wire, "read_file", { path: "big.txt", limit: 1 });
}));

test("a child sees nothing of its parent's commands", withWire(FILES, "auto", async (wire, world) => {
	await wire.initialize();
	const { id } = (await done(wire, "run_command", { command: "echo of the parent; sleep 600", background: true })).structuredContent;
	const child = await open(world, wire, { mode: "auto" });
	await refused(child, "command_output", { id });
	await refused(child, "command_stop", { id });
	assert.ok(!JSON.stringify(await done(child, "command_list")).includes(id));
	assert.ok(family(wire.pid).some((p) => p.name === "sleep"));
}));

await runTests();
