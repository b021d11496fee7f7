// A little MCP client for stdio and streamable HTTP servers.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

const HELLO = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "seventh-jackdaw", version: "7.2.0" } };
export const running = new Set();

class Base {
  tools = [];
  state = "new";
  n = 0;
  constructor(spec, cwd) { this.spec = spec; this.cwd = cwd; this.name = spec.name; }
  async start() {
    await this.open();
    await this.request("initialize", HELLO);
    await this.tell("notifications/initialized");
    let cursor;
    for (let page = 0; page < 20; page++) {
      const got = await this.request("tools/list", cursor ? { cursor } : {});
      this.tools.push(...(got?.tools ?? []).filter((t) => typeof t?.name === "string").map((t) => ({ ...t, server: this.name, link: this })));
      cursor = got?.nextCursor;
      if (!cursor) break;
    }
    this.state = "listed";
  }
  async call(name, args, signal) {
    this.state = "called";
    return this.request("tools/call", { name, arguments: args }, signal);
  }
}

class Stdio extends Base {
  waiting = new Map();
  async open() {
    const env = { ...process.env };
    for (const e of this.spec.env) env[e.name] = e.value;
    this.child = spawn(this.spec.command, this.spec.args, { env, cwd: existsSync(this.cwd) ? this.cwd : undefined, stdio: ["pipe", "pipe", "ignore"], detached: true });
    running.add(this);
    this.child.stdin.on("error", () => {});
    this.gone = new Promise((done) => {
      const end = (why) => {
        for (const w of this.waiting.values()) w.bad(new Error(`MCP server ${this.name}: ${why}`));
        this.waiting.clear(); this.dead = why; running.delete(this); done();
      };
      this.child.on("error", (e) => end(e.message));
      this.child.on("exit", () => end("it has ended"));
    });
    let rest = "";
    this.child.stdout.setEncoding("utf8").on("data", (d) => {
      const lines = (rest + d).split("\n");
      rest = lines.pop();
      for (const l of lines) { try { this.got(JSON.parse(l)); } catch { /* not a message */ } }
    });
  }
  got(m) {
    if (m.method !== undefined) {
      if (m.id !== undefined) this.put(m.method === "ping" ? { id: m.id, result: {} } : { id: m.id, error: { code: -32601, message: "Method not found" } });
      return;
    }
    const w = this.waiting.get(m.id);
    this.waiting.delete(m.id);
    if (w) m.error ? w.bad(new Error(m.error.message ?? "MCP error")) : w.ok(m.result);
  }
  put(m) { this.child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n"); }
  request(method, params, signal) {
    if (this.dead) return Promise.reject(new Error(`MCP server ${this.name}: ${this.dead}`));
    const id = ++this.n;
    return new Promise((ok, bad) => {
      this.waiting.set(id, { ok, bad });
      signal?.addEventListener("abort", () => {
        if (this.waiting.delete(id)) { this.put({ method: "notifications/cancelled", params: { requestId: id, reason: "cancelled" } }); bad(signal.reason); }
      }, { once: true });
      this.put({ id, method, params });
    });
  }
  tell(method) { this.put({ method }); }
  kill(sig = "SIGKILL") { if (this.child?.pid && !this.dead) { try { process.kill(-this.child.pid, sig); } catch { /* gone */ } } }
  async stop() {
    if (!this.child) return;
    this.child.stdin.end();
    for (const [ms, sig] of [[300, "SIGTERM"], [700, "SIGKILL"], [1000, null]]) {
      const gone = await Promise.race([this.gone.then(() => true), new Promise((r) => setTimeout(r, ms, false))]);
      if (gone) break;
      if (sig) this.kill(sig);
    }
  }
}

class Http extends Base {
  open() {}
  async post(msg, signal, method = "POST") {
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    if (this.session) headers["mcp-session-id"] = this.session;
    if (this.version) headers["mcp-protocol-version"] = this.version;
    for (const h of this.spec.headers) headers[h.name] = h.value;
    const res = await fetch(this.spec.url, { method, headers, body: msg && JSON.stringify({ jsonrpc: "2.0", ...msg }), signal });
    this.session = res.headers.get("mcp-session-id") ?? this.session;
    if (!res.ok) throw new Error(`HTTP status ${res.status}`);
    if (msg?.id === undefined) { await res.body?.cancel(); return undefined; }
    if (!(res.headers.get("content-type") ?? "").includes("event-stream")) return res.json();
    let rest = "";
    const text = new TextDecoder();
    for await (const part of res.body) {
      rest = (rest + text.decode(part, { stream: true })).replace(/\r\n/g, "\n");
      for (let i; (i = rest.indexOf("\n\n")) >= 0; ) {
        const data = rest.slice(0, i).split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
        rest = rest.slice(i + 2);
        if (!data) continue;
        const m = JSON.parse(data);
        if (m.id === msg.id && m.method === undefined) return m;
      }
    }
    throw new Error("the event stream ended early");
  }
  async request(method, params, signal) {
    const m = await this.post({ id: ++this.n, method, params }, signal ?? AbortSignal.timeout(60000));
    if (m.error) throw new Error(m.error.message ?? "MCP error");
    if (method === "initialize") this.version = m.result?.protocolVersion ?? HELLO.protocolVersion;
    return m.result;
  }
  tell(method) { return this.post({ method }); }
  kill() {}
  async stop() { if (this.session) await this.post(undefined, AbortSignal.timeout(1000), "DELETE").catch(() => {}); }
}

export async function connect(spec, cwd) {
  const link = spec.type === "http" ? new Http(spec, cwd) : new Stdio(spec, cwd);
  let timer;
  try {
    await Promise.race([link.start(), new Promise((_, bad) => { timer = setTimeout(() => bad(new Error("no answer for 10 seconds")), 10000); })]);
  } catch (e) {
    link.failed = String(e?.message ?? e);
    link.kill();
  } finally { clearTimeout(timer); }
  return link;
}
