//! One conversation after another, or many at once: a client comes, an agent is opened for it, the two are joined, and
//! nothing is left when one of them is gone.

mod course;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use acp_dialect::{Bridge, Dialect, Options, Side, Translator};
use acp_host::{Ended, Joint, Watch};
use acp_link::child::Child;
use acp_link::{Burst, Link, Tap};
use acp_rpc::Direction;
use acp_rules::Ending;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::admit;
use crate::conduct::{Conduct, Counts};
use crate::desk::{Desk, Office};
use crate::endings::{end_agent, excuse, farewell, stopped};
use crate::folders::{self, FolderOpener};
use crate::greet::{ClientForm, Greeting, greet};
use crate::lint::Lint;
use crate::record;
use crate::settings::Settings;
use crate::station;
use crate::talk::{Level, Say, Saying, Talk};
use crate::witness::{self, Heard, Hearing, Orders, Reasons, Witness};

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
    /// We were told to end this one conversation: why.
    Closed(String),
    /// We cannot go on: why.
    Fault(String),
}

/// Who a client is, as far as its connection says.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    /// It has shown its token at the door.
    pub admitted: bool,
    /// The trace that it belongs to: a W3C `traceparent`.
    pub trace: Option<String>,
    /// The form that it speaks, where that is known whatever clients speak otherwise.
    pub form: Option<Dialect>,
    /// It stands for somebody who is asked elsewhere, and this is where it says how that came out.
    pub reasons: Option<Reasons>,
}

/// Who sees a conversation, where they stand, and what they tell it.
struct Attended {
    heard: Option<Heard>,
    by_desk: bool,
    orders: Orders,
}

const SHUTTING_DOWN: &str = "the proxy is shutting down";
/// How many pairs of session ids are remembered for later conversations, of clients and of agents.
const MOST_KNOWN: usize = 4096;

/// Joins each client to an agent of its own.
pub struct Proxy {
    pub(crate) settings: Settings,
    open: Opener,
    talk: Talk,
    say: Say,
    count: AtomicU64,
    base: u64,
    /// Session ids that differ on the two sides, from conversations that have ended: of clients, of agents.
    known: Mutex<[Vec<(String, String)>; 2]>,
    witness: Option<Arc<dyn Witness>>,
    office: Arc<Office>,
    counts: Counts,
    /// Session ids of an agent of a foreign form, where the desk stands between.
    agents: acp_host::Sessions,
    /// Starts agents in the folders of sessions, for agents that cannot be told a folder per session.
    folders: Option<FolderOpener>,
}

impl Proxy {
    /// A proxy that opens agents with `open` and tells what happens with `say`.
    #[must_use]
    pub fn new(settings: Settings, open: Opener, say: Say) -> Proxy {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Proxy {
            office: Office::new(settings.duties.clone(), &settings.metrics),
            counts: Counts::new(&settings.metrics),
            agents: acp_host::Sessions::default(),
            folders: None,
            settings,
            open,
            talk: Talk::new(say.clone()),
            say,
            count: AtomicU64::new(0),
            base: u64::try_from(now.as_millis()).unwrap_or_default(),
            known: Mutex::default(),
            witness: None,
        }
    }

    /// Gives each folder of a client an agent of its own, opened by `open`, where agents are told their folder at
    /// `initialize` and clients name one with each session.
    #[must_use]
    pub fn in_folders(mut self, open: FolderOpener) -> Proxy {
        if self.settings.agent == Dialect::V2025_1 {
            self.settings.options.per_folder = true;
            self.folders = Some(open);
        }
        self
    }

    /// Shows every conversation to `witness`, too.
    #[must_use]
    pub fn witnessed(mut self, witness: Arc<dyn Witness>) -> Proxy {
        self.witness = Some(witness);
        self
    }

    /// How many sessions there are, and may be.
    pub(crate) fn office(&self) -> &Office {
        &self.office
    }

    pub(crate) fn say(&self, level: Level, words: &str) {
        (self.say)(&Saying::plain(level, words));
    }

    /// A client was turned away.
    pub(crate) fn refused(&self, why: &str) {
        self.counts.refused.up();
        self.say(Level::Warn, &format!("a client was refused: {why}"));
    }

    /// Serves one client until it, its agent or we must go. Leaves no process behind.
    pub async fn serve(&self, client: Link, stop: watch::Receiver<bool>) -> Outcome {
        self.serve_guest(client, Guest::default(), stop).await
    }

    /// The same for one of whom something is known.
    pub async fn serve_guest(
        &self,
        mut client: Link,
        guest: Guest,
        mut stop: watch::Receiver<bool>,
    ) -> Outcome {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let _counted = self.counts.connection();
        if let (Some(token), false) = (&self.settings.token, guest.admitted) {
            let admitted = tokio::select! {
                admitted = admit::by_token(&mut client, token) => admitted,
                () = stopped(&mut stop) => return Outcome::Stopped,
            };
            if let Err(why) = admitted {
                self.counts.refused.up();
                self.talk.tell(Level::Warn, number, &why, &[]);
                farewell(client, &mut stop).await;
                return Outcome::Refused(why);
            }
        }
        let mut taps = Vec::new();
        let client = self.tapped(client, number, Direction::ClientToAgent, &mut taps);
        let outcome = self.conversation(client, number, &guest, &mut taps, &mut stop).await;
        for tap in taps {
            if let Err(error) = tap.finish() {
                self.talk.about(number, &error.to_string());
            }
        }
        match &outcome {
            Outcome::AgentFailed(why) => {
                self.counts.agents_failed.up();
                self.talk.tell(Level::Warn, number, why, &[]);
            }
            Outcome::Refused(why) => self.talk.tell(Level::Warn, number, why, &[]),
            Outcome::Fault(why) => self.talk.tell(Level::Error, number, why, &[]),
            Outcome::Closed(why) => self.talk.tell(Level::Info, number, why, &[]),
            Outcome::Left | Outcome::Stopped => {}
        }
        outcome
    }

    async fn conversation(
        &self,
        mut client: Link,
        number: u64,
        guest: &Guest,
        taps: &mut Vec<Tap>,
        stop: &mut watch::Receiver<bool>,
    ) -> Outcome {
        let form = guest.form.map_or(self.settings.client, ClientForm::Only);
        let (dialect, first) = match form {
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
        let agent = match &self.folders {
            Some(open) if dialect != self.settings.agent => {
                folders::beside(agent, open.clone(), self.settings.grace)
            }
            _ => agent,
        };
        let agent =
            if dialect == self.settings.agent { agent } else { self.tapped_agent(agent, number, taps) };
        let desked = !self.settings.duties.is_idle() || guest.trace.is_some();
        let reached = if desked { Dialect::V1 } else { self.settings.agent };
        let conduct = match Conduct::begin(&self.settings, &self.counts, number, dialect, reached) {
            Ok(conduct) => conduct,
            Err(why) => {
                excuse(&mut client, &first, &why).await;
                let (_, ()) =
                    tokio::join!(end_agent(agent, child, self.settings.grace), farewell(client, stop));
                return Outcome::Fault(why);
            }
        };
        let (reins, orders) = witness::reins();
        let heard = self.heard(dialect, reached, |witness| witness.begins(number, guest, reins), number);
        let heard = Attended { heard, by_desk: desked, orders };
        let agent =
            if desked { self.desked(agent, &conduct, guest, heard.heard.clone(), number) } else { agent };
        let outcome = self.join(client, dialect, first, agent, child, &conduct, heard, number, stop).await;
        conduct.end(&outcome);
        outcome
    }

    /// The agent behind the desk, where it speaks v1 whatever it speaks.
    fn desked(
        &self,
        agent: Link,
        conduct: &Conduct,
        guest: &Guest,
        heard: Option<Heard>,
        number: u64,
    ) -> Link {
        let (talk, all) = (self.talk.clone(), self.settings.notes);
        let watch = Watch::notes(move |side, note| {
            if all || note.kind.is_misbehaviour() {
                talk.note(number, side, note);
            }
        });
        let options = Options {
            session_prefix: format!("session_{:x}_{number:x}", self.base),
            ..self.settings.options.clone()
        };
        let agent = acp_host::translated_again(agent, self.settings.agent, options, watch, &self.agents);
        let talk = self.talk.clone();
        let (office, minutes) = (self.office.clone(), conduct.minutes());
        let desk = Desk::new(office, talk.clone(), number, minutes, heard, guest.trace.clone());
        station::behind(agent, desk, talk, number)
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
        conduct: &Conduct,
        attended: Attended,
        number: u64,
        stop: &mut watch::Receiver<bool>,
    ) -> Outcome {
        let lint = self.lint(dialect, conduct.agent, number);
        let Attended { heard, by_desk, mut orders } = attended;
        let mut watch = self.watch(number, lint.clone());
        watch.heard = conduct.listener(by_desk);
        watch.said = conduct.sayings();
        if let (Some(heard), false) = (&heard, by_desk) {
            witness::attach(&mut watch, heard);
        }
        let mut joint = Joint::new(client, agent, self.bridge(dialect, conduct.agent, number), watch);
        if dialect == Dialect::Probe {
            joint.pace(self.settings.pace);
        }
        joint.begin_with(first);
        let mut ended = tokio::select! {
            ended = self.attend(&mut joint, &mut orders) => Some(ended),
            () = stopped(stop) => None,
        };
        if ended == Some(Ended::ClientDone) {
            ended = self.finish(&mut joint, &mut orders, child.as_mut(), stop).await;
        }
        if ended.is_none() && joint.is_busy() {
            ended = self.drain(&mut joint, number).await;
        }
        if ended.is_none() {
            joint.answer_open(SHUTTING_DOWN);
            let _ = timeout(Duration::from_millis(100), joint.run()).await;
        }
        if let Some(lint) = lint {
            let agent_went = matches!(ended, Some(Ended::AgentGone));
            lint.close(if agent_went { Ending::AgentExited } else { Ending::ClientClosed });
        }
        if let Some(heard) = heard {
            witness::over(&heard, ended.as_ref());
        }
        self.remember(&mut joint);
        let (client, agent) = joint.into_links();
        let (gone, ()) = tokio::join!(end_agent(agent, child, self.settings.grace), async {
            match &ended {
                Some(Ended::ClientGone) => drop(client),
                _ => farewell(client, stop).await,
            }
        });
        match ended {
            None => Outcome::Stopped,
            Some(Ended::Stopped(reason)) => Outcome::Fault(reason),
            Some(Ended::Refused { side, reason }) => {
                Outcome::Refused(format!("the {side} was refused: {reason}"))
            }
            Some(Ended::AgentGone) => match gone {
                Some(gone) => Outcome::AgentFailed(gone.describe()),
                None => Outcome::AgentFailed("the agent closed the connection".to_owned()),
            },
            Some(Ended::Closed(why)) => Outcome::Closed(why),
            Some(Ended::ClientDone | Ended::ClientGone) => Outcome::Left,
        }
    }

    fn bridge(&self, client: Dialect, agent: Dialect, number: u64) -> Bridge {
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
        Bridge::of(side(client, Side::Client, clients), side(agent, Side::Agent, agents))
    }

    fn remember(&self, joint: &mut Joint) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (side, pairs) in [Side::Client, Side::Agent].into_iter().zip(&mut *known) {
            for pair in joint.bridge().at(side).session_ids() {
                if pairs.contains(&pair) {
                    continue;
                }
                if pairs.len() >= MOST_KNOWN {
                    pairs.remove(0);
                }
                pairs.push(pair);
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

    fn heard(
        &self,
        client: Dialect,
        agent: Dialect,
        begin: impl FnOnce(&dyn Witness) -> Box<dyn Hearing>,
        number: u64,
    ) -> Option<Heard> {
        let witness = self.witness.as_ref()?;
        if client == agent && client != Dialect::V1 {
            let words = format!(
                "client and agent both speak {client}: nothing is translated, so nothing is published"
            );
            self.talk.about(number, &words);
            return None;
        }
        Some(Arc::new(Mutex::new(begin(&**witness))))
    }

    fn lint(&self, client: Dialect, agent: Dialect, number: u64) -> Option<Lint> {
        if !self.settings.lint {
            return None;
        }
        if client == agent && client != Dialect::V1 {
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
