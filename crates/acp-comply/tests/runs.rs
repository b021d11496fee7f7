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

//!
//! For tests of clients, `client.script` has other rules:
//!
//! ```text
//! set NAME VALUE            a variable, or what the driver can do (verbs, own, permissions, prepares, opens-by-prompt, …)
//! drive VERB [MS] ACT…      when the driver uses VERB; without a rule the driver says at once that it is done
//! on METHOD [MS] ACT…       when the agent sends METHOD
//! answered ID [MS] ACT…     when the agent answers the client's request ID
//! stderr [MS] ACT…          when the agent writes to its standard error; `exit` when it ends
//! file MS PATH TEXT         from then on there is this file
//! ```
//!
//! An ACT is text on the wire to the latest launch (`@1 LINE`: to the first), or one of: `launch RECORD`, `record CHANGES`,
//! `done`, `failed WORDS`, `lacks WORDS`, `client RECORD`, `http REQUEST`, `dies PID`, `taken`, `found FINDING`.

mod world;

use acp_testkit::golden;

#[test]
fn every_run_comes_out_as_written() {
    golden::check("tests/runs", |case| vec![("outcome.txt".to_owned(), world::play(case))]);
}

#[test]
fn every_run_of_a_client_comes_out_as_written() {
    golden::check("tests/client-runs", |case| vec![("outcome.txt".to_owned(), world::client::play(case))]);
}
