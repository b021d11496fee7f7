#!/usr/bin/env node
// sixth-ferret: an agent for plain requests, on the official TypeScript SDK.

import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { RequestError, agent, methods, ndJsonStream } from '@agentclientprotocol/sdk';
import * as login from './login.mjs';
import { Session, configOptions, learnFeatures, setOption, stopServers } from './session.mjs';
import { Turn } from './turn.mjs';

const COMMANDS = [
  { name: 'burrow', description: 'Tell which folder ferret works in' },
  { name: 'tally', description: 'Count the requests and tools of this session' },
];
const ACCEPTED = new Set(['text', 'resource_link', 'audio']);

const sessions = new Map();
let features = learnFeatures(undefined);

function needLogin() {
  if (!login.loggedIn()) throw RequestError.authRequired();
}

function findSession(id) {
  const session = sessions.get(id);
  if (!session) throw RequestError.sessionNotFound(id);
  return session;
}

function checkSetup({ cwd, mcpServers }) {
  if (!path.isAbsolute(cwd)) throw RequestError.invalidParams({ cwd }, 'cwd must be an absolute path');
  if (mcpServers.some((server) => server.type === 'sse')) {
    throw RequestError.invalidParams(undefined, 'MCP servers over sse are not supported');
  }
}

function announceCommands(client, session) {
  setTimeout(() => {
    const update = { sessionUpdate: 'available_commands_update', availableCommands: COMMANDS };
    client.notify(methods.client.session.update, { sessionId: session.id, update }).catch(() => {});
  }, 10);
}

/** Only what the protocol knows of a content block. */
function trim(block) {
  const names = {
    text: ['text'],
    audio: ['data', 'mimeType'],
    resource_link: ['uri', 'name', 'description', 'mimeType', 'size', 'title'],
  }[block.type];
  const kept = names.filter((name) => block[name] !== undefined && block[name] !== null);
  return { type: block.type, ...Object.fromEntries(kept.map((name) => [name, block[name]])) };
}

async function prompt({ params, client, signal }) {
  const session = findSession(params.sessionId);
  const strange = params.prompt.find((block) => !ACCEPTED.has(block.type));
  if (strange) throw RequestError.invalidParams({ type: strange.type }, 'this kind of content is not supported');
  if (session.turn) throw RequestError.invalidRequest(undefined, 'a turn is running in this session');
  const turn = new Turn(session, features, client, params.prompt.map(trim));
  session.turn = turn;
  const onAbort = () => turn.stop();
  signal.addEventListener('abort', onAbort);
  try {
    return { stopReason: await turn.answer() };
  } finally {
    signal.removeEventListener('abort', onAbort);
    session.turn = undefined;
  }
}

function initialize({ params }) {
  features = learnFeatures(params.clientCapabilities);
  return {
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: false, audio: true, embeddedContext: false },
      mcpCapabilities: { http: true, sse: false },
      sessionCapabilities: {},
      auth: { logout: {} },
    },
    authMethods: [login.METHOD],
    agentInfo: { name: 'sixth-ferret', title: 'Ferret', version: '1.0.0' },
  };
}

function authenticate({ params }) {
  if (params.methodId !== login.METHOD.id) {
    throw RequestError.invalidParams({ methodId: params.methodId }, 'there is no such way to log in');
  }
  login.logIn();
  return {};
}

function newSession({ params, client }) {
  needLogin();
  checkSetup(params);
  const session = new Session(path.normalize(params.cwd), params.mcpServers);
  sessions.set(session.id, session);
  announceCommands(client, session);
  return { sessionId: session.id, configOptions: configOptions(session, features) };
}

function replay(client, session) {
  const send = (update) => client.notify(methods.client.session.update, { sessionId: session.id, update });
  const lastPlan = session.entries.filter((entry) => entry.is === 'plan').at(-1);
  for (const entry of session.entries) {
    if (entry.is === 'user') {
      for (const content of entry.blocks) send({ sessionUpdate: 'user_message_chunk', content });
    } else if (entry.is === 'agent' || entry.is === 'thought') {
      if (entry.text) send({ sessionUpdate: `agent_${entry.is === 'agent' ? 'message' : 'thought'}_chunk`, content: { type: 'text', text: entry.text } });
    } else if (entry.is === 'tool') {
      send({ sessionUpdate: 'tool_call', ...replayable(entry.call) });
    } else if (entry === lastPlan) {
      send({ sessionUpdate: 'plan', entries: entry.entries });
    }
  }
  if (session.title !== undefined) send({ sessionUpdate: 'session_info_update', title: session.title });
}

/** A finished call; a terminal that is gone is shown by what it printed. */
function replayable(call) {
  if (!call.content?.some((item) => item.type === 'terminal')) return call;
  const text = call.rawOutput?.output || '(no output)';
  return { ...call, content: [{ type: 'content', content: { type: 'text', text } }] };
}

async function loadSession({ params, client }) {
  needLogin();
  checkSetup(params);
  const session = findSession(params.sessionId);
  if (session.turn) throw RequestError.invalidRequest(undefined, 'a turn is running in this session');
  await stopServers(session);
  session.cwd = path.normalize(params.cwd);
  session.setups = params.mcpServers;
  session.allowed.clear();
  session.question = undefined;
  replay(client, session);
  announceCommands(client, session);
  return { configOptions: configOptions(session, features) };
}

function setConfigOption({ params }) {
  const session = findSession(params.sessionId);
  if (!setOption(session, features, params)) {
    throw RequestError.invalidParams({ configId: params.configId }, 'there is no such option or value');
  }
  return { configOptions: configOptions(session, features) };
}

/** Passes messages on to the SDK; requests whose params are no structure are made recognisable as invalid. */
function checkParams() {
  return new TransformStream({
    transform(message, controller) {
      const { params } = message;
      if (typeof message.method === 'string' && (params === undefined || params === null)) {
        controller.enqueue('id' in message ? { ...message, params: {} } : message);
      } else if (typeof message.method === 'string' && typeof params !== 'object') {
        if ('id' in message) controller.enqueue({});
      } else {
        controller.enqueue(message);
      }
    },
  });
}

// Prompts come first, so that a cancellation right behind a prompt finds its turn.
const app = agent({ name: 'sixth-ferret' })
  .onRequest(methods.agent.session.prompt, prompt)
  .onNotification(methods.agent.session.cancel, ({ params }) => sessions.get(params.sessionId)?.turn?.cancel())
  .onRequest(methods.agent.initialize, initialize)
  .onRequest(methods.agent.authenticate, authenticate)
  .onRequest(methods.agent.logout, () => {
    login.logOut();
    return {};
  })
  .onRequest(methods.agent.session.new, newSession)
  .onRequest(methods.agent.session.load, loadSession)
  .onRequest(methods.agent.session.setConfigOption, setConfigOption);

const stream = ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const connection = app.connect({ readable: stream.readable.pipeThrough(checkParams()), writable: stream.writable });

await connection.closed;
for (const session of sessions.values()) {
  session.turn?.stop();
  for (const child of session.children) {
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      // already gone
    }
  }
}
await Promise.race([
  Promise.all([...sessions.values()].map(stopServers)),
  new Promise((resolve) => setTimeout(resolve, 2500)),
]);
process.exit(0);
