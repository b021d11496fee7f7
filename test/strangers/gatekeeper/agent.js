#!/usr/bin/env node
// gatekeeper: nobody enters without a key. Thinks aloud, makes plans, asks with forms.
'use strict';
const fs = require('fs'), path = require('path'), crypto = require('crypto'), cp = require('child_process'), readline = require('readline');
const FAULT = process.env.FAULT || '';
const TOKEN = path.join(process.env.HOME || '/tmp', '.gatekeeper-token');

if (process.argv.includes('--login')) { // terminal login: writes the token and ends
  fs.writeFileSync(TOKEN, crypto.randomUUID());
  console.error('You are logged in.');
  process.exit(0);
}

const KEY = { id: 'house-key', name: 'House key', description: 'Takes the key under the mat' };
const CONSOLE = { type: 'terminal', id: 'console-login', name: 'Log in on the console', args: ['--login'] };
const KINDS = new Set(['text', 'resource_link']);
const state = { caps: null, method: fs.existsSync(TOKEN) ? 'console-login' : null, methods: [KEY], nextId: 0 };
const sessions = new Map(), asked = new Map();

const fail = (code, message, data) => Object.assign(new Error(message), { code, data, rpc: true });
const wrong = (what) => fail(-32602, `Invalid params: ${what}`);
const obj = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
const out = (m) => { process.stdout.write(JSON.stringify(Object.assign({ jsonrpc: '2.0' }, m)) + '\n'); };
process.stdout.on('error', () => process.exit(0));

class Session {
  constructor(cwd) { this.id = crypto.randomUUID(); this.cwd = cwd; this.mcp = []; this.secret = null; this.abort = null; this.calls = 0; this.done = null; }
  update(sessionUpdate, fields) { out({ method: 'session/update', params: { sessionId: this.id, update: { sessionUpdate, ...fields } } }); }
  say(text) { this.guard(); this.update('agent_message_chunk', { content: { type: 'text', text } }); }
  think(text) { this.guard(); this.update('agent_thought_chunk', { content: { type: 'text', text } }); }
  guard() { if (this.abort.signal.aborted) throw this.abort.signal.reason; }
  until(promise) { // the promise or the abort, whichever comes first
    const sig = this.abort.signal;
    return new Promise((ok, no) => {
      if (sig.aborted) return no(sig.reason);
      const stop = () => no(sig.reason);
      sig.addEventListener('abort', stop, { once: true });
      promise.then(ok, no).finally(() => sig.removeEventListener('abort', stop));
    });
  }
  pause(ms) { return this.until(new Promise((r) => setTimeout(r, ms))); }
}

function ask(method, params) {
  const id = state.nextId++;
  return new Promise((ok, no) => { asked.set(id, { ok, no }); out({ id, method, params }); });
}

class McpClient {
  constructor(spec, cwd) {
    this.spec = spec; this.tools = []; this.n = 0; this.open = new Map();
    const env = Object.assign({}, process.env, Object.fromEntries((spec.env || []).map((e) => [e.name, e.value])));
    this.child = cp.spawn(spec.command, spec.args || [], { env, cwd: fs.existsSync(cwd) ? cwd : '/', stdio: ['pipe', 'pipe', 'ignore'] });
    const over = (e) => { for (const w of this.open.values()) w.no(new Error(e && e.message || 'MCP server ended')); this.open.clear(); };
    this.child.on('error', over).on('exit', () => over());
    this.child.stdin.on('error', () => {});
    readline.createInterface({ input: this.child.stdout }).on('line', (l) => {
      let m; try { m = JSON.parse(l); } catch { return; }
      if (m.method) { if ('id' in m) this.put({ id: m.id, ...(m.method === 'ping' ? { result: {} } : { error: { code: -32601, message: 'Method not found' } }) }); return; }
      const w = this.open.get(m.id); this.open.delete(m.id);
      if (w) m.error ? w.no(new Error(m.error.message)) : w.ok(m.result);
    });
  }
  put(m) { this.child.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n'); }
  call(method, params, ms) {
    return new Promise((ok, no) => { const id = ++this.n; this.open.set(id, { ok, no }); setTimeout(() => no(new Error('MCP server is silent')), ms).unref(); this.put({ id, method, params }); });
  }
  async start() {
    try {
      await this.call('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'gatekeeper', version: '3.0' } }, 4000);
      this.put({ method: 'notifications/initialized' });
      this.tools = (await this.call('tools/list', {}, 4000)).tools || [];
    } catch (e) { console.error('mcp', this.spec.name, e.message); }
  }
}

function sessionOf(p) {
  if (typeof p.sessionId !== 'string') throw wrong('sessionId');
  const s = sessions.get(p.sessionId);
  if (!s) throw fail(-32002, 'Session not found', { sessionId: p.sessionId });
  return s;
}

const api = {
  initialize(p) {
    if (!Number.isInteger(p.protocolVersion) || p.protocolVersion < 0 || p.protocolVersion > 0xffff) throw wrong('protocolVersion');
    state.caps = obj(p.clientCapabilities) ? p.clientCapabilities : {};
    state.methods = obj(state.caps.auth) && state.caps.auth.terminal === true ? [KEY, CONSOLE] : [KEY];
    return {
      protocolVersion: 1, authMethods: state.methods, agentInfo: { name: 'gatekeeper', title: null, version: '3.0.0' },
      agentCapabilities: {
        loadSession: false, promptCapabilities: {}, mcpCapabilities: {}, sessionCapabilities: { close: {} }, auth: { logout: {} },
        _meta: { 'gatekeeper.example': { methods: ['_gatekeeper/ping', '_gatekeeper/echo'] } },
      },
    };
  },
  authenticate(p) {
    if (typeof p.methodId !== 'string') throw wrong('methodId');
    if (FAULT === 'auth-effect') state.method = p.methodId;
    if (p.methodId !== KEY.id) throw wrong('methodId is not one that can be used here');
    state.method = p.methodId;
    return {};
  },
  logout() { state.method = null; fs.rmSync(TOKEN, { force: true }); return {}; },
  async 'session/new'(p) {
    if (typeof p.cwd !== 'string' || !p.cwd.startsWith('/')) throw wrong('cwd must be absolute');
    if (p.mcpServers === undefined || !Array.isArray(p.mcpServers ?? [])) throw wrong('mcpServers');
    for (const m of p.mcpServers ?? []) {
      const good = obj(m) && (m.type ?? 'stdio') === 'stdio' && typeof m.name === 'string' && typeof m.command === 'string' && Array.isArray(m.args ?? []) && Array.isArray(m.env ?? []) && (m.env ?? []).every((e) => obj(e) && typeof e.name === 'string' && typeof e.value === 'string');
      if (!good) throw wrong('mcpServers has an entry that cannot be used');
    }
    if (!state.method) throw fail(-32000, 'Authentication required');
    const s = new Session(p.cwd);
    s.mcp = (p.mcpServers ?? []).map((m) => new McpClient(m, p.cwd));
    await Promise.all(s.mcp.map((m) => m.start()));
    sessions.set(s.id, s);
    return { sessionId: s.id };
  },
  async 'session/close'(p) {
    const s = sessionOf(p);
    sessions.delete(s.id);
    if (s.abort) { s.abort.abort(new Error('cancelled')); await s.done; }
    for (const m of s.mcp) m.child.kill('SIGKILL');
    return {};
  },
  async 'session/prompt'(p) {
    if (typeof p.sessionId !== 'string' || !Array.isArray(p.prompt)) throw wrong('sessionId and prompt');
    for (const b of p.prompt) {
      if (!obj(b) || !KINDS.has(b.type)) throw wrong('content block of a type that is not supported');
      if (b.type === 'text' ? typeof b.text !== 'string' : typeof b.uri !== 'string' || typeof b.name !== 'string') throw wrong('malformed content block');
    }
    const s = sessionOf(p);
    if (s.abort) throw fail(-32600, 'One prompt at a time, please');
    s.abort = new AbortController();
    let free; s.done = new Promise((r) => { free = r; });
    try {
      await turn(s, p.prompt.map((b) => b.text ?? b.name).join('\n'));
      return { stopReason: s.abort.signal.aborted ? 'cancelled' : 'end_turn' };
    } catch (e) {
      if (s.abort.signal.aborted) return { stopReason: 'cancelled' };
      throw e;
    } finally { s.abort = null; setImmediate(free); }
  },
  '_gatekeeper/ping'() { return { pong: true }; },
  '_gatekeeper/echo'(p) { return { echo: p }; },
};

async function turn(s, text) {
  await s.pause(20);
  s.think('Someone knocks. What do they want?');
  let m;
  if ((m = text.match(/remember\b[^]*?\bword\b\W*(?:is\W+)?([\w-]+)/i))) { s.secret = m[1]; return s.say('The gatekeeper keeps it.'); }
  if (/\b(what|which|recall|repeat|tell)\b[^]*\bword\b/i.test(text)) return s.say(s.secret ? `The word was ${s.secret}.` : 'You gave me no word.');
  if (/\btool\b/i.test(text) && s.mcp.length) return useTool(s, text);
  if (/\b(ask me|form|elicit\w*|questionnaire)\b/i.test(text)) return question(s);
  if (/\b(plan|steps|step by step)\b/i.test(text)) return plan(s);
  if (/\b(count|slow\w*|long|wait|think|essay|story)\b/i.test(text)) {
    const n = Math.min(Number((text.match(/\d+/) || [40])[0]), 400);
    for (let i = 1; i <= n; i++) { s.think(`${i}, `); await s.pause(150); }
    return s.say(`I have counted to ${n}.`);
  }
  s.say(`Good day. I heard ${text.length} letters and let them pass.`);
}

async function plan(s) {
  const entries = ['Look at the gate', 'Find the key', 'Open the gate'].map((content, i) => ({ content, priority: ['high', 'medium', 'low'][i], status: 'pending' }));
  s.update('plan', { entries });
  for (const e of entries) {
    e.status = 'in_progress'; s.guard(); s.update('plan', { entries });
    await s.pause(100);
    e.status = 'completed'; s.guard(); s.update('plan', { entries });
  }
  s.say('All three steps are done.');
}

async function question(s) {
  const eli = state.caps.elicitation;
  const can = FAULT === 'elicit-form' ? Boolean(eli) : obj(eli) && obj(eli.form);
  if (!can) return s.say('Which colour do you like, red, green or blue? Please tell me in your next message.');
  const colours = ['red', 'green', 'blue'];
  let r;
  try {
    r = await s.until(ask('elicitation/create', {
      sessionId: s.id, mode: 'form', message: 'Which colour do you like?',
      requestedSchema: { type: 'object', properties: { colour: { type: 'string', title: 'Colour', enum: colours } }, required: ['colour'] },
    }));
  } catch (e) { s.guard(); return s.say('I could not ask you, so I go on without a colour.'); }
  const c = obj(r) && r.action === 'accept' && obj(r.content) ? r.content.colour : undefined;
  if (colours.includes(c)) return s.say(`So the gate will be ${c}.`);
  s.say(obj(r) && r.action === 'accept' ? 'That is no colour I know, so nothing changes.' : 'You gave no colour, so nothing changes.');
}

async function useTool(s, text) {
  for (const m of s.mcp) {
    const t = m.tools.find((x) => new RegExp(`(^|[^\\w])${x.name.replace(/[^\w]/g, '\\$&')}([^\\w]|$)`).test(text));
    if (!t) continue;
    let args = {};
    const j = text.match(/\{[^]*\}/);
    try { if (j) args = JSON.parse(j[0]); } catch {}
    const schema = t.inputSchema || {};
    for (const k of schema.required || []) if (!(k in args)) args[k] = { integer: 7, number: 7, boolean: true }[((schema.properties || {})[k] || {}).type] ?? 'gate';
    const toolCallId = `gate-${++s.calls}`;
    s.update('tool_call', { toolCallId, title: `Send for ${t.name}`, kind: 'other', status: 'in_progress', rawInput: args });
    let r;
    try { r = await s.until(m.call('tools/call', { name: t.name, arguments: args }, 60000)); } catch (e) {
      s.update('tool_call_update', { toolCallId, status: 'failed', content: [{ type: 'content', content: { type: 'text', text: e.message } }] });
      s.guard();
      return s.say('The tool did not come back well.');
    }
    const said = (r.content || []).filter((c) => c.type === 'text').map((c) => c.text).join('\n');
    s.update('tool_call_update', { toolCallId, status: r.isError ? 'failed' : 'completed', content: [{ type: 'content', content: { type: 'text', text: said } }], rawOutput: r });
    return s.say(`The tool brought: ${said}`);
  }
  s.say(`I can send for ${s.mcp.flatMap((m) => m.tools.map((t) => t.name)).join(', ') || 'nobody'}.`);
}

async function receive(text) {
  let m;
  try { m = JSON.parse(text); } catch { return out({ id: null, error: { code: -32700, message: 'Parse error' } }); }
  const idOk = obj(m) && (!('id' in m) || m.id === null || typeof m.id === 'string' || Number.isInteger(m.id));
  if (!obj(m) || !idOk) return out({ id: null, error: { code: -32600, message: 'Invalid request' } });
  if (!('method' in m) && ('result' in m || 'error' in m)) {
    const w = asked.get(m.id); asked.delete(m.id);
    if (w) 'error' in m ? w.no(new Error('refused')) : w.ok(m.result);
    return;
  }
  if (m.jsonrpc !== '2.0' || typeof m.method !== 'string' || (m.params != null && typeof m.params !== 'object')) return out({ id: m.id ?? null, error: { code: -32600, message: 'Invalid request' } });
  if (!('id' in m)) {
    if (m.method === 'session/cancel' && obj(m.params)) sessions.get(m.params.sessionId)?.abort?.abort(new Error('cancelled'));
    return;
  }
  let id = m.id;
  if (FAULT === 'ext-id' && m.method.startsWith('_') && typeof id === 'number') id = String(id);
  try {
    const f = Object.prototype.hasOwnProperty.call(api, m.method) ? api[m.method] : null;
    if (!f) throw fail(-32601, 'Method not found');
    if (!state.caps && f !== api.initialize) throw fail(-32600, 'initialize has to come first');
    const p = m.params ?? (m.method === 'logout' || m.method[0] === '_' ? {} : undefined);
    if (!obj(p) && m.method[0] !== '_') throw wrong('an object is needed');
    out({ id, result: await f(p) });
  } catch (e) {
    if (!e.rpc) console.error(e);
    out({ id, error: { code: e.rpc ? e.code : -32603, message: e.rpc ? e.message : 'Internal error', ...(e.data ? { data: e.data } : {}) } });
  }
}

setTimeout(() => { // the gate opens slowly in the morning
  const dec = new TextDecoder('utf-8');
  let buf = '';
  process.stdin.on('data', (d) => {
    buf += dec.decode(d, { stream: true });
    const lines = buf.split('\n');
    buf = lines.pop();
    for (const l of lines) if (l.trim()) receive(l);
  });
  process.stdin.on('end', () => { for (const s of sessions.values()) for (const m of s.mcp) m.child.kill('SIGKILL'); process.exit(0); });
}, 1500);
