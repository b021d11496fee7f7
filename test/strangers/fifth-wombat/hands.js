'use strict';
// The agent's own hands: files of the session's roots, and commands as child processes.
const fs = require('fs');
const path = require('path');
const { spawn } = require('child_process');
const { fileURLToPath } = require('url');

// Where a path really leads, links followed; for a new file, by its nearest existing folder. Null for a broken link.
function real(p) {
  let rest = '';
  for (let at = p; ; at = path.dirname(at)) {
    try { return path.join(fs.realpathSync(at), rest); } catch { /* not there: look one folder higher */ }
    try { if (fs.lstatSync(at).isSymbolicLink()) return null; } catch { /* really not there */ }
    rest = path.join(path.basename(at), rest);
    if (path.dirname(at) === at) return null;
  }
}

function inside(roots, p) {
  const target = real(p);
  if (target === null) return false;
  return roots.some((r) => {
    const root = real(path.resolve(r));
    return root !== null && (target === root || target.startsWith(root.endsWith(path.sep) ? root : root + path.sep));
  });
}

function absolute(cwd, p) {
  if (p.startsWith('file://')) {
    try { return fileURLToPath(p); } catch { /* not a local file: taken as a strange name */ }
  }
  return path.resolve(cwd, p);
}

function readText(file) {
  const bytes = fs.readFileSync(file);
  return bytes.toString('utf8');
}

// The text of a file that is about to be changed; null when there is none. Refuses what it could not write back unharmed.
function oldText(file) {
  let bytes;
  try { bytes = fs.readFileSync(file); } catch (e) {
    if (e.code === 'ENOENT') return null;
    throw e;
  }
  const text = bytes.toString('utf8');
  if (!Buffer.from(text, 'utf8').equals(bytes)) throw new Error('this file is not plain UTF-8 text');
  return text;
}

function writeText(file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text, 'utf8');
}

const LIMIT = 200000;
const children = new Set(); // groups of running commands, by leader

function killGroup(child, signal) {
  try { process.kill(-child.pid, signal); } catch { /* gone already */ }
}

// Runs a command in a shell of its own process group. When the signal aborts, the whole group ends, and only then we return.
function run(command, cwd, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn('/bin/sh', ['-c', command], { cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const parts = [];
    let size = 0;
    let cut = false;
    let hard = null;
    const take = (chunk) => {
      if (size + chunk.length > LIMIT) { cut = true; chunk = chunk.subarray(0, Math.max(0, LIMIT - size)); }
      size += chunk.length;
      if (chunk.length) parts.push(chunk);
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    const stop = () => {
      killGroup(child, 'SIGTERM');
      hard = setTimeout(() => killGroup(child, 'SIGKILL'), 250);
    };
    const settle = (code, sig) => {
      clearTimeout(hard);
      signal.removeEventListener('abort', stop);
      killGroup(child, 'SIGKILL'); // nothing of it stays behind
      children.delete(child);
      resolve({ code, signal: sig, output: Buffer.concat(parts).toString('utf8'), cut });
    };
    let over = false;
    child.on('error', (e) => { if (!over) { over = true; signal.removeEventListener('abort', stop); children.delete(child); reject(e); } });
    child.on('close', (code, sig) => { if (!over) { over = true; settle(code, sig); } });
    child.on('exit', (code, sig) => setTimeout(() => { if (!over) { over = true; settle(code, sig); } }, 200));
    if (child.pid) children.add(child);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

function killAll() {
  for (const child of children) killGroup(child, 'SIGKILL');
}

module.exports = { inside, absolute, readText, oldText, writeText, run, killAll };
