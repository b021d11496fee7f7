//! The files that we hand out: their commands are ours, their probes are served, and they leave enough time to stop.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use acp_workbench::Cli;
use clap::Parser as _;

use crate::{ACP, Place};

fn file(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    (path, text)
}

/// The proxy's words in a systemd unit.
fn unit_words(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let line = joined.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// The proxy's words in a manifest: its command without the program, and its args.
fn manifest_words(text: &str) -> Vec<String> {
    let args = text.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let args = args.map_while(|line| line.trim().strip_prefix("- "));
    assert!(text.contains(r#"command: ["acp", "proxy"]"#));
    let words = args.map(|word| word.trim_matches('"').to_owned());
    std::iter::once("proxy".to_owned()).chain(words).collect()
}

fn value<'w>(words: &'w [String], flag: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| word == flag)?;
    words.get(at + 1).map(String::as_str)
}

fn time(words: &[String], flag: &str) -> Duration {
    let text = value(words, flag).unwrap_or("0s");
    Duration::from_secs(text.strip_suffix('s').and_then(|text| text.parse().ok()).expect("seconds"))
}

/// How long a proxy may take to stop: turns go on, are cancelled, agents end by themselves or are told to; and tasks the
/// same, and their last events.
fn longest(words: &[String]) -> Duration {
    let grace = time(words, "--grace");
    let tasks = match value(words, "--nats") {
        Some(_) => 2 * time(words, "--task-grace") + Duration::from_secs(6),
        None => Duration::ZERO,
    };
    (time(words, "--drain") + grace).max(tasks) + 2 * grace
}

#[test]
fn the_commands_in_the_deployment_files_are_understood() {
    let (_, unit) = file("acp-proxy.service");
    let mut all = vec![("acp-proxy.service", unit_words(&unit))];
    for name in ["kubernetes.yaml", "kubernetes-nats.yaml"] {
        all.push((name, manifest_words(&file(name).1)));
    }
    for (name, words) in all {
        assert!(words.len() > 15, "{name}: {words:?}");
        let line = std::iter::once("acp".to_owned()).chain(words);
        if let Err(error) = Cli::try_parse_from(line) {
            panic!("{name}: {error}");
        }
    }
    let line = ["acp", "proxy", "--agent", "mock", "--max-conections", "3"];
    assert!(Cli::try_parse_from(line).is_err(), "a flag that does not exist is not understood");
}

#[test]
fn who_stops_a_proxy_waits_longer_than_it_takes() {
    let (_, unit) = file("acp-proxy.service");
    let stop = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).expect("a time");
    let stop: u64 = stop.strip_suffix('s').and_then(|text| text.parse().ok()).expect("seconds");
    assert!(Duration::from_secs(stop) > longest(&unit_words(&unit)));
    assert!(unit.contains("KillMode=mixed"), "the proxy is told, and ends its agents itself");
    for name in ["kubernetes.yaml", "kubernetes-nats.yaml"] {
        let (_, text) = file(name);
        let grace = text.lines().find_map(|line| line.trim().strip_prefix("terminationGracePeriodSeconds: "));
        let grace: u64 = grace.and_then(|text| text.parse().ok()).expect("seconds");
        let words = manifest_words(&text);
        assert!(Duration::from_secs(grace) > longest(&words), "{name}: {grace} s");
        // The probes are on the port of --ops, and on paths that are there; what they say is tested elsewhere.
        let port = value(&words, "--ops").and_then(|address| address.rsplit_once(':')).expect("an address").1;
        assert!(text.contains(&format!("- name: ops\n              containerPort: {port}\n")), "{name}");
        let probes: Vec<&str> = text
            .split("httpGet:\n")
            .skip(1)
            .map(|probe| {
                assert!(probe.contains("port: ops"), "{name}");
                probe.lines().next().and_then(|line| line.trim().strip_prefix("path: ")).expect("a path")
            })
            .collect();
        assert_eq!(probes, ["/healthz", "/healthz", "/readyz"], "{name}");
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: systemd-analyze is not installed");
        return;
    }
    let place = Place::new();
    let (_, text) = file("acp-proxy.service");
    let unit = place.path.join("acp-proxy.service");
    std::fs::write(&unit, text.replace("/usr/local/bin/acp", ACP)).expect("a unit");
    let output = Command::new("systemd-analyze").arg("verify").arg(&unit).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let about: Vec<&str> = said.lines().filter(|line| line.contains("acp-proxy")).collect();
    assert!(about.is_empty(), "{about:#?}");
}
