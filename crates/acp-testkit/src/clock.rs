use std::time::Duration;

/// Time as a value: it starts at zero and moves when it is told to.
///
/// ```
/// use std::time::Duration;
/// let mut clock = acp_testkit::Clock::default();
/// clock.advance(Duration::from_secs(2));
/// clock.reach(Duration::from_secs(1));
/// assert_eq!(clock.now(), Duration::from_secs(2), "time does not run backwards");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock(Duration);

impl Clock {
    /// Since the test began.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0
    }

    /// Moves by `step`, and says what time it is then.
    pub fn advance(&mut self, step: Duration) -> Duration {
        self.0 = self.0.saturating_add(step);
        self.0
    }

    /// Moves to `at`, unless it is past that already.
    pub fn reach(&mut self, at: Duration) -> Duration {
        self.0 = self.0.max(at);
        self.0
    }
}
