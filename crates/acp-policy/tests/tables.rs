//! The decision engine against its tables: `decisions.txt` is every policy on every kind, `patterns.txt` the
//! patterns and the ways around them.

use acp_policy::{Policy, PolicyRequest, PolicyRules, ToolAction, ToolKind, ToolPatterns, ToolStage};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn rows(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty())
        .map(|(number, line)| (number + 1, line.split("|").collect()))
}

#[test]
fn every_policy_decides_every_kind_as_its_table_says() {
    let mut seen = 0;
    for (line, cells) in rows(include_str!("decisions.txt")) {
        let stage = if cells[0].trim() == "p" { ToolStage::Permission } else { ToolStage::Access };
        let policy: Policy = cells[1].trim().parse().expect("a policy");
        let verdicts: Vec<&str> = cells[2].split_whitespace().collect();
        assert_eq!(verdicts.len(), ToolKind::ALL.len(), "line {line}");
        for (kind, expected) in ToolKind::ALL.iter().copied().zip(verdicts) {
            let request = PolicyRequest { stage, kind, tools: &[], action: ToolAction::Unknown, root: None };
            let decision = PolicyRules::of(policy).decide(&request);
            assert_eq!(decision.verdict.as_str(), expected, "line {line}: {policy} on {kind}");
            assert!(decision.reason.contains(policy.as_str()), "{}", decision.reason);
            seen += 1;
        }
    }
    assert_eq!(seen, 2 * Policy::ALL.len() * ToolKind::ALL.len());
}

#[test]
fn patterns_decide_as_their_table_says() {
    for (number, line) in include_str!("patterns.txt").lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        let (head, expected) = line.rsplit_once('|').expect("a verdict");
        let mut cells = head.splitn(6, '|').map(str::trim);
        let mut cell = || cells.next().expect("six cells");
        let (policy, allow, deny) = (cell(), cell(), cell());
        let (kind, tool, action) = (cell(), cell(), cell().replace("\\n", "\n"));
        let rules = PolicyRules {
            policy: policy.parse().expect("a policy"),
            allow: ToolPatterns::parse([allow]).expect("allow patterns"),
            deny: ToolPatterns::parse([deny]).expect("deny patterns"),
        };
        let action = match action.split_once(':') {
            Some(("command", line)) => ToolAction::Command(line),
            Some(("path", path)) => ToolAction::Path(path),
            Some(("outside", path)) => ToolAction::Outside(path),
            _ => ToolAction::Unknown,
        };
        let tools: Vec<&str> = tool.split(',').map(str::trim).filter(|tool| *tool != "-").collect();
        let request = PolicyRequest {
            stage: ToolStage::Permission,
            kind: ToolKind::from_name_or_other(kind),
            tools: &tools,
            action,
            root: Some("/w"),
        };
        let decision = rules.decide(&request);
        let at = number + 1;
        assert_eq!(decision.verdict.as_str(), expected.trim(), "line {at}: {line}\n{}", decision.reason);
    }
}

/// The commands of a table, one on each line.
fn commands(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.starts_with("# "))
}

fn verdict(allow: &str, deny: &str, policy: Policy, line: &str) -> &'static str {
    let [allow, deny] = [allow, deny].map(|text| ToolPatterns::parse([text]).expect("a pattern"));
    let (stage, kind, action) = (ToolStage::Permission, ToolKind::Execute, ToolAction::Command(line));
    let request = PolicyRequest { stage, kind, tools: &[], action, root: Some("/w") };
    PolicyRules { policy, allow, deny }.decide(&request).verdict.as_str()
}

#[test]
fn the_set_git_read_covers_what_reads_and_no_trick() {
    for line in commands(include_str!("git_reads.txt")) {
        assert_eq!(verdict("Bash(git:read)", "", Policy::Default, line), "allow", "{line}");
        assert_eq!(verdict("", "Bash(git:read)", Policy::Yolo, &format!("true; {line}")), "deny", "{line}");
    }
    for line in commands(include_str!("git_tricks.txt")) {
        assert_eq!(verdict("Bash(git:read)", "", Policy::Default, line), "ask", "{line}");
    }
}

#[test]
fn the_set_files_read_stays_below_the_folder() {
    for (line, expected) in [
        ("ls", "allow"),
        ("ls -la src", "allow"),
        ("cat src/a.rs", "allow"),
        ("head -20 a 'b c'", "allow"),
        ("wc -l a", "allow"),
        ("cat /etc/passwd", "ask"),
        ("cat ../a", "ask"),
        ("cat src/../../a", "ask"),
        ("cat ~/.ssh/id", "ask"),
        ("tail -f a", "ask"),
        ("ls *", "ask"),
        ("file -C -m a", "ask"),
        ("find . -delete", "ask"),
    ] {
        assert_eq!(verdict("Bash(files:read)", "", Policy::Default, line), expected, "{line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever follows an operator, an allowed command never carries a second one along.
    #[test]
    fn no_text_after_an_operator_is_ever_allowed(
        head in "git [a-z ]{0,12}",
        operator in "(;|&&|\\||&|\n|`|\\$\\(|>|<)",
        tail in "[ -~]{0,20}",
    ) {
        let line = format!("{head}{operator}{tail}");
        let rules = PolicyRules { allow: ToolPatterns::parse(["Bash(git *)"]).expect("a pattern"), ..PolicyRules::default() };
        let request = PolicyRequest {
            stage: ToolStage::Permission,
            kind: ToolKind::Execute,
            tools: &[],
            action: ToolAction::Command(&line),
            root: None,
        };
        prop_assert_eq!(rules.decide(&request).verdict.as_str(), "ask");
    }
}
