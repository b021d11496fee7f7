//! Why there is no connection: told when it is news, and known for as long as it is so.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::{ClientError, ConnectErrorKind, Server};

use acp_proxy::ProxyLog;

/// What came of the attempts to connect.
pub(super) struct Reach {
    url: String,
    log: ProxyLog,
    tried: Mutex<Tried>,
}

/// What an answer is called that is not TLS.
const NOT_TLS: &str = "InvalidContentType";

/// Since the last connection.
#[derive(Default)]
struct Tried {
    rounds: u64,
    cause: Option<String>,
}

impl Reach {
    pub(super) fn new(url: String, log: ProxyLog) -> Reach {
        Reach { url, log, tried: Mutex::default() }
    }

    /// Where NATS is.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Why nothing is reached, as far as that is known.
    pub(super) fn cause(&self) -> Option<String> {
        self.tried().cause.clone()
    }

    /// There is a connection.
    pub(super) fn reached(&self) {
        *self.tried() = Tried::default();
    }

    /// Another round of attempts begins. The servers know the causes of the last one; of a failed attempt alone only its
    /// kind is told.
    pub(super) fn tries(&self, servers: &[Server]) {
        let mut tried = self.tried();
        tried.rounds += 1;
        let is_first = tried.rounds == 1;
        drop(tried);
        // Before the first one, what is known of them is of another time.
        if !is_first {
            self.blame(servers.iter().filter_map(|server| server.last_error.as_deref()));
        }
    }

    /// An attempt has failed.
    pub(super) fn failed(&self, error: &ClientError) {
        match error {
            // The servers will say it better, but for one whose address is not known.
            ClientError::Other(kind) if *kind != ConnectErrorKind::Dns.to_string() => {}
            error => self.blame([error.to_string().as_str()]),
        }
    }

    fn blame<'a>(&self, causes: impl IntoIterator<Item = &'a str>) {
        let mut all: Vec<&str> = Vec::new();
        for cause in causes {
            if !all.contains(&cause) {
                all.push(cause);
            }
        }
        let mut cause = all.join("; ");
        if cause.contains(NOT_TLS) {
            cause.push_str(" (does this server speak TLS?)");
        }
        let mut tried = self.tried();
        if all.is_empty() || tried.cause.as_ref() == Some(&cause) {
            return;
        }
        tried.cause = Some(cause.clone());
        drop(tried);
        let words = format!("cannot reach NATS at {}: {cause}; trying again", self.url);
        self.log.warn(&words);
    }

    fn tried(&self) -> MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
