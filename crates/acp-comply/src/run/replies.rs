//! Canned replies: which one answers a request, and what goes on the wire.

use super::Run;
use crate::json::Json;
use crate::program::{Envelope, MessageKind, StepKind};
use acp_match::Pattern;
use bytes::Bytes;

impl Run {
    /// The reply to the request, or the frame that answers the notification, at this place of the inbox. Replies are armed from the last `send` to the next; one
    /// that was not used yet goes before one that was.
    pub(super) fn canned_reply(&mut self, index: usize) -> Option<Bytes> {
        let message = &self.inbox.messages()[index];
        let mut fallback = None;
        for at in self.segment() {
            let StepKind::Expect(expect) = &self.arena[self.order[at].step].kind else { continue };
            for (number, expected) in expect.messages.iter().enumerate() {
                for (choice, envelope) in expected.alternatives.iter().enumerate() {
                    let Some(reply) = &envelope.reply else { continue };
                    if envelope.kind != message.kind
                        || !self.launch_filter(envelope.launch).takes(message.launch)
                    {
                        continue;
                    }
                    // A hole that is not filled yet belongs to a step that cannot match yet.
                    let Ok(pattern) = Pattern::compile_with(&envelope.pattern, &self.vars) else { continue };
                    if !pattern.matches(&message.value) {
                        continue;
                    }
                    let Some(line) = self.reply_line(index, reply) else { continue };
                    let key = (at, number, choice);
                    if self.used_replies.insert(key) {
                        return Some(line);
                    }
                    fallback = Some(line);
                }
            }
        }
        fallback
    }

    /// Whether the test leaves the request, or the notification that asks, at this place of the inbox without an answer.
    pub(super) fn stays_silent(&self, index: usize) -> bool {
        let message = &self.inbox.messages()[index];
        let fits = |envelope: &Envelope| {
            envelope.no_reply
                && envelope.kind == message.kind
                && self.launch_filter(envelope.launch).takes(message.launch)
                && Pattern::compile_with(&envelope.pattern, &self.vars)
                    .is_ok_and(|pattern| pattern.matches(&message.value))
        };
        self.segment().any(|at| match &self.arena[self.order[at].step].kind {
            StepKind::Expect(expect) => {
                expect.messages.iter().flat_map(|expected| &expected.alternatives).any(fits)
            }
            _ => false,
        })
    }

    /// Steps from the last `send` or `drive` to the next.
    fn segment(&self) -> std::ops::Range<usize> {
        let is_send = |at: &usize| match &self.arena[self.order[*at].step].kind {
            StepKind::Send { .. } => true,
            StepKind::Client(step) => step.opens_window(),
            _ => false,
        };
        // A verb that is waited for has begun anew already.
        let here = (self.at + usize::from(self.is_driving())).min(self.order.len());
        let start = (0..here).rev().find(is_send).map_or(0, |at| at + 1);
        let end = (here..self.order.len()).find(is_send).unwrap_or(self.order.len());
        start..end
    }

    fn reply_line(&self, index: usize, reply: &Json) -> Option<Bytes> {
        if self.inbox.messages()[index].kind == MessageKind::Notification {
            return reply.render(&self.vars).ok().map(Bytes::from);
        }
        let id = self.inbox.messages()[index].id.as_ref()?;
        let wrapped = ["result", "error"].into_iter().find_map(|key| Some((key, reply.get(key)?)));
        let is_envelope = reply
            .members()
            .iter()
            .all(|member| matches!(member.key.as_str(), "jsonrpc" | "id" | "result" | "error"));
        let (key, body) = wrapped.filter(|_| is_envelope).unwrap_or(("result", reply));
        let text = body.render(&self.vars).ok()?;
        Some(Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{key}\":{text}}}")))
    }
}
