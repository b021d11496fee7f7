// The library acp-factory, driven by JSON lines: verbs on stdin, events on stdout.
//
//   node harness.mjs PACKAGES WORKSPACE AGENT [ARGUMENT...]
//
// Only the library's documented calls are used; processes, files and permissions are its own.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [packages, workspace, command, ...args] = process.argv.slice(2);
const { AgentFactory } = createRequire(`${packages}/`)("acp-factory");
const HABITS = { allow: "auto-approve", reject: "auto-deny", leave: "interactive" };

const tell = (event, fields = {}) => process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
const trouble = (verb) => (error) => tell("error", { verb, code: error?.code, message: String(error?.message ?? error) });

let habit = HABITS.allow;
let agent;
let session;

async function start() {
  AgentFactory.register("agent", { command, args });
  agent ??= await AgentFactory.spawn("agent", { permissionMode: habit });
  tell("initialized");
}

async function open() {
  if (!agent) await start();
  session = await agent.createSession(workspace);
  tell("opened", { sessionId: session.id });
}

async function turn(text) {
  for await (const update of session.prompt(text)) {
    const asks = update.sessionUpdate === "permission_request";
    tell(asks ? "permission" : "update", { sessionId: session.id, kind: update.sessionUpdate });
  }
  tell("end", { sessionId: session.id });
}

const verbs = {
  open,
  async prompt({ text }) {
    if (!session) await open();
    turn(text).catch(trouble("prompt"));
  },
  permission({ answer }) {
    habit = HABITS[answer];
    agent?.setPermissionMode(habit);
  },
  cancel: () => session.cancel(),
  mode: ({ mode }) => session.setMode(mode),
  async reload() {
    const id = session?.id;
    await agent?.close();
    agent = undefined;
    await start();
    session = id && agent.capabilities?.loadSession ? await agent.loadSession(id, workspace) : await agent.createSession(workspace);
    tell("opened", { sessionId: session.id });
  },
  async quit() {
    await agent?.close();
    process.exit(0);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { verb, ...fields } = JSON.parse(line);
  const act = verbs[verb] ?? (() => Promise.reject(new Error(`the harness has no verb ${verb}`)));
  Promise.resolve()
    .then(() => act(fields))
    .catch(trouble(verb))
    .finally(() => tell("done", { verb }));
}
await verbs.quit();
