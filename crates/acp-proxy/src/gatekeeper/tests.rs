use super::*;

#[test]
fn a_request_id_that_is_used_twice_keeps_no_place_and_no_turn() {
    let (metrics, logs) = (Metrics::default(), ConversationLog::new(crate::log::ProxyLog::current()));
    let duties = Duties { max_sessions: Some(3), ..Duties::default() };
    let shared = SharedLimits::new(duties, &metrics);
    let lines = [
        r#"{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/"}}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
    ];
    for _ in 0..3 {
        let mut gatekeeper = Gatekeeper::new(shared.clone(), logs.clone(), 1, Observers::default(), None);
        for line in lines {
            for _ in 0..2 {
                let handling = gatekeeper.client_says(&Frame::parse(line.as_bytes()));
                assert!(matches!(handling, Handling::Instead(_) | Handling::Pass), "{handling:?}");
            }
        }
    }
    assert_eq!(*shared.open.borrow(), 0);
    let numbers = metrics.to_text();
    assert!(numbers.contains("acp_proxy_sessions 0\n"), "{numbers}");
    assert!(numbers.contains("acp_proxy_turns_running 0\n"), "{numbers}");
}

#[test]
fn long_names_of_a_client_fill_no_memory() {
    let (metrics, logs) = (Metrics::default(), ConversationLog::new(crate::log::ProxyLog::current()));
    let shared = SharedLimits::new(Duties { max_sessions: Some(3), ..Duties::default() }, &metrics);
    let mut gatekeeper = Gatekeeper::new(shared.clone(), logs, 1, Observers::default(), None);
    let long = "x".repeat(LONGEST_NAMES + 1);
    let lines = [
        Frame::notification("session/cancel", &serde_json::json!({"sessionId": long})),
        Frame::request(
            &Id::Text(long.as_str().into()),
            method::SESSION_NEW,
            &serde_json::json!({"cwd": "/"}),
        ),
        Frame::request(&Id::from(1), method::SESSION_NEW, &serde_json::json!({"cwd": format!("/{long}")})),
        Frame::request(&Id::from(2), "session/prompt", &serde_json::json!({"sessionId": long, "prompt": []})),
        Frame::request(&Id::from(3), "session/close", &serde_json::json!({"sessionId": long})),
    ];
    for line in lines {
        let handling = gatekeeper.client_says(&line);
        assert!(matches!(handling, Handling::Instead(_) | Handling::Pass), "it is passed on: {handling:?}");
    }
    assert!(gatekeeper.cancelled.is_empty() && gatekeeper.pending.is_empty() && *shared.open.borrow() == 0);
    assert!(metrics.to_text().contains("acp_proxy_turns_running 0\n"), "{}", metrics.to_text());
}

#[test]
fn every_number_is_there_before_anything_has_happened() {
    let metrics = Metrics::default();
    let shared = SharedLimits::new(Duties::default(), &metrics);
    let all = [
        "acp_proxy_sessions_total",
        "acp_proxy_sessions_refused_total",
        "acp_proxy_turns_total{stop_reason=\"end_turn\"}",
        "acp_proxy_turns_total{stop_reason=\"other\"}",
        "acp_proxy_permissions_total{verdict=\"deny\"}",
    ];
    let has = |number: &str, count: u64| metrics.to_text().contains(&format!("\n{number} {count}\n"));
    assert!(all.iter().all(|number| has(number, 0)), "{}", metrics.to_text());
    shared.count(&counts::REFUSED, "");
    shared.count(&counts::TURNS, "unheard of");
    assert!(has(all[1], 1) && has(all[3], 1) && has(all[2], 0), "{}", metrics.to_text());
}

fn desk_with(policy: Policy) -> Gatekeeper {
    let (metrics, logs) = (Metrics::default(), ConversationLog::new(crate::log::ProxyLog::current()));
    let duties = Duties { rules: Some(PolicyRules::of(policy)), ..Duties::default() };
    Gatekeeper::new(SharedLimits::new(duties, &metrics), logs, 1, Observers::default(), None)
}

fn open_session(gatekeeper: &mut Gatekeeper, params: &serde_json::Value) {
    let line = Frame::request(&Id::from(1), method::SESSION_NEW, params);
    gatekeeper.client_says(&line);
    gatekeeper.agent_says(&Frame::response(&Id::from(1), &serde_json::json!({"sessionId": "s"})));
}

fn ask(gatekeeper: &mut Gatekeeper, session: &str, call: &serde_json::Value) -> Handling {
    let mut tool_call = call.clone();
    tool_call["toolCallId"] = "c".into();
    let options = serde_json::json!([{"optionId": "y", "name": "y", "kind": "allow_once"}]);
    let params = serde_json::json!({"sessionId": session, "toolCall": tool_call, "options": options});
    gatekeeper.agent_says(&Frame::request(&Id::from(9), method::SESSION_REQUEST_PERMISSION, &params))
}

#[test]
fn edits_outside_the_folders_of_a_session_are_not_approved_unasked() {
    let temp = tempfile::tempdir().expect("a folder");
    let base = temp.path().canonicalize().expect("a real path");
    let [work, more, other] = ["work", "more", "other"].map(|name| base.join(name));
    for folder in [&work, &more, &other] {
        std::fs::create_dir(folder).expect("a folder");
    }
    std::os::unix::fs::symlink(&other, work.join("link")).expect("a link");
    for policy in [Policy::AcceptEdits, Policy::Write] {
        let mut gatekeeper = desk_with(policy);
        open_session(&mut gatekeeper, &serde_json::json!({"cwd": work, "additionalDirectories": [more]}));
        for (path, approved) in [
            (work.join("a"), true),
            ("a/b".into(), true),
            (more.join("a"), true),
            ("/etc/passwd".into(), false),
            ("../other/a".into(), false),
            (work.join("../other/a"), false),
            (work.join("link/a"), false),
            ("~/.bashrc".into(), false),
            ("$HOME/.bashrc".into(), false),
        ] {
            for call in [
                serde_json::json!({"kind": "edit", "rawInput": {"file_path": path}}),
                serde_json::json!({"kind": "delete", "locations": [{"path": path}]}),
                serde_json::json!({"kind": "edit", "content": [{"type": "diff", "path": path, "newText": ""}]}),
                serde_json::json!({"kind": "edit", "rawInput": {"path": "a"}, "locations": [{"path": path}]}),
            ] {
                let handling = ask(&mut gatekeeper, "s", &call);
                assert_eq!(matches!(handling, Handling::Back(_)), approved, "{policy} {call} {handling:?}");
            }
        }
        let unknown = serde_json::json!({"kind": "edit", "rawInput": {"path": work.join("a")}});
        assert_eq!(ask(&mut gatekeeper, "another", &unknown), Handling::Pass, "its folders are not known");
    }
}

/// What becomes of a line of the agent.
fn says(gatekeeper: &mut Gatekeeper, line: &str) -> Handling {
    gatekeeper.agent_says(&Frame::parse(line.to_owned()))
}

#[test]
fn a_permission_request_in_disguise_is_decided_or_stopped() {
    let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","kind":"execute"},"options":[]}"#;
    let plain =
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{params}}}"#);
    let mut gatekeeper = desk_with(Policy::None);
    for line in
        [plain.clone(), plain.replace("\"id\"", r#""\u0069d""#).replace("_permission", r"\u005fpermission")]
    {
        let handling = says(&mut gatekeeper, &line);
        assert!(matches!(handling, Handling::Back(_)), "{line} {handling:?}");
    }
    for line in [format!("[{plain}]"), plain.replace(r#""jsonrpc":"2.0","#, "")] {
        let handling = says(&mut gatekeeper, &line);
        assert!(matches!(handling, Handling::Stop(_) | Handling::Back(_)), "{line} {handling:?}");
    }
    let single = plain.replace('"', "'");
    let deep = ["[".repeat(300), "]".repeat(300)].concat();
    for line in [
        format!("[[{plain}]]"),
        plain.replacen("\"params\"", "\"method\":\"x\",\"params\"", 1),
        plain.replacen("\"method\"", "\"method\":\"x\",\"method\"", 1),
        plain.replacen("\"method\"", "\"method\":\"x\",\"Method\"", 1),
        plain.replace("\"method\"", "\"METHOD\"").replace("\"id\"", "\"Id\""),
        plain.replace("request_p", r"request\u005fp").replace("\"jsonrpc\":\"2.0\",", ""),
        format!("{plain} and more"),
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\"}}{plain}"),
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\"}}\r{plain}"),
        format!("log\u{2028}{plain}"),
        format!("\0{plain}"),
        format!("/* */ {plain}"),
        plain.replace("}}", "},}"),
        plain.replace("\"s\"", r#""\ud800""#),
        plain.replace("\"kind\"", &format!("\"x\":{deep},\"kind\"")),
        single,
    ] {
        let handling = says(&mut gatekeeper, &line);
        assert!(matches!(handling, Handling::Stop(_)), "{line} {handling:?}");
    }
    let other = plain.replace("session/request_permission", "fs/read_text_file");
    for line in [format!("[{other}]"), "DEBUG: sending session/request_permission".to_owned()] {
        assert_eq!(says(&mut gatekeeper, &line), Handling::Pass);
    }
}

#[test]
fn a_permission_request_that_cannot_be_read_is_refused_where_a_policy_decides() {
    let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","kind":"execute"},"options":[]}"#;
    let deny = acp_policy::ToolPatterns::parse(["Bash(rm *)"]).expect("a pattern");
    let strict = [
        PolicyRules::of(Policy::None),
        PolicyRules::of(Policy::Read),
        PolicyRules { deny, ..PolicyRules::default() },
    ];
    for params in [
        params.replace("\"s\"", "7"),
        params.replace("\"options\"", "\"toolCall\":{},\"options\""),
        params.replace(",\"options\":[]", ""),
        "[1]".to_owned(),
    ] {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{params}}}"#);
        for rules in &strict {
            let mut gatekeeper = desk_with(Policy::Default);
            let duties = Duties { rules: Some(rules.clone()), ..Duties::default() };
            gatekeeper.shared = SharedLimits::new(duties, &Metrics::default());
            let Handling::Back(answer) = says(&mut gatekeeper, &line) else { panic!("{line}") };
            assert!(answer.windows(7).any(|it| it == b"\"error\""), "{answer:?}");
        }
        let mut gatekeeper = desk_with(Policy::Default);
        assert_eq!(says(&mut gatekeeper, &line), Handling::Pass, "everything is asked");
    }
}
