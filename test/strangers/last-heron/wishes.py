"""Turns what the user typed into one wish: a tuple (kind, ...)."""
import json
import re

Q = r'`[^`]+`|"[^"]+"|\'[^\']+\''
FILEISH = r'[\w./~+-]*[\w]\.[A-Za-z0-9]{1,8}\b|/[\w./+-]+'


def unquote(s):
    s = s.strip()
    if len(s) > 1 and s[0] == s[-1] and s[0] in '`"\'':
        return s[1:-1]
    return s


def loose(s):
    """Unquoted text: first line, no closing full stop."""
    s = s.strip()
    m = re.match(Q, s)
    if m:
        return unquote(m.group(0))
    s = s.split('\n')[0]
    s = re.split(r'\.\s+(?=[A-Z])|,?\s+(?:and then|then tell|and tell|and nothing)\b', s)[0]
    return s[:-1] if s.endswith('.') else s


def path_in(s):
    m = re.search(r'\bfile\s+(?:named\s+|called\s+|at\s+)?(' + Q + r')', s, re.I)
    if m:
        return unquote(m.group(1))
    m = re.search(FILEISH, s)
    if m:
        return m.group(0)
    m = re.search(Q, s)
    if m:
        return unquote(m.group(0))
    m = re.search(r'\bfile\s+(?:named\s+|called\s+|at\s+)?([^\s,;:?]+)', s, re.I)
    return m.group(1).rstrip('.') if m else None


def parse(text):
    t = text.strip()
    low = t.lower()
    m = re.match(r'/([A-Za-z_][\w-]*)(?:\s+(.*))?$', t, re.S)
    if m and '/' not in m.group(1) and (not m.group(2) or True):
        return ('slash', m.group(1), (m.group(2) or '').strip())
    if re.search(r'\b(what|which|tell|repeat|recall|say)\b.*\b(word|secret|code|codeword|remember|told)\b', low) \
            and not re.match(r'(please\s+)?remember\b', low):
        return ('recall',)
    m = re.search(r'\bremember\b\s+(?:that\s+)?(?:the\s+|this\s+|my\s+)?(?:secret\s+)?(?:code\s*word|word|code|secret|number)?'
                  r'(?:\s+is)?\s*:?\s*(' + Q + r'|[\w-]+)', t, re.I)
    if m:
        return ('remember', unquote(m.group(1)))
    m = (re.search(r'\btools?\s+(?:named\s+|called\s+)?(' + Q + r'|[\w.-]*[\w-])', t, re.I)
         or re.search(r'\b(?:the\s+)?(' + Q + r'|[\w.-]+)\s+(?:mcp\s+)?tool\b', t, re.I))
    if m and re.search(r'\b(call|use|invoke|run|mcp)\b', low):
        name = unquote(m.group(1))
        m2 = re.search(r'\b(?:the\s+)?(' + Q + r'|[\w.-]+)\s+(?:mcp\s+)?tool\b', t, re.I)
        if name.lower() in ('of', 'from', 'with', 'on', 'and', 'in', 'once', 'now', 'please', 'to', 'server') and m2:
            name = unquote(m2.group(1))
        args = {}
        j = re.search(r'\{.*\}', t, re.S)
        if j:
            try:
                args = json.loads(j.group(0))
            except ValueError:
                args = {}
        else:
            w = re.search(r'\bwith\s+(?:the\s+)?(?:text|message|argument|input)?\s*(' + Q + r')', t, re.I)
            if w:
                args = {'text': unquote(w.group(1))}
        return ('mcp', name, args if isinstance(args, dict) else {})
    m = re.search(r'\b(?:run|execute)\b\s+(?:the\s+|this\s+)?(?:following\s+)?(?:shell\s+|terminal\s+)?(?:command\b)?\s*:?\s*(.+)', t, re.I | re.S)
    if m:
        return ('run', loose(m.group(1)))
    if re.search(r'\b(create|write|make|save|put|overwrite|edit|change|update)\b', low):
        m = re.search(r'\b(?:write|put|save)\s+(' + Q + r'|.+?)\s+(?:to|into|in)\s+(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?(?:named\s+|called\s+)?('
                      + Q + '|' + FILEISH + ')', t, re.I | re.S)
        if m and not re.search(r'\bfile\b', m.group(1), re.I):
            return ('write', unquote(m.group(2)), unquote(re.sub(r'^(?:the\s+)?(?:text|words?|content)\s*:?\s*', '', m.group(1))))
        m = re.search(r'(?:\bwith\b|\bcontaining\b|\bthat\s+(?:says|contains)\b|\bsaying\b|\bto\s+say\b)\s*(?:exactly\s*)?(?:the\s+)?(?:exact\s+)?'
                      r'(?:following\s+)?(?:text|contents?|words?|line)?\s*(?:exactly)?\s*:?\s*(.+)$', t, re.I | re.S)
        if m:
            p = path_in(t[:m.start()])
            if p:
                return ('write', p, loose(m.group(1)))
    if re.search(r'\b(count|slowly|a while|long)\b', low) and not re.search(FILEISH, t):
        n = re.search(r'\bto\s+(\d+)', low)
        if 'count' in low:
            return ('count', min(int(n.group(1)) if n else 30, 300))
        return ('think',)
    m = re.match(r'(?:please\s+)?ask\s+me\b\s*(.*)$', t, re.I | re.S)
    if m:
        return ('ask', m.group(1).strip() or 'something')
    m = re.search(r'\bswitch\s+(?:to\s+)?(?:the\s+)?(\w+)\s+mode\b', low)
    if m:
        return ('mode', m.group(1))
    if re.search(r'\b(read|show|open|print|display|cat|look|what|contents?)\b', low):
        p = path_in(t)
        if p and (re.search(r'\bfile\b', low) or re.search(FILEISH, t)):
            return ('read', p)
    return ('talk', t)
