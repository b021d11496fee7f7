// A small agent that keeps the protocol: it repeats what it is told. Node alone is all it needs.
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const RESOURCE_NOT_FOUND = -32002;

/** A request is answered with an error. */
class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Answers requests; a prompt streams its answer as `session/update` notifications. */
export class Agent {
  #ready = false;
  #sessions = new Set();
  #methods = {
    initialize: (params) => this.initialize(params),
    authenticate: (params) => this.authenticate(params),
    'session/new': (params) => this.newSession(params),
    'session/prompt': (params) => this.prompt(params),
  };

  send(message) {
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  /** Handles one line from the client. */
  receive(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return this.send({ id: null, error: { code: PARSE_ERROR, message: 'the line is not JSON' } });
    }
    // An answer, but this agent asks nothing.
    if (isObject(message) && !('method' in message) && ('result' in message || 'error' in message)) return undefined;
    if (!isRequest(message)) {
      const error = { code: INVALID_REQUEST, message: 'not a JSON-RPC request' };
      return this.send({ id: message?.id ?? null, error });
    }
    // Notifications need no answer.
    return 'id' in message ? this.answer(message) : undefined;
  }

  answer({ id, method, params }) {
    try {
      if (!Object.hasOwn(this.#methods, method)) throw new Refused(METHOD_NOT_FOUND, `there is no method ${method}`);
      if (!isObject(params)) throw new Refused(INVALID_PARAMS, 'params must be an object');
      this.send({ id, result: this.#methods[method](params) });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.send({ id, error: { code: error.code, message: error.message } });
    }
  }

  initialize({ protocolVersion }) {
    if (!Number.isInteger(protocolVersion)) throw new Refused(INVALID_PARAMS, 'protocolVersion must be a number');
    this.#ready = true;
    return {
      protocolVersion: 1,
      agentInfo: { name: 'echo-agent', title: 'Echo agent', version: '1.0.0' },
      agentCapabilities: {},
      authMethods: [],
    };
  }

  authenticate({ methodId }) {
    throw new Refused(INVALID_PARAMS, `there is no login method ${methodId}`);
  }

  newSession({ cwd, mcpServers }) {
    if (!this.#ready) throw new Refused(INVALID_REQUEST, 'send initialize first');
    if (typeof cwd !== 'string' || !path.isAbsolute(cwd)) throw new Refused(INVALID_PARAMS, 'cwd must be an absolute path');
    if (!Array.isArray(mcpServers)) throw new Refused(INVALID_PARAMS, 'mcpServers must be a list');
    const sessionId = `session-${randomUUID()}`;
    this.#sessions.add(sessionId);
    return { sessionId };
  }

  prompt({ sessionId, prompt }) {
    if (typeof sessionId !== 'string') throw new Refused(INVALID_PARAMS, 'sessionId must be a text');
    if (!this.#sessions.has(sessionId)) throw new Refused(RESOURCE_NOT_FOUND, `there is no session ${sessionId}`);
    if (!Array.isArray(prompt)) throw new Refused(INVALID_PARAMS, 'prompt must be a list of content blocks');
    const text = prompt.map(textOf).join(' ');
    for (const part of ['You said: ', text]) {
      const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: part } };
      this.send({ method: 'session/update', params: { sessionId, update } });
    }
    return { stopReason: 'end_turn' };
  }
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a message is a request or a notification of JSON-RPC 2.0. */
function isRequest(message) {
  const { jsonrpc, method, params = {} } = isObject(message) ? message : {};
  return jsonrpc === '2.0' && typeof method === 'string' && typeof params === 'object' && params !== null;
}

/** The text of a content block: every agent takes text and links. */
function textOf(block) {
  if (block?.type === 'text' && typeof block.text === 'string') return block.text;
  if (block?.type === 'resource_link' && typeof block.uri === 'string') return block.uri;
  throw new Refused(INVALID_PARAMS, 'a prompt is made of text and resource links');
}

/** Reads lines from standard input until it ends. */
export function serve(agent) {
  readline.createInterface({ input: process.stdin }).on('line', (line) => line.trim() && agent.receive(line));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) serve(new Agent());
