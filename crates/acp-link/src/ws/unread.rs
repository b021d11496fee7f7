//! The socket under a WebSocket, for what cannot be read as messages any more.
//!
//! After a message that is too long nothing more can be told apart. The other side may still be writing it, and hears
//! nothing before that is done; and a socket that is closed with unread bytes in it resets the connection, so that our
//! last words could be lost. So the rest is read past the WebSocket, and dropped.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{CLOSED_BY_THEM, PATIENCE};
use crate::outbox::Outbox;

/// A socket that clones share.
#[derive(Clone, Debug)]
pub(super) struct Socket(Arc<Mutex<TcpStream>>);

impl Socket {
    pub(super) fn new(socket: TcpStream) -> Socket {
        Socket(Arc::new(Mutex::new(socket)))
    }

    fn lock(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what still comes, while the outbox is written, and for a moment after that.
    pub(super) async fn drop_the_rest(mut self, outbox: Arc<Outbox>) {
        let mut rest = self.clone();
        let ended = async {
            outbox.ended().await;
            // The other side waits for this when it has our close.
            let _ = poll_fn(|cx| Pin::new(&mut self).poll_shutdown(cx)).await;
        };
        tokio::pin!(ended);
        tokio::select! {
            () = rest.read_to_end() => return outbox.end(CLOSED_BY_THEM),
            () = &mut ended => {}
        }
        let _ = timeout(PATIENCE, rest.read_to_end()).await;
    }

    async fn read_to_end(&mut self) {
        let mut unseen = vec![0; 64 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut unseen);
            let read = poll_fn(|cx| Pin::new(&mut *self).poll_read(cx, &mut buffer)).await;
            if read.is_err() || buffer.filled().is_empty() {
                return;
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }
}
