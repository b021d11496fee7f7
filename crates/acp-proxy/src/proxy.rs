//! One conversation after another, or many at once: a client comes, an agent is opened for it, the two are joined, and
//! nothing is left when one of them is gone.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use acp_dialect::{Bridge, Dialect, Options, Side, Translator};
use acp_host::{Ended, Joint, Watch};
use acp_link::child::{Child, Exit, Stage};
use acp_link::{Burst, Link, Tap};
use acp_rpc::{Direction, Frame, RpcError, View};
use acp_rules::Ending;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::greet::{ClientForm, Greeting, frames, greet};
use crate::lint::Lint;
use crate::record;
use crate::talk::{Level, Say, Saying, Talk};

/// How a proxy works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The form that clients speak.
    pub client: ClientForm,
    /// The form that the agent speaks.
    pub agent: Dialect,
    /// What translations must be told.
    pub options: Options,
    /// Transcripts: the first client's goes here, the others' have their number in the name; where the agent speaks
    /// another form, its own wire has a file with `agent` in the name.
    pub record: Option<PathBuf>,
    /// Whether the judge reads along and says what it finds.
    pub lint: bool,
    /// Whether differences between the two forms are told. What a peer does wrong always is.
    pub notes: bool,
    /// How long an agent may take to end by itself, and again after it was told to.
    pub grace: Duration,
    /// The rest after each frame to a `probe` client: those take one read for one message.
    pub pace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            client: ClientForm::Auto,
            agent: Dialect::V1,
            options: Options::default(),
            record: None,
            lint: false,
            notes: true,
            grace: Duration::from_secs(2),
            pace: Duration::from_millis(5),
        }
    }
}

/// An agent that was opened: its link, and its process if we started one.
pub type Opened = (Link, Option<Child>);

/// Opens an agent for one client.
pub type Opener = Arc<dyn Fn() -> BoxFuture<'static, Result<Opened, String>> + Send + Sync>;

/// How a conversation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client left.
    Left,
    /// The agent could not be opened, or went away by itself: why.
    AgentFailed(String),
    /// The client, or the agent, spoke a form that it should not: which.
    Refused(String),
    /// We were told to stop.
    Stopped,
}

/// How long a client may take to read the last words, and to close its end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a client whose agent did not start may take to ask something that can be answered with the reason.
const FIRST_WORDS: Duration = Duration::from_secs(5);

/// Joins each client to an agent of its own.
pub struct Proxy {
    settings: Settings,
    open: Opener,
    talk: Talk,
    say: Say,
    count: AtomicU64,
    base: u64,
    /// Session ids that differ on the two sides, from conversations that have ended: of clients, of agents.
    known: Mutex<[Vec<(String, String)>; 2]>,
}

impl Proxy {
    /// A proxy that opens agents with `open` and tells what happens with `say`.
    #[must_use]
    pub fn new(settings: Settings, open: Opener, say: Say) -> Proxy {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Proxy {
            settings,
            open,
            talk: Talk::new(say.clone()),
            say,
            count: AtomicU64::new(0),
            base: u64::try_from(now.as_millis()).unwrap_or_default(),
            known: Mutex::default(),
        }
    }

    pub(crate) fn say(&self, level: Level, words: &str) {
        (self.say)(&Saying::plain(level, words));
    }

    /// Serves one client until it, its agent or we must go. Leaves no process behind.
    pub async fn serve(&self, client: Link, mut stop: watch::Receiver<bool>) -> Outcome {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut taps = Vec::new();
        let client = self.tapped(client, number, Direction::ClientToAgent, &mut taps);
        let outcome = self.conversation(client, number, &mut taps, &mut stop).await;
        for tap in taps {
            if let Err(error) = tap.finish() {
                self.talk.about(number, &error.to_string());
            }
        }
        match &outcome {
            Outcome::AgentFailed(why) | Outcome::Refused(why) => self.talk.about(number, why),
            Outcome::Left | Outcome::Stopped => {}
        }
        outcome
    }

    async fn conversation(
        &self,
        mut client: Link,
        number: u64,
        taps: &mut Vec<Tap>,
        stop: &mut watch::Receiver<bool>,
    ) -> Outcome {
        let (dialect, first) = match self.settings.client {
            ClientForm::Only(dialect) => (dialect, Vec::new()),
            ClientForm::Auto => {
                let greeting = tokio::select! {
                    greeting = greet(&mut client.rx) => greeting,
                    () = stopped(stop) => return Outcome::Stopped,
                };
                match greeting {
                    Greeting::Speaks { dialect, first, remark } => {
                        if let Some(remark) = remark {
                            self.talk.about(number, &remark);
                        }
                        (dialect, first)
                    }
                    Greeting::Unknown { answer, reason } => {
                        let _ = client.tx.try_send(answer.raw());
                        farewell(client, stop).await;
                        return Outcome::Refused(reason);
                    }
                    Greeting::Silent => return Outcome::Left,
                }
            }
        };
        let opened = tokio::select! {
            opened = (self.open)() => opened,
            () = stopped(stop) => return Outcome::Stopped,
        };
        let (agent, child) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                excuse(&mut client, &first, &why).await;
                farewell(client, stop).await;
                return Outcome::AgentFailed(why);
            }
        };
        let agent =
            if dialect == self.settings.agent { agent } else { self.tapped_agent(agent, number, taps) };
        self.join(client, dialect, first, agent, child, number, stop).await
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the two ends of one conversation, each with what belongs to it"
    )]
    async fn join(
        &self,
        client: Link,
        dialect: Dialect,
        first: Vec<Burst>,
        agent: Link,
        mut child: Option<Child>,
        number: u64,
        stop: &mut watch::Receiver<bool>,
    ) -> Outcome {
        let lint = self.lint(dialect, number);
        let mut joint =
            Joint::new(client, agent, self.bridge(dialect, number), self.watch(number, lint.clone()));
        if dialect == Dialect::Probe {
            joint.pace(self.settings.pace);
        }
        joint.begin_with(first);
        let mut ended = tokio::select! {
            ended = joint.run() => Some(ended),
            () = stopped(stop) => None,
        };
        if ended == Some(Ended::ClientDone) {
            ended = self.finish(&mut joint, child.as_mut(), stop).await;
        }
        if ended.is_none() {
            joint.answer_open("the proxy is shutting down");
            let _ = timeout(Duration::from_millis(100), joint.run()).await;
        }
        if let Some(lint) = lint {
            let agent_went = matches!(ended, Some(Ended::AgentGone));
            lint.close(if agent_went { Ending::AgentExited } else { Ending::ClientClosed });
        }
        self.remember(&mut joint);
        let (client, agent) = joint.into_links();
        let unasked = child.as_ref().and_then(Child::try_wait);
        let (exit, ()) = tokio::join!(end_agent(agent, child, self.settings.grace), async {
            match &ended {
                Some(Ended::ClientGone) => drop(client),
                _ => farewell(client, stop).await,
            }
        });
        match ended {
            None => Outcome::Stopped,
            Some(Ended::Refused { side, reason }) => {
                Outcome::Refused(format!("the {side} was refused: {reason}"))
            }
            Some(Ended::AgentGone) => match unasked.or(exit) {
                Some(exit) if exit.stage > Stage::Unasked && exit.success() => Outcome::Left,
                Some(exit) => Outcome::AgentFailed(format!("the agent ended: {exit}")),
                None => Outcome::AgentFailed("the agent closed the connection".to_owned()),
            },
            Some(Ended::ClientDone | Ended::ClientGone) => Outcome::Left,
        }
    }

    /// The client has ended its output. What the agent still says is passed on as long as there is something; then the
    /// agent is ended.
    async fn finish(
        &self,
        joint: &mut Joint,
        child: Option<&mut Child>,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<Ended> {
        loop {
            let before = joint.moved();
            tokio::select! {
                ended = joint.run() => return Some(as_left(ended)),
                () = stopped(stop) => return None,
                () = sleep(self.settings.grace) => {}
            }
            if joint.moved() == before && !joint.is_holding() {
                break;
            }
        }
        // It has had its time. Its last output is read, because otherwise it could not end.
        if let Some(child) = child {
            child.terminate();
            let last = async {
                tokio::select! {
                    _ = joint.run() => {}
                    () = sleep(self.settings.grace) => {}
                }
            };
            tokio::select! {
                _ = child.wait() => { let _ = timeout(LAST_WORDS, joint.run()).await; }
                () = last => {}
                () = stopped(stop) => return None,
            }
        }
        Some(Ended::ClientGone)
    }

    fn bridge(&self, client: Dialect, number: u64) -> Bridge {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let side = |dialect, side, known: &Vec<(String, String)>| {
            let options = Options {
                session_prefix: format!("session_{:x}_{number:x}", self.base),
                sessions: known.clone(),
                ..self.settings.options.clone()
            };
            Translator::new(dialect, side, options)
        };
        let [clients, agents] = &*known;
        Bridge::of(side(client, Side::Client, clients), side(self.settings.agent, Side::Agent, agents))
    }

    fn remember(&self, joint: &mut Joint) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (side, pairs) in [Side::Client, Side::Agent].into_iter().zip(&mut *known) {
            for pair in joint.bridge().at(side).session_ids() {
                if !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
    }

    fn watch(&self, number: u64, lint: Option<Lint>) -> Watch {
        let (talk, all) = (self.talk.clone(), self.settings.notes);
        let mut watch = Watch::notes(move |side, note| {
            if all || note.kind.is_misbehaviour() {
                talk.note(number, side, note);
            }
        });
        if let Some(lint) = lint {
            watch.seen = Some(Box::new(move |from, at, frame| lint.seen(from, at, frame)));
        }
        watch
    }

    fn lint(&self, client: Dialect, number: u64) -> Option<Lint> {
        if !self.settings.lint {
            return None;
        }
        if client == self.settings.agent && client != Dialect::V1 {
            let words =
                format!("client and agent both speak {client}: nothing is translated, so nothing is judged");
            self.talk.about(number, &words);
            return None;
        }
        Some(Lint::new(self.talk.clone(), number))
    }

    fn tapped(&self, link: Link, number: u64, received: Direction, taps: &mut Vec<Tap>) -> Link {
        let Some(path) = &self.settings.record else { return link };
        let path = match received {
            Direction::ClientToAgent => record::of_client(path, number),
            Direction::AgentToClient => record::of_agent(path, number),
        };
        match Tap::create(path) {
            Ok(tap) => {
                let link = link.tapped(&tap, received);
                taps.push(tap);
                link
            }
            Err(error) => {
                self.talk.about(number, &error.to_string());
                link
            }
        }
    }

    fn tapped_agent(&self, link: Link, number: u64, taps: &mut Vec<Tap>) -> Link {
        self.tapped(link, number, Direction::AgentToClient, taps)
    }
}

/// Resolves once we are told to stop, or nobody can tell us any more.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// After the client has ended its output, the agent's end is as it should be.
fn as_left(ended: Ended) -> Ended {
    match ended {
        Ended::AgentGone | Ended::ClientDone => Ended::ClientDone,
        other => other,
    }
}

/// Ends the agent. Nobody reads it any more.
async fn end_agent(agent: Link, child: Option<Child>, grace: Duration) -> Option<Exit> {
    let Link { tx, rx } = agent;
    drop(rx);
    match child {
        Some(mut child) => Some(child.shutdown(grace).await),
        None => {
            let _ = timeout(LAST_WORDS, tx.finish()).await;
            None
        }
    }
}

/// Tells the client why there is no agent, in answer to what it asked.
async fn excuse(client: &mut Link, first: &[Burst], why: &str) {
    let asked = |burst: &Burst| {
        frames(burst).find_map(|frame| match frame.view() {
            View::Request { id, .. } => Some(id.clone()),
            _ => None,
        })
    };
    let mut id = first.iter().find_map(asked);
    let listen = async {
        while id.is_none() {
            let Some(burst) = client.rx.recv_burst().await else { break };
            id = asked(&burst);
        }
    };
    let _ = timeout(FIRST_WORDS, listen).await;
    if let Some(id) = id {
        let _ = client.tx.try_send(Frame::failure(&id, &RpcError::internal(why)).raw());
    }
}

/// Closes the client's link after what is queued for it. What it still says is read, unseen: a socket that is closed with
/// unread bytes in it resets the connection, and the client could lose what it was told last.
async fn farewell(client: Link, stop: &mut watch::Receiver<bool>) {
    let Link { tx, mut rx } = client;
    let finished = async {
        let _ = tx.finish().await;
    };
    let read = async { while rx.recv().await.is_some() {} };
    let patience = async {
        stopped(stop).await;
        sleep(LAST_WORDS).await;
    };
    tokio::pin!(finished, read, patience);
    let mut heard = false;
    loop {
        tokio::select! {
            () = &mut finished => break,
            () = &mut read, if !heard => heard = true,
            () = &mut patience => return,
        }
    }
    if !heard {
        let _ = timeout(LAST_WORDS, &mut read).await;
    }
}
