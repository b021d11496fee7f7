// For node's test runner: what is started for a test ends with it.
import { Agent, assertConformant, startMock } from './index.mjs';

export { assertConformant };

/** A running mock agent that ends with the test `t`. */
export async function acpMock(t, options) {
  const mock = await startMock(options);
  t.after(() => mock.close());
  return mock;
}

/** Your agent, driven by our client; its folder goes with the test `t`. */
export function acpAgent(t, command, options) {
  const agent = new Agent(command, options);
  t.after(() => agent.close());
  return agent;
}
