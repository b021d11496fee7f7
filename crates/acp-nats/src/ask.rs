//! Permission by request and reply: whoever listens answers; nobody, or too late, is a no.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_host::{Ask as Asking, UserAnswer, UserQuestion};
use acp_policy::{PermissionOption, PermissionOptionKind, PermissionOutcome, PolicyVerdict, choose_option};
use async_nats::{Request, RequestErrorKind};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::clock;
use super::error::NatsRefusal;
use super::ledger::{carrying, json};
use super::payload::{AskOption, PermissionAnswer, PermissionAsk};
use super::task_runner::TaskRunner;
use super::task_session::TaskSession;
use super::trace::random_id;
use acp_proxy::event::{VERSION, raw};
use tracing::Level;

/// Requests that wait for an answer.
#[derive(Default)]
pub(super) struct Asks(Mutex<Open>);

/// By their ids: what was asked, and who waits for the option.
type Open = BTreeMap<String, (PermissionAsk, oneshot::Sender<Option<String>>)>;

impl Asks {
    /// All that are open.
    pub(super) fn open(&self) -> Vec<PermissionAsk> {
        self.list().values().map(|(ask, _)| ask.clone()).collect()
    }

    /// An answer that came by way of control.
    pub(super) fn answer(&self, id: &str, option: Option<String>) -> Result<(), NatsRefusal> {
        let mut list = self.list();
        let Some((ask, _)) = list.get(id) else { return Err(format!("no request {id:?} is open").into()) };
        check(ask, option.as_deref())?;
        if let Some((_, reply)) = list.remove(id) {
            let _ = reply.send(option);
        }
        Ok(())
    }

    fn list(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of asking.
enum AskOutcome {
    /// An answer, and how it came.
    Option(Option<String>, &'static str),
    Nobody(&'static str),
    Nonsense(String),
}

impl AskOutcome {
    fn reason(&self) -> &str {
        match self {
            AskOutcome::Option(_, reason) | AskOutcome::Nobody(reason) => reason,
            AskOutcome::Nonsense(reason) => reason,
        }
    }
}

impl TaskRunner {
    /// Asks, and answers the agent.
    pub(super) async fn ask(self: &Arc<Self>, task_session: &TaskSession, mut question: UserQuestion) {
        let Some(ask) = self.request_for(task_session, &question) else { return };
        let (reply, by_control) = oneshot::channel();
        let (id, trace) = (ask.id.clone(), task_session.trace());
        self.asks.list().insert(id.clone(), (ask.clone(), reply));
        let said = tokio::select! {
            said = self.request(&ask, trace.as_deref()) => said,
            answer = by_control => match answer {
                Ok(option) => AskOutcome::Option(option, "answered on the control subject"),
                Err(_) => AskOutcome::Nobody("nobody answered"),
            },
            () = question.stale() => {
                self.asks.list().remove(&id);
                return;
            }
        };
        self.asks.list().remove(&id);
        let (access, title) = (matches!(question.ask, Asking::Access { .. }), &ask.title);
        if let Asking::Permission { params, .. } = &question.ask {
            let call = params["toolCall"]["toolCallId"].as_str().unwrap_or_default();
            task_session.reasons.put(call, said.reason());
        }
        match said {
            AskOutcome::Option(Some(option), _) if access => {
                question.answer(if option == ALLOW { UserAnswer::Yes } else { UserAnswer::No });
            }
            AskOutcome::Option(Some(option), _) => question.answer(UserAnswer::Option(option)),
            AskOutcome::Option(None, _) => question.answer(UserAnswer::Cancelled),
            AskOutcome::Nobody(why) => {
                self.shared().counts.unanswered.fetch_add(1, Ordering::Relaxed);
                let words =
                    format!("no permission for {title:?} in session {:?}: {why}", task_session.session);
                self.shared().say(Level::WARN, &words);
                reject(question);
            }
            AskOutcome::Nonsense(why) => {
                let words =
                    format!("no permission for {title:?} in session {:?}: {why}", task_session.session);
                self.shared().say(Level::WARN, &words);
                reject(question);
            }
        }
    }

    async fn request(&self, ask: &PermissionAsk, trace: Option<&str>) -> AskOutcome {
        let deadline = tokio::time::Instant::now() + self.settings.ask_for;
        let request = Request::new().headers(carrying(trace)).payload(json(ask)).timeout(None);
        let subject = self.shared().subjects.permission(&ask.session);
        let asking = self.shared().client.send_request(subject, request);
        // Around it all: a request of its own waits without end for a place in the connection's queue.
        let Ok(answer) = tokio::time::timeout_at(deadline, asking).await else {
            return AskOutcome::Nobody("nobody answered in time");
        };
        match answer {
            Ok(message) => match serde_json::from_slice::<PermissionAnswer>(&message.payload) {
                Ok(answer) => match check(ask, answer.option.as_deref()) {
                    Ok(()) => AskOutcome::Option(answer.option, "answered on the permission subject"),
                    Err(refusal) => AskOutcome::Nonsense(refusal.to_string()),
                },
                Err(error) => AskOutcome::Nonsense(format!("the answer cannot be read: {error}")),
            },
            Err(error) => match error.kind() {
                RequestErrorKind::NoResponders if self.settings.hold => {
                    tokio::time::sleep_until(deadline).await;
                    AskOutcome::Nobody("nobody answered in time")
                }
                RequestErrorKind::NoResponders => AskOutcome::Nobody("nobody listens"),
                _ => AskOutcome::Nobody("NATS could not be asked"),
            },
        }
    }

    fn request_for(&self, task_session: &TaskSession, question: &UserQuestion) -> Option<PermissionAsk> {
        let (title, kind, subjects, options, params) = match &question.ask {
            Asking::Permission { title, kind, subjects, options, params } => {
                let options = options.iter().map(|option| AskOption {
                    id: option.id.clone(),
                    name: option.name.clone(),
                    kind: option.kind.map_or("other", PermissionOptionKind::as_str).to_owned(),
                });
                let kind = kind.as_str().to_owned();
                (title.clone(), kind, subjects.clone(), options.collect(), raw(params))
            }
            Asking::Access { method, subject, .. } => {
                let option = |id: &str, name: &str, kind: PermissionOptionKind| AskOption {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    kind: kind.as_str().to_owned(),
                };
                let options = vec![
                    option(ALLOW, "Allow", PermissionOptionKind::AllowOnce),
                    option("reject", "Reject", PermissionOptionKind::RejectOnce),
                ];
                let (title, subjects) = (format!("{method} {subject}"), vec![subject.clone()]);
                (title, "other".to_owned(), subjects, options, RawValue::NULL.to_owned())
            }
            // Nobody fills in forms over NATS.
            Asking::Form { .. } | Asking::Url { .. } => return None,
        };
        let patience = u64::try_from(self.settings.ask_for.as_millis()).unwrap_or(u64::MAX);
        let mut ask = PermissionAsk {
            v: VERSION,
            id: random_id(),
            session: task_session.session.clone(),
            task: task_session.occupant(),
            title,
            kind,
            subjects,
            options,
            deadline: clock::now().saturating_add(patience),
            params,
        };
        let size = json(&ask).len();
        if size > self.shared().largest() {
            let note = "too large for one message; the event permission of the session has it in parts";
            ask.params = raw(&serde_json::json!({ "omitted": size, "message": note }));
            shorten(&mut ask.subjects);
        }
        Some(ask)
    }
}

const ALLOW: &str = "allow";

/// Of what a yes is about, what fits into a message of any size; the rest is said to be missing.
fn shorten(subjects: &mut Vec<String>) {
    const ROOM: usize = 8 << 10;
    let mut room = ROOM;
    let fits = subjects.iter().take_while(|subject| {
        room = room.saturating_sub(subject.len() + 16);
        room > 0
    });
    let (fits, all) = (fits.count(), subjects.len());
    if fits < all {
        subjects.truncate(fits);
        subjects.push(format!("… and {} more that are too long to be shown here", all - fits));
    }
}

/// Says no, in the agent's own words where it has some.
fn reject(question: UserQuestion) {
    let answer = match &question.ask {
        Asking::Permission { options, .. } => {
            let choices: Vec<PermissionOption<'_>> =
                options.iter().map(|option| PermissionOption { id: &option.id, kind: option.kind }).collect();
            match choose_option(PolicyVerdict::Deny, &choices) {
                PermissionOutcome::Selected(option) => UserAnswer::Option(option),
                PermissionOutcome::Cancelled => UserAnswer::Cancelled,
            }
        }
        _ => UserAnswer::No,
    };
    question.answer(answer);
}

fn check(ask: &PermissionAsk, option: Option<&str>) -> Result<(), NatsRefusal> {
    match option {
        Some(option) if !ask.options.iter().any(|offered| offered.id == option) => {
            let offered: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
            Err(format!("{option:?} was answered, and offered were {}", offered.join(", ")).into())
        }
        _ => Ok(()),
    }
}
