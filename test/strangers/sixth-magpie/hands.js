'use strict';
// Everything the agent does outside of its own head, always after asking.
const fs = require('node:fs/promises');
const path = require('node:path');
const { spawn } = require('node:child_process');

const FAULT = process.env.FAULT ?? '';
const LIMIT = 64 * 1024;
const LONGEST = 180000;
const BUILT_IN = new Set('exit cd export source . set unset ulimit umask trap eval exec read wait type alias command return shift : ['.split(' '));

class Stopped extends Error {}
class Refused extends Error {}

const OPTIONS = [
  { optionId: 'not-this', name: 'No', kind: 'reject_once' },
  { optionId: 'just-now', name: 'Yes, this once', kind: 'allow_once' },
  { optionId: 'from-now-on', name: 'Yes, and do not ask again for this kind', kind: 'allow_always' },
];

function orStop(signal, promise) {
  if (signal.aborted) return Promise.reject(new Stopped());
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Stopped());
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

function pause(signal, ms) {
  let timer;
  return orStop(signal, new Promise((resolve) => { timer = setTimeout(resolve, ms); })).finally(() => clearTimeout(timer));
}

function block(text) {
  return { type: 'content', content: { type: 'text', text } };
}

class Hands {
  constructor(wire, client, session, signal, update) {
    Object.assign(this, { wire, client, session, signal, update });
  }

  toClient(method, params) {
    if (this.signal.aborted) return Promise.reject(new Stopped());
    return orStop(this.signal, this.wire.request(method, { sessionId: this.session.id, ...params }));
  }

  // One tool call from its announcement to its end.
  async work({ name, title, kind, input, locations, content, permission, strict }, deed) {
    const toolCallId = this.session.nextCall();
    const call = { toolCallId, title, kind, rawInput: input };
    if (locations) call.locations = locations;
    if (content) call.content = content;
    this.update({ sessionUpdate: 'tool_call', ...call, name, status: 'pending' });
    const change = (fields) => this.update({ sessionUpdate: 'tool_call_update', toolCallId, ...fields });
    try {
      if (permission !== false) await this.permit(call, name, strict);
      change({ status: 'in_progress' });
      const result = await deed(change, toolCallId);
      change({ status: result.failed ? 'failed' : 'completed', ...(result.content ? { content: result.content } : {}), ...(result.raw === undefined ? {} : { rawOutput: result.raw }) });
      return result;
    } catch (error) {
      if (error instanceof Stopped) {
        change({ status: 'failed' });
        throw error;
      }
      const why = error instanceof Refused ? 'You did not allow it.' : error.message;
      change({ status: 'failed', content: [block(why)] });
      return { failed: true, refused: error instanceof Refused, text: why };
    }
  }

  async permit(call, name, strict) {
    if (!strict && this.session.allowed.has(name)) return;
    let reply;
    try {
      reply = await this.toClient('session/request_permission', { toolCall: { ...call, status: 'pending' }, options: OPTIONS });
    } catch (error) {
      if (error instanceof Stopped) throw error;
      throw new Refused();
    }
    const outcome = reply?.outcome;
    if (outcome?.outcome === 'cancelled') throw new Stopped();
    if (outcome?.outcome !== 'selected') throw new Refused();
    if (outcome.optionId === 'from-now-on') {
      if (!strict) this.session.allowed.add(name);
      return;
    }
    if (outcome.optionId !== 'just-now') throw new Refused();
  }

  async load(file, { line, limit } = {}) {
    if (this.client.read) {
      const ask = { path: file };
      if (line !== undefined) ask.line = line;
      if (limit !== undefined) ask.limit = limit;
      const reply = await this.toClient('fs/read_text_file', ask);
      return String(reply?.content ?? '');
    }
    const text = await fs.readFile(file, 'utf8');
    if (line === undefined && limit === undefined) return text;
    const first = (line ?? 1) - 1;
    return text.split('\n').slice(first, limit === undefined ? undefined : first + limit).join('\n');
  }

  // What the file holds now, or null when there is none yet.
  async present(file) {
    try {
      return await this.load(file);
    } catch (error) {
      if (error instanceof Stopped) throw error;
      return fs.readFile(file, 'utf8').catch(() => null);
    }
  }

  read(file, part) {
    const where = { path: file };
    if (part.line !== undefined) where.line = part.line;
    return this.work({
      name: 'read_file', title: `Read ${path.basename(file)}`, kind: 'read', input: { path: file, ...part },
      locations: [where], strict: !this.session.within(file),
    }, async () => {
      const text = await this.load(file, part);
      return { text, content: [block(text)] };
    });
  }

  async write(file, make) {
    const before = await this.present(file);
    const after = make(before);
    if (after === null) return { failed: true, text: `I found nothing to change in ${file}.` };
    const diff = { type: 'diff', path: file, newText: after };
    if (before !== null) {
      diff.oldText = FAULT === 'stale-feather' ? this.session.seen.get(file) ?? before : before;
    }
    return this.work({
      name: before === null ? 'create_file' : 'edit_file', kind: 'edit',
      title: `${before === null ? 'Create' : 'Edit'} ${path.basename(file)}`,
      input: { path: file, content: after }, locations: [{ path: file }], content: [diff],
      strict: !this.session.within(file),
    }, async () => {
      if (this.client.write) {
        await this.toClient('fs/write_text_file', { path: file, content: after });
      } else {
        await fs.mkdir(path.dirname(file), { recursive: true });
        await fs.writeFile(file, after);
      }
      if (FAULT === 'stale-feather') this.session.seen.set(file, after);
      return { text: after, content: [diff] };
    });
  }

  remove(file) {
    return this.work({
      name: 'delete_file', title: `Delete ${path.basename(file)}`, kind: 'delete', input: { path: file },
      locations: [{ path: file }], strict: true,
    }, async () => {
      await fs.unlink(file);
      return { text: `${file} is gone.` };
    });
  }

  look(folder) {
    return this.work({
      name: 'list_folder', title: `Look around in ${path.basename(folder) || folder}`, kind: 'search',
      input: { path: folder }, locations: [{ path: folder }], permission: !this.session.within(folder), strict: true,
    }, async () => {
      const entries = await fs.readdir(folder, { withFileTypes: true });
      const names = entries.map((entry) => entry.name + (entry.isDirectory() ? '/' : '')).sort();
      const text = names.join('\n') || '(nothing)';
      return { text, content: [block(text)] };
    });
  }

  run(command) {
    return this.work({
      name: 'run_command', title: command, kind: 'execute', input: { command, cwd: this.session.cwd },
    }, (change) => (this.client.terminal ? this.byTerminal(command, change) : this.byProcess(command)));
  }

  async byTerminal(command, change) {
    const simple = /^[\w./@%+,:=-]+(?: +[\w./@%+,:=-]+)*$/.test(command) && !/^\w+=/.test(command);
    const words = simple && !BUILT_IN.has(command.split(' ')[0]) ? command.split(/ +/) : ['/bin/sh', '-c', command];
    const base = { sessionId: this.session.id };
    if (this.signal.aborted) throw new Stopped();
    const made = await this.wire.request('terminal/create', {
      ...base, command: words[0], args: words.slice(1), cwd: this.session.cwd, outputByteLimit: LIMIT,
    });
    const at = { ...base, terminalId: made.terminalId };
    const content = [{ type: 'terminal', terminalId: made.terminalId }];
    let over = false;
    let timer;
    try {
      change({ content });
      if (this.signal.aborted) throw new Stopped();
      const late = new Promise((resolve) => { timer = setTimeout(() => resolve('late'), LONGEST); });
      const end = await orStop(this.signal, Promise.race([this.wire.request('terminal/wait_for_exit', at), late]));
      over = end !== 'late';
      if (!over) await this.wire.request('terminal/kill', at).catch(() => {});
      if (this.signal.aborted) throw new Stopped();
      const shown = await orStop(this.signal, this.wire.request('terminal/output', at));
      const code = over ? end?.exitCode ?? null : null;
      const failed = code !== 0;
      return { failed, code, text: String(shown?.output ?? ''), raw: { exitCode: code } };
    } finally {
      clearTimeout(timer);
      if (!over && this.signal.aborted) await this.wire.request('terminal/kill', at).catch(() => {});
      await this.wire.request('terminal/release', at).catch(() => {});
    }
  }

  async byProcess(command) {
    const child = spawn('/bin/sh', ['-c', command], { cwd: this.session.cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const parts = [];
    child.stdout.on('data', (data) => parts.push(data));
    child.stderr.on('data', (data) => parts.push(data));
    const kill = () => {
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch { /* it is over already */ }
    };
    const done = new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    process.once('exit', kill);
    const timer = setTimeout(kill, LONGEST);
    try {
      const code = await orStop(this.signal, done);
      const text = Buffer.concat(parts).subarray(-LIMIT).toString('utf8');
      return { failed: code !== 0, code, text, content: [block(text || '(no output)')], raw: { exitCode: code } };
    } finally {
      clearTimeout(timer);
      process.removeListener('exit', kill);
      kill();
    }
  }

  useTool(server, tool, input) {
    return this.work({
      name: tool.name, title: `${server.name}: ${tool.name}`, kind: 'other', input,
    }, async () => {
      const reply = await orStop(this.signal, server.call(tool, input, this.signal));
      const blocks = Array.isArray(reply?.content) ? reply.content : [];
      const text = blocks.map((one) => (one.type === 'text' ? one.text : `[${one.type}]`)).join('\n');
      return { failed: reply?.isError === true, text, content: [block(text || '(no result)')] };
    });
  }
}

module.exports = { Hands, Stopped, Refused, orStop, pause };
