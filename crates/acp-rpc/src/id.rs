use std::fmt;

use serde::{Serialize, Serializer};

use crate::scan::{self, Scanner};

/// A request's id, exactly as it was written.
///
/// Two ids are equal when they have the same JSON type and the same value text: `1`, `1.0` and `"1"` are three
/// ids. Text is compared decoded, so `"a"` and `"\u0061"` are one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// An integer in its canonical text that fits 64 bits.
    Int(i64),
    /// Any other number (`1.0`, `-0`, `1e3`, forty digits), kept as its text.
    Number(Box<str>),
    /// A string, decoded.
    Text(Box<str>),
    /// `null`.
    Null,
}

impl Id {
    /// Reads one JSON value as an id; `None` when it is not a number, a string or `null`.
    #[must_use]
    pub fn parse(json: &str) -> Option<Self> {
        let json = json.trim_matches([' ', '\t', '\r', '\n']);
        let mut scanner = Scanner::new(json.as_bytes());
        scanner.value().ok()?;
        scanner.at_end().then(|| Self::from_scanned(json)).flatten()
    }

    /// The same for text that is already known to be exactly one JSON value.
    pub(crate) fn from_scanned(json: &str) -> Option<Self> {
        match json.as_bytes().first()? {
            b'"' => scan::decode(json).map(|text| Self::Text(text.into())),
            b'n' => Some(Self::Null),
            b'-' | b'0'..=b'9' => Some(Self::number(json)),
            _ => None,
        }
    }

    /// The JSON word for the id's type: `number`, `string` or `null`.
    #[must_use]
    pub fn json_type(&self) -> &'static str {
        match self {
            Self::Int(_) | Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Null => "null",
        }
    }

    /// How many bytes of text the id holds; integers and `null` hold none.
    #[must_use]
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Self::Number(text) | Self::Text(text) => text.len(),
            Self::Int(_) | Self::Null => 0,
        }
    }

    /// The id as JSON text, appended to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(n) => scan::write_i64(*n, out),
            Self::Number(text) => out.extend_from_slice(text.as_bytes()),
            Self::Text(text) => scan::write_string(text, out),
            Self::Null => out.extend_from_slice(b"null"),
        }
    }

    /// The other spellings under which a careless peer may echo this id: `5` for `"5"` and the reverse.
    pub(crate) fn lookalikes(&self) -> Vec<Self> {
        match self {
            Self::Int(n) => vec![Self::Text(n.to_string().into())],
            Self::Number(text) => {
                let mut found = vec![Self::Text(text.clone())];
                found.extend(whole(text).map(Self::Int));
                found
            }
            Self::Text(text) => match Self::parse(text) {
                Some(Self::Number(n)) => {
                    let mut found: Vec<Self> = whole(&n).map(Self::Int).into_iter().collect();
                    found.push(Self::Number(n));
                    found
                }
                Some(id @ (Self::Int(_) | Self::Null)) => vec![id],
                _ => Vec::new(),
            },
            Self::Null => Vec::new(),
        }
    }

    fn number(text: &str) -> Self {
        match text.parse::<i64>() {
            Ok(n) if text != "-0" => Self::Int(n),
            _ => Self::Number(text.into()),
        }
    }
}

/// `1.0` and `1e0` as `1`, when nothing is lost by it.
fn whole(text: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value: f64 = text.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and within 2^53")]
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => n.fmt(f),
            Self::Number(text) => f.write_str(text),
            Self::Text(_) => {
                let mut out = Vec::new();
                self.write(&mut out);
                f.write_str(&String::from_utf8_lossy(&out))
            }
            Self::Null => f.write_str("null"),
        }
    }
}

impl From<i64> for Id {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(n) => serializer.serialize_i64(*n),
            Self::Number(text) => serde_json::value::RawValue::from_string(text.to_string())
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Null => serializer.serialize_unit(),
        }
    }
}
