// MCP client: stdio and streamable HTTP. One hub per session, started lazily.
import { spawn } from 'node:child_process';
const PROTOCOL = '2025-06-18';
const HELLO = { protocolVersion: PROTOCOL, capabilities: {}, clientInfo: { name: 'seventh-heron', version: '0.7.3' } };

class Base {
  constructor(name) { this.name = name; this.next = 1; this.tools = []; }
  async open() {
    const r = await this.request('initialize', HELLO, 8000);
    this.version = r?.protocolVersion ?? PROTOCOL;
    await this.notify('notifications/initialized');
    if (!r?.capabilities || r.capabilities.tools) {
      let cursor;
      for (let page = 0; page < 50; page++) {
        const l = await this.request('tools/list', cursor ? { cursor } : {}, 8000);
        for (const t of l?.tools ?? []) this.tools.push({ name: t.name, description: t.description, inputSchema: t.inputSchema, server: this.name, client: this });
        cursor = l?.nextCursor; if (!cursor) break;
      }
    }
    return this;
  }
  call(name, args, signal) { return this.request('tools/call', { name, arguments: args }, 120000, signal); }
}

class Stdio extends Base {
  constructor(cfg, cwd) {
    super(cfg.name);
    this.pending = new Map();
    const env = { ...process.env };
    delete env.FAULT;
    for (const e of cfg.env ?? []) if (e && typeof e.name === 'string') env[e.name] = String(e.value);
    this.child = spawn(cfg.command, cfg.args ?? [], { cwd, env, stdio: ['pipe', 'pipe', 'ignore'] });
    this.exited = new Promise(r => { this.child.on('exit', r); this.child.on('error', e => { this.dead(e.message); r(); }); });
    this.child.on('exit', () => this.dead('the server ended'));
    this.child.stdin.on('error', () => {});
    let buf = '';
    this.child.stdout.setEncoding('utf8').on('data', d => {
      buf += d;
      for (let i; (i = buf.indexOf('\n')) >= 0;) { const line = buf.slice(0, i).trim(); buf = buf.slice(i + 1); if (line) { try { this.got(JSON.parse(line)); } catch {} } }
    });
  }
  dead(why) { this.why ??= why; for (const p of this.pending.values()) p.reject(new Error(this.why)); this.pending.clear(); }
  write(m) { if (this.child.stdin.writable) this.child.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n'); }
  got(m) {
    if (m.method) { if ('id' in m) this.write(m.method === 'ping' ? { id: m.id, result: {} } : { id: m.id, error: { code: -32601, message: 'Method not found' } }); return; }
    const p = this.pending.get(m.id);
    if (!p) return;
    this.pending.delete(m.id);
    if (m.error) p.reject(new Error(m.error.message ?? 'error')); else p.resolve(m.result);
  }
  notify(method, params) { this.write({ method, ...(params ? { params } : {}) }); }
  request(method, params, ms, signal) {
    if (this.why) return Promise.reject(new Error(this.why));
    const id = this.next++;
    return new Promise((res, rej) => {
      const end = f => v => { clearTimeout(timer); signal?.removeEventListener('abort', stop); f(v); };
      const stop = () => { this.pending.delete(id); this.notify('notifications/cancelled', { requestId: id, reason: 'cancelled' }); end(rej)(new Error('cancelled')); };
      const timer = setTimeout(() => { this.pending.delete(id); end(rej)(new Error(`${method} timed out`)); }, ms);
      this.pending.set(id, { resolve: end(res), reject: end(rej) });
      if (signal?.aborted) return stop();
      signal?.addEventListener('abort', stop, { once: true });
      this.write({ id, method, params });
    });
  }
  async close() {
    this.dead('closed');
    try { this.child.stdin.end(); } catch {}
    const t1 = setTimeout(() => { try { this.child.kill('SIGTERM'); } catch {} }, 200), t2 = setTimeout(() => { try { this.child.kill('SIGKILL'); } catch {} }, 700);
    await this.exited; clearTimeout(t1); clearTimeout(t2);
  }
}

class Http extends Base {
  constructor(cfg) { super(cfg.name); this.url = cfg.url; this.headers = Object.fromEntries((cfg.headers ?? []).map(h => [h.name, h.value])); }
  async post(m, ms, signal) {
    const own = AbortSignal.timeout(ms);
    const r = await fetch(this.url, { method: 'POST', signal: signal ? AbortSignal.any([own, signal]) : own, body: JSON.stringify({ jsonrpc: '2.0', ...m }),
      headers: { ...this.headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...(this.session ? { 'mcp-session-id': this.session } : {}), ...(this.version ? { 'mcp-protocol-version': this.version } : {}) } });
    if (r.headers.get('mcp-session-id')) this.session = r.headers.get('mcp-session-id');
    if (!r.ok) { await r.body?.cancel(); throw new Error(`HTTP ${r.status}`); }
    if (m.id === undefined || r.status === 202) { await r.body?.cancel(); return; }
    const finish = a => { if (a.error) throw new Error(a.error.message ?? 'error'); return a.result; };
    if (!/event-stream/.test(r.headers.get('content-type') ?? '')) return finish(await r.json());
    let buf = ''; const dec = new TextDecoder();
    for await (const c of r.body) {
      buf = (buf + dec.decode(c, { stream: true })).replace(/\r\n/g, '\n');
      for (let i; (i = buf.indexOf('\n\n')) >= 0;) {
        const data = buf.slice(0, i).split('\n').filter(l => l.startsWith('data:')).map(l => l.slice(5).trimStart()).join('\n'); buf = buf.slice(i + 2);
        if (!data) continue;
        const a = JSON.parse(data);
        if (a.id === m.id && !a.method) return finish(a);
      }
    }
    throw new Error('the stream ended without an answer');
  }
  request(method, params, ms, signal) { return this.post({ id: this.next++, method, params }, ms, signal); }
  notify(method, params) { return this.post({ method, ...(params ? { params } : {}) }, 5000); }
  async close() { if (this.session) { try { const r = await fetch(this.url, { method: 'DELETE', headers: { ...this.headers, 'mcp-session-id': this.session }, signal: AbortSignal.timeout(500) }); await r.body?.cancel(); } catch {} } }
}

export class McpHub {
  constructor(servers, cwd) { this.servers = servers; this.cwd = cwd; this.clients = []; this.failures = []; this.up = null; this.closed = false; }
  get empty() { return this.servers.length === 0; }
  start() {
    if (this.up || this.closed) return;
    this.up = Promise.all(this.servers.map(async cfg => {
      let c;
      try { c = cfg.type === 'http' ? new Http(cfg) : new Stdio(cfg, this.cwd); this.clients.push(c); await c.open(); c.ok = true; }
      catch (e) { this.failures.push({ name: cfg.name, why: e.message }); }
    }));
  }
  known() { return this.clients.filter(c => c.ok).flatMap(c => c.tools); }
  async ready() { this.start(); await this.up; return this.known(); }
  takeFailures() { return this.failures.splice(0); }
  async close() { this.closed = true; await Promise.allSettled(this.clients.map(c => c.close())); this.clients = []; }
}
