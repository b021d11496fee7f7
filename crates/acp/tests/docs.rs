//! The book: its pages are all in the table of contents, its links lead somewhere, and its reference of commands is that of the
//! program. `scripts/test-docs` runs the commands on its pages.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use acp_workbench::Cli;
use clap::CommandFactory as _;
use regex::Regex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Markdown files directly in a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "md"));
    found.sort();
    found
}

/// A page without code, in which a link is a link.
fn prose(page: &str) -> String {
    let mut fence = None;
    let mut kept = String::new();
    for line in page.lines() {
        let ticks = line.trim_start().bytes().take_while(|byte| *byte == b'`').count();
        match fence {
            None if ticks >= 3 => fence = Some(ticks),
            Some(open) if ticks >= open => fence = None,
            None => kept.extend([line, "\n"]),
            Some(_) => {}
        }
    }
    let code = Regex::new("``.*?``|`[^`]*`").expect("a pattern");
    code.replace_all(&kept, "code").into_owned()
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    link.captures_iter(&prose(page)).map(|found| found[1].to_owned()).collect()
}

/// The anchors of a page's headings, as code hosts and mdBook make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    headings.map(anchor).collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut so_far, part| {
        match part {
            Component::ParentDir => _ = so_far.pop(),
            Component::CurDir => {}
            other => so_far.push(other),
        }
        so_far
    })
}

/// Why a link does not work, if it does not.
fn flaw(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => plain(&page.parent().expect("a folder").join(file)),
    };
    let docs = root().join("docs");
    if !target.exists() {
        return Some("there is no such file".to_owned());
    }
    if page.starts_with(&docs) && !target.starts_with(&docs) {
        return Some("the book does not have this file; name it as code instead".to_owned());
    }
    let known = anchor.is_empty() || anchors(&read(&target)).contains(anchor);
    (!known).then(|| "there is no such heading".to_owned())
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let docs = root().join("docs");
    let listed = links(&read(&docs.join("SUMMARY.md")));
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice: {listed:?}");
    let there: BTreeSet<String> = pages(&docs)
        .iter()
        .map(|page| page.file_name().expect("a name").to_string_lossy().into_owned())
        .filter(|name| name != "SUMMARY.md")
        .collect();
    assert_eq!(
        unique.into_iter().cloned().collect::<BTreeSet<_>>(),
        there,
        "docs/SUMMARY.md and docs/*.md differ"
    );
}

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let mut all = [pages(&root), pages(&root.join("docs")), pages(&root.join("examples"))].concat();
    for entry in std::fs::read_dir(root.join("examples")).expect("the examples").flatten() {
        if entry.path().is_dir() {
            all.extend(pages(&entry.path()));
        }
    }
    let mut wrong = String::new();
    let mut count = 0;
    for page in &all {
        for link in links(&read(page)) {
            count += 1;
            if let Some(flaw) = flaw(page, &link) {
                let name = page.strip_prefix(&root).expect("a page of ours");
                writeln!(wrong, "{}: {link}: {flaw}", name.display()).expect("text");
            }
        }
    }
    assert!(count > 100, "only {count} links were found");
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whether a figure is a count, or, as `more than 500`, the hundred below it.
fn holds(text: &str, figure: usize, counts: &[usize]) -> bool {
    counts.iter().any(|count| match text.to_lowercase().starts_with("more than") {
        true => figure < *count && *count < figure + 100,
        false => figure == *count,
    })
}

#[test]
fn the_figures_are_those_of_the_program() {
    let root = root();
    let requirements = acp_rules::registry().all();
    let of_clients = requirements.iter().filter(|row| row.id.starts_with("C-")).count();
    let (all, variants) = (requirements.len(), acp_script::variants::catalogue().len());
    let counts = [
        ("defects", vec![acp_script::defects::catalogue().len()]),
        ("variants", vec![variants]),
        ("variations", vec![variants]),
        ("requirements", vec![all, of_clients, all - of_clients]),
    ];
    let figure =
        r"((?:[Mm]ore than )?(\d{3,}))(?: [a-z-]+){0,2} (defects|variants|variations|requirements)\b";
    let figure = Regex::new(figure).expect("a pattern");
    let (mut found, mut wrong) = (0, String::new());
    let parts = ["", "docs", "packaging/npm", "packaging/python"].map(|part| pages(&root.join(part)));
    for page in parts.concat() {
        for figure in figure.captures_iter(&read(&page)) {
            let (_, counts) = counts.iter().find(|(noun, _)| *noun == &figure[3]).expect("one of them");
            found += 1;
            if !holds(&figure[1], figure[2].parse().expect("a number"), counts) {
                let name = page.strip_prefix(&root).expect("a page of ours");
                writeln!(wrong, "{}: {}, but there are {counts:?}", name.display(), &figure[0])
                    .expect("text");
            }
        }
    }
    assert!(found >= 5, "only {found} figures were found");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_compose_file_starts_proxies_that_the_program_understands() {
    use clap::Parser as _;
    let text = read(&root().join("examples/nats/compose.yaml"));
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("command: ").filter(|line| line.contains("proxy")));
    let words: Vec<String> = serde_json::from_str(line.expect("a command")).expect("a list of words");
    let all = std::iter::once("acp").chain(words.iter().map(String::as_str));
    Cli::try_parse_from(all).unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

/// The help of a command and of the commands below it.
fn help(words: &[&str], command: &clap::Command, into: &mut String) {
    let output = Command::new(env!("CARGO_BIN_EXE_acp"))
        .args(&words[1..])
        .arg("--help")
        .env_clear()
        .output()
        .expect("acp starts");
    assert!(output.status.success(), "{words:?} --help");
    let text = String::from_utf8(output.stdout).expect("text");
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    let level = "#".repeat(words.len().clamp(2, 3));
    write!(into, "\n{level} {}\n\n```text\n{}\n```\n", words.join(" "), text.join("\n").trim_end())
        .expect("text");
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        help(&[words, &[below.get_name()]].concat(), below, into);
    }
}

#[test]
fn the_reference_of_commands_is_what_the_program_says() {
    let mut text = "# All commands\n\nThis page is what `acp COMMAND --help` prints. A test keeps it up to date: after a change of the \
                    help, run\n`UPDATE=1 cargo test -p acp-workbench --test docs`.\n"
        .to_owned();
    help(&["acp"], &Cli::command(), &mut text);
    acp_testkit::golden::check_file(root().join("docs/commands.md"), &text);
}
