// fifth-plover: an ACP agent on the official TypeScript SDK. This module is the wire: it registers the
// methods, checks what comes in, and hands the work to the sessions.
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";
import { Session } from "./session.mjs";
import { store } from "./store.mjs";

const AUTH = "nest-handshake";
const PAGE = 25;
const peer = { client: undefined, capabilities: {}, active: new Map() };
let loggedIn = false;

// ---- the stream: ids of our own as strings, strict order, a patient end -----------------------------
// The SDK dispatches each message over many microtasks, so that a later message may overtake an earlier one.
// Here each message gets the floor for itself. Params that are no structure are refused, which the SDK omits.
function wrap(inner) {
  const out = inner.writable.getWriter();
  const open = new Set(); // requests of the client without an answer yet
  const ownId = (id) => `plover:${id}`;
  const readable = inner.readable.pipeThrough(new TransformStream({
    async transform(message, next) {
      if (message.method === undefined && typeof message.id === "string" && message.id.startsWith("plover:")) next.enqueue({ ...message, id: Number(message.id.slice(7)) });
      else if (message.jsonrpc === "2.0" && typeof message.method === "string" && message.params !== undefined && message.params !== null && typeof message.params !== "object") {
        const { code, message: text } = RequestError.invalidRequest(undefined, "params must be an object");
        if ("id" in message) await out.write({ jsonrpc: "2.0", id: ["string", "number"].includes(typeof message.id) ? message.id : null, error: { code, message: text } });
      } else {
        if (message.method !== undefined && "id" in message) open.add(message.id);
        next.enqueue(message);
      }
      await new Promise(setImmediate);
    },
    // End of input: what runs is stopped and answered, then the connection closes and the process ends.
    async flush() {
      await Promise.all([...peer.active.values()].map((s) => s.close("end")));
      for (let i = 0; i < 100 && open.size; i++) await new Promise((r) => setTimeout(r, 20));
    },
  }));
  const writable = new WritableStream({
    write(message) {
      if (message.method === undefined) open.delete(message.id);
      else if ("id" in message) return out.write({ ...message, id: ownId(message.id) });
      else if (message.method === "$/cancel_request") return out.write({ ...message, params: { ...message.params, requestId: ownId(message.params.requestId) } });
      return out.write(message);
    },
  });
  return { readable, writable };
}

// ---- checks -----------------------------------------------------------------------------------------
const gate = () => { if (!loggedIn) throw RequestError.authRequired(); };
function live(sessionId) {
  const s = peer.active.get(sessionId);
  if (!s || s.closed) throw RequestError.sessionNotFound(sessionId);
  return s;
}
function checkSetup({ cwd, mcpServers }) {
  if (!path.isAbsolute(cwd)) throw RequestError.invalidParams({ cwd }, "cwd must be an absolute path");
  for (const server of mcpServers ?? []) {
    if (server.type === "sse") throw RequestError.invalidParams({ name: server.name }, "SSE servers are not supported");
    if (server.type === "http" && !URL.canParse(server.url)) throw RequestError.invalidParams({ name: server.name }, "the url of this server is not valid");
  }
}
const bringing = new Map(); // one load or resume of a session at a time
function bring(params) {
  const mine = (bringing.get(params.sessionId) ?? Promise.resolve()).catch(() => {}).then(() => fetchSession(params));
  bringing.set(params.sessionId, mine);
  return mine.finally(() => { if (bringing.get(params.sessionId) === mine) bringing.delete(params.sessionId); });
}
async function fetchSession({ sessionId, cwd, mcpServers }) {
  const before = peer.active.get(sessionId);
  const meta = before && !before.closed ? before : store.meta(sessionId);
  if (!meta) throw RequestError.sessionNotFound(sessionId);
  if (before) await before.close("reload");
  const session = Session.restore(peer, store.meta(sessionId), cwd);
  peer.active.set(sessionId, session);
  await session.open(mcpServers ?? []);
  return session;
}

// ---- methods ----------------------------------------------------------------------------------------
const app = agent({ name: "fifth-plover" })
  .onRequest(methods.agent.initialize, ({ params, client }) => {
    peer.client = client;
    peer.capabilities = params.clientCapabilities ?? {};
    return {
      protocolVersion: 1,
      agentInfo: { name: "fifth-plover", title: "Fifth Plover", version: "0.3.1" },
      authMethods: [{ id: AUTH, name: "Nest handshake", description: "Opens the nest; nothing has to be typed" }],
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: true, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
        auth: { logout: {} },
      },
    };
  })
  .onRequest(methods.agent.authenticate, ({ params }) => {
    if (params.methodId !== AUTH) throw RequestError.invalidParams({ methodId: params.methodId }, "there is no such login method");
    loggedIn = true;
    return {};
  })
  .onRequest(methods.agent.logout, () => { loggedIn = false; return {}; })
  .onRequest(methods.agent.session.new, async ({ params }) => {
    checkSetup(params);
    gate();
    const session = Session.fresh(peer, params.cwd);
    peer.active.set(session.sessionId, session);
    await session.open(params.mcpServers);
    session.afterwards();
    return { sessionId: session.sessionId, ...session.state };
  })
  .onRequest(methods.agent.session.load, async ({ params }) => {
    checkSetup(params);
    gate();
    const session = await bring(params);
    session.replay();
    session.notify(session.usage());
    session.afterwards();
    return session.state;
  })
  .onRequest(methods.agent.session.resume, async ({ params }) => {
    checkSetup(params);
    gate();
    const session = await bring(params);
    session.afterwards();
    return session.state;
  })
  .onRequest(methods.agent.session.list, ({ params }) => {
    gate();
    let all = store.all();
    if (params.cwd != null) all = all.filter((m) => m.cwd === params.cwd);
    if (params.cursor != null) {
      const mark = Buffer.from(params.cursor, "base64url").toString().match(/^after (\d+) (\S+)$/);
      if (!mark || Buffer.from(mark[0]).toString("base64url") !== params.cursor) throw RequestError.invalidParams(undefined, "this cursor is not valid");
      all = all.filter((m) => m.createdAt < +mark[1] || (m.createdAt === +mark[1] && m.sessionId > mark[2]));
    }
    const page = all.slice(0, PAGE), last = page[page.length - 1];
    return {
      sessions: page.map(({ sessionId, cwd, title, updatedAt }) => ({ sessionId, cwd, ...(title && { title }), updatedAt: new Date(updatedAt).toISOString() })),
      ...(all.length > PAGE && { nextCursor: Buffer.from(`after ${last.createdAt} ${last.sessionId}`).toString("base64url") }),
    };
  })
  .onRequest(methods.agent.session.delete, async ({ params }) => {
    gate();
    const session = peer.active.get(params.sessionId);
    if (session) { session.deleted = true; await session.close("delete"); }
    store.remove(params.sessionId);
    return {};
  })
  .onRequest(methods.agent.session.close, async ({ params }) => {
    const session = peer.active.get(params.sessionId);
    if (session) await session.close();
    else if (!store.meta(params.sessionId)) throw RequestError.sessionNotFound(params.sessionId);
    return {};
  })
  .onRequest(methods.agent.session.setMode, ({ params }) => { live(params.sessionId).setMode(params.modeId, "mode"); return {}; })
  .onRequest(methods.agent.session.setConfigOption, ({ params }) => ({ configOptions: live(params.sessionId).setOption(params.configId, params.value) }))
  .onRequest(methods.agent.session.prompt, ({ params, signal }) => live(params.sessionId).prompt(params.prompt, signal))
  .onNotification(methods.agent.session.cancel, ({ params }) => { peer.active.get(params.sessionId)?.cancel(); });

// ---- start and end ----------------------------------------------------------------------------------
function leave(code) {
  for (const s of peer.active.values()) {
    for (const m of s.mcp) m.stopNow();
    for (const child of s.commands) try { process.kill(-child.pid, "SIGKILL"); } catch { /* already gone */ }
  }
  process.exit(code);
}
process.on("uncaughtException", (e) => { console.error("unexpected:", e); if (e.code === "EPIPE") leave(0); });
process.on("unhandledRejection", (e) => console.error("unexpected:", e?.message ?? e));
for (const name of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(name, () => leave(0));
process.stdout.on("error", () => leave(0));

const connection = app.connect(wrap(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin))));
await connection.closed;
leave(0);
