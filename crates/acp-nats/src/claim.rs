//! Claims: which proxy does a task, in NATS, and on disk whether its prompt may have been sent.
//!
//! ```text
//!              stored in NATS, ours                   the prompt is about to be sent
//! *.claiming ───────────────────────► (may prompt) ───────────────────────────────────► *.json ──► removed
//!     │                                                                                   │
//!     └── restart: the task never ran; the claim is taken back                            └── restart: interrupted
//! ```
//!
//! The claim of a task is the first message on its status subject (expected sequence 0), so that no task prompts twice.
//! A claim that was not acknowledged may be stored minutes later, from the connection's buffer, so the claimer asks
//! whose it is until NATS answers. On disk the step from `*.claiming` to `*.json` is a rename, which needs no room on a
//! full disk. A payload that is not a task but has an id is claimed as ended before it is rejected, so that it takes no
//! result from a task of that name.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::hub::Shared;
use super::ledger::{Known, RETRY_PAUSE, json, traced};
use super::payload::{Status, TaskState};
use super::private;
use super::subject::token;
use super::trace::random_id;
use acp_proxy::event::TurnEnd;
use tracing::Level;

/// A task that this proxy begins, as it is kept on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    pub(super) task: String,
    pub(super) session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reply_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<String>,
}

/// How the turn of a task ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Like this, and that is stored.
    Stored(TurnEnd),
    /// The session ended before the agent was given the prompt.
    NeverBegan,
}

/// What the files of this proxy say of a task that was begun in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Nothing: it was not begun here.
    NotHere,
    /// Its prompt was never sent.
    Unsent,
    /// Its prompt may have been sent.
    Sent,
}

/// The file of a task whose prompt may have been sent, and of one whose prompt was not.
const SENT: &str = "json";
const UNSENT: &str = "claiming";

impl Shared {
    /// Claims a task: true for exactly one caller, ever. Tries until NATS says whose it is: a claim that was not
    /// acknowledged may be stored, also later, when the connection is back.
    pub(super) async fn claim(&self, claim: &Claim) -> bool {
        let status = self.status(&claim.task, TaskState::Begun, Some(&claim.session));
        // Of a claim that was taken back, the server remembers the id.
        let id = format!("{}:begun:{}", token(&claim.task), random_id());
        loop {
            let message = PublishMessage::build()
                .payload(json(&status))
                .message_id(id.clone())
                .expected_last_subject_sequence(0);
            let message = traced(message, claim.trace.as_deref());
            match self.first(self.subjects.status(&claim.task), message).await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(why) => {
                    let words = format!("cannot claim task {:?}: {why}; trying again", claim.task);
                    self.say_once(Level::WARN, &words);
                    self.look_after_streams();
                }
            }
            match self.is_ours(claim).await {
                Ok(Some(ours)) => return ours,
                Ok(None) => {}
                Err(why) => {
                    self.say_once(Level::WARN, &format!("cannot look up a claim: {why}; trying again"));
                }
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Whether a task that someone has claimed is ours, and still to be done.
    async fn is_ours(&self, claim: &Claim) -> Result<Option<bool>, StoreError> {
        match self.look(&claim.task).await? {
            Known::Nothing => Ok(None),
            Known::Withdrawn | Known::Ended(_) => Ok(Some(false)),
            Known::Begun { session, proxy } => {
                let ours =
                    session.as_deref() == Some(&claim.session) && proxy.as_deref() == Some(&self.proxy);
                Ok(Some(ours))
            }
        }
    }

    /// Takes a claim back whose prompt was never sent, so that the task can be claimed again. Tries until NATS says that
    /// it is gone. What others have stored of the task since stays.
    pub(super) async fn take_back(&self, claim: &Claim) {
        while let Err(why) = self.try_take_back(claim).await {
            let words = format!("cannot take the claim of task {:?} back: {why}; trying again", claim.task);
            self.say_once(Level::WARN, &words);
            self.look_after_streams();
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        self.forget(&claim.task);
    }

    async fn try_take_back(&self, claim: &Claim) -> Result<(), StoreError> {
        let streams = self.streams.get().ok_or(StoreError::NoStreams)?;
        let subject = self.subjects.status(&claim.task);
        let last = match streams.results.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => message,
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => return Ok(()),
            Err(error) => return Err(StoreError::nats(error)),
        };
        let status: Status = serde_json::from_slice(&last.payload).map_err(StoreError::nats)?;
        if status.state != TaskState::Begun || status.session.as_deref() != Some(&claim.session) {
            return Ok(());
        }
        streams.results.delete_message(last.sequence).await.map(drop).map_err(StoreError::nats)
    }

    /// Writes down that a task is being claimed here. Its prompt is not sent yet.
    pub(super) fn remember(&self, claim: &Claim) {
        let stored = private::folder(&self.claims())
            .and_then(|()| private::file(&self.claim_file(&claim.task, UNSENT)))
            .and_then(|mut file| file.write_all(&json(claim)));
        if let Err(error) = stored {
            self.say(Level::ERROR, &format!("cannot write down that a task is claimed: {error}"));
            self.forget(&claim.task);
        }
    }

    /// The next prompt in a session is this task's.
    pub(super) fn will_prompt(&self, session: &str, task: &str) {
        self.prompting().insert(session.to_owned(), task.to_owned());
    }

    /// A prompt is about to be passed on to the agent of a session.
    pub(super) fn prompt_passes(&self, session: &str) {
        let task = self.prompting().remove(session);
        if let Some(task) = task {
            self.prompts(&task);
        }
    }

    fn prompting(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.prompting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down that a task's prompt is about to be sent. Needs no room on the disk.
    fn prompts(&self, task: &str) {
        let renamed = std::fs::rename(self.claim_file(task, UNSENT), self.claim_file(task, SENT));
        if renamed.is_err() {
            // Whoever finds neither file does not take the claim back.
            let _ = std::fs::remove_file(self.claim_file(task, UNSENT));
        }
    }

    /// It has ended, or is not begun here after all.
    pub(super) fn forget(&self, task: &str) {
        self.prompting().retain(|_, prompted| prompted != task);
        for ending in [UNSENT, SENT] {
            let _ = std::fs::remove_file(self.claim_file(task, ending));
        }
    }

    /// Tasks that were begun here and have not ended.
    pub(super) fn unfinished(&self) -> Vec<(Claim, Begun)> {
        let files = std::fs::read_dir(self.claims()).into_iter().flatten().flatten();
        files
            .filter_map(|file| {
                let path = file.path();
                let begun = if path.extension()? == UNSENT { Begun::Unsent } else { Begun::Sent };
                let claim = serde_json::from_slice(&std::fs::read(&path).ok()?).ok();
                if claim.is_none() {
                    // Torn before the task was claimed.
                    let _ = std::fs::remove_file(&path);
                }
                Some((claim?, begun))
            })
            .collect()
    }

    /// What this proxy, or the one that had its spool before, knows of a task that was begun in a session.
    pub(super) fn begun_here(&self, task: &str, session: &str) -> Begun {
        let is_of = |ending: &str| {
            let text = std::fs::read(self.claim_file(task, ending)).ok();
            let claim = text.and_then(|text| serde_json::from_slice::<Claim>(&text).ok());
            claim.is_some_and(|claim| claim.session == session)
        };
        match () {
            () if is_of(SENT) => Begun::Sent,
            () if is_of(UNSENT) => Begun::Unsent,
            () => Begun::NotHere,
        }
    }

    fn claims(&self) -> PathBuf {
        self.spool.join("tasks")
    }

    fn claim_file(&self, task: &str, ending: &str) -> PathBuf {
        self.claims().join(format!("{}.{ending}", token(task)))
    }
}
