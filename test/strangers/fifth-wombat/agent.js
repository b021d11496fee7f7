'use strict';
// fifth-wombat: a small ACP agent (protocol version 1) without a model. This module keeps the sessions and answers the client.
const crypto = require('crypto');
const path = require('path');
const { Wire, RpcError, Cancelled, isObject } = require('./wire');
const { Turn, hurry, FAULT } = require('./turn');
const { Hub } = require('./mcp');
const hands = require('./hands');
const store = require('./store');

const MODES = [
  { id: 'ask', name: 'Ask', description: 'Asks before every read, write and command.' },
  { id: 'stroll', name: 'Stroll', description: 'Reads without asking, asks before writes and commands.' },
  { id: 'museum', name: 'Museum', description: 'Looks only: no writes and no commands.' },
];
const COMMANDS = [
  { name: 'say', description: 'Says your words back to you', input: { hint: 'the words to say' } },
  { name: 'recall', description: 'Tells what has been said so far' },
];
const LATE_MS = 1300; // the commands come this long after the session
const PAGE = 25;

let initialized = false;
let caps = {};
const sessions = new Map();
const prompts = new Map(); // the ids of unanswered prompts -> their turns

// ---- checking what the client sends

const bad = (message) => { throw new RpcError(-32602, message); };

function rootList(value) {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every((d) => typeof d === 'string' && path.isAbsolute(d))) bad('Every entry of additionalDirectories must be an absolute path.');
  return value;
}

function folder(value) {
  if (typeof value !== 'string' || !path.isAbsolute(value)) bad('The cwd must be an absolute path.');
  return value;
}

function pairs(value, what) {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every((e) => isObject(e) && typeof e.name === 'string' && typeof e.value === 'string')) bad(`The ${what} of an MCP server must be a list of names and values.`);
  return value;
}

function serverList(value) {
  if (!Array.isArray(value)) bad('The mcpServers must be a list.');
  return value.map((s) => {
    if (!isObject(s) || typeof s.name !== 'string') bad('Every MCP server needs a name.');
    if (s.type === 'http') {
      if (typeof s.url !== 'string') bad('An http MCP server needs a url.');
      return { type: 'http', name: s.name, url: s.url, headers: pairs(s.headers, 'headers') };
    }
    if (s.type !== undefined && s.type !== 'stdio') bad('This kind of MCP server is not supported.');
    if (typeof s.command !== 'string' || !s.command) bad('A stdio MCP server needs a command.');
    const args = s.args === undefined ? [] : s.args;
    if (!Array.isArray(args) || !args.every((a) => typeof a === 'string')) bad('The args of an MCP server must be a list of strings.');
    return { type: 'stdio', name: s.name, command: s.command, args, env: pairs(s.env, 'env') };
  });
}

function checkBlocks(blocks) {
  if (!Array.isArray(blocks)) bad('The prompt must be a list of content blocks.');
  const str = (v) => typeof v === 'string';
  for (const b of blocks) {
    if (!isObject(b)) bad('Every content block must be an object.');
    const fine = b.type === 'text' ? str(b.text)
      : b.type === 'resource_link' ? str(b.uri) && str(b.name)
        : b.type === 'image' ? str(b.data) && str(b.mimeType)
          : b.type === 'resource' ? isObject(b.resource) && str(b.resource.uri) && (str(b.resource.text) || str(b.resource.blob))
            : false;
    if (!fine) bad('This content block is malformed or of a kind that is not supported.');
  }
}

function find(params, open = true) {
  if (typeof params.sessionId !== 'string') bad('The sessionId must be a string.');
  const s = sessions.get(params.sessionId);
  if (!s || (open && !s.open)) throw new RpcError(-32002, 'There is no such open session.', { sessionId: params.sessionId });
  return s;
}

// ---- sessions

function makeSession(fields) {
  const now = new Date().toISOString();
  return {
    dirs: [], mode: 'ask', modes: MODES, history: [], facts: [], tools: 0, createdAt: now, updatedAt: now,
    open: false, hub: new Hub([], '.'), queue: [], running: null, lastFile: null, question: null, timer: null,
    ...fields,
  };
}

function openSession(s) {
  s.open = true;
  s.closing = false;
  clearTimeout(s.timer);
  s.timer = setTimeout(() => {
    wire.notify('session/update', { sessionId: s.id, update: { sessionUpdate: 'available_commands_update', availableCommands: COMMANDS } });
  }, LATE_MS);
  return { currentModeId: s.mode, availableModes: MODES };
}

// Takes the turns of a session one after the other.
async function pump(s) {
  if (s.running) return;
  const turn = s.queue.shift();
  if (!turn) return;
  s.running = turn;
  let failure = null;
  try {
    await turn.run();
  } catch (e) {
    if (!(e instanceof Cancelled)) {
      console.error('turn:', e);
      failure = new RpcError(-32603, 'Something went wrong inside the agent.');
    }
  }
  s.updatedAt = new Date().toISOString();
  store.save(s);
  turn.finish(failure);
  await turn.over; // its answer goes out before the next turn says anything
  s.running = null;
  pump(s);
}

function cancelAll(s, why) {
  for (const turn of s.queue.splice(0)) { turn.cancel(why); turn.finish(null); }
  if (s.running) s.running.cancel(why);
}

const idle = async (s) => { while (s.running) await s.running.over; };

// ---- the methods

const methods = {
  initialize(params) {
    const v = params.protocolVersion;
    if (!Number.isInteger(v) || v < 0 || v > 65535) bad('The protocolVersion must be a whole number from 0 to 65535.');
    const c = params.clientCapabilities;
    if (c !== undefined && c !== null && !isObject(c)) bad('The clientCapabilities must be an object.');
    const e = c && isObject(c.elicitation) ? c.elicitation : null;
    caps = { elicitation: e && { form: isObject(e.form), url: isObject(e.url) } };
    initialized = true;
    return {
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: false,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, resume: {}, close: {}, additionalDirectories: {} },
      },
      agentInfo: { name: 'fifth-wombat', title: 'The fifth wombat', version: '1.0.0' },
      authMethods: [],
    };
  },

  authenticate(params) {
    if (typeof params.methodId !== 'string') bad('The methodId must be a string.');
    return bad('There is no such way to log in; no login is needed.');
  },

  'session/new'(params) {
    const cwd = folder(params.cwd);
    const dirs = rootList(params.additionalDirectories);
    const servers = serverList(params.mcpServers);
    const id = 'burrow-' + BigInt('0x' + crypto.randomBytes(12).toString('hex')).toString(36).padStart(12, '0');
    const s = makeSession({ id, cwd, dirs, hub: new Hub(servers, cwd) });
    sessions.set(id, s);
    return { sessionId: id, modes: openSession(s) };
  },

  async 'session/resume'(params) {
    if (typeof params.sessionId !== 'string') bad('The sessionId must be a string.');
    const cwd = folder(params.cwd);
    const dirs = rootList(params.additionalDirectories);
    const servers = params.mcpServers === undefined || params.mcpServers === null ? [] : serverList(params.mcpServers);
    let s = sessions.get(params.sessionId);
    if (!s) {
      const kept = store.load(params.sessionId);
      if (!kept) throw new RpcError(-32002, 'There is no such session.', { sessionId: params.sessionId });
      s = makeSession(kept);
      sessions.set(s.id, s);
    }
    const old = s.hub;
    s.hub = new Hub(servers, cwd);
    s.cwd = cwd;
    s.dirs = dirs;
    if (FAULT === 'numbers-anew') s.tools = 0;
    // A turn that still runs may need the old servers until its end.
    idle(s).then(() => old.close());
    return { modes: openSession(s) };
  },

  'session/list'(params) {
    if (params.cwd !== undefined && params.cwd !== null) folder(params.cwd);
    const order = (a, b) => (a.createdAt === b.createdAt ? (a.id === b.id ? 0 : a.id < b.id ? 1 : -1) : a.createdAt < b.createdAt ? 1 : -1);
    let all = [...sessions.values()].filter((s) => !params.cwd || s.cwd === params.cwd).sort(order);
    if (params.cursor !== undefined && params.cursor !== null) {
      let mark = null;
      try { mark = JSON.parse(Buffer.from(params.cursor, 'base64url').toString('utf8')); } catch { /* no cursor of ours */ }
      if (!Array.isArray(mark) || mark.length !== 2 || !mark.every((m) => typeof m === 'string')) bad('This cursor is not valid.');
      all = all.filter((s) => order({ createdAt: mark[0], id: mark[1] }, s) < 0);
    }
    const page = all.slice(0, PAGE);
    const last = page[page.length - 1];
    return {
      sessions: page.map((s) => ({ sessionId: s.id, cwd: s.cwd, ...(s.dirs.length ? { additionalDirectories: s.dirs } : {}), updatedAt: s.updatedAt })),
      ...(all.length > PAGE ? { nextCursor: Buffer.from(JSON.stringify([last.createdAt, last.id])).toString('base64url') } : {}),
    };
  },

  async 'session/close'(params) {
    const s = find(params, false);
    s.open = false;
    clearTimeout(s.timer);
    s.closing = true;
    cancelAll(s, 'session');
    await idle(s);
    await s.hub.close();
    return {};
  },

  'session/set_mode'(params) {
    const s = find(params);
    if (!MODES.some((m) => m.id === params.modeId)) bad('There is no such mode.');
    s.mode = params.modeId;
    return {};
  },

  'session/prompt'(params, id) {
    if (typeof params.sessionId !== 'string') bad('The sessionId must be a string.');
    checkBlocks(params.prompt);
    const s = find(params);
    const turn = new Turn(s, params.prompt, wire, caps);
    prompts.set(id, turn);
    const answer = new Promise((resolve, reject) => {
      turn.over = new Promise((done) => {
        turn.finish = (failure) => {
          if (prompts.get(id) === turn) prompts.delete(id);
          if (turn.why === 'request') reject(new RpcError(-32800, 'The request was cancelled.'));
          else if (turn.why) resolve({ stopReason: 'cancelled' });
          else if (failure) reject(failure);
          else resolve({ stopReason: 'end_turn' });
          setImmediate(done); // whoever waits for the end of a turn goes on after its answer
        };
      });
    });
    s.queue.push(turn);
    pump(s);
    return answer;
  },
};

function onRequest(method, params, id) {
  if (!Object.hasOwn(methods, method)) throw new RpcError(-32601, 'This method is not known here.');
  if (!initialized && method !== 'initialize') throw new RpcError(-32600, 'The connection must be initialized first.');
  return methods[method](params, id);
}

function onNotification(method, params) {
  if (method === 'session/cancel') {
    const s = sessions.get(params.sessionId);
    if (s) cancelAll(s, 'session');
  } else if (method === '$/cancel_request') {
    const turn = prompts.get(params.requestId);
    if (!turn) return;
    turn.cancel('request');
    const s = turn.session;
    if (s.queue.includes(turn)) {
      s.queue.splice(s.queue.indexOf(turn), 1);
      turn.finish(null);
    }
  }
}

// ---- the end: what runs may finish in haste, the rest is cancelled, nothing stays behind

async function onEnd() {
  hurry.abort();
  const all = [...sessions.values()];
  for (const s of all) {
    clearTimeout(s.timer);
    for (const turn of s.queue.splice(0)) { turn.cancel('session'); turn.finish(null); }
  }
  const patience = setTimeout(() => all.forEach((s) => cancelAll(s, 'session')), 1200);
  const limit = setTimeout(leave, 3000);
  while (wire.inFlight.size) await Promise.all([...wire.inFlight]);
  clearTimeout(patience);
  await Promise.all(all.map((s) => s.hub.close()));
  clearTimeout(limit);
  leave();
}

function leave() {
  hands.killAll();
  for (const s of sessions.values()) s.hub.kill();
  process.stdout.write('', () => process.exit(0));
}

for (const kept of store.loadAll()) sessions.set(kept.id, makeSession(kept));
process.stdout.on('error', leave);
process.on('SIGTERM', leave);
process.on('SIGINT', leave);
process.on('unhandledRejection', (e) => console.error('unhandled:', e));
const wire = new Wire(process.stdin, process.stdout, { onRequest, onNotification, onEnd });
