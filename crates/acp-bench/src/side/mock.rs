//! `acp mock` as the agent of our client.

use acp_link::child;
use acp_proto::update;
use acp_rpc::Frame;
use anyhow::Context as _;

use crate::job::Job;

/// What a chunk of the mock has around its text, newline included. It marks each with a message's id, so its
/// texts are shorter than those of the other contestants for lines of the same length.
const AROUND: usize = 187;

/// Starts the mock so that every prompt is answered with the job's chunks, as fast as it can.
pub(super) fn options(job: &Job) -> anyhow::Result<child::SpawnOptions> {
    let acp = job.acp.as_deref().context("this job does not say where the `acp` program is")?;
    let (chunks, size) = (job.updates.max(1).to_string(), job.size.saturating_sub(AROUND).max(1).to_string());
    Ok(child::SpawnOptions::new(acp).args([
        "mock",
        "--seed",
        "7",
        "--chunks",
        &chunks,
        "--chunk-size",
        &size,
    ]))
}

/// The mock also tells its commands, its title and its usage, which nobody counts.
pub(super) fn is_chunk(frame: &Frame) -> bool {
    let head = frame.params().and_then(|params| params.get(..80));
    head.is_some_and(|head| head.contains(update::AGENT_MESSAGE_CHUNK))
}
