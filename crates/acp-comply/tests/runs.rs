//! Golden runs: a test, a scripted peer in virtual time, and the outcome.
//!
//! `agent.script` has one rule per line; `#` begins a comment.
//!
//! ```text
//! set NAME VALUE            a variable or a setting of the run (probe.agent, probe.session, factor, auth, …)
//! on METHOD [MS] LINE…      when the client sends METHOD: MS milliseconds later the agent says LINE;
//!                           METHOD may be <answer> (any response) or <eof>; the line `next` parts what answers
//!                           the first request from what answers the second
//! at MS LINE…               the agent says LINE that long after the (first) start
//! file MS PATH TEXT         from then on the sandbox has this file
//! mcp MS {"method":…}       from then on the stub's log has this entry
//! provider MS RESULT        what the provider answers, and how long it takes
//! ```
//!
//! In a LINE, `@id` is the id of the request, `exit N` ends the agent, `close` ends its output, anything else is text
//! on the wire; `unreachable WORDS` tells the run that the agent's model cannot do what the test wishes.

mod world;

use acp_testkit::golden;

#[test]
fn every_run_comes_out_as_written() {
    golden::check("tests/runs", |case| vec![("outcome.txt".to_owned(), world::play(case))]);
}
