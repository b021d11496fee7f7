//! Why a journal cannot be written, and what helps.

use std::io;
use std::path::Path;

use super::OnFailure;

/// The journal cannot be written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the journal cannot be written ({place}): {reason}; {advice}")]
pub struct JournalError {
    /// The file.
    pub place: String,
    /// What the system said.
    pub reason: String,
    /// What to do about it.
    pub advice: &'static str,
}

impl JournalError {
    /// It cannot be begun.
    pub(super) fn at_start(place: &Path, error: &io::Error) -> JournalError {
        let advice = match is_full(error) {
            true => "make room, or start with --no-journal",
            false => "name a folder that can be written with --journal, or start with --no-journal",
        };
        JournalError { place: place.display().to_string(), reason: error.to_string(), advice }
    }

    /// It cannot be written any more.
    pub(super) fn later(place: &Path, error: &io::Error, mode: OnFailure) -> JournalError {
        let advice = match (mode, is_full(error)) {
            (OnFailure::Stop, true) => "make room, or start with --journal-full continue or --no-journal",
            (OnFailure::Stop, false) => {
                "see to it that it can be, or start with --journal-full continue or --no-journal"
            }
            (OnFailure::GoOn, true) => "make room",
            (OnFailure::GoOn, false) => "see to it that it can be",
        };
        JournalError { place: place.display().to_string(), reason: error.to_string(), advice }
    }
}

/// Whether there is no room: on the disk, or for this user.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_one_that_helps() {
        let (full, denied) =
            (io::Error::from(io::ErrorKind::StorageFull), io::Error::from(io::ErrorKind::PermissionDenied));
        let place = Path::new("/j");
        for error in [
            JournalError::later(place, &full, OnFailure::GoOn),
            JournalError::later(place, &denied, OnFailure::GoOn),
            JournalError::at_start(place, &full),
            JournalError::at_start(place, &denied),
        ] {
            assert!(!error.to_string().contains("--journal-full"), "it would change nothing: {error}");
        }
        for error in [
            JournalError::later(place, &denied, OnFailure::Stop),
            JournalError::later(place, &denied, OnFailure::GoOn),
            JournalError::at_start(place, &denied),
        ] {
            assert!(!error.to_string().contains("room"), "there is room: {error}");
        }
        let error = JournalError::later(place, &full, OnFailure::Stop).to_string();
        assert!(
            error.ends_with("make room, or start with --journal-full continue or --no-journal"),
            "{error}"
        );
    }
}
