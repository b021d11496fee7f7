// A small hand-written MCP client: stdio (newline-delimited JSON) and streamable HTTP.
import { spawn } from "node:child_process";

const VERSION = "2025-06-18";

class McpClient {
  constructor(config) { this.config = config; this.name = config.name; this.tools = []; this.nextId = 1; this.state = "starting"; }
  async handshake() {
    const hello = await this.request("initialize", { protocolVersion: VERSION, capabilities: {}, clientInfo: { name: "fifth-plover", version: "0.3.1" } });
    this.version = hello?.protocolVersion ?? VERSION;
    await this.notify("notifications/initialized");
    let cursor;
    do {
      const page = await this.request("tools/list", cursor ? { cursor } : {});
      this.tools.push(...(page?.tools ?? []));
      cursor = page?.nextCursor;
    } while (cursor && this.tools.length < 2000);
    this.state = "ready";
  }
  call(tool, args, signal) { return this.request("tools/call", { name: tool, arguments: args }, signal); }
}

export class StdioMcp extends McpClient {
  constructor(config, cwd) {
    super(config);
    this.pending = new Map();
    const env = { ...process.env };
    for (const { name, value } of config.env ?? []) env[name] = value;
    this.child = spawn(config.command, config.args ?? [], { cwd, env, stdio: ["pipe", "pipe", "pipe"], detached: true });
    this.gone = new Promise((resolve) => {
      this.child.once("exit", resolve);
      this.child.once("error", resolve);
    });
    this.child.once("error", (e) => this.fail(e));
    this.child.once("exit", (code, signal) => this.fail(new Error(`the server ended (${signal ?? code})`)));
    this.child.stdin.on("error", () => {});
    this.child.stderr.resume();
    let rest = "";
    this.child.stdout.setEncoding("utf8");
    this.child.stdout.on("data", (piece) => {
      const lines = (rest + piece).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        let message;
        try { message = JSON.parse(line); } catch { continue; }
        this.receive(message);
      }
    });
  }
  receive(message) {
    if (!message || typeof message !== "object") return;
    if (message.method !== undefined) {
      if (message.id === undefined) return;
      this.send(message.method === "ping" ? { jsonrpc: "2.0", id: message.id, result: {} }
        : { jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "Method not found" } });
      return;
    }
    const waiting = this.pending.get(message.id);
    if (!waiting) return;
    this.pending.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error.message ?? "MCP error"));
    else waiting.resolve(message.result);
  }
  fail(error) {
    this.state = "gone";
    for (const w of this.pending.values()) w.reject(error);
    this.pending.clear();
  }
  send(message) { if (this.child.stdin.writable) this.child.stdin.write(JSON.stringify(message) + "\n"); }
  request(method, params, signal) {
    if (this.state === "gone") return Promise.reject(new Error("the server is not running"));
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.pending.delete(id);
        this.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id, reason: "cancelled" } });
        reject(new Error("cancelled"));
      };
      if (signal?.aborted) { reject(new Error("cancelled")); return; }
      signal?.addEventListener("abort", stop, { once: true });
      const done = (f) => (v) => { signal?.removeEventListener("abort", stop); f(v); };
      this.pending.set(id, { resolve: done(resolve), reject: done(reject) });
      this.send({ jsonrpc: "2.0", id, method, params });
    });
  }
  async notify(method) { this.send({ jsonrpc: "2.0", method }); }
  // Ends the server and everything it started: end of input first, then a friendly and an unfriendly signal.
  async stop() {
    this.fail(new Error("the server was stopped"));
    const tell = (sig) => { try { process.kill(-this.child.pid, sig); } catch { /* already gone */ } };
    this.child.stdin.end();
    if (this.child.pid === undefined) return;
    if (await within(this.gone, 150)) { tell("SIGKILL"); return; }
    tell("SIGTERM");
    if (!(await within(this.gone, 400))) { tell("SIGKILL"); await within(this.gone, 500); }
  }
  stopNow() { try { process.kill(-this.child.pid, "SIGKILL"); } catch { /* already gone */ } }
}

export class HttpMcp extends McpClient {
  headers() {
    const h = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    for (const { name, value } of this.config.headers ?? []) h[name] = value;
    if (this.sessionId) h["mcp-session-id"] = this.sessionId;
    if (this.version) h["mcp-protocol-version"] = this.version;
    return h;
  }
  async request(method, params, signal) {
    const id = this.nextId++;
    const limit = AbortSignal.timeout(method === "tools/call" ? 300_000 : 10_000);
    const answer = await fetch(this.config.url, { method: "POST", headers: this.headers(), signal: signal ? AbortSignal.any([signal, limit]) : limit,
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params }) });
    if (!answer.ok) { await answer.body?.cancel(); throw new Error(`HTTP ${answer.status}`); }
    this.sessionId = answer.headers.get("mcp-session-id") ?? this.sessionId;
    const found = (answer.headers.get("content-type") ?? "").includes("text/event-stream") ? await this.fromEvents(answer, id) : await answer.json();
    const message = Array.isArray(found) ? found.find((m) => m.id === id) : found;
    if (!message) throw new Error("no answer");
    if (message.error) throw new Error(message.error.message ?? "MCP error");
    return message.result;
  }
  async fromEvents(answer, id) {
    let rest = "";
    const decoder = new TextDecoder();
    for await (const piece of answer.body) {
      rest += decoder.decode(piece, { stream: true }).replace(/\r\n/g, "\n");
      let cut;
      while ((cut = rest.indexOf("\n\n")) >= 0) {
        const data = rest.slice(0, cut).split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).replace(/^ /, "")).join("\n");
        rest = rest.slice(cut + 2);
        try { const m = JSON.parse(data); if (m.id === id && m.method === undefined) return m; } catch { /* not for us */ }
      }
    }
    return undefined;
  }
  async notify(method) {
    const answer = await fetch(this.config.url, { method: "POST", headers: this.headers(), signal: AbortSignal.timeout(10_000), body: JSON.stringify({ jsonrpc: "2.0", method }) });
    await answer.body?.cancel();
  }
  async stop() {
    this.state = "gone";
    if (!this.sessionId) return;
    try { await (await fetch(this.config.url, { method: "DELETE", headers: this.headers(), signal: AbortSignal.timeout(500) })).body?.cancel(); } catch { /* it may be down */ }
  }
  stopNow() {}
}

export function startMcp(config, cwd) {
  const client = config.type === "http" ? new HttpMcp(config) : new StdioMcp(config, cwd);
  client.ready = client.handshake().catch((e) => { client.state = "gone"; client.trouble = e.message; });
  return client;
}

// True when the promise settles within the given time.
export function within(promise, ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    promise.then(() => { clearTimeout(timer); resolve(true); }, () => { clearTimeout(timer); resolve(true); });
  });
}
