//! Fewer, larger pieces of text: chunks of one message and one kind are joined until something else happens, enough has
//! come together, or the first of them has waited long enough. Nothing is reordered, and no character is cut.

use std::time::Duration;

use acp_proxy::event::{Body, Text};

/// How text is joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregateLimits {
    /// How long the first chunk may wait for others. `None`: no chunk waits.
    pub wait: Option<Duration>,
    /// How many bytes of text one piece has at most.
    pub bytes: usize,
}

impl Default for AggregateLimits {
    fn default() -> Self {
        AggregateLimits { wait: Some(Duration::from_millis(150)), bytes: 8 * 1024 }
    }
}

impl AggregateLimits {
    /// Every chunk by itself. Only one that no message could carry is cut.
    #[must_use]
    pub fn none() -> AggregateLimits {
        AggregateLimits { wait: None, bytes: 256 * 1024 }
    }
}

/// Joins the text of one session. Time is an argument: since when does not matter, as long as it is always the same.
#[derive(Debug)]
pub struct Aggregator {
    limits: AggregateLimits,
    held: Option<(Duration, Text)>,
}

impl Aggregator {
    /// Nothing yet.
    #[must_use]
    pub fn new(limits: AggregateLimits) -> Aggregator {
        Aggregator { limits: AggregateLimits { bytes: limits.bytes.max(4), ..limits }, held: None }
    }

    /// Takes what happened, and gives what is ready, in order.
    pub fn push(&mut self, now: Duration, body: Body, out: &mut impl Extend<Body>) {
        self.tick(now, out);
        let Body::Text(text) = body else {
            self.flush(out);
            out.extend([body]);
            return;
        };
        if self.limits.wait.is_none() {
            self.cut(now, text, out);
            self.flush(out);
            return;
        }
        let joins =
            |held: &Text| held.role == text.role && held.message_id == text.message_id && held.chunks > 0;
        match &mut self.held {
            Some((_, held)) if joins(held) && held.text.len() + text.text.len() <= self.limits.bytes => {
                held.text.push_str(&text.text);
                held.chunks += text.chunks;
            }
            _ => {
                self.flush(out);
                self.cut(now, text, out);
            }
        }
        if self.held.as_ref().is_some_and(|(_, held)| held.text.len() >= self.limits.bytes) {
            self.flush(out);
        }
    }

    /// Gives what has waited long enough.
    pub fn tick(&mut self, now: Duration, out: &mut impl Extend<Body>) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.flush(out);
        }
    }

    /// When [`tick`](Aggregator::tick) has something to give.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let (since, _) = self.held.as_ref()?;
        Some(*since + self.limits.wait?)
    }

    /// Gives what is held.
    pub fn flush(&mut self, out: &mut impl Extend<Body>) {
        out.extend(self.held.take().map(|(_, text)| Body::Text(text)));
    }

    /// Holds a text, and gives the beginning of one that is too long.
    fn cut(&mut self, now: Duration, mut text: Text, out: &mut impl Extend<Body>) {
        while text.text.len() > self.limits.bytes {
            let rest = text.text.split_off(text.text.floor_char_boundary(self.limits.bytes));
            let first = std::mem::replace(&mut text.text, rest);
            out.extend([Body::Text(Text { text: first, chunks: 0, ..text.clone() })]);
        }
        self.held = Some((now, text));
    }
}
