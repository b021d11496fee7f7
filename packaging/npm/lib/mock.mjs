// A mock agent that listens on a port of this machine, for tests of clients. Each connection is one `acp mock --stdio`,
// so that its end is known exactly: what the client did wrong can be asked for as soon as the conversation is over.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { AcpError, findBinary, framesOf } from './binary.mjs';
import { run, violationsOf } from './run.mjs';

const COMPLAINT = 'not as the script says: ';
const USAGE = 2;

/** A running mock agent; `startMock` makes one. */
export class Mock {
  #options;
  #server;
  #conversations = [];

  constructor({ script, defects = [], variants = [], args = [] } = {}) {
    this.folder = mkdtempSync(path.join(tmpdir(), 'acp-mock-'));
    this.#options = [
      ...['--state-dir', path.join(this.folder, 'state')],
      ...this.#script(script),
      ...defects.flatMap((name) => ['--defect', name]),
      ...variants.flatMap((name) => ['--variant', name]),
      ...args,
    ];
  }

  /** Starts it, and waits until it listens. */
  async start() {
    // An unknown defect or a broken script is said here, not in the first connection.
    const { code, stderr } = await run(['mock', '--stdio', ...this.#options]);
    if (code === USAGE) throw new AcpError(`the mock does not start: ${stderr.trim()}`);
    this.#server = net.createServer({ allowHalfOpen: true }, (connection) => {
      const file = path.join(this.folder, `connection-${this.#conversations.length + 1}.ndjson`);
      this.#conversations.push(new Conversation(connection, this.#options, file));
    });
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { address, port } = this.#server.address();
    this.host = address;
    this.port = port;
    return this;
  }

  /** The address for `acp … --connect`. */
  get url() {
    return `tcp://${this.host}:${this.port}`;
  }

  /** The command line of the same mock on standard input and output, for clients that start their agent. */
  get command() {
    return [findBinary(), 'mock', '--stdio', '--record', this.#stdioTranscript, ...this.#options];
  }

  /** The recorded conversations, for `acp lint`. */
  get transcripts() {
    return [...this.#conversations.map((one) => one.transcript), this.#stdioTranscript].filter((file) => existsSync(file));
  }

  /** Every message of all conversations. */
  get frames() {
    return this.transcripts.flatMap(framesOf);
  }

  /** The messages of this method that the client sent, in order. A message that was answered is among them. */
  received(method) {
    return this.frames.filter(({ dir, frame }) => dir === 'c2a' && frame?.method === method).map(({ frame }) => frame);
  }

  /** Ends the conversations that are still open and waits for the mock's verdict about them. */
  async finish() {
    await Promise.all(this.#conversations.map((one) => one.finish()));
  }

  /** What the script's `verify` found missing. Ends open conversations. */
  async complaints() {
    await this.finish();
    const lines = this.#conversations.flatMap((one) => one.stderr.split('\n')).filter((line) => line.includes(COMPLAINT));
    return lines.map((line) => line.slice(line.indexOf(COMPLAINT) + COMPLAINT.length));
  }

  /** The requirements that the client broke, as `acp lint` finds them. Ends open conversations. */
  async violations({ warnings = false } = {}) {
    await this.finish();
    const found = await Promise.all(this.transcripts.map((file) => violationsOf(file, 'client', warnings)));
    return found.flat();
  }

  /**
   * Fails if the client broke a requirement of the protocol, or did not do what the script's `verify` says. Ends open
   * conversations.
   */
  async assertClean(options) {
    const broken = await this.violations(options);
    const lines = broken.map((one) => `${one.requirement}: ${one.message}`).concat(await this.complaints());
    assert.equal(lines.length, 0, `the client broke the protocol or the script:\n  ${lines.join('\n  ')}`);
  }

  /** Ends the mock and removes its folder. */
  async close() {
    this.#server?.close();
    await this.finish();
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #stdioTranscript() {
    return path.join(this.folder, 'stdio.ndjson');
  }

  #script(script) {
    if (script === undefined) return [];
    if (typeof script === 'string') return ['--script', script];
    const file = path.join(this.folder, 'script.json');
    writeFileSync(file, JSON.stringify(script));
    return ['--script', file];
  }
}

/** One client's connection, joined to one mock process, and its transcript. */
class Conversation {
  stderr = '';
  #connection;
  #process;
  #ended;
  #rest = { c2a: Buffer.alloc(0), a2c: Buffer.alloc(0) };
  #began = performance.now();

  constructor(connection, options, transcript) {
    this.transcript = transcript;
    this.#connection = connection;
    this.#process = spawn(findBinary(), ['mock', '--stdio', ...options], { stdio: 'pipe' });
    this.#ended = once(this.#process, 'close');
    const { stdin, stdout, stderr } = this.#process;
    stderr.setEncoding('utf8').on('data', (text) => {
      this.stderr += text;
    });
    // A side that has gone away is no error here.
    for (const stream of [connection, stdin]) stream.on('error', () => {});
    connection.on('data', (data) => this.#record('c2a', data));
    stdout.on('data', (data) => this.#record('a2c', data));
    connection.pipe(stdin);
    stdout.pipe(connection);
  }

  async finish() {
    // The client's side of the conversation is over; the mock answers what is left and ends.
    this.#process.stdin.end();
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), 10_000);
    await this.#ended;
    clearTimeout(timer);
    this.#connection.destroy();
  }

  #record(dir, data) {
    const parts = Buffer.concat([this.#rest[dir], data]);
    const end = parts.lastIndexOf(10);
    this.#rest[dir] = parts.subarray(end + 1);
    if (end < 0) return;
    const t = (performance.now() - this.#began) / 1000;
    const lines = parts.subarray(0, end).toString('utf8').split('\n');
    appendFileSync(this.transcript, lines.map((line) => `${JSON.stringify({ t, dir, line })}\n`).join(''));
  }
}

/** Starts a mock agent. Close it when the test is over. */
export function startMock(options) {
  return new Mock(options).start();
}
