//! The streams: created where they are missing, refused by name where they are others.
//!
//! A consumer is looked up again after every empty pull, because JetStream answers nothing at all for one that is gone.
//! A missing stream is made again after two seconds: nats-server 2.9 loses what is stored in a stream that is made
//! while its namesake is being removed.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::{
    ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind,
};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{Context, ErrorCode};

use super::subject::{Style, Subjects, token};

/// The names of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Tasks that wait.
    pub tasks: &'static str,
    /// What happened in sessions.
    pub events: &'static str,
    /// States and results of tasks.
    pub results: &'static str,
    /// Tasks that cannot be done.
    pub dead: &'static str,
}

impl Names {
    /// The names in a style.
    #[must_use]
    pub const fn of(style: Style) -> Names {
        match style {
            Style::Acp => {
                Names { tasks: "ACP_TASKS", events: "ACP_EVENTS", results: "ACP_RESULTS", dead: "ACP_DEAD" }
            }
            Style::Tasks => Names {
                tasks: "AGENT_TASKS",
                events: "ACP_EVENTS",
                results: "AGENT_RESULTS",
                dead: "AGENT_DEAD",
            },
        }
    }
}

/// Why a stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It exists, with settings that we cannot work with.
    #[error(
        "the stream {name} exists with other settings and is left as it is: {differences}; delete or rename it, or use another NATS account"
    )]
    Conflict {
        /// Which.
        name: String,
        /// What is different.
        differences: String,
    },
    /// It cannot be created.
    #[error("cannot create the stream {name} for {subjects}: {error}")]
    Create {
        /// Which.
        name: String,
        /// For what.
        subjects: String,
        /// Why not.
        error: CreateStreamError,
    },
    /// Another stream has its subjects.
    #[error(
        "cannot create the stream {name} for {subjects}: the stream {other} has some of these subjects; give it others or delete it, or use another NATS account"
    )]
    Overlap {
        /// Which.
        name: String,
        /// For what.
        subjects: String,
        /// Whose they are.
        other: String,
    },
    /// It cannot be looked at.
    #[error("cannot look at the stream {name}: {error} (does the server have JetStream? nats-server -js)")]
    Look {
        /// Which.
        name: String,
        /// Why not.
        error: GetStreamError,
    },
    /// The consumer of an agent's tasks exists, with settings that we cannot work with.
    #[error(
        "the consumer {name} of the stream {stream} exists with other settings and is left as it is: {differences}; delete it, or use another --queue"
    )]
    Consumed {
        /// Which.
        name: String,
        /// Of which stream.
        stream: String,
        /// What is different.
        differences: String,
    },
    /// The consumer of an agent's tasks cannot be used.
    #[error("cannot use the consumer {name} of the stream {stream}: {error}")]
    Consumer {
        /// Which.
        name: String,
        /// Of which stream.
        stream: String,
        /// Why not.
        error: String,
    },
}

impl StreamError {
    /// Whether trying again may help.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            StreamError::Conflict { .. } | StreamError::Overlap { .. } | StreamError::Consumed { .. } => {
                false
            }
            StreamError::Create { error, .. } => !matches!(
                error.kind(),
                CreateStreamErrorKind::JetStream(ref error)
                    if error.code() == 400
            ),
            StreamError::Look { .. } | StreamError::Consumer { .. } => true,
        }
    }
}

/// The streams of a proxy.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Tasks that wait.
    pub tasks: Stream,
    /// What happened in sessions.
    pub events: Stream,
    /// States and results of tasks.
    pub results: Stream,
    /// Tasks that cannot be done.
    pub dead: Stream,
}

/// How long events and results are kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long a message id is remembered.
const DEDUP: Duration = Duration::from_secs(120);
/// How often a task is delivered before it is a dead letter.
pub const MAX_DELIVER: i64 = 3;

/// Finds the streams, or creates them: one that is missing after `removal`, the time that a server may take to remove
/// another of its name.
pub async fn ensure(
    context: &Context,
    subjects: Subjects,
    replicas: usize,
    removal: Duration,
) -> Result<Streams, StreamError> {
    let names = Names::of(subjects.style);
    let (results, dead) = match subjects.style {
        Style::Acp => (vec!["acp.v1.task.*.status", "acp.v1.task.*.result"], "acp.v1.agent.*.dead"),
        Style::Tasks => (vec!["agent.status.*", "agent.results.*"], "agent.dead.*"),
    };
    let config = |name: &str, subjects: Vec<&str>, retention, max_age| Config {
        name: name.to_owned(),
        subjects: subjects.into_iter().map(str::to_owned).collect(),
        retention,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        max_age,
        duplicate_window: DEDUP,
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        num_replicas: replicas,
        ..Config::default()
    };
    let work = RetentionPolicy::WorkQueue;
    let limits = RetentionPolicy::Limits;
    // The queue comes last: where there is a queue, there is everything that a task needs.
    Ok(Streams {
        events: one(context, removal, config(names.events, vec!["acp.v1.session.*.event"], limits, KEPT))
            .await?,
        results: one(context, removal, config(names.results, results, limits, KEPT)).await?,
        dead: one(context, removal, config(names.dead, vec![dead], limits, KEPT)).await?,
        tasks: one(context, removal, config(names.tasks, vec![subjects.tasks()], work, Duration::ZERO))
            .await?,
    })
}

async fn one(context: &Context, removal: Duration, config: Config) -> Result<Stream, StreamError> {
    let name = config.name.clone();
    match context.get_stream(&name).await {
        Ok(stream) => {
            let most = context.client().max_payload();
            let differences = differences(&stream.cached_info().config, &config, most);
            if differences.is_empty() { Ok(stream) } else { Err(StreamError::Conflict { name, differences }) }
        }
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(ref inner) if inner.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                tokio::time::sleep(removal).await;
                create(context, config).await
            }
            _ => Err(StreamError::Look { name, error }),
        },
    }
}

async fn create(context: &Context, config: Config) -> Result<Stream, StreamError> {
    let (name, wanted) = (config.name.clone(), config.subjects.clone());
    let subjects = wanted.join(", ");
    match context.create_stream(config).await {
        Ok(created) => context
            .get_stream(&created.cached_info().config.name)
            .await
            .map_err(|error| StreamError::Look { name, error }),
        Err(error) => Err(match has_subjects(context, &error, &wanted).await {
            Some(other) => StreamError::Overlap { name, subjects, other },
            None => StreamError::Create { name, subjects, error },
        }),
    }
}

/// The stream that has some of our subjects, where that is why ours was not made.
async fn has_subjects(context: &Context, error: &CreateStreamError, wanted: &[String]) -> Option<String> {
    let CreateStreamErrorKind::JetStream(error) = error.kind() else { return None };
    if error.error_code() != ErrorCode::STREAM_SUBJECT_OVERLAP {
        return None;
    }
    for subject in wanted {
        if let Ok(name) = context.stream_by_subject(subject).await {
            return Some(name);
        }
    }
    None
}

/// What we cannot work with. How many copies there are, and how much may be kept, is up to who runs the server.
fn differences(found: &Config, wanted: &Config, most: usize) -> String {
    let mut differences = Differences::default();
    let sorted = |config: &Config| {
        let mut subjects = config.subjects.clone();
        subjects.sort();
        subjects.join(" ")
    };
    differences.see("subjects", &sorted(found), &sorted(wanted));
    differences.see("discard", &found.discard, &wanted.discard);
    differences.see("retention", &found.retention, &wanted.retention);
    differences.see("storage", &found.storage, &wanted.storage);
    differences.see("max_age", &found.max_age, &wanted.max_age);
    differences.see("duplicate_window", &found.duplicate_window, &wanted.duplicate_window);
    differences.see("no_ack", &found.no_ack, &wanted.no_ack);
    differences.see("sealed", &found.sealed, &wanted.sealed);
    // A queue, or a session, that holds no more than so many would lose what is old without a word.
    if found.max_messages_per_subject > 0 {
        let most = found.max_messages_per_subject;
        differences.0.push(format!("max_msgs_per_subject is {most}, not unlimited"));
    }
    // Events are cut to what the server takes: a stream that takes less would have gaps.
    let largest = usize::try_from(found.max_message_size).unwrap_or_default();
    if largest > 0 && largest < most {
        let words = format!("max_msg_size is {largest}, not at least the server's max_payload of {most}");
        differences.0.push(words);
    }
    differences.0.join("; ")
}

/// Settings that are not as they must be.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn see<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: &T, wanted: &T) {
        if found != wanted {
            self.0.push(format!("{what} is {found:?}, not {wanted:?}"));
        }
    }
}

/// The name of the consumer from which all proxies of an agent take its tasks.
#[must_use]
pub fn consumer_name(agent: &str) -> String {
    format!("acp-{}", token(agent))
}

/// Finds or creates the consumer of an agent's tasks. One that is there is left as it is: its ack wait holds for all who
/// share it.
pub async fn consumer(
    streams: &Streams,
    subjects: Subjects,
    agent: &str,
    ack_wait: Duration,
) -> Result<Consumer<pull::Config>, StreamError> {
    let name = consumer_name(agent);
    let stream = streams.tasks.cached_info().config.name.clone();
    let wrong = |error: String| StreamError::Consumer { name: name.clone(), stream: stream.clone(), error };
    let config = pull::Config {
        durable_name: Some(name.clone()),
        filter_subject: subjects.task(agent),
        ack_policy: AckPolicy::Explicit,
        ack_wait,
        max_deliver: MAX_DELIVER,
        ..pull::Config::default()
    };
    match streams.tasks.consumer_info(&name).await {
        Ok(found) => {
            let found = found.config;
            let mut differences = Differences::default();
            differences.see("filter_subject", &found.filter_subject, &config.filter_subject);
            differences.see("max_deliver", &found.max_deliver, &config.max_deliver);
            differences.see("ack_policy", &found.ack_policy, &config.ack_policy);
            differences.see("deliver_subject", &found.deliver_subject, &None);
            let differences = differences.0.join("; ");
            if differences.is_empty() {
                streams.tasks.get_consumer(&name).await.map_err(|error| wrong(error.to_string()))
            } else {
                Err(StreamError::Consumed { name, stream, differences })
            }
        }
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => {
            streams.tasks.create_consumer(config).await.map_err(|error| wrong(error.to_string()))
        }
        Err(error) => Err(wrong(error.to_string())),
    }
}
