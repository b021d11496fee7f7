// Reading a person's request: which work is meant, on which file, with which text.

import { fileURLToPath } from 'node:url';

const QUOTES = /```(?:\w*\n)?([\s\S]*?)```|"([^"]*)"|“([^”]*)”|`([^`]*)`|(?<!\w)'([^\n]*?)'(?!\w)/g;
const ABSOLUTE = /(?<![\w:/.~])\/(?:[\w.@+\-~%=,]+\/?)+/g;
const RELATIVE =
  /(?<![\w/])(?:\.{1,2}\/)?[\w\-/@+]*[\w\-@+]\.[A-Za-z]\w{0,9}(?:\.\w{1,8})?\b|(?<![\w/.])\.{1,2}\/[\w\-./@+]+|(?<![\w/.])[\w-]+\/[\w\-./]+/g;
const AFTER_NOUN = /\b(?:file|folder|directory|dir)\s+(?:named|called|at|in)?\s*([\w.\-/]+)/gi;
const LITTLE_WORDS = new Set(
  ('with and to in of that which at is named called the here there please for containing saying you we i a ' +
    'it using whose from contents content structure system listing').split(' '),
);
const NEAR = new Set(
  'file to into in at named called path edit open read create update folder directory delete remove from of list'.split(' '),
);

const WORK = [
  ['remove', /\b(?:delete|remove|erase)\b/],
  ['edit', /\b(?:edit|replace|change|modify|append|update|insert|add)\b/],
  ['write', /\b(?:write|create|save|put|make|store|overwrite)\b/],
  ['run', /\b(?:run|execute|shell|terminal|bash)\b/],
  ['list', /\b(?:list|ls|look (?:in|into|inside|around)|(?:what|which) files|show (?:me )?(?:all )?(?:the )?(?:files|folder|directory|entries))\b/],
  ['read', /\b(?:read|show|open|print|cat|view|display|summari[sz]e|what(?:'s| is| does)|contents?|look at|tell me what|check)\b/],
];

/** All quoted pieces of a text. */
export function quotes(text) {
  return [...text.matchAll(QUOTES)].map((match) => ({
    start: match.index,
    end: match.index + match[0].length,
    inside: match.slice(1).find((group) => group !== undefined),
  }));
}

function blank(text, spans) {
  let result = text;
  for (const { start, end } of spans) {
    result = result.slice(0, start) + ' '.repeat(end - start) + result.slice(end);
  }
  return result;
}

function looksLikePath(text) {
  if (!text || text.length > 400 || text.includes('\n')) return false;
  if (/^(?:\/|\.{1,2}\/|file:\/\/)/.test(text)) return true;
  return /^[\w\-./@+]*[\w\-@+]\.[A-Za-z]\w{0,9}$|^[\w\-.]+\/[\w\-./]*$/.test(text);
}

/** The path behind a file URI, or the text itself. */
export function plainPath(text) {
  if (!text.startsWith('file://')) return text;
  try {
    return fileURLToPath(text);
  } catch {
    return text.slice(7);
  }
}

export function findPath(text) {
  const found = [];
  const pieces = quotes(text);
  for (const { start, end, inside } of pieces) {
    if (!looksLikePath(inside)) continue;
    const before = /(\w+)\W*$/.exec(text.slice(0, start));
    found.push({ rank: before && NEAR.has(before[1].toLowerCase()) ? 0 : 2, start, end, path: plainPath(inside) });
  }
  const bare = blank(text, pieces);
  for (const match of bare.matchAll(/file:\/\/\S+/g)) {
    const name = match[0].replace(/[.,;:!?)]+$/, '');
    found.push({ rank: 1, start: match.index, end: match.index + name.length, path: plainPath(name) });
  }
  for (const pattern of [ABSOLUTE, RELATIVE]) {
    for (const match of bare.matchAll(pattern)) {
      const name = match[0].replace(/[.,;:!?)]+$/, '');
      if (name !== '/' && !['e.g', 'i.e'].includes(name.toLowerCase())) {
        found.push({ rank: 1, start: match.index, end: match.index + name.length, path: name });
      }
    }
  }
  if (!found.length) {
    for (const match of bare.matchAll(AFTER_NOUN)) {
      const name = match[1].replace(/[.,;:!?]+$/, '');
      if (!name || LITTLE_WORDS.has(name.toLowerCase())) continue;
      const start = match.index + match[0].length - match[1].length;
      found.push({ rank: 3, start, end: start + name.length, path: name });
    }
    for (const { start, end, inside } of pieces) {
      if (/(?:file|folder|directory|dir|named|called)\s*$/i.test(text.slice(0, start)) && !inside.includes('\n')) {
        found.push({ rank: 3, start, end, path: inside });
      }
    }
  }
  found.sort((left, right) => left.rank - right.rank || left.start - right.start);
  return found[0];
}

function findText(text, place) {
  for (const piece of quotes(text)) {
    if (!place || place.start < piece.start || place.end > piece.end) return piece.inside;
  }
  const rest = place ? blank(text, [place]) : text;
  const after =
    /\b(?:with|containing|contains|saying|says|reading|holding)\b(?:\s+(?:the|this|exactly|following|texts?|contents?|lines?|words?|in it|as|of))*\s*[:=]?\s*([\s\S]+)$/i.exec(rest);
  if (after) return after[1].trim();
  const before =
    /\b(?:write|put|save|add|append|insert|store)\s+(?:the\s+)?(?:(?:text|words?|line|content)\s+)?([\s\S]+?)\s+(?:to|into|in|at)\b/i.exec(rest);
  if (before && !/^(?:a |the )?(?:file|something)$/i.test(before[1].trim())) return before[1].trim();
  const colon = /:\s+([\s\S]+)$/.exec(rest);
  return colon ? colon[1].trim() : undefined;
}

function findSwap(text, place) {
  const rest = place ? blank(text, [place]) : text;
  const piece = '("[^"]*"|“[^”]*”|`[^`]*`|\'[^\']*\'|\\S+(?:\\s\\S+)*?)';
  const noun = '(?:the\\s+)?(?:(?:text|words?|line|string)\\s+)?';
  const match = new RegExp(
    `\\b(?:replace|change|swap|turn)\\s+${noun}${piece}\\s+(?:with|by|to|into|for)\\s+${noun}${piece}(?=\\s+in\\b|\\s*[.,;]?\\s*$)`, 'i',
  ).exec(rest);
  return match && match.slice(1, 3).map((part) => part.replace(/^["“”`']|["“”`']$/g, ''));
}

function findCommand(text) {
  const [piece] = quotes(text);
  if (piece) return piece.inside.trim();
  const match =
    /\b(?:run|execute)\s+(?:the\s+|this\s+|a\s+)?(?:(?:shell|terminal|bash)\s+)?(?:command\b)?\s*:?\s*([\s\S]+)$/i.exec(text) ??
    /\b(?:command|shell|terminal)\s*:\s*([\s\S]+)$/i.exec(text);
  if (!match) return undefined;
  return match[1].trim()
    .replace(/,?\s+(?:in|on|using) (?:the|a|your) (?:terminal|shell|console)\b[\s\S]*$/i, '')
    .replace(/,?\s+(?:and|then) (?:tell|show|give|report|say|let)\b[\s\S]*$/i, '')
    .replace(/,?\s+(?:for )?at most \d+ seconds?\b[\s\S]*$/i, '')
    .replace(/,?\s+please[.!]?$/i, '')
    .replace(/(?<=\w)[.!?]$/, '')
    .trim() || undefined;
}

function findSaying(text) {
  const [piece] = quotes(text);
  if (piece) return piece.inside;
  const match =
    /\b(?:say|repeat|echo|reply|respond|answer|write back)\b(?:\s+(?:after me|back|with|exactly|only|just|the|single|following|words?|text|phrase|me))*\s*[:,]?\s*([\s\S]+)$/i.exec(text);
  return match ? match[1].trim() : undefined;
}

/** The MCP tool a text means, if any. */
export function findTool(text, tools) {
  const bare = blank(text, quotes(text)).toLowerCase();
  if (!/\b(?:tools?|mcp|call|use|using|invoke|server)\b/.test(bare)) return undefined;
  if (/\b(?:shell|terminal|command)\b/.test(bare) && !/\b(?:tools?|mcp)\b/.test(bare)) return undefined;
  const named = tools.filter((tool) => {
    const name = tool.name.toLowerCase().replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return new RegExp(`(?<![\\w-])${name}(?![\\w-])`).test(text.toLowerCase());
  });
  named.sort((left, right) => right.name.length - left.name.length);
  if (named.length) return named[0];
  return /\bmcp\b/.test(bare) && !/\b(?:which|what|list|any)\b/.test(bare) ? tools[0] : undefined;
}

function fit(value, kind) {
  if (kind === 'integer' || kind === 'number') return Number.isFinite(Number(value)) ? Number(value) : value;
  if (kind === 'boolean') return /^(?:true|yes|on|1)$/i.test(value);
  return value;
}

/** Arguments for an MCP tool: a JSON object in the text, named values, or what was quoted. */
export function toolArguments(text, tool) {
  for (let start = text.indexOf('{'); start >= 0; start = text.indexOf('{', start + 1)) {
    for (let end = text.lastIndexOf('}'); end > start; end = text.lastIndexOf('}', end - 1)) {
      try {
        return JSON.parse(text.slice(start, end + 1));
      } catch {
        // not this pair of braces
      }
    }
  }
  const properties = tool.inputSchema?.properties ?? {};
  const needed = tool.inputSchema?.required ?? Object.keys(properties).slice(0, 1);
  const rest = text.split(tool.name).join(' ');
  const spoken = quotes(rest).map((piece) => piece.inside).filter((piece) => piece.trim());
  const numbers = rest.match(/-?\b\d+(?:\.\d+)?\b/g) ?? [];
  const values = {};
  for (const [key, rule] of Object.entries(properties)) {
    const name = key.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    const match = new RegExp(
      `\\b${name}\\b\\s*(?:=|:|\\bis\\b|\\bas\\b|\\bof\\b|\\bset to\\b)?\\s*(?:"([^"]*)"|'([^']*)'|\`([^\`]*)\`|([^\\s,;]+))`, 'i',
    ).exec(rest);
    if (match) values[key] = fit(match[1] ?? match[2] ?? match[3] ?? match[4].replace(/\.$/, ''), rule?.type);
  }
  for (const key of needed) {
    if (key in values) continue;
    const kind = properties[key]?.type;
    if (kind === 'integer' || kind === 'number') values[key] = fit(numbers.shift() ?? '0', kind);
    else if (kind === 'boolean') values[key] = true;
    else if (kind === undefined || kind === 'string') {
      values[key] = spoken.shift() ?? /\b(?:with|saying|on|for|text|message)\b\s*:?\s*([\s\S]+)$/i.exec(rest)?.[1].trim() ?? text.trim();
    }
  }
  return values;
}

function oneStep(text) {
  const place = findPath(text);
  const bare = blank(text, [...quotes(text), ...(place ? [place] : [])]).toLowerCase();
  const hits = WORK.map(([name, pattern], rank) => ({ name, rank, at: bare.search(pattern) })).filter((hit) => hit.at >= 0);
  hits.sort((left, right) => left.at - right.at || left.rank - right.rank);
  const same = /\b(?:it|that file|the same file)\b/.test(bare);
  const path = place ? place.path : same ? '' : undefined;
  for (const { name } of hits) {
    if (name === 'run') {
      const command = findCommand(text);
      const limit = /\bat most (\d+(?:\.\d+)?) seconds?\b/i.exec(text);
      if (command) return { act: 'command', command, limit: limit ? Number(limit[1]) : undefined };
    } else if (name === 'list') {
      return { act: 'list', path: place ? place.path : '.' };
    } else if (path === undefined) {
      continue;
    } else if (name === 'read' || name === 'remove') {
      return { act: name, path };
    } else if (name === 'edit') {
      const swap = findSwap(text, place);
      if (swap) return { act: 'edit', path, old: swap[0], fresh: swap[1] };
      const extra = findText(text, place);
      if (extra !== undefined) return { act: /\b(?:append|add|insert)\b/.test(bare) ? 'append' : 'write', path, text: extra };
    } else if (name === 'write') {
      return { act: 'write', path, text: findText(text, place) ?? 'A line from ferret.\n' };
    }
  }
  return undefined;
}

/** The steps a request asks for; none means plain talk. */
export function understand(request, tools = []) {
  const text = request.trim();
  const bare = blank(text, quotes(text)).toLowerCase();
  const slash = /^\/(burrow|tally)(?:\s+([\s\S]*))?$/.exec(text);
  if (slash) return [{ act: slash[1], text: slash[2] ?? '' }];
  const tool = findTool(text, tools);
  if (tool) return [{ act: 'useTool', tool, values: toolArguments(text, tool) }];
  if (/\bmcp\b|\b(?:what|which) tools\b/.test(bare)) return [{ act: 'tools' }];
  if (/^(?:please\s+|just\s+|now\s+)*(?:say|repeat|echo|reply|respond)\b/.test(bare) && findSaying(text)) {
    return [{ act: 'quote', text: findSaying(text) }];
  }
  if (/\bask (?:me|the user|us)\b|\belicit|\bquestion (?:for|to) me\b/.test(bare)) return [{ act: 'ask', text }];
  if (/\b(?:switch|change|set|use|select)\b.*\b(?:model|brain)\b|\b(?:switch|change) to (?:quick|patient|dreamy)\b/.test(bare)) {
    return [{ act: 'brain', text: text.toLowerCase() }];
  }
  if (/\bplan\b/.test(bare) && !findPath(text)) return [{ act: 'plan', text }];
  const parts = text.split(/[,.;]?\s+(?:and\s+)?(?:then|afterwards|after that)[,:]?\s+/i);
  if (parts.length > 1) {
    const steps = parts.map(oneStep);
    if (steps.every(Boolean)) return steps;
  }
  const step = oneStep(text);
  if (step) return [step];
  if (/\b(?:think|ponder|reason|consider)\b/.test(bare)) return [{ act: 'think', text }];
  const wait = /\b(?:wait|sleep|pause)\b\D*(\d+(?:\.\d+)?)/.exec(bare);
  if (wait) return [{ act: 'wait', seconds: Math.min(Number(wait[1]), 120) }];
  if (/\b(?:story|tale|essay|poem|novel|count|paragraphs?)\b|\blong\b|\bstream/.test(bare)) return [{ act: 'story', text }];
  const asking = /\b(?:do you|what|which|did i|can you)\b/.test(bare);
  if (/\bremember\b/.test(bare) && !asking) return [{ act: 'remember' }];
  if (asking && /\b(?:remember|word|number|code|name|secret|said|say|told|tell|colou?r|earlier|before)\b/.test(bare)) return [{ act: 'recall' }];
  const saying = findSaying(text);
  if (saying && /\b(?:say|repeat|echo|reply|respond|answer)\b/.test(bare)) return [{ act: 'quote', text: saying }];
  return [];
}
