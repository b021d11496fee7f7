'use strict';
// Finds out what a person wants, from plain English.
const path = require('node:path');
const { fileURLToPath } = require('node:url');

const QUOTED = /```[^\n]*\n([\s\S]*?)```|`([^`\n]+)`|"([^"]*)"|“([^”]*)”|(?<![\p{L}\p{N}])'([^'\n]*(?:'\p{L}[^'\n]*)*)'(?![\p{L}\p{N}])/gu;

const VERBS = [
  ['switch', /\b(?:switch|change|set|use|select|turn)\b[^.]*?\b(?:model|thinking|pace|line numbers|numbering)\b/],
  ['ask', /\b(?:ask(?: me| the user|ing me)?\b(?! for permission)|elicit\w*|question me|let me (?:choose|pick|decide))/],
  ['plan', /\b(?:plan|todo list|to-do list|break (?:it|this) down)\b/],
  ['delete', /\b(?:delete|erase|unlink|remove|rm)\b/],
  ['append', /\b(?:append|add)\b/],
  ['replace', /\b(?:replace|substitute|rename the word|edit|modify|change|update|correct|fix)\b/],
  ['write', /\b(?:write|create|save|store|put|overwrite|make)\b/],
  ['run', /\b(?:run|execute|exec|shell|command|terminal|bash|launch|start)\b/],
  ['list', /\b(?:list|ls|look (?:in|into|around|through)|browse|what files|which files|directory|folder|contents of the (?:folder|directory))\b/],
  ['read', /\b(?:read|open|cat|show|print|display|look at|view|inspect|summari[sz]e|what is in|what's in|what does|contents? of|tell me what)\b/],
  ['story', /\b(?:story|tale|essay|poem|novel|stream|long (?:text|answer|reply|message)|count (?:to|up)|keep talking)\b/],
  ['think', /\b(?:think|ponder|reason|reflect|consider|thoughts?)\b/],
  ['remember', /\b(?:remember|memori[sz]e|keep in mind|note that)\b/],
  ['recall', /\b(?:what|which|who|recall|remind me|do you (?:know|remember))\b/],
  ['say', /\b(?:say|repeat|echo|greet|reply with|answer with|respond with|hello|hi)\b/],
];

const NEEDS_FILE = new Set(['append', 'replace', 'delete', 'write']);

function quotes(text) {
  const found = [];
  for (const hit of text.matchAll(QUOTED)) {
    const value = hit[1] ?? hit[2] ?? hit[3] ?? hit[4] ?? hit[5];
    found.push({ value, at: hit.index, end: hit.index + hit[0].length, code: hit[2] !== undefined || hit[1] !== undefined });
  }
  return found;
}

function looksLikePath(word) {
  if (!word || /\s{2,}|\n/.test(word) || /^https?:/i.test(word)) return false;
  if (/^(?:file:\/\/|~?\/|\.{1,2}\/)\S/.test(word)) return true;
  if (/\s/.test(word) && !/\.\w{1,8}$/.test(word)) return false;
  return /^[^\s<>|&;*?=()]+\/[^\s<>|&;*?=()]*$/.test(word)
    || /^(?:[^\s<>|&;*?=()/]+|[^\n<>|&;*?=()]*[^\s])\.[A-Za-z]\w{0,9}$/.test(word)
    || /^\.[A-Za-z][\w.-]+$/.test(word) || /^(?:Makefile|Dockerfile|README|LICENSE|CHANGELOG)$/.test(word);
}

function trimEnd(word) {
  return word.replace(/^[("'`<[]+/, '').replace(/[)"'`>\],;:!?]+$/, '').replace(/\.+$/, (dots) => (word === dots ? dots : ''));
}

// Everything in the text that looks like a file or folder, in order.
function paths(text) {
  const found = [];
  const marks = quotes(text);
  for (const mark of marks) {
    if (looksLikePath(mark.value)) found.push({ value: mark.value, at: mark.at, end: mark.end });
  }
  const blank = hide(text, marks);
  for (const hit of blank.matchAll(/\S+/g)) {
    const word = trimEnd(hit[0]);
    if (looksLikePath(word) && !/^(?:e\.g|i\.e|etc)\b/.test(word)) {
      found.push({ value: word, at: hit.index, end: hit.index + hit[0].length });
    }
  }
  const named = /\b(?:file|folder|directory)\s+(?:called|named)?\s*([\w.-]+)/i.exec(blank);
  if (!found.length && named && !/^(?:with|and|in|of|to|that|which|containing|called|named|from|is|on|here|there|for|called|contents?|system)$/i.test(named[1])) {
    found.push({ value: trimEnd(named[1]), at: named.index + named[0].length - named[1].length, end: named.index + named[0].length });
  }
  for (const mark of marks) {
    const before = text.slice(Math.max(0, mark.at - 25), mark.at);
    if (!found.length && /\b(?:file|folder|directory)\s+(?:called|named)?\s*$/i.test(before)) found.push({ ...mark });
  }
  return found.sort((a, b) => a.at - b.at);
}

function hide(text, marks) {
  let out = text;
  for (const mark of marks) out = out.slice(0, mark.at) + ' '.repeat(mark.end - mark.at) + out.slice(mark.end);
  return out;
}

function toFile(value, cwd) {
  if (value.startsWith('file://')) {
    try {
      return fileURLToPath(value);
    } catch {
      return path.resolve(cwd, value.slice(7));
    }
  }
  const home = value.startsWith('~/') ? path.join(process.env.HOME ?? '/', value.slice(2)) : value;
  return path.resolve(cwd, home);
}

function kindOf(text) {
  const files = paths(text);
  const bare = hide(hide(text, quotes(text)), files).toLowerCase();
  let best = null;
  for (const [name, pattern] of VERBS) {
    const hit = pattern.exec(bare);
    if (!hit) continue;
    if (NEEDS_FILE.has(name) && !files.length && !/\bfile\b/.test(bare)) continue;
    if (name === 'read' && !files.length && !/\b(?:file|link|resource|attach)/.test(bare)) continue;
    if (best === null || hit.index < best.at) best = { name, at: hit.index };
  }
  if (!best) return files.length ? 'read' : 'talk';
  if (best.name === 'write' && /^\s*(?:\w+\s+){0,3}(?:make|create|write)\s+(?:me\s+)?(?:a\s+|an\s+)?(?:\w+\s+)?plan\b/.test(bare)) return 'plan';
  if (best.name === 'read' && /\b(?:folder|directory)\b/.test(bare) && !/\bfile\b/.test(bare)) return 'list';
  if (best.name === 'recall' && files.length) return /\b(?:folder|directory|files)\b/.test(bare) ? 'list' : 'read';
  if (best.name === 'recall' && /\b(?:files|folder|directory)\b/.test(bare)) return 'list';
  if (best.name === 'replace' && /\bappend\b/.test(bare)) return 'append';
  if (best.name === 'list' && files.length && /\b(?:write|create|put)\b/.test(bare.slice(0, best.at))) return 'write';
  return best.name;
}

// The text to be written, wherever the person put it.
function textToWrite(text, files) {
  const target = files[0];
  const marks = quotes(text).filter((mark) => !target || mark.at !== target.at);
  if (marks.length) return marks[marks.length - 1].value;
  const after = /\b(?:with|containing|contains?|saying|that says|holding|says)\b(?:\s+(?:the|this|exactly|following|text|contents?|words?|lines?|just|only|in it))*\s*:?\s*([\s\S]+)$/i.exec(target ? text.slice(target.end) : text);
  if (after) return after[1].trim();
  const colon = /:\s*([\s\S]+)$/.exec(target ? text.slice(target.end) : text);
  if (colon) return colon[1].trim();
  const before = /\b(?:write|put|save|store|append|add)\s+(?:the\s+(?:text|words?|line)\s+)?([\s\S]+?)\s+(?:to|into|in|at the end of)\b/i.exec(text);
  if (before && !/^(?:a|the|it)?\s*(?:new\s+)?(?:file|text|line)?$/i.test(before[1])) return before[1].trim();
  return null;
}

function exchange(text, files) {
  const target = files[0];
  const marks = quotes(text).filter((mark) => !target || mark.at !== target.at);
  if (marks.length >= 2) return { from: marks[0].value, to: marks[1].value };
  const bare = target ? text.slice(0, target.at) + text.slice(target.end) : text;
  const hit = /\b(?:replace|substitute|change|edit|update|correct|fix)\s+(?:the\s+(?:word|text|line)\s+)?(\S.*?)\s+(?:with|by|to|into|for)\s+(?:the\s+word\s+)?(\S.*?)(?:\s+in\b.*)?\.?\s*$/is.exec(bare);
  return hit ? { from: hit[1], to: hit[2] } : null;
}

function commandIn(text) {
  const marks = quotes(text);
  const code = marks.find((mark) => mark.code) ?? marks[0];
  if (code && !/\b(?:run|execute)\b[^"'`]*\b(?:echo|printf|ls|cat|node|python3?|sh|bash|grep|touch)\b/i.test(text.slice(0, code.at))) {
    return code.value.trim();
  }
  const hit = /\b(?:run|execute|exec|launch|start)\b(?:\s+(?:me|the|a|this|following|shell|bash|terminal|command|program|please|for|in|line))*\s*:?\s*([\s\S]+)$/i.exec(text)
    ?? /\b(?:command|shell|terminal|bash)\b\s*:?\s*([\s\S]+)$/i.exec(text);
  if (!hit) return null;
  return hit[1]
    .replace(/\s+(?:and|then)\s+(?:tell|show|say|report|give|let)\b[\s\S]*$/i, '')
    .replace(/\s+(?:in (?:the|a|your) (?:terminal|shell)|please|for me)\s*[.!?]?\s*$/i, '')
    .replace(/[.!?]+\s*$/, '')
    .trim() || null;
}

function range(text) {
  let hit = /\blines?\s+(\d+)\s*(?:-|–|to|through|until|and)\s*(\d+)/i.exec(text);
  if (hit) return { line: Math.max(1, +hit[1]), limit: Math.max(1, +hit[2] - +hit[1] + 1) };
  hit = /\b(?:first|top)\s+(\d+)\s+lines?/i.exec(text);
  if (hit) return { line: 1, limit: Math.max(1, +hit[1]) };
  hit = /\bline\s+(\d+)/i.exec(text);
  if (hit) return { line: Math.max(1, +hit[1]), limit: 1 };
  hit = /\bfrom line\s+(\d+)/i.exec(text);
  return hit ? { line: Math.max(1, +hit[1]) } : {};
}

// "Do this, then that" becomes two pieces when both are understood.
function pieces(text) {
  const marks = quotes(text);
  const blank = hide(text, marks);
  const cuts = [0];
  for (const hit of blank.matchAll(/[,.;]?\s+(?:and\s+)?(?:then|after that|afterwards)[,]?\s+/gi)) {
    const rest = text.slice(hit.index + hit[0].length);
    if (!['talk', 'say', 'recall'].includes(kindOf(rest)) || /^say\b/i.test(rest)) cuts.push(hit.index, hit.index + hit[0].length);
  }
  cuts.push(text.length);
  const out = [];
  for (let i = 0; i < cuts.length; i += 2) out.push(text.slice(cuts[i], cuts[i + 1]).trim());
  return out.filter(Boolean);
}

module.exports = { quotes, paths, hide, toFile, kindOf, textToWrite, exchange, commandIn, range, pieces };
