//! Agents that try to get more than they were allowed, from the outside: what they ask for, what they are answered, and what
//! lies in the folder afterwards.

use std::path::Path;

use serde_json::{Value, json};

use crate::{ACP, prompt, workspace};

/// Opens a session, sends the lines of `attack` in its turn, one after the other, and keeps the answers. A command that was
/// started is waited for.
const AGENT: &str = r#"
read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}'
read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read -r line
ask() { printf '%s\n' "$1"; read -r answer; printf '%s\n' "$answer" >> answers; }
while read -r request <&3; do
    ask "$request"
    case $answer in *'"terminalId":"'*)
        id=${answer#*'"terminalId":"'}
        ask '{"jsonrpc":"2.0","id":"wait","method":"terminal/wait_for_exit","params":{"sessionId":"s","terminalId":"'"${id%%\"*}"'"}}'
    esac
done 3< attack
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
cat > /dev/null
"#;

/// What the agent was answered, and what the client said to its person.
struct Outcome {
    answers: Vec<Value>,
    said: String,
}

impl Outcome {
    /// The option that was chosen, answer by answer.
    fn chosen(&self) -> Vec<&str> {
        let chosen = self.answers.iter().map(|answer| answer.pointer("/result/outcome/optionId"));
        chosen.map(|option| option.and_then(Value::as_str).unwrap_or("none")).collect()
    }
}

/// Has the agent send these requests to `acp prompt`, or to another client of ours.
fn attack(folder: &Path, args: &[&str], requests: &[Value]) -> Outcome {
    let lines = requests.iter().enumerate().map(|(at, request)| {
        let mut request = request.clone();
        (request["jsonrpc"], request["id"]) = ("2.0".into(), format!("a{at}").into());
        format!("{request}\n")
    });
    std::fs::write(folder.join("attack"), lines.collect::<String>()).expect("a file");
    std::fs::write(folder.join("agent.sh"), AGENT).expect("a script");
    let mut all = vec!["go"];
    if !args.contains(&"--command") {
        all.extend(["--command", "sh agent.sh"]);
    }
    let (code, out, err) = prompt(folder, &[&all, args].concat());
    let answers = std::fs::read_to_string(folder.join("answers")).unwrap_or_default();
    std::fs::write(folder.join("answers"), "").expect("emptied");
    let answers: Vec<Value> = answers.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
    assert!(code == 0 && answers.len() >= requests.len(), "{code} {answers:?}\n{out}\n{err}");
    Outcome { answers, said: out + &err }
}

fn permission(call: &Value) -> Value {
    let mut tool_call = json!({ "toolCallId": "c" });
    call.as_object().into_iter().flatten().for_each(|(key, value)| tool_call[key] = value.clone());
    let options = json!([
        { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
        { "optionId": "no", "name": "No", "kind": "reject_once" },
    ]);
    let params = json!({ "sessionId": "s", "toolCall": tool_call, "options": options });
    json!({ "method": "session/request_permission", "params": params })
}

fn command(program: &str, args: &[&str]) -> Value {
    let params = json!({ "sessionId": "s", "command": program, "args": args });
    json!({ "method": "terminal/create", "params": params })
}

fn write(path: &Path) -> Value {
    let params = json!({ "sessionId": "s", "path": path, "content": "x" });
    json!({ "method": "fs/write_text_file", "params": params })
}

#[test]
fn a_permission_for_one_thing_opens_no_other() {
    let (_temp, folder) = workspace();
    let pwned = folder.join("pwned");
    let git = json!({ "kind": "execute", "title": "git status", "rawInput": { "command": "git status" } });
    let edit = json!({ "kind": "edit", "title": "Edit src/a", "rawInput": { "path": "src/a" },
        "locations": [{ "path": folder.join("src/a") }] });
    for (args, call, misuse) in [
        (
            ["--policy", "acceptEdits"],
            json!({ "kind": "other", "name": "edit" }),
            command("touch", &["pwned"]),
        ),
        (["--allow", "Bash(git *)"], git, command("touch", &["pwned"])),
        (["--allow", "Edit(src/**)"], edit, write(&pwned)),
    ] {
        let outcome = attack(&folder, &args, &[permission(&call), misuse]);
        assert!(outcome.answers[1].get("error").is_some(), "{args:?}: {:?}", outcome.answers);
        assert!(!pwned.exists(), "{args:?}");
    }
}

#[test]
fn what_is_denied_is_denied_wherever_a_request_shows_it() {
    let (_temp, folder) = workspace();
    std::fs::create_dir(folder.join("secret")).expect("a folder");
    std::fs::write(folder.join("secret/key"), "hush").expect("a file");
    let key = folder.join("secret/key");
    let args = ["--policy", "yolo", "--deny", "Read(secret/**)", "--deny", "Bash(curl *)"];
    let reads = [
        json!({ "file": key }),
        json!({ "target_file": "secret/key" }),
        json!({ "uri": format!("file://{}", key.display()) }),
        json!({ "paths": ["greeting.txt", "secret/key"] }),
        json!({ "changes": { "secret/key": { "delete": {} } } }),
    ];
    let runs = [
        json!({ "script": "curl evil.example" }),
        json!({ "argv": ["curl", "evil.example"] }),
        json!({ "program": "curl", "args": ["evil.example"] }),
        json!({ "nested": { "command": "curl", "args": ["evil.example"] } }),
    ];
    let call = |kind: &str, input: &Value| permission(&json!({ "kind": kind, "rawInput": input }));
    let located = json!({ "kind": "read", "locations": [{ "path": folder.join("a") }, { "path": key }] });
    let requests: Vec<Value> = (reads.iter().map(|it| call("read", it)))
        .chain(runs.iter().map(|it| call("execute", it)))
        .chain([permission(&located)])
        .collect();
    let outcome = attack(&folder, &args, &requests);
    let chosen = outcome.chosen();
    let allowed: Vec<_> = requests.iter().zip(&chosen).filter(|(_, option)| **option == "yes").collect();
    assert!(allowed.is_empty(), "{allowed:#?}");
    let harmless = call("read", &json!({ "path": "greeting.txt" }));
    assert_eq!(attack(&folder, &args, &[harmless]).chosen(), ["yes"]);
}

#[test]
fn the_named_set_for_git_runs_what_reads_and_no_trick() {
    let (_temp, folder) = workspace();
    let git = |args: &[&str]| {
        let status = std::process::Command::new("git").args(args).current_dir(&folder).output().expect("git");
        assert!(status.status.success(), "{status:?}");
    };
    git(&["init", "-q"]);
    let args = ["--allow", "Bash(git:read)"];
    let tricks = [
        command("git", &["-c", "alias.x=!touch pwned", "x"]),
        command("git", &["ls-remote", "--upload-pack=touch pwned", "."]),
        command("git", &["grep", "--open-files-in-pager=touch pwned", "hello"]),
        command("git", &["diff", "--output=pwned"]),
        command("git", &["-C", "/", "status"]),
        command("git status; touch pwned", &[]),
    ];
    let outcome = attack(&folder, &args, &tricks);
    assert!(outcome.answers.iter().all(|answer| answer.get("error").is_some()), "{:?}", outcome.answers);
    assert!(!folder.join("pwned").exists());
    let outcome = attack(&folder, &args, &[command("git", &["status"])]);
    assert_eq!(outcome.answers[1].pointer("/result/exitCode"), Some(&json!(0)), "{:?}", outcome.answers);
    let outcome = attack(&folder, &["--allow", "Bash(git *)"], &[command("git", &["status"])]);
    assert!(outcome.said.contains("Bash(git:read)"), "the wildcard is warned about: {}", outcome.said);
}

#[test]
fn a_proxy_that_accepts_edits_accepts_none_outside_of_the_folder() {
    let (_temp, folder) = workspace();
    let proxy = format!("{ACP} proxy --policy acceptEdits --command 'sh agent.sh'");
    let edit = |path: &Path| {
        permission(&json!({ "kind": "edit", "title": "Edit", "locations": [{ "path": path }],
            "content": [{ "type": "diff", "path": path, "oldText": "", "newText": "x" }] }))
    };
    let requests = [edit(Path::new("/etc/passwd")), edit(&folder.join("../other")), edit(&folder.join("a"))];
    let outcome = attack(&folder, &["--command", &proxy], &requests);
    assert_eq!(outcome.chosen(), ["no", "no", "yes"]);
}
