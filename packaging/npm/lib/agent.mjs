// Our client driving your agent, one prompt at a time.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { AcpError, commandLine, framesOf } from './binary.mjs';
import { run, violationsOf } from './run.mjs';

/** Your agent, driven by the client of `acp prompt`. Each prompt starts it anew. */
export class Agent {
  #turns = 0;

  constructor(command, { root } = {}) {
    this.command = commandLine(command, root);
    this.folder = mkdtempSync(path.join(tmpdir(), 'acp-agent-'));
    this.cwd = path.join(this.folder, 'workspace');
    mkdirSync(this.cwd);
  }

  /** Sends one prompt and waits for the end of the turn. */
  async prompt(text, { policy = 'default', session, timeout = 60_000, args = [] } = {}) {
    this.#turns += 1;
    const transcript = path.join(this.folder, `turn-${this.#turns}.ndjson`);
    const known = session ? ['--session', session] : [];
    const result = await run(
      ['prompt', '--format', 'json', '--command', this.command, '--policy', policy, '--cwd', this.cwd, '--record', transcript]
        .concat(['--timeout', `${timeout / 1000}s`, ...known, ...args, '--', text]),
      // The client gives up by itself; this only ends one that hangs.
      { timeout: timeout + 30_000 },
    );
    if (result.code === 2) throw new AcpError(result.stderr.trim());
    return new Turn(result, transcript);
  }

  /** Removes the folder with the session's files and the transcripts. */
  close() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** What one prompt led to. */
export class Turn {
  constructor({ code, stdout, stderr }, transcript) {
    const events = stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    this.exitCode = code;
    this.stderr = stderr;
    this.transcript = transcript;
    this.sessionId = events.find((event) => event.type === 'session')?.sessionId ?? null;
    this.stopReason = events.find((event) => event.type === 'end')?.stopReason ?? null;
    this.updates = events.filter((event) => event.type === 'update').map((event) => event.update);
  }

  /** The agent's answer. */
  get text() {
    return this.#text('agent_message_chunk');
  }

  /** The agent's thoughts. */
  get thoughts() {
    return this.#text('agent_thought_chunk');
  }

  /** Each tool call once, with the latest value of every member. */
  get toolCalls() {
    const calls = new Map();
    for (const { sessionUpdate, ...members } of this.updates) {
      if (sessionUpdate !== 'tool_call' && sessionUpdate !== 'tool_call_update') continue;
      calls.set(members.toolCallId, { ...calls.get(members.toolCallId), ...members });
    }
    return [...calls.values()];
  }

  /** Every message of the conversation, in both directions. */
  get frames() {
    return framesOf(this.transcript);
  }

  /** The requirements that the agent broke in this conversation, as `acp lint` finds them. */
  violations({ warnings = false } = {}) {
    return violationsOf(this.transcript, 'agent', warnings);
  }

  /** Fails if the agent broke a requirement of the protocol in this conversation. */
  async assertClean(options) {
    const broken = await this.violations(options);
    const lines = broken.map((one) => `  ${one.requirement}: ${one.message}`);
    assert.equal(lines.length, 0, `the agent broke the protocol:\n${lines.join('\n')}`);
  }

  #text(kind) {
    return this.updates
      .filter((update) => update.sessionUpdate === kind && update.content?.type === 'text')
      .map((update) => update.content.text)
      .join('');
  }
}
