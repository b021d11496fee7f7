//! Writing.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

use super::files::{self, DONE, OPEN};
use super::record::{self, ClosedRecord, Decided, End, Gap, Lines, MAGIC, OpenedRecord, Record};
use super::{JournalError, JournalSettings, OnFailure, Sync};
use crate::log::ProxyLog;
use crate::metrics::{Metrics, Value};

/// After a failure, writing is tried again so much later.
const AGAIN: Duration = Duration::from_millis(500);

/// A journal that is being written. Clones share it; the last one that goes finishes the segment.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    settings: JournalSettings,
    run: String,
    state: Mutex<State>,
    /// Why nothing can be written now; apart from the state, which may be waiting for a disk.
    trouble: Mutex<Option<JournalError>>,
    /// Written, and not yet forced to the disk.
    dirty: AtomicBool,
    /// Segments that were finished since then.
    finished: Mutex<Vec<Arc<File>>>,
    counts: Counts,
    log: ProxyLog,
    /// Ends the thread that forces things to the disk.
    stop: Mutex<Option<mpsc::Sender<()>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Counts {
    records: Value,
    bytes: Value,
    failures: Value,
    missing: Value,
    healthy: Value,
}

struct State {
    file: Arc<File>,
    segment: u32,
    path: PathBuf,
    /// How much of the file is whole records.
    length: u64,
    began: Instant,
    number: u64,
    scratch: Vec<u8>,
    /// Conversations that go on, for the next segment.
    open: BTreeMap<u64, OpenedRecord>,
    failure: Option<(JournalError, Instant)>,
    missing: Gap,
    finished: bool,
}

impl Journal {
    /// Begins a run in the folder, which is made if it is not there. Segments that an earlier run left unfinished are
    /// mended first, and old ones are removed.
    pub fn create(
        settings: JournalSettings,
        metrics: &Metrics,
        log: ProxyLog,
    ) -> Result<Journal, JournalError> {
        let folder = settings.folder.clone();
        let fail = |error: io::Error| JournalError::at_start(&folder, &error);
        // What was said is its owner's business.
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&settings.folder).map_err(fail)?;
        for mended in super::recover(&settings.folder).map_err(fail)? {
            log.warn(&mended.to_string());
        }
        let run = files::new_run(&settings.folder);
        let state = State::begin(&settings, &run, 1, 0).map_err(fail)?;
        let count = |name, help| metrics.counter(name, help, &[]);
        let counts = Counts {
            records: count("acp_journal_records_total", "Records written to the journal."),
            bytes: count("acp_journal_bytes_total", "Bytes written to the journal."),
            failures: count("acp_journal_failures_total", "Attempts to write the journal that failed."),
            missing: count("acp_journal_missing_records_total", "Records that were passed on and not kept."),
            healthy: metrics.gauge("acp_journal_healthy", "Whether the journal can be written.", &[]),
        };
        counts.healthy.set(1);
        let inner = Arc::new(Inner {
            run,
            state: Mutex::new(state),
            trouble: Mutex::default(),
            dirty: AtomicBool::new(false),
            finished: Mutex::default(),
            counts,
            log,
            stop: Mutex::default(),
            thread: Mutex::default(),
            settings,
        });
        inner.remove_old();
        if let Sync::Every(period) = inner.settings.sync {
            let (stop, stopped) = mpsc::channel();
            let weak = Arc::downgrade(&inner);
            let thread = std::thread::Builder::new().name("acp-journal".into()).spawn(move || {
                while stopped.recv_timeout(period) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let Some(inner) = weak.upgrade() else { return };
                    inner.force();
                }
            });
            *lock(&inner.thread) = Some(thread.map_err(fail)?);
            *lock(&inner.stop) = Some(stop);
        }
        Ok(Journal { inner })
    }

    /// The name of this run: conversation 3 of it is `RUN.3`.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.inner.run
    }

    /// Why nothing can be written now, if that is so.
    #[must_use]
    pub fn failure(&self) -> Option<JournalError> {
        lock(&self.inner.trouble).clone()
    }

    /// A conversation begins.
    pub fn open(&self, opened: OpenedRecord) -> Result<(), JournalError> {
        let mut state = self.inner.lock();
        let written = self.inner.append(&mut state, &Record::Opened(opened.clone()), true);
        if written.is_ok() {
            state.open.insert(opened.conversation, OpenedRecord { again: true, ..opened });
        }
        written
    }

    /// Keeps lines.
    pub fn lines(&self, lines: Lines) -> Result<(), JournalError> {
        self.inner.append(&mut self.inner.lock(), &Record::Lines(lines), false)
    }

    /// Keeps a decision.
    pub fn decided(&self, decided: Decided) -> Result<(), JournalError> {
        self.inner.append(&mut self.inner.lock(), &Record::Decided(decided), false)
    }

    /// A conversation is over.
    pub fn close(&self, closed: ClosedRecord) -> Result<(), JournalError> {
        let mut state = self.inner.lock();
        state.open.remove(&closed.conversation);
        self.inner.append(&mut state, &Record::Closed(closed), false)
    }

    /// Ends the run: everything is on the disk when this comes back without an error.
    pub fn finish(&self) -> Result<(), JournalError> {
        self.inner.finish()
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("run", &self.inner.run).finish_non_exhaustive()
    }
}

impl State {
    fn begin(settings: &JournalSettings, run: &str, segment: u32, number: u64) -> io::Result<State> {
        let path = files::segment_path(&settings.folder, run, segment, OPEN);
        // Nobody mends what is locked, and it is locked before it has its name.
        let unnamed = path.with_extension("new");
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&unnamed)?;
        file.lock()?;
        let named = (&file).write_all(MAGIC).and_then(|()| std::fs::rename(&unnamed, &path));
        if let Err(error) = named {
            let _ = std::fs::remove_file(&unnamed);
            return Err(error);
        }
        Ok(State {
            file: Arc::new(file),
            segment,
            path,
            length: MAGIC.len() as u64,
            began: Instant::now(),
            number,
            scratch: Vec::new(),
            open: BTreeMap::new(),
            failure: None,
            missing: Gap { records: 0, bytes: 0, reason: String::new() },
            finished: false,
        })
    }

    /// Writes what is in `scratch` and then `tail`, all of it or nothing.
    fn write(&mut self, tail: &[u8]) -> io::Result<()> {
        let written = write_both(&self.file, &self.scratch, tail);
        match written {
            Ok(()) => self.length += (self.scratch.len() + tail.len()) as u64,
            Err(_) => {
                // A part of it may be there. What is not whole must not stay between whole records.
                self.file.set_len(self.length)?;
                (&*self.file).seek(SeekFrom::Start(self.length))?;
            }
        }
        self.scratch.clear();
        if self.scratch.capacity() > 4 * 1024 * 1024 {
            self.scratch = Vec::new();
        }
        written
    }

    fn put(&mut self, record: &Record) {
        self.number += 1;
        let at = self.length + self.scratch.len() as u64;
        record::encode(self.number, record, at, &mut self.scratch);
    }
}

fn write_both(mut file: &File, head: &[u8], tail: &[u8]) -> io::Result<()> {
    let (mut parts, mut left) = ([IoSlice::new(head), IoSlice::new(tail)], head.len() + tail.len());
    let mut rest = &mut parts[..];
    while left > 0 {
        match file.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                left -= count;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// `now`: tries even if it has just failed.
    fn append(&self, state: &mut State, record: &Record, now: bool) -> Result<(), JournalError> {
        if let Some((error, at)) = &state.failure
            && !now
            && at.elapsed() < AGAIN
        {
            let error = error.clone();
            return self.missed(state, record, error);
        }
        match self.try_append(state, record) {
            Ok(()) => {
                if state.failure.take().is_some() {
                    *lock(&self.trouble) = None;
                    self.counts.healthy.set(1);
                    let gap = std::mem::take(&mut state.missing.records);
                    state.missing.bytes = 0;
                    let words =
                        format!("the journal can be written again; {gap} records are missing from it");
                    self.log.warn(&words);
                }
                Ok(())
            }
            Err(error) => {
                let error = JournalError::later(&state.path, &error, self.settings.on_failure);
                self.counts.failures.up();
                self.counts.healthy.set(0);
                if state.failure.is_none() {
                    self.log.error(&error.to_string());
                }
                *lock(&self.trouble) = Some(error.clone());
                state.failure = Some((error.clone(), Instant::now()));
                self.missed(state, record, error)
            }
        }
    }

    fn try_append(&self, state: &mut State, record: &Record) -> io::Result<()> {
        if state.length >= self.settings.segment_bytes || state.began.elapsed() >= self.settings.segment_age {
            self.rotate(state)?;
        }
        let number = state.number;
        state.scratch.clear();
        if state.missing.records > 0 {
            state.put(&Record::Gap(state.missing.clone()));
        }
        state.put(record);
        let tail = record::tail(record);
        let length = (state.scratch.len() + tail.len()) as u64;
        if let Err(error) = state.write(tail) {
            state.number = number;
            return Err(error);
        }
        self.counts.records.up();
        self.counts.bytes.add(length);
        if self.settings.sync == Sync::Always {
            state.file.sync_data()?;
        } else {
            self.dirty.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The record is not there: that is an error, or a gap.
    fn missed(&self, state: &mut State, record: &Record, error: JournalError) -> Result<(), JournalError> {
        if self.settings.on_failure == OnFailure::Stop {
            return Err(error);
        }
        self.counts.missing.up();
        state.missing.records += 1;
        if let Record::Lines(lines) = record {
            state.missing.bytes += lines.what.len() as u64;
        }
        state.missing.reason = error.reason;
        Ok(())
    }

    /// Ends this segment and begins the next one, which knows the conversations that go on.
    fn rotate(&self, state: &mut State) -> io::Result<()> {
        let next = State::begin(&self.settings, &self.run, state.segment + 1, 0)?;
        if let Err(error) = self.end(state, "rotated") {
            let _ = std::fs::remove_file(&next.path);
            return Err(error);
        }
        let before = std::mem::replace(state, next);
        if let Sync::Every(_) = self.settings.sync {
            // A whole segment takes the disk a while, and somebody waits for us.
            lock(&self.finished).push(before.file);
            self.dirty.store(true, Ordering::Release);
        }
        state.number = before.number;
        state.failure = before.failure;
        state.missing = before.missing;
        state.open = before.open;
        let again: Vec<Record> = state.open.values().cloned().map(Record::Opened).collect();
        again.iter().for_each(|record| state.put(record));
        if !state.scratch.is_empty() {
            state.write(&[])?;
        }
        self.remove_old();
        Ok(())
    }

    /// Writes the last record of a segment, forces it to the disk and gives it its final name.
    fn end(&self, state: &mut State, why: &str) -> io::Result<()> {
        let number = state.number;
        state.scratch.clear();
        state.put(&Record::End(End { why: why.into(), cut: 0 }));
        if let Err(error) = state.write(&[]) {
            state.number = number;
            return Err(error);
        }
        let last = why == "stopped" || self.settings.sync == Sync::Always;
        if last && self.settings.sync != Sync::System {
            state.file.sync_all()?;
        }
        let done = files::segment_path(&self.settings.folder, &self.run, state.segment, DONE);
        std::fs::rename(&state.path, &done)?;
        state.path = done;
        if last && self.settings.sync != Sync::System {
            files::sync_folder(&self.settings.folder)?;
        }
        Ok(())
    }

    fn force(&self) {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut files = std::mem::take(&mut *lock(&self.finished));
        let renamed = !files.is_empty();
        files.push(self.lock().file.clone());
        let forced = files.iter().try_for_each(|file| file.sync_data());
        let forced =
            forced.and_then(|()| if renamed { files::sync_folder(&self.settings.folder) } else { Ok(()) });
        if let Err(error) = forced {
            let words = format!("the journal was written, but could not be forced to the disk: {error}");
            self.log.error(&words);
            self.counts.failures.up();
        }
    }

    fn finish(&self) -> Result<(), JournalError> {
        drop(lock(&self.stop).take());
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        self.force();
        let mut state = self.lock();
        if std::mem::replace(&mut state.finished, true) {
            return Ok(());
        }
        let missing = state.missing.clone();
        let told = if missing.records > 0 {
            state.missing.records = 0;
            self.try_append(&mut state, &Record::Gap(missing.clone()))
        } else {
            Ok(())
        };
        told.and_then(|()| self.end(&mut state, "stopped")).map_err(|error| {
            let gap = match missing {
                Gap { records: 0, .. } => String::new(),
                Gap { records, bytes, .. } => {
                    format!("; {records} records ({bytes} bytes of lines) were passed on and are not in it")
                }
            };
            let reason = format!("{error}{gap}");
            JournalError { reason, ..JournalError::later(&state.path, &error, self.settings.on_failure) }
        })
    }

    fn remove_old(&self) {
        let Some(before) = SystemTime::now().checked_sub(self.settings.keep) else { return };
        for path in files::segments(&self.settings.folder).unwrap_or_default() {
            let done = path.extension().is_some_and(|ending| ending == DONE);
            let last = path.metadata().and_then(|data| data.modified());
            if done && last.is_ok_and(|last| last < before) {
                let words = match std::fs::remove_file(&path) {
                    Ok(()) => format!("the journal segment {} is old enough to go", path.display()),
                    Err(error) => {
                        format!("cannot remove the old journal segment {}: {error}", path.display())
                    }
                };
                self.log.info(&words);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Who wants to know calls `finish`.
        let _ = self.finish();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
