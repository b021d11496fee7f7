//! Which agent to talk to: `--agent`, `--settings`, `--command`, `--connect`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use acp_dialect::Dialect;
use acp_host::target::AgentTarget;
use acp_profile::Catalogue;
use anyhow::{Context, bail};

use crate::features;
use crate::settings::FileSettings;

/// The flags that name one agent.
#[derive(clap::Args, Debug, Default)]
pub struct TargetArgs {
    /// An agent by name: mock, reference, one of acp.toml or --settings, or a known agent that is installed
    #[arg(long, value_name = "NAME", help_heading = "Which agent", conflicts_with_all = ["command", "connect"])]
    pub agent: Option<String>,
    /// An editor's settings file with an agent_servers table
    #[arg(long, value_name = "FILE", help_heading = "Which agent")]
    pub settings: Option<PathBuf>,
    /// The agent as a command line
    #[arg(long, value_name = "COMMAND", help_heading = "Which agent", conflicts_with = "connect")]
    pub command: Option<String>,
    /// An agent that listens: tcp://HOST:PORT, ws://HOST:PORT/acp
    #[arg(long, value_name = "ADDRESS", help_heading = "Which agent")]
    pub connect: Option<String>,
    /// The token that a listening agent or proxy demands
    #[command(flatten)]
    pub token: ConnectToken,
    /// The form of the protocol that the agent speaks.
    #[arg(long, value_name = "DIALECT", help_heading = "Which agent")]
    #[arg(help = format!("The agent's protocol dialect: {} (default: v1)", Dialect::choices()))]
    pub dialect: Option<Dialect>,
    /// Run without network access (loopback only; Linux)
    #[arg(long, help_heading = "Which agent", conflicts_with = "connect")]
    pub isolate: bool,
}

/// The token to show to an agent, or a proxy, that listens.
#[derive(clap::Args, Clone, Default)]
pub struct ConnectToken {
    /// The token that a listening agent or proxy demands
    #[arg(
        long,
        value_name = "TOKEN",
        env = TOKEN,
        hide_env_values = true,
        help_heading = "Which agent"
    )]
    connect_token: Option<String>,
}

/// Has the token to show when no flag names it.
pub(crate) const TOKEN: &str = "ACP_CONNECT_TOKEN";

impl fmt::Debug for ConnectToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.get().is_some() { "Some(…)" } else { "None" })
    }
}

impl ConnectToken {
    /// The token; an empty one is none.
    pub fn get(&self) -> Option<String> {
        let named = self.connect_token.clone().or_else(|| std::env::var(TOKEN).ok());
        named.filter(|token| !token.is_empty())
    }
}

/// The agents in the box: their names, and the arguments under which this program plays them.
const BUILT_IN: &[(&str, &[&str])] = &[
    ("mock", &["mock", "--stdio", "--dialect", "v1"]),
    #[cfg(feature = "agent")]
    ("reference", &["agent", "--allow-edit", "--enable-delegate", "--enable-mcp", "--dialect", "v1"]),
];

impl TargetArgs {
    /// Finds out which agent is meant. Errors are the person's to mend: exit code 2.
    pub fn resolve(&self) -> anyhow::Result<AgentTarget> {
        let mut target = self.named()?;
        if let AgentTarget::Listening(_, token) = &mut target {
            *token = self.token.get();
        }
        Ok(target)
    }

    fn named(&self) -> anyhow::Result<AgentTarget> {
        if let Some(line) = &self.command {
            return Ok(AgentTarget::of_command_line(line)?);
        }
        if let Some(address) = &self.connect {
            return Ok(AgentTarget::at(address)?);
        }
        match (&self.agent, &self.settings) {
            (Some(name), None) if is_built_in(name) => {
                let mut target = named(name, None)?;
                if let (AgentTarget::Process { args, .. }, Some(dialect)) = (&mut target, self.dialect)
                    && let Some(spoken) = args.last_mut()
                {
                    *spoken = dialect.as_str().into();
                }
                Ok(target)
            }
            (Some(name), settings) => named(name, settings.as_deref()),
            (None, Some(settings)) => only_one(settings),
            (None, None) => {
                let settings = FileSettings::load()?;
                match settings.default_agent() {
                    Some(name) => named(&name, None),
                    None => bail!("{}", which_agent(&settings)),
                }
            }
        }
    }

    /// The flags that name this agent again.
    pub fn words(&self) -> Vec<String> {
        let settings = self.settings.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("--agent", self.agent.clone()),
            ("--settings", settings),
            ("--command", self.command.clone()),
            ("--connect", self.connect.clone()),
            ("--dialect", self.dialect.map(|dialect| dialect.to_string())),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        given.flatten().collect()
    }

    /// The form that the agent speaks: what the flag says, or what acp.toml says about it.
    pub fn dialect(&self) -> anyhow::Result<Option<Dialect>> {
        if self.dialect.is_some()
            || self.settings.is_some()
            || self.command.is_some()
            || self.connect.is_some()
        {
            return Ok(self.dialect);
        }
        let settings = FileSettings::load()?;
        let name = self.agent.clone().or_else(|| settings.default_agent());
        Ok(name.and_then(|name| settings.agent(&name)?.dialect))
    }
}

fn which_agent(settings: &FileSettings) -> String {
    let names: Vec<&str> = settings.agent_names().collect();
    if names.is_empty() {
        return "which agent? use --agent reference (built in, needs no model), --command \"…\" or --connect tcp://HOST:PORT, \
                or name yours in acp.toml (acp init writes one)".to_owned();
    }
    format!("which agent? use --agent with one of {}", names.join(", "))
}

/// Whether this program plays the agent of that name.
pub(crate) fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(built_in, _)| *built_in == name)
}

/// The arguments under which this program plays it, with its sessions in this folder.
pub(crate) fn built_in_args(name: &str, dialect: Dialect, state: &str) -> Option<Vec<String>> {
    let (_, args) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
    let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    if let Some(spoken) = args.last_mut() {
        dialect.as_str().clone_into(spoken);
    }
    args.extend(["--state-dir".to_owned(), state.to_owned()]);
    if !dialect.traits().clients_can_be_asked {
        // Their clients cannot be asked, and a runner wants to see what the agent does when it may.
        let may = if name == "mock" { ["--unasked", "allow"] } else { ["--allow", "Bash"] };
        args.extend(may.map(str::to_owned));
    }
    Some(args)
}

fn named(name: &str, settings: Option<&Path>) -> anyhow::Result<AgentTarget> {
    if let Some(path) = settings {
        let catalogue = read_settings(path)?;
        return Ok(AgentTarget::of_profile(catalogue.find(name)?)?);
    }
    if let Some((_, args)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
        let own = std::env::current_exe().context("cannot find the program's own file")?;
        return Ok(AgentTarget::Process {
            name: name.to_owned(),
            program: own.into(),
            args: args.iter().map(OsString::from).collect(),
            env: Vec::new(),
            cwd: None,
        });
    }
    if let ("reference", Some(feature)) = (name, features::of_absent_command("agent")) {
        bail!(features::absent("the reference agent", feature));
    }
    let own = FileSettings::load()?;
    let catalogue = Catalogue::built_in();
    if let Some(agent) = own.agent(name) {
        if let (Some(file), Ok(_)) = (own.path(), catalogue.find(name)) {
            eprintln!("acp: agent {name} is that of {}, not the known agent of this name", file.display());
        }
        return agent.target(name);
    }
    let Ok(profile) = catalogue.find(name) else {
        let built_in = BUILT_IN.iter().map(|(name, _)| *name);
        let known = catalogue.profiles().iter().map(|profile| profile.name.as_str());
        let names: Vec<&str> = built_in.chain(own.agent_names()).chain(known).collect();
        bail!(
            "there is no agent {name:?}; there are {}; name your own in acp.toml, or start one by its command line with --command",
            names.join(", ")
        );
    };
    Ok(AgentTarget::of_profile(profile)?)
}

fn only_one(settings: &Path) -> anyhow::Result<AgentTarget> {
    let catalogue = read_settings(settings)?;
    match catalogue.profiles() {
        [profile] => Ok(AgentTarget::of_profile(profile)?),
        [] => bail!("{} has no agent that can be started", settings.display()),
        several => {
            let names: Vec<&str> = several.iter().map(|profile| profile.name.as_str()).collect();
            bail!("{} has several agents; choose with --agent: {}", settings.display(), names.join(", "))
        }
    }
}

fn read_settings(path: &Path) -> anyhow::Result<Catalogue> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(acp_profile::parse_settings(&path.display().to_string(), &text)?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(change: impl FnOnce(&mut TargetArgs)) -> Result<AgentTarget, String> {
        let mut args = TargetArgs::default();
        change(&mut args);
        args.resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_line_is_split_as_a_shell_would() {
        let target = resolve(|a| a.command = Some("my-agent --flag 'two words'".to_owned()));
        let Ok(AgentTarget::Process { program, args, .. }) = target else { panic!("{target:?}") };
        assert_eq!((program, args), ("my-agent".into(), vec!["--flag".into(), "two words".into()]));
        assert!(resolve(|a| a.command = Some("a 'b".to_owned())).is_err());
        assert!(resolve(|a| a.command = Some(" ".to_owned())).is_err());
    }

    #[test]
    fn addresses_are_told_apart() {
        for url in ["tcp://h:1", "ws://h:1/acp"] {
            let target = resolve(|a| a.connect = Some(url.to_owned()));
            assert_eq!(target, Ok(AgentTarget::Listening(url.parse().expect("an address"), None)));
        }
        assert!(
            resolve(|a| a.connect = Some("h:1".to_owned())).is_err_and(|e| e.contains("tcp://HOST:PORT"))
        );
    }

    #[test]
    fn names_are_built_in_or_known_or_explained() {
        let target = resolve(|a| a.agent = Some("mock".to_owned()));
        assert!(matches!(target, Ok(AgentTarget::Process { .. })), "{target:?}");
        let target = resolve(|a| a.agent = Some("gemini".to_owned()));
        let Ok(AgentTarget::Process { program, .. }) = target else { panic!("{target:?}") };
        assert_eq!(program, "gemini");
        let error = resolve(|a| a.agent = Some("nobody".to_owned())).expect_err("nobody");
        assert!(error.contains("mock") && error.contains("gemini"), "{error}");
        assert!(resolve(|_| {}).is_err_and(|error| error.contains("which agent?")));
    }

    #[test]
    fn an_editors_settings_name_agents() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.json");
        let text =
            r#"{ /* mine */ "agent_servers": {"A": {"command": "a", "args": ["${x}"], "env": {"K": "V"}}} }"#;
        std::fs::write(&path, text).expect("a file");
        for name in [None, Some("A".to_owned())] {
            let target = resolve(|a| (a.settings, a.agent) = (Some(path.clone()), name));
            let Ok(AgentTarget::Process { program, args, env, .. }) = target else { panic!("{target:?}") };
            assert_eq!(
                (program, args, env),
                ("a".into(), vec!["${x}".into()], vec![("K".into(), "V".into())])
            );
        }
        assert!(resolve(|a| (a.settings, a.agent) = (Some(path), Some("B".to_owned()))).is_err());
    }
}
