// What does the user want? A handful of rules instead of a model.
import { fileURLToPath } from "node:url";

const QUOTE = /```(?:[\w+-]*\n)?([\s\S]*?)```|`([^`]+)`|"((?:[^"\\]|\\.)*)"|“([^”]*)”|‘([^’]*)’|«([^»]*)»|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)/g;
const HOLE = /\u0001(\d+)\u0002/g;
const READ = /\b(?:read|open|show|cat|display|view|look (?:at|into|in)|inspect|check|load|summari[sz]e|what(?:'s| is| does)|contents? of|print|fetch|tell me)\b/i;
const WRITE = /\b(?:write|create|save|put|store|append|add|overwrite|edit|modify|change|replace|update|make|insert|prepend|rewrite|produce|generate)\b/i;
const SHELL = /\b(?:run|execute|launch|shell|bash|terminal|command line)\b(?!\.\w)/i;
const STOP = new Set("with that and to in into containing the a an called named at it its which for of from there here me contents content file path is whose please then so using back again does says say".split(" "));
const NOISE = /^(?:(?:please|now|ok|okay|hey|hi|hello|just|kindly|can you|could you|would you|will you|i want you to|i'd like you to|i would like you to)[,!.]?\s+)+/;

export function cleanPath(p) {
  p = p.trim().replace(/[,;:!?)]+$/, "");
  if (p.endsWith(".") && !p.endsWith("..")) p = p.replace(/\.+$/, "");
  if (p.startsWith("file://")) { try { p = fileURLToPath(p); } catch { p = p.slice(7); } }
  return p;
}
const pathLike = (s) => {
  if (!s || s.includes("\n") || s.length > 400 || (s.includes("://") && !s.startsWith("file://"))) return false;
  if (/^(\/|\.\/|\.\.\/|~\/|file:\/\/)/.test(s)) return true;
  if (s.includes(" ")) return s.length < 80 && /^[\p{L}\p{N}_\-. /]+\.[A-Za-z][A-Za-z0-9]{0,7}$/u.test(s);
  return (s.includes("/") && /^[\p{L}\p{N}_\-./@+~]+$/u.test(s)) || /^\.?[\p{L}\p{N}_\-.@+~]*\.[A-Za-z][A-Za-z0-9]{0,7}$/u.test(s);
};

class Words {
  constructor(text) {
    this.quotes = [];
    this.masked = text.replace(/[\u0001\u0002]/g, "").replace(QUOTE, (raw, fence, tick, dq, ...rest) => {
      let inner = [fence, tick, dq, rest[0], rest[1], rest[2], rest[3]].find((x) => x !== undefined) ?? "";
      if (dq !== undefined) inner = inner.replace(/\\"/g, '"').replace(/\\n/g, "\n");
      this.quotes.push({ inner, raw, style: fence !== undefined ? "fence" : tick !== undefined ? "tick" : "quote" });
      return `\u0001${this.quotes.length - 1}\u0002`;
    }).trim();
  }
  raw(m) { return m.replace(HOLE, (_, i) => this.quotes[i].raw); }
  plain(m) { return m.replace(HOLE, (_, i) => this.quotes[i].inner); }
  inside(m) { return [...m.matchAll(HOLE)].map((x) => ({ i: +x[1], ...this.quotes[x[1]] })); }
}

function findPaths(w, m) {
  const found = [];
  for (const x of m.matchAll(HOLE)) {
    const q = w.quotes[x[1]], before = m.slice(0, x.index).toLowerCase();
    if (q.style !== "fence" && (pathLike(q.inner) || (/\b(?:file|path|called|named)[:\s]*$/.test(before) && !/[\n ]/.test(q.inner))))
      found.push({ at: x.index, path: cleanPath(q.inner), i: +x[1] });
  }
  for (const x of m.matchAll(/(?<![\p{L}\p{N}_/:.])(file:\/\/[^\s,;]+|~?\/[^\s,;\u0001\u0002]+|\.{1,2}\/[^\s,;\u0001\u0002]+|[\p{L}\p{N}_\-@+~./]*\.[A-Za-z][A-Za-z0-9]{0,7}(?![\p{L}\p{N}_/])|[\p{L}\p{N}_\-@+~]+\/[\p{L}\p{N}_\-@+~./]+)/gu)) {
    const p = cleanPath(x[1]);
    if (p.length < 2 || ["e.g", "i.e", "and/or", "yes/no", "either/or", "true/false"].includes(p.toLowerCase())) continue;
    found.push({ at: x.index, path: p });
  }
  if (!found.length) for (const x of m.matchAll(/\b(?:README|LICENSE|Makefile|Dockerfile|CHANGELOG)\b/g)) found.push({ at: x.index, path: x[0] });
  if (!found.length) {
    const x = /\b(?:file|path)\s+(?:called|named|at|is)?\s*:?\s*([\w\-./]+)/i.exec(m);
    if (x && !STOP.has(x[1].toLowerCase())) found.push({ at: x.index, path: cleanPath(x[1]) });
  }
  return found.sort((a, b) => a.at - b.at);
}

function trim(s) {
  s = s.trim().replace(/^(?:exactly|only|just|precisely)\b[\s:]*/i, "").replace(/^(?:the\s+)?(?:following\s+)?(?:exact\s+)?(?:single\s+)?(?:text|words?|lines?|contents?|string|sentence|phrase|message)\s*(?:is|:|of)?\s+/i, "");
  s = s.replace(/^[:,\- ]+/, "").trim();
  return s.endsWith(".") && !s.endsWith("...") ? s.slice(0, -1) : s;
}

function findText(w, m, paths) {
  const used = new Set(paths.map((p) => p.i).filter((i) => i !== undefined));
  const free = w.inside(m).filter((q) => !used.has(q.i));
  const fence = free.find((q) => q.style === "fence");
  if (fence) return fence.inner;
  if (free.length) return free[0].inner;
  let x = /(?:\b(?:contain(?:s|ing)?|that says?|saying|which says?|that reads?|with (?:the |exactly |just |only )*(?:following )?(?:contents?|text|words?|lines?|string|body|message|phrase|sentence)|contents?(?: should be| must be| is| of|:)|text:|so (?:that )?it (?:says|contains|reads)|consisting of|with)(?![\w]))\s*:?\s*([\s\S]+)$/i.exec(m);
  if (x) {
    let t = trim(w.plain(x[1]));
    if (paths.length && t.endsWith(paths.at(-1).path)) t = t.replace(/\s+(?:to|into|in)\s+(?:the\s+)?(?:file\s+)?\S+\.\w+$/, "");
    if (t) return t;
  }
  if (paths.length) {
    x = new RegExp(WRITE.source + "\\s+([\\s\\S]+?)\\s+(?:to|into|in|inside|at the end of|on)\\s+(?:the\\s+|a\\s+)?(?:new\\s+)?(?:file\\s+)?(?:called\\s+|named\\s+|at\\s+)?(?:the\\s+path\\s+)?$", "i").exec(m.slice(0, paths[0].at));
    if (x) {
      const t = trim(w.plain(x[1]));
      if (t && !/^(?:a file|a new file|the file|file|it|something|a line|anything)$/i.test(t)) return t;
    }
    const tail = m.slice(paths[0].at).split(":");
    if (tail.length > 1 && tail.slice(1).join(":").trim()) return trim(w.plain(tail.slice(1).join(":")));
  }
  return undefined;
}

function shellCommand(w, m) {
  const x = /\b(?:run|execute|launch|start|type|use)\b/i.exec(m);
  let rest = x ? m.slice(x.index + x[0].length) : m;
  rest = rest.replace(/^\s*(?:(?:the|this|a|following|shell|bash|terminal|command|commands|script|program|for me|in|your|client's|please|line)\b\s*)*:?\s*/i, "");
  if (rest.startsWith("\u0001")) return w.quotes[/\u0001(\d+)/.exec(rest)[1]].inner.trim();
  rest = rest.replace(/^to\s+(?:run|execute|launch|start)\s+(?:the\s+)?(?:command\s+)?:?\s*/i, "");
  if (/^to\b.*\b(?:working|current) directory\b/i.test(rest)) return "pwd";
  if (/^to\b.*\blist\b.*\b(?:files|directory|folder)\b/i.test(rest)) return "ls";
  if (rest.startsWith("\u0001")) return w.quotes[/\u0001(\d+)/.exec(rest)[1]].inner.trim();
  const tick = w.inside(m).find((q) => q.style !== "quote");
  if (tick) return tick.inner.trim();
  rest = w.raw(rest).split(/[,;]?\s+(?:in (?:the|a|your|my) (?:terminal|shell|background|console|working directory|current directory)|using (?:the|a) (?:terminal|shell)|and\s+(?:then\s+)?(?:tell|show|report|give|let|print|say|explain|return|share|describe)\b|(?:for me|please)\b)/i)[0];
  rest = rest.trim().replace(/[?!]+$/, "");
  return (rest.endsWith(".") && !rest.endsWith(" .") ? rest.slice(0, -1) : rest).trim();
}

function toolArguments(w, m, tool) {
  const text = w.plain(m);
  for (let a = text.indexOf("{"); a >= 0; a = text.indexOf("{", a + 1))
    for (let b = text.lastIndexOf("}"); b > a; b = text.lastIndexOf("}", b - 1)) {
      try { const v = JSON.parse(text.slice(a, b + 1)); if (v && typeof v === "object") return v; } catch { /* try a shorter piece */ }
    }
  const props = tool.inputSchema?.properties ?? {};
  const cast = (n, v) => {
    const t = props[n]?.type;
    if ((t === "integer" || t === "number") && v.trim() !== "" && !Number.isNaN(Number(v))) return Number(v);
    if (t === "boolean") return /^(true|yes|1|on)$/i.test(v);
    return v;
  };
  const args = {};
  for (const n of Object.keys(props)) {
    const x = new RegExp(`(?<![\\w-])["'\`]?${n.replace(/[^\w]/g, "\\$&")}(?!\\w)["'\`]?\\s*(?:=|:|\\bset to\\b|\\bto be\\b|\\bas\\b|\\bis\\b)?\\s*(\\u0001\\d+\\u0002|[^\\s,;]+)`, "i").exec(m);
    if (!x) continue;
    const v = w.plain(x[1]);
    if (/^(and|with|of|argument|the|parameter|to|tool|is)$/i.test(v) || v === tool.name) continue;
    const value = cast(n, x[1].startsWith("\u0001") ? v : v.replace(/[.)]+$/, ""));
    if (/^(integer|number)$/.test(props[n]?.type) && typeof value !== "number") continue;
    args[n] = value;
  }
  const missing = (tool.inputSchema?.required ?? Object.keys(props)).filter((n) => !(n in args) && n in props);
  const free = w.inside(m).map((q) => q.inner).filter((q) => q !== tool.name && !Object.values(args).includes(q) && !(q in props) && q !== tool.server);
  const numbers = m.replace(HOLE, " ").match(/(?<![\w.])-?\d+(?:\.\d+)?(?!\w)/g) ?? [];
  for (const n of missing) {
    const t = props[n].type;
    if ((t === "integer" || t === "number") && numbers.length) args[n] = Number(numbers.shift());
    else if (t === "boolean") args[n] = true;
    else if (free.length) args[n] = cast(n, free.shift());
    else if (t === undefined || t === "string") {
      const x = /\b(?:with|on|for|to say|saying|input|text|message|argument)\b[:\s]+([\s\S]+)$/i.exec(m);
      args[n] = x ? trim(w.plain(x[1])) : w.plain(m);
    }
  }
  return args;
}

function question(w, m) {
  const low = m.toLowerCase(), quotes = w.inside(m).map((q) => q.inner), q = { kind: "text", options: [], text: "" };
  const x = /\b(?:between|from|among|one of|either|options?(?: are)?:?|choices?:?)\s+(.+?)(?:[.?!]|$)/i.exec(m);
  if (quotes.length >= 2) q.options = quotes;
  else if (x) {
    const parts = w.plain(x[1]).split(/,|\bor\b|\band\b/).map((p) => p.trim()).filter(Boolean);
    if (parts.length >= 2 && parts.length <= 8 && parts.every((p) => p.length < 30)) q.options = parts;
  }
  q.options = [...new Set(q.options)];
  const y = /\b(?:ask|prompt)\s+(?:me|the user|your user|the human|us)\s*(?:a question\b|for\b|about\b)?[:,]?\s*([\s\S]*)$/i.exec(m);
  q.text = quotes.length === 1 ? quotes[0] : (y ? w.plain(y[1]).trim().slice(0, 200) : "") || "What shall it be?";
  if (/\b(?:password|passphrase|api[ -]?key|access token|credentials?|pin code|credit card|private key|sign in|log ?in)\b/.test(low)) q.kind = "secret";
  else if (q.options.length) q.kind = "choice";
  else if (/\b(?:yes or no|yes\/no|whether|confirm\w*)\b/.test(low)) q.kind = "yesno";
  else if (/\b(?:how many|number|age|how old|integer)\b/.test(low)) q.kind = "number";
  return q;
}

function one(w, m, tools, last) {
  const low = m.toLowerCase().trim(), lead = low.replace(NOISE, ""), paths = findPaths(w, m), quotes = w.inside(m);
  const asks = low.includes("?") || /^(?:what|which|tell me|do you|repeat the|recall|say the|give me the)/.test(lead);
  if (asks && !paths.length && /\b(?:remember(?:ed)?|recall|i (?:told|gave|asked|mentioned|said)|you were told|secret|code ?word|magic word|memori[sz]ed|kept in mind|earlier|before)\b/.test(low) && !/^(?:remember|memori[sz]e|keep in mind)\b/.test(lead)) return { do: "recall" };
  if (/\b(?:remember|memori[sz]e|keep in mind|don't forget|make a (?:mental )?note)\b/.test(low) || (!paths.length && /\b(?:secret|code ?word|magic word|codename|pass ?phrase)\b[^?]*\bis\b[^?]*$/.test(low))) {
    const bad = "(?!(?:is|that|for|to|and|it|this|the|of|a|an|me|please|in|later)\\b)";
    const x = new RegExp(`(?:\\bis|:|=)\\s*${bad}([\\p{L}\\p{N}_][\\p{L}\\p{N}_\\-]*)`, "iu").exec(m) ?? new RegExp(`\\b(?:word|number|code|secret|phrase|name|token|codeword|colou?r|animal|fruit)\\s+${bad}([\\p{L}\\p{N}_][\\p{L}\\p{N}_\\-]*)`, "iu").exec(m);
    const y = /\b(?:remember|memori[sz]e|keep in mind|note)\b\s*(?:that|this|the)?[:\s]+([\s\S]+)$/i.exec(m);
    return { do: "remember", what: quotes.length ? quotes[0].inner : x ? x[1] : y ? trim(w.plain(y[1])) : w.plain(m) };
  }
  const flat = w.plain(m);
  for (const t of [...tools].sort((a, b) => b.name.length - a.name.length)) {
    const n = t.name.replace(/[^\w]/g, "\\$&");
    if (new RegExp(`(?<![\\w-])${n}(?![\\w-])`).test(flat) && (/\b(?:tool|mcp)\b/.test(low) || new RegExp(`\\b(?:call|use|invoke|using)\\s+(?:the\\s+)?[\`'"]?${n}(?![\\w-])`, "i").test(flat)))
      return { do: "mcp", tool: t, args: toolArguments(w, m, t) };
  }
  if (/\bmcp\b/.test(low) && !paths.length) {
    if (tools.length === 1 && !/\b(?:list|which|what|available)\b/.test(low)) return { do: "mcp", tool: tools[0], args: toolArguments(w, m, tools[0]) };
    return { do: "tools" };
  }
  if (/\bask (?:me|the user|your user|the human|us)\b|\belicit|\bprompt (?:me|the user) (?:for|to|with)\b|\blet me (?:choose|pick)\b|\bquestion (?:for|to) (?:me|the user)\b|\bshow (?:me )?a form\b/.test(low)) return { do: "ask", question: question(w, m) };
  if (/^(?:say|repeat|echo|reply|respond|answer|parrot|output|return)\b/.test(lead) && !/\b(?:shell|terminal|command)\b/.test(low)) {
    if (quotes.length) return { do: "say", text: quotes[0].inner };
    let t = flat.replace(/^[\s\S]*?\b(?:say|repeat|echo|reply|respond|answer|parrot|output|return)\b\s*/i, "");
    if (/^[\w\s,]{0,60}:/.test(t)) t = t.slice(t.indexOf(":") + 1);
    t = t.trim().replace(/^(?:(?:back|exactly|only|just|simply|with|after me|the|single|words?|text|following|phrase|sentence|this|to me|verbatim|to this message|me)\b[\s,:]*)+/i, "").replace(/,?\s+(?:and nothing else|only|please)[.!]*$/i, "");
    return { do: "say", text: t.trim().replace(/\.$/, "") || "Hello!" };
  }
  const at = (rx) => rx.exec(low)?.index, shell = at(SHELL), write = at(WRITE), read = at(READ);
  const top = [[shell, "shell"], [write, "write"], [read, "read"]].filter((x) => x[0] !== undefined).sort((a, b) => a[0] - b[0])[0]?.[1];
  const filed = paths.length > 0 || (last && /\b(?:it|the file|that file|its)\b/.test(low));
  if (top === "shell") { const c = shellCommand(w, m); if (c) return { do: "shell", command: c }; }
  if (/\b(?:mode|model)\b/.test(low) && !paths.length && /\b(?:switch|change|set|go|enter|move|use|put|turn)\b/.test(low)) return { do: "mode", text: low };
  if (/\bplan\b|\bto-?do list\b|\bstep[- ]by[- ]step list\b/.test(low) && !(paths.length && (top === "write" || top === "read"))) {
    const x = /\bplan\b\s*(?:for|to|of|how to|about)?\s*([\s\S]*)$/i.exec(m);
    return { do: "plan", goal: x ? trim(w.plain(x[1])).slice(0, 80) : "" };
  }
  if (!filed && /\b(?:story|tale|poem|essay|saga|novel|fable|count (?:slowly )?(?:from|to|up)|slowly|at length|keep (?:talking|writing)|\d+[- ]words?|paragraphs?|long (?:text|answer|reply|response|message|explanation|monologue|output))\b/.test(low)) return { do: "story", short: /\b(?:short|brief|one-sentence|tiny)\b/.test(low) };
  if (!filed && /\bthink(?:ing)?\b|\breason (?:aloud|out loud|step)|\bponder\b/.test(low)) return { do: "think", about: flat.slice(0, 80) };
  if (!paths.length && /\b(?:list|which|what|show)\b.*\b(?:files|directory listing|folder|entries)\b/.test(low)) return { do: "shell", command: "ls" };
  if (!paths.length && /\b(?:current|working) directory\b|\bpwd\b|\bwhere are you\b/.test(low)) return { do: "shell", command: "pwd" };
  if (filed && write !== undefined && (top === "write" || top === undefined)) {
    const used = new Set(paths.map((p) => p.i)), free = quotes.filter((q) => !used.has(q.i));
    let path = paths[0]?.path ?? last, target = paths.slice(0, 1);
    if (/\b(?:replace|change|substitute|swap)\b/.test(low) && free.length >= 2) return { do: "edit", path, old: free[0].inner, new: free[1].inner };
    const x = /\b(?:replace|substitute|swap)\b\s+([\s\S]+?)\s+(?:with|to|by|into|for)\s+([\s\S]+?)(?:\s+in\b|\s*,|\s*\.?$)/i.exec(m);
    if (x && !free.length) return { do: "edit", path, old: trim(w.plain(x[1])), new: trim(w.plain(x[2])) };
    if (paths.length > 1 && !free.length) { target = paths.slice(-1); path = paths.at(-1).path; }
    const text = findText(w, m, target);
    if (/\b(?:append|add|insert)\b/.test(low) && !/\badd a (?:new )?file\b/.test(low)) return { do: "append", path, text: text ?? "Another line." };
    if (/\b(?:edit|modify|update)\b/.test(low) && text === undefined) return { do: "append", path, text: "The jackdaw was here." };
    return { do: "write", path, text: text ?? "Greetings from the jackdaw.\n" };
  }
  if (filed && (top === "read" || top === undefined || top === "shell")) {
    const step = { do: "read", paths: [...new Set(paths.map((p) => p.path))] };
    if (!step.paths.length) step.paths = [last];
    const x = /\blines?\s+(\d+)(?:\s*(?:-|to|through|and|until)\s*(\d+))?/.exec(low), y = /\bfirst (\d+)? ?lines?\b/.exec(low);
    if (x) { step.line = Math.max(1, +x[1]); step.limit = Math.max(1, +(x[2] ?? x[1]) - step.line + 1); }
    else if (y) { step.line = 1; step.limit = +(y[1] ?? 1) || 1; }
    return step;
  }
  if (/^(?:hi|hello|hey|good (?:morning|evening|day))\b/.test(low)) return { do: "hello" };
  return { do: "unknown" };
}

export function understand(text, tools) {
  const w = new Words(text);
  let parts = w.masked.split(/(?:\s*[,;.]\s*|\s+)(?:and\s+)?(?:then|after that|afterwards|finally)\b[,:]?\s+/i).filter((p) => p.trim());
  if (parts.length < 2 || parts.length > 6) parts = [w.masked];
  const steps = [];
  let last;
  for (const p of parts) {
    const s = one(w, p, tools, last);
    if (s.do === "unknown" && parts.length > 1) return [one(w, w.masked, tools, undefined)];
    last = s.path ?? s.paths?.at(-1) ?? last;
    steps.push(s);
  }
  return steps;
}
export const wantsReading = (t) => READ.test(t);
