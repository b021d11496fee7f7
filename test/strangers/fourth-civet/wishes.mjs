// Turns a plain English wish into stages of actions. Actions of one stage do not
// depend on each other; a later stage waits for the earlier one.

const VERBS =
  "read|show|open|display|write|create|save|store|make|put|run|execute|list|call|use|invoke|think|count|ask|delete|remove|say|reply|respond|answer|tell|append|add|replace|switch|set|change|edit|overwrite|remember|give|print|cat|view|plan|report|summari[sz]e";
const LONGEST = 6000; // nobody wishes for more in one go, and the patterns below stay quick
const BARE_PATH =
  /(?:file:\/\/)?(?:~|\.{1,2})?\/?[\w@+%-][\w.@+%-]*(?:\/[\w.@+%-]+)*\.[A-Za-z][A-Za-z0-9]{0,9}\b|\/[\w.@+-]+(?:\/[\w.@+-]+)+|\b[\w.-]+\/[\w./-]+/g;

/** Takes quoted text, code and JSON objects out of the text, so that splitting leaves them alone. */
function hideLiterals(text) {
  const kept = [];
  const keep = (value, sort, raw = value) => `⟦${kept.push({ value, sort, raw }) - 1}⟧`;
  text = text.replace(/```[\w-]*\n([\s\S]*?)\n?```/g, (_, body) => keep(body, "code"));
  text = text.replace(/`([^`\n]+)`/g, (_, body) => keep(body, "code"));
  for (let start = text.indexOf("{"); start >= 0; start = text.indexOf("{", start + 1)) {
    for (let end = text.lastIndexOf("}"); end > start; end = text.lastIndexOf("}", end - 1)) {
      try {
        const value = JSON.parse(text.slice(start, end + 1));
        text = text.slice(0, start) + keep(value, "json") + text.slice(end + 1);
        break;
      } catch {
        // Not JSON between these two braces.
      }
    }
  }
  text = text.replace(/"([^"]+)"|“([^”]+)”|(?<=^|[\s(:=,])'([^']+)'(?=$|[\s).,:;!?])/g, (raw, a, b, c) => keep(a ?? b ?? c, "text", raw));
  text = text.replace(/(\b(?:contents?|text|containing|says?|lines?)\s*:\s*\n+)([\s\S]+)$/i, (all, lead, body) =>
    lead.trim() + " " + keep(show(body, kept), "text"));
  return { text, kept };
}

/** Puts the literals back, with their quotes if `raw`. */
export function show(text, kept, raw = false) {
  return text.replace(/⟦(\d+)⟧/g, (_, n) => (kept[n].sort === "json" ? JSON.stringify(kept[n].value) : raw ? kept[n].raw : kept[n].value));
}

const literals = (clause, kept, ...sorts) =>
  [...clause.matchAll(/⟦(\d+)⟧/g)].map((m) => kept[m[1]]).filter((l) => !sorts.length || sorts.includes(l.sort));
const looksLikePath = (value) => typeof value === "string" && /^\S+$/.test(value) && /[/.]\w/.test(value) && !/:\/\/(?!\/)/.test(value);

/** Every path named in a clause, in order, without those that are part of the wanted content. */
function pathsIn(clause, kept, last) {
  const found = [];
  const named = /\bfile(?:\s+(?:named|called|at))?\s+⟦(\d+)⟧/i.exec(clause);
  if (named && typeof kept[named[1]].value === "string") found.push(kept[named[1]].value);
  for (const { value } of literals(clause, kept, "text", "code")) if (looksLikePath(value)) found.push(value);
  for (const [path] of clause.replace(/⟦\d+⟧/g, " ").matchAll(BARE_PATH)) found.push(path);
  const bare = /\b(?:file|folder|directory)\s+(?:named|called|at)?\s*([A-Z][\w.-]+|[\w-]+file)\b/.exec(clause);
  if (!found.length && bare) found.push(bare[1]);
  if (!found.length && last && /\b(it|its|that file|this file|the file|the same file)\b/i.test(clause)) found.push(last);
  return [...new Set(found.map((p) => p.replace(/^file:\/\//, "").replace(/[.,;:]+$/, "")))];
}

const tidy = (text) => text.trim().replace(/^[\s:,]+/, "").replace(/(?<=\w)\s*[.!]$/, "");

/** What a file should contain, from one clause. */
function contentIn(clause, kept, path) {
  const quoted = literals(clause, kept).filter((l) => l.value !== path && l.value !== `./${path}`);
  if (quoted.length) return quoted[0].sort === "json" ? JSON.stringify(quoted[0].value) : quoted[0].value;
  const after =
    /\b(?:contain(?:s|ing)?|say(?:s|ing)|reading|with|holding)\b(?:\s+(?:exactly|just|only|the|this|following|text|contents?|words?|lines?|string|body|of|it|in|single))*\s*[:=]?\s+(.+)$/is.exec(clause) ??
    /\bcontents?\b\s*(?:is|of|to|:|=)\s*(.+)$/is.exec(clause) ??
    /\b(?:write|put|save|store)\s+(?!a\b|the file|to\b)(?:the\s+(?:text|words?|line)\s+)?(.+?)\s+(?:in|into|to|as)\s+/is.exec(clause);
  return after ? tidy(show(after[1], kept)) : undefined;
}

/** Arguments for an MCP tool, from JSON, from name/value pairs or from loose literals. */
export function toolArguments(clause, kept, schema) {
  const json = literals(clause, kept, "json")[0];
  if (json) return json.value;
  const args = {};
  const properties = Object.entries(schema?.properties ?? {});
  const cast = (raw, type) => (/number|integer/.test(type) ? Number(raw) : type === "boolean" ? /^(true|yes|on)$/i.test(raw) : raw);
  for (const [name, { type = "string" }] of properties) {
    const pair = new RegExp(`\\b${name}\\b["']?\\s*(?:=|:|is|of|set to|to|as)?\\s*(⟦\\d+⟧|[^\\s,;]+)`, "i").exec(clause);
    if (pair) args[name] = cast(tidy(show(pair[1], kept)), type);
  }
  if (!properties.length)
    for (const [, name, raw] of clause.matchAll(/\b(\w+)\s*[=:]\s*(⟦\d+⟧|[^\s,;]+)/g)) args[name] = tidy(show(raw, kept));
  const numbers = [...clause.matchAll(/-?\d+(?:\.\d+)?/g)].map(Number);
  const loose = literals(clause, kept, "text", "code").map((l) => l.value);
  const after = /\b(?:with|on|for|to)\s+(?:the\s+)?(?:arguments?|input|text|message|value)?\s*:?\s*(.+)$/i.exec(clause);
  for (const [name, { type = "string" }] of properties) {
    if (name in args) continue;
    if (/number|integer/.test(type) && numbers.length) args[name] = numbers.shift();
    else if (type === "string" && loose.length) args[name] = loose.pop();
    else if (type === "string" && after && (schema.required ?? []).includes(name)) args[name] = tidy(show(after[1], kept));
  }
  return args;
}

const SAY = /^(?:please\s+|now\s+|just\s+|only\s+)*(?:say|reply|respond|answer|repeat|echo|output)\b((?:\s+(?:back|only|exactly|just|with|the|this|these|a|one|single|word|words|phrase|text|sentence|following|verbatim|me|to))*)\s*[:,]?\s+(.+)$/is;

function sayIn(clause, kept) {
  const m = SAY.exec(clause.trim());
  if (!m) return undefined;
  const quoted = literals(m[2], kept, "text", "code")[0];
  if (quoted) return quoted.value;
  return tidy(show(m[2], kept).replace(/[,.]?\s*(?:and|,)?\s*(?:nothing (?:else|more)|no more|only)\.?$|\s+in (?:one|a) [\w ]*(?:sentence|words?)\.?$/i, ""));
}

/** One clause to its actions. `known` = names of the session's MCP tools. */
function clauseActions(clause, kept, last, known) {
  const tool = known.find((name) => new RegExp(`(^|[^\\w])${name.replace(/\W/g, "\\$&")}($|[^\\w])`).test(show(clause, kept)));
  if (!tool) clause = clause.replace(/^\W*(?:please\s+|can you\s+|could you\s+)*use\b[^⟦]*?\b(?:tools?|terminal|shell)\s+to\s+/i, "");
  const has = (pattern) => pattern.test(clause);
  const paths = pathsIn(clause, kept, last);
  const wanted = tool ? /\b(tool|mcp)\b|\b(use|call|invoke)\b/i : /\bmcp\b|\b(use|call|invoke|run)\b.*\btool\b/i;
  if (has(wanted) && !has(/\b(command|terminal|shell)\b/i)) {
    const named = tool ?? /\btool\s+(?:named\s+|called\s+)?(⟦\d+⟧|[\w.-]+)/i.exec(clause)?.[1] ?? /(⟦\d+⟧|[\w.-]+)\s+tool\b/i.exec(clause)?.[1];
    if (named) return [{ do: "mcp", tool: tidy(show(named, kept)), clause, kept }];
  }
  const said = sayIn(clause, kept);
  if (said !== undefined && !paths.length) return [{ do: "say", text: said }];
  if (has(/\b(what|which|repeat|recap|summari[sz]e)\b.*\b(I|we|my|our)\b.*\b(say|said|tell|told|ask|asked|wrote|mention|mentioned|message|conversation|discussed?)\b.*$/i) && !has(/\b(word|number|name|colou?r|code|secret|animal|city|phrase|token|fruit)\b/i)) return [{ do: "recap" }];
  if (has(/\b(switch|change|set|turn|go|enable|disable)\b/i) && has(/\b(mode|conduct|pace|speed|option|thinking|aloud)\b/i) && !paths.length)
    return [{ do: "switch", text: show(clause, kept) }];
  if (has(/\b(ask|question|prompt|elicit)\b.*\b(me|user|question|form)\b/i) && !paths.length) return [{ do: "ask", text: show(clause, kept) }];
  const command = /\b(?:run|execute|launch)\b(?:\s+(?:the|this|a|following|shell|terminal|bash|command|in|using|with|me|your|client'?s?))*\s*:?\s*(.+)$/is.exec(clause);
  if (command && !(paths.length && has(/^\W*(?:please\s+)?(?:write|create|read)\b/i))) {
    const codes = literals(command[1], kept, "code", "text").map((l) => l.value);
    if (/^\W*⟦/.test(command[1]) || has(/command\s*⟦/)) return (/⟦\d+⟧(?:,| and|,? and also) ⟦/.test(clause) ? codes : codes.slice(0, 1)).map((c) => ({ do: "run", command: c }));
    const sleeps = /^(?:that\s+|which\s+)?sleeps?\s+(?:for\s+)?(\d+)/i.exec(command[1]);
    const plain = show(command[1], kept, true).replace(/^(?:that|which) (?:prints|echoes|says)/i, "echo").replace(/\s+(?:in|using|with) (?:the|a|your|my) (?:terminal|shell)\b.*$|\s+(?:for me|please)\W*$|[,.]?\s+and (?:tell|show|report|give)\b.*$/i, "");
    return [{ do: "run", command: sleeps ? `sleep ${sleeps[1]}` : tidy(plain) }];
  }
  const replace = /\b(?:replace|change)\s+(?:the\s+)?(?:word|text|line)?\s*(⟦\d+⟧|\S+)\s+(?:with|by|to|into)\s+(⟦\d+⟧|\S+)/i.exec(clause);
  if (replace && (paths.length || last)) return [{ do: "replace", path: paths.at(-1) ?? last, from: show(replace[1], kept), to: tidy(show(replace[2], kept)) }];
  if (has(/\b(delete|remove|erase)\b/i) && paths.length) return paths.map((path) => ({ do: "delete", path }));
  if (has(/\b(append|add)\b/i) && paths.length) {
    const bare = /\b(?:append|add)\s+(?:the\s+)?(?:line|text|words?)?\s*(.+?)\s+(?:to|at|in)\b/is.exec(clause)?.[1];
    return [{ do: "append", path: paths.at(-1), text: contentIn(clause, kept, paths.at(-1)) ?? show(bare ?? "", kept) }];
  }
  if (has(/^\W*save (?:it|the file|this)\W*$/i)) return []; // every change is saved at once
  if (has(/\b(write|create|save|put|store|make|overwrite|edit|update|change|generate)\b/i) && paths.length) {
    const parts = paths.length > 1 ? clause.split(/,?\s+and\s+(?=(?:⟦\d+⟧|[\w./-]+\.\w+)\s+(?:containing|with|saying))/i) : [clause];
    return parts.map((part) => {
      const [target] = pathsIn(part, kept, last);
      return { do: "write", path: target, content: contentIn(part, kept, target) ?? "Written by fourth-civet.\n" };
    });
  }
  if (has(/\bthink|\breason|\bponder|\breflect/i) && !has(/\bplan\b/i)) return [{ do: "think", text: show(clause, kept) }];
  if (has(/\b(plan|to-?do list|step by step|steps)\b/i) && has(/\b(make|create|give|draw|write|plan|show|work|lay|prepare|steps?)\b/i))
    return [{ do: "plan", text: show(clause, kept) }];
  const to = /\b(?:count|numbers)\b.*?\b(?:to|until|till)\s+(?:the number\s+)?(\d+|ten|twenty|thirty|fifty|(?:a |one )?hundred)\b/i.exec(clause);
  if (to) {
    const amount = { ten: 10, twenty: 20, thirty: 30, fifty: 50 }[to[1].toLowerCase()] ?? (/hundred/i.test(to[1]) ? 100 : Number(to[1]));
    return [{ do: "count", to: Math.min(amount, 2000), slowly: has(/slow|at a time/i) }];
  }
  if (has(/\b(read|show|open|display|print|cat|view|look|what|tell|contents?|contain|summari[sz]e|check|inspect|give)\b/i) && paths.length) {
    const range = /\blines?\s+(\d+)(?:\s*(?:to|-|–|through|and)\s*(\d+))?/i.exec(clause) ?? /\bfirst\s+(\d+)\s+lines/i.exec(clause)?.toSpliced?.(1, 0, "1");
    const line = range && Math.max(1, Number(range[1]));
    return paths.map((path) => ({ do: "read", path, ...(range && { line, limit: Math.max(1, Number(range[2] ?? line) - line + 1) }) }));
  }
  if (has(/\b(list|show|what|which|see|look)\b.*\b(files?|director(?:y|ies)|folder|entries|workspace)\b/i) && !has(/working directory/i)) return [{ do: "list", path: paths[0] ?? "." }];
  if (has(/\b(working|current) (?:directory|folder|dir)\b|\bcwd\b|where are (?:you|we)/i)) return [{ do: "where" }];
  if (has(/\b(?:remember|memori[sz]e|keep in mind|don'?t forget)\b/i) && !has(/\?|do you/)) return [{ do: "noted" }];
  if (has(/\b(what|which|tell|recall|do you|remember)\b.*\b(word|number|name|colou?r|code|secret|animal|city|phrase|token|fruit|remember|told)\b/i)) return [{ do: "recall", text: clause }];
  if (has(/\b(long|lengthy|detailed|essay|story|poem|endless|forever|keep (?:talking|writing)|\d{2,} (?:words|sentences|lines|paragraphs|items|facts)|many (?:words|sentences|paragraphs|lines))\b/i)) return [{ do: "long", text: show(clause, kept) }];
  if (has(/^\W*(?:hello|hi|hey|good (?:morning|evening|day))\b/i)) return [{ do: "say", text: "Hello! What can I do for you?" }];
  return [];
}

export function parseWishes(text, known = []) {
  const slash = /^\s*\/(recap|echo)\b\s*([\s\S]*)$/.exec(text);
  if (slash) return [[slash[1] === "recap" ? { do: "recap" } : { do: "say", text: slash[2].trim() || "(nothing to echo)" }]];
  const { text: hidden, kept } = hideLiterals(text.slice(0, LONGEST));
  if (/^\W*\w*\s*(?:say|reply|respond|answer|repeat)\b.*\b(?:exactly|verbatim|word for word|only)\b/i.test(hidden)) {
    const said = sayIn(hidden, kept);
    if (said) return [[{ do: "say", text: said }]];
  }
  const stages = [];
  let last;
  const stageTexts = hidden.split(/(?:,\s*|\band\s+)?\b(?:then|after that|afterwards|finally|next,)\s+|;\s*|\n+|(?<=[^.\d][.!?])\s+(?=[A-Z⟦])/);
  for (const stageText of stageTexts) {
    const stage = [];
    for (const clause of stageText?.split(new RegExp(`(?:,\\s*|\\s+)(?:and|also|but)\\s+(?:also\\s+|please\\s+)?(?=(?:${VERBS})\\b)|,\\s+(?=(?:${VERBS})\\b)`, "i")) ?? []) {
      for (const action of clauseActions(clause, kept, last, known)) {
        if (action.path && action.path !== ".") last = action.path;
        const same = stage.some((a) => JSON.stringify(a) === JSON.stringify(action));
        if (!same) stage.push(action);
      }
    }
    if (stage.length) stages.push(stage);
  }
  if (stages.flat().some((a) => a.do !== "noted" && a.do !== "think")) for (const s of stages) s.splice(0, s.length, ...s.filter((a) => a.do !== "noted"));
  return stages.filter((s) => s.length);
}
