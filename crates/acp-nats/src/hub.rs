//! Everything that a proxy has with NATS: the connection, the streams, and a publisher for each session.

mod opening;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, RawMessageErrorKind};
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::capacity::TaskTrouble;
use super::claim::Claim;
use super::claim::Ended;
use super::clock::Epochs;
use super::connect::{Access, AccessError, Connection, ConnectionState};
use super::error::StoreError;
use super::owners::Owners;
use super::private;
use super::publisher::{Publisher, PublisherInput, PublisherItem};
use super::reach::Reach;
use super::repeats::RepeatFilter;
use super::spool::leftovers;
use super::streams::{StreamError, Streams};
use super::subject::Subjects;
use crate::aggregate::AggregateLimits;
use acp_proxy::event::{Body, Event};
use acp_proxy::{LogFields, ProxyLog};
use tracing::Level;

/// How a proxy uses NATS.
#[derive(Clone, Debug)]
pub struct NatsSettings {
    /// Where it is.
    pub access: Access,
    /// The name under which the agent's tasks are queued.
    pub agent: String,
    /// The names of the subjects.
    pub subjects: Subjects,
    /// How text is joined.
    pub limits: AggregateLimits,
    /// How many events of a session may be on their way at once.
    pub window: usize,
    /// Where events wait that NATS does not have yet.
    pub spool: PathBuf,
    /// How many bytes of a session may wait there.
    pub spool_limit: u64,
    /// Copies of each stream in a cluster.
    pub replicas: usize,
    /// Whether every frame is published as it is, too.
    pub live: bool,
}

/// What NATS is doing, for those who run the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatsStatus {
    /// The connection stands, the streams are there, and what a crash left is stored.
    pub ready: bool,
    /// Sessions that are published.
    pub sessions: u64,
    /// Events that are stored.
    pub stored: u64,
    /// Events that wait, in memory or on disk.
    pub waiting: u64,
    /// Sessions that another proxy has taken over.
    pub fenced: u64,
    /// Tasks that run.
    pub tasks: u64,
    /// Tasks that have ended.
    pub ended: u64,
    /// Tasks that became dead letters.
    pub dead: u64,
    /// Permission requests that nobody answered.
    pub unanswered: u64,
}

/// Why NATS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// No connection.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A stream.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The spool.
    #[error("cannot use the spool in {}: {error}", folder.display())]
    Spool {
        /// Where.
        folder: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Two proxies on one spool.
    #[error("another proxy uses the spool in {}; give each its own with --spool", .0.display())]
    SpoolInUse(PathBuf),
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stored: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) fenced: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) dead: AtomicU64,
    pub(super) unanswered: AtomicU64,
}

/// What all publishers and tasks share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) streams: OnceLock<Streams>,
    pub(super) subjects: Subjects,
    pub(super) agent: String,
    /// This proxy's name among others.
    pub(super) proxy: String,
    pub(super) limits: AggregateLimits,
    pub(super) window: usize,
    pub(super) spool: PathBuf,
    pub(super) spool_limit: u64,
    pub(super) began: Instant,
    epochs: Epochs,
    pub(super) counts: Counts,
    log: ProxyLog,
    said: Mutex<RepeatFilter>,
    reach: Arc<Reach>,
    /// Why the streams cannot be used.
    unready: Mutex<Option<String>>,
    /// Ready to publish: connected, streams there, nothing left of a crash.
    pub(super) open: watch::Receiver<ConnectionState>,
    live: Option<mpsc::Sender<(String, bytes::Bytes)>>,
    /// The streams must be looked at again.
    missing: Notify,
    /// Why no tasks are taken.
    pub(super) trouble: watch::Sender<TaskTrouble>,
    /// By their sessions, the tasks whose prompts are on their way to the agent.
    pub(super) prompting: Mutex<HashMap<String, String>>,
    pub(super) owners: Owners,
    /// When the spool could not be written the last time, and why.
    unwritten: Mutex<Option<(Instant, String)>>,
}

/// The last event of a session, as far as its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastEvent {
    pub(super) sequence: u64,
    pub(super) epoch: u64,
    pub(super) seq: u64,
}

/// Where the publisher of a session is reached.
struct Inbox {
    items: mpsc::UnboundedSender<PublisherItem>,
    epoch: u64,
}

/// A proxy's side of NATS. Clones share it.
#[derive(Clone)]
pub struct Nats {
    pub(super) shared: Arc<Shared>,
    sessions: Arc<Mutex<HashMap<Arc<str>, Inbox>>>,
    fatal: watch::Receiver<Option<String>>,
    _lock: Arc<std::fs::File>,
}

/// How many frames may wait to be published live before some are left out.
const LIVE_QUEUE_FRAMES: usize = 4096;
/// The longest wait for an acknowledgement before one looks at what is stored.
const ACK_TIMEOUT: Duration = Duration::from_secs(15);

/// So long it is told that the spool could not be written.
const SPOOL_TROUBLE_SHOWN: Duration = Duration::from_secs(5);

/// More than the headers of an event have: its id, the sequence it comes after, its trace. They count as payload.
const EVENT_HEADER_BYTES: usize = 512;
/// What a server takes that was never seen.
const UNSEEN_PAYLOAD_BYTES: usize = 32 * 1024;

impl Nats {
    /// Connects in the background; until then, and whenever the connection is lost, events are spooled.
    pub fn start(settings: NatsSettings, log: ProxyLog) -> BoxFuture<'static, Result<Nats, NatsError>> {
        Box::pin(async move {
            let folder = settings.spool.clone();
            let wrong = |error| NatsError::Spool { folder: folder.clone(), error };
            private::folder(&settings.spool).map_err(wrong)?;
            let lock = private::file(&settings.spool.join("lock")).map_err(wrong)?;
            lock.try_lock().map_err(|error| match error {
                std::fs::TryLockError::WouldBlock => NatsError::SpoolInUse(settings.spool.clone()),
                std::fs::TryLockError::Error(error) => {
                    NatsError::Spool { folder: settings.spool.clone(), error }
                }
            })?;
            // Before any session begins here: its events are not what a crash has left.
            let (left, unread) =
                leftovers(&settings.spool).map_err(|error| NatsError::Spool { folder, error })?;
            for path in unread {
                let words = format!("nothing in {} is an event: it is kept and not sent", path.display());
                log.error(&words);
            }
            let proxy = super::trace::random_id();
            let Connection { client, standing: raw, reach } = settings
                .access
                .connect(&format!("acp proxy {}", settings.agent), true, "events are spooled", &log)
                .await?;
            let context =
                ContextBuilder::new().timeout(ACK_TIMEOUT).max_ack_inflight(1 << 20).build(client.clone());
            let (tell_open, open) = watch::channel(ConnectionState::default());
            let (tell_fatal, fatal) = watch::channel(None);
            let live = settings.live.then(|| live(client.clone()));
            let shared = Arc::new(Shared {
                client,
                context,
                streams: OnceLock::new(),
                subjects: settings.subjects,
                agent: settings.agent,
                proxy,
                limits: settings.limits,
                window: settings.window.max(1),
                spool: settings.spool,
                spool_limit: settings.spool_limit,
                began: Instant::now(),
                epochs: Epochs::default(),
                counts: Counts::default(),
                log,
                said: Mutex::default(),
                reach,
                unready: Mutex::default(),
                open,
                live,
                missing: Notify::new(),
                trouble: watch::Sender::default(),
                owners: Owners::default(),
                prompting: Mutex::default(),
                unwritten: Mutex::default(),
            });
            tokio::spawn(opening::open_up(
                shared.clone(),
                left,
                raw,
                tell_open,
                tell_fatal,
                settings.replicas,
            ));
            Ok(Nats { shared, sessions: Arc::default(), fatal, _lock: Arc::new(lock) })
        })
    }

    /// Waits until NATS can never be used, and says why: a stream that is not ours.
    pub fn fatal(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let mut fatal = self.fatal.clone();
            let why = fatal.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            match why {
                Some(why) => why,
                None => std::future::pending().await,
            }
        })
    }

    /// Waits until events are being stored.
    pub fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut open = self.shared.open.clone();
            if open.wait_for(|standing| standing.up).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    /// What is going on.
    #[must_use]
    pub fn report(&self) -> NatsStatus {
        let counts = &self.shared.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        NatsStatus {
            ready: self.shared.open.borrow().up,
            sessions: self.sessions().len() as u64,
            stored: read(&counts.stored),
            waiting: read(&counts.waiting),
            fenced: read(&counts.fenced),
            tasks: read(&counts.running),
            ended: read(&counts.ended),
            dead: read(&counts.dead),
            unanswered: read(&counts.unanswered),
        }
    }

    /// Why nothing is stored now, if so.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        if self.report().ready {
            return None;
        }
        let unready = self.shared.unready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let connected = self.shared.client.connection_state() == State::Connected;
        let why = match (self.shared.reach.cause(), unready) {
            (Some(why), _) if !connected => format!("cannot be reached: {why}"),
            (_, Some(why)) if connected => format!("is not ready: {why}"),
            _ => "cannot be reached, or is not ready".to_owned(),
        };
        Some(format!("NATS {why}; events are spooled"))
    }

    /// Why no tasks are taken though NATS is there, if so.
    #[must_use]
    pub fn trouble(&self) -> TaskTrouble {
        self.shared.trouble.borrow().clone()
    }

    /// Why the spool cannot be written, if that was so a moment ago: what waits there is tried again and again.
    #[must_use]
    pub fn spool_trouble(&self) -> Option<String> {
        let unwritten = self.shared.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, why) = unwritten.as_ref().filter(|(at, _)| at.elapsed() < SPOOL_TROUBLE_SHOWN)?;
        Some(why.clone())
    }

    /// Waits until everything is stored, at most so long. What is not, is in the spool.
    pub fn flush(&self, patience: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let stored = async {
                while self.shared.counts.waiting.load(Ordering::Relaxed) > 0 || !self.idle() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let _ = tokio::time::timeout(patience, stored).await;
        })
    }

    fn idle(&self) -> bool {
        self.sessions().is_empty()
    }

    /// Says which task the next turn of a session is for. Resolves when the end of that turn is stored or the turn was
    /// given up before it began, and with an error when another proxy has taken the session over.
    pub(super) fn expect(
        &self,
        session: &str,
        task: &str,
        trace: Option<Arc<str>>,
    ) -> oneshot::Receiver<Ended> {
        let (ended, end) = oneshot::channel();
        let what = PublisherInput::Task { id: task.to_owned(), trace, ended };
        self.put(&Arc::from(session), PublisherItem { at: Instant::now(), what, gate: None });
        end
    }

    /// A turn that was expected and has not ended never will: it is stored as interrupted, unless it never began.
    pub(super) fn give_up(&self, session: &str, why: &str) {
        self.put(
            &Arc::from(session),
            PublisherItem { at: Instant::now(), what: PublisherInput::GiveUp(why.to_owned()), gate: None },
        );
    }

    /// Something that happened, told by ourselves.
    pub(super) fn tell(&self, session: &str, body: Body) {
        self.put(
            &Arc::from(session),
            PublisherItem { at: Instant::now(), what: PublisherInput::Body(body), gate: None },
        );
    }

    /// Hands over what happened.
    pub(super) fn put(&self, session: &Arc<str>, item: PublisherItem) {
        let mut sessions = self.sessions();
        let item = match sessions.get(session) {
            Some(known) => match known.items.send(item) {
                Ok(()) => return,
                Err(mpsc::error::SendError(item)) => item,
            },
            None => item,
        };
        let inbox = self.open_session(&mut sessions, session);
        let _ = inbox.send(item);
    }

    fn open_session(
        &self,
        sessions: &mut HashMap<Arc<str>, Inbox>,
        name: &Arc<str>,
    ) -> mpsc::UnboundedSender<PublisherItem> {
        let (inbox, items) = mpsc::unbounded_channel();
        let standing = self.shared.open.clone();
        let epoch = self.shared.epochs.next();
        let publisher = Publisher::new(self.shared.clone(), name.clone(), epoch, standing);
        let (all, own) = (self.sessions.clone(), name.clone());
        tokio::spawn(publisher.run(items, move |items| {
            let mut sessions = all.lock().unwrap_or_else(PoisonError::into_inner);
            if !items.is_empty() {
                return false;
            }
            // Whoever comes after this finds no inbox, or a closed one, and opens another.
            items.close();
            sessions.remove(&own);
            true
        }));
        sessions.insert(name.clone(), Inbox { items: inbox.clone(), epoch });
        inbox
    }

    /// The epoch of a session that is published here.
    pub(super) fn epoch_of(&self, session: &str) -> Option<u64> {
        self.sessions().get(session).map(|inbox| inbox.epoch)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<Arc<str>, Inbox>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn say(&self, level: Level, words: &str) {
        self.log.event(level, words, &LogFields::default());
    }

    /// Something about a task, with its parts for logs.
    pub(super) fn say_task(&self, words: &str, claim: &Claim, stop_reason: Option<&str>) {
        let fields = LogFields {
            task: Some(&claim.task),
            session: Some(&claim.session),
            traceparent: claim.trace.as_deref(),
            stop_reason,
            ..LogFields::default()
        };
        self.log.event(Level::INFO, &format!("task {:?} {words}", claim.task), &fields);
    }

    /// What would be said again and again while something is wrong.
    pub(super) fn say_once(&self, level: Level, words: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_due(words, Instant::now()) {
            drop(said);
            self.say(level, words);
        }
    }

    /// Whether the streams can be used: why not.
    fn streams_are(&self, unready: Option<String>) {
        *self.unready.lock().unwrap_or_else(PoisonError::into_inner) = unready;
    }

    pub(super) fn spool_failed(&self, why: &str) {
        let failed = Some((Instant::now(), why.to_owned()));
        *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }

    /// The largest payload of one message, with plenty of room for headers. Before the first connection nobody knows what
    /// the server takes, and what turns out to be too large can never be sent: few take as little as this.
    pub(super) fn largest(&self) -> usize {
        let most = match self.streams.get() {
            Some(_) => self.client.max_payload(),
            None => UNSEEN_PAYLOAD_BYTES,
        };
        most - (most / 4).min(4096)
    }

    /// The largest payload that the server takes with the headers of an event.
    pub(super) fn most(&self) -> usize {
        self.client.max_payload().saturating_sub(EVENT_HEADER_BYTES)
    }

    pub(super) fn publish_live(&self, session: &str, frame: &bytes::Bytes) {
        if let Some(live) = &self.live {
            let _ = live.try_send((self.subjects.live(session), frame.clone()));
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The last event on a subject.
    pub(super) async fn last_event(&self, subject: &str) -> Result<Option<LastEvent>, StoreError> {
        let streams = self.streams.get().ok_or(StoreError::NoStreams)?;
        match streams.events.get_last_raw_message_by_subject(subject).await {
            Ok(message) => {
                let (epoch, seq) = place(&message.payload);
                Ok(Some(LastEvent { sequence: message.sequence, epoch, seq }))
            }
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(StoreError::nats(error)),
        }
    }

    /// Whether anything of an epoch is stored on a subject, up to a sequence.
    pub(super) async fn stored_of(&self, subject: &str, epoch: u64, up_to: u64) -> Result<bool, StoreError> {
        let mut from = 1;
        while from <= up_to {
            match self.event_from(subject, from).await? {
                Some(found) if found.epoch == epoch => return Ok(true),
                Some(found) => from = found.sequence + 1,
                None => break,
            }
        }
        Ok(false)
    }

    /// The first event on a subject whose place in the stream is not before `from`.
    pub(super) async fn event_from(&self, subject: &str, from: u64) -> Result<Option<LastEvent>, StoreError> {
        let streams = self.streams.get().ok_or(StoreError::NoStreams)?;
        match streams.events.raw_message_builder().sequence(from).next_by_subject(subject).send().await {
            Ok(message) => {
                let (epoch, seq) = place(&message.payload);
                Ok(Some(LastEvent { sequence: message.sequence, epoch, seq }))
            }
            Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(StoreError::nats(error)),
        }
    }

    /// Removes events by their places in the stream.
    pub(super) async fn remove_events(&self, sequences: &[u64]) -> Result<(), StoreError> {
        let streams = self.streams.get().ok_or(StoreError::NoStreams)?;
        for sequence in sequences {
            streams.events.delete_message(*sequence).await.map_err(|error| {
                let words =
                    format!("event {sequence} of the stream came too early and cannot be removed: {error}");
                StoreError::nats(words)
            })?;
        }
        Ok(())
    }
}

/// Epoch and number of a stored event; zeros where it is none of ours.
fn place(payload: &[u8]) -> (u64, u64) {
    Event::parse(payload).map(|event| event.place()).unwrap_or_default()
}

fn live(client: Client) -> mpsc::Sender<(String, bytes::Bytes)> {
    let (frames, mut queue) = mpsc::channel::<(String, bytes::Bytes)>(LIVE_QUEUE_FRAMES);
    tokio::spawn(async move {
        while let Some((subject, frame)) = queue.recv().await {
            if frame.len() <= client.max_payload() {
                let _ = client.publish(subject, frame).await;
            }
        }
    });
    frames
}
