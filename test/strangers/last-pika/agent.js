'use strict';
// pika: an ACP v1 agent in plain Node, working with its own hands.
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { understand } = require('./wishes.cjs');

const FAULT = process.env.FAULT || '';
const log = (...a) => process.stderr.write('pika: ' + a.join(' ') + '\n');

class RpcError extends Error {
  constructor(code, message, data) { super(message); this.code = code; this.data = data; }
}
class Stopped extends Error {}
class ToolError extends Error {}
const invalid = (m) => new RpcError(-32602, m);
const isObj = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);

// ------------------------------------------------------------------ wire
const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n');
const update = (s, u) => send({ method: 'session/update', params: { sessionId: s.id, update: u } });
const waiting = new Map();
let counter = 100;

function askClient(method, params) {
  const id = counter++;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    send({ id, method, params });
  });
}

// -------------------------------------------------------------- storage
function home() {
  for (const base of [os.homedir(), os.tmpdir()]) {
    const d = path.join(base, '.pika');
    try { fs.mkdirSync(d, { recursive: true }); fs.accessSync(d, fs.constants.W_OK); return d; } catch { /* next */ }
  }
  return fs.mkdtempSync(path.join(os.tmpdir(), 'pika-'));
}
const HOME = home();
const save = (s) => {
  const f = path.join(HOME, s.id + '.json');
  fs.writeFileSync(f + '.tmp', JSON.stringify({ history: s.history, words: s.words, settings: s.settings }));
  fs.renameSync(f + '.tmp', f);
};

// ------------------------------------------------------------------ MCP
class StdioMcp {
  constructor(spec, cwd) {
    this.name = spec.name; this.n = 0; this.wait = new Map(); this.tools = [];
    const env = { ...process.env };
    delete env.FAULT;
    for (const e of spec.env || []) env[e.name] = e.value;
    this.proc = spawn(spec.command, spec.args || [], { env, cwd: fs.existsSync(cwd) ? cwd : undefined, stdio: ['pipe', 'pipe', 'ignore'], detached: true });
    const gone = (why) => { for (const w of this.wait.values()) w.reject(new ToolError(why)); this.wait.clear(); this.dead = true; };
    this.proc.on('error', (e) => gone(e.message));
    this.proc.on('exit', () => gone('MCP server ended'));
    this.proc.stdin.on('error', () => {});
    let buf = '';
    this.proc.stdout.setEncoding('utf8');
    this.proc.stdout.on('data', (d) => {
      buf += d;
      let i;
      while ((i = buf.indexOf('\n')) >= 0) { const l = buf.slice(0, i); buf = buf.slice(i + 1); this.line(l); }
    });
  }
  line(l) {
    let m;
    try { m = JSON.parse(l); } catch { return; }
    if (!isObj(m)) return;
    if ('method' in m) {
      if ('id' in m) this.post(m.method === 'ping' ? { id: m.id, result: {} } : { id: m.id, error: { code: -32601, message: 'Method not found' } });
      return;
    }
    const w = this.wait.get(m.id);
    if (!w) return;
    this.wait.delete(m.id);
    m.error ? w.reject(new ToolError(m.error.message || 'MCP error')) : w.resolve(m.result || {});
  }
  post(m) { if (!this.dead) this.proc.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n'); }
  request(method, params) {
    if (this.dead) return Promise.reject(new ToolError('MCP server is not running'));
    const id = ++this.n;
    const p = new Promise((resolve, reject) => this.wait.set(id, { resolve, reject }));
    this.post({ id, method, params });
    return p;
  }
  async notify(method) { this.post({ method }); }
  stop() { this.dead = true; killTree(this.proc); }
}

class HttpMcp {
  constructor(spec) { this.name = spec.name; this.url = spec.url; this.tools = []; this.n = 0; this.headers = Object.fromEntries((spec.headers || []).map((h) => [h.name, h.value])); }
  async raw(body) {
    const r = await fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...(this.session ? { 'mcp-session-id': this.session } : {}), ...this.headers },
      body: JSON.stringify({ jsonrpc: '2.0', ...body }),
      signal: AbortSignal.timeout(20000),
    });
    if (!r.ok) throw new ToolError('MCP server answered ' + r.status);
    this.session = r.headers.get('mcp-session-id') || this.session;
    return r;
  }
  async request(method, params) {
    const id = ++this.n;
    const r = await this.raw({ id, method, params });
    let m;
    if ((r.headers.get('content-type') || '').includes('event-stream')) {
      let buf = '';
      const dec = new TextDecoder();
      for await (const part of r.body) {
        buf += dec.decode(part, { stream: true }).replace(/\r/g, '');
        let i;
        while (!m && (i = buf.indexOf('\n\n')) >= 0) {
          const data = buf.slice(0, i).split('\n').filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trim()).join('\n');
          buf = buf.slice(i + 2);
          try { const x = JSON.parse(data); if (x.id === id) m = x; } catch { /* comment */ }
        }
        if (m) break;
      }
    } else m = await r.json();
    if (!m || m.error) throw new ToolError((m && m.error && m.error.message) || 'MCP error');
    return m.result || {};
  }
  async notify(method) { await (await this.raw({ method })).text(); }
  stop() { if (this.session) fetch(this.url, { method: 'DELETE', headers: { 'mcp-session-id': this.session, ...this.headers } }).catch(() => {}); }
}

const patience = (p, ms) => {
  let t;
  return Promise.race([p, new Promise((_, no) => { t = setTimeout(() => no(new ToolError('MCP server does not answer')), ms); })]).finally(() => clearTimeout(t));
};

async function connectMcp(s) {
  const specs = s.specs;
  s.specs = [];
  await Promise.all(specs.map(async (spec) => {
    const c = spec.type === 'http' ? new HttpMcp(spec) : new StdioMcp(spec, s.cwd);
    s.mcp.push(c);
    try {
      await patience(c.request('initialize', { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'pika', version: '0.9.1' } }), 8000);
      await c.notify('notifications/initialized');
      c.tools = ((await patience(c.request('tools/list', {}), 8000)).tools || []).map((t) => t.name);
    } catch (e) { log('MCP', spec.name, e.message); }
  }));
}

function killTree(p) { try { process.kill(-p.pid, 'SIGKILL'); } catch { try { p.kill('SIGKILL'); } catch { /* gone */ } } }

// ------------------------------------------------------------- settings
const MODES = [
  { id: 'act', name: 'Act', description: 'Works without asking' },
  { id: 'ask', name: 'Ask', description: 'Asks before writing and running' },
  { id: 'plan', name: 'Plan', description: 'Looks, but does not touch' },
];
const DEPTH = [{ value: 'quick', name: 'Quick' }, { value: 'normal', name: 'Normal' }, { value: 'deep', name: 'Deep' }];
let client = {};
let ready = false;
const modesOf = (s) => ({ currentModeId: s.settings.mode, availableModes: MODES });
function optionsOf(s) {
  const shown = FAULT === 'mode-desync' ? s.settings.optMode || 'act' : s.settings.mode;
  const list = [
    { id: 'mode', name: 'Mode', category: 'mode', type: 'select', currentValue: shown, options: MODES.map((m) => ({ value: m.id, name: m.name, description: m.description })) },
    { id: 'depth', name: 'Thinking', category: 'thought_level', type: 'select', currentValue: s.settings.depth, options: DEPTH },
  ];
  if (client.boolean) list.push({ id: 'greet', name: 'Polite answers', type: 'boolean', currentValue: s.settings.greet });
  return list;
}

const sessions = new Map();
const children = new Set();

function readSetup(p, needServers) {
  if (typeof p.cwd !== 'string' || !path.isAbsolute(p.cwd)) throw invalid('cwd must be an absolute path');
  let extra = p.additionalDirectories ?? [];
  if (!Array.isArray(extra) || extra.some((d) => typeof d !== 'string' || !path.isAbsolute(d))) throw invalid('additionalDirectories must be absolute paths');
  let servers = p.mcpServers;
  if (servers == null && !needServers) servers = [];
  if (!Array.isArray(servers)) throw invalid('mcpServers must be a list');
  for (const s of servers) {
    if (!isObj(s) || typeof s.name !== 'string') throw invalid('bad MCP server');
    if (s.type === 'sse') throw invalid('sse MCP servers are not supported');
    if (typeof (s.type === 'http' ? s.url : s.command) !== 'string') throw invalid('bad MCP server');
  }
  return { cwd: p.cwd, roots: [p.cwd, ...extra], specs: servers };
}

function release(s) {
  for (const m of s.mcp) m.stop();
  s.mcp = [];
}

function stopTurn(s, how) {
  if (s.turn && !s.turn.how) { s.turn.how = how; s.turn.wake(); }
}

const methods = {
  initialize(p) {
    const v = p.protocolVersion;
    if (!Number.isInteger(v) || v < 0 || v > 65535) throw invalid('protocolVersion must be an integer');
    const caps = isObj(p.clientCapabilities) ? p.clientCapabilities : {};
    client = { boolean: isObj(caps.session) && isObj(caps.session.configOptions) && isObj(caps.session.configOptions.boolean) };
    ready = true;
    return {
      protocolVersion: 1,
      agentInfo: { name: 'pika', version: '0.9.1' },
      agentCapabilities: {
        loadSession: false,
        promptCapabilities: { image: true, audio: false, embeddedContext: false },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { resume: {}, close: {}, additionalDirectories: {} },
        auth: {},
      },
      authMethods: [],
    };
  },
  authenticate(p) { throw invalid(typeof p.methodId === 'string' ? 'no such authentication method' : 'methodId is missing'); },
  'session/new'(p) {
    const s = { id: randomUUID(), ...readSetup(p, true), mcp: [], history: [], words: [], settings: { mode: 'act', depth: 'normal', greet: false }, turn: null };
    sessions.set(s.id, s);
    save(s);
    return { sessionId: s.id, modes: modesOf(s), configOptions: optionsOf(s) };
  },
  'session/resume'(p) {
    if (typeof p.sessionId !== 'string') throw invalid('sessionId is missing');
    const setup = readSetup(p, false);
    let s = sessions.get(p.sessionId);
    if (!s) {
      let d;
      try {
        if (!/^[0-9a-f-]{36}$/.test(p.sessionId)) throw new Error('no');
        d = JSON.parse(fs.readFileSync(path.join(HOME, p.sessionId + '.json'), 'utf8'));
      } catch { throw new RpcError(-32002, 'Session not found', { sessionId: p.sessionId }); }
      s = { id: p.sessionId, mcp: [], turn: null, ...d };
      sessions.set(s.id, s);
    } else release(s);
    Object.assign(s, setup);
    if (FAULT === 'resume-replays') {
      for (const h of s.history) update(s, { sessionUpdate: h.who === 'user' ? 'user_message_chunk' : 'agent_message_chunk', content: { type: 'text', text: h.text } });
    }
    return { modes: modesOf(s), configOptions: optionsOf(s) };
  },
  'session/close'(p) {
    const s = known(p);
    stopTurn(s, 'cancelled');
    const finish = () => { release(s); sessions.delete(s.id); return {}; };
    return s.turn ? s.turn.done.then(() => new Promise(setImmediate)).then(finish) : finish();
  },
  'session/set_mode'(p) {
    const s = known(p);
    if (!MODES.some((m) => m.id === p.modeId)) throw invalid('unknown mode');
    s.settings.mode = p.modeId;
    save(s);
    if (FAULT !== 'mode-desync') update(s, { sessionUpdate: 'config_option_update', configOptions: optionsOf(s) });
    return {};
  },
  'session/set_config_option'(p) {
    const s = known(p);
    const o = optionsOf(s).find((x) => x.id === p.configId);
    if (!o) throw invalid('unknown config option');
    if (o.type === 'boolean') {
      if (typeof p.value !== 'boolean') throw invalid('a boolean is expected');
    } else if (!o.options.some((x) => x.value === p.value)) throw invalid('unknown value');
    s.settings[o.id] = p.value;
    if (o.id === 'mode') {
      s.settings.optMode = p.value;
      update(s, { sessionUpdate: 'current_mode_update', currentModeId: p.value });
    }
    save(s);
    const all = optionsOf(s);
    return { configOptions: FAULT === 'config-partial' ? all.filter((x) => x.id === o.id) : all };
  },
  'session/prompt'(p, rid) {
    const s = known(p, true);
    if (s.turn) throw new RpcError(-32600, 'A turn is already running in this session');
    let wake;
    const stop = new Promise((r) => { wake = r; });
    let fin;
    const turn = { rid, how: null, wake: () => wake(), stop, done: new Promise((r) => { fin = r; }) };
    s.turn = turn;
    return work(s, turn, p.prompt).then((r) => r, (e) => {
      if (e instanceof Stopped) {
        if (turn.how === 'request') throw new RpcError(-32800, 'Request cancelled');
        return { stopReason: 'cancelled' };
      }
      throw e;
    }).finally(() => { s.turn = null; if (sessions.has(s.id)) save(s); fin(); });
  },
};

function known(p, prompt) {
  if (typeof p.sessionId !== 'string') throw invalid('sessionId is missing');
  if (prompt) {
    const need = { text: ['text'], image: ['data', 'mimeType'], audio: ['data', 'mimeType'], resource_link: ['uri', 'name'], resource: [] };
    if (!Array.isArray(p.prompt)) throw invalid('prompt must be a list');
    for (const b of p.prompt) {
      if (!isObj(b) || !Object.hasOwn(need, b.type) || need[b.type].some((k) => typeof b[k] !== 'string')) throw invalid('bad content block');
      if (b.type === 'resource' && !(isObj(b.resource) && typeof b.resource.uri === 'string')) throw invalid('bad content block');
    }
  }
  const s = sessions.get(p.sessionId);
  if (!s) throw new RpcError(-32002, 'Session not found', { sessionId: p.sessionId });
  return s;
}

// ------------------------------------------------------------------ turn
async function until(turn, promise) {
  if (turn.how) throw new Stopped();
  const r = await Promise.race([promise, turn.stop.then(() => { throw new Stopped(); })]);
  if (turn.how) throw new Stopped();
  return r;
}
const nap = (turn, ms) => { let t; return until(turn, new Promise((r) => { t = setTimeout(r, ms); })).finally(() => clearTimeout(t)); };

async function say(s, turn, text, ms = 4) {
  let said = '';
  try {
    for (const part of text.match(/[^\n]{1,60}\n?|\n/g) || [text]) {
      if (turn.how) throw new Stopped();
      update(s, { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: part } });
      said += part;
      await nap(turn, ms);
    }
  } finally { if (said) s.history.push({ who: 'agent', text: said }); }
}
const think = (s, text) => update(s, { sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } });

function place(s, p) {
  const full = path.resolve(s.cwd, p.replace(/^~(?=\/)/, os.homedir()));
  const real = (x) => {
    for (let head = x, tail = []; ; ) {
      try { return path.join(fs.realpathSync(head), ...tail); } catch { /* go up */ }
      const up = path.dirname(head);
      if (up === head) return x;
      tail = [path.basename(head), ...tail];
      head = up;
    }
  };
  const r = real(full);
  const ok = s.roots.some((d) => { const rel = path.relative(real(d), r); return rel === '' || (rel !== '..' && !rel.startsWith('../')); });
  return { full, ok };
}
const txt = (t) => ({ type: 'content', content: { type: 'text', text: t } });

async function tool(s, turn, { name, title, kind, touches, locations, content, rawInput }, body) {
  const toolCallId = 'pika-' + randomUUID().slice(0, 13);
  const steps = (a, b) => update(s, { sessionUpdate: 'plan', entries: [
    { content: title, priority: 'high', status: a }, { content: 'Tell the result', priority: 'low', status: b }] });
  steps('pending', 'pending');
  const call = { sessionUpdate: 'tool_call', toolCallId, title, name, kind, status: 'pending', rawInput };
  if (locations) call.locations = locations;
  if (content) call.content = content;
  update(s, call);
  const set = (status, items) => update(s, { sessionUpdate: 'tool_call_update', toolCallId, status, ...(items ? { content: items } : {}) });
  try {
    if (turn.how) throw new Stopped();
    if (touches && s.settings.mode === 'plan') throw new ToolError('plan mode does not touch anything');
    if (touches && s.settings.mode === 'ask') {
      const answer = askClient('session/request_permission', {
        sessionId: s.id,
        toolCall: { toolCallId, title, kind, ...(content ? { content } : {}) },
        options: [{ optionId: 'go', name: 'Go ahead', kind: 'allow_once' }, { optionId: 'stop', name: 'Do not', kind: 'reject_once' }, { optionId: 'never', name: 'Never', kind: 'reject_always' }],
      });
      // a cancelled turn still gives the client a moment to answer "cancelled"
      const r = await Promise.race([answer, turn.stop.then(() => new Promise((ok) => setTimeout(ok, 1500)))]);
      if (turn.how) throw new Stopped();
      const o = isObj(r) && isObj(r.outcome) ? r.outcome : {};
      if (o.outcome === 'cancelled') { turn.how = 'cancelled'; turn.wake(); throw new Stopped(); }
      if (o.outcome !== 'selected' || o.optionId !== 'go') throw new ToolError('you did not allow it');
    }
    set('in_progress');
    steps('in_progress', 'pending');
    const { items, value, failed } = await body();
    set(failed ? 'failed' : 'completed', items);
    steps('completed', 'in_progress');
    return { value, finish: () => steps('completed', 'completed') };
  } catch (e) {
    set('failed', [txt(e instanceof Stopped ? 'Stopped.' : e.message)]);
    if (e instanceof Stopped) throw e;
    update(s, { sessionUpdate: 'plan', entries: [] });
    await say(s, turn, 'I could not do that: ' + e.message + '.');
    return null;
  }
}

function shell(s, turn, command) {
  return new Promise((resolve, reject) => {
    const p = spawn('/bin/sh', ['-c', command], { cwd: s.cwd, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    children.add(p);
    let out = '';
    for (const st of [p.stdout, p.stderr]) { st.setEncoding('utf8'); st.on('data', (d) => { out = (out + d).slice(-65536); }); }
    p.on('error', (e) => { children.delete(p); reject(new ToolError(e.message)); });
    p.on('close', (code, sig) => { children.delete(p); turn.how ? reject(new Stopped()) : resolve({ code, sig, out }); });
    turn.stop.then(() => { if (children.has(p)) killTree(p); });
  });
}

async function work(s, turn, blocks) {
  await Promise.resolve();
  const text = blocks.filter((b) => b.type === 'text').map((b) => b.text).join('\n');
  s.history.push({ who: 'user', text: blocks.map((b) => b.text ?? b.uri ?? `(${b.type})`).join('\n') });
  if (s.specs.length) await until(turn, connectMcp(s));
  if (s.settings.depth !== 'quick') think(s, s.settings.depth === 'deep' ? 'Let me look at this from every side. ' : 'Let me see. ');
  const w = understand(text);
  const tell = (t, ms) => say(s, turn, (s.settings.greet ? 'Certainly. ' : '') + t, ms);
  let r;
  switch (w.do) {
    case 'remember': s.words.push(w.word); await tell(`Noted: ${w.word}`); break;
    case 'recall': await tell(s.words.length ? `The word is ${s.words.at(-1)}` + (s.words.length > 1 ? ` (earlier: ${s.words.slice(0, -1).join(', ')})` : '') : 'Nothing to recall here.'); break;
    case 'count': await tell(Array.from({ length: w.to }, (_, i) => i + 1 + '\n').join(''), 400); break;
    case 'think':
      for (let i = 0; i < 40; i++) { think(s, 'still thinking… '); await nap(turn, 250); }
      await tell('Done thinking.');
      break;
    case 'mode':
      if (MODES.some((m) => m.id === w.mode)) {
        s.settings.mode = s.settings.optMode = w.mode;
        update(s, { sessionUpdate: 'current_mode_update', currentModeId: w.mode });
        update(s, { sessionUpdate: 'config_option_update', configOptions: optionsOf(s) });
        await tell(`Now in ${w.mode} mode.`);
      } else await tell(`There is no ${w.mode} mode.`);
      break;
    case 'read': {
      const { full, ok } = place(s, w.path);
      r = await tool(s, turn, { name: 'read', title: `Read ${path.basename(full)}`, kind: 'read', locations: [{ path: full, line: 1 }], rawInput: { path: full } }, async () => {
        if (!ok) throw new ToolError(`${full} is outside the workspace`);
        const c = await fs.promises.readFile(full, 'utf8');
        return { items: [txt(c)], value: c };
      });
      if (r) await tell(`Contents:\n${r.value.slice(0, 5000)}`);
      break;
    }
    case 'write': {
      const { full, ok } = place(s, w.path);
      let oldText = null;
      if (ok) try { oldText = fs.readFileSync(full, 'utf8'); } catch { /* new file */ }
      const content = ok ? [{ type: 'diff', path: full, oldText, newText: w.text }] : undefined;
      r = await tool(s, turn, { name: 'write', title: `Write ${path.basename(full)}`, kind: 'edit', touches: ok, locations: [{ path: full }], content, rawInput: { path: full, text: w.text } }, async () => {
        if (!ok) throw new ToolError(`${full} is outside the workspace`);
        await fs.promises.mkdir(path.dirname(full), { recursive: true });
        await fs.promises.writeFile(full, w.text);
        return { items: content, value: full };
      });
      if (r) await tell(`Written: ${full}`);
      break;
    }
    case 'run':
      r = await tool(s, turn, { name: 'shell', title: `Run ${w.command}`, kind: 'execute', touches: true, rawInput: { command: w.command } }, async () => {
        const x = await shell(s, turn, w.command);
        return { items: [txt(x.out)], value: x, failed: x.code !== 0 };
      });
      if (r) await tell(`${r.value.sig ? 'Signal ' + r.value.sig : 'Exit code ' + r.value.code}\n${r.value.out}`);
      break;
    case 'mcp':
      r = await tool(s, turn, { name: 'mcp', title: `MCP tool ${w.tool}`, kind: 'other', rawInput: { tool: w.tool, arguments: w.args } }, async () => {
        const c = s.mcp.find((m) => m.tools.includes(w.tool));
        if (!c) throw new ToolError(`no server has a tool ${w.tool}; known: ${s.mcp.flatMap((m) => m.tools).join(', ') || 'none'}`);
        const x = await until(turn, patience(c.request('tools/call', { name: w.tool, arguments: w.args }), 60000));
        const t = (x.content || []).filter((b) => b.type === 'text').map((b) => b.text).join('\n');
        return { items: [txt(t)], value: t, failed: x.isError === true };
      });
      if (r) await tell(`The tool says: ${r.value}`);
      break;
    case 'ask': await tell(`Please tell me ${w.what.replace(/[?.]*$/, '')}.`); break;
    default: {
      const others = blocks.filter((b) => b.type !== 'text').map((b) => (b.type === 'resource_link' ? `link ${b.name}` : b.type));
      await tell(`I heard ${text.length} characters${others.length ? ' and saw: ' + others.join(', ') : ''}: ${text.slice(0, 300)}\nI can read, create and run things, remember a word, count slowly and call MCP tools.`);
    }
  }
  if (r) r.finish();
  return { stopReason: 'end_turn' };
}

// -------------------------------------------------------------- dispatch
function fail(id, code, message, data) { send({ id, error: { code, message, ...(data === undefined ? {} : { data }) } }); }

async function handle(m) {
  try {
    if (m.params === undefined || m.params === null) m.params = {};
    if (!isObj(m.params)) throw invalid('params must be an object');
    const result = methods[m.method](m.params, m.id);
    send({ id: m.id, result: result instanceof Promise ? await result : result });
  } catch (e) {
    if (e instanceof RpcError) return fail(m.id, e.code, e.message, e.data);
    log(e.stack);
    fail(m.id, -32603, 'Internal error');
  }
}

function line(l) {
  if (!l.trim()) return;
  let m;
  try { m = JSON.parse(l); } catch { return fail(null, -32700, 'Parse error'); }
  if (!isObj(m)) return fail(null, -32600, 'Invalid request');
  if (!('method' in m) && 'id' in m && ('result' in m || 'error' in m)) {
    const w = waiting.get(m.id);
    waiting.delete(m.id);
    if (w) 'error' in m ? w.reject(new ToolError((m.error && m.error.message) || 'client error')) : w.resolve(m.result);
    return;
  }
  const idOk = !('id' in m) || m.id === null || typeof m.id === 'string' || Number.isInteger(m.id);
  if (m.jsonrpc !== '2.0' || typeof m.method !== 'string' || !idOk) return fail(idOk ? m.id ?? null : null, -32600, 'Invalid request');
  const params = isObj(m.params) ? m.params : {};
  if (!('id' in m)) {
    if (m.method === 'session/cancel') { const s = sessions.get(params.sessionId); if (s) stopTurn(s, 'cancelled'); }
    if (m.method === '$/cancel_request') for (const s of sessions.values()) if (s.turn && s.turn.rid === params.requestId) stopTurn(s, 'request');
    return;
  }
  if (m.params !== undefined && m.params !== null && typeof m.params !== 'object') return fail(m.id, -32600, 'Invalid request');
  if (!Object.hasOwn(methods, m.method)) return fail(m.id, -32601, 'Method not found', { method: m.method });
  if (!ready && m.method !== 'initialize') return fail(m.id, -32600, 'initialize first');
  handle(m);
}

process.stdout.on('error', () => process.exit(0));
const parts = [];
process.stdin.on('data', (d) => {
  let from = 0, i;
  while ((i = d.indexOf(10, from)) >= 0) {
    parts.push(d.subarray(from, i));
    const l = Buffer.concat(parts.splice(0)).toString('utf8');
    from = i + 1;
    line(l);
  }
  if (from < d.length) parts.push(d.subarray(from));
});
process.stdin.on('end', () => {
  if (parts.length) line(Buffer.concat(parts).toString('utf8'));
  for (const s of sessions.values()) { stopTurn(s, 'cancelled'); release(s); }
  for (const p of children) killTree(p);
  setTimeout(() => process.exit(0), 50);
});
