//! An answer as it is played: whole, or piece by piece.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::header;
use serde_json::json;
use tokio::sync::mpsc;

use super::{Inner, json_response};
use crate::journal::ModelJournal;
use crate::play::{Beat, Play};
use crate::talk::{Collector, Delta, ModelReply, ModelRequest, ModelStop};
use crate::wire::{self, StreamWriter, WireFormat};

/// Writes "peer closed" when an answer is given up in the middle.
struct Watch {
    journal: ModelJournal,
    number: u64,
    began: Instant,
    stalled: bool,
    done: bool,
}

impl Watch {
    fn new(inner: &Inner, number: u64) -> Self {
        Self { journal: inner.journal.clone(), number, began: Instant::now(), stalled: false, done: false }
    }

    fn end(&mut self, how: &str) {
        if !std::mem::replace(&mut self.done, true) {
            let after = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.journal.write(
                self.number,
                "end",
                json!({"how": how, "afterMs": after, "stalled": self.stalled}),
            );
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end("peer closed");
    }
}

pub(super) async fn whole(
    inner: &Inner,
    number: u64,
    wire: WireFormat,
    id: String,
    request: &ModelRequest,
    play: Play,
) -> Response {
    let mut watch = Watch::new(inner, number);
    let mut collector = Collector::default();
    for beat in play.beats {
        match beat {
            Beat::Wait(time) => tokio::time::sleep(time).await,
            Beat::Say(delta) => collector.push(delta),
            Beat::Stall => {
                watch.stalled = true;
                tokio::time::sleep(inner.stall_limit).await;
            }
            Beat::Fail { status, kind, message, .. } => {
                watch.end("error");
                return json_response(status, &wire::write_error(wire, status, kind.as_deref(), &message));
            }
            Beat::Cut => {
                watch.end("cut");
                let broken = futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
                return Response::new(Body::from_stream(broken));
            }
        }
    }
    let (stop, usage) = (collector.stop.unwrap_or(ModelStop::End), collector.usage);
    let reply = ModelReply { id, model: request.model.clone(), parts: collector.finish(), stop, usage };
    watch.end("complete");
    json_response(200, &wire::write_reply(wire, &reply))
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Framing {
    Events,
    Array,
}

pub(super) fn stream(
    inner: Arc<Inner>,
    number: u64,
    writer: StreamWriter,
    play: Play,
    framing: Framing,
) -> Response {
    let (to, from) = mpsc::channel::<std::io::Result<Bytes>>(64);
    tokio::spawn(perform(inner, number, writer, play, framing, to));
    let pieces = futures_util::stream::unfold(from, |mut from| async {
        let piece = from.recv().await?;
        if piece.is_err() {
            // The server sends what it has when there is nothing to do; a cut at once would take that along.
            tokio::task::yield_now().await;
        }
        Some((piece, from))
    });
    let kind = if framing == Framing::Array { "application/json" } else { "text/event-stream" };
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    response
}

struct Gone;

struct Performer {
    to: mpsc::Sender<std::io::Result<Bytes>>,
    writer: StreamWriter,
    framing: Framing,
    sent: bool,
    keep_alive: Duration,
}

async fn perform(
    inner: Arc<Inner>,
    number: u64,
    writer: StreamWriter,
    play: Play,
    framing: Framing,
    to: mpsc::Sender<std::io::Result<Bytes>>,
) {
    let mut watch = Watch::new(&inner, number);
    let mut performer = Performer { to, writer, framing, sent: false, keep_alive: inner.keep_alive };
    for beat in play.beats {
        let played = match beat {
            Beat::Wait(time) => performer.pause(time).await,
            Beat::Say(delta) => performer.say(&delta).await,
            Beat::Stall => {
                watch.stalled = true;
                // One word first: an agent shows that it is being answered, and can be cancelled then.
                let first =
                    if performer.sent { Ok(()) } else { performer.say(&Delta::Text("…".to_owned())).await };
                match first {
                    Ok(()) => performer.pause(inner.stall_limit).await,
                    gone => gone,
                }
            }
            Beat::Fail { kind, message, .. } => {
                let kind = kind.unwrap_or_else(|| "server_error".to_owned());
                let _ = performer.say(&Delta::Failed { kind, message }).await;
                return watch.end("error");
            }
            Beat::Cut => {
                let _ = performer.to.send(Err(std::io::Error::other("cut"))).await;
                return watch.end("cut");
            }
        };
        if played.is_err() {
            return watch.end("peer closed");
        }
    }
    if performer.framing == Framing::Array {
        let _ = performer.bytes(if performer.sent { "]" } else { "[]" }.to_owned()).await;
    }
    watch.end("complete");
}

impl Performer {
    async fn say(&mut self, delta: &Delta) -> Result<(), Gone> {
        for event in self.writer.push(delta) {
            let text = match self.framing {
                Framing::Events => event.encode(),
                Framing::Array if self.sent => format!(",\r\n{}", event.data),
                Framing::Array => format!("[{}", event.data),
            };
            self.sent = true;
            self.bytes(text).await?;
        }
        Ok(())
    }

    async fn bytes(&self, text: String) -> Result<(), Gone> {
        self.to.send(Ok(text.into())).await.map_err(|_| Gone)
    }

    /// Waits, keeps the stream alive, and notices when nobody listens any more.
    async fn pause(&self, time: Duration) -> Result<(), Gone> {
        let until = tokio::time::Instant::now() + time;
        loop {
            let beat = until.min(tokio::time::Instant::now() + self.keep_alive);
            tokio::select! {
                () = tokio::time::sleep_until(beat) => {}
                () = self.to.closed() => return Err(Gone),
            }
            if beat == until {
                return Ok(());
            }
            let alive =
                if self.framing == Framing::Array { "\r\n".to_owned() } else { self.writer.keep_alive() };
            self.bytes(alive).await?;
        }
    }
}
