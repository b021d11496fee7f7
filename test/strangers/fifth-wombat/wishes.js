'use strict';
// Plain rules that understand what a person types. No wish is carried out here; see turn.js.

const WORDS = { one: 1, two: 2, three: 3, four: 4, five: 5, six: 6, seven: 7, eight: 8, nine: 9, ten: 10, eleven: 11, twelve: 12,
  fifteen: 15, twenty: 20, thirty: 30, forty: 40, fifty: 50, sixty: 60, hundred: 100, 'a hundred': 100 };
const NUM = '(\\d+|' + Object.keys(WORDS).join('|') + ')';
const num = (s) => (/^\d+$/.test(s) ? Number(s) : WORDS[s.toLowerCase()]);

const OPEN = '\uE000';
const SHUT = '\uE001';
const MARK = /\uE000(\d+)\uE001/g;

// Hides quoted text, code and JSON behind marks, so that no rule looks into it.
function mask(text) {
  const kept = [];
  const keep = (raw, inner, kind) => OPEN + (kept.push({ raw, inner, kind }) - 1) + SHUT;
  let s = text.replace(/[\uE000\uE001]/g, '');
  s = s.replace(/```[^\n`]*\n([\s\S]*?)\n?```/g, (raw, inner) => keep(raw, inner, 'block'));
  // A colon and a new line after "content" and the like: all the rest is the text.
  s = s.replace(/((?:content|contents|text|containing|contains|lines?|following|saying|says|with|file)\b[^\n:]{0,40}:[ \t]*)\n(?!\s*(?:\d+[.)]|[-*])\s)([\s\S]+)$/i,
    (raw, head, inner) => (inner.startsWith(OPEN) ? raw : head + keep(inner, inner, 'block')));
  let out = '';
  for (let i = 0; i < s.length; i++) {
    const c = s[i];
    const before = i ? s[i - 1] : ' ';
    if (c === OPEN) { const j = s.indexOf(SHUT, i); out += s.slice(i, j + 1); i = j; continue; }
    const close = { '"': '"', '`': '`', '“': '”', '«': '»', '‘': '’', "'": "'" }[c];
    if (close && !((c === "'" || c === '‘') && /[\w]/.test(before))) {
      let j = i + 1;
      for (; j < s.length; j++) {
        if (s[j] !== close) continue;
        if (c === "'" && /\w/.test(s[j + 1] || ' ')) continue; // an apostrophe within a word
        if (c === '"' && s[j - 1] === '\\') continue;
        break;
      }
      if (j < s.length) { out += keep(s.slice(i, j + 1), s.slice(i + 1, j), c === '`' ? 'code' : 'quote'); i = j; continue; }
    }
    if (c === '{' && before !== '$') {
      const end = balanced(s, i);
      if (end > 0) {
        let json;
        try { json = JSON.parse(reveal(s.slice(i, end), kept)); } catch { json = undefined; }
        if (json !== undefined) { const raw = reveal(s.slice(i, end), kept); out += keep(raw, raw, 'json'); i = end - 1; continue; }
      }
    }
    out += c;
  }
  return { masked: out, kept };
}

function balanced(s, at) {
  let depth = 0;
  let quoted = false;
  for (let i = at; i < s.length; i++) {
    if (quoted) { if (s[i] === '\\') i++; else if (s[i] === '"') quoted = false; continue; }
    if (s[i] === '"') quoted = true;
    else if (s[i] === '{') depth++;
    else if (s[i] === '}' && --depth === 0) return i + 1;
  }
  return -1;
}

const reveal = (s, kept) => s.replace(MARK, (_, n) => kept[n].raw);
const plain = (s, kept) => s.replace(MARK, (_, n) => kept[n].inner);

const VERB = '(?:read|show|open|display|view|print|create|write|make|run|execute|launch|delete|remove|erase|change|replace|swap|substitute|list|say|repeat|reply|'
  + 'respond|answer|tell|give|call|use|invoke|count|think|reason|plan|ask|describe|append|add|edit|update|save|put|store|remind|wait|pause|sleep|look|report|confirm|let|talk|work|follow|carry|recall|remember|explain|summari[sz]e|end|finish|switch)';
const NOISE = '(?:please|kindly|also|then|next|now|finally|lastly|first|firstly|second|secondly|third|thirdly|after that|afterwards|and|ok|okay|hey|hi|hello there|so|just|wombat|'
  + 'can you|could you|would you|will you|may i ask you to|i want you to|i would like you to|i\'d like you to|i need you to|you should|go ahead and|let\'s|be so kind as to|if you (?:can|could|would|don\'t mind)|help me(?: to)?|try to|immediately|quickly|once)';

function clauses(masked) {
  const parts = masked
    .replace(/\r/g, '')
    .split(new RegExp(`\\n+|(?<=[^\\s.][.!?])\\s+(?=[A-Z${OPEN}]|then\\b|after\\b|next\\b|finally\\b|also\\b|please\\b|and\\b)`
      + `|[;,]?\\s+(?:and\\s+)?(?:then|afterwards|after that|finally|next|lastly)[,:]?\\s+(?=(?:please\\s+|also\\s+)?(?:${VERB}\\b|${OPEN}))`
      + `|[;,]?\\s+(?:and|but)\\s+(?:please\\s+|also\\s+|finally\\s+|just\\s+)*(?=${VERB}\\b)|;\\s+(?=${VERB}\\b)|,\\s+(?=${VERB}\\b)`
      + `|\\s+(?=\\(?\\d[.)]\\s+${VERB}\\b)`, 'i'));
  return parts.map((p) => (p || '').trim()).filter((p) => /[\w\uE000]/.test(p));
}

function trimNoise(c) {
  const re = new RegExp(`^(?:[-*•]\\s+|\\(?\\d+[.)]\\s+|step \\d+[:.]?\\s+|${NOISE}\\b[,:!]?\\s*)`, 'i');
  for (let was = ''; was !== c;) { was = c; c = c.replace(re, '').trimStart(); }
  return c.replace(/[,.\s]*(?:\b(?:please|thanks|thank you|for me|right now|if you can|would you|will you|could you)\b)?[\s.!?,]*$/i, '').trim();
}

const BARE = /(?:file:\/\/[^\s,;]+|(?<![\w:/])(?:~|\.{1,2})?\/?(?:[\w@%+=.-]+\/)+[\w@%+=.-]+|(?<![\w:/.])\/[\w@%+=.-]+|(?<![\w/:@-])\.?[\w@%+=-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,9}(?![\w(/])|\b(?:README|Makefile|LICENSE|Dockerfile)\b)/g;
const NAMED = /\b(?:file|document)\s+(?:called|named|at|with the name|by the name of)?\s*(?!(?:are|here|there|from|where|using|so|and|with|that|which|containing|in|to|from|called|named|into|for|of|at|by|is|it|the|please|says|has)\b)([\w@%+=./-]*\w)/i;

// Every path named in a clause: {path, at, len}; quoted ones only when they look like one.
function paths(c, kept) {
  const found = [];
  for (const m of c.matchAll(MARK)) {
    const q = kept[m[1]];
    if (q.kind === 'json' || q.kind === 'block') continue;
    const before = c.slice(0, m.index);
    const cued = /\b(?:file|files|document|called|named|path|folder|directory)\s*[:(]?\s*$/i.test(before);
    if (/^[^\s]{1,300}$/.test(q.inner) && (/^(?:file:\/\/|[~.]{0,2}\/|[A-Za-z]:\\)/.test(q.inner) || /^[\w@%+=./-]+\.[A-Za-z]\w{0,9}$/.test(q.inner) || cued
        || /^[\w.-]+(?:\/[\w.-]+)+$/.test(q.inner))) found.push({ path: q.inner, at: m.index, len: m[0].length });
    else if (/^[^\n]{1,200}\.[A-Za-z]\w{0,7}$/.test(q.inner) && (cued || /\b(?:to|into|in|as|read|open|show|from)\s+$/i.test(before))) {
      found.push({ path: q.inner, at: m.index, len: m[0].length });
    }
  }
  for (const m of c.matchAll(BARE)) {
    if (/^(?:e\.g|i\.e|etc\.?)$/i.test(m[0])) continue;
    found.push({ path: m[0].replace(/[.,!?]+$/, ''), at: m.index, len: m[0].replace(/[.,!?]+$/, '').length });
  }
  if (!found.length) {
    const m = NAMED.exec(c);
    if (m) found.push({ path: m[1], at: m.index + m[0].length - m[1].length, len: m[1].length });
  }
  found.sort((a, b) => a.at - b.at);
  const cue = found.find((f) => /\b(?:file|called|named|in|into|inside|to|from|as|of|at)\s*[:(]?\s*$/i.test(c.slice(0, f.at)));
  return { all: found, main: cue && !/\b(?:with|content|text)\b/i.test(c.slice(0, cue.at)) ? cue : (found[0] || null), cue };
}

function without(c, p) {
  const before = c.slice(0, p.at).replace(/,?\s*\b(?:(?:in|inside|within|of|from|to|into|onto|as|at|on|out of)\s+)?(?:(?:the|a|an|my|this|our|that|new|existing|text|empty|whole|entire)\s+)*(?:file|document)?s?\s*(?:called|named|at)?\s*[:(]?\s*$/i, ' ');
  return (before + ' ' + c.slice(p.at + p.len).replace(/^\s*\)?\s*file\b/i, '')).replace(/\s+/g, ' ').trim();
}

const quotes = (c, kept, skip) => [...c.matchAll(MARK)]
  .filter((m) => !(skip || []).some((p) => p && p.at === m.index)).map((m) => ({ ...kept[m[1]], at: m.index }));

const tidy = (s) => s.replace(/^[\s:,-]+|[\s,]+$/g, '');

function seconds(c) {
  const m = new RegExp(`\\b${NUM}\\s*-?\\s*(seconds?|secs?|s|minutes?|mins?)\\b`, 'i').exec(c);
  return m ? num(m[1]) * (/^m/i.test(m[2]) ? 60 : 1) : null;
}

const SECRET = /pass\s?word|pass\s?phrase|\bsecret|api.?key|access.?token|\btoken\b|credential|private key|credit card|\bpin\b/i;

// One clause into one wish, or null when nothing is recognised. `soFar` says whether something was understood before it.
function one(clause, kept, soFar) {
  const c = trimNoise(clause);
  if (!c) return null;
  const has = (re) => re.test(c);
  const p = paths(c, kept);
  const main = p.main;
  const qs = quotes(c, kept, p.all);
  const text = (s) => plain(s, kept);

  // What belongs to the wish before it: "and show me the output", "tell me when you are done".
  if (soFar && !main && !qs.length && has(/^(?:show|tell|give|report|print|display|let|return|send|share|post|confirm|say|reply|answer|respond|explain|summari[sz]e|describe|end|finish|stop)\b/i)
    && has(/\b(?:output|results?|what (?:it|you|happen|the (?:command|tool|file|output|result|server))|its? (?:content|answer|output|result|say)|the (?:content|answer|text|outcome|reply)|when|know|back|exit (?:code|status)|it|them|me|turn|there|done)\b/i)
    && !has(/\b(?:remember|story|poem|count|joke)\b/i)) return { do: 'nothing' };

  // Memory
  if (has(/^(?:remember|memori[sz]e|keep (?:it |this )?in mind|bear in mind|note|take note|don'?t forget|do not forget|learn)\b/i) && !has(/\?|\bremember (?:what|which|when|anything|me|my|everything)\b/i)) {
    if (soFar && has(/^\S+ (?:it|that|this|them)(?: for (?:me|later))?$/i)) return { do: 'nothing' };
    return { do: 'keep', text: text(c.replace(/^(?:remember|memori[sz]e|keep (?:it |this )?in mind|bear in mind|note|take note|don'?t forget|do not forget|learn)\s*(?:that|this|down|the following|for later)?[\s:,]*/i, '')) };
  }
  if (has(/\b(?:what|which|do|can|anything|everything)\b.*\b(?:remember|recall)\b|^(?:recall|remind me)\b|\bremember (?:what|which|anything|me|my|everything)\b/i)
    || has(/\bwhat (?:did|have|had) (?:i|we)\b|\bwhat was\b.*\b(?:i|we) (?:said|told|asked|wrote|mentioned|talked)\b|\bwhat(?:'s| is| was| were| are) (?:the|my|our) (?:\w+ ){0,3}(?:word|words|secret|code|codeword|number|name|color|colour|question|message|prompt|animal|phrase|token)\b|\bwhat(?:'s| is) my\b|\b(?:what|which) (?:\w+ ){1,3}(?:did|have|had|has) (?:i|we|just)\b|\b(?:the|a) \w+ i (?:told|gave|mentioned|asked|said)\b|\bwhat was (?:it|that) (?:i|that i)\b/i)
    || has(/\b(?:conversation|history|chat) (?:so far|until now|up to now)|\b(?:summari[sz]e|recap|repeat) (?:our|the|this) (?:conversation|chat|talk)|\bwho am i\b|\bi (?:told|gave|asked) you\b.*\?*$/i)) return { do: 'recall' };
  if (has(/^(?:my \w+(?: \w+)? is|the (?:secret |code |magic |pass)?(?:word|number|code|phrase|name) is|i am called|call me|i'?m called)\b/i)) return { do: 'keep', text: text(c) };

  // Modes
  let m = /\b(?:switch|change|go|set|put yourself|move)\b.*\b(?:mode)?\s*\b(?:to|into|in)\b\s*(?:the )?(.+?)\s*mode\b|\bmode (?:to|into) (.+)$/i.exec(c);
  if (m) return { do: 'mode', mode: text(m[1] || m[2]).trim() };

  // Questions to the user
  if (has(/\bask me\b|\bask (?:the )?(?:user|human|person)\b|\bask (?:a|one|some|your) questions?\b|\bquestion (?:me|for me)\b|\belicit|\bprompt me\b|\blet me (?:choose|pick|decide|select|enter|fill)\b|\b(?:request|get|collect|gather) (?:some |an? |my |the user'?s? )(?:input|answer|name|choice|age|preference)|\bask for (?:my|the user)|\bfind out (?:from me|my|what i)\b|\bquiz me\b|\bfill (?:in|out) a form\b|\bshow me a form\b|\bi want to be asked\b/i)) return asking(c, kept, qs);

  // Thinking and planning
  if (has(/^(?:think|reason|ponder|reflect|consider|muse|mull|meditate|brood|contemplate)\b|\bthink (?:aloud|out loud|hard|deeply|first|about|before|carefully|it through)\b|\b(?:your|some) (?:thoughts?|thinking|reasoning)\b|\bthinking (?:aloud|out loud)\b/i)) {
    const about = c.replace(/^.*?\b(?:about|on|over)\b\s*|^(?:think|reason|ponder|reflect|consider|muse)\b\s*/i, '');
    return { do: 'think', about: text(tidy(about.replace(/^(?:(?:aloud|out loud|hard|deeply|first|carefully|it through|through)\b[\s,]*)+/i, ''))) };
  }
  if (has(/\bplan\b|\bto-?do list\b|\binto steps\b|\bstep[- ]by[- ]step\b|\bcheck ?list\b|\broad ?map\b/i) && !main) {
    m = new RegExp(`\\b${NUM}[- ]?(?:steps?|points?|items?|tasks?|entries|entry|stages?|parts?|things)\\b`, 'i').exec(c);
    const goal = /\b(?:for|to|about|of how to|how to)\s+(.+)$/i.exec(c);
    return { do: 'plan', steps: m ? num(m[1]) : 3, goal: goal ? text(goal[1]) : text(qs.map((q) => q.inner).join(', ')), list: c.includes(':') ? text(c.slice(c.indexOf(':') + 1)) : '' };
  }
  if (soFar && has(/^(?:work|follow|carry|go|execute|do|complete|tick|perform|walk|step)\b.*\b(?:it|them|plan|steps?|through|out|each)\b/i) && !main && !qs.length) return { do: 'nothing' };

  // Long talk and counting, before anything that only begins with "say" or "write"
  m = new RegExp(`\\bcount(?:ing)?\\b|\\bnumbers?\\s+(?:from\\s+)?${NUM}\\s*(?:to|through|until|till|-|–)`, 'i').exec(c);
  if (m && !main && !has(/\bcount (?:the|how many) (?:files|lines|words)\b/i)) {
    const range = new RegExp(`\\b(?:from\\s+)?${NUM}\\s*(?:to|through|until|till|up to|down to|-|–)\\s*${NUM}\\b`, 'i').exec(c);
    const up = new RegExp(`\\b(?:to|until|till)\\s+${NUM}\\b`, 'i').exec(c) || new RegExp(`\\b${NUM}\\b(?!\\s*(?:sec|min))`, 'i').exec(c);
    const secs = seconds(c);
    const from = range ? num(range[1]) : 1;
    const to = range ? num(range[2]) : up ? num(up[1]) : secs ? secs * 4 : 20;
    return { do: 'count', from, to: Math.sign(to - from) * Math.min(Math.abs(to - from), 5000) + from, slow: has(/slow|pause|second|gently|wait|leisure/i), seconds: has(/\bevery\b|\beach\b|\bbetween\b|\bper\b/i) ? null : secs, gap: has(/\bevery\b|\beach\b|\bbetween\b|\bper\b/i) ? seconds(c) || 1 : null };
  }
  if (!main && has(/\b(?:long|longer|lengthy|endless|detailed|huge)\b.*\b(?:story|tale|poem|essay|answer|text|speech|reply|monologue|report|message|talk|explanation|novel|article)\b|\bstory\b|\b(?:talk|speak|chat|ramble|stream|go on|babble|write|keep talking)\b.*\b(?:slow(?:ly)?|long|a while|seconds?|minutes?|time|forever|stop)\b|\bkeep (?:talking|going|writing)\b|\btalk (?:to me|about)\b|\bpoem\b|\bessay\b|\blecture\b|\bmonologue\b|\bramble\b|\bfilibuster\b/i) && !has(/^(?:say|repeat)\b.*\uE000/i)) {
    return { do: 'talk', seconds: Math.min(seconds(c) || (has(/long|slow|while|forever|keep|endless/i) ? 10 : 5), 120) };
  }
  if (has(/^(?:wait|pause|sleep|idle|rest|do nothing|hold on)\b/i) && !qs.length) return { do: 'wait', seconds: Math.min(seconds(c) || Number((/\d+/.exec(c) || [2])[0]), 600) };

  // Change a file
  const changer = has(/\b(?:replace|change|swap|substitute|turn|switch|correct|fix|rename|edit|update|modify|find)\b/i) || (has(/^(?:remove|delete|erase|cut|drop)\b/i) && main && qs.length);
  if (changer && (main || soFar || qs.length > 1)) {
    const body = main ? without(c, main).replace(/^(?:edit|update|modify|open|in)\s*[:,]?\s*(?:and\s+|to\s+|by\s+)?(?=(?:replac|chang|swap|substitut|turn)\w*)/i, '') : c.replace(/\b(?:in|inside|of) (?:it|that file|the file|this file)\b/i, ' ');
    const path = main ? main.path : null;
    const first = has(/\bfirst (?:occurrence|one|instance|match)\b|\bonly once\b|\bonly the first\b/i);
    const two = quotes(body, kept).filter((q) => q.kind !== 'json');
    if (two.length >= 2) {
      const swapped = /\bsubstitute\b[^\uE000]*\uE000\d+\uE001\s+for\b|\uE000\s*\d+\uE001\s+(?:instead of|in place of)\b/i.test(body);
      return { do: 'change', path, from: two[swapped ? 1 : 0].inner, to: two[swapped ? 0 : 1].inner, first };
    }
    if (two.length === 1 && /^(?:remove|delete|erase|cut|drop)\b/i.test(body)) return { do: 'change', path, from: two[0].inner, to: '', first };
    m = /\b(?:replace|change|swap|turn|switch|correct|fix|rename|update|modify|edit)(?:ing)?\s+(?:(?:all|every|each|any|the|first|occurrences?|instances?|of|out|word|words|text|line|string|value|phrase|number)\s+)*(.+?)\s+(?:with|by|to|into|for|->|→|=>)\s+(?:(?:the|word|text|string|phrase|line|value|number)\s+)*(.+?)$/i.exec(body);
    if (m && !/^(?:it|the file|file|that|this)$/i.test(m[1].trim())) return { do: 'change', path, from: text(m[1]).trim(), to: text(m[2]).replace(/\s*(?:everywhere|in (?:it|there|that file|the file|this file))$/i, '').trim(), first };
    if (two.length === 1 && main) return { do: 'write', path, text: two[0].inner };
  }

  // Say: only when it begins so and no file is meant
  const sayish = /^(?:say|repeat|echo|reply|answer|respond|greet|utter|pronounce|speak|shout|whisper|write back|type|output|tell me|print|give me|send(?: me)?|write|state|return)\b/i;
  if (!main && has(sayish) && (qs.length || has(/^(?:say|repeat|reply|respond|answer|echo|utter)\b/i))
    && !has(/\b(?:run|execute|command|shell|terminal|tool|mcp)\b/i) && !has(/\b(?:append|add|into|output of)\b/i)) {
    m = new RegExp(`\\b${NUM} times\\b`, 'i').exec(c);
    const body = c.replace(sayish, '').replace(/^(?:\s*(?:to me|me|after me|back|with|only|exactly|just|simply|precisely|the|single|one|following|this|word|words|phrase|text|sentence|message|line|string|verbatim|literally|out loud|aloud|is|please|by saying|saying|nothing (?:else )?(?:but|except)|(?:and )?nothing (?:else|more)(?=\s*:))\b)*[\s:,]*/i, '');
    const said = qs.length ? qs.map((q) => q.inner).join(' ') : text(body.replace(/,?\s*(?:and )?(?:nothing (?:else|more)|\bto me|back|only|verbatim|without .*|slowly|\S+ times)\s*$/i, ''));
    if (said.trim()) return { do: 'say', text: said, times: m ? Math.min(num(m[1]), 50) : 1, slow: has(/slow/i) };
  }

  // Commands
  const shell = has(/\b(?:shell|terminal|bash|command line|console|command)\b/i);
  m = /^(?:(?:use|open|in|with|go to|from)\s+(?:the |a |your )?(?:shell|terminal|bash|console|command line)(?: tool)?\s*(?:,|to|and)?\s*)?(?:(?:re-?run|run|execute|launch|start)\b|use\s+(?:the\s+)?(?:(?:shell|terminal)\s+)?command\b)\s*/i.exec(c);
  const code = qs.find((q) => q.kind === 'code' || q.kind === 'block') || qs[0];
  if (m || shell || /^\$\s+\S/.test(c) || (code && code.kind === 'code' && has(/\b(?:output|print|return|do|give)s?\b/i))) {
    let rest = m ? c.slice(m[0].length) : c;
    const lead = /^(?:(?:the|this|a|following|shell|terminal|bash|system|command|commands|line|me|in|using|your|on|console|script|sh|called|named)\b\s*)*[:,]?\s*/i;
    const bare = rest.replace(/^(?:the |this |a )?(?:(?:following|long|slow|long-running|quick|short|simple) )*(?:(?:shell|terminal|bash|system) )?(?:command(?: line)?s?\b)?(?: in (?:the|a|your) (?:shell|terminal|console|background))?\s*:?\s*/i, '');
    if (!m && !code && /^\$\s+/.test(c)) return { do: 'run', command: text(reveal(c.replace(/^\$\s+/, ''), kept)) };
    const afterLead = rest.replace(lead, '');
    if (code && (afterLead.startsWith(OPEN) || !m || code.kind === 'code')) {
      const at = /^\uE000(\d+)\uE001/.exec(afterLead);
      return { do: 'run', command: at ? kept[at[1]].inner : code.inner };
    }
    const command = reveal(bare, kept).replace(/\s*,?\s+(?:in|using|with|on|through) (?:the|a|your|my) (?:shell|terminal|console|bash|command line|workspace|background|project|working directory|current (?:directory|folder))(?: .*)?$/i, '').replace(/\s+command$/i, '').trim();
    if (m && command && !/^(?:it|that|this|them|something)$/i.test(command) && !/\btests?\b.*\bplease\b/i.test(command)) return { do: 'run', command };
  }

  // Delete, then write
  if (main && has(/\b(?:delete|remove|erase|get rid of|rm|unlink|throw away|trash|discard|destroy)\b/i)) return { do: 'delete', path: main.path };
  const adding = has(/\b(?:append|add|attach)\b/i);
  const writer = has(/\b(?:create|write|make|save|put|store|generate|produce|touch|dump|record|place|set up|fill|overwrite|compose|set|jot|draft|update|edit|need|want|should (?:say|contain|read))\b/i);
  if ((writer || adding) && (main || (soFar && qs.length && has(/\b(?:it|file|there)\b/i)))) {
    const path = main ? main.path : null;
    const line = has(/\b(?:line|at the end|end of)\b/i);
    const make = (t) => ({ do: adding ? 'append' : 'write', path, text: t, line });
    const body = main ? without(c, main) : c;
    const own = main ? quotes(c, kept, p.all.length > 1 && qs.length ? p.all : [main]) : qs;
    const cueAt = /\b(?:containing|contains?|content|contents|text|saying|says?|reads?|reading|with|following|inside|words?|phrase|lines?)\b/i.exec(c);
    if (p.all.length > 1 && own.length === p.all.length) return { do: 'many', wishes: p.all.map((f, i) => ({ ...make(own[i].inner), path: f.path })) };
    const json = own.filter((q) => q.kind !== 'json' || own.length === 1);
    if (json.length) return make(((cueAt && json.find((q) => q.at > cueAt.index)) || json[0]).inner);
    m = /\b(?:containing|that contains|which contains|contains|contain|saying|that says|which says|says|say|that reads|reads|with (?:the |this |these |a )?(?:exact |following |single )*(?:content|contents|text|words?|line|body|message|string|phrase)|with (?:the )?following|(?:its |the |whose )?(?:content|contents|text) (?:is|being|should be|shall be|must be)|(?:^|\s)(?:content|contents|text):|reading|with)\b\s*(?:(?:exactly|only|just|simply|of|in it|inside)\b\s*)*[:,]?\s*(.*)$/i.exec(body);
    if (m && tidy(m[1])) return make(text(tidy(m[1]).replace(/^(?:the |a )(?:exact |following )?(?:(?:text|words?|content|line|phrase)\s+(?=\S))/i, '')));
    m = /:\s*(.+)$/.exec(body);
    if (m) return make(text(m[1]));
    m = /^(?:append|add|write|save|put|store|place|record|dump|jot|set)(?: down)?\s+(?:(?:the|a|an|this|new)\s+)*(?:(?:following|text|words?|line|phrase|sentence|string|content|message|value|number)s?\b\s*)*(.*)$/i.exec(body);
    const rest = m ? tidy(m[1]) : '';
    if (rest && !/^(?:file|empty|new|it|an? .*file|at the end|to the end)$/i.test(rest)) return make(text(rest.replace(/\s+(?:(?:in|into|to|as|at)?\s*(?:the )?(?:end|bottom)(?: of)?|in)\s*$/i, '')));
    if (has(/\b(?:create|make|touch|write|generate|empty|blank)\b/i)) return make(has(/\bempty|\bblank|\btouch/i) ? '' : has(/\bsome|\bany|\bsomething|\bwhatever/i) ? 'Dug by the wombat.\n' : '');
  }

  if (has(/\b(?:what|which|where|tell|show|print)\b.*\b(?:working (?:directory|folder)|cwd|current (?:directory|folder))\b/i) && !has(/\bfiles|\blist|\bcontents?|\bin (?:the|your)\b/i)) return { do: 'run', command: 'pwd' };

  // Reading and listing
  const looker = has(/\b(?:read|show|open|display|view|print|see|look|cat|contents?|contains?|what(?:'s| is| does| are)|inside|peek|inspect|check|examine|give|tell|fetch|load|summari[sz]e|explain|review|describe|quote|first \d+ lines|line \d+)\b/i);
  if (has(/^(?:ls|dir)\b/i) || (has(/\b(?:files|directory|folder|workspace|project|dir|around|directories|folders|here)\b/i)
    && has(/\b(?:list|show|what|which|look|explore|see|there|enumerate|display|tell|have|browse|survey|name|print|give|find|inspect)\b/i) && !(main && /\.\w+$/.test(main.path) && has(/\bread|\bopen|\bcontents?\b/i)))) {
    const sub = main || (/\b(?:folder|directory|in|of|inside)\s+(?:the\s+)?([\w.-]+)(?:\s+(?:folder|directory))?$/i.exec(c) || [])[1];
    const name = main ? main.path : sub;
    return { do: 'list', path: name && !/^(?:this|the|here|files?|folder|directory|project|workspace|current|it|cwd|working|my|your|session|dir)$/i.test(name) ? name : '.' };
  }
  if (main && looker) {
    const first = /\bfirst (\d+|two|three|five|ten) lines\b/i.exec(c);
    const single = /\blines? (\d+)(?:\s*(?:-|–|to|through)\s*(\d+))?/i.exec(c);
    return p.all.length > 1 && !first && !single && has(/\band\b|,/)
      ? { do: 'many', wishes: p.all.map((f) => ({ do: 'read', path: f.path })) }
      : { do: 'read', path: main.path, from: single ? Number(single[1]) : 1, to: single ? Number(single[2] || single[1]) : first ? num(first[1]) : null };
  }
  if (has(/\b(?:read|open|show|display|load)\b.*\b(?:attached|attachment|linked|link|mentioned|resource)\b|\b(?:attached|linked) file\b/i)) return { do: 'readlink' };
  if (soFar && !main && has(/^(?:read|show|open|print|display)\b.*\b(?:it|file|that|them)\b/i)) return { do: 'read', path: null, from: 1, to: null };
  if (has(/\b(?:describe|what(?:'s| is| are| do you see)|summari[sz]e|explain|tell me about|look at|see|identify|which)\b.*\b(?:this|attached|attachment|attachments|image|picture|photo|resource|link|document|file|it|that|here|see)\b/i)) return { do: 'describe' };
  if (has(/^(?:tell|say|reply|answer|print|respond)\b/i) && qs.length) return { do: 'say', text: qs.map((q) => q.inner).join(' '), times: 1 };
  if (has(/^(?:hello|hi|hey|good (?:morning|evening|day)|howdy|greetings)\b/i)) return { do: 'hello' };
  return null;
}

function asking(c, kept, qs) {
  const topic = plain(c, kept);
  let question = qs.length && /[?\s]/.test(qs[0].inner) ? qs[0].inner : '';
  let choices = null;
  const number = /\bnumber\b|\bhow (?:many|old|much)\b|\bage\b/i.test(topic);
  if (!number && /\b(?:choose|pick|select|choice|options?|between|prefer|whether|or)\b/i.test(c)) {
    const loose = qs.filter((q) => q.inner !== question).map((q) => q.inner);
    if (loose.length >= 2) choices = loose;
    else {
      const list = /\b(?:between|from|among|of|prefer|options?|choices?|either|:)[\s:]+((?:[\w -]+?,\s*)*[\w-]+(?: [\w-]+)?,?\s+(?:or|and)\s+[\w-]+)/i.exec(topic);
      if (list) choices = list[1].split(/\s*,\s*(?:or |and )?|\s+(?:or|and)\s+/i).map((s) => s.trim()).filter(Boolean);
      else if (/\bwhether\b/i.test(c)) choices = ['yes', 'no'];
    }
  }
  if (!question) {
    const about = topic.replace(/^.*?\b(?:ask me|ask (?:the )?(?:user|human|person)|prompt me|quiz me|ask|let me|get|collect|request|elicit)\b\s*(?:(?:a|one|some|the) questions?\b)?\s*(?:about|for|to (?:tell you|enter|give you|choose|pick|provide)|:)?\s*/i, '')
      .replace(/\b(?:with|using|through|via|by) (?:an? )?(?:form|elicitation)\b/gi, '').replace(/\bmy\b/gi, 'your').replace(/\b(?:i am|i'm)\b/gi, 'you are').replace(/\b(?:i|me)\b/gi, 'you').trim();
    question = about ? `Please tell me: ${about.replace(/[?.]+$/, '')}?` : 'What would you like me to do next?';
  }
  const range = number && /\b(?:between|from)\s+(\d+)\s+(?:and|to)\s+(\d+)/i.exec(topic);
  return { do: 'ask', question, choices: choices && [...new Set(choices)], number, min: range ? Number(range[1]) : null, max: range ? Number(range[2]) : null, secret: SECRET.test(topic) };
}

// Does this clause speak of MCP? 'yes' = surely, 'maybe' = only when a tool of that name turns up.
function smellsOfMcp(clause, kept, names) {
  const c = plain(clause, kept);
  if (/\bmcp\b/i.test(clause)) return 'yes';
  if (names.some((n) => n.length > 1 && c.toLowerCase().includes(n.toLowerCase()) && /\b(?:server|tool|call|use|invoke|ask|with|on|from)/i.test(clause))) return 'yes';
  if (/\b(?:list|which|what|show|name|enumerate|tell)\b.*\btools?\b/i.test(clause) && !/\b(?:call|invoke|run|use)\b/i.test(clause)) return 'list';
  if (/\btools?\b/i.test(clause) && !/\b(?:shell|terminal|bash|file) tools?\b/i.test(clause)) return 'maybe';
  if (names.length && /\b(?:call|invoke|use|execute|run|trigger|try)\b/i.test(clause)) return 'maybe';
  return null;
}

// A whole prompt into wishes, in order.
function understand(input, { servers = [] } = {}) {
  const { masked, kept } = mask(input);
  const slash = /^\s*\/(say|recall)\b\s*([\s\S]*)$/.exec(input);
  if (slash) return [slash[1] === 'recall' ? { do: 'recall' } : { do: 'say', text: slash[2].trim() || 'Say what? Give me some words after /say.', times: 1 }];
  const planned = /\bplan\b|\bto-?do list\b|\bchecklist\b/i.test(masked) && /(?:^|\s)1[.)]\s/.test(masked);
  if (planned) {
    const list = [...masked.matchAll(/(?:^|\s)\d+[.)]\s+(.+?)(?=\s+\d+[.)]\s|\n|$)/g)].map((m) => plain(m[1], kept).trim());
    if (list.length > 1) return [{ do: 'plan', steps: list.length, goal: '', entries: list }];
  }
  const wishes = [];
  for (const clause of clauses(masked)) {
    const soFar = wishes.length > 0;
    const smell = smellsOfMcp(clause, kept, servers);
    const wish = one(clause, kept, soFar);
    const special = wish && ['keep', 'ask', 'say', 'nothing'].includes(wish.do) && smell !== 'yes';
    const commanding = wish && wish.do === 'run' && smell === 'maybe' && !/\btools?\b/i.test(clause);
    if (smell && !special && !commanding && !(wish && ['keep', 'nothing'].includes(wish.do))) wishes.push({ do: 'mcp', smell, clause: plain(trimNoise(clause), kept), kept, masked: trimNoise(clause), otherwise: wish });
    else if (wish && wish.do === 'many') wishes.push(...wish.wishes);
    else if (wish) wishes.push(wish);
  }
  return wishes;
}

const escape = (s) => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

// The tool meant by a clause: the longest name that occurs in it; "on server x" decides between equals.
function pickTool(clause, tools, strict) {
  const hits = tools.filter(({ tool }) => new RegExp(`(?<![\\w-])${escape(tool.name)}(?![\\w-])`, 'i').test(clause)
    || (/[_-]/.test(tool.name) && clause.toLowerCase().includes(tool.name.replace(/[_-]/g, ' ').toLowerCase())));
  const score = ({ tool, peer }) => tool.name.length * 4
    + (new RegExp(`(?<![\\w-])${escape(peer.name)}(?![\\w-])`, 'i').test(clause.replace(tool.name, '')) ? 2 : 0)
    + (new RegExp(`(?:tool|call|invoke|use|run)\\s+(?:the\\s+|tool\\s+|mcp\\s+)*["'\`]?${escape(tool.name)}`, 'i').test(clause) ? 100 : 0);
  const best = hits.sort((a, b) => score(b) - score(a))[0] || null;
  return best && strict && score(best) < 100 ? null : best;
}

function coerce(value, schema) {
  const type = schema && schema.type;
  if (type === 'number' || type === 'integer') { const n = Number(value); return Number.isNaN(n) ? num(String(value)) ?? value : n; }
  if (type === 'boolean') return /^(?:true|yes|on|1)$/i.test(value);
  if (type === 'array' || type === 'object' || !type) { try { return JSON.parse(value); } catch { return type === 'array' ? String(value).split(/\s*,\s*/) : value; } }
  return String(value);
}

function toolArgs(wish, tool) {
  const { masked, kept } = wish;
  const props = (tool.inputSchema && tool.inputSchema.properties) || {};
  const marks = [...masked.matchAll(MARK)].map((m) => ({ ...kept[m[1]], at: m.index, len: m[0].length }));
  for (const q of marks) {
    let v;
    try { v = JSON.parse(q.inner); } catch { continue; }
    if (v && typeof v === 'object' && !Array.isArray(v)) return v;
  }
  const args = {};
  const used = [];
  const take = (name, raw, at) => {
    if (name in args) return;
    const m = /^\uE000(\d+)\uE001$/.exec(raw);
    const value = m ? kept[m[1]].inner : raw.replace(/[.,;!?]+$/, '');
    if (value.toLowerCase() === tool.name.toLowerCase() || value === '') return;
    args[name] = coerce(value, props[name]);
    used.push(at);
  };
  const LOOSE = '(\\uE000\\d+\\uE001|[^\\s,;\\uE000][^,;\\uE000]*?(?=\\s*(?:[,;]|$|[.!?]$)|\\s+(?:and|on|from|using|with)\\s))';
  const VALUE = '(\\uE000\\d+\\uE001|[^\\s,;]+)';
  for (const m of masked.matchAll(new RegExp(`(?<!\\w)([A-Za-z_]\\w*)\\s*[=]\\s*${VALUE}`, 'g'))) take(m[1], m[2], m.index + m[0].length - m[2].length);
  for (const name of Object.keys(props).sort((a, b) => b.length - a.length)) {
    const m = new RegExp(`(?<!\\w)${escape(name)}(?!\\w)["'\`]?\\s*(?::|=|\\bis\\b|\\bset to\\b|\\bof\\b|\\bas\\b|\\bbeing\\b)?\\s*${props[name].type === 'string' ? LOOSE : VALUE}`, 'i').exec(masked);
    if (m && !/^(?:and|with|of|tool|to|on|from|argument|arguments|the)$/i.test(m[1])) take(name, m[1], m.index + m[0].length - m[1].length);
  }
  const open = () => Object.keys(props).filter((n) => !(n in args));
  const required = (tool.inputSchema && tool.inputSchema.required) || [];
  const order = (list) => list.sort((a, b) => required.includes(b) - required.includes(a));
  for (const q of marks) {
    if (used.includes(q.at) || q.inner.toLowerCase() === tool.name.toLowerCase() || q.inner === wish.server) continue;
    const name = order(open()).find((n) => !['number', 'integer', 'boolean'].includes(props[n].type));
    if (name) take(name, OPEN + kept.findIndex((k) => k.inner === q.inner) + SHUT, q.at);
  }
  const tail = masked.slice(masked.toLowerCase().lastIndexOf(tool.name.toLowerCase()) + 1 || 0);
  for (const m of [...tail.matchAll(/(?<![\w.])-?\d+(?:\.\d+)?(?![\w.\uE001]*\w)/g)]) {
    if (Object.values(args).includes(Number(m[0]))) continue;
    const name = order(open()).find((n) => ['number', 'integer'].includes(props[n].type));
    if (name && tail[m.index - 1] !== OPEN) args[name] = Number(m[0]);
  }
  const left = order(open()).filter((n) => props[n].type === 'string' && (required.includes(n) || Object.keys(props).length === 1));
  if (left.length === 1 && !Object.keys(args).length) {
    const m = /\b(?:with|saying|passing|on|for|to say|to)\s+(?:(?:the|an?|argument|arguments|text|message|input|value|string|word)\s+)*(?!server\b|mcp\b)(.+)$/i.exec(tail);
    if (m && !/^\S+ server$/i.test(m[1])) args[left[0]] = plain(m[1], kept).replace(/[.!?]+$/, '');
  }
  return args;
}

module.exports = { understand, pickTool, toolArgs };
