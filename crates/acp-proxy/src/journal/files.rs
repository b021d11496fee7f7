//! Which files belong to a journal.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The ending of a finished segment.
pub(crate) const DONE: &str = "journal";
/// The ending of a segment that is being written, or that nobody finished.
pub(crate) const OPEN: &str = "open";
/// The ending of a file that was to be a segment and cannot be read as one.
pub(crate) const UNREAD: &str = "unread";

/// Where journals are when nobody says otherwise: `$XDG_STATE_HOME/acp/journal`, or `~/.local/state/acp/journal`.
#[must_use]
pub fn default_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("acp").join("journal"))
}

/// A name for a run that no other has here: one that began in the same millisecond must not be overwritten.
pub(super) fn new_run(folder: &Path) -> String {
    loop {
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S%3fZ");
        let run = format!("{now}-{}", std::process::id());
        if ![OPEN, DONE].iter().any(|ending| segment_path(folder, &run, 1, ending).exists()) {
            return run;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The segments in a folder, in the order in which they were written, run by run.
pub fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some(DONE | OPEN)) && run_of(&path).is_some() {
            found.push(path);
        }
    }
    found.sort_by_key(|path| path.with_extension(""));
    Ok(found)
}

/// The segments in a folder, run by run.
pub fn runs(folder: &Path) -> io::Result<Vec<Vec<PathBuf>>> {
    let mut runs: Vec<Vec<PathBuf>> = Vec::new();
    let mut last = None;
    for path in segments(folder)? {
        let run = run_of(&path).map(|(run, _)| run);
        if last != run || runs.is_empty() {
            runs.push(Vec::new());
            last = run;
        }
        if let Some(run) = runs.last_mut() {
            run.push(path);
        }
    }
    Ok(runs)
}

/// The run that a segment belongs to, and its number in it.
pub(crate) fn run_of(path: &Path) -> Option<(String, u32)> {
    let stem = path.file_stem()?.to_str()?;
    let (run, number) = stem.rsplit_once('-')?;
    Some((run.to_owned(), number.parse().ok()?))
}

pub(crate) fn segment_path(folder: &Path, run: &str, number: u32, ending: &str) -> PathBuf {
    folder.join(format!("{run}-{number:06}.{ending}"))
}

/// Makes a rename or a new file outlast a loss of power.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}
