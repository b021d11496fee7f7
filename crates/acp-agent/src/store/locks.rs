//! Which process has which session open: a locked file for each, which the system unlocks when its process ends,
//! however that happens.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::file::private;

/// The folder of the locks.
const FOLDER: &str = "open";
/// A longer session id is named by its hash.
const LONGEST_NAME: usize = 100;

/// The sessions that this process has open.
pub(super) struct Locks {
    folder: PathBuf,
    held: Mutex<HashMap<String, Held>>,
}

/// A locked file, and how often it was taken.
struct Held {
    file: File,
    times: usize,
}

/// Whether a session could be taken.
pub(crate) enum Taken {
    Ours,
    /// Another process has it; its number, if it is known.
    Theirs(Option<String>),
}

impl Locks {
    /// The locks of this state folder. Files that a killed process left behind are removed.
    pub(super) fn new(state: &Path) -> io::Result<Self> {
        let folder = state.join(FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let locks = Self { folder, held: Mutex::default() };
        for left in std::fs::read_dir(&locks.folder)?.flatten() {
            if let Ok(Ok(file)) = lock(&left.path()) {
                remove(&left.path(), file);
            }
        }
        Ok(locks)
    }

    /// Takes a session for this process, which may have it already.
    pub(super) fn take(&self, session: &str) -> io::Result<Taken> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.get_mut(session) {
            held.times += 1;
            return Ok(Taken::Ours);
        }
        match lock(&self.path(session))? {
            Err(owner) => Ok(Taken::Theirs(owner)),
            Ok(file) => {
                held.insert(session.to_owned(), Held { file, times: 1 });
                Ok(Taken::Ours)
            }
        }
    }

    /// Gives a session back once for each time that it was taken.
    pub(super) fn release(&self, session: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(its) = held.get_mut(session) else { return };
        its.times -= 1;
        if its.times == 0
            && let Some(its) = held.remove(session)
        {
            remove(&self.path(session), its.file);
        }
    }

    /// Clients choose which sessions they ask for, so an id is not a file name.
    fn path(&self, session: &str) -> PathBuf {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !session.is_empty() && session.len() <= LONGEST_NAME && session.chars().all(plain) {
            return self.folder.join(session);
        }
        self.folder.join(format!("{:016x}.hash", hash(session)))
    }
}

/// Locks the file at this path, or tells who has locked it.
fn lock(path: &Path) -> io::Result<Result<File, Option<String>>> {
    loop {
        let mut file = private(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.read_to_string(&mut owner);
                return Ok(Err(Some(owner.trim().to_owned()).filter(|owner| !owner.is_empty())));
            }
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        // The process that had it may have removed the file between our opening and locking it.
        let same = |there: std::fs::Metadata| file.metadata().is_ok_and(|ours| ours.ino() == there.ino());
        if std::fs::metadata(path).is_ok_and(same) {
            // Only for the message that others get: what matters is the lock.
            let _ = file.set_len(0).and_then(|()| file.rewind());
            let _ = write!(file, "{}", std::process::id());
            return Ok(Ok(file));
        }
    }
}

/// Removes a file that we have locked, and unlocks it.
fn remove(path: &Path, file: File) {
    let _ = std::fs::remove_file(path);
    drop(file);
}

/// FNV-1a: the same in every version of this program.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_held_until_it_was_given_back_as_often_as_it_was_taken() {
        let place = tempfile::tempdir().expect("a folder");
        let ours = Locks::new(place.path()).expect("locks");
        let theirs = Locks::new(place.path()).expect("locks");
        let ours_now = |locks: &Locks| matches!(locks.take("sess_1").expect("a try"), Taken::Ours);
        assert!(ours_now(&ours) && ours_now(&ours));
        let Taken::Theirs(owner) = theirs.take("sess_1").expect("a try") else { panic!("taken twice") };
        assert_eq!(owner, Some(std::process::id().to_string()));
        ours.release("sess_1");
        assert!(!ours_now(&theirs));
        ours.release("sess_1");
        assert!(ours_now(&theirs) && !ours_now(&ours));
        theirs.release("sess_1");
        assert_eq!(std::fs::read_dir(place.path().join(FOLDER)).expect("a folder").count(), 0);
    }

    #[test]
    fn an_id_that_is_no_file_name_stays_in_the_folder() {
        let place = tempfile::tempdir().expect("a folder");
        let locks = Locks::new(place.path()).expect("locks");
        for id in ["../../escaped", "", "/etc/passwd", "a\0b", &"x".repeat(5000)] {
            assert!(matches!(locks.take(id).expect("a try"), Taken::Ours), "{id:?}");
        }
        assert_eq!(std::fs::read_dir(place.path().join(FOLDER)).expect("a folder").count(), 5);
        assert_eq!(std::fs::read_dir(place.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_a_killed_process_left_behind_is_removed_and_what_another_holds_is_not() {
        let place = tempfile::tempdir().expect("a folder");
        let locks = Locks::new(place.path()).expect("locks");
        locks.take("held").expect("a try");
        std::fs::write(place.path().join(FOLDER).join("left"), "1").expect("a file");
        drop(Locks::new(place.path()).expect("locks"));
        let left: Vec<_> =
            std::fs::read_dir(place.path().join(FOLDER)).expect("a folder").flatten().collect();
        assert_eq!(left.iter().map(std::fs::DirEntry::file_name).collect::<Vec<_>>(), ["held"]);
    }
}
