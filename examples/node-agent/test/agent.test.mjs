// Tests of the agent with node's test runner: it answers, and it keeps the protocol.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { acpAgent, assertConformant } from 'acp-workbench/node-test';

test('it repeats what it is told', async (t) => {
  const turn = await acpAgent(t, 'node agent.mjs').prompt('good morning');
  assert.equal(turn.stopReason, 'end_turn');
  assert.equal(turn.text, 'You said: good morning');
  await turn.assertClean();
});

test('it keeps the protocol', async () => {
  // Without `tests` the whole suite runs.
  await assertConformant('node agent.mjs', { tests: ['init.agent-info', 'init.version-echo', 'prompt.stop-reason'] });
});

test('the suite sees the faults of the other agent', async () => {
  await assert.rejects(assertConformant('node faulty-agent.mjs', { tests: ['init.version-echo'] }), /init\.version-echo/);
});
