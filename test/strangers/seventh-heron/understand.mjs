// Turns plain English into a list of actions. No model, only rules.
const VERBS = '(?:say|repeat|echo|reply|respond|answer)';
const FILLER = '(?:back|to me|after me|with|only|just|exactly|precisely|verbatim|the|these|this|a|my|following|single|one|two|three|words?|text|string|sentence|phrase|message|line|literally|by saying|me|now|please|simply)';
const QUOTE = /```[a-z]*\n?([\s\S]*?)```|`([^`]+)`|"((?:[^"\\]|\\.)*)"|“([^”]*)”|«([^»]*)»|(?<![\w])'((?:[^'\n]|(?<=\w)'(?=\w))*)'(?!\w)/g;

export function quotes(text) {
  const out = [];
  for (const m of text.matchAll(QUOTE)) {
    const v = m[1] ?? m[2] ?? m[3] ?? m[4] ?? m[5] ?? m[6];
    out.push({ v, at: m.index, end: m.index + m[0].length, raw: m[0] });
  }
  return out;
}
const trimEnd = s => s.replace(/[.,;:!?)\]]+$/, '');
const looksLikePath = s => /^[^\n]{1,400}$/.test(s) && (/^(\/|~\/|\.{1,2}\/|file:\/\/)/.test(s) || /^[^\s]*\.[A-Za-z]\w{0,9}$/.test(s) || /^[\w.-]+(\/[\w.-]+)+$/.test(s));

export function paths(text) {
  const found = [];
  const add = (p, at) => {
    if (p.startsWith('file://')) { try { p = decodeURIComponent(new URL(p).pathname); } catch {} }
    if (p && !found.some(f => f.at === at || f.p === p)) found.push({ p, at });
  };
  const qs = quotes(text);
  for (const q of qs) {
    if (looksLikePath(q.v) && (!/\s/.test(q.v) || /^(?:\/|~\/|\.{1,2}\/)[^\n]*\.\w{1,9}$/.test(q.v))) add(q.v, q.at);
    else if (/\b(?:file|path|document)(?:\s+(?:called|named|at|at the path|with the (?:name|path)))?\s*:?\s*$/i.test(text.slice(0, q.at)) && !/\n/.test(q.v)) add(q.v, q.at);
  }
  const bare = qs.reduce((t, q) => t.slice(0, q.at) + ' '.repeat(q.end - q.at) + t.slice(q.end), text);
  for (const m of bare.matchAll(/(?<![\w.:/])((?:file:\/\/\/|\/|~\/|\.{1,2}\/)[^\s"'`,;!?()<>]+)/g)) { const p = trimEnd(m[1]); if (p.length > 1 && !/^\/\w+$/.test(m.index === 0 ? p : '')) add(p, m.index); }
  for (const m of bare.matchAll(/(?<![\w./-])((?:[\w-]+\/)*[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,9}|\.[a-z][\w.-]+)(?![\w/])/g)) if (!/^(e\.g|i\.e|etc)$/i.test(m[1])) add(m[1], m.index);
  if (!found.length) { const m = /\bfile\s+(?:called|named)\s+([\w./-]+)/i.exec(bare); if (m) add(trimEnd(m[1]), m.index + 5); }
  return found.sort((a, b) => a.at - b.at);
}
const unescape = s => s.replace(/\\n/g, '\n').replace(/\\t/g, '\t').replace(/\\"/g, '"');

function contentFor(text, pathList) {
  const qs = quotes(text).filter(q => !pathList.some(p => p.at === q.at));
  const fence = qs.find(q => q.raw.startsWith('```'));
  if (fence) return fence.v;
  const key = /\b(?:with\s+(?:exactly\s+)?(?:the\s+|this\s+|these\s+)?(?:exact\s+|following\s+|single\s+)*(?:contents?|text|words?|line|string)|containing|contains|contents?\s+(?:is|should be|being)|that says|which says|saying|with exactly|consisting of|following (?:text|content|contents))\b((?:\s+(?:exactly|only|just|of|is|the|single|following|word|words|text|line|string|this))*)\s*[:=]?\s*/i.exec(text);
  if (key) {
    const from = key.index + key[0].length;
    const q = qs.find(q => q.at >= from - 1 && q.at <= from + 2);
    if (q) return unescape(q.v);
    const rest = text.slice(from).replace(/^(?:in)?to\s+(?:the\s+)?(?:file\s+)?(?:called\s+|named\s+|at\s+)*\S+?:?\s+(?=\S)/i, m => /:\s+$/.test(m) ? '' : m).replace(/^(?:text|contents?|words?|line)\s*:\s*/i, '').replace(/\s+(?:in|into|to)\s+(?:the|a|an)\s+(?:new\s+)?file\b.*$/is, '').replace(/(?:,|\.)?\s+(?:and\s+)?then\s.*$/is, '').replace(/\.\s+[A-Z][\s\S]*$/, '').trim();
    if (rest && !pathList.some(p => rest.startsWith(p.p))) return unescape(rest.replace(/\.$/, ''));
  }
  if (qs.length) return unescape(qs[0].v);
  const to = /\b(?:write|put|save|store|append|add)\s+(?:the\s+)?(?:(?:text|words?|line|string)\s+)?(.+?)\s+(?:in|into|to|onto|at the end of)\s+(?:the\s+|a\s+)?(?:new\s+)?(?:file|end|[\w./~-]+\.\w+|\/)/is.exec(text);
  if (to && !/^(?:a|the|new)?\s*file\b/i.test(to[1])) return unescape(to[1]);
  const colon = /:\s+([\s\S]+)$/.exec(text);
  if (colon) return unescape(colon[1].trim().replace(/\.$/, ''));
  return null;
}

function shellCommand(text) {
  const verb = /\b(?:run|execute|launch|start)\b|\bcommand\b|\bin (?:a|the|your) (?:shell|terminal)\b/i.exec(text);
  if (!verb) return null;
  const bt = /`([^`]+)`/.exec(text);
  if (bt) return bt[1].trim();
  const from = verb.index + verb[0].length;
  const lead = /^((?:\s+(?:the|a|this|following|shell|bash|terminal|command|line|called|named|exactly|for me|please|in (?:a|the|your) (?:shell|terminal)))*\s*:?\s*)(["'“])/i.exec(text.slice(from));
  if (lead) {
    const open = lead[2], close = open === '“' ? '”' : open;
    const body = text.slice(from + lead[0].length);
    const end = body.lastIndexOf(close);
    const nearest = body.indexOf(close);
    if (end > 0) { const whole = body.slice(0, end); return (/\b(?:and|then|with|using)\b/.test(body.slice(nearest + 1, end)) && nearest > 0 && open !== "'" ? body.slice(0, nearest) : whole).trim(); }
  }
  const m = /\b(?:run|execute|launch|start)\b(?:\s+(?:the|a|this|following|shell|bash|terminal|command|line|exactly|for me|please|in (?:a|the|your) (?:shell|terminal)))*\s*:?\s+(.+)$/is.exec(text) || /\bcommand\s*:?\s+(.+)$/is.exec(text);
  if (!m) return null;
  let c = m[1].trim().split('\n')[0];
  c = c.replace(/,?\s+(?:in|using|with|inside)\s+(?:a|the|your)\s+(?:shell|terminal|bash|command line|working directory|current directory).*$/i, '')
    .replace(/,?\s+(?:and|then)\s+(?:then\s+)?(?:tell|show|report|give|wait|let|say|reply|describe|print the|return)\b.*$/i, '')
    .replace(/[.!]\s+[A-Z].*$/, '').replace(/[.!]$/, '').replace(/\s+command$/i, '').trim();
  if (!c || /^(?:it|that|them|tests?|away|the (?:tool|tests?|program)|mcp|tool)\b/i.test(c)) return null;
  return c;
}

function echoText(text) {
  const m = new RegExp(`\\b${VERBS}\\b((?:\\s+${FILLER}(?![\\w'-]))*)\\s*[:,]?\\s*([\\s\\S]+)$`, 'i').exec(text);
  if (!m) return null;
  let rest = m[2].trim();
  const q = quotes(rest)[0];
  if (q && q.at === 0) return q.v;
  rest = rest.replace(/[,;]?\s*(?:\(?\s*(?:and\s+)?(?:nothing|no(?:thing)?) (?:else|more)\)?|without anything else|and do nothing else|verbatim|exactly)\s*[.!]?$/i, '');
  return rest.replace(/^(["'`])([\s\S]*)\1\.?$/, '$2').replace(/([^.])\.$/, '$1').trim() || null;
}

const num = t => { const m = /\b(\d{1,4})\b/.exec(t); if (m) return +m[1]; const w = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']; const i = w.findIndex(x => new RegExp(`\\b${x}\\b`, 'i').test(t)); return i > 0 ? i : null; };

export function splitSteps(text) {
  const qs = quotes(text), parts = [];
  let last = 0;
  for (const m of text.matchAll(/[.,;]?\s+(?:and\s+)?(?:then|after that|afterwards|finally),?\s+/gi)) {
    if (qs.some(q => m.index >= q.at && m.index < q.end)) continue;
    parts.push(text.slice(last, m.index)); last = m.index + m[0].length;
  }
  parts.push(text.slice(last));
  return parts.map(s => s.trim()).filter(Boolean);
}

export function one(text, ctx) {
  const t = text.trim(), low = t.toLowerCase(), ps = paths(t);
  const has = re => re.test(low);
  const slash = /^\/([a-z][\w-]*)\s*([\s\S]*)$/i.exec(t);
  if (slash && ctx.commands.includes(slash[1])) return { do: 'slash', name: slash[1], arg: slash[2] };
  const tool = ctx.tools.find(x => new RegExp(`(?<![\\w-])${x.name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?![\\w-])`, 'i').test(t));
  if (tool && has(/\b(?:tool|mcp|server|call|use|invoke)\b/)) return { do: 'mcp', tool, text: t };
  if (has(/\bmcp\b/) || has(/\b(?:which|what|list)\b.*\btools\b/)) return { do: 'tools', text: t };
  if (new RegExp(`^(?:please[, ]+|now[, ]+|just[, ]+|(?:can|could|would) you (?:please )?)*${VERBS}\\b`, 'i').test(t) && !has(/\b(?:word|words|secret|number|code|phrase)\b[^:]*\b(?:told|asked|gave|remember)/)) { const e = echoText(t); if (e) return { do: 'say', text: e }; }
  if (has(/\bask me\b|\belicit|\bask the user\b|\bask your user\b|\b(?:a|the) form\b|\bpose (?:me )?a question|\brequest (?:some )?input\b/)) return { do: 'ask', text: t };
  if (has(/\b(?:what|which|recall|tell me|repeat|do you (?:still )?(?:know|remember))\b/) && has(/\b(?:remember|secret|code ?word|(?:is|was|were) the (?:word|words|phrase|number|name)\b|password|(?:word|number|name|phrase|colou?r|animal)\b.*\b(?:i|earlier|before|was|my)|told you|gave you|asked you|my (?:\w+ )?(?:word|number|name|favou?rite))/) && !has(/\bremember (?:the|this|that|my)\b.*(?:\bis\b|:)/)) return { do: 'recall' };
  const rem = /\b(?:remember|memorize|memorise|keep in mind|note)\b(?:\s+(?:that|this|the|my|following|secret|code|magic|pass|for later))*\s*(?:word|words|phrase|number|name|codeword|password|sentence)?\s*(?:is|:|=|,|for me)?\s*:?\s*([\s\S]+)$/i.exec(t) || /\b(?:my|the) (?:secret|code|magic|favou?rite|special)[\w -]*?(?:\s+is|:)\s*([\s\S]+)$/i.exec(t);
  if (rem && !has(/\?\s*$/)) {
    const all = quotes(t);
    let w = all.length ? all[0].v : rem[1].replace(/(?:[.,;!]|\s+and\b|\s+for\b|\s+until\b|\s+because\b)[\s\S]*$/i, '').replace(/^.*\bis\s+/i, '').trim();
    const back = /:\s*([\w-]+)/.exec(rem[0]); if (!w && back) w = back[1];
    const second = /\b(?:my|the) (?:secret|code|magic|favou?rite|special)[\w -]*?(?:\s+is|:)\s*([\w-]+)/i.exec(t);
    if ((!w || /^(?:it|that|this|them|please)$/i.test(w)) && second) w = second[1];
    w = w?.replace(/^(?:for later|for me|please)\s*:?\s*/i, '');
    if (w && !/^(?:it|that|this)$/i.test(w)) return { do: 'remember', word: w };
  }
  if (has(/\bmode\b/) && has(/\b(?:switch|change|go|set|enter|move|turn|use|put)\b/)) return { do: 'mode', text: t };
  const sh = has(/\b(?:run|execute|shell|terminal|command)\b/) ? shellCommand(t) : null;
  if (sh) return { do: 'run', command: sh };
  const replace = /\b(?:replace|change|substitute|swap)\b\s+(?:every |all |the )?(?:occurrences? of )?(?:(?:word|text|string|line)s?\s+)?(?:"([^"]+)"|'([^']+)'|`([^`]+)`|([\w-]+))\s+(?:with|to|by|into|for)\s+(?:the )?(?:(?:word|text|string|line)\s+)?(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([\w-]+))/i.exec(t);
  if (replace && ps.length) {
    const a = replace[1] ?? replace[2] ?? replace[3] ?? replace[4], b = replace[5] ?? replace[6] ?? replace[7] ?? replace[8];
    const p = ps.find(x => x.p !== a && x.p !== b) ?? ps[0];
    return { do: 'replace', path: p.p, from: a, to: b };
  }
  if (has(/\b(?:append|add)\b/) && ps.length) return { do: 'append', path: ps[ps.length - 1].p, text: contentFor(t, ps) ?? 'One more line.' };
  if (has(/\b(?:delete|remove)\b/) && ps.length) return { do: 'delete', path: ps[0].p };
  if (has(/\b(?:write|create|save|put|store|make|overwrite|edit|modify|update|touch)\b/) && ps.length && !(has(/^\W*(?:please )?(?:read|open|show)\b/) && !has(/\b(?:write|create|save)\b/))) {
    const inContent = contentFor(t, ps);
    const p = ps.find(x => !(inContent && inContent.includes(x.p) && ps.length > 1)) ?? ps[0];
    return { do: 'write', path: p.p, text: inContent ?? 'Hello from seventh-heron.\n' };
  }
  if (ps.length && has(/\b(?:read|open|show|what|contents?|look|print|display|view|summari[sz]e|tell|check|see|inspect|cat|explain|describe|find|load|use)\b/)) {
    const line = /\b(?:from|at|starting (?:at|from|with)) line (\d+)/i.exec(t) ?? /\blines? (\d+)/i.exec(t), lim = /\b(?:only |first |next |just )?(\d+) lines\b/i.exec(t), range = /\blines (\d+)\s*(?:-|to|through|–)\s*(\d+)/i.exec(t);
    return { do: 'read', paths: ps.map(p => p.p), line: range ? +range[1] : line ? +line[1] : null, limit: range ? +range[2] - range[1] + 1 : lim ? +lim[1] : null };
  }
  if (has(/\b(?:plan|to-?do list|todo|checklist)\b/)) {
    const listed = [...t.matchAll(/(?:^|[\s:])\(?\d[.)]\s+([^\n]+?)(?=\s+\(?\d[.)]\s|\n|$)/g)].map(m => m[1].replace(/[.,;]$/, ''));
    return { do: 'plan', count: Math.min(8, Math.max(2, num(t.replace(/\d[.)]/g, '')) ?? 3)), steps: listed };
  }
  if (has(/\b(?:working directory|current directory|where are you|cwd|pwd)\b/)) return { do: 'run', command: 'pwd' };
  if (has(/\blist\b.*\b(?:files|directory|folder)\b|\bwhat files\b/)) return { do: 'run', command: 'ls -1' };
  if (has(/\b(?:story|tale|essay|poem|novel|saga|article|at length|very long|long (?:text|answer|reply|response)|slowly|words about|lorem)\b/) || has(/\bcount\b.*\d/)) return { do: 'story', count: has(/\bcount\b/) ? Math.min(500, +(/\bto\s+(\d+)/i.exec(t)?.[1] ?? num(t) ?? 60)) : null, short: has(/\bshort\b/), text: t };
  if (has(/\bthink|reason|ponder|reflect|consider\b/)) return { do: 'think', text: t };
  const e = echoText(t);
  if (e && has(/\b(?:exactly|word|back|verbatim|just|only)\b/)) return { do: 'say', text: e };
  return null;
}

export function understand(text, ctx) {
  const whole = one(text, ctx);
  if (whole && ['slash', 'say', 'mcp', 'remember', 'recall', 'ask', 'tools', 'mode'].includes(whole.do)) return [whole];
  const parts = splitSteps(text);
  if (parts.length > 1) {
    let last = null;
    const acts = [];
    for (const part of parts) {
      let a = one(part, ctx);
      if (!a && last && /\b(?:read|show|open|tell)\b/i.test(part) && /\b(?:it|that file|the file)\b/i.test(part)) a = { do: 'read', paths: [last], line: null, limit: null };
      if (!a) continue;
      last = a.path ?? a.paths?.[0] ?? last;
      acts.push(a);
    }
    if (acts.length > 1) return acts;
  }
  return whole ? [whole] : [];
}

export function toolArguments(text, tool) {
  for (let i = text.indexOf('{'); i >= 0; i = text.indexOf('{', i + 1)) {
    for (let j = text.lastIndexOf('}'); j > i; j = text.lastIndexOf('}', j - 1)) {
      try { const v = JSON.parse(text.slice(i, j + 1)); if (v && typeof v === 'object') return v; } catch {}
    }
  }
  const props = tool.inputSchema?.properties ?? {}, need = tool.inputSchema?.required ?? [], out = {};
  const cast = (v, p) => /^(?:number|integer)$/.test(p?.type) ? Number(v) : p?.type === 'boolean' ? /^(?:true|yes|on)$/i.test(v) : v;
  for (const [k, p] of Object.entries(props)) {
    const m = new RegExp(`(?<![\\w])${k.replace(/\W/g, '\\$&')}["'\`]?\\s*(?:=|:|is|of|set to|being)?\\s*(?:"([^"]*)"|'([^']*)'|\`([^\`]*)\`|(-?[\\w.@/-]+))`, 'i').exec(text.replace(new RegExp(`\\b${tool.name}\\b(?:\\s+tool)?`, 'gi'), ' '));
    if (m) { const raw = m[1] ?? m[2] ?? m[3] ?? m[4]?.replace(/\.$/, ''); const v = cast(raw, p); if (!(typeof v === 'number' && Number.isNaN(v))) out[k] = v; }
  }
  const missing = need.filter(k => !(k in out));
  if (missing.length) {
    const spare = quotes(text).map(q => q.v).filter(v => v !== tool.name && !Object.values(out).includes(v));
    const nums = [...text.matchAll(/(?<![\w.])-?\d+(?:\.\d+)?/g)].map(m => +m[0]);
    const tail = /\b(?:with|saying|text|message|on|for)\b\s*:?\s*(?:the\s+)?(?:text|message|words?|argument|input)?\s*:?\s*([^"'`]+?)\.?$/i.exec(text)?.[1];
    for (const k of missing) {
      const p = props[k] ?? {};
      if (/number|integer/.test(p.type)) out[k] = nums.length ? nums.shift() : 1;
      else if (p.type === 'boolean') out[k] = true;
      else if (p.type === 'array') out[k] = spare;
      else if (p.type === 'object') out[k] = {};
      else out[k] = p.enum?.[0] ?? spare.shift() ?? tail ?? 'hello';
    }
  }
  return out;
}
