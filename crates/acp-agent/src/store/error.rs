//! What can go wrong with the database, in words for the person.

use std::io;
use std::path::{Path, PathBuf};

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};

/// Why sessions cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum SessionStoreError {
    /// The folder.
    #[error("cannot make the state folder {path:?}: {error}; choose another with --state-dir")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process has it and does not let go of it, as an earlier version of this program.
    #[error(
        "the sessions in {path:?} are in use by another agent{owner}, which does not share them; end it, or give this one its own --state-dir"
    )]
    InUse {
        /// The database.
        path: PathBuf,
        /// Its process, if it is known.
        owner: String,
    },
    /// It makes no sense.
    #[error(
        "the session database {path:?} is damaged ({reason}); move it away to begin anew, or choose another --state-dir"
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It was written by a later version.
    #[error(
        "the session database {path:?} has format {found}, and this version knows formats up to {known}; use a newer version, or another --state-dir"
    )]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The disk.
    #[error("cannot keep sessions in {path:?}: {reason}; is the disk full, or the folder read-only?")]
    Disk {
        /// The database.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// No thread for the writing.
    #[error("cannot start the thread that keeps sessions: {0}")]
    Thread(io::Error),
    /// Another connection of this agent has it open.
    #[error("the session {session} is open in another connection; close it there first")]
    Elsewhere {
        /// The session.
        session: String,
    },
    /// Another process has it open.
    #[error("the session {session} is open in another agent{owner}; close it there, or end that agent")]
    InOtherProcess {
        /// The session.
        session: String,
        /// The process, if it is known.
        owner: String,
    },
    /// The thread is gone.
    #[error("sessions are no longer kept: the thread that does it has ended")]
    Ended,
}

impl SessionStoreError {
    /// Whether somebody else has the session open.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Elsewhere { .. } | Self::InOtherProcess { .. })
    }
}

/// The same without the place.
#[derive(Debug)]
pub(super) enum Trouble {
    InUse,
    Damaged(String),
    TooNew { found: u32, known: u32 },
    Disk(String),
    Closed,
}

impl Trouble {
    pub(super) fn at(self, path: &Path) -> SessionStoreError {
        let path = path.to_owned();
        match self {
            Self::InUse => {
                let owner =
                    path.parent().and_then(|folder| std::fs::read_to_string(folder.join("owner")).ok());
                let owner = owner.map(|pid| format!(" (process {})", pid.trim())).unwrap_or_default();
                SessionStoreError::InUse { path, owner }
            }
            Self::Damaged(reason) => SessionStoreError::Damaged { path, reason },
            Self::TooNew { found, known } => SessionStoreError::TooNew { path, found, known },
            Self::Disk(reason) => SessionStoreError::Disk { path, reason },
            Self::Closed => {
                SessionStoreError::Disk { path, reason: "it could not be opened again".to_owned() }
            }
        }
    }
}

impl From<StorageError> for Trouble {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Corrupted(reason) => Self::Damaged(reason),
            StorageError::Io(error)
                if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                Self::Damaged(error.to_string())
            }
            other => Self::Disk(other.to_string()),
        }
    }
}

impl From<DatabaseError> for Trouble {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Self::InUse,
            DatabaseError::Storage(error) => error.into(),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<TransactionError> for Trouble {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => error.into(),
            other => Self::Disk(other.to_string()),
        }
    }
}

impl From<TableError> for Trouble {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => error.into(),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<CommitError> for Trouble {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Storage(error) => error.into(),
            other => Self::Disk(other.to_string()),
        }
    }
}

impl From<serde_json::Error> for Trouble {
    fn from(error: serde_json::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}
