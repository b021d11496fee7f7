//! What the judge, the list of expected failures and the run as a whole make of outcomes.

use acp_comply::{
    AgentRun, Defaults, ExpectedFailures, FindingRef, Outcome, Program, Results, Severity, Standing, Suite,
    Tool, Verdict,
};
use std::collections::BTreeSet;

fn outcome(id: &str, severity: &str, verdict: Verdict) -> Outcome {
    let text = format!(
        "{{ \"title\": \"T\", \"description\": \"D\", \"severity\": \"{severity}\", \"requirements\": [\"A-1\"], \
         \"steps\": [{{ \"newSession\": {{}} }}] }}"
    );
    let program = Program::read(&format!("{id}.jsont"), &text, &Defaults::default()).program.unwrap();
    let mut outcome = Outcome::fault(&program, "");
    outcome.verdict = verdict;
    outcome.reason = None;
    outcome.asserts = true;
    outcome
}

fn finding(requirement: &str, blame: &str) -> FindingRef {
    FindingRef {
        rule: "rule".into(),
        requirement: requirement.into(),
        severity: "must".into(),
        blame: blame.into(),
        message: "wrong".into(),
        hint: None,
        evidence: Vec::new(),
        test: None,
    }
}

fn results(tests: Vec<Outcome>) -> Results {
    Results {
        version: 1,
        tool: Tool { name: "acp".into(), version: "0".into() },
        started: String::new(),
        duration_ms: 0.0,
        suite: Suite { name: "s".into(), files: 0, filtered: 0 },
        agents: vec![AgentRun {
            name: "mock".into(),
            target: String::new(),
            dialect: None,
            version: None,
            isolation: None,
            cost: None,
            header: None,
            fault: None,
            tests,
            findings: Vec::new(),
            exercised: [].into(),
        }],
        interrupted: false,
        warnings: Vec::new(),
        stale: Vec::new(),
    }
}

#[test]
fn a_finding_on_a_claimed_requirement_fails_the_test_and_others_are_handed_on() {
    let mut test = outcome("t", "required", Verdict::Pass);
    let others = test
        .judge(vec![finding("A-1", "agent"), finding("B-2", "agent"), finding("A-1", "client")], &[].into());
    assert_eq!(test.verdict, Verdict::Fail);
    assert_eq!(test.reason.as_deref(), Some("A-1: wrong"));
    assert_eq!(others.len(), 2);
    assert_eq!(others[0].test.as_deref(), Some("t"));
}

#[test]
fn a_finding_on_advice_warns_and_an_unjudged_test_stays_unjudged() {
    let mut advice = outcome("t", "advice", Verdict::Pass);
    advice.judge(vec![finding("A-1", "agent")], &[].into());
    assert_eq!((advice.severity, advice.verdict), (Severity::Advice, Verdict::Warn));
    let mut unjudged = outcome("t", "required", Verdict::Na);
    unjudged.judge(vec![finding("A-1", "agent")], &[].into());
    assert_eq!((unjudged.verdict, unjudged.findings.len()), (Verdict::Na, 1));
}

#[test]
fn an_invariant_that_was_never_exercised_is_vacuous() {
    let mut test = outcome("t", "required", Verdict::Pass);
    test.asserts = false;
    test.judge(Vec::new(), &BTreeSet::from(["A-1".to_owned()]));
    assert!(!test.vacuous);
    test.judge(Vec::new(), &BTreeSet::new());
    assert!(test.vacuous);
    test.require_exercised();
    assert_eq!((test.verdict, test.blocked), (Verdict::Na, true));
}

#[test]
fn a_run_stands_as_its_worst_required_test() {
    let standing = |tests| results(tests).standing(false, false);
    assert_eq!(standing(vec![outcome("a", "required", Verdict::Pass)]), Standing::Holds);
    assert_eq!(standing(vec![outcome("a", "optional", Verdict::Fail)]), Standing::Holds);
    assert_eq!(standing(vec![outcome("a", "advice", Verdict::Warn)]), Standing::Holds);
    assert_eq!(standing(vec![outcome("a", "required", Verdict::Fail)]), Standing::Failed);
    assert_eq!(standing(vec![outcome("a", "optional", Verdict::Error)]), Standing::Incomplete);
    let mut blocked = outcome("a", "required", Verdict::Na);
    assert_eq!(standing(vec![blocked.clone()]), Standing::Holds);
    blocked.blocked = true;
    assert_eq!(standing(vec![blocked.clone()]), Standing::Incomplete);
    assert_eq!(results(vec![blocked.clone()]).standing(false, true), Standing::Holds);
    blocked.severity = Severity::Optional;
    assert_eq!(standing(vec![blocked]), Standing::Holds);
}

#[test]
fn strict_lets_loose_findings_fail_the_run() {
    let mut run = results(vec![outcome("a", "required", Verdict::Pass)]);
    run.agents[0].findings.push(finding("B-2", "agent"));
    assert_eq!(run.standing(false, false), Standing::Holds);
    assert_eq!(run.standing(true, false), Standing::Failed);
}

#[test]
fn an_expected_failure_does_not_fail_the_run_and_a_stale_entry_does() {
    let list = ExpectedFailures::parse("# known\nmock:a  upstream bug 12\nb  flaky model\nc  not run here\n")
        .unwrap();
    let mut run =
        results(vec![outcome("a", "required", Verdict::Fail), outcome("b", "required", Verdict::Fail)]);
    list.apply(&mut run);
    assert_eq!(run.agents[0].tests[0].expected.as_deref(), Some("upstream bug 12"));
    assert_eq!(run.standing(false, false), Standing::Holds);
    let mut fixed = results(vec![outcome("a", "required", Verdict::Pass)]);
    list.apply(&mut fixed);
    assert_eq!(fixed.standing(false, false), Standing::Stale);
    assert_eq!(fixed.stale[0].entry, "mock:a");
    assert_eq!(list.unknown(|id| id != "c")[0].entry, "c");
}

#[test]
fn a_list_without_reasons_is_refused() {
    assert_eq!(ExpectedFailures::parse("a reason\n\nb\n").unwrap_err().line, 3);
    assert_eq!(ExpectedFailures::parse("a r\na r\n").unwrap_err().line, 2);
}
