//! Findings as JUnit XML: a suite per file, a case per requirement that was put to the test.

use acp_rules::{CoverageRow, Severity, registry};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::read::LintedTranscript;

/// One report for all files.
pub(crate) fn render(judged: &[LintedTranscript]) -> Result<String, quick_junit::SerializeError> {
    let mut report = Report::new("acp lint");
    for file in judged {
        report.add_test_suite(suite(file));
    }
    Ok(report.to_string()? + "\n")
}

fn suite(file: &LintedTranscript) -> TestSuite {
    let mut suite = TestSuite::new(file.name.clone());
    if file.unreadable() {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message("the transcript cannot be read completely");
        status.set_description(file.problem_lines().join("\n"));
        suite.add_test_case(TestCase::new("readable", status));
    }
    for row in file.coverage.rows.iter().filter(|row| row.exercised()) {
        suite.add_test_case(case(file, row));
    }
    suite
}

fn case(file: &LintedTranscript, row: &CoverageRow) -> TestCase {
    let own: Vec<_> =
        file.findings.iter().filter(|shown| shown.finding.requirement == row.requirement).collect();
    let lines: Vec<String> = own
        .iter()
        .map(|shown| {
            let line = shown.places.first().map_or(0, |place| place.line);
            format!("{}:{line}: {}: {}", file.name, shown.finding.severity.as_str(), shown.finding.message)
        })
        .collect();
    let broken = own.iter().find(|shown| shown.finding.severity == Severity::Error);
    let status = match broken {
        Some(shown) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(shown.finding.rule).set_message(shown.finding.message.clone());
            status.set_description(lines.join("\n"));
            status
        }
        None => TestCaseStatus::success(),
    };
    let text = registry().get(row.requirement).map_or("", |requirement| requirement.text.as_str());
    let mut case = TestCase::new(format!("{}: {text}", row.requirement), status);
    case.set_classname(row.requirement.rsplit_once('-').map_or("", |(area, _)| area));
    if broken.is_none() && !lines.is_empty() {
        case.set_system_out(lines.join("\n"));
    }
    case
}
