//! Faults of bytes.

use bytes::Bytes;

use super::chance::Chance;

/// A line of random bytes, without a newline inside.
pub(super) fn garbage(len: usize, chance: &mut Chance) -> Vec<u8> {
    (0..len)
        .map(|_| match chance.byte() {
            b'\n' | b'\r' => b'?',
            byte => byte,
        })
        .collect()
}

/// The line with one byte that is no UTF-8, inside its last string.
pub(super) fn bad_utf8(line: &[u8]) -> Vec<u8> {
    let mut bytes = line.to_vec();
    let quote = bytes.iter().rposition(|byte| *byte == b'"').unwrap_or(0);
    bytes.insert(quote, 0xFF);
    bytes
}

/// The line in Latin-1.
pub(super) fn latin1(line: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(line).chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect()
}

/// The line with spaces behind its first byte, so that it stays the same JSON but is `len` bytes long.
pub(super) fn huge(line: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(line.len()));
    let (head, tail) = line.split_at(line.len().min(1));
    bytes.extend_from_slice(head);
    bytes.resize(bytes.len() + len.saturating_sub(line.len()), b' ');
    bytes.extend_from_slice(tail);
    bytes
}

/// The line and its newline in `pieces` parts.
pub(super) fn split(line: &[u8], pieces: usize) -> Vec<Bytes> {
    let mut whole = line.to_vec();
    whole.push(b'\n');
    let size = whole.len().div_ceil(pieces.max(1)).max(1);
    whole.chunks(size).map(Bytes::copy_from_slice).collect()
}

/// The line and its newline as raw bytes.
pub(super) fn with_newline(line: &[u8]) -> Bytes {
    let mut bytes = line.to_vec();
    bytes.push(b'\n');
    bytes.into()
}

/// The same JSON with escapes for every character outside of ASCII.
pub(super) fn ascii(line: &[u8]) -> String {
    let mut escaped = String::with_capacity(line.len());
    for letter in String::from_utf8_lossy(line).chars() {
        if letter.is_ascii() {
            escaped.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}
