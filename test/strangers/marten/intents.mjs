// Marten's "model": ordinary English in, one intent out.
const QUOTED = /`([^`]+)`|"([^"]*)"|“([^”]*)”|(?<![\w])'([^']*)'(?!\w)/g;
const quotes = (s) => [...s.matchAll(QUOTED)].map((m) => m[1] ?? m[2] ?? m[3] ?? m[4]);
const EXT = "[A-Za-z][A-Za-z0-9]{0,7}";
const isPath = (s) => !/\s/.test(s) && (/^\.{0,2}\//.test(s) || new RegExp(`^[\\w@+~./-]*[\\w-]\\.${EXT}$`).test(s));

export function findPath(s) {
  for (const q of quotes(s)) if (isPath(q)) return q;
  const named = s.match(/\bfile\s+(?:named|called|at|with (?:the )?name)\s+[`"']?([^\s`"',;:]+)/i);
  if (named) return named[1].replace(/\.$/, "");
  for (const w of s.replace(/file:\/\//g, "").split(/[\s`"'“”(),;:]+/)) {
    const t = w.replace(/[.?!]+$/, "");
    if (t && isPath(t) && !/^(e\.g|i\.e)$/i.test(t) && !/^\/+$/.test(t)) return t;
  }
  const bare = s.match(/\bfile\s+([\w.-]+)/i) ?? s.match(/\b(?:read|open|cat)\s+(?:the\s+)?([A-Z][A-Z_]{2,})\b/);
  return bare && !/^(with|that|in|named|called|containing|and|to|for|please|using)$/i.test(bare[1]) ? bare[1].replace(/\.$/, "") : null;
}

function contentOf(s, file) {
  let m = s.match(/\b(?:with(?: exactly)?(?: the| this| a)?(?: following| single)?(?: text| contents?| line| body| words?)|containing(?: only| exactly| just)?(?: the)?(?: text| line| words?)?|(?:that|it) (?:says|contains|reads|should (?:say|contain))(?: exactly| only| just)?|whose contents? (?:is|are|should be)|contents?(?: should be| is| are)?|saying)(?: of)?\s*:?\s*([\s\S]+)$/i);
  if (!m) m = s.match(/\b(?:write|put|save|store)\s+(?:the (?:text|words?|line|string)\s+)?([\s\S]+?)\s+(?:in|into|to)\s+(?:a |the )?(?:new )?(?:file\b|[`"']?[\w./-]+)/i);
  if (!m) { const t = s.match(/\bwith\s+([\s\S]+)$/i); if (t) m = t; }
  let body = m?.[1] ?? "";
  const q = quotes(body).filter((x) => x !== file);
  if (q.length) return q[0];
  body = body.replace(/\s+(?:in it|inside|to it)\s*\.?$/i, "").trim();
  if (body && body !== file) return body.replace(/(?<=\w)\.$/, "");
  return quotes(s).find((x) => x !== file) ?? "Written by Marten.\n";
}

export function commandOf(s) {
  const q = quotes(s);
  if (q.length) return q[0];
  const m = s.match(/\b(?:run|execute|launch)\b\s*(?:the\s+|this\s+|a\s+)?(?:following\s+)?(?:shell\s+|terminal\s+|bash\s+)?(?:command\s*)?(?:in (?:the|a) (?:terminal|shell)\s*)?:?\s*([\s\S]+)$/i);
  if (!m) return null;
  return m[1].replace(/\s+(?:in (?:the|a|your) (?:terminal|shell)|command)\b.*$/i, "")
    .replace(/[,.]?\s+(?:and|then)\s+(?:tell|show|give|report|let|wait|print me)\b[\s\S]*$/i, "").replace(/[.?!]$/, "").replace(/\s+(?:for me|please)$/i, "").trim() || null;
}

export function understand(text, toolNames) {
  const s = text.trim();
  const has = (re) => re.test(s);
  const file = findPath(s);
  const known = toolNames.filter((t) => new RegExp(`(^|[^\\w-])${t.replace(/[^\w]/g, "\\$&")}($|[^\\w-])`).test(s));
  if (known.length && (has(/\b(tool|server|mcp)\b/i) || (has(/\b(call|use|invoke)\b/i) && !has(/\b(run|execute|terminal|shell|command)\b/i)))) return { do: "mcp", tool: known.sort((a, b) => b.length - a.length)[0] };
  if (has(/\bmcp\b/i)) return { do: "mcp", tool: null };
  if (has(/\bplan\b(?!\.\w)/i) && !has(/\bfile\b/i)) return { do: "plan" };
  const count = s.match(/\bcount\b[\s\S]*?\b(?:to|until|till|up to)\s+(\d+)/i) ?? s.match(/\bcount\b\D*(\d+)/i);
  if (count) return { do: "count", to: Math.min(+count[1], 2000), slow: has(/slow|second|paus|one (?:by|at)/i) };
  if (has(/\b(run|execute|launch)\b/i) && commandOf(s)) return { do: "run", command: commandOf(s) };
  let m = s.match(/\breplace\s+(.+?)\s+(?:with|by)\s+(.+?)(?:\s+in\b|[.!]?\s*$)/is) ?? s.match(/\bchange\s+(.+?)\s+(?:to|into)\s+(.+?)\s+in\b/is);
  const bareWord = (x) => x.replace(/^[`"'“]|[`"'”]$/g, "");
  if (m && file) return { do: "edit", file, from: bareWord(m[1].replace(/^(?:the )?(?:word|text)\s+/i, "")), to: bareWord(m[2]) };
  if (file && has(/\b(delete|remove|erase)\b/i)) return { do: "delete", file };
  if (file && has(/\bappend\b/i)) return { do: "append", file, content: quotes(s).find((x) => x !== file) ?? s.match(/append\s+(.+?)\s+to\b/i)?.[1] ?? "" };
  if (file && has(/\b(create|write|make|save|put|generate|overwrite|store|update|edit|modify|set)\b/i)) return { do: "write", file, content: contentOf(s, file) };
  if (file && has(/\b(read|open|show|display|print|cat|look|see|content|contents|summari[sz]e|what|tell|check|view|explain)\b/i)) return { do: "read", file };
  if (has(/\b(list|show|which|what)\b.*\b(files|directory listing|folder)\b/i) || has(/^ls\b/i)) return { do: "list" };
  if (has(/\b(working|current) (directory|folder)\b|\bpwd\b/i)) return { do: "pwd" };
  if (has(/\b(use|call|invoke|try)\b.*\btool\b/i)) return { do: "mcp", tool: null };
  m = s.match(/\b(?:wait|sleep|pause|take)\b\D*(\d+)\s*(?:s\b|sec|second)/i);
  if (m) return { do: "wait", seconds: Math.min(+m[1], 120) };
  if (has(/\b(story|essay|poem|novel|article|long|lengthy|at least \d+ words|\d{3,} words|paragraphs)\b/i)) return { do: "story", long: has(/very|long|\d{3,}|novel|essay|detail/i) };
  if (has(/\b(what|which|tell|recall|repeat|do you (?:know|remember))\b.*\b(word|number|code|name|secret|colou?r|remember|told|said|asked|favou?rite)\b/i) && !has(/\b(please|,)? ?remember (?:the|that|this|it)\b(?!.*\?)/i)) return { do: "recall" };
  if (has(/\bremember\b|\bmemori[sz]e\b|\bkeep in mind\b/i) || has(/\b(secret|password|code ?word|my \w+(?: \w+)?) is\b/i)) return { do: "remember" };
  m = s.match(/\b(?:use|switch to|change to)\s+(?:the\s+)?(\w+)\s+model\b/i);
  if (m) return { do: "model", model: m[1].toLowerCase() };
  m = s.match(/\b(?:say|reply|respond|answer|repeat|echo)\b(?:\s+(?:with|back|after me|only|just|exactly|the|single|one|word|words|text|phrase|following|this|in))*\s*:?\s*([\s\S]+)$/i);
  if (m) return { do: "say", text: quotes(m[1])[0] ?? m[1].replace(/[.]$/, "") };
  return { do: "chat" };
}

/** Fill the arguments of an MCP tool from the words of the prompt. */
export function toolArguments(s, schema, tool, server) {
  const brace = s.match(/\{[\s\S]*\}/);
  if (brace) try { return JSON.parse(brace[0]); } catch { /* plain words, then */ }
  const out = {};
  const props = Object.entries(schema?.properties ?? {});
  const words = quotes(s).filter((q) => q !== tool && q !== server && !props.some(([k]) => k === q));
  const numbers = [...s.matchAll(/(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])/g)].map((m) => +m[0]);
  const tail = s.match(/\b(?:with|on|for|saying|passing)\s+(?:the\s+)?(?:arguments?|text|message|input|value|words?)?\s*:?\s*([\s\S]+?)[.]?$/i)?.[1] ?? s;
  for (const [key, p] of props) {
    const named = s.match(new RegExp(`\\b${key}\\b["'\`]?\\s*(?:=|:|is|of|set to)?\\s*(?:"([^"]*)"|'([^']*)'|\`([^\`]*)\`|(-?[\\w.]+))`, "i"));
    const val = named && (named[1] ?? named[2] ?? named[3] ?? named[4]);
    if (p.type === "number" || p.type === "integer") out[key] = val != null && val !== "" && !isNaN(val) ? +val : numbers.shift() ?? 0;
    else if (p.type === "boolean") out[key] = val ? /true|yes|on/i.test(val) : false;
    else if (p.type === "string" || !p.type) out[key] = words.length ? words.shift() : val ?? tail;
    else if ((schema.required ?? []).includes(key)) out[key] = p.type === "array" ? [] : {};
  }
  return out;
}
