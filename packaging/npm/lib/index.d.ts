export class AcpError extends Error {}
/** The binary to use: `$ACP_BINARY`, else the one of the installed platform package. */
export function findBinary(): string;

/** A command line, or its words. Words that name a file become absolute paths. */
export type Command = string | readonly string[];
/** A message of a conversation: `c2a` is from the client to the agent. */
export interface Frame {
  dir: 'c2a' | 'a2c';
  frame: any;
}
/** A broken requirement. */
export interface Violation {
  requirement: string;
  message: string;
  grade: 'fail' | 'warn' | 'note';
  [name: string]: unknown;
}

export interface PromptOptions {
  /** What the agent may do: none, read, write, yolo, …; default refuses what would need a person. */
  policy?: string;
  /** Go on with this session. */
  session?: string;
  /** Milliseconds for each step. */
  timeout?: number;
  /** Further options of `acp prompt`. */
  args?: readonly string[];
}
export class Agent {
  constructor(command: Command, options?: { root?: string });
  readonly command: string;
  /** Takes the transcripts. */
  readonly folder: string;
  /** The session's working folder: put files for the agent here. */
  readonly cwd: string;
  prompt(text: string, options?: PromptOptions): Promise<Turn>;
  close(): void;
}
export class Turn {
  readonly sessionId: string | null;
  readonly stopReason: string | null;
  readonly updates: any[];
  readonly exitCode: number;
  readonly stderr: string;
  readonly transcript: string;
  readonly text: string;
  readonly thoughts: string;
  readonly toolCalls: any[];
  readonly frames: Frame[];
  violations(options?: { warnings?: boolean }): Promise<Violation[]>;
  assertClean(options?: { warnings?: boolean }): Promise<void>;
}

export interface MockOptions {
  /** The script itself, or its file. */
  script?: object | string;
  /** Names from `acp mock --list-defects`. */
  defects?: readonly string[];
  /** Names from `acp mock --list-variants`. */
  variants?: readonly string[];
  /** Further options of `acp mock`. */
  args?: readonly string[];
}
export class Mock {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  readonly command: string[];
  readonly folder: string;
  readonly transcripts: string[];
  readonly frames: Frame[];
  received(method: string): any[];
  finish(): Promise<void>;
  complaints(): Promise<string[]>;
  violations(options?: { warnings?: boolean }): Promise<Violation[]>;
  assertClean(options?: { warnings?: boolean }): Promise<void>;
  close(): Promise<void>;
}
export function startMock(options?: MockOptions): Promise<Mock>;

export interface ComplyOptions {
  /** Patterns over test ids, such as `init.*`. */
  tests?: readonly string[];
  areas?: readonly string[];
  requirements?: readonly string[];
  /** The file of known failures. */
  expected?: string;
  /** Further options of `acp comply`. */
  args?: readonly string[];
  root?: string;
}
export class Report {
  readonly exitCode: number;
  readonly results: any;
  readonly stderr: string;
  readonly tests: any[];
  readonly failures: any[];
  explain(): string;
}
export function comply(command: Command, options?: ComplyOptions): Promise<Report>;
export function assertConformant(command: Command, options?: ComplyOptions): Promise<Report>;
