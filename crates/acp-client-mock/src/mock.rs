//! The client as a whole.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::ending;
use crate::launch::{AgentStarter, EndSignal};
use crate::manners::MockManners;
use crate::nature::ClientNature;
use crate::person;
use crate::sessions;
use crate::state::{FormAnswer, Shared, Wiring};
use crate::verbs::ClientVerb;
use crate::wire::WireEnd;

/// How many questions may wait to be looked at.
const QUESTIONS: usize = 64;

/// A client that does what it is told. When it is dropped, it ends as if it were killed.
#[derive(Debug)]
pub struct ClientMock {
    verbs: mpsc::UnboundedSender<Value>,
    ended: watch::Receiver<Option<i32>>,
}

impl ClientMock {
    /// A client that works in this folder, an absolute path, and the events that it tells: the lines of a `talk` driver.
    /// No agent is started before a verb needs one. Must be called inside a tokio runtime.
    pub fn start(
        nature: ClientNature,
        workspace: PathBuf,
        agents: Arc<dyn AgentStarter>,
    ) -> (ClientMock, mpsc::UnboundedReceiver<Value>) {
        let (events, told) = mpsc::unbounded_channel();
        let (person, questions) = mpsc::channel(QUESTIONS);
        let (ends, over) = mpsc::unbounded_channel();
        let (verbs, lines) = mpsc::unbounded_channel();
        let (tell, ended) = watch::channel(None);
        let manners = Box::new(MockManners::new(nature.switches.iter().copied()));
        let shared = Shared::new(nature, manners, workspace, agents, Wiring { events, person, ends });
        let shared = Arc::new(shared);
        let answering = tokio::spawn(person::answer_all(Arc::clone(&shared), questions));
        tokio::spawn(async move {
            let code = run(&shared, lines, over).await;
            answering.abort();
            let _ = tell.send(Some(code));
        });
        (ClientMock { verbs, ended }, told)
    }

    /// Gives it a verb: a line of a `talk` driver. One that has ended does nothing.
    pub fn tell(&self, verb: &Value) {
        let _ = self.verbs.send(verb.clone());
    }

    /// Waits until it has ended, and returns its exit code.
    pub async fn ended(&self) -> i32 {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|code| *code).unwrap_or_default()
    }

    /// Whether it has not ended yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }
}

/// Does what it is told until it quits, breaks down or is dropped; returns the exit code.
async fn run(
    shared: &Arc<Shared>,
    mut verbs: mpsc::UnboundedReceiver<Value>,
    mut ends: mpsc::UnboundedReceiver<(usize, WireEnd)>,
) -> i32 {
    let (queue, jobs) = mpsc::unbounded_channel();
    let worker = tokio::spawn(work(Arc::clone(shared), jobs));
    let code = loop {
        tokio::select! {
            line = verbs.recv() => {
                let Some(line) = line else { break 0 };
                match ClientVerb::read(&line) {
                    Err(problem) => {
                        shared.complain(None, &problem);
                        shared.tell(json!({ "event": "done", "verb": line["verb"] }));
                    }
                    Ok(ClientVerb::Quit) if shared.manners.ends_agents() => {
                        worker.abort();
                        ending::end_agent(shared).await;
                        shared.tell(json!({ "event": "done", "verb": "quit" }));
                        break 0;
                    }
                    Ok(verb) => if let Some(later) = at_once(shared, verb).await {
                        let _ = queue.send(later);
                    },
                }
            }
            Some((launch, end)) = ends.recv() => match end {
                WireEnd::Crash(code) => break code,
                WireEnd::Hangup => hang_up(shared, launch),
            },
        }
    };
    worker.abort();
    let open = shared.state().connection.take();
    if let Some(process) = open.and_then(|open| open.process).filter(|_| code != 0) {
        process.abandon();
    }
    code
}

/// Carries out one verb after the other.
async fn work(shared: Arc<Shared>, mut jobs: mpsc::UnboundedReceiver<ClientVerb>) {
    while let Some(verb) = jobs.recv().await {
        let name = verb.name();
        if let Err(problem) = sessions::carry_out(&shared, verb).await {
            shared.complain(Some(name), &problem);
        }
        shared.tell(json!({ "event": "done", "verb": name }));
    }
}

/// Carries out a verb that does not wait for anything; gives back one that does.
async fn at_once(shared: &Shared, verb: ClientVerb) -> Option<ClientVerb> {
    let name = verb.name();
    match verb {
        ClientVerb::Answer { with } | ClientVerb::Permission { answer: with } => {
            shared.permission.send_replace(with);
        }
        ClientVerb::Cancel => match shared.open() {
            Some((client, session)) => client.cancel(&session.id).await,
            None => shared.complain(Some(name), "no session is open"),
        },
        ClientVerb::Mcp { server } => shared.state().servers.push(server),
        ClientVerb::Attach { file } => shared.state().attached.push(file),
        ClientVerb::Dirs { dirs } => shared.state().folders = dirs,
        ClientVerb::Elicit { values, action } => shared.state().form = FormAnswer { values, action },
        // Only a client that does not end its agent comes here.
        ClientVerb::Quit => {}
        later => return Some(later),
    }
    shared.tell(json!({ "event": "done", "verb": name }));
    None
}

/// The client gives up the connection of a launch and kills the agent.
fn hang_up(shared: &Shared, launch: usize) {
    let mut state = shared.state();
    if state.connection.as_ref().is_some_and(|open| open.launch == launch)
        && let Some(mut open) = state.connection.take()
        && let Some(process) = &mut open.process
    {
        process.signal(EndSignal::Kill, shared.manners.ends_descendants());
    }
}
