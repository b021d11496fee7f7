//! Sessions at rest, shared by all connections, and kept in a folder if there is one.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use acp_script::agent::SessionRecord;

/// Where session ids that clients chose are kept.
const ALIASES: &str = "aliases.json";

/// The sessions of all connections.
#[derive(Debug, Default)]
pub struct MockStore {
    sessions: Mutex<BTreeMap<String, SessionRecord>>,
    aliases: Mutex<Vec<(String, String)>>,
    folder: Option<PathBuf>,
}

/// The state folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path:?}: {error}; is the state folder writable?")]
pub struct MockStoreError {
    doing: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl MockStore {
    /// Sessions that live as long as the process.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Sessions that live in `folder`, one file each. A file that cannot be understood is left alone.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Result<Self, MockStoreError> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder).map_err(fail("create", &folder))?;
        let mut sessions = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(fail("read", &folder))? {
            let path = entry.map_err(fail("read", &folder))?.path();
            if path.extension().is_none_or(|extension| extension != "json") || path.ends_with(ALIASES) {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(fail("read", &path))?;
            match serde_json::from_str::<SessionRecord>(&text) {
                Ok(record) => drop(sessions.insert(record.id.clone(), record)),
                Err(error) => eprintln!("acp mock: {path:?} is no session of this mock: {error}"),
            }
        }
        let aliases = std::fs::read_to_string(folder.join(ALIASES))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Ok(Self { sessions: Mutex::new(sessions), aliases: Mutex::new(aliases), folder: Some(folder) })
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// One session.
    pub fn fetch(&self, id: &str) -> Option<SessionRecord> {
        self.lock().get(id).cloned()
    }

    /// All sessions, without their histories.
    pub fn list(&self) -> Vec<SessionRecord> {
        self.lock().values().map(SessionRecord::summary).collect()
    }

    /// Keeps a session.
    pub fn put(&self, record: SessionRecord) -> Result<(), MockStoreError> {
        if let Some(folder) = &self.folder {
            let path = file(folder, &record.id);
            let half = path.with_extension("half");
            let text = serde_json::to_string(&record).unwrap_or_default();
            write_private(&half, &text).map_err(fail("write", &half))?;
            std::fs::rename(&half, &path).map_err(fail("write", &path))?;
        }
        self.lock().insert(record.id.clone(), record);
        Ok(())
    }

    /// Forgets a session; one that is not there stays so.
    pub fn remove(&self, id: &str) -> Result<(), MockStoreError> {
        // Only ids that we made ourselves ever become file names.
        let Some(record) = self.lock().remove(id) else { return Ok(()) };
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = file(folder, &record.id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Session ids that clients of other forms of the protocol chose, with ours.
    pub fn aliases(&self) -> Vec<(String, String)> {
        self.aliases.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps more of them.
    pub(crate) fn add_aliases(&self, pairs: Vec<(String, String)>) {
        let mut aliases = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
        let known = aliases.len();
        for pair in pairs {
            if !aliases.contains(&pair) {
                aliases.push(pair);
            }
        }
        if let Some(folder) = self.folder.as_ref().filter(|_| aliases.len() > known) {
            let text = serde_json::to_string(&*aliases).unwrap_or_default();
            if let Err(error) = write_private(&folder.join(ALIASES), &text) {
                eprintln!("acp mock: cannot keep session ids in {folder:?}: {error}");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SessionRecord>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a file that only its owner can read: it holds a conversation.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

fn file(folder: &Path, id: &str) -> PathBuf {
    let name: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect();
    folder.join(format!("{name}.json"))
}

fn fail(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MockStoreError {
    let path = path.to_owned();
    move |error| MockStoreError { doing, path, error }
}
