'use strict';
// A magpie that works with the hands of the client and asks before it touches anything.
const { Wire, RpcError, isObject, INVALID_REQUEST, NO_METHOD, BAD_PARAMS, NOT_FOUND } = require('./wire');
const check = require('./check');
const { Nest } = require('./nest');
const { Turn } = require('./turn');
const { endAll } = require('./servers');

const COMMANDS = [
  { name: 'help', description: 'Tell what I can do' },
  { name: 'plan', description: 'Make a plan', input: { hint: 'what the plan is for' } },
  { name: 'tools', description: 'List the tools of the MCP servers' },
  { name: 'forget', description: 'Forget what I was told' },
];

const nest = new Nest();
let client = null;

function has(value, ...keys) {
  let at = value;
  for (const key of keys) {
    if (!isObject(at)) return undefined;
    at = at[key];
  }
  return at;
}

function initialize(params) {
  check.version(params.protocolVersion);
  const can = params.clientCapabilities;
  client = {
    read: has(can, 'fs', 'readTextFile') === true,
    write: has(can, 'fs', 'writeTextFile') === true,
    terminal: has(can, 'terminal') === true,
    form: isObject(has(can, 'elicitation', 'form')),
    toggles: isObject(has(can, 'session', 'configOptions', 'boolean')),
    notices: isObject(has(can, 'session', 'notices')),
  };
  return {
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: false,
      promptCapabilities: { image: true, audio: false, embeddedContext: true },
      mcpCapabilities: { http: true, sse: false },
      sessionCapabilities: { close: {}, resume: {}, additionalDirectories: {} },
    },
    agentInfo: { name: 'sixth-magpie', title: 'Magpie', version: '0.6.0' },
    authMethods: [],
  };
}

function known(params) {
  const id = check.text(params, 'sessionId');
  const session = nest.get(id);
  if (!session || session.closing) throw new RpcError(NOT_FOUND, 'There is no such session.', { sessionId: id });
  return session;
}

function announce(session) {
  wire.notify('session/update', {
    sessionId: session.id,
    update: { sessionUpdate: 'available_commands_update', availableCommands: COMMANDS },
  });
}

function setup(params, needed) {
  return {
    cwd: check.folder(params, 'cwd'),
    roots: check.folders(params.additionalDirectories),
    servers: check.servers(params.mcpServers, needed),
  };
}

function newSession(params, id, later) {
  const { cwd, roots, servers } = setup(params, true);
  const session = nest.create(cwd, roots, client.toggles);
  session.connect(servers);
  later(() => announce(session));
  return { sessionId: session.id, configOptions: session.options() };
}

function resumeSession(params, id, later) {
  const sessionId = check.text(params, 'sessionId');
  const { cwd, roots, servers } = setup(params, false);
  if (nest.get(sessionId)?.queue.length) throw new RpcError(INVALID_REQUEST, 'A turn is running in this session.');
  const session = nest.wake(sessionId, cwd, roots, client.toggles);
  if (!session) throw new RpcError(NOT_FOUND, 'There is no such session.', { sessionId });
  session.connect(servers);
  later(() => announce(session));
  return { configOptions: session.options() };
}

async function closeSession(params) {
  const session = known(params);
  session.closing = true;
  halt(session);
  await session.idle;
  nest.rest(session);
  session.closing = false;
  return {};
}

// Prompts of one session wait for each other.
function prompt(params, id) {
  const session = known(params);
  const blocks = check.prompt(params.prompt);
  const turn = new Turn({ wire, client, session, blocks });
  turn.request = id;
  session.queue.push(turn);
  const before = session.idle ?? Promise.resolve();
  const mine = before.then(() => {
    session.turn = turn;
    return turn.run();
  }).finally(() => {
    session.queue.splice(session.queue.indexOf(turn), 1);
    if (session.turn === turn) session.turn = null;
  });
  session.idle = mine.catch(() => {});
  return mine;
}

function halt(session) {
  for (const turn of session.queue) turn.stop();
}

function setOption(params) {
  const session = known(params);
  const option = check.text(params, 'configId');
  const values = session.values(option);
  if (!values) throw new RpcError(BAD_PARAMS, 'There is no such option.');
  if (!values.includes(params.value)) throw new RpcError(BAD_PARAMS, 'The option has no such value.');
  session.choose(option, params.value);
  return { configOptions: session.options() };
}

const METHODS = {
  'session/new': newSession,
  'session/resume': resumeSession,
  'session/close': closeSession,
  'session/prompt': prompt,
  'session/set_config_option': setOption,
  authenticate() {
    throw new RpcError(BAD_PARAMS, 'There is nothing to log in to.');
  },
};

const wire = new Wire({
  request(method, params, id, later) {
    if (method !== 'initialize' && !Object.hasOwn(METHODS, method)) {
      throw new RpcError(NO_METHOD, 'This method is not offered.', { method });
    }
    if (!isObject(params)) throw new RpcError(BAD_PARAMS, 'The params must have names.');
    if (method === 'initialize') return initialize(params);
    if (!client) throw new RpcError(INVALID_REQUEST, 'Please initialize first.');
    return METHODS[method](params, id, later);
  },

  notification(method, params) {
    if (method === 'session/cancel') {
      const session = nest.get(params.sessionId);
      if (session) halt(session);
    } else if (method === '$/cancel_request') {
      for (const session of nest.live.values()) {
        for (const turn of session.queue) if (turn.request === params.requestId) turn.stop();
      }
    }
  },

  end() {
    for (const session of nest.live.values()) {
      halt(session);
      session.release();
    }
    setTimeout(() => {
      endAll();
      process.exit(0);
    }, 100);
  },
});

process.on('SIGTERM', () => {
  endAll();
  process.exit(0);
});
wire.listen();
