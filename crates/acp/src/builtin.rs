//! Agents under test by name: the one in the box, installed ones by their profile, and the entries of a settings file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use acp_campaign::{Real, Target, Way};
use acp_dialect::Dialect;
use acp_profile::{Catalogue, Profile};
use anyhow::{Context, bail};

use crate::install::{Installed, cache_folder};
use crate::target::{self, TargetArgs};

/// What `acp comply` examines when nothing is named.
pub const DEFAULT: &[&str] = &["mock", "reference"];

/// The target of this name. The built-in agents keep their sessions in their private home, so that a restart can load
/// them, and speak the form that they are asked to.
pub fn target(name: &str, settings: Option<&Path>, dialect: Dialect) -> anyhow::Result<Target> {
    let built_in = target::built_in_args(name, dialect, "${home}/sessions").filter(|_| settings.is_none());
    if let Some(args) = built_in {
        let own =
            std::env::current_exe().context("cannot find the program's own file")?.display().to_string();
        return Ok(Target::start(name, own, args));
    }
    if settings.is_none()
        && let Ok(profile) = Catalogue::built_in().find(name)
    {
        return Ok(Target { dialect, ..Target::real(installed(profile)?) });
    }
    let named = TargetArgs {
        agent: Some(name.to_owned()),
        settings: settings.map(Path::to_path_buf),
        ..TargetArgs::default()
    };
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    Ok(match named.resolve()? {
        target::Target::Process { program, args, env, .. } => Target {
            name: name.to_owned(),
            way: Way::Start {
                program: text(&program),
                args: args.iter().map(text).collect(),
                env: env.iter().map(|(key, value)| (text(key), text(value))).collect::<BTreeMap<_, _>>(),
            },
            version: None,
            dialect,
        },
        target::Target::Tcp(address) => Target::connect(name, format!("tcp://{address}")),
        target::Target::Ws(url) => Target::connect(name, url),
    })
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
