import type { TestAPI } from 'vitest';
import type { Agent, Command, Mock, MockOptions } from './index.js';

export { assertConformant } from './index.js';
export const test: TestAPI<{
  acpMock: (options?: MockOptions) => Promise<Mock>;
  acpAgent: (command: Command, options?: { root?: string }) => Agent;
}>;
