//! Agents' packages in a cache folder: one folder per agent and version, made by npm or pip.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use acp_profile::{Package, Profile};
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

/// Why an agent cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no place for it.
    #[error("cannot find a cache folder; set ACP_CACHE_DIR")]
    NoCache,
    /// It is installed in some other way.
    #[error("profile {0:?} names no package; install the agent by hand and use --command")]
    NoPackage(String),
    /// A file or folder cannot be written.
    #[error("cannot {action} {}: {error}", .path.display())]
    Write {
        /// What was to be done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It needs a newer Python.
    #[error("profile {name:?} needs python {}.{} or newer, which is not on PATH", .needed.0, .needed.1)]
    Python {
        /// The agent.
        name: String,
        /// Major and minor version.
        needed: (u32, u32),
    },
    /// The package manager is missing.
    #[error("cannot run {program}; is it installed?: {error}")]
    Program {
        /// The package manager.
        program: String,
        /// What the system said.
        error: io::Error,
    },
    /// The package manager failed.
    #[error("{program} failed ({status}); the whole output is in {}; it ends with:\n{end}", .log.display())]
    Failed {
        /// The package manager.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The whole output.
        log: PathBuf,
        /// Its last lines.
        end: String,
    },
    /// The package manager did not do what it said.
    #[error("the installation is not where it should be")]
    Lost,
}

/// The file that says that an installation is whole.
const MARK: &str = "installed.json";

/// The node that is fetched where the machine's own is too old for an agent.
const NODE: &str = "node@24";

/// `$XDG_CACHE_HOME/acp-workbench`, or `~/.cache/acp-workbench`.
pub fn cache_folder() -> Result<PathBuf, InstallError> {
    if let Some(given) = std::env::var_os("ACP_CACHE_DIR").filter(|given| !given.is_empty()) {
        return Ok(given.into());
    }
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    Ok(base.ok_or(InstallError::NoCache)?.join("acp-workbench"))
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

/// Installs the packages unless they are there already. This is the one place that uses package registries. `begin` is told
/// of each step in words; what it returns is dropped at the step's end.
pub fn install<T>(
    profile: &Profile,
    cache: &Path,
    begin: &dyn Fn(&str) -> T,
) -> Result<Installed, InstallError> {
    if let Some(found) = Installed::find(profile, cache) {
        return Ok(found);
    }
    if profile.npm.is_empty() && profile.pip.is_empty() {
        return Err(InstallError::NoPackage(profile.name.clone()));
    }
    let folder = folder(profile, cache);
    let cannot = |action| move |(path, error)| InstallError::Write { action, path, error };
    let at = |path: &Path, done: io::Result<()>| done.map_err(|error| (path.to_owned(), error));
    if folder.exists() {
        at(&folder, std::fs::remove_dir_all(&folder)).map_err(cannot("clear"))?;
    }
    at(&folder, std::fs::create_dir_all(&folder)).map_err(cannot("make"))?;
    let bin = match profile.npm.is_empty() {
        true => with_pip(profile, &folder, begin)?,
        false => with_npm(profile, &folder, begin)?,
    };
    let mark = folder.join(MARK);
    let text = json!({"bin": bin, "packages": packages(profile)}).to_string();
    at(&mark, std::fs::write(&mark, text)).map_err(cannot("write"))?;
    Installed::find(profile, cache).ok_or(InstallError::Lost)
}

fn with_npm<T>(
    profile: &Profile,
    folder: &Path,
    begin: &dyn Fn(&str) -> T,
) -> Result<&'static str, InstallError> {
    let mut names: Vec<String> = profile.npm.iter().map(|package| spec(package, '@')).collect();
    if let Some(needed) = profile.needs.get("node").and_then(|needs| least(needs))
        && version_of("node").is_none_or(|own| own < needed)
    {
        names.push(NODE.to_owned());
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(folder).args(&names);
    let _shown = begin(&format!("npm: {}", names.join(" ")));
    run_logged(&mut npm, folder)?;
    Ok("node_modules/.bin")
}

fn with_pip<T>(
    profile: &Profile,
    folder: &Path,
    begin: &dyn Fn(&str) -> T,
) -> Result<&'static str, InstallError> {
    let needed = profile.needs.get("python").and_then(|needs| least(needs)).unwrap_or((3, 0));
    let pythons = ["python3", "python3.14", "python3.13", "python3.12", "python"];
    let Some(python) = pythons.into_iter().find(|python| version_of(python).is_some_and(|own| own >= needed))
    else {
        return Err(InstallError::Python { name: profile.name.clone(), needed });
    };
    let shown = begin("python: a folder of its own");
    run_logged(Command::new(python).args(["-m", "venv"]).arg(folder.join("venv")), folder)?;
    drop(shown);
    let names: Vec<String> = profile.pip.iter().map(|package| spec(package, '=')).collect();
    let mut pip = Command::new(folder.join("venv/bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(&names);
    let _shown = begin(&format!("pip: {}", names.join(" ")));
    run_logged(&mut pip, folder)?;
    Ok("venv/bin")
}

/// Runs a step with its output in a file.
fn run_logged(command: &mut Command, folder: &Path) -> Result<(), InstallError> {
    const LAST_LINES: usize = 8;
    let log = folder.join("install.log");
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(&log);
    let files = opened.and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) =
        files.map_err(|error| InstallError::Write { action: "write", path: log.clone(), error })?;
    let program = command.get_program().to_string_lossy().into_owned();
    let status = match command.stdin(Stdio::null()).stdout(out).stderr(err).status() {
        Ok(status) => status,
        Err(error) => return Err(InstallError::Program { program, error }),
    };
    if status.success() {
        return Ok(());
    }
    let output = std::fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = output.lines().collect();
    let end = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    Err(InstallError::Failed { program, status, log, end })
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
            install(&Profile::bare("n", "n"), cache.path(), &|_| ())
                .is_err_and(|error| error.to_string().contains("names no package"))
        );
    }
}
