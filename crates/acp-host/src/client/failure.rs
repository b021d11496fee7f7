//! Requests that were not answered.

use std::time::Duration;

use super::error::{ClientError, Gone, LastWords};

/// Why a request was not answered.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    Timeout(Duration, LastWords),
    Gone(Gone, LastWords),
}

impl Failure {
    pub(super) fn closed() -> Failure {
        Failure::Gone(Gone::ClosedByUs, LastWords::default())
    }

    pub(super) fn explain(self, method: &str) -> ClientError {
        let method = method.to_owned();
        match self {
            Failure::Timeout(after, stderr) => ClientError::Timeout { method, after, stderr },
            Failure::Gone(how, stderr) => ClientError::Gone { method, how: Box::new(how), stderr },
        }
    }
}
