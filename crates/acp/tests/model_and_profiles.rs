//! `acp model` and `acp profiles` as one types them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn acp(args: &[&str]) -> (i32, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_acp")).args(args).output().expect("acp runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code().unwrap_or(-1), text(&ran.stdout), text(&ran.stderr))
}

#[test]
fn profiles_are_listed_and_shown() {
    let (code, out, _) = acp(&["profiles"]);
    assert_eq!(code, 0);
    assert!(out.lines().any(|line| line.starts_with("copilot ") && line.contains("1.0.102")), "{out}");
    let (code, out, _) = acp(&["profiles", "show", "gemini"]);
    assert!(
        code == 0 && out.contains("GOOGLE_GEMINI_BASE_URL=${modelUrl}") && out.contains("read: read_file"),
        "{out}"
    );
    let (_, out, _) = acp(&["profiles", "show", "codex", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(shown["model"]["wire"], "responses");
    let (code, _, err) = acp(&["profiles", "show", "nobody"]);
    assert!(code == 2 && err.contains("nobody") && err.contains("copilot"), "{err}");
}

#[test]
fn others_files_are_listed_with_what_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("settings.json");
    std::fs::write(&file, "{\"agent_servers\": {\"Mine\": {\"command\": \"x\"}, \"Theirs\": {}}} // end\n")
        .expect("a file");
    let (code, out, err) = acp(&["profiles", "--settings", &file.display().to_string()]);
    assert!(code == 0 && out.starts_with("Mine ") && err.contains("Theirs"), "{out}{err}");
    let (code, _, err) = acp(&["profiles", "--registry", "/no/such/file"]);
    assert!(code == 2 && err.contains("/no/such/file"), "{err}");
}

#[test]
fn a_bad_script_is_named_and_a_good_model_tells_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.json");
    std::fs::write(&file, "[{\"do\": [{\"sing\": 1}]}]").expect("a file");
    let (code, _, err) = acp(&["model", "--script", &file.display().to_string()]);
    assert!(code == 2 && err.contains("rules.json") && err.contains("rules[0].do[0]"), "{err}");
    let mut model = Command::new(env!("CARGO_BIN_EXE_acp"))
        .args(["model", "--profile", "claude"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("acp model starts");
    let mut line = String::new();
    BufReader::new(model.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(said["url"], format!("http://127.0.0.1:{}", said["port"]));
    model.kill().expect("it ends");
    model.wait().expect("it ended");
}
