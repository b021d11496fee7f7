//! Sessions at rest, in one database file that several processes may share.
//!
//! One thread writes; what waits for it is written in one transaction, so that many sessions cost one sync. Whoever
//! asks for something to be kept gets a [`Kept`] that tells when it is safe, and answers nobody before.
//!
//! The database file locks itself while it is open. Each process opens it when it needs it, and closes it after a
//! quarter of a second of rest, or at once when another one waits. Waiting is a shared lock on a second file, so that a
//! single process pays nothing. Which process has a session is a locked file of its own; the lock is given back behind
//! the session's last write.

mod error;
mod file;
mod format;
mod locks;
mod stumble;
mod writer;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_script::agent::SessionRecord;
use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::sync::oneshot;

pub use error::SessionStoreError;
use error::Trouble;
use file::Shared;
use format::{ALIASES, HISTORY, ROUNDS, SESSIONS};
use locks::{Locks, Taken};
use stumble::caught;
pub use stumble::panic_is_expected;
use writer::{Queue, Write, Writer};

/// The database's name in its folder.
pub const FILE: &str = "sessions.redb";

/// Tells when something is safe, or why it is not.
pub type Kept = oneshot::Receiver<Result<(), Arc<SessionStoreError>>>;

/// The sessions of all connections. Clones share one database.
#[derive(Clone)]
pub struct SessionStore {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    locks: Option<Arc<Locks>>,
}

/// Something that is not kept, for this reason.
pub(crate) fn refused(reason: SessionStoreError) -> Kept {
    let (done, kept) = oneshot::channel();
    let _ = done.send(Err(Arc::new(reason)));
    kept
}

impl SessionStore {
    /// The database of this folder, which is made if it is not there, for this user alone. An older format is brought up to
    /// date. Other processes may use the folder at the same time.
    pub fn open(folder: &Path) -> Result<Self, SessionStoreError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| SessionStoreError::Folder { path: folder.to_owned(), error })?;
        let shared = Shared::open(folder.join(FILE))?;
        let locks =
            Locks::new(folder).map_err(|error| Trouble::Disk(error.to_string()).at(&shared.path()))?;
        Self::over(shared, Some(Arc::new(locks)))
    }

    /// Sessions that live as long as the process.
    pub fn in_memory() -> Result<Self, SessionStoreError> {
        let made = Database::builder().create_with_backend(redb::backends::InMemoryBackend::new());
        let database = made.map_err(|error| SessionStoreError::Damaged {
            path: PathBuf::from("memory"),
            reason: error.to_string(),
        })?;
        format::prepare(&database).map_err(|trouble| trouble.at(Path::new("memory")))?;
        Self::over(Shared::in_memory(database), None)
    }

    fn over(shared: Shared, locks: Option<Arc<Locks>>) -> Result<Self, SessionStoreError> {
        let shared = Arc::new(shared);
        let queue = Arc::new(Queue::start(Writer::new(shared.clone(), locks.clone()))?);
        Ok(Self { shared, queue, locks })
    }

    /// Keeps a session, in place of what is kept under its id.
    pub fn put(&self, record: Box<SessionRecord>) -> Kept {
        self.queue.push(Write::Put(record))
    }

    /// Forgets a session; one that is not there stays so.
    pub fn remove(&self, id: String) -> Kept {
        self.queue.push(Write::Remove(id))
    }

    /// Keeps session ids that clients of other forms of the protocol chose, with ours.
    pub fn add_aliases(&self, pairs: Vec<(String, String)>) -> Kept {
        self.queue.push(Write::Aliases(pairs))
    }

    /// Takes a session for this process, once more if it has it already; an error while another process has it.
    pub(crate) fn claim(&self, id: &str) -> Result<(), SessionStoreError> {
        let Some(locks) = &self.locks else { return Ok(()) };
        match locks.take(id) {
            Ok(Taken::Ours) => Ok(()),
            Ok(Taken::Theirs(owner)) => {
                let owner = owner.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                Err(SessionStoreError::InOtherProcess { session: id.to_owned(), owner })
            }
            Err(error) => Err(Trouble::Disk(error.to_string()).at(&self.shared.path())),
        }
    }

    /// Gives back what [`SessionStore::claim`] took, as soon as everything asked for before is written.
    pub(crate) fn release(&self, id: &str) {
        drop(self.queue.push(Write::Release(id.to_owned())));
    }

    /// One session with its history. Blocks; what was asked to be kept before is seen.
    pub fn fetch(&self, id: &str) -> Result<Option<SessionRecord>, SessionStoreError> {
        self.settle();
        self.read(|read| {
            let sessions = read.open_table(SESSIONS)?;
            let Some(found) = sessions.get(id)? else { return Ok(None) };
            let mut record = format::record(found.value())?;
            record.history = format::kept(&read.open_table(HISTORY)?, id)?;
            record.rounds = format::kept(&read.open_table(ROUNDS)?, id)?;
            Ok(Some(record))
        })
    }

    /// All sessions without their histories. Blocks.
    pub fn list(&self) -> Result<Vec<SessionRecord>, SessionStoreError> {
        self.settle();
        self.read(|read| {
            let sessions = read.open_table(SESSIONS)?;
            sessions.iter()?.map(|entry| format::record(entry?.1.value())).collect()
        })
    }

    /// The session ids that clients chose, with ours. Blocks.
    pub fn aliases(&self) -> Result<Vec<(String, String)>, SessionStoreError> {
        self.read(|read| {
            let aliases = read.open_table(ALIASES)?;
            aliases
                .iter()?
                .map(|entry| {
                    let (foreign, canonical) = entry?;
                    Ok((foreign.value().to_owned(), canonical.value().to_owned()))
                })
                .collect()
        })
    }

    /// Waits until everything asked for is written.
    fn settle(&self) {
        let _ = self.queue.push(Write::Settle).blocking_recv();
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&redb::ReadTransaction) -> Result<T, Trouble>,
    ) -> Result<T, SessionStoreError> {
        let read = caught(|| work(&self.shared.database()?.begin_read()?));
        // The thread that writes closes the file when it is not needed any more, and has to know that it is open.
        drop(self.queue.push(Write::Settle));
        read.map_err(|trouble| trouble.at(&self.shared.path()))
    }
}
