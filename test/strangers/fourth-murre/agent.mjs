#!/usr/bin/env node
// fourth-murre: a small ACP agent (protocol version 1) without a language model.
// It wants a login first, starts slowly, talks in crumbs of one to three characters,
// never asks for permission and keeps to the roots of its session instead.
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { ask, Cancelled, listen, notify, RpcError } from './wire.mjs';
import { groups, killGroup, McpServer } from './mcp.mjs';
import { fulfil } from './wishes.mjs';

const VERSION = '0.4.1';
const FAULT = process.env.FAULT ?? '';
const SLOW_START = 800, SLOW_FIRST_ANSWER = 1400;
const LOGIN = { id: 'ringed-visitor', name: 'Ringed visitor pass', description: 'Hands out a visitor pass for this connection; no credentials are needed.' };
const COMMANDS = [
  { name: 'echo', description: 'Says the rest of the line back to you.', input: { hint: 'the words to say back' } },
  { name: 'roots', description: 'Tells which directories this session may touch.' },
];

const started = Date.now();
const sessions = new Map();
const running = new Set(); // promises of all requests that are not answered yet
const prompts = new Map(); // turns by the id of their request
let client; // the capabilities of the client, once it has initialized
let loggedIn = false, firstTurn = true, notes = 0;

const isObject = value => value !== null && typeof value === 'object' && !Array.isArray(value);
const invalid = (message, data) => new RpcError(-32602, message, data);
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

function sessionOf(params) {
  if (typeof params.sessionId !== 'string') throw invalid('The sessionId has to be a string.');
  const session = sessions.get(params.sessionId);
  if (!session) throw new RpcError(-32002, 'There is no such session.', { sessionId: params.sessionId });
  return session;
}

function demandLogin() {
  if (!loggedIn) throw new RpcError(-32000, 'Authentication is required.');
}

// One prompt turn: everything that a wish may do to the outside world goes through here.
class Turn {
  constructor(session) {
    this.session = session;
    this.client = client;
    this.abort = new AbortController();
    this.signal = this.abort.signal;
    this.messages = 0;
  }

  cancel(bySession) {
    this.bySession ||= bySession;
    this.abort.abort();
  }

  update(update) {
    notify('session/update', { sessionId: this.session.id, update });
  }

  pause(ms) {
    return new Promise((resolve, reject) => {
      if (this.signal.aborted) return reject(new Cancelled());
      const stop = () => {
        clearTimeout(timer);
        reject(new Cancelled());
      };
      const timer = setTimeout(() => {
        this.signal.removeEventListener('abort', stop);
        resolve();
      }, ms);
      this.signal.addEventListener('abort', stop, { once: true });
    });
  }

  async stream(sessionUpdate, text, pace) {
    const { session } = this;
    const messageId = `${sessionUpdate === 'agent_message_chunk' ? 'word' : 'thought'}-${++session.messages}`;
    const letters = [...text.toWellFormed()];
    const step = pace ?? (letters.length > 400 ? 1 : 6);
    for (let at = 0, size = 1; at < letters.length; at += size, size = (size % 3) + 1) {
      await this.pause(step);
      this.update({ sessionUpdate, messageId, content: { type: 'text', text: letters.slice(at, at + size).join('') } });
    }
    session.used += letters.length;
  }

  async say(text, pace) {
    await this.stream('agent_message_chunk', (this.messages++ ? '\n' : '') + text, pace);
  }

  think(text) {
    return this.stream('agent_thought_chunk', text);
  }

  ask(method, params) {
    return ask(method, { sessionId: this.session.id, ...params }, this.signal);
  }

  finishUrl(elicitationId) {
    notify('elicitation/complete', { elicitationId });
  }

  // Reports a tool call from its first sign to its final status; a failed tool does not end the turn.
  async tool(head, work) {
    const toolCallId = `tool-${++this.session.toolCalls}`;
    const report = change => this.update({ sessionUpdate: 'tool_call_update', toolCallId, ...change });
    this.update({ sessionUpdate: 'tool_call', toolCallId, status: 'pending', ...head });
    try {
      await this.pause(30);
      report({ status: 'in_progress' });
      const { failed, text = '', content, rawOutput, ...rest } = await work();
      report({ status: failed ? 'failed' : 'completed', content: content ?? [asContent(text)], rawOutput });
      return { failed, text, ...rest };
    } catch (error) {
      const text = error.message;
      report({ status: 'failed', content: [asContent(text)] });
      if (error instanceof Cancelled) throw error;
      return { failed: true, text };
    }
  }

  async run(blocks) {
    const { session } = this;
    try {
      await this.pause(firstTurn ? SLOW_FIRST_ANSWER : 50);
      firstTurn = false;
      await fulfil(this, blocks);
      if (!session.titled) {
        session.titled = true;
        const title = blocks.find(block => block.type === 'text')?.text.slice(0, 40) || 'A talk without words';
        this.update({ sessionUpdate: 'session_info_update', title: title.toWellFormed(), updatedAt: new Date().toISOString() });
      }
      const cost = { amount: session.used / 1e5, currency: 'XTS' };
      this.update({ sessionUpdate: 'usage_update', used: session.used, size: 65536, cost });
    } catch (error) {
      if (!(error instanceof Cancelled)) {
        console.error(error);
        await this.say('Something went wrong inside me while I did that.').catch(() => {});
      }
    }
    if (FAULT === 'killed-command-ends-turn' && this.commandWasKilled) return { stopReason: 'end_turn' };
    if (this.signal.aborted && !this.bySession) throw new RpcError(-32800, 'The request was cancelled.');
    return { stopReason: this.signal.aborted ? 'cancelled' : 'end_turn' };
  }
}

const asContent = text => ({ type: 'content', content: { type: 'text', text: text.toWellFormed() } });

// What the client may send, checked before anything happens.
function checkedServers(list) {
  if (list === null) return [];
  if (!Array.isArray(list)) throw invalid('mcpServers has to be an array.');
  const pairs = value => value === undefined || value === null ||
    (Array.isArray(value) && value.every(pair => isObject(pair) && typeof pair.name === 'string' && typeof pair.value === 'string'));
  for (const server of list) {
    if (!isObject(server) || typeof server.name !== 'string') throw invalid('Every MCP server needs a name.');
    if (server.type === 'http') {
      if (typeof server.url !== 'string' || !pairs(server.headers)) throw invalid('An HTTP MCP server needs a url and a list of headers.');
    } else if (server.type !== undefined && server.type !== 'stdio') throw invalid('This kind of MCP server is not supported.');
    else if (typeof server.command !== 'string' || !pairs(server.env) || !(server.args ?? []).every?.(word => typeof word === 'string')) {
      throw invalid('A stdio MCP server needs a command, args and env.');
    }
  }
  return list;
}

const BLOCKS = {
  text: block => typeof block.text === 'string',
  image: block => typeof block.data === 'string' && typeof block.mimeType === 'string',
  resource_link: block => typeof block.uri === 'string' && typeof block.name === 'string',
  resource: ({ resource }) => isObject(resource) && typeof resource.uri === 'string' && (typeof resource.text === 'string' || typeof resource.blob === 'string'),
};

function checkedPrompt(prompt) {
  if (!Array.isArray(prompt)) throw invalid('The prompt has to be an array of content blocks.');
  for (const block of prompt) {
    if (!isObject(block) || !Object.hasOwn(BLOCKS, block.type)) throw invalid('The prompt holds a content block that this agent does not take.');
    if (!BLOCKS[block.type](block)) throw invalid(`The prompt holds a broken ${block.type} block.`);
  }
  return prompt;
}

async function connect(session, config) {
  let server;
  try {
    server = new McpServer(config, session.cwd);
    session.servers.push(server);
    await server.connect(VERSION);
  } catch (error) {
    session.troubles.push(`The MCP server "${config.name}" is not usable: ${error.message}.`);
  }
}

const METHODS = {
  initialize({ protocolVersion, clientCapabilities }) {
    if (!Number.isInteger(protocolVersion) || protocolVersion < 0 || protocolVersion > 65535) throw invalid('The protocolVersion has to be an unsigned 16-bit integer.');
    if (clientCapabilities !== undefined && clientCapabilities !== null && !isObject(clientCapabilities)) throw invalid('The clientCapabilities have to be an object.');
    client = clientCapabilities ?? {};
    return {
      protocolVersion: 1,
      agentCapabilities: {
        loadSession: false,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { close: {}, additionalDirectories: {} },
        auth: { logout: {} },
        _meta: { 'murre.example': { methods: Object.keys(METHODS).filter(name => name.startsWith('_')) } },
      },
      authMethods: [LOGIN],
      agentInfo: { name: 'fourth-murre', title: 'Fourth Murre', version: VERSION },
    };
  },

  async authenticate({ methodId }) {
    if (methodId !== LOGIN.id) throw invalid('There is no such authentication method.');
    await sleep(250);
    loggedIn = true;
    return {};
  },

  logout() {
    if (FAULT === 'logout-keeps-door-open' && sessions.size) return null; // "somebody still needs the pass"
    loggedIn = false;
    return null;
  },

  async 'session/new'({ cwd, mcpServers, additionalDirectories }) {
    if (typeof cwd !== 'string' || !path.isAbsolute(cwd)) throw invalid('The cwd has to be an absolute path.');
    if (mcpServers === undefined) throw invalid('The mcpServers are missing.');
    const servers = checkedServers(mcpServers);
    const extra = additionalDirectories ?? [];
    if (!Array.isArray(extra) || !extra.every(entry => typeof entry === 'string' && path.isAbsolute(entry))) throw invalid('Every additional directory has to be an absolute path.');
    demandLogin();
    const session = {
      id: `murre·${randomBytes(9).toString('base64url')}`,
      cwd: path.resolve(cwd), roots: [cwd, ...extra].map(root => path.resolve(root)),
      servers: [], troubles: [], history: [], turns: new Set(), queue: Promise.resolve(),
      toolCalls: 0, messages: 0, used: 0,
    };
    session.ready = Promise.all(servers.map(config => connect(session, config)));
    await Promise.race([session.ready, sleep(4000)]);
    sessions.set(session.id, session);
    return { sessionId: session.id };
  },

  async 'session/prompt'(params, id) {
    if (typeof params.sessionId !== 'string') throw invalid('The sessionId has to be a string.');
    const blocks = checkedPrompt(params.prompt);
    const session = sessionOf(params);
    demandLogin();
    const turn = new Turn(session);
    session.turns.add(turn);
    prompts.set(id, turn);
    // A second prompt waits politely until the one before it has ended.
    const result = session.queue.then(() => turn.run(blocks));
    session.queue = result.catch(() => {});
    try {
      return await result;
    } finally {
      session.turns.delete(turn);
      if (prompts.get(id) === turn) prompts.delete(id);
    }
  },

  async 'session/close'(params) {
    const session = sessionOf(params);
    sessions.delete(session.id);
    const busy = session.turns.size > 0;
    for (const turn of session.turns) turn.cancel(true);
    await session.queue;
    if (FAULT === 'close-mid-turn-leaks-mcp' && busy) return {}; // the early way out forgets the servers
    await Promise.all(session.servers.map(server => server.close()));
    return {};
  },

  '_murre.example/ping': () => ({ pong: 'kra-kra', upFor: Math.round((Date.now() - started) / 1000) }),
  '_murre.example/echo': params => ({ ...params }),
  '_murre.example/census': () => ({ sessions: sessions.size, notes }),
  '_murre.example/roots': params => ({ roots: sessionOf(params).roots }),
};

const NOTIFICATIONS = {
  'session/cancel'({ sessionId }) {
    for (const turn of sessions.get(sessionId)?.turns ?? []) turn.cancel(true);
  },
  '$/cancel_request'({ requestId }) {
    prompts.get(requestId)?.cancel(false);
  },
  '_murre.example/note'() {
    notes += 1;
  },
};

let ending = false;
async function end() {
  if (ending) return;
  ending = true;
  for (const session of sessions.values()) for (const turn of session.turns) turn.cancel(true);
  await Promise.race([Promise.allSettled([...running]), sleep(1000)]);
  const servers = [...sessions.values()].flatMap(session => session.servers);
  await Promise.race([Promise.all(servers.map(server => server.close())), sleep(700)]);
  setImmediate(() => process.exit(0));
}

process.on('SIGTERM', end).on('SIGINT', end);
process.on('exit', () => groups.forEach(pid => killGroup(pid)));
process.on('unhandledRejection', error => console.error(error));

const handlers = {
  request(method, params, id) {
    if (!Object.hasOwn(METHODS, method)) throw new RpcError(-32601, 'There is no such method.', { method });
    if (!client && method !== 'initialize') throw new RpcError(-32600, 'The connection has not been initialized.');
    if (!isObject(params)) throw invalid('The params have to be an object.');
    const work = Promise.resolve(METHODS[method](params, id));
    running.add(work);
    work.catch(() => {}).finally(() => running.delete(work));
    return work;
  },
  answered(method, result) {
    if (method !== 'session/new') return;
    const session = sessions.get(result.sessionId);
    const tell = update => notify('session/update', { sessionId: session.id, update });
    tell({ sessionUpdate: 'available_commands_update', availableCommands: COMMANDS });
    if (isObject(client.session?.notices)) for (const title of session.troubles) tell({ sessionUpdate: 'notice', severity: 'warning', title });
  },
  notification(method, params) {
    if (Object.hasOwn(NOTIFICATIONS, method)) NOTIFICATIONS[method](params);
  },
  end,
};

setTimeout(() => listen(handlers), SLOW_START);
