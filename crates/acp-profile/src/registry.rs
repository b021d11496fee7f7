//! The public agent registry's JSON.

use serde_json::Value;

use crate::profile::{Package, Profile, ProfileError, ProfileSource};
use crate::settings::{env, literal, strings};

/// Reads every agent of a registry document. An agent that is not distributed as a package for npm or PyPI
/// comes back as an error next to the others.
pub fn parse_registry(place: &str, text: &str) -> Result<Vec<Result<Profile, ProfileError>>, ProfileError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ProfileError::new(place, format!("the registry is not JSON: {error}")))?;
    let Some(agents) = value.get("agents").and_then(Value::as_array) else {
        return Err(ProfileError::new(place, "the registry has no list \"agents\""));
    };
    Ok(agents.iter().enumerate().map(|(index, agent)| parse_agent(place, index, agent)).collect())
}

fn parse_agent(place: &str, index: usize, agent: &Value) -> Result<Profile, ProfileError> {
    let Some(id) = agent["id"].as_str().filter(|id| !id.is_empty()) else {
        return Err(ProfileError::new(format!("{place}, agents[{index}]"), "it has no \"id\""));
    };
    let bad = |reason: &str| ProfileError::new(format!("{place}, agent {id:?}"), reason);
    let distribution = &agent["distribution"];
    let mut profile = if let Some(package) = distribution["npx"]["package"].as_str() {
        npx(id, package)
    } else if let Some(package) = distribution["uvx"]["package"].as_str() {
        uvx(id, package)
    } else {
        return Err(bad("it is offered as an archive only; install it by hand and name it with --command"));
    };
    let way = distribution.get("npx").or_else(|| distribution.get("uvx"));
    let given = |field: &str| way.and_then(|way| way.get(field));
    profile.args.extend(strings(given("args")).ok_or_else(|| bad("\"args\" is not a list of strings"))?);
    profile.env = env(given("env")).ok_or_else(|| bad("\"env\" is not a table of strings"))?;
    profile.title = agent["name"].as_str().unwrap_or(id).to_owned();
    profile.notes = agent["description"].as_str().map(str::to_owned).into_iter().collect();
    profile.source = ProfileSource::Registry;
    Ok(profile)
}

fn npx(id: &str, package: &str) -> Profile {
    let mut profile = Profile::bare(id, "npx");
    profile.args = vec!["--yes".to_owned(), literal(package)];
    // A scope begins with @, a version follows one.
    let (name, version) = match package.rsplit_once('@') {
        Some((name, version)) if !name.is_empty() => (name, version),
        _ => (package, ""),
    };
    profile.npm = vec![Package { package: name.to_owned(), version: version.to_owned() }];
    profile
}

fn uvx(id: &str, package: &str) -> Profile {
    let mut profile = Profile::bare(id, "uvx");
    profile.args = vec![literal(package)];
    let (name, version) =
        package.split_once("==").or_else(|| package.split_once('@')).unwrap_or((package, ""));
    profile.pip = vec![Package { package: name.to_owned(), version: version.to_owned() }];
    profile
}
