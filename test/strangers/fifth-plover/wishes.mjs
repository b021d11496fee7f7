// Understands what a person types. No model: quoted things are lifted out first, the rest is cut into
// clauses at "then", "and <verb>", full stops and line ends, and each clause is held against plain rules.

const OPEN = "\uE000", SHUT = "\uE001";
const SLOT = /\uE000(\d+)\uE001/g;
const NUMBER_WORDS = { one: 1, two: 2, three: 3, four: 4, five: 5, six: 6, seven: 7, eight: 8, nine: 9, ten: 10,
  twelve: 12, fifteen: 15, twenty: 20, thirty: 30, fifty: 50, hundred: 100 };
const VERBS = "say|repeat|echo|reply|respond|answer|tell|read|show|open|display|print|cat|view|look|list|write|create|make|save|put|"
  + "store|add|append|overwrite|replace|change|swap|substitute|edit|update|modify|delete|remove|erase|rm|run|execute|launch|start|call|"
  + "use|invoke|ask|think|ponder|reflect|count|talk|speak|plan|work|carry|follow|remember|recall|describe|wait|sleep|switch|check|finish|"
  + "report|let|give|summari[sz]e|explain|perform|send|generate|inspect|explore|what|which|who|where|how|do";
const SOFT = "(?:please|kindly|then|now|next|finally|lastly|also|and|afterwards|after that|first(?:ly)?|second(?:ly)?|third(?:ly)?|just|simply|"
  + "could you|can you|would you|will you|i(?:'d| would) like you to|i want you to|i need you to|you should|you can|go ahead and|let's|"
  + "hi|hello|hey|ok|okay|plover|agent|quickly|try to|to|\\d+[.)]|[-*•])(?:[\\s,:!]+)";
const LEAD = new RegExp(`^(?:${SOFT})+`, "i");
const CUT = new RegExp(`(\\s*\\n+\\s*|\\s*[.;!?]+\\s+|\\s*,\\s*|\\s+(?:and|then|before|after that|afterwards|finally)\\s+|\\s*,?\\s+and\\s+then\\s+)`
  + `(?=(?:${SOFT})*(?:${VERBS})\\b)`, "i");
const RUNS = /^(?:run|execute|exec|launch|start|perform|issue|\$)(?=\s|:|$)/i;

// ---- lifting out quoted text, JSON objects and links ------------------------------------------------
function closingBrace(s, from) {
  let depth = 0, inText = false;
  for (let i = from; i < s.length; i++) {
    const c = s[i];
    if (inText) { if (c === "\\") i++; else if (c === '"') inText = false; continue; }
    if (c === '"') inText = true;
    else if (c === "{") depth++;
    else if (c === "}" && --depth === 0) return i;
  }
  return -1;
}
const LIFT = /```[\w-]*\n?([\s\S]*?)```|`([^`]+)`|"((?:\\.|[^"\\])*)"|“([^”]*)”|«([^»]*)»|‘([^’]*)’|(?<![\w'])'((?:[^'\n]|(?<=\w)'(?=\w))*)'(?!\w)|(?:https?|file):\/\/[^\s<>"'`)]*[^\s<>"'`).,;:!?]/y;
function lift(text) {
  const slots = [];
  let out = "", tries = 500;
  const put = (slot) => { out += OPEN + slots.length + SHUT; slots.push(slot); };
  for (let i = 0; i < text.length;) {
    if (text[i] === "{" && tries-- > 0) {
      const end = closingBrace(text, i);
      if (end > i) {
        try { put({ kind: "json", value: JSON.parse(text.slice(i, end + 1)), raw: text.slice(i, end + 1) }); i = end + 1; continue; } catch { /* no JSON: plain text */ }
      }
    }
    LIFT.lastIndex = i;
    const m = "`\"“«‘'hf".includes(text[i]) ? LIFT.exec(text) : null;
    if (m) {
      const found = m.slice(1).findIndex((g) => g !== undefined);
      if (found < 0) put({ kind: "url", value: m[0], raw: m[0] });
      else {
        let value = m[found + 1];
        if (found === 0) value = value.replace(/\n$/, "");
        if (found === 2) value = value.replace(/\\"/g, '"');
        put({ kind: found <= 1 ? "code" : "quote", value, raw: m[0] });
      }
      i += m[0].length;
    } else out += text[i++];
  }
  return { masked: out, slots };
}

// ---- one clause with its helpers --------------------------------------------------------------------
class Clause {
  constructor(masked, slots) { this.m = masked.trim(); this.slots = slots; }
  slotsHere(...kinds) {
    return [...this.m.matchAll(SLOT)].map((h) => ({ at: h.index, n: +h[1], ...this.slots[+h[1]] }))
      .filter((s) => !kinds.length || kinds.includes(s.kind));
  }
  quotes() { return this.slotsHere("quote", "code"); }
  raw(s = this.m) { return s.replace(SLOT, (_, n) => this.slots[+n].raw); }
  plain(s = this.m) { return s.replace(SLOT, (_, n) => { const x = this.slots[+n]; return x.kind === "json" ? x.raw : x.value; }); }
  has(re) { return re.test(this.m); }
  number() {
    const d = this.m.replace(SLOT, " ").match(/(?<![\w.])(\d+(?:\.\d+)?)/);
    if (d) return +d[1];
    const w = this.m.toLowerCase().match(new RegExp(`\\b(${Object.keys(NUMBER_WORDS).join("|")})\\b`));
    return w ? NUMBER_WORDS[w[1]] : undefined;
  }
  // The file the clause is about: {path, n} where n is its slot, if it was quoted.
  path() {
    const looks = (v) => /^[^\s]+\.[A-Za-z0-9]{1,8}$/.test(v) || /^[^\s]*\/[^\s]*$/.test(v) || /^\.[\w-]+$/.test(v);
    const links = this.slotsHere("url").filter((s) => s.value.startsWith("file://"));
    if (links.length) return { path: decodeURIComponent(links[0].value.replace(/^file:\/\/[^/]*/, "")), n: links[0].n };
    const quotes = this.quotes();
    const before = (s) => this.m.slice(0, s.at);
    const named = quotes.filter((s) => /\b(?:file|files|called|named|name|path|filename|document)\s*(?:is|=|:)?\s*$/i.test(before(s)) && !/\n/.test(s.value) && s.value.length < 200);
    if (named.length) return { path: named[0].value, n: named[0].n };
    const looking = quotes.filter((s) => looks(s.value) && !/\n/.test(s.value));
    const led = looking.filter((s) => /\b(?:to|into|in|inside|from|of|at|as)\s+(?:the\s+|a\s+)?$/i.test(before(s)));
    const bare = this.m.match(/(?:^|[\s(:])((?:~|\.{1,2})?\/?(?:[\w@+-][\w.@+-]*\/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,7}|\.[A-Za-z][\w-]+|\/[\w./@+-]*[\w@+-])(?=$|[\s,;:!?)]|\.(?:\s|$))/);
    if (led.length) return { path: led[0].value, n: led[0].n };
    if (bare) return { path: bare[1], bare: true };
    if (looking.length) return { path: looking[0].value, n: looking[0].n };
    const word = this.m.match(/\bfile\s+(?:called|named|with the name|by the name of)?\s*([\w][\w.-]*)/i)
      || this.m.match(/\b(?:called|named)\s+([\w][\w.-]*)/i);
    if (word && !/^(?:with|containing|that|which|and|in|to|saying|from|for|called|named|here|there|contents?|please|at|holding)$/i.test(word[1])) return { path: word[1].replace(/\.$/, ""), bare: true };
    return undefined;
  }
}

const tidy = (s) => s.replace(/[\s,]*\b(?:please|for me|thanks|thank you)\s*[.!?]*\s*$/i, "").replace(/(?<=[\w)"'`\uE001])[.!?]+$/, "").trim();

// ---- rules: each returns a wish, "drop" for a clause that only colours the one before, or undefined ---
function mcpWish(c, tools) {
  const low = c.m.toLowerCase();
  if (/\b(?:list|what|which|show|name|tell|enumerate|any|have)\b.*\btools?\b/.test(low) && !/\b(?:call|invoke)\b/.test(low)) return { do: "mcpList" };
  const known = (v) => tools.find((t) => t.name === v || `${t.server}/${t.name}` === v || `${t.server}.${t.name}` === v);
  const words = c.m.replace(SLOT, " ").match(/[\w./-]*\w/g) ?? [];
  let tool = c.quotes().map((q) => known(q.value)).find(Boolean) ?? words.map(known).find((t) => t && (t.name.length > 2));
  const verb = /\b(?:call|use|invoke|run|execute|try|trigger|fire)\b/.test(low);
  // Without the word "tool" the name must come right after "call", "use" or "invoke".
  if (!/\btools?\b|\bmcp\b/.test(low)) {
    const next = c.m.match(/\b(?:call|use|invoke)\s+(?:the\s+)?(\uE000\d+\uE001|[\w./-]*\w)/i);
    tool = next ? known(c.plain(next[1])) : undefined;
    if (!tool) return undefined;
  }
  let name = tool?.name;
  if (!tool && verb && /\b(?:mcp|tool)\b/.test(low)) {
    const m = c.m.match(/\btool\s+(?:called\s+|named\s+|:\s*)?(\uE000\d+\uE001|[\w./-]*\w)/i) || c.m.match(/(\uE000\d+\uE001|[\w.-]+)\s+(?:mcp\s+)?tool\b/i);
    if (m) name = c.plain(m[1]);
    if (/^(?:the|a|an|mcp|your|with|of|from|on|to|for|and|that|which|call|use|invoke|some|any)$/i.test(name ?? "")) name = undefined;
  }
  if (!name || !(verb || (tool && /\btool\b|\bmcp\b/.test(low)))) return undefined;
  const props = tool?.inputSchema?.properties ?? {};
  const server = c.m.match(/\b(?:server|of|from|on)\s+(?:the\s+)?(?:server\s+)?(\uE000\d+\uE001|[\w.-]+)/i);
  return { do: "mcpCall", tool: name, server: server ? c.plain(server[1]) : undefined, args: mcpArgs(c, name, props) };
}
function mcpArgs(c, toolName, props) {
  const json = c.slotsHere("json")[0];
  if (json) return json.value;
  for (const q of c.slotsHere("code", "quote")) {
    if (/^\s*\{/.test(q.value)) { try { return JSON.parse(q.value); } catch { /* just text */ } }
  }
  const value = (key, s) => {
    const q = s.match(/^\uE000(\d+)\uE001$/);
    const text = q ? c.slots[+q[1]].value : s;
    const type = props[key]?.type;
    if (type === "string" || (q && !type)) return text;
    if (text === "true" || text === "false") return text === "true";
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  const args = {};
  const token = "(\\uE000\\d+\\uE001|-?\\d+(?:\\.\\d+)?|[^\\s,;]+?)(?=$|[\\s,;]|[.!?](?:\\s|$))";
  for (const key of Object.keys(props)) {
    const m = c.m.match(new RegExp(`(?:^|[\\s,(])${key.replace(/\W/g, "\\$&")}\\s*(?:=|:|\\bset to\\b|\\bequal to\\b|\\bis\\b|\\bof\\b|\\bas\\b|\\s)\\s*${token}`, "i"));
    if (m && c.plain(m[1]) !== toolName) args[key] = value(key, m[1]);
  }
  for (const m of c.m.matchAll(new RegExp(`([A-Za-z_][\\w-]*)\\s*(?:=|:|\\bset to\\b)\\s*${token}`, "g"))) {
    if (!(m[1] in args) && !/^(?:tool|arguments?|args|parameters?|with)$/i.test(m[1])) args[m[1]] = value(m[1], m[2]);
  }
  if (!Object.keys(args).length) {
    const free = c.slotsHere("quote", "code", "url").filter((q) => q.value !== toolName).map((q) => q.value);
    const numbers = (c.m.replace(SLOT, " ").match(/(?<![\w.])-?\d+(?:\.\d+)?/g) ?? []).map(Number);
    for (const [key, p] of Object.entries(props)) {
      if ((p.type === "number" || p.type === "integer") && numbers.length) args[key] = numbers.shift();
      else if ((p.type === "string" || !p.type) && free.length) args[key] = free.shift();
    }
    if (!Object.keys(args).length && props) {
      const rest = c.m.match(/\b(?:with|on|saying|for)\s+(?:the\s+)?(?:text|message|argument|value|word|input)?\s*([^\uE000]+)$/i);
      const strings = Object.keys(props).filter((k) => props[k].type === "string");
      if (rest && strings.length === 1) args[strings[0]] = tidy(c.plain(rest[1]));
    }
  }
  return args;
}

function runWish(c) {
  const lead = c.m.match(/^(?:(?:in|from)\s+(?:the|a|your)\s+(?:shell|terminal|console|command line)\s*[,:]?\s*|use\s+(?:the|a|your)\s+(?:shell|terminal|console|bash|command line)\s+(?:to\s+)?(?:run|execute)?\s*)?(?:(?:run|execute|exec|launch|start|invoke|perform|issue|try|\$)(?=[\s:\uE000])\s*)?/i)[0];
  if (lead && /^(?:in|from)\b/i.test(lead) && lead.length === c.m.length) return undefined;
  const asks = c.has(/\b(?:what|show|tell|give|get|see)\b.*\b(?:output|result|print|prints|return|returns|happens|exit)\b/i) && c.slotsHere("code").length;
  if (!lead && !asks) return /^(?:sleep|ls|pwd|echo|cat|touch|mkdir|date|whoami|uname)\s+-|^(?:pwd|whoami|uname|date)$|^sleep\s+\d/i.test(c.m) ? { do: "run", command: c.raw(tidy(c.m)) } : undefined;
  if (lead && /^start\b/i.test(lead) && !c.has(/\b(?:command|shell|process|program|terminal)\b/i) && !c.quotes().length) return undefined;
  const rest = c.m.slice(lead.length).replace(/^(?:me\s+)?(?:(?:the|this|a|an|following|some|simple|shell|bash|sh|terminal|unix|linux|system|long|long-running|slow|quick)\s+)*(?:commands?|cmd|program|script|line|process)?\s*(?:called|named|line)?\s*:?\s*(?=[\uE000\w./$~(-])/i, "");
  const code = c.slotsHere("code")[0] ?? (/^\uE000/.test(rest) ? c.quotes()[0] : undefined) ?? (c.has(/\bcommands?\b[^\uE000]{0,12}\uE000/i) ? c.quotes()[0] : undefined);
  if (/^(?:it|them|the plan|that|this|each step|every step|the steps|everything)$/i.test(tidy(rest))) return undefined;
  // "run `cmd`" or "run the command 'cmd'"; but "run echo 'hi'" is a command with a quoted word in it.
  if (code && (/^\uE000/.test(rest) || code.kind === "code" || !rest)) return { do: "run", command: code.value };
  const that = c.m.match(/\b(?:command|program|process|something)\b\s*(?:that|which|to)?\s*(.*)$/i);
  const describes = that && (that[1] || !rest) && /\b(?:command|program|process|something)\s+(?:that|which|to)\b/i.test(c.m);
  if (describes || /^(?:that|which)\b/i.test(rest) || !rest || /^(?:command|something|it)$/i.test(tidy(rest))) {
    const what = that?.[1] ?? rest;
    if (/sleep|wait|long|slow|while|seconds/i.test(c.m)) return { do: "run", command: `sleep ${c.number() ?? 10}` };
    if (/fail|error|non-?zero/i.test(what)) return { do: "run", command: "echo this goes wrong >&2; exit 3" };
    const q = c.quotes()[0];
    const prints = what.match(/(?:print|echo|output|say|write|show)s?\s+(?:out\s+)?(?:the\s+(?:text|word)s?\s+)?(.+)$/i);
    if (q || prints) return { do: "run", command: `echo '${(q ? q.value : tidy(prints[1])).replace(/'/g, "'\\''")}'` };
    return { do: "run", command: "echo plover was here" };
  }
  const command = c.raw(tidy(rest.replace(/\s+(?:in|using|with|on)\s+(?:the|a|your|my)\s+(?:terminal|shell|bash|console|command line)\b.*$/i, "")));
  const sleeping = command.match(/^(?:sleep|wait)(?:ing)?\s+(?:for\s+)?(\d+)\s*(?:s|secs?|seconds?)?$/i);
  return { do: "run", command: sleeping ? `sleep ${sleeping[1]}` : command.replace(/^(?:print|say)(?:\s+out)?\s+/i, "echo ") };
}

function fileWish(c, last) {
  const low = c.m.toLowerCase();
  const target = c.path();
  const it = last.hint ?? (/\b(?:it|that file|the file|this file|that|its)\b/.test(low) ? last.path : undefined);
  const texts = c.quotes().filter((q) => q.n !== target?.n);
  if (/\b(?:replace|change|swap|substitute|edit|update|modify|turn|fix|alter|becomes?)\b/.test(low) && (target || it || last.path)) {
    const path = target?.path ?? it ?? last.path;
    if (texts.length >= 2) {
      const backwards = /\bsubstitute\b/.test(low) && /\bfor\s+(?:the\s+\w+\s+)?\uE000\d+\uE001/.test(c.m);
      const [a, b] = texts.map((q) => q.value);
      return { do: "replace", path, from: backwards ? b : a, to: backwards ? a : b };
    }
    const bare = c.m.match(/(?:replace|change|swap|substitute|turn|alter|edit|update|modify)\s+(?:(?:all|every|each|the|occurrences?|instances?|of|words?|text|string|phrase|line)\s+)*(.+?)\s+(?:with|to|by|into|for)\s+(?:(?:the|word|text|string|phrase)\s+)*(.+?)(?:\s+(?:in|inside|within|of)\s+(?:the\s+)?(?:file\s+)?\S+\s*)?$/i);
    if (bare && !c.has(/\b(?:contents?|text)\s+(?:of|in)\b/i) && !bare[1].includes(path)) return { do: "replace", path, from: c.plain(bare[1]), to: tidy(c.plain(bare[2])) };
    if (texts.length === 1) return { do: "write", path, text: texts[0].value };
  }
  if (/^(?:delete|remove|erase|rm|unlink|get rid of|throw away|trash|discard)\b/.test(low) && (target || it)) return { do: "delete", path: target?.path ?? it };
  const writes = /^(?:create|write|make|save|put|store|add|append|generate|produce|overwrite|prepare|set|place|drop|touch|leave|start|fill|compose|send)\b/.test(low);
  if (writes && (target || it || /\b(?:file|note)\b/.test(low))) {
    const path = target?.path ?? it ?? "note.txt";
    const append = /^(?:append|add)\b/.test(low) && !/\b(?:new file|a file)\b/.test(low);
    let text;
    if (texts.length) text = /\blines\b/.test(low) ? texts.map((q) => q.value).join("\n") : texts[0].value;
    else if (c.slotsHere("json").length) text = c.slotsHere("json")[0].raw;
    else if (/\bempty\b/.test(low)) text = "";
    else {
      const lead = "(?:(?:the|this|exactly|following|single|just|only|a|an|some|its|in it)\\s+)*(?:text|contents?|line|words?|string|body|message|data|value|sentence|phrase)?\\s*(?:of|:|=|that says|saying|being|is|reads)?\\s*";
      const within = c.m.match(new RegExp(`\\b(?:with|containing|that contains|which contains|contains|saying|that says|which says|holding|that holds|reading|contents?(?:\\s+should)?(?:\\s+be)?|text)\\b\\s*:?\\s*${lead}(.+)$`, "is"));
      const into = c.m.match(/^\w+\s+(?:down\s+)?(?:(?:the|this|following|text|words?|line|string|message|exactly)\s+)*:?\s*(.+?)\s+(?:to|into|in|inside|as|onto)\s+(?:(?:the|a|an|new|text|file|called|named)\s+)*\S+\s*\.?$/i);
      const colon = c.m.match(/:\s*(.+)$/s);
      if (into && !/^(?:a|an|the)?\s*(?:new\s+)?(?:text\s+)?file\b/i.test(into[1])) text = into[1];
      else if (within) text = within[1].replace(/\s+(?:to|into|in|as)\s+(?:(?:the|a|file|called|named)\s+)*\S+\.\w+$/i, "");
      else if (colon) text = colon[1];
      if (text !== undefined) text = tidy(c.plain(text));
    }
    if (/^(?:(?:some|any|a little|random|test|sample|nice)\s+)*(?:text|contents?|words|data|stuff|in it)?$/i.test(text ?? "") && !texts.length && !/\bempty\b/.test(low)) text = undefined;
    return { do: append ? "append" : "write", path, text: text ?? "A few words from the plover." };
  }
  const reads = /^(?:read|show|open|display|print|cat|view|look|check|inspect|fetch|get|give|tell|see|load|output|summari[sz]e|examine|review|repeat|type|what|what's|which|how|do|does|is|describe|explain|let)\b/.test(low);
  if (reads && (target || (it && last.kind !== "read" && /^(?:read|show|open|display|print|cat|view|check|get|see|what|tell)\b/.test(low)))) {
    const line = c.m.match(/\bline\s+(\d+)/i);
    const one = { do: "read", path: target?.path ?? it, line: line ? +line[1] : undefined };
    const others = target?.bare ? (c.m.replace(SLOT, " ").match(/(?<=[\s,])[\w@+-][\w.@+/-]*\.[A-Za-z]\w{0,7}(?=$|[\s,;:!?)]|\.(?:\s|$))/g) ?? []).filter((p) => p !== target.path) : [];
    return others.length ? [one, ...others.map((path) => ({ do: "read", path }))] : one;
  }
  return undefined;
}

function sayWish(c) {
  const m = c.m.match(/^(?:say|repeat|echo|reply|respond|answer|utter|parrot|speak|tell|print|output|type|write|return|give|send|state|greet|shout|whisper)\b\s*/i);
  if (!m) return undefined;
  const weak = /^(?:tell|print|output|type|write|return|give|send|greet|state)/i.test(m[0]);
  const quote = c.quotes()[0] ?? (weak ? undefined : c.slotsHere("json")[0]);
  const times = c.has(/\b(\d+|one|two|three|four|five|six|ten|twice)\s*(?:times)?\b/i) && c.has(/\btimes\b|\btwice\b/i) ? (c.has(/\btwice\b/i) ? 2 : c.number() ?? 1) : 1;
  if (quote) return { do: "say", text: Array(Math.min(times, 50)).fill(quote.kind === "json" ? quote.raw : quote.value).join(" ") };
  const colon = c.m.match(/^[^:]{0,60}:\s*(.+)$/s);
  if (colon) return { do: "say", text: c.plain(colon[1]) };
  const rest = tidy(c.m.slice(m[0].length).replace(/^(?:(?:me|back|after me|to me|again|out loud|aloud|out|exactly|precisely|only|just|simply|with|by saying|the|this|that|following|single|one|words?|text|phrase|sentence|message|line|string|and nothing else|literally|verbatim)\s+)*:?\s*/i, ""));
  if (weak && !/\b(?:word|text|phrase|sentence|exactly|verbatim)\b/i.test(c.m)) return undefined;
  if (!/[\w\uE000\u0080-\uFFFF]/.test(rest) || /^(?:something|anything|me|back|it)\b/i.test(rest)) return undefined;
  return { do: "say", text: c.plain(rest) };
}

function slowWish(c) {
  const low = c.m.toLowerCase(), n = c.number();
  const gap = /\b(?:every|per|a)\s+(?:\d+\s+)?second\b/.test(low) ? 1000 : /\b(?:fast|quickly)\b/.test(low) ? 40 : 300;
  if (/^(?:count|enumerate)\b|\bcount(?:ing)?\s+(?:slowly|up|down|from|to)\b/.test(low) && !/\bfiles?\b/.test(low)) {
    const range = low.match(/from\s+(\w+)\s+(?:down\s+|up\s+)?(?:to|until|till|through)\s+(\w+)/);
    const num = (w) => (/^\d+$/.test(w) ? +w : NUMBER_WORDS[w]);
    const to = range ? num(range[2]) : low.match(/(?:to|until|till)\s+(\w+)/) ? num(low.match(/(?:to|until|till)\s+(\w+)/)[1]) : n;
    return { do: "count", from: range ? num(range[1]) ?? 1 : 1, to: Math.min(to ?? 10, 2000), gap };
  }
  const unit = low.match(/(\d+(?:\.\d+)?|one|two|three|four|five|six|eight|ten|fifteen|twenty|thirty)\s*(s|secs?|seconds?|m|mins?|minutes?)\b/);
  const seconds = unit ? (NUMBER_WORDS[unit[1]] ?? +unit[1]) * (/^m/.test(unit[2]) ? 60 : 1) : undefined;
  if (/^(?:wait|pause|idle|sleep|do nothing|stay busy|keep busy|take)\b/.test(low)) return { do: "talk", seconds: Math.min(seconds ?? n ?? 5, 300) };
  if (/\b(?:talk|speak|ramble|tell|write|stream|narrate|keep|go on|say|answer|chat|babble|reply|recite|give|generate|produce|explain|work|respond)\b/.test(low)
    && (/\b(?:slow|slowly|long|lengthy|a while|at length|without stopping|story|essay|poem|ages|forever|in detail|take your time|lots|ramble|keep (?:talking|going|writing|on))\b/.test(low) || (seconds && /\bfor\b/.test(low)))) return { do: "talk", seconds: Math.min(seconds ?? 8, 300) };
  return undefined;
}

function askWish(c) {
  const low = c.m.toLowerCase();
  if (!/^(?:ask|question|quiz|elicit|prompt|query|interview|consult|inquire|find out from)\b|\bask me\b|\bask (?:the )?user\b|\bquestion (?:for|to) me\b|\b(?:use|send|show|open|give|present|make|start|do|create|trigger|put)\b.*\b(?:elicitation|form)\b/.test(low)
    && !/\b(?:have me|let me) (?:choose|pick|decide|confirm|visit|open)\b|\bvisit\b.*\b(?:link|url|page)\b|\burl elicitation\b/.test(low)) return undefined;
  const quote = c.slotsHere("quote")[0];
  const about = c.m.match(/\bask(?:ing)?\s+(?:me|the user|us)?\s*(?:a question\s*)?(?:about|for|to tell you|to give you|to enter|to provide)?\s*(.*)$/i);
  let question = quote ? quote.value : about?.[1] ? tidy(c.plain(about[1])).replace(/\s+(?:using|with|in|via|through)\s+(?:a|an|the)\s+(?:form|elicitation|dialog).*$/i, "") : "";
  if (!question || /^(?:a )?(?:something|anything|question|questions)$/i.test(question)) question = "What would you like me to know?";
  const wish = { do: "ask", question: question[0].toUpperCase() + question.slice(1), kind: "text" };
  if (/\b(?:url|link|web ?page|website|browser|visit)\b/.test(low)) return { ...wish, kind: "url", url: c.slotsHere("url").find((u) => !u.value.startsWith("file"))?.value };
  if (/\b(?:password|passphrase|secret key|token|api[ -]?key|credit card|pin|credentials?)\b/.test(low)) return { ...wish, kind: "secret" };
  const choice = c.m.match(/\b(?:between|choose|pick|options?|one of|either|whether)\b[^:]*?:?\s*((?:[\w\uE000\uE001-]+(?:,\s*(?:or\s+|and\s+)?|\s+(?:or|and)\s+))+[\w\uE000\uE001-]+)/i);
  if (choice) return { ...wish, kind: "choice", options: [...new Set(choice[1].replace(/^(?:between|from|one of)\s+/i, "").split(/,\s*(?:or\s+|and\s+)?|\s+(?:or|and)\s+/).map((s) => c.plain(s).trim()).filter(Boolean))] };
  if (/\b(?:yes or no|yes\/no|confirm|whether|agree)\b/.test(low)) return { ...wish, kind: "yesno" };
  if (/\b(?:a number|how many|how old|age|integer)\b/.test(low)) return { ...wish, kind: "number" };
  return wish;
}

function ruleFor(c, ctx, last) {
  const low = c.m.toLowerCase();
  if (!c.m) return "drop";
  const handy = c.m.match(new RegExp(`^(?:use|using|with)\\s+(?:your|the|a|an|any|some)\\s+(?:\\w+\\s+){0,2}tools?\\s*(?:to|,)\\s*(?=(?:${VERBS})\\b)`, "i"));
  if (handy) return ruleFor(new Clause(c.m.slice(handy[0].length), c.slots), ctx, last);
  const mode = low.match(/\b(?:switch|change|set|go|enter|turn|put|move|use)\b.*\b(careful|swift)\b/);
  if (mode && /\bmode\b|^(?:switch|go)\b/.test(low)) return { do: "mode", mode: mode[1] };
  const recalls = /\b(?:do|can|what|which|who|tell|say|summari[sz]e|repeat|list|recall|remind)\b.*\b(?:remember|recall|i (?:just |first |last )?(?:gave|told|said|mentioned|asked|wrote|typed|say|tell|give|ask|mention)|we (?:talk|discuss|said|spoke|did)|my name|earlier|so far|previous(?:ly)?|before|conversation|favou?rite|secret|code ?word|the (?:word|number|colou?r|code) (?:was|i))/;
  if (/^(?:recall|remind me)\b/.test(low) || (/^(?:what|which|who|do|can|tell|say|summari[sz]e|repeat|list|show|give|is|was|did)\b/.test(low) && recalls.test(low) && !c.quotes().length)) return { do: "recall" };
  if (/^(?:remember|keep in mind|note|memori[sz]e|don't forget|do not forget|my \w+(?: \w+)? is|the (?:secret|code|pass|magic)? ?(?:word|number|code|name)\b.*\bis|i am called|call me)\b/.test(low) && !/\?\s*$/.test(c.m)) return { do: "note", text: c.raw() };
  const asked = askWish(c);
  if (asked) return asked;
  if (/^(?:say|echo|repeat after|reply|respond|parrot)\b/.test(low) && !c.path()?.bare) { const slow = c.quotes().length ? undefined : slowWish(c); const s = slow ?? sayWish(c); if (s) return s; }
  const mcp = mcpWish(c, ctx.tools);
  if (mcp) return mcp;
  const first = fileWish(c, last);
  if (RUNS.test(c.m) || !first) { const run = runWish(c); if (run) return run; }
  if (last.kind === "plan" && /^(?:work|carry|follow|go|execute|do|finish|perform)\b/.test(low)) return "drop";
  if (!/^think\b/.test(low) && (/\bplan\b|\bstep by step\b|\bto-?do list\b|\bbreak (?:it|this|the task) (?:down|into)\b/.test(low)) && !first) {
    const steps = c.m.match(/:\s*(.+)$/s)?.[1] ?? c.m.match(/\b(?:to|for|with (?:the )?steps)\s+(.+)$/i)?.[1];
    const list = steps ? c.plain(steps).split(/\s*(?:,|;|\n|\band\b|\bthen\b)\s*/).map((s) => s.replace(/^\d+[.)]\s*/, "").trim()).filter((s) => s.length > 2) : [];
    return { do: "plan", steps: list.slice(0, 8), count: c.number() };
  }
  if (/^(?:work|carry|follow|go|execute|do|finish)\b.*\b(?:it|plan|them|through|steps?)\b/.test(low)) return last.kind === "plan" ? "drop" : { do: "plan", steps: [] };
  if (first) return first;
  if (/^(?:think|ponder|reflect|reason|consider|muse|contemplate)\b|\bthink(?:ing)?\s+(?:aloud|out loud|first|hard|carefully|before)\b/.test(low)) return { do: "think", about: tidy(c.plain(c.m.replace(/^\w+\s*(?:aloud|out loud|first|hard|carefully|a bit|for a moment|before you answer|about|on|over|:|of|how|\s)*/i, ""))) };
  const slow = slowWish(c);
  if (slow) return slow;
  if (/^(?:ls|dir)\b|\b(?:list|show|what|which|see|display|look|tell|explore|enumerate|give|count|how many|print)\b.*\b(?:files?|director(?:y|ies)|folders?|workspace|around|project|here)\b|^(?:look around|explore)\b/.test(low)) {
    const dir = c.m.match(/\b(?:in|of|inside|under)\s+(?:the\s+)?(?:folder|directory|dir)?\s*(?:called\s+|named\s+)?(\uE000\d+\uE001|[\w.-]+\/?)/i);
    const name = dir ? c.plain(dir[1]).replace(/[.?]$/, "") : ".";
    return { do: "list", path: /^(?:the|this|your|my|current|here|working|folder|directory|workspace|project|cwd)?$/i.test(name) ? "." : name };
  }
  if (/\b(?:where are you|current (?:working )?directory|working directory|cwd|which directory)\b/.test(low)) return { do: "where" };
  if (ctx.attachments && /\b(?:describe|what|this|attached|attachment|image|picture|photo|resource|link|file|see|look|audio|sound|explain|summari[sz]e|tell|read|it)\b/.test(low)) return { do: "describe" };
  if (/^(?:show|tell|give|print|display|report|let|finish|use|what|describe|explain|summari[sz]e|return)\b/.test(low) && last.kind && !c.quotes().length) return "drop";
  return sayWish(c);
}

// Turns a prompt into a list of wishes, in order. ctx: {tools, attachments, path}
export function understand(text, ctx) {
  const trimmed = text.trim();
  const slash = trimmed.match(/^\/(echo|files|recall)\b\s*([\s\S]*)$/);
  if (slash) return [slash[1] === "echo" ? { do: "say", text: slash[2] || "(nothing to echo)" } : slash[1] === "files" ? { do: "list", path: slash[2].trim() || "." } : { do: "recall" }];
  // Very long prompts are understood by their beginning; quoted text counts as one word, however long.
  const lifted = lift(trimmed.slice(0, 2_000_000)), slots = lifted.slots;
  const masked = lifted.masked.length > 12_000 ? lifted.masked.slice(0, 4_000) : lifted.masked;
  // "Write ... to x.txt:" followed by lines: everything below the colon is the text.
  const below = masked.match(/^([^\n]*):[ \t]*\n([\s\S]+)$/);
  if (below) {
    const head = new Clause(below[1].replace(LEAD, ""), slots), target = head.path();
    if (target && /^(?:create|write|make|save|put|store)\b/i.test(head.m) && !/^\s*\uE000\d+\uE001/.test(below[2]) && !new RegExp(`^\\s*(?:${SOFT})*(?:${VERBS})\\b`, "i").test(below[2])) return [{ do: "write", path: target.path, text: head.raw(below[2]) }];
  }
  const parts = masked.split(CUT);
  const clauses = [parts[0].replace(LEAD, "")];
  for (let i = 1; i < parts.length; i += 2) {
    const before = clauses[clauses.length - 1], gap = parts[i], part = parts[i + 1];
    const shell = RUNS.test(before) && /[;,]/.test(gap) && !/\bthen\b/i.test(part.slice(0, 12)) && !before.includes(OPEN);
    const literal = /^(?:say|repeat|reply|respond|answer|echo)\b[^:]*:/i.test(before) && !before.includes(OPEN) && !/\n|then/i.test(gap) && !/^then\b/i.test(part);
    const lists = /^(?:make|create|draw up|write|prepare)\b.*\bplan\b.*(?::|\bto\b)/i.test(before) && !/^(?:then|and then)?\s*(?:work|carry|follow|execute|go|do it)\b/i.test(part) && !/[.!?\n]/.test(gap);
    const asks = /^ask\b/i.test(before) && /^(?:what|which|who|where|how|do)\b/i.test(part);
    if (shell || literal || lists || asks) clauses[clauses.length - 1] = before + gap + part;
    else clauses.push(part.replace(LEAD, ""));
  }
  const wishes = [], last = { path: ctx.path, kind: undefined };
  for (const masked of clauses) {
    const c = new Clause(masked, slots), wish = ruleFor(c, ctx, last);
    if (!wish && /^(?:in|inside|within|for|open|take)\b/i.test(c.m) && c.path()) last.hint = c.path().path; // "In a.txt, replace ..."
    if (!wish || wish === "drop") continue;
    last.hint = undefined;
    for (const w of [wish].flat()) {
      wishes.push(w);
      last.kind = w.do;
      if (w.path && w.do !== "list") last.path = w.path;
    }
  }
  if (!wishes.length && ctx.attachments) return [{ do: "describe" }];
  return wishes;
}
