//! Keeps the pages of browsers away from a line protocol.
//!
//! A page may send a request with any text in its body to any port of this machine, without asking. Whoever reads lines
//! and passes over those that are no frames would take the frames out of the body. An HTTP request is known by its first
//! word, which no frame begins with.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

const METHODS: [&[u8]; 9] =
    [b"POST ", b"GET ", b"OPTIONS ", b"PUT ", b"HEAD ", b"DELETE ", b"PATCH ", b"CONNECT ", b"TRACE "];

/// A reader that breaks when the first thing to read is an HTTP request.
pub(crate) struct NoBrowser<R> {
    inner: R,
    /// The beginning, as long as it may still become one.
    begun: Option<Vec<u8>>,
}

impl<R> NoBrowser<R> {
    pub(crate) fn new(inner: R) -> Self {
        NoBrowser { inner, begun: Some(Vec::new()) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for NoBrowser<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if let Some(begun) = &mut self.begun {
            // Without a line ending nothing is taken for a line, so what was handed out before does no harm.
            begun.extend(buf.filled()[before..].iter().take(METHODS[2].len()));
            if METHODS.iter().any(|method| begun.starts_with(method)) {
                let words = "an HTTP request came; here are only lines of JSON (browsers use the WebSocket)";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, words)));
            }
            if !METHODS.iter().any(|method| method.starts_with(begun)) {
                self.begun = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn read(pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
        let (mut to, from) = tokio::io::duplex(1024);
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let mut guarded = NoBrowser::new(from);
        let mut all = vec![0; 1024];
        let mut length = 0;
        for piece in pieces {
            tokio::io::AsyncWriteExt::write_all(&mut to, &piece).await?;
            length += guarded.read(&mut all[length..]).await?;
        }
        all.truncate(length);
        Ok(all)
    }

    #[tokio::test]
    async fn requests_break_the_stream_however_they_are_cut() {
        let request = b"POST /acp HTTP/1.1\r\nhost: x\r\n\r\n{\"id\":1}\n";
        for cut in 1..request.len() {
            let error = read(&[&request[..cut], &request[cut..]]).await.expect_err("a browser");
            assert!(error.to_string().contains("an HTTP request"), "{error}");
        }
        for method in METHODS {
            assert!(read(&[method, b"/ HTTP/1.1\r\n"]).await.is_err(), "{method:?}");
        }
    }

    #[tokio::test]
    async fn everything_else_passes() {
        for pieces in [
            &[&b"{\"jsonrpc\""[..], b":\"2.0\"}\n", b"POST \n"][..],
            &[b"PO", b"RT\n"],
            &[b"\n", b"GET / HTTP/1.1\n"],
            &[b"POSTAL\n"],
            &[b"\xef\xbb\xbf{}\n"],
        ] {
            assert_eq!(read(pieces).await.expect("read"), pieces.concat());
        }
    }
}
