//! Texts made of constants, at compile time.

/// Joins constant texts into one constant: `concat!` for constants instead of literals.
///
/// ```
/// use acp_proto::{join, method};
/// const HEAD: &str = join!(r#"{"method":""#, method::SESSION_UPDATE, r#"","params":"#);
/// assert_eq!(HEAD, "{\"method\":\"session/update\",\"params\":");
/// ```
#[macro_export]
macro_rules! join {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&str] = &[$($part),+];
        const BYTES: [u8; $crate::joined_len(PARTS)] = $crate::joined(PARTS);
        const TEXT: &str = match ::core::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => unreachable!(),
        };
        TEXT
    }};
}

/// How long the parts are together.
#[doc(hidden)]
#[must_use]
pub const fn joined_len(parts: &[&str]) -> usize {
    let (mut len, mut at) = (0, 0);
    while at < parts.len() {
        len += parts[at].len();
        at += 1;
    }
    len
}

/// The bytes of the parts, one after another.
#[doc(hidden)]
#[must_use]
pub const fn joined<const LEN: usize>(parts: &[&str]) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let (mut filled, mut at) = (0, 0);
    while at < parts.len() {
        let part = parts[at].as_bytes();
        let mut from = 0;
        while from < part.len() {
            bytes[filled] = part[from];
            filled += 1;
            from += 1;
        }
        at += 1;
    }
    bytes
}
