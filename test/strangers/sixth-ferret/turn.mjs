// One prompt turn: does what the person asked and tells the client about it.

import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { mkdir, readdir, readFile, stat, unlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { RequestError, methods } from '@agentclientprotocol/sdk';
import { FAULT, configOptions, startServers } from './session.mjs';
import { findPath, plainPath, understand } from './words.mjs';

const LONGEST = 20000;
const SECRET = /\b(?:password|passphrase|passcode|secret|token|api[ -]?key|credentials?|pin)\b/i;
const OPTIONS = {
  allow_once: { optionId: '1', name: 'Go ahead', kind: 'allow_once' },
  allow_always: { optionId: '2', name: 'Go ahead, also next time', kind: 'allow_always' },
  reject_once: { optionId: '3', name: 'Leave it', kind: 'reject_once' },
};
const TALE = [
  'Under the third root of the old beech lived a ferret who kept a list of every noise in the wood. ',
  'The list was long, because the wood was talkative, and short, because the ferret wrote small. ',
  'On Mondays it wrote down the wind, which never sounded the same way twice. ',
  'On Tuesdays it wrote down the owl, who complained about being written down. ',
  'The middle of the week belonged to water: drips, trickles, and one remarkable splash. ',
  'On Fridays nothing was written, so that the pencil could think. ',
  'Visitors came to hear the list read aloud, and went home walking more quietly. ',
  'And whenever a page was full, the ferret turned it over and listened again. ',
];

/** Work that did not succeed; the message is for the person. */
class Trouble extends Error {}

/** The turn was called off. */
class Stopped extends Error {}

/** Waits for a promise, but no longer than the signal allows. */
function unlessStopped(promise, signal) {
  promise.catch(() => {});
  if (signal.aborted) return Promise.reject(new Stopped());
  let onAbort;
  const stopped = new Promise((_, reject) => {
    onAbort = () => reject(new Stopped());
    signal.addEventListener('abort', onAbort, { once: true });
  });
  return Promise.race([promise, stopped]).finally(() => signal.removeEventListener('abort', onAbort));
}

/** Waits a limited time; undefined when it took too long or failed. */
function atMost(promise, milliseconds) {
  return Promise.race([promise.catch(() => undefined), pause(milliseconds)]);
}

const textBlock = (text) => ({ type: 'text', text });
const shown = (text) => ({ type: 'content', content: textBlock(text) });

function realPath(name) {
  for (let head = name, tail = ''; ; ) {
    try {
      return path.join(realpathSync(head), tail);
    } catch {
      if (head === path.dirname(head)) return name;
      tail = path.join(path.basename(head), tail);
      head = path.dirname(head);
    }
  }
}

async function ownText(file) {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw new Trouble(`${file}: ${error.code ?? error.message}`);
  }
}

export class Turn {
  #controller = new AbortController();
  cancelled = false;

  constructor(session, features, client, blocks) {
    this.session = session;
    this.features = features;
    this.client = client;
    this.blocks = blocks;
    this.signal = this.#controller.signal;
    this.text = blocks.filter((block) => block.type === 'text').map((block) => block.text).join('\n').trim();
  }

  stop() {
    this.#controller.abort();
  }

  cancel() {
    this.cancelled = true;
    this.stop();
  }

  update(update) {
    this.client.notify(methods.client.session.update, { sessionId: this.session.id, update }).catch(() => {});
  }

  keep(entry) {
    this.session.entries.push(entry);
    return entry;
  }

  /** Carries out the turn; resolves to the stop reason. */
  async answer() {
    try {
      await this.#perform();
    } catch (error) {
      if (!(error instanceof Stopped) && !this.signal.aborted) throw error;
    }
    if (this.cancelled) return 'cancelled';
    if (this.signal.aborted) throw RequestError.requestCancelled();
    this.#name();
    return 'end_turn';
  }

  #name() {
    const { session } = this;
    if (session.title === undefined && this.text) {
      session.title = this.text.replace(/\s+/g, ' ').slice(0, 48);
      this.update({ sessionUpdate: 'session_info_update', title: session.title, updatedAt: new Date().toISOString() });
    }
  }

  async #perform() {
    const { session } = this;
    this.keep({ is: 'user', blocks: this.blocks });
    await this.#wakeServers();
    if (session.question) {
      const question = session.question;
      session.question = undefined;
      await this.say(`Thank you. My question was “${question}” and your answer is “${this.text}”.`);
      return;
    }
    for (const block of this.blocks) {
      if (block.type === 'resource_link' && block.uri.startsWith('file://')) session.lastPath = plainPath(block.uri);
    }
    const tools = session.servers.flatMap((server) => server.tools);
    const steps = understand(this.text, tools);
    if (!steps.length || (steps[0].path === '' && !session.lastPath)) {
      await this.#talk();
      return;
    }
    for (const step of steps) {
      try {
        await this[step.act](step);
      } catch (error) {
        if (!(error instanceof Trouble)) throw error;
        await this.say(`I could not do that: ${error.message}`);
        return;
      }
    }
  }

  async #wakeServers() {
    const failed = await unlessStopped(startServers(this.session), this.signal);
    for (const { name, trouble } of failed) {
      if (this.features.notices) {
        this.update({ sessionUpdate: 'notice', severity: 'warning', title: `MCP server ${name} is not available`, description: trouble });
      } else {
        await this.say(`The MCP server ${name} is not available: ${trouble}`);
      }
    }
  }

  // Speaking

  async say(text, { kind = 'agent', delay = 0, size = 2 } = {}) {
    const entry = this.keep({ is: kind, text: '' });
    const pieces = text.match(new RegExp(`(?:\\s*\\S+){1,${size}}\\s*|\\s+`, 'g')) ?? [text];
    for (const piece of pieces) {
      if (this.signal.aborted) throw new Stopped();
      entry.text += piece;
      const sessionUpdate = kind === 'agent' ? 'agent_message_chunk' : 'agent_thought_chunk';
      this.update({ sessionUpdate, content: textBlock(piece) });
      if (delay || pieces.length > 20) await unlessStopped(pause(delay), this.signal);
    }
  }

  // Tool calls

  /** Reports a tool call around the work; `ask` names what permission is needed for. */
  async tool(call, work, ask) {
    const id = `${call.name}-${++this.session.calls}`;
    const report = { toolCallId: id, status: 'pending', ...call };
    const entry = this.keep({ is: 'tool', call: report });
    this.update({ sessionUpdate: 'tool_call', ...report });
    const change = (fields) => {
      entry.call = { ...entry.call, ...fields };
      this.update({ sessionUpdate: 'tool_call_update', toolCallId: id, ...fields });
    };
    try {
      if (ask) await this.#permission(report, ask);
      if (this.signal.aborted) throw new Stopped();
      change({ status: 'in_progress' });
      const content = await work(change, id);
      change({ status: 'completed', content });
    } catch (error) {
      if (error instanceof Stopped) {
        if (!error.reported) change({ status: 'failed', content: [shown('Called off.')] });
        throw error;
      }
      change({ status: 'failed', content: error.content ?? [shown(error.message)] });
      throw error instanceof Trouble ? error : new Trouble(error.message);
    }
  }

  async #permission(report, { subject, kinds, preview }) {
    if (this.session.allowed.has(subject)) return;
    const { toolCallId, title, kind, rawInput, locations } = report;
    const asking = this.client.request(methods.client.session.requestPermission, {
      sessionId: this.session.id,
      toolCall: { toolCallId, title, kind, rawInput, locations, ...(preview && { content: preview }) },
      options: kinds.map((name) => OPTIONS[name]),
    });
    let answer;
    try {
      answer = await unlessStopped(asking, this.signal);
    } catch (error) {
      if (error instanceof Stopped) await atMost(asking, 1000);
      throw error;
    }
    const outcome = answer?.outcome;
    if (outcome?.outcome === 'cancelled') {
      this.cancel();
      throw new Stopped();
    }
    const choice = outcome?.outcome === 'selected' ? kinds.map((name) => OPTIONS[name]).find((option) => option.optionId === outcome.optionId) : undefined;
    if (choice?.kind === 'allow_always') this.session.allowed.add(subject);
    if (!choice?.kind.startsWith('allow')) throw new Trouble('you did not allow it.');
  }

  /** The absolute path that is meant, and whether it lies in the session's folder. */
  #place(name) {
    const file = path.resolve(this.session.cwd, name === '' ? this.session.lastPath : name);
    const base = realPath(this.session.cwd);
    const real = realPath(file);
    const inside = real === base || real.startsWith(base.endsWith('/') ? base : `${base}/`);
    return { file, inside };
  }

  // Files

  async read({ path: name }) {
    const { file, inside } = this.#place(name);
    if ((await stat(file).catch(() => undefined))?.isDirectory()) return this.list({ path: file });
    let text = '';
    await this.tool({ name: 'read', kind: 'read', title: `Reading ${file}`, rawInput: { file }, locations: [{ path: file }] }, async () => {
      if (this.features.read) {
        const request = this.client.request(methods.client.fs.readTextFile, { sessionId: this.session.id, path: file });
        text = (await unlessStopped(request, this.signal))?.content ?? '';
      } else {
        text = await ownText(file);
        if (text === undefined) throw new Trouble(`there is no file ${file}.`);
      }
      text = text.slice(0, LONGEST);
      return [shown(text)];
    }, inside ? undefined : { subject: `outside ${file}`, kinds: ['allow_once', 'allow_always', 'reject_once'] });
    this.session.lastPath = file;
    await this.say(text ? `This is in ${path.basename(file)}:\n\n${text}` : `There is nothing in ${path.basename(file)}.`);
  }

  async #put(name, title, makeText) {
    const { file } = this.#place(name);
    const difference = (before, after) => [{ type: 'diff', path: file, oldText: before ?? null, newText: after }];
    const first = await ownText(file);
    const preview = difference(first, makeText(first));
    await this.tool({ name: 'write', kind: 'edit', title: `${title} ${file}`, rawInput: { file }, locations: [{ path: file }] }, async () => {
      const before = await ownText(file);
      const after = makeText(before);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, after);
      return difference(before, after);
    }, { subject: `write ${file}`, kinds: ['allow_once', 'reject_once'], preview });
    this.session.lastPath = file;
    return file;
  }

  async write({ path: name, text }) {
    const file = await this.#put(name, 'Writing', () => text);
    await this.say(`Written to ${file}.`);
  }

  async append({ path: name, text }) {
    const file = await this.#put(name, 'Adding to', (before) => (before && !before.endsWith('\n') ? `${before}\n` : before ?? '') + `${text}\n`);
    await this.say(`Added to ${file}.`);
  }

  async edit({ path: name, old, fresh }) {
    const { file } = this.#place(name);
    const text = await ownText(file);
    if (text === undefined) throw new Trouble(`there is no file ${file}.`);
    if (!text.includes(old)) throw new Trouble(`“${old}” does not occur in ${file}.`);
    await this.#put(name, 'Editing', (before) => (before ?? '').split(old).join(fresh));
    await this.say(`Changed ${file}.`);
  }

  async remove({ path: name }) {
    const { file } = this.#place(name);
    await this.tool({ name: 'remove', kind: 'delete', title: `Removing ${file}`, rawInput: { file }, locations: [{ path: file }] }, async () => {
      await unlink(file);
      return [shown(`${file} is gone.`)];
    }, { subject: `remove ${file}`, kinds: ['allow_once', 'reject_once'] });
    await this.say(`${file} is gone.`);
  }

  async list({ path: name }) {
    const { file, inside } = this.#place(name);
    let names = [];
    await this.tool({ name: 'list', kind: 'search', title: `Looking into ${file}`, rawInput: { file }, locations: [{ path: file }] }, async () => {
      const entries = await readdir(file, { withFileTypes: true });
      names = entries.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name)).sort();
      return [shown(names.join('\n') || '(empty)')];
    }, inside ? undefined : { subject: `outside ${file}`, kinds: ['allow_once', 'allow_always', 'reject_once'] });
    await this.say(names.length ? `${file} holds ${names.length} things: ${names.join(', ')}` : `${file} is empty.`);
  }

  // Commands

  async command(step) {
    const result = {};
    const call = { name: 'run', kind: 'execute', title: step.command, rawInput: { command: step.command } };
    const ask = { subject: `run ${step.command}`, kinds: ['allow_once', 'allow_always', 'reject_once'] };
    await this.tool(call, async (change) => {
      const content = this.features.terminal ? await this.#clientTerminal(step, change, result) : await this.#ownProcess(step, result);
      const late = result.timedOut ? ` after ${step.limit} seconds` : '';
      if (result.code !== 0) {
        const how = result.code === null || result.code === undefined ? `was stopped${late}` : `ended with exit code ${result.code}`;
        const error = new Trouble(`the command ${how}.${result.output ? `\n${result.output}` : ''}`);
        error.content = content;
        throw error;
      }
      return content;
    }, ask);
    await this.say(result.output ? `The output is:\n\n${result.output}` : 'The command is done; it printed nothing.');
  }

  async #clientTerminal({ command, limit }, change, result) {
    const { client, signal } = this;
    const { create, waitForExit, output, kill, release } = methods.client.terminal;
    const sessionId = this.session.id;
    const creating = client.request(create, {
      sessionId, command: '/bin/sh', args: ['-c', command], cwd: this.session.cwd, outputByteLimit: LONGEST,
    });
    let terminalId;
    try {
      ({ terminalId } = await unlessStopped(creating, signal));
    } catch (error) {
      if (error instanceof Stopped) {
        const letGo = creating.then((made) => client.request(release, { sessionId, terminalId: made.terminalId }));
        await atMost(letGo, 1500);
      }
      throw error;
    }
    const target = { sessionId, terminalId };
    const content = [{ type: 'terminal', terminalId }];
    change({ content });
    const wrapUp = async (stopped) => {
      if (stopped) await atMost(client.request(kill, target), 1500);
      const last = await atMost(client.request(output, target), 1500);
      result.output = last?.output ?? '';
      result.code = last?.exitStatus?.exitCode;
      change({ ...(stopped === 'cancel' && { status: 'failed' }), content, rawOutput: { output: result.output } });
      await atMost(client.request(release, target), 1500);
    };
    const time = new AbortController();
    const timer = limit === undefined ? undefined : setTimeout(() => time.abort(), limit * 1000);
    try {
      const ended = await unlessStopped(client.request(waitForExit, target), AbortSignal.any([signal, time.signal]));
      await wrapUp();
      result.code = ended?.exitCode;
    } catch (error) {
      if (!(error instanceof Stopped)) {
        await wrapUp('error');
        throw error;
      }
      if (!signal.aborted) {
        await wrapUp('time');
        result.code = null;
        result.timedOut = true;
      } else {
        error.reported = true;
        const ending = wrapUp('cancel');
        if (FAULT !== 'late-curtain') await ending;
        throw error;
      }
    } finally {
      clearTimeout(timer);
    }
    return content;
  }

  async #ownProcess({ command, limit }, result) {
    const child = spawn('/bin/sh', ['-c', command], { cwd: this.session.cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const children = this.session.children;
    children.add(child);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (data) => (output = (output + data).slice(-LONGEST)));
    }
    const endAll = () => {
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // already gone
      }
    };
    const ended = new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => resolve(code));
      child.on('exit', (code) => setTimeout(resolve, 300, code));
    });
    ended.catch(() => {});
    const timer = limit === undefined ? undefined : setTimeout(() => {
      result.timedOut = true;
      endAll();
    }, limit * 1000);
    try {
      result.code = await unlessStopped(ended, this.signal);
      result.output = output;
    } finally {
      clearTimeout(timer);
      if (child.pid) endAll();
      children.delete(child);
    }
    return [shown(output || '(no output)'), ...(result.code === 0 ? [] : [shown(`exit code ${result.code}`)])];
  }

  // MCP

  async useTool({ tool, values }) {
    let text = '';
    await this.tool({ name: tool.name, kind: 'other', title: `${tool.server.name}: ${tool.name}`, rawInput: values }, async () => {
      const answer = await unlessStopped(tool.server.call(tool.name, values, this.signal), this.signal);
      if (answer.failed) throw new Trouble(answer.text || 'the tool failed.');
      text = answer.text;
      return [shown(text || '(empty)')];
    }, { subject: `tool ${tool.server.name}/${tool.name}`, kinds: ['allow_once', 'allow_always', 'reject_once'] });
    await this.say(`The tool ${tool.name} says:\n\n${text || '(nothing)'}`);
  }

  async tools() {
    const names = this.session.servers.flatMap((server) => server.tools.map((tool) => `${tool.name} (${server.name})`));
    await this.say(names.length ? `I can use these tools: ${names.join(', ')}` : 'There are no tools in this session.');
  }

  // Talk

  async plan() {
    const steps = ['Find out what matters', 'Put it in order', 'Go through it'];
    const entry = this.keep({ is: 'plan', entries: [] });
    for (let done = 0; done <= steps.length; done++) {
      entry.entries = steps.map((content, index) => ({
        content,
        priority: index === 0 ? 'high' : 'medium',
        status: index < done ? 'completed' : index === done ? 'in_progress' : 'pending',
      }));
      this.update({ sessionUpdate: 'plan', entries: entry.entries });
      await unlessStopped(pause(120), this.signal);
    }
    await this.say('That was the plan, and it is carried out.');
  }

  async think({ text }) {
    await this.say(`Hm. ${text} Which side of it is worth a second look?`, { kind: 'thought', delay: 5 });
    await this.say('I thought it through: start with the part you like least.');
  }

  async story({ text }) {
    const rounds = /\b(?:very|really|extremely)\s+long\b|\blongest\b/i.test(text) ? 4 : this.session.values.whisper ? 1 : 2;
    await this.say(TALE.join('').repeat(rounds), { delay: 35 });
  }

  async wait({ seconds }) {
    await this.say('Waiting. ');
    await unlessStopped(pause(seconds * 1000), this.signal);
    await this.say('Done waiting.');
  }

  async quote({ text }) {
    await this.say(text);
  }

  async remember() {
    await this.say('I have noted that.');
  }

  #earlier() {
    const said = this.session.entries.filter((entry) => entry.is === 'user').slice(0, -1);
    return said.map((entry) => entry.blocks.map((block) => block.text ?? '').join(' ').trim()).filter(Boolean);
  }

  async recall() {
    const said = this.#earlier();
    const noted = said.filter((text) => /\bremember\b|\bmy \w+ is\b/i.test(text) && !text.endsWith('?'));
    const lines = noted.length ? noted : said.slice(-3);
    await this.say(lines.length ? `You said: ${lines.join(' / ')}` : 'You have not told me yet.');
  }

  async burrow() {
    await this.say(`My burrow is ${this.session.cwd}.`);
  }

  async tally() {
    await this.say(`You have asked me ${this.#earlier().length + 1} times, and I used ${this.session.calls} tools.`);
  }

  async brain({ text }) {
    const chosen = ['quick', 'patient', 'dreamy'].find((name) => text.includes(name));
    if (!chosen) throw new Trouble('I have the models quick, patient and dreamy.');
    this.session.values.brain = chosen;
    this.update({ sessionUpdate: 'config_option_update', configOptions: configOptions(this.session, this.features) });
    await this.say(`My model is now ${chosen}.`);
  }

  async ask({ text }) {
    if (SECRET.test(text)) {
      await this.say('That would be a secret, and I do not ask for secrets.');
      return;
    }
    const topic = text.replace(/^[\s\S]*?\b(?:ask (?:me|the user|us)|elicit\w*)\b\s*(?:(?:for|about|a question)\b)?\s*[:,]?\s*/i, '').replace(/^["']|[\s.?"']+$/g, '');
    const message = `${topic || 'What shall it be'}?`;
    if (!this.features.form) {
      this.session.question = message;
      await this.say(`${message} Just write the answer as your next message.`);
      return;
    }
    const list = /\b(?:between|from|among|one of)\s+(.+)$/i.exec(topic);
    const names = list ? [...new Set(list[1].split(/,|\bor\b|\band\b/).map((name) => name.trim()).filter(Boolean))] : [];
    const field = names.length > 1 ? { type: 'string', title: 'Choice', enum: names }
      : /\b(?:number|how (?:many|much|old)|age|amount)\b/i.test(topic) ? { type: 'integer', title: 'Number', minimum: 0, maximum: 1000 }
        : { type: 'string', title: 'Answer', minLength: 1, maxLength: 200 };
    const fits = (value) => (field.enum ? field.enum.includes(value)
      : field.type === 'integer' ? Number.isInteger(value) && value >= 0 && value <= 1000
        : typeof value === 'string' && value.length >= 1 && value.length <= 200);
    let answer;
    try {
      answer = await this.client.request(methods.client.elicitation.create, {
        sessionId: this.session.id, mode: 'form', message,
        requestedSchema: { type: 'object', properties: { answer: field }, required: ['answer'] },
      }, { cancellationSignal: this.signal, stopWaitingOnCancel: true });
    } catch (error) {
      if (this.signal.aborted) throw new Stopped();
      await this.say(`The question did not reach you: ${error.message}`);
      return;
    }
    if (answer?.action === 'accept') {
      const value = answer.content?.answer;
      await this.say(fits(value) ? `Your answer is ${value}.` : 'That is no possible answer, so I do not use it.');
    } else if (answer?.action === 'decline') {
      await this.say('You keep the answer to yourself, and I respect that.');
    } else if (answer?.action === 'cancel') {
      await this.say('You put the question away. Then I go on without it.');
    } else {
      await this.say('I do not know what happened to my question.');
    }
  }

  /** No work was asked for: look at what came along, or answer politely. */
  async #talk() {
    const links = this.blocks.filter((block) => block.type === 'resource_link');
    for (const link of links) {
      if (link.uri.startsWith('file://')) {
        try {
          await this.read({ path: plainPath(link.uri) });
        } catch (error) {
          if (!(error instanceof Trouble)) throw error;
          await this.say(`${link.name} stays closed: ${error.message}`);
        }
      } else {
        await this.say(`I see the link ${link.name}, ${link.uri}.`);
      }
    }
    for (const block of this.blocks) {
      if (block.type === 'audio') await this.say(`I hear a sound of type ${block.mimeType}.`);
    }
    if (this.blocks.every((block) => block.type === 'text')) {
      const place = findPath(this.text);
      const about = place ? ` It seems to be about ${place.path}.` : '';
      await this.say(this.text ? `Noted: ${this.text.slice(0, 300)}.${about}` : 'Nothing was said.');
    }
  }
}
