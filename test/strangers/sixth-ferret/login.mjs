// The key that lets ferret work, kept below the home directory.

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { FAULT } from './session.mjs';

const folder = path.join(os.homedir(), '.sixth-ferret');
const file = path.join(folder, 'key');

export const METHOD = {
  id: 'house-key',
  name: 'House key',
  description: 'Cuts a key for this computer; nothing has to be typed',
};

let present = existsSync(file);

export function loggedIn() {
  return present;
}

export function logIn() {
  present = true;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(file, `${Date.now()}\n`, { mode: 0o600 });
  } catch (error) {
    console.error(`the key cannot be kept: ${error.message}`);
  }
}

export function logOut() {
  present = false;
  if (FAULT !== 'spare-key') rmSync(file, { force: true });
}
