//! What is worth another try, and when.
//!
//! Dialects give different numbers to the same mishap, so the decision is made on its [`Meaning`], never on a
//! number. A prompt that may have run is never sent a second time.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use acp_proto::error_code;
use acp_rpc::RpcError;

use crate::ClientError;

/// What went wrong, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The line was no JSON.
    ParseError,
    /// JSON, but no request.
    InvalidRequest,
    /// Nobody answers to the method.
    MethodNotFound,
    /// The params are wrong.
    InvalidParams,
    /// The agent failed.
    InternalError,
    /// The connection is gone.
    ConnectionClosed,
    /// No answer in time.
    Timeout,
    /// Somebody said no.
    PermissionDenied,
    /// The session is not known any more.
    SessionExpired,
    /// A login is needed.
    AuthRequired,
    /// A file or another thing is not there.
    NotFound,
    /// The request was cancelled.
    Cancelled,
    /// Anything else.
    Other,
}

impl Meaning {
    /// The meaning of an error in canonical numbers, as agents and dialect translators write it: `data.reason` says
    /// what the canonical numbers have no number for.
    pub fn of(error: &RpcError) -> Meaning {
        let data = error.data.as_ref();
        let reason = data.and_then(|data| data["reason"].as_str());
        match (error.code, reason) {
            (_, Some("connection_closed")) => Meaning::ConnectionClosed,
            (_, Some("timeout")) => Meaning::Timeout,
            (_, Some("permission_denied")) => Meaning::PermissionDenied,
            (_, Some("session_expired")) => Meaning::SessionExpired,
            (error_code::PARSE_ERROR, _) => Meaning::ParseError,
            (error_code::INVALID_REQUEST, _) => Meaning::InvalidRequest,
            (error_code::METHOD_NOT_FOUND, _) => Meaning::MethodNotFound,
            (error_code::INVALID_PARAMS, _) => Meaning::InvalidParams,
            (error_code::INTERNAL_ERROR, _) => Meaning::InternalError,
            (error_code::REQUEST_CANCELLED, _) => Meaning::Cancelled,
            (error_code::AUTH_REQUIRED, _) => Meaning::AuthRequired,
            (error_code::RESOURCE_NOT_FOUND, _)
                if data.is_some_and(|data| data.get("sessionId").is_some()) =>
            {
                Meaning::SessionExpired
            }
            (error_code::RESOURCE_NOT_FOUND, _) => Meaning::NotFound,
            _ => Meaning::Other,
        }
    }

    /// The meaning of whatever happened to a client.
    pub fn of_failure(error: &ClientError) -> Meaning {
        match error {
            ClientError::Refused { error, .. } => Meaning::of(error),
            ClientError::Timeout { .. } => Meaning::Timeout,
            ClientError::Gone { .. } => Meaning::ConnectionClosed,
            _ => Meaning::Other,
        }
    }

    /// What to do before another try; `None` when another try cannot help.
    pub const fn remedy(self) -> Option<Remedy> {
        match self {
            Meaning::ConnectionClosed => Some(Remedy::Reconnect),
            Meaning::Timeout => Some(Remedy::Again),
            Meaning::SessionExpired => Some(Remedy::NewSession),
            Meaning::ParseError
            | Meaning::InvalidRequest
            | Meaning::MethodNotFound
            | Meaning::InvalidParams
            | Meaning::InternalError
            | Meaning::PermissionDenied
            | Meaning::AuthRequired
            | Meaning::NotFound
            | Meaning::Cancelled
            | Meaning::Other => None,
        }
    }
}

/// What to do before another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Nothing.
    Again,
    /// Connect anew.
    Reconnect,
    /// Open another session.
    NewSession,
}

/// Whether doing it twice does harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repeatability {
    /// It can be done again: connecting, initialize, opening a session.
    Repeatable,
    /// It changes things when it runs, as a prompt does.
    Once,
}

/// How often and how patiently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// All tries together, the first included.
    pub attempts: u32,
    /// The pause after the first try; each further one is twice as long.
    pub first: Duration,
    /// The part of a pause that chance may add, so that many clients do not come back together.
    pub jitter: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 5, first: Duration::from_secs(1), jitter: 0.25 }
    }
}

impl Retry {
    /// After try number `attempt` (from 1) failed with `meaning`: the pause and what to do then, or `None` to give
    /// up. `chance` is a number from 0 up to 1.
    pub fn next(
        &self,
        attempt: u32,
        meaning: Meaning,
        effect: Repeatability,
        chance: f64,
    ) -> Option<(Duration, Remedy)> {
        let remedy = meaning.remedy()?;
        // A lost answer does not say whether the question arrived; a session that is not known ran nothing.
        let may_have_run = matches!(meaning, Meaning::ConnectionClosed | Meaning::Timeout);
        if attempt >= self.attempts || (effect == Repeatability::Once && may_have_run) {
            return None;
        }
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        Some((doubled.mul_f64(1.0 + self.jitter * chance.clamp(0.0, 1.0)), remedy))
    }

    /// Does `work` until it succeeds or is not worth another try. `work` is told what to do first.
    pub async fn run<T, F>(
        &self,
        effect: Repeatability,
        mut work: impl FnMut(Remedy) -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut remedy = Remedy::Again;
        for attempt in 1.. {
            let error = match work(remedy).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some((pause, next)) = self.next(attempt, Meaning::of_failure(&error), effect, chance())
            else {
                return Err(error);
            };
            tokio::time::sleep(pause).await;
            remedy = next;
        }
        unreachable!("the loop above ends by returning")
    }
}

/// A number from 0 up to 1 that differs between clients, for [`Retry::next`].
pub fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_pauses_are_one_two_four_and_eight_seconds() {
        let retry = Retry::default();
        let pauses: Vec<_> = (1..=5)
            .map(|attempt| {
                retry.next(attempt, Meaning::Timeout, Repeatability::Repeatable, 0.0).map(|(pause, _)| pause)
            })
            .collect();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(pauses, [seconds(1), seconds(2), seconds(4), seconds(8), None]);
    }

    #[test]
    fn chance_adds_a_quarter_at_most() {
        let retry = Retry::default();
        let pause = |chance| {
            retry.next(2, Meaning::Timeout, Repeatability::Repeatable, chance).map(|(pause, _)| pause)
        };
        assert_eq!(pause(1.0), Some(Duration::from_millis(2500)));
        assert_eq!(pause(7.0), Some(Duration::from_millis(2500)));
        assert!((0.0..=1.0).contains(&chance()));
    }

    #[test]
    fn meanings_decide_not_numbers() {
        let retry = Retry::default();
        for (code, data, meaning, remedy) in [
            (-32700, json!(null), Meaning::ParseError, None),
            (-32600, json!(null), Meaning::InvalidRequest, None),
            (-32601, json!(null), Meaning::MethodNotFound, None),
            (-32602, json!(null), Meaning::InvalidParams, None),
            (-32603, json!(null), Meaning::InternalError, None),
            (
                -32603,
                json!({"reason": "connection_closed"}),
                Meaning::ConnectionClosed,
                Some(Remedy::Reconnect),
            ),
            (-32603, json!({"reason": "timeout"}), Meaning::Timeout, Some(Remedy::Again)),
            (-32603, json!({"reason": "permission_denied"}), Meaning::PermissionDenied, None),
            (-32002, json!({"sessionId": "s"}), Meaning::SessionExpired, Some(Remedy::NewSession)),
            (-32002, json!({"reason": "session_expired"}), Meaning::SessionExpired, Some(Remedy::NewSession)),
            (-32002, json!({"uri": "file:///x"}), Meaning::NotFound, None),
            (-32000, json!(null), Meaning::AuthRequired, None),
            (-32800, json!(null), Meaning::Cancelled, None),
            (-32001, json!(null), Meaning::Other, None),
            (429, json!(null), Meaning::Other, None),
        ] {
            let error = RpcError { code, message: String::new(), data: Some(data) };
            assert_eq!(Meaning::of(&error), meaning, "{error:?}");
            let next = retry.next(1, meaning, Repeatability::Repeatable, 0.0).map(|(_, remedy)| remedy);
            assert_eq!(next, remedy, "{meaning:?}");
        }
    }

    #[test]
    fn a_prompt_that_may_have_run_is_not_repeated() {
        let retry = Retry::default();
        for meaning in [Meaning::ConnectionClosed, Meaning::Timeout] {
            assert_eq!(retry.next(1, meaning, Repeatability::Once, 0.0), None);
        }
        let next = retry.next(1, Meaning::SessionExpired, Repeatability::Once, 0.0).map(|(_, remedy)| remedy);
        assert_eq!(next, Some(Remedy::NewSession));
    }

    fn lost() -> ClientError {
        ClientError::Timeout {
            method: "initialize".into(),
            after: Duration::from_secs(1),
            stderr: crate::LastWords::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn five_tries_take_fifteen_seconds_and_then_the_last_error_stands() {
        let began = tokio::time::Instant::now();
        let mut tries = 0;
        let retry = Retry { jitter: 0.0, ..Retry::default() };
        let outcome: Result<(), _> = retry
            .run(Repeatability::Repeatable, |_| {
                tries += 1;
                async { Err(lost()) }
            })
            .await;
        assert!(matches!(outcome, Err(ClientError::Timeout { .. })));
        assert_eq!((tries, began.elapsed()), (5, Duration::from_secs(15)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_succeeds_ends_it() {
        let began = tokio::time::Instant::now();
        let mut tries = 0;
        let retry = Retry { jitter: 0.0, ..Retry::default() };
        let outcome = retry
            .run(Repeatability::Repeatable, |_| {
                tries += 1;
                let this = tries;
                async move { if this == 3 { Ok(this) } else { Err(lost()) } }
            })
            .await;
        assert_eq!((outcome.ok(), began.elapsed()), (Some(3), Duration::from_secs(3)));
    }
}
