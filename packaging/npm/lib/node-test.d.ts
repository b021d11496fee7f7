import type { Agent, Command, Mock, MockOptions } from './index.js';

export { assertConformant } from './index.js';
interface Context {
  after(done: () => unknown): void;
}
export function acpMock(t: Context, options?: MockOptions): Promise<Mock>;
export function acpAgent(t: Context, command: Command, options?: { root?: string }): Agent;
