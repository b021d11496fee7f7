// Runs the binary in place of this process, as far as node can: same standard streams, same signals, same exit code.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';

import { findBinary } from './binary.mjs';

/** Runs `acp` with these arguments and those of this process. */
export function launch(before = []) {
  let binary;
  try {
    binary = findBinary();
  } catch (error) {
    console.error(`acp: ${error.message}`);
    process.exit(3);
  }
  const given = process.argv.slice(2);
  const asksVersion = ['--version', '-V'].includes(given[0]);
  const child = spawn(binary, [...(asksVersion ? [] : before), ...given], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    // A terminal sends SIGINT to the child too; it decides when to end.
    process.on(signal, () => signal === 'SIGINT' || child.kill(signal));
  }
  child.on('error', (error) => {
    console.error(`acp: cannot start ${binary}: ${error.message}`);
    process.exit(3);
  });
  child.on('exit', (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
}
