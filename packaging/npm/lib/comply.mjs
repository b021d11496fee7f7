// The compliance suite, from a test.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { AcpError, commandLine } from './binary.mjs';
import { run } from './run.mjs';

/** What a run of `acp comply` came to. */
export class Report {
  constructor(exitCode, results, stderr) {
    this.exitCode = exitCode;
    this.results = results;
    this.stderr = stderr;
  }

  /** Every test that ran, with its `id`, `verdict` and `reason`. */
  get tests() {
    return (this.results?.agents ?? []).flatMap((agent) => agent.tests);
  }

  /** The tests that failed and were not expected to. */
  get failures() {
    return this.tests.filter((test) => ['FAIL', 'ERROR'].includes(test.verdict) && !test.expected);
  }

  /** The failures in words. */
  explain() {
    const lines = this.failures.map((test) => `  ${test.verdict} ${test.id}: ${test.reason ?? test.title}`);
    return (lines.length > 0 ? lines : this.stderr.trim().split('\n').slice(-12)).join('\n');
  }
}

/** Runs the compliance suite, or the selected part of it, against the agent that `command` starts. */
export async function comply(command, { tests = [], areas = [], requirements = [], expected, args = [], root } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'acp-comply-'));
  try {
    const out = path.join(folder, 'results.json');
    const { code, stderr } = await run([
      'comply', '--command', commandLine(command, root), '--format', 'json', '--out', out,
      ...tests.flatMap((pattern) => ['--test', pattern]),
      ...areas.flatMap((area) => ['--area', area]),
      ...requirements.flatMap((id) => ['--requirement', id]),
      ...(expected ? ['--expected', expected] : []),
      ...args,
    ]);
    if (![0, 1, 3, 4].includes(code)) throw new AcpError(`acp comply failed: ${stderr.trim()}`);
    const text = existsSync(out) ? readFileSync(out, 'utf8') : '';
    return new Report(code, text ? JSON.parse(text) : null, stderr);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const OUTCOMES = {
  1: 'is not conformant',
  3: 'could not be judged completely',
  4: 'no longer fails where it is expected to',
};

/** Fails, with the reasons, unless the agent is conformant. Takes the options of `comply`. */
export async function assertConformant(command, options) {
  const report = await comply(command, options);
  assert.equal(report.exitCode, 0, `the agent ${OUTCOMES[report.exitCode]}:\n${report.explain()}`);
  return report;
}
