//! The other end: who submits tasks, watches sessions, and answers permission requests.

use std::time::Duration;

use acp_proto::stop_reason;
use async_nats::jetstream::context::{PublishErrorKind, traits::Publisher as _};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, Request, RequestErrorKind, Subscriber};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};

use super::clock;
use super::connect::{Access, AccessError, Connection, ConnectionState};
use super::ledger::json;
use super::payload::{
    Control, Controlled, Op, PermissionAnswer, PermissionAsk, Status, Task, TaskResult, TaskState, Waiting,
};
use super::reading::Reading;
use super::streams::Names;
use super::subject::{Style, Subjects, token};
use super::trace::TRACEPARENT;
use acp_proxy::ProxyLog;
use acp_proxy::event::{Event, EventError, VERSION};

/// The events of a session with their places in the stream.
pub type SessionEvents = mpsc::Receiver<Result<(u64, Event), EventError>>;

/// A connection for people and scripts.
#[derive(Clone)]
pub struct TaskClient {
    client: Client,
    context: Context,
    subjects: Subjects,
    standing: watch::Receiver<ConnectionState>,
}

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
pub enum TaskClientError {
    /// No connection.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// There is no queue.
    #[error(
        "there is no stream for {0}: no proxy has worked on this NATS yet (start `acp proxy --nats …` first)"
    )]
    NoStream(String),
    /// There is one, for proxies that were started otherwise.
    #[error("there is no stream for {0}: the proxies of this NATS use --subject-style {1}")]
    OtherStyle(String, Style),
    /// The task was submitted before.
    #[error("task {0:?} was submitted before; choose another id")]
    Known(String),
    /// The server takes no message of this size.
    #[error(
        "the task has {size} bytes, and this NATS takes messages of at most {most} (max_payload): put what is large into a file that the agent can read"
    )]
    TooLarge {
        /// How large it is.
        size: usize,
        /// How large it may be.
        most: usize,
    },
    /// There is no such task.
    #[error("task {0:?} is not known: it is in no queue, and nothing is stored of it")]
    Unknown(String),
    /// Nobody serves the session.
    #[error("no proxy serves session {0:?}")]
    NotServed(String),
    /// A proxy refused.
    #[error("the proxy refused: {0}")]
    Refused(String),
    /// NATS did not do it.
    #[error("NATS could not {what}: {why}")]
    Nats {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
}

/// How long NATS and proxies may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl TaskClient {
    /// Connects.
    pub fn connect<'a>(
        access: &'a Access,
        subjects: Subjects,
        log: &'a ProxyLog,
    ) -> BoxFuture<'a, Result<TaskClient, TaskClientError>> {
        Box::pin(async move {
            let connection = access.connect("acp tasks", false, "trying again", log).await?;
            let Connection { client, standing, .. } = connection;
            let mut context = jetstream::new(client.clone());
            context.set_timeout(ANSWER_TIMEOUT);
            Ok(TaskClient { client, context, subjects, standing })
        })
    }

    /// Puts a task into the queue.
    pub fn submit<'a>(
        &'a self,
        agent: &'a str,
        task: &'a Task,
        trace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), TaskClientError>> {
        Box::pin(async move {
            let subject = self.subjects.task(agent);
            let (payload, most) = (json(task), self.client.max_payload());
            if payload.len() > most {
                return Err(TaskClientError::TooLarge { size: payload.len(), most });
            }
            let mut message =
                PublishMessage::build().payload(payload).message_id(format!("task:{}", token(&task.id)));
            if let Some(trace) = trace {
                message = message.header(TRACEPARENT, trace);
            }
            let what = "queue the task";
            let sent = self.context.publish_message(message.outbound_message(subject.clone())).await;
            let ack = sent.map_err(|error| wrong(what, &error))?.await;
            match ack {
                Ok(ack) if ack.duplicate => Err(TaskClientError::Known(task.id.clone())),
                Ok(_) => Ok(()),
                Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
                    Err(self.no_stream(subject).await)
                }
                Err(error) => Err(wrong(what, &error)),
            }
        })
    }

    /// Where a task stands, if it has begun.
    pub fn status<'a>(&'a self, task: &'a str) -> BoxFuture<'a, Result<Option<Status>, TaskClientError>> {
        Box::pin(async move { self.last(&self.subjects.status(task)).await })
    }

    /// What came of a task, if it has ended.
    pub fn result<'a>(&'a self, task: &'a str) -> BoxFuture<'a, Result<Option<TaskResult>, TaskClientError>> {
        Box::pin(async move { self.last(&self.subjects.result(task)).await })
    }

    async fn last<T: serde::de::DeserializeOwned>(
        &self,
        subject: &str,
    ) -> Result<Option<T>, TaskClientError> {
        let stream = self.results().await?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => {
                serde_json::from_slice(&message.payload).map(Some).map_err(|error| wrong("read it", &error))
            }
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(wrong("look it up", &error)),
        }
    }

    async fn results(&self) -> Result<Stream, TaskClientError> {
        self.stream(Names::of(self.subjects.style).results).await
    }

    async fn stream(&self, name: &str) -> Result<Stream, TaskClientError> {
        match self.context.get_stream(name).await {
            Ok(stream) => Ok(stream),
            Err(_) => Err(self.no_stream(name.to_owned()).await),
        }
    }

    /// Why there is no stream: there may be one of the other style.
    async fn no_stream(&self, wanted: String) -> TaskClientError {
        let other = self.subjects.style.other();
        match self.context.get_stream(Names::of(other).tasks).await {
            Ok(_) => TaskClientError::OtherStyle(wanted, other),
            Err(_) => TaskClientError::NoStream(wanted),
        }
    }

    /// Follows a task from its beginning: where it stands, each time that changes, until its result.
    pub fn follow<'a>(
        &'a self,
        task: &'a str,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<TaskProgress>, TaskClientError>> {
        Box::pin(async move {
            let stream = self.results().await?;
            let (tell, told) = mpsc::channel(64);
            for subject in [self.subjects.status(task), self.subjects.result(task)] {
                let is_result = subject == self.subjects.result(task);
                let reading = Reading::begin(stream.clone(), subject, self.standing.clone(), 1).await;
                let reading = reading.map_err(|error| wrong("follow it", &error))?;
                tokio::spawn(pass_on(reading, tell.clone(), move |_, payload| {
                    if is_result {
                        let result = serde_json::from_slice(&payload).ok()?;
                        Some(TaskProgress::Ended(Box::new(result)))
                    } else {
                        serde_json::from_slice(&payload).ok().map(TaskProgress::Status)
                    }
                }));
            }
            Ok(told)
        })
    }

    /// What happened in a session, from the beginning or from a place in the stream, and what happens from now on. A
    /// connection that is lost and comes back leaves nothing out.
    pub fn events<'a>(
        &'a self,
        session: &'a str,
        from: Option<u64>,
    ) -> BoxFuture<'a, Result<SessionEvents, TaskClientError>> {
        Box::pin(async move {
            let stream = self.stream(Names::of(self.subjects.style).events).await?;
            let (subject, standing) = (self.subjects.event(session), self.standing.clone());
            let reading = Reading::begin(stream, subject, standing, from.unwrap_or(1)).await;
            let reading = reading.map_err(|error| wrong("watch it", &error))?;
            let (tell, told) = mpsc::channel(256);
            tokio::spawn(pass_on(reading, tell, |place, payload| {
                Some(Event::parse(&payload).map(|event| (place, event)))
            }));
            Ok(told)
        })
    }

    /// The place in the stream of what was stored last of a session; 0 when nothing is.
    pub fn last_place<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<u64, TaskClientError>> {
        Box::pin(async move {
            let stream = self.stream(Names::of(self.subjects.style).events).await?;
            match stream.get_last_raw_message_by_subject(&self.subjects.event(session)).await {
                Ok(message) => Ok(message.sequence),
                Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(0),
                Err(error) => Err(wrong("look the session up", &error)),
            }
        })
    }

    /// Cancels a task: its turn if it runs, and else the task itself, which then never begins.
    pub fn cancel<'a>(&'a self, task: &'a str) -> BoxFuture<'a, Result<Cancelled, TaskClientError>> {
        Box::pin(async move {
            if self.result(task).await?.is_some() {
                return Ok(Cancelled::TooLate);
            }
            match self.status(task).await? {
                Some(Status { state: TaskState::Begun, session: Some(session), .. }) => {
                    // Only its own turn: its proxy may be gone, and another task run there.
                    let control = Control { task: Some(task.to_owned()), ..Control::of(Op::Cancel) };
                    self.tell(&session, &control).await?;
                    Ok(Cancelled::Turn)
                }
                Some(Status { state: TaskState::Withdrawn, .. }) => Ok(Cancelled::Task),
                Some(_) => Ok(Cancelled::TooLate),
                None => match self.queue_of(task).await? {
                    Some(agent) => self.withdraw(&agent, task).await,
                    // It began, or ended, in this moment.
                    None if self.status(task).await?.is_some() => Box::pin(self.cancel(task)).await,
                    None => Err(TaskClientError::Unknown(task.to_owned())),
                },
            }
        })
    }

    /// The agent in whose queue a task waits.
    async fn queue_of(&self, task: &str) -> Result<Option<String>, TaskClientError> {
        let stream = self.stream(Names::of(self.subjects.style).tasks).await?;
        let mut from = 1;
        loop {
            let next = stream.raw_message_builder().sequence(from).next_by_subject(self.subjects.tasks());
            let message = match next.send().await {
                Ok(message) => message,
                Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => return Ok(None),
                Err(error) => return Err(wrong("look through the queue", &error)),
            };
            // What is no task has not been refused yet, and is taken back like any other.
            if Waiting::read(&message.payload).is_some_and(|waiting| waiting.task == task) {
                return Ok(Some(self.subjects.agent_of(&message.subject).unwrap_or_default()));
            }
            from = message.sequence + 1;
        }
    }

    async fn withdraw(&self, agent: &str, task: &str) -> Result<Cancelled, TaskClientError> {
        let at = clock::now();
        let (task_name, agent_name) = (task.to_owned(), agent.to_owned());
        let status = Status {
            v: VERSION,
            task: task_name,
            agent: agent_name,
            state: TaskState::Withdrawn,
            session: None,
            proxy: None,
            at,
        };
        let what = "take the task back";
        let message = PublishMessage::build().payload(json(&status)).expected_last_subject_sequence(0);
        let message = message.outbound_message(self.subjects.status(task));
        let sent = self.context.publish_message(message).await.map_err(|error| wrong(what, &error))?;
        match sent.await {
            Ok(_) => {}
            // It has begun in this moment.
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                return Box::pin(self.cancel(task)).await;
            }
            Err(error) => return Err(wrong(what, &error)),
        }
        let end = acp_proxy::turn::Tally::default().end(stop_reason::CANCELLED.to_owned(), None, None);
        let result = TaskResult::of(task, agent, None, at, end);
        let message = PublishMessage::build().payload(json(&result)).expected_last_subject_sequence(0);
        let message = message.outbound_message(self.subjects.result(task));
        if let Ok(ack) = self.context.publish_message(message).await {
            let _ = ack.await;
        }
        Ok(Cancelled::Task)
    }

    /// Tells a session something.
    pub fn control<'a>(
        &'a self,
        session: &'a str,
        op: Op,
    ) -> BoxFuture<'a, Result<Controlled, TaskClientError>> {
        Box::pin(async move { self.tell(session, &Control::of(op)).await })
    }

    /// Answers a permission request; `None` turns it away.
    pub async fn answer(&self, ask: &PermissionAsk, option: Option<String>) -> Result<(), TaskClientError> {
        let control = Control { id: Some(ask.id.clone()), option, ..Control::of(Op::Answer) };
        self.tell(&ask.session, &control).await.map(drop)
    }

    async fn tell(&self, session: &str, control: &Control) -> Result<Controlled, TaskClientError> {
        let request = Request::new().payload(json(control)).timeout(Some(ANSWER_TIMEOUT));
        let answer = self.client.send_request(self.subjects.control(session), request).await;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => TaskClientError::NotServed(session.to_owned()),
            _ => wrong("reach the session", &error),
        })?;
        let answer: Controlled =
            serde_json::from_slice(&answer.payload).map_err(|error| wrong("read the answer", &error))?;
        match answer.error {
            Some(why) if !answer.ok => Err(TaskClientError::Refused(why)),
            _ => Ok(answer),
        }
    }

    /// The permission requests that are open at this moment, of all proxies that answer within `patience`.
    pub fn open_requests(
        &self,
        patience: Duration,
    ) -> BoxFuture<'_, Result<Vec<PermissionAsk>, TaskClientError>> {
        Box::pin(async move {
            let what = "ask for open requests";
            let inbox = self.client.new_inbox();
            let mut answers =
                self.client.subscribe(inbox.clone()).await.map_err(|error| wrong(what, &error))?;
            let asked = self.client.publish_with_reply(self.subjects.open_requests(), inbox, "".into()).await;
            asked.map_err(|error| wrong(what, &error))?;
            let mut open = Vec::new();
            let deadline = tokio::time::Instant::now() + patience;
            while let Ok(Some(message)) = tokio::time::timeout_at(deadline, answers.next()).await {
                if message.status.is_some() {
                    break;
                }
                open.extend(
                    serde_json::from_slice::<Vec<PermissionAsk>>(&message.payload).unwrap_or_default(),
                );
            }
            open.sort_by_key(|ask| ask.deadline);
            Ok(open)
        })
    }

    /// Listens for permission requests. While this is held, proxies have somebody to ask.
    pub fn requests(&self) -> BoxFuture<'_, Result<PermissionRequests, TaskClientError>> {
        Box::pin(async move {
            let subject = "acp.v1.session.*.permission";
            let what = "listen for requests";
            let asked = self.client.subscribe(subject).await.map_err(|error| wrong(what, &error))?;
            // A round trip on the same connection: afterwards the server knows of the subscription. That nobody answers is
            // the answer.
            let nobody = self.client.new_inbox();
            match self.client.request(nobody, "".into()).await {
                Err(error) if error.kind() != RequestErrorKind::NoResponders => {
                    return Err(wrong(what, &error));
                }
                _ => {}
            }
            Ok(PermissionRequests { asked, client: self.client.clone() })
        })
    }
}

/// How a task went on.
#[derive(Debug)]
pub enum TaskProgress {
    /// It stands there now.
    Status(Status),
    /// It has ended.
    Ended(Box<TaskResult>),
}

/// What was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The running turn was told to end.
    Turn,
    /// The task will never begin.
    Task,
    /// It had ended before.
    TooLate,
}

/// Permission requests as they come.
pub struct PermissionRequests {
    asked: Subscriber,
    client: Client,
}

/// One of them.
pub struct PermissionRequest {
    /// What is asked.
    pub ask: PermissionAsk,
    reply: Option<async_nats::Subject>,
    client: Client,
}

impl PermissionRequests {
    /// The next one.
    pub async fn next(&mut self) -> Option<PermissionRequest> {
        loop {
            let message = self.asked.next().await?;
            if let Ok(ask) = serde_json::from_slice(&message.payload) {
                return Some(PermissionRequest { ask, reply: message.reply, client: self.client.clone() });
            }
        }
    }
}

impl PermissionRequest {
    /// Answers it; `None` turns it away.
    pub async fn answer(self, option: Option<String>) -> Result<(), TaskClientError> {
        let Some(reply) = self.reply else { return Ok(()) };
        let answer = json(&PermissionAnswer { v: VERSION, option });
        self.client.publish(reply, answer).await.map_err(|error| wrong("send the answer", &error))?;
        self.client.flush().await.map_err(|error| wrong("send the answer", &error))
    }
}

/// Passes on what is read, as far as `read` makes something of it, until nobody listens.
async fn pass_on<T>(
    mut reading: Reading,
    tell: mpsc::Sender<T>,
    read: impl Fn(u64, bytes::Bytes) -> Option<T>,
) {
    loop {
        let (place, payload) = tokio::select! {
            message = reading.next() => message,
            () = tell.closed() => return,
        };
        if let Some(item) = read(place, payload)
            && tell.send(item).await.is_err()
        {
            return;
        }
    }
}

fn wrong(what: &'static str, error: &impl ToString) -> TaskClientError {
    TaskClientError::Nats { what, why: error.to_string() }
}
