//! Server-sent events: writing them, and a parser that takes bytes as they come.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` field; absent for plain data.
    pub event: Option<String>,
    /// The `data:` field; lines are joined by newlines.
    pub data: String,
}

impl SseEvent {
    /// Plain data.
    pub fn data(data: impl Into<String>) -> Self {
        Self { event: None, data: data.into() }
    }

    /// Data of a named event.
    pub fn named(event: impl Into<String>, data: impl Into<String>) -> Self {
        Self { event: Some(event.into()), data: data.into() }
    }

    /// The event as bytes of a stream.
    pub fn encode(&self) -> String {
        let mut out = String::with_capacity(self.data.len() + 16);
        if let Some(event) = &self.event {
            out.push_str("event: ");
            out.push_str(event);
            out.push('\n');
        }
        for line in self.data.split('\n') {
            out.push_str("data: ");
            out.push_str(line);
            out.push('\n');
        }
        out.push('\n');
        out
    }
}

/// Cuts a byte stream into events. Comments (keep-alives), `id:` and `retry:` fields are passed over.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    after_cr: bool,
    event: Option<String>,
    data: Option<String>,
    ready: std::collections::VecDeque<SseEvent>,
}

impl SseParser {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                continue;
            }
            match byte {
                b'\n' => self.end_of_line(),
                b'\r' => {
                    self.after_cr = true;
                    self.end_of_line();
                }
                other => self.line.push(other),
            }
        }
    }

    /// The next whole event.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// The stream ended: an event without its closing blank line still counts, because some servers forget it.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_of_line();
        }
        self.end_of_event();
        self.ready.pop_front()
    }

    fn end_of_line(&mut self) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            self.end_of_event();
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            _ => {}
        }
    }

    fn end_of_event(&mut self) {
        let event = self.event.take();
        if let Some(data) = self.data.take() {
            self.ready.push_back(SseEvent { event, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], step: usize) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        bytes.chunks(step).for_each(|chunk| parser.push(chunk));
        let mut events: Vec<_> = std::iter::from_fn(|| parser.next_event()).collect();
        events.extend(parser.finish());
        events
    }

    #[test]
    fn events_read_back_however_the_bytes_are_cut() {
        let events = [
            SseEvent::named("message_start", "{\"a\":\"ä\"}"),
            SseEvent::data("two\nlines"),
            SseEvent::data("[DONE]"),
        ];
        let text: String = events.iter().map(SseEvent::encode).collect();
        for step in 1..text.len() {
            assert_eq!(all(text.as_bytes(), step), events);
        }
    }

    #[test]
    fn comments_carriage_returns_and_a_missing_end_are_understood() {
        let text = b": keep-alive\r\n\r\nevent:x\r\ndata:1\r\nid: 7\r\n\r\ndata: 2";
        assert_eq!(all(text, 3), [SseEvent::named("x", "1"), SseEvent::data("2")]);
    }
}
