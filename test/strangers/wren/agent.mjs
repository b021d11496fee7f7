#!/usr/bin/env node
// wren: must be logged in first; lives on the client's files only; likes forms and thoughts.
import { agent, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";
import { Readable, Writable } from "node:stream";
import { spawn } from "node:child_process";
import { resolve, isAbsolute } from "node:path";

if (process.argv.includes("--login")) {
  console.log("You are logged in now.");
  process.exit(0);
}
const FAULT = process.env.FAULT ?? "";
const sessions = new Map();
let client = null;
let loggedIn = false;
let counter = 0;

function optionsOf(s, all = false) {
  const list = [{
    id: "model", name: "Model", category: "model", type: "select", currentValue: s.model,
    options: [{ value: "small", name: "Small wren" }, { value: "large", name: "Large wren" }],
  }];
  if (all || client?.session?.configOptions?.boolean) list.push({ id: "loud", name: "Loud", type: "boolean", currentValue: s.loud });
  return list;
}

async function mcpConnect(spec, cwd) {
  const env = { ...process.env, ...Object.fromEntries((spec.env ?? []).map((v) => [v.name, v.value])) };
  const proc = spawn(spec.command, spec.args ?? [], { cwd, env, stdio: ["pipe", "pipe", "ignore"] });
  const pending = new Map();
  let rest = "", n = 0, dead = false;
  const die = () => { dead = true; for (const p of pending.values()) p.reject(new Error("MCP server is gone")); pending.clear(); };
  proc.on("error", die).on("exit", die);
  proc.stdin.on("error", () => {});
  proc.stdout.setEncoding("utf8").on("data", (d) => {
    const lines = (rest + d).split("\n");
    rest = lines.pop();
    for (const l of lines) {
      let m; try { m = JSON.parse(l); } catch { continue; }
      const p = pending.get(m.id);
      if (p && !m.method) { pending.delete(m.id); "error" in m ? p.reject(new Error(m.error.message)) : p.resolve(m.result); }
    }
  });
  const call = (method, params) => new Promise((resolve, reject) => {
    if (dead) return reject(new Error("MCP server is gone"));
    pending.set(++n, { resolve, reject });
    proc.stdin.write(JSON.stringify({ jsonrpc: "2.0", id: n, method, params }) + "\n");
    setTimeout(() => reject(new Error("MCP server is silent")), 20000).unref();
  });
  await call("initialize", { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "wren", version: "0.9.0" } });
  proc.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  const { tools = [] } = await call("tools/list", {});
  return { call, tools, proc };
}

class Stop extends Error {}

class Turn {
  constructor(s, cx, requestSignal) {
    this.s = s; this.cx = cx; this.ac = new AbortController(); this.message = `m${++counter}`; this.late = [];
    this.byRequest = false;
    requestSignal?.addEventListener("abort", () => { this.byRequest = true; this.ac.abort(); }, { once: true });
  }
  emit(update) { return this.cx.notify("session/update", { sessionId: this.s.id, update }); }
  text(text) { return this.emit({ sessionUpdate: "agent_message_chunk", messageId: this.message, content: { type: "text", text: this.s.loud ? text.toUpperCase() : text } }); }
  thought(text) { return this.emit({ sessionUpdate: "agent_thought_chunk", messageId: this.message + "t", content: { type: "text", text } }); }
  until(promise) {
    const sig = this.ac.signal;
    if (sig.aborted) return Promise.reject(new Stop());
    return new Promise((ok, no) => {
      sig.addEventListener("abort", () => no(new Stop()), { once: true });
      promise.then(ok, no);
    });
  }
  sleep(ms) {
    let t;
    return this.until(new Promise((r) => (t = setTimeout(r, ms)))).finally(() => clearTimeout(t));
  }
  async tool(title, kind, rawInput, fn, path) {
    const toolCallId = `w${++this.s.calls}`;
    await this.emit({ sessionUpdate: "tool_call", toolCallId, title, kind, status: "in_progress", rawInput, ...(path ? { locations: [{ path, line: 1 }] } : {}) });
    const end = (status, text, content) => this.emit({ sessionUpdate: "tool_call_update", toolCallId, status, content: content ?? [{ type: "content", content: { type: "text", text } }] });
    try {
      const r = await fn((text) => this.emit({ sessionUpdate: "tool_call_update", toolCallId, content: [{ type: "content", content: { type: "text", text } }] }));
      await end("completed", r.text, r.content);
      return r.text;
    } catch (e) {
      const stop = e instanceof Stop;
      if (stop && FAULT === "wren-cancel-tail") this.late.push(() => end("failed", "stopped"));
      else await end("failed", stop ? "stopped" : e.message);
      if (stop) throw e;
      return `That went wrong: ${e.message}`;
    }
  }
}

async function think(t, text) {
  const { s, cx } = t;
  await t.thought("Hm. ");
  await t.thought("What could be meant?");
  let m;
  if (/\b(ask me|greet me|who am i)\b/i.test(text)) {
    if (!client?.elicitation?.form) return t.text("Tell me your name in your next message, please.");
    let r;
    try {
      r = await t.until(cx.request("elicitation/create", {
        sessionId: s.id, mode: "form", message: "How shall I call you?",
        requestedSchema: { type: "object", properties: { name: { type: "string", title: "Name", minLength: 1, maxLength: 40 } }, required: ["name"] },
      }));
    } catch (e) {
      if (e instanceof Stop) throw e;
      return t.text("I could not ask you.");
    }
    const name = r?.action === "accept" ? r.content?.name : undefined;
    if (r?.action !== "accept") return t.text("Then I will not ask further.");
    if (typeof name !== "string" || !name.length || name.length > 40) return t.text("That is not a name I can use.");
    return t.text(`Hello, ${name}!`);
  }
  if (/\bcount\b|\bslowly\b|\bthink (?:for|hard|long)|\blong (?:\w+ )?(?:story|essay|poem|text)/i.test(text)) {
    const n = Math.min(Math.max(...((text.match(/\d+/g) ?? [20]).slice(0, 4).map(Number))), 100);
    const out = await t.tool(`Count to ${n}`, "think", { n }, async (progress) => {
      for (let i = 1; i <= n; i++) { await progress(`at ${i}`); await t.sleep(150); }
      return { text: `counted to ${n}` };
    });
    return t.text(out);
  }
  if ((m = /write\b.*?file\s+["'`]?([^\s"'`]+)["'`]?\s+with(?:\s+(?:the\s+)?(?:text|content))?:?\s+(.*)$/is.exec(text))) {
    if (!client?.fs?.writeTextFile) return t.text("Your editor does not let me write files.");
    const p = resolve(s.cwd, m[1]);
    return t.text(await t.tool(`Write ${m[1]}`, "edit", { path: p, text: m[2] }, async () => {
      await t.until(cx.request("fs/write_text_file", { sessionId: s.id, path: p, content: m[2] }));
      return { text: `wrote ${m[1]}` };
    }, p));
  }
  if ((m = /read\b.*?file\s+["'`]?([^\s"'`?]+)/is.exec(text))) {
    if (!client?.fs?.readTextFile) return t.text("Your editor does not let me read files.");
    const p = resolve(s.cwd, m[1]);
    return t.text(await t.tool(`Read ${m[1]}`, "read", { path: p }, async () => ({ text: (await t.until(cx.request("fs/read_text_file", { sessionId: s.id, path: p, line: 1, limit: 2000 }))).content }), p));
  }
  if (/\btool\b/.test(text) && (m = /(?:call|use)\b(?: the)?(?: mcp)?(?: tool)?(?: named| called)?\s+["'`]?([\w.-]+)/i.exec(text))) {
    const srv = s.mcp.find((x) => x.tools.some((y) => y.name === m[1]));
    if (!srv) return t.text(`There is no tool ${m[1]} here.`);
    return t.text(await t.tool(m[1], "other", {}, async () => {
      const j = /\{.*\}/s.exec(text);
      const r = await t.until(srv.call("tools/call", { name: m[1], arguments: j ? JSON.parse(j[0]) : {} }));
      const text2 = (r.content ?? []).map((c) => c.text ?? "").join(" ");
      if (r.isError) throw new Error(text2);
      return { text: text2 };
    }));
  }
  if ((m = /switch (?:to )?(?:the )?(small|large)/i.exec(text))) {
    s.model = m[1].toLowerCase();
    await t.emit({ sessionUpdate: "config_option_update", configOptions: optionsOf(s) });
    return t.text(`Now the ${s.model} wren speaks.`);
  }
  s.said.push(text);
  return t.text(s.said.length > 1 ? `Before that you said: ${s.said.at(-2)}. Now: ${text}` : `Wren listens: ${text}`);
}

const get = (id) => {
  const s = sessions.get(id);
  if (!s) throw new RequestError(-32002, "Session not found", { sessionId: id });
  return s;
};

const conn = agent({ name: "wren" })
  .onRequest("initialize", ({ params }) => {
    client = params.clientCapabilities ?? {};
    return {
      protocolVersion: 1,
      agentInfo: { name: "wren", title: "Wren", version: "0.9.0" },
      agentCapabilities: {
        loadSession: false, promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: false, sse: false }, sessionCapabilities: {}, auth: { logout: {} },
      },
      authMethods: [
        { id: "wren-login", name: "Wren account", description: "Uses the account of this machine" },
        ...(client.auth?.terminal === true ? [{ type: "terminal", id: "wren-terminal", name: "Log in by terminal", args: ["--login"] }] : []),
      ],
    };
  })
  .onRequest("session/prompt", async ({ params, client: cx, signal }) => {
    const s = get(params.sessionId);
    if (s.turn) throw new RequestError(-32600, "This session is busy");
    const t = (s.turn = new Turn(s, cx, signal));
    const text = params.prompt.map((b) => (b.type === "text" ? b.text : b.type === "resource_link" ? `<${b.uri}>` : `[${b.type}]`)).join(" ").trim();
    let stopReason = "end_turn";
    try {
      await think(t, text);
      s.used += text.length + 100;
      await t.emit({ sessionUpdate: "usage_update", used: s.used, size: 100000, cost: { amount: s.used / 1e6, currency: "USD" } });
    } catch (e) {
      if (!(e instanceof Stop)) throw e;
    } finally {
      s.turn = null;
    }
    if (t.ac.signal.aborted) stopReason = "cancelled";
    if (t.byRequest) throw new RequestError(-32800, "Request cancelled");
    for (const f of t.late) setTimeout(f, 60);
    return { stopReason };
  })
  .onRequest("session/new", async ({ params }) => {
    if (!loggedIn) throw new RequestError(-32000, "Authentication required");
    if (!isAbsolute(params.cwd)) throw new RequestError(-32602, "cwd must be absolute");
    if ((params.mcpServers ?? []).some((m) => !("command" in m))) throw new RequestError(-32602, "Only stdio MCP servers are supported");
    const s = { id: `wren_${crypto.randomUUID()}`, cwd: params.cwd, model: "small", loud: false, said: [], calls: 0, used: 0, mcp: [], turn: null };
    for (const spec of params.mcpServers ?? []) {
      try { s.mcp.push(await mcpConnect(spec, params.cwd)); } catch (e) { console.error("mcp:", e.message); }
    }
    sessions.set(s.id, s);
    return { sessionId: s.id, configOptions: optionsOf(s) };
  })
  .onRequest("session/set_config_option", ({ params }) => {
    const s = get(params.sessionId);
    const o = optionsOf(s).find((x) => x.id === params.configId);
    if (!o) throw new RequestError(-32602, "Unknown option");
    if (o.type === "boolean" ? typeof params.value !== "boolean" : !o.options.some((x) => x.value === params.value)) throw new RequestError(-32602, "Unknown value");
    s[params.configId] = params.value;
    return { configOptions: optionsOf(s, FAULT === "wren-bool-in-answer") };
  })
  .onRequest("authenticate", ({ params }) => {
    if (FAULT === "wren-failed-login-opens") loggedIn = true;
    if (params.methodId !== "wren-login") throw new RequestError(-32602, "Unknown authentication method");
    loggedIn = true;
    return {};
  })
  .onRequest("logout", () => { loggedIn = false; return {}; })
  .onNotification("session/cancel", ({ params }) => { sessions.get(params.sessionId)?.turn?.ac.abort(); })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await conn.closed;
for (const s of sessions.values()) for (const m of s.mcp) m.proc.kill();
process.exit(0);
