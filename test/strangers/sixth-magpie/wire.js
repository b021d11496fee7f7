'use strict';
// One JSON-RPC 2.0 message per line, in on stdin and out on stdout.

class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

const PARSE = -32700;
const INVALID_REQUEST = -32600;
const NO_METHOD = -32601;
const BAD_PARAMS = -32602;
const INTERNAL = -32603;
const NOT_FOUND = -32002;

function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function isId(value) {
  return value === null || typeof value === 'string' || typeof value === 'number';
}

class Wire {
  constructor({ request, notification, end }) {
    this.onRequest = request;
    this.onNotification = notification;
    this.onEnd = end;
    this.waiting = new Map();
    this.count = 0;
    this.rest = [];
    this.decoder = new TextDecoder('utf-8', { fatal: true });
  }

  listen() {
    process.stdin.on('data', (data) => this.take(data));
    process.stdin.on('end', () => {
      if (this.rest.length) this.line(Buffer.concat(this.rest));
      this.onEnd();
    });
    process.stdout.on('error', () => this.onEnd());
  }

  take(data) {
    let from = 0;
    for (;;) {
      const at = data.indexOf(10, from);
      if (at < 0) break;
      this.rest.push(data.subarray(from, at));
      const whole = Buffer.concat(this.rest);
      this.rest = [];
      from = at + 1;
      this.line(whole);
    }
    if (from < data.length) this.rest.push(data.subarray(from));
  }

  line(bytes) {
    let message;
    try {
      const text = this.decoder.decode(bytes);
      if (text.trim() === '') return;
      message = JSON.parse(text);
    } catch {
      this.fail(null, new RpcError(PARSE, 'That line is not JSON.'));
      return;
    }
    this.sort(message);
  }

  sort(message) {
    if (!isObject(message)) {
      const why = Array.isArray(message) ? 'Batches are not supported.' : 'A message must be an object.';
      this.fail(null, new RpcError(INVALID_REQUEST, why));
      return;
    }
    const hasId = Object.hasOwn(message, 'id');
    const id = hasId && isId(message.id) ? message.id : null;
    if (message.jsonrpc !== '2.0' || (hasId && !isId(message.id))) {
      this.fail(id, new RpcError(INVALID_REQUEST, 'Not a JSON-RPC 2.0 message.'));
      return;
    }
    if (!Object.hasOwn(message, 'method')) {
      if (hasId && (Object.hasOwn(message, 'result') || Object.hasOwn(message, 'error'))) this.settle(message);
      else this.fail(id, new RpcError(INVALID_REQUEST, 'A request needs a method.'));
      return;
    }
    if (typeof message.method !== 'string') {
      this.fail(id, new RpcError(INVALID_REQUEST, 'The method must be a string.'));
      return;
    }
    const params = message.params ?? {};
    if (!hasId) {
      if (isObject(params)) this.onNotification(message.method, params);
      return;
    }
    if (typeof params !== 'object') {
      this.fail(id, new RpcError(INVALID_REQUEST, 'The params must be an object.'));
      return;
    }
    this.answer(id, message.method, params);
  }

  async answer(id, method, params) {
    let after = null;
    try {
      const result = await this.onRequest(method, params, id, (todo) => { after = todo; });
      this.send({ jsonrpc: '2.0', id, result: result ?? {} });
    } catch (error) {
      if (!(error instanceof RpcError)) process.stderr.write(`${error.stack}\n`);
      this.fail(id, error instanceof RpcError ? error : new RpcError(INTERNAL, 'Something went wrong here.'));
      return;
    }
    if (after) after();
  }

  fail(id, error) {
    const body = { code: error.code, message: error.message };
    if (error.data !== undefined) body.data = error.data;
    this.send({ jsonrpc: '2.0', id, error: body });
  }

  settle(message) {
    const waiter = this.waiting.get(message.id);
    if (!waiter) return;
    this.waiting.delete(message.id);
    if (Object.hasOwn(message, 'error')) {
      const error = isObject(message.error) ? message.error : {};
      waiter.reject(new RpcError(Number(error.code) || INTERNAL, String(error.message ?? 'refused'), error.data));
    } else {
      waiter.resolve(message.result);
    }
  }

  // Asks the client; gives the promise together with the id used.
  ask(method, params) {
    this.count += 1;
    const id = `magpie-${this.count}`;
    const reply = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    this.send({ jsonrpc: '2.0', id, method, params });
    reply.catch(() => {});
    return { id, reply };
  }

  request(method, params) {
    return this.ask(method, params).reply;
  }

  // The client no longer needs to answer this one.
  withdraw(id) {
    if (this.waiting.has(id)) this.notify('$/cancel_request', { requestId: id });
  }

  notify(method, params) {
    this.send({ jsonrpc: '2.0', method, params });
  }

  send(message) {
    process.stdout.write(`${JSON.stringify(message)}\n`);
  }
}

module.exports = {
  Wire, RpcError, isObject, INVALID_REQUEST, NO_METHOD, BAD_PARAMS, INTERNAL, NOT_FOUND,
};
