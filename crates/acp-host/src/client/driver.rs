//! The task that holds the connection: it never waits for one thing only, so that neither side can block the other.

mod machine;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use acp_driver::drive;
use acp_link::child::{Child, Exit};
use acp_link::{Link, LinkClosed};
use acp_proto::method;
use acp_rpc::{Direction, Frame, Id, NotSent, Peer, PeerLimits, Received, Reply, RpcError, View};
use agent_client_protocol_schema::v1::{CancelNotification, SessionUpdate};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use machine::Ending;

use super::error::{Gone, LastWords};
pub(super) use super::failure::Failure;
use super::turn::{Note, TurnUpdate};
use super::{Observed, RawObserver};
use crate::providers::{ProviderAnswer, Providers};

/// How long the end of the output may precede the end of the process.
const FAREWELL: Duration = Duration::from_secs(2);

/// So many requests of the agent are answered at once.
const MOST_ASKED: usize = 1024;
/// So many bytes of requests, and as many of answers, are held before the agent has to wait.
const MOST_BYTES: usize = 32 << 20;

/// So many requests with large answers are answered at once.
const MOST_LARGE: usize = 2;

/// What a request of the agent takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weight {
    bytes: usize,
    /// Whether the answer may be large.
    is_large: bool,
}

pub(crate) enum Command {
    Request(Request),
    /// A line as it is.
    Line(Bytes),
    /// Bytes as they are.
    Raw(Bytes),
    /// Cancels the turn of a session.
    Cancel(String),
    Close {
        grace: Duration,
        done: oneshot::Sender<Option<Exit>>,
    },
}

pub(crate) struct Request {
    pub method: String,
    pub params: Box<RawValue>,
    pub timeout: Option<Duration>,
    /// Runs before the next frame is looked at.
    pub then: Option<Then>,
    pub reply: ReplyTo,
}

pub(crate) type Then = Box<dyn FnOnce(&Frame) + Send>;

pub(crate) enum ReplyTo {
    Caller(oneshot::Sender<Result<Frame, Failure>>),
    /// The turn of a session.
    Turn(String, mpsc::Sender<Note>),
}

pub(crate) struct Driver {
    began: Instant,
    child: Option<Child>,
    peer: Peer<(), Waiter>,
    providers: Providers,
    commands: mpsc::Receiver<Command>,
    turns: HashMap<String, mpsc::Sender<Note>>,
    out: mpsc::Sender<Note>,
    /// Notes on their way to whoever reads them; while there are any, nothing more is received.
    backlog: VecDeque<(mpsc::Sender<Note>, Note)>,
    /// Lines on their way to the agent.
    outgoing: VecDeque<(Bytes, bool)>,
    answers: JoinSet<(ProviderAnswer, Weight)>,
    /// Requests with large answers that wait for their turn.
    deferred: VecDeque<(BoxFuture<'static, ProviderAnswer>, Weight)>,
    /// How many of these are being answered.
    large: usize,
    /// How many bytes wait to be written.
    unread_bytes: usize,
    /// How many of these were handed over last: they may still wait.
    handed_over: usize,
    /// How large the requests are that are being answered.
    asked_bytes: usize,
    observer: RawObserver,
    /// Why the link is to be let go of for a moment.
    ended: Option<Ending>,
    gone: Option<(Gone, LastWords)>,
    /// What the last frame complained of, if it was an error that answers nothing.
    complaint: Option<String>,
}

struct Waiter {
    timeout: Option<Duration>,
    then: Option<Then>,
    reply: ReplyTo,
}

impl Driver {
    pub(super) fn new(
        child: Option<Child>,
        providers: Providers,
        commands: mpsc::Receiver<Command>,
        out: mpsc::Sender<Note>,
        observer: RawObserver,
    ) -> Driver {
        Driver {
            began: Instant::now(),
            child,
            peer: Peer::remembering(PeerLimits::default()),
            providers,
            commands,
            turns: HashMap::new(),
            out,
            backlog: VecDeque::new(),
            outgoing: VecDeque::new(),
            answers: JoinSet::new(),
            deferred: VecDeque::new(),
            large: 0,
            unread_bytes: 0,
            handed_over: 0,
            asked_bytes: 0,
            observer,
            ended: None,
            gone: None,
            complaint: None,
        }
    }

    /// Runs until every handle is dropped; then the agent, if we started it, is killed with us.
    pub(super) async fn run(mut self, mut link: Link) {
        loop {
            match drive(&mut link, &mut self).await {
                Ending::Dropped => return,
                Ending::Lost => self.lost(link.rx.end().map(ToString::to_string)).await,
                Ending::Unwritable(closed) => self.lost_writing(closed).await,
                Ending::Close { grace, done } => {
                    let exit = self.close(&mut link, grace).await;
                    let _ = done.send(exit);
                }
            }
        }
    }

    /// Whether more of the agent may be read: what it asks for, and what it does not read of our answers, is for it to
    /// decide, and must not fill our memory.
    fn has_room(&self) -> bool {
        self.answers.len() + self.deferred.len() < MOST_ASKED
            && self.asked_bytes < MOST_BYTES
            && self.unread_bytes < MOST_BYTES
    }

    /// Begins to answer what waits: small answers at once, few large ones at a time, and none while the agent does not read
    /// those that it has.
    fn start_deferred(&mut self) {
        let mut at = 0;
        while let Some((_, weight)) = self.deferred.get(at) {
            if weight.is_large && (self.large >= MOST_LARGE || self.unread_bytes >= MOST_BYTES) {
                at += 1;
                continue;
            }
            if let Some((answer, weight)) = self.deferred.remove(at) {
                self.large += usize::from(weight.is_large);
                self.answers.spawn(async move { (answer.await, weight) });
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Request(request) => self.request(request),
            Command::Line(line) => self.send(line),
            Command::Raw(bytes) => self.enqueue(bytes, false),
            Command::Cancel(session) => self.cancel(&session),
            Command::Close { grace, done } => self.ended = Some(Ending::Close { grace, done }),
        }
    }

    /// The agent hears of the cancellation before it gets the answers to what is open.
    fn cancel(&mut self, session: &str) {
        let params = CancelNotification::new(session.to_owned());
        self.send(Frame::notification(method::SESSION_CANCEL, &params).raw().clone());
        self.providers.cancel_session(session);
    }

    fn request(&mut self, request: Request) {
        let Request { method, params, timeout, then, reply } = request;
        if let Some((how, stderr)) = self.gone.clone() {
            self.reply(reply, Err(Failure::Gone(how, stderr)));
            return;
        }
        let turn = match &reply {
            ReplyTo::Turn(session, notes) => Some((session.clone(), notes.clone())),
            ReplyTo::Caller(_) => None,
        };
        let waiter = Waiter { timeout, then, reply };
        match self.peer.request_with(self.began.elapsed(), &method, &params, timeout, waiter) {
            Ok((_, frame)) => {
                if let Some((session, notes)) = turn {
                    self.providers.turn_began(&session);
                    self.turns.insert(session, notes);
                }
                self.send(frame.raw().clone());
            }
            Err(NotSent { why, ours: Waiter { reply, .. } }) => {
                let how = Gone::Disconnected(why.to_string());
                self.reply(reply, Err(Failure::Gone(how, LastWords::default())));
            }
        }
    }

    fn send(&mut self, line: Bytes) {
        if self.observer.receiver_count() > 0 {
            self.observe(Direction::ClientToAgent, Frame::parse(line.clone()));
        }
        self.enqueue(line, true);
    }

    fn enqueue(&mut self, bytes: Bytes, whole: bool) {
        self.unread_bytes += bytes.len();
        self.outgoing.push_back((bytes, whole));
    }

    fn observe(&self, dir: Direction, frame: Frame) {
        let _ = self.observer.send(Observed { at: self.began.elapsed(), dir, frame });
    }

    fn arrived(&mut self, frame: Frame) {
        if self.observer.receiver_count() > 0 {
            self.observe(Direction::AgentToClient, frame.clone());
        }
        self.complaint = complaint(&frame);
        let received = self.peer.receive(self.began.elapsed(), frame);
        self.sort(received);
    }

    fn sort(&mut self, received: Received<Waiter>) {
        match received {
            Received::Asked { frame, .. } => {
                let is_large =
                    matches!(frame.method(), Some(method::FS_READ_TEXT_FILE | method::TERMINAL_OUTPUT));
                let weight = Weight { bytes: frame.raw().len(), is_large };
                self.asked_bytes += weight.bytes;
                self.deferred.push_back((self.providers.answer(&frame).boxed(), weight));
                self.start_deferred();
            }
            Received::CancelAsked { frame, .. } => self.providers.observe(&frame),
            Received::Notified { frame } => {
                self.providers.observe(&frame);
                self.told(frame);
            }
            Received::Answered { frame, ours, .. } => self.settle(ours, Ok(frame)),
            Received::Violation(violation, frame) => {
                self.backlog.push_back((self.out.clone(), Note::Violation(violation, frame)));
            }
            Received::Batch(list) => list.into_iter().for_each(|received| self.sort(received)),
        }
    }

    fn told(&mut self, frame: Frame) {
        let View::Notification { method: method::SESSION_UPDATE, params: Some(params) } = frame.view() else {
            self.backlog.push_back((self.out.clone(), Note::Notification(frame)));
            return;
        };
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            session_id: String,
            #[serde(borrow)]
            update: &'a RawValue,
        }
        let Ok(params) = serde_json::from_str::<Params<'_>>(params) else {
            self.backlog.push_back((self.out.clone(), Note::Notification(frame)));
            return;
        };
        let update = serde_json::from_str::<SessionUpdate>(params.update.get()).ok().map(Box::new);
        let session = params.session_id;
        let reader = self.reader(Some(&session));
        self.backlog.push_back((reader, Note::Update(TurnUpdate { session, update, frame })));
    }

    /// Who reads what concerns a session: its turn, or else everyone's.
    fn reader(&self, session: Option<&str>) -> mpsc::Sender<Note> {
        session.and_then(|session| self.turns.get(session)).unwrap_or(&self.out).clone()
    }

    fn answered(&mut self, answer: &ProviderAnswer) {
        for record in &answer.log {
            let reader = self.reader(record.session.as_deref());
            self.backlog.push_back((reader, Note::Decision(record.clone())));
        }
        let frame = match &answer.outcome {
            Ok(result) => self.peer.respond(&answer.id, result),
            Err(error) => self.peer.fail(&answer.id, error),
        };
        if let Ok(frame) = frame {
            self.send(frame.raw().clone());
        }
    }

    fn settle(&mut self, waiter: Waiter, outcome: Result<Frame, Failure>) {
        if let (Ok(frame), Some(then)) = (&outcome, waiter.then) {
            then(frame);
        }
        self.reply(waiter.reply, outcome);
    }

    fn reply(&mut self, reply: ReplyTo, outcome: Result<Frame, Failure>) {
        match reply {
            ReplyTo::Caller(caller) => {
                let _ = caller.send(outcome);
            }
            ReplyTo::Turn(session, notes) => {
                self.providers.turn_ended(&session);
                if self.turns.get(&session).is_some_and(|running| running.same_channel(&notes)) {
                    self.turns.remove(&session);
                }
                self.backlog.push_back((notes, Note::Answer(outcome)));
            }
        }
    }

    fn expire(&mut self) {
        let words = self.last_words();
        for expired in self.peer.tick(self.began.elapsed()) {
            let after = expired.ours.timeout.unwrap_or_default();
            self.settle(expired.ours, Err(Failure::Timeout(after, words.clone())));
        }
    }

    fn last_words(&self) -> LastWords {
        LastWords(self.child.as_ref().map(Child::stderr_tail).unwrap_or_default())
    }

    /// The output ended: what is being waited for will not come.
    async fn lost(&mut self, end: Option<String>) {
        let exit = match &mut self.child {
            Some(child) => timeout(FAREWELL, child.wait()).await.ok(),
            None => None,
        };
        let how = match (exit, end) {
            (Some(exit), _) => Gone::Exited(exit),
            (None, Some(end)) => Gone::Disconnected(self.with_complaint(&end)),
            (None, None) => Gone::Disconnected(self.with_complaint("the connection ended")),
        };
        self.end(&how);
    }

    /// The end of a connection, and what was said last if that explains it.
    fn with_complaint(&self, end: &str) -> String {
        match &self.complaint {
            Some(said) => format!("{end} (its last words: {said})"),
            None => end.to_owned(),
        }
    }

    async fn lost_writing(&mut self, closed: LinkClosed) {
        let exit = match &mut self.child {
            Some(child) => timeout(FAREWELL, child.wait()).await.ok(),
            None => None,
        };
        self.end(&exit.map_or(Gone::Unwritable(closed), Gone::Exited));
    }

    fn drop_output(&mut self) {
        self.outgoing.clear();
        (self.unread_bytes, self.handed_over) = (0, 0);
    }

    fn end(&mut self, how: &Gone) {
        let words = self.last_words();
        self.gone.get_or_insert((how.clone(), words.clone()));
        self.drop_output();
        self.deferred.clear();
        self.answers.abort_all();
        self.providers.close();
        for open in self.peer.close() {
            self.settle(open.ours, Err(Failure::Gone(how.clone(), words.clone())));
        }
        self.backlog.push_back((self.out.clone(), Note::Closed(how.clone(), words)));
    }

    /// Ends the connection, and the agent if we started it.
    async fn close(&mut self, link: &mut Link, grace: Duration) -> Option<Exit> {
        self.providers.close();
        link.tx.close();
        let exit = match &mut self.child {
            None => None,
            Some(child) => {
                // An agent that still has something to say cannot end while nobody listens.
                let listen = async {
                    while link.rx.recv().await.is_some() {}
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    exit = child.shutdown(grace) => Some(exit),
                    () = listen => None,
                }
            }
        };
        if self.gone.is_none() {
            self.end(&Gone::ClosedByUs);
        }
        exit
    }
}

/// A place for the next note. A large one waits until the reader has taken all before it, so that few of them are in memory
/// at once.
async fn reserve(reader: Option<(mpsc::Sender<Note>, bool)>) -> Option<mpsc::OwnedPermit<Note>> {
    let (reader, is_large) = reader?;
    if is_large {
        drop(reader.reserve_many(reader.max_capacity()).await.ok()?);
    }
    reader.reserve_owned().await.ok()
}

/// Keeps the type of the observers in one place.
pub(super) fn observers() -> RawObserver {
    broadcast::channel(1024).0
}

/// What an error says that answers no request.
fn complaint(frame: &Frame) -> Option<String> {
    match frame.view() {
        View::Response { id: Id::Null, reply: Reply::Error(error) } => {
            RpcError::parse(error).ok().map(|error| error.message)
        }
        _ => None,
    }
}
