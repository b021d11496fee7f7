// Sessions on disk, below HOME: one folder each, with a small meta.json and the whole conversation in history.json.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const GOOD_ID = /^plover-[0-9a-f-]{36}$/;
const root = () => path.join(os.homedir(), ".fifth-plover", "sessions");
const folder = (id) => path.join(root(), id);

function writeWhole(file, value) {
  const scratch = `${file}.${process.pid}.tmp`;
  fs.writeFileSync(scratch, JSON.stringify(value));
  fs.renameSync(scratch, file);
}
const readWhole = (file) => { try { return JSON.parse(fs.readFileSync(file, "utf8")); } catch { return undefined; } };

export const store = {
  save(meta, history) {
    fs.mkdirSync(folder(meta.sessionId), { recursive: true });
    if (history) writeWhole(path.join(folder(meta.sessionId), "history.json"), history);
    writeWhole(path.join(folder(meta.sessionId), "meta.json"), meta);
  },
  meta(id) { return GOOD_ID.test(id) ? readWhole(path.join(folder(id), "meta.json")) : undefined; },
  history(id) { return readWhole(path.join(folder(id), "history.json")) ?? []; },
  remove(id) { if (GOOD_ID.test(id)) fs.rmSync(folder(id), { recursive: true, force: true }); },
  // Newest first; the order never changes during a walk, because it hangs on the time of creation.
  all() {
    let names = [];
    try { names = fs.readdirSync(root()); } catch { /* nothing was stored yet */ }
    return names.map((n) => this.meta(n)).filter(Boolean)
      .sort((a, b) => b.createdAt - a.createdAt || (a.sessionId < b.sessionId ? -1 : 1));
  },
};
