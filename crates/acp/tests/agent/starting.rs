//! Starting it: flags, folders, debug lines, and what is said when it cannot start.

use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::talk::{ACP, Place, Talk};

fn refused(command: &mut Command) -> String {
    let Output { status, stderr, stdout } = command.stdin(Stdio::null()).output().expect("acp");
    let words = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(2), "{words}");
    assert!(stdout.is_empty(), "standard output is for the protocol");
    words
}

#[test]
fn what_cannot_be_used_is_named_with_what_to_do() {
    let place = Place::new();
    for (args, part) in [
        (&["--path", "/no/such/folder"][..], "\"/no/such/folder\": No such file or directory"),
        (&["--path", "work/notes.txt"], "not a folder; name a folder with --path"),
        (&["--provider", "nobody"], "scripted"),
        (&["--provider", "anthropic"], "ANTHROPIC_API_KEY"),
        (&["--model", "gpt-5.5"], "--provider (anthropic, openai"),
        (&["--base-url", "http://127.0.0.1:1"], "--provider (anthropic, openai"),
        (&["--fallback", "openai"], "so --fallback openai names nothing"),
        (&["--limits", "/no/such/file"], "cannot read --limits \"/no/such/file\""),
        (&["--limits", "work/notes.txt"], "not a list of limits"),
        (&["--header", "nonsense"], "write it as 'NAME: VALUE'"),
        (&["--max-tokens", "0"], "--max-tokens"),
        (&["--policy", "maybe"], "bypassPermissions"),
        (&["--allow", "Bash("], "parenthesis"),
        (
            &["--allow", "Bsh(git *)"],
            "cannot use --allow Bsh(git *): there is no such tool; there are search,",
        ),
        (&["--deny", "Foo(bar)"], "run_command"),
        (&["--allow", "Bash(git:write)"], "there are git:read and files:read"),
        (&["--port", "0", "--bind", "0.0.0.0"], "0.0.0.0 can be reached from other machines"),
        (&["--port", "0", "--bind", "::"], "set a token with --listen-token or ACP_AGENT_TOKEN"),
        (&["--token", ""], "it is empty and would keep nobody out"),
        (&["--dialect", "klingon"], "delta, or auto"),
        (&["--state-dir", "/proc/nothing"], "--state-dir"),
    ] {
        let mut command = Command::new(ACP);
        command.arg("agent").args(args).current_dir(place.folder.path());
        command.env("XDG_STATE_HOME", place.folder.path()).env_remove("ANTHROPIC_API_KEY");
        let words = refused(&mut command);
        assert!(words.contains(part), "{args:?}: {words}");
    }
}

#[test]
fn a_damaged_database_is_named_and_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.state()).expect("a folder");
    let file = place.state().join("sessions.redb");
    std::fs::write(&file, "not a database at all").expect("a file");
    let words = refused(&mut place.agent(&[]));
    assert!(words.contains("damaged") && words.contains("sessions.redb"), "{words}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "not a database at all");
}

#[test]
fn damage_that_is_found_later_is_answered_at_once_in_words() {
    let place = Place::new();
    let mut talk = Talk::v1(place.agent(&[]), &json!({}));
    let session = talk.session(&place.work(), &json!([]));
    talk.prompt(&session, "Say 'hello'");
    talk.end();
    let file = place.state().join("sessions.redb");
    let whole = std::fs::read(&file).expect("the file");
    let id = session.as_bytes();
    let places = whole.windows(id.len()).enumerate().filter(|(_, window)| *window == id).map(|(at, _)| at);
    let mut answered = 0;
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] = 0xFF;
        std::fs::write(&file, &damaged).expect("written");
        let started = place.agent(&[]).stdin(Stdio::null()).output().expect("acp");
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(!said.contains("panicked"), "{said}");
        if !started.status.success() {
            assert!(said.contains("damaged"), "{said}");
            continue;
        }
        std::fs::write(&file, &damaged).expect("written");
        answered += usize::from(is_told_of_damage(&place, &session));
    }
    assert!(answered > 0, "the damage is found");
}

/// Whether the damage is in the way when this session is loaded; if so, that is said, and the agent goes on.
fn is_told_of_damage(place: &Place, session: &str) -> bool {
    let mut talk = Talk::v1(place.agent(&[]), &json!({}));
    let params = json!({ "sessionId": session, "cwd": place.work(), "mcpServers": [] });
    let loaded = talk.ask("session/load", &params);
    let words = loaded["error"]["message"].as_str().unwrap_or_default();
    assert!(!words.contains("took too long"), "{loaded}");
    let new = talk.ask("session/new", &json!({ "cwd": place.work(), "mcpServers": [] }));
    assert!(new.get("result").is_some() || new["error"].to_string().contains("damaged"), "{new}");
    let (_, said) = talk.end();
    assert!(!said.contains("panicked"), "{said}");
    words.contains("damaged") && words.contains("sessions.redb")
}

#[test]
fn debug_lines_tell_the_turn_on_standard_error_only() {
    let place = Place::new();
    for how in ["flag", "variable"] {
        let mut command = place.agent(if how == "flag" { &["--debug"] } else { &[] });
        if how == "variable" {
            command.env("DEBUG", "1");
        }
        let mut talk = Talk::start(command);
        talk.ask("initialize", &json!({ "protocolVersion": "1" }));
        let new = talk.ask("newSession", &json!({}));
        let session = new["result"]["sessionId"].as_str().expect("a session").to_owned();
        talk.ask("prompt", &json!({ "sessionId": session, "message": "Search for 'thyme'" }));
        let (code, said) = talk.end();
        assert_eq!(code, Some(0));
        let lines: Vec<&str> = said.lines().collect();
        for line in [
            "[ACP] Server started",
            "[ACP] Received: initialize",
            &format!("[ACP] Session created: {session}"),
            "[ACP] Tool call: search (in_progress)",
            "[ACP] Response sent",
        ] {
            assert!(lines.contains(&line), "{line} in {said}");
        }
        let done = lines.iter().find(|line| line.starts_with("[ACP] Tool call: search (completed, "));
        assert!(done.is_some_and(|line| line.ends_with("ms)")), "{said}");
        let mut again = Talk::start(place.agent(&["--debug"]));
        again.ask("initialize", &json!({ "protocolVersion": "1" }));
        again.ask("loadSession", &json!({ "sessionId": session }));
        let (_, said) = again.end();
        assert!(said.contains("[ACP] Tool call: search (completed, replayed)"), "{said}");
    }
    let (_, silent) = Talk::v1(place.agent(&[]), &json!({})).end();
    assert_eq!(silent, "");
}

#[test]
fn sessions_are_kept_in_the_state_folder_of_the_system_unless_told_otherwise() {
    let place = Place::new();
    let xdg = place.folder.path().join("xdg");
    let mut command = Command::new(ACP);
    command.arg("agent").current_dir(place.work()).env("XDG_STATE_HOME", &xdg);
    let mut talk = Talk::v1(command, &json!({}));
    talk.session(&place.work(), &json!([]));
    talk.end();
    assert!(xdg.join("acp-workbench/agent/sessions.redb").is_file());
}

#[test]
fn a_person_who_starts_it_in_a_terminal_is_told_what_it_waits_for() {
    use std::io::{BufRead, BufReader};
    let place = Place::new();
    let (pty, pts) = pty_process::blocking::open().expect("a terminal");
    let command = pty_process::blocking::Command::new(ACP).args(["agent", "--no-state"]);
    let mut child = command.current_dir(place.work()).spawn(pts).expect("acp");
    let mut line = String::new();
    BufReader::new(&pty).read_line(&mut line).expect("a line");
    assert!(line.contains("acp chat --agent reference"), "{line}");
    child.kill().expect("it ends");
    child.wait().expect("it ends");
}

#[test]
fn the_manual_names_every_flag() {
    use clap::CommandFactory as _;
    let cli = acp_workbench::Cli::command();
    let agent = cli.find_subcommand("agent").expect("the command");
    let manual = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent.md");
    let manual = std::fs::read_to_string(manual).expect("the manual");
    let shown = agent.get_arguments().filter(|argument| !argument.is_hide_set());
    for flag in shown.filter_map(clap::Arg::get_long).filter(|flag| *flag != "help") {
        assert!(manual.contains(&format!("`--{flag}")), "docs/agent.md lacks --{flag}");
    }
}

#[test]
fn it_listens_on_a_port_for_many_clients() {
    use std::io::{BufRead, BufReader, Write};
    let place = Place::new();
    let mut child = place
        .agent(&["--port", "0", "--bind", "0.0.0.0", "--token", "s3cret"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("acp");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    output.read_line(&mut line).expect("an address");
    let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let address = told["listening"].as_str().expect("an address").replace("0.0.0.0", "127.0.0.1");
    for _ in 0..3 {
        let mut socket = std::net::TcpStream::connect(&address).expect("it listens");
        writeln!(
            socket,
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":1}}}}"#
        )
        .expect("it reads");
        let mut answer = String::new();
        BufReader::new(&socket).read_line(&mut answer).expect("it answers");
        assert!(answer.contains("acp-agent"), "{answer}");
    }
    child.kill().expect("it ends");
    child.wait().expect("it ends");
}

#[test]
fn a_token_that_is_shown_at_the_start_lets_clients_in() {
    use std::io::{BufRead, BufReader};
    let place = Place::new();
    let mut child = place
        .agent(&["--listen", "tcp://127.0.0.1:0", "--listen-token", "s3cret"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("acp");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("an address");
    let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let address = format!("tcp://{}", told["listening"].as_str().expect("an address"));
    let run = |args: &[&str], token: Option<&str>| {
        let mut command = Command::new(ACP);
        command.args(args).args(["--connect", &address]).current_dir(place.work());
        command.env_remove("ACP_CONNECT_TOKEN");
        if let Some(token) = token {
            command.env("ACP_CONNECT_TOKEN", token);
        }
        let output = command.output().expect("acp");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let ask = ["prompt", "Say 'let in'"];
    for args in [&ask[..], &["prompt", "Say 'let in'", "--auth", "token"]] {
        let (code, out, err) = run(args, Some("s3cret"));
        assert!(code == Some(0) && out.contains("let in"), "{args:?}: {out} {err}");
    }
    let (code, out, err) = run(&["prompt", "Say 'let in'", "--connect-token", "s3cret"], None);
    assert!(code == Some(0) && out.contains("let in"), "{out} {err}");
    let (code, _, err) = run(&ask, None);
    assert!(code == Some(1) && err.contains("ACP_CONNECT_TOKEN"), "{err}");
    let (code, _, err) = run(&ask, Some("wrong"));
    assert!(
        code == Some(3) && err.contains("the token is wrong") && err.contains("--connect-token"),
        "{err}"
    );
    child.kill().expect("it ends");
    child.wait().expect("it ends");
}
