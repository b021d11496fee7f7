//! The real `acp code` binary: its three tools, its exit codes, and its MCP server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use acp_mcp::{McpClient, McpError, ServerSpec};
use serde_json::{Value, json};

const LIB: &str = "\
/// Adds two numbers.
pub fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[cfg(test)]
mod tests {
    #[test]
    fn adding_works() {
        assert_eq!(super::add(1, 2), 3);
    }
}
";

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::write(folder.path().join("src/lib.rs"), LIB).expect("a file");
    fs::write(folder.path().join("notes.md"), "# Notes\n\nNumbers are added.\n").expect("a file");
    folder
}

fn code(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acp"))
        .arg("code")
        .args(args)
        .current_dir(folder)
        .output()
        .expect("acp runs")
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What `acp code` says to a text on its standard input.
fn piped(folder: &Path, args: &[&str], text: &str) -> (Option<i32>, String, String) {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_acp"))
        .arg("code")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("acp runs");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    said(&child.wait_with_output().expect("it ends"))
}

#[test]
fn extract_takes_what_a_text_on_standard_input_mentions() {
    let folder = project();
    let trace = "error[E0308]: mismatched types\n --> src/lib.rs:3:5\n  |\n";
    for args in [&["extract"][..], &["extract", "-"]] {
        let (exit, out, err) = piped(folder.path(), args, trace);
        assert_eq!(exit, Some(0), "{err}");
        assert!(out.starts_with("src/lib.rs:1-4  function add\n"), "{out}");
    }
    let (exit, _, err) = piped(folder.path(), &["extract"], "nothing of that kind: gone.rs:7\n");
    assert_eq!((exit, err.contains("mentions no file")), (Some(2), true), "{err}");
}

#[test]
fn a_search_keeps_to_its_tokens() {
    let folder = project();
    let (exit, out, err) = said(&code(folder.path(), &["search", "add numbers", "--max-tokens", "40"]));
    assert_eq!(exit, Some(0), "{err}");
    assert!(
        out.contains("1 of 3 results") && out.contains("2 more results have no room in 40 tokens"),
        "{out}"
    );
    let (exit, ..) = said(&code(folder.path(), &["search", "add", "--max-tokens", "0"]));
    assert_eq!(exit, Some(2));
}

#[test]
fn what_is_looked_for_may_begin_with_a_dash() {
    let folder = project();
    fs::write(folder.path().join("src/minus.rs"), "fn minus(a: i32) { f(-a, \"--bare\"); }\n")
        .expect("a file");
    for args in [
        &["search", "->"][..],
        &["search", "--max-results", "1", "->", "src"],
        &["search", "--", "--bare"],
        &["query", "-$A", "-l", "rust"],
        &["query", "-l", "rust", "-$A", "--no-tests"],
    ] {
        let (exit, out, err) = said(&code(folder.path(), args));
        assert_eq!((exit, err.as_str()), (Some(0), ""), "{args:?}: {out}");
    }
    for args in [["search", "--exakt", "add"], ["query", "--lang", "add"]] {
        let (exit, _, err) = said(&code(folder.path(), &args));
        assert_eq!(exit, Some(2), "{args:?}");
        assert!(err.contains("there is no such flag"), "{err}");
    }
}

#[test]
fn search_prints_the_blocks_and_tells_by_its_exit_code() {
    let folder = project();
    let (exit, out, err) = said(&code(folder.path(), &["search", "add numbers"]));
    assert_eq!((exit, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("src/lib.rs:1-4  function add  "), "{out}");
    assert!(out.contains("\n> 1  /// Adds two numbers.\n> 2  pub fn add"), "{out}");
    let (exit, out, _) = said(&code(folder.path(), &["search", "zebra"]));
    assert_eq!((exit, out.as_str()), (Some(1), "no results\n"));
    let (exit, out, err) = said(&code(folder.path(), &["search", "add ("]));
    assert_eq!((exit, out.as_str()), (Some(2), ""));
    assert!(err.contains("cannot read the query at character 5"), "{err}");
}

#[test]
fn json_has_the_agreed_shape() {
    let folder = project();
    let (_, out, _) = said(&code(folder.path(), &["search", "add", "--format", "json", "--no-tests"]));
    let value: Value = serde_json::from_str(&out).expect("JSON");
    let hit = &value["results"][0];
    assert_eq!((&hit["file"], &hit["lines"]), (&json!("src/lib.rs"), &json!([1, 4])));
    assert!(hit["score"].as_f64() > Some(0.0) && hit["code"].is_string());
    assert!(!out.contains("adding_works"), "test code is left out");
    let (_, out, _) = said(&code(folder.path(), &["query", "$A + $B", "--format", "json"]));
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["results"][0]["code"], "a + b");
    assert_eq!(value["total"], 1);
}

#[test]
fn exact_pages_and_limits_work_on_the_command_line() {
    let folder = project();
    let page = |number: &str| {
        let args = ["search", "--exact", "add", "--max-results", "2", "--page", number];
        said(&code(folder.path(), &args))
    };
    assert_eq!(
        page("1").1,
        "notes.md\n  3  Numbers are added.\n\nsrc/lib.rs\n  2  pub fn add(a: i32, b: i32) -> i32 {\n\n2 of 4 results, page 1\n"
    );
    assert!(page("2").1.ends_with("2 of 4 results, page 2\n"));
    assert_eq!(page("3").0, Some(1));
    let (_, all, _) = said(&code(folder.path(), &["search", "--exact", "add", "--max-results", "all"]));
    assert!(all.ends_with("4 results\n"), "{all}");
}

#[test]
fn query_and_extract_work_on_the_command_line() {
    let folder = project();
    let (exit, out, _) = said(&code(folder.path(), &["query", "assert_eq!($$$A)", "-l", "rust"]));
    assert_eq!(
        (exit, out.as_str()),
        (Some(0), "src/lib.rs:10\n  10  assert_eq!(super::add(1, 2), 3)\n\n1 match\n")
    );
    let (exit, _, err) = said(&code(folder.path(), &["query", "fn f( {", "-l", "rust"]));
    assert_eq!(exit, Some(2));
    assert!(err.contains("cannot read the pattern as Rust at line 1, column"), "{err}");
    // Without a language it may be Markdown, which takes anything for text: then it is a note.
    let (exit, out, _) = said(&code(folder.path(), &["query", "# Elsewhere"]));
    assert_eq!(exit, Some(1), "{out}");
    assert!(out.contains("note: cannot read the pattern as Rust at line 1, column"), "{out}");
    // But a bracket that has no partner is no code, unless it is found.
    let (exit, _, err) = said(&code(folder.path(), &["query", "unwrap("]));
    assert_eq!(exit, Some(2), "{err}");
    assert!(err.contains("cannot read the pattern as Rust at line 1, column 7: `(` is not closed"), "{err}");
    fs::write(folder.path().join("more.md"), "Call unwrap( there.\n").expect("a file");
    let (_, out, _) = said(&code(folder.path(), &["query", "unwrap("]));
    assert!(out.contains("note: cannot read the pattern as Rust at line 1, column"), "{out}");
    let (_, out, _) = said(&code(folder.path(), &["query", "pub fn add($$$A) -> i32 { $$$B }"]));
    assert!(!out.contains("note:") && out.contains("1 match"), "{out}");
    let (exit, out, _) = said(&code(folder.path(), &["extract", "src/lib.rs#add", "--format", "markdown"]));
    assert_eq!(exit, Some(0));
    assert!(
        out.starts_with("### src/lib.rs:1-4 · function add\n\n```rust\n/// Adds two numbers.\n"),
        "{out}"
    );
    let (exit, out, _) = said(&code(folder.path(), &["extract", "src/lib.rs#sub", "src/lib.rs:9"]));
    assert_eq!(exit, Some(1));
    assert!(out.starts_with("src/lib.rs#sub  error: \"src/lib.rs\" declares no \"sub\"\n"), "{out}");
    assert!(out.contains("src/lib.rs:8-11  function adding_works"), "{out}");
}

#[test]
fn nothing_outside_the_path_is_read() {
    let folder = project();
    let (exit, _, err) = said(&code(folder.path(), &["search", "add", "..", "--path", "src"]));
    assert_eq!(exit, Some(2));
    assert!(err.contains("lies outside the root"), "{err}");
    let (exit, out, _) = said(&code(folder.path(), &["extract", "../notes.md", "--path", "src"]));
    assert_eq!(exit, Some(1));
    assert!(out.contains("lies outside the root"), "{out}");
}

/// Root reads everything, so the binary runs as another user then.
#[test]
fn a_folder_that_cannot_be_read_is_named() {
    let folder = project();
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    mode(folder.path(), 0o755);
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::write(folder.path().join("src/secret.rs"), "fn add() {}\n").expect("a file");
    mode(&folder.path().join("src/secret.rs"), 0o000);
    mode(&closed, 0o000);
    let (_, out, _) = said(&as_somebody(folder.path(), &["code", "search", "add numbers"]));
    let alone = said(&as_somebody(folder.path(), &["code", "search", "add", "closed"]));
    mode(&closed, 0o755);
    assert!(out.starts_with("src/lib.rs:1-4"), "the rest is searched: {out}");
    assert!(out.contains("note: cannot read closed (permission denied)\n"), "{out}");
    assert!(out.contains("note: cannot read src/secret.rs (permission denied)\n"), "{out}");
    let note = "no results\nnote: cannot read closed (permission denied)\n";
    assert_eq!((alone.0, alone.1.as_str()), (Some(1), note), "whether it holds files is not known");
}

fn as_somebody(folder: &Path, args: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_acp");
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if is_root {
        // The build folder may be closed to others, so the binary is lent to them for the test. Another process makes the
        // copy: what this one writes may still be open in a child of another test, and then it cannot be started.
        let lent = folder.join("acp-lent");
        let copied = Command::new("cp").arg(binary).arg(&lent).status().expect("cp runs");
        assert!(copied.success(), "a copy of the binary");
        fs::set_permissions(&lent, fs::Permissions::from_mode(0o755)).expect("permissions");
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(lent);
        command
    } else {
        Command::new(binary)
    };
    command.args(args).current_dir(folder).output().expect("acp runs as somebody")
}

fn server(folder: &Path) -> ServerSpec {
    ServerSpec::Stdio {
        command: env!("CARGO_BIN_EXE_acp").to_owned(),
        args: ["code", "mcp", "--path", "."].map(str::to_owned).to_vec(),
        env: Vec::new(),
        cwd: Some(folder.to_owned()),
    }
}

#[tokio::test]
async fn the_mcp_server_offers_the_three_tools() {
    let folder = project();
    let client = McpClient::connect(server(folder.path())).await.expect("a server");
    assert_eq!(client.identity().name, "acp-code");
    let names: Vec<_> = client.tools().await.expect("tools").into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["search", "query", "extract"]);
    let found = client.call("search", json!({"query": "add numbers"})).await.expect("an answer");
    assert!(!found.is_error && found.text().starts_with("src/lib.rs:1-4  function add"), "{}", found.text());
    let data = found.structured.as_ref().expect("the same as data");
    assert_eq!((&data["results"][0]["lines"], &data["page"]), (&json!([1, 4]), &json!(1)), "{data}");
    let lost = client.call("extract", json!({"files": ["src/none.rs"]})).await.expect("an answer");
    assert!(lost.is_error && lost.structured.is_some_and(|data| data["failed"] == 1), "{:?}", lost.content);
    let matched = client.call("query", json!({"pattern": "$A + $B"})).await.expect("an answer");
    assert_eq!(matched.text(), "src/lib.rs:3\n  3  a + b\n\n1 match\n");
    let piece = client.call("extract", json!({"files": ["src/lib.rs:3"]})).await.expect("an answer");
    assert!(piece.text().starts_with("src/lib.rs:1-4  function add\n  1  /// Adds"), "{}", piece.text());
    client.close().await;
}

#[tokio::test]
async fn the_mcp_server_keeps_pages_and_says_what_is_wrong() {
    let folder = project();
    let client = McpClient::connect(server(folder.path())).await.expect("a server");
    let mut page = json!({"query": "add", "exact": true, "max_results": 3, "session": "s"});
    let first = client.call("search", page.clone()).await.expect("an answer").text();
    page["nextPage"] = json!(true);
    let second = client.call("search", page.clone()).await.expect("an answer").text();
    assert!(
        first.ends_with("3 of 4 results, page 1\n") && second.ends_with("1 of 4 results, page 2\n"),
        "{second}"
    );
    let failed = client.call("search", json!({"query": "add", "nextPage": true})).await.expect("an answer");
    assert!(failed.is_error && failed.text().contains("nextPage needs a session"), "{}", failed.text());
    let failed = client.call("query", json!({"pattern": "a", "path": "/etc"})).await.expect("an answer");
    assert!(failed.is_error && failed.text().contains("outside the root"), "{}", failed.text());
    let unknown = client.call("dig", json!({})).await.expect_err("a refusal");
    assert!(matches!(unknown, McpError::Refused { .. }), "{unknown}");
    client.close().await;
}
