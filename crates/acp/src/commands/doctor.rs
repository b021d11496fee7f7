//! `acp doctor`: is everything there that the commands need?

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use acp_profile::Catalogue;
use serde_json::{Value, json};

use crate::outputs::OutputFormat;
use crate::settings::FileSettings;
use crate::{exit, out};
use acp_campaign::install::{Installed, cache_folder};

/// Arguments of `acp doctor`.
#[derive(clap::Args)]
#[command(after_help = crate::help::DOCTOR)]
pub struct DoctorArgs {
    /// Make these checks only, and fail if one of them is not ok (without names, what is missing but optional is only
    /// reported)
    #[arg(value_name = "CHECK", value_parser = clap::builder::PossibleValuesParser::new(names()))]
    checks: Vec<String>,
    /// text for people, or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: OutputFormat,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    /// Not there, and needed by some commands only.
    Missing,
    /// In the way of every command.
    Broken,
}

/// What was found, or what is wrong and what to do.
type Found = Result<String, (State, String)>;

/// A check: its name, what it is needed for, and how it is made.
struct Check {
    name: &'static str,
    purpose: &'static str,
    make: fn() -> Found,
}

const CHECKS: &[Check] = &[
    Check { name: "acp", purpose: "this program", make: own },
    Check { name: "config", purpose: "acp.toml", make: config },
    Check { name: "cache", purpose: "installed agents and the last report", make: cache },
    Check { name: "state", purpose: "journals of acp proxy, sessions of acp agent", make: state },
    Check { name: "isolate", purpose: "--isolate", make: isolate },
    Check {
        name: "node",
        purpose: "agents from npm",
        make: || program("node", "install Node.js 20 or newer"),
    },
    Check { name: "npm", purpose: "acp profiles install", make: || program("npm", "it comes with Node.js") },
    Check {
        name: "python",
        purpose: "agents from PyPI",
        make: || program("python3", "install Python 3.10 or newer"),
    },
    Check {
        name: "nats",
        purpose: "acp proxy --nats and acp tasks",
        make: || program("nats-server", "see https://nats.io/download, or use a server elsewhere"),
    },
    Check { name: "agents", purpose: "acp comply --agent NAME", make: agents },
];

fn names() -> Vec<&'static str> {
    CHECKS.iter().map(|check| check.name).collect()
}

/// Makes the checks and prints what was found.
pub fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let is_chosen =
        |check: &&Check| args.checks.is_empty() || args.checks.iter().any(|name| name == check.name);
    let made: Vec<(&Check, Found)> =
        CHECKS.iter().filter(is_chosen).map(|check| (check, (check.make)())).collect();
    match args.format {
        OutputFormat::Text => out::print(acp_text::block(&text(&made)))?,
        OutputFormat::Json => out::print(acp_text::json(&format!("{:#}\n", json(&made))).as_bytes())?,
    }
    let fails = |state: State| state == State::Broken || (state == State::Missing && !args.checks.is_empty());
    let failed = made.iter().any(|(_, found)| fails(state_of(found)));
    Ok(ExitCode::from(if failed { exit::FAILED } else { exit::OK }))
}

fn state_of(found: &Found) -> State {
    found.as_ref().err().map_or(State::Ok, |(state, _)| *state)
}

fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Missing => "missing",
        State::Broken => "broken",
    }
}

fn words(found: &Found) -> String {
    let (Ok(words) | Err((_, words))) = found;
    acp_text::line(words)
}

fn text(made: &[(&Check, Found)]) -> String {
    let line = |(check, found): &(&Check, Found)| {
        let line = format!("{:<8} {:<8} {}", word(state_of(found)), check.name, words(found));
        match found {
            Ok(_) => format!("{line}\n"),
            Err(_) => format!("{line} (needed for {})\n", check.purpose),
        }
    };
    made.iter().map(line).collect()
}

fn json(made: &[(&Check, Found)]) -> Value {
    let row = |(check, found): &(&Check, Found)| json!({ "check": check.name, "state": word(state_of(found)), "found": words(found), "purpose": check.purpose });
    made.iter().map(row).collect()
}

fn own() -> Found {
    let place = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    Ok(format!("{} for {system} on {machine}, {place}", env!("CARGO_PKG_VERSION")))
}

fn config() -> Found {
    match FileSettings::load() {
        Ok(settings) => Ok(match settings.path() {
            Some(path) => {
                let names: Vec<&str> = settings.agent_names().collect();
                let agents = if names.is_empty() { "no agents".to_owned() } else { names.join(", ") };
                format!("{} with {agents}", path.display())
            }
            None => "no acp.toml here or above; acp init writes one".to_owned(),
        }),
        Err(error) => Err((State::Broken, format!("{error:#}"))),
    }
}

fn cache() -> Found {
    usable(
        cache_folder().map_err(|error| error.to_string()),
        "set ACP_CACHE_DIR to a folder that you can write to",
    )
}

fn state() -> Found {
    let folder = acp_proxy::journal::default_folder();
    usable(folder.ok_or_else(|| "neither XDG_STATE_HOME nor HOME is set".to_owned()), "set XDG_STATE_HOME")
}

/// Whether files can be written below the folder; it is not made if it is not there yet.
fn usable(folder: Result<PathBuf, String>, hint: &str) -> Found {
    let broken = |why: String| (State::Broken, format!("{why}; {hint}"));
    let folder = folder.map_err(broken)?;
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match tempfile::Builder::new().prefix(".acp-doctor").tempfile_in(there) {
        Ok(_) => Ok(folder.display().to_string()),
        Err(error) => Err(broken(format!("cannot write to {}: {error}", there.display()))),
    }
}

fn isolate() -> Found {
    match acp_campaign::isolate::check() {
        Ok(()) => Ok("agents can run without network access".to_owned()),
        Err(error) => Err((State::Missing, format!("{error:#}"))),
    }
}

fn program(name: &str, hint: &str) -> Found {
    let missing = |why: String| (State::Missing, format!("{why}; {hint}"));
    // Not in this folder, whose files may choose another version (`packageManager`, `.npmrc`, `.tool-versions`).
    let asked = Command::new(name).arg("--version").current_dir("/").stdin(Stdio::null()).output();
    let said = asked.map_err(|error| missing(format!("cannot run {name}: {error}")))?;
    if !said.status.success() {
        return Err(missing(format!("{name} --version failed ({})", said.status)));
    }
    let said = String::from_utf8_lossy(&said.stdout);
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

fn agents() -> Found {
    let cache = cache_folder().map_err(|error| (State::Broken, error.to_string()))?;
    let catalogue = Catalogue::built_in();
    let found: Vec<String> = catalogue
        .profiles()
        .iter()
        .filter_map(|profile| Installed::find(profile, &cache))
        .map(|found| format!("{} {}", found.name, found.version))
        .collect();
    match found.is_empty() {
        true => Err((State::Missing, "no agent is installed; acp profiles install NAME does it".to_owned())),
        false => Ok(found.join(", ")),
    }
}
