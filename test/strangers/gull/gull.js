#!/usr/bin/env node
"use strict";
// Gull: an ACP agent in the manner of a big product. Node.js only, no packages.
const { spawn } = require("node:child_process");
const { randomUUID } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { understand, toolArguments } = require("./nlu.js");
const { connectMcp, callTool } = require("./mcp.js");

const FAULT = process.env.FAULT || "";
const VERSION = "4.2.0";
if (process.argv[2] === "login") { console.error("Gull: you are signed in."); process.exit(0); }

const STORE = (() => {
  for (const base of [os.homedir(), os.tmpdir()]) {
    try { const d = path.join(base, ".gull", "sessions"); fs.mkdirSync(d, { recursive: true }); fs.accessSync(d, fs.constants.W_OK); return d; } catch { /* next */ }
  }
  return os.tmpdir();
})();
const wait = (ms) => new Promise((r) => setTimeout(r, ms));
const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const textBlock = (text) => ({ type: "content", content: { type: "text", text } });
const client = { caps: {}, ready: false };
const live = new Map();

// ================================================================ JSON-RPC
class RpcError extends Error { constructor(code, message, data) { super(message); this.code = code; this.data = data; } }
const invalid = (message, data) => new RpcError(-32602, message, data);
const unknownSession = (sessionId) => new RpcError(-32002, "Session not found", { sessionId });
class Stopped extends Error { constructor(why) { super(why); this.why = why; } }   // why: "cancel" or "steer"

const outgoing = new Map();
let serial = 0;
const write = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n");
function request(method, params, signal) {
  if (signal?.aborted) return Promise.reject(signal.reason);
  const id = `gull:${++serial}:${randomUUID().slice(0, 8)}`;
  return new Promise((resolve, reject) => {
    outgoing.set(id, { resolve, reject });
    write({ id, method, params });
    // when the turn is stopped, tell the client we no longer need the answer and go on without it
    signal?.addEventListener("abort", () => { if (outgoing.has(id)) { write({ method: "$/cancel_request", params: { requestId: id } }); reject(signal.reason); } }, { once: true });
  });
}
const patiently = (p, ms = 3000) => Promise.race([p.catch(() => null), wait(ms)]);

// ================================================================ sessions
const MODES = [
  { id: "ask", name: "Ask first", description: "Ask before changing files or running commands" },
  { id: "plan", name: "Plan only", description: "Look, do not touch" },
  { id: "auto", name: "Automatic", description: "Work without asking inside the workspace" },
];
const COMMANDS = [
  { name: "help", description: "What Gull can do" },
  { name: "plan", description: "Draw up a plan", input: { hint: "what to plan" } },
  { name: "status", description: "Mode, model and tools of this session" },
  { name: "compact", description: "Shorten the conversation so far" },
];
class Session {
  constructor(id, cwd, extra) {
    Object.assign(this, { id, cwd: path.resolve(cwd), extra: extra || [], mode: "ask", model: "gull-large", effort: "medium", web: false, title: null, updatedAt: new Date().toISOString(), created: Date.now(), log: [], facts: [], tokens: 2100, turns: 0 });
    Object.assign(this, { servers: [], connecting: Promise.resolve(), allowed: new Set(), active: null, queue: Promise.resolve() });
  }
  save() {
    const { id, cwd, extra, mode, model, effort, web, title, updatedAt, created, log, facts, tokens, turns } = this;
    try { fs.writeFileSync(path.join(STORE, id + ".json"), JSON.stringify({ id, cwd, extra, mode, model, effort, web, title, updatedAt, created, log, facts, tokens, turns })); } catch (e) { console.error("gull: cannot save:", e.message); }
  }
  static stored(id) {
    if (!/^[0-9a-f-]{36}$/.test(id)) return null;
    try { const d = JSON.parse(fs.readFileSync(path.join(STORE, id + ".json"), "utf8")); return Object.assign(new Session(d.id, d.cwd, d.extra), d); } catch { return null; }
  }
  update(update, record = false) {
    if (record) this.log.push(record === true ? update : record);
    write({ method: "session/update", params: { sessionId: this.id, update } });
  }
  modes() { return { currentModeId: this.mode, availableModes: MODES }; }
  options() {
    const select = (id, name, category, currentValue, values) => ({ id, name, category, type: "select", currentValue, options: values.map(([value, n]) => ({ value, name: n })) });
    const list = [
      select("mode", "Mode", "mode", this.mode, MODES.map((m) => [m.id, m.name])),
      select("model", "Model", "model", this.model, [["gull-large", "Gull Large"], ["gull-small", "Gull Small"]]),
      select("effort", "Thinking", "thought_level", this.effort, [["low", "Low"], ["medium", "Medium"], ["high", "High"]]),
    ];
    if (isObject(client.caps.session?.configOptions?.boolean)) list.push({ id: "web", name: "Web search", type: "boolean", category: "_gull_features", currentValue: this.web });
    return list;
  }
  setMode(mode) { this.mode = mode; if (this.turns) this.save(); }
  attach(specs) {
    this.servers.forEach((s) => s.wire?.stop());
    this.servers = [];
    this.connecting = Promise.all((specs || []).map((s) => connectMcp(s, fs.existsSync(this.cwd) ? this.cwd : undefined))).then((v) => {
      if (this.closed) v.forEach((s) => s.wire?.stop()); else this.servers = v;
    });
  }
  detach() { this.closed = true; this.servers.forEach((s) => s.wire?.stop()); this.servers = []; }
  stop(why) { this.active?.abort(new Stopped(why)); }
  announce() { setTimeout(() => live.get(this.id) === this && this.update({ sessionUpdate: "available_commands_update", availableCommands: COMMANDS }), 15); }
}

// ================================================================ a turn
class Turn {
  constructor(session, signal) { this.s = session; this.signal = signal; this.newMessage(); }
  newMessage() { this.messageId = randomUUID(); }
  alive() { if (this.signal.aborted) throw this.signal.reason; }
  async pause(ms) {
    this.alive();
    await new Promise((ok, no) => { const stop = () => { clearTimeout(t); no(this.signal.reason); }; const t = setTimeout(() => { this.signal.removeEventListener("abort", stop); ok(); }, ms); this.signal.addEventListener("abort", stop, { once: true }); });
  }
  async stream(text, gap = 8) {
    for (const piece of text.match(/\S+\s*|\s+/g) || []) {
      this.alive();
      this.s.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: piece }, messageId: this.messageId }, true);
      if (gap) await this.pause(gap);
    }
  }
  thought(text) { this.s.update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text }, messageId: randomUUID() }, true); }
  usage() { this.s.tokens += 150; this.s.update({ sessionUpdate: "usage_update", used: this.s.tokens, size: 200000, cost: { amount: Number((this.s.tokens * 0.000003).toFixed(6)), currency: "USD" } }); }
  roots() { return [this.s.cwd, ...this.s.extra]; }
  where(file) {
    const p = path.resolve(this.s.cwd, file.startsWith("~/") ? path.join(os.homedir(), file.slice(2)) : file);
    return { p, inside: this.roots().some((r) => p === path.resolve(r) || p.startsWith(path.resolve(r).replace(/\/$/, "") + "/")) };
  }
  /** Run one tool: announce, ask when needed, work, report. Returns {ok, ...} and never leaves a call open. */
  async tool({ title, kind, name, rawInput, locations, preview, gate }, work) {
    const toolCallId = `toolu_${randomUUID().replaceAll("-", "").slice(0, 18)}`;
    const full = (u) => ({ sessionUpdate: "tool_call_update", toolCallId, ...u });
    const report = (u, record = true) => this.s.update(full(u), record);
    this.s.update({ sessionUpdate: "tool_call", toolCallId, title, name, kind, status: "pending", rawInput, locations: locations || [], content: preview || [] }, true);
    try {
      this.alive();
      if (gate && this.s.mode === "plan") { report({ status: "failed", content: [textBlock("Not in plan mode.")] }); return { ok: false, why: "I am in plan mode and touch nothing" }; }
      if (gate && !this.s.allowed.has(gate) && (this.s.mode === "ask" || gate.endsWith("outside"))) {
        const r = await request("session/request_permission", { sessionId: this.s.id, toolCall: { toolCallId, title, kind, rawInput, locations: locations || [], content: preview || [] }, options: [
          { optionId: "allow_always", name: "Always allow", kind: "allow_always" }, { optionId: "allow", name: "Allow", kind: "allow_once" },
          { optionId: "reject", name: "Reject", kind: "reject_once" }, { optionId: "reject_always", name: "Always reject", kind: "reject_always" }] }, this.signal);
        const o = r?.outcome;
        if (o?.outcome === "cancelled") throw new Stopped("cancel");
        if (o?.optionId === "allow_always") this.s.allowed.add(gate);
        else if (o?.optionId !== "allow") { report({ status: "failed", content: [textBlock("Rejected by the user.")] }); return { ok: false, why: "you rejected it" }; }
      }
      this.alive();
      report({ status: "in_progress" });
      const r = await work(report, toolCallId);
      this.alive();
      const last = { status: r.bad ? "failed" : "completed", ...(r.content && { content: r.content }), rawOutput: r.rawOutput ?? {} };
      report(last, full({ ...last, ...(r.keep && { content: r.keep }) }));
      this.newMessage();
      return { ok: !r.bad, ...r };
    } catch (e) {
      report({ status: "failed", content: [textBlock(e instanceof Stopped ? "Interrupted" : e.message)] });
      this.newMessage();
      if (e instanceof Stopped) throw e;
      return { ok: false, why: e.message };
    }
  }
  async readText(p) {
    if (client.caps.fs?.readTextFile === true) return (await request("fs/read_text_file", { sessionId: this.s.id, path: p }, this.signal)).content;
    return fs.promises.readFile(p, "utf8");
  }
  async writeText(p, content) {
    const can = FAULT === "gull-fs-gate" ? client.caps.fs?.readTextFile : client.caps.fs?.writeTextFile;
    if (can === true) return request("fs/write_text_file", { sessionId: this.s.id, path: p, content }, this.signal);
    await fs.promises.mkdir(path.dirname(p), { recursive: true });
    await fs.promises.writeFile(p, content);
  }
  async read(file) {
    const { p, inside } = this.where(file);
    const r = await this.tool({ title: `Read \`${path.relative(this.s.cwd, p) || p}\``, kind: "read", name: "read_file", rawInput: { file_path: p }, locations: [{ path: p, line: 1 }], gate: inside ? null : "read-outside" }, async () => {
      const body = await this.readText(p);
      return { body, content: [textBlock("```\n" + body + "\n```")], rawOutput: { lines: body.split("\n").length } };
    });
    await this.stream(r.ok ? `The file ${file} contains:\n${r.body.slice(0, 5000)}` : `I could not read ${file}: ${r.why}.`, 2);
  }
  async change(file, make) {
    const { p, inside } = this.where(file);
    const current = () => this.readText(p).catch((e) => { if (e instanceof Stopped) throw e; return null; });
    if (!inside) {                                     // nothing outside the roots is even read before the user agrees
      const r = await this.tool({ title: `Write \`${p}\``, kind: "edit", name: "edit_file", rawInput: { file_path: p }, locations: [{ path: p }], gate: "edit-outside" }, async () => {
        const was = await current(), text = make(was);
        if (text === null) throw new Error("there is nothing to change");
        await this.writeText(p, text);
        return { content: [{ type: "diff", path: p, oldText: was, newText: text }], rawOutput: { bytes: Buffer.byteLength(text) } };
      });
      return this.stream(r.ok ? `I have written ${file}.` : `I did not write ${file}: ${r.why}.`);
    }
    const old = await current();
    const next = make(old);
    if (next === null) return this.stream(`I found nothing to change in ${file}.`);
    const preview = [{ type: "diff", path: p, oldText: old, newText: next }];
    const r = await this.tool({ title: `${old === null ? "Create" : "Edit"} \`${path.relative(this.s.cwd, p) || p}\``, kind: "edit", name: old === null ? "write_file" : "edit_file", rawInput: { file_path: p, content: next }, locations: [{ path: p, line: 1 }], preview, gate: "edit" }, async () => {
      await this.writeText(p, next);
      return { content: preview, rawOutput: { bytes: Buffer.byteLength(next) } };
    });
    await this.stream(r.ok ? `I have ${old === null ? "created" : "updated"} ${file}.` : `I did not write ${file}: ${r.why}.`);
  }
  async remove(file) {
    const { p, inside } = this.where(file);
    const r = await this.tool({ title: `Delete \`${file}\``, kind: "delete", name: "delete_file", rawInput: { file_path: p }, locations: [{ path: p }], gate: inside ? "delete" : "delete-outside" }, async () => { await fs.promises.unlink(p); return { content: [textBlock("Deleted.")] }; });
    await this.stream(r.ok ? `${file} is deleted.` : `I did not delete ${file}: ${r.why}.`);
  }
  async shell(command) {
    const r = await this.tool({ title: `\`${command}\``, kind: "execute", name: "bash", rawInput: { command }, gate: "execute" }, (report) => client.caps.terminal === true ? this.viaTerminal(command, report) : this.viaSpawn(command, report));
    await this.stream(r.why ? `I did not run the command: ${r.why}.` : `The command finished with exit code ${r.rawOutput.exitCode}. It printed:\n${r.output.slice(-4000)}`, 1);
  }
  async viaTerminal(command, report) {
    const { terminalId } = await request("terminal/create", { sessionId: this.s.id, command: "sh", args: ["-c", command], cwd: this.s.cwd, outputByteLimit: 200000 });
    const t = { sessionId: this.s.id, terminalId };
    try {
      report({ content: [{ type: "terminal", terminalId }] }, false);      // terminals die with the connection: never replayed
      let exit;
      try { this.alive(); exit = await request("terminal/wait_for_exit", t, this.signal); } catch (e) {
        if (e instanceof Stopped) await patiently(request("terminal/kill", t));
        throw e;
      }
      const { output } = await request("terminal/output", t);
      return { output, keep: [textBlock(output)], bad: exit.exitCode !== 0, rawOutput: { exitCode: exit.exitCode ?? null, signal: exit.signal ?? null } };
    } finally { await patiently(request("terminal/release", t)); }
  }
  viaSpawn(command) {
    return new Promise((ok, no) => {
      const child = spawn("/bin/sh", ["-c", command], { cwd: this.s.cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
      let output = "";
      const kill = () => { try { process.kill(-child.pid, "SIGKILL"); } catch { /* gone */ } };
      this.signal.addEventListener("abort", kill, { once: true });
      for (const s of [child.stdout, child.stderr]) s.setEncoding("utf8").on("data", (d) => { output = (output + d).slice(-100000); });
      child.on("error", no);
      child.on("close", (exitCode, signal) => { this.signal.removeEventListener("abort", kill); this.signal.aborted ? no(this.signal.reason) : ok({ output, bad: exitCode !== 0, content: [textBlock("```console\n" + output + "\n```")], rawOutput: { exitCode, signal } }); });
    });
  }
  async mcp(wanted, prompt) {
    const all = this.s.servers.flatMap((v) => v.tools.map((t) => [v, t]));
    const here = all.filter(([v]) => prompt.toLowerCase().includes(v.name.toLowerCase()));
    const [server, tool] = (wanted && (here.find(([, t]) => t.name === wanted) || all.find(([, t]) => t.name === wanted))) || (!wanted && here.length === 1 && here[0]) || [];
    if (!tool) return this.stream(all.length ? `Available MCP tools: ${all.map(([v, t]) => `${v.name}/${t.name}`).join(", ")}.` : "No MCP tools are available.");
    const args = toolArguments(prompt, tool.inputSchema, tool.name, server.name);
    const r = await this.tool({ title: `${tool.name} (${server.name} MCP server)`, kind: "other", name: `mcp__${server.name}__${tool.name}`, rawInput: args, gate: `mcp:${server.name}/${tool.name}` }, async () => {
      const stop = new Promise((_, no) => this.signal.addEventListener("abort", () => no(this.signal.reason), { once: true }));
      stop.catch(() => {});
      const { text, failed } = await Promise.race([callTool(server, tool.name, args), stop]);
      return { body: text, bad: failed, content: [textBlock(text)], rawOutput: { text } };
    });
    await this.stream(r.ok ? `The tool ${tool.name} returned: ${r.body}` : `The tool ${tool.name} did not work: ${r.why || r.body}.`);
  }
  async plan() {
    const steps = ["Explore the code", "Write the change", "Run the tests", "Summarise"];
    const show = (at) => this.s.update({ sessionUpdate: "plan", entries: steps.map((content, i) => ({ content, priority: i === 1 ? "high" : i === 3 ? "low" : "medium", status: i < at ? "completed" : i === at ? "in_progress" : "pending" })) }, true);
    show(-1);
    for (let i = 0; i <= steps.length; i++) { await this.pause(80); show(i); }
    await this.stream("I have laid out a plan of four steps and walked through it.");
  }
  async form() {
    if (!isObject(client.caps.elicitation?.form)) return this.stream("Which colour do you prefer: red, green or blue? Just tell me in your next message.");
    const r = await request("elicitation/create", { mode: "form", sessionId: this.s.id, message: "Gull would like to know your taste.", requestedSchema: { type: "object", title: "Taste", properties: {
      colour: { type: "string", title: "Favourite colour", enum: ["red", "green", "blue"] }, amount: { type: "integer", title: "How many", minimum: 1, maximum: 10, default: 3 }, gift: { type: "boolean", title: "Gift wrapping", default: false } }, required: ["colour"] } }, this.signal).catch((e) => { if (e instanceof Stopped) throw e; return { action: "_failed", why: e.message }; });
    const c = r?.content || {};
    const fine = ["red", "green", "blue"].includes(c.colour) && (c.amount === undefined || (Number.isInteger(c.amount) && c.amount >= 1 && c.amount <= 10)) && (c.gift === undefined || typeof c.gift === "boolean");
    if (r?.action === "accept") return this.stream(fine ? `You chose ${c.colour}.` : "That answer does not fit the form, so I leave it.");
    if (r?.action === "decline") return this.stream("You declined to answer; no harm done.");
    if (r?.action === "cancel") return this.stream("You dismissed the question.");
    return this.stream("I could not get an answer from you.");
  }
  async signin() {
    if (!isObject(client.caps.elicitation?.url)) return this.stream("Please sign in on the Gull website yourself; I never ask for credentials here.");
    const elicitationId = randomUUID();
    const r = await request("elicitation/create", { mode: "url", sessionId: this.s.id, message: "Sign in to your Gull account in the browser.", elicitationId, url: `https://gull.example/connect?flow=${elicitationId}` }, this.signal).catch((e) => { if (e instanceof Stopped) throw e; return { action: "_failed" }; });
    if (r?.action !== "accept") return this.stream("The sign-in was not started.");
    await this.pause(150);
    write({ method: "elicitation/complete", params: { elicitationId } });
    await this.stream("The browser flow is over. I will know more when the website tells me.");
  }
  async compact() {
    if (isObject(client.caps.session?.compaction)) {
      const compactionId = randomUUID();
      this.s.update({ sessionUpdate: "compaction_update", compactionId, status: "in_progress" });
      this.s.update({ sessionUpdate: "compaction_summary_chunk", compactionId, content: { type: "text", text: `${this.s.turns} earlier turns.` } });
      this.s.update({ sessionUpdate: "compaction_update", compactionId, status: "completed" });
    }
    this.s.tokens = 2100;
    await this.stream("The conversation is compacted.");
  }
  async act(words, blocks) {
    const s = this.s;
    const slash = words.trim().match(/^\/(\w+)\s*([\s\S]*)$/);
    if (slash && COMMANDS.some((c) => c.name === slash[1])) {
      if (slash[1] === "plan") return this.plan();
      if (slash[1] === "compact") return this.compact();
      if (slash[1] === "status") return this.stream(`Mode ${s.mode}, model ${s.model}, thinking ${s.effort}, ${s.servers.length} MCP servers.`);
      return this.stream("I read, write and delete files, run commands, use MCP tools, plan, count and chat.");
    }
    await Promise.race([s.connecting, this.pause(7000)]);
    this.thought(s.effort === "high" ? "Let me think about this with care, step by step." : "Looking at the request.");
    const i = understand(words, s.servers.flatMap((v) => v.tools.map((t) => t.name)));
    switch (i.do) {
      case "mcp": return this.mcp(i.tool, words);
      case "mode":
        s.setMode(i.mode);
        s.update({ sessionUpdate: "current_mode_update", currentModeId: i.mode });
        s.update({ sessionUpdate: "config_option_update", configOptions: s.options() });
        return this.stream(`I am in ${i.mode} mode now.`);
      case "form": return this.form();
      case "signin": return this.signin();
      case "plan": return this.plan();
      case "count": for (let n = 1; n <= i.to; n++) { await this.stream(`${n} `, 0); await this.pause(i.slow ? 300 : 70); } return;
      case "wait": await this.stream("Waiting now. "); await this.pause(i.seconds * 1000); return this.stream("Finished waiting.");
      case "story": for (let n = 0; n < (i.long ? 60 : 25); n++) await this.stream(`Over the harbour, on day ${n + 1}, the gulls argued about ${["bread", "wind", "tides", "chips"][n % 4]}. `, 40); return;
      case "run": return this.shell(i.command);
      case "read": return this.read(i.file);
      case "write": return this.change(i.file, () => i.content);
      case "append": return this.change(i.file, (old) => (old ?? "") + i.content);
      case "edit": return this.change(i.file, (old) => (old && old.includes(i.from) ? old.replaceAll(i.from, i.to) : null));
      case "delete": return this.remove(i.file);
      case "list": { const l = await fs.promises.readdir(s.cwd).catch(() => []); return this.stream(`Files here: ${l.join(", ") || "none"}.`, 1); }
      case "pwd": return this.stream(`The working directory is ${s.cwd}`);
      case "remember": s.facts.push(words); return this.stream("Remembered.");
      case "recall": return this.stream(s.facts.length ? `You told me this: ${s.facts.slice(-3).join(" · ")}` : "I know of nothing like that in this session.");
      case "say": return this.stream(i.text, 2);
      default: {
        const other = blocks.filter((b) => b.type !== "text").map((b) => b.type === "resource_link" ? b.name : b.type === "resource" ? b.resource.uri : `an ${b.type}`);
        await this.stream(other.length ? `Thanks, I received ${other.join(" and ")}.` : "Hello from Gull! Tell me what to read, write, run or plan, and I will get on with it.");
      }
    }
  }
}

async function runTurn(s, prompt, control) {
  const t = new Turn(s, control.signal);
  const words = prompt.map((b) => b.type === "text" ? b.text : b.type === "resource_link" && b.uri.startsWith("file:///") ? decodeURIComponent(b.uri.slice(7)) : "").filter(Boolean).join("\n");
  const mine = randomUUID();
  for (const content of prompt) s.log.push({ sessionUpdate: "user_message_chunk", messageId: mine, content });
  s.turns++;
  s.updatedAt = new Date().toISOString();
  try {
    t.alive();
    if (s.turns === 1) {
      s.title = words.split("\n")[0].slice(0, 60) || "Untitled";
      s.update({ sessionUpdate: "session_info_update", title: s.title, updatedAt: s.updatedAt });
      if (isObject(client.caps.session?.notices)) s.update({ sessionUpdate: "notice", severity: "info", title: "Gull works offline", description: "No network model is used in this session." });
    }
    t.usage();
    await t.act(words, prompt);
    t.usage();
    return "end_turn";
  } catch (e) {
    if (!(e instanceof Stopped)) throw e;
    if (e.why === "cancel") return "cancelled";
    s.update({ sessionUpdate: "agent_message_chunk", messageId: randomUUID(), content: { type: "text", text: "(turning to your newer message)" } }, true);
    return "end_turn";
  } finally { if (!s.deleted) s.save(); }
}

// ================================================================ checks
const str = (p, key) => { if (typeof p[key] !== "string") throw invalid(`${key} must be a string`, { field: key }); return p[key]; };
function setup(p, serversRequired) {
  const cwd = str(p, "cwd");
  if (!path.isAbsolute(cwd)) throw invalid("cwd must be an absolute path", { field: "cwd" });
  const extra = p.additionalDirectories ?? [];
  if (!Array.isArray(extra) || !extra.every((d) => typeof d === "string" && path.isAbsolute(d))) throw invalid("additionalDirectories must hold absolute paths", { field: "additionalDirectories" });
  const servers = p.mcpServers ?? (serversRequired ? null : []);
  if (!Array.isArray(servers)) throw invalid("mcpServers must be an array", { field: "mcpServers" });
  const pairs = (l) => Array.isArray(l) && l.every((x) => isObject(x) && typeof x.name === "string" && typeof x.value === "string");
  for (const v of servers) {
    const good = isObject(v) && typeof v.name === "string" && (v.type === "http" ? typeof v.url === "string" && pairs(v.headers) : v.type !== "sse" && typeof v.command === "string" && Array.isArray(v.args) && pairs(v.env));
    if (!good) throw invalid("an MCP server entry is not usable", { field: "mcpServers", name: v?.name });
  }
  return { cwd, extra, servers };
}
const BLOCKS = {
  text: (b) => typeof b.text === "string", image: (b) => typeof b.data === "string" && typeof b.mimeType === "string", audio: (b) => typeof b.data === "string" && typeof b.mimeType === "string",
  resource_link: (b) => typeof b.uri === "string" && typeof b.name === "string", resource: (b) => isObject(b.resource) && typeof b.resource.uri === "string" && (typeof b.resource.text === "string" || typeof b.resource.blob === "string"),
};
const need = (p) => { const s = live.get(str(p, "sessionId")); if (!s) throw unknownSession(p.sessionId); return s; };
function reopen(p, serversRequired) {
  const { cwd, extra, servers } = (str(p, "sessionId"), setup(p, serversRequired));
  const s = live.get(p.sessionId) || Session.stored(p.sessionId);
  if (!s) throw unknownSession(p.sessionId);
  Object.assign(s, { cwd: path.resolve(cwd), extra, closed: false });
  s.attach(servers);
  live.set(s.id, s);
  return s;
}

// ================================================================ methods
const methods = {
  initialize(p) {
    if (!Number.isInteger(p.protocolVersion) || p.protocolVersion < 0 || p.protocolVersion > 65535) throw invalid("protocolVersion must be an unsigned 16-bit integer", { field: "protocolVersion" });
    client.caps = isObject(p.clientCapabilities) ? p.clientCapabilities : {};
    client.ready = true;
    const authMethods = [{ id: "gull-account", name: "Gull account", description: "Uses the account of this machine" }];
    if (client.caps.auth?.terminal === true || FAULT === "gull-terminal-login") authMethods.push({ type: "terminal", id: "gull-cli-login", name: "Sign in from a terminal", args: ["login"], env: { GULL_LOGIN: "1" } });
    return { protocolVersion: 1, agentInfo: { name: "gull", title: "Gull Code", version: VERSION }, authMethods, agentCapabilities: {
      loadSession: true, promptCapabilities: { image: true, audio: true, embeddedContext: true }, mcpCapabilities: { http: true, sse: false },
      sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, additionalDirectories: {} }, _meta: { "gull.example/build": { channel: "stable" } } } };
  },
  authenticate(p) { if (str(p, "methodId") !== "gull-account") throw invalid("unknown authentication method", { methodId: p.methodId }); return {}; },
  "session/new"(p) {
    const { cwd, extra, servers } = setup(p, true);
    const s = new Session(randomUUID(), cwd, extra);
    live.set(s.id, s);
    s.save();
    s.attach(servers);
    s.announce();
    return { sessionId: s.id, modes: s.modes(), configOptions: s.options(), _meta: { "gull.example/store": "disk" } };
  },
  "session/load"(p) {
    const s = reopen(p, true);
    for (const update of s.log) s.update(update);
    s.announce();
    return { modes: s.modes(), configOptions: s.options() };
  },
  "session/resume"(p) { const s = reopen(p, false); s.announce(); return { modes: s.modes(), configOptions: s.options() }; },
  "session/list"(p) {
    if (p.cwd != null && (typeof p.cwd !== "string" || !path.isAbsolute(p.cwd))) throw invalid("cwd must be an absolute path", { field: "cwd" });
    let all = fs.readdirSync(STORE).filter((f) => f.endsWith(".json")).map((f) => Session.stored(f.slice(0, -5))).filter((s) => s && s.turns > 0 && (p.cwd == null || s.cwd === path.resolve(p.cwd)));
    all.sort((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));
    if (p.cursor != null) {
      const m = typeof p.cursor === "string" && Buffer.from(p.cursor, "hex").toString().match(/^gull\|(\d+)\|([0-9a-f-]{36})$/);
      if (!m) throw invalid("invalid cursor", { cursor: p.cursor });
      all = all.filter((s) => s.created < +m[1] || (s.created === +m[1] && s.id > m[2]));
    }
    const page = all.slice(0, 20);
    const sessions = page.map((s) => ({ sessionId: s.id, cwd: s.cwd, title: s.title, updatedAt: s.updatedAt, ...(s.extra.length && { additionalDirectories: s.extra }) }));
    return all.length > 20 ? { sessions, nextCursor: Buffer.from(`gull|${page[19].created}|${page[19].id}`).toString("hex") } : { sessions };
  },
  async "session/close"(p) { const s = need(p); live.delete(s.id); s.stop("cancel"); await s.queue; s.detach(); return {}; },
  async "session/delete"(p) {
    const id = str(p, "sessionId"); const s = live.get(id);
    if (s) { s.deleted = true; live.delete(id); s.stop("cancel"); await s.queue; s.detach(); }
    if (/^[0-9a-f-]{36}$/.test(id)) fs.rmSync(path.join(STORE, id + ".json"), { force: true });
    return {};
  },
  "session/set_mode"(p) {
    const s = need(p);
    if (!MODES.some((m) => m.id === str(p, "modeId"))) throw invalid("unknown mode", { modeId: p.modeId });
    s.setMode(p.modeId);
    s.update({ sessionUpdate: "config_option_update", configOptions: s.options() });
    return {};
  },
  "session/set_config_option"(p) {
    const s = need(p);
    const o = s.options().find((x) => x.id === str(p, "configId"));
    if (!o) throw invalid("unknown option", { configId: p.configId });
    if (o.type === "boolean" ? typeof p.value !== "boolean" || p.type !== "boolean" : !o.options.some((v) => v.value === p.value)) throw invalid("unknown value", { configId: p.configId, value: p.value });
    if (o.id === "mode") {
      s.setMode(p.value);
      s.update({ sessionUpdate: "current_mode_update", currentModeId: s.mode });
      if (FAULT === "gull-partial-options") return { configOptions: s.options().filter((x) => x.id === "mode") };
    } else { s[o.id] = p.value; if (s.turns) s.save(); }
    return { configOptions: s.options() };
  },
  async "session/prompt"(p, id) {
    str(p, "sessionId");
    if (!Array.isArray(p.prompt) || !p.prompt.every((b) => isObject(b) && Object.hasOwn(BLOCKS, b.type) && BLOCKS[b.type](b))) throw invalid("prompt must be an array of content blocks", { field: "prompt" });
    const s = need(p);
    s.stop("steer");                                   // a newer message takes over from a running one
    const before = s.queue;
    const control = new AbortController();
    const mine = { control, id };
    running.add(mine);
    s.active = control;
    const job = (async () => { await before; await new Promise(setImmediate); try { return await runTurn(s, p.prompt, control); } finally { running.delete(mine); if (s.active === control) s.active = null; } })();
    s.queue = job.catch(() => {});
    return { stopReason: await job };
  },
};
const running = new Set();
const notifications = {
  "session/cancel"(p) { if (typeof p.sessionId === "string") live.get(p.sessionId)?.stop("cancel"); },
  "$/cancel_request"(p) { for (const r of running) if (r.id === p.requestId) r.control.abort(new Stopped("cancel")); },
};

// ================================================================ the pipe
async function handle(line) {
  let m;
  const refuse = (code, message, id = null) => write({ id, error: { code, message } });
  try { m = JSON.parse(line); } catch { return refuse(-32700, "Parse error"); }
  if (!isObject(m) || m.jsonrpc !== "2.0") return refuse(-32600, Array.isArray(m) ? "Batches are not supported" : "Invalid request");
  if (m.method === undefined && (m.result !== undefined || m.error !== undefined)) {
    const w = outgoing.get(m.id);
    outgoing.delete(m.id);
    if (m.error) w?.reject(new Error(String(m.error.message ?? "the client failed"))); else w?.resolve(m.result);
    return;
  }
  if (typeof m.method !== "string") return refuse(-32600, "Invalid request");
  if (!("id" in m)) { if (isObject(m.params) && Object.hasOwn(notifications, m.method)) notifications[m.method](m.params); return; }
  if (!(m.id === null || typeof m.id === "string" || Number.isInteger(m.id))) return refuse(-32600, "Invalid request id");
  if (m.params !== undefined && (typeof m.params !== "object")) return refuse(-32600, "Invalid request");
  try {
    if (!Object.hasOwn(methods, m.method)) throw new RpcError(-32601, "Method not found", { method: m.method });
    if (!client.ready && m.method !== "initialize") throw new RpcError(-32600, "The connection is not initialized");
    if (m.params != null && !isObject(m.params)) throw invalid("params must be an object");
    const answer = methods[m.method](m.params ?? {}, m.id);
    write({ id: m.id, result: answer instanceof Promise ? await answer : answer });
  } catch (e) {
    if (!(e instanceof RpcError)) console.error("gull:", e);
    write({ id: m.id, error: e instanceof RpcError ? { code: e.code, message: e.message, ...(e.data !== undefined && { data: e.data }) } : { code: -32603, message: "Internal error" } });
  }
}
let parts = [];
process.stdin.on("data", (chunk) => {
  for (let i; (i = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(i + 1)) {
    const line = Buffer.concat([...parts, chunk.subarray(0, i)]).toString("utf8");
    parts = [];
    if (line.trim()) handle(line);
  }
  if (chunk.length) parts.push(chunk);
});
process.stdin.on("end", async () => {
  for (const s of live.values()) { s.stop("cancel"); s.detach(); }
  await wait(120);
  process.exit(0);
});
process.stdout.on("error", () => process.exit(0));
