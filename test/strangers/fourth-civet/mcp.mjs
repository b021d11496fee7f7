// A small MCP client: stdio, streamable HTTP and the older HTTP+SSE transport,
// with nothing but Node's standard library.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";

const PROTOCOL = "2025-06-18";
const groups = new Set(); // process groups of stdio servers that are still running

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const killGroup = (pid, signal) => {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone already.
  }
};
process.on("exit", () => groups.forEach((pid) => killGroup(pid, "SIGKILL")));

/** Splits a text/event-stream body into {event, data} records. */
async function* serverSentEvents(body) {
  const decoder = new TextDecoder();
  let buffer = "";
  for await (const bytes of body) {
    buffer = (buffer + decoder.decode(bytes, { stream: true })).replace(/\r\n/g, "\n");
    for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
      const record = { event: "message", data: [] };
      for (const line of buffer.slice(0, end).split("\n")) {
        const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
        if (field === "event") record.event = value;
        if (field === "data") record.data.push(value);
      }
      yield { event: record.event, data: record.data.join("\n") };
    }
  }
}

/** JSON-RPC bookkeeping shared by the three transports. */
class Peer {
  nextId = 1;
  pending = new Map();
  send = async () => {};
  close = async () => {};

  request(method, params, { signal, timeout = 60_000 } = {}) {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      const settle = (finish, value) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.pending.delete(id);
        finish(value);
      };
      const onAbort = () => {
        this.notify("notifications/cancelled", { requestId: id }).catch(() => {});
        settle(reject, new Error("cancelled"));
      };
      const timer = setTimeout(() => settle(reject, new Error(`${method} timed out`)), timeout);
      this.pending.set(id, { resolve: (v) => settle(resolve, v), reject: (e) => settle(reject, e) });
      if (signal?.aborted) return onAbort();
      signal?.addEventListener("abort", onAbort);
      this.send({ jsonrpc: "2.0", id, method, params }).catch((e) => settle(reject, e));
    });
  }

  notify(method, params) {
    return this.send({ jsonrpc: "2.0", method, ...(params && { params }) });
  }

  receive(message) {
    if (Array.isArray(message)) return message.forEach((m) => this.receive(m));
    if (message?.method !== undefined) {
      if (message.id === undefined) return; // a notification
      const answer = message.method === "ping" ? { result: {} } : { error: { code: -32601, message: "Method not found" } };
      this.send({ jsonrpc: "2.0", id: message.id, ...answer }).catch(() => {});
      return;
    }
    const waiting = this.pending.get(message?.id);
    if (!waiting) return;
    if (message.error) waiting.reject(new Error(message.error.message ?? "MCP error"));
    else waiting.resolve(message.result);
  }

  receiveText(text) {
    try {
      this.receive(JSON.parse(text));
    } catch {
      // Not JSON: servers sometimes print banners.
    }
  }

  fail(error) {
    for (const waiting of [...this.pending.values()]) waiting.reject(error);
  }
}

function stdioPeer(server, cwd) {
  const peer = new Peer();
  const child = spawn(server.command, server.args, {
    cwd: existsSync(cwd) ? cwd : undefined,
    env: { ...process.env, ...Object.fromEntries(server.env.map(({ name, value }) => [name, value])) },
    stdio: ["pipe", "pipe", "ignore"],
    detached: true,
  });
  if (child.pid) groups.add(child.pid);
  const gone = new Promise((resolve) => {
    child.once("error", (error) => resolve(peer.fail(error)));
    child.once("exit", () => resolve(peer.fail(new Error("the MCP server has exited"))));
  });
  child.stdin.on("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => line.trim() && peer.receiveText(line));
  peer.send = async (message) => {
    if (!child.stdin.writable) throw new Error("the MCP server is not running");
    child.stdin.write(JSON.stringify(message) + "\n");
  };
  peer.close = async () => {
    child.stdin.end();
    for (const signal of ["SIGTERM", "SIGKILL"]) {
      if (await Promise.race([gone.then(() => true), sleep(300)])) break;
      killGroup(child.pid, signal);
    }
    if (child.pid) {
      killGroup(child.pid, "SIGKILL");
      groups.delete(child.pid);
    }
  };
  return peer;
}

const headersOf = (server) => Object.fromEntries(server.headers.map(({ name, value }) => [name, value]));

function httpPeer(server) {
  const peer = new Peer();
  const stop = new AbortController();
  const extra = {};
  peer.send = async (message) => {
    const response = await fetch(server.url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(peer.version && { "mcp-protocol-version": peer.version }),
        ...extra,
        ...headersOf(server),
      },
      body: JSON.stringify(message),
      signal: stop.signal,
    });
    const session = response.headers.get("mcp-session-id");
    if (session) extra["mcp-session-id"] = session;
    if (!response.ok) throw new Error(`the MCP server answered HTTP ${response.status}`);
    if (response.headers.get("content-type")?.includes("text/event-stream")) {
      (async () => {
        for await (const { data } of serverSentEvents(response.body)) peer.receiveText(data);
      })().catch((error) => peer.fail(error));
    } else {
      const text = await response.text();
      if (text.trim()) peer.receiveText(text);
    }
  };
  peer.close = async () => {
    stop.abort();
    if (!extra["mcp-session-id"]) return;
    const options = { method: "DELETE", headers: { ...extra, ...headersOf(server) }, signal: AbortSignal.timeout(500) };
    await fetch(server.url, options).catch(() => {});
  };
  return peer;
}

async function ssePeer(server) {
  const peer = new Peer();
  const stop = new AbortController();
  const headers = { accept: "text/event-stream", ...headersOf(server) };
  const stream = await fetch(server.url, { headers, signal: stop.signal });
  if (!stream.ok) throw new Error(`the MCP server answered HTTP ${stream.status}`);
  peer.close = async () => stop.abort();
  const endpoint = await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("no endpoint event")), 10_000).unref();
    (async () => {
      for await (const { event, data } of serverSentEvents(stream.body)) {
        if (event === "endpoint") resolve(new URL(data, server.url));
        else peer.receiveText(data);
      }
      throw new Error("the MCP server has closed its stream");
    })().catch((error) => (reject(error), peer.fail(error)));
  }).catch((error) => (stop.abort(), Promise.reject(error)));
  peer.send = async (message) => {
    const response = await fetch(endpoint, {
      method: "POST",
      headers: { "content-type": "application/json", ...headersOf(server) },
      body: JSON.stringify(message),
      signal: stop.signal,
    });
    await response.text();
    if (!response.ok) throw new Error(`the MCP server answered HTTP ${response.status}`);
  };
  return peer;
}

/** Opens one server and does the handshake; the caller must close() what it gets. */
export async function connectMcp(server, cwd, onPeer) {
  const peer = await (server.type === "http" ? httpPeer(server) : server.type === "sse" ? ssePeer(server) : stdioPeer(server, cwd));
  onPeer(peer);
  const clientInfo = { name: "fourth-civet", version: "1.0.0" };
  const hello = { protocolVersion: PROTOCOL, capabilities: {}, clientInfo };
  peer.version = (await peer.request("initialize", hello, { timeout: 15_000 }))?.protocolVersion;
  await peer.notify("notifications/initialized");
  const tools = [];
  let cursor;
  do {
    const page = await peer.request("tools/list", cursor ? { cursor } : {}, { timeout: 15_000 });
    tools.push(...(page?.tools ?? []));
    cursor = page?.nextCursor;
  } while (cursor);
  const call = (name, args, signal) => peer.request("tools/call", { name, arguments: args }, { signal, timeout: 300_000 });
  return { name: server.name, tools, call };
}
