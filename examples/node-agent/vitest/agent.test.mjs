// The same tests with vitest.
import { expect } from 'vitest';
import { assertConformant, test } from 'acp-workbench/vitest';

import { ask } from '../client.mjs';

const script = { rules: [{ method: 'session/prompt', do: [{ say: 'It is sunny.' }, { end: 'end_turn' }] }] };

test('the agent repeats what it is told', async ({ acpAgent }) => {
  const turn = await acpAgent('node agent.mjs').prompt('good morning');
  expect(turn.text).toBe('You said: good morning');
  await turn.assertClean();
});

test('the agent keeps the protocol', async () => {
  await assertConformant('node agent.mjs', { tests: ['init.version-echo'] });
});

test('the suite sees the faults of the other agent', async () => {
  await expect(assertConformant('node faulty-agent.mjs', { tests: ['init.version-echo'] })).rejects.toThrow(/init\.version-echo/);
});

test('the client shows the answer', async ({ acpMock }) => {
  const mock = await acpMock({ script });
  expect(await ask(mock, 'How is the weather?', process.cwd())).toBe('It is sunny.');
  await mock.assertClean();
});
