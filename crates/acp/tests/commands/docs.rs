//! The shell blocks of the manuals run as they are written, and the manuals name every flag.

use std::path::Path;

use acp_workbench::Cli;
use clap::CommandFactory as _;

use crate::{Place, path_with_acp, texts};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{name}.md"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts of the blocks of this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    page.split(&begin).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

#[test]
fn the_shell_blocks_of_the_manuals_run() {
    let mut count = 0;
    for name in ["info", "call", "doctor", "init"] {
        for block in blocks(&page(name), "sh") {
            let place = Place::new();
            let mut shell = place.command("sh", &["-e", "-c", block]);
            let (code, out, err) = texts(&shell.env("PATH", path_with_acp()).output().expect("sh runs"));
            assert_eq!(code, 0, "docs/{name}.md:\n{block}\n{out}{err}");
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} blocks were found");
}

#[test]
fn the_settings_of_the_manual_are_read() {
    let place = Place::new();
    let page = page("configuration");
    let [block] = blocks(&page, "toml")[..] else { panic!("one block of TOML") };
    place.write("acp.toml", block);
    let (code, out, err) = place.acp(&["doctor", "config"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("mine, staging"), "{out}");
    // Each key of the file is described.
    for key in [
        "command",
        "connect",
        "env",
        "cwd",
        "dialect",
        "base",
        "allow",
        "deny",
        "agents",
        "suite",
        "test",
        "area",
        "requirement",
        "severity",
        "jobs",
        "repeat",
        "timeout-factor",
        "patience",
        "auth",
        "wordings",
        "fail-fast",
        "isolate",
        "strict",
        "require-exercised",
        "allow-incomplete",
        "expected",
    ] {
        assert!(page.contains(&format!("`{key}`")), "docs/configuration.md lacks {key}");
    }
}

#[test]
fn the_manuals_name_every_flag() {
    let cli = Cli::command();
    let common = page("info");
    for name in ["info", "call", "init", "doctor"] {
        let command = cli.find_subcommand(name).unwrap_or_else(|| panic!("acp {name}"));
        let text = format!("{}{common}", page(name));
        for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(clap::Arg::get_long)
        {
            assert!(flag == "help" || text.contains(&format!("--{flag}")), "docs/{name}.md lacks --{flag}");
        }
    }
}
