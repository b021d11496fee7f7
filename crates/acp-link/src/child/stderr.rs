//! What an agent says on standard error: the last of it is kept, the rest is counted.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The end of what was written, and how much that was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<u8>,
    total: u64,
}

impl Tail {
    /// Reads until the end of the stream; `limit` bytes are kept.
    pub(crate) async fn follow(self, fd: OwnedFd, limit: usize) {
        let Ok(mut reader) = pipe::Receiver::from_owned_fd(fd) else { return };
        let mut buf = Vec::with_capacity(8 * 1024);
        while let Ok(count) = reader.read_buf(&mut buf).await {
            if count == 0 {
                return;
            }
            self.add(&buf, limit);
            buf.clear();
        }
    }

    fn add(&self, bytes: &[u8], limit: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total += bytes.len() as u64;
        let bytes = &bytes[bytes.len().saturating_sub(limit)..];
        let excess = (state.kept.len() + bytes.len()).saturating_sub(limit);
        state.kept.drain(..excess);
        state.kept.extend(bytes);
    }

    /// The kept end as text; a character cut by the bound is dropped.
    pub(crate) fn text(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = state.total == state.kept.len() as u64;
        let cut = if whole { 0 } else { state.kept.iter().take_while(|&&byte| byte & 0xC0 == 0x80).count() };
        let bytes: Vec<u8> = state.kept.iter().skip(cut).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn total(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn only_the_end_is_kept_and_no_half_character() {
        let tail = Tail::default();
        tail.add("abc".as_bytes(), 5);
        assert_eq!(tail.text(), "abc");
        tail.add("déf".as_bytes(), 5);
        assert_eq!(tail.text(), "cdéf");
        tail.add("ééé".as_bytes(), 5);
        assert_eq!((tail.text().as_str(), tail.total()), ("éé", 13));
    }
}
