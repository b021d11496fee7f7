//! `acp.toml`: flags, environment and file, in this order

use crate::{ACP, Place, texts};

/// An agent that answers initialize with its first argument as its name.
const AGENT: &str = r#"read -r line
echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1,\"agentInfo\":{\"name\":\"$1 $LEVEL in $PWD\",\"version\":\"1\"}}}"
cat >/dev/null
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("agent.sh", AGENT);
    place.write(
        "acp.toml",
        "agent = \"one\"\n\
         [agents.one]\ncommand = \"sh agent.sh first\"\nenv = { LEVEL = \"loud\" }\n\
         [agents.two]\ncommand = [\"sh\", \"../agent.sh\", \"second\"]\ncwd = \"sub\"\n",
    );
    std::fs::create_dir_all(place.path.join("sub/deeper")).expect("folders");
    place
}

#[test]
fn agents_are_started_by_name_from_anywhere_below() {
    let place = place();
    let here = place.path.display().to_string();
    for (args, folder, words) in [
        (&["info", "--no-session"][..], ".", format!("first loud in {here} 1")),
        (&["info", "--no-session"], "sub/deeper", format!("first loud in {here} 1")),
        (&["info", "--no-session", "--agent", "two"], "sub/deeper", format!("second  in {here}/sub 1")),
        (&["info", "--no-session", "--command", "sh ../../agent.sh third"], "sub/deeper", "third".to_owned()),
    ] {
        let output =
            place.command(ACP, args).current_dir(place.path.join(folder)).output().expect("acp runs");
        let (code, out, err) = texts(&output);
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        assert!(out.contains(&words), "{args:?}: {out}");
    }
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let place = place();
    let named = |args: &[&str], variable: &str| {
        let args = [&["info", "--no-session"], args].concat();
        let output = place.command(ACP, &args).env("ACP_AGENT", variable).output().expect("acp runs");
        texts(&output).1
    };
    assert!(named(&[], "").contains("first"), "an empty variable is none");
    assert!(named(&[], "two").contains("second"));
    assert!(named(&["--agent", "one"], "two").contains("first"));
    let output = place.command(ACP, &["info"]).env("ACP_CONFIG", "").output().expect("acp runs");
    assert!(texts(&output).2.contains("which agent?"), "an empty ACP_CONFIG means no file");
    let output = place.command(ACP, &["info"]).env("ACP_CONFIG", "nowhere.toml").output().expect("acp runs");
    let (code, _, err) = texts(&output);
    assert_eq!(code, 2);
    assert!(err.contains("nowhere.toml") && err.contains("ACP_CONFIG"), "{err}");
}

#[test]
fn comply_takes_agents_and_options_from_the_file() {
    let place = Place::new();
    place.write(
        "acp.toml",
        &format!(
            "[agents.mine]\ncommand = \"{ACP} mock --defect ignores-cancel\"\n\
             [comply]\ntest = [\"init.*\"]\nexpected = \"known.txt\"\njobs = 2\n"
        ),
    );
    place.write("known.txt", "# nothing\n");
    let (code, out, err) = place.acp(&["comply", "--list-tests"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.lines().all(|line| line.starts_with("init.")), "{out}");
    let (code, out, err) = place.acp(&["comply", "--format", "json"]);
    assert_eq!(code, 0, "{err}");
    let results: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(results["agents"].as_array().map(Vec::len), Some(1));
    assert_eq!(results["agents"][0]["name"], "mine", "{err}");
    let (code, out, _) = place.acp(&["comply", "--list-tests", "--test", "trn.*"]);
    assert_eq!(code, 0);
    assert!(out.lines().all(|line| line.starts_with("trn.")), "a flag replaces the list: {out}");
    // The list of known failures is about the agents of the file.
    place.write("known.txt", "mine:CAN-01  broken on purpose\n");
    let (code, out, err) = place.acp(&["comply", "--test", "init.version-echo", "--agent", "mock"]);
    assert_eq!(code, 0, "{out}{err}");
    place.write("known.txt", "no-such-test  gone\n");
    let (code, _, err) = place.acp(&["comply", "--test", "init.version-echo"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("known.txt"), "{err}");
}

#[test]
fn switches_of_the_file_can_be_turned_off() {
    let place = Place::new();
    place.write("acp.toml", "[comply]\nisolate = true\nseverity = [\"advice\"]\ntimeout-factor = 0.5\n");
    let args = [
        "comply",
        "--agent",
        "mock",
        "--test",
        "init.version-echo",
        "--severity",
        "required",
        "--isolate=false",
    ];
    let output = place.command(ACP, &args).env("PATH", "/no/such").output().expect("acp runs");
    let (code, out, err) = texts(&output);
    assert!(!err.contains("unshare"), "{err}");
    assert!([0, 2].contains(&code), "{code}: {out}{err}");
    let output =
        place.command(ACP, &args[..args.len() - 1]).env("PATH", "/no/such").output().expect("acp runs");
    assert!(texts(&output).2.contains("--isolate"), "the file turns it on");
}

#[test]
fn a_mistake_is_reported_with_its_place_by_every_command_that_reads_the_file() {
    let place = Place::new();
    place.write("acp.toml", "[agents.mine]\n\ncomand = \"x\"\n");
    for args in [
        &["info"][..],
        &["call", "session/list"],
        &["prompt", "hi"],
        &["chat"],
        &["proxy"],
        &["comply"],
        &["harness"],
    ] {
        let (code, out, err) = place.acp(args);
        assert_eq!(code, 2, "{args:?}: {out}{err}");
        assert!(err.contains("acp.toml:3:1") && err.contains("comand"), "{args:?}: {err}");
    }
    // Commands that need no settings do not read them.
    assert_eq!(place.acp(&["requirements", "PT-07"]).0, 0);
}

#[test]
fn a_policy_of_the_file_is_used_only_when_it_is_named() {
    let place = Place::new();
    place.write("greeting.txt", "good morning\n");
    place.write("acp.toml", "[policies.look]\nbase = \"read\"\n[policies.nothing]\nbase = \"none\"\n");
    let read = |more: &[&str]| {
        let args = [&["prompt", "Read greeting.txt", "--agent", "mock"], more].concat();
        place.acp(&args).1.contains("good morning")
    };
    assert!(read(&["--policy", "look"]));
    assert!(!read(&["--policy", "nothing"]));
    assert!(read(&["--policy", "nothing", "--allow", "Read"]), "flags add to it");
    let (code, _, err) = place.acp(&["prompt", "hi", "--agent", "mock", "--policy", "lok"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no policy \"lok\"") && err.contains("look, nothing"), "{err}");
}

#[test]
fn the_proxy_serves_an_agent_of_the_file() {
    let place = Place::new();
    place.write("acp.toml", &format!("[agents.mine]\ncommand = \"{ACP} mock\"\n"));
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
    place.write("input", &format!("{line}\n"));
    let input = std::fs::File::open(place.path.join("input")).expect("a file");
    let args = ["proxy", "--agent", "mine", "--no-journal"];
    let output = place.command(ACP, &args).stdin(input).output().expect("acp runs");
    let (code, out, err) = texts(&output);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("protocolVersion"), "{out}{err}");
}

#[test]
fn a_token_of_the_environment_is_not_sent_where_a_checkout_wants_it() {
    let place = Place::new();
    let run = |args: &[&str], token: &str| {
        texts(&place.command(ACP, args).env("ACP_CONNECT_TOKEN", token).output().expect("acp runs"))
    };
    // Nobody answers there; what counts is that nobody is asked.
    for address in ["tcp://192.0.2.1:9", "ws://127.0.0.1@192.0.2.1:9/acp"] {
        place.write("acp.toml", &format!("[agents.mine]\nconnect = \"{address}\"\n"));
        for args in [&["info"][..], &["comply", "--test", "init.version-echo"], &["prompt", "hi"]] {
            let (code, _, err) = run(args, "hush");
            assert_eq!(code, 2, "{args:?}: {err}");
            assert!(err.contains("ACP_CONNECT_TOKEN") && err.contains("--connect"), "{args:?}: {err}");
        }
    }
    // On this machine, it is.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    place.write("acp.toml", &format!("[agents.mine]\nconnect = \"tcp://{address}\"\n"));
    let heard = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stream), &mut line).expect("a line");
        line
    });
    run(&["info"], "hush");
    assert!(heard.join().expect("a line").contains("hush"));
}

#[test]
fn an_agent_of_the_file_that_stands_before_a_known_one_is_told_as_that() {
    let place = Place::new();
    place.write("agent.sh", AGENT);
    place.write("acp.toml", "[agents.codex]\ncommand = \"sh agent.sh own\"\n");
    let (code, out, err) = place.acp(&["info", "--no-session", "--agent", "codex"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("agent codex is that of ") && err.contains("acp.toml"), "{err}");
}
