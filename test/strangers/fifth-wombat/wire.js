'use strict';
// The wire: newline-delimited JSON-RPC 2.0 on stdin and stdout. Knows nothing about ACP itself.

class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

// Thrown inside a turn when it has been cancelled.
class Cancelled extends Error {}

const isObject = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);
const goodId = (id) => id === null || typeof id === 'string' || Number.isSafeInteger(id);

class Wire {
  // onRequest(method, params, id) returns a result or a promise of one; onNotification(method, params) returns nothing.
  constructor(input, output, { onRequest, onNotification, onEnd }) {
    this.output = output;
    this.onRequest = onRequest;
    this.onNotification = onNotification;
    this.pending = new Map(); // our own requests: id -> {resolve, reject}
    this.inFlight = new Set(); // the client's requests that are not answered yet (promises)
    this.counter = 0x1f;
    this.ended = false;
    this.rest = [];
    input.on('data', (chunk) => this.feed(chunk));
    input.on('end', () => {
      const last = Buffer.concat(this.rest);
      this.rest = [];
      if (last.length) this.line(last);
      this.ended = true;
      for (const p of this.pending.values()) p.reject(new RpcError(-32603, 'The client has gone.'));
      this.pending.clear();
      onEnd();
    });
  }

  feed(chunk) {
    let from = 0;
    for (;;) {
      const at = chunk.indexOf(10, from);
      if (at < 0) break;
      this.rest.push(chunk.subarray(from, at));
      const bytes = this.rest.length === 1 ? this.rest[0] : Buffer.concat(this.rest);
      this.rest = [];
      this.line(bytes);
      from = at + 1;
    }
    if (from < chunk.length) this.rest.push(chunk.subarray(from));
  }

  send(message) {
    this.output.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
  }

  fail(id, code, message, data) {
    this.send({ id, error: data === undefined ? { code, message } : { code, message, data } });
  }

  line(bytes) {
    let msg;
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      if (text.trim() === '') return; // a blank line says nothing
      msg = JSON.parse(text);
    } catch {
      return this.fail(null, -32700, 'This line is not valid JSON.');
    }
    if (Array.isArray(msg)) return this.fail(null, -32600, 'Batches are not supported.');
    if (!isObject(msg)) return this.fail(null, -32600, 'A message must be a JSON object.');

    // An answer to one of our own requests. Answers that nobody waits for any more are dropped.
    if (!('method' in msg) && 'id' in msg && ('result' in msg || 'error' in msg)) {
      const waiting = this.pending.get(msg.id);
      if (!waiting) return;
      this.pending.delete(msg.id);
      if ('error' in msg && msg.error) {
        waiting.reject(new RpcError(Number(msg.error.code) || -32603, String(msg.error.message || 'Client error')));
      } else waiting.resolve(msg.result);
      return;
    }

    const hasId = 'id' in msg;
    const id = hasId && goodId(msg.id) ? msg.id : null;
    if (msg.jsonrpc !== '2.0') return this.fail(id, -32600, 'The jsonrpc member must be "2.0".');
    if (typeof msg.method !== 'string') return this.fail(id, -32600, 'The method must be a string.');
    if (hasId && !goodId(msg.id)) return this.fail(null, -32600, 'The id must be a string or a whole number.');
    let params = msg.params;
    if (params === undefined || params === null) params = {};

    if (!hasId) {
      if (!isObject(params)) return; // nothing may be answered to a notification
      try { this.onNotification(msg.method, params); } catch (e) { console.error('notification:', e); }
      return;
    }
    if (typeof params !== 'object') return this.fail(id, -32600, 'The params must be an object.');
    if (Array.isArray(params)) return this.fail(id, -32602, 'The params must be given by name.');
    this.serve(msg.method, params, id);
  }

  async serve(method, params, id) {
    let done;
    const ticket = new Promise((r) => { done = r; });
    this.inFlight.add(ticket);
    try {
      const result = await this.onRequest(method, params, id);
      this.send({ id, result });
    } catch (e) {
      if (e instanceof RpcError) this.fail(id, e.code, e.message, e.data);
      else {
        console.error(method + ':', e);
        this.fail(id, -32603, 'Something went wrong inside the agent.');
      }
    } finally {
      this.inFlight.delete(ticket);
      done();
    }
  }

  notify(method, params) {
    this.send({ method, params });
  }

  // A request to the client. An aborted signal ends the wait; withdraw() tells whether the client should be told so.
  request(method, params, signal, withdraw) {
    if (signal && signal.aborted) return Promise.reject(new Cancelled());
    if (this.ended) return Promise.reject(new RpcError(-32603, 'The client has gone.'));
    const id = 'w:' + (this.counter++).toString(16);
    return new Promise((resolve, reject) => {
      const stop = () => {
        if (!this.pending.delete(id)) return;
        if (withdraw && withdraw()) this.notify('$/cancel_request', { requestId: id });
        reject(new Cancelled());
      };
      const end = (settle) => (value) => {
        if (signal) signal.removeEventListener('abort', stop);
        settle(value);
      };
      this.pending.set(id, { resolve: end(resolve), reject: end(reject) });
      if (signal) signal.addEventListener('abort', stop, { once: true });
      this.send({ id, method, params });
    });
  }
}

module.exports = { Wire, RpcError, Cancelled, isObject };
