//! The tap: every line of a conversation, both ways, as an NDJSON transcript.
//!
//! `{"t":0.001234,"dir":"c2a","line":"…"}`; what is not UTF-8 is under `base64` instead of `line`, and a line over
//! the limit keeps its beginning and says its length under `oversized`.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use acp_rpc::transcript::write_entry;
use acp_rpc::{Direction, Line, Splitter};
use memchr::memchr;

/// The writing thread wakes when this much waits …
const BLOCK: usize = 128 * 1024;
/// … or after this long, so that a transcript can be watched while it grows.
const PERIOD: Duration = Duration::from_millis(100);
/// Recording waits for the disk when this much is not yet written.
const BOUND: usize = 1024 * 1024;

/// Records lines to a file from a thread of its own. Clones share the file.
///
/// Call [`finish`](Tap::finish) at the end: it writes the tail and says whether everything reached the disk. A
/// dropped tap also writes its tail, but cannot say.
#[derive(Clone, Debug)]
pub struct Tap {
    shared: Arc<Shared>,
}

/// The transcript could not be written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot write the transcript{}: {error}; is the disk full or the folder missing?", place(.path.as_deref()))]
pub struct TapError {
    /// The file, where there is one.
    pub path: Option<PathBuf>,
    /// What the system said.
    pub error: Arc<io::Error>,
}

fn place(path: Option<&Path>) -> String {
    path.map(|path| format!(" {}", path.display())).unwrap_or_default()
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    path: Option<PathBuf>,
    state: Arc<(Mutex<State>, Condvar, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct State {
    buf: Vec<u8>,
    entries: u64,
    closing: bool,
    error: Option<Arc<io::Error>>,
}

impl Tap {
    /// Records to a new file (an existing one is replaced), which only its owner can read. Times count from now.
    pub fn create(path: impl Into<PathBuf>) -> Result<Tap, TapError> {
        let path = path.into();
        let created = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let private = created.and_then(|file| make_private(&file).map(|()| file));
        let opened = private.and_then(|file| Tap::start(file, Some(path.clone())));
        opened.map_err(|error| TapError { path: Some(path), error: Arc::new(error) })
    }

    /// Records to any writer. Times count from now.
    pub fn to(writer: impl Write + Send + 'static) -> Result<Tap, TapError> {
        Tap::start(writer, None).map_err(|error| TapError { path: None, error: Arc::new(error) })
    }

    fn start(writer: impl Write + Send + 'static, path: Option<PathBuf>) -> io::Result<Tap> {
        let state = Arc::new((Mutex::default(), Condvar::new(), Condvar::new()));
        let theirs = state.clone();
        let thread =
            std::thread::Builder::new().name("acp-tap".into()).spawn(move || write_out(writer, &theirs))?;
        Ok(Tap {
            shared: Arc::new(Shared { start: Instant::now(), path, state, thread: Mutex::new(Some(thread)) }),
        })
    }

    /// How many entries were recorded so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        lock(&self.shared.state.0).entries
    }

    /// The disk's error, if there was one. What is recorded after it is lost.
    #[must_use]
    pub fn error(&self) -> Option<TapError> {
        let error = lock(&self.shared.state.0).error.clone()?;
        Some(TapError { path: self.shared.path.clone(), error })
    }

    /// Writes the tail, ends the recording (of every clone) and says whether all of it was written. Blocks
    /// for the disk.
    pub fn finish(&self) -> Result<(), TapError> {
        self.shared.close();
        self.error().map_or(Ok(()), Err)
    }

    /// Records lines that arrived together.
    pub fn record<'a>(&self, at: Instant, dir: Direction, lines: impl IntoIterator<Item = &'a Line>) {
        let lines = lines.into_iter().map(|line| match line {
            Line::Oversized { len, head } => (&head[..], Some(*len)),
            whole => (&whole.bytes()[..], None),
        });
        self.append(at, dir, lines);
    }

    fn append<'a>(&self, at: Instant, dir: Direction, lines: impl Iterator<Item = (&'a [u8], Option<u64>)>) {
        let t = at.saturating_duration_since(self.shared.start);
        let t = Duration::new(t.as_secs(), t.subsec_micros() * 1000);
        let (mutex, wake, drained) = &*self.shared.state;
        let mut state = lock(mutex);
        for (line, oversized) in lines {
            while state.buf.len() >= BOUND && state.error.is_none() && !state.closing {
                state = drained.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.error.is_some() || state.closing {
                return;
            }
            let before = state.buf.len();
            push_entry(&mut state.buf, t, dir, line, oversized);
            state.entries += 1;
            if before == 0 || (before < BLOCK && state.buf.len() >= BLOCK) {
                wake.notify_one();
            }
        }
    }
}

/// A file that was there before keeps its mode when it is opened, and others may have been allowed to read it.
fn make_private(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() || found.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    match file.set_permissions(Permissions::from_mode(0o600)) {
        // The file is not ours: its owner decides who may read it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

impl Shared {
    fn close(&self) {
        lock(&self.state.0).closing = true;
        self.state.1.notify_one();
        self.state.2.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in there can only be the writer's own: its error is what we report then.
            if thread.join().is_err() {
                let mut state = lock(&self.state.0);
                state.error.get_or_insert_with(|| Arc::new(io::Error::other("the writer panicked")));
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock(mutex: &Mutex<State>) -> MutexGuard<'_, State> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_out(mut writer: impl Write, shared: &(Mutex<State>, Condvar, Condvar)) {
    let (mutex, wake, drained) = shared;
    let mut out = Vec::new();
    loop {
        let mut state = lock(mutex);
        while state.buf.is_empty() && !state.closing {
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.buf.len() < BLOCK && !state.closing {
            let waited =
                wake.wait_timeout_while(state, PERIOD, |state| state.buf.len() < BLOCK && !state.closing);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let last = state.closing;
        std::mem::swap(&mut state.buf, &mut out);
        drop(state);
        drained.notify_all();
        let written = writer.write_all(&out).and_then(|()| writer.flush());
        out.clear();
        out.shrink_to(BOUND);
        if let Err(error) = written {
            lock(mutex).error = Some(Arc::new(error));
            drained.notify_all();
            return;
        }
        if last {
            return;
        }
    }
}

/// One direction of one link, on its way to the tap.
#[derive(Debug)]
pub(crate) struct Recorder {
    tap: Tap,
    dir: Direction,
    /// Cuts what is sent raw into the lines that the other side will see.
    raw: Option<Splitter>,
}

impl Recorder {
    pub(crate) fn new(tap: &Tap, dir: Direction) -> Recorder {
        Recorder { tap: tap.clone(), dir, raw: None }
    }

    pub(crate) fn received<'a>(&self, at: Instant, lines: impl IntoIterator<Item = &'a Line>) {
        self.tap.record(at, self.dir, lines);
    }

    /// `whole`: the bytes are one frame; otherwise they are any piece of the stream.
    pub(crate) fn sent(&mut self, at: Instant, bytes: &[u8], whole: bool) {
        let between_lines = self.raw.as_ref().is_none_or(|raw| raw.pending() == 0);
        if whole && between_lines && memchr(b'\n', bytes).is_none() {
            self.tap.append(at, self.dir, std::iter::once((bytes, None)));
            return;
        }
        let raw = self.raw.get_or_insert_with(|| Splitter::new(usize::MAX));
        raw.push(bytes);
        if whole {
            raw.push(b"\n");
        }
        while let Some(line) = raw.next_line() {
            self.tap.record(at, self.dir, [&line]);
        }
    }

    /// Whole lines, each with its line ending.
    pub(crate) fn sent_lines(&mut self, at: Instant, lines: &[u8]) {
        if self.raw.as_ref().is_some_and(|raw| raw.pending() > 0) {
            return self.sent(at, lines, false);
        }
        self.tap.append(at, self.dir, ended_lines(lines).map(|line| (line, None)));
    }

    pub(crate) fn received_lines(&self, at: Instant, lines: &[u8]) {
        self.tap.append(at, self.dir, ended_lines(lines).map(|line| (line, None)));
    }

    /// A message of its own, whatever is in it.
    pub(crate) fn sent_message(&self, at: Instant, bytes: &[u8]) {
        self.tap.append(at, self.dir, std::iter::once((bytes, None)));
    }

    /// The output ends: what was sent raw without a newline is the last line.
    pub(crate) fn finish(&mut self, at: Instant) {
        if let Some(line) = self.raw.take().and_then(|mut raw| raw.finish()) {
            self.tap.record(at, self.dir, [&line]);
        }
    }
}

/// The lines of a piece that ends with one, without their line endings.
fn ended_lines(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    lines.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// One entry and its line end. A line over the limit keeps its beginning and says its length.
fn push_entry(out: &mut Vec<u8>, t: Duration, dir: Direction, line: &[u8], oversized: Option<u64>) {
    write_entry(t, dir, line, out);
    if let Some(len) = oversized {
        out.pop();
        out.extend_from_slice(format!(",\"oversized\":{len}}}").as_bytes());
    }
    out.push(b'\n');
}
