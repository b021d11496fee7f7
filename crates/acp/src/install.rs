//! Agents' packages in a cache folder: one folder per agent and version, made by npm or pip.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use acp_profile::{Package, Profile};
use anyhow::{Context, bail};
use serde_json::{Value, json};

/// An installed agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The agent's name.
    pub name: String,
    /// The version of its first package.
    pub version: String,
    /// Where its packages are (`${packages}`).
    pub folder: PathBuf,
    /// Where its programs are (`${bin}`).
    pub bin: PathBuf,
}

/// The file that says that an installation is whole.
const MARK: &str = "installed.json";

/// The node that is fetched where the machine's own is too old for an agent.
const NODE: &str = "node@24";

/// `$XDG_CACHE_HOME/acp-workbench`, or `~/.cache/acp-workbench`.
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("ACP_CACHE_DIR").filter(|given| !given.is_empty()) {
        return Ok(given.into());
    }
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    Ok(base.context("cannot find a cache folder; set ACP_CACHE_DIR")?.join("acp-workbench"))
}

impl Installed {
    /// Looks for a whole installation of the profile's version.
    pub fn find(profile: &Profile, cache: &Path) -> Option<Self> {
        let folder = folder(profile, cache);
        let mark: Value = serde_json::from_str(&std::fs::read_to_string(folder.join(MARK)).ok()?).ok()?;
        let bin = folder.join(mark["bin"].as_str()?);
        let version = profile.version().unwrap_or_default().to_owned();
        (mark["packages"] == packages(profile)).then(|| Self {
            name: profile.name.clone(),
            version,
            folder,
            bin,
        })
    }

    /// For scripts.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "version": self.version, "folder": self.folder, "bin": self.bin})
    }
}

fn folder(profile: &Profile, cache: &Path) -> PathBuf {
    let plain = |text: &str| {
        text.chars()
            .map(|c| if c.is_alphanumeric() || ".-_".contains(c) { c } else { '_' })
            .collect::<String>()
    };
    cache.join("agents").join(format!(
        "{}-{}",
        plain(&profile.name),
        plain(profile.version().unwrap_or("latest"))
    ))
}

fn packages(profile: &Profile) -> Value {
    let list = |packages: &[Package]| -> Value {
        packages.iter().map(|package| spec(package, '@').into()).collect::<Vec<Value>>().into()
    };
    json!({"npm": list(&profile.npm), "pip": list(&profile.pip)})
}

fn spec(package: &Package, sign: char) -> String {
    match (package.version.as_str(), sign) {
        ("", _) => package.package.clone(),
        (version, '@') => format!("{}@{version}", package.package),
        (version, _) => format!("{}=={version}", package.package),
    }
}

/// Installs the packages unless they are there already. This is the one place that uses package registries.
pub fn install(profile: &Profile, cache: &Path) -> anyhow::Result<Installed> {
    if let Some(found) = Installed::find(profile, cache) {
        eprintln!("{} {} is installed", profile.name, found.version);
        return Ok(found);
    }
    if profile.npm.is_empty() && profile.pip.is_empty() {
        bail!("profile {:?} names no package; install the agent by hand and use --command", profile.name);
    }
    let folder = folder(profile, cache);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let bin = if profile.npm.is_empty() { with_pip(profile, &folder)? } else { with_npm(profile, &folder)? };
    let mark = json!({"bin": bin, "packages": packages(profile)});
    std::fs::write(folder.join(MARK), mark.to_string()).context("cannot mark the installation as whole")?;
    Installed::find(profile, cache).context("the installation is not where it should be")
}

fn with_npm(profile: &Profile, folder: &Path) -> anyhow::Result<&'static str> {
    let mut names: Vec<String> = profile.npm.iter().map(|package| spec(package, '@')).collect();
    if let Some(needed) = profile.needs.get("node").and_then(|needs| least(needs))
        && version_of("node").is_none_or(|own| own < needed)
    {
        names.push(NODE.to_owned());
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(folder).args(&names);
    work(&mut npm, &format!("npm: {}", names.join(" ")), folder)?;
    Ok("node_modules/.bin")
}

fn with_pip(profile: &Profile, folder: &Path) -> anyhow::Result<&'static str> {
    let needed = profile.needs.get("python").and_then(|needs| least(needs)).unwrap_or((3, 0));
    let pythons = ["python3", "python3.14", "python3.13", "python3.12", "python"];
    let Some(python) = pythons.into_iter().find(|python| version_of(python).is_some_and(|own| own >= needed))
    else {
        bail!(
            "profile {:?} needs python {}.{} or newer, which is not on PATH",
            profile.name,
            needed.0,
            needed.1
        );
    };
    work(
        Command::new(python).args(["-m", "venv"]).arg(folder.join("venv")),
        "python: a folder of its own",
        folder,
    )?;
    let names: Vec<String> = profile.pip.iter().map(|package| spec(package, '=')).collect();
    let mut pip = Command::new(folder.join("venv/bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(&names);
    work(&mut pip, &format!("pip: {}", names.join(" ")), folder)?;
    Ok("venv/bin")
}

/// Runs a step with its output in a file, and shows that something goes on.
fn work(command: &mut Command, words: &str, folder: &Path) -> anyhow::Result<()> {
    let log = folder.join("install.log");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
    let shown = if std::io::stderr().is_terminal() {
        let spinner = indicatif::ProgressBar::new_spinner().with_message(words.to_owned());
        spinner.enable_steady_tick(Duration::from_millis(120));
        Some(spinner)
    } else {
        eprintln!("{words}");
        None
    };
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).status();
    if let Some(spinner) = shown {
        spinner.finish_and_clear();
    }
    let status = status.with_context(|| format!("cannot run {program}; is it installed?"))?;
    if !status.success() {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let end: Vec<&str> = said.lines().rev().take(8).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        bail!(
            "{program} failed ({status}); the whole output is in {}; it ends with:\n{}",
            log.display(),
            end.join("\n")
        );
    }
    Ok(())
}

/// Major and minor version in the first words of `PROGRAM --version`.
fn version_of(program: &str) -> Option<(u32, u32)> {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    numbers(&String::from_utf8_lossy(&said.stdout))
}

/// The least version of a need like `>=3.12`.
fn least(needs: &str) -> Option<(u32, u32)> {
    numbers(needs)
}

fn numbers(text: &str) -> Option<(u32, u32)> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let mut parts = text[from..].split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_programs_and_needs() {
        assert_eq!(numbers("v20.20.2\n"), Some((20, 20)));
        assert_eq!(numbers("Python 3.11.7"), Some((3, 11)));
        assert_eq!(least(">=22"), Some((22, 0)));
        assert_eq!(numbers("none"), None);
    }

    #[test]
    fn only_a_whole_installation_of_the_same_packages_counts() {
        let cache = tempfile::tempdir().expect("a folder");
        let mut profile = Profile::bare("x/y", "x");
        profile.npm = vec![Package { package: "@a/b".to_owned(), version: "1.2.3".to_owned() }];
        assert_eq!(Installed::find(&profile, cache.path()), None);
        let folder = cache.path().join("agents/x_y-1.2.3");
        std::fs::create_dir_all(&folder).expect("a folder");
        let mark = json!({"bin": "node_modules/.bin", "packages": {"npm": ["@a/b@1.2.3"], "pip": []}});
        std::fs::write(folder.join(MARK), mark.to_string()).expect("a file");
        let found = Installed::find(&profile, cache.path()).expect("it is there");
        assert_eq!((found.version.as_str(), found.bin), ("1.2.3", folder.join("node_modules/.bin")));
        profile.npm.push(Package { package: "c".to_owned(), version: "1".to_owned() });
        assert_eq!(Installed::find(&profile, cache.path()), None);
        assert!(
            install(&Profile::bare("n", "n"), cache.path())
                .is_err_and(|error| error.to_string().contains("names no package"))
        );
    }
}
