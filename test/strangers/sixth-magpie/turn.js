'use strict';
// One turn: from the person's words to deeds and an answer.
const wishes = require('./wishes');
const { Hands, Stopped, orStop, pause } = require('./hands');

const PACES = { leisurely: 120, steady: 50, hasty: 15 };
const SECRET = /\b(?:passwords?|passphrase|pass code|passcode|tokens?|api[ -]?keys?|secrets?|credentials?|pin(?: code)?|credit card)\b/i;

const TALE = [
  'A magpie found a silver spoon in the wet grass by the mill.',
  'She turned it over twice, because everything good has two sides.',
  'The crows on the roof said that it was only tin.',
  'The wind went through the reeds and had no opinion.',
  'So she carried it home, one short flight after the other.',
  'On the way the spoon caught the evening sun and lit up the lane.',
  'A boy who had lost his way saw the light and followed it.',
  'At the bridge the magpie rested and the boy caught up with her.',
];

class Turn {
  constructor({ wire, client, session, blocks }) {
    this.wire = wire;
    this.client = client;
    this.session = session;
    this.blocks = blocks;
    this.life = new AbortController();
    this.signal = this.life.signal;
    this.answer = '';
    this.hands = new Hands(wire, client, session, this.signal, (update) => this.update(update));
  }

  stop() {
    this.life.abort();
  }

  update(update) {
    this.wire.notify('session/update', { sessionId: this.session.id, update });
  }

  say(text) {
    this.answer += text;
    this.update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
  }

  muse(text) {
    this.update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } });
  }

  async run() {
    const { session } = this;
    const { record } = session;
    const text = this.words();
    try {
      if (this.signal.aborted) throw new Stopped();
      record.said.push(text);
      await this.warn();
      if (record.choices.thinking === 'deep') this.muse('Let me look at this from all sides first. ');
      let first = true;
      for (const piece of this.split(text)) {
        if (!first) this.say('\n');
        first = false;
        await this.fulfil(piece);
        if (this.signal.aborted) throw new Stopped();
      }
      this.close(text);
      return { stopReason: 'end_turn' };
    } catch (error) {
      if (error instanceof Stopped || this.signal.aborted) return { stopReason: 'cancelled' };
      throw error;
    } finally {
      session.save();
    }
  }

  close(text) {
    const { record } = this.session;
    record.tokens += Math.ceil((text.length + this.answer.length) / 4);
    if (record.title === null && text.trim()) {
      record.title = [...text.trim().split('\n')[0]].slice(0, 48).join('');
      this.update({ sessionUpdate: 'session_info_update', title: record.title, updatedAt: new Date().toISOString() });
    }
    this.update({
      sessionUpdate: 'usage_update', used: record.tokens, size: 64000,
      cost: { amount: Number((record.tokens * 0.00002).toFixed(6)), currency: 'EUR' },
    });
  }

  words() {
    return this.blocks.filter((one) => one.type === 'text').map((one) => one.text).join('\n');
  }

  split(text) {
    if (/^\s*\//.test(text)) return [text];
    const pieces = wishes.pieces(text);
    return pieces.length ? pieces : [text];
  }

  // Tells once about MCP servers that could not be reached.
  async warn() {
    for (const server of this.session.servers) {
      if (!server.trouble || server.told) continue;
      server.told = true;
      const title = `The MCP server ${server.name} could not be used.`;
      if (this.client.notices) {
        this.update({ sessionUpdate: 'notice', severity: 'warning', title, description: String(server.trouble.message) });
      }
    }
  }

  async fulfil(text) {
    const slash = /^\s*\/(help|plan|forget|tools)\b\s*([\s\S]*)$/.exec(text);
    if (slash) return this.slash(slash[1], slash[2].trim());
    if (await this.byTool(text)) return undefined;
    const kind = wishes.kindOf(text);
    const files = wishes.paths(text).map((one) => ({ ...one, full: wishes.toFile(one.value, this.session.cwd) }));
    switch (kind) {
      case 'switch': return this.adjust(text);
      case 'ask': return this.question(text);
      case 'plan': return this.plan(text.replace(/^[\s\S]*?\bplan\b\s*(?:for|to|of|about)?\s*/i, ''));
      case 'delete': return this.report(await this.hands.remove(this.target(files)), 'It is gone.');
      case 'append': case 'replace': case 'write': return this.change(kind, text, files);
      case 'run': return this.command(text);
      case 'list': return this.look(files);
      case 'read': return this.read(text, files);
      case 'story': return this.story(text);
      case 'think': return this.think(text);
      case 'remember': return this.remember(text);
      case 'recall': return this.recall(text);
      case 'say': return this.repeat(text);
      default: return this.chat(text);
    }
  }

  slash(name, rest) {
    if (name === 'plan') return this.plan(rest);
    if (name === 'tools') return this.tools();
    if (name === 'forget') {
      this.session.record.notes = [];
      this.session.record.said = [];
      this.say('I have forgotten what you told me.');
      return undefined;
    }
    this.say('I can read, write and delete files, look into folders, run commands, use MCP tools, make plans, think, ask you things and tell stories.');
    return undefined;
  }

  report(result, good) {
    if (!result.failed) this.say(good ?? result.text);
    else if (result.refused) this.say('You did not allow it, so I left it alone.');
    else this.say(`That did not work: ${result.text}`);
  }

  target(files) {
    return files.length ? files[0].full : this.linked() ?? this.session.cwd;
  }

  linked() {
    const link = this.blocks.find((one) => one.type === 'resource_link' && one.uri.startsWith('file://'));
    return link ? wishes.toFile(link.uri, this.session.cwd) : null;
  }

  async read(text, files) {
    const list = files.length ? files.map((one) => one.full) : [this.linked()].filter(Boolean);
    if (!list.length) {
      if (this.attachments()) return;
      this.say('Which file do you mean? Give me its name.');
      return;
    }
    const part = wishes.range(text);
    for (const file of list) {
      const result = await this.hands.read(file, part);
      if (result.failed) {
        this.report(result);
        continue;
      }
      let shown = result.text;
      if (this.session.record.toggles && this.session.record.choices.numbers) {
        const first = part.line ?? 1;
        shown = shown.split('\n').map((line, index) => `${first + index}: ${line}`).join('\n');
      }
      this.say(shown === '' ? `${file} is empty.` : `${file} says:\n`);
      if (shown !== '') this.say(shown);
    }
  }

  async change(kind, text, files) {
    if (!files.length) {
      this.say('Which file should that be? Give me its name.');
      return;
    }
    const file = files[0].full;
    if (kind === 'replace') {
      const swap = wishes.exchange(text, files);
      if (swap) {
        const result = await this.hands.write(file, (old) => (old?.includes(swap.from) ? old.split(swap.from).join(swap.to) : null));
        this.report(result, `I replaced ${swap.from} with ${swap.to} in ${file}.`);
        return;
      }
    }
    const wanted = wishes.textToWrite(text, files) ?? 'A line from the magpie.';
    const make = kind === 'append'
      ? (old) => (old === null || old === '' || old.endsWith('\n') ? `${old ?? ''}${wanted}` : `${old}\n${wanted}`)
      : () => wanted;
    this.report(await this.hands.write(file, make), `${file} is written.`);
  }

  async look(files) {
    this.report(await this.hands.look(files.length ? files[0].full : this.session.cwd));
  }

  async command(text) {
    const command = wishes.commandIn(text);
    if (!command) {
      this.say('Which command should I run?');
      return;
    }
    const result = await this.hands.run(command);
    if (result.code === undefined) {
      this.report(result);
      return;
    }
    if (result.text) this.say(`${result.text.replace(/\n?$/, '\n')}`);
    this.say(result.failed ? `The command ended with code ${result.code ?? 'none'}.` : 'The command is done.');
  }

  // Recognises a wish for a tool of one of the session's MCP servers.
  async byTool(text) {
    const { servers } = this.session;
    const low = text.toLowerCase();
    const bare = wishes.hide(wishes.hide(text, wishes.quotes(text)), wishes.paths(text)).toLowerCase();
    const wanted = /\b(?:mcp|tools?)\b/.test(bare);
    if (!servers.length) {
      if (!/\bmcp\b|\buse the tool\b|\bcall the tool\b/.test(bare)) return false;
      this.say('This session has no MCP servers.');
      return true;
    }
    await orStop(this.signal, Promise.all(servers.map((server) => server.ready)));
    await this.warn();
    const named = (name, where) => {
      const plain = name.toLowerCase().replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      return new RegExp(`(?<![\\w-])${plain}(?![\\w-])`).test(where);
    };
    const asked = wanted || (/\b(?:call|invoke|use)\b/.test(bare) && !/\b(?:terminal|shell|command|run|execute)\b/.test(bare));
    const byName = servers.filter((server) => named(server.name, asked ? low : bare));
    const verb = asked || byName.length > 0;
    const options = (byName.length ? byName : servers).flatMap((server) => server.tools.map((tool) => ({ server, tool })));
    const hits = options.filter(({ tool }) => (verb || /[_-]/.test(tool.name)) && named(tool.name, verb ? low : bare))
      .sort((one, other) => other.tool.name.length - one.tool.name.length);
    let choice = hits[0];
    if (!choice && (wanted || (byName.length && asked))) {
      if (/\b(?:list|which|what)\b.*\btools\b/.test(low) || options.length !== 1) {
        this.tools();
        return true;
      }
      [choice] = options;
    }
    if (!choice) return false;
    const result = await this.hands.useTool(choice.server, choice.tool, this.input(choice.tool, text));
    this.report(result, `${choice.tool.name} answered: ${result.text}`);
    return true;
  }

  tools() {
    const lines = this.session.servers.map((server) => {
      const names = server.tools.map((tool) => tool.name).join(', ') || 'no tools';
      return `${server.name}: ${server.trouble ? `not reachable (${server.trouble.message})` : names}`;
    });
    this.say(lines.join('\n') || 'There are no MCP servers in this session.');
  }

  input(tool, text) {
    const json = /\{[\s\S]*\}/.exec(text);
    if (json) {
      try {
        return JSON.parse(json[0]);
      } catch { /* then by words */ }
    }
    const fields = Object.entries(tool.inputSchema?.properties ?? {});
    const needed = tool.inputSchema?.required ?? [];
    const rest = text.replace(new RegExp(tool.name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i'), ' ');
    const marks = wishes.quotes(rest).filter((one) => one.value.trim());
    const numbers = [...rest.matchAll(/-?\d+(?:\.\d+)?/g)].map((hit) => Number(hit[0]));
    const input = {};
    for (const [key, schema] of fields) {
      const name = key.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      const hit = new RegExp(`\\b${name}\\b["'\`]?\\s*(?:[:=]|is|of|set to)?\\s*(?:"([^"]*)"|'([^']*)'|\`([^\`]*)\`|([^\\s,;]+))`, 'i').exec(rest);
      const given = hit ? hit[1] ?? hit[2] ?? hit[3] ?? hit[4].replace(/[.!?]$/, '') : undefined;
      if (schema.type === 'number' || schema.type === 'integer') {
        const value = given !== undefined && given !== '' && !Number.isNaN(Number(given)) ? Number(given) : numbers.shift();
        if (value !== undefined || needed.includes(key)) input[key] = value ?? 0;
      } else if (schema.type === 'boolean') {
        if (given !== undefined || needed.includes(key)) input[key] = /^(?:true|yes|on)$/i.test(given ?? 'true');
      } else if (schema.type === 'string' || schema.type === undefined) {
        let value = hit && (hit[1] ?? hit[2] ?? hit[3]) !== undefined ? given : marks.shift()?.value ?? given;
        if (value === undefined && needed.includes(key)) {
          value = /\b(?:with|to say|saying|on|for)\b\s*:?\s*(?:the\s+)?(?:text|message|words?|input|arguments?)?\s*:?\s*([\s\S]+?)[.!?]?\s*$/i.exec(rest)?.[1] ?? 'hello';
        }
        if (value !== undefined) input[key] = value;
      } else if (needed.includes(key)) {
        input[key] = schema.type === 'array' ? [] : {};
      }
    }
    return input;
  }

  async plan(topic) {
    const about = topic.replace(/[.!?]\s*$/, '').trim() || 'the work';
    const entries = [
      { content: `Find out what ${about} needs`, priority: 'high', status: 'pending' },
      { content: 'Gather what is already there', priority: 'medium', status: 'pending' },
      { content: 'Do the work in small steps', priority: 'high', status: 'pending' },
      { content: 'Look over the result', priority: 'low', status: 'pending' },
    ];
    const show = () => this.update({ sessionUpdate: 'plan', entries: entries.map((entry) => ({ ...entry })) });
    show();
    for (const entry of entries) {
      entry.status = 'in_progress';
      show();
      await pause(this.signal, 120);
      entry.status = 'completed';
    }
    show();
    this.say(`The plan for ${about} has ${entries.length} steps, and I went through all of them.`);
  }

  async story(text) {
    const asked = /\b(\d{1,4})\s+(?:chunks?|sentences?|lines?|parts?|pieces?|paragraphs?|words?)\b/i.exec(text)
      ?? /\bcount (?:up )?to (\d{1,4})\b/i.exec(text);
    const count = asked ? Math.max(1, Math.min(1000, +asked[1])) : 90;
    const counting = /\bcount (?:up )?to\b/i.test(text);
    for (let index = 0; index < count; index += 1) {
      this.say(counting ? `${index + 1} ` : `${TALE[index % TALE.length]} `);
      await pause(this.signal, PACES[this.session.record.choices.pace]);
    }
    if (!counting) this.say('And that is the end of it.');
  }

  async think(text) {
    const deep = this.session.record.choices.thinking === 'deep';
    const about = text.replace(/^[\s\S]*?\b(?:about|over|on)\s+/i, '').replace(/[.!?]\s*$/, '');
    for (const thought of ['First, what do I know about it? ', 'There is more than one way to see it. ', ...(deep ? ['The opposite may be true as well. '] : []), 'Now I have made up my mind. ']) {
      this.muse(thought);
      await pause(this.signal, 60);
    }
    this.say(`I have thought about ${about}: it is worth a try.`);
  }

  remember(text) {
    const note = text.replace(/^[\s\S]*?\b(?:remember|memori[sz]e|keep in mind|note that)\b\s*(?:that\s+|this\s*:?\s*)?/i, '').trim();
    this.session.record.notes.push(note);
    this.say(`I will keep that in mind: ${note}`);
  }

  recall() {
    const { notes, said } = this.session.record;
    const known = notes.length ? notes : said.slice(0, -1).slice(-5);
    this.say(known.length ? `You told me: ${known.join('; ')}` : 'You have not told me anything yet.');
  }

  repeat(text) {
    const marks = wishes.quotes(text);
    const plain = /\b(?:say|repeat|echo|(?:reply|answer|respond) with)\b\s*(?:after me|exactly|just|only|the (?:word|words|text|sentence|line)|back|to me)*\s*:?\s*([\s\S]+)$/i.exec(text);
    if (marks.length) this.say(marks.map((one) => one.value).join(' '));
    else if (plain) this.say(plain[1].trim());
    else this.say('Hello to you, too. What shall we do?');
  }

  chat(text) {
    if (!text.trim() && this.attachments()) return;
    if (this.attachments()) return;
    this.say(text.trim() ? `I heard: ${text.trim().slice(0, 400)}` : 'You said nothing.');
    this.say(' Ask me for files, commands, plans or stories.');
  }

  // Says what came along with the words, if anything did.
  attachments() {
    const seen = [];
    for (const one of this.blocks) {
      if (one.type === 'resource_link') seen.push(`a link to ${one.title ?? one.name} (${one.uri})`);
      else if (one.type === 'image') seen.push(`a picture (${one.mimeType}, ${Buffer.from(one.data, 'base64').length} bytes)`);
      else if (one.type === 'resource') {
        const { resource } = one;
        seen.push(resource.text !== undefined ? `${resource.uri} with the text:\n${resource.text}` : `${resource.uri} (${Buffer.from(resource.blob, 'base64').length} bytes)`);
      }
    }
    if (!seen.length) return false;
    this.say(`I got ${seen.join(' and ')}`);
    return true;
  }

  adjust(text) {
    const low = text.toLowerCase();
    let id = ['model', 'thinking', 'pace'].find((one) => low.includes(one));
    let value;
    if (/\bnumber/.test(low)) {
      id = 'numbers';
      value = !/\b(?:off|no|without|disable)\b/.test(low);
    }
    const values = this.session.values(id);
    if (!values) {
      this.say('Your client has no switch for that.');
      return;
    }
    if (value === undefined) value = values.find((one) => new RegExp(`\\b${one}\\b`).test(low));
    if (value === undefined) {
      this.say(`I can set ${id} to ${values.join(', ')}.`);
      return;
    }
    this.session.choose(id, value);
    this.update({ sessionUpdate: 'config_option_update', configOptions: this.session.options() });
    this.say(`The ${id} is ${value} now.`);
  }

  // Asks the person something, in a form when the client has forms.
  async question(text) {
    const about = text.replace(/^[\s\S]*?\b(?:ask(?:ing)?(?: me| the user)?|elicit\w*|question me|let me (?:choose|pick|decide))\b\s*(?:a question\s*)?(?:for|about|which|what|to (?:choose|pick|select|enter|give|type|confirm))?\s*/i, '').replace(/[.?!]\s*$/, '').trim() || 'what you would like';
    if (SECRET.test(text)) {
      this.say('I never ask for secrets. Please keep them to yourself.');
      return;
    }
    const choice = /\b(?:between|from|one of|of|:)\s*((?:["'`]?[\w -]+?["'`]?\s*(?:,\s*(?:or |and )?|\s+or\s+|\s+and\s+))+["'`]?[\w-]+["'`]?)/i.exec(about);
    const choices = choice ? choice[1].split(/\s*,\s*(?:or |and )?|\s+or\s+|\s+and\s+/).map((one) => one.replace(/["'`]/g, '').trim()).filter(Boolean) : null;
    if (!this.client.form) {
      this.say(`Please tell me in your next message: ${about}?`);
      return;
    }
    const field = choices
      ? { type: 'string', title: 'Your choice', oneOf: [...new Set(choices)].map((one) => ({ const: one, title: one })) }
      : { type: 'string', title: 'Your answer', minLength: 1, maxLength: 500 };
    if (this.signal.aborted) throw new Stopped();
    const { id, reply } = this.wire.ask('elicitation/create', {
      sessionId: this.session.id, mode: 'form', message: `Please tell me: ${about}`,
      requestedSchema: { type: 'object', properties: { answer: field }, required: ['answer'] },
    });
    let given;
    try {
      given = await orStop(this.signal, reply);
    } catch (error) {
      if (error instanceof Stopped) {
        this.wire.withdraw(id);
        throw error;
      }
      this.say('The question could not be shown, so I go on without an answer.');
      return;
    }
    if (given?.action === 'decline') this.say('You would rather not say. That is fine.');
    else if (given?.action === 'cancel') this.say('You closed the question without an answer.');
    else if (given?.action !== 'accept') this.say('I do not know this kind of answer, so I take it as none.');
    else this.take(given.content?.answer, choices);
  }

  take(answer, choices) {
    const good = typeof answer === 'string' && answer.length > 0 && answer.length <= 500;
    if (!good || (choices && !choices.includes(answer))) {
      this.say('That answer does not fit the question, so I cannot use it.');
      return;
    }
    this.session.record.notes.push(`your answer was ${answer}`);
    this.say(`Thank you. You answered: ${answer}`);
  }
}

module.exports = { Turn };
