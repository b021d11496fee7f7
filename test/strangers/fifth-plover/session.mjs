// One session: its settings, its history, its queue of turns, its MCP servers and running commands.
import { randomUUID } from "node:crypto";
import { RequestError } from "@agentclientprotocol/sdk";
import { startMcp, within } from "./mcp.mjs";
import { store } from "./store.mjs";
import { work } from "./deeds.mjs";

export const FAULT = process.env.FAULT ?? "";
let latestCwd; // only looked at by the fault "cwd-of-latest"

const MODES = [
  { id: "careful", name: "Careful", description: "Asks before every write and every command" },
  { id: "swift", name: "Swift", description: "Writes and runs without asking" },
];
const MODELS = [
  { group: "shore", name: "Shore birds", options: [{ value: "ringed", name: "Ringed plover" }, { value: "kentish", name: "Kentish plover" }] },
  { group: "field", name: "Field birds", options: [{ value: "golden", name: "Golden plover", description: "Slightly wiser" }] },
];
const THOUGHTS = [{ value: "silent", name: "Silent" }, { value: "aloud", name: "Aloud", description: "Each turn begins with a thought" }];
const COMMANDS = [
  { name: "echo", description: "Say the given text back", input: { hint: "text to say" } },
  { name: "files", description: "List the files of the working directory" },
  { name: "recall", description: "Tell what was said in this session" },
];

export class Stopped extends Error {} // thrown inside a turn once it was cancelled

export class Session {
  constructor(peer, meta) {
    this.peer = peer; // {client, capabilities, active}
    Object.assign(this, meta);
    this.history = [];
    this.mcp = [];
    this.queue = [];
    this.turn = undefined;
    this.allowed = new Set();
    this.refused = new Set();
    this.commands = new Set(); // running child processes
  }
  static fresh(peer, cwd) {
    const now = Date.now();
    const s = new Session(peer, { sessionId: `plover-${randomUUID()}`, cwd, title: null, createdAt: now, updatedAt: now,
      mode: "careful", model: "ringed", thought: "silent", signOff: false, deeds: 0, words: 0 });
    s.save(true);
    return s;
  }
  static restore(peer, meta, cwd) {
    const s = new Session(peer, { ...meta, cwd });
    s.history = store.history(meta.sessionId);
    if (FAULT === "tool-ids-restart") s.deeds = 0;
    s.save(false);
    return s;
  }
  open(servers) {
    latestCwd = this.cwd;
    this.mcp = servers.map((config) => startMcp(config, this.cwd));
    return within(Promise.all(this.mcp.map((m) => m.ready)), 4000);
  }
  get base() { return FAULT === "cwd-of-latest" ? latestCwd : this.cwd; }
  nextDeed() { return `deed-${++this.deeds}`; }
  save(withHistory) {
    if (this.deleted) return;
    const { sessionId, cwd, title, createdAt, updatedAt, mode, model, thought, signOff, deeds, words } = this;
    try {
      store.save({ sessionId, cwd, title, createdAt, updatedAt, mode, model, thought, signOff, deeds, words }, withHistory ? this.history : undefined);
    } catch (e) { console.error("cannot store the session:", e.message); }
  }

  // ---- what the client hears -------------------------------------------------------------------------
  notify(update) { void this.peer.client.notify("session/update", { sessionId: this.sessionId, update }).catch(() => {}); }
  // Sends an update of the conversation and keeps it for a later replay.
  tell(update) {
    this.notify(update);
    this.keep(update);
  }
  keep(update) {
    const last = this.history[this.history.length - 1];
    if (update.sessionUpdate === "tool_call_update") {
      const call = this.history.findLast((h) => h.sessionUpdate === "tool_call" && h.toolCallId === update.toolCallId);
      if (call) Object.assign(call, { ...update, sessionUpdate: "tool_call" });
    } else if (update.sessionUpdate === "plan" && last?.sessionUpdate === "plan") last.entries = update.entries;
    else if (update.messageId && last?.messageId === update.messageId && last.sessionUpdate === update.sessionUpdate
      && last.content.type === "text" && update.content.type === "text" && update.sessionUpdate !== "user_message_chunk") last.content.text += update.content.text;
    else this.history.push(structuredClone(update));
  }
  replay() { for (const update of this.history) this.notify(update); }
  afterwards() { // sent once the answer that opened the session is out
    setImmediate(() => {
      if (!this.closed) this.notify({ sessionUpdate: "available_commands_update", availableCommands: COMMANDS });
    });
  }
  usage() {
    return { sessionUpdate: "usage_update", used: Math.min(this.words, 64000), size: 64000, cost: { amount: Math.round(this.words * 2) / 1e5, currency: "EUR" } };
  }

  // ---- modes and options, always in step ---------------------------------------------------------------
  get modes() { return { currentModeId: this.mode, availableModes: MODES }; }
  get options() {
    const list = [
      { id: "mode", name: "Mode", category: "mode", type: "select", currentValue: this.mode, options: MODES.map(({ id, name, description }) => ({ value: id, name, description })) },
      { id: "bird", name: "Model", category: "model", type: "select", currentValue: this.model, options: MODELS },
      { id: "thoughts", name: "Thoughts", category: "thought_level", type: "select", currentValue: this.thought, options: THOUGHTS },
    ];
    if (this.peer.capabilities.session?.configOptions?.boolean) list.push({ id: "sign_off", name: "Sign off", description: "End each turn with a greeting", type: "boolean", currentValue: this.signOff });
    return list;
  }
  get state() { return { modes: this.modes, configOptions: this.options }; }
  setMode(modeId, by) {
    if (!MODES.some((m) => m.id === modeId)) throw RequestError.invalidParams({ modeId }, "there is no such mode");
    const changed = this.mode !== modeId;
    this.mode = modeId;
    this.save(false);
    if (changed && by !== "mode") this.notify({ sessionUpdate: "current_mode_update", currentModeId: modeId });
    if (changed && by !== "option") this.notify({ sessionUpdate: "config_option_update", configOptions: this.options });
  }
  setOption(id, value) {
    const option = this.options.find((o) => o.id === id);
    const bad = (why) => RequestError.invalidParams({ configId: id }, why);
    if (!option) throw bad("there is no such option");
    if (option.type === "boolean" ? typeof value !== "boolean" : !option.options.flatMap((o) => o.options ?? [o]).some((o) => o.value === value)) throw bad("this option has no such value");
    if (id === "mode") this.setMode(value, "option");
    else if (id === "bird") this.model = value;
    else if (id === "thoughts") this.thought = value;
    else this.signOff = value;
    this.save(false);
    return this.options;
  }

  // ---- turns: one at a time, the others wait in line -----------------------------------------------------
  prompt(blocks, requestSignal) {
    return new Promise((resolve, reject) => {
      const stop = new AbortController();
      const turn = { blocks, stop, signal: stop.signal, resolve, reject, why: undefined };
      requestSignal.addEventListener("abort", () => {
        turn.why ??= "request";
        stop.abort(new Stopped());
        const waiting = this.queue.indexOf(turn);
        if (waiting >= 0) { this.queue.splice(waiting, 1); this.settle(turn); }
      }, { once: true });
      this.queue.push(turn);
      this.pump();
    });
  }
  settle(turn) {
    if (turn.why === "request") turn.reject(RequestError.requestCancelled());
    else turn.resolve({ stopReason: turn.signal.aborted ? "cancelled" : "end_turn" });
  }
  pump() {
    if (this.turn || !this.queue.length) return;
    const turn = this.turn = this.queue.shift();
    turn.over = new Promise((done) => setImmediate(async () => {
      try { await this.take(turn); } catch (e) {
        if (!turn.signal.aborted) console.error("a turn went wrong:", e);
      }
      this.updatedAt = Date.now();
      this.save(true);
      this.turn = undefined;
      this.settle(turn);
      done();
      setImmediate(() => this.pump()); // after the answer, so that turns never mix on the wire
    }));
  }
  async take(turn) {
    const messageId = randomUUID();
    for (const content of turn.blocks) this.keep({ sessionUpdate: "user_message_chunk", messageId, content });
    const text = turn.blocks.filter((b) => b.type === "text").map((b) => b.text).join("\n");
    this.words += text.length;
    this.updatedAt = Date.now();
    if (!this.title) {
      this.title = (text.replace(/\s+/g, " ").trim().slice(0, 48) || "A quiet talk");
      this.notify({ sessionUpdate: "session_info_update", title: this.title, updatedAt: new Date(this.updatedAt).toISOString() });
    }
    this.save(true);
    if (turn.signal.aborted) return;
    await work(this, turn, text);
    if (turn.signal.aborted) return;
    this.notify(this.usage());
  }
  cancel() {
    for (const turn of this.queue.splice(0)) { turn.why ??= "cancel"; turn.stop.abort(new Stopped()); this.settle(turn); }
    if (this.turn) { this.turn.why ??= "cancel"; this.turn.stop.abort(new Stopped()); }
  }
  // Ends everything that belongs to the session; the session itself stays on disk.
  async close(why = "close") {
    this.closed = true;
    if (FAULT === "close-orphans" && why === "close") this.commands.clear();
    const over = this.turn?.over;
    this.cancel();
    await over;
    for (const child of this.commands) killGroup(child, "SIGKILL");
    await Promise.all(this.mcp.map((m) => m.stop().catch(() => {})));
    this.peer.active.delete(this.sessionId);
  }
}

export function killGroup(child, signal) {
  try { process.kill(-child.pid, signal); } catch { /* already gone */ }
}
