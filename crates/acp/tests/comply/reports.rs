//! Reports: several at once, each readable by its reader.

use crate::{acp, comply, stderr, stdout};

#[test]
fn several_formats_are_written_in_one_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (json, junit, html, badge) = (path("r.json"), path("r.xml"), path("r.html"), path("b.json"));
    let output = comply(&[
        "--test", "trn.*", "--format", "table", "--format", "json", "--out", &json, "--format", "junit",
        "--out", &junit, "--format", "html", "--out", &html, "--format", "badge", "--out", &badge,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("| Compliance Area | mock |") || table.contains("| Compliance Area "), "{table}");
    assert!(table.contains("## mock Summary\n- Caps: "), "{table}");
    let read = |file: &str| std::fs::read_to_string(file).expect("a report");
    assert!(read(&junit).contains("<testsuite name=\"mock\""));
    assert!(read(&html).contains("<!doctype html>"));
    assert!(read(&badge).contains("\"brightgreen\""));
    let same = acp().args(["diff", &json, &json]).output().expect("acp starts");
    assert_eq!((same.status.code(), stdout(&same).as_str()), (Some(0), "no difference\n"));
}

#[test]
fn a_run_that_got_worse_shows_in_the_difference() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (old, new) = (path("old.json"), path("new.json"));
    let right = format!("{} mock --stdio", env!("CARGO_BIN_EXE_acp"));
    let wrong = format!("{right} --defect cancel-ends-turn-normally");
    let base = ["--test", "cancel.after-first-chunk", "--format", "json", "--out"];
    let run = |file: &str, agent: &str| {
        let mut args = base.to_vec();
        args.extend([file, "--command", agent]);
        comply(&args)
    };
    let good = run(&old, &right);
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    let bad = run(&new, &wrong);
    assert_eq!(bad.status.code(), Some(1), "{}", stderr(&bad));
    let diff = acp().args(["diff", &old, &new]).output().expect("acp starts");
    assert_eq!(diff.status.code(), Some(1), "{}", stdout(&diff));
    assert!(stdout(&diff).contains("PASS → FAIL"), "{}", stdout(&diff));
}

#[test]
fn results_of_a_later_version_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("later.json");
    std::fs::write(&file, "{\"version\": 99}").expect("written");
    let output = acp().arg("diff").arg(&file).arg(&file).output().expect("acp starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("version 99"), "{}", stderr(&output));
    std::fs::write(&file, "no json").expect("written");
    let output = acp().arg("matrix").arg(&file).output().expect("acp starts");
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.matches("line 1").count() == 1, "{said}");
}

#[test]
fn the_table_has_the_documented_rows_in_their_order() {
    let tests = "required.* session.new fs.* terminal.respects-off terminal.usage mode.state plan.reported command.run mcp.stdio";
    let mut args = vec!["--agent", "mock", "--format", "table"];
    args.extend(tests.split(' ').flat_map(|test| ["--test", test]));
    let output = comply(&args);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let table = stdout(&output);
    let cell =
        |line: &'_ str| line.strip_prefix("| ")?.split(" |").next().map(|cell| cell.trim_end().to_owned());
    let rows: Vec<String> = table.lines().filter_map(cell).collect();
    let documented = [
        "Initialize",
        "Session New",
        "Prompt Cancel",
        "Capability Respect (FS disabled)",
        "Capability Respect (Terminal off)",
        "Unknown Method Error",
        "FS Read",
        "FS Write",
        "Terminal Usage",
        "Modes",
        "Plans",
        "Slash Commands",
        "MCP (stdio)",
    ];
    let found: Vec<&str> = rows.iter().map(String::as_str).skip_while(|row| *row != documented[0]).collect();
    assert_eq!(found, documented, "{table}");
    assert_eq!(table.matches("FS disabled").count(), 1, "one row for all tests of it: {table}");
    assert!(table.contains("- Notes: version negotiated; "), "{table}");
    assert!(
        table.contains("; respected fs disabled; respected terminal disabled; unknown method refused; "),
        "{table}"
    );
}
