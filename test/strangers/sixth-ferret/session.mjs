// Sessions, their settings, and what is known about the client.

import { randomUUID } from 'node:crypto';
import { Server } from './servers.mjs';

export const FAULT = process.env.FAULT ?? '';

export class Session {
  id = `ferret-${randomUUID()}`;
  title = undefined;
  entries = [];
  values = { brain: 'quick', whisper: false };
  allowed = new Set();
  children = new Set();
  servers = [];
  starting = undefined;
  turn = undefined;
  question = undefined;
  lastPath = undefined;
  calls = 0;

  constructor(cwd, setups) {
    this.cwd = cwd;
    this.setups = setups;
  }
}

const BRAINS = [
  {
    group: 'daily',
    name: 'For every day',
    options: [
      { value: 'quick', name: 'Quick' },
      { value: 'patient', name: 'Patient', description: 'Takes its time' },
    ],
  },
  { group: 'sunday', name: 'For Sundays', options: [{ value: 'dreamy', name: 'Dreamy' }] },
];

/** The complete list of config options this client can show. */
export function configOptions(session, features) {
  const options = [
    {
      type: 'select',
      id: 'brain',
      name: 'Model',
      category: 'model',
      currentValue: session.values.brain,
      options: BRAINS,
    },
  ];
  if (features.boolean) {
    options.push({
      type: 'boolean',
      id: 'whisper',
      name: 'Whisper',
      description: 'Shorter stories',
      currentValue: session.values.whisper,
    });
  }
  return options;
}

/** Sets an option; false when there is no such option or value. */
export function setOption(session, features, { configId, type, value }) {
  if (configId === 'brain' && BRAINS.some((group) => group.options.some((option) => option.value === value))) {
    session.values.brain = value;
    return true;
  }
  if (configId === 'whisper' && features.boolean && type === 'boolean') {
    session.values.whisper = value;
    return true;
  }
  return false;
}

/** What the client offers, as far as ferret makes use of it. */
export function learnFeatures(offered) {
  const elicitation = offered?.elicitation;
  return {
    read: offered?.fs?.readTextFile === true,
    terminal: offered?.terminal === true,
    form: FAULT === 'open-hand' ? Boolean(elicitation && 'form' in elicitation) : elicitation?.form != null,
    notices: offered?.session?.notices != null,
    boolean: offered?.session?.configOptions?.boolean != null,
  };
}

/** Starts the session's MCP servers once; resolves to those that failed just now. */
export async function startServers(session) {
  if (session.starting) {
    await session.starting;
    return [];
  }
  const servers = session.setups.map((setup) => new Server(setup, session.cwd));
  session.servers = servers;
  session.starting = Promise.all(servers.map((server) => server.start()));
  await session.starting;
  return servers.filter((server) => server.trouble);
}

export async function stopServers(session) {
  const servers = session.servers;
  session.servers = [];
  session.starting = undefined;
  await Promise.all(servers.map((server) => server.stop().catch(() => {})));
}
