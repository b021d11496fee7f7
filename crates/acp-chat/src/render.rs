//! Updates for people.

use std::io::{self, Write};

use acp_host::{Ask, DecisionRecord, TurnUpdate};
use acp_policy::PolicyVerdict;
use acp_rpc::{Frame, Violation};
use acp_text::{CommandGuard, block, line as clean};
use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, MessageId, PlanEntryStatus, SessionUpdate, StopReason, ToolCall,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use anstyle::{AnsiColor, Style};

use super::calls::{Calls, Shown};
use super::diff;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const BUSY: Style = AnsiColor::Yellow.on_default();
/// A larger file is not read to show how it would change.
const LARGEST: u64 = 1 << 20;

/// Writes updates as they come: text as a stream, everything else as lines of its own.
#[derive(Debug)]
pub struct Renderer<W> {
    out: W,
    verbose: bool,
    fresh_line: bool,
    block: Block,
    /// The message that the last text belonged to, where the agent says so.
    message: Option<MessageId>,
    calls: Calls,
    guard: Option<CommandGuard>,
    /// The line that says that the turn is being cancelled is not ended yet.
    cancelling: bool,
    /// The person cancelled the turn that is shown.
    stopping: bool,
}

/// What the last text belonged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Agent,
    Thought,
    User,
}

impl<W: Write> Renderer<W> {
    /// Writes to `out`, which takes care of colour.
    pub fn new(out: W, verbose: bool) -> Renderer<W> {
        Renderer {
            out,
            verbose,
            fresh_line: true,
            block: Block::None,
            message: None,
            calls: Calls::default(),
            guard: on_build_service().then(CommandGuard::default),
            cancelling: false,
            stopping: false,
        }
    }

    /// One update.
    pub fn update(&mut self, update: &TurnUpdate) -> io::Result<()> {
        let Some(known) = update.update.as_deref() else {
            return self.aside(&format!("update not understood: {}", update.frame));
        };
        match known {
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk(Block::Agent, chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk(Block::Thought, chunk),
            SessionUpdate::UserMessageChunk(chunk) => self.chunk(Block::User, chunk),
            SessionUpdate::ToolCall(call) => self.call(call),
            SessionUpdate::ToolCallUpdate(update) => self.call_update(update),
            SessionUpdate::Plan(plan) => {
                self.line(&format!("{BOLD}Plan{BOLD:#}"))?;
                for entry in &plan.entries {
                    let (mark, style) = match entry.status {
                        PlanEntryStatus::Completed => ("[x]", GOOD),
                        PlanEntryStatus::InProgress => ("[>]", BUSY),
                        _ => ("[ ]", Style::new()),
                    };
                    self.line(&format!("  {style}{mark}{style:#} {}", clean(&entry.content)))?;
                }
                Ok(())
            }
            SessionUpdate::CurrentModeUpdate(mode) => {
                self.line(&format!("{DIM}mode: {}{DIM:#}", clean(&mode.current_mode_id.0)))
            }
            SessionUpdate::Notice(notice) => {
                let text = notice.description.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                self.line(&format!("{BUSY}notice{BUSY:#} {}{}", clean(&notice.title), clean(&text)))
            }
            SessionUpdate::UsageUpdate(usage) => {
                self.aside(&format!("context: {} of {} tokens", usage.used, usage.size))
            }
            SessionUpdate::AvailableCommandsUpdate(commands) => {
                let names: Vec<String> =
                    commands.available_commands.iter().map(|command| format!("/{}", command.name)).collect();
                self.aside(&format!("commands: {}", names.join(" ")))
            }
            _ => self.aside(&format!("update: {}", update.frame)),
        }
    }

    /// A decision of the client: refusals always, the rest when verbose.
    pub fn decision(&mut self, record: &DecisionRecord) -> io::Result<()> {
        match record.verdict {
            // Who has just said no knows it; the call's end follows.
            PolicyVerdict::Deny if record.reason == "the person said no" => self.aside(&record.to_string()),
            PolicyVerdict::Deny => self.line(&format!(
                "{BAD}refused{BAD:#} {}: {}",
                clean(&record.subject),
                clean(&record.reason)
            )),
            _ => self.aside(&record.to_string()),
        }
    }

    /// Something on the wire that should not be there; only when verbose.
    pub fn noise(&mut self, violation: &Violation, frame: &Frame) -> io::Result<()> {
        self.aside(&format!("noise from the agent ({violation}): {frame}"))
    }

    /// What a person needs to see before they answer: the changes that a tool call would make.
    pub fn question(&mut self, ask: &Ask) -> io::Result<()> {
        if let Ask::Permission { params, .. } = ask
            && let Ok(update) = serde_json::from_value::<ToolCallUpdate>(params["toolCall"].clone())
        {
            let contents = update.fields.content.as_deref().unwrap_or_default();
            self.contents(&update.tool_call_id.0, contents)?;
        }
        if let Ask::Access { subject, content: Some(content), .. } = ask {
            let is_small = |meta: std::fs::Metadata| meta.is_file() && meta.len() <= LARGEST;
            let there = std::fs::metadata(subject).is_ok_and(is_small);
            let there = there.then(|| std::fs::read_to_string(subject).ok()).flatten();
            self.change(subject, there.as_deref(), content)?;
        }
        self.fresh()
    }

    /// The person cancels the turn. [`end`](Renderer::end) goes on with this line unless something comes between.
    pub fn cancelling(&mut self) -> io::Result<()> {
        self.block = Block::None;
        self.fresh()?;
        write!(self.out, "{DIM}cancelling (Ctrl-C again quits) … {DIM:#}")?;
        (self.fresh_line, self.cancelling, self.stopping) = (false, true, true);
        self.out.flush()
    }

    /// The end of a turn; the usual one needs no words.
    pub fn end(&mut self, reason: StopReason) -> io::Result<()> {
        self.block = Block::None;
        self.stopping = false;
        if reason == StopReason::Cancelled {
            return self.cancelled();
        }
        self.fresh()?;
        match reason {
            StopReason::EndTurn => Ok(()),
            StopReason::MaxTokens => self.line(&format!("{BUSY}(stopped: token limit reached){BUSY:#}")),
            StopReason::MaxTurnRequests => {
                self.line(&format!("{BUSY}(stopped: request limit reached){BUSY:#}"))
            }
            StopReason::Refusal => self.line(&format!("{BAD}(the agent refused to go on){BAD:#}")),
            other => self.line(&format!("({other:?})")),
        }
    }

    fn cancelled(&mut self) -> io::Result<()> {
        if self.cancelling {
            (self.fresh_line, self.cancelling) = (true, false);
            writeln!(self.out, "{DIM}cancelled{DIM:#}")?;
        } else {
            self.line(&format!("{DIM}(cancelled){DIM:#}"))?;
        }
        // What was under way is not running any more, whether the agent says so or not.
        for (title, kind) in self.calls.stop() {
            self.line(&format!("{BAD}* stopped{BAD:#} {} {DIM}({}){DIM:#}", clean(&title), kind_word(kind)))?;
        }
        self.out.flush()
    }

    /// A line of the program's own, whatever an agent said in it.
    pub fn note(&mut self, text: &str) -> io::Result<()> {
        self.line(&format!("{DIM}{}{DIM:#}", clean(text)))
    }

    /// A line of the program's own words alone. Nothing of an agent may be in it.
    pub fn own(&mut self, text: &str) -> io::Result<()> {
        self.line(&format!("{DIM}{text}{DIM:#}"))
    }

    /// Begins a new line unless one has just begun.
    pub fn fresh(&mut self) -> io::Result<()> {
        self.cancelling = false;
        if !self.fresh_line {
            self.fresh_line = true;
            writeln!(self.out)?;
        }
        self.out.flush()
    }

    fn chunk(&mut self, block: Block, chunk: &ContentChunk) -> io::Result<()> {
        let content = &chunk.content;
        let is_other = matches!((&self.message, &chunk.message_id), (Some(last), Some(this)) if last != this);
        let begins = self.block != block || is_other;
        self.message.clone_from(&chunk.message_id);
        if begins {
            self.fresh()?;
            self.block = block;
            match block {
                Block::Thought => write!(self.out, "{DIM}thinking: {DIM:#}")?,
                Block::User => write!(self.out, "{BOLD}> {BOLD:#}")?,
                Block::Agent | Block::None => {}
            }
        }
        let ContentBlock::Text(text) = content else {
            return self.line(&format!("{DIM}{}{DIM:#}", describe(content)));
        };
        if text.text.is_empty() {
            return Ok(());
        }
        let shown = self.guarded(acp_text::block(&text.text));
        // Text goes on after a tool call as if nothing had come between; its first line starts at the margin.
        let shown = if begins { shown.trim_start_matches([' ', '\n']) } else { shown.as_str() };
        if shown.is_empty() {
            return Ok(());
        }
        match block {
            Block::Thought => write!(self.out, "{DIM}{shown}{DIM:#}")?,
            _ => write!(self.out, "{shown}")?,
        }
        self.fresh_line = shown.ends_with('\n');
        self.out.flush()
    }

    fn call(&mut self, call: &ToolCall) -> io::Result<()> {
        *self.calls.entry(&call.tool_call_id.0) = Shown::new(&call.title, call.kind);
        self.state(&call.tool_call_id.0, Some(call.status))?;
        self.contents(&call.tool_call_id.0, &call.content)
    }

    fn call_update(&mut self, update: &ToolCallUpdate) -> io::Result<()> {
        let id = &update.tool_call_id.0;
        let fields = &update.fields;
        let shown = self.calls.entry(id);
        if let Some(title) = &fields.title {
            shown.rename(title);
        }
        shown.kind = fields.kind.unwrap_or(shown.kind);
        self.state(id, fields.status)?;
        fields.content.as_deref().map_or(Ok(()), |content| self.contents(id, content))
    }

    /// One line whenever a call's state changes.
    fn state(&mut self, id: &str, status: Option<ToolCallStatus>) -> io::Result<()> {
        let shown = self.calls.entry(id);
        if status.is_none() || shown.status == status {
            return Ok(());
        }
        shown.status = status;
        let (word, style) = match status {
            Some(ToolCallStatus::Failed) if self.stopping => ("stopped", BAD),
            Some(ToolCallStatus::Pending) => ("pending", DIM),
            Some(ToolCallStatus::InProgress) => ("running", BUSY),
            Some(ToolCallStatus::Completed) => ("done", GOOD),
            Some(ToolCallStatus::Failed) => ("failed", BAD),
            _ => ("?", DIM),
        };
        let line = format!(
            "{style}* {word:7}{style:#} {} {DIM}({}){DIM:#}",
            clean(&shown.title),
            kind_word(shown.kind)
        );
        self.line(&line)
    }

    /// What a call has produced, each piece once.
    fn contents(&mut self, id: &str, contents: &[ToolCallContent]) -> io::Result<()> {
        const MOST: usize = 12;
        for content in contents {
            if !self.calls.entry(id).is_new(content) {
                continue;
            }
            match content {
                ToolCallContent::Diff(change) => {
                    let path = change.path.to_string_lossy();
                    self.change(&path, change.old_text.as_deref(), &change.new_text)?;
                }
                ToolCallContent::Content(content) => {
                    let text = match &content.content {
                        ContentBlock::Text(text) => block(&text.text),
                        other => describe(other),
                    };
                    for line in text.lines().take(MOST) {
                        self.line(&format!("  {DIM}|{DIM:#} {line}"))?;
                    }
                    let rest = text.lines().count().saturating_sub(MOST);
                    if rest > 0 {
                        self.line(&format!("  {DIM}| … {rest} more lines{DIM:#}"))?;
                    }
                }
                ToolCallContent::Terminal(terminal) => {
                    self.line(&format!("  {DIM}terminal {}{DIM:#}", clean(&terminal.terminal_id.0)))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A file's change, line by line.
    fn change(&mut self, path: &str, old: Option<&str>, new: &str) -> io::Result<()> {
        // Agents say in both ways that a file is new.
        let word = if old.is_none_or(str::is_empty) { "new file" } else { "changed" };
        self.line(&format!("  {BOLD}{}{BOLD:#} {DIM}({word}){DIM:#}", clean(path)))?;
        let diff = diff::lines(old.unwrap_or_default(), new);
        diff.lines().try_for_each(|line| self.line(&format!("  {line}")))
    }

    /// Text that goes to a log of a build service is no command to it.
    fn guarded(&mut self, text: String) -> String {
        match &mut self.guard {
            Some(guard) => guard.pass(&text),
            None => text,
        }
    }

    fn aside(&mut self, text: &str) -> io::Result<()> {
        if self.verbose { self.note(&clean(text)) } else { Ok(()) }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.block = Block::None;
        self.fresh()?;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }
}

/// Whether what is printed is read by a service that takes some lines for commands.
fn on_build_service() -> bool {
    ["GITHUB_ACTIONS", "TF_BUILD", "GITEA_ACTIONS"].iter().any(|name| std::env::var_os(name).is_some())
}

fn describe(content: &ContentBlock) -> String {
    match content {
        ContentBlock::Text(text) => block(&text.text),
        ContentBlock::Image(image) => {
            format!("[image {}, {} bytes of base64]", clean(&image.mime_type), image.data.len())
        }
        ContentBlock::Audio(audio) => {
            format!("[audio {}, {} bytes of base64]", clean(&audio.mime_type), audio.data.len())
        }
        ContentBlock::ResourceLink(link) => format!("[{}]({})", clean(&link.name), clean(&link.uri)),
        ContentBlock::Resource(_) => "[an embedded file]".to_owned(),
        _ => "[content of a kind not known here]".to_owned(),
    }
}

fn kind_word(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::SwitchMode => "switch mode",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shown(updates: &[Value]) -> String {
        let mut renderer = Renderer::new(Vec::new(), false);
        for update in updates {
            let frame = Frame::notification("session/update", &json!({"sessionId": "s", "update": update}));
            let known = serde_json::from_value(update.clone()).ok().map(Box::new);
            renderer.update(&TurnUpdate { session: "s".to_owned(), update: known, frame }).expect("written");
        }
        renderer.end(StopReason::EndTurn).expect("written");
        let text = String::from_utf8(renderer.out).expect("text");
        anstream::adapter::strip_str(&text).to_string()
    }

    fn say(kind: &str, text: &str) -> Value {
        json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn text_streams_and_other_things_get_lines_of_their_own() {
        let text = shown(&[
            say("agent_thought_chunk", "hm"),
            say("agent_thought_chunk", "m"),
            say("agent_message_chunk", "Hel"),
            say("agent_message_chunk", "lo"),
            json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read a", "kind": "read", "status": "pending"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "pending"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed",
                "content": [{"type": "content", "content": {"type": "text", "text": "1\n2"}}]}),
            say("agent_message_chunk", "Done.\n"),
        ]);
        let expected =
            "thinking: hmm\nHello\n* pending Read a (read)\n* done    Read a (read)\n  | 1\n  | 2\nDone.\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn another_message_begins_a_line() {
        let say = |id: &str, text: &str| {
            let mut chunk = say("agent_message_chunk", text);
            chunk["messageId"] = id.into();
            chunk
        };
        let text = shown(&[say("1", "One, "), say("1", "and more."), say("2", "Two.\n"), say("3", "Three.")]);
        assert_eq!(text, "One, and more.\nTwo.\nThree.\n");
    }

    #[test]
    fn plans_are_checklists_and_diffs_are_readable() {
        let text = shown(&[
            json!({"sessionUpdate": "plan", "entries": [
                {"content": "look", "priority": "high", "status": "completed"},
                {"content": "change", "priority": "high", "status": "in_progress"},
                {"content": "test", "priority": "low", "status": "pending"}]}),
            json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Edit", "kind": "edit", "status": "in_progress",
                "content": [{"type": "diff", "path": "/w/a", "oldText": "x\n", "newText": "y\n"}]}),
        ]);
        let expected = "Plan\n  [x] look\n  [>] change\n  [ ] test\n* running Edit (edit)\n  /w/a (changed)\n  @@ line 1 @@\n  - x\n  + y\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_file_that_was_empty_or_not_there_is_new() {
        let call = |id: &str, old: Value| {
            json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Edit", "kind": "edit", "status": "completed",
                "content": [{"type": "diff", "path": "/w/a", "oldText": old, "newText": "y\n"}]})
        };
        let text = shown(&[call("1", Value::Null), call("2", "".into()), call("3", "x\n".into())]);
        assert_eq!((text.matches("(new file)").count(), text.matches("(changed)").count()), (2, 1), "{text}");
    }

    #[test]
    fn a_cancel_is_one_line_and_says_what_was_stopped() {
        let mut renderer = Renderer::new(Vec::new(), false);
        let call = |id: &str, status: &str| {
            let update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": format!("Run {id}"),
                "kind": "execute", "status": status});
            let frame = Frame::notification("session/update", &json!({"sessionId": "s", "update": update}));
            let known = serde_json::from_value(update).ok().map(Box::new);
            TurnUpdate { session: "s".to_owned(), update: known, frame }
        };
        renderer.update(&call("a", "in_progress")).expect("written");
        renderer.update(&call("b", "completed")).expect("written");
        renderer.cancelling().expect("written");
        renderer.end(StopReason::Cancelled).expect("written");
        let text = String::from_utf8(renderer.out).expect("text");
        let text = anstream::adapter::strip_str(&text).to_string();
        let expected = "* running Run a (execute)\n* done    Run b (execute)\n\
                        cancelling (Ctrl-C again quits) … cancelled\n* stopped Run a (execute)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_question_shows_the_change_once() {
        let mut renderer = Renderer::new(Vec::new(), false);
        let call = json!({"toolCallId": "1", "title": "Edit", "kind": "edit",
            "content": [{"type": "diff", "path": "/w/a", "oldText": null, "newText": "y\n"}]});
        let ask = Ask::Permission {
            title: "Edit".to_owned(),
            kind: acp_policy::ToolKind::Edit,
            subjects: Vec::new(),
            options: Vec::new(),
            params: json!({"toolCall": call}),
        };
        renderer.question(&ask).expect("written");
        renderer.question(&ask).expect("written");
        let text = String::from_utf8(renderer.out).expect("text");
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(text, "  /w/a (new file)\n  @@ line 1 @@\n  + y\n");
    }

    #[test]
    fn an_agent_cannot_steer_the_terminal() {
        let text = shown(&[say("agent_message_chunk", "a\u{1b}[2Jb\rc\u{9b}d\n")]);
        assert_eq!(text, "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}d\n");
    }
}
