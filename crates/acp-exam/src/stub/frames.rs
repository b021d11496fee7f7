//! What the stub and the runner say to each other: a letter, a length, and so many bytes.

use acp_comply::program::StubHabits;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};

/// No more than this in one piece.
const MOST: u32 = 256 << 20;

/// From the stub to the runner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FromStub {
    /// What it knows of itself.
    Record(Value),
    /// The client wrote this.
    Input(Vec<u8>),
    /// The client wrote its last byte.
    InputEnded,
    /// A signal came.
    Signal(String),
    /// All of one [`ToStub::Errors`] is written.
    ErrorsTaken,
}

/// From the runner to the stub.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToStub {
    /// How it behaves. The first word.
    Habits(StubHabits),
    /// To standard output.
    Output(Vec<u8>),
    /// The end of standard output.
    CloseOutput,
    /// To standard error.
    Errors { bytes: Vec<u8>, times: u32 },
    /// End with this code.
    Exit(u8),
}

impl FromStub {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromStub::Record(record) => piece(b'R', record.to_string().as_bytes()),
            FromStub::Input(bytes) => piece(b'I', bytes),
            FromStub::InputEnded => piece(b'E', &[]),
            FromStub::Signal(name) => piece(b'S', name.as_bytes()),
            FromStub::ErrorsTaken => piece(b'T', &[]),
        }
    }
}

impl ToStub {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToStub::Habits(habits) => {
                let habits = json!({ "ignores": habits.ignores, "child": habits.child });
                piece(b'H', habits.to_string().as_bytes())
            }
            ToStub::Output(bytes) => piece(b'O', bytes),
            ToStub::CloseOutput => piece(b'C', &[]),
            ToStub::Errors { bytes, times } => piece(b'D', &[&times.to_be_bytes()[..], bytes].concat()),
            ToStub::Exit(code) => piece(b'X', &[*code]),
        }
    }
}

fn piece(letter: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut piece = Vec::with_capacity(bytes.len() + 5);
    piece.push(letter);
    piece.extend_from_slice(&length.to_be_bytes());
    piece.extend_from_slice(bytes);
    piece
}

/// The next word of the stub; `None` at its end.
pub(crate) async fn read_word(reader: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<FromStub>> {
    let Some((letter, bytes)) = read(reader).await? else { return Ok(None) };
    Ok(Some(match letter {
        b'R' => FromStub::Record(serde_json::from_slice(&bytes)?),
        b'I' => FromStub::Input(bytes),
        b'E' => FromStub::InputEnded,
        b'S' => FromStub::Signal(String::from_utf8_lossy(&bytes).into_owned()),
        b'T' => FromStub::ErrorsTaken,
        other => return Err(unknown(other)),
    }))
}

/// The runner's next order; `None` at its end.
pub(crate) async fn read_order(reader: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<ToStub>> {
    let Some((letter, bytes)) = read(reader).await? else { return Ok(None) };
    Ok(Some(match letter {
        b'H' => ToStub::Habits(habits(&serde_json::from_slice(&bytes)?)),
        b'O' => ToStub::Output(bytes),
        b'C' => ToStub::CloseOutput,
        b'D' => {
            let (times, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| unknown(letter))?;
            ToStub::Errors { bytes: rest.to_vec(), times: u32::from_be_bytes(*times) }
        }
        b'X' => ToStub::Exit(bytes.first().copied().unwrap_or_default()),
        other => return Err(unknown(other)),
    }))
}

fn habits(value: &Value) -> StubHabits {
    let words = value["ignores"].as_array().into_iter().flatten();
    StubHabits {
        ignores: words.filter_map(|word| word.as_str().map(str::to_owned)).collect(),
        child: value["child"].as_bool().unwrap_or_default(),
        ..StubHabits::default()
    }
}

fn unknown(letter: u8) -> std::io::Error {
    std::io::Error::other(format!("a piece begins with {:?}", char::from(letter)))
}

async fn read(reader: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<(u8, Vec<u8>)>> {
    let mut head = [0; 5];
    if let Err(error) = reader.read_exact(&mut head).await {
        let is_end = error.kind() == std::io::ErrorKind::UnexpectedEof;
        return if is_end { Ok(None) } else { Err(error) };
    }
    let [letter, length @ ..] = head;
    let length = u32::from_be_bytes(length);
    if length > MOST {
        return Err(std::io::Error::other(format!("a piece has {length} bytes")));
    }
    let mut bytes = vec![0; length as usize];
    reader.read_exact(&mut bytes).await?;
    Ok(Some((letter, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read() {
        let words = [
            FromStub::Record(json!({ "pid": 7 })),
            FromStub::Input(vec![0, 255, b'\n']),
            FromStub::InputEnded,
            FromStub::Signal("TERM".to_owned()),
            FromStub::ErrorsTaken,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(FromStub::encode).collect();
        let mut reader = &bytes[..];
        for word in words {
            assert_eq!(read_word(&mut reader).await.expect("a word"), Some(word));
        }
        assert_eq!(read_word(&mut reader).await.expect("the end"), None);
        let habits = StubHabits { ignores: vec!["EOF".to_owned()], child: true, ..StubHabits::default() };
        let orders = [
            ToStub::Habits(habits),
            ToStub::Output(b"x".to_vec()),
            ToStub::CloseOutput,
            ToStub::Errors { bytes: b"y".to_vec(), times: 3 },
            ToStub::Exit(7),
        ];
        let bytes: Vec<u8> = orders.iter().flat_map(ToStub::encode).collect();
        let mut reader = &bytes[..];
        for order in orders {
            assert_eq!(read_order(&mut reader).await.expect("an order"), Some(order));
        }
        assert!(read_order(&mut &b"?\0\0\0\0"[..]).await.is_err());
    }
}
