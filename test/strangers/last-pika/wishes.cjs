'use strict';
// What does the user want? Returns {do: ..., ...}.
const QUOTED = '`[^`]+`|"[^"]+"|\'[^\']+\'';
const FILE = '[\\w./~+-]*\\w\\.[A-Za-z0-9]{1,8}\\b|/[\\w./+-]+';
const rx = (s, f = 'is') => new RegExp(s, f);
const bare = (s) => (/^([`"']).*\1$/s.test(s.trim()) ? s.trim().slice(1, -1) : s.trim());

function textOf(s) {
  const m = s.trim().match(rx(`^(?:${QUOTED})`));
  if (m) return bare(m[0]);
  return s.trim().split('\n')[0]
    .split(/\.\s+(?=[A-Z])|,?\s+(?:and then|then tell|and tell)\b/)[0]
    .replace(/\.$/, '');
}

function fileIn(s) {
  let m = s.match(rx(`\\bfile\\s+(?:named\\s+|called\\s+|at\\s+)?(${QUOTED})`));
  if (m) return bare(m[1]);
  m = s.match(rx(FILE));
  if (m) return m[0];
  m = s.match(rx(QUOTED));
  if (m) return bare(m[0]);
  m = s.match(/\bfile\s+(?:named\s+|called\s+|at\s+)?([^\s,;:?]+)/i);
  return m ? m[1].replace(/\.$/, '') : null;
}

function understand(input) {
  const t = input.trim();
  const low = t.toLowerCase();
  let m;
  if ((m = t.match(/^\/([A-Za-z_][\w-]*)(?:\s+(.*))?$/s))) return { do: 'slash', name: m[1], rest: (m[2] || '').trim() };
  if (/\b(what|which|tell|repeat|recall|say)\b.*\b(word|secret|code|codeword|remember|told)\b/s.test(low) && !/^(please\s+)?remember\b/.test(low)) return { do: 'recall' };
  if ((m = t.match(rx(`\\bremember\\b\\s+(?:that\\s+)?(?:the\\s+|this\\s+|my\\s+)?(?:secret\\s+)?(?:code\\s*word|word|code|secret|number)?(?:\\s+is)?\\s*:?\\s*(${QUOTED}|[\\w-]+)`)))) return { do: 'remember', word: bare(m[1]) };
  if (/\b(call|use|invoke|run|mcp)\b/.test(low) && /\btools?\b/.test(low)) {
    const after = t.match(rx(`\\btools?\\s+(?:named\\s+|called\\s+)?(${QUOTED}|[\\w.-]*[\\w-])`));
    const before = t.match(rx(`\\b(?:the\\s+)?(${QUOTED}|[\\w.-]+)\\s+(?:mcp\\s+)?tool\\b`)) ||
      t.match(rx(`(${QUOTED})\\s+(?:mcp\\s+)?tool\\b`));
    const stop = ['of', 'from', 'with', 'on', 'and', 'in', 'once', 'now', 'please', 'to', 'server'];
    let name = after && !stop.includes(bare(after[1]).toLowerCase()) ? bare(after[1]) : before && bare(before[1]);
    if (name && !['the', 'mcp', 'a', 'an', 'this'].includes(name.toLowerCase())) {
      let args = {};
      const j = t.match(/\{.*\}/s);
      if (j) { try { args = JSON.parse(j[0]); } catch { /* not JSON */ } } else {
        const w = t.match(rx(`\\bwith\\s+(?:the\\s+)?(?:text|message|argument|input)?\\s*(${QUOTED})`));
        if (w) args = { text: bare(w[1]) };
      }
      return { do: 'mcp', tool: name, args };
    }
  }
  if ((m = t.match(/\b(?:run|execute)\b\s+(?:the\s+|this\s+)?(?:following\s+)?(?:shell\s+|terminal\s+)?(?:command\b)?\s*:?\s*(.+)/is))) return { do: 'run', command: textOf(m[1]) };
  if ((m = low.match(/\bswitch\s+(?:to\s+)?(?:the\s+)?(\w+)\s+mode\b/))) return { do: 'mode', mode: m[1] };
  if (/\b(create|write|make|save|put|overwrite|edit|change|update)\b/.test(low)) {
    m = t.match(rx(`\\b(?:write|put|save)\\s+(${QUOTED}|.+?)\\s+(?:to|into|in)\\s+(?:the\\s+|a\\s+)?(?:new\\s+)?(?:file\\s+)?(?:named\\s+|called\\s+)?(${QUOTED}|${FILE})`));
    if (m && !/\bfile\b/i.test(m[1])) return { do: 'write', path: bare(m[2]), text: bare(m[1].replace(/^(?:the\s+)?(?:text|words?|content)\s*:?\s*/i, '')) };
    m = t.match(/(?:\bwith\b|\bcontaining\b|\bthat\s+(?:says|contains)\b|\bsaying\b|\bto\s+say\b)\s*(?:exactly\s*)?(?:the\s+)?(?:exact\s+)?(?:following\s+)?(?:text|contents?|words?|line)?\s*(?:exactly)?\s*:?\s*(.+)$/is);
    const p = m && fileIn(t.slice(0, m.index));
    if (p) return { do: 'write', path: p, text: textOf(m[1]) };
  }
  if (/\b(count|slowly|a while|long)\b/.test(low) && !rx(FILE).test(t)) {
    const n = low.match(/\bto\s+(\d+)/);
    return low.includes('count') ? { do: 'count', to: Math.min(n ? +n[1] : 30, 300) } : { do: 'think' };
  }
  if ((m = t.match(/^(?:please\s+)?ask\s+me\b\s*(.*)$/is))) return { do: 'ask', what: m[1].trim() || 'something' };
  if (/\b(read|show|open|print|display|cat|look|what|contents?)\b/.test(low) && (/\bfile\b/.test(low) || rx(FILE).test(t))) {
    const p = fileIn(t);
    if (p) return { do: 'read', path: p };
  }
  return { do: 'talk', text: t };
}
module.exports = { understand };
