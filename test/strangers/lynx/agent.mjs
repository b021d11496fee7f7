#!/usr/bin/env node
// lynx: keeps its sessions on disk, asks before everything, runs its own commands.
import * as acp from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import os from "node:os";

const FAULT = process.env.FAULT ?? "";
const HOME = path.join(process.env.LYNX_HOME ?? path.join(os.homedir(), ".lynx-agent"), "sessions");
fs.mkdirSync(HOME, { recursive: true });
const err = (code, message, data) => new acp.RequestError(code, message, data);
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
class Abort extends Error {}

/** id -> {id,cwd,title,updatedAt,word,entries,calls}; live part under `live` */
const store = new Map();
for (const f of fs.readdirSync(HOME)) {
  if (!f.endsWith(".json")) continue;
  try {
    const s = JSON.parse(fs.readFileSync(path.join(HOME, f), "utf8"));
    store.set(s.id, { ...s, live: null });
  } catch (e) {
    console.error("skip", f, e.message);
  }
}
function save(s) {
  if (!store.has(s.id)) return;
  const { live, ...rest } = s;
  const file = path.join(HOME, s.id + ".json");
  fs.writeFileSync(file + ".tmp", JSON.stringify(rest));
  fs.renameSync(file + ".tmp", file);
}
function touch(s) {
  s.updatedAt = new Date().toISOString();
  if (FAULT !== "lynx-last-answer") save(s);
}

class McpClient {
  constructor(spec, cwd) {
    this.seq = 0;
    this.wait = new Map();
    this.tools = [];
    const env = { ...process.env };
    for (const e of spec.env ?? []) env[e.name] = e.value;
    this.proc = spawn(spec.command, spec.args ?? [], { cwd, env, stdio: ["pipe", "pipe", "ignore"] });
    const dead = () => {
      for (const w of this.wait.values()) w.no(new Error("MCP server closed"));
      this.wait.clear();
      this.gone = true;
    };
    this.proc.on("error", dead);
    this.proc.on("exit", dead);
    this.proc.stdin.on("error", () => {});
    createInterface({ input: this.proc.stdout }).on("line", (l) => {
      let m;
      try { m = JSON.parse(l); } catch { return; }
      const w = this.wait.get(m.id);
      if (!w || m.method) return;
      this.wait.delete(m.id);
      m.error ? w.no(new Error(m.error.message)) : w.ok(m.result);
    });
    this.ready = (async () => {
      await this.call("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "lynx", version: "2.1.0" } });
      this.proc.stdin.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }) + "\n");
      this.tools = (await this.call("tools/list", {})).tools ?? [];
    })();
    this.ready.catch((e) => console.error("mcp", spec.name, e.message));
  }
  call(method, params) {
    if (this.gone) return Promise.reject(new Error("MCP server closed"));
    const id = ++this.seq;
    return new Promise((ok, no) => {
      this.wait.set(id, { ok, no });
      this.proc.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    });
  }
  stop() { this.proc.stdin.end(); this.proc.kill(); }
}

let caps = null;
let ready = false;
const need = () => { if (!ready) throw err(-32600, "Call initialize first"); };
function open(s, cwd, servers, client) {
  for (const m of s.live?.mcp ?? []) m.stop();
  s.cwd = cwd;
  s.live = { mcp: (servers ?? []).map((x) => new McpClient(x, cwd)), always: {}, turn: null };
  setTimeout(() => update(client, s, {
    sessionUpdate: "available_commands_update",
    availableCommands: [
      { name: "help", description: "Say what lynx can do" },
      { name: "plan", description: "Make a plan of comma separated steps", input: { hint: "step, step, ..." } },
      { name: "forget", description: "Forget the remembered word" },
    ],
  }), 30);
}
function checkSetup(p) {
  need();
  if (!path.isAbsolute(p.cwd)) throw err(-32602, "cwd must be absolute");
  for (const m of p.mcpServers ?? []) if (!("command" in m)) throw err(-32602, "Only stdio MCP servers are supported");
}
function known(id) {
  const s = store.get(id);
  if (!s) throw err(-32002, "Session not found", { sessionId: id });
  return s;
}
async function stopTurn(s) {
  const t = s.live?.turn;
  if (!t) return;
  t.abort();
  await t.done;
}
const update = (client, s, u) => client.notify("session/update", { sessionId: s.id, update: u }).catch(() => {});

async function initialize({ params }) {
  ready = true;
  caps = params.clientCapabilities ?? {};
  return {
    protocolVersion: 1,
    agentInfo: { name: "lynx", title: "Lynx", version: "2.1.0" },
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: false, audio: false, embeddedContext: false },
      mcpCapabilities: { http: false, sse: false },
      sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
      _meta: { "lynx.example": { methods: ["_lynx/ping"] } },
    },
    authMethods: [],
  };
}
async function newSession({ params, client }) {
  checkSetup(params);
  const s = { id: randomUUID(), cwd: params.cwd, title: null, updatedAt: new Date().toISOString(), word: null, entries: [], calls: 0, live: null };
  store.set(s.id, s);
  open(s, params.cwd, params.mcpServers, client);
  save(s);
  return { sessionId: s.id };
}
async function loadSession({ params, client }) {
  checkSetup(params);
  const s = known(params.sessionId);
  if (s.live?.turn) throw err(-32600, "A turn is running");
  open(s, params.cwd, params.mcpServers, client);
  save(s);
  for (const u of s.entries) await update(client, s, u);
  return {};
}
async function resumeSession({ params, client }) {
  checkSetup(params);
  const s = known(params.sessionId);
  if (s.live?.turn) throw err(-32600, "A turn is running");
  open(s, params.cwd, params.mcpServers, client);
  save(s);
  return {};
}
async function listSessions({ params }) {
  need();
  let at = 0;
  if (params?.cursor != null) {
    const m = /^lynx-page-(\d+)$/.exec(Buffer.from(params.cursor, "base64").toString());
    if (!m) throw err(-32602, "Invalid cursor");
    at = Number(m[1]);
  }
  const all = [...store.values()].filter((s) => params?.cwd == null || s.cwd === params.cwd);
  all.sort((a, b) => (a.id < b.id ? -1 : 1));
  const sessions = all.slice(at, at + 20).map((s) => ({ sessionId: s.id, cwd: s.cwd, updatedAt: s.updatedAt, ...(s.title ? { title: s.title } : {}) }));
  return { sessions, ...(all.length > at + 20 ? { nextCursor: Buffer.from(`lynx-page-${at + 20}`).toString("base64") } : {}) };
}
async function closeSession({ params }) {
  need();
  const s = known(params.sessionId);
  await stopTurn(s);
  for (const m of s.live?.mcp ?? []) m.stop();
  s.live = null;
  return {};
}
async function deleteSession({ params }) {
  need();
  const s = store.get(params.sessionId);
  if (s) {
    await stopTurn(s);
    for (const m of s.live?.mcp ?? []) m.stop();
    s.live = null;
    store.delete(s.id);
    if (FAULT !== "lynx-delete-returns") fs.rmSync(path.join(HOME, s.id + ".json"), { force: true });
  }
  return {};
}

async function prompt({ params, client }) {
  need();
  const s = known(params.sessionId);
  if (!s.live) throw err(-32002, "Session is closed", { sessionId: s.id });
  if (s.live.turn) throw err(-32600, "Another turn is running in this session");
  const ctl = new AbortController();
  let finish;
  const turn = { signal: ctl.signal, abort: () => ctl.abort(), done: new Promise((r) => (finish = r)) };
  s.live.turn = turn;
  const live = s.live;
  try {
    if (FAULT === "lynx-last-answer") save(s);
    for (const b of params.prompt) s.entries.push({ sessionUpdate: "user_message_chunk", content: b });
    touch(s);
    if (FAULT === "lynx-last-answer") save(s);
    const text = params.prompt.filter((b) => b.type === "text").map((b) => b.text).join("\n").trim();
    try {
      await work(s, turn, client, text, params.prompt);
    } catch (e) {
      if (!(e instanceof Abort)) throw e;
    }
    if (!s.title) s.title = text.slice(0, 30) || "Untitled";
    touch(s);
    await update(client, s, { sessionUpdate: "session_info_update", title: s.title, updatedAt: s.updatedAt });
    return { stopReason: ctl.signal.aborted ? "cancelled" : "end_turn" };
  } finally {
    live.turn = null;
    finish();
  }
}
async function say(s, client, text) {
  s.entries.push({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  touch(s);
  await update(client, s, { sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
}
const nap = (turn, ms) => new Promise((ok, no) => {
  if (turn.signal.aborted) return no(new Abort());
  const t = setTimeout(ok, ms);
  turn.signal.addEventListener("abort", () => { clearTimeout(t); no(new Abort()); }, { once: true });
});

async function work(s, turn, client, text, blocks) {
  let m;
  if (text === "/help") return say(s, client, "I read and write files, run commands, remember a word, count slowly and call MCP tools.");
  if (text === "/forget") { s.word = null; return say(s, client, "Forgotten."); }
  if ((m = /^\/plan\b(.*)/s.exec(text))) {
    const steps = (m[1].trim() || "look, think, answer").split(",").map((x) => x.trim()).filter(Boolean);
    for (let i = 0; i <= steps.length; i++) {
      await update(client, s, { sessionUpdate: "plan", entries: steps.map((content, k) => ({ content, priority: "medium", status: k < i ? "completed" : k === i ? "in_progress" : "pending" })) });
      await nap(turn, 60);
    }
    return say(s, client, "Plan done.");
  }
  if ((m = /remember\b.*?\bword:?\s+(?:is\s+)?["'`]?([\w-]+)/is.exec(text))) { s.word = m[1]; return say(s, client, `Good, I keep ${m[1]} in mind.`); }
  if (/\b(recall|what|which)\b.*\bword\b/is.test(text)) return say(s, client, s.word ? `It was ${s.word}.` : "There is no word.");
  if (/\bcount\b|\bslowly\b|\bthink (?:for|hard|long)|\blong (?:\w+ )?(?:story|essay|poem|text)/i.test(text)) {
    const n = Math.min(Math.max(...((text.match(/\d+/g) ?? [12]).slice(0, 4).map(Number))), 60);
    for (let i = 1; i <= n; i++) { await say(s, client, `${i}\n`); await nap(turn, 200); }
    return;
  }
  if (/\btool\b/.test(text) && (m = /(?:call|use|invoke)\b(?: the)?(?: mcp)?(?: tool)?(?: named| called)? ["'`]?([\w.-]+)/i.exec(text))) {
    const name = m[1];
    return tool(s, turn, client, `Call ${name}`, "other", { name }, async () => {
      for (const c of s.live.mcp) {
        await c.ready.catch(() => {});
        if (!c.tools.some((t) => t.name === name)) continue;
        const j = /\{.*\}/s.exec(text);
        const r = await c.call("tools/call", { name, arguments: j ? JSON.parse(j[0]) : {} });
        const out = (r.content ?? []).map((x) => x.text ?? "").join("");
        if (r.isError) throw new Error(out);
        return { text: out };
      }
      throw new Error(`no tool ${name}`);
    });
  }
  if ((m = /(?:write|create)\b.*?\bfile\s+(?:called |named )?["'`]?([^\s"'`,]+)["'`]?.*?(?:with|containing)\b(?:\s+(?:exactly|the|text|contents?))*\s*:?\s*["'`]?(.*?)["'`]?$/is.exec(text))) {
    const p = path.resolve(s.cwd, m[1]);
    return tool(s, turn, client, `Write ${p}`, "edit", { path: p }, async () => {
      const old = fs.existsSync(p) ? fs.readFileSync(p, "utf8") : null;
      if (caps.fs?.writeTextFile) await client.request("fs/write_text_file", { sessionId: s.id, path: p, content: m[2] });
      else fs.writeFileSync(p, m[2]);
      return { text: "written", content: [{ type: "diff", path: p, oldText: old, newText: m[2] }] };
    }, p);
  }
  if ((m = /read\b.*?\bfile\s+(?:called |named )?["'`]?([^\s"'`,?]+)/is.exec(text))) {
    const p = path.resolve(s.cwd, m[1].replace(/\.$/, ""));
    return tool(s, turn, client, `Read ${p}`, "read", { path: p }, async () => ({
      text: caps.fs?.readTextFile ? (await client.request("fs/read_text_file", { sessionId: s.id, path: p })).content : fs.readFileSync(p, "utf8"),
    }), p);
  }
  if ((m = /(?:run|execute)\b(?: the)?(?: command)?:?\s+["'`]?(.+?)["'`]?$/is.exec(text))) {
    const cmd = text.includes("`") ? m[1].split("`")[0] : m[1];
    return tool(s, turn, client, `$ ${cmd}`, "execute", { cmd }, () => new Promise((ok, no) => {
      const c = spawn("sh", ["-c", cmd], { cwd: s.cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
      let out = "";
      c.stdout.on("data", (d) => (out += d));
      c.stderr.on("data", (d) => (out += d));
      const kill = () => { try { process.kill(-c.pid, "SIGKILL"); } catch {} };
      turn.signal.addEventListener("abort", kill, { once: true });
      children.add(kill);
      c.on("error", no);
      c.on("close", (code) => {
        children.delete(kill);
        if (turn.signal.aborted) no(new Abort());
        else code ? no(new Error(`exit ${code} ${out}`)) : ok({ text: out });
      });
    }));
  }
  const extra = blocks.filter((b) => b.type !== "text").map((b) => b.type);
  return say(s, client, `Lynx received: ${text}${extra.length ? ` [${extra}]` : ""}`);
}
const children = new Set();

async function tool(s, turn, client, title, kind, rawInput, run, file) {
  const toolCallId = `lynx-${++s.calls}`;
  const entry = { sessionUpdate: "tool_call", toolCallId, title, kind, status: "pending", rawInput, ...(file ? { locations: [{ path: file }] } : {}) };
  s.entries.push(entry);
  await update(client, s, { ...entry });
  const end = async (status, content) => {
    Object.assign(entry, { status, content });
    touch(s);
    await update(client, s, { sessionUpdate: "tool_call_update", toolCallId, status, content });
  };
  const words = (t) => [{ type: "content", content: { type: "text", text: t } }];
  let verdict = s.live.always[kind];
  try {
    if (!verdict) {
      const asked = client.request("session/request_permission", {
        sessionId: s.id,
        toolCall: { toolCallId, title, kind, status: "pending", rawInput },
        options: [
          { optionId: "a1", name: "Allow", kind: "allow_once" },
          { optionId: "a*", name: `Always allow ${kind}`, kind: "allow_always" },
          { optionId: "r1", name: "Reject", kind: "reject_once" },
          { optionId: "r*", name: `Never allow ${kind}`, kind: "reject_always" },
        ],
      });
      const cancelled = new Promise((r) => turn.signal.addEventListener("abort", () => setTimeout(r, 1000, null), { once: true }));
      const r = await Promise.race([asked, cancelled]);
      if (!r || r.outcome.outcome !== "selected") { turn.abort(); throw new Abort(); }
      if (turn.signal.aborted) throw new Abort();
      const id = r.outcome.optionId;
      if (FAULT === "lynx-reject-always") {
        verdict = id === "r1" ? "no" : id === "a1" ? "yes" : "yes";
        if (id.endsWith("*")) s.live.always[kind] = "yes";
      } else {
        verdict = id.startsWith("a") ? "yes" : "no";
        if (id === "a*" || id === "r*") s.live.always[kind] = verdict;
      }
    }
    if (verdict === "no") {
      await end("failed", words("The user said no"));
      return say(s, client, "Fine, I did not do it.");
    }
    await update(client, s, { sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" });
    const r = await run();
    await end("completed", r.content ?? words(r.text));
    if (turn.signal.aborted) throw new Abort();
    await say(s, client, r.text || "(nothing)");
  } catch (e) {
    if (e instanceof Abort) { await end("failed", words("cancelled")); throw e; }
    await end("failed", words(e.message));
    await say(s, client, `Sorry: ${e.message}`);
  }
}

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const app = acp.agent({ name: "lynx" })
  .onRequest("initialize", initialize)
  .onRequest("session/prompt", prompt)
  .onRequest("session/new", newSession)
  .onRequest("session/load", loadSession)
  .onRequest("session/resume", resumeSession)
  .onRequest("session/list", listSessions)
  .onRequest("session/close", closeSession)
  .onRequest("session/delete", deleteSession)
  .onRequest("_lynx/ping", (p) => p ?? {}, ({ params }) => ({ pong: true, got: params }))
  .onNotification("session/cancel", ({ params }) => { store.get(params.sessionId)?.live?.turn?.abort(); });
const conn = app.connect(stream);
await conn.closed;
for (const k of children) k();
for (const s of store.values()) for (const m of s.live?.mcp ?? []) m.stop();
process.exit(0);
