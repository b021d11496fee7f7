#!/usr/bin/env node
// seventh-heron: a small rule-based coding agent speaking ACP v1 on stdio. No dependencies.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { randomUUID, randomBytes } from 'node:crypto';
import { understand, toolArguments, paths as findPaths } from './understand.mjs';
import { McpHub } from './mcp.mjs';

const VERSION = '0.7.3';
const FAULT = process.env.FAULT || '';
if (process.argv.includes('--login')) { console.log('seventh-heron: the local profile is ready, nothing else to do.'); process.exit(0); }

// ---------------------------------------------------------------- wire
class RpcError extends Error { constructor(code, message, data) { super(message); this.code = code; this.data = data; } }
class Cancelled extends Error {}
const badParams = (m, data) => new RpcError(-32602, m, data);
let gone = false;
process.stdout.on('error', () => shutdown());
const send = m => { if (!gone) process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n'); };
const notify = (method, params) => send({ method, params });
const reply = (id, result) => send({ id, result });
const fail = (id, code, message, data) => send({ id, error: data === undefined ? { code, message } : { code, message, data } });
const outstanding = new Map();
function ask(method, params, signal) {
  const id = randomUUID();
  return new Promise((resolve, reject) => {
    const quit = () => { if (outstanding.delete(id)) { notify('$/cancel_request', { requestId: id }); reject(new Cancelled()); } };
    outstanding.set(id, { resolve, reject, done: () => signal?.removeEventListener('abort', quit) });
    if (signal?.aborted) { outstanding.delete(id); return reject(new Cancelled()); }
    signal?.addEventListener('abort', quit, { once: true });
    send({ id, method, params });
  });
}
const isObj = v => v !== null && typeof v === 'object' && !Array.isArray(v);
const isStr = v => typeof v === 'string';

// ---------------------------------------------------------------- client and capabilities
let initialized = false;
let caps = { boolean: false, form: false, notices: false, compaction: false };
function readCaps(c) {
  c = isObj(c) ? c : {};
  const s = isObj(c.session) ? c.session : {};
  return {
    boolean: isObj(s.configOptions) && isObj(s.configOptions.boolean),
    notices: isObj(s.notices), compaction: isObj(s.compaction),
    form: isObj(c.elicitation) && isObj(c.elicitation.form),
    termAuth: isObj(c.auth) && c.auth.terminal === true,
  };
}

// ---------------------------------------------------------------- settings
const MODES = [
  { id: 'read-only', name: 'Read Only', description: 'Looks around freely; asks before every change or command.' },
  { id: 'auto', name: 'Auto', description: 'Edits inside the workspace; asks before commands that may have effects.' },
  { id: 'full-access', name: 'Full Access', description: 'Edits and runs commands without asking, inside the workspace.' },
];
const MODELS = [
  { value: 'heron-large', name: 'Heron Large', size: 272000, efforts: ['low', 'medium', 'high', 'xhigh'] },
  { value: 'heron-swift', name: 'Heron Swift', size: 128000, efforts: ['low', 'medium'] },
  { value: 'heron-legacy-2', name: 'Heron 2 (legacy)', size: 64000, efforts: ['medium'] },
];
const cap1 = s => s[0].toUpperCase() + s.slice(1);
function options(s) {
  const list = [
    { id: 'mode', name: 'Approval preset', category: 'mode', type: 'select', currentValue: s.mode, options: MODES.map(m => ({ value: m.id, name: m.name, description: m.description })) },
    { id: 'model', name: 'Model', category: 'model', type: 'select', currentValue: s.model, options: [
      { group: 'current', name: 'Current', options: MODELS.slice(0, 2).map(({ value, name }) => ({ value, name })) },
      { group: 'legacy', name: 'Legacy', options: MODELS.slice(2).map(({ value, name }) => ({ value, name })) }] },
    { id: 'reasoning_effort', name: 'Reasoning effort', category: 'thought_level', type: 'select', currentValue: s.effort, options: MODELS.find(m => m.value === s.model).efforts.map(e => ({ value: e, name: cap1(e) })) },
  ];
  if (caps.boolean) list.push({ id: 'show_reasoning', name: 'Show reasoning', type: 'boolean', category: '_heron_display', currentValue: s.showReasoning });
  return list;
}
const modesOf = s => ({ currentModeId: s.mode, availableModes: MODES });
const COMMANDS = [
  { name: 'status', description: 'Show the model, the mode and the working directory' },
  { name: 'compact', description: 'Summarize the conversation so far' },
  { name: 'review', description: 'Review a file or the whole workspace', input: { hint: 'optional file to look at' } },
];

// ---------------------------------------------------------------- store
const store = (() => {
  for (const d of [process.env.SEVENTH_HERON_HOME, path.join(os.homedir() || '/nonexistent', '.seventh-heron'), path.join(os.tmpdir(), `seventh-heron-${process.getuid?.() ?? 0}`)]) {
    if (!d) continue;
    try { fs.mkdirSync(path.join(d, 'sessions'), { recursive: true }); fs.accessSync(path.join(d, 'sessions'), fs.constants.W_OK); return path.join(d, 'sessions'); } catch {}
  }
  return null;
})();
const fileOf = id => store && /^[\w-]{1,80}$/.test(id) ? path.join(store, id + '.json') : null;
function save(s) {
  if (!store || s.deleted || !s.history.length) return;
  const f = fileOf(s.id), rec = { id: s.id, cwd: s.cwd, roots: s.roots, title: s.title, updatedAt: s.updatedAt, mode: s.mode, model: s.model, effort: s.effort, showReasoning: s.showReasoning, memory: s.memory, used: s.used, history: s.history };
  try { fs.writeFileSync(f + '.tmp', JSON.stringify(rec)); fs.renameSync(f + '.tmp', f); } catch (e) { console.error('cannot save', e.message); }
}
function readRecord(id) { const f = fileOf(id); if (!f) return null; try { return JSON.parse(fs.readFileSync(f, 'utf8')); } catch { return null; } }

// ---------------------------------------------------------------- sessions
const sessions = new Map();
function uuid7() { const t = Date.now().toString(16).padStart(12, '0'), r = randomBytes(10).toString('hex'); return `${t.slice(0, 8)}-${t.slice(8)}-7${r.slice(0, 3)}-a${r.slice(3, 6)}-${r.slice(6, 18)}`; }
function makeSession(id, cwd, roots, servers, from = {}) {
  const s = { id, cwd, roots, mode: from.mode ?? 'auto', model: from.model ?? 'heron-large', effort: from.effort ?? 'medium', showReasoning: from.showReasoning ?? true, memory: from.memory ?? [], history: from.history ?? [], title: from.title ?? null, updatedAt: from.updatedAt ?? new Date().toISOString(), used: from.used ?? 4210, allowed: new Set(), running: null, queue: [], closed: false, children: new Set() };
  s.hub = new McpHub(servers, cwd);
  sessions.set(id, s);
  return s;
}
const update = (s, u) => { if (!s.closed || s.running) notify('session/update', { sessionId: s.id, update: u }); };
function greet(s) { setTimeout(() => { if (!s.closed) update(s, { sessionUpdate: 'available_commands_update', availableCommands: COMMANDS }); }, 30); }
async function closeSession(s) {
  for (const t of [...s.queue, s.running]) t?.abort('cancel');
  await Promise.all([...s.queue, s.running].map(t => t?.done));
  s.closed = true;
  sessions.delete(s.id);
  await s.hub.close();
}
function session(params) {
  if (!isStr(params.sessionId)) throw badParams('sessionId must be a string.');
  const s = sessions.get(params.sessionId);
  if (!s) throw new RpcError(-32002, 'Session not found.', { sessionId: params.sessionId });
  return s;
}
function setupParams(p) {
  if (!isStr(p.cwd) || !path.isAbsolute(p.cwd)) throw badParams('cwd must be an absolute path.');
  if (!Array.isArray(p.mcpServers)) throw badParams('mcpServers must be an array.');
  for (const m of p.mcpServers) {
    if (!isObj(m) || !isStr(m.name)) throw badParams('Every MCP server needs a name.');
    if (m.type === 'http') { if (!isStr(m.url) || !Array.isArray(m.headers ?? [])) throw badParams(`MCP server ${m.name} needs a url.`); }
    else if (m.type === 'sse') throw badParams('MCP servers over SSE are not supported.');
    else if (m.type !== undefined && m.type !== 'stdio') throw badParams(`MCP server type ${m.type} is not supported.`);
    else if (!isStr(m.command) || !(m.args == null || Array.isArray(m.args)) || !(m.env == null || Array.isArray(m.env))) throw badParams(`MCP server ${m.name} needs command, args and env.`);
  }
  const extra = p.additionalDirectories ?? [];
  if (!Array.isArray(extra) || extra.some(d => !isStr(d) || !path.isAbsolute(d))) throw badParams('additionalDirectories must hold absolute paths only.');
  return { cwd: path.resolve(p.cwd), roots: extra.map(d => path.resolve(d)) };
}

// ---------------------------------------------------------------- one prompt turn
class Turn {
  constructor(s, requestId, blocks) {
    Object.assign(this, { s, requestId, blocks, ctl: new AbortController(), how: null, open: new Map() });
    this.done = new Promise(r => { this.finish = r; });
  }
  get signal() { return this.ctl.signal; }
  abort(how) { if (!this.how) { this.how = how; this.ctl.abort(); } }
  check() { if (this.signal.aborted) throw new Cancelled(); }
  up(u) { update(this.s, u); }
  sleep(ms) {
    this.check();
    return new Promise((res, rej) => {
      const stop = () => { clearTimeout(t); rej(new Cancelled()); };
      const t = setTimeout(() => { this.signal.removeEventListener('abort', stop); res(); }, ms);
      this.signal.addEventListener('abort', stop, { once: true });
    });
  }
  async stream(kind, text, pace = 12) {
    this.check();
    const messageId = randomUUID(), item = { sessionUpdate: kind, messageId, content: { type: 'text', text: '' } };
    this.s.history.push(item);
    this.s.used += Math.ceil(text.length / 4);
    for (const piece of text.match(/\s*\S+\s*?(?=\s|$)|\s+/gu) ?? [text]) {
      this.up({ sessionUpdate: kind, messageId, content: { type: 'text', text: piece } });
      item.content.text += piece;
      await this.sleep(pace);
    }
  }
  say(text, pace) { return this.stream('agent_message_chunk', text, pace); }
  async think(text) { if (this.s.showReasoning) await this.stream('agent_thought_chunk', text, 8); }
  call(c) {
    const full = { toolCallId: 'call_' + randomBytes(12).toString('base64url'), status: 'pending', ...c };
    this.open.set(full.toolCallId, full);
    this.s.history.push({ sessionUpdate: 'tool_call', ...full });
    this.up({ sessionUpdate: 'tool_call', ...full });
    return full;
  }
  tool(call, patch) {
    Object.assign(call, patch);
    const kept = this.s.history.find(h => h.toolCallId === call.toolCallId);
    if (kept) Object.assign(kept, patch);
    if (/completed|failed/.test(patch.status ?? '')) this.open.delete(call.toolCallId);
    this.up({ sessionUpdate: 'tool_call_update', toolCallId: call.toolCallId, ...patch });
  }
  // true: go ahead; false: the user said no
  async allowed(call, key) {
    if (this.s.allowed.has(key)) return true;
    let r;
    try {
      r = await ask('session/request_permission', {
        sessionId: this.s.id,
        toolCall: { toolCallId: call.toolCallId, title: call.title, kind: call.kind, status: 'pending', rawInput: call.rawInput, ...(call.content ? { content: call.content } : {}), ...(call.locations ? { locations: call.locations } : {}) },
        options: [
          { optionId: 'approved', name: 'Yes, proceed', kind: 'allow_once' },
          { optionId: 'approved-for-session', name: 'Yes, and do not ask again for this', kind: 'allow_always' },
          { optionId: 'abort', name: 'No, leave it', kind: 'reject_once' },
        ],
      }, this.signal);
    } catch (e) { if (e instanceof Cancelled) throw e; return false; }
    const o = r?.outcome;
    if (o?.outcome === 'cancelled') { this.abort('cancel'); throw new Cancelled(); }
    this.check();
    if (o?.outcome !== 'selected') return false;
    if (o.optionId === 'approved-for-session') { this.s.allowed.add(key); return true; }
    return o.optionId === 'approved';
  }
}

const clip = (t, n = 12000) => t.length > n ? Array.from(t.slice(0, n)).slice(0, -1).join('') + '\n… (cut)' : t;
const textContent = text => ({ type: 'content', content: { type: 'text', text } });
const fenceOf = t => { const f = '`'.repeat(Math.max(3, ...[...t.matchAll(/`+/g)].map(m => m[0].length + 1))); return `${f}\n${t.replace(/\n$/, '')}\n${f}`; };
function real(p) { try { return fs.realpathSync(p); } catch { const up = path.dirname(p); return up === p ? p : path.join(real(up), path.basename(p)); } }
function inside(s, p) { const r = real(p); return [s.cwd, ...s.roots].some(d => { const b = real(d); return r === b || r.startsWith(b.endsWith(path.sep) ? b : b + path.sep); }); }
const resolveIn = (s, p) => path.resolve(s.cwd, p.startsWith('~/') ? path.join(os.homedir(), p.slice(2)) : p);
const SAFE = /^(?:echo|pwd|ls|cat|head|tail|wc|true|false|date|whoami|uname|which|printf|seq|grep|git (?:status|log|diff))\b/;
const harmless = c => SAFE.test(c.trim()) && !/[;&|<>`\n]|\$\(/.test(c);

const DO = {
  async say(t, a) { await t.say(a.text); },
  async remember(t, a) { t.s.memory.push(a.word); await t.say(`Noted, I will remember “${a.word}”.`); },
  async recall(t) { await t.say(t.s.memory.length ? `You asked me to remember: ${t.s.memory.join(', ')}.` : 'I have nothing noted in this conversation yet.'); },
  async think(t, a) {
    await t.stream('agent_thought_chunk', `**Thinking it through**\n\nThe question was: ${clip(a.text, 300)} First I gather what is known, then I weigh the options, and last I look for a flaw in my own reasoning.`, 20);
    await t.say('I thought it over: start with the smallest step that can be checked, and go on from there.');
  },
  async story(t, a) {
    if (a.count) { for (let i = 1; i <= a.count; i += 10) await t.say(Array.from({ length: Math.min(10, a.count - i + 1) }, (_, k) => i + k).join(' ') + ' ', 55); return; }
    const lines = ['Long ago a heron stood at the edge of a slow river and counted the ripples.', 'Every morning the water told it something new, and every evening it forgot half of it.', 'One day a small boat came by, and in it sat a child with a lantern that would not go out.', '“Where does the river end?” asked the child, and the heron tilted its head.', 'They followed the current past mills, past orchards, past a town whose clocks all disagreed.'];
    const n = a.short ? 3 : /very|2000|thousand|1000|extremely/i.test(a.text) ? 26 : 15;
    const out = []; for (let i = 0; i < n; i++) out.push(lines[i % lines.length] + (i % 5 === 4 ? '\n\n' : ' '));
    await t.say(out.join('').trimEnd() + ' And there the story rests.', a.short ? 15 : 45);
  },
  async plan(t, a) {
    const steps = a.steps.length ? a.steps : ['Look at what is there', 'Decide on the smallest change', 'Make the change', 'Check that it works', 'Tidy up', 'Write it down', 'Ask for a review', 'Finish'].slice(0, a.count);
    const entries = steps.map((content, i) => ({ content, priority: i === 0 ? 'high' : i < 3 ? 'medium' : 'low', status: 'pending' }));
    const kept = { sessionUpdate: 'plan', entries }; t.s.history.push(kept);
    const show = () => t.up({ sessionUpdate: 'plan', entries: entries.map(e => ({ ...e })) });
    show();
    for (const e of entries) { e.status = 'in_progress'; show(); await t.sleep(60); e.status = 'completed'; show(); }
    await t.say(`Here is the plan, walked through once: ${steps.join('; ')}.`);
  },
  async read(t, a) {
    for (const p0 of a.paths) {
      const p = resolveIn(t.s, p0);
      const call = t.call({ title: `Read ${path.basename(p)}`, name: 'read_file', kind: 'read', locations: [{ path: p, ...(a.line ? { line: a.line } : {}) }], rawInput: { path: p, ...(a.line ? { offset: a.line } : {}), ...(a.limit ? { limit: a.limit } : {}) } });
      if (!inside(t.s, p) && !(await t.allowed(call, 'outside:' + p))) { t.tool(call, { status: 'failed', content: [textContent('The user did not allow it.')] }); await t.say(`I left ${p} alone, as you wished.`); continue; }
      t.tool(call, { status: 'in_progress' });
      try {
        let text = await fs.promises.readFile(p, 'utf8');
        t.check();
        if (a.line || a.limit) text = text.split('\n').slice((a.line || 1) - 1, a.limit ? (a.line || 1) - 1 + a.limit : undefined).join('\n');
        t.tool(call, { status: 'completed', content: [textContent(fenceOf(clip(text)))], rawOutput: { bytes: Buffer.byteLength(text) } });
        await t.say(`${path.basename(p)} says:\n\n${clip(text, 4000)}`, 6);
      } catch (e) {
        if (e instanceof Cancelled) throw e;
        t.tool(call, { status: 'failed', content: [textContent(`Could not read: ${e.code ?? e.message}`)] });
        await t.say(`I could not read ${p} (${e.code ?? e.message}).`);
      }
    }
  },
  async edit(t, p0, make, name, doneText) {
    const p = resolveIn(t.s, p0);
    let old = null, next;
    try { old = fs.readFileSync(p, 'utf8'); } catch (e) { if (e.code !== 'ENOENT') old = undefined; }
    next = old === undefined ? null : make(old);
    if (next === null) {
      const call = t.call({ title: `Edit ${path.basename(p)}`, name, kind: 'edit', locations: [{ path: p }], rawInput: { path: p } });
      t.tool(call, { status: 'failed', content: [textContent('There was nothing to change, or the file is not readable.')] });
      return t.say(`I could not change ${p}: the text or the file is not there.`);
    }
    const changedLine = old === null ? 1 : Math.max(1, old.split('\n').findIndex((l, i) => l !== next.split('\n')[i]) + 1);
    const call = t.call({ title: `${old === null ? 'Create' : 'Edit'} ${path.basename(p)}`, name, kind: 'edit', locations: [{ path: p, line: changedLine }], content: [{ type: 'diff', path: p, oldText: old, newText: next }], rawInput: { path: p } });
    const outside = !inside(t.s, p);
    if ((outside || t.s.mode === 'read-only') && !(await t.allowed(call, (outside ? 'outside:' : 'edit:') + p))) {
      t.tool(call, { status: 'failed', rawOutput: { reason: 'rejected' } });
      return t.say(`All right, I did not touch ${path.basename(p)}.`);
    }
    t.tool(call, { status: 'in_progress' });
    await t.sleep(40);
    try { fs.mkdirSync(path.dirname(p), { recursive: true }); fs.writeFileSync(p, next); t.tool(call, { status: 'completed', content: [{ type: 'diff', path: p, oldText: old, newText: next }] }); }
    catch (e) { t.tool(call, { status: 'failed', content: [textContent(`Could not write: ${e.code}`)] }); return t.say(`I could not write ${p} (${e.code}).`); }
    await t.say(doneText(p));
  },
  write(t, a) { return DO.edit(t, a.path, () => a.text, 'write_file', p => `Done, ${path.basename(p)} is written.`); },
  append(t, a) { return DO.edit(t, a.path, o => (o ? (o.endsWith('\n') ? o : o + '\n') : '') + a.text + '\n', 'apply_patch', p => `Added to ${path.basename(p)}.`); },
  replace(t, a) { return DO.edit(t, a.path, o => o?.includes(a.from) ? o.split(a.from).join(a.to) : null, 'apply_patch', p => `Replaced “${a.from}” with “${a.to}” in ${path.basename(p)}.`); },
  async delete(t, a) {
    const p = resolveIn(t.s, a.path);
    const call = t.call({ title: `Delete ${path.basename(p)}`, name: 'delete_file', kind: 'delete', locations: [{ path: p }], rawInput: { path: p } });
    if (!(await t.allowed(call, 'delete:' + p))) { t.tool(call, { status: 'failed' }); return t.say('I kept the file.'); }
    t.tool(call, { status: 'in_progress' });
    try { fs.unlinkSync(p); t.tool(call, { status: 'completed', content: [textContent('Deleted.')] }); await t.say(`${path.basename(p)} is gone.`); }
    catch (e) { t.tool(call, { status: 'failed', content: [textContent(String(e.code))] }); await t.say(`I could not delete it (${e.code}).`); }
  },
  async run(t, a) {
    const call = t.call({ title: `\`${a.command}\``, name: 'shell', kind: 'execute', rawInput: { command: ['/bin/sh', '-c', a.command], cwd: t.s.cwd } });
    const free = t.s.mode === 'full-access' || harmless(a.command);
    if (!free && !(await t.allowed(call, 'run:' + a.command))) {
      t.tool(call, { status: 'failed', content: [textContent('Not run: the user declined.')] });
      return t.say('I did not run it.');
    }
    t.tool(call, { status: 'in_progress' });
    let out = '', shown = '', child;
    try { child = spawn('/bin/sh', ['-c', a.command], { cwd: t.s.cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] }); } catch (e) { t.tool(call, { status: 'failed', content: [textContent(e.message)] }); return t.say('The command could not be started.'); }
    children.add(child);
    child.stdout.setEncoding('utf8').on('data', d => { out += d; });
    child.stderr.setEncoding('utf8').on('data', d => { out += d; });
    const ended = new Promise(r => { child.on('error', e => r({ error: e.message })); child.on('close', (code, sig) => r({ code, sig })); child.on('exit', (code, sig) => setTimeout(() => r({ code, sig }), 400)); });
    const live = setInterval(() => { if (out !== shown && !t.signal.aborted) { shown = out; t.tool(call, { content: [textContent(fenceOf(clip(out)))] }); } }, 200);
    const stop = () => { kill(child, 'SIGTERM'); setTimeout(() => kill(child, 'SIGKILL'), 600).unref(); };
    t.signal.addEventListener('abort', stop, { once: true });
    const settle = ended.then(r => {
      clearInterval(live); children.delete(child); t.signal.removeEventListener('abort', stop);
      const ok = r.code === 0;
      t.tool(call, { status: ok ? 'completed' : 'failed', content: [textContent(fenceOf(clip(r.error ?? out) || '(no output)'))], rawOutput: { exit_code: r.code ?? null, signal: r.sig ?? null, aggregated_output: clip(out) } });
      return r;
    });
    const r = FAULT === 'late-tail' ? await Promise.race([settle, new Promise((_, rej) => t.signal.addEventListener('abort', () => rej(new Cancelled()), { once: true }))]).catch(e => { t.open.delete(call.toolCallId); throw e; }) : await settle;
    t.check();
    if (r.error) return t.say(`The command could not be started: ${r.error}.`);
    await t.say(r.code === 0 ? (out.trim() ? `The command printed:\n\n${clip(out.trimEnd(), 4000)}` : 'The command ran without printing anything.') : `The command ended with ${r.sig ? 'signal ' + r.sig : 'exit code ' + r.code}.${out.trim() ? '\n\n' + clip(out.trimEnd(), 2000) : ''}`, 6);
  },
  async mode(t, a) {
    const low = a.text.toLowerCase().replace(/[-_]/g, ' ');
    const m = MODES.find(m => low.includes(m.id.replace(/-/g, ' '))) ?? (/\b(?:ask|plan|safe)\b/.test(low) ? MODES[0] : /\b(?:yolo|bypass|code|accept)\b/.test(low) ? MODES[2] : null) ?? MODES.find(m => m.id !== t.s.mode);
    t.s.mode = m.id;
    t.up({ sessionUpdate: 'current_mode_update', currentModeId: m.id });
    t.up({ sessionUpdate: 'config_option_update', configOptions: options(t.s) });
    await t.say(`I am in ${m.name} mode now.`);
  },
  async tools(t) { const all = await hub(t); await t.say(all.length ? `These tools are connected: ${all.map(x => x.name).join(', ')}.` : 'No tools of MCP servers are connected.'); },
  async mcp(t, a) {
    const args = toolArguments(a.text, a.tool);
    const call = t.call({ title: `${a.tool.server}.${a.tool.name}`, name: `mcp__${a.tool.server}__${a.tool.name}`, kind: 'other', rawInput: { server: a.tool.server, tool: a.tool.name, arguments: args } });
    t.tool(call, { status: 'in_progress' });
    try {
      const r = await a.tool.client.call(a.tool.name, args, t.signal);
      t.check();
      const blocks = (Array.isArray(r?.content) ? r.content : []).filter(b => (b?.type === 'text' && isStr(b.text)) || (/^(?:image|audio)$/.test(b?.type) && isStr(b.data) && isStr(b.mimeType)))
        .map(b => b.type === 'text' ? { type: 'text', text: b.text } : { type: b.type, data: b.data, mimeType: b.mimeType });
      t.tool(call, { status: r?.isError ? 'failed' : 'completed', content: blocks.map(content => ({ type: 'content', content })), rawOutput: r });
      const text = blocks.filter(b => b.type === 'text').map(b => b.text).join('\n');
      await t.say(r?.isError ? `The tool reported an error: ${clip(text, 1000)}` : `${a.tool.name} answered: ${clip(text || '(nothing to read)', 4000)}`, 6);
    } catch (e) {
      if (e instanceof Cancelled || t.signal.aborted) throw new Cancelled();
      t.tool(call, { status: 'failed', content: [textContent(e.message)] });
      await t.say(`The tool could not be used: ${e.message}.`);
    }
  },
  async ask(t, a) {
    if (/\b(?:password|passphrase|token|api[ -]?key|credit card|pin)\b/i.test(a.text)) return t.say('I do not ask for secrets in a form, and I cannot open a web page for it. Please set it up outside of this conversation.');
    const low = a.text.toLowerCase();
    const list = /(?:between|among|options?|choices?|:)\s*:?\s*((?:["'`]?[\w -]+["'`]?\s*,\s*)*["'`]?[\w -]+["'`]?\s*,?\s+(?:or|and)\s+["'`]?[\w-]+["'`]?)/i.exec(a.text)?.[1]?.split(/\s*,\s*(?:or\s+|and\s+)?|\s+(?:or|and)\s+/).map(x => x.replace(/["'`]/g, '').trim()).filter(Boolean);
    let key = 'answer', prop = { type: 'string', title: 'Your answer', minLength: 1, maxLength: 200 };
    if (list?.length > 1) { key = 'choice'; prop = { type: 'string', title: 'Pick one', enum: [...new Set(list)], default: list[0] }; }
    else if (/\bcolou?r\b/.test(low)) { key = 'colour'; prop = { type: 'string', title: 'Colour', oneOf: [{ const: 'red', title: 'Red' }, { const: 'green', title: 'Green' }, { const: 'blue', title: 'Blue' }] }; }
    else if (/\b(?:age|number|how many|old)\b/.test(low)) { key = 'number'; prop = { type: 'integer', title: 'A number', minimum: 0, maximum: 150 }; }
    else if (/\b(?:yes|confirm|whether|sure)\b/.test(low)) { key = 'confirm'; prop = { type: 'boolean', title: 'Yes?', default: false }; }
    else if (/\bname\b/.test(low)) { key = 'name'; prop.title = 'Your name'; }
    if (!caps.form) return t.say(`I cannot show a form here, so I ask in plain words: ${prop.title.toLowerCase()}?`);
    const call = t.call({ title: 'Ask the user', name: 'request_user_input', kind: 'other', rawInput: { question: prop.title } });
    t.tool(call, { status: 'in_progress' });
    let r;
    try { r = await ask('elicitation/create', { sessionId: t.s.id, toolCallId: call.toolCallId, mode: 'form', message: `A question for you: ${prop.title.toLowerCase()}?`, requestedSchema: { type: 'object', properties: { [key]: prop }, required: [key] } }, t.signal); }
    catch (e) { if (e instanceof Cancelled) throw e; t.tool(call, { status: 'failed', content: [textContent('The question could not be shown.')] }); return t.say('I could not ask you, so I go on without an answer.'); }
    t.check();
    if (r?.action !== 'accept') { const no = r?.action === 'decline' ? 'declined' : r?.action === 'cancel' ? 'dismissed' : 'not answered'; t.tool(call, { status: r?.action === 'decline' || r?.action === 'cancel' ? 'completed' : 'failed', content: [textContent(`The question was ${no}.`)] }); return t.say(`The question was ${no}, so I assume nothing.`); }
    const v = r.content?.[key], en = prop.enum ?? prop.oneOf?.map(o => o.const);
    const fits = prop.type === 'string' ? isStr(v) && (!en || en.includes(v)) && v.length >= (prop.minLength ?? 0) && v.length <= (prop.maxLength ?? 1e9) : prop.type === 'integer' ? Number.isInteger(v) && v >= prop.minimum && v <= prop.maximum : typeof v === 'boolean';
    if (!fits) { t.tool(call, { status: 'failed', content: [textContent('The answer does not fit the question.')] }); return t.say('That answer does not fit the question, so I leave it aside.'); }
    t.tool(call, { status: 'completed', content: [textContent(`Answer: ${v}`)] });
    await t.say(`Thank you, you answered: ${v}.`);
  },
  async slash(t, a) {
    if (a.name === 'status') return t.say(`Model ${t.s.model}, effort ${t.s.effort}, mode ${t.s.mode}, working in ${t.s.cwd}.`);
    if (a.name === 'compact') {
      const compactionId = randomUUID();
      if (caps.compaction) { t.up({ sessionUpdate: 'compaction_update', compactionId, status: 'in_progress' }); try { await t.sleep(150); } catch (e) { t.up({ sessionUpdate: 'compaction_update', compactionId, status: 'cancelled' }); throw e; } t.up({ sessionUpdate: 'compaction_update', compactionId, status: 'completed', summary: [{ type: 'text', text: 'A short talk so far.' }] }); }
      t.s.used = Math.ceil(t.s.used / 2);
      return t.say('The conversation is summarized.');
    }
    const p = findPaths(a.arg)[0]?.p; if (p) return DO.read(t, { paths: [p] });
    return t.say('Nothing stands out in the workspace.');
  },
};
const children = new Set();
function kill(c, sig) { try { process.kill(-c.pid, sig); } catch { try { c.kill(sig); } catch {} } }
async function hub(t) {
  const stop = new Promise((_, rej) => t.signal.addEventListener('abort', () => rej(new Cancelled()), { once: true }));
  stop.catch(() => {});
  const tools = await Promise.race([t.s.hub.ready(), stop]);
  for (const f of t.s.hub.takeFailures()) {
    if (caps.notices) t.up({ sessionUpdate: 'notice', severity: 'warning', title: `MCP server ${f.name || '?'} is not available`, description: f.why });
    console.error(`mcp ${f.name}: ${f.why}`);
  }
  return tools;
}

function validateBlocks(blocks) {
  if (!Array.isArray(blocks)) throw badParams('prompt must be an array of content blocks.');
  for (const b of blocks) {
    const ok = isObj(b) && (b.type === 'text' ? isStr(b.text) : b.type === 'resource_link' ? isStr(b.uri) && isStr(b.name) : b.type === 'image' ? isStr(b.data) && isStr(b.mimeType) : b.type === 'resource' ? isObj(b.resource) && isStr(b.resource.uri) && (isStr(b.resource.text) || isStr(b.resource.blob)) : false);
    if (!ok) throw badParams(b?.type === 'audio' ? 'Audio is not supported in prompts.' : 'prompt holds an invalid content block.');
  }
}
async function work(t) {
  const s = t.s, text = t.blocks.filter(b => b.type === 'text').map(b => b.text).join('\n').trim();
  const mid = randomUUID();
  for (const b of t.blocks) s.history.push({ sessionUpdate: 'user_message_chunk', messageId: mid, content: b });
  s.updatedAt = new Date().toISOString();
  s.used += 40 + Math.ceil(text.length / 4);
  save(s);
  const first = !s.title;
  if (first) s.title = clip(text.replace(/\s+/g, ' '), 60).split('\n')[0] || t.blocks[0]?.name || 'Untitled';
  s.hub.start();                                     // lazily: MCP servers come up with the first prompt
  await t.sleep(90);
  const wantsTools = !s.hub.empty && /\b(?:tool|tools|mcp|server|call|use|invoke)\b/i.test(text);
  const tools = wantsTools ? await hub(t) : s.hub.known();
  const acts = understand(text, { tools, commands: COMMANDS.map(c => c.name) });
  if (acts[0]?.do !== 'think' && acts[0]?.do !== 'slash') await t.think(`**Considering the request**\n\nThis looks like ${acts.length ? acts.map(a => a.do).join(' and then ') : 'small talk'}.`);
  const others = t.blocks.filter(b => b.type !== 'text');
  for (const a of acts) { t.check(); await DO[a.do](t, a); }
  if (others.length && (!acts.length || acts.every(a => a.do === 'think'))) {
    const seen = [];
    for (const b of others) {
      if (b.type === 'image') seen.push(`an image (${b.mimeType})`);
      else if (b.type === 'resource') seen.push(`${b.resource.uri}${isStr(b.resource.text) ? ` which says: ${clip(b.resource.text, 500)}` : ' with binary data'}`);
      else { seen.push(`a link to ${b.title || b.name}`); if (/^file:\/\/\//.test(b.uri) && /\b(?:read|summari[sz]e|what|tell|show|explain|describe)\b/i.test(text)) await DO.read(t, { paths: [decodeURIComponent(new URL(b.uri).pathname)] }); }
    }
    await t.say(`You gave me ${seen.join(' and ')}.`);
  } else if (!acts.length) await t.say(/^\s*(?:hi|hello|hey|good (?:morning|day|evening))\b/i.test(text) ? 'Hello! What shall we look at?' : 'I am a small agent: I can read and edit files, run commands, plan, use tools and tell stories. What would you like?');
}
async function run(t) {
  const s = t.s;
  s.running = t;
  let stop = 'end_turn', crash = null;
  try { t.check(); await work(t); t.check(); }
  catch (e) { if (e instanceof Cancelled || t.signal.aborted) stop = 'cancelled'; else { crash = e; console.error(e); } }
  for (const c of [...t.open.values()]) t.tool(c, { status: 'failed' });
  s.updatedAt = new Date().toISOString();
  const size = MODELS.find(m => m.value === s.model).size;
  s.used = Math.min(s.used, size);
  t.up({ sessionUpdate: 'usage_update', used: s.used, size, cost: { amount: +(s.used * 2e-6).toFixed(6), currency: 'USD' } });
  save(s);
  s.running = null;
  if (stop === 'cancelled' && t.how === 'request') fail(t.requestId, -32800, 'Request cancelled.');
  else if (crash && stop !== 'cancelled') fail(t.requestId, -32603, 'Internal error.');
  else reply(t.requestId, { stopReason: stop });
  if (!s.titled && stop === 'end_turn') { s.titled = true; setTimeout(() => { if (!s.closed) update(s, { sessionUpdate: 'session_info_update', title: s.title, updatedAt: s.updatedAt }); }, 350).unref(); }
  t.finish();
  const next = s.queue.shift();
  if (next) run(next);
}

// ---------------------------------------------------------------- methods
const METHODS = {
  initialize(p) {
    if (!Number.isInteger(p.protocolVersion) || p.protocolVersion < 0 || p.protocolVersion > 65535) throw badParams('protocolVersion must be an integer between 0 and 65535.');
    caps = readCaps(p.clientCapabilities);
    initialized = true;
    const authMethods = [{ id: 'local-profile', name: 'Local profile', description: 'Use the profile of this machine; no account is needed.' }];
    if (caps.termAuth) authMethods.push({ type: 'terminal', id: 'terminal-login', name: 'Log in from a terminal', args: ['--login'] });
    return {
      protocolVersion: 1,
      agentInfo: { name: 'seventh-heron', title: 'Seventh Heron', version: VERSION },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, delete: {}, close: {}, additionalDirectories: {} },
        auth: {},
        _meta: { 'seventh-heron.example': { queuesPrompts: true, ownTools: true } },
      },
      authMethods,
    };
  },
  authenticate(p) {
    if (p.methodId !== 'local-profile') throw badParams('Unknown authentication method.');
    return {};
  },
  'session/new'(p) {
    const { cwd, roots } = setupParams(p);
    const s = makeSession(uuid7(), cwd, roots, p.mcpServers);
    greet(s);
    return { sessionId: s.id, modes: modesOf(s), configOptions: options(s) };
  },
  async 'session/load'(p) {
    if (!isStr(p.sessionId)) throw badParams('sessionId must be a string.');
    const { cwd, roots } = setupParams(p);
    const live = sessions.get(p.sessionId);
    if (live) await closeSession(live);
    const rec = live?.history.length ? live : readRecord(p.sessionId) ?? live;
    if (!rec || rec.deleted) throw new RpcError(-32002, 'Session not found.', { sessionId: p.sessionId });
    const s = makeSession(p.sessionId, cwd, roots, p.mcpServers, rec);
    s.titled = true;
    const entries = [...s.history];
    const batch = () => { for (const h of entries.splice(0, 2)) update(s, h); };
    if (FAULT === 'early-answer') { batch(); const more = () => { if (entries.length && !s.closed) { batch(); setTimeout(more, 20); } }; setTimeout(more, 20); }
    else while (entries.length) { batch(); await new Promise(r => setImmediate(r)); }
    greet(s);
    setTimeout(() => { if (!s.closed && !s.running) update(s, { sessionUpdate: 'usage_update', used: s.used, size: MODELS.find(m => m.value === s.model).size }); }, 60);
    return { modes: modesOf(s), configOptions: options(s) };
  },
  'session/list'(p) {
    if (p.cwd != null && (!isStr(p.cwd) || !path.isAbsolute(p.cwd))) throw badParams('cwd must be an absolute path.');
    let from = 0;
    let all = [];
    const seen = new Set();
    for (const s of sessions.values()) if (s.history.length) { all.push(s); seen.add(s.id); }
    if (store) for (const f of fs.readdirSync(store)) { const id = f.replace(/\.json$/, ''); if (f.endsWith('.json') && !seen.has(id)) { const r = readRecord(id); if (r) all.push(r); } }
    if (p.cwd != null) all = all.filter(s => s.cwd === p.cwd || s.cwd === path.resolve(p.cwd));
    all.sort((a, b) => b.updatedAt < a.updatedAt ? -1 : b.updatedAt > a.updatedAt ? 1 : a.id < b.id ? -1 : 1);
    if (p.cursor != null) {
      let c; try { c = JSON.parse(Buffer.from(p.cursor, 'base64url').toString('utf8')); } catch {}
      if (!isStr(p.cursor) || !isObj(c) || !isStr(c.u) || !isStr(c.i)) throw badParams('The cursor is not valid.');
      from = all.findIndex(s => s.updatedAt < c.u || (s.updatedAt === c.u && s.id > c.i));
      if (from < 0) from = all.length;
    }
    const page = all.slice(from, from + 20), last = page.at(-1);
    return {
      sessions: page.map(s => ({ sessionId: s.id, cwd: s.cwd, title: s.title, updatedAt: s.updatedAt, ...(s.roots?.length ? { additionalDirectories: s.roots } : {}) })),
      ...(from + 20 < all.length ? { nextCursor: Buffer.from(JSON.stringify({ u: last.updatedAt, i: last.id })).toString('base64url') } : {}),
    };
  },
  async 'session/delete'(p) {
    if (!isStr(p.sessionId)) throw badParams('sessionId must be a string.');
    const s = sessions.get(p.sessionId);
    if (s) { s.deleted = true; await closeSession(s); }
    const f = fileOf(p.sessionId);
    if (f) fs.rmSync(f, { force: true });
    return {};
  },
  async 'session/close'(p) { await closeSession(session(p)); return {}; },
  'session/set_mode'(p) {
    const s = session(p);
    if (!MODES.some(m => m.id === p.modeId)) throw badParams('Unknown mode.');
    s.mode = p.modeId;
    update(s, { sessionUpdate: 'config_option_update', configOptions: options(s) });
    save(s);
    return {};
  },
  'session/set_config_option'(p) {
    const s = session(p), o = options(s).find(x => x.id === p.configId);
    if (!o) throw badParams('Unknown config option.');
    if (o.type === 'boolean') { if (p.type !== 'boolean' || typeof p.value !== 'boolean') throw badParams('This option takes a boolean.'); s.showReasoning = p.value; }
    else {
      const flat = o.options.flatMap(x => x.options ?? [x]);
      if (!isStr(p.value) || !flat.some(x => x.value === p.value)) throw badParams('This value is not offered.');
      if (o.id === 'mode') { s.mode = p.value; update(s, { sessionUpdate: 'current_mode_update', currentModeId: s.mode }); }
      if (o.id === 'reasoning_effort') s.effort = p.value;
      if (o.id === 'model') { s.model = p.value; const e = MODELS.find(m => m.value === s.model).efforts; if (!e.includes(s.effort)) s.effort = e.includes('medium') ? 'medium' : e[0]; }
    }
    save(s);
    const all = options(s);
    return { configOptions: FAULT === 'model-only' && o.id === 'model' ? all.filter(x => x.id === 'model' || x.id === 'reasoning_effort') : all };
  },
};
const NOTIFICATIONS = {
  'session/cancel'(p) { const s = sessions.get(p?.sessionId); if (s) for (const t of [s.running, ...s.queue]) t?.abort('cancel'); },
  '$/cancel_request'(p) { for (const s of sessions.values()) for (const t of [s.running, ...s.queue]) if (t && t.requestId === p?.requestId) t.abort('request'); },
};
function prompt(id, p) {
  const s = session(p);
  validateBlocks(p.prompt);
  const t = new Turn(s, id, p.prompt);
  if (s.running) { s.queue.push(t); return; }
  run(t);
}
async function handle(m) {
  if (!isObj(m)) return fail(null, -32600, Array.isArray(m) ? 'Batches are not supported.' : 'Not a JSON-RPC message.');
  const hasId = 'id' in m, idOk = m.id === null || isStr(m.id) || Number.isInteger(m.id);
  if (m.jsonrpc !== '2.0' || (hasId && !idOk)) return fail(null, -32600, 'Invalid JSON-RPC message.');
  if (!('method' in m)) {
    if (hasId && ('result' in m || 'error' in m)) {
      const w = outstanding.get(m.id);
      if (w) { outstanding.delete(m.id); w.done(); if ('error' in m) w.reject(new RpcError(m.error?.code ?? -32603, String(m.error?.message ?? 'error'))); else w.resolve(m.result); }
      return;
    }
    return fail(hasId ? m.id : null, -32600, 'Neither a request nor a response.');
  }
  if (!isStr(m.method) || (m.params !== undefined && m.params !== null && typeof m.params !== 'object')) return fail(hasId ? m.id : null, -32600, 'Invalid request.');
  if (!hasId) { try { NOTIFICATIONS[m.method]?.(m.params); } catch (e) { console.error(e); } return; }
  try {
    const known = Object.hasOwn(METHODS, m.method) || m.method === 'session/prompt';
    if (!known) throw new RpcError(-32601, 'Method not found.', { method: m.method });
    if (!initialized && m.method !== 'initialize') throw new RpcError(-32600, 'initialize must come first.');
    const p = m.params ?? {};
    if (!isObj(p)) throw badParams('params must be an object.');
    if (m.method === 'session/prompt') return prompt(m.id, p);
    reply(m.id, await METHODS[m.method](p));
  } catch (e) {
    if (e instanceof RpcError) fail(m.id, e.code, e.message, e.data);
    else { console.error(e); fail(m.id, -32603, 'Internal error.'); }
  }
}

// ---------------------------------------------------------------- stdin
let closing = false;
async function shutdown() {
  if (closing) return; closing = true;
  setTimeout(() => { for (const c of children) kill(c, 'SIGKILL'); process.exit(0); }, 1500).unref();
  await Promise.allSettled([...sessions.values()].map(s => closeSession(s)));
  gone = true;
  for (const c of children) kill(c, 'SIGKILL');
  process.exit(0);
}
let rest = [];
process.stdin.on('data', chunk => {
  let at;
  while ((at = chunk.indexOf(10)) >= 0) {
    rest.push(chunk.subarray(0, at));
    const line = Buffer.concat(rest).toString('utf8').trim(); rest = [];
    chunk = chunk.subarray(at + 1);
    if (!line) continue;
    let m; try { m = JSON.parse(line); } catch { fail(null, -32700, 'Parse error.'); continue; }
    handle(m).catch(e => console.error(e));
  }
  if (chunk.length) rest.push(chunk);
});
process.stdin.on('end', shutdown).on('error', shutdown);
for (const sig of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(sig, shutdown);
process.on('unhandledRejection', e => console.error('unhandled', e));
console.error(`seventh-heron ${VERSION} ready`);
