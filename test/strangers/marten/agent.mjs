// Marten: an ACP agent on the official TypeScript SDK.
// Reads the disk itself, writes through the editor when the editor can, runs commands in the editor's terminal when it has one.
import { agent, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import { randomUUID, createHash } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { understand, toolArguments } from "./intents.mjs";
import { connectMcp, callTool } from "./mcp.mjs";

const FAULT = process.env.FAULT ?? "";
const M = methods.client;
const HOME = pickHome();
const sessions = new Map();
let caps = {};

function pickHome() {
  for (const base of [process.env.XDG_STATE_HOME, os.homedir(), os.tmpdir()]) {
    if (!base) continue;
    try { const d = path.join(base, ".marten"); fs.mkdirSync(d, { recursive: true }); fs.accessSync(d, fs.constants.W_OK); return d; } catch { /* next */ }
  }
  return os.tmpdir();
}

class Cancelled extends Error {}

// ---------------------------------------------------------------- sessions
class Session {
  constructor(id, cwd) {
    Object.assign(this, { id, cwd: path.resolve(cwd), turns: [], title: null, model: "marten-pine", talk: "normal", servers: [], always: new Set(), queue: Promise.resolve(), running: new Set(), used: 900 });
  }
  get file() { return path.join(HOME, this.id + ".json"); }
  save() {
    const { id, cwd, turns, title, model, talk, used } = this;
    try { fs.writeFileSync(this.file, JSON.stringify({ id, cwd, turns, title, model, talk, used })); } catch (e) { console.error("marten: cannot save:", e.message); }
  }
  static fromDisk(id, cwd) {
    if (!/^marten-[0-9a-f-]{36}$/.test(id)) return null;
    try {
      const s = new Session(id, cwd);
      const { turns, title, model, talk, used } = JSON.parse(fs.readFileSync(s.file, "utf8"));
      return Object.assign(s, { turns, title, model, talk, used });
    } catch { return null; }
  }
  async connect(specs) {
    this.servers.forEach((v) => v.wire?.stop());
    this.servers = await Promise.all((specs ?? []).map((v) => connectMcp(v, fs.existsSync(this.cwd) ? this.cwd : undefined)));
  }
  options() {
    return [
      { id: "brain", name: "Model", category: "model", type: "select", currentValue: this.model, options: [
        { group: "conifers", name: "Conifers", options: [{ value: "marten-pine", name: "Pine" }, { value: "marten-larch", name: "Larch", description: "Slower, more words" }] },
        { group: "broadleaf", name: "Broadleaf", options: [{ value: "marten-oak", name: "Oak" }] }] },
      { id: "talk", name: "Talkativeness", category: "_marten_talk", type: "select", currentValue: this.talk, options: [{ value: "terse", name: "Terse" }, { value: "normal", name: "Normal" }] },
    ];
  }
  stopTurns(upTo = Infinity) { for (const c of this.running) if (c.seen < upTo) c.abort(new Cancelled()); }
}

function need(id) {
  const s = sessions.get(id);
  if (!s) throw RequestError.sessionNotFound(id);
  return s;
}
function checkSetup({ cwd, mcpServers }) {
  if (!path.isAbsolute(cwd)) throw RequestError.invalidParams({ field: "cwd" }, "cwd has to be absolute");
  for (const v of mcpServers ?? []) if (v.type === "sse") throw RequestError.invalidParams({ server: v.name }, "SSE servers are not supported");
}

// ---------------------------------------------------------------- one turn
class Turn {
  constructor(session, client, signal) {
    Object.assign(this, { s: session, client, signal, said: "", messageId: randomUUID() });
  }
  send(update) { return this.client.notify(M.session.update, { sessionId: this.s.id, update }); }
  check() { if (this.signal.aborted) throw new Cancelled(); }
  sleep(ms) {
    return new Promise((ok, no) => {
      if (this.signal.aborted) return no(new Cancelled());
      const t = setTimeout(done, ms, ok);
      const stop = () => { clearTimeout(t); setTimeout(done, 60, () => no(new Cancelled())); };
      const me = this;
      function done(f) { me.signal.removeEventListener("abort", stop); f(); }
      this.signal.addEventListener("abort", stop, { once: true });
    });
  }
  async say(text, last = false) {
    if (!last) this.check();
    this.said += text;
    await this.send({ sessionUpdate: "agent_message_chunk", messageId: this.messageId, content: { type: "text", text } });
  }
  async think(text) { await this.send({ sessionUpdate: "agent_thought_chunk", messageId: "thought-" + this.messageId, content: { type: "text", text } }); }
  /** Speak a slow list of pieces; when interrupted, close the sentence before leaving. */
  async recite(pieces, ms) {
    try {
      for (const p of pieces) { await this.say(p); await this.sleep(ms); }
    } catch (e) {
      if (e instanceof Cancelled) await this.say(" … (stopped)", true);
      throw e;
    }
  }
  inside(file) {
    const p = path.resolve(this.s.cwd, file.replace(/^~(?=\/)/, os.homedir()));
    const ok = p === this.s.cwd || p.startsWith(this.s.cwd.replace(/\/$/, "") + path.sep);
    return [p, ok];
  }
  ask(params) {
    return this.client.request(M.session.requestPermission, params, { cancellationSignal: this.signal, stopWaitingOnCancel: true });
  }
  /** Report a tool call around `work`; ask first when `permission` names a class of action. */
  async tool({ title, kind, name, input, locations, preview, permission }, work) {
    const toolCallId = "tc-" + randomUUID().slice(0, 13);
    const update = (u) => this.send({ sessionUpdate: "tool_call_update", toolCallId, ...u });
    await this.send({ sessionUpdate: "tool_call", toolCallId, title, kind, name, status: "pending", rawInput: input, ...(locations && { locations }) });
    try {
      this.check();
      if (permission && !this.s.always.has(permission)) {
        const { outcome } = await this.ask({
          sessionId: this.s.id,
          toolCall: { toolCallId, title, kind, status: "pending", rawInput: input, ...(preview && { content: preview }), ...(locations && { locations }) },
          options: [
            { optionId: "no", name: "Leave it", kind: "reject_once" },
            { optionId: "yes", name: "Go ahead", kind: "allow_once" },
            { optionId: "yes-session", name: "Go ahead, and stop asking in this session", kind: "allow_always" },
          ],
        });
        if (outcome.outcome === "cancelled") throw new Cancelled();
        if (outcome.optionId === "yes-session") this.s.always.add(permission);
        else if (outcome.optionId !== "yes") {
          await update({ status: "failed", content: [text("The user said no.")] });
          return { refused: true };
        }
      }
      this.check();
      await update({ status: "in_progress" });
      const r = await work(update);
      await update({ status: r.failed ? "failed" : "completed", ...(r.content !== undefined && { content: r.content }), rawOutput: r.raw ?? null });
      if (this.signal.aborted) throw new Cancelled();
      return r;
    } catch (e) {
      if (e instanceof Cancelled || this.signal.aborted) {
        await update({ status: "failed", content: [text("Interrupted.")] });
        throw new Cancelled();
      }
      await update({ status: "failed", content: [text(e.message)], rawOutput: { error: e.message } });
      return { failed: true, error: e.message };
    }
  }

  async read(file) {
    const [p, ok] = this.inside(file);
    const r = await this.tool({ title: `Read ${path.basename(p)}`, kind: "read", name: "disk_read", input: { path: p }, locations: [{ path: p, line: 1 }] }, async () => {
      if (!ok) throw new Error("That file lies outside the workspace.");
      const body = await fs.promises.readFile(p, "utf8");
      return { body, raw: { bytes: Buffer.byteLength(body) }, content: [{ type: "content", content: { type: "resource", resource: { uri: "file://" + encodeURI(p), text: body, mimeType: "text/plain" } } }] };
    });
    if (r.failed) return this.say(`I could not read ${file}: ${r.error}`);
    await this.say(`Here is ${path.basename(p)}. `);
    await this.say(r.body.length > 4000 ? r.body.slice(0, 4000) + "…" : r.body);
  }
  async write(file, make) {
    const [p, ok] = this.inside(file);
    let before = null;
    if (!ok) {
      await this.tool({ title: `Write ${p}`, kind: "edit", name: "disk_write", input: { path: p }, locations: [{ path: p }] }, async () => { throw new Error("That file lies outside the workspace."); });
      return this.say("I only write inside the workspace.");
    }
    try { before = fs.readFileSync(p, "utf8"); } catch { /* new file */ }
    const after = make(before);
    if (after === null) return this.say(`I did not find that text in ${file}.`);
    const diff = [{ type: "diff", path: p, oldText: before, newText: after }];
    const r = await this.tool({ title: `${before === null ? "Create" : "Change"} ${path.basename(p)}`, kind: "edit", name: "disk_write", input: { path: p, length: after.length }, locations: [{ path: p }], preview: diff, permission: "edit" }, async () => {
      if (caps.fs?.writeTextFile === true) await this.client.request(M.fs.writeTextFile, { sessionId: this.s.id, path: p, content: after });
      else { await fs.promises.mkdir(path.dirname(p), { recursive: true }); await fs.promises.writeFile(p, after); }
      return { content: diff, raw: { written: p } };
    });
    await this.say(r.refused ? `All right, ${path.basename(p)} stays as it was.` : r.failed ? `Writing failed: ${r.error}` : `Done: ${path.basename(p)} is written.`);
  }
  async remove(file) {
    const [p, ok] = this.inside(file);
    const r = await this.tool({ title: `Delete ${path.basename(p)}`, kind: "delete", name: "disk_delete", input: { path: p }, locations: [{ path: p }], permission: "delete" }, async () => {
      if (!ok) throw new Error("That file lies outside the workspace.");
      await fs.promises.unlink(p);
      return { content: [text("Deleted.")] };
    });
    await this.say(r.refused ? "I left the file alone." : r.failed ? `Deleting failed: ${r.error}` : "The file is gone.");
  }
  async run(command) {
    const useClient = caps.terminal === true;
    const r = await this.tool({ title: command.length > 60 ? command.slice(0, 57) + "..." : command, kind: "execute", name: "shell", input: { command, cwd: this.s.cwd }, permission: "execute" }, (update) => useClient ? this.inTerminal(command, update) : this.bySelf(command));
    if (r.refused) return this.say("I did not run it.");
    if (r.error) return this.say(`The command could not be run: ${r.error}`);
    await this.say(`Exit status ${r.raw.exitCode ?? r.raw.signal}. Output:\n${r.output.slice(-4000)}`);
  }
  async inTerminal(command, update) {
    const sessionId = this.s.id;
    const { terminalId } = await this.client.request(M.terminal.create, { sessionId, command: "/bin/sh", args: ["-c", command], cwd: this.s.cwd, env: [{ name: "MARTEN", value: "1" }], outputByteLimit: 65536 });
    const t = { sessionId, terminalId };
    let killed = false;
    try {
      await update({ content: [{ type: "terminal", terminalId }] });
      const exit = this.client.request(M.terminal.waitForExit, t);
      const stop = new Promise((_, no) => this.signal.aborted ? no(new Cancelled()) : this.signal.addEventListener("abort", () => no(new Cancelled()), { once: true }));
      stop.catch(() => {}); exit.catch(() => {});
      let status;
      try { status = await Promise.race([exit, stop]); } catch (e) {
        if (!(e instanceof Cancelled)) throw e;
        killed = true;
        await patience(this.client.request(M.terminal.kill, t));
        throw e;
      }
      const { output } = await this.client.request(M.terminal.output, t);
      return { output, failed: status.exitCode !== 0, raw: { exitCode: status.exitCode ?? null, signal: status.signal ?? null } };
    } finally {
      if (!(killed && FAULT === "marten-kill-no-release")) await patience(this.client.request(M.terminal.release, t));
    }
  }
  bySelf(command) {
    return new Promise((ok, no) => {
      const child = spawn("/bin/sh", ["-c", command], { cwd: this.s.cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
      let output = "";
      const kill = () => { try { process.kill(-child.pid, "SIGKILL"); } catch { /* gone */ } };
      this.signal.addEventListener("abort", kill, { once: true });
      for (const s of [child.stdout, child.stderr]) s.setEncoding("utf8").on("data", (d) => { output = (output + d).slice(-65536); });
      child.on("error", no);
      child.on("close", (exitCode, signal) => {
        this.signal.removeEventListener("abort", kill);
        if (this.signal.aborted) return no(new Cancelled());
        ok({ output, failed: exitCode !== 0, raw: { exitCode, signal }, content: [text(output || "(no output)")] });
      });
    });
  }
  async mcp(wanted, prompt) {
    const all = this.s.servers.flatMap((v) => v.tools.map((t) => [v, t]));
    const named = all.filter(([v]) => prompt.toLowerCase().includes(v.name.toLowerCase()));
    const [server, tool] = (wanted && (named.find(([, t]) => t.name === wanted) ?? all.find(([, t]) => t.name === wanted))) || (wanted === null && named.length === 1 && named[0]) || [];
    if (!tool) return this.say(all.length ? `I have these tools: ${all.map(([v, t]) => `${t.name} (${v.name})`).join(", ")}.` : "No MCP tools are connected in this session.");
    const args = toolArguments(prompt, tool.inputSchema, tool.name, server.name);
    const r = await this.tool({ title: `${server.name}: ${tool.name}`, kind: "other", name: `mcp__${server.name}__${tool.name}`, input: args }, async () => {
      const stop = new Promise((_, no) => this.signal.addEventListener("abort", () => no(new Cancelled()), { once: true }));
      stop.catch(() => {});
      const { text: body, failed } = await Promise.race([callTool(server, tool.name, args), stop]);
      return { body, failed, error: failed ? body : undefined, content: [text(body)], raw: { text: body } };
    });
    await this.say(r.failed ? `The tool failed: ${r.error}` : `${tool.name} answered: ${r.body}`);
  }
  async plan() {
    const steps = [["Look around the workspace", "high"], ["Decide what has to change", "high"], ["Make the change", "medium"], ["Check the result", "low"]];
    for (let at = 0; at <= steps.length; at++) {
      await this.send({ sessionUpdate: "plan", entries: steps.map(([content, priority], i) => ({ content, priority, status: i < at ? "completed" : i === at ? "in_progress" : "pending" })) });
      if (at < steps.length) await this.sleep(120);
    }
    await this.say("The plan has four steps; it is in the plan panel. ");
    await this.say("Tell me when to begin.");
  }

  async act(prompt, blocks) {
    const i = understand(prompt, this.s.servers.flatMap((v) => v.tools.map((t) => t.name)));
    const past = this.s.turns;
    if (this.s.model === "marten-larch") await this.think("Larch is turning this over: " + i.do + ".");
    switch (i.do) {
      case "mcp": return this.mcp(i.tool, prompt);
      case "plan": return this.plan();
      case "count": return this.recite(Array.from({ length: i.to }, (_, k) => `${k + 1}\n`), i.slow ? 350 : 60);
      case "wait": await this.say("Waiting. "); await this.sleep(i.seconds * 1000); return this.say("Done waiting.");
      case "story": return this.recite(Array.from({ length: i.long ? 80 : 30 }, (_, k) => STORY[k % STORY.length] + (k % 5 === 4 ? "\n\n" : " ")), 200);
      case "run": return this.run(i.command);
      case "read": return this.read(i.file);
      case "write": return this.write(i.file, () => i.content);
      case "append": return this.write(i.file, (old) => (old ?? "") + i.content);
      case "edit": return this.write(i.file, (old) => old?.includes(i.from) ? old.replaceAll(i.from, i.to) : null);
      case "delete": return this.remove(i.file);
      case "list": return this.run("ls -1");
      case "pwd": return this.say(`The working directory is ${this.s.cwd}`);
      case "remember": return this.say("I will keep that in mind.");
      case "recall": {
        const facts = past.filter((t) => t.who === "user" && /remember|memori|keep in mind|secret|\bis\b/i.test(t.text)).map((t) => t.text);
        return this.say(facts.length ? `Earlier you told me: ${facts.slice(-3).join(" / ")}` : "You have not told me anything of the kind in this session.");
      }
      case "model": {
        const value = "marten-" + i.model;
        if (!["marten-pine", "marten-larch", "marten-oak"].includes(value)) return this.say("I know pine, larch and oak.");
        this.s.model = value;
        await this.send({ sessionUpdate: "config_option_update", configOptions: this.s.options() });
        return this.say(`Now thinking with ${value}.`);
      }
      case "say": return this.say(i.text);
      default: {
        const extra = blocks.filter((b) => b.type !== "text").map((b) => b.type === "resource_link" ? `the link “${b.name}”` : b.type === "resource" ? `the attached ${b.resource.uri}` : `your ${b.type}`);
        if (extra.length) await this.say(`Thank you for ${extra.join(", ")}. `);
        await this.say(this.s.talk === "terse" ? "Yes." : "I am Marten, a small agent. ");
        if (this.s.talk !== "terse") { await this.sleep(40); await this.say("I can read, write and delete files, run commands, make plans and use MCP tools."); }
      }
    }
  }
}
const text = (t) => ({ type: "content", content: { type: "text", text: t } });
const patience = (p) => Promise.race([p.catch((e) => console.error("marten:", e.message)), new Promise((ok) => setTimeout(ok, 3000).unref())]);
const STORY = ["A marten lived under the roof of an old mill.", "Every night it counted the stars through a gap in the tiles.", "The owl next door thought this was a waste of time.", "One winter the river froze and the wheel stood still.", "So the marten went out over the ice to see where silence comes from.", "It met a fox who had lost its way.", "They agreed that the moon was the best of all lamps."];

// The SDK runs handlers concurrently, so the order of a prompt and a cancel is taken from the wire itself.
let sequence = 0;
const promptSeen = new Map(), cancelSeen = new Map();
const note = new TransformStream({ transform(m, out) {
  sequence++;
  if (m.method === "session/prompt" && m.id !== undefined) promptSeen.set(m.id, sequence);
  if (m.method === "session/cancel" && m.id === undefined) cancelSeen.set(m.params?.sessionId, sequence);
  out.enqueue(m);
} });

async function runPrompt(session, prompt, client, requestSignal, requestId) {
  const control = new AbortController();
  control.seen = promptSeen.get(requestId) ?? 0;
  promptSeen.delete(requestId);
  if (cancelSeen.get(session.id) > control.seen) control.abort(new Cancelled());
  session.running.add(control);
  const stop = () => control.abort(new Cancelled());
  if (requestSignal.aborted) stop(); else requestSignal.addEventListener("abort", stop, { once: true });
  const before = session.queue;
  const job = (async () => {
    await before;
    await new Promise(setImmediate);          // the earlier answer leaves first
    const turn = new Turn(session, client, control.signal);
    const words = prompt.map((b) => b.type === "text" ? b.text : b.type === "resource_link" ? (/^file:/.test(b.uri) ? decodeURI(b.uri.slice(7)) : "") : "").filter(Boolean).join("\n");
    let stopReason = "end_turn";
    try {
      turn.check();
      const work = turn.act(words, prompt);
      if (FAULT === "marten-late-update") {
        work.catch(() => {});
        await Promise.race([work, new Promise((_, no) => control.signal.addEventListener("abort", () => no(new Cancelled()), { once: true }))]);
      } else await work;
    } catch (e) {
      if (!(e instanceof Cancelled) && !control.signal.aborted) throw e;
      stopReason = "cancelled";
    }
    session.turns.push({ who: "user", text: words }, { who: "agent", text: turn.said });
    session.used += Math.ceil((words.length + turn.said.length) / 4);
    if (stopReason === "end_turn") {
      if (!session.title && words) {
        session.title = words.replace(/\s+/g, " ").slice(0, 50);
        await turn.send({ sessionUpdate: "session_info_update", title: session.title });
      }
      await turn.send({ sessionUpdate: "usage_update", used: session.used, size: 128000, cost: { amount: session.used / 1e6, currency: "EUR" } });
    }
    session.save();
    return stopReason;
  })();
  session.queue = job.catch(() => {});
  try {
    const stopReason = await job;
    if (requestSignal.aborted) throw RequestError.requestCancelled();
    return { stopReason, _meta: { "marten.example/fingerprint": createHash("sha1").update(session.id).digest("hex").slice(0, 8) } };
  } finally { session.running.delete(control); }
}

// ---------------------------------------------------------------- wiring
const app = agent({ name: "marten" })
  .onRequest(methods.agent.initialize, ({ params }) => {
    caps = params.clientCapabilities ?? {};
    return {
      protocolVersion: 1,
      agentInfo: { name: "marten", title: "Marten", version: "0.3.1" },
      agentCapabilities: {
        loadSession: false,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { resume: {}, close: {} },
      },
      authMethods: [],
    };
  })
  .onRequest(methods.agent.session.prompt, ({ params, client, signal, requestId }) => runPrompt(need(params.sessionId), params.prompt, client, signal, requestId))
  .onRequest(methods.agent.session.new, async ({ params }) => {
    checkSetup(params);
    const s = new Session("marten-" + randomUUID(), params.cwd);
    await s.connect(params.mcpServers);
    sessions.set(s.id, s);
    s.save();
    return { sessionId: s.id, configOptions: s.options() };
  })
  .onRequest(methods.agent.session.resume, async ({ params }) => {
    checkSetup(params);
    const s = sessions.get(params.sessionId) ?? Session.fromDisk(params.sessionId, params.cwd);
    if (!s) throw RequestError.sessionNotFound(params.sessionId);
    s.cwd = path.resolve(params.cwd);
    await s.connect(params.mcpServers);
    sessions.set(s.id, s);
    return { configOptions: s.options() };
  })
  .onRequest(methods.agent.session.close, async ({ params }) => {
    const s = need(params.sessionId);
    s.stopTurns();
    await s.queue;
    if (FAULT !== "marten-close-keeps-mcp") s.servers.forEach((v) => v.wire?.stop());
    sessions.delete(s.id);
    return {};
  })
  .onRequest(methods.agent.session.setConfigOption, ({ params }) => {
    const s = need(params.sessionId);
    const option = s.options().find((o) => o.id === params.configId);
    const values = option?.options.flatMap((o) => o.options ?? [o]).map((o) => o.value) ?? [];
    if (!values.includes(params.value)) throw RequestError.invalidParams({ configId: params.configId, allowed: values }, option ? "no such value" : "no such option");
    if (option.id === "brain") s.model = params.value; else s.talk = params.value;
    s.save();
    return { configOptions: s.options() };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => { sessions.get(params.sessionId)?.stopTurns(cancelSeen.get(params.sessionId)); });

const stdio = ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const connection = app.connect({ writable: stdio.writable, readable: stdio.readable.pipeThrough(note) });
connection.closed.then(() => {
  for (const s of sessions.values()) { s.stopTurns(); s.servers.forEach((v) => v.wire?.stop()); }
  setTimeout(() => process.exit(0), 100);
});
