#!/usr/bin/env node
// seventh-jackdaw: a rule-based agent on the official ACP SDK.
import { agent, methods, ndJsonStream, RequestError } from "@agentclientprotocol/sdk";
import { spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { connect, running } from "./mcp.mjs";
import { cleanPath, understand, wantsReading } from "./wishes.mjs";

const FAULT = process.env.FAULT ?? "";
console.log = console.info = console.error;
const PAGE = 7;
const A = methods.agent, C = methods.client;

class ToolFailed extends Error {}
class Stopped extends Error {}
const sleep = (ms, signal) => new Promise((ok, bad) => {
  if (signal?.aborted) return bad(signal.reason);
  const t = setTimeout(() => { signal?.removeEventListener("abort", stop); ok(); }, ms);
  const stop = () => { clearTimeout(t); bad(signal.reason); };
  signal?.addEventListener("abort", stop, { once: true });
});
const block = (text) => ({ type: "text", text });
const said = (text) => ({ type: "content", content: block(text) });
const bad = (why) => RequestError.invalidParams(undefined, why);

// ------------------------------------------------------------------ state
const store = (() => {
  const wanted = path.join(process.env.XDG_DATA_HOME || path.join(os.homedir() || os.tmpdir(), ".local", "share"), "seventh-jackdaw");
  for (const d of [wanted, path.join(os.tmpdir(), `seventh-jackdaw-${process.getuid?.() ?? 0}`)])
    try { fs.mkdirSync(d, { recursive: true }); fs.accessSync(d, fs.constants.W_OK); return d; } catch { /* the next one */ }
  return os.tmpdir();
})();
const fileOf = (id) => path.join(store, `${id}.json`);
const validId = (id) => /^\d{19}$/.test(id);
function saved(id) {
  if (!validId(id)) return undefined;
  try { return JSON.parse(fs.readFileSync(fileOf(id), "utf8")); } catch { return undefined; }
}
let lastId = 0n;
function newId() {
  let n = 4000000000000000000n + BigInt(Date.now()) * 1000000n + BigInt(randomBytes(2).readUInt16BE());
  if (n <= lastId) n = lastId + 1n;
  return String(lastId = n);
}

const caps = { read: false, write: false, terminal: false, form: false, url: false, boolean: false, notices: false, compaction: false };
const sessions = new Map();
let client;

const MODELS = ["rook-1", "daw-2", "raven-3"], EFFORTS = ["low", "medium", "high"];

class Session {
  config = { model: "daw-2", effort: "medium", trinkets: false };
  notes = [];
  history = [];
  links = [];
  greeted = false;
  turn = undefined;
  constructor(id, cwd, extra = []) { this.id = id; this.cwd = cwd; this.extra = extra; }

  save() {
    const { id, cwd, extra, config, notes, history, title } = this;
    const tmp = `${fileOf(id)}.${process.pid}.tmp`;
    try {
      fs.writeFileSync(tmp, JSON.stringify({ id, cwd, extra, config, notes, history, title, updatedAt: new Date().toISOString() }));
      fs.renameSync(tmp, fileOf(id));
    } catch (e) { console.error("not saved:", e.message); }
  }
  send(update) { return client.notify(C.session.update, { sessionId: this.id, update }).catch(() => {}); }
  keep(update) { this.history.push(update); return this.send(update); }

  options() {
    const list = [
      { id: "model", name: "Model", category: "model", type: "select", currentValue: this.config.model,
        options: [{ group: "quick", name: "Quick birds", options: [{ value: "rook-1", name: "Rook 1" }] },
          { group: "clever", name: "Clever birds", options: [{ value: "daw-2", name: "Daw 2" }, { value: "raven-3", name: "Raven 3" }] }] },
      { id: "effort", name: "Effort", description: "A rook never makes an effort", category: "thought_level", type: "select", currentValue: this.config.effort,
        options: EFFORTS.map((e) => ({ value: e, name: e[0].toUpperCase() + e.slice(1) })) },
    ];
    list.push({ id: "trinkets", name: "Trinkets", description: "Ends every answer with something shiny", type: "boolean", currentValue: this.config.trinkets });
    return list;
  }
  // only what this client can show
  shownOptions() { return this.options().filter((o) => o.type !== "boolean" || caps.boolean); }

  wire(specs) {
    this.links = [];
    this.wiring = Promise.all(specs.map(async (spec) => {
      const link = await connect(spec, this.cwd);
      if (link.failed) {
        console.error("mcp", link.name, link.failed);
        if (caps.notices && sessions.get(this.id) === this) this.send({ sessionUpdate: "notice", severity: "warning", title: `The MCP server ${link.name} is not available`, description: link.failed });
      } else if (this.closed) await link.stop();
      else this.links.push(link);
    }));
  }
  async unwire() {
    this.closed = true;
    await Promise.all(this.links.map((l) => FAULT === "idle-server" && l.state !== "called" ? undefined : l.stop()));
    this.links = [];
  }
  resolve(p) {
    if (p.startsWith("~/")) p = path.join(os.homedir(), p.slice(2));
    return path.resolve(this.cwd, p);
  }
  inRoots(p) {
    const real = (x) => {
      const tail = [];
      for (let d = x; ; d = path.dirname(d)) {
        try { return path.join(fs.realpathSync(d), ...tail); } catch { tail.unshift(path.basename(d)); }
        if (d === path.dirname(d)) return x;
      }
    };
    const r = real(p);
    return [this.cwd, ...this.extra].some((root) => { const rel = path.relative(real(root), r); return rel === "" || (rel !== ".." && !rel.startsWith("../") && !path.isAbsolute(rel)); });
  }
}

function open(id) {
  const s = sessions.get(id);
  if (!s) throw RequestError.sessionNotFound(id);
  return s;
}
function checkPlace(p) {
  if (!path.isAbsolute(p.cwd)) throw bad("cwd must be an absolute path");
  for (const d of p.additionalDirectories ?? []) if (!path.isAbsolute(d)) throw bad("additionalDirectories must hold absolute paths");
  for (const s of p.mcpServers ?? []) if (s.type === "sse") throw bad("the sse transport is not supported");
}

// ------------------------------------------------------------------ a turn
class Turn {
  abort = new AbortController();
  cleanups = new Set();
  calls = new Map();
  message = undefined;
  constructor(s) { this.s = s; this.signal = this.abort.signal; this.ended = new Promise((r) => { this.end = r; }); }
  check() { if (this.signal.aborted) throw this.signal.reason; }
  stop(how) { if (!this.signal.aborted) this.abort.abort(Object.assign(new Stopped(how), { how })); }

  async say(text, kind = "agent_message_chunk") {
    this.check();
    if (this.message?.kind !== kind) this.message = { kind, id: randomUUID() };
    await this.s.keep({ sessionUpdate: kind, messageId: this.message.id, content: block(text) });
  }
  async begin(title, kind, rawInput, locations) {
    this.check();
    this.message = undefined;
    const toolCallId = randomUUID();
    const call = { toolCallId, title, kind, rawInput, ...(locations ? { locations } : {}) };
    this.calls.set(toolCallId, call);
    await this.s.keep({ sessionUpdate: "tool_call", status: "pending", ...call });
    return toolCallId;
  }
  async step(id, fields) {
    this.check();
    await this.s.keep({ sessionUpdate: "tool_call_update", toolCallId: id, ...fields });
  }
  async done(id, status, content, more = {}) {
    if (!this.calls.delete(id)) return;
    await this.s.keep({ sessionUpdate: "tool_call_update", toolCallId: id, status, content, ...more });
  }
  // ask the client; when the turn is stopped, tell the client and wait no longer
  request(method, params) {
    this.check();
    return client.request(method, params, { cancellationSignal: this.signal, stopWaitingOnCancel: true }).catch((e) => { this.check(); throw e; });
  }
  async allowed(id, content) {
    this.check();
    const { title, kind, rawInput, locations } = this.calls.get(id);
    const asked = client.request(C.session.requestPermission, {
      sessionId: this.s.id,
      toolCall: { toolCallId: id, title, kind, rawInput, ...(locations ? { locations } : {}), ...(content ? { content } : {}) },
      options: [{ optionId: "0", name: "Go ahead", kind: "allow_once" }, { optionId: "1", name: "Don't", kind: "reject_once" }],
    });
    let got;
    try {
      // after a cancel the client owes us the outcome "cancelled"; give it a moment
      got = await Promise.race([asked, new Promise((_, no) => {
        const late = () => setTimeout(no, 2500, this.signal.reason).unref();
        this.signal.aborted ? late() : this.signal.addEventListener("abort", late, { once: true });
      })]);
    } catch (e) { this.check(); throw new ToolFailed(`The permission could not be asked for: ${e.message}`); }
    this.check();
    if (got?.outcome?.outcome === "cancelled") { this.stop("cancelled"); this.check(); }
    return got?.outcome?.outcome === "selected" && got.outcome.optionId === "0";
  }
}

// ------------------------------------------------------------------ doing things
const TRINKETS = ["a button", "a silver spoon", "a bottle cap", "half a key"];
const does = {
  async hello(t) { await t.say("Hello, I am a jackdaw. Give me a file, a command, a plan, a tool or a word to keep."); },
  async unknown(t) { await t.say("Kyow? I know only a few things: files, commands, plans, stories, tools and words to keep."); },
  async say(t, w) { await t.say(w.text); },
  async remember(t, w) { t.s.notes.push(w.what); await t.say(`Kept: ${w.what}`); },
  async recall(t) { await t.say(t.s.notes.length ? `In my nest I have: ${t.s.notes.join(", ")}` : "My nest is empty, you gave me nothing to keep in this session."); },
  async think(t, w) {
    for (const x of [`The question is: ${w.about}`, " One could say yes.", " One could say no.", " A jackdaw says: look closer."]) { await t.say(x, "agent_thought_chunk"); await sleep(60, t.signal); }
    await t.say("I have thought it over. Look closer, that is my answer.");
  },
  async story(t, w) {
    if (w.short) return t.say("A jackdaw found a ring, and gave it back. The end.");
    const story = ["On the church tower of a small town lived a jackdaw.\n\n", "It collected whatever shone: buttons, caps, a spoon.\n\n", "One evening it found a ring on the weathercock.\n\n", "Nobody knew how the ring had come up there.\n\n",
      "The jackdaw put it under the oldest beam.\n\n", "That night the bells rang by themselves.\n\n", "In the morning the whole town stood in the square.\n\n", "An old woman said that her ring had been lost for fifty years.\n\n",
      "The jackdaw listened and tilted its head.\n\n", "It flew down and laid the ring into her hand.\n\n", "She gave it a brass button in return.\n\n", "And the jackdaw thought that this was by far the better deal.\n"];
    for (const line of story) { await t.say(line); await sleep(480, t.signal); }
  },
  async plan(t, w) {
    const goal = w.goal || "the matter", entries = [["Collect what belongs to ", "high"], ["Sort ", "medium"], ["Tidy up after ", "low"]].map(([c, priority]) => ({ content: c + goal, priority, status: "pending" }));
    const show = () => { t.message = undefined; return t.s.keep({ sessionUpdate: "plan", entries: structuredClone(entries) }); };
    await show();
    for (const e of entries) { await sleep(100, t.signal); e.status = "in_progress"; await show(); await sleep(100, t.signal); e.status = "completed"; await show(); }
    await t.say("That was the plan, and it is done.");
  },
  async mode(t, w) {
    const model = MODELS.find((m) => w.text.includes(m) || w.text.includes(m.split("-")[0]));
    if (!model) return t.say(`I have no modes, only models: ${MODELS.join(", ")}.`);
    setOption(t.s, "model", model);
    await t.s.send({ sessionUpdate: "config_option_update", configOptions: t.s.shownOptions() });
    await t.say(`I am ${model} now.`);
  },
  async compact(t) {
    if (caps.compaction) {
      const compactionId = randomUUID();
      await t.s.send({ sessionUpdate: "compaction_update", compactionId, status: "in_progress" });
      try {
        await sleep(150, t.signal);
        await t.s.send({ sessionUpdate: "compaction_summary_chunk", compactionId, content: block("Everything of note is in the nest.") });
        await t.s.send({ sessionUpdate: "compaction_update", compactionId, status: "completed" });
      } catch (e) { await t.s.send({ sessionUpdate: "compaction_update", compactionId, status: "cancelled" }); throw e; }
    }
    await t.say("I have folded my wings, there is plenty of room again.");
  },

  // ---- files
  async read(t, w) {
    for (const p of w.paths) {
      const file = t.s.resolve(p);
      const id = await t.begin(`Reading ${file}`, "read", { file }, [{ path: file }]);
      let text;
      try {
        if (!t.s.inRoots(file)) throw new ToolFailed("That is outside the workspace.");
        await t.step(id, { status: "in_progress" });
        text = await fetchFile(t, file, w);
        if (text === null) throw new ToolFailed("There is no such file.");
      } catch (e) {
        if (!(e instanceof ToolFailed)) throw e;
        await t.done(id, "failed", [said(e.message)]);
        await t.say(`I cannot read ${p}: ${e.message}`);
        continue;
      }
      await t.done(id, "completed", [said("```\n" + text + "\n```")], { rawOutput: { text } });
      await t.say(text === "" ? `${p} is empty.` : `This is in ${p}:\n\n${text}`);
    }
  },
  async write(t, w) { await change(t, w.path, () => w.text); },
  async append(t, w) { await change(t, w.path, (old) => (old && !old.endsWith("\n") ? old + "\n" : old ?? "") + w.text + (w.text.endsWith("\n") ? "" : "\n")); },
  async edit(t, w) {
    await change(t, w.path, (old) => {
      if (old === null) throw new ToolFailed("There is no such file.");
      if (!old.includes(w.old)) throw new ToolFailed(`There is no "${w.old}" in it.`);
      return old.split(w.old).join(w.new);
    });
  },

  // ---- commands
  async shell(t, w) {
    const { command } = w, harmless = /^(?:echo|printf|ls|pwd|cat|true|date|whoami|uname|head|wc|sleep)\b[^|&;<>()$`\\\n*?]*$/.test(command) && !/(?:^|\s)(?:\/|~|\.\.)/.test(command);
    const id = await t.begin("`" + command + "`", "execute", { command });
    let run;
    try {
      if (!harmless && !await t.allowed(id)) {
        await t.done(id, "failed", [said("Not allowed by the user.")]);
        return t.say("Then I leave it.");
      }
      run = await (caps.terminal ? inTerminal : inChild)(t, id, command);
    } catch (e) {
      if (!(e instanceof ToolFailed)) throw e;
      await t.done(id, "failed", [said(e.message)]);
      return t.say(`That did not work: ${e.message}`);
    }
    await t.done(id, run.code === 0 ? "completed" : "failed", run.content, { rawOutput: { exitCode: run.code, output: run.output } });
    await t.say(run.code === 0 ? (run.output.trim() ? run.output : "Done, without a word.") : `It failed (${run.code ?? run.signal}):\n${run.output}`);
  },

  // ---- questions
  async ask(t, w) {
    const q = w.question;
    if (q.kind === "secret") {
      if (!caps.url) return t.say("A secret does not belong into a form or a chat, and your client cannot open a page for it. So I do without.");
      const got = await elicit(t, { mode: "url", elicitationId: randomUUID(), url: "https://login.jackdaw.example/enter", message: "Please enter it on this page, I never see it." });
      const words = { accept: "Thank you. I will know that it is done when the page tells me, until then I assume nothing.", decline: "You declined, so we do without.", cancel: "You closed it, so we do without." };
      return t.say(Object.hasOwn(words, got?.action) ? words[got.action] : "I could not make sense of the reply, so we do without.");
    }
    if (!caps.form) return t.say(`Your client has no forms, so tell me here: ${q.text}${q.options.length ? ` (${q.options.join(" / ")})` : ""}`);
    const field = { text: { type: "string", title: "Text", maxLength: 500 }, number: { type: "integer", title: "Number", minimum: 0, maximum: 1000000 },
      yesno: { type: "boolean", title: "Yes or no", default: false }, choice: { type: "string", title: "Choice", enum: q.options } }[q.kind];
    const got = await elicit(t, { mode: "form", message: q.text, requestedSchema: { type: "object", title: "A question", properties: { value: field }, required: ["value"] } });
    if (got?.action === "accept") {
      const v = got.content?.value;
      const fits = { text: typeof v === "string" && v.length <= 500, number: Number.isInteger(v) && v >= 0 && v <= 1000000, yesno: typeof v === "boolean", choice: q.options.includes(v) }[q.kind];
      return t.say(fits ? `So it is: ${v}` : "That is not a valid answer to my question, I drop it.");
    }
    if (got?.action === "decline") return t.say("You declined, I go on without it.");
    if (got?.action === "cancel") return t.say("You dismissed it, I go on without it.");
    await t.say(got?.failed ? `The question could not be asked: ${got.failed}` : "I could not make sense of the reply, I go on without it.");
  },

  // ---- MCP
  async tools(t) { const n = t.s.links.flatMap((l) => l.tools.map((x) => x.name)); await t.say(n.length ? `Connected tools: ${n.join(", ")}` : "There are no MCP tools here."); },
  async mcp(t, w) {
    const id = await t.begin(`${w.tool.server} › ${w.tool.name}`, "other", w.args);
    await t.step(id, { status: "in_progress" });
    let got;
    try { got = await w.tool.link.call(w.tool.name, w.args, t.signal); } catch (e) {
      t.check();
      await t.done(id, "failed", [said(e.message)]);
      return t.say(`The tool failed: ${e.message}`);
    }
    t.check();
    const text = (got?.content ?? []).filter((c) => c?.type === "text" && typeof c.text === "string").map((c) => c.text).join("\n") || JSON.stringify(got?.structuredContent ?? null);
    await t.done(id, got?.isError ? "failed" : "completed", [said(text)], { rawOutput: got });
    await t.say(got?.isError ? `The tool complains: ${text}` : `${w.tool.name} says: ${text}`);
  },
};

async function elicit(t, params) {
  try { return await t.request(C.elicitation.create, { sessionId: t.s.id, ...params }); } catch (e) { t.check(); return { failed: e.message }; }
}

// the text of a file, or null
async function fetchFile(t, file, w = {}) {
  if (caps.read) {
    try {
      const got = await t.request(C.fs.readTextFile, { sessionId: t.s.id, path: file, ...(w.line ? { line: w.line, limit: w.limit } : {}) });
      if (typeof got?.content !== "string") throw new ToolFailed("The client sent no content.");
      return got.content;
    } catch (e) {
      t.check();
      if (e instanceof ToolFailed) throw e;
      if (e.code === -32002) return null;
      throw new ToolFailed(e.message);
    }
  }
  try {
    const text = fs.readFileSync(file, "utf8");
    return w.line ? text.split("\n").slice(w.line - 1, w.line - 1 + w.limit).join("\n") : text;
  } catch (e) { if (e.code === "ENOENT") return null; throw new ToolFailed(e.message); }
}

async function change(t, p, make) {
  const file = t.s.resolve(p);
  const id = await t.begin(`Writing ${file}`, "edit", { file }, [{ path: file }]);
  try {
    if (!t.s.inRoots(file)) throw new ToolFailed("That is outside the workspace.");
    const oldText = await fetchFile(t, file), newText = make(oldText);
    const diff = [{ type: "diff", path: file, oldText, newText }];
    if (oldText !== null && !await t.allowed(id, diff)) { // new files are made without asking
      await t.done(id, "failed", [said("Not allowed by the user.")]);
      return t.say(`Then ${p} stays as it is.`);
    }
    await t.step(id, { status: "in_progress" });
    if (caps.write) {
      try { await t.request(C.fs.writeTextFile, { sessionId: t.s.id, path: file, content: newText }); } catch (e) { t.check(); throw new ToolFailed(e.message); }
    } else {
      try { fs.mkdirSync(path.dirname(file), { recursive: true }); fs.writeFileSync(file, newText); } catch (e) { throw new ToolFailed(e.message); }
    }
    await t.done(id, "completed", diff);
    await t.say(oldText === null ? `${p} is new, with ${newText.length} characters.` : `${p} has been changed.`);
  } catch (e) {
    if (!(e instanceof ToolFailed)) throw e;
    await t.done(id, "failed", [said(e.message)]);
    await t.say(`${p} was not changed: ${e.message}`);
  }
}

async function inTerminal(t, id, command) {
  const simple = /^[\w@%+=:,./-]+(?: +[\w@%+=:,./-]+)*$/.test(command) && !/^(?:[^ ]*=|(?:exit|cd|export|set|test|true|false|read|source|type|ulimit|umask|wait|trap|exec|eval|command|\.)(?: |$))/.test(command) ? command.split(/ +/) : undefined;
  const sessionId = t.s.id;
  t.check();
  let made;
  try {
    // not abandoned on cancel: a terminal that comes into being has to be released
    made = await client.request(C.terminal.create, { sessionId, command: simple ? simple[0] : "/bin/sh", args: simple ? simple.slice(1) : ["-c", command], cwd: t.s.cwd, outputByteLimit: 65536 });
  } catch (e) { t.check(); throw new ToolFailed(e.message); }
  const terminalId = made?.terminalId;
  if (typeof terminalId !== "string") throw new ToolFailed("The client gave no terminal.");
  const at = { sessionId, terminalId }, patience = (p) => Promise.race([p.catch(() => {}), sleep(1500)]);
  let over = false;
  try {
    await t.step(id, { status: "in_progress", content: [{ type: "terminal", terminalId }] });
    const exit = await t.request(C.terminal.waitForExit, at);
    over = true;
    const got = await t.request(C.terminal.output, at);
    return { code: exit?.exitCode ?? got?.exitStatus?.exitCode, signal: exit?.signal, output: got?.output ?? "", content: [{ type: "terminal", terminalId }] };
  } catch (e) { t.check(); throw new ToolFailed(e.message); }
  finally {
    if (!over) await patience(client.request(C.terminal.kill, at));
    await patience(client.request(C.terminal.release, at));
  }
}

const children = new Set();
function inChild(t, id, command) {
  return new Promise((ok, no) => {
    t.step(id, { status: "in_progress" }).catch(no);
    const child = spawn("/bin/sh", ["-c", command], { cwd: t.s.cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    children.add(child);
    let output = "";
    for (const s of [child.stdout, child.stderr]) s.setEncoding("utf8").on("data", (d) => { if (output.length < 200000) output += d; });
    const kill = () => { try { process.kill(-child.pid, "SIGKILL"); } catch { /* gone */ } no(t.signal.reason); };
    t.signal.addEventListener("abort", kill, { once: true });
    child.on("error", (e) => { children.delete(child); no(new ToolFailed(e.message)); });
    child.on("close", (code, signal) => {
      children.delete(child);
      t.signal.removeEventListener("abort", kill);
      ok({ code, signal, output, content: [said(output)] });
    });
  });
}

function setOption(s, id, value) {
  s.config[id] = value;
  if (id === "model" && value === "rook-1") s.config.effort = "low";
  if (s.history.length) s.save();
}

async function answer(t, blocks) {
  const s = t.s, text = blocks.filter((b) => b.type === "text").map((b) => b.text).join("\n").trim();
  if (!s.greeted) {
    s.greeted = true;
    await s.send({ sessionUpdate: "available_commands_update", availableCommands: [{ name: "nest", description: "Shows what has been kept" }, { name: "compact", description: "Makes room" }, { name: "story", description: "Tells a story", input: { hint: "short or long" } }] });
  }
  await Promise.race([s.wiring ?? Promise.resolve(), new Promise((_, no) => t.signal.addEventListener("abort", () => no(t.signal.reason), { once: true }))]);
  const tools = s.links.flatMap((l) => l.tools);
  const links = blocks.filter((b) => b.type === "resource_link");
  const slash = /^\/(nest|compact|story)\b\s*([\s\S]*)$/.exec(text);
  let steps = slash ? [{ do: { nest: "recall", compact: "compact", story: "story" }[slash[1]], short: /short/.test(slash[2]) }] : text ? understand(text, tools) : [];
  if (!slash && /^(?:please )?compact\b/i.test(text)) steps = [{ do: "compact" }];
  const vague = steps.every((x) => ["unknown", "hello"].includes(x.do));
  if (links.length && vague) {
    const files = links.filter((b) => b.uri.startsWith("file:///"));
    if (files.length && wantsReading(text)) steps = [{ do: "read", paths: files.map((b) => cleanPath(b.uri)) }];
    else return t.say(`I see a link to ${links.map((b) => b.title ?? b.name).join(", ")}.`);
  }
  if (!steps.length) steps = [{ do: "hello" }];
  if (s.config.effort === "high") { await t.say("What do they want? Let me tilt my head.", "agent_thought_chunk"); }
  for (const step of steps) { t.check(); await does[step.do](t, step); }
  if (s.config.trinkets && caps.boolean) await t.say(`\n\n(And here is ${TRINKETS[s.history.length % TRINKETS.length]}.)`);
}

// ------------------------------------------------------------------ the protocol
const app = agent({ name: "seventh-jackdaw" })
  .onRequest(A.initialize, ({ params }) => {
    const c = params.clientCapabilities ?? {};
    Object.assign(caps, {
      read: c.fs?.readTextFile === true, write: c.fs?.writeTextFile === true, terminal: c.terminal === true,
      form: c.elicitation?.form != null, url: c.elicitation?.url != null,
      boolean: c.session?.configOptions?.boolean != null, notices: c.session?.notices != null, compaction: c.session?.compaction != null,
    });
    return {
      protocolVersion: FAULT === "floor-version" ? Math.min(params.protocolVersion, 1) : 1,
      agentInfo: { name: "seventh-jackdaw", title: "Jackdaw", version: "7.2.0" },
      agentCapabilities: { loadSession: true, promptCapabilities: { image: false, audio: false, embeddedContext: false }, mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, delete: {}, close: {}, additionalDirectories: {} }, auth: {} },
      authMethods: [],
    };
  })
  .onRequest(A.session.new, ({ params }) => {
    checkPlace(params);
    const s = new Session(newId(), path.resolve(params.cwd), params.additionalDirectories ?? []);
    sessions.set(s.id, s);
    s.wire(params.mcpServers);
    return { sessionId: s.id, configOptions: s.shownOptions() };
  })
  .onRequest(A.session.load, async ({ params }) => {
    checkPlace(params);
    const was = sessions.get(params.sessionId);
    if (was?.turn) throw RequestError.invalidRequest(undefined, "the session is busy");
    const d = saved(params.sessionId) ?? (was && { config: was.config, notes: was.notes, history: was.history });
    if (!d) throw RequestError.sessionNotFound(params.sessionId);
    const s = new Session(params.sessionId, path.resolve(params.cwd), params.additionalDirectories ?? []);
    Object.assign(s.config, d.config);
    Object.assign(s, { notes: d.notes, history: d.history, title: d.title });
    sessions.set(s.id, s);
    if (was) await was.unwire();
    s.wire(params.mcpServers);
    for (const u of s.history) {
      if (!u.content?.some?.((c) => c.type === "terminal")) { await s.send(u); continue; }
      // the terminal of those days is gone; its output is in rawOutput
      await s.send({ ...u, content: u.rawOutput ? [said(String(u.rawOutput.output ?? ""))] : [] });
    }
    return { configOptions: s.shownOptions() };
  })
  .onRequest(A.session.list, ({ params }) => {
    let rows = [];
    for (const f of fs.readdirSync(store)) {
      const d = f.endsWith(".json") ? saved(f.slice(0, -5)) : undefined;
      if (d && (params.cwd == null || d.cwd === params.cwd || d.cwd === path.resolve("/", params.cwd))) rows.push(d);
    }
    rows.sort((a, b) => (a.id < b.id ? 1 : -1));
    if (params.cursor != null) {
      const m = /^after:(\d{19})$/.exec(Buffer.from(params.cursor, "base64url").toString());
      if (!m || Buffer.from(m[0]).toString("base64url") !== params.cursor) throw bad("this cursor is not valid");
      rows = rows.filter((r) => r.id < m[1]);
    }
    const page = rows.slice(0, PAGE);
    return {
      sessions: page.map((d) => ({ sessionId: d.id, cwd: d.cwd, ...(d.extra?.length ? { additionalDirectories: d.extra } : {}), title: d.title ?? null, updatedAt: d.updatedAt })),
      ...(rows.length > PAGE ? { nextCursor: Buffer.from(`after:${page.at(-1).id}`).toString("base64url") } : {}),
    };
  })
  .onRequest(A.session.delete, async ({ params }) => {
    const s = sessions.get(params.sessionId);
    if (s) await shut(s);
    if (validId(params.sessionId)) fs.rmSync(fileOf(params.sessionId), { force: true });
    return {};
  })
  .onRequest(A.session.close, async ({ params }) => { await shut(open(params.sessionId)); return {}; })
  .onRequest(A.session.setConfigOption, ({ params }) => {
    const s = open(params.sessionId), o = s.shownOptions().find((x) => x.id === params.configId);
    if (!o) throw bad("there is no such option");
    const fits = o.type === "boolean" ? typeof params.value === "boolean" : (o.id === "model" ? MODELS : EFFORTS).includes(params.value);
    if (!fits) throw bad("there is no such value");
    setOption(s, o.id, params.value);
    return { configOptions: FAULT === "late-boolean" ? s.options() : s.shownOptions() };
  })
  .onRequest(A.session.prompt, async ({ params, signal }) => {
    const s = open(params.sessionId);
    if (params.prompt.some((b) => b.type !== "text" && b.type !== "resource_link")) throw bad("only text and resource links are understood");
    if (s.turn) throw RequestError.invalidRequest(undefined, "a turn is already running in this session");
    const t = s.turn = new Turn(s);
    const dropped = () => t.stop("request");
    signal.aborted ? dropped() : signal.addEventListener("abort", dropped, { once: true });
    try {
      const messageId = randomUUID();
      for (const content of params.prompt) s.history.push({ sessionUpdate: "user_message_chunk", messageId, content });
      if (!s.title) s.fresh = s.title = (params.prompt.find((b) => b.type === "text")?.text ?? "A link").trim().replace(/\s+/g, " ").slice(0, 40) || "Untitled";
      s.save();
      try { await answer(t, params.prompt); t.check(); } catch (e) {
        if (!t.signal.aborted) { console.error("turn:", e); t.stop("broken"); }
      }
      for (const id of [...t.calls.keys()]) await t.done(id, "failed", [said("Stopped.")]);
      const how = t.signal.reason?.how;
      if (how === "broken") { t.message = undefined; await s.keep({ sessionUpdate: "agent_message_chunk", messageId: randomUUID(), content: block("Something broke, sorry.") }); }
      if (s.fresh && how !== "request") { await s.send({ sessionUpdate: "session_info_update", title: s.title }); s.fresh = undefined; }
      if (sessions.get(s.id) === s || !s.deleted) s.save();
      if (how === "request") throw RequestError.requestCancelled();
      return { stopReason: how === "cancelled" ? "cancelled" : "end_turn" };
    } finally { s.turn = undefined; t.end(); }
  })
  .onNotification(A.session.cancel, ({ params }) => { sessions.get(params.sessionId)?.turn?.stop("cancelled"); });

async function shut(s) {
  sessions.delete(s.id);
  if (s.turn) { s.turn.stop("cancelled"); await s.turn?.ended; }
  await s.unwire();
}

// ------------------------------------------------------------------ stdio
const base = ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const out = base.writable.getWriter();
const owed = new Map(); // requests that wait for our answer
let eased = () => {};
const pendingInit = new Map();
const inbound = new TransformStream({
  async transform(m, to) {
    const call = "method" in m;
    if (call && m.jsonrpc === "2.0" && typeof m.method === "string" && m.params !== undefined && m.params !== null && typeof m.params !== "object") {
      if ("id" in m) await out.write({ jsonrpc: "2.0", id: null, error: { code: -32600, message: "Invalid request: params must be an object" } });
      return;
    }
    const request = call && m.jsonrpc === "2.0" && typeof m.method === "string" && (typeof m.id === "string" || typeof m.id === "number");
    if (request) owed.set(m.id, (owed.get(m.id) ?? 0) + 1);
    const answered = request && m.method === "initialize" && new Promise((r) => pendingInit.set(m.id, r));
    to.enqueue(m);
    if (answered) await Promise.race([answered, sleep(1000)]); // what comes right behind initialize waits for it
  },
  async flush() { // the client has closed stdin: end the turns, give the last answers
    for (const s of sessions.values()) s.turn?.stop("cancelled");
    if (owed.size) await Promise.race([new Promise((r) => { eased = r; }), sleep(1500)]);
  },
});
const stream = {
  readable: base.readable.pipeThrough(inbound, {}),
  writable: new WritableStream({
    async write(m) {
      await out.write(m);
      if (m.method === undefined) {
        pendingInit.get(m.id)?.();
        pendingInit.delete(m.id);
        const n = owed.get(m.id) ?? 0;
        n > 1 ? owed.set(m.id, n - 1) : owed.delete(m.id);
        if (!owed.size) eased();
      }
    },
  }),
};
process.stdout.on("error", () => leave());
let leaving;
async function leave() {
  if (leaving) return;
  leaving = true;
  for (const c of children) { try { process.kill(-c.pid, "SIGKILL"); } catch { /* gone */ } }
  await Promise.race([Promise.all([...sessions.values()].flatMap((s) => s.links.map((l) => l.stop().catch(() => {})))), sleep(2000)]);
  for (const l of running) l.kill();
  process.exit(0);
}
const connection = app.connect(stream);
client = connection.client;
connection.closed.then(leave);
process.on("SIGTERM", leave);
process.on("SIGINT", leave);
process.on("unhandledRejection", (e) => console.error("unhandled:", e?.message ?? e));
