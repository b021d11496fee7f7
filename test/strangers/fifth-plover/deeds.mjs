// Carries out the wishes of one turn with the agent's own hands: files, commands, MCP tools, questions.
import { randomUUID } from "node:crypto";
import { spawn } from "node:child_process";
import fs from "node:fs/promises";
import { realpathSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { within } from "./mcp.mjs";
import { killGroup, Stopped } from "./session.mjs";
import { understand } from "./wishes.mjs";

const textPart = (text) => ({ type: "content", content: { type: "text", text } });
const LIMIT = 200_000;

// Everything a turn can do to the client. Nothing is sent once the turn was cancelled, save the last word on a tool call.
class Hands {
  constructor(session, turn) { this.session = session; this.turn = turn; this.signal = turn.signal; }
  check() { if (this.signal.aborted) throw new Stopped(); }
  chunk(kind, text, messageId) {
    this.check();
    this.session.words += text.length;
    this.session.tell({ sessionUpdate: kind, messageId, content: { type: "text", text } });
  }
  say(text) { this.chunk("agent_message_chunk", text, randomUUID()); }
  think(text) { this.chunk("agent_thought_chunk", text, randomUUID()); }
  plan(entries) { this.check(); this.session.tell({ sessionUpdate: "plan", entries: entries.map((e) => ({ ...e })) }); }
  rest(ms) {
    this.check();
    return new Promise((resolve, reject) => {
      const off = () => { clearTimeout(timer); reject(new Stopped()); };
      const timer = setTimeout(() => { this.signal.removeEventListener("abort", off); resolve(); }, ms);
      this.signal.addEventListener("abort", off, { once: true });
    });
  }
  // A request to the client that does not outlive the turn: after a cancel the client gets a moment to answer.
  async ask(method, params, grace) {
    this.check();
    const limit = new AbortController();
    const off = () => setTimeout(() => limit.abort(), grace);
    this.signal.addEventListener("abort", off, { once: true });
    try {
      return await this.session.peer.client.request(method, params, { cancellationSignal: limit.signal, stopWaitingOnCancel: true });
    } finally {
      this.signal.removeEventListener("abort", off);
      this.check();
    }
  }
  // Reports a tool call from pending to its end. `deed` gives {content, rawOutput, failed, said}.
  async tool({ name, title, kind, rawInput, locations, content, permit }, deed) {
    this.check();
    const { session } = this, toolCallId = session.nextDeed();
    const call = { toolCallId, title, kind, status: "pending", rawInput, ...(locations && { locations }), ...(content && { content }) };
    session.tell({ sessionUpdate: "tool_call", name, ...call });
    const update = (more) => session.tell({ sessionUpdate: "tool_call_update", toolCallId, ...more });
    try {
      if (permit && !(await this.permit(call, permit))) {
        update({ status: "failed", content: [...(content ?? []), textPart("You did not allow this.")] });
        return { refused: true };
      }
      this.check();
      update({ status: "in_progress" });
      const result = await deed((more) => { if (!this.signal.aborted) update(more); });
      this.check();
      update({ status: result.failed ? "failed" : "completed", content: result.content, ...(result.rawOutput !== undefined && { rawOutput: result.rawOutput }) });
      return result;
    } catch (e) {
      if (this.signal.aborted) {
        update({ status: "failed", content: [textPart("Stopped before it was finished.")] });
        throw new Stopped();
      }
      update({ status: "failed", content: [textPart(`It did not work: ${e.message}`)] });
      return { failed: true, error: e };
    }
  }
  // The options come in an unusual order, the most cautious first; "always" holds for the very same target only.
  async permit(toolCall, { key, what }) {
    const { session } = this;
    if (session.mode === "swift" || session.allowed.has(key)) return true;
    if (session.refused.has(key)) return false;
    const answer = await this.ask("session/request_permission", {
      sessionId: session.sessionId, toolCall,
      options: [
        { optionId: "leave-it", name: "No, leave it", kind: "reject_once" },
        { optionId: "whenever", name: `Yes, and always for ${what}`, kind: "allow_always" },
        { optionId: "never-ever", name: `No, and never for ${what}`, kind: "reject_always" },
        { optionId: "this-time", name: "Yes, this time", kind: "allow_once" },
      ],
    }, 1500);
    if (answer?.outcome?.outcome === "cancelled") {
      this.turn.why ??= "cancel";
      this.turn.stop.abort(new Stopped());
      throw new Stopped();
    }
    const chosen = answer?.outcome?.outcome === "selected" ? answer.outcome.optionId : undefined;
    if (chosen === "whenever") session.allowed.add(key);
    if (chosen === "never-ever") session.refused.add(key);
    return chosen === "this-time" || chosen === "whenever";
  }
}

// ---- files -------------------------------------------------------------------------------------------
function resolve(session, name) {
  const full = path.resolve(session.base, name.startsWith("~/") ? path.join(os.homedir(), name.slice(2)) : name);
  // The nearest part that exists decides where the path really leads (links!).
  let real = full, tail = "";
  for (;;) {
    try { real = path.join(realpathSync(real), tail); break; } catch { /* go one up */ }
    const up = path.dirname(real);
    if (up === real) { real = full; break; }
    tail = path.join(path.basename(real), tail);
    real = up;
  }
  let root = session.base;
  try { root = realpathSync(root); } catch { /* it does not exist (yet) */ }
  const way = path.relative(root, real);
  return { full, inside: way === "" || (way !== ".." && !way.startsWith(`..${path.sep}`) && !path.isAbsolute(way)) };
}
const outside = () => { throw new Error("the path lies outside of the working directory"); };
const oops = (name, r) => (r.refused ? `You did not allow it, so I left ${name} as it is.` : `Sorry, that did not work with ${name}: ${r.error?.message ?? "unknown trouble"}.`);

async function read(h, w) {
  const { full, inside } = resolve(h.session, w.path);
  const r = await h.tool({ name: "plover_read", title: `Read ${w.path}`, kind: "read", rawInput: { path: full }, locations: [{ path: full, line: Math.max(1, w.line ?? 1) }] }, async () => {
    if (!inside) outside();
    const text = await fs.readFile(full, "utf8");
    return { content: [textPart(text.slice(0, LIMIT))], text };
  });
  h.say(r.text !== undefined ? `${w.path} says:\n${r.text.slice(0, LIMIT)}` : oops(w.path, r));
}
async function old(full) {
  try { return await fs.readFile(full, "utf8"); } catch (e) { if (e.code === "ENOENT" || e.code === "ENOTDIR") return null; throw e; }
}
async function change(h, w, { name, title, make, done }) {
  const { full, inside } = resolve(h.session, w.path);
  let before = null, after, trouble;
  try {
    if (!inside) outside();
    before = await old(full);
    after = make(before);
  } catch (e) { trouble = e; }
  const diff = after === undefined ? undefined : [{ type: "diff", path: full, oldText: before, newText: after }];
  const r = await h.tool({ name, title, kind: "edit", rawInput: { path: full, ...(after !== undefined && { text: after }) }, locations: [{ path: full }], content: diff,
    permit: trouble ? undefined : { key: `write ${full}`, what: path.basename(full) } }, async () => {
    if (trouble) throw trouble;
    await fs.mkdir(path.dirname(full), { recursive: true });
    await fs.writeFile(full, after);
    return { content: diff };
  });
  h.say(r.content ? done : oops(w.path, r));
}
const write = (h, w) => change(h, w, { name: "plover_write", title: `Write ${w.path}`, make: () => w.text, done: `I wrote ${w.path}.` });
const append = (h, w) => change(h, w, { name: "plover_append", title: `Add to ${w.path}`,
  make: (before) => (before && !before.endsWith("\n") ? `${before}\n` : before ?? "") + w.text, done: `I added that to ${w.path}.` });
const replace = (h, w) => change(h, w, { name: "plover_replace", title: `Change ${w.path}`, done: `I changed "${w.from}" to "${w.to}" in ${w.path}.`, make: (before) => {
  if (before === null) throw new Error("there is no such file");
  if (!w.from || !before.includes(w.from)) throw new Error(`"${w.from}" does not occur in it`);
  return before.split(w.from).join(w.to);
} });
async function remove(h, w) {
  const { full, inside } = resolve(h.session, w.path);
  const r = await h.tool({ name: "plover_delete", title: `Delete ${w.path}`, kind: "delete", rawInput: { path: full }, locations: [{ path: full }],
    permit: inside ? { key: `delete ${full}`, what: path.basename(full) } : undefined }, async () => {
    if (!inside) outside();
    await fs.unlink(full);
    return { content: [textPart(`${full} is gone.`)] };
  });
  h.say(r.content ? `I deleted ${w.path}.` : oops(w.path, r));
}
async function list(h, w) {
  const { full, inside } = resolve(h.session, w.path);
  const r = await h.tool({ name: "plover_list", title: `Look around in ${w.path}`, kind: "search", rawInput: { path: full }, locations: [{ path: full }] }, async () => {
    if (!inside) outside();
    const names = (await fs.readdir(full, { withFileTypes: true })).map((e) => e.name + (e.isDirectory() ? "/" : "")).sort();
    return { content: [textPart(names.join("\n") || "(empty)")], names };
  });
  h.say(r.names ? (r.names.length ? `I see here:\n${r.names.slice(0, 500).join("\n")}` : "There is nothing here.") : oops(w.path, r));
}

// ---- commands ----------------------------------------------------------------------------------------
async function run(h, w) {
  const { session } = h, cwd = session.base;
  const r = await h.tool({ name: "plover_shell", title: w.command.split("\n")[0].slice(0, 120), kind: "execute", rawInput: { command: w.command, cwd }, permit: { key: `run ${w.command}`, what: "this command" } },
    (progress) => new Promise((resolve, reject) => {
      const child = spawn("/bin/sh", ["-c", w.command], { cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
      session.commands.add(child);
      let output = "", timer;
      const hear = (piece) => {
        output += piece;
        if (output.length > LIMIT) output = output.slice(-LIMIT);
        timer ??= setTimeout(() => { timer = undefined; progress({ content: [textPart(output)] }); }, 700);
      };
      for (const s of [child.stdout, child.stderr]) s.setEncoding("utf8").on("data", hear);
      const stop = () => {
        if (!session.commands.has(child)) { finish(() => reject(new Stopped())); return; } // nobody's child any more
        killGroup(child, "SIGTERM");
        setTimeout(() => killGroup(child, "SIGKILL"), 300);
      };
      const finish = (f) => {
        clearTimeout(timer);
        timer = 0;
        h.signal.removeEventListener("abort", stop);
        session.commands.delete(child);
        f();
      };
      h.signal.addEventListener("abort", stop, { once: true });
      child.once("error", (e) => finish(() => reject(e)));
      child.once("exit", async (code, signal) => {
        await within(new Promise((done) => child.once("close", done)), 150);
        killGroup(child, "SIGTERM"); // what it left in the background ends with it
        finish(() => resolve({ failed: code !== 0, content: [textPart(output || "(no output)")], rawOutput: { exitCode: code, signal, output }, output, code, signal }));
      });
    }));
  if (r.refused) h.say("You did not allow that command, so I did not run it.");
  else if (r.error) h.say(`The command could not run: ${r.error.message}.`);
  else h.say(`${r.output.trimEnd() || "(no output)"}${r.code === 0 ? "" : `\n(it ended with ${r.signal ?? `exit code ${r.code}`})`}`);
}

// ---- MCP ---------------------------------------------------------------------------------------------
async function mcpReady(h) { await Promise.race([within(Promise.all(h.session.mcp.map((m) => m.ready)), 5000), h.rest(5500)]); h.check(); }
async function mcpList(h) {
  await mcpReady(h);
  const lines = h.session.mcp.map((m) => `${m.name}: ${m.state === "ready" ? m.tools.map((t) => (t.description ? `${t.name} (${t.description})` : t.name)).join(", ") || "no tools" : `not available (${m.trouble ?? m.state})`}`);
  h.say(lines.length ? `These are the MCP tools I have:\n${lines.join("\n")}` : "No MCP server was given to me, so I have no MCP tools.");
}
async function mcpCall(h, w) {
  await mcpReady(h);
  const wanted = w.tool.split(/[/.]/).pop();
  const having = h.session.mcp.filter((m) => m.tools.some((t) => t.name === w.tool || t.name === wanted));
  const server = having.find((m) => m.name === w.server || w.tool.startsWith(m.name)) ?? having[0];
  if (!server) { h.say(`I know no MCP tool called ${w.tool}.`); return; }
  const tool = server.tools.some((t) => t.name === w.tool) ? w.tool : wanted;
  const r = await h.tool({ name: tool, title: `${server.name}: ${tool}`, kind: "other", rawInput: w.args }, async () => {
    const answer = await server.call(tool, w.args, h.signal);
    const text = (answer?.content ?? []).map((c) => (c.type === "text" ? c.text : c.type === "resource" ? c.resource?.text ?? c.resource?.uri : `[${c.type}]`)).join("\n")
      || (answer?.structuredContent ? JSON.stringify(answer.structuredContent) : "(nothing)");
    return { failed: answer?.isError === true, content: [textPart(text)], rawOutput: answer, text };
  });
  h.say(r.text !== undefined ? `${tool} ${r.failed ? "reports trouble" : "answers"}: ${r.text}` : `The tool ${tool} failed: ${r.error.message}.`);
}

// ---- questions ---------------------------------------------------------------------------------------
async function ask(h, w) {
  const { session } = h, can = session.peer.capabilities.elicitation ?? {};
  const inWords = () => { session.waiting = w.question; h.say(`A question for you: ${w.question}${w.options ? ` (${w.options.join(", ")})` : ""} Please write your answer as the next message.`); };
  if (w.kind === "secret") { h.say("That sounds like a secret, and I never ask for secrets in a form or in the chat."); return; }
  if (w.kind === "url" ? !can.url : !can.form) { inWords(); return; }
  const property = { choice: { type: "string", title: "Your choice", enum: w.options }, yesno: { type: "boolean", title: "Yes or no" },
    number: { type: "integer", title: "Your number" }, text: { type: "string", title: "Your answer", minLength: 1, maxLength: 2000 } }[w.kind];
  const elicitationId = randomUUID();
  let answer;
  try {
    answer = await h.ask("elicitation/create", w.kind === "url"
      ? { sessionId: session.sessionId, mode: "url", message: w.question, elicitationId, url: w.url?.startsWith("https://") && !/[@?]/.test(w.url) ? w.url : "https://plover.example/nest" }
      : { sessionId: session.sessionId, mode: "form", message: w.question, requestedSchema: { type: "object", properties: { answer: property }, required: ["answer"] } }, 200);
  } catch (e) {
    h.check();
    h.say(`I could not ask you with a form (${e.message}).`);
    inWords();
    return;
  }
  if (answer?.action === "decline") h.say("You declined to answer. That is fine.");
  else if (answer?.action === "cancel") h.say("You closed the question without an answer. That is fine.");
  else if (answer?.action !== "accept") h.say("I did not understand the reply to my question, so I take it as no answer.");
  else if (w.kind === "url") {
    void session.peer.client.notify("elicitation/complete", { elicitationId }).catch(() => {});
    h.say("Thank you. You agreed to visit the page.");
  } else {
    const value = answer.content?.answer;
    const fits = { choice: () => w.options.includes(value), yesno: () => typeof value === "boolean", number: () => Number.isInteger(value), text: () => typeof value === "string" && value.length > 0 && value.length <= 2000 }[w.kind]();
    h.say(fits ? `Thank you. You answered: ${value}` : "The answer does not fit the question, so I will not use it.");
  }
}

// ---- talking, planning, remembering --------------------------------------------------------------------
async function plan(h, w) {
  let steps = w.steps.length > 1 ? w.steps : ["Look at what is wanted", "Do the work", "Check the result", "Report back", "Tidy up", "Rest"].slice(0, Math.min(Math.max(w.count ?? 3, 2), 6));
  const entries = steps.map((content, i) => ({ content, priority: ["high", "medium", "low"][Math.min(i, 2)], status: "pending" }));
  h.plan(entries);
  for (const e of entries) {
    e.status = "in_progress";
    h.plan(entries);
    await h.rest(120);
    e.status = "completed";
  }
  h.plan(entries);
  h.say(`The plan is done: ${steps.join("; ")}.`);
}
async function stream(h, pieces, gap) {
  const messageId = randomUUID(); // one message, however many pieces
  for (const piece of pieces) { h.chunk("agent_message_chunk", piece, messageId); await h.rest(gap); }
}
async function count(h, w) {
  const step = w.from <= w.to ? 1 : -1;
  await stream(h, Array.from({ length: Math.abs(w.to - w.from) + 1 }, (_, i) => `${i ? " " : ""}${w.from + i * step}`), w.gap);
}
const TALE = ["The plover runs a few steps, ", "stops, ", "looks at the tide, ", "and runs again. ", "The waves come and go, ", "the wind turns, ", "and still there is sand. "];
const talk = (h, w) => stream(h, Array.from({ length: Math.max(2, Math.round(w.seconds / 0.4)) }, (_, i) => TALE[i % TALE.length]), 400);

function recall(h) {
  const mine = h.session.history.filter((u) => u.sessionUpdate === "user_message_chunk");
  const now = mine.length ? mine[mine.length - 1].messageId : "";
  const said = mine.filter((u) => u.messageId !== now && u.content.type === "text").map((u) => `- ${u.content.text.slice(0, 400)}`);
  h.say(said.length ? `From this conversation I remember that you said:\n${said.slice(-40).join("\n")}` : "This conversation has only just begun, so there is nothing to remember yet.");
}
function describe(h) {
  const size = (b64) => `${Buffer.from(b64 ?? "", "base64").length} bytes`;
  const lines = h.turn.blocks.filter((b) => b.type !== "text").map((b) => {
    if (b.type === "image") return `an image (${b.mimeType}, ${size(b.data)})`;
    if (b.type === "audio") return `a sound (${b.mimeType}, ${size(b.data)})`;
    if (b.type === "resource_link") return `a link called "${b.name}" to ${b.uri}${b.mimeType ? ` (${b.mimeType})` : ""}${b.description ? `: ${b.description}` : ""}`;
    const r = b.resource;
    return r.text !== undefined ? `a resource ${r.uri} with this text:\n${r.text.slice(0, 4000)}` : `a resource ${r.uri} (${r.mimeType ?? "binary"}, ${size(r.blob)})`;
  });
  h.say(lines.length ? `You attached ${lines.join("\nand ")}` : "Nothing was attached to your message.");
}

const DEEDS = {
  read, write, append, replace, delete: remove, list, run, mcpList, mcpCall, ask, plan, count, talk, recall, describe,
  say: (h, w) => h.say(w.text),
  note: (h, w) => h.say(`I will keep that in mind: ${w.text}`),
  think: async (h, w) => { h.think(w.about ? `Let me think about ${w.about}. One step, then another.` : "Let me think. One step, then another."); await h.rest(80); },
  mode: (h, w) => { h.session.setMode(w.mode); h.say(`I am in the ${w.mode} mode now.`); },
  where: (h) => h.say(`I work in ${h.session.base}`),
};

export async function work(session, turn, text) {
  const h = new Hands(session, turn);
  const attached = turn.blocks.filter((b) => b.type !== "text");
  const link = attached.find((b) => b.type === "resource_link" && b.uri.startsWith("file://"));
  let linked;
  try { linked = link && decodeURIComponent(new URL(link.uri).pathname); } catch { /* an odd link */ }
  if (session.mcp.some((m) => m.state === "starting") && /tool|mcp/i.test(text)) await mcpReady(h);
  const tools = session.mcp.flatMap((m) => m.tools.map((t) => ({ ...t, server: m.name })));
  const wishes = understand(text, { tools, attachments: attached.length > 0, path: linked });
  const waiting = session.waiting;
  session.waiting = undefined;
  if (session.thought === "aloud") h.think("I listen first, and then I run.");
  for (const wish of wishes) await DEEDS[wish.do](h, wish);
  if (!wishes.length) h.say(waiting ? `Thank you. You answered: ${text}` : "Hello! I am a small plover without a model. I can read and write files, run commands, call tools, plan, count and remember.");
  else if (wishes.every((w) => w.do === "think")) h.say("I have thought about it, and it looks fine to me.");
  if (session.signOff) h.say("Yours, the plover.");
}
