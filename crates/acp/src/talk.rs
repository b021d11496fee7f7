//! The flags that `acp prompt` and `acp chat` share, and values that many commands read.

use std::path::PathBuf;
use std::time::Duration;

use acp_chat::content::Attachments;
use acp_chat::keys::person_present;
use acp_chat::{TalkOptions, mcp};
use acp_policy::PolicyRules;

use crate::outputs::FormatArgs;
use crate::settings::FileSettings;
use crate::target::TargetArgs;
use crate::{builtin, patterns};

/// Which agent, where, with what, under which rules.
#[derive(clap::Args, Debug)]
pub struct TalkArgs {
    /// Which agent.
    #[command(flatten)]
    pub target: TargetArgs,

    /// Talk with the agent of --agent as `acp profiles install` put it there, in a home of its own, on a scripted model
    #[arg(long, requires = "agent", help_heading = "Which agent")]
    pub scripted: bool,

    /// The session's working folder
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = "Session")]
    pub cwd: PathBuf,
    /// A further folder that the session may use
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    pub add_dir: Vec<PathBuf>,
    /// Load this session, or resume it when the agent can only do that
    #[arg(long, value_name = "ID", help_heading = "Session")]
    pub session: Option<String>,
    /// The session's mode
    #[arg(long, value_name = "MODE", help_heading = "Session")]
    pub mode: Option<String>,
    /// An MCP server for the agent: NAME=COMMAND ARGS…, NAME=http://…, NAME=sse+http://…, or a JSON file with mcpServers
    #[arg(long, value_name = "SERVER", help_heading = "Session")]
    pub mcp: Vec<String>,
    /// Log in with this method of the agent first
    #[arg(long, value_name = "METHOD", help_heading = "Session")]
    pub auth: Option<String>,

    /// Mention a file (as a link that the agent may follow)
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub file: Vec<PathBuf>,
    /// Send a file's content along
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub embed: Vec<PathBuf>,
    /// Send an image along
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub image: Vec<PathBuf>,
    /// Send a sound along
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub audio: Vec<PathBuf>,

    /// What the agent may do: default (ask), none, read, write, yolo, acceptEdits, bypassPermissions, plan, or a policy of
    /// acp.toml
    #[arg(long, value_name = "POLICY", help_heading = "Permissions")]
    pub policy: Option<String>,
    /// Allow a tool without asking, for instance 'Bash(git:read)' or Read
    #[arg(long, value_name = "PATTERN", help_heading = "Permissions")]
    pub allow: Vec<String>,
    /// Never allow a tool; stronger than everything else
    #[arg(long, value_name = "PATTERN", help_heading = "Permissions")]
    pub deny: Vec<String>,

    /// Give up a turn, or a step before it, after this long, for instance 90s or 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Try this many times to connect and open the session, with growing pauses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=5))]
    pub attempts: u32,
    /// Write a transcript to this file
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// The answer as text for people, or as json: each update a line of JSON.
    #[command(flatten)]
    pub format: FormatArgs,
    /// Also show what is usually left out: every decision, usage, noise on the wire
    #[arg(long, short)]
    pub verbose: bool,
}

impl TalkArgs {
    /// The session that the flags ask for. Errors are the person's to mend: exit code 2.
    pub fn options(&self) -> anyhow::Result<TalkOptions> {
        let rules = FileSettings::load()?.rules(self.policy.as_deref(), &self.allow, &self.deny)?;
        let rules: PolicyRules = rules.unwrap_or_default();
        patterns::warn("acp", &rules.allow);
        let scripted = match &self.target.agent {
            Some(name) if self.scripted => Some(builtin::installed_agent(name)?),
            _ => None,
        };
        Ok(TalkOptions {
            target: self.target.resolve()?,
            dialect: self.target.dialect()?,
            scripted,
            rules,
            cwd: self.cwd.clone(),
            add_dir: self.add_dir.clone(),
            mcp_servers: mcp::servers(&self.mcp)?,
            session: self.session.clone(),
            mode: self.mode.clone(),
            auth: self.auth.clone(),
            timeout: self.timeout,
            attempts: self.attempts,
            record: self.record.clone(),
            verbose: self.verbose,
            person: person_present(),
        })
    }

    /// The files that go along.
    pub fn attachments(&self) -> Attachments<'_> {
        Attachments { file: &self.file, embed: &self.embed, image: &self.image, audio: &self.audio }
    }
}

/// The token that clients must show.
pub fn secret(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty and would keep nobody out; name a token, or leave it out".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// Reads a length of time; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("{other:?} is not a unit of time; use ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a time; try 90s or 5m"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, millis) in
            [("250ms", 250), ("2", 2000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(duration("soon").is_err() && duration("3 weeks").is_err() && duration("-1s").is_err());
    }
}
