//! When a conversation or an answer becomes too long for the model: what was said before is taken in short, and an
//! answer that was cut off is asked for again. The person is told each time, and the turn goes on.

use std::collections::VecDeque;

use acp_proto::{StopReason, update};
use serde_json::Value;

use super::digest::{self, tokens, tokens_of};
use super::effect::{AgentEffect, QuestionKind, Thought, ThoughtEnd};
use super::record::{Cut, Digest};
use super::step::{Step, Stream, Voice};
use super::think::rejected;
use super::tools::cut;
use super::turn::{ActiveTurn, Wait};

/// How many answers in a row may be cut off before the turn ends.
const MOST_CUTS: u32 = 3;
/// What stays of a conversation word by word, as a part of what the model takes in.
const KEPT: u64 = 4;
/// How much of the request that is being worked on is kept word by word.
const REQUEST: usize = 8000;

/// A summary that a model is writing.
#[derive(Default)]
pub(super) struct Summary {
    /// How many entries of the history it will stand for.
    entries: usize,
    /// How many of them it is made of: the wish for it is no part of it.
    until: usize,
    text: String,
}

impl ActiveTurn<'_> {
    /// The model's answer was cut off by the limit of its length: it goes on from there, and calls again what it called.
    pub(super) fn cut_off(&mut self, dropped: Vec<String>) -> VecDeque<Step> {
        self.turn.cuts += 1;
        let cuts = self.turn.cuts;
        let lost = match dropped.as_slice() {
            [] => String::new(),
            [tool] => format!(" The call of {tool} was incomplete and was not made."),
            tools => format!(" The calls of {} were incomplete and were not made.", tools.join(", ")),
        };
        if let Some(round) = self.session.record.rounds.last_mut() {
            round.cut = Some(Cut { dropped });
        }
        let title = "The answer was cut off";
        if cuts > MOST_CUTS {
            let words = format!(
                "The model's answer reached the limit of its length {cuts} times in a row, so I stop here.{lost} Ask for \
                 smaller steps{}.",
                self.cx.config.hints.longer_answers
            );
            let mut steps: VecDeque<Step> = self.inform(title, &words).into_iter().collect();
            steps.extend([Step::Usage, Step::End(StopReason::MaxTokens)]);
            return steps;
        }
        let words = format!(
            "The model's answer reached the limit of its length.{lost} I ask it to go on ({cuts} of {MOST_CUTS})."
        );
        self.inform(title, &words).into_iter().chain([Step::Think]).collect()
    }

    /// The model, or a filter of its vendor, does not answer this.
    pub(super) fn refused(&mut self) -> VecDeque<Step> {
        let words =
            "The model, or a content filter of its vendor, ended the answer here. Ask in other words.";
        let steps = self.inform("The model refuses", words);
        steps.into_iter().chain([Step::Usage, Step::End(StopReason::Refusal)]).collect()
    }

    /// The conversation is too long for the model, by our count or by what its vendor said.
    pub(super) fn overflowed(&mut self, reason: String) -> VecDeque<Step> {
        let budget = self.session.context_size(self.cx) / KEPT;
        let entries = boundary(&self.session.record, budget);
        self.turn.overflows += 1;
        if self.turn.overflows > 2 {
            return rejected(self.session, self.turn, reason);
        }
        // The question was not answered.
        self.session.record.rounds.pop();
        self.turn.rounds = self.turn.rounds.saturating_sub(1);
        let title = "The conversation is too long for the model";
        match entries.filter(|_| self.turn.overflows == 1) {
            Some(entries) => {
                let words = format!("{title}, so I take what was said before in short: {reason}.");
                let notice = self.inform(title, &words);
                notice.into_iter().chain([Step::Summarize { entries }, Step::Think]).collect()
            }
            None => {
                // Nothing is left to take in short: what tools answered is cut for the next question.
                self.turn.overflows = 2;
                let words = format!("{title}, so I tell it less of what tools answered: {reason}.");
                self.inform(title, &words).into_iter().chain([Step::Think]).collect()
            }
        }
    }

    /// Asks the model for a summary of what stands before this entry of the history; where the person asked for it, of
    /// everything before that.
    pub(super) fn summarize(&mut self, entries: usize) {
        let record = &self.session.record;
        let entries = entries.min(record.history.len());
        let until = if !self.turn.model { digest::this_turn(&record.history) } else { entries };
        if digest::is_empty(record, until) {
            return self.digest();
        }
        let token = self.cx.number();
        let question = self.question(QuestionKind::Summary, Some(until));
        self.turn.summary = Some(Summary { entries, until, text: String::new() });
        self.cx.outbox.push_back(AgentEffect::Think { token, question: Box::new(question) });
        self.wait(Wait::Model { token });
    }

    /// A piece of the summary.
    pub(super) fn summary_comes(&mut self, thought: Thought) {
        match thought {
            Thought::Text(text) => {
                if let Some(summary) = &mut self.turn.summary {
                    summary.text.push_str(&text);
                }
            }
            Thought::Context(tokens) => self.session.context = Some(tokens),
            Thought::Notice(text) => self.model_notice(&text),
            Thought::End(end) => self.summarized(&end),
            Thought::Thinking(_)
            | Thought::Call { .. }
            | Thought::Dropped(_)
            | Thought::Seal(_)
            | Thought::Usage { .. } => {}
        }
    }

    /// Lets the summary stand for what it is about. Where the model gave none, the person's words and the last answers do.
    fn summarized(&mut self, end: &ThoughtEnd) {
        let id = self.cx.fresh_id("compaction");
        self.turn.wait = None;
        let Some(summary) = self.turn.summary.take() else { return };
        let record = &mut self.session.record;
        let written =
            matches!(end, ThoughtEnd::Done | ThoughtEnd::MaxTokens) && !summary.text.trim().is_empty();
        let before = record.digest.take();
        let from = before.as_ref().map_or(0, |digest| digest.entries.min(record.history.len()));
        let size = before.as_ref().map_or(0, |digest| tokens(digest.text.len()))
            + record.history[from..].iter().map(tokens_of).sum::<u64>();
        let mut text = match written {
            true => summary.text.trim().to_owned(),
            false => digest::mechanical(record, from, summary.until, before.map(|digest| digest.text)),
        };
        if self.turn.model {
            keep_request(&record.history, summary.entries, &mut text);
        }
        let rest = record.history[summary.entries..].iter().map(tokens_of).sum::<u64>();
        let kept = tokens(text.len()) + rest;
        (record.used, record.counted) = (kept, 0);
        record.rounds.retain(|round| round.at >= summary.entries);
        record.digest = Some(Digest { entries: summary.entries, text: text.clone() });
        self.checkpoint();
        if self.cx.caps().compaction {
            self.show_digest(&id, &text);
        }
        let how =
            if written { "by the model" } else { "by its first words, because the model gave no summary" };
        let words = format!(
            "What was said before is kept in short now, {how}: the conversation takes about {kept} tokens instead of \
             {size}.\n"
        );
        let notice = Stream::text(Voice::Notice, words, self.cx.config.pace.chunk_size);
        self.insert([Step::Stream(notice), Step::Usage]);
        self.schedule();
    }

    /// Tells the person something about the turn: at once, or as the step that is given back.
    fn inform(&mut self, title: &str, words: &str) -> Option<Step> {
        if self.cx.caps().notices {
            self.session.warn(self.cx, title, words);
            return None;
        }
        Some(Step::Stream(Stream::text(Voice::Notice, format!("{words}\n"), self.cx.config.pace.chunk_size)))
    }
}

/// Up to where a summary should stand for a history, so that about `budget` tokens of it stay: between two answers, or
/// before a prompt. None when nothing would be left out.
fn boundary(record: &super::SessionRecord, budget: u64) -> Option<usize> {
    let from = record.digest.as_ref().map_or(0, |digest| digest.entries);
    let history = &record.history;
    let begins = |at: &usize| {
        let users = |at: usize| history[at]["sessionUpdate"] == update::USER_MESSAGE_CHUNK;
        users(*at) && (*at == 0 || !users(*at - 1))
    };
    let prompts = (0..history.len()).filter(begins);
    let answers = record.rounds.iter().map(|round| round.at).filter(|at| *at < history.len());
    let mut places: Vec<usize> = prompts.chain(answers).filter(|at| *at > from).collect();
    places.sort_unstable();
    let rest = |at: usize| history[at..].iter().map(tokens_of).sum::<u64>();
    places.iter().copied().find(|at| rest(*at) <= budget).or(places.last().copied())
}

/// Adds the request that is being worked on, when the summary stands for it: the model must not lose it.
fn keep_request(history: &[Value], entries: usize, text: &mut String) {
    let at = digest::this_turn(history);
    if at >= entries {
        return;
    }
    let said =
        history[at..entries].iter().take_while(|entry| entry["sessionUpdate"] == update::USER_MESSAGE_CHUNK);
    let texts = said.filter_map(|entry| entry.pointer("/content/text").and_then(Value::as_str));
    let request = texts.collect::<Vec<_>>().join("\n");
    text.push_str(&format!("\n\nThe request that is being worked on:\n{}", cut(request.trim(), REQUEST)));
}
