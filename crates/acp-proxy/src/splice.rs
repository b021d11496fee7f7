//! Changes in a frame that leave every other byte as it is.

use std::borrow::Cow;
use std::collections::HashMap;

use acp_rpc::Frame;
use serde_json::value::RawValue;

type Members<'a> = HashMap<Cow<'a, str>, &'a RawValue>;

/// A frame whose params are changed piece by piece. The pieces are put in when it is done.
pub(crate) struct Splice<'a> {
    text: &'a str,
    params: &'a str,
    members: Members<'a>,
    /// Where, how many bytes go, what comes.
    pieces: Vec<(usize, usize, String)>,
}

impl<'a> Splice<'a> {
    /// `None` when the frame has no params that are an object.
    pub(crate) fn of(frame: &'a Frame) -> Option<Splice<'a>> {
        let (text, params) = (frame.text()?, frame.params()?);
        let members = serde_json::from_str(params).ok()?;
        Some(Splice { text, params, members, pieces: Vec::new() })
    }

    /// The text of a member of the params.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.members.get(name).map(|value| value.get())
    }

    /// A member of the params that is a string.
    pub(crate) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Sets a member of the params to JSON text.
    pub(crate) fn set(&mut self, name: &str, json: &str) {
        match self.get(name) {
            Some(value) => self.pieces.push((self.at(value), value.len(), json.to_owned())),
            None => self.insert(name, json),
        }
    }

    /// Appends items to a list; one that is not there, or is no list, is made.
    pub(crate) fn append(&mut self, name: &str, items: &[String]) {
        let items_text = items.join(",");
        match self.get(name) {
            Some(list) if list.starts_with('[') => {
                let empty = list[1..].trim_start().starts_with(']');
                let comma = if empty { "" } else { "," };
                let end = self.at(list) + list.len() - 1;
                self.pieces.push((end, 0, format!("{comma}{items_text}")));
            }
            Some(_) => self.set(name, &format!("[{items_text}]")),
            None => self.insert(name, &format!("[{items_text}]")),
        }
    }

    /// Sets a member of a member that is an object; the object is made if it is not there.
    pub(crate) fn set_within(&mut self, outer: &str, name: &str, json: &str) {
        let member = format!("{}:{json}", serde_json::Value::from(name));
        match self.get(outer) {
            Some(object) if object.starts_with('{') => {
                let empty = object[1..].trim_start().starts_with('}');
                let comma = if empty { "" } else { "," };
                self.pieces.push((self.at(object) + 1, 0, format!("{member}{comma}")));
            }
            Some(_) => self.set(outer, &format!("{{{member}}}")),
            None => self.insert(outer, &format!("{{{member}}}")),
        }
    }

    fn insert(&mut self, name: &str, json: &str) {
        let member = format!("{}:{json}", serde_json::Value::from(name));
        let start = self.at(self.params) + 1;
        match self.pieces.iter_mut().find(|(at, gone, _)| (*at, *gone) == (start, 0)) {
            Some((_, _, made)) => *made = format!("{member},{made}"),
            None if self.members.is_empty() => self.pieces.push((start, 0, member)),
            None => self.pieces.push((start, 0, format!("{member},"))),
        }
    }

    /// Where a part of the text begins.
    fn at(&self, part: &str) -> usize {
        part.as_ptr() as usize - self.text.as_ptr() as usize
    }

    /// The changed frame; `None` if nothing was changed.
    pub(crate) fn done(mut self) -> Option<Vec<u8>> {
        if self.pieces.is_empty() {
            return None;
        }
        self.pieces.sort_by_key(|(at, ..)| *at);
        let mut out = String::with_capacity(self.text.len() + 256);
        let mut from = 0;
        for (at, gone, piece) in &self.pieces {
            out.push_str(&self.text[from..*at]);
            out.push_str(piece);
            from = at + gone;
        }
        out.push_str(&self.text[from..]);
        Some(out.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(text: &'static str, change: impl FnOnce(&mut Splice<'_>)) -> String {
        let frame = Frame::parse(text);
        let mut splice = Splice::of(&frame).expect("an object");
        change(&mut splice);
        let out = splice.done().map_or_else(|| text.to_owned(), |out| String::from_utf8(out).expect("text"));
        serde_json::from_str::<serde_json::Value>(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
        out
    }

    #[test]
    fn every_other_byte_stays_as_it_was() {
        let text = r#"{ "jsonrpc":"2.0","id":1.50,"method":"m", "params" :{"cwd": "/a","x":1.50e3,"mcpServers":[ {"a":1} ],"_meta":{"k":0}} }"#;
        let out = spliced(text, |splice| {
            splice.set("cwd", "\"/b\"");
            splice.append("mcpServers", &["{\"b\":2}".to_owned(), "3".to_owned()]);
            splice.set_within("_meta", "traceparent", "\"t\"");
            splice.set("new", "true");
        });
        let wanted = r#"{ "jsonrpc":"2.0","id":1.50,"method":"m", "params" :{"new":true,"cwd": "/b","x":1.50e3,"mcpServers":[ {"a":1} ,{"b":2},3],"_meta":{"traceparent":"t","k":0}} }"#;
        assert_eq!(out, wanted);
    }

    #[test]
    fn what_is_not_there_is_made() {
        let empty = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#;
        let out = spliced(empty, |splice| {
            splice.append("mcpServers", &["1".to_owned()]);
            splice.set("cwd", "2");
        });
        assert_eq!(out, r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"cwd":2,"mcpServers":[1]}}"#);
        let odd = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"mcpServers":[],"_meta":null}}"#;
        let out = spliced(odd, |splice| {
            splice.append("mcpServers", &["1".to_owned()]);
            splice.set_within("_meta", "a", "2");
        });
        assert_eq!(
            out,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"mcpServers":[1],"_meta":{"a":2}}}"#
        );
        let same = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#;
        assert_eq!(spliced(same, |_| {}), same);
    }
}
