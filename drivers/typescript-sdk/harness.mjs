// A client on the official TypeScript SDK, driven by JSON lines: verbs on stdin, events on stdout.
//
//   node harness.mjs PACKAGES WORKSPACE AGENT [ARGUMENT...]
//
// It uses the SDK's defaults on purpose, because they are what is examined. Files and permissions are this file's own.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [packages, workspace, program, ...words] = process.argv.slice(2);
const place = createRequire(`${packages}/`).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(place));
const { agent: ask, client: serve } = acp.methods;

const tell = (event, fields = {}) => process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
const trouble = (verb) => (error) => tell("error", { verb, code: error?.code, message: String(error?.message ?? error) });

const KINDS = { allow: ["allow_once", "allow_always"], reject: ["reject_once", "reject_always"] };
let habit = "allow";
let open = [];
let session;

async function permission({ params }) {
  tell("permission", { sessionId: params.sessionId, toolCallId: params.toolCall.toolCallId });
  if (habit === "leave") {
    await new Promise((resolve) => open.push(resolve));
    return { outcome: { outcome: "cancelled" } };
  }
  const chosen = KINDS[habit].map((kind) => params.options.find((option) => option.kind === kind)).find(Boolean);
  return { outcome: chosen ? { outcome: "selected", optionId: chosen.optionId } : { outcome: "cancelled" } };
}

async function read({ params: { path, line, limit } }) {
  const text = await readFile(path, "utf8").catch((error) => {
    throw error.code === "ENOENT" ? acp.RequestError.resourceNotFound(path) : error;
  });
  if (line == null && limit == null) return { content: text };
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const first = (line ?? 1) - 1;
  return { content: lines.slice(first, limit == null ? undefined : first + limit).join("") };
}

async function write({ params }) {
  await writeFile(params.path, params.content);
  return {};
}

const child = spawn(program, words, { cwd: workspace, stdio: ["pipe", "pipe", "inherit"] });
child.on("error", trouble("start"));

const connection = acp
  .client({ name: "harness" })
  .onNotification(serve.session.update, ({ params }) => tell("update", { sessionId: params.sessionId, kind: params.update.sessionUpdate }))
  .onRequest(serve.session.requestPermission, permission)
  .onRequest(serve.fs.readTextFile, read)
  .onRequest(serve.fs.writeTextFile, write)
  .connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
const call = (method, params) => connection.agent.request(method, params);

const greeting = call(ask.initialize, {
  protocolVersion: acp.PROTOCOL_VERSION,
  clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
  clientInfo: { name: "typescript-sdk-harness", version: "1" },
}).then((answer) => {
  if (answer.protocolVersion !== acp.PROTOCOL_VERSION) {
    tell("error", { verb: "open", message: `the agent speaks version ${answer.protocolVersion}` });
    return leave();
  }
  tell("initialized", { version: answer.protocolVersion });
});
greeting.catch(trouble("open"));

async function start() {
  await greeting;
  session = (await call(ask.session.new, { cwd: workspace, mcpServers: [] })).sessionId;
  tell("opened", { sessionId: session });
}

const verbs = {
  open: start,
  async prompt({ text }) {
    if (!session) await start();
    const turn = call(ask.session.prompt, { sessionId: session, prompt: [{ type: "text", text }] });
    turn.then((answer) => tell("end", { stopReason: answer.stopReason }), trouble("prompt"));
  },
  permission({ answer }) {
    habit = answer;
  },
  async cancel() {
    await connection.agent.notify(ask.session.cancel, { sessionId: session });
    open.splice(0).forEach((resolve) => resolve());
  },
  close: () => call(ask.session.close, { sessionId: session }),
  quit: leave,
};

function leave() {
  connection.close();
  child.stdin.end();
  setTimeout(() => child.kill(), 2000).unref();
  if (child.exitCode !== null || child.signalCode !== null) process.exit(0);
  child.on("exit", () => process.exit(0));
}

for await (const line of createInterface({ input: process.stdin })) {
  const { verb, ...fields } = JSON.parse(line);
  const act = verbs[verb];
  if (!act) {
    tell("error", { verb, message: `the harness has no verb ${verb}` });
    continue;
  }
  Promise.resolve(act(fields)).catch(trouble(verb)).finally(() => tell("done", { verb }));
}
leave();
