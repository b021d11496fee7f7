// jay: an ACP agent on @agentclientprotocol/sdk.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import * as acp from "@agentclientprotocol/sdk";
import wishes from "./wishes.cjs";

const FAULT = process.env.FAULT ?? "";
const { methods, RequestError } = acp;
const invalid = (why) => RequestError.invalidParams(undefined, why);

// ---- store ---------------------------------------------------------------
const STORE = [os.homedir(), os.tmpdir()].map((b) => path.join(b, ".jay")).find((d) => {
  try { fs.mkdirSync(d, { recursive: true }); fs.accessSync(d, fs.constants.W_OK); return true; } catch { return false; }
}) ?? fs.mkdtempSync(path.join(os.tmpdir(), "jay-"));
const fileOf = (id) => path.join(STORE, id + ".json");
const save = (s) => {
  if (s.gone) return;
  const { id, cwd, title, updatedAt, mode, history, words } = s;
  fs.writeFileSync(fileOf(id) + ".new", JSON.stringify({ id, cwd, title, updatedAt, mode, history, words }));
  fs.renameSync(fileOf(id) + ".new", fileOf(id));
};
const stored = (id) => {
  if (/^jay-[0-9a-f-]{36}$/.test(id)) try { return JSON.parse(fs.readFileSync(fileOf(id), "utf8")); } catch { /* unknown */ }
  throw RequestError.sessionNotFound(id);
};

// ---- MCP -----------------------------------------------------------------
class Mcp {
  tools = []; #n = 0; #wait = new Map();
  constructor(spec, cwd) {
    const env = { ...process.env, ...Object.fromEntries((spec.env ?? []).map((e) => [e.name, e.value])) };
    delete env.FAULT;
    this.proc = spawn(spec.command, spec.args ?? [], { cwd: fs.existsSync(cwd) ? cwd : undefined, env, detached: true, stdio: ["pipe", "pipe", "ignore"] });
    const end = () => { this.dead = true; for (const w of this.#wait.values()) w.no(new Error("the MCP server is gone")); this.#wait.clear(); };
    this.proc.on("error", end).on("exit", end);
    this.proc.stdin.on("error", () => {});
    let rest = "";
    this.proc.stdout.setEncoding("utf8").on("data", (d) => {
      const lines = (rest + d).split("\n");
      rest = lines.pop();
      for (const l of lines) {
        let m;
        try { m = JSON.parse(l); } catch { continue; }
        if (m?.method !== undefined) { if (m.id !== undefined) this.#post(m.method === "ping" ? { id: m.id, result: {} } : { id: m.id, error: { code: -32601, message: "no" } }); continue; }
        const w = this.#wait.get(m?.id);
        this.#wait.delete(m?.id);
        if (w) m.error ? w.no(new Error(m.error.message)) : w.ok(m.result ?? {});
      }
    });
  }
  #post(m) { if (!this.dead) this.proc.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n"); }
  call(method, params, ms = 8000) {
    if (this.dead) return Promise.reject(new Error("the MCP server is gone"));
    const id = ++this.#n;
    return new Promise((ok, no) => {
      const t = setTimeout(() => no(new Error("the MCP server is silent")), ms);
      this.#wait.set(id, { ok: (v) => { clearTimeout(t); ok(v); }, no: (e) => { clearTimeout(t); no(e); } });
      this.#post({ id, method, params });
    });
  }
  async open() {
    await this.call("initialize", { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "jay", version: "0.3.0" } });
    this.#post({ method: "notifications/initialized" });
    this.tools = ((await this.call("tools/list", {})).tools ?? []).map((t) => t.name);
  }
  stop() { this.dead = true; killGroup(this.proc); }
}
function killGroup(p) { try { process.kill(-p.pid, "SIGKILL"); } catch { try { p.kill("SIGKILL"); } catch { /* gone */ } } }

// ---- sessions ------------------------------------------------------------
const sessions = new Map();
const children = new Set();
let can = {};
const MODES = [{ id: "normal", name: "Normal" }, { id: "careful", name: "Careful", description: "Asks before commands too" }];
const modesOf = (s) => ({ currentModeId: s.mode, availableModes: MODES });
const COMMANDS = [
  { name: "about", description: "Who is jay" },
  { name: "echo", description: "Say it back", input: { hint: "text" } },
];

function setup(p) {
  if (!path.isAbsolute(p.cwd)) throw invalid("cwd must be an absolute path");
  for (const m of p.mcpServers ?? []) if (m.type === "http" || m.type === "sse") throw invalid("only stdio MCP servers");
  return { cwd: p.cwd, specs: p.mcpServers ?? [] };
}
const active = (id) => sessions.get(id) ?? (() => { throw RequestError.sessionNotFound(id); })();
const freeMcp = (s) => { s.mcp?.forEach((m) => m.stop()); s.mcp = undefined; };
function activate(data, cfg) {
  let s = sessions.get(data.id);
  if (s) freeMcp(s); else s = { ...data, always: new Map() };
  Object.assign(s, cfg);
  sessions.set(s.id, s);
  return s;
}
function interrupt(s, how) {
  if (!s.turn || s.turn.how) return s.turn?.done ?? Promise.resolve();
  s.turn.how = how;
  s.turn.stop.abort();
  return s.turn.done;
}
async function shutSession(s) {
  await interrupt(s, "cancelled");
  await new Promise(setImmediate);
  freeMcp(s);
  sessions.delete(s.id);
}

const app = acp.agent({ name: "jay" })
  .onRequest(methods.agent.initialize, ({ params }) => {
    const c = params.clientCapabilities ?? {};
    can = {
      write: c.fs?.writeTextFile === true, terminal: c.terminal === true,
      form: c.elicitation?.form != null, notices: c.session?.notices != null,
    };
    return {
      protocolVersion: 1,
      agentInfo: { name: "jay", title: "Jay", version: "0.3.0" },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { embeddedContext: true },
        mcpCapabilities: {},
        sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
      },
    };
  })
  .onRequest(methods.agent.session.prompt, ({ params, client, signal }) => prompt(params, client, signal))
  .onRequest(methods.agent.session.new, ({ params, client }) => {
    const cfg = setup(params);
    const s = activate({ id: "jay-" + randomUUID(), title: null, updatedAt: new Date().toISOString(), mode: "normal", history: [], words: [] }, cfg);
    save(s);
    commandsLater(s, client, 20);
    commandsLater(s, client, 1000); // some editors open their panel late
    return { sessionId: s.id, modes: modesOf(s) };
  })
  .onRequest(methods.agent.session.load, async ({ params, client }) => {
    const cfg = setup(params);
    const s = activate(sessions.get(params.sessionId) ?? stored(params.sessionId), cfg);
    for (const update of s.history) await client.notify(methods.client.session.update, { sessionId: s.id, update });
    save(s);
    commandsLater(s, client, 20);
    return { modes: modesOf(s) };
  })
  .onRequest(methods.agent.session.resume, ({ params, client }) => {
    const cfg = setup(params);
    const s = activate(sessions.get(params.sessionId) ?? stored(params.sessionId), cfg);
    save(s);
    commandsLater(s, client, 20);
    return { modes: modesOf(s) };
  })
  .onRequest(methods.agent.session.list, ({ params }) => {
    const { cwd, cursor } = params ?? {};
    if (cwd != null && !path.isAbsolute(cwd)) throw invalid("cwd must be an absolute path");
    let rows = fs.readdirSync(STORE).filter((f) => f.endsWith(".json")).flatMap((f) => {
      try { return [JSON.parse(fs.readFileSync(path.join(STORE, f), "utf8"))]; } catch { return []; }
    }).filter((r) => cwd == null || r.cwd === cwd);
    const key = (r) => r.updatedAt + "|" + r.id;
    rows.sort((a, b) => (key(a) < key(b) ? 1 : -1));
    if (cursor != null) {
      const at = Buffer.from(cursor, "hex").toString();
      if (!/^\d{4}-.*\|jay-/.test(at)) throw invalid("bad cursor");
      rows = rows.filter((r) => key(r) < at);
    }
    const page = rows.slice(0, 30);
    return {
      sessions: page.map((r) => ({ sessionId: r.id, cwd: r.cwd, title: r.title, updatedAt: r.updatedAt })),
      ...(rows.length > 30 ? { nextCursor: Buffer.from(key(page[29])).toString("hex") } : {}),
    };
  })
  .onRequest(methods.agent.session.close, async ({ params }) => { await shutSession(active(params.sessionId)); return {}; })
  .onRequest(methods.agent.session.delete, async ({ params }) => {
    const s = sessions.get(params.sessionId);
    if (s) { s.gone = true; await shutSession(s); }
    if (/^jay-[0-9a-f-]{36}$/.test(params.sessionId)) fs.rmSync(fileOf(params.sessionId), { force: true });
    return {};
  })
  .onRequest(methods.agent.session.setMode, async ({ params, client }) => {
    const s = active(params.sessionId);
    if (!MODES.some((m) => m.id === params.modeId)) throw invalid("unknown mode");
    s.mode = params.modeId;
    save(s);
    await client.notify(methods.client.session.update, { sessionId: s.id, update: { sessionUpdate: "current_mode_update", currentModeId: s.mode } });
    return {};
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => {
    const s = sessions.get(params.sessionId);
    if (s) interrupt(s, "cancelled");
  });

function commandsLater(s, client, ms) {
  setTimeout(() => {
    if (sessions.get(s.id) === s) client.notify(methods.client.session.update, { sessionId: s.id, update: { sessionUpdate: "available_commands_update", availableCommands: COMMANDS } }).catch(() => {});
  }, ms).unref();
}

// ---- a turn --------------------------------------------------------------
async function prompt({ sessionId, prompt: blocks }, client, requestSignal) {
  const s = active(sessionId);
  const before = s.turn ? interrupt(s, "superseded") : null;
  const stop = new AbortController();
  let done;
  const turn = { how: null, stop, done: new Promise((r) => { done = r; }) };
  s.turn = turn; // the newest turn is the one that cancel means
  requestSignal.addEventListener("abort", () => { if (!turn.how) { turn.how = "cancelled"; stop.abort(); } }, { once: true });
  try {
    if (before) await before;
    if (!turn.how) await new Turn(s, turn, client, blocks).run();
  } catch (e) {
    if (!turn.how) throw e;
    if (FAULT === "abort-escapes" && turn.how === "cancelled") throw e;
  } finally {
    s.updatedAt = new Date().toISOString();
    save(s);
    if (s.turn === turn) s.turn = null;
    setImmediate(done);
  }
  return { stopReason: turn.how === "cancelled" ? "cancelled" : "end_turn" };
}

class ToolError extends Error {}
const block = (text) => ({ type: "text", text });
const item = (text) => ({ type: "content", content: block(text) });

class Turn {
  constructor(s, turn, client, blocks) { Object.assign(this, { s, turn, client, blocks, signal: turn.stop.signal }); }
  update(update) { return this.client.notify(methods.client.session.update, { sessionId: this.s.id, update }); }
  ask(method, params) { return this.client.request(method, { sessionId: this.s.id, ...params }); }
  async unlessStopped(promise) {
    this.signal.throwIfAborted();
    let off;
    const stopped = new Promise((_, no) => { off = () => no(this.signal.reason); this.signal.addEventListener("abort", off, { once: true }); });
    stopped.catch(() => {});
    try { return await Promise.race([promise, stopped]); } finally { this.signal.removeEventListener("abort", off); promise.catch?.(() => {}); }
  }
  nap(ms) { return delay(ms, undefined, { signal: this.signal }); }

  async say(text, ms = 3, size = 24) {
    const messageId = randomUUID();
    const chunks = Array.isArray(text) ? text : text.match(new RegExp(`.{1,${size}}`, "gsu")) ?? [text];
    let said = "";
    try {
      for (const c of chunks) {
        this.signal.throwIfAborted();
        await this.update({ sessionUpdate: "agent_message_chunk", messageId, content: block(c) });
        said += c;
        await this.nap(ms);
      }
    } finally { if (said) this.s.history.push({ sessionUpdate: "agent_message_chunk", messageId, content: block(said) }); }
  }

  async run() {
    const { s } = this;
    const messageId = randomUUID();
    for (const b of this.blocks) {
      const { _meta, ...content } = b;
      s.history.push({ sessionUpdate: "user_message_chunk", messageId, content });
    }
    const text = this.blocks.filter((b) => b.type === "text").map((b) => b.text).join("\n");
    if (can.notices && !s.noticed) {
      s.noticed = true;
      await this.update({ sessionUpdate: "notice", severity: "info", title: "Jay keeps this conversation on disk" });
    }
    if (!s.title && text.trim()) {
      s.title = text.trim().slice(0, 50);
      await this.update({ sessionUpdate: "session_info_update", title: s.title });
    }
    if (/\b(mcp|tools?)\b/i.test(text)) await this.unlessStopped(this.openMcp());
    const w = wishes.understand(text);
    const doer = { ask: this.ask_, run: this.run_ }[w.do] ?? this[w.do]; // "ask" and "run" are helpers' names
    await doer.call(this, w);
  }

  async openMcp() {
    if (this.s.mcp) return;
    this.s.mcp = this.s.specs.map((x) => new Mcp(x, this.s.cwd));
    await Promise.all(this.s.mcp.map((m) => m.open().catch((e) => console.error("jay: MCP:", e.message))));
  }

  talk({ text }) {
    const more = this.blocks.filter((b) => b.type !== "text").map((b) => b.name ?? b.resource?.uri ?? b.type);
    return this.say(`Jay repeats: ${text.slice(0, 400)}` + (more.length ? ` [with ${more.join(", ")}]` : ""));
  }
  slash({ name, rest }) {
    if (name === "about") return this.say("I am jay, a small agent that keeps what it hears.");
    if (name === "echo") return this.say(rest || "(nothing)");
    return this.say(`Unknown command /${name}.`);
  }
  remember({ word }) { this.s.words.push(word); return this.say(`Hidden well: ${word}.`); }
  recall() { return this.say(this.s.words.length ? `I dug up: ${this.s.words.join(", ")}.` : "I have hidden nothing yet."); }
  async count({ to }) {
    await this.update({ sessionUpdate: "agent_thought_chunk", messageId: randomUUID(), content: block("Slow and steady.") });
    await this.say(Array.from({ length: to }, (_, i) => `${i + 1} `), 400);
  }
  async think() {
    await this.update({ sessionUpdate: "agent_thought_chunk", messageId: randomUUID(), content: block("This will take a while.") });
    await this.nap(10000);
    await this.say("After a long thought: yes, probably.");
  }
  async mode({ mode }) {
    if (!MODES.some((m) => m.id === mode)) return this.say(`No ${mode} mode here.`);
    this.s.mode = mode;
    await this.update({ sessionUpdate: "current_mode_update", currentModeId: mode });
    await this.say(`Mode: ${mode}.`);
  }
  async ask_({ what }) {
    if (!can.form) return this.say(`Please write: ${what}`);
    let r;
    try {
      r = await this.unlessStopped(this.ask(methods.client.elicitation.create, {
        mode: "form", message: `Jay would like to know: ${what}`,
        requestedSchema: { type: "object", properties: { answer: { type: "string", title: "Answer" } }, required: ["answer"] },
      }));
    } catch (e) { this.signal.throwIfAborted(); return this.say(`I could not ask you (${e.message}).`); }
    if (r?.action === "accept" && typeof r.content?.answer === "string") return this.say(`You answered: ${r.content.answer}`);
    if (r?.action === "accept") return this.say("That answer does not fit the form.");
    return this.say("No answer, then.");
  }

  // -- tools
  place(p) {
    const full = path.resolve(this.s.cwd, p.replace(/^~(?=\/)/, os.homedir()));
    const real = (x) => { try { return fs.realpathSync(x); } catch { const up = path.dirname(x); return up === x ? x : path.join(real(up), path.basename(x)); } };
    const rel = path.relative(real(this.s.cwd), real(full));
    if (rel === ".." || rel.startsWith("../")) return { full, outside: true };
    return { full, outside: false };
  }
  async tool(fields, { permission, body }) {
    const toolCallId = `t${randomUUID()}`;
    const call = { sessionUpdate: "tool_call", toolCallId, status: "pending", ...fields };
    await this.update(call);
    const set = (u) => this.update({ sessionUpdate: "tool_call_update", toolCallId, ...u });
    let last = { status: "failed", content: [item("stopped")] };
    try {
      this.signal.throwIfAborted();
      if (permission) await this.permit(toolCallId, fields);
      await set({ status: "in_progress" });
      const r = await body(toolCallId, set);
      last = { status: r.bad ? "failed" : "completed", content: r.content };
      return r;
    } catch (e) {
      this.signal.throwIfAborted();
      last = { status: "failed", content: [item(e.message)] };
      return { error: e.message };
    } finally {
      await set(last);
      this.s.history.push({ ...call, ...last, content: last.content.filter((c) => c.type !== "terminal") });
    }
  }
  async permit(toolCallId, fields) {
    const kept = this.s.always.get(fields.kind);
    if (kept === "yes") return;
    if (kept === "no") throw new ToolError("this is not allowed in this session");
    const asked = this.ask(methods.client.session.requestPermission, {
      toolCall: { toolCallId, title: fields.title, kind: fields.kind, ...(fields.content ? { content: fields.content } : {}) },
      options: [
        { optionId: "a1", name: "Allow once", kind: "allow_once" }, { optionId: "a2", name: "Allow always", kind: "allow_always" },
        { optionId: "r1", name: "Reject", kind: "reject_once" }, { optionId: "r2", name: "Reject always", kind: "reject_always" }],
    });
    const { outcome } = await this.unlessStopped(asked);
    if (outcome?.outcome === "cancelled") { this.turn.how ??= "cancelled"; this.turn.stop.abort(); this.signal.throwIfAborted(); }
    if (outcome?.outcome !== "selected") throw new ToolError("no permission");
    if (FAULT === "selected-means-yes") return;
    if (outcome.optionId === "a2") this.s.always.set(fields.kind, "yes");
    if (outcome.optionId === "r2") this.s.always.set(fields.kind, "no");
    if (outcome.optionId !== "a1" && outcome.optionId !== "a2") throw new ToolError("you said no");
  }
  async read({ path: p }) {
    const { full, outside } = this.place(p);
    const r = await this.tool({ title: `Read ${p}`, kind: "read", locations: [{ path: full }] }, {
      body: async () => {
        if (outside) throw new ToolError("that is outside the working directory");
        try {
          const text = await fs.promises.readFile(full, "utf8");
          return { text, content: [item(text)] };
        } catch (e) {
          if (FAULT === "failed-read-completed") return { error: e.message, content: [item(`Error: ${e.message}`)] };
          throw e;
        }
      },
    });
    await this.say(r.error ? `I could not read it: ${r.error}` : `It says:\n${r.text.slice(0, 4000)}`);
  }
  async write({ path: p, text }) {
    const { full, outside } = this.place(p);
    let oldText = null;
    if (!outside) try { oldText = fs.readFileSync(full, "utf8"); } catch { /* new */ }
    const content = outside ? undefined : [{ type: "diff", path: full, oldText, newText: text }];
    const r = await this.tool({ title: `Write ${p}`, kind: "edit", locations: [{ path: full }], ...(content ? { content } : {}) }, {
      permission: !outside,
      body: async () => {
        if (outside) throw new ToolError("that is outside the working directory");
        if (can.write) await this.unlessStopped(this.ask(methods.client.fs.writeTextFile, { path: full, content: text }));
        else { fs.mkdirSync(path.dirname(full), { recursive: true }); fs.writeFileSync(full, text); }
        return { content };
      },
    });
    await this.say(r.error ? `Not written: ${r.error}` : `Written to ${full}.`);
  }
  async run_({ command }) {
    const r = await this.tool({ title: command, kind: "execute", rawInput: { command } }, {
      permission: this.s.mode === "careful",
      body: (id, set) => (can.terminal ? this.inTerminal(command, set) : this.asChild(command)),
    });
    await this.say(r.error ? `Not run: ${r.error}` : `${r.how}\n${r.out}`);
  }
  async inTerminal(command, set) {
    const made = await this.ask(methods.client.terminal.create, { command: "/bin/sh", args: ["-c", command], cwd: this.s.cwd, outputByteLimit: 50000 });
    const t = { terminalId: made.terminalId };
    const late = (m) => Promise.race([this.ask(m, t), delay(4000)]).catch((e) => console.error("jay:", e.message));
    try {
      this.signal.throwIfAborted();
      const content = [{ type: "terminal", ...t }];
      await set({ content });
      let ex;
      try { ex = await this.unlessStopped(this.ask(methods.client.terminal.waitForExit, t)); }
      catch (e) { if (this.signal.aborted) await late(methods.client.terminal.kill); throw e; }
      const { output } = await this.ask(methods.client.terminal.output, t);
      return { how: ex.signal ? `signal ${ex.signal}` : `exit ${ex.exitCode}`, out: output, content: [...content, item(output)], bad: ex.exitCode !== 0 };
    } finally { await late(methods.client.terminal.release); }
  }
  asChild(command) {
    return new Promise((ok, no) => {
      const p = spawn("/bin/sh", ["-c", command], { cwd: this.s.cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
      children.add(p);
      let out = "";
      for (const o of [p.stdout, p.stderr]) o.setEncoding("utf8").on("data", (d) => { out = (out + d).slice(-50000); });
      const halt = () => killGroup(p);
      this.signal.addEventListener("abort", halt, { once: true });
      p.on("error", (e) => { children.delete(p); no(e); });
      p.on("close", (code, sig) => {
        children.delete(p);
        this.signal.removeEventListener("abort", halt);
        if (this.signal.aborted) return no(this.signal.reason);
        ok({ how: sig ? `signal ${sig}` : `exit ${code}`, out, content: [item(out)], bad: code !== 0 });
      });
    });
  }
  async mcp({ tool, args }) {
    const r = await this.tool({ title: `MCP ${tool}`, kind: "other", rawInput: { tool, arguments: args } }, {
      body: async () => {
        const m = (this.s.mcp ?? []).find((x) => x.tools.includes(tool));
        if (!m) throw new ToolError(`no MCP server has the tool ${tool}`);
        const x = await this.unlessStopped(m.call("tools/call", { name: tool, arguments: args }, 60000));
        const out = (x.content ?? []).filter((c) => c.type === "text").map((c) => c.text).join("\n");
        return { out, content: [item(out)], bad: x.isError === true };
      },
    });
    await this.say(r.error ? `The tool failed: ${r.error}` : `The tool said: ${r.out}`);
  }
}
const connection = app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
connection.closed.then(() => {
  for (const s of sessions.values()) { s.turn?.stop.abort(); freeMcp(s); }
  for (const p of children) killGroup(p);
  setTimeout(() => process.exit(0), 30);
});
