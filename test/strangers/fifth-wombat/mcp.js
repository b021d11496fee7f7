'use strict';
// A small MCP client for stdio and streamable HTTP servers. A hub holds the servers of one session and starts them on first use.
const { spawn } = require('child_process');
const { Cancelled } = require('./wire');

const VERSION = '2025-06-18';
const INFO = { name: 'fifth-wombat', version: '1.0.0' };
const START_MS = 10000;
const CALL_MS = 120000;

// Common to both kinds: numbered requests and what a server may ask of us.
class Peer {
  constructor(spec) {
    this.spec = spec;
    this.name = spec.name;
    this.next = 1;
    this.waiting = new Map();
    this.tools = [];
    this.dead = null;
  }

  arrived(msg) {
    if (Array.isArray(msg)) return msg.forEach((m) => this.arrived(m));
    if (!msg || typeof msg !== 'object') return undefined;
    if (msg.method !== undefined) {
      if (msg.id === undefined) return undefined;
      const answer = msg.method === 'ping' ? { result: {} } : { error: { code: -32601, message: 'Not supported here' } };
      Promise.resolve(this.post({ jsonrpc: '2.0', id: msg.id, ...answer })).catch(() => {});
      return undefined;
    }
    const w = this.waiting.get(msg.id);
    if (!w) return undefined;
    this.waiting.delete(msg.id);
    if (msg.error) w.reject(new Error(msg.error.message || 'MCP error'));
    else w.resolve(msg.result || {});
    return undefined;
  }

  died(why) {
    this.dead = this.dead || why;
    for (const w of this.waiting.values()) w.reject(new Error(why));
    this.waiting.clear();
  }

  request(method, params, ms, signal) {
    if (this.dead) return Promise.reject(new Error(this.dead));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      const drop = (error, reason) => {
        if (!this.waiting.delete(id)) return;
        if (method !== 'initialize') this.notify('notifications/cancelled', { requestId: id, reason });
        clean();
        reject(error);
      };
      const timer = setTimeout(() => drop(new Error('the MCP server did not answer in time'), 'timeout'), ms);
      const abort = () => drop(new Cancelled(), 'cancelled');
      const clean = () => {
        clearTimeout(timer);
        if (signal) signal.removeEventListener('abort', abort);
      };
      this.waiting.set(id, {
        resolve: (v) => { clean(); resolve(v); },
        reject: (e) => { clean(); reject(e); },
      });
      if (signal) {
        if (signal.aborted) return abort();
        signal.addEventListener('abort', abort, { once: true });
      }
      Promise.resolve(this.post({ jsonrpc: '2.0', id, method, params })).catch((e) => {
        const w = this.waiting.get(id);
        this.waiting.delete(id);
        if (w) w.reject(e);
      });
      return undefined;
    });
  }

  notify(method, params) {
    return Promise.resolve(this.post({ jsonrpc: '2.0', method, ...(params ? { params } : {}) })).catch(() => {});
  }

  async start() {
    await this.open();
    const hello = await this.request('initialize', { protocolVersion: VERSION, capabilities: {}, clientInfo: INFO }, START_MS);
    this.version = hello.protocolVersion || VERSION;
    await this.notify('notifications/initialized');
    let cursor;
    for (let page = 0; page < 50; page++) {
      const answer = await this.request('tools/list', cursor ? { cursor } : {}, START_MS);
      this.tools.push(...(answer.tools || []));
      cursor = answer.nextCursor;
      if (!cursor) break;
    }
  }

  call(tool, args, signal) {
    return this.request('tools/call', { name: tool, arguments: args }, CALL_MS, signal);
  }
}

class StdioPeer extends Peer {
  async open() {
    const env = { ...process.env };
    for (const { name, value } of this.spec.env || []) env[name] = value;
    const child = spawn(this.spec.command, this.spec.args || [], { cwd: this.spec.cwd, env, stdio: ['pipe', 'pipe', 'ignore'] });
    this.child = child;
    this.gone = new Promise((resolve) => {
      child.on('exit', () => { this.died('the MCP server has ended'); resolve(); });
      child.on('error', (e) => { this.died('the MCP server could not be started: ' + e.message); resolve(); });
    });
    child.stdin.on('error', () => {});
    let rest = '';
    child.stdout.setEncoding('utf8');
    child.stdout.on('data', (text) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        let msg;
        try { msg = JSON.parse(line); } catch { continue; }
        this.arrived(msg);
      }
    });
  }

  post(msg) {
    if (!this.dead) this.child.stdin.write(JSON.stringify(msg) + '\n');
  }

  async close() {
    if (!this.child) return;
    this.died('the session was closed');
    this.child.stdin.end();
    this.child.kill('SIGTERM');
    const hard = setTimeout(() => this.child.kill('SIGKILL'), 400);
    await this.gone;
    clearTimeout(hard);
  }

  kill() {
    if (this.child) this.child.kill('SIGKILL');
  }
}

class HttpPeer extends Peer {
  async open() { this.aborter = new AbortController(); }

  headers() {
    const h = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    for (const { name, value } of this.spec.headers || []) h[name.toLowerCase()] = value;
    if (this.session) h['mcp-session-id'] = this.session;
    if (this.version) h['mcp-protocol-version'] = this.version;
    return h;
  }

  async post(msg) {
    const res = await fetch(this.spec.url, { method: 'POST', headers: this.headers(), body: JSON.stringify(msg), signal: this.aborter.signal });
    const session = res.headers.get('mcp-session-id');
    if (session) this.session = session;
    if (!res.ok) throw new Error('the MCP server answered HTTP ' + res.status);
    const type = res.headers.get('content-type') || '';
    if (type.includes('text/event-stream')) {
      let rest = '';
      const decoder = new TextDecoder();
      for await (const bytes of res.body) {
        const events = (rest + decoder.decode(bytes, { stream: true })).split(/\r?\n\r?\n/);
        rest = events.pop();
        for (const event of events) {
          const data = event.split(/\r?\n/).filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trimStart()).join('\n');
          if (data) this.arrived(JSON.parse(data));
        }
      }
      if (msg.id !== undefined && this.waiting.has(msg.id)) throw new Error('the MCP server ended its answer early');
    } else {
      const body = await res.text();
      if (body.trim()) this.arrived(JSON.parse(body));
    }
  }

  async close() {
    if (!this.aborter) return;
    this.died('the session was closed');
    if (this.session) {
      await fetch(this.spec.url, { method: 'DELETE', headers: this.headers(), signal: AbortSignal.timeout(500) }).catch(() => {});
    }
    this.aborter.abort();
  }

  kill() { if (this.aborter) this.aborter.abort(); }
}

class Hub {
  constructor(specs, cwd) {
    this.specs = specs.map((s) => ({ ...s, cwd }));
    this.peers = new Map(); // place in the list -> {peer, ready}
    this.closed = false;
  }

  get names() { return this.specs.map((s) => s.name); }

  // Starts every server that is not running. Returns what could be reached and what could not.
  async connect() {
    if (this.closed) throw new Error('the session was closed');
    const troubles = [];
    await Promise.all(this.specs.map(async (spec, i) => {
      let entry = this.peers.get(i);
      if (!entry || entry.peer.dead) {
        const peer = spec.type === 'http' ? new HttpPeer(spec) : new StdioPeer(spec);
        entry = { peer, ready: peer.start() };
        this.peers.set(i, entry);
      }
      try {
        await entry.ready;
      } catch (e) {
        troubles.push(`${spec.name}: ${e.message}`);
        if (this.peers.get(i) === entry) this.peers.delete(i);
        await entry.peer.close().catch(() => {});
      }
    }));
    const tools = [];
    for (const { peer } of [...this.peers].sort((a, b) => a[0] - b[0]).map(([, e]) => e)) {
      for (const tool of peer.tools) tools.push({ peer, tool });
    }
    return { tools, troubles };
  }

  async close() {
    this.closed = true;
    const all = [...this.peers.values()];
    this.peers.clear();
    await Promise.all(all.map(({ peer }) => peer.close().catch(() => {})));
  }

  kill() {
    for (const { peer } of this.peers.values()) peer.kill();
  }
}

module.exports = { Hub };
