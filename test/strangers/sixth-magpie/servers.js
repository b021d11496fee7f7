'use strict';
// Talks to the MCP servers of a session, over stdio or streamable HTTP.
const { spawn } = require('node:child_process');
const { isObject } = require('./wire');

const HELLO = {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'sixth-magpie', version: '0.6.0' },
};
const PATIENCE = 15000;
const running = new Set();

class Pipe {
  constructor(setup, cwd) {
    const env = { ...process.env };
    for (const { name, value } of setup.env) env[name] = value;
    this.waiting = new Map();
    this.count = 0;
    this.buffer = '';
    this.child = spawn(setup.command, setup.args, { cwd, env, stdio: ['pipe', 'pipe', 'ignore'] });
    running.add(this.child);
    this.child.stdout.setEncoding('utf8');
    this.child.stdout.on('data', (data) => this.take(data));
    this.child.stdin.on('error', () => {});
    this.child.on('error', (error) => this.lost(error));
    this.child.on('exit', () => this.lost(new Error('the server has ended')));
  }

  lost(error) {
    running.delete(this.child);
    this.gone = error;
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }

  take(data) {
    this.buffer += data;
    const lines = this.buffer.split('\n');
    this.buffer = lines.pop();
    for (const line of lines) {
      let message;
      try {
        message = JSON.parse(line);
      } catch {
        continue;
      }
      if (!isObject(message)) continue;
      if (message.method !== undefined) {
        if (message.id === undefined) continue;
        if (message.method === 'ping') this.write({ jsonrpc: '2.0', id: message.id, result: {} });
        else this.write({ jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'Not offered' } });
        continue;
      }
      const waiter = this.waiting.get(message.id);
      if (!waiter) continue;
      this.waiting.delete(message.id);
      if (message.error) waiter.reject(new Error(message.error.message ?? 'the server refused'));
      else waiter.resolve(message.result);
    }
  }

  write(message) {
    if (!this.gone) this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  request(method, params, signal) {
    if (this.gone) return Promise.reject(this.gone);
    this.count += 1;
    const id = this.count;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.write({ jsonrpc: '2.0', id, method, params });
      signal?.addEventListener('abort', () => {
        if (!this.waiting.delete(id)) return;
        this.notify('notifications/cancelled', { requestId: id, reason: 'the person stopped the turn' });
        reject(signal.reason);
      }, { once: true });
    });
  }

  notify(method, params) {
    this.write({ jsonrpc: '2.0', method, params });
  }

  stop() {
    const { child } = this;
    this.lost(new Error('the server was stopped'));
    child.stdin.end();
    child.kill('SIGTERM');
    setTimeout(() => child.kill('SIGKILL'), 1500).unref();
  }
}

class Web {
  constructor(setup) {
    this.url = setup.url;
    this.headers = {};
    for (const { name, value } of setup.headers) this.headers[name] = value;
    this.count = 0;
    this.life = new AbortController();
  }

  async post(message, signal) {
    const headers = { ...this.headers, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    if (this.session) headers['Mcp-Session-Id'] = this.session;
    if (this.version) headers['MCP-Protocol-Version'] = this.version;
    const signals = [this.life.signal, ...(signal ? [signal] : [])];
    const reply = await fetch(this.url, {
      method: 'POST', headers, body: JSON.stringify(message), signal: AbortSignal.any(signals),
    });
    const session = reply.headers.get('mcp-session-id');
    if (session) this.session = session;
    if (!reply.ok) throw new Error(`the server answered with HTTP ${reply.status}`);
    return reply;
  }

  async request(method, params, signal) {
    this.count += 1;
    const id = this.count;
    const reply = await this.post({ jsonrpc: '2.0', id, method, params }, signal);
    const message = (reply.headers.get('content-type') ?? '').includes('text/event-stream')
      ? await this.event(reply, id)
      : await reply.json();
    if (!isObject(message)) throw new Error('the server gave no answer');
    if (message.error) throw new Error(message.error.message ?? 'the server refused');
    if (method === 'initialize') this.version = message.result?.protocolVersion;
    return message.result;
  }

  async event(reply, id) {
    let buffer = '';
    const decoder = new TextDecoder();
    for await (const part of reply.body) {
      buffer += decoder.decode(part, { stream: true }).replace(/\r/g, '');
      let end;
      while ((end = buffer.indexOf('\n\n')) >= 0) {
        const data = buffer.slice(0, end).split('\n').filter((line) => line.startsWith('data:'))
          .map((line) => line.slice(5).trimStart()).join('\n');
        buffer = buffer.slice(end + 2);
        if (!data) continue;
        const message = JSON.parse(data);
        if (message.id === id && message.method === undefined) return message;
      }
    }
    return null;
  }

  notify(method, params) {
    return this.post({ jsonrpc: '2.0', method, params }).then((reply) => reply.body?.cancel()).catch(() => {});
  }

  stop() {
    this.life.abort();
    if (!this.session) return;
    const headers = { ...this.headers, 'Mcp-Session-Id': this.session };
    fetch(this.url, { method: 'DELETE', headers, signal: AbortSignal.timeout(2000) }).catch(() => {});
  }
}

class Server {
  constructor(setup, cwd) {
    this.name = setup.name;
    this.tools = [];
    this.trouble = null;
    this.ready = this.start(setup, cwd).catch((error) => { this.trouble = error; });
  }

  async start(setup, cwd) {
    this.line = setup.type === 'http' ? new Web(setup) : new Pipe(setup, cwd);
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('the server did not answer in time')), PATIENCE);
    });
    try {
      await Promise.race([this.greet(), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async greet() {
    const welcome = await this.line.request('initialize', HELLO);
    await this.line.notify('notifications/initialized', {});
    if (welcome?.capabilities && !welcome.capabilities.tools) return;
    let cursor;
    do {
      const page = await this.line.request('tools/list', cursor ? { cursor } : {});
      this.tools.push(...(page?.tools ?? []));
      cursor = page?.nextCursor;
    } while (cursor);
  }

  call(tool, input, signal) {
    return this.line.request('tools/call', { name: tool.name, arguments: input }, signal);
  }

  stop() {
    this.line?.stop();
  }
}

// Whatever is still alive when this process ends must go with it.
function endAll() {
  for (const child of running) child.kill('SIGKILL');
}

module.exports = { Server, endAll };
