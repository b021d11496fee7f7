// Finds the `acp` binary, and turns what users write as a command into what the binary takes.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

/** The `acp` binary is missing, or could not do what was asked. */
export class AcpError extends Error {}

/** The binary to use: `$ACP_BINARY`, else the one of the installed platform package. */
export function findBinary() {
  if (process.env.ACP_BINARY) return process.env.ACP_BINARY;
  const name = `acp-workbench-${process.platform}-${process.arch}`;
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/acp`);
  } catch {
    throw new AcpError(
      `cannot find the acp binary: the package ${name} is not installed. ` +
        'Install without --omit=optional, or set ACP_BINARY to the path of the binary (Linux on x64 and arm64 have packages).',
    );
  }
}

/**
 * The command as one line. Arguments that name a file below `root` become absolute paths, because each run starts the
 * agent in an empty folder.
 */
export function commandLine(command, root = process.cwd()) {
  const words = typeof command === 'string' ? splitWords(command) : command.map(String);
  if (words.length === 0) throw new TypeError("the agent's command is empty");
  return words.map((word) => quote(absolute(word, root))).join(' ');
}

function absolute(word, root) {
  const full = path.resolve(root, word);
  return !word.startsWith('-') && existsSync(full) && statSync(full).isFile() ? full : word;
}

/** Splits a command line at blanks, with the quotes and backslashes of a shell. */
export function splitWords(line) {
  const words = [];
  let word = null;
  let quoted = null;
  for (let at = 0; at < line.length; at += 1) {
    const character = line[at];
    if (quoted === "'") {
      if (character === "'") quoted = null;
      else word += character;
    } else if (character === '\\' && (quoted === null || '"\\$`'.includes(line[at + 1] ?? ''))) {
      at += 1;
      word = (word ?? '') + (line[at] ?? '');
    } else if (quoted === '"') {
      if (character === '"') quoted = null;
      else word += character;
    } else if (character === "'" || character === '"') {
      quoted = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quoted !== null) throw new TypeError(`the command has an open ${quoted}: ${line}`);
  if (word !== null) words.push(word);
  return words;
}

function quote(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** The messages of a recorded conversation: `{ dir: 'c2a' | 'a2c', frame }`. Lines that are not JSON are left out. */
export function framesOf(transcript) {
  if (!existsSync(transcript)) return [];
  return readFileSync(transcript, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        const record = JSON.parse(line);
        return [{ dir: record.dir, frame: record.frame ?? JSON.parse(record.line) }];
      } catch {
        return [];
      }
    });
}
