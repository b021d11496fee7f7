'use strict';
// One prompt turn: takes the wishes of a prompt one by one and carries them out, reporting to the client.
const fs = require('fs');
const path = require('path');
const hands = require('./hands');
const { Cancelled, isObject } = require('./wire');
const { understand, pickTool, toolArgs } = require('./wishes');

const FAULT = process.env.FAULT || '';
const SHORT = 60; // up to this many characters a text is sent letter by letter
const YES = 'dig';
const NO = 'leave-it';

const hurry = new AbortController(); // aborted at end of input: no more waiting about

class Turn {
  constructor(session, blocks, wire, caps) {
    Object.assign(this, { session, blocks, wire, caps });
    this.abort = new AbortController();
    this.why = null; // 'session' or 'request' once cancelled
    this.said = [];
  }

  get signal() { return this.abort.signal; }

  cancel(why) {
    if (this.why) return;
    this.why = why;
    this.abort.abort();
  }

  check() { if (this.why) throw new Cancelled(); }

  update(update) {
    this.wire.notify('session/update', { sessionId: this.session.id, update });
  }

  piece(text, kind = 'agent_message_chunk') {
    if (text) this.update({ sessionUpdate: kind, content: { type: 'text', text } });
  }

  // A short text goes letter by letter, a long one as one block.
  say(text) {
    this.check();
    if (this.said.length) text = '\n' + text;
    const letters = Array.from(text);
    if (letters.length <= SHORT) for (const letter of letters) this.piece(letter);
    else this.piece(text);
    this.said.push(text);
  }

  sleep(ms) {
    this.check();
    if (hurry.signal.aborted || ms <= 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const clean = () => {
        clearTimeout(timer);
        this.signal.removeEventListener('abort', stop);
        hurry.signal.removeEventListener('abort', go);
      };
      const stop = () => { clean(); reject(new Cancelled()); };
      const go = () => { clean(); resolve(); };
      const timer = setTimeout(go, ms);
      this.signal.addEventListener('abort', stop, { once: true });
      hurry.signal.addEventListener('abort', go, { once: true });
    });
  }

  ask(method, params) {
    return this.wire.request(method, { sessionId: this.session.id, ...params }, this.signal,
      () => method === 'elicitation/create' || this.why === 'request');
  }

  async run() {
    const s = this.session;
    const typed = this.blocks.filter((b) => b.type === 'text').map((b) => b.text).join('\n').trim();
    const extras = this.blocks.filter((b) => b.type !== 'text');
    const earlier = s.history.slice();
    s.history.push({ who: 'user', text: typed || '(' + extras.map((b) => b.type).join(', ') + ')' });
    try {
      let wishes = understand(typed, { servers: s.hub.names });
      const question = s.question;
      s.question = null;
      if (question && !wishes.length) {
        this.say(`Thank you. To "${question}" you answered: ${typed}`);
        return;
      }
      if (!wishes.length) wishes = [{ do: extras.length ? 'describe' : 'chat' }];
      for (const wish of wishes) {
        this.check();
        await this.grant(wish, { typed, extras, earlier });
      }
      if (!this.said.length) this.say('Done.');
      this.check();
    } finally {
      s.history.push({ who: 'agent', text: this.said.join('') });
    }
  }

  async grant(wish, context) {
    const s = this.session;
    switch (wish.do) {
      case 'nothing': return;
      case 'say': {
        const text = Array(wish.times || 1).fill(wish.text).join(' ');
        if (!wish.slow) return this.say(text);
        for (const word of text.split(/(?<=\s)/)) { this.piece(word); this.said.push(word); await this.sleep(400); }
        return;
      }
      case 'hello': return this.say('Hello! I am a wombat. What shall I dig up for you?');
      case 'chat': return this.say('I am only a small wombat, but I can read, write, run commands and count.');
      case 'keep':
        s.facts.push(wish.text);
        return this.say(`I will remember: ${wish.text}`);
      case 'recall': return this.recall(context.earlier);
      case 'mode': return this.changeMode(wish.mode);
      case 'think': return this.think(wish.about);
      case 'plan': return this.plan(wish, context);
      case 'count': return this.count(wish);
      case 'talk': return this.talk(wish.seconds);
      case 'wait':
        this.say(`Waiting for ${wish.seconds} seconds.`);
        await this.sleep(wish.seconds * 1000);
        return this.say('I am back.');
      case 'ask': return this.elicit(wish);
      case 'describe': return this.describe(context.extras);
      case 'readlink': {
        const links = context.extras.filter((b) => b.type === 'resource_link' && b.uri.startsWith('file://'));
        if (!links.length) return this.describe(context.extras);
        for (const link of links) await this.read({ path: link.uri, from: 1, to: null });
        return;
      }
      case 'read': return this.read(wish);
      case 'list': return this.list(wish);
      case 'write': case 'append': case 'change': case 'delete': return this.alter(wish);
      case 'run': return this.command(wish.command);
      case 'mcp': return this.mcp(wish, context);
      default: return this.say('I do not know how to do that.');
    }
  }

  recall(earlier) {
    const told = earlier.filter((h) => h.who === 'user').map((h) => h.text);
    if (!told.length) return this.say('This conversation has only just begun; there is nothing to remember yet.');
    const facts = this.session.facts;
    const head = facts.length ? `You asked me to remember: ${facts.join('; ')}.\n` : '';
    const recent = told.slice(-30).map((t) => '- ' + (t.length > 300 ? t.slice(0, 300).toWellFormed() + '…' : t));
    return this.say(`${head}You have told me:\n${recent.join('\n')}`);
  }

  changeMode(name) {
    const s = this.session;
    const mode = s.modes.find((m) => [m.id, m.name].some((n) => name.toLowerCase().includes(n.toLowerCase())));
    if (!mode) return this.say(`I have no such mode. I know: ${s.modes.map((m) => m.id).join(', ')}.`);
    s.mode = mode.id;
    this.update({ sessionUpdate: 'current_mode_update', currentModeId: mode.id });
    return this.say(`I am in ${mode.id} mode now.`);
  }

  async think(about) {
    const thoughts = [`Let me think${about ? ' about ' + about : ''}. `, 'A wombat looks at it from below. ', 'Yes, that is how it could be.'];
    for (const t of thoughts) { this.piece(t, 'agent_thought_chunk'); await this.sleep(80); }
    this.say('I have thought about it.');
  }

  async plan(wish, context) {
    const listed = wish.entries || (wish.list || '').split(/\s*(?:[,;\n]|\b\d+[.)])\s*/).map((x) => x.trim()).filter(Boolean);
    const goal = wish.goal.replace(/\s+(?:and|then)\s*$/, '').trim();
    const steps = Math.max(1, Math.min(wish.steps, 20));
    const names = listed.length > 1 ? listed : Array.from({ length: steps }, (_, i) => [
      'Look at the ground', 'Dig', 'See whether the burrow holds', 'Tidy up'][i % 4] + (goal ? ` (${goal})` : '') + (i > 3 ? ` again, round ${1 + Math.floor(i / 4)}` : ''));
    const entries = names.map((content, i) => ({ content, priority: ['high', 'medium', 'low'][Math.min(i, 2)], status: 'pending' }));
    const show = () => this.update({ sessionUpdate: 'plan', entries: entries.map((e) => ({ ...e })) });
    show();
    for (const entry of entries) {
      entry.status = 'in_progress';
      show();
      await this.sleep(120);
      const inner = listed.length > 1 ? understand(entry.content, { servers: this.session.hub.names }) : [];
      for (const w of inner) if (w.do !== 'plan') await this.grant(w, context);
      this.check();
      entry.status = 'completed';
      show();
    }
    this.say(`The plan is done, all ${entries.length} steps of it.`);
  }

  async count({ from, to, slow, seconds, gap }) {
    const total = Math.abs(to - from) + 1;
    const pause = gap ? gap * 1000 : seconds ? (seconds * 1000) / total : slow ? 500 : Math.min(200, 20000 / total);
    for (let i = 0; i < total; i++) {
      if (i) await this.sleep(pause);
      this.check();
      const text = (i || !this.said.length ? '' : '\n') + String(from + (to < from ? -i : i)) + (i + 1 < total ? ' ' : '');
      this.piece(text);
      this.said.push(text);
    }
  }

  async talk(seconds) {
    const lines = ['Once there was a wombat who lived under a hill. ', 'Every evening it dug a little further. ', 'It found roots, and stones, and an old boot. ',
      'The rain came and went. ', 'Somebody above was baking bread. ', 'The wombat listened, and dug on. '];
    const total = Math.max(2, Math.round(seconds * 4));
    for (let i = 0; i < total; i++) {
      if (i) await this.sleep(250);
      this.check();
      const text = i + 1 < total ? lines[i % lines.length] : 'And that is the end of it.';
      this.piece(text);
      this.said.push(text);
    }
  }

  describe(extras) {
    if (!extras.length) return this.say('There is nothing attached that I could describe.');
    const lines = extras.map((b) => {
      if (b.type === 'resource_link') {
        return `A link named "${b.name}" to ${b.uri}` + ['title', 'description', 'mimeType', 'size'].filter((k) => b[k] !== undefined && b[k] !== null).map((k) => `, ${k}: ${b[k]}`).join('') + '.';
      }
      if (b.type === 'image') {
        const bytes = Buffer.from(b.data, 'base64');
        const png = bytes.length > 24 && bytes.toString('latin1', 1, 4) === 'PNG';
        return `An image of type ${b.mimeType}, ${bytes.length} bytes` + (png ? `, ${bytes.readUInt32BE(16)} by ${bytes.readUInt32BE(20)} pixels.` : '.');
      }
      const r = b.resource;
      if (typeof r.text === 'string') return `A resource at ${r.uri}${r.mimeType ? ` of type ${r.mimeType}` : ''} with this text:\n${r.text.slice(0, 2000).toWellFormed()}`;
      return `A resource at ${r.uri}${r.mimeType ? ` of type ${r.mimeType}` : ''} of ${Buffer.from(r.blob, 'base64').length} bytes.`;
    });
    return this.say(lines.join('\n'));
  }

  async elicit({ question, choices, number, min, max, secret }) {
    if (secret) return this.say('That sounds like a secret. I never ask for secrets here, so please keep it to yourself.');
    const support = this.caps.elicitation;
    const can = FAULT === 'form-anyway' ? Boolean(support) : Boolean(support && support.form);
    if (!can) {
      this.session.question = question;
      return this.say(`${question}${choices ? ` (${choices.join(', ')})` : ''} Just type your answer.`);
    }
    const field = { type: 'string', title: 'Your answer' };
    if (choices) field.enum = choices;
    else if (number) {
      field.type = 'integer';
      if (min !== null) { field.minimum = min; field.maximum = max; }
    } else field.minLength = 1;
    let answer;
    try {
      answer = await this.ask('elicitation/create', { mode: 'form', message: question,
        requestedSchema: { type: 'object', properties: { answer: field }, required: ['answer'] } });
    } catch (e) {
      if (e instanceof Cancelled) throw e;
      return this.say('I could not ask you that, so I carry on without an answer.');
    }
    this.check();
    const action = isObject(answer) ? answer.action : undefined;
    if (action === 'decline') return this.say('You would rather not answer. That is fine.');
    if (action === 'cancel') return this.say('You put the question aside, so I leave it.');
    if (action !== 'accept') return this.say('I did not understand what became of my question, so I take it as unanswered.');
    const value = isObject(answer.content) ? answer.content.answer : undefined;
    const fits = choices ? choices.includes(value)
      : number ? Number.isInteger(value) && (min === null || (value >= min && value <= max))
        : typeof value === 'string' && value.length > 0;
    if (!fits) return this.say('That answer does not fit what I asked for, so I do not use it.');
    this.session.facts.push(`to "${question}" you answered ${value}`);
    return this.say(`You answered: ${value}`);
  }

  // Reports one use of a tool, asks first where the mode wants it, and carries it out. Returns its result, or null if it was not done.
  async tool({ name, title, kind, file, rawInput, guard }, work) {
    const s = this.session;
    this.check();
    const toolCallId = `burrow-call-${++s.tools}`;
    const locations = file ? { locations: [{ path: file }] } : {};
    this.update({ sessionUpdate: 'tool_call', toolCallId, title, name, kind, status: 'pending', rawInput, ...locations });
    let over = false;
    const end = (status, text, more = {}) => {
      over = true;
      this.update({ sessionUpdate: 'tool_call_update', toolCallId, status, content: [{ type: 'content', content: { type: 'text', text } }], ...more });
    };
    const refuse = (text) => { end('failed', text); this.say(text); return null; };
    const forbidden = () => s.mode === 'museum' && ['edit', 'delete', 'execute'].includes(kind)
      ? 'In museum mode I only look and touch nothing.' : null;
    try {
      if (file && !hands.inside([s.cwd, ...s.dirs], file)) return refuse(`${file} is outside of this session's folders, so I stay away from it.`);
      if (forbidden()) return refuse(forbidden());
      if (guard && !(kind === 'read' || kind === 'search' ? s.mode === 'stroll' : false)) {
        let answer;
        try {
          answer = await this.ask('session/request_permission', {
            toolCall: { toolCallId, title, kind, status: 'pending', rawInput, ...locations },
            options: [{ optionId: NO, name: 'No, leave it', kind: 'reject_once' }, { optionId: YES, name: 'Yes, this once', kind: 'allow_once' }],
          });
        } catch (e) {
          if (e instanceof Cancelled) throw e;
          return refuse(`I could not ask for permission, so I did not do it: ${title}.`);
        }
        const outcome = isObject(answer) && isObject(answer.outcome) ? answer.outcome : {};
        if (outcome.outcome === 'cancelled') this.cancel('session');
        this.check();
        if (outcome.outcome !== 'selected' || outcome.optionId !== YES) return refuse(`You did not allow it, so I did not do it: ${title}.`);
        if (forbidden()) return refuse(forbidden()); // the mode may have changed while we waited
        if (file && !hands.inside([s.cwd, ...s.dirs], file)) return refuse(`${file} is outside of this session's folders, so I stay away from it.`);
      }
      this.update({ sessionUpdate: 'tool_call_update', toolCallId, status: 'in_progress' });
      const result = await work();
      this.check();
      const content = result.content || [{ type: 'content', content: { type: 'text', text: result.text || '(nothing)' } }];
      end(result.failed ? 'failed' : 'completed', '', { content, ...(result.rawOutput ? { rawOutput: result.rawOutput } : {}) });
      return result;
    } catch (e) {
      if (e instanceof Cancelled) {
        if (!over) end('failed', 'Stopped, because the turn was cancelled.');
        throw e;
      }
      return refuse(`That did not work: ${e.message}`);
    }
  }

  place(p) {
    const s = this.session;
    if (p === null || p === undefined) p = s.lastFile;
    if (!p) return null;
    const file = hands.absolute(s.cwd, p);
    s.lastFile = file;
    return file;
  }

  async read({ path: p, from = 1, to = null }) {
    const file = this.place(p);
    if (!file) return this.say('Which file do you mean?');
    let folder = false;
    try { folder = hands.inside([this.session.cwd, ...this.session.dirs], file) && fs.statSync(file).isDirectory(); } catch { /* the tool will say so */ }
    if (folder) return this.list({ path: file });
    const result = await this.tool({ name: 'read_file', title: `Read ${path.basename(file)}`, kind: 'read', file, rawInput: { path: file }, guard: true }, () => {
      let text = hands.readText(file);
      if (to !== null || from > 1) text = text.split('\n').slice(Math.max(1, from) - 1, to === null ? undefined : to).join('\n');
      this.session.lastText = text;
      return { text, whole: text };
    });
    if (result) this.say(result.whole === '' ? `${path.basename(file)} is empty.` : `${path.basename(file)} says:\n${result.whole}`);
    return undefined;
  }

  async list({ path: p }) {
    const folder = hands.absolute(this.session.cwd, p || '.');
    const result = await this.tool({ name: 'list_folder', title: `Look into ${path.basename(folder) || folder}`, kind: 'search', file: folder, rawInput: { path: folder }, guard: true }, () => {
      const names = fs.readdirSync(folder, { withFileTypes: true }).map((e) => e.name + (e.isDirectory() ? '/' : '')).sort();
      return { text: names.join('\n') || 'This folder is empty.' };
    });
    if (result) this.say(`In ${folder}:\n${result.text}`);
  }

  // Writing, appending, changing and deleting.
  async alter(wish) {
    const file = this.place(wish.path);
    if (!file) return this.say('Which file do you mean?');
    const short = path.basename(file);
    const verb = { write: 'Write', append: 'Add to', change: 'Change', delete: 'Delete' }[wish.do];
    const { do: doing, kept, masked, ...rawInput } = { ...wish, path: file };
    const result = await this.tool({ name: wish.do + '_file', title: `${verb} ${short}`, kind: wish.do === 'delete' ? 'delete' : 'edit', file, rawInput, guard: true }, () => {
      if (wish.do === 'delete') { fs.unlinkSync(file); return { text: `${short} is gone.` }; }
      const before = hands.oldText(file);
      let after = /^(?:its|the|that|the same|their) (?:contents?|text)$/i.test(wish.text) && this.session.lastText ? this.session.lastText : wish.text;
      if (wish.do === 'append') {
        const gap = before && !before.endsWith('\n') && wish.line ? '\n' : '';
        after = (before || '') + gap + after + (wish.line ? '\n' : '');
      } else if (wish.do === 'change') {
        if (before === null) throw new Error(`there is no file ${short}`);
        if (!wish.from || !before.includes(wish.from)) throw new Error(`"${wish.from}" is not in ${short}`);
        after = wish.first ? before.replace(wish.from, () => wish.to) : before.split(wish.from).join(wish.to);
      }
      hands.writeText(file, after);
      return { text: `${short} is ${before === null ? 'written' : 'changed'}.`, content: [{ type: 'diff', path: file, oldText: before, newText: after }] };
    });
    if (result) this.say(result.text);
    return undefined;
  }

  async command(command) {
    const s = this.session;
    const result = await this.tool({ name: 'run_command', title: `Run ${command.length > 80 ? command.slice(0, 80).toWellFormed() + '…' : command}`, kind: 'execute', rawInput: { command, cwd: s.cwd }, guard: true }, async () => {
      const r = FAULT === 'close-forgets-child' ? await this.loosely(command) : await hands.run(command, s.cwd, this.signal);
      const ending = r.signal ? `It was ended by ${r.signal}.` : r.code ? `It ended with exit code ${r.code}.` : '';
      const text = [r.output.replace(/\n$/, '') + (r.cut ? '\n(cut off here)' : ''), ending].filter(Boolean).join('\n');
      return { text: text || '(no output)', failed: Boolean(r.code || r.signal), rawOutput: { exitCode: r.code, signal: r.signal, output: r.output } };
    });
    if (result) this.say(result.text);
  }

  // FAULT=close-forgets-child: a close ends the turn, but nobody tells the command.
  loosely(command) {
    const s = this.session;
    const own = new AbortController();
    return new Promise((resolve, reject) => {
      this.signal.addEventListener('abort', () => (s.closing ? reject(new Cancelled()) : own.abort()), { once: true });
      hands.run(command, s.cwd, own.signal).then(resolve, reject);
    });
  }

  // Waits for something that cannot be stopped itself, but no longer than the turn lasts.
  orCancelled(promise) {
    return new Promise((resolve, reject) => {
      const stop = () => reject(new Cancelled());
      this.signal.addEventListener('abort', stop, { once: true });
      promise.then(resolve, reject).finally(() => this.signal.removeEventListener('abort', stop));
    });
  }

  async mcp(wish, context) {
    const s = this.session;
    const fallback = wish.otherwise && !['describe', 'recall', 'chat'].includes(wish.otherwise.do) ? wish.otherwise : null;
    if (!s.hub.names.length) {
      if (fallback && wish.smell !== 'yes') return this.grant(fallback, context);
      return this.say('This session has no MCP servers.');
    }
    const { tools, troubles } = await this.orCancelled(s.hub.connect());
    this.check();
    const hit = pickTool(wish.clause, tools, wish.smell === 'maybe' && fallback);
    const wantsList = wish.smell === 'list' || (/\b(?:list|which|what|show|tell|enumerate|available|connect|start)\b/i.test(wish.clause) && !/\b(?:call|invoke|use|run|execute)\b/i.test(wish.clause));
    if (hit && !wantsList) return this.callTool(hit, toolArgs(wish, hit.tool));
    if (!wantsList && wish.smell === 'maybe' && fallback) return this.grant(fallback, context);
    const lines = tools.map(({ peer, tool }) => `- ${tool.name} (${peer.name})${tool.description ? ': ' + tool.description : ''}`);
    const head = wantsList ? 'My MCP tools:' : 'I found no MCP tool of that name. There are:';
    return this.say([lines.length ? head : 'My MCP servers have no tools.', ...lines, ...troubles.map((t) => 'I could not reach ' + t)].join('\n'));
  }

  async callTool({ peer, tool }, args) {
    const result = await this.tool({ name: tool.name, title: `Use ${tool.name} of ${peer.name}`, kind: 'other', rawInput: args }, async () => {
      const r = await peer.call(tool.name, args, this.signal);
      const parts = Array.isArray(r.content) ? r.content : [];
      const text = parts.map((c) => (c.type === 'text' ? c.text : c.type === 'resource' && c.resource && c.resource.text ? c.resource.text : `(${c.type})`)).join('\n')
        || (r.structuredContent ? JSON.stringify(r.structuredContent) : '');
      return { text: text || '(no answer)', failed: Boolean(r.isError), rawOutput: r };
    });
    if (result) this.say(result.failed ? `${tool.name} failed: ${result.text}` : result.text);
  }
}

module.exports = { Turn, hurry, FAULT };
