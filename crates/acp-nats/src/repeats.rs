//! Keeps a message that would be repeated while something is wrong from being logged more than once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A message that was not repeated for this long is about something that is over.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// How many different messages are remembered.
const MAX_MESSAGES: usize = 1000;

/// Lets each message through once, and again after nobody wanted to log it for a minute.
#[derive(Debug, Default)]
pub(super) struct RepeatFilter(HashMap<String, Instant>);

impl RepeatFilter {
    /// Whether to log a message now.
    pub(super) fn is_due(&mut self, message: &str, now: Instant) -> bool {
        let is_recent = |last: &Instant| now.saturating_duration_since(*last) < FORGET_AFTER;
        if let Some(last) = self.0.get_mut(message) {
            return !is_recent(&std::mem::replace(last, now));
        }
        if self.0.len() >= MAX_MESSAGES {
            self.0.retain(|_, last| is_recent(last));
        }
        let has_room = self.0.len() < MAX_MESSAGES;
        if has_room {
            self.0.insert(message.to_owned(), now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_problem_is_logged_once_and_one_that_returns_again() {
        let (mut filter, began) = (RepeatFilter::default(), Instant::now());
        let logged =
            [0, 1, 50, 100, 150, 210, 269, 500].map(|t| filter.is_due("x", began + Duration::from_secs(t)));
        assert_eq!(logged, [true, false, false, false, false, true, false, true]);
        let later = began + Duration::from_secs(600);
        for number in 0..MAX_MESSAGES {
            filter.is_due(&number.to_string(), later);
        }
        assert!(!filter.is_due("one too many", later));
        assert!(filter.is_due("one too many", later + FORGET_AFTER));
    }
}
