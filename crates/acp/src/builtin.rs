//! Agents under test by name: the one in the box, installed ones by their profile, and the entries of a settings file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use acp_campaign::{Real, Target, Way};
use acp_dialect::Dialect;
use acp_host::target::AgentTarget;
use acp_link::{Address, AddressError};
use acp_profile::{Catalogue, Profile};
use anyhow::{Context, bail};

use crate::settings::FileSettings;
use crate::target::{self, ConnectToken, TargetArgs};
use acp_campaign::install::{Installed, cache_folder};

/// What `acp comply` examines when nothing is named.
pub const DEFAULT: &[&str] = &[
    "mock",
    #[cfg(feature = "agent")]
    "reference",
];

/// The target of this name. The built-in agents keep their sessions in their private home, so that a restart can load
/// them, and speak the form that they are asked to.
pub fn target(name: &str, settings: Option<&Path>, dialect: Dialect) -> anyhow::Result<Target> {
    let built_in = target::built_in_args(name, dialect, "${home}/sessions").filter(|_| settings.is_none());
    if let Some(args) = built_in {
        let own = std::env::current_exe().context("cannot find the program's own file")?;
        // A copy of the program under an alias has to be told that another command is meant.
        let plain = own.file_name().is_none_or(|file| file != "acp").then(|| crate::PLAIN.to_owned());
        let args = plain.into_iter().chain(args);
        return Ok(Target { dialect, ..Target::start(name, own.display().to_string(), args) });
    }
    if settings.is_none()
        && FileSettings::load()?.agent(name).is_none()
        && let Ok(profile) = Catalogue::built_in().find(name)
    {
        return Ok(Target { dialect, ..Target::real(installed(profile)?) });
    }
    resolved(
        &TargetArgs {
            agent: Some(name.to_owned()),
            settings: settings.map(PathBuf::from),
            ..TargetArgs::default()
        },
        dialect,
    )
}

/// The form that the agent of this name speaks: what the flag says, or what acp.toml says about it.
pub fn dialect_of(name: &str, flag: Option<Dialect>) -> anyhow::Result<Dialect> {
    match flag {
        Some(dialect) => Ok(dialect),
        None => Ok(FileSettings::load()?.agent(name).and_then(|agent| agent.dialect).unwrap_or(Dialect::V1)),
    }
}

/// The only agent of a settings file; of several, one has to be named.
pub fn only_of(settings: &Path, dialect: Dialect) -> anyhow::Result<Target> {
    resolved(&TargetArgs { settings: Some(settings.to_owned()), ..TargetArgs::default() }, dialect)
}

/// The agent that this command line starts, under the name of its program.
pub fn command(line: &str, dialect: Dialect) -> anyhow::Result<Target> {
    let mut target =
        resolved(&TargetArgs { command: Some(line.to_owned()), ..TargetArgs::default() }, dialect)?;
    if let Some(name) = Path::new(&target.name).file_name() {
        target.name = name.to_string_lossy().into_owned();
    }
    Ok(target)
}

/// The agent that listens there.
pub fn connect(address: &str, token: &ConnectToken, dialect: Dialect) -> anyhow::Result<Target> {
    let url = if address.contains("://") { address.parse()? } else { Address::tcp(address) };
    if url.port().is_none() {
        bail!(AddressError { given: address.to_owned() });
    }
    Ok(Target { dialect, ..Target::connect(address, url) }.showing(token.get()))
}

/// Gives each target the name that was asked for, and no two of them the same: reports, kept folders and lists of
/// expected failures tell agents apart by their names.
pub fn name(targets: &mut [Target], names: &[String]) -> anyhow::Result<()> {
    if !names.is_empty() && names.len() != targets.len() {
        let there: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        bail!(
            "--name is given {} times for {} agents ({}); give one for each, in this order",
            names.len(),
            targets.len(),
            there.join(", ")
        );
    }
    for (target, name) in targets.iter_mut().zip(names) {
        target.name.clone_from(name);
    }
    for at in 1..targets.len() {
        let (before, rest) = targets.split_at_mut(at);
        let base = rest[0].name.clone();
        let taken = |name: &str| before.iter().any(|target| target.name == name);
        if let (true, Some(free)) =
            (taken(&base), (2..).map(|n| format!("{base}-{n}")).find(|name| !taken(name)))
        {
            rest[0].name = free;
        }
    }
    Ok(())
}

/// The agent under test that the flags of `acp prompt` would name. Agents under test start in folders of their own, so a
/// program that is named by a relative path is looked for here.
fn resolved(named: &TargetArgs, dialect: Dialect) -> anyhow::Result<Target> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    Ok(match named.resolve()? {
        AgentTarget::Process { name, program, args, env, cwd } => Target {
            name,
            way: Way::Start {
                program: from_here(text(&program))?,
                args: args.iter().map(text).collect(),
                env: env.iter().map(|(key, value)| (text(key), text(value))).collect::<BTreeMap<_, _>>(),
                cwd,
            },
            version: None,
            dialect,
        },
        AgentTarget::Listening(address, token) => {
            let name = address.as_str().trim_start_matches("tcp://").to_owned();
            Target { dialect, ..Target::connect(name, address) }.showing(token)
        }
    })
}

/// A relative path to a program, made absolute; a bare name is for `PATH`, and `${home}` begins an absolute path.
fn from_here(program: String) -> anyhow::Result<String> {
    if !program.contains('/') || program.starts_with("${") {
        return Ok(program);
    }
    let path = std::path::absolute(&program).with_context(|| format!("cannot find {program}"))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The agent of this name, as `acp profiles install` put it there.
pub fn installed_agent(name: &str) -> anyhow::Result<Real> {
    installed(Catalogue::built_in().find(name)?)
}

/// The agent of this profile, from the cache folder.
fn installed(profile: &Profile) -> anyhow::Result<Real> {
    let cache = cache_folder()?;
    let Some(found) = Installed::find(profile, &cache) else {
        bail!(
            "agent {name:?} is not installed in {}; run `acp profiles install {name}`, or test your own installation \
             with --command",
            cache.display(),
            name = profile.name
        );
    };
    Ok(Real { profile: profile.clone(), bin: found.bin, packages: found.folder, over_tcp: false })
}

/// The same agent, started so that it listens and spoken to over TCP.
pub fn over_tcp(mut target: Target) -> anyhow::Result<Target> {
    let Way::Real(real) = &mut target.way else {
        bail!(
            "--tcp starts an installed agent on a port; reach {:?} with --connect tcp://HOST:PORT",
            target.name
        )
    };
    std::sync::Arc::make_mut(real).over_tcp = true;
    Ok(target)
}
