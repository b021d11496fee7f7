//! What the judge, the list of expected failures and the run as a whole make of outcomes.

use acp_comply::verdict::{
    BreakKind, BrokenClaim, ClaimState, JudgeReport, StepEvidence, TestEnding, TestEvidence, TestVerdict,
    verdict,
};
use acp_comply::{
    AgentRun, Conformance, ConformancePolicy, Defaults, ExpectedFailures, FindingRef, Program, ReportingTool,
    RequirementState, Results, RunStanding, Suite, TestOutcome, UnmetSeverity, Verdict,
};
use acp_rules::{ClaimId, Grade, Side};
use std::collections::BTreeSet;

/// Breaking it fails; it can be seen without the model.
const FAILS: &str = "SES-01";
/// Breaking it warns.
const WARNS: &str = "RPC-10";

fn claim(id: &str) -> ClaimId {
    id.parse().unwrap()
}

fn evidence(claims: &[&str], ending: TestEnding) -> TestEvidence {
    TestEvidence {
        claims: claims.iter().map(|id| claim(id)).collect(),
        severity: UnmetSeverity::Optional,
        steps: StepEvidence {
            shown_by_steps: claims.iter().map(|id| claim(id)).collect(),
            ..StepEvidence::default()
        },
        ending,
        provokes: Vec::new(),
    }
}

fn broken(id: &str, kind: BreakKind) -> BrokenClaim {
    BrokenClaim { claim: claim(id), kind, words: "the agent did wrong".into(), frames: Vec::new() }
}

fn state(found: &TestVerdict, id: &str) -> ClaimState {
    found.claims.iter().find(|result| result.id.as_str() == id).unwrap().state
}

fn finding(requirement: &str, grade: Grade, blame: Side) -> FindingRef {
    FindingRef {
        rule: "rule".into(),
        requirement: requirement.into(),
        clause: None,
        grade,
        blame,
        message: "wrong".into(),
        hint: None,
        evidence: Vec::new(),
        test: None,
        absent: false,
    }
}

#[test]
fn the_worst_broken_claim_decides_whatever_the_severity_says() {
    let mut both = evidence(&[FAILS, WARNS], TestEnding::Completed);
    both.steps.broken = vec![broken(WARNS, BreakKind::Wrong), broken(FAILS, BreakKind::Wrong)];
    let found = verdict(&both, None);
    assert_eq!(found.verdict, Verdict::Fail);
    assert!(found.reason.unwrap().contains(FAILS));
    both.steps.broken.pop();
    assert_eq!(verdict(&both, None).verdict, Verdict::Warn);
}

#[test]
fn a_pass_needs_something_that_was_held() {
    let mut held = evidence(&[FAILS, WARNS], TestEnding::Completed);
    assert_eq!(verdict(&held, None).verdict, Verdict::Na);
    held.steps.held.insert(claim(WARNS));
    let found = verdict(&held, None);
    assert_eq!((found.verdict, state(&found, FAILS)), (Verdict::Pass, ClaimState::NotReached));
}

#[test]
fn what_was_watched_is_held_only_with_a_witness() {
    let mut watched = evidence(&[FAILS], TestEnding::Completed);
    watched.steps.watched.insert(claim(FAILS), true);
    assert_eq!(verdict(&watched, None).verdict, Verdict::Pass);
    watched.steps.has_witness.insert(claim(FAILS));
    let found = verdict(&watched, None);
    assert_eq!((found.verdict, state(&found, FAILS)), (Verdict::Na, ClaimState::NotReached));
    watched.steps.witnessed.insert(claim(FAILS));
    assert_eq!(verdict(&watched, None).verdict, Verdict::Pass);
}

#[test]
fn a_claim_that_no_step_shows_is_the_judges_alone() {
    let mut judged = evidence(&[FAILS], TestEnding::Completed);
    judged.steps.shown_by_steps.clear();
    let exercised = BTreeSet::from([FAILS.to_owned()]);
    let with = |findings: &[FindingRef], exercised: &BTreeSet<String>| {
        verdict(&judged, Some(JudgeReport { findings, exercised })).verdict
    };
    assert_eq!(with(&[], &BTreeSet::new()), Verdict::Na);
    assert_eq!(with(&[], &exercised), Verdict::Pass);
    assert_eq!(with(&[finding(FAILS, Grade::Fail, Side::Agent)], &exercised), Verdict::Fail);
    assert_eq!(with(&[finding(FAILS, Grade::Warn, Side::Agent)], &exercised), Verdict::Warn);
    assert_eq!(with(&[finding(FAILS, Grade::Note, Side::Agent)], &exercised), Verdict::Pass);
    assert_eq!(with(&[finding(FAILS, Grade::Fail, Side::Client)], &exercised), Verdict::Pass);
}

#[test]
fn an_obstacle_hides_no_fault_and_a_fault_of_ours_blames_nobody() {
    let na = TestEnding::NotApplicable { reason: "no stub".into(), blocked: true };
    let mut blocked = evidence(&[FAILS], na);
    assert!(verdict(&blocked, None).blocked);
    blocked.steps.broken = vec![broken(FAILS, BreakKind::Wrong)];
    assert_eq!(verdict(&blocked, None).verdict, Verdict::Fail);
    blocked.ending = TestEnding::Fault("disk full".into());
    assert_eq!(verdict(&blocked, None).verdict, Verdict::Error);
}

#[test]
fn an_absence_asks_for_a_second_run_and_a_wrong_frame_does_not() {
    let mut test = evidence(&[FAILS], TestEnding::Unmet("nothing came".into()));
    test.steps.broken = vec![broken(FAILS, BreakKind::Absent)];
    assert!(verdict(&test, None).needs_second_run);
    test.steps.broken.push(broken("SES-02", BreakKind::Wrong));
    assert!(!verdict(&test, None).needs_second_run);
}

#[test]
fn the_second_run_decides_about_an_absence() {
    let (first, second) = (outcome("t", Verdict::Fail), outcome("t", Verdict::Pass));
    let kept = first.clone().confirmed_by(second);
    assert_eq!((kept.verdict, kept.attempts.len(), kept.notes.len()), (Verdict::Pass, 2, 1));
    let kept = first.clone().confirmed_by(first);
    assert_eq!((kept.verdict, kept.attempts.len(), kept.notes.len()), (Verdict::Fail, 2, 0));
    assert!(!kept.needs_second_run);
}

#[test]
fn an_inconclusive_test_is_neither_a_pass_nor_a_failure() {
    let found = verdict(&evidence(&[FAILS], TestEnding::Inconclusive("it was faster".into())), None);
    assert_eq!((found.verdict, state(&found, FAILS)), (Verdict::Na, ClaimState::Inconclusive));
    assert_eq!(found.reason.as_deref(), Some("inconclusive: it was faster"));
}

// ---- runs ----------------------------------------------------------------------------------------------------------

/// An outcome of a test that claims one requirement.
fn claiming(id: &str, requirement: &str, verdict: Verdict) -> TestOutcome {
    let text = format!(
        "{{ \"title\": \"T\", \"description\": \"D\", \"severity\": \"advice\", \
         \"requirements\": [\"{requirement}\"], \"steps\": [{{ \"newSession\": {{}} }}] }}"
    );
    let mut made = made(id, &text, verdict);
    made.claims[0].state = match verdict {
        Verdict::Fail | Verdict::Warn => ClaimState::Broken,
        Verdict::Pass => ClaimState::Held,
        _ => ClaimState::NotReached,
    };
    made
}

/// An outcome of a test without claims.
fn foreign(id: &str, severity: &str, verdict: Verdict) -> TestOutcome {
    let text = format!(
        "{{ \"title\": \"T\", \"description\": \"D\", \"severity\": \"{severity}\", \
         \"steps\": [{{ \"newSession\": {{}} }}] }}"
    );
    made(id, &text, verdict)
}

fn outcome(id: &str, verdict: Verdict) -> TestOutcome {
    claiming(id, FAILS, verdict)
}

fn made(id: &str, text: &str, verdict: Verdict) -> TestOutcome {
    let program = Program::read(&format!("{id}.jsont"), text, &Defaults::default()).program.unwrap();
    let mut outcome = TestOutcome::fault(&program, "");
    outcome.verdict = verdict;
    outcome.reason = None;
    outcome
}

fn results(tests: Vec<TestOutcome>) -> Results {
    let mut agent = AgentRun::new("mock", "acp mock");
    agent.tests = tests;
    Results {
        version: 2,
        tool: ReportingTool { name: "acp".into(), version: "0".into() },
        started: String::new(),
        duration_ms: 0.0,
        suite: Suite { name: "s".into(), files: 0, filtered: 0 },
        agents: vec![agent],
        interrupted: false,
        warnings: Vec::new(),
        stale: Vec::new(),
    }
}

fn concluded(mut run: Results, policy: ConformancePolicy) -> (RunStanding, String) {
    run.conclude(policy);
    (run.standing(), run.conformance(&run.agents[0]).to_string())
}

fn stands(tests: Vec<TestOutcome>) -> (RunStanding, String) {
    concluded(results(tests), ConformancePolicy::default())
}

#[test]
fn a_broken_requirement_fails_the_run_and_one_that_was_not_reached_leaves_it_incomplete() {
    assert_eq!(stands(vec![outcome("a", Verdict::Pass)]), (RunStanding::Conformant, "CONFORMANT".into()));
    let words = "NOT CONFORMANT: 1 requirement broken (SES-01)".to_owned();
    let two = vec![outcome("a", Verdict::Pass), outcome("b", Verdict::Fail)];
    assert_eq!(stands(two), (RunStanding::NotConformant, words));
    let words = "INCOMPLETE: 1 requirement not reached (SES-01)".to_owned();
    assert_eq!(stands(vec![outcome("a", Verdict::Na)]), (RunStanding::Incomplete, words));
    let held_elsewhere = vec![outcome("a", Verdict::Na), outcome("b", Verdict::Pass)];
    assert_eq!(stands(held_elsewhere).0, RunStanding::Conformant);
    let forgiven = ConformancePolicy { allow_incomplete: true, ..ConformancePolicy::default() };
    assert_eq!(concluded(results(vec![outcome("a", Verdict::Na)]), forgiven).0, RunStanding::Conformant);
}

#[test]
fn a_warning_does_not_fail_the_run_and_need_not_be_reached() {
    let mut warned = results(vec![claiming("a", WARNS, Verdict::Warn)]);
    warned.conclude(ConformancePolicy::default());
    assert_eq!(warned.agents[0].requirements[0].state, RequirementState::Warned);
    assert_eq!(warned.standing(), RunStanding::Conformant);
    assert_eq!(stands(vec![claiming("a", WARNS, Verdict::Na)]).0, RunStanding::Conformant);
}

#[test]
fn a_finding_counts_whether_or_not_a_test_claims_it() {
    let mut run = results(vec![outcome("a", Verdict::Pass)]);
    run.agents[0].findings.push(finding("SES-02", Grade::Fail, Side::Agent));
    run.agents[0].findings.push(finding("C-SES-01", Grade::Fail, Side::Client));
    let words = "NOT CONFORMANT: 1 requirement broken (SES-02)".to_owned();
    assert_eq!(concluded(run, ConformancePolicy::default()), (RunStanding::NotConformant, words));
    let mut foreign = results(vec![foreign("a", "required", Verdict::Pass)]);
    foreign.agents[0].findings.push(finding("SES-02", Grade::Fail, Side::Agent));
    assert_eq!(concluded(foreign.clone(), ConformancePolicy::default()).0, RunStanding::Conformant);
    let strict = ConformancePolicy { strict: true, ..ConformancePolicy::default() };
    assert_eq!(concluded(foreign, strict).0, RunStanding::NotConformant);
}

#[test]
fn tests_without_claims_are_judged_by_their_severity() {
    assert_eq!(stands(vec![foreign("a", "optional", Verdict::Fail)]).0, RunStanding::Conformant);
    assert_eq!(stands(vec![foreign("a", "advice", Verdict::Warn)]).0, RunStanding::Conformant);
    let words = "NOT CONFORMANT: 1 required test failed".to_owned();
    assert_eq!(stands(vec![foreign("a", "required", Verdict::Fail)]), (RunStanding::NotConformant, words));
    let mut blocked = foreign("a", "required", Verdict::Na);
    assert_eq!(stands(vec![blocked.clone()]).0, RunStanding::Conformant);
    blocked.blocked = true;
    assert_eq!(stands(vec![blocked.clone()]).0, RunStanding::Incomplete);
    blocked.severity = UnmetSeverity::Optional;
    assert_eq!(stands(vec![blocked]).0, RunStanding::Conformant);
    let mut strange = foreign("a", "optional", Verdict::Na);
    strange.not_understood = true;
    let words = "INCOMPLETE: 1 test was not understood".to_owned();
    assert_eq!(stands(vec![strange]), (RunStanding::Incomplete, words));
}

#[test]
fn broken_goes_before_incomplete_and_that_before_a_stale_list() {
    let list = ExpectedFailures::parse("a  it was broken\n").unwrap();
    let mut run = results(vec![outcome("a", Verdict::Pass)]);
    list.apply(&mut run);
    assert_eq!(concluded(run.clone(), ConformancePolicy::default()).0, RunStanding::Stale);
    run.agents[0].tests.push(foreign("b", "optional", Verdict::Error));
    let words = "INCOMPLETE: 1 test could not be run".to_owned();
    assert_eq!(concluded(run.clone(), ConformancePolicy::default()), (RunStanding::Incomplete, words));
    run.agents[0].tests.push(claiming("c", "SES-02", Verdict::Fail));
    assert_eq!(concluded(run, ConformancePolicy::default()).0, RunStanding::NotConformant);
}

#[test]
fn an_expected_failure_does_not_fail_the_run_but_is_said() {
    let list = ExpectedFailures::parse("# known\nmock:a  upstream bug 12\nb  flaky model\nc  not run here\n")
        .unwrap();
    let mut run = results(vec![outcome("a", Verdict::Fail), claiming("b", "SES-02", Verdict::Fail)]);
    list.apply(&mut run);
    assert_eq!(run.agents[0].tests[0].expected.as_deref(), Some("upstream bug 12"));
    let words = "CONFORMANT except 2 expected failures".to_owned();
    assert_eq!(concluded(run.clone(), ConformancePolicy::default()), (RunStanding::Conformant, words));
    assert!(run.stale.is_empty());
    // Another test that shows the same is not expected to.
    run.agents[0].tests.push(outcome("d", Verdict::Fail));
    let words = "NOT CONFORMANT: 1 requirement broken (SES-01)".to_owned();
    assert_eq!(concluded(run, ConformancePolicy::default()), (RunStanding::NotConformant, words));
    assert_eq!(list.unknown(&["a", "b"])[0].entry, "c");
}

#[test]
fn optional_tests_without_claims_that_failed_are_said_beside_the_verdict() {
    let mut run =
        results(vec![foreign("a", "required", Verdict::Pass), foreign("b", "optional", Verdict::Fail)]);
    let words = "CONFORMANT except 1 optional test that failed".to_owned();
    assert_eq!(concluded(run.clone(), ConformancePolicy::default()), (RunStanding::Conformant, words));
    run.agents[0].tests.push(foreign("c", "required", Verdict::Fail));
    assert_eq!(concluded(run, ConformancePolicy::default()).0, RunStanding::NotConformant);
}

#[test]
fn a_requirement_can_be_expected_to_be_broken_whatever_shows_it() {
    let list = ExpectedFailures::parse("SES-01  known upstream\n").unwrap();
    let mut run = results(vec![outcome("a", Verdict::Fail)]);
    run.agents[0].findings.push(finding(FAILS, Grade::Fail, Side::Agent));
    list.apply(&mut run);
    run.conclude(ConformancePolicy::default());
    assert_eq!(run.agents[0].conformance, Some(Conformance::ConformantExcept { expected: 1, optional: 0 }));
}

#[test]
fn a_requirement_of_the_list_that_holds_again_makes_it_stale() {
    let stale = |text: &str, filtered: usize| {
        let list = ExpectedFailures::parse(text).unwrap();
        let mut run = results(vec![outcome("a", Verdict::Pass)]);
        run.agents[0].exercised.insert(FAILS.into(), 1);
        run.suite.filtered = filtered;
        list.apply(&mut run);
        run.conclude(ConformancePolicy::default());
        list.settle(&mut run);
        run.stale.into_iter().map(|stale| (stale.line, stale.entry)).collect::<Vec<_>>()
    };
    assert_eq!(stale("# known\nmock:SES-01  once broken\n", 0), [(2, "mock:SES-01".to_owned())]);
    // Of a part of the suite, of another agent, of what comes and goes and of what was not reached nothing is known.
    assert_eq!(stale("mock:SES-01  once broken\n", 1), []);
    assert_eq!(stale("other:SES-01  once broken\n", 0), []);
    assert_eq!(stale("SES-01  sometimes broken\n", 0), []);
    assert_eq!(stale("SES-04  once broken\n", 0), []);
}

#[test]
fn a_written_list_expects_what_the_run_found() {
    let mut run = results(vec![outcome("a", Verdict::Fail), foreign("b", "required", Verdict::Fail)]);
    run.agents[0].findings.push(finding("SES-04", Grade::Fail, Side::Agent));
    run.agents[0].findings.push(finding(WARNS, Grade::Warn, Side::Agent));
    run.conclude(ConformancePolicy::default());
    let text = ExpectedFailures::of_run(&run);
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["#", "mock:SES-01", "mock:SES-04", "mock:b"], "{text}");
    ExpectedFailures::parse(&text).unwrap().apply(&mut run);
    assert_eq!(concluded(run, ConformancePolicy::default()).0, RunStanding::Conformant);
}

#[test]
fn what_did_not_come_is_taken_back_when_the_run_stops_before_a_second_try() {
    let mut test = outcome("a", Verdict::Fail);
    test.claims[0].kind = Some(BreakKind::Absent);
    test.needs_second_run = true;
    assert_eq!(stands(vec![test.clone()]).0, RunStanding::NotConformant);
    test.blame_interruption();
    assert_eq!((test.verdict, test.needs_second_run), (Verdict::Na, false));
    assert_eq!(stands(vec![test]).0, RunStanding::Incomplete);
}

#[test]
fn a_test_fails_as_expected_when_all_that_it_breaks_is_expected() {
    let list = ExpectedFailures::parse("SES-02  known upstream\n").unwrap();
    let mut run =
        results(vec![claiming("a", "SES-02", Verdict::Fail), claiming("b", "SES-03", Verdict::Fail)]);
    list.apply(&mut run);
    run.conclude(ConformancePolicy::default());
    list.settle(&mut run);
    let expected: Vec<_> = run.agents[0].tests.iter().map(|test| test.expected.as_deref()).collect();
    assert_eq!(expected, [Some("known upstream"), None]);
}

#[test]
fn a_list_without_reasons_is_refused() {
    let lines = |text: &str| -> Vec<usize> {
        ExpectedFailures::parse(text).unwrap_err().0.iter().map(|(line, _)| *line).collect()
    };
    assert_eq!(lines("a reason\n\nb\nc\n"), [3, 4]);
    assert_eq!(lines("a r\na r\n"), [2]);
}

#[test]
fn a_pass_without_claims_that_nothing_exercised_can_be_wanted_na() {
    let mut test = foreign("t", "required", Verdict::Pass);
    test.vacuous = true;
    test.require_exercised();
    assert_eq!((test.verdict, test.blocked), (Verdict::Na, true));
}

/// An outcome of a test of a client in which this was broken, before the judge speaks.
fn of_a_client(steps: impl FnOnce(&mut StepEvidence), provokes: &[&str]) -> TestOutcome {
    let text = r#"{ "side": "client", "title": "t", "severity": "required", "requirements": ["C-FS-02"],
                    "steps": [{ "drive": { "verb": "open" } }] }"#;
    let program = Program::read("t.jsont", text, &Defaults::default()).program.unwrap();
    let mut known = evidence(&["C-FS-02"], TestEnding::Completed);
    steps(&mut known.steps);
    known.provokes = provokes.iter().map(|id| (*id).to_owned()).collect();
    let mut outcome = TestOutcome::fault(&program, "");
    outcome.evidence = Some(Box::new(known));
    outcome
}

#[test]
fn a_finding_against_the_client_counts_and_one_against_the_agent_does_not() {
    let mut held = of_a_client(|steps| steps.held.extend([claim("C-FS-02")]), &[]);
    held.judge(vec![finding("C-FS-02", Grade::Fail, Side::Agent)], &BTreeSet::new());
    assert_eq!(held.verdict, Verdict::Pass);
    held.judge(vec![finding("C-FS-02", Grade::Fail, Side::Client)], &BTreeSet::new());
    assert_eq!(held.verdict, Verdict::Fail);
}

#[test]
fn what_a_client_broke_does_not_count_after_the_exam_broke_something_unmeant() {
    let break_it = |steps: &mut StepEvidence| steps.broken = vec![broken("C-FS-02", BreakKind::Wrong)];
    let ours = || vec![finding("EXT-05", Grade::Fail, Side::Agent)];
    let mut unmeant = of_a_client(break_it, &[]);
    unmeant.judge(ours(), &BTreeSet::new());
    assert_eq!(unmeant.verdict, Verdict::Na);
    assert!(unmeant.reason.unwrap().contains("the exam itself broke EXT-05"));
    let mut meant = of_a_client(break_it, &["EXT-05"]);
    meant.judge(ours(), &BTreeSet::new());
    assert_eq!(meant.verdict, Verdict::Fail);
}

#[test]
fn the_silence_of_a_client_is_not_shown_by_the_judge() {
    let mut watched = evidence(&["C-SES-05"], TestEnding::Completed);
    watched.steps.watched.insert(claim("C-SES-05"), false);
    let exercised = BTreeSet::from(["C-SES-05".to_owned()]);
    let judged = || Some(JudgeReport { findings: &[], exercised: &exercised });
    assert_eq!(verdict(&watched, judged()).verdict, Verdict::Na);
    watched.steps.watched.insert(claim("C-SES-05"), true);
    assert_eq!(verdict(&watched, judged()).verdict, Verdict::Pass);
}
