//! The built-in profiles, and others' files.

use acp_match::Vars;
use acp_profile::{Catalogue, Profile, ProfileSource, VARIABLES, WireFormat, parse_registry, parse_settings};

fn vars() -> Vars {
    Vars::new()
        .with("home", "/h")
        .with("workspace", "/w")
        .with("tmp", "/t")
        .with("modelUrl", "http://127.0.0.1:1")
        .with("bin", "/p/bin")
        .with("packages", "/p")
        .with("port", "7000")
        .with("sessionId", "s1")
}

#[test]
fn every_built_in_profile_is_usable_and_resolves() {
    let all = Catalogue::built_in();
    assert!(all.unusable().is_empty(), "{:?}", all.unusable());
    let names: Vec<_> = all.profiles().iter().map(|profile| profile.name.as_str()).collect();
    for wanted in [
        "claude",
        "cline",
        "codex",
        "copilot",
        "droid",
        "fast-agent",
        "gemini",
        "kimi-code",
        "opencode",
        "pi",
        "qwen",
        "vibe",
    ] {
        assert!(names.contains(&wanted), "{wanted} is missing from {names:?}");
    }
    for profile in all.profiles() {
        let launch = profile.resolve(&vars()).unwrap();
        let everything = format!("{launch:?}{:?}", profile.setup_requests(&vars()).unwrap());
        assert!(!everything.contains("${"), "{everything}");
        assert!(
            profile.npm.iter().chain(&profile.pip).all(|package| !package.version.is_empty()),
            "{} is not pinned",
            profile.name
        );
        assert!(profile.version().is_some());
        for file in &launch.files {
            if file.path.ends_with(".json") {
                serde_json::from_str::<serde_json::Value>(&file.text).unwrap();
            }
        }
    }
}

#[test]
fn a_profile_reaches_the_scripted_model_somewhere() {
    for profile in Catalogue::built_in().profiles().iter().filter(|profile| profile.model.is_some()) {
        let launch = format!("{:?}", profile.resolve(&vars()).unwrap());
        assert!(launch.contains("http://127.0.0.1:1"), "{} never names the model's address", profile.name);
    }
}

#[test]
fn copilot_resolves_to_what_one_would_type() {
    let all = Catalogue::built_in();
    let copilot = all.find("copilot").unwrap();
    let launch = copilot.resolve(&vars()).unwrap();
    assert_eq!(
        (launch.command.as_str(), launch.args.as_slice()),
        ("/p/bin/copilot", ["--acp".to_owned()].as_slice())
    );
    assert_eq!(launch.env["COPILOT_PROVIDER_BASE_URL"], "http://127.0.0.1:1/v1");
    assert_eq!(launch.env["COPILOT_MODEL"], "stub-model");
    assert_eq!(copilot.resolve_tcp(&vars()).unwrap().unwrap().args, ["--acp", "--port", "7000"]);
    assert_eq!(copilot.model.as_ref().unwrap().wire, WireFormat::Chat);
}

#[test]
fn a_missing_variable_names_profile_and_field() {
    let all = Catalogue::built_in();
    let error = all.find("gemini").unwrap().resolve(&Vars::new().with("bin", "/b")).unwrap_err().to_string();
    assert!(
        error.contains("gemini")
            && error.contains("env.GOOGLE_GEMINI_BASE_URL")
            && error.contains("modelUrl"),
        "{error}"
    );
    let error = all.find("nobody").unwrap_err().to_string();
    assert!(error.contains("nobody") && error.contains("copilot"), "{error}");
}

#[test]
fn only_documented_variables_are_used() {
    for profile in Catalogue::built_in().profiles() {
        let text = serde_json::to_string(profile).unwrap();
        for hole in text.split("${").skip(1) {
            let name = hole.split('}').next().unwrap();
            let of_intents = ["path", "text", "command", "old", "new", "patch", "steps", "question", "topic"];
            let known = VARIABLES.iter().any(|(known, _)| *known == name) || of_intents.contains(&name);
            assert!(known, "{} uses ${{{name}}}", profile.name);
        }
    }
}

#[test]
fn a_bad_profile_says_what_and_where() {
    let cases = [
        ("{\"name\": \"x\"", "EOF"),
        ("{\"name\": \"x\"}", "command"),
        ("{\"name\": \"x\", \"command\": \" \"}", "\"command\" is empty"),
        ("{\"name\": \"x\", \"command\": \"c\", \"colour\": 1}", "colour"),
        ("{\"name\": \"x\", \"command\": \"c\", \"home\": {\"../y\": \"\"}}", "../y"),
        ("{\"name\": \"x\", \"command\": \"c\", \"intents\": {\"fly\": {\"tools\": [\"t\"]}}}", "fly"),
        ("{\"name\": \"x\", \"command\": \"c\", \"setup\": [{}]}", "setup"),
    ];
    for (text, reason) in cases {
        let error = Profile::parse("x.json", text).unwrap_err().to_string();
        assert!(error.starts_with("x.json: ") && error.contains(reason), "{error}");
    }
}

#[test]
fn an_editors_settings_file_gives_its_agents() {
    let text = r#"{
      // the editor's own things
      "theme": "dark",
      "agent_servers": {
        "My Agent": { "type": "custom", "command": "node", "args": ["${workspaceFolder}/a.js", "--acp"], "env": { "A": "1", "N": 2 }, },
        "Nested": { "command": { "path": "/bin/x", "args": [] } },
        "claude": { "type": "registry" },
      }
    }"#;
    let all: Catalogue = parse_settings("settings.json", text).unwrap().into_iter().collect();
    let mine = all.find("My Agent").unwrap();
    assert_eq!(mine.source, ProfileSource::Settings);
    let launch = mine.resolve(&Vars::new()).unwrap();
    assert_eq!(launch.args, ["${workspaceFolder}/a.js", "--acp"]);
    assert_eq!(launch.env["N"], "2");
    assert_eq!(all.find("Nested").unwrap().command, "/bin/x");
    let error = all.find("claude").unwrap_err().to_string();
    assert!(error.contains("no \"command\"") && error.contains("registry"), "{error}");
    assert!(parse_settings("s", "[1]").unwrap_err().to_string().contains("agent_servers"));
}

#[test]
fn the_public_registry_gives_its_packages() {
    let text = r#"{"version": "1.0.0", "agents": [
      {"id": "one", "name": "One", "version": "1.2.3", "description": "d", "distribution": {"npx": {"package": "@scope/one@1.2.3", "args": ["--acp"], "env": {"X": "y"}}}},
      {"id": "two", "name": "Two", "version": "4.5", "description": "d", "distribution": {"uvx": {"package": "two==4.5"}}},
      {"id": "three", "name": "Three", "version": "1", "description": "d", "distribution": {"binary": {"linux-x86_64": {"archive": "https://x/t.tgz", "cmd": "./t"}}}},
      {"name": "no id"}
    ], "extensions": []}"#;
    let all: Catalogue = parse_registry("registry.json", text).unwrap().into_iter().collect();
    let one = all.find("one").unwrap();
    assert_eq!(
        (one.command.as_str(), one.args.join(" ")),
        ("npx", "--yes @scope/one@1.2.3 --acp".to_owned())
    );
    assert_eq!((one.npm[0].package.as_str(), one.version()), ("@scope/one", Some("1.2.3")));
    assert_eq!(all.find("two").unwrap().version(), Some("4.5"));
    assert!(all.find("three").unwrap_err().to_string().contains("archive"));
    assert_eq!(all.unusable().len(), 2);
}
