// The wire: newline-delimited JSON-RPC 2.0 over stdin and stdout.
// What is written is legal JSON in an unusual dress: keys in reverse order, generous blanks,
// "\/" for slashes, "\uXXXX" for everything outside ASCII and now and then for a plain letter.

export class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export class Cancelled extends Error {
  constructor() {
    super('The work was cancelled.');
  }
}

const hex = unit => '\\u' + unit.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
let written = 0;

function encodeString(text, isKey) {
  let body = JSON.stringify(text).slice(1, -1).replaceAll('/', '\\/').replace(/[\u007f-\uffff]/g, hex);
  if (!isKey && ++written % 7 === 0 && /^[a-z]/i.test(body)) body = hex(body) + body.slice(1);
  return `"${body}"`;
}

export function encode(value) {
  if (typeof value === 'string') return encodeString(value);
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return value.length ? `[ ${value.map(encode).join(' , ')}\t]` : '[ ]';
  if (value && typeof value === 'object') {
    const members = Object.entries(value).filter(([, v]) => v !== undefined).reverse();
    return members.length ? `{ ${members.map(([k, v]) => `${encodeString(k, true)} :  ${encode(v)}`).join(' ,\t')} }` : '{ }';
  }
  return value === undefined ? 'null' : JSON.stringify(value);
}

export function send(message) {
  process.stdout.write(` ${encode({ jsonrpc: '2.0', ...message })} \n`);
}

export const notify = (method, params) => send({ method, params });

// Requests to the client: the ids are negative integers, counted downwards and never used twice.
let lastId = 0;
const waiting = new Map();

export function ask(method, params, signal) {
  if (signal?.aborted) return Promise.reject(new Cancelled());
  const id = --lastId;
  return new Promise((resolve, reject) => {
    const abort = () => {
      waiting.delete(id);
      notify('$/cancel_request', { requestId: id });
      reject(new Cancelled());
    };
    const done = settle => value => {
      signal?.removeEventListener('abort', abort);
      settle(value);
    };
    waiting.set(id, { resolve: done(resolve), reject: done(reject) });
    signal?.addEventListener('abort', abort, { once: true });
    send({ id, method, params });
  });
}

const isObject = value => value !== null && typeof value === 'object' && !Array.isArray(value);
const has = (object, key) => Object.hasOwn(object, key);
const validId = id => id === null || typeof id === 'string' || Number.isInteger(id);

function takeResponse(message) {
  const asked = waiting.get(message.id);
  if (!asked) return;
  waiting.delete(message.id);
  if (has(message, 'error') && isObject(message.error)) {
    asked.reject(new RpcError(message.error.code, String(message.error.message ?? 'the client reported an error')));
  } else if (has(message, 'result')) asked.resolve(message.result);
  else asked.reject(new RpcError(-32600, 'the client sent an answer without a result'));
}

// JSON.parse rounds integers beyond 2^53; the id must go back with the very digits that came in.
function exactId(id, line) {
  if (!Number.isInteger(id) || Number.isSafeInteger(id)) return id;
  const digits = [...line.matchAll(/"id"\s*:\s*(-?\d+)/g)].map(match => match[1]).find(text => Number(text) === id);
  return digits ? BigInt(digits) : id;
}

const fail = (id, code, message) => send({ id, error: { code, message } });

function takeLine(bytes, handlers) {
  let line, message;
  try {
    line = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!line.trim()) return;
    message = JSON.parse(line);
  } catch {
    return fail(null, -32700, 'That line is not valid JSON.');
  }
  if (Array.isArray(message)) return fail(null, -32600, 'Batches are not supported.');
  if (!isObject(message)) return fail(null, -32600, 'A message has to be a JSON object.');
  const answerable = has(message, 'id') && validId(message.id);
  const id = answerable ? exactId(message.id, line) : null;
  if (!has(message, 'method') && has(message, 'id') &&
      (has(message, 'result') || has(message, 'error') || waiting.has(message.id))) return takeResponse(message);
  if (message.jsonrpc !== '2.0' || typeof message.method !== 'string' || (has(message, 'id') && !answerable)) {
    return fail(id, -32600, 'That is not a valid JSON-RPC 2.0 request.');
  }
  const params = message.params ?? {};
  if (!has(message, 'id')) {
    if (isObject(params)) handlers.notification(message.method, params);
    return; // A notification is never answered, not even a broken one.
  }
  if (typeof params !== 'object') return fail(id, -32600, 'The params have to be an object.');
  // The handler starts at once, so that a cancellation in the next line already finds it.
  new Promise(resolve => resolve(handlers.request(message.method, params, message.id)))
    .then(
      result => {
        send({ id, result: result === undefined ? {} : result });
        handlers.answered(message.method, result);
      },
      error => {
        if (!(error instanceof RpcError)) console.error(error);
        const known = error instanceof RpcError;
        send({ id, error: { code: known ? error.code : -32603, message: known ? error.message : 'Something went wrong inside the agent.', data: error.data } });
      },
    );
}

export function listen(handlers) {
  let pieces = [];
  process.stdout.on('error', () => handlers.end());
  process.stdin.on('data', chunk => {
    let from = 0;
    for (let at; (at = chunk.indexOf(10, from)) >= 0; from = at + 1) {
      pieces.push(chunk.subarray(from, at));
      const line = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
      pieces = [];
      takeLine(line, handlers);
    }
    if (from < chunk.length) pieces.push(chunk.subarray(from));
  });
  process.stdin.on('end', () => {
    if (pieces.length) takeLine(Buffer.concat(pieces), handlers);
    handlers.end();
  });
  process.stdin.on('error', () => handlers.end());
}
