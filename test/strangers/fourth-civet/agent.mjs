#!/usr/bin/env node
// fourth-civet: an ACP agent without a model, on the official TypeScript SDK.
import { agent, methods, ndJsonStream, PROTOCOL_VERSION, RequestError } from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { connectMcp } from "./mcp.mjs";
import { parseWishes, show, toolArguments } from "./wishes.mjs";

const FAULT = process.env.FAULT ?? "";
const STORE = path.join(process.env.HOME || os.homedir(), ".fourth-civet", "sessions");
const PAGE = 20;
const CONTEXT_SIZE = 65_536;
const PACES = { brisk: 60, steady: 150, leisurely: 400 };
const COMMANDS = [
  { name: "recap", description: "Repeat what was said in this session" },
  { name: "echo", description: "Say the text after the command", input: { hint: "text to echo" } },
];
const sessions = new Map(); // live sessions of this connection
let capabilities = {};
let client;
let hungUp = false; // the client has closed stdin and will answer nothing any more

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => new Date().toISOString();
const textBlock = (text) => ({ type: "text", text });
const textContent = (text) => ({ type: "content", content: textBlock(text) });
const clip = (text, max = 4000) => (text.length > max ? `${text.slice(0, max).replace(/[\ud800-\udbff]$/, "")}…` : text);
const invalid = (reason) => RequestError.invalidParams(undefined, reason);
class Cancelled extends Error {}

// ---------------------------------------------------------------- sessions

const fileOf = (id) => path.join(STORE, `${id}.json`);
const isSessionId = (id) => /^civet-[0-9a-f-]{36}$/.test(id);

function readRecord(id) {
  try {
    return isSessionId(id) ? JSON.parse(fs.readFileSync(fileOf(id), "utf8")) : undefined;
  } catch {
    return undefined;
  }
}

class Session {
  always = new Map(); // path -> "allow" | "reject", kept while the session is live
  peers = new Set();
  turn = null;
  gone = false;

  constructor(record, { cwd, additionalDirectories = [], mcpServers = [] }) {
    Object.assign(this, record, { cwd, extraRoots: additionalDirectories });
    this.announced = new Promise((resolve) => (this.announce = resolve));
    this.servers = Promise.all(mcpServers.map((server) => this.connect(server))).then((list) => list.filter(Boolean));
  }

  async connect(server) {
    let mine;
    try {
      const link = await connectMcp(server, this.cwd, (peer) => {
        mine = peer;
        this.peers.add(peer);
        if (this.gone) peer.close();
      });
      return link;
    } catch (error) {
      mine?.close();
      console.error(`MCP server ${server.name}: ${error.message}`);
      await this.announced;
      if (capabilities.session?.notices && !this.gone)
        this.update({ sessionUpdate: "notice", severity: "warning", title: `The MCP server ${server.name} is not available` });
    }
  }

  update(update) {
    return client.notify(methods.client.session.update, { sessionId: this.id, update });
  }

  save() {
    if (this.gone === "deleted") return;
    const { id, cwd, extraRoots, title, createdAt, updatedAt, options, history, calls, cost } = this;
    const temporary = `${fileOf(id)}.${process.pid}.tmp`;
    try {
      fs.mkdirSync(STORE, { recursive: true });
      fs.writeFileSync(temporary, JSON.stringify({ id, cwd, extraRoots, title, createdAt, updatedAt, options, history, calls, cost }));
      fs.renameSync(temporary, fileOf(id));
    } catch (error) {
      console.error(`cannot save the session: ${error.message}`);
    }
  }

  configOptions() {
    const choice = (value, name, description) => ({ value, name, description });
    const list = [
      {
        id: "conduct",
        name: "Conduct",
        description: "How the agent treats changes to your files",
        category: "mode",
        type: "select",
        currentValue: this.options.conduct,
        options: [
          { group: "changes", name: "May change files", options: [choice("ask-first", "Ask first", "Ask before every write"), choice("trusting", "Trusting", "Write without asking")] },
          { group: "safe", name: "Never changes files", options: [choice("look-only", "Look only", "Refuse writes and commands")] },
        ],
      },
      { id: "pace", name: "Pace", category: "_pace", type: "select", currentValue: this.options.pace, options: Object.keys(PACES).map((p) => choice(p, p)) },
    ];
    if (capabilities.session?.configOptions?.boolean)
      list.push({ id: "aloud", name: "Think aloud", category: "thought_level", type: "boolean", currentValue: this.options.aloud });
    return list;
  }

  setOption(id, value) {
    const option = this.configOptions().find((o) => o.id === id);
    if (!option) throw invalid(`there is no option ${id}`);
    const allowed = option.type === "boolean" ? typeof value === "boolean" : option.options.flatMap((o) => o.options ?? o).some((o) => o.value === value);
    if (!allowed) throw invalid(`${value} is no value of the option ${id}`);
    this.options[id] = value;
    this.save();
  }

  /** An absolute path inside the roots of the session, or an error. */
  resolve(name) {
    const full = path.resolve(this.cwd, name.replace(/^~(?=\/)/, os.homedir()));
    const real = (p) => (fs.existsSync(p) ? fs.realpathSync(p) : path.dirname(p) === p ? p : path.join(real(path.dirname(p)), path.basename(p)));
    const inside = [this.cwd, ...this.extraRoots].some((root) => {
      const relative = path.relative(real(root), real(full));
      return relative === "" || !(relative === ".." || relative.startsWith(`..${path.sep}`) || path.isAbsolute(relative));
    });
    if (!inside) throw new Error(`${full} is outside the folders of this session`);
    return full;
  }

  /** Ends the running turn as session/cancel does and frees everything the session holds. */
  async end(how) {
    sessions.delete(this.id);
    const turn = this.turn;
    if (turn) {
      turn.cancel("session");
      await turn.finished;
      await sleep(5); // let the answer to the prompt go out first
      if (FAULT === "close-leak" && how === "closed") return;
    }
    this.gone = how;
    await Promise.all([...this.peers].map((peer) => peer.close()));
  }
}

function liveSession(id) {
  const session = sessions.get(id);
  if (!session) throw RequestError.sessionNotFound(id);
  return session;
}

function checkDirectories({ cwd, additionalDirectories = [] }) {
  if (!path.isAbsolute(cwd)) throw invalid("cwd must be an absolute path");
  if (!additionalDirectories.every((d) => path.isAbsolute(d))) throw invalid("additionalDirectories must be absolute paths");
}

function open(record, params) {
  const session = new Session(record, params);
  sessions.set(session.id, session);
  session.save();
  return session;
}

/** Says what can only be said once the client knows the session. */
function announceLater(session) {
  setImmediate(() => {
    if (session.gone) return;
    session.update({ sessionUpdate: "available_commands_update", availableCommands: COMMANDS });
    session.announce();
  });
}

async function restore(params) {
  checkDirectories(params);
  if (sessions.get(params.sessionId)?.turn) throw RequestError.invalidRequest(undefined, "a turn is running in this session");
  const record = readRecord(params.sessionId);
  if (!record) throw RequestError.sessionNotFound(params.sessionId);
  await sessions.get(params.sessionId)?.end("replaced");
  if (FAULT === "restarted-ids") record.calls = 0;
  for (const { toolCall } of record.history) if (toolCall && !/completed|failed/.test(toolCall.status)) toolCall.status = "failed";
  return open(record, params);
}

function replay(session) {
  for (const entry of session.history) {
    const { messageId } = entry;
    if (entry.user) for (const content of entry.user) session.update({ sessionUpdate: "user_message_chunk", messageId, content });
    else if (entry.toolCall) session.update({ sessionUpdate: "tool_call", ...entry.toolCall });
    else if (entry.plan) session.update({ sessionUpdate: "plan", entries: entry.plan });
    else if (entry.thought ?? entry.text) session.update({ sessionUpdate: entry.thought ? "agent_thought_chunk" : "agent_message_chunk", messageId, content: textBlock(entry.thought ?? entry.text) });
  }
  session.update({ sessionUpdate: "session_info_update", title: session.title, updatedAt: session.updatedAt });
}

function listSessions({ cwd, cursor }) {
  let after;
  if (cursor != null) {
    try {
      after = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")).after;
    } catch {
      // Handled below.
    }
    if (typeof after !== "string") throw invalid("the cursor is not one of mine");
  }
  const ids = fs.existsSync(STORE) ? fs.readdirSync(STORE).map((name) => name.replace(/\.json$/, "")).filter(isSessionId) : [];
  const key = (r) => `${r.createdAt} ${r.id}`;
  const records = ids.map(readRecord).filter((r) => r && (cwd == null || r.cwd === cwd)).sort((a, b) => (key(a) < key(b) ? 1 : -1));
  const rest = after ? records.filter((r) => key(r) < after) : records;
  const page = rest.slice(0, PAGE);
  return {
    sessions: page.map((r) => ({ sessionId: r.id, cwd: r.cwd, ...(r.extraRoots.length && { additionalDirectories: r.extraRoots }), title: r.title, updatedAt: r.updatedAt })),
    ...(rest.length > PAGE && { nextCursor: Buffer.from(JSON.stringify({ after: key(page.at(-1)) })).toString("base64url") }),
  };
}

// ------------------------------------------------------------------- turns

class Turn {
  done = false;
  reason = null; // why it was cancelled
  message = null; // the message being streamed

  constructor(session, requestSignal) {
    this.session = session;
    this.requestSignal = requestSignal;
    this.abort = new AbortController();
    this.stopped = new Promise((resolve) => this.abort.signal.addEventListener("abort", resolve));
    this.finished = new Promise((resolve) => (this.finish = resolve));
    requestSignal.addEventListener("abort", () => this.cancel("request"));
    if (requestSignal.aborted) this.cancel("request");
  }

  get cancelled() {
    return this.reason !== null;
  }

  cancel(reason) {
    if (this.cancelled) return;
    this.reason = reason;
    this.abort.abort();
  }

  check() {
    if (this.cancelled) throw new Cancelled("The turn was cancelled.");
  }

  emit(update) {
    return this.done ? undefined : this.session.update(update);
  }

  pause(ms) {
    return Promise.race([sleep(ms), this.stopped]);
  }

  /** Waits for the client, but not for ever once the turn is cancelled. */
  async patient(promise) {
    const tired = this.stopped.then(() => sleep(hungUp ? 50 : 2000)).then(() => Promise.reject(new Cancelled("The turn was cancelled.")));
    tired.catch(() => {});
    return Promise.race([promise, tired]);
  }

  request(method, params) {
    const options = { cancellationSignal: this.requestSignal };
    return this.patient(client.request(method, { sessionId: this.session.id, ...params }, options));
  }

  record(entry) {
    this.session.history.push(entry);
    this.session.save();
    return entry;
  }

  /** Sends chunks of one message. A cancelled turn still finishes the chunk in hand. */
  async stream(chunks, delay, kind = "text") {
    this.check();
    if (!this.message || !(kind in this.message)) {
      this.message = this.record({ messageId: randomUUID(), [kind]: "" });
    }
    const { message } = this;
    const sessionUpdate = kind === "thought" ? "agent_thought_chunk" : "agent_message_chunk";
    for (const chunk of chunks) {
      await this.pause(typeof delay === "function" ? delay() : delay);
      message[kind] += chunk;
      await this.emit({ sessionUpdate, messageId: message.messageId, content: textBlock(chunk) });
      this.check();
    }
  }

  say(text) {
    const glue = this.message?.text ? "\n" : "";
    return this.stream((glue + text).match(/(?:\S+\s*|\s+){1,6}/g) ?? [], 12);
  }

  think(text) {
    return this.stream(text.match(/(?:\S+\s*){1,5}/g), 30, "thought");
  }

  /** Reports one tool call from its start to its end; never throws. */
  async tool(about, body) {
    const toolCall = { toolCallId: `call_${++this.session.calls}`, status: "pending", ...about };
    this.message = null;
    this.record({ toolCall });
    await this.emit({ sessionUpdate: "tool_call", ...toolCall });
    const update = (patch, stored = patch) => {
      Object.assign(toolCall, stored);
      return this.emit({ sessionUpdate: "tool_call_update", toolCallId: toolCall.toolCallId, ...patch });
    };
    try {
      this.check();
      const { report, ...last } = await body({ toolCall, update });
      if (last.content) await update({ status: "completed", ...last });
      return report;
    } catch (error) {
      const reason = error instanceof Cancelled || this.cancelled ? "The turn was cancelled." : error.message;
      await update({ status: "failed", content: [textContent(reason)] });
      return `${about.title} did not work: ${reason}`;
    }
  }

  // ---- permission

  async permit(toolCall, target, content) {
    const { session } = this;
    if (session.options.conduct === "look-only") throw new Error("The conduct is look-only.");
    if (session.options.conduct === "trusting") return;
    let answer = session.always.get(target);
    if (!answer) {
      const { toolCallId, title, kind, locations, rawInput } = toolCall;
      const options = [
        { optionId: "yes", name: "Allow this once", kind: "allow_once" },
        { optionId: "yes-always", name: `Always allow for ${path.basename(target)}`, kind: "allow_always" },
        { optionId: "no", name: "Not this time", kind: "reject_once" },
        { optionId: "no-always", name: `Never for ${path.basename(target)}`, kind: "reject_always" },
      ];
      const { outcome } = await this.request(methods.client.session.requestPermission, {
        toolCall: { toolCallId, title, kind, status: "pending", locations, rawInput, ...(content && { content }) },
        options,
      });
      if (outcome.outcome === "cancelled") this.cancel("session");
      this.check();
      const known = outcome.outcome === "selected" && options.find((o) => o.optionId === outcome.optionId);
      answer = known && known.kind.startsWith("allow") ? "allow" : "reject";
      if (known && known.kind.endsWith("always")) session.always.set(target, answer);
    }
    if (answer === "reject") throw new Error("You did not allow it.");
  }

  // ---- files

  /** The text of a file as it is now, or null when there is no such file. */
  async currentText(file, allowed = capabilities.fs?.readTextFile) {
    if (allowed) {
      try {
        return (await this.request(methods.client.fs.readTextFile, { path: file })).content;
      } catch (error) {
        if (error instanceof Cancelled) throw error;
      }
    }
    return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : null;
  }

  read({ path: name, line, limit }) {
    const { session } = this;
    const full = path.resolve(session.cwd, name);
    return this.tool({ name: "read_file", title: `Read ${name}`, kind: "read", locations: [{ path: full, ...(line && { line }) }], rawInput: { path: full } }, async ({ update }) => {
      const file = session.resolve(name);
      await update({ status: "in_progress" });
      let text;
      if (capabilities.fs?.readTextFile) {
        text = (await this.request(methods.client.fs.readTextFile, { path: file, ...(line && { line, limit }) })).content;
      } else {
        text = await fs.promises.readFile(file, "utf8");
        if (line) text = text.split("\n").slice(line - 1, line - 1 + limit).join("\n");
      }
      return { content: [textContent(clip(text))], rawOutput: { length: text.length }, report: `${name} contains:\n${clip(text)}` };
    });
  }

  /** Writes, replaces, appends: every change goes through here. */
  change(action) {
    const { session } = this;
    const full = path.resolve(session.cwd, action.path);
    const title = action.do === "write" ? `Write ${action.path}` : `Edit ${action.path}`;
    return this.tool({ name: "write_file", title, kind: "edit", locations: [{ path: full }], rawInput: { path: full } }, async ({ toolCall, update }) => {
      const file = session.resolve(action.path);
      const oldText = await this.currentText(file, FAULT === "peeking-writer" ? capabilities.fs?.writeTextFile : undefined);
      if (action.do === "replace" && !oldText?.includes(action.from)) throw new Error(`${action.path} does not contain "${action.from}".`);
      const newText =
        action.do === "write" ? action.content
        : action.do === "replace" ? oldText.replaceAll(action.from, action.to)
        : `${oldText ?? ""}${oldText && !oldText.endsWith("\n") ? "\n" : ""}${action.text}\n`;
      const content = [{ type: "diff", path: file, oldText, newText }];
      this.check();
      await this.permit(toolCall, file, content);
      await update({ status: "in_progress", content });
      this.check();
      if (capabilities.fs?.writeTextFile) await this.request(methods.client.fs.writeTextFile, { path: file, content: newText });
      else {
        await fs.promises.mkdir(path.dirname(file), { recursive: true });
        await fs.promises.writeFile(file, newText);
      }
      return { content, report: `I have written ${action.path}.` };
    });
  }

  remove({ path: name }) {
    const full = path.resolve(this.session.cwd, name);
    return this.tool({ name: "delete_file", title: `Delete ${name}`, kind: "delete", locations: [{ path: full }], rawInput: { path: full } }, async ({ toolCall, update }) => {
      const file = this.session.resolve(name);
      await this.permit(toolCall, file);
      await update({ status: "in_progress" });
      this.check();
      await fs.promises.unlink(file);
      return { content: [textContent(`Deleted ${file}`)], report: `I have deleted ${name}.` };
    });
  }

  list({ path: name, quiet }) {
    const title = quiet ? "Look around" : `List ${name}`;
    const full = path.resolve(this.session.cwd, name);
    return this.tool({ name: "list_files", title, kind: "search", locations: [{ path: full }], rawInput: { path: full } }, async ({ update }) => {
      const folder = this.session.resolve(name);
      await update({ status: "in_progress" });
      if (quiet) await this.pause(80);
      this.check();
      const entries = await fs.promises.readdir(folder, { withFileTypes: true });
      const names = entries.map((e) => (e.isDirectory() ? `${e.name}/` : e.name)).sort();
      return { content: [textContent(clip(names.join("\n")) || "(empty)")], report: quiet ? "" : `${name} holds: ${clip(names.join(", ")) || "nothing"}` };
    });
  }

  // ---- commands

  run({ command }) {
    const { session } = this;
    return this.tool({ name: "run_command", title: `Run ${clip(command, 80)}`, kind: "execute", rawInput: { command, cwd: session.cwd } }, async (call) => {
      if (session.options.conduct === "look-only") throw new Error("The conduct is look-only.");
      return capabilities.terminal ? this.runInTerminal(command, call) : this.runHere(command, call);
    });
  }

  async runInTerminal(command, { update }) {
    const { session } = this;
    const creating = client.createTerminal({ sessionId: session.id, command: "/bin/sh", args: ["-c", command], cwd: session.cwd, outputByteLimit: 65_536 });
    const terminal = await this.patient(creating).catch((error) => {
      creating.then((late) => late.release()).catch(() => {});
      throw error;
    });
    try {
      const content = [{ type: "terminal", terminalId: terminal.id }];
      await update({ status: "in_progress", content }, { status: "in_progress" });
      const exited = terminal.waitForExit();
      exited.catch(() => {});
      await Promise.race([exited, this.stopped]);
      if (this.cancelled) {
        await this.patient(terminal.kill());
        await this.patient(exited);
        throw new Cancelled();
      }
      const exit = await exited;
      const { output } = await this.patient(terminal.currentOutput());
      return await this.ended(command, exit, output, update, content);
    } catch (error) {
      // The last update must come before the release.
      const reason = this.cancelled ? "The turn was cancelled." : error.message;
      await update({ status: "failed", rawOutput: { error: reason } }, { status: "failed", content: [textContent(reason)] });
      return { report: `The command did not finish: ${reason}` };
    } finally {
      await this.patient(terminal.release()).catch(() => {});
    }
  }

  async runHere(command, { update }) {
    await update({ status: "in_progress" });
    const child = spawn("/bin/sh", ["-c", command], { cwd: this.session.cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (data) => (output = (output + data).slice(-65_536)));
    const kill = () => {
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // It has ended already.
      }
    };
    this.stopped.then(kill);
    process.once("exit", kill);
    const exit = await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (exitCode, signal) => resolve({ exitCode, signal }));
    }).finally(() => process.off("exit", kill));
    this.check();
    return this.ended(command, exit, output, update);
  }

  async ended(command, { exitCode, signal }, output, update, content) {
    const status = exitCode === 0 ? "completed" : "failed";
    const shown = [textContent(clip(output) || "(no output)")];
    const rawOutput = { exitCode: exitCode ?? null, signal: signal ?? null, output: clip(output) };
    await update({ status, content: content ?? shown, rawOutput }, { status, content: shown, rawOutput });
    return { report: `${command} ended with ${signal ? `signal ${signal}` : `exit code ${exitCode}`}:\n${clip(output)}` };
  }

  // ---- MCP

  async mcp({ tool: wanted, clause, kept }) {
    const servers = await this.ready();
    const all = servers.flatMap((server) => server.tools.map((tool) => ({ server, tool })));
    const found = all.find(({ server, tool }) => tool.name === wanted && show(clause, kept).includes(server.name)) ?? all.find(({ tool }) => tool.name === wanted);
    if (!found) return `I have no tool called ${wanted}. ${all.length ? `I know: ${all.map((t) => t.tool.name).join(", ")}.` : ""}`;
    const { server, tool } = found;
    const rawInput = toolArguments(clause, kept, tool.inputSchema);
    return this.tool({ name: tool.name, title: `${server.name}: ${tool.name}`, kind: "other", rawInput }, async ({ update }) => {
      await update({ status: "in_progress" });
      const result = await server.call(tool.name, rawInput, this.abort.signal);
      const blocks = (result?.content ?? []).map((c) => (c.type === "text" ? textBlock(c.text) : c.type === "image" ? { type: "image", data: c.data, mimeType: c.mimeType } : textBlock(JSON.stringify(c))));
      const text = blocks.map((b) => b.text ?? "(an image)").join("\n");
      if (result?.isError) throw new Error(text || "the tool reported an error");
      return { content: blocks.map((content) => ({ type: "content", content })), rawOutput: result, report: `${tool.name} answered: ${clip(text)}` };
    });
  }

  ready() {
    return Promise.race([this.session.servers, sleep(15_000).then(() => []), this.stopped.then(() => [])]);
  }

  // ---- talk

  async plan({ text }) {
    const words = { two: 2, three: 3, four: 4, five: 5, six: 6 };
    const count = /\b(\d|two|three|four|five|six)[ -](?:\w+ )?steps?\b/i.exec(text)?.[1]?.toLowerCase();
    const named = [...text.matchAll(/(?:^|\s)\d[.)]\s*([^\d]+?)(?=\s+\d[.)]|$)/g)].map((m) => m[1].trim());
    const steps = named.length > 1 ? named : ["Look at the wish", "Gather what is needed", "Do the work", "Check the result", "Tidy up", "Report back"].slice(0, words[count] ?? Number(count ?? 3));
    const entries = steps.map((content, i) => ({ content, priority: ["high", "medium", "low"][Math.min(i, 2)], status: "pending" }));
    const entry = this.record({ plan: entries });
    const tell = () => this.emit({ sessionUpdate: "plan", entries: structuredClone(entry.plan) });
    this.message = null;
    await tell();
    for (const step of entries) {
      for (const status of ["in_progress", "completed"]) {
        this.check();
        step.status = status;
        await tell();
        await this.pause(PACES[this.session.options.pace]);
      }
    }
    return `The plan with ${entries.length} steps is done.`;
  }

  async ask({ text }) {
    const colour = /colou?r/i.test(text);
    const what = colour ? "Which colour do you like best?" : (/\b(?:about|for|what|which)\b\s*(.+)$/i.exec(text)?.[0] ?? "What would you like me to do next?");
    if (/\b(password|passphrase|token|secret|api.?key|credential|pin)\b/i.test(text)) return "I must not ask for secrets in a form, so please do not tell me.";
    if (!capabilities.elicitation?.form) return what; // the answer can come as the next prompt
    const colours = ["red", "green", "blue"];
    const answer = colour
      ? { type: "string", title: "Colour", oneOf: colours.map((c) => ({ const: c, title: c[0].toUpperCase() + c.slice(1) })) }
      : { type: "string", title: "Answer", minLength: 1, maxLength: 200 };
    let reply;
    try {
      const request = { sessionId: this.session.id, mode: "form", message: what, requestedSchema: { type: "object", properties: { answer }, required: ["answer"] } };
      reply = await client.request(methods.client.elicitation.create, request, { cancellationSignal: this.abort.signal, stopWaitingOnCancel: true });
    } catch (error) {
      this.check();
      return `I could not ask you: ${error.message}`;
    }
    const value = reply?.content?.answer;
    if (reply?.action === "decline") return "You declined to answer, which is fine.";
    if (reply?.action !== "accept") return "I got no answer, so I leave the question open.";
    const valid = typeof value === "string" && (colour ? colours.includes(value) : value.length >= 1 && value.length <= 200);
    return valid ? `You answered: ${value}.` : "That answer does not fit the question, so I do not use it.";
  }

  async switch({ text }) {
    const { session } = this;
    const options = session.configOptions();
    for (const option of options.filter((o) => o.type === "select")) {
      const values = option.options.flatMap((o) => o.options ?? o);
      const hit = values.find(({ value, name }) => [value, name].some((word) => text.toLowerCase().replace(/-/g, " ").includes(word.toLowerCase().replace(/-/g, " "))));
      if (!hit) continue;
      session.setOption(option.id, hit.value);
      await this.emit({ sessionUpdate: "config_option_update", configOptions: session.configOptions() });
      return `${option.name} is now ${hit.name}.`;
    }
    if (/think|aloud/i.test(text) && options.some((o) => o.id === "aloud")) {
      session.setOption("aloud", !/\b(off|disable|false|no)\b/i.test(text));
      await this.emit({ sessionUpdate: "config_option_update", configOptions: session.configOptions() });
      return `Think aloud is now ${session.options.aloud ? "on" : "off"}.`;
    }
    return `I know no such setting; conduct can be ask-first, trusting or look-only, pace can be ${Object.keys(PACES).join(", ")}.`;
  }

  earlier() {
    const texts = this.session.history.filter((e) => e.user && e !== this.userEntry).map((e) => plainText(e.user));
    return texts.filter(Boolean);
  }

  recall({ text }) {
    const noun = /\b(word|number|name|colou?r|code|secret|animal|city|phrase|token|fruit)\b/i.exec(text)?.[1] ?? "remember";
    const told = this.earlier().reverse().find((t) => new RegExp(`\\b(${noun}|remember)\\b`, "i").test(t) && !/\?\s*$/.test(t));
    return told ? `You told me: ${told}` : "You have not told me that in this session.";
  }

  async act(action) {
    const pace = () => PACES[this.session.options.pace];
    switch (action.do) {
      case "read": return this.read(action);
      case "write": case "replace": case "append": return this.change(action);
      case "delete": return this.remove(action);
      case "list": return this.list(action);
      case "run": return this.run(action);
      case "mcp": return this.mcp(action);
      case "plan": return this.plan(action);
      case "ask": return this.ask(action);
      case "switch": return this.switch(action);
      case "recall": return this.recall(action);
      case "recap": return this.earlier().length ? `Earlier you said: ${this.earlier().map((t) => `“${t}”`).join(" ")}` : "You have said nothing before this.";
      case "where": return `The working directory is ${this.session.cwd}.`;
      case "noted": return "I will remember that.";
      case "say": return action.text;
      case "think": return void (await this.think("Let me think about this first. The wish is clear, so I only have to choose the right order of steps."));
      case "count": return void (await this.stream(Array.from({ length: action.to }, (_, i) => `${i + 1}\n`), () => Math.min(pace() * (action.slowly ? 2 : 1), 20_000 / action.to)));
      case "long": {
        const openings = ["First of all", "Besides", "On the other hand", "More than that", "In many places", "As people say", "Looking closer", "In the end"];
        const sentences = Array.from({ length: 64 }, (_, i) => `${openings[i % openings.length]}, point ${i + 1} deserves a sentence of its own, because it adds one more detail. `);
        return void (await this.stream(sentences, pace));
      }
    }
  }

  async perform(prompt) {
    const text = plainText(prompt);
    const known = /\b(use|call|invoke|run|tool|mcp)\b/i.test(text) ? (await this.ready()).flatMap((s) => s.tools.map((t) => t.name)) : [];
    const stages = parseWishes(text, known);
    if (this.session.options.aloud && stages[0]?.[0]?.do !== "think") await this.think("I am reading the wish and deciding what to do.");
    const others = prompt.filter((b) => b.type !== "text");
    if (!stages.length || others.length) for (const block of others) await this.say(describe(block));
    if (!stages.length && !others.length) await this.say(text ? `I am a small agent without a model, and I do not know what to do with “${clip(text, 200)}”.` : "There was nothing in your message.");
    const isTool = (a) => /^(read|write|replace|append|delete|list|run|mcp)$/.test(a.do);
    for (const stage of stages) {
      for (let i = 0; i < stage.length; ) {
        this.check();
        let group = [stage[i++]];
        if (isTool(group[0])) while (i < stage.length && isTool(stage[i])) group.push(stage[i++]);
        const changes = group.filter((a) => /^(write|replace|append|delete)$/.test(a.do));
        const clash = changes.some((c) => group.some((a) => a !== c && (a.do === "run" || a.do === "list" || a.path === c.path)));
        const reports = [];
        if (clash) for (const action of group) reports.push(this.cancelled ? "" : await this.act(action));
        else {
          // A glance at the folder runs beside every file wish, so that calls overlap.
          if (group.some((a) => a.path && a.do !== "list")) group.push({ do: "list", path: ".", quiet: true });
          reports.push(...(await Promise.all(group.map((action) => this.act(action)))));
        }
        this.check();
        for (const report of reports.filter(Boolean)) await this.say(report);
      }
    }
    if (!this.session.history.slice(this.session.history.indexOf(this.userEntry)).some((e) => e.text)) await this.say("Done.");
  }
}

function plainText(prompt) {
  return prompt.filter((b) => b.type === "text").map((b) => b.text).join("\n").trim();
}

function describe(block) {
  if (block.type === "resource_link") return `You linked ${block.name} (${block.uri}).`;
  if (block.type === "image") return `You attached an image of type ${block.mimeType}.`;
  const { resource } = block;
  return "text" in resource ? `The attached ${resource.uri} contains:\n${clip(resource.text)}` : `You attached ${resource.uri}.`;
}

async function runTurn({ params, signal }) {
  const session = liveSession(params.sessionId);
  if (session.turn) throw RequestError.invalidRequest(undefined, "a turn is already running in this session");
  if (params.prompt.some((b) => b.type === "audio")) throw invalid("audio is not supported");
  const turn = (session.turn = new Turn(session, signal));
  try {
    turn.userEntry = turn.record({ messageId: randomUUID(), user: params.prompt });
    if (!session.title) {
      session.title = clip(plainText(params.prompt).split("\n")[0], 60) || "Untitled";
      await turn.emit({ sessionUpdate: "session_info_update", title: session.title });
    }
    await turn.perform(params.prompt);
  } catch (error) {
    if (!turn.cancelled) {
      console.error(error);
      await turn.say(`Something went wrong: ${error.message}`).catch(() => {});
    }
  }
  const used = Math.min(CONTEXT_SIZE, 400 + Math.ceil(JSON.stringify(session.history).length / 4));
  session.cost = Number((session.cost + used * 0.000001).toFixed(6));
  session.updatedAt = now();
  turn.emit({ sessionUpdate: "usage_update", used, size: CONTEXT_SIZE, cost: { amount: session.cost, currency: "EUR" } });
  turn.emit({ sessionUpdate: "session_info_update", updatedAt: session.updatedAt });
  turn.done = true;
  session.turn = null;
  session.save();
  turn.finish();
  if (turn.reason === "request") throw RequestError.requestCancelled();
  return { stopReason: turn.cancelled ? "cancelled" : "end_turn" };
}

// -------------------------------------------------------------- connection

const app = agent({ name: "fourth-civet" })
  .onRequest(methods.agent.initialize, ({ params }) => {
    capabilities = params.clientCapabilities ?? {};
    return {
      protocolVersion: PROTOCOL_VERSION,
      agentInfo: { name: "fourth-civet", title: "Fourth Civet", version: "1.0.0" },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: true },
        sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, additionalDirectories: {} },
        auth: {},
      },
      authMethods: [],
    };
  })
  .onRequest(methods.agent.session.prompt, runTurn)
  .onRequest(methods.agent.session.new, ({ params }) => {
    checkDirectories(params);
    const id = `civet-${randomUUID()}`;
    const options = { conduct: "ask-first", pace: "steady", aloud: false };
    const session = open({ id, title: null, createdAt: now(), updatedAt: now(), options, history: [], calls: 0, cost: 0 }, params);
    announceLater(session);
    return { sessionId: id, configOptions: session.configOptions() };
  })
  .onRequest(methods.agent.session.load, async ({ params }) => {
    const session = await restore(params);
    replay(session);
    announceLater(session);
    return { configOptions: session.configOptions() };
  })
  .onRequest(methods.agent.session.resume, async ({ params }) => {
    const session = await restore(params);
    announceLater(session);
    return { configOptions: session.configOptions() };
  })
  .onRequest(methods.agent.session.list, ({ params }) => listSessions(params))
  .onRequest(methods.agent.session.setConfigOption, ({ params }) => {
    const session = liveSession(params.sessionId);
    session.setOption(params.configId, params.value);
    return { configOptions: session.configOptions() };
  })
  .onRequest(methods.agent.session.close, async ({ params }) => {
    await liveSession(params.sessionId).end("closed");
    return {};
  })
  .onRequest(methods.agent.session.delete, async ({ params }) => {
    await sessions.get(params.sessionId)?.end("deleted");
    if (isSessionId(params.sessionId)) fs.rmSync(fileOf(params.sessionId), { force: true });
    return {};
  })
  // Last on purpose: the SDK asks its handlers in this order, and a cancel must not overtake its prompt.
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.turn?.cancel("session"));

/**
 * The SDK's stdio stream with three additions: params that are a bare value are an invalid
 * request, what follows initialize waits for its answer, and at the end of stdin the open requests
 * are still answered.
 */
function patientStream() {
  const inner = ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
  const writer = inner.writable.getWriter();
  const unanswered = new Map(); // request id -> [promise, resolve]
  const key = (id) => JSON.stringify(id);
  const writable = new WritableStream({
    async write(message) {
      await writer.write(message);
      if (message.method === undefined) unanswered.get(key(message.id))?.resolve();
    },
  });
  const expect = (id) => {
    const entry = {};
    entry.promise = new Promise((resolve) => (entry.resolve = resolve)).then(() => unanswered.delete(key(id)));
    unanswered.set(key(id), entry);
    return entry.promise;
  };
  const readable = inner.readable.pipeThrough(
    new TransformStream({
      async transform(message, controller) {
        const { id, method, params } = message;
        const isRequest = message.jsonrpc === "2.0" && typeof method === "string" && (id === null || ["string", "number"].includes(typeof id));
        if (isRequest && params !== undefined && typeof params !== "object") {
          const error = RequestError.invalidRequest(undefined, "params must be an object");
          return writer.write({ jsonrpc: "2.0", id, error: error.toErrorResponse() });
        }
        const answered = isRequest && expect(id);
        controller.enqueue(message);
        if (method === "initialize" && answered) await Promise.race([answered, sleep(1000)]);
      },
      async flush() {
        hungUp = true;
        for (const session of sessions.values()) session.turn?.cancel("session");
        await Promise.race([Promise.all([...unanswered.values()].map((e) => e.promise)), sleep(2500)]);
      },
    }),
  );
  return { readable, writable };
}

process.stdout.on("error", () => process.exit(0));
process.on("unhandledRejection", (error) => console.error(error));
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => process.exit(0));

const connection = app.connect(patientStream());
client = connection.client;
await connection.closed;
await Promise.race([Promise.all([...sessions.values()].map((s) => s.end("closed"))), sleep(1500)]);
process.exit(0);
