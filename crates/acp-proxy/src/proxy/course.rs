//! How a conversation goes on, and how it is brought to its end.

use acp_host::{Ended, Joint};
use acp_link::child::Child;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Proxy, SHUTTING_DOWN};
use crate::endings::{LAST_WORDS, as_left, stopped, until_idle};
use crate::witness::{Order, Orders};

impl Proxy {
    /// Passes lines, and does what the conversation is told to, until one side ends. Cancel safe.
    pub(super) async fn attend(&self, joint: &mut Joint, orders: &mut Orders) -> Ended {
        loop {
            let order = tokio::select! {
                ended = joint.run() => return ended,
                order = orders.next() => order,
            };
            match order {
                Order::Cancel { session, done } => {
                    let _ = done.send(joint.cancel(&session));
                }
                Order::Close { why, done } => {
                    let _ = done.send(true);
                    joint.wind_down(&why);
                    joint.cancel_turns();
                    if let Some(ended) = until_idle(joint, self.settings.grace).await {
                        return ended;
                    }
                    joint.close(&why);
                }
            }
        }
    }

    /// We are told to stop, and turns are running: they get their time, then they are cancelled.
    pub(super) async fn drain(&self, joint: &mut Joint, number: u64) -> Option<Ended> {
        joint.wind_down(SHUTTING_DOWN);
        let ended = until_idle(joint, self.settings.drain).await;
        if ended.is_some() || !joint.is_busy() {
            return ended;
        }
        let count = joint.cancel_turns();
        let turns = if count == 1 { "turn".to_owned() } else { format!("{count} turns") };
        self.talk.about(number, &format!("cancelled the running {turns}: the proxy is shutting down"));
        until_idle(joint, self.settings.grace).await
    }

    /// The client has ended its output. What the agent still says is passed on as long as there is something; then the
    /// agent is ended.
    pub(super) async fn finish(
        &self,
        joint: &mut Joint,
        orders: &mut Orders,
        child: Option<&mut Child>,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<Ended> {
        loop {
            let before = joint.moved();
            tokio::select! {
                ended = self.attend(joint, orders) => return Some(as_left(ended)),
                () = stopped(stop) => return None,
                () = sleep(self.settings.grace) => {}
            }
            if joint.moved() == before && !joint.is_holding() {
                break;
            }
        }
        // It has had its time. Its last output is read, because otherwise it could not end.
        if let Some(child) = child {
            child.terminate();
            let last = async {
                tokio::select! {
                    _ = joint.run() => {}
                    () = sleep(self.settings.grace) => {}
                }
            };
            tokio::select! {
                _ = child.wait() => { let _ = timeout(LAST_WORDS, joint.run()).await; }
                () = last => {}
                () = stopped(stop) => return None,
            }
        }
        Some(Ended::ClientGone)
    }
}
