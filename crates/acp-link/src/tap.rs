//! The tap: every line of a conversation, both ways, as an NDJSON transcript.
//!
//! `{"t":0.001234,"dir":"c2a","line":"…"}`; what is not UTF-8 is under `base64` instead of `line`, and a line over
//! the limit keeps its beginning and says its length under `oversized`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use acp_rpc::{Direction, Line, Splitter};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

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
    /// Records to a new file (an existing one is replaced). Times count from now.
    pub fn create(path: impl Into<PathBuf>) -> Result<Tap, TapError> {
        let path = path.into();
        let opened = File::create(&path).and_then(|file| Tap::start(file, Some(path.clone())));
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

    /// The moment that the transcript's times count from.
    #[must_use]
    pub fn start_time(&self) -> Instant {
        self.shared.start
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
        let mut head = None;
        let (mutex, wake, drained) = &*self.shared.state;
        let mut state = lock(mutex);
        for line in lines {
            let head =
                head.get_or_insert_with(|| entry_head(at.saturating_duration_since(self.shared.start), dir));
            while state.buf.len() >= BOUND && state.error.is_none() && !state.closing {
                state = drained.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.error.is_some() || state.closing {
                return;
            }
            let before = state.buf.len();
            push_entry(&mut state.buf, head, line);
            state.entries += 1;
            if before == 0 || (before < BLOCK && state.buf.len() >= BLOCK) {
                wake.notify_one();
            }
        }
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
        if whole && self.raw.as_ref().is_none_or(|raw| raw.pending() == 0) {
            let line = bytes::Bytes::copy_from_slice(bytes);
            let line =
                if std::str::from_utf8(bytes).is_ok() { Line::Text(line) } else { Line::NotUtf8(line) };
            self.tap.record(at, self.dir, [&line]);
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

    /// The output ends: what was sent raw without a newline is the last line.
    pub(crate) fn finish(&mut self, at: Instant) {
        if let Some(line) = self.raw.take().and_then(|mut raw| raw.finish()) {
            self.tap.record(at, self.dir, [&line]);
        }
    }
}

fn entry_head(t: Duration, dir: Direction) -> String {
    format!("{{\"t\":{}.{:06},\"dir\":\"{}\",\"", t.as_secs(), t.subsec_micros(), dir.as_str())
}

fn push_entry(out: &mut Vec<u8>, head: &str, line: &Line) {
    out.extend_from_slice(head.as_bytes());
    let text = match line {
        Line::Text(bytes) => Some(&bytes[..]),
        Line::NotUtf8(_) => None,
        Line::Oversized { head, .. } => std::str::from_utf8(head).ok().map(str::as_bytes),
    };
    match text {
        Some(text) => {
            out.extend_from_slice(b"line\":\"");
            push_escaped(out, text);
        }
        None => {
            out.extend_from_slice(b"base64\":\"");
            out.extend_from_slice(STANDARD.encode(line.bytes()).as_bytes());
        }
    }
    match line {
        Line::Oversized { len, .. } => {
            out.extend_from_slice(format!("\",\"oversized\":{len}}}\n").as_bytes())
        }
        _ => out.extend_from_slice(b"\"}\n"),
    }
}

/// Escapes UTF-8 text as the inside of a JSON string.
fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + text.len() / 4 + 8);
    let mut copied = 0;
    for (index, &byte) in text.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[copied..index]);
        copied = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text[copied..]);
}
