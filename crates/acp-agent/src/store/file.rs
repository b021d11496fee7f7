//! The database file, which several processes share: each has it open only while it reads or writes.
//!
//! The database locks its file for as long as it is open. So a process closes it when nothing was asked of it for a
//! moment, and as soon as another one waits: a process that waits holds a shared lock on [`WAITING`], which costs the one that
//! writes a look at a lock and nothing else while it is alone.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redb::Database;

use super::error::{SessionStoreError, Trouble};
use super::format;
use super::stumble::caught;

/// Locked by processes that wait for the database.
const WAITING: &str = "waiting";
/// How long a process waits for another one that has the file open.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a process that has just made way leaves the file to others at most: on a busy machine these wake up late.
const YIELD: Duration = Duration::from_secs(1);

/// The database of a folder, or of memory.
pub(super) struct Shared {
    database: RwLock<Option<Arc<Database>>>,
    path: Option<PathBuf>,
    waiting: Option<File>,
}

impl Shared {
    /// The database in memory.
    pub(super) fn in_memory(database: Database) -> Self {
        Self { database: RwLock::new(Some(Arc::new(database))), path: None, waiting: None }
    }

    /// The database file at this path. An older format is brought up to date.
    pub(super) fn open(path: PathBuf) -> Result<Self, SessionStoreError> {
        let waiting = private(&path.with_file_name(WAITING))
            .map_err(|error| Trouble::Disk(error.to_string()).at(&path))?;
        let shared = Self { database: RwLock::new(None), path: Some(path), waiting: Some(waiting) };
        shared.database().map_err(|trouble| trouble.at(&shared.path()))?;
        Ok(shared)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| PathBuf::from("memory"))
    }

    /// Whether it lies in a file, which others may want.
    pub(super) fn is_file(&self) -> bool {
        self.path.is_some()
    }

    pub(super) fn is_open(&self) -> bool {
        self.database.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The open database. Opens it, and waits for other processes to close it, where that is needed.
    pub(super) fn database(&self) -> Result<Arc<Database>, Trouble> {
        if let Some(open) = self.database.read().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(open);
        }
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = slot.clone() {
            return Ok(open);
        }
        let path = self.path.as_deref().ok_or(Trouble::Closed)?;
        let open = Arc::new(self.wait_for(path)?);
        let _ = std::fs::write(path.with_file_name("owner"), std::process::id().to_string());
        *slot = Some(open.clone());
        Ok(open)
    }

    fn wait_for(&self, path: &Path) -> Result<Database, Trouble> {
        let until = Instant::now() + PATIENCE;
        let mut marked = false;
        let opened = loop {
            match open_file(path) {
                Err(Trouble::InUse) if Instant::now() < until => {}
                done => break done,
            }
            if let Some(waiting) = self.waiting.as_ref().filter(|_| !marked) {
                marked = waiting.lock_shared().is_ok();
            }
            std::thread::sleep(PAUSE);
        };
        if let Some(waiting) = self.waiting.as_ref().filter(|_| marked) {
            let _ = waiting.unlock();
        }
        opened
    }

    /// Closes the file. A read that is under way keeps it open until it is done.
    pub(super) fn close(&self) {
        if self.is_file() {
            let open = self.database.write().unwrap_or_else(PoisonError::into_inner).take();
            // It writes its last pages, and may stumble over damaged ones.
            let _ = caught(|| {
                drop(open);
                Ok(())
            });
        }
    }

    /// Closes the file if another process waits for it, and gives that one the time to open it.
    pub(super) fn make_way(&self) {
        let Some(waiting) = self.waiting.as_ref().filter(|_| self.is_open()) else { return };
        match waiting.try_lock() {
            Ok(()) => {
                let _ = waiting.unlock();
            }
            Err(_) => {
                self.close();
                let until = Instant::now() + YIELD;
                // A process that has opened the file does not wait any more.
                while waiting.try_lock().is_err() && Instant::now() < until {
                    std::thread::sleep(PAUSE);
                }
                let _ = waiting.unlock();
            }
        }
    }
}

/// Opens a file for this user alone, and makes it if it is not there.
pub(super) fn private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn open_file(path: &Path) -> Result<Database, Trouble> {
    caught(|| {
        let file = private(path).map_err(redb::DatabaseError::from)?;
        let database = Database::builder().create_file(file)?;
        format::prepare(&database)?;
        Ok(database)
    })
}
