//! Golden reports: results in, every format out.

mod outline;

use acp_comply::Results;
use acp_report::diff::Diff;
use acp_report::matrix::{CapabilityState, DEFAULT_ROWS, Matrix, MatrixFormat};
use acp_report::{ReportFormat, ReportOptions, render};
use acp_testkit::golden;
use std::path::Path;

fn read(path: &Path) -> Results {
    Results::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_format_comes_out_as_written() {
    golden::check("tests/reports", |case| {
        let results = read(&case.join("results.json"));
        let files = [
            ("report.md", ReportFormat::Markdown),
            ("table.md", ReportFormat::Table),
            ("shown.json", ReportFormat::Json),
            ("junit.xml", ReportFormat::Junit),
            ("report.tap", ReportFormat::Tap),
            ("report.sarif", ReportFormat::Sarif),
            ("terminal.txt", ReportFormat::Terminal),
            ("badge.json", ReportFormat::Badge),
        ];
        let text = |format| render(&results, format, ReportOptions::default()).unwrap();
        let mut shown: Vec<(String, String)> =
            files.into_iter().map(|(name, format)| (name.to_owned(), text(format))).collect();
        shown.push(("report.outline.txt".to_owned(), outline::outline(&text(ReportFormat::Html))));
        shown
    });
}

#[test]
fn a_matrix_comes_out_as_written() {
    golden::check("tests/matrices", |case| {
        let mut files: Vec<_> = std::fs::read_dir(case).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let is_results = |path: &&std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("results"))
        };
        let results: Vec<Results> = files.iter().filter(is_results).map(|path| read(path)).collect();
        let matrix = Matrix::of(&results, Matrix::rows(DEFAULT_ROWS).unwrap());
        let text = |format| matrix.render(format).unwrap();
        vec![
            ("matrix.md".to_owned(), text(MatrixFormat::Markdown)),
            ("matrix.outline.txt".to_owned(), outline::outline(&text(MatrixFormat::Html))),
            ("matrix.json".to_owned(), text(MatrixFormat::Json)),
        ]
    });
}

#[test]
fn a_finding_of_the_judge_on_a_requirement_of_the_row_makes_a_cell_wrong() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrices/two-agents/results.json");
    let cell = |requirement: &str| {
        let mut results = read(&case);
        let agent = results.agents.iter_mut().find(|agent| agent.name == "right").unwrap();
        let finding = serde_json::json!({
            "rule": "replay-after-load", "requirement": requirement, "grade": "fail", "blame": "agent",
            "message": "the history came after the answer", "test": "session-load.new-connection",
        });
        agent.findings.push(serde_json::from_value(finding).unwrap());
        let matrix = Matrix::of(&[results], Matrix::rows(DEFAULT_ROWS).unwrap());
        let row = matrix.rows.iter().position(|row| row.name == "session/load").unwrap();
        matrix.columns.iter().find(|column| column.name == "right").unwrap().cells[row].clone()
    };
    let found = cell("SES-04");
    assert_eq!(found.seen, CapabilityState::Wrong);
    assert_eq!(found.words, "works, but SES-04: the history came after the answer");
    assert_eq!(cell("EXT-01").seen, CapabilityState::Right);
}

#[test]
fn a_difference_comes_out_as_written() {
    golden::check("tests/diffs", |case| {
        let diff = Diff::between(&read(&case.join("old.json")), &read(&case.join("new.json")));
        let verdict = if diff.has_regressions() { "worse\n" } else { "no worse\n" };
        vec![("diff.txt".to_owned(), format!("{}{verdict}", diff.to_text()))]
    });
}

#[test]
fn nothing_secret_is_in_any_report_unless_asked_for() {
    let results = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/secrets/results.json"));
    let secrets = [
        "sk-abcdef",
        "ghp_abc",
        "abcdef123456",
        "plainvalue99",
        "0123456789",
        "abcdefghij",
        "/home/alice",
        "/Users/bob",
        "/root",
    ];
    let mut shown = 0;
    for (name, format) in ReportFormat::ALL {
        let hidden = render(&results, format, ReportOptions::default()).unwrap();
        let found: Vec<&str> = secrets.into_iter().filter(|secret| hidden.contains(secret)).collect();
        assert!(found.is_empty(), "{name} shows {found:?}");
        let open =
            render(&results, format, ReportOptions { redact: false, ..ReportOptions::default() }).unwrap();
        shown += secrets.iter().filter(|secret| open.contains(*secret)).count();
    }
    assert!(shown > 10, "the fixture holds secrets that a report without redaction shows");
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let results = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/two-agents/results.json"));
    let page = render(&results, ReportFormat::Html, ReportOptions::default()).unwrap();
    for outside in ["<link", "src=", "@import", "url(", "fetch("] {
        assert!(!page.contains(outside), "the page has {outside}");
    }
    assert!(!page.contains("<greeting>"), "text of a frame is escaped");
}

#[test]
fn json_comes_back_whole() {
    let results = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/two-agents/results.json"));
    let text =
        render(&results, ReportFormat::Json, ReportOptions { redact: false, ..ReportOptions::default() })
            .unwrap();
    assert_eq!(Results::from_json(&text).unwrap(), results);
}

#[test]
fn what_an_agent_says_of_itself_is_text_in_every_report() {
    let results = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/hostile/results.json"));
    for (name, format) in ReportFormat::ALL {
        let text =
            render(&results, format, ReportOptions { redact: false, ..ReportOptions::default() }).unwrap();
        let hidden = ['\u{1b}', '\u{7}', '\u{202e}'].into_iter().find(|hidden| text.contains(*hidden));
        assert_eq!(hidden, None, "{name}");
        if matches!(format, ReportFormat::Json | ReportFormat::Badge) {
            continue;
        }
        let commands = ["::error", "::set-output", "##[", "##vso["];
        let command = text.lines().find(|line| {
            let line = line.trim_start();
            commands[..2].iter().any(|word| line.starts_with(word))
                || commands[2..].iter().any(|word| line.contains(word))
        });
        assert_eq!(command, None, "{name}: a command to a build service");
        if matches!(
            format,
            ReportFormat::Markdown | ReportFormat::Table | ReportFormat::Html | ReportFormat::Junit
        ) {
            // Between backticks everything is text.
            let is_code = |line: &&str| line.starts_with("Closest message heard: `");
            let text: String = text.lines().filter(|line| !is_code(line)).collect::<Vec<_>>().join("\n");
            let link = text.contains("[click](http")
                && matches!(format, ReportFormat::Markdown | ReportFormat::Table);
            assert!(!text.contains("<img") && !link, "{name}: markup in\n{text}");
        }
        let forged = |line: &str| line.starts_with("## forged") || line.starts_with("# big");
        assert!(format == ReportFormat::Html || !text.lines().any(forged), "{name}: a forged heading");
    }
}

#[test]
fn a_summary_is_cut_to_the_screen() {
    let results = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/two-agents/results.json"));
    let options = ReportOptions { width: Some(80), ..ReportOptions::default() };
    let on = |height| render(&results, ReportFormat::Terminal, ReportOptions { height, ..options }).unwrap();
    let (whole, least) = (on(None), on(Some(1)));
    let failures = |text: &str| text.matches("\n  FAIL").count();
    assert!(failures(&whole) > failures(&least) && failures(&least) >= 1, "{whole}");
    assert!(least.contains("more: --verbose and the full report show all"), "{least}");
    let height = whole.lines().count() + 1;
    let fitting = on(Some(height));
    assert!(
        fitting.lines().count() + 2 <= height,
        "the path of the report and the prompt have room: {fitting}"
    );
    assert_eq!(on(Some(height + 1)), whole);
}
