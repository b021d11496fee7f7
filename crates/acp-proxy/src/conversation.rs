//! One conversation: a client and its agent, from the client's first line until both are gone.

mod course;

use std::sync::PoisonError;
use std::time::Duration;

use acp_dialect::{Bridge, Dialect, Side, TranslationOptions, Translator};
use acp_link::child::Child;
use acp_link::{Burst, Link, Tap};
use acp_relay::{Observer, Observers, Relay, RelayEnd};
use acp_rpc::Direction;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::endings::{SHUTTING_DOWN, end_agent, excuse, farewell, stopped};
use crate::folders;
use crate::gatekeeper::Gatekeeper;
use crate::greet::{ClientForm, Greeting, greet};
use crate::handle::{self, Commands, DecisionReasons};
use crate::interceptor;
use crate::journal::{Decisions, JournalError, JournalObserver, OpenedRecord};
use crate::lint::LintObserver;
use crate::log::NoteLog;
use crate::proxy::{Outcome, Proxy};
use crate::record;

/// What is known of a client when it connects.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// It has shown its token already.
    pub admitted: bool,
    /// The trace that it belongs to: a W3C `traceparent`.
    pub trace: Option<String>,
    /// The form that it speaks, where that is known whatever other clients speak.
    pub form: Option<Dialect>,
    /// The client asks somebody else for permission, and leaves here why an answer is what it is.
    pub reasons: Option<DecisionReasons>,
}

/// One conversation of a proxy.
pub(crate) struct Conversation<'a> {
    proxy: &'a Proxy,
    number: u64,
    info: ClientInfo,
    stop: watch::Receiver<bool>,
    taps: Vec<Tap>,
}

/// The two sides of a conversation, before they are joined.
struct Parties {
    client: Link,
    /// What the client said before its agent was there.
    first: Vec<Burst>,
    agent: Link,
    child: Option<Child>,
}

/// How two sides are joined.
struct Plan {
    client: Dialect,
    /// The form in which the agent reaches the relay.
    agent: Dialect,
    /// Whether something stands between the relay and the agent that decides about lines. Then frames are observed there,
    /// so that a decision has its place among them.
    intercepted: bool,
    observers: Observers,
    commands: Commands,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(
        proxy: &'a Proxy,
        number: u64,
        info: ClientInfo,
        stop: watch::Receiver<bool>,
    ) -> Conversation<'a> {
        Conversation { proxy, number, info, stop, taps: Vec::new() }
    }

    /// Serves the client until it, its agent or we must go. Leaves no process behind.
    pub(crate) async fn run(mut self, client: Link) -> Outcome {
        let client = self.tapped(client, Direction::ClientToAgent);
        let outcome = self.serve(client).await;
        for tap in std::mem::take(&mut self.taps) {
            if let Err(error) = tap.finish() {
                self.log(&error.to_string());
            }
        }
        outcome
    }

    fn log(&self, words: &str) {
        self.proxy.logs.about(self.number, words);
    }

    async fn serve(&mut self, client: Link) -> Outcome {
        let (mut client, dialect, first) = match self.greeted(client).await {
            Ok(greeted) => greeted,
            Err(outcome) => return outcome,
        };
        let opened = tokio::select! {
            opened = (self.proxy.open)() => opened,
            () = stopped(&mut self.stop) => return Outcome::Stopped,
        };
        let (agent, child) = match opened {
            Ok(opened) => opened,
            Err(unavailable) => {
                let why = unavailable.to_string();
                excuse(&mut client, &first, &why).await;
                farewell(client, &mut self.stop).await;
                return Outcome::AgentFailed(why);
            }
        };
        let agent = self.agent_for(agent, dialect);
        let plan = match self.plan(dialect) {
            Ok(plan) => plan,
            Err(error) => {
                let why = error.to_string();
                excuse(&mut client, &first, &why).await;
                let ended = end_agent(agent, child, self.proxy.settings.grace);
                let (_, ()) = tokio::join!(ended, farewell(client, &mut self.stop));
                return Outcome::Fault(why);
            }
        };
        let agent = if plan.intercepted { self.intercepted(agent, &plan.observers) } else { agent };
        let observers = plan.observers.clone();
        let outcome = self.relay(Parties { client, first, agent, child }, plan).await;
        observers.closed(outcome.describe());
        outcome
    }

    /// Finds out which form the client speaks.
    async fn greeted(&mut self, mut client: Link) -> Result<(Link, Dialect, Vec<Burst>), Outcome> {
        let form = self.info.form.map_or(self.proxy.settings.client, ClientForm::Only);
        if let ClientForm::Only(dialect) = form {
            return Ok((client, dialect, Vec::new()));
        }
        let greeting = tokio::select! {
            greeting = greet(&mut client.rx) => greeting,
            () = stopped(&mut self.stop) => return Err(Outcome::Stopped),
        };
        match greeting {
            Greeting::Speaks { dialect, first, remark } => {
                if let Some(remark) = remark {
                    self.log(&remark);
                }
                Ok((client, dialect, first))
            }
            Greeting::Unknown { answer, reason } => {
                let _ = client.tx.try_send(answer.raw());
                farewell(client, &mut self.stop).await;
                Err(Outcome::Refused(reason))
            }
            Greeting::Silent => Err(Outcome::Left),
        }
    }

    /// The agent's link for a client of this form: with agents for further folders beside it, and recorded where its
    /// wire is another than the client's.
    fn agent_for(&mut self, agent: Link, client: Dialect) -> Link {
        let settings = &self.proxy.settings;
        if client == settings.agent {
            return agent;
        }
        let agent = match &self.proxy.folders {
            Some(open) => folders::beside(agent, open.clone(), settings.grace),
            None => agent,
        };
        self.tapped(agent, Direction::AgentToClient)
    }

    /// Who observes the conversation, and where. Nothing may be passed on if the journal cannot be written.
    fn plan(&self, client: Dialect) -> Result<Plan, JournalError> {
        let (proxy, settings) = (self.proxy, &self.proxy.settings);
        let intercepted = !settings.duties.is_idle() || self.info.trace.is_some();
        let agent = if intercepted { Dialect::V1 } else { settings.agent };
        let (handle, commands) = handle::channel();
        let mut all: Vec<Box<dyn Observer>> = vec![Box::new(self.note_log())];
        if settings.duties.turns {
            all.push(Box::new(proxy.traffic.clone()));
        }
        if let Some(journal) = &settings.journal {
            let opened = OpenedRecord {
                conversation: self.number,
                at: format!("{:.3}", jiff::Timestamp::now()),
                agent: settings.agent_name.clone(),
                client_dialect: client.to_string(),
                agent_dialect: agent.to_string(),
                again: false,
            };
            let decisions = if intercepted { Decisions::Possible } else { Decisions::Never };
            let observer = JournalObserver::begin(journal, opened, decisions);
            all.push(Box::new(observer?));
        }
        if settings.lint && self.is_canonical(client, agent, "judged") {
            all.push(Box::new(LintObserver::new(proxy.logs.clone(), self.number)));
        }
        if let Some(factory) = &proxy.observers
            && self.is_canonical(client, agent, "published")
        {
            all.push(factory.observe(&self.info, handle));
        }
        Ok(Plan { client, agent, intercepted, observers: Observers::new(all), commands })
    }

    /// Whether there are v1 frames to observe; says so where there are none.
    fn is_canonical(&self, client: Dialect, agent: Dialect, done: &str) -> bool {
        let is_canonical = client != agent || client.is_canonical();
        if !is_canonical {
            self.log(&format!(
                "client and agent both speak {client}: nothing is translated, so nothing is {done}"
            ));
        }
        is_canonical
    }

    fn note_log(&self) -> NoteLog {
        NoteLog::new(self.proxy.logs.clone(), self.number, self.proxy.settings.notes)
    }

    /// The agent behind what decides about lines, where it speaks v1 whatever it speaks itself.
    fn intercepted(&self, agent: Link, observers: &Observers) -> Link {
        let proxy = self.proxy;
        let notes = Observers::new(vec![Box::new(self.note_log())]);
        let (dialect, options) = (proxy.settings.agent, self.translation(Vec::new()));
        let agent = acp_relay::translated_resuming(agent, dialect, options, notes, &proxy.agents);
        let logs = proxy.logs.clone();
        let (shared, trace) = (proxy.shared.clone(), self.info.trace.clone());
        let gatekeeper = Gatekeeper::new(shared, logs.clone(), self.number, observers.clone(), trace);
        interceptor::behind(agent, gatekeeper, logs, self.number)
    }

    async fn relay(&mut self, parties: Parties, plan: Plan) -> Outcome {
        let Parties { client, first, agent, mut child } = parties;
        let Plan { client: dialect, agent: reached, intercepted, observers, mut commands } = plan;
        let at_relay = if intercepted { observers.without_frames() } else { observers.clone() };
        let mut relay = Relay::new(client, agent, self.bridge(dialect, reached), at_relay);
        if dialect.traits().needs_pauses {
            relay.pace(self.proxy.settings.pace);
        }
        relay.begin_with(first);
        let mut stop = self.stop.clone();
        let mut ended = tokio::select! {
            ended = self.attend(&mut relay, &mut commands) => Some(ended),
            () = stopped(&mut stop) => None,
        };
        if ended == Some(RelayEnd::ClientDone) {
            ended = self.finish(&mut relay, &mut commands, child.as_mut()).await;
        }
        if ended.is_none() && relay.is_busy() {
            ended = self.drain(&mut relay).await;
        }
        if ended.is_none() {
            relay.answer_open(SHUTTING_DOWN);
            let _ = timeout(Duration::from_millis(100), relay.run()).await;
        }
        observers.over(ended.as_ref());
        self.remember(&mut relay);
        let (client, agent) = relay.into_links();
        let (gone, ()) = tokio::join!(end_agent(agent, child, self.proxy.settings.grace), async {
            match &ended {
                Some(RelayEnd::ClientGone) => drop(client),
                _ => farewell(client, &mut self.stop).await,
            }
        });
        match ended {
            None => Outcome::Stopped,
            Some(RelayEnd::Stopped(reason)) => Outcome::Fault(reason),
            Some(RelayEnd::Refused { side, reason }) => {
                Outcome::Refused(format!("the {side} was refused: {reason}"))
            }
            Some(RelayEnd::AgentGone) => match gone {
                Some(gone) => Outcome::AgentFailed(gone.describe()),
                None => Outcome::AgentFailed("the agent closed the connection".to_owned()),
            },
            Some(RelayEnd::Closed(why)) => Outcome::Closed(why),
            Some(RelayEnd::ClientDone | RelayEnd::ClientGone) => Outcome::Left,
        }
    }

    /// What a translation must be told; `sessions` are ids that differ on its two sides.
    fn translation(&self, sessions: Vec<(String, String)>) -> TranslationOptions {
        TranslationOptions {
            session_prefix: format!("session_{:x}_{:x}", self.proxy.base, self.number),
            sessions,
            ..self.proxy.settings.options.clone()
        }
    }

    fn bridge(&self, client: Dialect, agent: Dialect) -> Bridge {
        let known = self.proxy.known.lock().unwrap_or_else(PoisonError::into_inner);
        let [clients, agents] = &*known;
        Bridge::of(
            Translator::new(client, Side::Client, self.translation(clients.clone())),
            Translator::new(agent, Side::Agent, self.translation(agents.clone())),
        )
    }

    /// Remembers session ids that differ on the two sides, for later conversations.
    fn remember(&self, relay: &mut Relay) {
        let mut known = self.proxy.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (side, pairs) in [Side::Client, Side::Agent].into_iter().zip(&mut *known) {
            for pair in relay.bridge().at(side).session_ids() {
                if pairs.contains(&pair) {
                    continue;
                }
                if pairs.len() >= MAX_KNOWN_SESSIONS {
                    pairs.remove(0);
                }
                pairs.push(pair);
            }
        }
    }

    fn tapped(&mut self, link: Link, received: Direction) -> Link {
        let Some(path) = &self.proxy.settings.record else { return link };
        let path = match received {
            Direction::ClientToAgent => record::of_client(path, self.number),
            Direction::AgentToClient => record::of_agent(path, self.number),
        };
        match Tap::create(path) {
            Ok(tap) => {
                let link = link.tapped(&tap, received);
                self.taps.push(tap);
                link
            }
            Err(error) => {
                self.log(&error.to_string());
                link
            }
        }
    }
}

/// How many pairs of session ids are remembered for later conversations, of clients and of agents.
const MAX_KNOWN_SESSIONS: usize = 4096;
