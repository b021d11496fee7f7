//! `acp comply` for a person at a terminal: one screen, not a report of thousands of lines.

use crate::terminal::Terminal;
use crate::{ACP, workspace};

/// What stands on the screen after a run, without colours and what the progress bar drew.
fn screen(args: &[&str]) -> (i32, Vec<String>) {
    let (_temp, folder) = workspace();
    let cache = folder.join("cache");
    let env = [("NO_COLOR", "1"), ("ACP_CACHE_DIR", cache.to_str().expect("a path"))];
    let mut terminal = Terminal::start_on(24, 80, &folder, args, &env);
    let code = terminal.end();
    let shown = terminal.screen();
    // The bar is erased before the summary begins.
    let summary = shown.rsplit("\u{1b}[2K").next().unwrap_or(&shown);
    let page = std::fs::read_to_string(cache.join("reports/comply.html")).unwrap_or_default();
    assert_eq!(page.contains("<html"), shown.contains("full report: "), "{shown}");
    (code, summary.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect())
}

#[test]
fn a_faulty_agent_is_told_on_one_screen_with_its_fault() {
    let agent = format!("{ACP} mock --defect executes-despite-rejection");
    let (code, lines) = screen(&[
        "comply",
        "--command",
        &agent,
        "--test",
        "permission.rejected*",
        "--test",
        "init.agent-info",
    ]);
    let text = lines.join("\n");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("NOT CONFORMANT") && text.contains("FAIL  PERM-03"), "{text}");
    assert!(text.contains("acp explain PERM-03"), "{text}");
    assert!(!text.contains("# ACP Compliance Report"), "{text}");
    assert!(lines.len() <= 24, "{} lines:\n{text}", lines.len());
    // The line that names a file is as long as the file's path.
    let wide = lines.iter().find(|line| line.chars().count() > 80 && !line.starts_with("full report: "));
    assert_eq!(wide, None, "{text}");
}

#[test]
fn an_agent_with_many_faults_fits_on_one_screen_too() {
    let defects = [
        "executes-despite-rejection",
        "agent-info-as-text",
        "capability-as-text",
        "accepts-unknown-method",
        "answers-stray-answers",
        "answers-session-new-twice",
    ];
    let agent = defects.iter().fold(format!("{ACP} mock"), |agent, defect| agent + " --defect " + defect);
    let mut args = vec!["comply", "--command", &agent];
    for test in ["permission.rejected", "init.agent-info", "init.capabilities", "rpc.unknown-*"] {
        args.extend(["--test", test]);
    }
    let (code, lines) = screen(&args);
    let text = lines.join("\n");
    assert_eq!(code, 1, "{text}");
    assert!(text.starts_with("acp  ") && text.contains("NOT CONFORMANT"), "{text}");
    assert!(
        text.contains("  FAIL  ") && text.contains(" more: --verbose and the full report show all"),
        "{text}"
    );
    // One line is left for the prompt of the shell.
    assert!(lines.len() < 24, "{} lines:\n{text}", lines.len());
}

#[test]
fn quiet_says_the_verdict_and_nothing_else() {
    let (code, lines) = screen(&["comply", "-q", "--agent", "mock", "--test", "init.agent-info"]);
    assert_eq!(code, 0);
    assert_eq!(lines, ["mock  CONFORMANT"]);
}
