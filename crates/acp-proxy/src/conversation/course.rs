//! How a conversation goes on, and how it is brought to its end.

use acp_link::child::Child;
use acp_relay::{Relay, RelayEnd};
use tokio::time::{sleep, timeout};

use super::Conversation;
use crate::endings::{LAST_WORDS, SHUTTING_DOWN, as_left, stopped, until_idle};
use crate::handle::{Command, Commands};

impl Conversation<'_> {
    /// Passes lines, and does what the conversation is told to, until one side ends. Cancel safe.
    pub(super) async fn attend(&self, relay: &mut Relay, commands: &mut Commands) -> RelayEnd {
        loop {
            let command = tokio::select! {
                ended = relay.run() => return ended,
                command = commands.next() => command,
            };
            match command {
                Command::Cancel { session, done } => {
                    let _ = done.send(relay.cancel(&session));
                }
                Command::Close { why, done } => {
                    let _ = done.send(true);
                    relay.wind_down(&why);
                    relay.cancel_turns();
                    if let Some(ended) = until_idle(relay, self.proxy.settings.grace).await {
                        return ended;
                    }
                    relay.close(&why);
                }
            }
        }
    }

    /// We are told to stop, and turns are running: they get their time, then they are cancelled.
    pub(super) async fn drain(&self, relay: &mut Relay) -> Option<RelayEnd> {
        relay.wind_down(SHUTTING_DOWN);
        let ended = until_idle(relay, self.proxy.settings.drain).await;
        if ended.is_some() || !relay.is_busy() {
            return ended;
        }
        let count = relay.cancel_turns();
        let turns = if count == 1 { "turn".to_owned() } else { format!("{count} turns") };
        self.log(&format!("cancelled the running {turns}: the proxy is shutting down"));
        until_idle(relay, self.proxy.settings.grace).await
    }

    /// The client has ended its output. What the agent still says is passed on as long as there is something; then the
    /// agent is ended.
    pub(super) async fn finish(
        &self,
        relay: &mut Relay,
        commands: &mut Commands,
        child: Option<&mut Child>,
    ) -> Option<RelayEnd> {
        let stop = &mut self.stop.clone();
        loop {
            let before = relay.moved();
            tokio::select! {
                ended = self.attend(relay, commands) => return Some(as_left(ended)),
                () = stopped(stop) => return None,
                () = sleep(self.proxy.settings.grace) => {}
            }
            if relay.moved() == before && !relay.is_holding() {
                break;
            }
        }
        // It has had its time. Its last output is read, because otherwise it could not end.
        if let Some(child) = child {
            child.terminate();
            let last = async {
                tokio::select! {
                    _ = relay.run() => {}
                    () = sleep(self.proxy.settings.grace) => {}
                }
            };
            tokio::select! {
                _ = child.wait() => { let _ = timeout(LAST_WORDS, relay.run()).await; }
                () = last => {}
                () = stopped(stop) => return None,
            }
        }
        Some(RelayEnd::ClientGone)
    }
}
