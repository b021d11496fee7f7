//! `acp.toml`: the agents, policies and `acp comply` options of a project.
//!
//! Flags win over environment variables, and environment variables over the file. docs/configuration.md is the manual.
//! Read first: [`FileSettings`], [`AgentSettings`], [`ComplySettings`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use acp_dialect::Dialect;
use acp_link::Address;
use acp_policy::{Policy, PolicyRules, ToolPatterns};
use anyhow::{Context, bail};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::target;
use acp_host::target::AgentTarget;

/// The file's name.
pub const FILE: &str = "acp.toml";
/// Names another file; empty means that no file is read.
const CONFIG: &str = "ACP_CONFIG";
/// Names the agent where no flag does.
const AGENT: &str = "ACP_AGENT";
/// Names the policy where no flag does.
const POLICY: &str = "ACP_POLICY";

/// What the file says, or nothing where there is none.
#[derive(Debug, Default)]
pub struct FileSettings {
    path: Option<PathBuf>,
    file: File,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    agent: Option<String>,
    #[serde(default)]
    agents: BTreeMap<String, AgentSettings>,
    #[serde(default)]
    policies: BTreeMap<String, NamedPolicy>,
    #[serde(default)]
    comply: ComplySettings,
}

/// An agent that the file names.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawAgent")]
pub struct AgentSettings {
    way: Way,
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    /// The protocol dialect that it speaks.
    pub dialect: Option<Dialect>,
}

#[derive(Debug, Clone)]
enum Way {
    Command(Vec<String>),
    Connect(Address),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawAgent {
    #[serde(default, deserialize_with = "words")]
    command: Option<Vec<String>>,
    connect: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    cwd: PathBuf,
    #[serde(default, deserialize_with = "parsed")]
    dialect: Option<Dialect>,
}

/// A policy under a name of its own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct NamedPolicy {
    #[serde(default, deserialize_with = "parsed")]
    base: Option<Policy>,
    #[serde(default, deserialize_with = "patterns")]
    allow: Vec<String>,
    #[serde(default, deserialize_with = "patterns")]
    deny: Vec<String>,
}

/// The options of `acp comply`, named as its flags.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the flags of acp comply describe them")]
pub struct ComplySettings {
    #[serde(default)]
    pub agents: Vec<String>,
    #[serde(default)]
    pub suite: Vec<PathBuf>,
    #[serde(default)]
    pub test: Vec<String>,
    #[serde(default)]
    pub area: Vec<String>,
    #[serde(default)]
    pub requirement: Vec<String>,
    #[serde(default, deserialize_with = "severities")]
    pub severity: Vec<String>,
    pub jobs: Option<usize>,
    pub repeat: Option<usize>,
    #[serde(default, deserialize_with = "factor")]
    pub timeout_factor: Option<f64>,
    #[serde(default, deserialize_with = "duration")]
    pub patience: Option<Duration>,
    pub fail_fast: Option<bool>,
    pub isolate: Option<bool>,
    pub strict: Option<bool>,
    pub require_exercised: Option<bool>,
    pub allow_incomplete: Option<bool>,
    pub auth: Option<String>,
    pub expected: Option<PathBuf>,
    pub wordings: Option<PathBuf>,
}

impl FileSettings {
    /// Reads the file that `ACP_CONFIG` names, or the nearest `acp.toml` in the working folder and above.
    pub fn load() -> anyhow::Result<FileSettings> {
        match std::env::var_os(CONFIG) {
            Some(path) if path.is_empty() => Ok(FileSettings::default()),
            Some(path) => {
                FileSettings::read(Path::new(&path)).with_context(|| format!("{CONFIG} names this file"))
            }
            None => {
                let here = std::env::current_dir().context("cannot find the working folder")?;
                find(&here)?.map_or_else(|| Ok(FileSettings::default()), |path| FileSettings::read(&path))
            }
        }
    }

    fn read(path: &Path) -> anyhow::Result<FileSettings> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let folder = std::path::absolute(path)?.parent().map(Path::to_owned).unwrap_or_default();
        FileSettings::parse(path, &folder, &text)
    }

    fn parse(path: &Path, folder: &Path, text: &str) -> anyhow::Result<FileSettings> {
        let mut file: File = toml::from_str(text).map_err(|error| {
            let (line, column) = place(text, error.span().map_or(0, |span| span.start));
            let words = error.message().replace('\n', ", ");
            anyhow::anyhow!(
                "{}:{line}:{column}: {words}; the manual's page \"Configuration\" lists the settings",
                path.display()
            )
        })?;
        if let Some(name) = file.agents.keys().find(|name| target::is_built_in(name)) {
            bail!("{}: agents.{name}: this is the name of a built-in agent; use another one", path.display());
        }
        if let Some(name) = file.policies.keys().find(|name| name.parse::<Policy>().is_ok()) {
            bail!(
                "{}: policies.{name}: this is the name of a built-in policy; use another one",
                path.display()
            );
        }
        for agent in file.agents.values_mut() {
            agent.cwd = folder.join(&agent.cwd);
        }
        let comply = &mut file.comply;
        for given in comply.expected.iter_mut().chain(&mut comply.wordings) {
            *given = folder.join(&given);
        }
        // A suite is a folder, or the name of a built-in one.
        for suite in comply.suite.iter_mut().filter(|suite| folder.join(suite).exists()) {
            *suite = folder.join(&suite);
        }
        Ok(FileSettings { path: Some(path.to_owned()), file })
    }

    /// Whether `ACP_CONFIG` names the file.
    pub fn is_asked_for(&self) -> bool {
        self.path.is_some() && variable(CONFIG).is_some()
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The options of `acp comply`.
    pub fn comply(&self) -> &ComplySettings {
        &self.file.comply
    }

    /// The agent of this name.
    pub fn agent(&self, name: &str) -> Option<&AgentSettings> {
        self.file.agents.get(name)
    }

    /// The names of all agents in the file.
    pub fn agent_names(&self) -> impl Iterator<Item = &str> {
        self.file.agents.keys().map(String::as_str)
    }

    /// The agent to use where no flag names one: that of `ACP_AGENT`, that of `agent = "…"`, or the only one.
    pub fn default_agent(&self) -> Option<String> {
        let only = || match self.file.agents.len() {
            1 => self.file.agents.keys().next().cloned(),
            _ => None,
        };
        variable(AGENT).or_else(|| self.file.agent.clone()).or_else(only)
    }

    /// The rules of a policy by its name, with what flags allow and deny on top. Without a name, that of `ACP_POLICY`; without
    /// that, `None` unless flags say something. The file alone never chooses a policy: what a checkout contains must not
    /// loosen what agents may do.
    pub fn rules(
        &self,
        name: Option<&str>,
        allow: &[String],
        deny: &[String],
    ) -> anyhow::Result<Option<PolicyRules>> {
        let name = name.map(str::to_owned).or_else(|| variable(POLICY));
        if name.is_none() && allow.is_empty() && deny.is_empty() {
            return Ok(None);
        }
        let own = match name.as_deref() {
            None => NamedPolicy::default(),
            Some(name) => self.policy(name)?,
        };
        let joined = |own: &[String], flags: &[String], flag: &str| {
            crate::patterns::parse([own, flags].concat()).with_context(|| format!("--{flag}"))
        };
        Ok(Some(PolicyRules {
            policy: own.base.unwrap_or_default(),
            allow: joined(&own.allow, allow, "allow")?,
            deny: joined(&own.deny, deny, "deny")?,
        }))
    }

    fn policy(&self, name: &str) -> anyhow::Result<NamedPolicy> {
        let error = match name.parse::<Policy>() {
            Ok(base) => return Ok(NamedPolicy { base: Some(base), ..NamedPolicy::default() }),
            Err(error) => error,
        };
        if let Some(own) = self.file.policies.get(name) {
            return Ok(own.clone());
        }
        match (&self.path, self.file.policies.is_empty()) {
            (Some(path), false) => {
                let names: Vec<&str> = self.file.policies.keys().map(String::as_str).collect();
                bail!("{error}; {} also has {}", path.display(), names.join(", "))
            }
            _ => Err(error.into()),
        }
    }
}

impl AgentSettings {
    /// How to reach it.
    pub fn target(&self, name: &str) -> anyhow::Result<AgentTarget> {
        let words = match &self.way {
            Way::Connect(address) => {
                ensure_no_token(name, address)?;
                return Ok(AgentTarget::Listening(address.clone(), None));
            }
            Way::Command(words) => words,
        };
        let (program, args) = words.split_first().context("the command is empty")?;
        // A path is meant from the agent's folder; a bare name is looked for in PATH.
        let program = match program.contains('/') {
            true => self.cwd.join(program).into_os_string(),
            false => program.into(),
        };
        Ok(AgentTarget::Process {
            name: name.to_owned(),
            program,
            args: args.iter().map(OsString::from).collect(),
            env: self.env.iter().map(|(key, value)| (key.into(), value.into())).collect(),
            cwd: Some(self.cwd.clone()),
        })
    }
}

impl TryFrom<RawAgent> for AgentSettings {
    type Error = String;

    fn try_from(raw: RawAgent) -> Result<AgentSettings, String> {
        let way = match (raw.command, raw.connect) {
            (Some(words), None) => Way::Command(words),
            (None, Some(address)) => {
                Way::Connect(address.parse().map_err(|error| format!("connect: {error}"))?)
            }
            (None, None) => return Err("an agent needs a `command` or an address to `connect` to".to_owned()),
            (Some(_), Some(_)) => {
                return Err("an agent has either a `command` or an address to `connect` to".to_owned());
            }
        };
        Ok(AgentSettings { way, env: raw.env, cwd: raw.cwd, dialect: raw.dialect })
    }
}

/// The token is the person's: an address that came with a checkout does not get it, unless it is on this machine.
fn ensure_no_token(name: &str, address: &Address) -> anyhow::Result<()> {
    if !address.is_loopback() && variable(target::TOKEN).is_some() {
        bail!(
            "agent {name:?} of {FILE} is at {address}, and {} would be sent there; use --connect {address} if it may be, or \
             unset it",
            target::TOKEN
        );
    }
    Ok(())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The nearest file in this folder and above. In a folder above, a file counts only if it belongs to us, to root or to the
/// owner of this folder: anybody can put a file into /tmp.
fn find(here: &Path) -> anyhow::Result<Option<PathBuf>> {
    let owner = std::fs::metadata(here).map(|meta| meta.uid()).unwrap_or_default();
    let trusted = [0, owner, rustix::process::geteuid().as_raw()];
    for folder in here.ancestors() {
        let path = folder.join(FILE);
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if !meta.is_file() {
            continue;
        }
        if folder != here && !trusted.contains(&meta.uid()) {
            bail!(
                "{} belongs to another user; set {CONFIG} to use it, or {CONFIG}= to use none",
                path.display()
            );
        }
        return Ok(Some(path));
    }
    Ok(None)
}

/// Line and column of a byte, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    let words = match toml::Value::deserialize(from)? {
        toml::Value::String(line) => shlex::split(&line)
            .ok_or_else(|| D::Error::custom("the command has a quote that does not end"))?,
        toml::Value::Array(words) => {
            let word = |word: toml::Value| match word {
                toml::Value::String(word) => Ok(word),
                other => Err(D::Error::custom(format!("{other} is not a string"))),
            };
            words.into_iter().map(word).collect::<Result<_, _>>()?
        }
        _ => return Err(D::Error::custom("write the command as a string or as a list of strings")),
    };
    if words.is_empty() {
        return Err(D::Error::custom("the command is empty"));
    }
    Ok(Some(words))
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<Option<T>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let list = Vec::<String>::deserialize(from)?;
    ToolPatterns::parse(&list).map_err(D::Error::custom)?;
    Ok(list)
}

fn severities<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let list = Vec::<String>::deserialize(from)?;
    match list.iter().find(|word| !["required", "optional", "advice"].contains(&word.as_str())) {
        Some(word) => Err(D::Error::custom(format!("{word:?} is not required, optional or advice"))),
        None => Ok(list),
    }
}

fn factor<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(from)?;
    crate::commands::comply::factor(&number.to_string()).map(Some).map_err(D::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    crate::talk::duration(&text).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FileSettings, String> {
        FileSettings::parse(Path::new(FILE), Path::new("/project"), text)
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn agents_start_in_the_folder_of_the_file() {
        let settings = parse(
            "[agents.mine]\ncommand = \"python3 'my agent.py'\"\nenv = { LEVEL = \"debug\" }\n\
             [agents.listed]\ncommand = [\"bin/run\", \"--acp\"]\ncwd = \"sub\"\n",
        )
        .expect("it is right");
        let target = settings.agent("mine").expect("it is there").target("mine").expect("it can be started");
        let AgentTarget::Process { program, args, env, cwd, .. } = target else { panic!("{target:?}") };
        assert_eq!((program, args), ("python3".into(), vec!["my agent.py".into()]));
        assert_eq!((env, cwd), (vec![("LEVEL".into(), "debug".into())], Some("/project".into())));
        let target =
            settings.agent("listed").expect("it is there").target("listed").expect("it can be started");
        let AgentTarget::Process { program, cwd, .. } = target else { panic!("{target:?}") };
        assert_eq!((program, cwd), ("/project/sub/bin/run".into(), Some("/project/sub".into())));
    }

    #[test]
    fn errors_name_line_and_column() {
        for (text, place, words) in [
            ("agent = \"a\"\nagnets = 1\n", "acp.toml:2:1", "agnets"),
            ("[comply]\njobs = \"many\"\n", "acp.toml:2:8", "expected usize"),
            ("[comply]\ntimeout-factor = 0\n", "acp.toml:2:18", "above 0"),
            ("[comply]\nseverity = [\"must\"]\n", "acp.toml:2:12", "\"must\" is not required"),
            ("[agents.a]\ncommand = \"it's\"\n", "acp.toml:2:11", "a quote that does not end"),
            ("[agents.a]\ncommand = 7\n", "acp.toml:2:11", "a list of strings"),
            ("[agents.a]\nenv = {}\n", "acp.toml:1:", "needs a `command`"),
            ("[agents.a]\nconnect = \"h:1\"\n", "acp.toml:1:", "tcp://HOST:PORT"),
            ("[agents.a]\ncommand = \"a\"\ndialect = \"v9\"\n", "acp.toml:3:11", "v9"),
            ("[policies.p]\nbase = \"all\"\n", "acp.toml:2:8", "all"),
            ("[policies.p]\ndeny = [\"Bash(\"]\n", "acp.toml:2:8", "Bash("),
            ("x = [\n", "acp.toml:", ""),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(place) && error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn built_in_names_cannot_be_given_another_meaning() {
        let error = parse("[agents.mock]\ncommand = \"rm\"\n").expect_err("mock");
        assert!(error.contains("agents.mock") && error.contains("built-in"), "{error}");
        let error = parse("[policies.read]\nbase = \"yolo\"\n").expect_err("read");
        assert!(error.contains("policies.read"), "{error}");
    }

    #[test]
    fn flags_add_to_a_named_policy() {
        let settings =
            parse("[policies.ci]\nbase = \"read\"\nallow = [\"Read\"]\ndeny = [\"Fetch\"]\n").expect("right");
        let rules =
            settings.rules(Some("ci"), &[], &["Bash".to_owned()]).expect("it is there").expect("rules");
        assert_eq!(rules.policy, Policy::Read);
        assert_eq!(rules.deny, ToolPatterns::parse(["Fetch", "Bash"]).expect("patterns"));
        let error = settings.rules(Some("cd"), &[], &[]).expect_err("cd");
        assert!(error.to_string().contains("also has ci"), "{error}");
    }

    #[test]
    fn the_only_agent_is_the_default_and_paths_are_meant_from_the_file() {
        let one =
            parse("[agents.one]\ncommand = \"one\"\n[comply]\nexpected = \"x.txt\"\nsuite = [\"v1\"]\n")
                .expect("right");
        assert_eq!(one.default_agent().as_deref(), Some("one"));
        assert_eq!(one.comply().expected.as_deref(), Some(Path::new("/project/x.txt")));
        assert_eq!(one.comply().suite, [PathBuf::from("v1")]);
        let two = "[agents.one]\ncommand = \"one\"\n[agents.two]\nconnect = \"tcp://h:1\"\n";
        assert_eq!(parse(two).expect("right").default_agent(), None);
        assert_eq!(
            parse(&format!("agent = \"two\"\n{two}")).expect("right").default_agent().as_deref(),
            Some("two")
        );
    }

    #[test]
    fn the_nearest_file_above_counts() {
        let temp = tempfile::tempdir().expect("a folder");
        let below = temp.path().join("a/b");
        std::fs::create_dir_all(&below).expect("folders");
        std::fs::write(temp.path().join(FILE), "").expect("a file");
        assert_eq!(find(&below).expect("readable"), Some(temp.path().join(FILE)));
        std::fs::write(temp.path().join("a").join(FILE), "").expect("a file");
        assert_eq!(find(&below).expect("readable"), Some(temp.path().join("a").join(FILE)));
    }

    #[test]
    fn a_file_of_another_user_above_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("left out: only root can give files away");
            return;
        }
        let temp = tempfile::tempdir().expect("a folder");
        let below = temp.path().join("below");
        std::fs::create_dir(&below).expect("a folder");
        std::fs::write(temp.path().join(FILE), "").expect("a file");
        std::os::unix::fs::chown(temp.path().join(FILE), Some(65534), None).expect("root gives it away");
        let error = find(&below).expect_err("it is another user's").to_string();
        assert!(error.contains("belongs to another user") && error.contains(CONFIG), "{error}");
        assert!(find(temp.path()).expect("the working folder's own").is_some());
        std::os::unix::fs::chown(&below, Some(65534), None).expect("root gives it away");
        assert!(find(&below).expect("both belong to the same user").is_some());
    }

    #[test]
    fn places_count_characters() {
        assert_eq!(place("ä = 1\nb", 0), (1, 1));
        assert_eq!(place("ä = 1\nb", 3), (1, 3));
        assert_eq!(place("ä = 1\nb", 7), (2, 1));
    }
}
