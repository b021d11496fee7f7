//! A link over any pair of byte streams, one line per frame.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use acp_rpc::Splitter;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest};

use crate::outbox::{Batch, CLOSED_BY_US, Outbox};
use crate::receiver::Source;
use crate::{Link, LinkSettings, Receiver, Sender};

/// Connects a reader and a writer as a link. Must be called inside a tokio runtime, which runs the writer.
pub fn link<R, W>(reader: R, writer: W, wire: &LinkSettings) -> Link
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let outbox = wire.outbox(wire.framing());
    tokio::spawn(write_all(writer, outbox.clone()));
    let source = Source::Bytes(Box::new(reader), Splitter::new(wire.line_limit));
    Link { tx: Sender::new(outbox), rx: Receiver::new(source) }
}

/// Writes what the outbox holds, a burst at a time, until it is closed or the other side stops reading.
async fn write_all<W: AsyncWrite + Unpin>(mut writer: W, outbox: Arc<Outbox>) {
    let mut batch = Batch::default();
    let outcome = loop {
        if poll_fn(|cx| outbox.poll_take(cx, &mut batch)).await.is_none() {
            break writer.shutdown().await;
        }
        if let Err(error) = write_batch(&mut writer, &batch).await {
            break Err(error);
        }
    };
    drop(writer);
    match outcome {
        Ok(()) => outbox.end(CLOSED_BY_US),
        Err(error) => outbox.end(&describe(&error)),
    }
}

async fn write_batch<W: AsyncWrite + Unpin>(writer: &mut W, batch: &Batch) -> io::Result<()> {
    if batch.lengths.is_empty() {
        writer.write_all(&batch.buf).await?;
        return writer.flush().await;
    }
    let mut rest = &batch.buf[..];
    for &length in &batch.lengths {
        let (frame, after) = rest.split_at(length);
        writer.write_all(frame).await?;
        writer.flush().await?;
        rest = after;
    }
    Ok(())
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::BrokenPipe => "the other side no longer reads (broken pipe)".to_owned(),
        _ => format!("writing failed: {error}"),
    }
}

/// Registers a descriptor of any kind with the runtime.
#[expect(
    deprecated,
    reason = "its successor is an unsafe function that asks for what `OwnedFd` already promises"
)]
pub(crate) fn watched(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}
