//! The journal: what both sides said, on disk before it is passed on.
//!
//! A record is handed to the operating system before the lines in it reach the other side, so whatever a client has
//! received is in the journal even when this process is killed the moment after. What a machine that loses its power
//! may lose is up to [`Sync`].
//!
//! A folder holds the segments of any number of runs: `RUN-000001.journal`, and `RUN-000007.open` for the one that is
//! being written. Each run writes files of its own, so several proxies may share a folder.
//!
//! Only forcing to disk happens on a thread of its own. Both wires are kept raw; events are computed when the journal
//! is read, by the code that publishes them. A long burst ends with a page of memory, which the system takes a third
//! faster than pieces of pages. What follows a damaged record is found by its number and checksum.

mod files;
mod observe;
mod read;
mod record;
mod recover;
mod trouble;
mod write;

use std::path::PathBuf;
use std::time::Duration;

pub use files::{default_folder, runs, segments};
pub use observe::{Decisions, JournalObserver};
pub use read::{
    Conversation, Notice, Reader, SegmentError, Spoken, conversations, conversations_of, is_segment,
};
pub use record::{ClosedRecord, Decided, End, Gap, Lines, OpenedRecord, Record, RecordedLines};
pub use recover::{Recovered, recover};
pub use trouble::JournalError;
pub use write::Journal;

/// When what was written is forced to the disk. Against the end of this process nothing of it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before lines are passed on.
    Always,
    /// Every so often, and at the end of a segment.
    Every(Duration),
    /// When the operating system thinks so.
    System,
}

/// What happens when the journal cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing is passed on any more: conversations end with the reason.
    Stop,
    /// Conversations go on. What is missing is counted, told, and written as a gap as soon as that is possible.
    GoOn,
}

/// How a journal is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// Where.
    pub folder: PathBuf,
    /// A new segment begins after so many bytes …
    pub segment_bytes: u64,
    /// … or so long after its beginning.
    pub segment_age: Duration,
    /// Finished segments are removed so long after their last record.
    pub keep: Duration,
    /// When it is forced to the disk.
    pub sync: Sync,
    /// What happens when it cannot be written.
    pub on_failure: OnFailure,
}

impl JournalSettings {
    /// The usual settings: segments of 64 MiB or a day, kept for a week, forced to the disk every second, and nothing is
    /// passed on that cannot be kept.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> JournalSettings {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        JournalSettings {
            folder: folder.into(),
            segment_bytes: 64 * 1024 * 1024,
            segment_age: DAY,
            keep: DAY * 7,
            sync: Sync::Every(Duration::from_secs(1)),
            on_failure: OnFailure::Stop,
        }
    }
}
