//! `acp replay FILE|SESSION`

mod agent;
mod redact;
mod show;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acp_proxy::journal::Notice;
use acp_proxy::replay::{Recording, ReplayError, find};
use acp_rpc::transcript::TranscriptEntry;
use anyhow::Context;

use crate::exit;

/// Arguments of `acp replay`.
#[derive(clap::Args)]
#[command(after_help = crate::help::REPLAY)]
pub struct ReplayArgs {
    /// A transcript (of --record), a segment or folder of a journal, a session id, or a conversation's name as --list
    /// shows it; without it, the conversations in the journal are listed
    #[arg(value_name = "FILE|SESSION", required_if_eq("as_agent", "true"))]
    what: Option<String>,
    /// The journal to look in (without it, $XDG_STATE_HOME/acp/journal or ~/.local/state/acp/journal)
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// List the conversations in the journal
    #[arg(long, conflicts_with_all = ["as_agent", "timing"])]
    list: bool,
    /// text for people, json (each frame as a line of a transcript), or events (what a NATS stream would carry)
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = format)]
    format: Format,
    /// Replay in real time
    #[arg(long)]
    timing: bool,
    /// With --timing, this many times faster
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, requires = "timing", value_parser = speed)]
    speed: f64,
    /// Also show frames outside of turns, usage and commands
    #[arg(long, short)]
    verbose: bool,
    /// Remove secrets from what is shown (docs/security.md describes the limits)
    #[arg(long, conflicts_with = "as_agent")]
    redact: bool,
    /// Play the agent: answer a client's requests as recorded
    #[arg(long, conflicts_with = "format")]
    as_agent: bool,
    /// With --as-agent, where clients come from: stdio, tcp://127.0.0.1:PORT or ws://127.0.0.1:PORT/acp; port 0 takes
    /// any free one, and the address is printed as a line of JSON
    #[arg(long, value_name = "WHERE", default_value = "stdio", requires = "as_agent")]
    listen: super::listen::Listen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Events,
}

/// Shows a conversation again, or plays its agent.
pub fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    if args.what.is_none() {
        return list_journal(args);
    }
    let mut recordings = match recordings(args) {
        Ok(recordings) => recordings,
        Err(error) => {
            eprintln!("acp replay: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    for notice in recordings.iter().flat_map(|recording| &recording.notices) {
        eprintln!("acp replay: {notice}");
    }
    if args.redact {
        recordings.iter_mut().for_each(redact::recording);
    }
    let speed = args.timing.then_some(args.speed);
    if args.as_agent {
        let [recording] = &recordings[..] else {
            let names: Vec<&str> = recordings.iter().map(|recording| recording.name.as_str()).collect();
            eprintln!("acp replay: several conversations fit; name one of them: {}", names.join(", "));
            return Ok(ExitCode::from(exit::USAGE));
        };
        return agent::run(recording, args.listen, speed);
    }
    let shown = match args.format {
        _ if args.list => list(&recordings),
        Format::Text => show::text(&recordings, speed, args.verbose),
        Format::Json => json(&recordings, speed),
        Format::Events => events(&recordings),
    };
    match shown {
        // A reader that goes away has seen what it wanted.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        shown => Ok(shown.map(|()| ExitCode::SUCCESS)?),
    }
}

fn recordings(args: &ReplayArgs) -> anyhow::Result<Vec<Recording>> {
    let what = args.what.as_deref().context("what? name a file, a session or a conversation")?;
    Ok(find(what, args.journal.clone())?)
}

fn list_journal(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let folder = args.journal.clone().or_else(acp_proxy::journal::default_folder);
    let folder = folder.context("neither XDG_STATE_HOME nor HOME is set; use --journal DIR")?;
    let tell = |notice: &Notice| eprintln!("acp replay: {notice}");
    let mut count = 0;
    let listed = Recording::each_of_journal(&folder, tell, |recording| {
        count += 1;
        recording.notices.iter().for_each(|notice| eprintln!("acp replay: {notice}"));
        list(&[recording])
    });
    match listed {
        Ok(()) if count > 0 => Ok(ExitCode::SUCCESS),
        Ok(()) => Ok(nothing_recorded(&folder)),
        Err(ReplayError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {
            Ok(nothing_recorded(&folder))
        }
        Err(ReplayError::Io { error, .. }) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("acp replay: {error}");
            Ok(ExitCode::from(exit::USAGE))
        }
    }
}

/// A journal that was never written is no error.
fn nothing_recorded(folder: &Path) -> ExitCode {
    eprintln!(
        "acp replay: no conversations are recorded in {} yet; acp proxy records them there, and --record FILE of acp \
         prompt, chat, call and mock writes a transcript for acp replay FILE",
        folder.display()
    );
    ExitCode::SUCCESS
}

fn list(recordings: &[Recording]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for recording in recordings {
        let at = recording.at.as_deref().unwrap_or("-");
        let agent = acp_text::line(recording.agent.as_deref().unwrap_or("-"));
        let sessions = acp_text::line(&recording.sessions().join(","));
        let sessions = if sessions.is_empty() { "-" } else { &sessions };
        let turns = match recording.turns() {
            1 => "1 turn".to_owned(),
            turns => format!("{turns} turns"),
        };
        let frames = recording.said.iter().filter(|said| !said.is_change()).count();
        let outcome = recording.outcome.as_deref().unwrap_or("unfinished");
        writeln!(
            out,
            "{}\t{at}\t{agent}\t{sessions}\t{turns}, {frames} frames\t{}",
            acp_text::line(&recording.name),
            acp_text::line(outcome)
        )?;
    }
    Ok(())
}

fn json(recordings: &[Recording], speed: Option<f64>) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for recording in recordings {
        let mut pace = show::Pace::new(speed);
        // What went by on the client's side: a request that was changed is there as it came.
        for said in recording.said.iter().filter(|said| !said.is_change()) {
            pace.wait(said.t);
            let entry = TranscriptEntry { t: said.t, dir: said.dir, line: said.frame.raw().clone() };
            writeln!(out, "{}", acp_text::json(&entry.to_json_line()))?;
        }
    }
    Ok(())
}

fn events(recordings: &[Recording]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    for event in recordings.iter().flat_map(Recording::events) {
        writeln!(out, "{}", acp_text::json(&event.to_string()))?;
    }
    Ok(())
}

fn format(word: &str) -> Result<Format, String> {
    match word {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "events" => Ok(Format::Events),
        _ => Err("use text, json or events".to_owned()),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if speed.is_finite() && speed > 0.0 { Ok(speed) } else { Err("it must be more than zero".to_owned()) }
}
