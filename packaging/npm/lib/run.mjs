// Runs the binary to its end.
import { spawn } from 'node:child_process';

import { AcpError, findBinary } from './binary.mjs';

/** Runs `acp` and resolves to `{ code, stdout, stderr }`. */
export function run(args, { timeout } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(findBinary(), args, { stdio: ['ignore', 'pipe', 'pipe'], timeout });
    const out = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8');
      child[name].on('data', (text) => {
        out[name] += text;
      });
    }
    child.on('error', (error) => reject(new AcpError(`cannot start acp: ${error.message}`)));
    child.on('close', (code, signal) => {
      if (code === null) reject(new AcpError(`acp ${args[0]} was ended by ${signal}`));
      else resolve({ code, ...out });
    });
  });
}

/** The findings of the judge on a recorded conversation that blame one side, of these grades. */
export async function violationsOf(transcript, side, warnings) {
  const { code, stdout, stderr } = await run(['lint', '--format', 'json', transcript]);
  if (code > 1) throw new AcpError(`acp lint failed: ${stderr.trim()}`);
  const grades = warnings ? ['fail', 'warn'] : ['fail'];
  return JSON.parse(stdout)
    .files.flatMap((file) => file.findings)
    .filter((finding) => finding.blame === side && grades.includes(finding.grade));
}
