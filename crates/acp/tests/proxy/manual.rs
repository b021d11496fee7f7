//! The manuals of the proxy's commands name every flag that there is, and none that there is not.

use std::collections::BTreeSet;
use std::path::Path;

use acp_workbench::Cli;
use clap::CommandFactory as _;

/// The long flags of a command and of the commands below it.
fn flags(command: &clap::Command, into: &mut BTreeSet<String>) {
    let own = command.get_arguments().filter(|argument| !argument.is_hide_set());
    into.extend(own.filter_map(|argument| argument.get_long()).map(|name| format!("--{name}")));
    command.get_subcommands().for_each(|below| flags(below, into));
}

fn flags_of(name: &str) -> BTreeSet<String> {
    let (cli, mut found) = (Cli::command(), BTreeSet::new());
    flags(cli.find_subcommand(name).unwrap_or_else(|| panic!("acp {name}")), &mut found);
    found
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{name}.md"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every flag on a page.
fn named(page: &str) -> BTreeSet<String> {
    let words = page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let flag = |word: &&str| word.len() > 3 && word.starts_with("--") && !word.starts_with("---");
    words.filter(flag).map(|word| word.trim_end_matches('-').to_owned()).collect()
}

#[test]
fn the_manuals_name_every_flag_and_no_other() {
    // What all commands have, and what is said where agents are named.
    let others = [page("prompt"), page("profiles"), page("dialects")].concat();
    let (known, common) = (named(&others), flags_of("prompt"));
    let mut all = BTreeSet::from(["--version".to_owned(), "--help".to_owned()]);
    flags(&Cli::command(), &mut all);
    for (command, pages) in
        [("proxy", &["proxy", "nats"][..]), ("replay", &["replay"]), ("tasks", &["tasks", "nats"])]
    {
        let text: String = pages.iter().map(|name| page(name)).collect();
        let told = named(&text);
        let mut missing = flags_of(command);
        let elsewhere = |flag: &String| common.contains(flag) && known.contains(flag);
        missing.retain(|flag| !told.contains(flag) && !elsewhere(flag));
        assert!(missing.is_empty(), "acp {command}: not in {pages:?}: {missing:?}");
        let wrong: Vec<&String> = told.difference(&all).collect();
        assert!(wrong.is_empty(), "{pages:?} name flags that do not exist: {wrong:?}");
    }
}
