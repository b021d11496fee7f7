//! What came in and what was done with it: one JSON object per event, kept and written.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Map, Value};

/// How many entries are kept in memory; the file has them all.
const KEPT: usize = 10_000;

/// The journal of an endpoint. Clones write to the same journal.
#[derive(Clone)]
pub struct ModelJournal {
    shared: Arc<Mutex<Shared>>,
    began: Instant,
}

struct Shared {
    /// How many were ever written.
    count: u64,
    entries: std::collections::VecDeque<Value>,
    file: Option<File>,
}

impl ModelJournal {
    /// A journal that is also appended to a file, when there is one.
    pub fn open(path: Option<&Path>) -> std::io::Result<Self> {
        let file = path
            .map(|path| OpenOptions::new().create(true).append(true).mode(0o600).open(path))
            .transpose()?;
        let shared = Shared { count: 0, entries: std::collections::VecDeque::new(), file };
        Ok(Self { shared: Arc::new(Mutex::new(shared)), began: Instant::now() })
    }

    /// The entries so far, oldest first.
    pub fn entries(&self) -> Vec<Value> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.entries.iter().cloned().collect()
    }

    /// The entries after the first `seen` ones, as far as they are still kept, and how many there are by now.
    pub fn since(&self, seen: u64) -> (Vec<Value>, u64) {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = usize::try_from(shared.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let kept = shared.entries.len();
        (shared.entries.iter().skip(kept.saturating_sub(fresh)).cloned().collect(), shared.count)
    }

    pub(crate) fn write(&self, number: u64, event: &str, fields: Value) {
        let mut entry = Map::new();
        entry.insert("n".to_owned(), number.into());
        let at = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        entry.insert("atMs".to_owned(), at.into());
        entry.insert("event".to_owned(), event.into());
        if let Value::Object(fields) = fields {
            entry.extend(fields);
        }
        let entry = Value::Object(entry);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &mut shared.file {
            let line = entry.to_string() + "\n";
            if let Err(error) = file.write_all(line.as_bytes()).and_then(|()| file.flush()) {
                eprintln!("acp model: cannot write the journal: {error}");
                shared.file = None;
            }
        }
        if shared.entries.len() == KEPT {
            shared.entries.pop_front();
        }
        shared.entries.push_back(entry);
        shared.count += 1;
    }
}
