'use strict';
// Sessions that have been spoken to are kept on disk, so that they can be resumed by a later process.
// Everything here is best effort: without a writable home the agent simply remembers for as long as it runs.
const fs = require('fs');
const os = require('os');
const path = require('path');

const dir = path.join(process.env.XDG_STATE_HOME || path.join(os.homedir(), '.local', 'state'), 'fifth-wombat');
const KEEP_DAYS = 14;
const safe = (id) => /^burrow-[0-9a-z]{8,40}$/.test(id);

function save(session) {
  const { id, cwd, dirs, mode, history, facts, tools, createdAt, updatedAt } = session;
  try {
    fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
    const file = path.join(dir, id + '.json');
    const part = `${file}.${process.pid}.part`;
    fs.writeFileSync(part, JSON.stringify({ id, cwd, dirs, mode, history, facts, tools, createdAt, updatedAt }), { mode: 0o600 });
    fs.renameSync(part, file);
  } catch { /* no memory beyond this process, then */ }
}

function load(id) {
  if (!safe(id)) return null;
  try {
    const s = JSON.parse(fs.readFileSync(path.join(dir, id + '.json'), 'utf8'));
    return s.id === id && typeof s.cwd === 'string' && Array.isArray(s.history) ? s : null;
  } catch { return null; }
}

function loadAll() {
  let names;
  try { names = fs.readdirSync(dir); } catch { return []; }
  const found = [];
  for (const name of names) {
    const file = path.join(dir, name);
    try {
      if (Date.now() - fs.statSync(file).mtimeMs > KEEP_DAYS * 86400e3) { fs.unlinkSync(file); continue; }
    } catch { continue; }
    const s = name.endsWith('.json') && load(name.slice(0, -5));
    if (s) found.push(s);
  }
  return found;
}

module.exports = { save, load, loadAll };
