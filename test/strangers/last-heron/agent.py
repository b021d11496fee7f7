#!/usr/bin/env python3
"""heron: a small ACP v1 agent on nothing but the standard library."""
import base64
import datetime
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import wishes

FAULT = os.environ.get('FAULT', '')
PAGE = 25


def log(*a):
    print('heron:', *a, file=sys.stderr, flush=True)


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds').replace('+00:00', 'Z')


class RpcError(Exception):
    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Cancelled(Exception):
    pass


class ToolFailed(Exception):
    pass


def bad(msg):
    return RpcError(-32602, msg)


def store_dir():
    for base in (os.path.expanduser('~'), tempfile.gettempdir()):
        d = os.path.join(base, '.heron')
        try:
            os.makedirs(d, exist_ok=True)
            if os.access(d, os.W_OK):
                return d
        except OSError:
            pass
    return tempfile.mkdtemp()


# ---------------------------------------------------------------- MCP (stdio)
class Mcp:
    def __init__(self, spec, cwd):
        self.name = spec['name']
        env = dict(os.environ)
        env.pop('FAULT', None)
        env.update({e['name']: e['value'] for e in spec.get('env') or []})
        self.proc = subprocess.Popen([spec['command'], *(spec.get('args') or [])], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env,
                                     cwd=cwd if os.path.isdir(cwd) else None, start_new_session=True)
        self.n = 0
        self.lock = threading.Lock()
        self.waiting = {}
        self.tools = []
        threading.Thread(target=self.read, daemon=True).start()
        self.call('initialize', {'protocolVersion': '2025-03-26', 'capabilities': {},
                                 'clientInfo': {'name': 'heron', 'version': '1.2.0'}}, 8)
        self.send({'jsonrpc': '2.0', 'method': 'notifications/initialized'})
        self.tools = [t.get('name') for t in self.call('tools/list', {}, 8).get('tools', [])]

    def send(self, m):
        with self.lock:
            self.proc.stdin.write(json.dumps(m).encode() + b'\n')
            self.proc.stdin.flush()

    def read(self):
        for line in self.proc.stdout:
            try:
                m = json.loads(line)
            except ValueError:
                continue
            if not isinstance(m, dict):
                continue
            if 'method' in m:
                if 'id' in m:
                    self.send({'jsonrpc': '2.0', 'id': m['id'], 'result': {}} if m['method'] == 'ping' else
                              {'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': -32601, 'message': 'Method not found'}})
            elif m.get('id') in self.waiting:
                self.waiting.pop(m['id']).put(m)
        for q in list(self.waiting.values()):
            q.put({'error': {'message': 'server went away'}})

    def call(self, method, params, timeout, turn=None):
        with self.lock:
            self.n += 1
            i = self.n
            q = self.waiting[i] = queue.Queue()
        self.send({'jsonrpc': '2.0', 'id': i, 'method': method, 'params': params})
        end = time.monotonic() + timeout
        while True:
            try:
                m = q.get(timeout=0.1)
                break
            except queue.Empty:
                if turn:
                    turn.check()
                if time.monotonic() > end:
                    raise OSError('MCP server does not answer')
        if 'error' in m:
            raise OSError(str(m['error'].get('message', 'MCP error')))
        return m.get('result') or {}

    def stop(self):
        kill_group(self.proc)


def kill_group(p):
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        p.wait(2)
    except subprocess.TimeoutExpired:
        pass


# ------------------------------------------------------------------- sessions
class Session:
    def __init__(self, sid, cwd):
        self.id, self.cwd = sid, cwd
        self.title, self.updated = None, now()
        self.log, self.words = [], []
        self.mcp, self.running = [], None
        self.queue = []
        self.always = {}
        self.lock = threading.Lock()

    def file(self):
        return os.path.join(STORE, self.id + '.json')

    def save(self):
        tmp = '%s.%d.tmp' % (self.file(), os.getpid())
        with open(tmp, 'w', encoding='utf-8') as f:
            json.dump({'id': self.id, 'cwd': self.cwd, 'title': self.title, 'updated': self.updated,
                       'log': self.log, 'words': self.words}, f)
        os.replace(tmp, self.file())

    def stop_mcp(self):
        for m in self.mcp:
            m.stop()
        self.mcp = []


class Turn:
    def __init__(self, session, rid, blocks):
        self.s, self.id, self.blocks = session, rid, blocks
        self.stop = threading.Event()

    def check(self):
        if self.stop.is_set():
            raise Cancelled()

    def sleep(self, sec):
        if self.stop.wait(sec):
            raise Cancelled()


STORE = store_dir()


class Agent:
    def __init__(self):
        self.out = threading.Lock()
        self.sessions, self.pending, self.n = {}, {}, 0
        self.ready = False
        self.can_read = self.can_write = self.can_term = False
        self.children = set()
        self.methods = {
            'initialize': self.initialize, 'session/new': self.new, 'session/load': self.load,
            'session/list': self.list, 'session/delete': self.delete, 'authenticate': self.authenticate,
        }

    # -- wire
    def send(self, m):
        data = json.dumps(m, ensure_ascii=False).encode('utf-8', 'replace') + b'\n'
        with self.out:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def update(self, s, u):
        self.send({'jsonrpc': '2.0', 'method': 'session/update', 'params': {'sessionId': s.id, 'update': u}})

    def ask(self, method, params, turn=None, patience=0.0, limit=None):
        """Send a request to the client. A cancelled turn gives up after `patience` more seconds."""
        with self.out:
            self.n += 1
            i = 'heron-%d' % self.n
        q = self.pending[i] = queue.Queue()
        self.send({'jsonrpc': '2.0', 'id': i, 'method': method, 'params': params})
        end = time.monotonic() + limit if limit else None
        left = None
        while True:
            try:
                m = q.get(timeout=0.05)
                break
            except queue.Empty:
                if end and time.monotonic() > end:
                    raise ToolFailed('the client did not answer')
                if turn and turn.stop.is_set():
                    left = left or time.monotonic() + patience
                    if time.monotonic() >= left:
                        raise Cancelled()
        if 'error' in m:
            e = m['error'] if isinstance(m['error'], dict) else {}
            raise ToolFailed(str(e.get('message', 'client error')))
        return m.get('result') or {}

    def serve(self):
        for line in sys.stdin.buffer:
            if line.strip():
                self.line(line)
        for s in self.sessions.values():
            for t in [s.running, *s.queue]:
                if t:
                    t.stop.set()
            s.stop_mcp()
        for p in list(self.children):
            kill_group(p)
        os._exit(0)

    def fail(self, rid, code, message, data=None):
        e = {'code': code, 'message': message}
        if data is not None:
            e['data'] = data
        self.send({'jsonrpc': '2.0', 'id': rid, 'error': e})

    def line(self, line):
        try:
            m = json.loads(line.decode('utf-8'))
        except (ValueError, RecursionError):
            return self.fail(None, -32700, 'Parse error')
        if not isinstance(m, dict):
            return self.fail(None, -32600, 'Invalid request')
        if 'method' not in m and 'id' in m and ('result' in m or 'error' in m):
            try:
                q = self.pending.pop(m['id'], None)
            except TypeError:
                q = None
            if q:
                q.put(m)
            return
        rid = m.get('id')
        id_ok = rid is None or isinstance(rid, str) or (isinstance(rid, int) and not isinstance(rid, bool))
        if m.get('jsonrpc') != '2.0' or not isinstance(m.get('method'), str) or not id_ok:
            return self.fail(rid if id_ok else None, -32600, 'Invalid request')
        params = m.get('params')
        if 'id' not in m:
            if m['method'] == 'session/cancel' and isinstance(params, dict):
                self.cancel(params.get('sessionId'))
            return
        if params is not None and not isinstance(params, (dict, list)):
            return self.fail(rid, -32600, 'Invalid request: params must be structured')
        name = m['method']
        if name != 'session/prompt' and name not in self.methods:
            return self.fail(rid, -32601, 'Method not found', {'method': name})
        if not self.ready and name != 'initialize':
            return self.fail(rid, -32600, 'Not initialized')
        if isinstance(params, list):
            return self.fail(rid, -32602, 'Invalid params: an object is expected')
        params = params or {}
        if name == 'session/prompt':
            try:
                self.prompt(rid, params)
            except RpcError as e:
                self.fail(rid, e.code, e.message, e.data)
        elif name in ('session/new', 'session/load'):
            threading.Thread(target=self.call, args=(name, rid, params), daemon=True).start()
        else:
            self.call(name, rid, params)

    def call(self, name, rid, params):
        after = None
        try:
            res = self.methods[name](params)
            if isinstance(res, tuple):
                res, after = res
            self.send({'jsonrpc': '2.0', 'id': rid, 'result': res})
        except RpcError as e:
            return self.fail(rid, e.code, e.message, e.data)
        except Exception as e:  # noqa: BLE001
            log('error in', name, repr(e))
            return self.fail(rid, -32603, 'Internal error')
        if after:
            after()

    # -- methods
    def initialize(self, p):
        v = p.get('protocolVersion')
        if not isinstance(v, int) or isinstance(v, bool) or not 0 <= v <= 65535:
            raise bad('protocolVersion must be a number from 0 to 65535')
        caps = p.get('clientCapabilities')
        caps = caps if isinstance(caps, dict) else {}
        fs = caps.get('fs') if isinstance(caps.get('fs'), dict) else {}
        self.can_read = fs.get('readTextFile') is True
        self.can_write = fs.get('writeTextFile') is True
        self.can_term = caps.get('terminal') is True
        self.ready = True
        return {'protocolVersion': 1,
                'agentCapabilities': {
                    'loadSession': True,
                    'promptCapabilities': {'image': False, 'audio': False, 'embeddedContext': True},
                    'mcpCapabilities': {'http': False, 'sse': False},
                    'sessionCapabilities': {'list': {}, 'delete': {}}},
                'agentInfo': {'name': 'heron', 'title': 'Heron', 'version': '1.2.0'},
                'authMethods': []}

    def authenticate(self, p):
        if not isinstance(p.get('methodId'), str):
            raise bad('methodId is missing')
        raise bad('unknown authentication method')

    def setup(self, p):
        cwd = p.get('cwd')
        if not isinstance(cwd, str) or not os.path.isabs(cwd):
            raise bad('cwd must be an absolute path')
        servers = p.get('mcpServers')
        if not isinstance(servers, list):
            raise bad('mcpServers must be a list')
        specs = []
        for sp in servers:
            if not isinstance(sp, dict) or not isinstance(sp.get('name'), str):
                raise bad('bad MCP server entry')
            if sp.get('type') in ('http', 'sse'):
                raise bad('only stdio MCP servers are supported')
            if not isinstance(sp.get('command'), str):
                raise bad('MCP server without a command')
            specs.append(sp)
        return cwd, specs

    def connect(self, s, specs):
        s.stop_mcp()
        for sp in specs:
            try:
                s.mcp.append(Mcp(sp, s.cwd))
            except Exception as e:  # noqa: BLE001
                log('MCP server', sp.get('name'), 'failed:', e)

    def commands(self, s):
        self.update(s, {'sessionUpdate': 'available_commands_update', 'availableCommands': [
            {'name': 'status', 'description': 'Say where this session works and what it may use'},
            {'name': 'words', 'description': 'Count the words of a text', 'input': {'hint': 'some text'}}]})

    def new(self, p):
        cwd, specs = self.setup(p)
        s = Session('heron_' + uuid.uuid4().hex, cwd)
        self.connect(s, specs)
        self.sessions[s.id] = s
        s.save()
        return {'sessionId': s.id}, lambda: self.commands(s)

    def stored(self, sid):
        if not isinstance(sid, str):
            raise bad('sessionId is missing')
        try:
            if os.path.basename(sid) != sid or not sid.startswith('heron_'):
                raise OSError
            with open(os.path.join(STORE, sid + '.json'), encoding='utf-8') as f:
                return json.load(f)
        except (OSError, ValueError):
            raise RpcError(-32002, 'Session not found', {'sessionId': sid}) from None

    def load(self, p):
        if not isinstance(p.get('sessionId'), str):
            raise bad('sessionId is missing')
        cwd, specs = self.setup(p)
        d = self.stored(p['sessionId'])
        s = self.sessions.get(d['id'])
        if not s:
            s = Session(d['id'], cwd)
            s.title, s.updated, s.log, s.words = d['title'], d['updated'], d['log'], d['words']
            self.sessions[s.id] = s
        s.cwd = cwd
        self.connect(s, specs)
        history = list(s.log)
        cut = len(history) // 2 if FAULT == 'replay-tail-late' else len(history)
        for u in history[:cut]:
            self.update(s, u)

        def after():
            for u in history[cut:]:
                self.update(s, u)
            self.commands(s)
        return {}, after

    def list(self, p):
        cwd, cursor = p.get('cwd'), p.get('cursor')
        if cwd is not None and (not isinstance(cwd, str) or not os.path.isabs(cwd)):
            raise bad('cwd must be an absolute path')
        rows = []
        for n in os.listdir(STORE):
            if n.endswith('.json'):
                try:
                    with open(os.path.join(STORE, n), encoding='utf-8') as f:
                        rows.append(json.load(f))
                except (OSError, ValueError):
                    continue
        if cwd is not None:
            if FAULT == 'list-cwd-prefix':
                rows = [r for r in rows if r['cwd'].startswith(cwd)]
            else:
                rows = [r for r in rows if r['cwd'] == cwd]
        rows.sort(key=lambda r: (r['updated'], r['id']), reverse=True)
        if cursor is not None:
            try:
                u, i = json.loads(base64.urlsafe_b64decode(cursor.encode('ascii')))
                rows = [r for r in rows if (r['updated'], r['id']) < (u, i)]
            except Exception:  # noqa: BLE001
                raise bad('invalid cursor') from None
        res = {'sessions': []}
        for r in rows[:PAGE]:
            e = {'sessionId': r['id'], 'cwd': r['cwd'], 'updatedAt': r['updated']}
            if r['title']:
                e['title'] = r['title']
            res['sessions'].append(e)
        if len(rows) > PAGE:
            last = rows[PAGE - 1]
            res['nextCursor'] = base64.urlsafe_b64encode(json.dumps([last['updated'], last['id']]).encode()).decode()
        return res

    def delete(self, p):
        sid = p.get('sessionId')
        if not isinstance(sid, str):
            raise bad('sessionId is missing')
        s = self.sessions.pop(sid, None)
        if s:
            self.cancel_turns(s)
            s.stop_mcp()
        if os.path.basename(sid) == sid:
            try:
                os.unlink(os.path.join(STORE, sid + '.json'))
            except OSError:
                pass
        return {}

    def cancel(self, sid):
        s = self.sessions.get(sid) if isinstance(sid, str) else None
        if s:
            self.cancel_turns(s)

    def cancel_turns(self, s):
        with s.lock:
            waiting, s.queue = s.queue, []
            if s.running:
                s.running.stop.set()
        for t in waiting:
            self.send({'jsonrpc': '2.0', 'id': t.id, 'result': {'stopReason': 'cancelled'}})

    # -- prompt
    def prompt(self, rid, p):
        sid, blocks = p.get('sessionId'), p.get('prompt')
        if not isinstance(sid, str):
            raise bad('sessionId is missing')
        if not isinstance(blocks, list):
            raise bad('prompt must be a list of content blocks')
        need = {'text': ['text'], 'image': ['data', 'mimeType'], 'audio': ['data', 'mimeType'],
                'resource_link': ['uri', 'name'], 'resource': []}
        for b in blocks:
            t = b.get('type') if isinstance(b, dict) else None
            if not isinstance(t, str) or t not in need or any(not isinstance(b.get(k), str) for k in need[t]):
                raise bad('bad content block')
            if t == 'resource' and not (isinstance(b.get('resource'), dict) and isinstance(b['resource'].get('uri'), str)):
                raise bad('bad content block')
        s = self.sessions.get(sid)
        if not s:
            raise RpcError(-32002, 'Session not found', {'sessionId': sid})
        t = Turn(s, rid, blocks)
        with s.lock:
            if s.running:
                s.queue.append(t)
                return
            s.running = t
        threading.Thread(target=self.work, args=(t,), daemon=True).start()

    def work(self, t):
        s = t.s
        while t:
            try:
                self.turn(t)
                reason = 'cancelled' if t.stop.is_set() else 'end_turn'
            except Cancelled:
                reason = 'cancelled'
            except Exception as e:  # noqa: BLE001
                log('turn failed:', repr(e))
                reason = None
            if s.id in self.sessions:
                s.updated = now()
                try:
                    s.save()
                except OSError as e:
                    log(e)
            with s.lock:
                nxt = s.queue.pop(0) if s.queue else None
                s.running = nxt
            if reason:
                self.send({'jsonrpc': '2.0', 'id': t.id, 'result': {'stopReason': reason}})
            else:
                self.fail(t.id, -32603, 'Internal error')
            t = nxt

    def say(self, t, text, pause=0.002):
        mid = str(uuid.uuid4())
        said = ''
        try:
            for i, w in enumerate(text.split(' ')):
                t.check()
                piece = w if i == 0 else ' ' + w
                self.update(t.s, {'sessionUpdate': 'agent_message_chunk', 'messageId': mid,
                                  'content': {'type': 'text', 'text': piece}})
                said += piece
                t.sleep(pause)
        finally:
            if said:
                t.s.log.append({'sessionUpdate': 'agent_message_chunk', 'messageId': mid,
                                'content': {'type': 'text', 'text': said}})

    def turn(self, t):
        s = t.s
        texts, extras = [], []
        uid = str(uuid.uuid4())
        for b in t.blocks:
            s.log.append({'sessionUpdate': 'user_message_chunk', 'messageId': uid,
                          'content': {k: v for k, v in b.items() if k != '_meta'}})
            if b['type'] == 'text':
                texts.append(b['text'])
            elif b['type'] == 'resource_link':
                extras.append('a link to %s (%s)' % (b['name'], b['uri']))
            elif b['type'] == 'resource':
                r = b['resource']
                extras.append('the resource %s%s' % (r['uri'], ': ' + r['text'] if isinstance(r.get('text'), str) else ''))
            else:
                extras.append('some ' + b['type'])
        text = '\n'.join(texts)
        if s.title is None and text.strip():
            s.title = text.strip().split('\n')[0][:60]
            self.update(s, {'sessionUpdate': 'session_info_update', 'title': s.title, 'updatedAt': now()})
        w = wishes.parse(text)
        getattr(self, 'do_' + w[0], self.do_talk)(t, *w[1:]) if w[0] != 'talk' else self.do_talk(t, text, extras)
        used = sum(len(json.dumps(u)) for u in s.log) // 4
        self.update(s, {'sessionUpdate': 'usage_update', 'used': used, 'size': max(200000, used)})

    def do_talk(self, t, text='', extras=()):
        msg = 'You said: "%s".' % (text.strip() if len(text) < 400 else text.strip()[:400] + '…')
        if extras:
            msg += ' You also gave me ' + ' and '.join(extras) + '.'
        self.say(t, msg)

    def do_mode(self, t, name):
        self.say(t, 'I have no modes.')

    def do_ask(self, t, what):
        self.say(t, 'Tell me, please: %s?' % what.rstrip('?.'))

    def do_slash(self, t, name, rest):
        if name == 'status':
            self.say(t, 'I work in %s. Files: %s. Commands: %s. MCP tools: %s.' % (
                t.s.cwd, 'yours' if self.can_read else 'my own', 'your terminal' if self.can_term else 'my own shell',
                ', '.join(x for m in t.s.mcp for x in m.tools) or 'none'))
        elif name == 'words':
            self.say(t, 'That text has %d words.' % len(rest.split()))
        else:
            self.say(t, 'I do not know the command /%s.' % name)

    def do_remember(self, t, word):
        t.s.words.append(word)
        self.say(t, 'I will remember %s.' % word)

    def do_recall(self, t):
        self.say(t, 'You told me: %s.' % ', '.join(t.s.words) if t.s.words else 'You have not told me any word yet.')

    def do_count(self, t, n):
        self.say(t, ' '.join(str(i) for i in range(1, n + 1)), 0.4)

    def do_think(self, t):
        for i in range(40):
            self.update(t.s, {'sessionUpdate': 'agent_thought_chunk', 'content': {'type': 'text', 'text': 'hmm… '}})
            t.sleep(0.25)
        self.say(t, 'I have thought about it long enough.')

    # -- tools
    def where(self, s, path):
        p = os.path.normpath(os.path.join(s.cwd, os.path.expanduser(path)))
        root, real = os.path.realpath(s.cwd), os.path.realpath(p)
        return p, real == root or real.startswith(root.rstrip('/') + '/')

    def tool(self, t, name, title, kind, body, permission=None, path=None, content=None, raw=None):
        s = t.s
        tid = 'call_' + uuid.uuid4().hex[:12]
        call = {'sessionUpdate': 'tool_call', 'toolCallId': tid, 'title': title, 'name': name, 'kind': kind,
                'status': 'pending', 'rawInput': raw or {}}
        if path:
            call['locations'] = [{'path': path}]
        if content:
            call['content'] = content
        self.update(s, call)
        final = {'status': 'failed', 'content': [{'type': 'content', 'content': {'type': 'text', 'text': 'Cancelled.'}}]}
        result = None
        try:
            t.check()
            if permission and s.always.get(name) != 'allow':
                if s.always.get(name) == 'reject':
                    raise ToolFailed('the user does not allow this')
                r = self.ask('session/request_permission', {
                    'sessionId': s.id,
                    'toolCall': {'toolCallId': tid, 'title': title, 'kind': kind, 'status': 'pending'},
                    'options': [{'optionId': 'yes', 'name': 'Allow', 'kind': 'allow_once'},
                                {'optionId': 'always', 'name': 'Always allow in this session', 'kind': 'allow_always'},
                                {'optionId': 'no', 'name': 'Reject', 'kind': 'reject_once'}]}, t, 3.0)
                o = r.get('outcome') if isinstance(r.get('outcome'), dict) else {}
                t.check()
                if o.get('outcome') == 'cancelled':
                    t.stop.set()
                    raise Cancelled()
                if o.get('outcome') != 'selected' or o.get('optionId') not in ('yes', 'always'):
                    raise ToolFailed('the user does not allow this')
                if o['optionId'] == 'always':
                    s.always[name] = 'allow'
            self.update(s, {'sessionUpdate': 'tool_call_update', 'toolCallId': tid, 'status': 'in_progress'})
            result, items, ok = body(tid)
            final = {'status': 'completed' if ok else 'failed', 'content': items}
        except ToolFailed as e:
            final['content'][0]['content']['text'] = str(e)
            result = None
            error = str(e)
        except OSError as e:
            error = e.strerror or str(e)
            final['content'][0]['content']['text'] = error
        finally:
            self.update(s, {'sessionUpdate': 'tool_call_update', 'toolCallId': tid, **final})
            keep = dict(call)
            keep.update(final)
            keep['content'] = [c for c in final['content'] if c['type'] != 'terminal']
            s.log.append(keep)
        if result is None:
            self.say(t, 'That did not work: %s.' % error.rstrip('.'))
        return result

    @staticmethod
    def text(s):
        return {'type': 'content', 'content': {'type': 'text', 'text': s}}

    def do_read(self, t, path):
        p, inside = self.where(t.s, path)

        def body(tid):
            if not inside:
                raise ToolFailed('%s is outside the working directory' % p)
            if self.can_read:
                c = self.ask('fs/read_text_file', {'sessionId': t.s.id, 'path': p}, t).get('content')
                c = c if isinstance(c, str) else ''
            else:
                with open(p, encoding='utf-8', errors='replace') as f:
                    c = f.read()
            return c, [self.text(c[:20000])], True
        c = self.tool(t, 'read_file', 'Read ' + p, 'read', body, path=p, raw={'path': p})
        if c is not None:
            self.say(t, 'The file says: ' + c[:4000])

    def do_write(self, t, path, text):
        p, inside = self.where(t.s, path)
        old = None
        if inside:
            if self.can_read and os.path.exists(p):
                try:
                    old = self.ask('fs/read_text_file', {'sessionId': t.s.id, 'path': p}, t).get('content')
                except ToolFailed:
                    pass
            if old is None and os.path.isfile(p):
                with open(p, encoding='utf-8', errors='replace') as f:
                    old = f.read()
        diff = {'type': 'diff', 'path': p, 'oldText': old, 'newText': text}

        def body(tid):
            if self.can_write:
                self.ask('fs/write_text_file', {'sessionId': t.s.id, 'path': p, 'content': text}, t)
            else:
                os.makedirs(os.path.dirname(p), exist_ok=True)
                with open(p, 'w', encoding='utf-8') as f:
                    f.write(text)
            return p, [diff], True

        def refuse(tid):
            raise ToolFailed('%s is outside the working directory' % p)
        if self.tool(t, 'write_file', 'Write ' + p, 'edit', body if inside else refuse, permission=inside, path=p,
                     content=[diff] if inside else None, raw={'path': p}):
            self.say(t, 'I wrote %s.' % p)

    def do_run(self, t, cmd):
        body = self.run_client if self.can_term else self.run_own
        r = self.tool(t, 'run_command', 'Run ' + cmd, 'execute', lambda tid: body(t, tid, cmd), permission=True,
                      raw={'command': cmd, 'cwd': t.s.cwd})
        if r is not None:
            self.say(t, 'The command ended with %s. Output: %s' % r)

    def run_client(self, t, tid, cmd):
        ids = {'sessionId': t.s.id}
        # creating is quick: wait for the id even when cancelled, or the terminal would be lost
        r = self.ask('terminal/create', {**ids, 'command': '/bin/sh', 'args': ['-c', cmd], 'cwd': t.s.cwd,
                                         'outputByteLimit': 65536}, t, 5.0)
        if not isinstance(r.get('terminalId'), str):
            raise ToolFailed('the client gave no terminal')
        ids['terminalId'] = r['terminalId']
        release = True
        try:
            t.check()
            self.update(t.s, {'sessionUpdate': 'tool_call_update', 'toolCallId': tid,
                              'content': [{'type': 'terminal', 'terminalId': ids['terminalId']}]})
            try:
                ex = self.ask('terminal/wait_for_exit', ids, t)
            except Cancelled:
                try:
                    self.ask('terminal/kill', ids, limit=3)
                except ToolFailed:
                    pass
                release = FAULT != 'killed-terminal-kept'
                raise
            out = self.ask('terminal/output', ids, t).get('output') or ''
            code = ex.get('exitCode')
            how = 'signal %s' % ex['signal'] if ex.get('signal') else 'exit code %s' % code
            return (how, out), [{'type': 'terminal', 'terminalId': ids['terminalId']}, self.text(out)], code == 0
        finally:
            if release:
                try:
                    self.ask('terminal/release', ids, limit=3)
                except ToolFailed as e:
                    log('release:', e)

    def run_own(self, t, tid, cmd):
        p = subprocess.Popen(['/bin/sh', '-c', cmd], cwd=t.s.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
        self.children.add(p)
        try:
            while True:
                try:
                    out, _ = p.communicate(timeout=0.1)
                    break
                except subprocess.TimeoutExpired:
                    t.check()
        finally:
            if p.poll() is None:
                kill_group(p)
            self.children.discard(p)
        out = out.decode('utf-8', 'replace')[-65536:]
        return ('exit code %d' % p.returncode, out), [self.text(out)], p.returncode == 0

    def do_mcp(self, t, name, args):
        def body(tid):
            for m in t.s.mcp:
                if name in m.tools:
                    r = m.call('tools/call', {'name': name, 'arguments': args}, 60, t)
                    txt = '\n'.join(c.get('text', '') for c in r.get('content') or [] if c.get('type') == 'text')
                    return txt or '(nothing)', [self.text(txt)], not r.get('isError')
            raise ToolFailed('no MCP server offers a tool %s (known: %s)' % (
                name, ', '.join(x for m in t.s.mcp for x in m.tools) or 'none'))
        r = self.tool(t, 'mcp_call', 'Call MCP tool ' + name, 'other', body, raw={'tool': name, 'arguments': args})
        if r is not None:
            self.say(t, 'The tool answered: ' + r)


if __name__ == '__main__':
    Agent().serve()
