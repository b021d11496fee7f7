//! From a connection to being ready: the streams are there, and what a crash has left is stored.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Shared;
use crate::connect::ConnectionState;
use crate::publisher::Publisher;
use crate::spool::Left;
use crate::streams;
use tracing::Level;

/// The pause before the streams are looked at again.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The pause before a stream is made again that somebody has deleted. Servers lose what is stored in a stream that is made
/// while another of its name is still being removed, and say that a stream is gone as soon as they begin to remove it; on a
/// busy machine that takes a while.
const STREAM_REMOVAL_WAIT: Duration = Duration::from_secs(2);

/// Follows the connection: looks after the streams each time it comes and whenever one may be gone, and once sends what a crash has left.
pub(super) async fn open_up(
    shared: Arc<Shared>,
    left: Vec<Left>,
    mut raw: watch::Receiver<ConnectionState>,
    tell: watch::Sender<ConnectionState>,
    fatal: watch::Sender<Option<String>>,
    replicas: usize,
) {
    let mut recovered = false;
    let (tell_ready, ready) = watch::channel(ConnectionState::default());
    let (_keep, mut stop) = watch::channel(false);
    // It outlasts the connection: what it has sent is sent.
    let recovery = recover(&shared, left, &ready, &mut stop);
    tokio::pin!(recovery);
    loop {
        let standing = *raw.borrow_and_update();
        if standing.up {
            let removal = if shared.streams.get().is_some() { STREAM_REMOVAL_WAIT } else { Duration::ZERO };
            match streams::ensure(&shared.context, shared.subjects, replicas, removal).await {
                Ok(streams) => {
                    shared.streams_are(None);
                    let _ = shared.streams.set(streams);
                    let _ = tell_ready.send(standing);
                    if !recovered {
                        tokio::select! {
                            () = &mut recovery => recovered = true,
                            _ = raw.changed() => continue,
                            () = shared.missing.notified() => continue,
                        }
                    }
                    change(&tell, standing);
                }
                Err(error) if error.is_passing() => {
                    // Nothing can be stored: that is as good as no connection.
                    change(&tell, ConnectionState { up: false, ..standing });
                    shared.streams_are(Some(error.to_string()));
                    shared.say_once(Level::WARN, &format!("{error}; trying again"));
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
                Err(error) => {
                    let _ = fatal.send(Some(error.to_string()));
                    return;
                }
            }
        } else {
            let _ = tell_ready.send(standing);
            change(&tell, standing);
        }
        tokio::select! {
            changed = raw.changed() => if changed.is_err() { return },
            () = shared.missing.notified() => tokio::time::sleep(RETRY_PAUSE).await,
        }
    }
}

/// Tells news, and nothing that is known.
fn change(tell: &watch::Sender<ConnectionState>, standing: ConnectionState) {
    tell.send_if_modified(|known| std::mem::replace(known, standing) != standing);
}

impl Shared {
    /// Something could not be stored or read: a stream may be gone. It is made again if so; as long as that fails, we are
    /// not ready.
    pub(crate) fn look_after_streams(&self) {
        self.missing.notify_one();
    }
}

/// Sends what a crash has left in the spool.
async fn recover(
    shared: &Arc<Shared>,
    left: Vec<Left>,
    ready: &watch::Receiver<ConnectionState>,
    stop: &mut watch::Receiver<bool>,
) {
    for left in left {
        let count = left.count - left.unread;
        let session: Arc<str> = Arc::from(left.session.as_str());
        let mut publisher = Publisher::new(shared.clone(), session, left.epoch, ready.clone());
        publisher.resume(&left);
        if publisher.drain(stop).await {
            left.remove();
            let words = format!("sent what was left of session {:?}: {count} events", left.session);
            shared.say(Level::INFO, &words);
        } else {
            left.put_aside();
        }
    }
}
