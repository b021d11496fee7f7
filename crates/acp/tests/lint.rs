//! `acp lint` and `acp requirements` as they are run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn acp(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp")).args(args).output().expect("acp starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../acp-rules/tests").join(name);
    path.to_str().expect("a path").to_owned()
}

fn broken() -> String {
    data("rules/diff-path/breaks.ndjson")
}

fn recording() -> String {
    data("recordings/typescript-sdk-0.28.1-allow.ndjson")
}

/// Its first turn: in the second one the agent uses the ids of its tool calls again.
fn first_turn() -> String {
    let whole = std::fs::read_to_string(recording()).expect("a recording");
    whole.split_inclusive('\n').take(15).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }
}

fn lint(path: &Path, more: &[&str]) -> Output {
    let mut args = vec!["lint", path.to_str().expect("a path")];
    args.extend(more);
    acp(&args)
}

#[test]
fn a_conforming_recording_exits_with_0_and_a_broken_one_with_1() {
    let folder = Folder::new();
    let good = lint(&folder.write("good.ndjson", first_turn()), &[]);
    assert_eq!(good.status.code(), Some(0), "{}", stdout(&good));
    assert!(stdout(&good).contains(" 0 errors"), "{}", stdout(&good));
    let bad = acp(&["lint", &broken()]);
    assert_eq!(bad.status.code(), Some(1));
    let text = stdout(&bad);
    assert!(text.contains("error[DIFF-01] the diff's path \"a.rs\" is not absolute"), "{text}");
    assert!(text.contains("breaks.ndjson:6  a2c  /params/update/content/0/path"), "{text}");
    assert!(text.contains("\"a.rs\"") && text.contains("^^^^^^"), "{text}");
    assert!(text.contains("hint: report absolute paths"), "{text}");
    let doubtful = acp(&["lint", &data("rules/final-status-left/breaks.ndjson")]);
    assert_eq!(doubtful.status.code(), Some(0), "warnings do not fail");
    let text = stdout(&doubtful);
    assert!(text.contains("warning[TC-07/final] the tool call \"t1\" goes from completed"), "{text}");
}

#[test]
fn what_cannot_be_read_is_named_with_its_line_and_the_rest_is_judged() {
    let folder = Folder::new();
    let good = std::fs::read_to_string(broken()).expect("a case");
    let mut lines: Vec<&str> = good.lines().collect();
    lines.insert(2, "this is not JSON");
    lines.insert(5, r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#);
    lines.push(r#"{"t":1,"dir":"sideways","frame":{}}"#);
    let path = folder.write("mixed.ndjson", lines.join("\n") + "\n");
    let output = lint(&path, &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = stdout(&output);
    assert!(text.contains("mixed.ndjson:3: cannot read the transcript entry: not a JSON object"), "{text}");
    assert!(text.contains("mixed.ndjson:6: a bare JSON-RPC message"), "{text}");
    assert!(text.contains("mixed.ndjson:10: ") && text.contains("\"dir\""), "{text}");
    assert!(text.contains("error[DIFF-01]"), "the rest is judged: {text}");
}

#[test]
fn a_cut_recording_blames_nobody_for_its_missing_end() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(data("rules/prompt-unanswered/near-miss.ndjson")).expect("a case");
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("ending")).collect();
    let whole = folder.write("whole.ndjson", lines.join("\n") + "\n");
    assert_eq!(lint(&whole, &["--waited"]).status.code(), Some(1), "a prompt that is never answered");
    let unknown = lint(&whole, &[]);
    assert_eq!(unknown.status.code(), Some(0), "nobody knows whether the client waited");
    assert!(stdout(&unknown).contains("warning[PT-01]"), "{}", stdout(&unknown));
    let cut = lint(&whole, &["--cut"]);
    assert!(cut.status.success() && !stdout(&cut).contains("PT-01"), "{}", stdout(&cut));
    let says = |end: &str| {
        let last = lines.last().and_then(|line| line.strip_suffix('}')).expect("an object");
        let before = lines[..lines.len() - 1].join("\n");
        lint(&folder.write("says.ndjson", format!("{before}\n{last},\"end\":\"{end}\"}}\n")), &[])
    };
    assert_eq!(says("client-closed").status.code(), Some(1));
    let left = says("client-left");
    assert!(left.status.success() && !stdout(&left).contains("PT-01"), "{}", stdout(&left));
    let cut = folder.write("cut.ndjson", lines.join("\n") + "\n{\"dir\":\"a2c\",\"fra");
    let output = lint(&cut, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("the last line is cut off"), "{}", stdout(&output));
}

#[test]
fn a_line_without_a_frame_is_not_understood_and_nobody_is_blamed_for_it() {
    let folder = Folder::new();
    let text = std::fs::read_to_string(data("rules/prompt-unanswered/near-miss.ndjson")).expect("a case");
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains("ending")).collect();
    lines.insert(2, r#"{"t":0.1,"dir":"a2c","frame":null,"raw":"starting up"}"#);
    lines.insert(4, r#"{"t":0.2,"dir":"a2c","raw":"{\"jsonrpc\":\"2.0\"}"}"#);
    let output = lint(&folder.write("events.ndjson", lines.join("\n") + "\n"), &["--waited"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("events.ndjson:3: not understood: the line has no frame"), "{text}");
    assert!(text.contains("events.ndjson:5: not understood: the line has no frame"), "{text}");
    assert!(!text.contains("TRN-06") && !text.contains("PT-01"), "{text}");
}

#[test]
fn the_summary_counts_what_is_not_shown_too() {
    let folder = Folder::new();
    let noise: String = (0..50).map(|n| format!("{{\"dir\":\"a2c\",\"line\":\"log {n}\"}}\n")).collect();
    let text = stdout(&lint(&folder.write("noise.ndjson", noise), &[]));
    assert!(text.contains("50 errors (50 by the agent, 0 by the client)"), "{text}");
    assert!(text.contains("and 30 more of noise by the agent"), "{text}");
}

#[test]
fn files_that_are_not_there_empty_or_not_text_exit_with_2() {
    let folder = Folder::new();
    let missing = acp(&["lint", "no-such-file.ndjson"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stdout(&missing).contains("no-such-file.ndjson: cannot open it"), "{}", stdout(&missing));
    let empty = lint(&folder.write("empty.ndjson", ""), &[]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(stdout(&empty).contains("there is no frame in it"));
    let binary = lint(&folder.write("binary", [0xff, 0xfe, b'\n', 0, 1, b'\n']), &[]);
    assert_eq!(binary.status.code(), Some(2));
    assert!(stdout(&binary).contains("binary:1: not UTF-8"), "{}", stdout(&binary));
}

#[test]
fn json_sarif_and_junit_carry_the_same_findings() {
    let json: serde_json::Value = serde_json::from_slice(
        &acp(&["lint", "--format", "json", "--stats", "--coverage", &broken()]).stdout,
    )
    .expect("JSON");
    let file = &json["files"][0];
    let finding = file["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|f| f["requirement"] == "DIFF-01")
        .expect("DIFF-01");
    assert_eq!(
        (&finding["rule"], &finding["blame"], &finding["severity"]),
        (&"diff-path".into(), &"agent".into(), &"error".into())
    );
    assert_eq!(finding["evidence"][0]["line"], 6);
    assert_eq!(file["stats"]["updates"]["tool_call"], 1);
    let row = file["coverage"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|row| row["requirement"] == "DIFF-01")
        .expect("a row");
    assert_eq!(row["standing"], "broken");

    let sarif: serde_json::Value =
        serde_json::from_slice(&acp(&["lint", "--format", "sarif", &broken()]).stdout).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    let results = sarif["runs"][0]["results"].as_array().expect("a list");
    let result = results.iter().find(|result| result["ruleId"] == "diff-path").expect("the finding");
    assert_eq!(result["level"], "error");
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 6);

    let junit = stdout(&acp(&["lint", "--format", "junit", &broken()]));
    assert!(junit.contains("<testsuites name=\"acp lint\""), "{junit}");
    assert!(junit.contains("type=\"diff-path\""), "{junit}");
}

#[test]
fn a_redacted_copy_has_no_secret_and_is_judged_alike() {
    let folder = Folder::new();
    let line = |dir: &str, frame: &str| format!("{{\"t\":0.5,\"dir\":\"{dir}\",\"frame\":{frame}}}\n");
    let mut text = std::fs::read_to_string(recording()).expect("a recording");
    text.push_str(&line("c2a", r#"{"jsonrpc":"2.0","id":77,"method":"session/new","params":{"cwd":"/home/ada/secret-project","mcpServers":[{"name":"m","command":"/bin/m","args":[],"env":[{"name":"MY_TOKEN","value":"correct horse battery"}]}]}}"#));
    text.push_str(&line("a2c", r#"{"jsonrpc":"2.0","id":77,"result":{"sessionId":"other"}}"#));
    let path = folder.write("in.ndjson", &text);
    let copy = folder.0.path().join("copy.ndjson");
    let output = lint(&path, &["--redact", "--out", copy.to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("redacted; texts of prompts and answers stay"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let copied = std::fs::read_to_string(&copy).expect("the copy");
    assert_eq!(copied.lines().count(), text.lines().count());
    for secret in ["ada", "horse", "new-host"] {
        assert!(text.contains(secret) && !copied.contains(secret), "{secret}");
    }
    let errors = |path: &Path| {
        let json: serde_json::Value =
            serde_json::from_slice(&lint(path, &["--format", "json"]).stdout).expect("JSON");
        (json["files"][0]["errors"].clone(), json["files"][0]["warnings"].clone())
    };
    assert_eq!(errors(&path), errors(&copy));
}

#[test]
fn a_redacted_copy_has_no_secret_by_name_by_shape_and_in_pieces() {
    let folder = Folder::new();
    let line = |dir: &str, frame: serde_json::Value| {
        format!("{}\n", serde_json::json!({ "t": 0.5, "dir": dir, "frame": frame }))
    };
    let chunk = |text: &str| {
        let update = serde_json::json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m",
            "content": { "type": "text", "text": text } });
        line(
            "a2c",
            serde_json::json!({ "jsonrpc": "2.0", "method": "session/update",
            "params": { "sessionId": "s", "update": update } }),
        )
    };
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let pem = format!("-----BEGIN {0}-----\\nMIIEabcdefghij\\n-----END {0}-----", "PRIVATE KEY")
        .replace("\\n", "\n");
    let servers = serde_json::json!([
        { "name": "m", "command": "/bin/m", "args": [],
          "env": [{ "name": "DATABASE", "value": "plain horse" }, { "name": "CERT", "value": pem }] },
        { "type": "http", "name": "h", "url": "https://ada:battery@example.com/x",
          "headers": [{ "name": "X-Custom", "value": "plain staple" }] },
    ]);
    let mut text = line(
        "c2a",
        serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": { "cwd": "/w", "mcpServers": servers } }),
    );
    text.push_str(&chunk(&format!("the token is {}", &token[..11])));
    text.push_str(&chunk(&format!("{}, and a sentence", &token[11..])));
    text.push_str(&chunk(&format!("\n{pem}\n")));
    let path = folder.write("in.ndjson", &text);
    let copy = folder.0.path().join("copy.ndjson");
    lint(&path, &["--redact", "--out", copy.to_str().expect("a path")]);
    let copied = std::fs::read_to_string(&copy).expect("the copy");
    for secret in ["horse", "staple", "battery", "MIIEabc", &token[..11], &token[11..]] {
        assert!(text.contains(secret) && !copied.contains(secret), "{secret}: {copied}");
    }
    assert!(copied.contains("and a sentence"), "{copied}");
}

#[test]
fn stats_have_latencies_and_sizes() {
    let text = stdout(&acp(&["lint", "--stats", &recording()]));
    for words in [
        "prompt to first chunk",
        "session/new (by the client)",
        "session/request_permission (by the agent)",
        "a2c  ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn requirements_are_listed_filtered_and_explained() {
    let all: serde_json::Value =
        serde_json::from_slice(&acp(&["requirements", "--json"]).stdout).expect("JSON");
    assert_eq!(all.as_array().map(Vec::len), Some(324));
    let area = stdout(&acp(&["requirements", "--area", "term"]));
    assert!(area.contains("TERM-06") && !area.contains("FS-01"), "{area}");
    let one = stdout(&acp(&["requirements", "tc-03"]));
    assert!(
        one.contains("toolCallId unique within the session") && one.contains("tool-call-created-twice"),
        "{one}"
    );
    let clause = stdout(&acp(&["requirements", "rpc-15"]));
    assert!(clause.contains("broken: fail") && clause.contains("warn for RPC-15/code"), "{clause}");
    let notes = stdout(&acp(&["requirements", "--grade", "note"]));
    assert!(notes.contains("TRN-09") && !notes.contains("TRN-06"), "{notes}");
    let wrong = acp(&["requirements", "--area", "NOPE"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("there is no area"), "{}", stderr(&wrong));
}

#[test]
fn a_recording_is_never_lost_to_what_is_made_of_it() {
    let folder = Folder::new();
    let whole = std::fs::read_to_string(recording()).expect("a recording");
    let path = folder.write("r.ndjson", &whole);
    let name = path.to_str().expect("a path");
    let report = lint(&path, &["--out", name]);
    assert_eq!(report.status.code(), Some(2), "{}", stderr(&report));
    assert_eq!(std::fs::read_to_string(&path).expect("the recording"), whole);

    let redacted = lint(&path, &["--redact", "--out", name]);
    assert_eq!(redacted.status.code(), Some(0), "{}", stderr(&redacted));
    let copy = std::fs::read_to_string(&path).expect("the copy");
    assert_eq!(copy.lines().count(), whole.lines().count());

    let damaged = format!("{whole}not a line\n");
    let path = folder.write("d.ndjson", &damaged);
    let refused = lint(&path, &["--redact", "--out", path.to_str().expect("a path")]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(&path).expect("the recording"), damaged);
}

#[test]
fn a_recording_without_times_is_judged_and_shown() {
    let folder = Folder::new();
    let timed = first_turn();
    let untimed = timed.lines().map(|line| {
        let mut entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
        entry.as_object_mut().expect("an object").remove("t");
        format!("{entry}\n")
    });
    let path = folder.write("untimed.ndjson", untimed.collect::<String>());
    let judged = lint(&path, &["--stats"]);
    assert_eq!(judged.status.code(), Some(0), "{}", stdout(&judged));
    assert!(stdout(&judged).contains("has no times"), "{}", stdout(&judged));
    let shown = acp(&["replay", path.to_str().expect("a path")]);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
}

#[test]
fn the_numbers_stand_in_columns() {
    let text = stdout(&acp(&["lint", &recording(), "--stats"]));
    let table: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("seconds ")).collect();
    let rows: Vec<&&str> = table.iter().take_while(|line| !line.is_empty()).collect();
    assert!(rows.len() > 3 && rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
}
