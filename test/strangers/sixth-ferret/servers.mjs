// MCP servers of a session: child processes and streamable HTTP.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const VERSION = '2025-06-18';
const HELLO = {
  protocolVersion: VERSION,
  capabilities: {},
  clientInfo: { name: 'sixth-ferret', version: '1.0.0' },
};

function within(promise, milliseconds) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

class ChildLink {
  #child;
  #waiting = new Map();
  #last = 0;
  #gone = false;

  constructor(setup, cwd) {
    const env = { ...process.env };
    for (const { name, value } of setup.env) env[name] = value;
    this.#child = spawn(setup.command, setup.args, { env, cwd, detached: true, stdio: ['pipe', 'pipe', 'ignore'] });
    this.#child.on('error', (error) => this.#fail(error));
    this.#child.on('exit', () => this.#fail(new Error('the server ended')));
    this.#child.stdin.on('error', () => {});
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#take(line));
  }

  #fail(error) {
    this.#gone = true;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #send(message) {
    this.#child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  #take(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return;
    }
    if (message?.method !== undefined) {
      if (message.id === undefined || message.id === null) return;
      if (message.method === 'ping') this.#send({ id: message.id, result: {} });
      else this.#send({ id: message.id, error: { code: -32601, message: 'Not offered by this client' } });
      return;
    }
    const waiting = this.#waiting.get(message?.id);
    this.#waiting.delete(message?.id);
    if (message?.error) waiting?.reject(new Error(message.error.message));
    else waiting?.resolve(message?.result ?? {});
  }

  request(method, params, signal) {
    if (this.#gone) return Promise.reject(new Error('the server is gone'));
    const id = ++this.#last;
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    signal?.addEventListener('abort', () => {
      if (this.#waiting.has(id)) this.notify('notifications/cancelled', { requestId: id });
    }, { once: true });
    this.#send({ id, method, params });
    return answer;
  }

  notify(method, params) {
    this.#send({ method, params });
  }

  async stop() {
    if (!this.#child.pid) return;
    this.#child.stdin.end();
    for (const signal of ['SIGTERM', 'SIGKILL']) {
      if (!this.#gone) await within(new Promise((resolve) => this.#child.once('exit', resolve)), 400).catch(() => {});
      try {
        process.kill(-this.#child.pid, signal);
      } catch {
        return;
      }
    }
  }
}

class HttpLink {
  #setup;
  #session;
  #last = 0;

  constructor(setup) {
    this.#setup = setup;
  }

  #headers() {
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    for (const { name, value } of this.#setup.headers) headers[name] = value;
    if (this.#session) headers['mcp-session-id'] = this.#session;
    if (this.#last > 1) headers['mcp-protocol-version'] = VERSION;
    return headers;
  }

  #post(message, signal) {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    return fetch(this.#setup.url, { method: 'POST', headers: this.#headers(), body, signal });
  }

  async request(method, params, signal) {
    const id = ++this.#last;
    const response = await this.#post({ id, method, params }, signal);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    this.#session ??= response.headers.get('mcp-session-id') ?? undefined;
    const stream = (response.headers.get('content-type') ?? '').includes('text/event-stream');
    const message = stream ? await this.#fromEvents(response, id) : await response.json();
    if (message.error) throw new Error(message.error.message);
    return message.result ?? {};
  }

  async #fromEvents(response, id) {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of response.body) {
      text += decoder.decode(chunk, { stream: true });
      const events = text.split(/\r?\n\r?\n/);
      text = events.pop();
      for (const event of events) {
        const data = event.split(/\r?\n/).filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trim());
        if (!data.length) continue;
        const message = JSON.parse(data.join('\n'));
        if (message.id === id && message.method === undefined) return message;
      }
    }
    throw new Error('the stream ended without an answer');
  }

  async notify(method, params) {
    this.#last = Math.max(this.#last, 2);
    await (await this.#post({ method, params })).arrayBuffer();
  }

  async stop() {
    if (!this.#session) return;
    const signal = AbortSignal.timeout(500);
    await fetch(this.#setup.url, { method: 'DELETE', headers: this.#headers(), signal }).catch(() => {});
  }
}

export class Server {
  tools = [];
  #link;

  constructor(setup, cwd) {
    this.name = setup.name;
    this.setup = setup;
    this.cwd = cwd;
  }

  /** Connect and learn the tools; on failure the reason is kept in `trouble`. */
  async start() {
    try {
      this.#link = this.setup.type === 'http' ? new HttpLink(this.setup) : new ChildLink(this.setup, this.cwd);
      await within(this.#greet(), 6000);
    } catch (error) {
      this.trouble = error.message;
      await this.stop();
    }
  }

  async #greet() {
    await this.#link.request('initialize', HELLO);
    await this.#link.notify('notifications/initialized', undefined);
    let cursor;
    do {
      const page = await this.#link.request('tools/list', cursor ? { cursor } : {});
      for (const tool of page.tools ?? []) this.tools.push({ ...tool, server: this });
      cursor = page.nextCursor;
    } while (cursor);
  }

  async call(name, values, signal) {
    const result = await this.#link.request('tools/call', { name, arguments: values }, signal);
    const parts = (result.content ?? []).map((item) => (item.type === 'text' ? item.text : `(${item.type})`));
    if (!parts.length && result.structuredContent) parts.push(JSON.stringify(result.structuredContent));
    return { text: parts.join('\n'), failed: Boolean(result.isError) };
  }

  async stop() {
    await this.#link?.stop();
  }
}
