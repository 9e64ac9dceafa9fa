// SPDX-License-Identifier: Apache-2.0
// What the programs of this folder share: a table of cases told as TAP, worlds to work in, and two ways to talk to the
// server. `connect` is the official SDK's client. `Wire` is lines and nothing else, for what no client would send.
import { spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const BUILD = process.env.KODA_MCP_BUILD;
export const packages = createRequire(process.env.KODA_MCP_PACKAGES + "/package.json");

// A call that has not been answered by then hangs. None takes a tenth of it, also with a sanitizer and beside other tests.
const PATIENCE_MS = 60_000;

// ---- programs, as installed: helpers are found from where the program is ----

const installed = fs.mkdtempSync(path.join(process.env.TMPDIR ?? "/tmp", "installed-"));
for (const [where, names] of Object.entries({
	"bin": ["cli/koda-sandbox"],
	"libexec/koda-sandbox": ["worker/koda-fs-worker", "search/koda-fs-search", "stage2/koda-sandbox-stage2", "launch/koda-sandbox-launch", "connect/koda-egress-connect",
		"proxy/koda-egress-proxy"],
})) {
	fs.mkdirSync(path.join(installed, where), { recursive: true });
	for (const name of names)
		fs.copyFileSync(path.join(BUILD, name), path.join(installed, where, path.basename(name)));
}
export const KODA = path.join(installed, "bin/koda-sandbox");

// ---- the table ----

const cases = [];
export const test = (name, run) => cases.push({ name, run });

// Those with one of the words in their name, or all. Ends the program.
export async function runTests() {
	const words = process.argv.slice(2);
	const wanted = cases.filter((c) => words.length === 0 || words.some((word) => c.name.includes(word)));
	let failed = 0;
	console.log(`1..${wanted.length}`);
	for (const [i, c] of wanted.entries()) {
		try {
			await c.run();
			console.log(`ok ${i + 1} - ${c.name}`);
		} catch (e) {
			failed++;
			console.log(`not ok ${i + 1} - ${c.name}`);
			for (const line of String(e.stack ?? e).split("\n"))
				console.log(`# ${line}`);
		}
	}
	fs.rmSync(installed, { recursive: true, force: true });
	process.exit(failed > 0 ? 1 : 0);
}

export function within(promise, what, ms = PATIENCE_MS) {
	let timer;
	const late = new Promise((_, reject) => {
		timer = setTimeout(() => reject(new Error(`${what}: nothing came in ${ms} ms`)), ms);
	});
	return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Looks again until it holds. For what others do and do not tell us of: the end of a process, a file that appears.
export async function until(holds, what, ms = PATIENCE_MS) {
	for (const end = Date.now() + ms; ;) {
		const value = await holds();
		if (value)
			return value;
		if (Date.now() > end)
			throw new Error(`${what}: not in ${ms} ms`);
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
}

// A generator with a seed, so that what it found can be found again (mulberry32).
export function random(seed) {
	const next = () => {
		seed = (seed + 0x6d2b79f5) | 0;
		let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
		t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
		return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
	};
	const below = (n) => Math.floor(next() * n);
	return { below, pick: (list) => list[below(list.length)], chance: (p) => next() < p };
}

// ---- a world: a project, and beside it what is nobody's business ----

export class World {
	constructor(files = {}) {
		this.base = fs.mkdtempSync(path.join(process.env.TMPDIR ?? "/tmp", "world-"));
		this.root = path.join(this.base, "project");
		this.home = path.join(this.base, "home");
		this.runtime = path.join(this.base, "run");
		this.outside = path.join(this.base, "outside");
		for (const dir of [this.root, this.home, this.runtime, this.outside])
			fs.mkdirSync(dir, { mode: 0o700 });
		fs.writeFileSync(path.join(this.outside, "canary"), "intact\n");
		for (const [name, text] of Object.entries(files))
			this.put(name, text);
	}
	path(name) {
		return path.join(this.root, name);
	}
	put(name, text) {
		fs.mkdirSync(path.dirname(this.path(name)), { recursive: true });
		fs.writeFileSync(this.path(name), text);
	}
	get(name) {
		return fs.readFileSync(this.path(name), "utf8");
	}
	has(name) {
		return fs.existsSync(this.path(name));
	}
	get environment() {
		return { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: this.home, XDG_RUNTIME_DIR: this.runtime, LANG: "C.UTF-8",
			...Object.fromEntries(["ASAN_OPTIONS", "UBSAN_OPTIONS"].filter((n) => n in process.env)
				.map((n) => [n, process.env[n]])) };
	}
	// Everything below the base, with content: what must be the same where nothing may happen. What the host itself keeps of
	// the project (its quarantine) is not part of it.
	picture(...below) {
		const seen = {};
		const walk = (at) => {
			for (const entry of fs.readdirSync(at, { withFileTypes: true })) {
				const full = path.join(at, entry.name);
				if (full === path.join(this.home, ".local/state/koda-sandbox"))
					continue;
				if (entry.isDirectory())
					walk(full);
				else
					seen[full] = entry.isFile() ? fs.readFileSync(full, "latin1") : entry.isSymbolicLink() ? fs.readlinkSync(full) : "?";
			}
		};
		for (const dir of below.length > 0 ? below : [this.base])
			walk(dir);
		return seen;
	}
	remove() {
		fs.rmSync(this.base, { recursive: true, force: true, maxRetries: 3 });
	}
}

// Makes a world, and takes it away also when the case fails.
export const withWorld = (files, run) => async () => {
	const world = new World(files);
	try {
		await run(world);
	} finally {
		world.remove();
	}
};

export const serverArguments = (world, mode = "auto", more = []) => ["mcp", "--root", world.root, "--mode", mode, ...more];

// ---- lines ----

export class Wire {
	constructor(world, mode = "auto", { more = [], args = serverArguments(world, mode, more), env = {}, onRequest } = {}) {
		this.child = spawn(KODA, args, { cwd: world.root, env: { ...world.environment, ...env }, stdio: "pipe" });
		this.onRequest = onRequest;
		this.pid = this.child.pid;
		this.nextId = 1;
		this.waiting = new Map();
		this.notifications = [];
		this.listeners = [];
		this.stderr = "";
		this.child.stderr.setEncoding("utf8").on("data", (text) => (this.stderr += text));
		// What is written to a server that has ended is lost; that it ended is what is told.
		this.child.stdin.on("error", () => {});
		this.closed = new Promise((resolve) => this.child.on("close", (code, signal) => resolve({ code, signal })));
		this.closed.then(({ code, signal }) => {
			for (const { reject } of this.waiting.values())
				reject(new Error(`the server ended (${signal ?? code}): ${this.stderr}`));
		});
		// Whole lines only: the last one of a server that was killed may be half a line.
		let rest = "";
		this.child.stdout.setEncoding("utf8").on("data", (text) => {
			const lines = (rest + text).split("\n");
			rest = lines.pop();
			lines.forEach((line) => this.take(line));
		});
	}
	take(line) {
		let message;
		try {
			message = JSON.parse(line);
		} catch (e) {
			throw new Error(`not a line of JSON from the server: ${line.slice(0, 300)}`);
		}
		for (const listener of this.listeners)
			listener(message);
		if (message.method !== undefined && message.id !== undefined) {
			Promise.resolve(this.onRequest?.(message)).then((result) => {
				if (result !== undefined)
					this.send({ jsonrpc: "2.0", id: message.id, result });
			});
		} else if (message.method !== undefined) {
			this.notifications.push(message);
		} else if (this.waiting.has(message.id)) {
			const { resolve } = this.waiting.get(message.id);
			this.waiting.delete(message.id);
			resolve(message);
		}
	}
	// Bytes as they are, or a message.
	send(what) {
		const line = typeof what === "string" || Buffer.isBuffer(what) ? what : JSON.stringify(what);
		this.child.stdin.write(Buffer.concat([Buffer.from(line), Buffer.from("\n")]));
	}
	// The whole answer: { result } or { error }.
	ask(method, params, id = this.nextId++) {
		const answer = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
		this.send({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });
		return within(answer, `${method} ${JSON.stringify(params)?.slice(0, 200)}`);
	}
	async initialize(capabilities = {}, protocolVersion = "2025-06-18") {
		const answer = await this.ask("initialize", { protocolVersion, capabilities, clientInfo: { name: "wire", version: "1" } });
		this.send({ jsonrpc: "2.0", method: "notifications/initialized" });
		return answer.result;
	}
	async call(name, args = {}, more = {}) {
		const answer = await this.ask("tools/call", { name, arguments: args, ...more });
		if (answer.error)
			throw new Error(`${name} ${JSON.stringify(args)}: ${JSON.stringify(answer.error)}`);
		return answer.result;
	}
	// End of input, and what the server makes of it.
	async end() {
		this.child.stdin.end();
		return within(this.closed, "the server's end after end of input");
	}
	kill(signal = "SIGKILL") {
		this.child.stdout.resume();
		this.child.kill(signal);
		return within(this.closed, "the server's end after a signal");
	}
}

export const withWire = (files, mode, run, options) => withWorld(files, async (world) => {
	const wire = new Wire(world, mode, options);
	try {
		await run(wire, world);
	} finally {
		await wire.kill();
	}
});

// ---- the SDK ----

const { Client } = packages("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = packages("@modelcontextprotocol/sdk/client/stdio.js");

// capabilities: the client's. handlers: [schema, function] for what the server asks or tells.
export async function connect(world, mode = "auto", { capabilities = {}, handlers = [], more = [], env = {}, args = serverArguments(world, mode, more) } = {}) {
	const transport = new StdioClientTransport({ command: KODA, args, cwd: world.root, env: { ...world.environment, ...env }, stderr: "pipe" });
	const client = new Client({ name: "koda-tests", version: "1" }, { capabilities });
	for (const [schema, handler] of handlers)
		(/Notification/.test(methodOf(schema)) ? client.setNotificationHandler : client.setRequestHandler).call(client, schema, handler);
	client.stderrText = "";
	transport.stderr.setEncoding("utf8").on("data", (text) => (client.stderrText += text));
	await within(client.connect(transport), "connect");
	client.serverPid = transport.pid;
	return client;
}

const methodOf = (schema) => (schema.shape.method.value.startsWith("notifications/") ? "Notification" : "");

export const withClient = (files, mode, run, options = {}) => withWorld(files, async (world) => {
	const client = await connect(world, mode, typeof options === "function" ? options(world) : options);
	try {
		await run(client, world);
	} finally {
		await client.close();
	}
});

export const textOf = (result) => result.content.filter((c) => c.type === "text").map((c) => c.text).join("\n");

// The tool did it, and said so.
export async function done(client, name, args = {}, options) {
	const result = client instanceof Wire ? await client.call(name, args)
		: await client.callTool({ name, arguments: args }, undefined, { timeout: PATIENCE_MS, ...options });
	if (result.isError)
		throw new Error(`${name} ${JSON.stringify(args)}: ${textOf(result)}`);
	return result;
}

// The tool did not, and its sentence is a result.
export async function refused(client, name, args = {}, pattern = /./) {
	const result = client instanceof Wire ? await client.call(name, args)
		: await client.callTool({ name, arguments: args }, undefined, { timeout: PATIENCE_MS });
	if (!result.isError)
		throw new Error(`${name} ${JSON.stringify(args)} was not refused: ${JSON.stringify(result).slice(0, 500)}`);
	if (!pattern.test(textOf(result)))
		throw new Error(`${name} ${JSON.stringify(args)}: no ${pattern} in: ${textOf(result)}`);
	return result;
}

// ---- processes ----

// Of the whole machine, by number: { pid, parent, name, state, start }.
export function processes() {
	const all = new Map();
	for (const pid of fs.readdirSync("/proc")) {
		if (!/^[0-9]+$/.test(pid))
			continue;
		try {
			const text = fs.readFileSync(`/proc/${pid}/stat`, "latin1");
			const rest = text.slice(text.lastIndexOf(")") + 2).split(" ");
			all.set(+pid, { pid: +pid, name: text.slice(text.indexOf("(") + 1, text.lastIndexOf(")")), state: rest[0],
				parent: +rest[1], start: rest[19] });
		} catch (e) {
			if (e.code !== "ENOENT" && e.code !== "ESRCH")
				throw e;
		}
	}
	return all;
}

// All that descend from it, itself not among them.
export function family(pid, all = processes()) {
	const found = [];
	for (const process of all.values()) {
		for (let at = process; at !== undefined; at = all.get(at.parent)) {
			if (at.parent === pid) {
				found.push(process);
				break;
			}
		}
	}
	return found;
}

export const lives = (process) => {
	const now = processes().get(process.pid);
	return now !== undefined && now.start === process.start && now.state !== "Z";
};

// Kernel memory of a process as the system counts it, in KiB.
export function resident(pid) {
	return +/VmRSS:\s+([0-9]+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "latin1"))[1];
}
