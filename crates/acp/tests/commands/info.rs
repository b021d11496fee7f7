//! `acp info`

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Place;

#[test]
fn an_agent_says_what_it_can_do() {
    let place = Place::new();
    let began = Instant::now();
    let (code, out, err) = place.acp(&["info", "--agent", "mock"]);
    let took = began.elapsed();
    assert_eq!(code, 0, "{out}{err}");
    for words in
        ["ACP mock agent", "protocol      1", "loadSession", "yes", "modes", "(current)", "commands", "/"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(took < Duration::from_secs(10), "{took:?}");
    let (code, out, _) = place.acp(&["info", "--agent", "mock", "--no-session"]);
    assert_eq!(code, 0);
    assert!(out.contains("capabilities") && !out.contains("modes"), "{out}");
}

#[test]
fn programs_get_the_answers_as_they_came() {
    let place = Place::new();
    let (code, out, _) = place.acp(&["info", "--agent", "reference", "--format", "json"]);
    assert_eq!(code, 0, "{out}");
    let said: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(said["initialize"]["protocolVersion"], 1);
    assert!(said["session"]["sessionId"].is_string(), "{said}");
    assert!(said["sessionError"].is_null() && said["initializeMs"].is_u64(), "{said}");
}

/// An agent of a few lines: answers each line with the next result or error.
fn agent(place: &Place, answers: &[&str]) -> String {
    let mut script = String::new();
    for (id, answer) in answers.iter().enumerate() {
        script += &format!("read -r line\necho '{{\"jsonrpc\":\"2.0\",\"id\":{},{answer}}}'\n", id + 1);
    }
    place.write("agent.sh", &format!("{script}cat >/dev/null\n"));
    format!("sh {}", place.path.join("agent.sh").display())
}

#[test]
fn an_agent_that_wants_a_login_is_shown_with_its_logins() {
    let place = Place::new();
    let command = agent(
        &place,
        &[
            r#""result":{"protocolVersion":1,"authMethods":[{"id":"key","name":"API key","description":"from the console"}],"extra":{"kept":true}}"#,
            r#""error":{"code":-32000,"message":"Authentication required"}"#,
        ],
    );
    let (code, out, err) = place.acp(&["info", "--command", &command]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("key  API key: from the console"), "{out}");
    assert!(out.contains("refused") && out.contains("--auth METHOD"), "{out}");
    let (_, out, _) = place.acp(&["info", "--command", &command, "--format", "json"]);
    let said: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&said["initialize"]["extra"]["kept"], &said["sessionError"]["code"]),
        (&true.into(), &(-32000).into())
    );
}

#[test]
fn another_protocol_version_is_shown_and_not_refused() {
    let place = Place::new();
    let command = agent(&place, &[r#""result":{"protocolVersion":7}"#]);
    let (code, out, err) = place.acp(&["info", "--command", &command, "--no-session"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("protocol      7"), "{out}");
}

#[test]
fn what_is_wrong_is_said_and_has_its_exit_code() {
    let place = Place::new();
    let refuses = agent(&place, &[r#""error":{"code":-32603,"message":"not today"}"#]);
    for (args, code, words) in [
        (&["info"][..], 2, "which agent?"),
        (&["info", "--agent", "nobody"], 2, "there is no agent \"nobody\""),
        (&["info", "--command", "/no/such/program"], 3, "is it installed"),
        (&["info", "--command", "true"], 3, "initialize"),
        (&["info", "--command", "sleep 60", "--timeout", "300ms"], 3, "did not answer initialize"),
        (&["info", "--command", &refuses], 1, "not today"),
        (&["info", "--agent", "mock", "--cwd", "/no/such"], 2, "cannot use the folder"),
        (&["info", "--agent", "mock", "--timeout", "soon"], 2, "is not a unit of time"),
        (&["info", "--agent", "mock", "--format", "xml"], 2, "xml"),
        (&["info", "--agent", "mock", "--auth", "no-such"], 1, "the login failed"),
    ] {
        let (got, out, err) = place.acp(args);
        assert_eq!(got, code, "{args:?}: {out}{err}");
        assert!(err.contains(words), "{args:?}: {err}");
    }
}
