// Plain English wishes and what they do. Every wish takes a clause (with quoted parts masked) and
// answers false when it does not recognise itself in it.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Cancelled } from './wire.mjs';
import { groups, killGroup } from './mcp.mjs';

// ---- reading English -------------------------------------------------------------------------

let quotes = []; // the quoted parts of the prompt that is being parsed; parsing never awaits
const QUOTED = /```[^\n`]*\n([\s\S]*?)\n?```|`([^`]+)`|"([^"]*)"|“([^”]*)”|(?<![\w])'([^']*)'(?!\w)/g;
const MARK = /\uE000(\d+)\uE001/;
const mask = text => text.replace(QUOTED, (raw, ...inner) => `\uE000${quotes.push({ raw, inner: inner.slice(0, 5).find(part => part !== undefined) }) - 1}\uE001`);
const unmask = (text, all, key) => text.replace(new RegExp(MARK, 'g'), (_, n) => all[n][key]);

const VERBS = 'read|show|open|print|display|write|create|make|save|put|append|add|replace|change|delete|remove|copy|rename|move|run|execute|list|count|wait|sleep|think|use|call|invoke|ask|switch|say|reply|respond|answer|tell|repeat|remember|what|which|give|set';
const JOINT = new RegExp(`(?:[.;!?]\\s+|\\n+\\s*(?:[-*]\\s+|\\d+[.)]\\s+)?|,\\s+|,?\\s+(?:and\\s+)?(?:then|afterwards|after that|finally)[,\\s]+|,?\\s+and\\s+)(?=(?:please\\s+|also\\s+|first,?\\s+)*(?:${VERBS})\\b)`, 'i');
const clean = text => text.trim().replace(/^(?:please|now|also|first|could you|can you|would you|i want you to|i would like you to)[,\s]+/i, '');

class Clause {
  constructor(text, all) {
    this.text = clean(text);
    this.all = all;
    this.raw = unmask(this.text, all, 'raw');
    this.plain = unmask(this.text, all, 'inner');
  }
  // The value a phrase stands for: the inside of its quotation, or the words themselves without the full stop.
  value(phrase) {
    const quoted = MARK.exec(phrase);
    if (quoted && quoted.index <= 1) return this.all[quoted[1]].inner;
    return unmask(phrase, this.all, 'raw').trim().replace(/(?<!\.)\.$/, '');
  }
  quotedParts(text = this.text) {
    return [...text.matchAll(new RegExp(MARK, 'g'))].map(match => this.all[match[1]].inner);
  }
  // The file a text talks about, with more faith in names that follow the word "file".
  file(text = this.text) {
    const named = /\b(?:file|path|called|named|folder|directory)\s+(?:is\s+|at\s+|called\s+|named\s+)*(\uE000\d+\uE001|[^\s,;:]*[\w)])/i.exec(text);
    const word = named && this.value(named[1]).trim();
    if (word && (/[./]/.test(word) || MARK.test(named[1]) || /\b(?:called|named)\s/i.test(named[0])) && (MARK.test(named[1]) || !/\s/.test(word))) return word;
    const quoted = this.quotedParts(text).find(part => /^[^\s]+$/.test(part) && /[./]/.test(part));
    if (quoted) return quoted;
    const bare = /(?:^|[\s(])((?:file:\/\/|~?\.{0,2}\/)[^\s,;:!?)]*[^\s,;:!?).]|[\w@+-][\w@+./-]*\.[a-z0-9]{1,8}(?![\w/])|README|Makefile|LICENSE)/i.exec(text.replace(new RegExp(MARK, 'g'), ' '));
    return bare?.[1];
  }
}

// ---- files -----------------------------------------------------------------------------------

async function realPath(wanted) {
  for (let at = wanted, rest = []; ; rest.unshift(path.basename(at)), at = path.dirname(at)) {
    try {
      return path.join(await fs.realpath(at), ...rest);
    } catch (error) {
      if (path.dirname(at) === at) return wanted;
    }
  }
}

const absolute = (turn, name) => path.resolve(turn.session.cwd, name.startsWith('file://') ? fileURLToPath(name) : name);

// The roots of the session are the border of the file tools; links that lead outside do not help.
async function guard(turn, file) {
  const real = await realPath(file);
  for (const root of turn.session.roots) {
    const way = path.relative(await realPath(root), real);
    if (way !== '..' && !way.startsWith('../')) return;
  }
  throw new Error(`${file} lies outside the directories of this session, so I leave it alone.`);
}

const sayResult = (turn, result, text) => turn.say(result.failed ? `That did not work: ${result.text}` : text(result));
const head = (turn, name, kind, title, file, rawInput) => ({ title, name, kind, locations: file ? [{ path: file }] : undefined, rawInput });
const plainError = error => new Error({ ENOENT: 'there is no such file.', EISDIR: 'that is a directory.', EACCES: 'the access is denied.' }[error.code] ?? error.message);

async function readFile(turn, name, first, last) {
  const file = absolute(turn, name);
  const title = `Read ${path.basename(file)}`;
  return turn.tool({ ...head(turn, 'read_file', 'read', title, null, { path: file }), locations: [{ path: file, line: first }] }, async () => {
    await guard(turn, file);
    let text = await fs.readFile(file, 'utf8').catch(error => { throw plainError(error); });
    if (first) text = text.split('\n').slice(first - 1, last ?? first).join('\n');
    return { text, rawOutput: { characters: text.length } };
  });
}

async function writeFile(turn, name, change) {
  const file = absolute(turn, name);
  turn.lastFile = name;
  return turn.tool(head(turn, 'write_file', 'edit', `Write ${path.basename(file)}`, file, { path: file }), async () => {
    await guard(turn, file);
    const oldText = await fs.readFile(file, 'utf8').catch(error => {
      if (error.code === 'ENOENT') return null;
      throw plainError(error);
    });
    const newText = change(oldText);
    if (turn.client.fs?.writeTextFile === true) await turn.ask('fs/write_text_file', { path: file, content: newText });
    else {
      await fs.mkdir(path.dirname(file), { recursive: true });
      await fs.writeFile(file, newText);
    }
    return { file, text: newText, content: [{ type: 'diff', path: file, oldText, newText }] };
  });
}

async function write(c, turn) {
  if (!/\b(?:write|create|make|save|put|generate|overwrite|append|add|store|fill|edit|update)\b/i.test(c.text) || /^(?:ask|read|show|run|execute)\b/i.test(c.text)) return false;
  if (/\bplan\b/i.test(c.text)) return false;
  const keyword = /\b(?:containing|with (?:the |this |these |exactly |exact |following |a |single |one )*(?:contents?|text|lines?|words?|body|data)(?! (?:of|from) )|(?:that|which)(?: it)? (?:contains|says|reads)|saying|(?:whose|its) contents? (?:is|are|should be|shall be|must be))\b(?:\s+(?:exactly|is|are|the|text|words?|line|following|only|just)\b)*\s*:?\s*/i.exec(c.text);
  let file, content;
  if (keyword) {
    const tail = c.text.slice(keyword.index + keyword[0].length);
    file = c.file(c.text.slice(0, keyword.index));
    content = c.value(tail);
    if (!file) {
      const placed = /\s+(?:to|in|into|at|as|called|named)\s+(?:the |a |file |new |called |named )*(\uE000\d+\uE001|\S+)\s*$/i.exec(tail);
      if (placed) [file, content] = [c.value(placed[1]), c.value(tail.slice(0, placed.index))];
    }
  } else {
    const placed = /\b(?:write|save|put|store|append|add)\s+(?:the (?:text|words?|line)s?\s+)?(.+?)\s+(?:to|into|in|at the end of)\s+(?:the |a |new |file |text |end of |called |named )*(\uE000\d+\uE001|\S+)/i.exec(c.text);
    const colon = /^[^:]*?:\s*(.+)$/s.exec(c.text);
    const pathLike = placed && (/[./\uE000]\S|^(?:it|there)\b/i.test(placed[2]) || /\bfile\b/i.test(placed[0]));
    if (pathLike && !/^(?:a|the) (?:new )?file$/i.test(placed[1])) {
      file = c.value(placed[2].replace(/[.,;]$/, ''));
      content = /^(?:it|that|this|its (?:contents?|output)|the (?:results?|output|contents?))$/i.test(placed[1]) ? turn.last : c.value(placed[1]);
    } else if (colon && c.file(c.text.slice(0, c.text.indexOf(':')))) {
      file = c.file(c.text.slice(0, c.text.indexOf(':')));
      content = c.value(colon[1]);
    } else if (/\bfile\b/i.test(c.text) || c.file()) {
      file = c.file();
      const others = c.quotedParts().filter(part => part !== file);
      content = others.length ? others[0] : /\bempty\b/i.test(c.text) ? '' : 'Written by fourth-murre.\n';
    }
  }
  if (/^(?:it|there|this|that)$/i.test(file)) file = turn.lastFile;
  if (!file || content === undefined) return false;
  const append = /\b(?:append|at the end of|to the end of)\b/i.test(c.text);
  const result = await writeFile(turn, file, old => (append && old ? old + (old.endsWith('\n') ? '' : '\n') : '') + content);
  await sayResult(turn, result, ({ text }) => `I wrote ${text.length} characters to ${file}.`);
}

async function edit(c, turn) {
  const match = /\b(?:replace|change)\s+(?:the (?:word|text|line)\s+)?(\uE000\d+\uE001|\S+)\s+(?:with|by|to|into)\s+(?:the (?:word|text|line)\s+)?(\uE000\d+\uE001|\S+)/i.exec(c.text);
  const file = match && c.file(c.text.replace(match[0], ' '));
  if (!file) return false;
  const [from, to] = [c.value(match[1]), c.value(match[2])];
  const result = await writeFile(turn, file, old => {
    if (!old?.includes(from)) throw new Error(`the text "${from}" is not in the file.`);
    return old.replaceAll(from, () => to);
  });
  await sayResult(turn, result, () => `I replaced "${from}" with "${to}" in ${file}.`);
}

async function copy(c, turn) {
  const match = /\b(?:copy|write|put|save)\b.*?\b(?:contents? (?:of|from) )?(?:the file )?(\uE000\d+\uE001|\S+\.\w+)\s+(?:to|into|as)\s+(?:the |a |new |file |called |named )*(\uE000\d+\uE001|\S+\.\w+)/i.exec(c.text);
  if (!match || !/\bcopy\b|contents? (?:of|from)/i.test(c.text)) return false;
  const source = await readFile(turn, c.value(match[1]));
  const result = source.failed ? source : await writeFile(turn, c.value(match[2]), () => source.text);
  await sayResult(turn, result, () => `I copied ${c.value(match[1])} to ${c.value(match[2])}.`);
}

async function remove(c, turn) {
  const file = /\b(?:delete|remove)\b/i.test(c.text) && c.file();
  if (!file) return false;
  const target = absolute(turn, file);
  const result = await turn.tool(head(turn, 'delete_file', 'delete', `Delete ${path.basename(target)}`, target, { path: target }), async () => {
    await guard(turn, target);
    await fs.unlink(target).catch(error => { throw plainError(error); });
    return { text: 'The file is gone.' };
  });
  await sayResult(turn, result, () => `I deleted ${file}.`);
}

async function list(c, turn) {
  if (!/\b(?:list|show|what|which|see)\b.*\b(?:files|folders?|director(?:y|ies)|entries)\b/i.test(c.text)) return false;
  if (/\b(?:working|current) directory\b/i.test(c.text) && !/\b(?:list|files)\b/i.test(c.text)) return false;
  const target = absolute(turn, c.file() ?? '.');
  const result = await turn.tool(head(turn, 'list_files', 'search', `List ${path.basename(target) || '/'}`, target, { path: target }), async () => {
    await guard(turn, target);
    const entries = await fs.readdir(target, { withFileTypes: true }).catch(error => { throw plainError(error); });
    return { text: entries.map(entry => entry.name + (entry.isDirectory() ? '/' : '')).sort().join('\n') };
  });
  turn.last = result.text;
  await sayResult(turn, result, ({ text }) => (text ? `These files are there:\n${text.slice(0, 4000)}` : 'The directory is empty.'));
}

async function read(c, turn) {
  if (!/\b(?:read|show|open|display|print|cat|view|look|tell|what|what's|contents?|give|summari[sz]e|quote)\b/i.test(c.text)) return false;
  const linked = /\b(?:link|linked|attached|resource|file|it)\b/i.test(c.text) && turn.links[0];
  const file = c.file() ?? linked;
  if (!file) return false;
  const span = /\blines?\s+(\d+)(?:\s*(?:to|-|through|until|and)\s*(\d+))?/i.exec(c.text);
  const top = /\bfirst\s+(\d+)?\s*lines?/i.exec(c.text);
  const first = span ? Number(span[1]) || 1 : top ? 1 : undefined;
  const result = await readFile(turn, file, first, span ? Number(span[2] ?? span[1]) : Number(top?.[1] ?? 1));
  turn.last = result.text;
  await sayResult(turn, result, ({ text }) => (text ? `${file} says:\n${text.slice(0, 4000)}` : `${file} is empty.`));
}

// ---- commands and MCP tools --------------------------------------------------------------------

function runCommand(turn, command) {
  return new Promise((resolve, reject) => {
    if (turn.signal.aborted) return reject(new Cancelled());
    const child = spawn('/bin/sh', ['-c', command], { cwd: turn.session.cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const take = text => { output = (output + text).slice(0, 65536); };
    child.stdout.setEncoding('utf8').on('data', take);
    child.stderr.setEncoding('utf8').on('data', take);
    if (child.pid) groups.add(child.pid);
    const stop = () => {
      killGroup(child.pid);
      turn.commandWasKilled = true;
    };
    turn.signal.addEventListener('abort', stop, { once: true });
    child.on('error', error => reject(new Error(`the command could not be started (${error.message}).`)));
    child.on('exit', (code, signal) => {
      killGroup(child.pid); // nothing that the command left in the background survives it
      groups.delete(child.pid);
      turn.signal.removeEventListener('abort', stop);
      const finish = () => (turn.signal.aborted ? reject(new Cancelled()) : resolve({ output, code, signal }));
      child.on('close', finish);
      setTimeout(finish, 250);
    });
  });
}

async function run(c, turn) {
  const match = /\b(?:run|execute)\b(?:\s+(?:the|this|following|a|shell|bash|terminal|command|commands|line|in|please|for me|sh)\b)*\s*:?\s*(.+)$/is.exec(c.text)
    ?? /\b(?:command|terminal|shell|bash)\b.*?(\uE000\d+\uE001)/is.exec(c.text);
  if (!match || /^(?:(?:mcp|\S+) )?tool\b/i.test(match[1])) return false;
  const command = c.value(match[1].replace(/\s+(?:in (?:the|a) (?:shell|terminal)|for me|and (?:tell|show|report|give)\b.*)[.!?]?$/i, ''));
  const result = await turn.tool(head(turn, 'run_command', 'execute', `Run ${command}`, null, { command }), async () => {
    const { output, code, signal } = await runCommand(turn, command);
    return { failed: code !== 0, text: output || '(no output)', code: code ?? signal, rawOutput: { exitCode: code, signal } };
  });
  turn.last = result.text;
  await turn.say(`${result.failed ? `The command failed with ${result.code ?? 'an error'}` : 'The command ended well'}:\n${result.text.slice(0, 4000)}`);
}

function argumentsFor(c, tool, tail) {
  for (let from = c.raw.indexOf('{'); from >= 0; from = -1) {
    for (let to = c.raw.lastIndexOf('}'); to > from; to = c.raw.lastIndexOf('}', to - 1)) {
      try {
        return JSON.parse(c.raw.slice(from, to + 1));
      } catch {}
    }
  }
  const known = Object.keys(tool.inputSchema?.properties ?? {});
  const typed = (key, value) => {
    const type = tool.inputSchema?.properties?.[key]?.type;
    if (type === 'number' || type === 'integer') return Number(value);
    return type === 'boolean' ? /^(?:true|yes)$/i.test(value) : value;
  };
  const args = {};
  for (const key of known) {
    const found = new RegExp(`(?:^|[\\s,(])["']?${key.replace(/\W/g, '\\$&')}["']?\\s*(?:=|:|\\bis\\b|\\bset to\\b|\\bof\\b|\\s)\\s*(\\uE000\\d+\\uE001|[^\\s,;)]+)`, 'i').exec(tail);
    if (found) args[key] = typed(key, c.value(found[1]));
  }
  if (!Object.keys(args).length && known.length) {
    const given = c.quotedParts(tail)[0] ?? /\b(?:with|on|for|argument|arguments|input|text|say)\b\s*:?\s*(?:the |arguments? |text |input )*(.+)$/is.exec(tail)?.[1];
    const numbers = unmask(tail, c.all, 'inner').match(/-?\d+(?:\.\d+)?/g) ?? [];
    const required = tool.inputSchema.required?.length ? tool.inputSchema.required : known.slice(0, 1);
    required.forEach((key, at) => {
      const value = typeof typed(key, '0') === 'number' ? numbers[at] : given && c.value(given);
      if (value !== undefined) args[key] = typed(key, value);
    });
  }
  return args;
}

const MCP_BLOCKS = { text: ['text'], image: ['data', 'mimeType'], audio: ['data', 'mimeType'], resource_link: ['uri', 'name'], resource: ['resource'] };
function fromMcp(block) {
  const fields = MCP_BLOCKS[block?.type];
  if (!fields?.every(field => block[field] !== undefined)) return { type: 'text', text: JSON.stringify(block) };
  return { type: block.type, ...Object.fromEntries(fields.map(field => [field, block[field]])) };
}

async function useTool(c, turn) {
  const { session } = turn;
  if (!session.servers.length || !/\b(?:tool|mcp|use|call|invoke)\b/i.test(c.text)) return false;
  await Promise.race([session.ready, turn.pause(8000)]);
  const words = c.plain.toLowerCase();
  const mentions = name => { // "add" is not mentioned by "address"
    for (let at = words.indexOf(name.toLowerCase()); at >= 0; at = words.indexOf(name.toLowerCase(), at + 1)) {
      if (!/[\w-]/.test(words[at - 1] ?? ' ') && !/[\w-]/.test(words[at + name.length] ?? ' ')) return true;
    }
    return false;
  };
  const offers = session.servers.flatMap(server => server.tools.map(tool => ({ server, tool })))
    .filter(({ tool }) => mentions(tool.name)).sort((a, b) => b.tool.name.length - a.tool.name.length || mentions(b.server.name) - mentions(a.server.name));
  if (!offers.length) {
    if (!/\b(?:tools?|mcp)\b/i.test(c.text)) return false;
    const names = session.servers.flatMap(server => server.tools.map(tool => `${tool.name} (${server.name})`));
    await turn.say([names.length ? `These are the tools I can use: ${names.join(', ')}.` : 'I have no MCP tool at hand.', ...session.troubles].join(' '));
    return;
  }
  const { server, tool } = offers[0];
  const at = c.text.toLowerCase().indexOf(tool.name.toLowerCase());
  const quotedName = c.all.findIndex(quote => quote.inner === tool.name);
  const tail = (at >= 0 ? c.text.slice(at + tool.name.length) : c.text.replace(`\uE000${quotedName}\uE001`, ' ')).replace(/\b(?:of|from|on|at) (?:the )?(?:mcp )?server (?:called |named )?(?:\uE000\d+\uE001|\S+)/i, ' ');
  const args = argumentsFor(c, tool, tail);
  const result = await turn.tool(head(turn, tool.name, 'other', `${server.name}: ${tool.name}`, null, args), async () => {
    const answer = await server.call(tool.name, args, turn.signal);
    const blocks = (answer?.content ?? []).map(fromMcp);
    const text = blocks.map(block => block.text ?? `[${block.type}]`).join('\n');
    return { failed: answer?.isError === true, text, content: blocks.map(content => ({ type: 'content', content })), rawOutput: answer };
  });
  turn.last = result.text;
  await sayResult(turn, result, ({ text }) => `The tool ${tool.name} answered: ${text.slice(0, 4000)}`);
}

// ---- asking the user ---------------------------------------------------------------------------

const isObject = value => value !== null && typeof value === 'object' && !Array.isArray(value);

function formFor(c) {
  const rest = c.plain.replace(/^.*?\bask me\b\s*/i, '').replace(/^(?:a question|to)\b[\s:,]*(?:about\s+)?/i, '').replace(/[.?!]+$/, '') || 'what you would like';
  const choices = /\b(?:between|from|of|options?|among|either|choices?)\b:?\s+(.+?)(?:\s+with\b.*)?$/i.exec(rest)?.[1].split(/\s*,\s*(?:or |and )?|\s+(?:or|and)\s+/).filter(Boolean);
  const message = `Please tell me: ${rest}.`;
  if (choices?.length > 1) return { message, key: 'choice', property: { type: 'string', title: 'Your choice', enum: [...new Set(choices)] } };
  if (/colou?r/i.test(rest)) {
    const oneOf = ['red', 'green', 'blue', 'grey'].map(name => ({ const: name, title: name[0].toUpperCase() + name.slice(1) }));
    return { message, key: 'colour', property: { type: 'string', title: 'Your colour', oneOf } };
  }
  if (/\b(?:age|how old|how many|number|year)\b/i.test(rest)) return { message, key: 'number', property: { type: 'integer', title: 'A number', minimum: 0, maximum: 10000 } };
  if (/\b(?:confirm|yes or no|whether|if i|agree)\b/i.test(rest)) return { message, key: 'agreed', property: { type: 'boolean', title: 'Yes?' } };
  return { message, key: 'answer', property: { type: 'string', title: 'Your answer', minLength: 1, maxLength: 500 } };
}

function fits(property, value) {
  if (property.type === 'integer') return Number.isInteger(value) && value >= property.minimum && value <= property.maximum;
  if (property.type === 'boolean') return typeof value === 'boolean';
  const allowed = property.enum ?? property.oneOf?.map(option => option.const);
  return typeof value === 'string' && (allowed ? allowed.includes(value) : value.length > 0 && value.length <= 500);
}

async function elicit(turn, params) {
  try {
    const answer = await turn.ask('elicitation/create', params);
    if (answer?.action === 'decline') await turn.say('You declined, so I go on without your answer.');
    else if (answer?.action === 'cancel') await turn.say('You dismissed the question; I drop it.');
    else if (answer?.action !== 'accept') await turn.say('I do not understand that kind of answer, so I take it as no answer.');
    else return answer;
  } catch (error) {
    if (error instanceof Cancelled) throw error;
    await turn.say(`I could not ask you: ${error.message}`);
  }
}

async function askUser(c, turn) {
  if (!/\bask me\b|\bquestion (?:for|to) me\b|\b(?:let|have) me (?:choose|pick)\b|\b(?:sign|log) (?:me )?in\b|\belicit/i.test(c.text)) return false;
  if (/password|token|api key|secret|credential|credit card|(?:sign|log) (?:me )?in|\burl\b|web ?page|browser/i.test(c.plain)) {
    if (!isObject(turn.client.elicitation?.url)) return void await turn.say('That belongs on a safe web page, which this client cannot open for me; I will not ask for it in a form.');
    const elicitationId = randomUUID();
    const accepted = await elicit(turn, { mode: 'url', elicitationId, message: 'Please finish this step on the web page.', url: 'https://murre.example/visit' });
    if (!accepted) return;
    await turn.pause(200);
    turn.finishUrl(elicitationId);
    return void await turn.say('Thank you, the page has reported back.');
  }
  const { message, key, property } = formFor(c);
  if (!isObject(turn.client.elicitation?.form)) {
    turn.session.openQuestion = turn;
    return void await turn.say(`${message} Just write your answer as the next message.`);
  }
  const accepted = await elicit(turn, { mode: 'form', message, requestedSchema: { type: 'object', properties: { [key]: property }, required: [key] } });
  if (!accepted) return;
  const value = accepted.content?.[key];
  if (!fits(property, value)) return void await turn.say('That answer does not fit the form, so I do not use it.');
  turn.session.history.push(`My ${key} is ${value}.`);
  await turn.say(`You answered: ${value}`);
}

// ---- talk --------------------------------------------------------------------------------------

const FABLE = 'The murre stood on its ledge and watched the sea, grey under a grey sky. Below it the waves counted the stones, one after another, and never came to an end. A gull passed and asked what it was waiting for. “Nothing”, said the murre, “I am only long in telling things.” ';
const NUMBERS = { three: 3, five: 5, ten: 10, twelve: 12, twenty: 20, thirty: 30, fifty: 50, hundred: 100, thousand: 1000 };

async function count(c, turn) {
  const match = /\bcount\b(?!\s+the\b)(?:.*?\b(?:to|until|till|up to)\s+(?:a\s+)?(\w+))?/i.exec(c.text);
  if (!match) return false;
  const last = Math.min(Number(match[1]) || NUMBERS[match[1]?.toLowerCase()] || 20, 500);
  const numbers = Array.from({ length: last }, (_, at) => at + 1).join(', ');
  await turn.say(numbers, /slow/i.test(c.text) ? 120 : 30);
}

async function long(c, turn) {
  if (!/\b(?:long|lengthy|essay|story|poem|novel|\d{3,} words|keep (?:talking|writing|going)|at length)\b/i.test(c.text)) return false;
  await turn.say(FABLE.repeat(6).trim(), 9);
}

async function wait(c, turn) {
  const match = /\b(?:wait|sleep|pause)\b\D*(\d+(?:\.\d+)?)\s*(ms|milli)?/i.exec(c.text);
  if (!match) return false;
  await turn.pause(Math.min(Number(match[1]) * (match[2] ? 1 : 1000), 120000));
  await turn.say('I have waited.');
}

async function plan(c, turn) {
  if (!/\bplan\b/i.test(c.text)) return false;
  const named = /\bsteps?\b\s*:?\s+(?:are|called|named|like)?\s*:?\s*(.+,.+)$/i.exec(c.plain)?.[1].split(/\s*,\s*(?:and )?|\s+and\s+/).filter(Boolean);
  const wanted = /(\w+)[\s-]+steps?\b/i.exec(c.text)?.[1];
  const size = Math.min(Math.max(Number(wanted) || { two: 2, three: 3, four: 4, five: 5 }[wanted?.toLowerCase()] || 3, 1), 12);
  const steps = named ?? Array.from({ length: size }, (_, at) => ['Look around', 'Do the work', 'Check the result'][at] ?? `Carry on, part ${at - 2}`);
  const priorities = ['high', 'medium', 'low'];
  for (let done = -1; done <= steps.length; done += 1) {
    const entries = steps.map((content, at) => ({ content, priority: priorities[at % 3], status: at < done ? 'completed' : at === done ? 'in_progress' : 'pending' }));
    turn.update({ sessionUpdate: 'plan', entries });
    await turn.pause(120);
  }
  await turn.say(`The plan has ${steps.length} steps and all of them are done: ${steps.join(', ')}.`);
}

async function sayExactly(c, turn) {
  const match = /^(?:just |only |simply )?(?:say|reply|respond|answer|repeat|echo|print|output)\b(?!\s+(?:what|the (?:file|contents?)|my|in|a (?:long|very)))(?:\s+(?:me|back|to me|with|exactly|only|just|literally|the|this|these|following|single|one|two|word|words|text|phrase|sentence|after me|verbatim|and nothing else)\b)*\s*[:,]?\s*(.+)$/is.exec(c.text);
  if (!match || c.file(c.text)) return false;
  const phrase = match[1].replace(/,?\s+(?:and nothing (?:else|more)|exactly|only|verbatim)[.!]?$/i, '');
  await turn.say(c.value(phrase));
}

const STOP = /^(?:what|which|tell|that|this|have|with|your|from|were|there|about|before|remember|said|told|asked|please|earlier|know|does|word)$/i;
async function memory(c, turn) {
  const earlier = turn.session.history.slice(0, turn.historyStart);
  if (/\bwhat (?:did|have|was it) I\b|\bmy (?:first|last|previous|earlier) (?:message|prompt|question|words)\b|\bwhat I (?:said|told|wrote)\b/i.test(c.text)) {
    return void await turn.say(earlier.length ? `Before this you said: ${earlier.map(text => `“${text}”`).join(' ')}` : 'You have not said anything before this in our session.');
  }
  if (/^(?:what|which|who|where|tell me|repeat|recall|do you|can you)\b/i.test(c.text) && /\b(?:my|I|the|remember|told|asked|gave|secret|word|number)\b/i.test(c.text)) {
    const keys = (c.plain.toLowerCase().match(/\w{4,}/g) ?? []).filter(word => !STOP.test(word));
    const told = earlier.filter(text => !/\?\s*$/.test(text)).reverse();
    const found = told.find(text => keys.some(word => text.toLowerCase().includes(word))) ?? told.find(text => /\bremember|keep in mind|secret\b/i.test(text));
    return void await turn.say(found ? `You told me: “${found}”` : 'You have not told me that in this session.');
  }
  if (!/\b(?:remember|keep in mind|memori[sz]e|note that)\b/i.test(c.text)) return false;
  await turn.say('I will remember that.');
}

async function smallTalk(c, turn) {
  if (/\bmodes?\b/i.test(c.text) && /\b(?:switch|change|set|go|enter|use)\b/i.test(c.text)) await turn.say('I have no modes to switch; I am always the same bird.');
  else if (/\b(?:working|current) directory\b|\bwhere are (?:you|we)\b|\bcwd\b|^pwd\b/i.test(c.text)) await turn.say(`I work in ${turn.session.cwd}`);
  else if (/\bwho are you\b|\byour name\b/i.test(c.text)) await turn.say('I am fourth-murre, a small agent without a language model.');
  else if (/^(?:hello|hi|hey|good (?:morning|evening|day))\b/i.test(c.text)) await turn.say('Hello! Kra-kra.');
  else return false;
}

const WISHES = [useTool, sayExactly, askUser, run, copy, edit, write, remove, list, count, wait, plan, read, long, smallTalk, memory];

// ---- attachments -------------------------------------------------------------------------------

const decoded = text => Buffer.from(text, 'base64');

function describe(block) {
  if (block.type === 'resource_link') return `a link named ${block.name} to ${block.uri}`;
  if (block.type === 'image') {
    const bytes = decoded(block.data);
    const size = bytes.subarray(1, 4).toString('latin1') === 'PNG' && bytes.length >= 24 ? `, ${bytes.readUInt32BE(16)}×${bytes.readUInt32BE(20)} pixels` : '';
    return `an image (${block.mimeType}, ${bytes.length} bytes${size})`;
  }
  const { uri, text, blob } = block.resource;
  if (text === undefined) return `an embedded resource ${uri} of ${decoded(blob).length} bytes`;
  return `an embedded text ${uri} of ${[...text].length} characters that begins “${[...text].slice(0, 300).join('')}”`;
}

export async function fulfil(turn, blocks) {
  const { session } = turn;
  const text = blocks.filter(block => block.type === 'text').map(block => block.text).join('\n').trim();
  const attached = blocks.filter(block => block.type !== 'text');
  turn.historyStart = session.history.length;
  turn.links = attached.map(block => block.uri ?? block.resource?.uri).filter(uri => uri?.startsWith('file:///'));
  if (text) session.history.push(text);
  session.used += text.length;
  if (attached.length) await turn.say(`I received ${attached.map(describe).join(', and ')}.`);

  const slash = /^\/([\w-]+)(?:\s+([\s\S]*))?$/.exec(text);
  if (slash) {
    if (slash[1] === 'echo') return turn.say(slash[2] || '(silence)');
    if (slash[1] === 'roots') return turn.say(`I may touch ${session.roots.join(' and ')}.`);
    return turn.say(`I have no command called /${slash[1]}.`);
  }

  quotes = [];
  const all = quotes;
  const masked = mask(text);
  const thinks = /\b(?:think|reason|ponder|reflect)\b/i.test(masked) && !/^(?:say|reply|answer|write)\b/i.test(masked);
  const literal = /^(?:please\s+|just\s+)*(?:say|reply|respond|answer|repeat)\b[^\n]*?\b(?:exactly|only|verbatim|literally)\b/i.test(masked);
  const clauses = (literal ? [masked] : masked.split(JOINT)).map(part => new Clause(part, all)).filter(clause => clause.text);
  if (thinks) await turn.think('The user has a wish. I look at it from the left and from the right, and then I know what to do.');
  let done = 0;
  for (const clause of clauses) {
    if (thinks && /^(?:think|reason|ponder|reflect)\b/i.test(clause.text)) continue;
    for (const wish of WISHES) {
      if ((await wish(clause, turn)) === false) continue;
      done += 1;
      break;
    }
  }
  const openQuestion = session.openQuestion && session.openQuestion !== turn;
  if (openQuestion) session.openQuestion = null;
  if (done || turn.messages) return;
  if (thinks) return turn.say('I have thought about it, and it seems fine to me.');
  if (!text) return turn.say('Your message was empty.');
  if (openQuestion) return turn.say(`Thank you for the answer: ${text}`);
  await turn.say(`You said “${[...text].slice(0, 200).join('')}”. I have no better answer to that.`);
}
