//! Sessions at rest, in one database file.
//!
//! One thread writes; what waits for it is written in one transaction, so that many sessions cost one sync. Whoever
//! asks for something to be kept gets a [`Kept`] that tells when it is safe, and answers nobody before.

mod error;
mod format;
mod stumble;

use std::collections::HashMap;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, PoisonError, RwLock};

use acp_script::agent::Record;
use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::sync::oneshot;

pub use error::StoreError;
use error::Trouble;
use format::{ALIASES, HISTORY, ROUNDS, SESSIONS};
use stumble::caught;
pub use stumble::panic_is_expected;

/// The database's name in its folder.
pub const FILE: &str = "sessions.redb";

/// Tells when something is safe, or why it is not.
pub type Kept = oneshot::Receiver<Result<(), Arc<StoreError>>>;

/// The sessions of all connections. Clones share one database.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    writer: Arc<Desk>,
}

/// Where writing is asked for. When the last clone of a store goes, everything is written and the file is free.
struct Desk {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Shared {
    /// `None` while the file is being opened again after an error.
    database: RwLock<Option<Arc<Database>>>,
    path: Option<PathBuf>,
}

struct Job {
    write: Write,
    done: oneshot::Sender<Result<(), Arc<StoreError>>>,
}

enum Write {
    Put(Box<Record>),
    Remove(String),
    Aliases(Vec<(String, String)>),
}

/// Something that is not kept, for this reason.
pub(crate) fn refused(reason: StoreError) -> Kept {
    let (done, kept) = oneshot::channel();
    let _ = done.send(Err(Arc::new(reason)));
    kept
}

impl Store {
    /// The database of this folder, which is made if it is not there, for this user alone. An older format is brought up to
    /// date.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| StoreError::Folder { path: folder.to_owned(), error })?;
        let path = folder.join(FILE);
        let database = open_file(&path)?;
        let _ = std::fs::write(folder.join("owner"), std::process::id().to_string());
        Self::over(database, Some(path))
    }

    /// Sessions that live as long as the process.
    pub fn in_memory() -> Result<Self, StoreError> {
        let made = Database::builder().create_with_backend(redb::backends::InMemoryBackend::new());
        let database = made.map_err(|error| StoreError::Damaged {
            path: PathBuf::from("memory"),
            reason: error.to_string(),
        })?;
        format::prepare(&database).map_err(|trouble| trouble.at(Path::new("memory")))?;
        Self::over(database, None)
    }

    fn over(database: Database, path: Option<PathBuf>) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared { database: RwLock::new(Some(Arc::new(database))), path });
        let (tell, jobs) = mpsc::channel();
        let its = shared.clone();
        let thread = std::thread::Builder::new()
            .name("sessions".to_owned())
            .spawn(move || Writer { shared: its, lengths: HashMap::new(), rounds: HashMap::new() }.run(&jobs))
            .map_err(StoreError::Thread)?;
        Ok(Self { shared, writer: Arc::new(Desk { jobs: Some(tell), thread: Some(thread) }) })
    }

    /// Keeps a session, in place of what is kept under its id.
    pub fn put(&self, record: Box<Record>) -> Kept {
        self.write(Write::Put(record))
    }

    /// Forgets a session; one that is not there stays so.
    pub fn remove(&self, id: String) -> Kept {
        self.write(Write::Remove(id))
    }

    /// Keeps session ids that clients of other forms of the protocol chose, with ours.
    pub fn add_aliases(&self, pairs: Vec<(String, String)>) -> Kept {
        self.write(Write::Aliases(pairs))
    }

    /// One session with its history. Blocks; what was asked to be kept before is seen.
    pub fn fetch(&self, id: &str) -> Result<Option<Record>, StoreError> {
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
    pub fn list(&self) -> Result<Vec<Record>, StoreError> {
        self.settle();
        self.read(|read| {
            let sessions = read.open_table(SESSIONS)?;
            sessions.iter()?.map(|entry| format::record(entry?.1.value())).collect()
        })
    }

    /// The session ids that clients chose, with ours. Blocks.
    pub fn aliases(&self) -> Result<Vec<(String, String)>, StoreError> {
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

    fn write(&self, write: Write) -> Kept {
        let (done, kept) = oneshot::channel();
        let job = Job { write, done };
        if let Some(jobs) = &self.writer.jobs
            && let Err(mpsc::SendError(job)) = jobs.send(job)
        {
            let _ = job.done.send(Err(Arc::new(StoreError::Ended)));
        }
        kept
    }

    /// Waits until everything asked for is written.
    fn settle(&self) {
        let _ = self.write(Write::Aliases(Vec::new())).blocking_recv();
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&redb::ReadTransaction) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let read = caught(|| work(&self.shared.database()?.begin_read()?));
        read.map_err(|trouble| trouble.at(&self.shared.path()))
    }
}

impl Shared {
    fn path(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| PathBuf::from("memory"))
    }

    fn database(&self) -> Result<Arc<Database>, Trouble> {
        let open = self.database.read().unwrap_or_else(PoisonError::into_inner).clone();
        open.ok_or(Trouble::Closed)
    }

    /// After an error of the disk the database must be opened anew.
    fn reopen(&self) {
        let Some(path) = &self.path else { return };
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        *slot = None;
        *slot = open_file(path).ok().map(Arc::new);
    }
}

struct Writer {
    shared: Arc<Shared>,
    /// How much of each history is in the database already.
    lengths: HashMap<String, usize>,
    /// How many answers of the model it has of each session that was written.
    rounds: HashMap<String, usize>,
}

impl Writer {
    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(first) = jobs.recv() {
            let batch: Vec<Job> = std::iter::once(first).chain(jobs.try_iter()).collect();
            let outcome = caught(|| self.commit(&batch)).map_err(|trouble| {
                self.lengths.clear();
                self.rounds.clear();
                Arc::new(trouble.at(&self.shared.path()))
            });
            for job in batch {
                let _ = job.done.send(outcome.clone());
            }
        }
    }

    fn commit(&mut self, batch: &[Job]) -> Result<(), Trouble> {
        if batch.iter().all(|job| matches!(&job.write, Write::Aliases(pairs) if pairs.is_empty())) {
            return Ok(());
        }
        if self.shared.database().is_err() {
            self.shared.reopen();
        }
        let database = self.shared.database()?;
        let written = self.transact(&database, batch);
        drop(database);
        if let Err(Trouble::Disk(_)) = &written {
            self.shared.reopen();
        }
        written
    }

    fn transact(&mut self, database: &Database, batch: &[Job]) -> Result<(), Trouble> {
        let write = database.begin_write()?;
        {
            let mut sessions = write.open_table(SESSIONS)?;
            let mut history = write.open_table(HISTORY)?;
            let mut rounds = write.open_table(ROUNDS)?;
            let mut aliases = write.open_table(ALIASES)?;
            for job in batch {
                match &job.write {
                    Write::Put(record) => {
                        sessions.insert(record.id.as_str(), format::summary(record)?.as_slice())?;
                        let id = record.id.as_str();
                        let known = match self.lengths.get(id) {
                            Some(known) => *known,
                            None => format::length(&history, id)?,
                        };
                        // A history only grows; one that did not is another one.
                        if known > record.history.len() {
                            format::clear(&mut history, id)?;
                        }
                        let from = if known > record.history.len() { 0 } else { known };
                        format::keep(&mut history, id, &record.history, from)?;
                        self.lengths.insert(id.to_owned(), record.history.len());
                        // Answers are added at the end, where the last one still grows, or all of them go.
                        let asked = self.rounds.insert(id.to_owned(), record.rounds.len());
                        let from = match asked.filter(|asked| *asked <= record.rounds.len()) {
                            Some(asked) => asked.saturating_sub(1),
                            None => {
                                format::clear(&mut rounds, id)?;
                                0
                            }
                        };
                        format::keep(&mut rounds, id, &record.rounds, from)?;
                    }
                    Write::Remove(id) => {
                        sessions.remove(id.as_str())?;
                        format::clear(&mut history, id)?;
                        format::clear(&mut rounds, id)?;
                        self.lengths.remove(id);
                        self.rounds.remove(id);
                    }
                    Write::Aliases(pairs) => {
                        for (foreign, canonical) in pairs {
                            aliases.insert(foreign.as_str(), canonical.as_str())?;
                        }
                    }
                }
            }
        }
        write.commit()?;
        Ok(())
    }
}

fn open_file(path: &Path) -> Result<Database, StoreError> {
    let opened = caught(|| {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(redb::DatabaseError::from)?;
        let database = Database::builder().create_file(file)?;
        format::prepare(&database)?;
        Ok(database)
    });
    opened.map_err(|trouble| trouble.at(path))
}
