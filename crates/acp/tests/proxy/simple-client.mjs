// A client of the `probe` form as its documentation prints one: every read is taken for exactly one message.
import { spawn } from 'node:child_process';

class SimpleClient {
  nextId = 0;
  waiting = new Map();
  notifications = [];

  start(command, args) {
    this.server = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    // No buffer, no splitting: two messages in one read are a syntax error, and half a message is too.
    this.server.stdout.on('data', (data) => this.take(JSON.parse(data.toString().trim())));
  }

  take(message) {
    if (message.id && this.waiting.has(message.id)) {
      const { resolve, reject } = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
    } else if (!message.id) {
      this.notifications.push(message);
    }
  }

  request(method, params = {}) {
    const id = ++this.nextId;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.server.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n');
    });
  }
}

const [command, ...args] = process.argv.slice(2);
const client = new SimpleClient();
client.start(command, args);
const { capabilities } = await client.request('initialize', { protocolVersion: '1' });
const { sessionId } = await client.request('newSession', {});
const response = await client.request('prompt', { sessionId, message: 'How does auth work?' });
const cancelled = await client.request('cancel', { sessionId });
client.server.stdin.end();
const code = await new Promise((resolve) => client.server.on('exit', resolve));
const chunks = client.notifications.filter((it) => it.method === 'messageChunk');
console.log(JSON.stringify({
  streaming: capabilities.streaming,
  sessionId,
  content: response.content,
  streamed: chunks.map((it) => it.params.chunk).join(''),
  chunks: chunks.length,
  cancelled: cancelled !== undefined,
  code,
}));
