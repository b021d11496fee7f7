// ACP Workbench for JavaScript tests: a mock agent, a client that drives your agent, and the compliance suite.
// Everything is done by the `acp` binary; these modules start it and read what it writes.
export { Agent, Turn } from './agent.mjs';
export { AcpError, findBinary } from './binary.mjs';
export { Report, assertConformant, comply } from './comply.mjs';
export { Mock, startMock } from './mock.mjs';
