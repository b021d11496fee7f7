#!/usr/bin/env node
// tapir: a small ACP agent for Node.js without packages. Sessions live in memory, a login is
// required, files and commands are handled by the agent itself.
'use strict';
const fs = require('fs');
const path = require('path');
const { spawn } = require('child_process');
const { randomBytes } = require('crypto');

const FAULT = process.env.FAULT || '';
const LOGIN = 'tapir-trail';
const sessions = new Map(); // open ones
const shelf = new Map(); // closed ones, can be resumed
const waiting = new Map();
const active = new Map(); // request id (as JSON) -> turn
const children = new Set();
let caps = {}, ready = false, loggedIn = false, nextId = 0;

class Fail extends Error { constructor(code, message, data) { super(message); this.code = code; this.data = data; } }
class Stopped extends Error {}
const isObj = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);
const text = (t) => ({ type: 'text', text: t });
const body = (t) => [{ type: 'content', content: text(t) }];
const send = (o) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...o }) + '\n');
const answer = (id, result) => send({ id, result });
const refuse = (id, e) => send({ id, error: { code: e.code, message: e.message, data: e.data ?? { agent: 'tapir' } } });

function ask(method, params, turn) {
  const id = --nextId; // -1, -2, -3 ...
  send({ id, method, params });
  return new Promise((ok, no) => {
    waiting.set(id, { ok, no });
    if (turn) turn.onStop(() => setTimeout(() => { if (waiting.delete(id)) no(new Stopped()); }, 4000));
  });
}

// ------------------------------------------------------------------ MCP
class Mcp {
  constructor(conf, cwd) {
    Object.assign(this, { conf, name: conf.name, tools: new Map(), n: 0, boxes: new Map(), sid: null });
    if (conf.type === 'http') return;
    const env = { ...process.env };
    delete env.FAULT;
    for (const e of conf.env || []) env[e.name] = e.value;
    this.p = spawn(conf.command, conf.args || [], { cwd, env, stdio: ['pipe', 'pipe', 'ignore'] });
    children.add(this.p);
    this.p.on('error', () => this.fail());
    this.p.on('exit', () => { children.delete(this.p); this.fail(); });
    this.p.stdin.on('error', () => {});
    splitLines(this.p.stdout, (line) => {
      let m;
      try { m = JSON.parse(line.toString('utf8')); } catch { return; }
      if (m.method && m.id !== undefined) this.post({ id: m.id, ...(m.method === 'ping' ? { result: {} } : { error: { code: -32601, message: 'no' } }) });
      else if (this.boxes.has(m.id)) { this.boxes.get(m.id)(m); this.boxes.delete(m.id); }
    });
  }
  fail() { for (const [id, f] of this.boxes) f({ error: { message: 'server gone' } }); this.boxes.clear(); }
  async post(o) {
    const raw = JSON.stringify({ jsonrpc: '2.0', ...o });
    if (this.p) return void this.p.stdin.write(raw + '\n');
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    for (const h of this.conf.headers || []) headers[h.name] = h.value;
    if (this.sid) headers['mcp-session-id'] = this.sid;
    const res = await fetch(this.conf.url, { method: 'POST', headers, body: raw, signal: AbortSignal.timeout(10000) });
    this.sid = res.headers.get('mcp-session-id') || this.sid;
    const got = await res.text();
    const rows = got.split(/\r?\n/).filter((l) => l.startsWith('data:')).map((l) => l.slice(5));
    for (const row of rows.length ? rows : [got]) {
      if (!row.trim()) continue;
      const m = JSON.parse(row);
      if (this.boxes.has(m.id)) { this.boxes.get(m.id)(m); this.boxes.delete(m.id); }
    }
  }
  call(method, params) {
    const id = 'tapir-' + ++this.n;
    return new Promise((ok, no) => {
      const t = setTimeout(() => no(new Error('timeout')), 10000);
      this.boxes.set(id, (m) => { clearTimeout(t); m.error ? no(new Error(m.error.message)) : ok(m.result); });
      this.post({ id, method, params }).catch(no);
    });
  }
  async start() {
    await this.call('initialize', { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'tapir', version: '1.0' } });
    await this.post({ method: 'notifications/initialized' });
    for (const t of (await this.call('tools/list', {})).tools || []) this.tools.set(t.name, t);
  }
  stop() { if (this.p) { this.p.stdin.end(); this.p.kill('SIGTERM'); const p = this.p; setTimeout(() => p.kill('SIGKILL'), 800).unref(); } }
}

// ------------------------------------------------------------------ sessions
class Session {
  constructor(id) { Object.assign(this, { id, facts: [], turns: 0, calls: 0, mids: 0, pace: 'walk', verbose: false, mcp: [], turn: null, told: false, title: null }); }
  update(o, meta) { send({ method: 'session/update', params: { sessionId: this.id, update: meta ? { ...o, _meta: meta } : o } }); }
  options() {
    const list = [{ id: 'pace', name: 'Pace', description: 'How fast text is streamed', category: 'model_config', type: 'select', currentValue: this.pace,
      options: [{ value: 'walk', name: 'Walk' }, { value: 'trot', name: 'Trot', description: 'Hardly any pause' }] }];
    if (isObj(caps.session?.configOptions?.boolean)) list.push({ id: 'verbose', name: 'Say more', type: 'boolean', currentValue: this.verbose });
    return list;
  }
  async setUp({ cwd, servers, extra }) {
    Object.assign(this, { cwd, extra, updatedAt: new Date().toISOString() });
    this.mcp = [];
    await Promise.all(servers.map(async (conf) => {
      try { const m = new Mcp(conf, cwd); this.mcp.push(m); await m.start(); } catch (e) { process.stderr.write(`mcp ${conf.name}: ${e.message}\n`); }
    }));
  }
  async close() {
    if (this.turn) { this.turn.stop(); await this.turn.over; }
    if (FAULT === 'tapir-close-leak') return; // the list of servers is dropped, the processes are not
    for (const m of this.mcp) m.stop();
  }
}

// ------------------------------------------------------------------ understanding
const QUOTED = /```(?:\w*\n)?([\s\S]+?)```|`([^`]+)`|"([^"]+)"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)/g;
const quoted = (t) => [...t.matchAll(QUOTED)].map((m) => m.slice(1).find((g) => g));
function pathIn(t) {
  const m = /\b(?:named|called|file)\s+[`'"]([\w@./ -]+)[`'"]/.exec(t) || /(?<![\w/.-])((?:\/|\.{1,2}\/)?[\w@-][\w@./-]*\.\w{1,8}|\/[\w@./-]+)(?![\w/])/.exec(t)
    || /\bfile (?:named|called) ([\w-]+)/.exec(t);
  return m ? m[1].replace(/\.$/, '') : null;
}
function contentIn(t, p) {
  const q = quoted(t).filter((x) => x !== p);
  if (q.length) return q[0];
  const m = /\b(?:contain(?:s|ing)|with|that says|saying|reading|content)\b\s*(?:exactly|only|just)?:?\s*(?:the )?(?:following )?(?:content|contents|text|line|word|words)?\s*(?:of|is)?\s*:?\s*([\s\S]+)$/i.exec(t) || /\b(?:write|save|put|add|store)\s+([\s\S]+?)\s+(?:to|into|in)\s/i.exec(t);
  return m ? m[1].trim().replace(/\.$/, '') : '';
}
const STOP = new Set(['this', 'the', 'that', 'is', 'it', 'word', 'number', 'code', 'secret', 'following', 'for', 'me', 'just', 'you', 'my', 'and', 'to', 'ok', 'of']);
function understand(t, s) {
  const low = t.toLowerCase();
  let m;
  if ((m = /^\/(\w+)\s*(.*)/.exec(t.trim()))) return ['slash', m[1], m[2]];
  for (const server of s.mcp) for (const name of server.tools.keys())
    if (new RegExp(`(?<![\\w-])${name.replace(/[^\w-]/g, '\\$&')}(?![\\w-])`).test(t) && /\b(tool|call|use|invoke|mcp)\b/.test(low)) return ['mcp', server, name, t];
  if (/\b(make|create|write|draw up|draft|give me|show me|prepare|need)\b[^.]{0,40}\bplan\b|\bto-?do list\b|^plan\b/.test(low)) return ['plan'];
  if ((m = /\b(?:count|numbers?)\b[\s\S]*?\b(?:to|through|until)\s+(\d+)/.exec(low))) return ['count', Math.min(+m[1], 1000)];
  const p = pathIn(t);
  if (!p && /\b(working|current) directory\b/.test(low)) return ['where'];
  if (!p && /^(what|which|tell me|do you|repeat|can you)\b[\s\S]*\b(did i|i told|i asked|i gave|was the|is the|you remember|i said)\b|\bwhat .*\b(word|number|code|secret|name)\b.*\?/.test(low)) return ['recall'];
  if (!p && /\b(remember|memori[sz]e|keep in mind)\b|\b(secret|code ?word|magic|password)\b.*\bis\b/.test(low)) {
    const words = [...t.matchAll(/\b(?:is|word|number|code|name|phrase|remember)\b[:,]?\s+(?=[*_]*([\w-]{2,}))/g)].map((x) => x[1]).filter((x) => !STOP.has(x.toLowerCase()));
    return ['remember', quoted(t)[0] || words[0] || t];
  }
  const at = (rx) => { const k = low.search(rx); return k < 0 ? Infinity : k; };
  const w = at(/\b(create|write|save|make|add|put|store)\b/), r = at(/\b(run|execute|launch)\b/);
  const rd = at(/\b(read|show|open|print|display|cat|look at|look into|contents? of|what is in|what's in|summari[sz]e)\b/);
  if (r < Math.min(w, rd)) {
    m = /\b(?:run|execute|launch)\b:?\s+(?:the |a |this )?(?:following )?(?:shell |terminal )?(?:commands?|program)?\s*(?:in (?:a|the|your) (?:terminal|shell))?\s*:?\s*(.+?)(?:\.?$|,? and (?:tell|show|report|give|then)|\.\s)/i.exec(t);
    const cmd = quoted(t)[0] || (m && m[1]);
    if (cmd) return ['run', cmd.trim()];
  }
  if (w < rd && (p || /\bfile\b/.test(low))) return ['write', p, contentIn(t, p)];
  if (rd < Infinity && p) return ['read', p];
  if (/\b(list|which|what) (\w+ )*files\b|\bls\b/.test(low)) return ['run', 'ls'];
  if (/\b(long|story|essay|poem|novel|detailed)\b/.test(low)) return ['story'];
  if (p && /\?|\bwhat\b|\btell me\b/.test(low)) return ['read', p];
  return ['chat'];
}

// ------------------------------------------------------------------ one turn
class Turn {
  constructor(s, rid) {
    Object.assign(this, { s, rid, stopped: false, hooks: [], open: new Set(), mid: null, code: null });
    this.over = new Promise((ok) => { this.done = ok; });
  }
  stop() { if (!this.stopped) { this.stopped = true; this.hooks.splice(0).forEach((f) => f()); } }
  onStop(f) { if (this.stopped) f(); else this.hooks.push(f); }
  check() { if (this.stopped) throw new Stopped(); }
  async nap(ms) { await new Promise((ok) => { const t = setTimeout(ok, ms); this.onStop(() => { clearTimeout(t); ok(); }); }); this.check(); }
  chunk(kind, t) {
    this.check();
    if (this.mid?.kind !== kind) this.mid = { kind, id: `${this.s.id}.m${++this.s.mids}` };
    this.s.update({ sessionUpdate: kind, messageId: this.mid.id, content: text(t) });
  }
  async say(t) { // word by word
    for (const w of t.match(/\s*\S+\s*/g) || [t]) { this.chunk('agent_message_chunk', w); await this.nap(this.s.pace === 'trot' ? 1 : 8); }
  }
  call(title, kind, name, input, more) {
    this.check();
    const id = `${++this.s.calls}`;
    this.open.add(id);
    this.mid = null;
    this.s.update({ sessionUpdate: 'tool_call', toolCallId: id, title, kind, name, rawInput: input, ...more });
    return id;
  }
  end(id, ok, content) {
    this.open.delete(id);
    this.s.update({ sessionUpdate: 'tool_call_update', toolCallId: id, status: ok ? 'completed' : 'failed', content }, { 'tapir/at': Date.now() });
  }
  where(p) {
    const { cwd, extra } = this.s;
    let full = path.resolve(cwd, p);
    if (FAULT === 'tapir-root-order') full = [...extra, cwd].map((d) => path.resolve(d, p)).find((f) => fs.existsSync(f)) || full;
    const real = (f) => { try { return fs.realpathSync(f); } catch { const up = path.dirname(f); return up === f ? f : path.join(real(up), path.basename(f)); } };
    const inside = [cwd, ...extra].some((root) => { const rel = path.relative(real(root), real(full)); return rel === '' || (!rel.startsWith('..') && !path.isAbsolute(rel)); });
    return [full, inside];
  }
  async mayLeave(id, title, kind) {
    try {
      const res = await ask('session/request_permission', { sessionId: this.s.id, toolCall: { toolCallId: id, title, kind, status: 'pending' },
        options: [{ optionId: 'leave', name: 'Leave the workspace this once', kind: 'allow_once' }, { optionId: 'stay', name: 'Stay inside', kind: 'reject_once' }] }, this);
      if (res?.outcome?.outcome === 'cancelled') throw new Stopped();
      this.check();
      return res?.outcome?.outcome === 'selected' && res.outcome.optionId === 'leave';
    } catch (e) { if (e instanceof Stopped) throw e; this.check(); return false; }
  }
  async file(title, kind, name, p, work) {
    const [full, inside] = this.where(p);
    const id = this.call(title, kind, name, { path: full }, { status: inside ? 'in_progress' : 'pending', locations: [{ path: full }] });
    if (!inside) {
      if (!(await this.mayLeave(id, title, kind))) { this.end(id, false, body('not allowed')); return this.say(`${p} is outside the workspace, so I left it.`); }
      this.s.update({ sessionUpdate: 'tool_call_update', toolCallId: id, status: 'in_progress' });
    }
    try {
      const [content, reply] = work(full);
      this.end(id, true, content);
      await this.say(reply);
    } catch (e) {
      if (e instanceof Stopped) throw e;
      this.end(id, false, body(e.message));
      await this.say(`That did not work (${e.code || 'error'}): ${p}`);
    }
  }
  do_read(p) {
    return this.file(`Reading ${p}`, 'read', 'peek', p, (full) => { const t = fs.readFileSync(full, 'utf8'); return [body(t.slice(0, 4000)), `Here is ${p}:\n${t.slice(0, 2000)}`]; });
  }
  async do_write(p, t) {
    if (!p && isObj(caps.elicitation?.form)) {
      let res = null;
      try {
        res = await ask('elicitation/create', { mode: 'form', sessionId: this.s.id, message: 'What should the file be called?',
          requestedSchema: { type: 'object', properties: { name: { type: 'string', title: 'File name', minLength: 1 } }, required: ['name'] } }, this);
      } catch (e) { if (e instanceof Stopped) throw e; }
      this.check();
      if (res?.action === 'accept' && typeof res.content?.name === 'string' && res.content.name) p = res.content.name;
    }
    if (!p) return this.say('I would need a name for that file.');
    return this.file(`Writing ${p}`, 'edit', 'scribe', p, (full) => {
      const oldText = fs.existsSync(full) ? fs.readFileSync(full, 'utf8') : null;
      fs.mkdirSync(path.dirname(full), { recursive: true });
      fs.writeFileSync(full, t);
      return [[{ type: 'diff', path: full, oldText, newText: t }], `${p} now holds ${t.length} characters.`];
    });
  }
  async do_run(cmd) {
    const id = this.call(`$ ${cmd}`, 'execute', 'shell', { command: cmd }, { status: 'in_progress' });
    const p = spawn('/bin/sh', ['-c', cmd], { cwd: this.s.cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    children.add(p);
    const got = [];
    p.stdout.on('data', (d) => got.push(d));
    p.stderr.on('data', (d) => got.push(d));
    this.onStop(() => { try { process.kill(-p.pid, 'SIGKILL'); } catch {} });
    const code = await new Promise((ok) => { p.on('close', ok); p.on('error', () => ok(-1)); });
    children.delete(p);
    this.check();
    const out = Buffer.concat(got).toString('utf8').slice(0, 20000);
    this.end(id, code === 0, body(out || '(nothing printed)'));
    await this.say(`Exit code ${code}. Output:\n${out}`);
  }
  async do_mcp(server, name, t) {
    let args = {};
    try { args = JSON.parse(/\{[\s\S]*\}/.exec(t)[0]); } catch {}
    const said = quoted(t).filter((q) => q !== name && q !== server.name && !q.startsWith('{')), nums = t.match(/-?\d+/g) || [];
    for (const [k, spec] of Object.entries(server.tools.get(name).inputSchema?.properties || {})) {
      if (k in args) continue;
      if (['integer', 'number'].includes(spec.type) && nums.length) args[k] = +nums.shift();
      else if ((spec.type || 'string') === 'string' && said.length) args[k] = said.shift();
    }
    const id = this.call(`${server.name}: ${name}`, 'other', name, args, { status: 'in_progress' });
    try {
      const res = await Promise.race([server.call('tools/call', { name, arguments: args }), new Promise((_, no) => this.onStop(() => no(new Stopped())))]);
      this.check();
      const out = (res.content || []).map((c) => c.text || '').join(' ');
      this.end(id, res.isError !== true, body(out));
      await this.say(`The tool returned: ${out}`);
    } catch (e) { if (e instanceof Stopped) throw e; this.end(id, false, body(e.message)); await this.say('The tool did not answer.'); }
  }
  async do_plan() {
    const steps = ['Sniff around', 'Dig', 'Fill the hole again', 'Rest'];
    const show = (n) => this.s.update({ sessionUpdate: 'plan', entries: steps.map((content, i) => ({ content, priority: i === 1 ? 'high' : 'low', status: i < n ? 'completed' : i === n ? 'in_progress' : 'pending' })) });
    for (let n = 0; n <= steps.length; n++) { show(n); await this.nap(60); }
    await this.say('The plan is made and walked through.');
  }
  async do_count(n) { for (let i = 1; i <= n; i++) { this.chunk('agent_message_chunk', `${i}\n`); await this.nap(250); } }
  async do_story() { for (let i = 1; i < 60; i++) { await this.say(`Night ${i}: the tapir swam across the river and thought about leaves. `); await this.nap(150); } }
  do_remember(w) { this.s.facts.push(w); return this.say('Noted.'); }
  do_recall() { return this.say(this.s.facts.length ? `It was ${this.s.facts.join(', ')}.` : 'I was not told anything.'); }
  do_where() { return this.say(this.s.cwd); }
  do_chat() { return this.say(this.s.verbose ? 'Hm. I read, write, run, plan, count and call MCP tools, and I am glad to hear from you.' : 'Hm. Nice to hear from you.'); }
  async do_slash(name, rest) {
    if (name !== 'pace') return this.say(`/${name} means nothing to me.`);
    if (['walk', 'trot'].includes(rest.trim())) { this.s.pace = rest.trim(); this.s.update({ sessionUpdate: 'config_option_update', configOptions: this.s.options() }); }
    return this.say(`The pace is ${this.s.pace}.`);
  }
  async run(blocks) {
    const { s } = this;
    if (s.turns++ === 0) s.update({ sessionUpdate: 'available_commands_update', availableCommands: [{ name: 'pace', description: 'Choose walk or trot', input: { hint: 'walk | trot' } }] });
    if (!s.told && isObj(caps.session?.notices)) { s.told = true; s.update({ sessionUpdate: 'notice', severity: 'info', title: 'Tapir keeps nothing on disk' }); }
    const t = blocks.filter((b) => b.type === 'text').map((b) => b.text).join('\n');
    try {
      const [kind, ...args] = understand(t, s);
      await this['do_' + kind](...args);
      for (const b of blocks) if (b.type === 'resource_link') await this.say(` (I saw the link ${b.name}.)`);
      this.check();
      s.title ||= t.slice(0, 40) || 'Wordless';
      s.updatedAt = new Date().toISOString();
      s.update({ sessionUpdate: 'session_info_update', title: s.title, updatedAt: s.updatedAt });
      s.update({ sessionUpdate: 'usage_update', used: 100 * s.turns, size: 32000, cost: { amount: 0.001 * s.turns, currency: 'EUR' } });
      return 'end_turn';
    } catch (e) {
      for (const id of [...this.open]) this.end(id, false, body('interrupted'));
      if (e instanceof Stopped) return 'cancelled';
      throw e;
    }
  }
}

// ------------------------------------------------------------------ methods
const bad = (what, data) => new Fail(-32602, what, data);
const str = (p, k) => { if (typeof p[k] !== 'string') throw bad(`${k} must be a string.`, { field: k }); return p[k]; };
function place(p, serversOptional) {
  const cwd = str(p, 'cwd');
  if (!path.isAbsolute(cwd)) throw bad('cwd must be absolute.', { field: 'cwd' });
  const extra = p.additionalDirectories ?? [];
  if (!Array.isArray(extra) || extra.some((d) => typeof d !== 'string' || !path.isAbsolute(d))) throw bad('additionalDirectories must hold absolute paths.', { field: 'additionalDirectories' });
  const servers = p.mcpServers ?? (serversOptional ? [] : null);
  if (!Array.isArray(servers) || servers.some((c) => !isObj(c) || typeof c.name !== 'string' || (c.type === 'http' ? typeof c.url !== 'string' : c.type && c.type !== 'stdio' || typeof c.command !== 'string')))
    throw bad('mcpServers must be a list of usable servers.', { field: 'mcpServers' });
  return { cwd, extra, servers };
}
const opened = (p) => { const s = sessions.get(str(p, 'sessionId')); if (!s) throw new Fail(-32002, 'No open session has this id.', { sessionId: p.sessionId }); return s; };
const gate = () => { if (!loggedIn) throw new Fail(-32000, 'Please log in first.', { methods: [LOGIN] }); };

const methods = {
  initialize(p) {
    const v = p.protocolVersion;
    if (!Number.isInteger(v) || v < 0 || v > 65535) throw bad('protocolVersion must be a 16-bit integer.', { field: 'protocolVersion' });
    caps = isObj(p.clientCapabilities) ? p.clientCapabilities : {};
    ready = true;
    return { protocolVersion: 1, agentInfo: { name: 'tapir', version: '1.2.0' },
      authMethods: [{ id: LOGIN, name: 'Follow the trail', description: 'Nothing to type; the agent logs itself in.' }],
      agentCapabilities: { loadSession: false, promptCapabilities: { image: true, audio: false, embeddedContext: false }, mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, resume: {}, close: {}, additionalDirectories: {} }, auth: { logout: {} }, _meta: { 'tapir.example': { ping: true } } } };
  },
  authenticate(p) { if (str(p, 'methodId') !== LOGIN) throw bad('There is no such login method.', { methodId: p.methodId }); loggedIn = true; return {}; },
  logout() { loggedIn = false; return {}; },
  async 'session/new'(p) {
    gate();
    const where = place(p), s = new Session('t' + randomBytes(9).toString('base64url'));
    await s.setUp(where);
    sessions.set(s.id, s);
    return { sessionId: s.id, configOptions: s.options() };
  },
  async 'session/resume'(p) {
    gate();
    const id = str(p, 'sessionId'), where = place(p, true), s = sessions.get(id) || shelf.get(id);
    if (!s) throw new Fail(-32002, 'No session has this id.', { sessionId: id });
    if (sessions.has(id)) await s.close();
    await s.setUp(where);
    shelf.delete(id);
    sessions.set(id, s);
    return { configOptions: s.options() };
  },
  'session/list'(p) {
    if (p.cwd != null && (typeof p.cwd !== 'string' || !path.isAbsolute(p.cwd))) throw bad('cwd must be absolute.', { field: 'cwd' });
    const all = [...sessions.values(), ...shelf.values()].filter((s) => p.cwd == null || s.cwd === p.cwd).sort((a, b) => (a.id < b.id ? -1 : 1));
    let from = 0;
    if (p.cursor != null) {
      const last = typeof p.cursor === 'string' && p.cursor.startsWith('after~') ? p.cursor.slice(6) : null;
      if (!last || !(sessions.has(last) || shelf.has(last))) throw bad('This cursor is not valid.', { field: 'cursor' });
      from = all.filter((s) => s.id <= last).length;
    }
    const page = all.slice(from, from + 10);
    return { sessions: page.map((s) => ({ sessionId: s.id, cwd: s.cwd, additionalDirectories: s.extra, title: s.title, updatedAt: s.updatedAt })),
      ...(from + 10 < all.length ? { nextCursor: 'after~' + page[9].id } : {}) };
  },
  async 'session/close'(p) { const s = opened(p); await s.close(); sessions.delete(s.id); shelf.set(s.id, s); return {}; },
  'session/set_config_option'(p) {
    const s = opened(p), id = str(p, 'configId');
    if (id === 'pace' && ['walk', 'trot'].includes(p.value)) s.pace = p.value;
    else if (id === 'verbose' && typeof p.value === 'boolean' && s.options().length === 2) s.verbose = p.value;
    else throw bad('No such option or value.', { configId: id });
    return { configOptions: s.options() };
  },
  async 'session/prompt'(p, rid) {
    const s = opened(p);
    if (!Array.isArray(p.prompt)) throw bad('prompt must be a list of content blocks.', { field: 'prompt' });
    p.prompt.forEach((b, i) => {
      const ok = isObj(b) && ((b.type === 'text' && typeof b.text === 'string') || (b.type === 'image' && typeof b.data === 'string' && typeof b.mimeType === 'string')
        || (b.type === 'resource_link' && typeof b.uri === 'string' && typeof b.name === 'string'));
      if (!ok) throw bad('This content block cannot be used.', { field: `prompt[${i}]` });
    });
    if (s.turn) throw new Fail(-32600, 'A turn is already running in this session.', { busy: true });
    const turn = s.turn = new Turn(s, rid);
    active.set(JSON.stringify(rid), turn);
    try {
      const stopReason = await turn.run(p.prompt);
      if (turn.code) throw new Fail(turn.code, 'The request was cancelled.');
      return { stopReason };
    } finally { s.turn = null; active.delete(JSON.stringify(rid)); setImmediate(turn.done); }
  },
  '_tapir.example/ping'() { return { pong: true }; },
};

async function serve(id, method, params) {
  try {
    if (!Object.hasOwn(methods, method)) throw new Fail(-32601, 'Unknown method.', { method });
    if (!ready && method !== 'initialize') throw new Fail(-32600, 'initialize comes first.');
    if (!isObj(params)) throw bad('params must be an object.');
    answer(id, await methods[method](params, id));
  } catch (e) {
    if (!(e instanceof Fail)) process.stderr.write(`${e.stack}\n`);
    refuse(id, e instanceof Fail ? e : new Fail(-32603, 'Internal trouble.'));
  }
}

function take(line) {
  let msg;
  try { msg = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line)); } catch { return refuse(null, new Fail(-32700, 'Not JSON.', { bytes: line.length })); }
  if (!isObj(msg)) return refuse(null, new Fail(-32600, 'Only single objects are understood.'));
  const hasId = Object.hasOwn(msg, 'id');
  if (hasId && !(msg.id === null || typeof msg.id === 'string' || Number.isInteger(msg.id))) return refuse(null, new Fail(-32600, 'Unusable id.'));
  if (!('method' in msg) && ('result' in msg || 'error' in msg)) {
    const w = waiting.get(msg.id);
    waiting.delete(msg.id);
    return w && ('error' in msg ? w.no(new Fail(msg.error?.code, msg.error?.message)) : w.ok(msg.result));
  }
  let id = hasId ? msg.id : null;
  if (msg.jsonrpc !== '2.0' || typeof msg.method !== 'string') return refuse(id, new Fail(-32600, 'Not a JSON-RPC 2.0 request.'));
  const params = msg.params;
  if (!hasId) {
    if (msg.method === 'session/cancel') sessions.get(params?.sessionId)?.turn?.stop();
    if (msg.method === '$/cancel_request' && isObj(params)) { const t = active.get(JSON.stringify(params.requestId)); if (t && !t.stopped) { t.code = -32800; t.stop(); } }
    return;
  }
  if (FAULT === 'tapir-id-number' && id !== null && !isNaN(id)) id = Number(id); // "7" and 7 are meant to be the same
  if (params != null && typeof params !== 'object') return refuse(id, new Fail(-32600, 'params must be an object.'));
  serve(id, msg.method, params ?? {});
}

function splitLines(stream, each, end) {
  let parts = [];
  stream.on('data', (d) => {
    let k;
    while ((k = d.indexOf(10)) >= 0) { parts.push(d.subarray(0, k)); each(Buffer.concat(parts)); parts = []; d = d.subarray(k + 1); }
    if (d.length) parts.push(d);
  });
  if (end) stream.on('end', end);
}
process.stdout.on('error', () => process.exit(0));
splitLines(process.stdin, take, () => {
  for (const p of children) { try { process.kill(-p.pid, 'SIGKILL'); } catch { p.kill('SIGKILL'); } }
  process.exit(0);
});
