//! A long conversation in short: the person's words and the last answers stay, what tools said goes.

use acp_proto::update;
use serde_json::{Value, json};

use super::record::{Digest, SessionRecord, refused};
use super::step::{Step, Stream, Voice, is_notice};
use super::tools::cut;
use super::turn::ActiveTurn;

/// How much of one message is kept.
const MESSAGE: usize = 400;
/// How much is kept in all; the oldest go first.
const WHOLE: usize = 16_000;

impl ActiveTurn<'_> {
    /// Lets the digest stand for everything before this turn, and says so.
    pub(super) fn digest(&mut self) {
        let id = self.cx.fresh_id("compaction");
        let record = &mut self.session.record;
        let before = record.digest.take();
        let from = before.as_ref().map_or(0, |digest| digest.entries.min(record.history.len()));
        let said = told(record, from);
        let messages = said.iter().filter(|entry| is_message(entry)).count();
        let digest = before.map(|digest| digest.text).unwrap_or_default();
        let size = tokens(digest.len()) + said.iter().map(|entry| tokens_of(entry)).sum::<u64>();
        let text = newest(digest + &in_short(&said));
        let kept = tokens(text.len());
        (record.used, record.counted) = (kept, 0);
        record.digest = Some(Digest { entries: record.history.len(), text: text.clone() });
        // What belongs to answers that no model is told any more.
        record.rounds.clear();
        self.checkpoint();
        if self.cx.caps().compaction {
            self.show_digest(&id, &text);
        }
        let words = match messages {
            0 => "There is nothing new to compact.".to_owned(),
            _ if kept >= size => format!(
                "The conversation is kept in short now: your words and my last answers, in about {kept} tokens. There \
                 was not more to it before."
            ),
            _ => format!(
                "The conversation is kept in short now: your words and my last answers, in about {kept} tokens instead \
                 of {size}. What tools answered is left out; they can be used again."
            ),
        };
        // What is said about the conversation is no part of it: it would take room of what was just won.
        let notice = Stream::text(Voice::Notice, words, self.cx.config.pace.chunk_size);
        self.insert([Step::Stream(notice)]);
    }

    pub(super) fn show_digest(&mut self, id: &str, text: &str) {
        let text = if text.is_empty() { "Nothing was said before." } else { text };
        let summary = json!({ "type": "text", "text": text });
        for body in [
            json!({ "sessionUpdate": update::COMPACTION_UPDATE, "compactionId": id, "status": "in_progress" }),
            json!({ "sessionUpdate": update::COMPACTION_SUMMARY_CHUNK, "compactionId": id, "content": summary }),
            json!({
                "sessionUpdate": update::COMPACTION_UPDATE, "compactionId": id, "status": "completed",
                "summary": [summary],
            }),
        ] {
            self.update(&body);
        }
    }
}

/// What was said and done from this entry on, before the prompt that is being answered, as far as models are told.
fn told(record: &SessionRecord, from: usize) -> Vec<&Value> {
    told_until(record, from, this_turn(&record.history))
}

fn told_until(record: &SessionRecord, from: usize, until: usize) -> Vec<&Value> {
    let refused = refused(&record.rounds, &record.history);
    let entries = record.history.iter().enumerate().take(until).skip(from);
    let told = entries.filter(|(at, entry)| !refused.contains(at) && !is_notice(entry));
    told.map(|(_, entry)| entry).collect()
}

/// Where the prompt that is being answered begins.
pub(super) fn this_turn(history: &[Value]) -> usize {
    let asked = |entry: &&Value| entry["sessionUpdate"] == update::USER_MESSAGE_CHUNK;
    let Some(last) = history.iter().rfind(asked) else { return 0 };
    history.iter().position(|entry| entry["messageId"] == last["messageId"]).unwrap_or(0)
}

fn is_message(entry: &Value) -> bool {
    matches!(entry["sessionUpdate"].as_str(), Some(update::USER_MESSAGE_CHUNK | update::AGENT_MESSAGE_CHUNK))
}

/// About how much of a model's room an entry takes: what was said, or what a tool was asked and answered.
pub(super) fn tokens_of(entry: &Value) -> u64 {
    if is_notice(entry) {
        return 0;
    }
    tokens(match entry["toolCallId"].is_string() {
        true => entry["rawInput"].to_string().len() + entry["content"].to_string().len(),
        false => entry.pointer("/content/text").and_then(Value::as_str).map_or(0, str::len),
    })
}

pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// The newest lines, as many as there is room for.
fn newest(text: String) -> String {
    let Some(surplus) = text.len().checked_sub(WHOLE).filter(|surplus| *surplus > 0) else { return text };
    let tail = text.char_indices().find(|(at, _)| *at >= surplus).map_or("", |(at, _)| &text[at..]);
    tail.split_once('\n').map_or(tail, |(_, whole_lines)| whole_lines).to_owned()
}

/// The digest as the first thing that was said.
pub(super) fn entry(digest: &Digest) -> Value {
    let text = format!("[What was said before, in short]\n{}", digest.text);
    json!({ "sessionUpdate": update::USER_MESSAGE_CHUNK, "content": { "type": "text", "text": text } })
}

/// Whether nothing was said or done since the last digest and before this entry of the history.
pub(super) fn is_empty(record: &SessionRecord, until: usize) -> bool {
    let from = record.digest.as_ref().map_or(0, |digest| digest.entries);
    told_until(record, from, until).is_empty()
}

/// What stands before this entry of a history in short, without a model.
pub(super) fn mechanical(
    record: &SessionRecord,
    from: usize,
    until: usize,
    before: Option<String>,
) -> String {
    newest(before.unwrap_or_default() + &in_short(&told_until(record, from, until)))
}

fn in_short(history: &[&Value]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut answer: Option<String> = None;
    for entry in history {
        let text = entry.pointer("/content/text").and_then(Value::as_str);
        match (entry["sessionUpdate"].as_str(), text) {
            (Some(update::USER_MESSAGE_CHUNK), Some(text)) => {
                lines.extend(answer.take());
                lines.push(format!("Person: {}\n", cut(text.trim(), MESSAGE)));
            }
            (Some(update::AGENT_MESSAGE_CHUNK), Some(text)) => {
                answer = Some(format!("Agent: {}\n", cut(text.trim(), MESSAGE)));
            }
            _ => {}
        }
    }
    lines.extend(answer);
    lines.concat()
}
