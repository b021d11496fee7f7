// A client in a few lines, to have something to test against the mock agent.
import net from 'node:net';
import readline from 'node:readline';

export class Client {
  #socket;
  #waiting = new Map();
  updates = [];

  constructor({ host, port }) {
    this.#socket = net.connect(port, host);
    readline.createInterface({ input: this.#socket }).on('line', (line) => {
      const message = JSON.parse(line);
      if (message.method === 'session/update') this.updates.push(message.params.update);
      else this.#waiting.get(message.id)?.(message.result);
    });
  }

  ask(method, params) {
    const id = this.#waiting.size + 1;
    this.#socket.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  close() {
    this.#socket.end();
  }
}

/** Asks one thing and returns the answer's text. */
export async function ask(address, text, cwd) {
  const client = new Client(address);
  await client.ask('initialize', { protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await client.ask('session/new', { cwd, mcpServers: [] });
  await client.ask('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
  client.close();
  const chunks = client.updates.filter((update) => update.sessionUpdate === 'agent_message_chunk');
  return chunks.map((update) => update.content.text).join('');
}
