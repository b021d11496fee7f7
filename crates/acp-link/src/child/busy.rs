//! An agent that is ahead of us gets more room to go on in.
//!
//! The system lets 64 KiB of a pipe wait to be read, and an agent that streams then sleeps and wakes with every read
//! of ours. A larger pipe spares both sides that. It is asked for only once an agent has filled half of the usual
//! one: the system counts what a user's pipes may hold in all, and most agents never say that much at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;

/// What waits in a pipe whose writer is ahead of us.
const AHEAD: usize = 32 * 1024;

/// How much may then wait; the system's own is a quarter of this.
#[cfg(target_os = "linux")]
const ROOM: usize = 256 * 1024;

/// The reading end of an agent's output.
pub(super) struct Busy {
    pipe: pipe::Receiver,
    widened: bool,
}

impl Busy {
    pub(super) fn new(pipe: pipe::Receiver) -> Busy {
        Busy { pipe, widened: false }
    }

    /// Asks once; where the system does not give it, it works as before.
    fn widen(&mut self) {
        self.widened = true;
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&self.pipe, ROOM);
    }
}

impl AsyncRead for Busy {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.pipe).poll_read(cx, buf);
        if !self.widened && buf.filled().len() - before >= AHEAD {
            self.widen();
        }
        read
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    use std::os::fd::AsFd;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn room_after(said: usize) -> usize {
        let (mut writer, reader) = pipe::pipe().expect("a pipe");
        let mut busy = Busy::new(reader);
        writer.write_all(&vec![b'x'; said]).await.expect("it fits");
        let read = busy.read(&mut vec![0; 64 * 1024]).await.expect("it was said");
        assert_eq!(read, said);
        rustix::pipe::fcntl_getpipe_size(busy.pipe.as_fd()).expect("a pipe has a size")
    }

    #[tokio::test]
    async fn only_who_is_ahead_of_us_gets_a_larger_pipe() {
        let usual = room_after(100).await;
        assert!(usual < ROOM, "{usual}");
        assert_eq!(room_after(AHEAD - 1).await, usual);
        assert_eq!(room_after(AHEAD).await, ROOM);
    }
}
