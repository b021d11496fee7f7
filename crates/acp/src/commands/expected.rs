//! The lists of known failures that `acp comply --expected` takes.

use std::path::Path;
use std::sync::Arc;

use acp_comply::{ExpectedFailures, Program};
use anyhow::Context;

/// Stands for the lists that come with the profiles.
const PROFILE: &str = "profile";

/// Reads the list that is asked for: a file, or the built-in lists of the named agents.
pub fn read(
    path: Option<&Path>,
    agents: &[String],
    programs: &[Arc<Program>],
) -> anyhow::Result<Option<ExpectedFailures>> {
    let Some(path) = path else { return Ok(None) };
    let is_profile = path.as_os_str() == PROFILE && !path.exists();
    let place = if is_profile { "the lists of the profiles".to_owned() } else { path.display().to_string() };
    let text = match is_profile {
        true => of_profiles(agents)?,
        false => std::fs::read_to_string(path).with_context(|| format!("cannot read {place}"))?,
    };
    let list = ExpectedFailures::parse(&text).with_context(|| place.clone())?;
    let tests: Vec<&str> = programs.iter().map(|program| program.id.as_str()).collect();
    let gone = list.unknown(&tests);
    let lines = gone.iter().map(|gone| format!("line {}: {}: {}", gone.line, gone.entry, gone.why));
    anyhow::ensure!(gone.is_empty(), "{place}: {}", lines.collect::<Vec<_>>().join("\n"));
    Ok(Some(list))
}

fn of_profiles(agents: &[String]) -> anyhow::Result<String> {
    anyhow::ensure!(!agents.is_empty(), "--expected profile needs --agent: it takes the list of that agent");
    let mut text = String::new();
    for name in agents {
        let list = acp_profile::expected(name)
            .with_context(|| format!("no list of known failures comes with the agent {name:?}"))?;
        text.push_str(list);
    }
    Ok(text)
}
