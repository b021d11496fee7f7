// For vitest: `test` with the fixtures acpMock and acpAgent.
import { test as base } from 'vitest';

import { Agent, assertConformant, startMock } from './index.mjs';

export { assertConformant };

/**
 * `test` with two more fixtures: `acpMock(options)` starts a mock agent, `acpAgent(command)` drives an agent, and both
 * end with the test.
 */
export const test = base.extend({
  acpMock: async ({}, use) => {
    const mocks = [];
    await use(async (options) => {
      const mock = await startMock(options);
      mocks.push(mock);
      return mock;
    });
    await Promise.all(mocks.map((mock) => mock.close()));
  },
  acpAgent: async ({}, use) => {
    const agents = [];
    await use((command, options) => {
      const agent = new Agent(command, options);
      agents.push(agent);
      return agent;
    });
    agents.forEach((agent) => agent.close());
  },
});
