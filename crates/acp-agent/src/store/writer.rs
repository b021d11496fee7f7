//! The thread that writes: what waits for it is written in one transaction.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use acp_script::agent::SessionRecord;
use redb::Database;
use tokio::sync::oneshot;

use super::error::{SessionStoreError, Trouble};
use super::file::Shared;
use super::format::{self, ALIASES, HISTORY, ROUNDS, SESSIONS};
use super::locks::Locks;
use super::stumble::caught;

/// How long the file stays open when nothing is asked for.
const REST: Duration = Duration::from_millis(250);
/// How often it is seen meanwhile whether another process waits for it.
const LOOK: Duration = Duration::from_millis(10);

/// Something to write, and who wants to know.
pub(super) struct Job {
    pub(super) write: Write,
    pub(super) done: oneshot::Sender<Result<(), Arc<SessionStoreError>>>,
}

pub(super) enum Write {
    Put(Box<SessionRecord>),
    Remove(String),
    Aliases(Vec<(String, String)>),
    /// Nothing: the caller waits for what was asked before.
    Settle,
    /// Others may have this session, once everything before is written.
    Release(String),
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    locks: Option<Arc<Locks>>,
    /// How much of each history is in the database already, of sessions that no other process can write.
    lengths: HashMap<String, usize>,
    /// How many answers of the model it has of each session that was written.
    rounds: HashMap<String, usize>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, locks: Option<Arc<Locks>>) -> Self {
        Self { shared, locks, lengths: HashMap::new(), rounds: HashMap::new() }
    }

    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        while let Some(first) = self.next(jobs) {
            let batch: Vec<Job> = std::iter::once(first).chain(jobs.try_iter()).collect();
            let outcome = caught(|| self.commit(&batch)).map_err(|trouble| {
                self.lengths.clear();
                self.rounds.clear();
                Arc::new(trouble.at(&self.shared.path()))
            });
            for job in batch {
                if let Write::Release(session) = &job.write {
                    self.release(session);
                }
                let _ = job.done.send(outcome.clone());
            }
            self.shared.make_way();
        }
    }

    /// The next job. The file is closed when none comes for a while, or when another process wants it.
    fn next(&self, jobs: &Receiver<Job>) -> Option<Job> {
        let since = Instant::now();
        while self.shared.is_file() && self.shared.is_open() {
            match jobs.recv_timeout(LOOK) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if since.elapsed() > REST => self.shared.close(),
                Err(RecvTimeoutError::Timeout) => self.shared.make_way(),
            }
        }
        jobs.recv().ok()
    }

    fn release(&mut self, session: &str) {
        // Another process may write it from now on.
        self.lengths.remove(session);
        self.rounds.remove(session);
        if let Some(locks) = &self.locks {
            locks.release(session);
        }
    }

    fn commit(&mut self, batch: &[Job]) -> Result<(), Trouble> {
        let writes = |job: &Job| match &job.write {
            Write::Put(_) | Write::Remove(_) => true,
            Write::Aliases(pairs) => !pairs.is_empty(),
            Write::Settle | Write::Release(_) => false,
        };
        if !batch.iter().any(writes) {
            return Ok(());
        }
        let database = self.shared.database()?;
        let written = self.transact(&database, batch);
        drop(database);
        if let Err(Trouble::Disk(_)) = &written {
            // After an error of the disk the database must be opened anew.
            self.shared.close();
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
                        self.put(record, &mut history, &mut rounds)?;
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
                    Write::Settle | Write::Release(_) => {}
                }
            }
        }
        write.commit()?;
        Ok(())
    }

    /// Keeps what is new of a session's history and of the model's answers.
    fn put(
        &mut self,
        record: &SessionRecord,
        history: &mut format::Rows<'_>,
        rounds: &mut format::Rows<'_>,
    ) -> Result<(), Trouble> {
        let id = record.id.as_str();
        let known = match self.lengths.get(id) {
            Some(known) => *known,
            None => format::length(history, id)?,
        };
        // A history only grows; one that did not is another one.
        if known > record.history.len() {
            format::clear(history, id)?;
        }
        let from = if known > record.history.len() { 0 } else { known };
        format::keep(history, id, &record.history, from)?;
        self.lengths.insert(id.to_owned(), record.history.len());
        // Answers are added at the end, where the last one still grows, or all of them go.
        let asked = self.rounds.insert(id.to_owned(), record.rounds.len());
        let from = match asked.filter(|asked| *asked <= record.rounds.len()) {
            Some(asked) => asked.saturating_sub(1),
            None => {
                format::clear(rounds, id)?;
                0
            }
        };
        format::keep(rounds, id, &record.rounds, from)
    }
}

/// Where writing is asked for. When it goes, everything is written and the file is free.
pub(super) struct Queue {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Queue {
    /// Starts the thread.
    pub(super) fn start(writer: Writer) -> Result<Self, SessionStoreError> {
        let (tell, jobs) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("sessions".to_owned())
            .spawn(move || writer.run(&jobs))
            .map_err(SessionStoreError::Thread)?;
        Ok(Self { jobs: Some(tell), thread: Some(thread) })
    }

    pub(super) fn push(&self, write: Write) -> super::Kept {
        let (done, kept) = oneshot::channel();
        if let Some(jobs) = &self.jobs
            && let Err(mpsc::SendError(job)) = jobs.send(Job { write, done })
        {
            let _ = job.done.send(Err(Arc::new(SessionStoreError::Ended)));
        }
        kept
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
