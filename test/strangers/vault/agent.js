#!/usr/bin/env node
// vault: every session is a file under $HOME/.vault-agent; every deed needs a permission.
'use strict';
const fs = require('fs'), path = require('path'), os = require('os'), crypto = require('crypto');
const { spawn } = require('child_process');

const FAULT = process.env.FAULT || '';
const DIR = path.join(process.env.HOME || os.homedir(), '.vault-agent');
const PAGE = 20;
const live = new Map();      // sessionId -> live session
const waiting = new Map();   // our requests
const children = new Set();
let client = null, lastId = 0;

class Rpc extends Error { constructor(code, message, data) { super(message); this.code = code; this.data = data; } }
class Stopped extends Error {}
const invalid = (m) => new Rpc(-32602, 'Invalid params: ' + m);
const isObj = (x) => x !== null && typeof x === 'object' && !Array.isArray(x);
const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n');
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
process.stdout.on('error', () => process.exit(0));

function request(s, method, params) {
  const n = FAULT === 'id-per-session' ? (s.reqs = (s.reqs || 0) + 1) : ++lastId;
  const id = 'vault-' + n;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    send({ id, method, params: { sessionId: s.id, ...params } });
  });
}
const atMost = (p, ms) => Promise.race([p, sleep(ms).then(() => { throw new Error('timeout'); })]);

// ------------------------------------------------------------- the store
const file = (id) => path.join(DIR, id + '.json');
function save(s) {
  fs.mkdirSync(DIR, { recursive: true });
  const tmp = file(s.id) + '.tmp';
  fs.writeFileSync(tmp, JSON.stringify({ id: s.id, cwd: s.cwd, created: s.created, updatedAt: s.updatedAt, title: s.title, word: s.word, nextMsg: s.nextMsg, nextCall: s.nextCall, log: s.log }));
  fs.renameSync(tmp, file(s.id));
}
function stored(id) {
  if (!/^vlt-[0-9a-f]+$/.test(id)) return null;
  try { return JSON.parse(fs.readFileSync(file(id), 'utf8')); } catch { return null; }
}

// ------------------------------------------------------------- methods
function setup(p, needServers) {
  if (typeof p.cwd !== 'string' || !path.isAbsolute(p.cwd)) throw invalid('cwd must be an absolute path');
  if (needServers && p.mcpServers === undefined) throw invalid('mcpServers is missing');
  const servers = p.mcpServers ?? [];
  if (!Array.isArray(servers)) throw invalid('mcpServers is not an array');
  for (const m of servers) {
    if (!isObj(m) || (m.type !== undefined && m.type !== 'stdio')) throw invalid('only stdio MCP servers are supported');
    if (typeof m.name !== 'string' || typeof m.command !== 'string' || !Array.isArray(m.args ?? []) || !Array.isArray(m.env ?? []) ||
      !(m.env ?? []).every((e) => isObj(e) && typeof e.name === 'string' && typeof e.value === 'string')) throw invalid('bad MCP server');
  }
  return servers;
}
function revive(p, needServers) {
  const servers = setup(p, needServers);
  if (typeof p.sessionId !== 'string') throw invalid('sessionId is missing');
  const old = live.get(p.sessionId);
  if (old && old.turn) throw new Rpc(-32600, 'A turn is running in this session');
  const rec = stored(p.sessionId);
  if (!rec) throw new Rpc(-32002, 'Session not found', { sessionId: p.sessionId });
  if (old) dropMcp(old);
  const s = { ...rec, cwd: p.cwd, servers, mcp: null, turn: null, always: {} };
  if (FAULT === 'msgid-restart') s.nextMsg = 1;
  live.set(s.id, s);
  return s;
}
const methods = {
  initialize(p) {
    const v = p.protocolVersion;
    if (!Number.isInteger(v) || v < 0 || v > 65535) throw invalid('protocolVersion must be a 16-bit unsigned integer');
    client = isObj(p.clientCapabilities) ? p.clientCapabilities : {};
    return {
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: true, promptCapabilities: { image: false, audio: false, embeddedContext: false },
        mcpCapabilities: { http: false, sse: false }, sessionCapabilities: { list: {}, resume: {} },
      },
      agentInfo: { name: 'vault', title: 'The Vault', version: '0.4.2' }, authMethods: [],
    };
  },
  'session/new'(p) {
    const servers = setup(p, true);
    const s = { id: 'vlt-' + crypto.randomBytes(10).toString('hex'), cwd: p.cwd, created: Date.now(), updatedAt: new Date().toISOString(), title: null, word: null, nextMsg: 1, nextCall: 1, log: [], servers, mcp: null, turn: null, always: {} };
    live.set(s.id, s);
    save(s);
    return { sessionId: s.id };
  },
  'session/load'(p) {
    const s = revive(p, true);
    for (const u of s.log) send({ method: 'session/update', params: { sessionId: s.id, update: u } });
    return null;
  },
  'session/resume'(p) { revive(p, false); return {}; },
  'session/list'(p) {
    if (p.cwd != null && typeof p.cwd !== 'string') throw invalid('cwd');
    let all = [];
    try { all = fs.readdirSync(DIR).filter((f) => f.endsWith('.json')).map((f) => stored(f.slice(0, -5))).filter(Boolean); } catch {}
    all = all.filter((r) => p.cwd == null || r.cwd === p.cwd);
    const key = (r) => String(r.created).padStart(15, '0') + r.id;
    all.sort((a, b) => (key(a) < key(b) ? 1 : -1));
    if (p.cursor != null) {
      const k = typeof p.cursor === 'string' ? Buffer.from(p.cursor, 'base64url').toString() : '';
      if (!/^\d{15}vlt-[0-9a-f]+$/.test(k)) throw invalid('bad cursor');
      all = all.filter((r) => key(r) < k);
    }
    const page = all.slice(0, PAGE);
    const res = { sessions: page.map((r) => ({ sessionId: r.id, cwd: r.cwd, title: r.title, updatedAt: r.updatedAt })) };
    if (all.length > PAGE) res.nextCursor = Buffer.from(key(page[PAGE - 1])).toString('base64url');
    return res;
  },
  async 'session/prompt'(p) {
    if (typeof p.sessionId !== 'string') throw invalid('sessionId is missing');
    if (!Array.isArray(p.prompt)) throw invalid('prompt is not an array');
    const blocks = p.prompt.map((b) => {
      if (isObj(b) && b.type === 'text' && typeof b.text === 'string') return { type: 'text', text: b.text };
      if (isObj(b) && b.type === 'resource_link' && typeof b.uri === 'string' && typeof b.name === 'string') return { type: 'resource_link', uri: b.uri, name: b.name };
      throw invalid('content block not supported');
    });
    const s = live.get(p.sessionId);
    if (!s) throw new Rpc(-32002, 'Session not found', { sessionId: p.sessionId });
    if (s.turn) throw new Rpc(-32600, 'A turn is already running in this session');
    let cancel;
    const turn = s.turn = { cancelled: false };
    turn.gone = new Promise((r) => { cancel = r; });
    turn.cancel = () => { turn.cancelled = true; cancel(); };
    let stopReason = 'end_turn';
    try {
      const uid = msgId(s);
      for (const b of blocks) s.log.push({ sessionUpdate: 'user_message_chunk', content: b, messageId: uid });
      const text = blocks.map((b) => b.text || b.name).join(' ');
      if (!s.title) s.title = text.slice(0, 30) || null;
      s.updatedAt = new Date().toISOString();
      save(s);
      await sleep(5);
      await wish(s, text);
      if (turn.cancelled) stopReason = 'cancelled';
    } catch (e) {
      if (!(e instanceof Stopped)) throw e;
      stopReason = 'cancelled';
    } finally {
      s.turn = null;
      save(s);
    }
    return { stopReason };
  },
};

// ------------------------------------------------------------- turns
const msgId = (s) => `${s.id.slice(4, 12)}-${s.nextMsg++}`;
const check = (s) => { if (s.turn.cancelled) throw new Stopped(); };
function update(s, u) { send({ method: 'session/update', params: { sessionId: s.id, update: u } }); }
async function say(s, text) {
  const entry = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: '' }, messageId: msgId(s) };
  s.log.push(entry);
  for (const w of text.match(/\S+\s*/g) || [text]) {
    if (s.turn.cancelled) { if (!entry.content.text) s.log.pop(); throw new Stopped(); }
    update(s, { ...entry, content: { type: 'text', text: w } });
    entry.content.text += w;
    await sleep(3);
  }
}
const nap = async (s, ms) => { await Promise.race([sleep(ms), s.turn.gone]); check(s); };
const textContent = (t) => ({ type: 'content', content: { type: 'text', text: t } });

// One deed = one tool call: report, ask, do, report.
async function deed(s, tool, title, kind, extra, work) {
  const entry = { sessionUpdate: 'tool_call', toolCallId: 'deed-' + s.nextCall++, title, name: tool, kind, status: 'pending', ...extra };
  update(s, { ...entry });
  s.log.push(entry);
  const report = (u) => { Object.assign(entry, u); update(s, { sessionUpdate: 'tool_call_update', toolCallId: entry.toolCallId, ...u }); };
  let allowed = s.always[tool];
  if (allowed === undefined) {
    const ask = request(s, 'session/request_permission', {
      toolCall: { toolCallId: entry.toolCallId, title, kind, status: 'pending', ...extra },
      options: [
        { optionId: 'yes', name: 'Allow', kind: 'allow_once' }, { optionId: 'yes-always', name: 'Allow always', kind: 'allow_always' },
        { optionId: 'no', name: 'Reject', kind: 'reject_once' }, { optionId: 'no-always', name: 'Reject always', kind: 'reject_always' },
      ],
    }).catch(() => null);
    const answer = await Promise.race([ask, s.turn.gone.then(() => Promise.race([ask, sleep(2000)]))]);
    const out = isObj(answer) && isObj(answer.outcome) ? answer.outcome : {};
    if (s.turn.cancelled || out.outcome === 'cancelled') { report({ status: 'failed' }); throw new Stopped(); }
    const id = out.outcome === 'selected' ? String(out.optionId) : 'no';
    allowed = FAULT === 'reject-always' ? id === 'yes' || id.endsWith('always') : id === 'yes' || id === 'yes-always';
    if (id.endsWith('always')) s.always[tool] = allowed;
  }
  if (!allowed) { report({ status: 'failed', content: [textContent('Not permitted.')] }); return say(s, 'You did not allow that, so I did not do it.'); }
  report({ status: 'in_progress' });
  let r;
  try { r = await work(report); } catch (e) {
    if (e instanceof Stopped) { report({ status: 'failed' }); throw e; }
    report({ status: 'failed', content: [...(entry.content || []).filter((c) => c.type === 'terminal'), textContent(String(e.message))] });
    check(s);
    return say(s, 'That did not work: ' + e.message);
  }
  report({ status: 'completed', content: r.content });
  check(s);
  return say(s, r.words);
}

function inside(s, name) {
  const p = path.resolve(s.cwd, name);
  const real = (x) => { try { return fs.realpathSync(x); } catch { const d = path.dirname(x); return d === x ? x : path.join(real(d), path.basename(x)); } };
  const rel = path.relative(real(s.cwd), real(p));
  return { p, ok: rel !== '..' && !rel.startsWith('../') };
}
const orStop = (s, p) => Promise.race([p, s.turn.gone.then(() => { throw new Stopped(); })]);
const may = (kind) => isObj(client.fs) && client.fs[kind] === true;
async function readText(s, p) {
  if (!may('readTextFile')) return fs.readFileSync(p, 'utf8');
  const r = await orStop(s, request(s, 'fs/read_text_file', { path: p }));
  if (!isObj(r) || typeof r.content !== 'string') throw new Error('odd answer of the client');
  return r.content;
}
function readFile(s, name) {
  const { p, ok } = inside(s, name);
  return deed(s, 'read_file', 'Read ' + name, 'read', { locations: [{ path: p }] }, async () => {
    if (!ok) throw new Error('the file is outside of the working directory');
    const t = await readText(s, p);
    return { content: [textContent(t)], words: 'The file holds: ' + t.slice(0, 500) };
  });
}
function writeFile(s, name, body) {
  const { p, ok } = inside(s, name);
  return deed(s, 'write_file', 'Write ' + name, 'edit', { locations: [{ path: p }] }, async () => {
    if (!ok) throw new Error('the file is outside of the working directory');
    let old = null;
    if (fs.existsSync(p)) old = await readText(s, p).catch((e) => { if (e instanceof Stopped) throw e; return fs.readFileSync(p, 'utf8'); });
    check(s);
    if (may('writeTextFile')) await orStop(s, request(s, 'fs/write_text_file', { path: p, content: body }));
    else { fs.mkdirSync(path.dirname(p), { recursive: true }); fs.writeFileSync(p, body); }
    return { content: [{ type: 'diff', path: p, oldText: old, newText: body }], words: 'The file is written.' };
  });
}
function runCommand(s, cmd) {
  return deed(s, 'run', 'Run ' + cmd.slice(0, 50), 'execute', { rawInput: { command: cmd } }, (report) =>
    client.terminal === true ? inTerminal(s, cmd, report) : bySelf(s, cmd));
}
async function inTerminal(s, cmd, report) {
  const t = await atMost(request(s, 'terminal/create', { command: '/bin/sh', args: ['-c', cmd], cwd: s.cwd, outputByteLimit: 50000 }), 10000);
  const terminalId = t.terminalId, content = [{ type: 'terminal', terminalId }];
  const release = () => atMost(request(s, 'terminal/release', { terminalId }), 2000).catch(() => null);
  try {
    check(s);
    report({ content });
    const st = await orStop(s, request(s, 'terminal/wait_for_exit', { terminalId }));
    const o = await orStop(s, request(s, 'terminal/output', { terminalId }));
    if (st.exitCode !== 0) {
      if (FAULT !== 'term-leak') await release();
      const e = new Error(`exit code ${st.exitCode ?? st.signal}`); e.done = true; throw e;
    }
    await release();
    return { content, words: 'It printed: ' + String(o.output).slice(0, 500) };
  } catch (e) {
    if (!e.done) {
      if (e instanceof Stopped) await atMost(request(s, 'terminal/kill', { terminalId }), 2000).catch(() => null);
      await release();
    }
    throw e;
  }
}
function bySelf(s, cmd) {
  return new Promise((resolve, reject) => {
    let out = '';
    const c = spawn('/bin/sh', ['-c', cmd], { cwd: s.cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    children.add(c);
    c.stdout.setEncoding('utf8').on('data', (d) => { out += d; });
    c.stderr.setEncoding('utf8').on('data', (d) => { out += d; });
    s.turn.gone.then(() => killGroup(c));
    c.on('error', reject);
    c.on('close', (code, sig) => {
      children.delete(c);
      if (s.turn.cancelled) reject(new Stopped());
      else if (code !== 0) reject(new Error(`exit code ${code ?? sig}: ${out.slice(0, 300)}`));
      else resolve({ content: [textContent(out)], words: 'It printed: ' + out.slice(0, 500) });
    });
  });
}
function killGroup(c) { if (c.exitCode === null && c.signalCode === null && c.pid) { try { process.kill(-c.pid, 'SIGKILL'); } catch {} } }

// ------------------------------------------------------------- MCP, only when needed
function dropMcp(s) { for (const m of s.mcp || []) killGroup(m.child); s.mcp = null; }
async function connect(s, spec) {
  const env = { ...process.env };
  for (const e of spec.env ?? []) env[e.name] = e.value;
  const child = spawn(spec.command, spec.args ?? [], { cwd: fs.existsSync(s.cwd) ? s.cwd : undefined, env, detached: true, stdio: ['pipe', 'pipe', 'ignore'] });
  children.add(child);
  const asked = new Map(); let n = 0, buf = '';
  const die = (e) => { children.delete(child); for (const w of asked.values()) w.reject(e instanceof Error ? e : new Error('the MCP server ended')); };
  child.on('error', die); child.on('exit', die); child.stdin.on('error', () => {});
  const put = (m) => child.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n');
  child.stdout.setEncoding('utf8').on('data', (d) => {
    buf += d;
    for (let i; (i = buf.indexOf('\n')) >= 0; buf = buf.slice(i + 1)) {
      let m; try { m = JSON.parse(buf.slice(0, i)); } catch { continue; }
      if (m.method) { if (m.id !== undefined) put(m.method === 'ping' ? { id: m.id, result: {} } : { id: m.id, error: { code: -32601, message: 'Method not found' } }); continue; }
      const w = asked.get(m.id); asked.delete(m.id);
      if (w) m.error ? w.reject(new Error(m.error.message)) : w.resolve(m.result);
    }
  });
  const call = (method, params) => new Promise((resolve, reject) => { asked.set(++n, { resolve, reject }); put({ id: n, method, params }); });
  try {
    await atMost(call('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'vault', version: '0.4' } }), 10000);
    put({ method: 'notifications/initialized' });
    return { child, call, tools: (await atMost(call('tools/list', {}), 10000)).tools || [] };
  } catch (e) { killGroup(child); process.stderr.write(`mcp ${spec.name}: ${e.message}\n`); return null; }
}
async function useTool(s, text) {
  if (!s.mcp) s.mcp = (await Promise.all(s.servers.map((x) => connect(s, x)))).filter(Boolean);
  check(s);
  for (const m of s.mcp) for (const t of m.tools) {
    if (!text.includes(t.name)) continue;
    let args = null;
    try { args = JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)); } catch {}
    if (!args) {
      const sch = t.inputSchema || {}; args = {};
      for (const k of sch.required || []) { const ty = ((sch.properties || {})[k] || {}).type; args[k] = ty === 'integer' || ty === 'number' ? 3 : ty === 'boolean' ? true : 'vault'; }
    }
    return deed(s, t.name, 'Call ' + t.name, 'other', { rawInput: args }, async () => {
      const r = await orStop(s, m.call('tools/call', { name: t.name, arguments: args }));
      const said = (r.content || []).map((c) => c.text || '').join(' ');
      if (r.isError) throw new Error(said);
      return { content: [textContent(said)], words: 'The tool said: ' + said };
    });
  }
  return say(s, 'I know no such tool. I know: ' + s.mcp.flatMap((m) => m.tools.map((t) => t.name)).join(', '));
}

async function wish(s, text) {
  let m;
  if ((m = /remember\b[\s\S]*?\bword\b\W*(?:is\W+)?([\w-]+)/i.exec(text))) { s.word = m[1]; return say(s, 'It is locked in the vault.'); }
  if (/\b(what|which|recall|repeat|tell)\b[\s\S]*\bword\b/i.test(text)) return say(s, s.word ? `The word in the vault is ${s.word}` : 'The vault is empty.');
  if (/\btool\b/i.test(text) && s.servers.length) return useTool(s, text);
  if ((m = /\b(?:run|execute)\b(?:[\s\S]*?\bcommand\b)?:?\s*(?:`([^`]+)`|([\s\S]+))/i.exec(text))) {
    const tick = /`([^`]+)`/.exec(text);
    return runCommand(s, (tick ? tick[1] : m[2]).trim());
  }
  const f = /((?:\.{0,2}\/)?(?:[\w.-]+\/)*[\w-][\w.-]*\.\w+)/.exec(text);
  if (f && /\b(write|create|save)\b/i.test(text)) {
    const rest = text.slice(f.index + f[0].length);
    const q = /["`“]([^"`”]+)["`”]/.exec(rest) || /'([^']+)'/.exec(rest.replace(/^['`"]/, ''));
    const b = /\b(?:text|contents?|containing|saying|with)\b(?:\s+(?:the\s+)?(?:text|contents?))?\s*:?\s*([\s\S]+)/i.exec(rest);
    return writeFile(s, f[1], q ? q[1] : b ? b[1].trim() : 'locked');
  }
  if (f && /\b(read|show|open|cat)\b/i.test(text)) return readFile(s, f[1]);
  if (/\b(count|slowly|think|long|while)\b/i.test(text)) {
    const n = /\d+/.exec(text);
    for (let k = 1; k <= Math.min(n ? +n[0] : 25, 300); k++) { update1(s, k + ' '); await nap(s, 200); }
    endMessage(s);
    return;
  }
  return say(s, 'The vault hears you, and asks what you want to read, write or run.');
}
function update1(s, t) { // a message that grows over time
  if (!s.turn.msg) { s.turn.msg = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: '' }, messageId: msgId(s) }; s.log.push(s.turn.msg); }
  update(s, { ...s.turn.msg, content: { type: 'text', text: t } });
  s.turn.msg.content.text += t;
}
function endMessage(s) { s.turn.msg = null; }

// ------------------------------------------------------------- the wire
async function handle(line) {
  let m;
  try { m = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line)); } catch { return send({ id: null, error: { code: -32700, message: 'Parse error' } }); }
  if (isObj(m) && m.method === undefined && ('result' in m || 'error' in m)) {
    const w = waiting.get(m.id); waiting.delete(m.id);
    if (w) 'result' in m ? w.resolve(m.result) : w.reject(new Error(String((m.error || {}).message || 'the client refused')));
    return;
  }
  const okId = isObj(m) && (m.id === undefined || m.id === null || typeof m.id === 'string' || Number.isInteger(m.id));
  if (!isObj(m) || m.jsonrpc !== '2.0' || typeof m.method !== 'string' || !okId || (m.params != null && typeof m.params !== 'object'))
    return send({ id: okId ? m.id ?? null : null, error: { code: -32600, message: 'Invalid request' } });
  if (!('id' in m)) {
    if (m.method === 'session/cancel' && isObj(m.params)) { const s = live.get(m.params.sessionId); if (s && s.turn) s.turn.cancel(); }
    return;
  }
  try {
    const f = Object.hasOwn(methods, m.method) && methods[m.method];
    if (!f) throw new Rpc(-32601, 'Method not found');
    if (!client && m.method !== 'initialize') throw new Rpc(-32600, 'Not initialized');
    const p = m.params ?? (m.method === 'session/list' ? {} : null);
    if (!isObj(p)) throw invalid('an object is expected');
    const r = f(p);
    send({ id: m.id, result: r instanceof Promise ? await r : r });
  } catch (e) {
    if (!(e instanceof Rpc)) process.stderr.write(String(e.stack) + '\n');
    const error = e instanceof Rpc ? { code: e.code, message: e.message } : { code: -32603, message: 'Internal error' };
    if (e.data) error.data = e.data;
    send({ id: m.id, error });
  }
}
let rest = [];
process.stdin.on('data', (d) => {
  for (let i; (i = d.indexOf(10)) >= 0; d = d.subarray(i + 1)) {
    const line = Buffer.concat([...rest, d.subarray(0, i)]); rest = [];
    if (line.toString('latin1').trim()) handle(line);
  }
  if (d.length) rest.push(d);
});
process.stdin.on('end', () => { for (const c of children) killGroup(c); process.exit(0); });
