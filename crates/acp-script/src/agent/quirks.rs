//! Where a mock agent may be wrong in a way that nobody could make from outside.

/// Wrong behaviour of the agent itself. The defaults are right, and the only implementation is that of
/// [`crate::MockAgent`]: [`super::Agent::new`] makes agents without any.
pub(crate) trait Quirks: Send {
    /// The id of a new session, instead of a unique one; `number` is the agent's next one.
    fn session_id(&self, number: &mut dyn FnMut() -> u64) -> Option<String> {
        let _ = number;
        None
    }

    /// A prompt said to remember this word. Whether every session knows it.
    fn shares(&mut self, word: &str) -> bool {
        let _ = word;
        false
    }

    /// The word that every session knows.
    fn shared_word(&self) -> Option<&str> {
        None
    }

    /// A path of a prompt as an absolute one, instead of one in the working folder.
    fn resolve(&self, path: &str, roots: &[String]) -> Option<String> {
        let _ = (path, roots);
        None
    }

    /// Whether tools may use this path, where that is decided wrongly. `is_inside` is the right answer for the working
    /// folder and for the further roots.
    fn admits(&self, path: &str, cwd: &str, is_inside: (bool, bool)) -> Option<bool> {
        let _ = (path, cwd, is_inside);
        None
    }

    /// Whether a tool call of this turn is made without the permission that it needs.
    fn needs_no_permission(&self, turn: u64, path: Option<&str>, cwd: &str, is_inside: bool) -> bool {
        let _ = (turn, path, cwd, is_inside);
        false
    }

    /// A command to run in this turn after it was cancelled.
    fn last_command(&mut self, turn: u64) -> Option<&'static str> {
        let _ = turn;
        None
    }

    /// Whether forms ask for secrets.
    fn asks_for_secrets(&self) -> bool {
        false
    }
}

/// No quirks.
pub(super) struct NoQuirks;

impl Quirks for NoQuirks {}
