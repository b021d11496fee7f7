// A test of a client against the mock agent, with node's test runner.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { acpMock } from 'acp-workbench/node-test';

import { ask } from '../client.mjs';

const script = {
  rules: [{ method: 'session/prompt', do: [{ say: 'It is sunny.' }, { end: 'end_turn' }] }],
  verify: [{ say: 'prompts once', frame: { method: 'session/prompt' }, times: 1 }],
};

test('the client shows the answer', async (t) => {
  const mock = await acpMock(t, { script });
  assert.equal(await ask(mock, 'How is the weather?', process.cwd()), 'It is sunny.');
  assert.equal(mock.received('session/prompt')[0].params.prompt[0].text, 'How is the weather?');
  await mock.assertClean();
});

test('a client that does less than the script wants is told', async (t) => {
  const mock = await acpMock(t, { script: { ...script, verify: [{ ...script.verify[0], times: 2, say: 'prompts twice' }] } });
  await ask(mock, 'How is the weather?', process.cwd());
  await assert.rejects(mock.assertClean(), /prompts twice/);
});
