// MCP client of Gull: stdio children and streamable HTTP.
"use strict";
const { spawn } = require("node:child_process");

const VERSION = "2025-06-18";
const INFO = { name: "gull", version: "4.2.0" };

class Stdio {
  constructor(spec, cwd) {
    this.next = 1;
    this.waiting = new Map();
    const env = { ...process.env };
    delete env.FAULT;
    for (const { name, value } of spec.env ?? []) env[name] = value;
    this.child = spawn(spec.command, spec.args ?? [], { cwd, env, stdio: ["pipe", "pipe", "ignore"] });
    this.child.on("error", (e) => this.fail(e));
    this.child.on("exit", () => this.fail(new Error("MCP server exited")));
    this.child.stdin.on("error", () => {});
    let rest = "";
    this.child.stdout.setEncoding("utf8");
    this.child.stdout.on("data", (d) => {
      rest += d;
      for (let i; (i = rest.indexOf("\n")) >= 0; rest = rest.slice(i + 1)) this.line(rest.slice(0, i));
    });
  }
  line(text) {
    let m;
    try { m = JSON.parse(text); } catch { return; }
    if (m.method && m.id !== undefined) {
      this.write(m.method === "ping" ? { jsonrpc: "2.0", id: m.id, result: {} }
        : { jsonrpc: "2.0", id: m.id, error: { code: -32601, message: "Method not found" } });
    } else if (m.id !== undefined) {
      const w = this.waiting.get(m.id);
      this.waiting.delete(m.id);
      if (m.error) w?.reject(new Error(m.error.message)); else w?.resolve(m.result);
    }
  }
  write(m) { if (this.child.stdin.writable) this.child.stdin.write(JSON.stringify(m) + "\n"); }
  fail(e) { for (const w of this.waiting.values()) w.reject(e); this.waiting.clear(); this.dead = e; }
  request(method, params) {
    if (this.dead) return Promise.reject(this.dead);
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.write({ jsonrpc: "2.0", id, method, params });
    });
  }
  notify(method) { this.write({ jsonrpc: "2.0", method }); return Promise.resolve(); }
  stop() {
    this.child.stdin.end();
    this.child.kill("SIGTERM");
    setTimeout(() => { if (this.child.exitCode === null) this.child.kill("SIGKILL"); }, 500).unref();
  }
}

class Http {
  constructor(spec) {
    this.url = spec.url;
    this.next = 1;
    this.headers = Object.fromEntries((spec.headers ?? []).map((h) => [h.name, h.value]));
  }
  head() {
    const h = { "content-type": "application/json", accept: "application/json, text/event-stream", ...this.headers };
    if (this.sid) h["mcp-session-id"] = this.sid;
    if (this.ready) h["mcp-protocol-version"] = this.ready;
    return h;
  }
  async post(body) {
    const r = await fetch(this.url, { method: "POST", headers: this.head(), body: JSON.stringify(body) });
    if (!r.ok) throw new Error(`MCP server answered HTTP ${r.status}`);
    this.sid = r.headers.get("mcp-session-id") ?? this.sid;
    return r;
  }
  async request(method, params) {
    const id = this.next++;
    const r = await this.post({ jsonrpc: "2.0", id, method, params });
    const found = (m) => {
      if (m.id !== id || m.method) return;
      if (m.error) throw new Error(m.error.message);
      if (method === "initialize") this.ready = m.result?.protocolVersion;
      return { value: m.result };
    };
    if (!(r.headers.get("content-type") ?? "").includes("event-stream")) return found(await r.json())?.value;
    let rest = "";
    for await (const piece of r.body.pipeThrough(new TextDecoderStream())) {
      rest += piece.replaceAll("\r\n", "\n");
      for (let i; (i = rest.indexOf("\n\n")) >= 0; ) {
        const data = rest.slice(0, i).split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trim()).join("\n");
        rest = rest.slice(i + 2);
        const hit = data && found(JSON.parse(data));
        if (hit) return hit.value;
      }
    }
    throw new Error("MCP stream ended without an answer");
  }
  async notify(method) { await this.post({ jsonrpc: "2.0", method }); }
  stop() { if (this.sid) fetch(this.url, { method: "DELETE", headers: this.head() }).catch(() => {}); }
}

const within = (ms, p) => Promise.race([p, new Promise((_, no) => setTimeout(() => no(new Error("MCP server is too slow")), ms).unref())]);

/** Connect to one server; never throws, a broken server is kept with its error. */
async function connectMcp(spec, cwd) {
  const server = { name: spec.name, tools: [], error: null, wire: null };
  try {
    server.wire = spec.type === "http" ? new Http(spec) : new Stdio(spec, cwd);
    await within(6000, (async () => {
      await server.wire.request("initialize", { protocolVersion: VERSION, capabilities: {}, clientInfo: INFO });
      await server.wire.notify("notifications/initialized");
      server.tools = (await server.wire.request("tools/list", {}))?.tools ?? [];
    })());
  } catch (e) {
    server.error = e.message;
    console.error(`gull: MCP server ${spec.name}: ${e.message}`);
  }
  return server;
}

async function callTool(server, tool, args) {
  const r = await within(60000, server.wire.request("tools/call", { name: tool, arguments: args }));
  const text = (r?.content ?? []).map((c) => (c.type === "text" ? c.text : `[${c.type}]`)).join("\n");
  return { text: text || JSON.stringify(r?.structuredContent ?? null), failed: r?.isError === true };
}
module.exports = { connectMcp, callTool };
