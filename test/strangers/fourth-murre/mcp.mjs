// A small MCP client: stdio servers and streamable HTTP servers.
import { spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import { Cancelled } from './wire.mjs';

export const groups = new Set(); // process groups that this agent has started and must not leave behind

export function killGroup(pid, signal = 'SIGKILL') {
  try {
    process.kill(-pid, signal);
  } catch {}
}

export function usableDirectory(cwd) {
  try {
    return statSync(cwd).isDirectory() ? cwd : undefined;
  } catch {
    return undefined;
  }
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

class StdioLink {
  constructor(config, cwd) {
    const extra = Object.fromEntries((config.env ?? []).map(({ name, value }) => [name, value]));
    this.waiting = new Map();
    this.child = spawn(config.command, config.args ?? [], {
      cwd: usableDirectory(cwd), env: { ...process.env, ...extra }, detached: true, stdio: ['pipe', 'pipe', 'ignore'],
    });
    const { child } = this;
    if (child.pid) groups.add(child.pid);
    const gone = why => {
      groups.delete(child.pid);
      this.gone = why;
      for (const { reject } of this.waiting.values()) reject(new Error(why));
      this.waiting.clear();
    };
    this.exited = new Promise(resolve => {
      child.on('error', error => resolve(gone(`it could not be started (${error.message})`)));
      child.on('exit', () => resolve(gone('the server has ended')));
    });
    child.stdin.on('error', () => {});
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', text => {
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line.trim()) this.take(line);
    });
  }

  take(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return;
    }
    if (message.method && message.id !== undefined) {
      const answer = message.method === 'ping' ? { result: {} } : { error: { code: -32601, message: 'Not supported.' } };
      return this.write({ id: message.id, ...answer });
    }
    const asked = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) asked?.reject(new Error(message.error.message ?? 'the server reported an error'));
    else asked?.resolve(message.result);
  }

  write(message) {
    this.child.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
  }

  request(message) {
    if (this.gone) return Promise.reject(new Error(this.gone));
    return new Promise((resolve, reject) => {
      this.waiting.set(message.id, { resolve, reject });
      this.write(message);
    });
  }

  async close() {
    if (this.gone) return;
    this.child.stdin.end();
    for (const signal of ['SIGTERM', 'SIGKILL']) {
      await Promise.race([this.exited, sleep(300)]);
      killGroup(this.child.pid, signal);
    }
    await Promise.race([this.exited, sleep(500)]);
  }
}

class HttpLink {
  constructor(config) {
    this.url = config.url;
    this.headers = Object.fromEntries((config.headers ?? []).map(({ name, value }) => [name, value]));
  }

  async post(message) {
    const headers = { ...this.headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    if (this.version) headers['mcp-protocol-version'] = this.version;
    if (this.session) headers['mcp-session-id'] = this.session;
    const answer = await fetch(this.url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }), signal: AbortSignal.timeout(60000) });
    this.session = answer.headers.get('mcp-session-id') ?? this.session;
    if (!answer.ok) throw new Error(`the server answered with HTTP status ${answer.status}`);
    return answer;
  }

  write(message) {
    this.post(message).then(answer => answer.body?.cancel(), () => {});
  }

  async request(message) {
    const answer = await this.post(message);
    let found;
    if (!(answer.headers.get('content-type') ?? '').includes('text/event-stream')) found = await answer.json();
    else {
      let rest = '';
      const decoder = new TextDecoder();
      for await (const bytes of answer.body) {
        const events = (rest + decoder.decode(bytes, { stream: true })).replaceAll('\r\n', '\n').split('\n\n');
        rest = events.pop();
        for (const event of events) {
          const data = event.split('\n').filter(line => line.startsWith('data:')).map(line => line.slice(5)).join('\n');
          const candidate = data.trim() ? JSON.parse(data) : {};
          if (candidate.id === message.id && !candidate.method) found = candidate;
        }
        if (found) break;
      }
    }
    if (!found) throw new Error('the server closed the stream without an answer');
    if (found.error) throw new Error(found.error.message ?? 'the server reported an error');
    return found.result;
  }

  async close() {
    if (!this.session) return;
    const headers = { ...this.headers, 'mcp-session-id': this.session };
    await fetch(this.url, { method: 'DELETE', headers, signal: AbortSignal.timeout(500) }).catch(() => {});
  }
}

export class McpServer {
  constructor(config, cwd) {
    this.name = config.name;
    this.tools = [];
    this.ids = 0;
    this.link = config.type === 'http' ? new HttpLink(config) : new StdioLink(config, cwd);
  }

  request(method, params) {
    return this.link.request({ id: ++this.ids, method, params });
  }

  async connect(version) {
    const hello = await this.request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'fourth-murre', version } });
    this.link.version = hello?.protocolVersion;
    this.link.write({ method: 'notifications/initialized' });
    if (hello?.capabilities && !hello.capabilities.tools) return;
    let cursor;
    do {
      const page = await this.request('tools/list', cursor ? { cursor } : {});
      this.tools.push(...(page?.tools ?? []));
      cursor = page?.nextCursor;
    } while (cursor);
  }

  call(name, args, signal) {
    return new Promise((resolve, reject) => {
      const id = this.ids + 1;
      const abort = () => {
        this.link.write({ method: 'notifications/cancelled', params: { requestId: id } });
        reject(new Cancelled());
      };
      signal.addEventListener('abort', abort, { once: true });
      this.request('tools/call', { name, arguments: args }).then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
    });
  }

  close() {
    return this.link.close();
  }
}
