//! What `acp --help` says, and the examples at the end of each command's help.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::{exit, out};

/// `acp --help`: what people come for, on one screen of 24 lines and 80 columns.
pub const SCREEN: &str = "\
acp: test, run and connect agents of the Agent Client Protocol (ACP)

Usage: acp COMMAND [OPTIONS]

Check an agent    comply    test it against the protocol and report
                  info      show what it says about itself
                  init      set up acp.toml and CI in its repository
                  explain   show what a test or a requirement asks for
Check a client    exam      examine it in its chat; comply-client uses a driver
                  mock      play an agent by a script, with faults on request
Look at a         lint      check a recorded conversation against the protocol
conversation      replay    show it again, or play its agent
Talk to an agent  chat      talk in the terminal
                  prompt    ask one thing and print the answer
                  call      send one request by hand
Play an agent     agent     run the reference agent, with or without a model
                  model     run a scripted model for real agents
Connect           proxy     put an agent behind TCP, WebSocket, policies or NATS
                  tasks     submit work to agents behind NATS
Find code         code      search, query and extract
Get started       doctor    check what is installed on this machine

acp help COMMAND or acp COMMAND --help: options and examples of a command
acp help --all: every command
";

/// The groups of `acp help --all`.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Check an agent",
        &["comply", "info", "init", "explain", "diff", "harness", "matrix", "suites", "requirements"],
    ),
    ("Check a client", &["comply-client", "exam", "mock"]),
    ("Look at a conversation", &["lint", "replay"]),
    ("Talk to an agent", &["chat", "prompt", "call"]),
    ("Play an agent", &["agent", "model", "mcp-stub"]),
    ("Connect", &["proxy", "tasks"]),
    ("Find code", &["code"]),
    ("This installation", &["doctor", "profiles", "completions", "man", "help"]),
];

/// Arguments of `acp help`.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct HelpArgs {
    /// The command to explain, for instance comply, or suites show
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// List every command
    #[arg(long, conflicts_with = "command")]
    all: bool,
}

/// Prints the help of a command, of all commands, or of `acp` itself.
pub fn run(args: &HelpArgs) -> anyhow::Result<ExitCode> {
    if args.all {
        out::print(all())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = crate::Cli::command();
    command.build();
    let mut found = &mut command;
    for name in &args.command {
        let Some(below) = found.find_subcommand_mut(name) else {
            eprintln!("acp help: there is no command {name:?}; acp help --all lists them");
            return Ok(ExitCode::from(exit::USAGE));
        };
        found = below;
    }
    if args.command.is_empty() {
        out::print(SCREEN)?;
    } else {
        found.print_long_help()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn all() -> String {
    let command = crate::Cli::command();
    let mut text = "Usage: acp COMMAND [OPTIONS]\n".to_owned();
    for (group, names) in GROUPS {
        text.push_str(&format!("\n{group}\n"));
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = match crate::features::of_absent_command(name) {
                Some(feature) => format!("(not in this build, which lacks the feature {feature:?})"),
                None => about.map(ToString::to_string).unwrap_or_default(),
            };
            text.push_str(&format!("  {name:<13} {about}\n"));
        }
    }
    text + "\nacp COMMAND --help shows the options and examples of a command.\n"
}

/// The examples of a command, one for each line that begins with `acp`.
macro_rules! examples {
    ($($name:ident: $text:literal;)*) => {
        $(
            #[cfg_attr(
                not(all(feature = "agent", feature = "code", feature = "mcp", feature = "nats")),
                allow(dead_code, reason = "a build without a feature lacks its commands")
            )]
            pub(crate) const $name: &str = concat!("Examples:\n", $text);
        )*
    };
}

examples! {
    AGENT: "  acp agent                                           on standard input and output
  acp agent --listen tcp://127.0.0.1:9000             for clients that connect
  acp agent --provider anthropic --allow-edit         with a model (ANTHROPIC_API_KEY)";
    CALL: "  acp call session/list --agent mock
  acp call session/new '{\"cwd\": \"${cwd}\", \"mcpServers\": []}' --agent mock
  acp call session/prompt '{\"sessionId\": \"${session}\", \"prompt\": []}' --agent mock
  acp call --notify session/cancel '{\"sessionId\": \"${session}\"}' --agent mock
  acp call --raw '{\"jsonrpc\": \"2.0\", \"id\": 1' --agent mock

Exit codes: 0 answered, 1 answered with an error, 2 wrong usage, 3 no answer.";
    CHAT: "  acp chat --agent reference
  acp chat --command 'acp agent --provider anthropic'    with a model (ANTHROPIC_API_KEY)
  acp chat --command 'my-agent --acp' --policy acceptEdits
  acp chat --agent gemini --scripted --isolate           offline, after acp profiles install gemini";
    CLIENT_MOCK: "  acp client-mock --list-defects C-CAN
  acp client-mock --cwd . -- my-agent --acp
  acp client-mock --defect zero-based -- my-agent --acp
  acp client-mock --variant text-ids --connect ws://127.0.0.1:9000/acp";
    CODE: "  acp code search 'retry backoff' --max-results 3
  acp code query 'fn $NAME($$$ARGS) { $$$BODY }' src --language rust
  acp code extract src/main.rs#main";
    COMPLETIONS: "  acp completions bash > ~/.local/share/bash-completion/completions/acp
  acp completions zsh > ~/.zfunc/_acp";
    COMPLY_CLIENT: "  acp comply-client --list-drivers                     which clients there are drivers for
  acp comply-client --driver acp-prompt                the built-in tests of clients
  acp comply-client --driver ./my-editor.json          your own client, with a driver of yours
  acp comply-client --driver acp-prompt --test 'fs.*' -v
  acp comply-client --driver acp-prompt --format json --out client.json

Exit codes: 0 conformant, 1 not conformant, 2 wrong usage, 3 incomplete or the driver failed, 4 the list of known failures is
stale.";
    COMPLY: "  acp comply --command \"python3 agent.py\"
  acp comply                                          the agent of acp.toml
  acp comply --agent mock --test 'session.*' --verbose
  acp comply --command my-agent --format html --out report.html --format junit --out junit.xml

Exit codes:
  0  CONFORMANT: every requirement that must be reached was reached and held
  1  NOT CONFORMANT: a requirement is broken, or a required test without requirements failed
  2  wrong usage, or a broken test file
  3  INCOMPLETE: a requirement was not reached, or something could not run
  4  the list of expected failures is stale";
    DIFF: "  acp diff before.json after.json
  acp diff before.json after.json --format json

Exit codes: 0 nothing got worse, 1 a verdict got worse, 2 a file cannot be read.";
    DOCTOR: "  acp doctor
  acp doctor node npm isolate                         fails if one of these is missing
  acp doctor --format json

Exit codes: 0 all is well, 1 something is broken, or one of the named checks is not ok.";
    EXAM: "  acp exam --settings zed                             the entry for an editor's settings
  acp exam --listen tcp://127.0.0.1:0                 for clients that connect
  acp exam report --format html --out exam.html       the latest exam as a page

To see it at work, start acp chat --command 'acp exam' and type /run fs, then /report.
In the chat: /run, /run AREA, /list, /report, /next, /skip, /redo, /stop, /trace.

Exit codes: 0 the client ended the conversation, or the report was printed, 2 wrong usage.";
    EXPLAIN: "  acp explain CAN-01
  acp explain required.initialize
  acp explain tests/my-test.jsont";
    HARNESS: "  acp harness --agent mock
  acp harness --connect tcp://localhost:3000 --scenarios happy-path,session-load
  acp harness --command my-agent --format junit --out junit.xml

Exit codes:
  0  no scenario failed (those that do not apply are NA, with the reason)
  1  a scenario failed
  2  wrong usage, or an unknown scenario
  3  something could not run: an agent that is not there, a fault of the machine";
    HELP: "  acp help comply
  acp help --all";
    INFO: "  acp info --agent mock
  acp info --command 'my-agent --acp' --format json
  acp info --connect tcp://localhost:3000 --no-session

Exit codes: 0 answered, 1 initialize was refused, 2 wrong usage, 3 the agent did not start or did not answer.";
    INIT: "  acp init --command 'python3 agent.py'
  acp init --command 'node agent.mjs' --ci shell
  acp init path/to/repository --no-run

Files that exist are kept unless --force is given. Exit codes: 0 done, 2 wrong usage, 3 the agent could not be tested.";
    LINT: "  acp lint talk.ndjson
  acp lint talk.ndjson --stats --coverage
  acp lint talk.ndjson --redact --out shareable.ndjson";
    MAN: "  acp man comply | man -l -";
    MATRIX: "  acp matrix results.json other.json
  acp matrix --agent mock --format html --out matrix.html

Exits with 2 if a file cannot be read.";
    MCP_STUB: "  acp mcp-stub --log mcp.ndjson
  acp mcp-stub --http --port 9100";
    MOCK: "  acp mock                                            on standard input and output
  acp mock --listen tcp://127.0.0.1:9000
  acp mock --script greet.json --fault drop@session/update#3
  acp mock --defect ignores-cancel";
    MODEL: "  acp model --listen http://127.0.0.1:9200
  acp model --script rules.json --log requests.ndjson";
    PROFILES: "  acp profiles
  acp profiles show gemini
  acp profiles install gemini";
    PROMPT: "  acp prompt --agent mock \"Say 'hello'\"
  acp prompt --command 'my-agent --acp' 'Explain src/main.rs' --policy read
  acp prompt --agent mock - --format json < question.txt";
    PROXY: "  acp proxy --listen tcp://127.0.0.1:9000 --command my-agent
  acp proxy --command my-agent --policy acceptEdits --deny 'Bash(rm *)' --lint
  acp proxy --listen ws://127.0.0.1:9000/acp --agent gemini --scripted --isolate
  acp proxy --nats nats://127.0.0.1:4222 --queue coder --command my-agent";
    REPLAY: "  acp replay --list
  acp replay talk.ndjson --verbose
  acp replay talk.ndjson --as-agent --listen tcp://127.0.0.1:9000";
    REQUIREMENTS: "  acp requirements PT-07
  acp requirements --side agent --level MUST
  acp requirements --area TC --format json";
    SUITES: "  acp suites list
  acp suites show required.initialize
  acp suites check tests/
  acp suites copy my-suites";
    TASKS: "  acp tasks submit coder 'Fix the failing test' --watch
  acp tasks watch TASK
  acp tasks approve
  acp tasks cancel TASK";
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_screen_fits_24_by_80() {
        assert!(SCREEN.lines().count() <= 24, "{} lines", SCREEN.lines().count());
        for line in SCREEN.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_command_is_in_one_group_and_the_screen_names_real_ones() {
        let command = crate::Cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let real: BTreeSet<&str> = shown.map(clap::Command::get_name).collect();
        let is_built = |name: &&str| crate::features::of_absent_command(name).is_none();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).filter(is_built).collect();
        assert_eq!(real, grouped.iter().copied().collect(), "left: the commands; right: the groups");
        assert_eq!(real.len(), grouped.len(), "a command is in two groups");
        for line in
            SCREEN.lines().filter(|line| line.len() > 28 && line.is_char_boundary(18) && !line.contains(':'))
        {
            let name = line[18..28].trim();
            assert!(real.contains(name) || !is_built(&name), "{line}");
        }
    }

    /// The lines of the examples that are command lines.
    fn commands(text: &str) -> impl Iterator<Item = &str> {
        text.lines().map(str::trim_start).filter(|line| line.starts_with("acp "))
    }

    #[test]
    fn every_command_ends_with_examples_that_can_be_typed() {
        for command in crate::Cli::command().get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            assert!(after.starts_with("Examples:\n"), "acp {name} --help ends without examples");
            assert!(commands(&after).count() > 0, "acp {name}");
            for line in commands(&after) {
                // Words behind a wide gap explain the line; pipes and files are the shell's.
                let typed = line.split("    ").next().unwrap_or(line);
                let typed =
                    typed.split(" > ").next().and_then(|it| it.split(" < ").next()?.split(" | ").next());
                let words = shlex::split(typed.unwrap_or_default().trim()).expect("quotes that end");
                assert_eq!(words[1], name, "{line}");
                if words.iter().any(|word| word == "--nats") && !cfg!(feature = "nats") {
                    continue;
                }
                let parsed = crate::Cli::try_parse_from(&words);
                assert!(
                    parsed.is_ok(),
                    "{line}: {}",
                    parsed.err().map(|e| e.to_string()).unwrap_or_default()
                );
                assert_eq!(
                    hidden(command, &words[2..]),
                    None,
                    "{line}: the help of acp {name} does not show this"
                );
            }
        }
    }

    /// The first option among these words that the help of a command leaves out, such as an earlier spelling.
    fn hidden<'a>(command: &clap::Command, words: &'a [String]) -> Option<&'a str> {
        let (mut command, mut words) = (command, words);
        while let Some(word) = words.first() {
            let Some(inner) = command.find_subcommand(word) else { break };
            (command, words) = (inner, &words[1..]);
        }
        let is_shown = |option: &str| {
            command.get_arguments().any(|arg| arg.get_long() == Some(option) && !arg.is_hide_set())
        };
        // Words behind `--` are another program's.
        let own = words.iter().take_while(|word| *word != "--");
        let options = own.filter_map(|word| word.strip_prefix("--"));
        options.map(|option| option.split('=').next().unwrap_or(option)).find(|option| !is_shown(option))
    }
}
