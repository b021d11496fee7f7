//! Where test files come from: the suites in the binary, or the user's own files and folders.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use acp_comply::{Defaults, Program, TestSource, Wordings};
use include_dir::{Dir, include_dir};

static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../suites");

/// Why test files could not be gathered.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A path that the user gave cannot be read.
    #[error(
        "cannot read {path}: {source}; name a .jsont file or a folder of them, or use --command to test an agent"
    )]
    Unreadable {
        /// The path as given.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A folder without a single test file.
    #[error("{path} holds no .jsont file")]
    Empty {
        /// The path as given.
        path: String,
    },
    /// No embedded suite has this name.
    #[error("there is no built-in suite {name:?}; the built-in ones are {known}")]
    Unknown {
        /// The name as given.
        name: String,
        /// What there is.
        known: String,
    },
    /// A file could not be written by `copy`.
    #[error("cannot write {path}: {source}")]
    Unwritable {
        /// Where.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The names of the suites in the binary.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = EMBEDDED.dirs().map(|dir| dir.path().display().to_string()).collect();
    names.sort();
    names
}

/// The text of any embedded file, by its path below `suites`.
pub fn embedded_text(path: &str) -> Option<&'static str> {
    EMBEDDED.get_file(path)?.contents_utf8()
}

/// The wordings of the wishes that prompts of the built-in suites name, the preferred one first.
pub fn wishes() -> &'static Wordings {
    static WISHES: OnceLock<Wordings> = OnceLock::new();
    WISHES.get_or_init(|| {
        let text = embedded_text("calibration/wishes.json").unwrap_or("{}");
        serde_json::from_str(text).unwrap_or_default()
    })
}

/// The tests that find out what an agent can be brought to do. A file that cannot be used is left out here and fails the
/// suite's own tests.
pub fn calibration(defaults: &Defaults) -> Vec<Arc<Program>> {
    let sources = embedded("calibration").unwrap_or_default();
    acp_comply::read_all(&sources, defaults).0.into_iter().map(Arc::new).collect()
}

/// The test files of one embedded suite, in order of their paths.
pub fn embedded(name: &str) -> Result<Vec<TestSource>, SuiteError> {
    let Some(dir) = EMBEDDED.get_dir(name) else {
        return Err(SuiteError::Unknown { name: name.to_owned(), known: names().join(", ") });
    };
    let mut found = Vec::new();
    gather_embedded(dir, &mut found);
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn gather_embedded(dir: &Dir<'_>, found: &mut Vec<TestSource>) {
    for file in dir.files() {
        if file.path().extension().is_some_and(|extension| extension == "jsont") {
            let text = String::from_utf8_lossy(file.contents()).into_owned();
            found.push(TestSource::new(format!("suites/{}", file.path().display()), text));
        }
    }
    for inner in dir.dirs() {
        gather_embedded(inner, found);
    }
}

/// The test files that the user named, folders searched to their depths, in order of their paths.
pub fn from_paths(paths: &[PathBuf]) -> Result<Vec<TestSource>, SuiteError> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        gather(path, true, &mut found)?;
        if found.len() == before {
            return Err(SuiteError::Empty { path: path.display().to_string() });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.name == b.name);
    Ok(found)
}

fn gather(path: &Path, named: bool, found: &mut Vec<TestSource>) -> Result<(), SuiteError> {
    let unreadable = |source| SuiteError::Unreadable { path: path.display().to_string(), source };
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            gather(&entry.map_err(unreadable)?.path(), false, found)?;
        }
        return Ok(());
    }
    if named || path.extension().is_some_and(|extension| extension == "jsont") {
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        found.push(TestSource::new(path.display().to_string(), text));
    }
    Ok(())
}

/// What [`copy`] did.
#[derive(Debug, Default)]
pub struct Copied {
    /// How many files now hold what the built-in ones do.
    pub written: usize,
    /// Files that were there and differ; they stay as they are unless they are to be overwritten.
    pub left: Vec<PathBuf>,
}

/// Writes every embedded suite into `into`. Files that hold something else are left alone unless `force`.
pub fn copy(into: &Path, force: bool) -> Result<Copied, SuiteError> {
    let mut copied = Copied::default();
    copy_dir(&EMBEDDED, into, force, &mut copied)?;
    Ok(copied)
}

fn copy_dir(dir: &Dir<'_>, into: &Path, force: bool, copied: &mut Copied) -> Result<(), SuiteError> {
    for file in dir.files() {
        let target = into.join(file.path());
        let unwritable = |source| SuiteError::Unwritable { path: target.display().to_string(), source };
        match std::fs::read(&target) {
            Ok(there) if there == file.contents() => {}
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unwritable(error)),
            Ok(_) if !force => {
                copied.left.push(target);
                continue;
            }
            _ => {
                if let Some(parent) = target.parent() {
                    std::fs::create_dir_all(parent).map_err(unwritable)?;
                }
                std::fs::write(&target, file.contents()).map_err(unwritable)?;
            }
        }
        copied.written += 1;
    }
    for inner in dir.dirs() {
        copy_dir(inner, into, force, copied)?;
    }
    Ok(())
}
