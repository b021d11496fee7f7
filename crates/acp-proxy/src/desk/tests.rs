use super::*;

#[test]
fn a_request_id_that_is_used_twice_keeps_no_place_and_no_turn() {
    let (metrics, talk) = (Metrics::default(), Talk::new(Arc::new(|_| {})));
    let duties = Duties { max_sessions: Some(3), ..Duties::default() };
    let office = Office::new(duties, &metrics);
    let lines = [
        r#"{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/"}}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
    ];
    for _ in 0..3 {
        let mut desk = Desk::new(office.clone(), talk.clone(), 1, Observers::default(), None);
        for line in lines {
            for _ in 0..2 {
                let handling = desk.client_says(&Frame::parse(line.as_bytes()));
                assert!(matches!(handling, Handling::Instead(_) | Handling::Pass), "{handling:?}");
            }
        }
    }
    assert_eq!(*office.open.borrow(), 0);
    let numbers = metrics.to_text();
    assert!(numbers.contains("acp_proxy_sessions 0\n"), "{numbers}");
    assert!(numbers.contains("acp_proxy_turns_running 0\n"), "{numbers}");
}

#[test]
fn long_names_of_a_client_fill_no_memory() {
    let (metrics, talk) = (Metrics::default(), Talk::new(Arc::new(|_| {})));
    let office = Office::new(Duties { max_sessions: Some(3), ..Duties::default() }, &metrics);
    let mut desk = Desk::new(office.clone(), talk, 1, Observers::default(), None);
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
        let handling = desk.client_says(&line);
        assert!(matches!(handling, Handling::Instead(_) | Handling::Pass), "it is passed on: {handling:?}");
    }
    assert!(desk.cancelled.is_empty() && desk.pending.is_empty() && *office.open.borrow() == 0);
    assert!(metrics.to_text().contains("acp_proxy_turns_running 0\n"), "{}", metrics.to_text());
}

#[test]
fn every_number_is_there_before_anything_has_happened() {
    let metrics = Metrics::default();
    let office = Office::new(Duties::default(), &metrics);
    let all = [
        "acp_proxy_sessions_total",
        "acp_proxy_sessions_refused_total",
        "acp_proxy_turns_total{stop_reason=\"end_turn\"}",
        "acp_proxy_turns_total{stop_reason=\"other\"}",
        "acp_proxy_permissions_total{verdict=\"deny\"}",
    ];
    let has = |number: &str, count: u64| metrics.to_text().contains(&format!("\n{number} {count}\n"));
    assert!(all.iter().all(|number| has(number, 0)), "{}", metrics.to_text());
    office.count(&counts::REFUSED, "");
    office.count(&counts::TURNS, "unheard of");
    assert!(has(all[1], 1) && has(all[3], 1) && has(all[2], 0), "{}", metrics.to_text());
}

fn desk_with(policy: Policy) -> Desk {
    let (metrics, talk) = (Metrics::default(), Talk::new(Arc::new(|_| {})));
    let duties = Duties { rules: Some(PolicyRules::of(policy)), ..Duties::default() };
    Desk::new(Office::new(duties, &metrics), talk, 1, Observers::default(), None)
}

fn open_session(desk: &mut Desk, params: &serde_json::Value) {
    let line = Frame::request(&Id::from(1), method::SESSION_NEW, params);
    desk.client_says(&line);
    desk.agent_says(&Frame::response(&Id::from(1), &serde_json::json!({"sessionId": "s"})));
}

fn ask(desk: &mut Desk, session: &str, call: &serde_json::Value) -> Handling {
    let mut tool_call = call.clone();
    tool_call["toolCallId"] = "c".into();
    let options = serde_json::json!([{"optionId": "y", "name": "y", "kind": "allow_once"}]);
    let params = serde_json::json!({"sessionId": session, "toolCall": tool_call, "options": options});
    desk.agent_says(&Frame::request(&Id::from(9), method::SESSION_REQUEST_PERMISSION, &params))
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
        let mut desk = desk_with(policy);
        open_session(&mut desk, &serde_json::json!({"cwd": work, "additionalDirectories": [more]}));
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
                let handling = ask(&mut desk, "s", &call);
                assert_eq!(matches!(handling, Handling::Back(_)), approved, "{policy} {call} {handling:?}");
            }
        }
        let unknown = serde_json::json!({"kind": "edit", "rawInput": {"path": work.join("a")}});
        assert_eq!(ask(&mut desk, "another", &unknown), Handling::Pass, "its folders are not known");
    }
}

/// What becomes of a line of the agent.
fn says(desk: &mut Desk, line: &str) -> Handling {
    desk.agent_says(&Frame::parse(line.to_owned()))
}

#[test]
fn a_permission_request_in_disguise_is_decided_or_stopped() {
    let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","kind":"execute"},"options":[]}"#;
    let plain =
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{params}}}"#);
    let mut desk = desk_with(Policy::None);
    for line in
        [plain.clone(), plain.replace("\"id\"", r#""\u0069d""#).replace("_permission", r"\u005fpermission")]
    {
        let handling = says(&mut desk, &line);
        assert!(matches!(handling, Handling::Back(_)), "{line} {handling:?}");
    }
    for line in [format!("[{plain}]"), plain.replace(r#""jsonrpc":"2.0","#, "")] {
        let handling = says(&mut desk, &line);
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
        let handling = says(&mut desk, &line);
        assert!(matches!(handling, Handling::Stop(_)), "{line} {handling:?}");
    }
    let other = plain.replace("session/request_permission", "fs/read_text_file");
    for line in [format!("[{other}]"), "DEBUG: sending session/request_permission".to_owned()] {
        assert_eq!(says(&mut desk, &line), Handling::Pass);
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
            let mut desk = desk_with(Policy::Default);
            let duties = Duties { rules: Some(rules.clone()), ..Duties::default() };
            desk.office = Office::new(duties, &Metrics::default());
            let Handling::Back(answer) = says(&mut desk, &line) else { panic!("{line}") };
            assert!(answer.windows(7).any(|it| it == b"\"error\""), "{answer:?}");
        }
        let mut desk = desk_with(Policy::Default);
        assert_eq!(says(&mut desk, &line), Handling::Pass, "everything is asked");
    }
}
