//! The connection to NATS: credentials, patience, and whether it stands.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, Event};
use tokio::sync::watch;

use super::reach::Reach;
use acp_proxy::ProxyLog;

/// Where NATS is, and who we are there.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// One or more addresses, separated by commas: `nats://HOST:PORT`, `tls://HOST:PORT`. A name and its password, or a
    /// token, before the host (`nats://me:secret@HOST`) are used where nothing else says who we are.
    pub url: String,
    /// A file with a JWT and a seed.
    pub creds: Option<PathBuf>,
    /// A token.
    pub token: Option<String>,
    /// A name and its password.
    pub user: Option<(String, String)>,
    /// A file with the seed of an nkey.
    pub nkey: Option<PathBuf>,
    /// A file with certificates to trust besides the system's.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Refuse to speak without TLS.
    pub tls: bool,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read {what} {}: {error}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The server does not let us in, or cannot be reached.
    #[error(
        "cannot connect to NATS at {url}: {error}; is nats-server running there, and are the credentials right?"
    )]
    Connect {
        /// Where.
        url: String,
        /// Why not.
        error: async_nats::ConnectError,
    },
}

/// Whether the connection stands, and which one it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionState {
    /// Whether it stands.
    pub up: bool,
    /// Counts up with each change.
    pub turn: u64,
    /// Since when, if it was lost before.
    pub since: Option<Instant>,
}

/// A connection, and what is known of it.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) standing: watch::Receiver<ConnectionState>,
    pub(super) reach: Arc<Reach>,
}

/// How long the first connection may take where there must be one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

impl Access {
    /// Connects, or keeps trying in the background if `patient`. It is logged when the connection comes and goes;
    /// `meanwhile` is what becomes of things until it is back.
    pub(super) async fn connect(
        &self,
        name: &str,
        patient: bool,
        meanwhile: &'static str,
        log: &ProxyLog,
    ) -> Result<Connection, AccessError> {
        let (tell, standing) = watch::channel(ConnectionState::default());
        let reach = Arc::new(Reach::new(shown(&self.url), log.clone()));
        let options = self.options(name).await?;
        let trying = reach.clone();
        let options = options.reconnect_to_server_callback(move |servers, _| {
            trying.tries(&servers);
            std::future::ready(None)
        });
        let (log, told) = (log.clone(), reach.clone());
        let options = options.event_callback(move |event| {
            heard(&event, &tell, &told, &log, meanwhile);
            std::future::ready(())
        });
        let options = if patient { options.retry_on_initial_connect() } else { options };
        let bare = shown(&self.url);
        let servers: Vec<&str> = bare.split(',').collect();
        let url = || shown(&self.url);
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, options.connect(servers));
        match connecting.await {
            Ok(Ok(client)) => Ok(Connection { client, standing, reach }),
            Ok(Err(error)) => Err(AccessError::Connect { url: url(), error }),
            Err(_) => {
                let error =
                    async_nats::ConnectError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
                Err(AccessError::Connect { url: url(), error })
            }
        }
    }

    /// A name and its password, or a token: given, or else in the address.
    fn said(&self) -> (Option<(String, String)>, Option<String>) {
        let given =
            self.creds.is_some() || self.nkey.is_some() || self.token.is_some() || self.user.is_some();
        let first = self.url.split(',').next().unwrap_or_default().trim();
        let first = first.split_once("://").map_or(first, |(_, rest)| rest);
        match first.rsplit_once('@') {
            Some((who, _)) if !given => match who.split_once(':') {
                Some((user, password)) => (Some((decoded(user), decoded(password))), None),
                None => (None, Some(decoded(who))),
            },
            _ => (self.user.clone(), self.token.clone()),
        }
    }

    async fn options(&self, name: &str) -> Result<ConnectOptions, AccessError> {
        let mut options = ConnectOptions::new()
            .name(name)
            .ping_interval(Duration::from_secs(10))
            .connection_timeout(Duration::from_secs(5))
            .reconnect_delay_callback(pause)
            .require_tls(self.tls);
        if let Some(path) = &self.creds {
            let file = |error| AccessError::File { what: "the credentials", path: path.clone(), error };
            options = options.credentials_file(path).await.map_err(file)?;
        }
        let (user, token) = self.said();
        if let Some(token) = token {
            options = options.token(token);
        }
        if let Some((user, password)) = user {
            options = options.user_and_password(user, password);
        }
        if let Some(path) = &self.nkey {
            let file = |error| AccessError::File { what: "the nkey seed", path: path.clone(), error };
            options = options.nkey(std::fs::read_to_string(path).map_err(file)?.trim().to_owned());
        }
        if let Some(path) = &self.ca {
            readable("the certificates", path)?;
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &self.identity {
            readable("the certificate", certificate)?;
            readable("the certificate's key", key)?;
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }
}

/// Addresses as they may be told: without the name and the password, or the token, that one may have in it.
fn shown(url: &str) -> String {
    let one = |address: &str| match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => address.to_owned(),
    };
    url.split(',').map(|address| one(address.trim())).collect::<Vec<_>>().join(",")
}

/// Part of an address, in which `%40` stands for `@`.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut out = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.split_at_checked(2).map(|(hex, rest)| (u8::from_str_radix(hex, 16), rest)) {
            Some((Ok(byte), rest)) => {
                out.push(byte);
                out.extend_from_slice(rest.as_bytes());
            }
            _ => out.extend([b"%", piece.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads a file once, so that a wrong name is told by name and not as a failed handshake.
fn readable(what: &'static str, path: &PathBuf) -> Result<(), AccessError> {
    match std::fs::File::open(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(AccessError::File { what, path: path.clone(), error }),
    }
}

fn heard(
    event: &Event,
    tell: &watch::Sender<ConnectionState>,
    reach: &Reach,
    log: &ProxyLog,
    meanwhile: &str,
) {
    let change = |up| {
        tell.send_if_modified(|standing| {
            let changed = standing.up != up;
            if changed {
                let turn = standing.turn + 1;
                *standing = ConnectionState { up, turn, since: (turn > 1).then(Instant::now) };
            }
            changed
        })
    };
    match event {
        Event::Connected => {
            reach.reached();
            if change(true) {
                log.info(&format!("connected to NATS at {}", reach.url()));
            }
        }
        Event::Disconnected | Event::Closed => {
            if change(false) {
                log.warn(&format!("the connection to NATS is lost; {meanwhile}"));
            }
        }
        Event::ServerError(error) => log.error(&format!("NATS says: {error}")),
        Event::ClientError(error) => reach.failed(error),
        Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_) => {}
    }
}

/// The pause before an attempt: none before the first, then 1, 2, 4, 4 … seconds, each up to a quarter shorter or
/// longer so that many proxies do not come back at once.
fn pause(attempts: usize) -> Duration {
    if attempts <= 1 {
        return Duration::ZERO;
    }
    let seconds = 1u64 << (attempts - 2).min(10);
    let pause = Duration::from_secs(seconds).min(LONGEST_PAUSE);
    let noise = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), attempts);
    pause.mul_f64(0.75 + 0.5 * (noise % 1000) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_told_with_a_secret_in_it() {
        let told = shown("nats://me:p@ss@one:4222, tls://t0ken@two:4222,three:4222,me:secret@four");
        assert_eq!(told, "nats://one:4222,tls://two:4222,three:4222,four");
    }

    #[test]
    fn an_address_may_say_who_we_are_and_what_is_given_is_stronger() {
        let at = |url: &str| Access { url: url.to_owned(), ..Access::default() };
        let me = |password: &str| Some(("me".to_owned(), password.to_owned()));
        assert_eq!(at("nats://me:p%40s%3as%@host:4222").said(), (me("p@s:s%"), None));
        assert_eq!(at("tls://t0ken@host").said(), (None, Some("t0ken".to_owned())));
        assert_eq!(at("nats://host:4222").said(), (None, None));
        let given = Access { token: Some("other".to_owned()), ..at("nats://me:secret@host") };
        assert_eq!(given.said(), (None, Some("other".to_owned())));
    }

    #[test]
    fn pauses_grow_to_a_limit_and_are_never_all_the_same() {
        assert_eq!(pause(1), Duration::ZERO);
        for (attempt, seconds) in [(2, 1.0), (3, 2.0), (4, 4.0), (5, 4.0), (40, 4.0)] {
            let all: Vec<f64> = (0..50).map(|_| pause(attempt).as_secs_f64()).collect();
            assert!(all.iter().all(|pause| (0.74 * seconds..=1.26 * seconds).contains(pause)), "{all:?}");
            assert!(all.windows(2).any(|two| two[0] != two[1]), "{all:?}");
        }
    }
}
