//! Who the reference agent is, as settings of the protocol's state machine.

use std::path::Path;
use std::time::Duration;

use acp_code::StopSignal;
use acp_dialect::AgentCard;
use acp_host::real_path;
use acp_policy::{
    Policy, PolicyRequest, PolicyRules, PolicyVerdict, ToolAction, ToolKind, ToolPattern, ToolPatterns,
    ToolStage,
};
use acp_script::agent::{
    AgentAbilities, AgentConfig, AgentLimits, Auth, ConfigOption, Declarations, Fence, Login, Mode, Persona,
    SlashCommand, TOOL_NAMES, ToolRules, UserHints,
};

use crate::guide;
use crate::provider::{Model, Provider};
use crate::server::AgentServerSettings;

/// The name under which it presents itself.
pub(crate) const NAME: &str = "acp-agent";
/// How long a request other than a prompt may take.
const REQUESTS: Duration = Duration::from_secs(30);
/// How long a declaration is looked for in a file that is to be edited.
const LOOKING: Duration = Duration::from_secs(5);
/// What it says about itself where a dialect has a field for it.
const INSTRUCTIONS: &str = "I am a coding agent: I search, read and change the files of the working directory and run commands there.";
/// What the scripted provider is called among the models.
const WISHES: &str = "wishes";
/// The context that usage is told against when no model says its own.
const CONTEXT: u64 = 200_000;

/// The settings of an agent, all but what differs between connections.
pub(crate) fn config(settings: &AgentServerSettings, provider: Option<&dyn Provider>) -> AgentConfig {
    AgentConfig {
        name: NAME.to_owned(),
        persona: persona(settings, provider),
        auth: settings.token.clone().map_or(Auth::SignedIn, Auth::Token),
        model: provider.is_some(),
        abilities: AgentAbilities {
            local_tools: true,
            edit: settings.allow_edit,
            code: true,
            declarations: Declarations::new(|path, text, symbol| {
                acp_code::extract::locate(path, text, symbol, &StopSignal::after(LOOKING))
            }),
            delegate: settings.enable_delegate,
            mcp: settings.enable_mcp,
            servers: settings.servers.clone(),
        },
        rules: ToolRules {
            careful: true,
            allow: settings.allow.clone(),
            deny: settings.deny.clone(),
            fence: settings.path.as_deref().map_or_else(Fence::default, fence),
            // One that is not there may be made yet.
            folders: Fence::new(|folder| {
                Path::new(folder).metadata().is_ok_and(|it| it.is_dir()) || !Path::new(folder).exists()
            }),
        },
        limits: AgentLimits { request: Some(REQUESTS), ..AgentLimits::default() },
        hints: hints(),
        durable: true,
        ..AgentConfig::default()
    }
}

/// The flags that allow what the agent was started without.
fn hints() -> UserHints {
    let flag = |flag: &str| format!("; start it with {flag}");
    UserHints {
        edit: flag("--allow-edit"),
        delegate: flag("--enable-delegate"),
        mcp: flag("--enable-mcp"),
        allow: "; `--allow '{pattern}'` gives it from the start".to_owned(),
        longer_answers: ", or allow longer answers with --max-tokens".to_owned(),
        other_delegate: "; `acp agent --enable-delegate` has".to_owned(),
        other_code: String::new(),
    }
}

/// Tools that need no permission where a client cannot be asked for it: there the flags give it, for what the policy does
/// not forbid.
pub(crate) fn unasked(settings: &AgentServerSettings) -> ToolPatterns {
    let flags = [
        (settings.allow_edit, ToolKind::Edit, "Edit"),
        (settings.allow_edit, ToolKind::Edit, "Write"),
        (settings.enable_mcp, ToolKind::Other, "mcp__*"),
    ];
    let given = |(flag, kind, _): &(bool, ToolKind, &str)| *flag && !forbids(settings.policy, *kind);
    let by_flag = flags.into_iter().filter(given).map(|(_, _, name)| name.to_owned());
    let all = settings.allow.iter().map(ToString::to_string).chain(by_flag);
    ToolPatterns::parse(all).unwrap_or_else(|_| settings.allow.clone())
}

fn forbids(policy: Policy, kind: ToolKind) -> bool {
    let (stage, action) = (ToolStage::Permission, ToolAction::Unknown);
    let request = PolicyRequest { stage, kind, tools: &[], action, root: None };
    PolicyRules::of(policy).decide(&request).verdict == PolicyVerdict::Deny
}

/// What is denied, where a file that one tool may not use is a file that no tool of its kind may use: what it holds would
/// be seen all the same. A tool that is denied whole stays the only one.
pub(crate) fn by_kind(deny: &ToolPatterns) -> ToolPatterns {
    const FILES: [(&str, &str); 3] = [("read_file", "Read"), ("write_file", "Edit"), ("edit_file", "Edit")];
    let beside = |pattern: &ToolPattern| {
        let meant = FILES.iter().filter(|(tool, _)| pattern.is_partial() && pattern.is_for(tool));
        let kinds: Vec<ToolPattern> = meant.map(|(_, kind)| pattern.renamed(kind)).collect();
        std::iter::once(pattern.clone()).chain(kinds)
    };
    deny.iter().flat_map(beside).collect()
}

/// Folders inside of `path`, symbolic links followed as far as they exist.
fn fence(path: &Path) -> Fence {
    let root = real_path(path);
    Fence::new(move |folder| real_path(Path::new(folder)).starts_with(&root))
}

fn persona(settings: &AgentServerSettings, provider: Option<&dyn Provider>) -> Persona {
    let modes = modes(settings.policy);
    let card = AgentCard {
        tools: own_tools(settings),
        offered: offered_tools(settings),
        modes: supported(&modes, settings.policy),
        instructions: INSTRUCTIONS.to_owned(),
    };
    let known = provider.map(Provider::models).unwrap_or_default();
    let commands = commands(settings);
    let context = known.first().map_or(CONTEXT, |model| model.context);
    let mut persona = Persona {
        title: "ACP reference agent".to_owned(),
        myself: "the reference agent".to_owned(),
        host: "acp-agent".to_owned(),
        login: login(settings.token.is_some()),
        terminal_login: None,
        options: vec![
            ConfigOption::mode(&modes),
            models(&known),
            ConfigOption::select(
                "thought_level",
                "Thought level",
                "How much it thinks before it acts",
                &[("low", "Low"), ("medium", "Medium"), ("high", "High")],
                "medium",
            ),
            ConfigOption::boolean("verbose", "Verbose", "Whether answers show results at full length", false),
        ],
        // What other forms say about an agent and version 1 does not.
        meta: Some(card.capabilities()),
        hello: Some(card.introduction()),
        modes,
        barred: Vec::new(),
        help: Some(guide::help(settings, &commands)),
        commands,
        audio: provider.is_none(),
        context,
        price: None,
    };
    let reason = format!("this agent was started with --policy {}", settings.policy);
    persona.bar(|mode| !open(mode, settings.policy), &reason);
    persona
}

/// Whether the policy that the agent was started with leaves this mode to clients: one that forbids things is not lifted
/// by those whom it binds.
fn open(mode: &Mode, policy: Policy) -> bool {
    match policy {
        Policy::None => mode.policy == Policy::None,
        Policy::Plan => mode.policy == Policy::Plan,
        Policy::Read | Policy::Write => mode.policy == policy || mode.policy == Policy::Plan,
        Policy::Yolo | Policy::Default | Policy::AcceptEdits | Policy::BypassPermissions => true,
    }
}

/// Whether only the person who starts the agent can put it into this mode where clients cannot be asked: nobody would
/// ever have agreed to what it does.
pub(crate) fn needs_leave(mode: &Mode, policy: Policy) -> bool {
    mode.policy == Policy::BypassPermissions && !matches!(policy, Policy::BypassPermissions | Policy::Yolo)
}

/// The modes that a client may ask for by name, and their aliases first.
fn supported(modes: &[Mode], policy: Policy) -> Vec<String> {
    let open = |mode: &&Mode| open(mode, policy) && !needs_leave(mode, policy);
    let aliases = ["agent", "ask"].into_iter().filter(|alias| {
        modes.iter().filter(open).any(|mode| mode.aliases.iter().any(|known| known == alias))
    });
    let ids = modes.iter().filter(open).map(|mode| mode.id.as_str());
    aliases.chain(ids).map(str::to_owned).collect()
}

fn login(token: bool) -> Login {
    if token {
        let words = "Give the token with which the agent was started, in _meta.token of authenticate";
        return Login::new("token", "Token", words);
    }
    Login::new("sign-in", "Sign in", "The agent was started without a token: signs in at once")
}

fn modes(policy: Policy) -> Vec<Mode> {
    let normal = match policy {
        Policy::Default | Policy::Plan | Policy::AcceptEdits | Policy::BypassPermissions => {
            "Reads freely, asks before it writes or runs anything".to_owned()
        }
        other => format!("Does what the policy {other} allows"),
    };
    let normal_policy = match policy {
        Policy::Plan | Policy::AcceptEdits | Policy::BypassPermissions => Policy::Default,
        other => other,
    };
    let mut modes = vec![
        Mode::new("NORMAL", "Normal", &normal, normal_policy).or("default").or("agent"),
        Mode::new("PLANNING", "Planning", "Reads and plans, changes nothing", Policy::Plan)
            .or("plan")
            .or("ask"),
        Mode::new("acceptEdits", "Accept edits", "Changes files without asking", Policy::AcceptEdits),
        Mode::new(
            "bypassPermissions",
            "Bypass permissions",
            "Changes files and runs commands without asking",
            Policy::BypassPermissions,
        )
        .or("auto"),
    ];
    // A new session begins in the mode that --policy names.
    if let Some(first) = modes.iter().position(|mode| mode.policy == policy) {
        modes[..=first].rotate_right(1);
    }
    modes
}

fn models(known: &[Model]) -> ConfigOption {
    let mut values: Vec<(&str, &str)> = known.iter().map(|model| (&*model.id, &*model.name)).collect();
    if values.is_empty() {
        values.push((WISHES, "Plain wishes, without a model"));
    }
    let first = values.first().map_or(WISHES, |(id, _)| *id);
    ConfigOption::select("model", "Model", "Which model answers", &values, first)
}

fn commands(settings: &AgentServerSettings) -> Vec<SlashCommand> {
    let mut commands = vec![
        SlashCommand::new("help", "Say what is understood", ""),
        SlashCommand::new("status", "Say where and in which mode the session works", ""),
        SlashCommand::new("plan", "Draft a plan", "what the plan is for"),
        SlashCommand::new("init", "Write an AGENTS.md for this project", ""),
        SlashCommand::new("compact", "Shorten the conversation", ""),
        SlashCommand::new("search", "Search the code", "words, \"phrases\", AND, OR, NOT, ext:rs"),
        SlashCommand::new("query", "Find code of a shape", "code with holes: foo($A)"),
        SlashCommand::new("extract", "Show a piece of code", "file, file:10-20 or file#Symbol"),
    ];
    if settings.enable_delegate {
        commands.push(SlashCommand::new("delegate", "Hand over a task", "the task"));
    }
    commands
}

/// The tools by the names in its tool calls.
fn own_tools(settings: &AgentServerSettings) -> Vec<String> {
    let there = |tool: &&str| match *tool {
        "delegate" => settings.enable_delegate,
        "write_file" | "edit_file" => settings.allow_edit,
        "take_note" => false,
        _ => true,
    };
    TOOL_NAMES.into_iter().filter(there).map(str::to_owned).collect()
}

/// The tools that a prompt can call by name, each with its kind.
fn offered_tools(settings: &AgentServerSettings) -> Vec<(String, String)> {
    let named = |tool: &acp_code::tool::ToolSchema| (tool.name.to_owned(), tool.name.to_owned());
    let mut tools: Vec<_> = acp_code::tool::schemas().iter().map(named).collect();
    if settings.enable_delegate {
        tools.push(("delegate".to_owned(), "execute".to_owned()));
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_give_leave_only_for_what_the_policy_does_not_forbid() {
        let (edits, all) = (["Edit", "Write"].as_slice(), ["Edit", "Write", "mcp__*"].as_slice());
        for policy in Policy::ALL {
            let expected = match policy {
                Policy::None | Policy::Read | Policy::Plan => &[],
                Policy::Write => edits,
                _ => all,
            };
            let given = unasked(&AgentServerSettings {
                policy,
                allow_edit: true,
                enable_mcp: true,
                ..AgentServerSettings::default()
            });
            assert_eq!(given.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{policy}");
        }
    }
    #[test]
    fn a_file_that_one_tool_may_not_use_is_closed_to_all_of_its_kind() {
        for (given, holds) in [
            ("read_file(a/**)", "read_file(a/**), Read(a/**)"),
            ("EDIT_file(a)", "EDIT_file(a), Edit(a)"),
            ("r*_file(a)", "r*_file(a), Read(a)"),
            ("*_file(a)", "*_file(a), Read(a), Edit(a), Edit(a)"),
            ("*_file", "*_file"),
            ("read_file", "read_file"),
            ("Read(a), run_command(b)", "Read(a), run_command(b)"),
        ] {
            let deny = by_kind(&ToolPatterns::parse([given]).expect("patterns"));
            assert_eq!(deny.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "), holds);
        }
    }
}
