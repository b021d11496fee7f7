#!/usr/bin/env node
// hermit: lives alone with its own files and its own processes. Asks nobody.
'use strict';
const { promises: fsp, realpathSync, existsSync } = require('fs');
const path = require('path');
const { spawn } = require('child_process');
const FAULT = process.env.FAULT || '';
const cells = {};            // sessions
const kids = new Set();
let awake = false, born = 0;
let here = null;             // directory of the last session (used only by the fault)
let order = [];

const E = (code, message, data) => ({ rpc: { code, message, ...(data && { data }) } });
const plain = (v) => !!v && typeof v === 'object' && !Array.isArray(v);
const tell = (m) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n');
const note = (c, update) => tell({ method: 'session/update', params: { sessionId: c.id, update } });
const dirOf = (c) => (FAULT === 'cwd-global' ? here : c.cwd);
const wait = (ms) => new Promise((r) => setTimeout(r, ms));
process.stdout.on('error', () => process.exit(0));

function say(c, text) {
  for (const l of text.split(/(?<=\n)/)) { if (c.cancelled) throw 'cancelled'; note(c, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: l } }); }
}
function begin(c, title, kind, more) {
  const toolCallId = `h${c.n}.${++c.calls}`;
  note(c, { sessionUpdate: 'tool_call', toolCallId, title, kind, status: 'in_progress', ...more });
  return (status, text, content) => note(c, { sessionUpdate: 'tool_call_update', toolCallId, status, content: content || (text === undefined ? [] : [{ type: 'content', content: { type: 'text', text } }]) });
}
function realOf(p) { try { return realpathSync(p); } catch { const d = path.dirname(p); return d === p ? p : path.join(realOf(d), path.basename(p)); } }
function allowed(c, p) {
  return [dirOf(c), ...c.more].some((r) => { const rel = path.relative(realOf(r), realOf(p)); return rel === '' || (rel.split('/')[0] !== '..' && !path.isAbsolute(rel)); });
}
const kill = (k) => { try { process.kill(-k.pid, 'SIGKILL'); } catch {} };

const wishes = [
  [/remember\b[\s\S]*?\bword\b\W*(?:is\W+)?([\w-]+)/i, (c, m) => { c.word = m[1]; say(c, 'I carved it in the wall.\n'); }],
  [/\b(what|which|recall|repeat|tell)\b[\s\S]*\bword\b/i, (c) => say(c, c.word ? `The wall says: ${c.word}\n` : 'The wall is bare.\n')],
  [/\btool\b/i, tool, (c) => c.servers.length],
  [/\b(?:run|execute)\b(?:[\s\S]*?\bcommand\b)?:?\s*(?:`([^`]+)`|([\s\S]+))/i, (c, m, t) => run(c, (/`([^`]+)`/.exec(t)?.[1] ?? m[1] ?? m[2]).trim())],
  [/\b(?:write|create|save)\b[\s\S]*?((?:\.{0,2}\/)?(?:[\w.-]+\/)*[\w-][\w.-]*\.\w+)["'`]?([\s\S]*)/i, (c, m) => write(c, m[1], m[2])],
  [/\b(?:read|show|open|cat)\b[\s\S]*?((?:\.{0,2}\/)?(?:[\w.-]+\/)*[\w-][\w.-]*\.\w+)/i, (c, m) => read(c, m[1])],
  [/\b(count|slowly|think|long|while|meditate)\b/i, async (c, m, t) => {
    const n = Math.min(+(/\d+/.exec(t)?.[0] ?? 30), 300);
    for (let i = 1; i <= n; i++) { say(c, i + '\n'); await Promise.race([wait(200), c.gone]); }
  }],
  [/[\s\S]*/, (c, m, t) => say(c, `The hermit nods.\nYou spoke ${t.split(/\s+/).filter(Boolean).length} words.\n`)],
];

async function read(c, name) {
  const p = path.resolve(dirOf(c), name), end = begin(c, `Read ${name}`, 'read', { locations: [{ path: p }] });
  try {
    if (!allowed(c, p)) throw new Error('too far from my cell');
    const t = (await fsp.readFile(p, 'utf8')).slice(0, 20000);
    end('completed', t);
    say(c, `It reads:\n${t}`);
  } catch (e) { if (e === 'cancelled') throw e; end('failed', e.message); say(c, 'I could not read it.\n'); }
}
async function write(c, name, rest) {
  const q = /["`]([^"`]+)["`]/.exec(rest) || /(?:^|\s)'([^']+)'/.exec(rest);
  const b = /\b(?:text|contents?|containing|saying|with)\b(?:\s+(?:the\s+)?(?:text|contents?))?\s*:?\s*([\s\S]+)/i.exec(rest);
  const newText = q ? q[1] : b ? b[1].trim() : 'silence';
  const p = path.resolve(dirOf(c), name), end = begin(c, `Write ${name}`, 'edit', { locations: [{ path: p }] });
  try {
    if (!allowed(c, p)) throw new Error('too far from my cell');
    const oldText = existsSync(p) ? await fsp.readFile(p, 'utf8') : null;
    await fsp.mkdir(path.dirname(p), { recursive: true });
    if (c.cancelled) { end('failed'); throw 'cancelled'; }
    await fsp.writeFile(p, newText);
    end('completed', undefined, [{ type: 'diff', path: p, oldText, newText }]);
    say(c, 'It is written.\n');
  } catch (e) { if (e === 'cancelled') throw e; end('failed', e.message); say(c, 'I could not write it.\n'); }
}
async function run(c, cmd) {
  const end = begin(c, `Run: ${cmd.slice(0, 40)}`, 'execute', { rawInput: { command: cmd } });
  const over = new Promise((done) => {
    let text = '';
    const k = spawn('sh', ['-c', cmd], { cwd: dirOf(c), detached: true, stdio: ['ignore', 'pipe', FAULT === 'child-stderr' ? 1 : 'pipe'] });
    kids.add(k);
    for (const o of [k.stdout, k.stderr]) if (o) o.setEncoding('utf8').on('data', (d) => { text += d; });
    const me = c.turn;
    me.gone.then(() => kill(k));
    k.on('error', (e) => { kids.delete(k); end('failed', e.message); done([1, e.message]); });
    k.on('close', (code, sig) => {
      kids.delete(k);
      if (me.over) { end('failed'); return done([1, '']); }
      end(code === 0 ? 'completed' : 'failed', text.slice(0, 20000));
      done([code ?? sig, text]);
    });
  });
  const r = await (FAULT === 'late-tool' ? Promise.race([over, c.gone.then(() => { throw 'cancelled'; })]) : over);
  say(c, (r[0] === 0 ? 'Done.\n' : `It ended with ${r[0]}.\n`) + r[1].slice(0, 500));
}

async function link(c, spec) {
  const env = { ...process.env }; (spec.env ?? []).forEach((v) => { env[v.name] = v.value; });
  const k = spawn(spec.command, spec.args ?? [], { env, cwd: existsSync(c.cwd) ? c.cwd : '/', detached: true, stdio: ['pipe', 'pipe', 'ignore'] });
  kids.add(k);
  const open = {}; let n = 0, buf = '', dead = null;
  const bury = (e) => { kids.delete(k); dead = e instanceof Error ? e : new Error('the server is gone'); Object.values(open).forEach((o) => o[1](dead)); };
  k.on('error', bury).on('exit', bury); k.stdin.on('error', () => {});
  const put = (m) => k.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n');
  const call = (method, params) => new Promise((a, b) => { if (dead) return b(dead); open[++n] = [a, b]; put({ id: n, method, params }); });
  k.stdout.setEncoding('utf8').on('data', (d) => {
    const ls = (buf + d).split('\n'); buf = ls.pop();
    for (const l of ls) {
      let m; try { m = JSON.parse(l); } catch { continue; }
      if (m.method) { if (m.id != null) put({ id: m.id, result: {} }); continue; }
      const o = open[m.id]; delete open[m.id];
      if (o) m.error ? o[1](new Error(m.error.message)) : o[0](m.result);
    }
  });
  const late = wait(10000).then(() => { throw new Error('the server is silent'); }); late.catch(() => {});
  await Promise.race([late, call('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'hermit', version: '1' } })]);
  put({ method: 'notifications/initialized' });
  const { tools } = await Promise.race([late, call('tools/list', {})]);
  return { k, call, tools };
}
async function tool(c, m, text) {
  const stop = c.gone.then(() => { throw 'cancelled'; }); stop.catch(() => {});
  if (!c.links) c.links = Promise.all(c.servers.map((s) => link(c, s).catch((e) => { console.error(s.name, e.message); return null; })));
  const links = (await Promise.race([c.links, stop])).filter(Boolean);
  for (const l of links) for (const t of l.tools) {
    if (!text.includes(t.name)) continue;
    let args; try { args = JSON.parse(/\{[\s\S]*\}/.exec(text)[0]); } catch { args = {}; }
    for (const k of t.inputSchema?.required ?? []) args[k] ??= ({ integer: 5, number: 5, boolean: true })[t.inputSchema.properties?.[k]?.type] ?? 'cave';
    const end = begin(c, `Call ${t.name}`, 'other', { rawInput: args });
    try {
      const r = await Promise.race([l.call('tools/call', { name: t.name, arguments: args }), stop]);
      const said = (r.content ?? []).map((x) => x.text ?? '').join('\n');
      end(r.isError ? 'failed' : 'completed', said);
      return say(c, `I heard back:\n${said}`);
    } catch (e) { end('failed', e === 'cancelled' ? undefined : e.message); if (e === 'cancelled') throw e; return say(c, 'No good answer came.\n'); }
  }
  say(c, `There is no such tool near me.\n`);
}

function cellOf(p) {
  if (typeof p.sessionId !== 'string') throw E(-32602, 'Invalid params: sessionId');
  if (!Object.hasOwn(cells, p.sessionId)) throw E(-32002, 'Session not found', { sessionId: p.sessionId });
  return cells[p.sessionId];
}
function stop(c, how) {
  c.cancelled = true;
  if (c.turn) { c.turn.how = c.turn.how || how; c.turn.cancel(); if (FAULT === 'late-tool') c.turn.over = true; }
}
const calls = {
  initialize(p) {
    if (!Number.isInteger(p.protocolVersion) || p.protocolVersion < 0 || p.protocolVersion > 65535) throw E(-32602, 'Invalid params: protocolVersion');
    awake = true;
    return { protocolVersion: 1, agentInfo: { name: 'hermit', version: '7.0.1' }, agentCapabilities: { loadSession: false, sessionCapabilities: { list: {}, delete: {}, additionalDirectories: {} }, promptCapabilities: { audio: true, image: false }, mcpCapabilities: { http: false } } };
  },
  'session/new'(p) {
    if (typeof p.cwd !== 'string' || !path.isAbsolute(p.cwd)) throw E(-32602, 'Invalid params: cwd must be absolute');
    const more = p.additionalDirectories ?? [], servers = p.mcpServers ?? [];
    if (!Array.isArray(more) || !more.every((d) => typeof d === 'string' && path.isAbsolute(d))) throw E(-32602, 'Invalid params: additionalDirectories');
    if (p.mcpServers === undefined || !Array.isArray(servers) || !servers.every((s) => plain(s) && (s.type ?? 'stdio') === 'stdio' && typeof s.command === 'string' && typeof s.name === 'string' && Array.isArray(s.args ?? []) && Array.isArray(s.env ?? []) && (s.env ?? []).every((v) => plain(v) && typeof v.name === 'string' && typeof v.value === 'string')))
      throw E(-32602, 'Invalid params: mcpServers');
    const id = `hermit/${Date.now().toString(36)}/${++born}${Math.random().toString(36).slice(2, 8)}`;
    cells[id] = { id, cwd: p.cwd, more, servers, n: 0, calls: 0, turn: null, cancelled: false, at: new Date().toISOString() };
    order.push(id);
    here = p.cwd;
    return { sessionId: id };
  },
  'session/list'(p) {
    if (p.cwd != null && typeof p.cwd !== 'string') throw E(-32602, 'Invalid params: cwd');
    const ids = order.filter((i) => p.cwd == null || cells[i].cwd === p.cwd);
    let from = 0;
    if (p.cursor != null) { from = ids.findIndex((i) => 'after:' + i === p.cursor) + 1; if (!from) throw E(-32602, 'Invalid params: unknown cursor'); }
    const page = ids.slice(from, from + 50);
    const sessions = page.map((i) => ({ sessionId: i, cwd: cells[i].cwd, updatedAt: cells[i].at, ...(cells[i].more.length && { additionalDirectories: cells[i].more }) }));
    return from + 50 < ids.length ? { sessions, nextCursor: 'after:' + page[49] } : { sessions };
  },
  async 'session/delete'(p) {
    if (typeof p.sessionId !== 'string') throw E(-32602, 'Invalid params: sessionId');
    if (!Object.hasOwn(cells, p.sessionId)) return {};
    const c = cells[p.sessionId];
    delete cells[c.id]; order = order.filter((i) => i !== c.id);
    const t = c.turn;
    if (t) { stop(c, 'cancel'); await t.finished; }
    if (c.links) c.links.then((l) => l.forEach((x) => x && kill(x.k)));
    return {};
  },
  async 'session/prompt'(p, id) {
    if (typeof p.sessionId !== 'string' || !Array.isArray(p.prompt)) throw E(-32602, 'Invalid params: sessionId and prompt are needed');
    const words = p.prompt.map((b) => {
      if (plain(b) && b.type === 'text' && typeof b.text === 'string') return b.text;
      if (plain(b) && b.type === 'audio' && typeof b.data === 'string' && typeof b.mimeType === 'string') return '';
      if (plain(b) && b.type === 'resource_link' && typeof b.uri === 'string' && typeof b.name === 'string') return b.name;
      throw E(-32602, 'Invalid params: content block');
    }).join(' ');
    const c = cellOf(p);
    if (c.turn) throw E(-32600, 'The hermit does one thing at a time');
    const t = c.turn = { id, how: null };
    t.gone = new Promise((r) => { t.cancel = r; }); t.finished = new Promise((r) => { t.finish = r; });
    c.gone = t.gone; c.n++; c.at = new Date().toISOString();
    if (FAULT !== 'sticky-cancel') c.cancelled = false;
    try {
      await wait(1);
      if (c.cancelled) throw 'cancelled';
      for (const [re, f, when] of wishes) { const m = re.exec(words); if (m && (!when || when(c))) { await f(c, m, words); break; } }
    } catch (e) { if (e !== 'cancelled') throw e; } finally { c.turn = null; setImmediate(t.finish); }
    const was = c.cancelled; c.cancelled = false;
    if (was && t.how === 'request') throw E(-32800, 'Request cancelled');
    return { stopReason: was ? 'cancelled' : 'end_turn' };
  },
};

async function hear(raw) {
  let m;
  try { m = JSON.parse(raw.toString('utf8')); } catch { return tell({ id: null, error: { code: -32700, message: 'Parse error' } }); }
  const idFine = plain(m) && (m.id == null || typeof m.id === 'string' || Number.isInteger(m.id));
  if (plain(m) && !('method' in m) && ('result' in m || 'error' in m)) return;
  if (!idFine || m.jsonrpc !== '2.0' || typeof m.method !== 'string' || (m.params != null && typeof m.params !== 'object')) return tell({ id: idFine ? m.id ?? null : null, error: { code: -32600, message: 'Invalid request' } });
  const p = m.params ?? {};
  if (!('id' in m)) {
    if (m.method === 'session/cancel' && plain(p) && Object.hasOwn(cells, String(p.sessionId))) { const c = cells[p.sessionId]; if (c.turn || FAULT === 'sticky-cancel') stop(c, 'cancel'); }
    if (m.method === '$/cancel_request' && plain(p)) for (const c of Object.values(cells)) if (c.turn && c.turn.id === p.requestId) stop(c, 'request');
    return;
  }
  try {
    if (!Object.hasOwn(calls, m.method)) throw E(-32601, 'Method not found');
    if (!awake && m.method !== 'initialize') throw E(-32600, 'Not initialized');
    if (!plain(p)) throw E(-32602, 'Invalid params: an object is expected');
    const r = calls[m.method](p, m.id);
    tell({ id: m.id, result: typeof r.then === 'function' ? await r : r });
  } catch (e) {
    if (!e.rpc) console.error(e);
    tell({ id: m.id, error: e.rpc ?? { code: -32603, message: 'Internal error' } });
  }
}
let part = Buffer.alloc(0);
process.stdin.on('data', (d) => {
  let from = 0, i;
  while ((i = d.indexOf(10, from)) >= 0) { const l = part.length ? Buffer.concat([part, d.subarray(from, i)]) : d.subarray(from, i); part = Buffer.alloc(0); from = i + 1; if (l.toString().trim()) hear(l); }
  part = Buffer.concat([part, d.subarray(from)]);
}).on('end', () => { for (const k of kids) kill(k); process.exit(0); });
