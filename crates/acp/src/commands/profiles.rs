//! `acp profiles`, `acp profiles show NAME`, `acp profiles install NAME`

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use acp_exam::{ClientDriver, DriverCatalogue};
use acp_profile::{Catalogue, Profile, ProfileSource, parse_registry, parse_settings};
use anyhow::Context;
use indicatif::ProgressBar;

use crate::exit;
use crate::outputs::OutputFormat;
use acp_campaign::install::{Installed, cache_folder, install};

/// Arguments of `acp profiles`.
#[derive(clap::Args)]
#[command(after_help = crate::help::PROFILES)]
pub struct ProfilesArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Read agents from an editor's settings file (`agent_servers`) instead of the built-in profiles
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "registry")]
    settings: Option<PathBuf>,
    /// Read agents from a copy of the public agent registry instead
    #[arg(long, value_name = "FILE", global = true)]
    registry: Option<PathBuf>,
    /// text for people, or json for programs
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        global = true
    )]
    format: OutputFormat,
    #[arg(long, hide = true, global = true)]
    json: bool,
}

impl ProfilesArgs {
    fn is_json(&self) -> bool {
        self.json || self.format == OutputFormat::Json
    }
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the agents that are known (the default)
    List,
    /// Show everything about one agent
    Show {
        /// Its name
        name: String,
    },
    /// Install an agent's packages, pinned, into a cache folder
    Install {
        /// Its name
        name: String,
        /// The cache folder
        #[arg(long, value_name = "FOLDER", env = "ACP_CACHE_DIR")]
        cache: Option<PathBuf>,
    },
}

/// Lists, shows or installs.
pub fn run(args: &ProfilesArgs) -> anyhow::Result<ExitCode> {
    let catalogue = match catalogue(args) {
        Ok(catalogue) => catalogue,
        Err(error) => {
            eprintln!("acp: {error:#}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    let name = match &args.action {
        None | Some(Action::List) => {
            list(&catalogue, args.is_json());
            return Ok(ExitCode::SUCCESS);
        }
        Some(Action::Show { name } | Action::Install { name, .. }) => name,
    };
    // Clients under test are installed in the same way.
    let client = DriverCatalogue::built_in().find(name).ok().map(ClientDriver::as_profile);
    let profile = match (catalogue.find(name), &client) {
        (Ok(profile), _) | (Err(_), Some(profile)) => profile,
        (Err(error), None) => {
            eprintln!("acp: {error}");
            return Ok(ExitCode::from(exit::USAGE));
        }
    };
    match &args.action {
        Some(Action::Install { cache, .. }) => {
            let cache = cache.clone().map_or_else(cache_folder, Ok)?;
            let installed = match Installed::find(profile, &cache) {
                Some(found) => {
                    eprintln!("{} {} is installed", profile.name, found.version);
                    found
                }
                None => install(profile, &cache, &progress)?,
            };
            told(&installed, args.is_json());
        }
        _ => show(profile, args.is_json())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows that a step goes on, until it is dropped.
fn progress(words: &str) -> Option<ClearedAtEnd> {
    if !std::io::stderr().is_terminal() {
        eprintln!("{words}");
        return None;
    }
    let spinner = ProgressBar::new_spinner().with_message(words.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(120));
    Some(ClearedAtEnd(spinner))
}

struct ClearedAtEnd(ProgressBar);

impl Drop for ClearedAtEnd {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn catalogue(args: &ProfilesArgs) -> anyhow::Result<Catalogue> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    if let Some(path) = &args.settings {
        return Ok(parse_settings(&path.display().to_string(), &read(path)?)?.into_iter().collect());
    }
    if let Some(path) = &args.registry {
        return Ok(parse_registry(&path.display().to_string(), &read(path)?)?.into_iter().collect());
    }
    Ok(Catalogue::built_in())
}

fn list(catalogue: &Catalogue, json: bool) {
    if json {
        let all: Vec<_> = catalogue.profiles().iter().map(row).collect();
        println!("{}", serde_json::Value::from(all));
        return;
    }
    let width = catalogue.profiles().iter().map(|profile| profile.name.chars().count()).max().unwrap_or(0);
    for profile in catalogue.profiles() {
        let version = profile.version().unwrap_or("-");
        let title = if profile.title.is_empty() { &profile.command } else { &profile.title };
        let [name, version, title] = [&profile.name, version, title].map(acp_text::line);
        println!("{name:<width$}  {version:<9}  {title}");
    }
    for left_out in catalogue.unusable() {
        eprintln!("left out: {left_out}");
    }
}

fn row(profile: &Profile) -> serde_json::Value {
    let source = match profile.source {
        ProfileSource::Profile => "profile",
        ProfileSource::Settings => "settings",
        ProfileSource::Registry => "registry",
    };
    serde_json::json!({
        "name": profile.name, "title": profile.title, "version": profile.version(), "source": source,
        "wire": profile.model.as_ref().map(|model| model.wire.as_str()),
    })
}

fn show(profile: &Profile, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(profile)?);
        return Ok(());
    }
    let line = |name: &str, value: &str| {
        if !value.is_empty() {
            println!("{name:<10}{}", acp_text::line(value));
        }
    };
    line("name", &profile.name);
    line("title", &profile.title);
    line("command", &format!("{} {}", profile.command, profile.args.join(" ")));
    line("tcp", &profile.tcp_args.as_ref().map(|args| args.join(" ")).unwrap_or_default());
    for (name, value) in &profile.env {
        line("env", &format!("{name}={value}"));
    }
    for path in profile.home.keys() {
        line("home", path);
    }
    if let Some(model) = &profile.model {
        line(
            "model",
            &format!(
                "{} over the {} wire",
                if model.name.is_empty() { "any" } else { &model.name },
                model.wire.as_str()
            ),
        );
    }
    for (intent, hint) in &profile.intents {
        line("intent", &format!("{intent}: {}", hint.tools.join(", ")));
    }
    for request in &profile.setup {
        line("setup", &request.to_string());
    }
    for (program, version) in &profile.needs {
        line("needs", &format!("{program} {version}"));
    }
    for (registry, packages) in [("npm", &profile.npm), ("pip", &profile.pip)] {
        for package in packages {
            line(registry, &format!("{} {}", package.package, package.version));
        }
    }
    let installed = cache_folder().ok().and_then(|cache| Installed::find(profile, &cache));
    line("installed", &installed.map_or("no".to_owned(), |found| found.folder.display().to_string()));
    for note in &profile.notes {
        line("note", note);
    }
    Ok(())
}

fn told(installed: &Installed, json: bool) {
    if json {
        println!("{}", installed.to_json());
    } else {
        println!("{}", installed.folder.display());
    }
}
