'use strict';
// The sessions: those in use, and the notes about the others on disk.
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const crypto = require('node:crypto');
const { Server } = require('./servers');

const FAULT = process.env.FAULT ?? '';
const SHELF = path.join(process.env.HOME || os.homedir(), '.sixth-magpie', 'nest');

const MODELS = {
  pica: ['off', 'brief'],
  corvid: ['off', 'brief', 'deep'],
};

class Session {
  constructor(id) {
    this.id = id;
    this.cwd = '/';
    this.roots = [];
    this.servers = [];
    this.allowed = new Set();
    this.queue = [];
    this.turn = null;
    this.record = {
      said: [], notes: [], title: null, calls: 0, tokens: 0, toggles: false,
      choices: { model: 'pica', thinking: 'brief', pace: 'steady', numbers: false },
    };
    this.seen = new Map();
  }

  // The options as the client gets to see them, always all of them.
  options() {
    const { choices } = this.record;
    const list = [
      {
        id: 'model', name: 'Model', category: 'model', type: 'select', currentValue: choices.model,
        options: [
          { value: 'pica', name: 'Pica', description: 'Quick and plain' },
          { value: 'corvid', name: 'Corvid', description: 'Slower, thinks deeper' },
        ],
      },
      {
        id: 'thinking', name: 'Thinking', category: 'thought_level', type: 'select', currentValue: choices.thinking,
        options: MODELS[choices.model].map((value) => ({ value, name: value[0].toUpperCase() + value.slice(1) })),
      },
      {
        id: 'pace', name: 'Pace', category: '_pace', type: 'select', currentValue: choices.pace,
        options: [
          { group: 'calm', name: 'Calm', options: [{ value: 'leisurely', name: 'Leisurely' }, { value: 'steady', name: 'Steady' }] },
          { group: 'quick', name: 'Quick', options: [{ value: 'hasty', name: 'Hasty' }] },
        ],
      },
    ];
    if (this.record.toggles) {
      list.push({
        id: 'numbers', name: 'Line numbers', description: 'Number the lines of files that are shown',
        type: 'boolean', currentValue: choices.numbers,
      });
    }
    return list;
  }

  values(id) {
    const option = this.options().find((one) => one.id === id);
    if (!option) return null;
    if (option.type === 'boolean') return [true, false];
    return option.options.flatMap((one) => one.options ?? [one]).map((one) => one.value);
  }

  choose(id, value) {
    const { choices } = this.record;
    choices[id] = value;
    if (!MODELS[choices.model].includes(choices.thinking)) choices.thinking = 'brief';
    this.save();
  }

  connect(setups) {
    this.servers = setups.map((setup) => new Server(setup, this.cwd));
    return this.servers;
  }

  // Lets go of everything the session holds outside of this process.
  release() {
    if (FAULT === 'flown-twice') {
      if (this.released) return;
      this.released = true;
    }
    for (const server of this.servers) server.stop();
    this.servers = [];
  }

  within(file) {
    return [this.cwd, ...this.roots].some((root) => {
      const way = path.relative(root, file);
      return way === '' || (way !== '..' && !way.startsWith(`..${path.sep}`) && !path.isAbsolute(way));
    });
  }

  nextCall() {
    this.record.calls += 1;
    return `${this.id.slice(-4)}-peck-${this.record.calls}`;
  }

  save() {
    try {
      fs.mkdirSync(SHELF, { recursive: true });
      const file = path.join(SHELF, `${this.id}.json`);
      fs.writeFileSync(`${file}.new`, JSON.stringify(this.record));
      fs.renameSync(`${file}.new`, file);
    } catch (error) {
      process.stderr.write(`could not keep ${this.id}: ${error.message}\n`);
    }
  }
}

class Nest {
  constructor() {
    this.live = new Map();
    this.resting = new Map();
  }

  create(cwd, roots, toggles) {
    const session = new Session(`mag-${crypto.randomBytes(9).toString('hex')}`);
    session.cwd = cwd;
    session.roots = roots;
    session.record.toggles = toggles;
    this.live.set(session.id, session);
    session.save();
    return session;
  }

  get(id) {
    return this.live.get(id) ?? null;
  }

  rest(session) {
    session.save();
    session.release();
    session.allowed.clear();
    session.seen.clear();
    this.live.delete(session.id);
    this.resting.set(session.id, session);
  }

  // Brings a session back without telling its story again.
  wake(id, cwd, roots, toggles) {
    let session = this.live.get(id) ?? this.resting.get(id) ?? this.fromShelf(id);
    if (!session) return null;
    if (this.live.has(id)) session.release();
    this.resting.delete(id);
    this.live.set(id, session);
    session.cwd = cwd;
    session.roots = roots;
    if (FAULT !== 'old-toggles') session.record.toggles = toggles;
    return session;
  }

  fromShelf(id) {
    if (!/^mag-[0-9a-f]{18}$/.test(id)) return null;
    try {
      const kept = JSON.parse(fs.readFileSync(path.join(SHELF, `${id}.json`), 'utf8'));
      const session = new Session(id);
      session.record = { ...session.record, ...kept };
      return session;
    } catch {
      return null;
    }
  }
}

module.exports = { Nest };
