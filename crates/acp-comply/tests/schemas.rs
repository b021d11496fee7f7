//! The published JSON Schemas say what the code does.

use acp_comply::results::{
    Calibrated, Cost, ExitRecord, Explanation, Isolation, Outside, StepRecord, TranscriptLine,
};
use acp_comply::verdict::{BreakKind, ClaimResult, ClaimState, RequirementEvidence, Sighting};
use acp_comply::{
    AgentRun, Conformance, Defaults, EvidenceRef, FindingRef, Header, Observation, Program, RESULTS_VERSION,
    ReportingTool, RequirementResult, RequirementState, Results, StaleExpectation, StepState, Suite, Table,
    TestOutcome, Verdict,
};
use acp_match::{Vars, interpolate_text};
use acp_proto::Direction;
use acp_rules::{ClaimId, Grade, Side};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema(name: &str) -> jsonschema::Validator {
    let text = std::fs::read_to_string(root().join("schemas").join(name)).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn phase_one(text: &str) -> String {
    let vars = Vars::new()
        .with("protocolVersionDefault", 1)
        .with("clientCapabilitiesDefault", json!({}))
        .with("mcpStubArgs", json!([]));
    interpolate_text(text, &vars).text
}

fn test_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            test_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "jsont") {
            found.push(path);
        }
    }
}

#[test]
fn the_schema_of_tests_agrees_with_the_reader() {
    let schema = schema("jsont.schema.json");
    let mut files = Vec::new();
    test_files(&root().join("suites"), &mut files);
    test_files(&root().join("crates/acp-comply/tests"), &mut files);
    // What only a look across the file can tell, and plain regular expressions and paths, are beyond a schema.
    let beyond = [
        "session-id-before",
        "unknown-variable",
        "unclosed",
        "place-after",
        "bad-regex",
        "response-without",
        "bad-sandbox/",
        "endless",
        "bad-preconditions",
        "bad-claims",
    ];
    let mut checked = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.display().to_string();
        let Ok(value) = serde_json::from_str::<Value>(&phase_one(&text)) else { continue };
        let reads = Program::read(&name, &text, &Defaults::default()).program.is_some();
        let valid = schema.is_valid(&value);
        let allowed = beyond.iter().any(|case| name.contains(case)) || name.contains("key-twice");
        assert!(
            reads == valid || (allowed && !reads) || name.contains("unknown-capability"),
            "{name}: the reader says {reads}, the schema says {valid}"
        );
        checked += 1;
    }
    assert!(checked > 100, "only {checked} files were checked");
}

#[test]
fn results_agree_with_their_schema_and_come_back_whole() {
    let results = everything();
    let text = results.to_json().unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let schema = schema("results.schema.json");
    let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(Results::from_json(&text).unwrap(), results);
}

#[test]
fn results_of_a_later_version_are_refused() {
    let later = everything().to_json().unwrap().replacen("\"version\": 2", "\"version\": 9", 1);
    assert!(Results::from_json(&later).unwrap_err().to_string().contains("update the tool"));
    assert!(Results::from_json("{}").unwrap_err().to_string().contains("no \"version\""));
}

#[test]
fn results_of_version_1_can_still_be_read() {
    let text = std::fs::read_to_string(root().join("crates/acp-comply/tests/results-v1.json")).unwrap();
    let results = Results::from_json(&text).unwrap();
    let agent = &results.agents[0];
    assert_eq!((agent.findings[0].grade, agent.findings[0].blame), (Grade::Warn, Side::Agent));
    assert_eq!(agent.tests[0].findings[0].grade, Grade::Fail);
    assert_eq!(agent.tests[0].transcript[0].dir, Direction::ClientToAgent);
    // By its severity, as that version judged.
    let words = "NOT CONFORMANT: 1 required test failed";
    assert_eq!(results.conformance(agent).to_string(), words);
}

/// Results with every field filled.
fn everything() -> Results {
    let text = "{ \"title\": \"T\", \"description\": \"D\", \"severity\": \"optional\", \"docs\": [\"https://x\"], \
                \"requirements\": [\"A-1\"], \"aliases\": [\"B-1\"], \"steps\": [{ \"newSession\": {} }] }";
    let program = Program::read("t.jsont", text, &Defaults::default()).program.unwrap();
    let finding = FindingRef {
        rule: "r".into(),
        requirement: "A-1".into(),
        clause: Some("part".into()),
        grade: Grade::Fail,
        blame: Side::Agent,
        message: "m".into(),
        hint: Some("h".into()),
        evidence: vec![EvidenceRef {
            index: 3,
            at_ms: 1.5,
            dir: Direction::AgentToClient,
            excerpt: "{}".into(),
            pointer: Some("/x".into()),
        }],
        test: Some("t".into()),
        absent: true,
    };
    let mut outcome = TestOutcome::fault(&program, "broken");
    outcome.verdict = Verdict::Fail;
    outcome.notes.push("note".into());
    outcome.steps.push(StepRecord {
        line: 1,
        kind: "newSession".into(),
        at_ms: 0.0,
        took_ms: 2.25,
        state: StepState::Unmet,
        detail: Some("d".into()),
    });
    outcome.difference = Some(Explanation {
        line: 1,
        expected: json!({}),
        closest: Some("{}".into()),
        closest_at_ms: Some(1.0),
        differences: vec!["x".into()],
    });
    outcome.unanswered.push("2".into());
    outcome.exit = Some(ExitRecord { code: Some(1), signal: None, stderr: "e".into() });
    outcome.findings.push(finding.clone());
    outcome.transcript.push(TranscriptLine { at_ms: 0.0, dir: Direction::ClientToAgent, text: "{}".into() });
    outcome.attempts = vec![Verdict::Pass, Verdict::Fail];
    outcome.expected = Some("known".into());
    outcome.model = vec![json!({"event": "request"})];
    let sighting = Sighting { at_ms: 1.5, dir: Direction::AgentToClient, excerpt: "{}".into() };
    outcome.claims = vec![ClaimResult {
        id: "SES-01".parse::<ClaimId>().unwrap(),
        grade: Grade::Fail,
        state: ClaimState::Broken,
        kind: Some(BreakKind::Absent),
        reason: Some("r".into()),
        frames: vec![sighting.clone()],
    }];
    outcome.needs_second_run = true;
    outcome.not_understood = true;
    outcome.provided = vec!["read".into()];
    let introduction =
        json!({ "protocolVersion": 1, "agentCapabilities": {}, "authMethods": [{ "id": "key" }] });
    let session = json!({ "sessionId": "s", "modes": { "availableModes": [{ "id": "code" }] } });
    let commands = json!({ "params": { "update": { "availableCommands": [{ "name": "web" }] } } });
    let mut header = Header::new(&Table::v1(), &json!({}), &introduction, Some(&session), [&commands]);
    assert_eq!(header.modes, Some(vec!["code".to_owned()]));
    assert_eq!(header.commands, Some(vec!["web".to_owned()]));
    assert_eq!(header.auth_methods, vec!["key".to_owned()]);
    header.blocked = Some("login".into());
    Results {
        version: RESULTS_VERSION,
        tool: ReportingTool { name: "acp".into(), version: "0".into() },
        started: "2026-01-01T00:00:00Z".into(),
        duration_ms: 12.5,
        suite: Suite { name: "v1".into(), files: 1, filtered: 0 },
        agents: vec![AgentRun {
            name: "mock".into(),
            target: "acp mock".into(),
            side: Side::Client,
            dialect: Some("v1".into()),
            version: Some("1.2.3".into()),
            isolation: Some(Isolation {
                own: vec!["home".into()],
                loopback_only: true,
                user: Some("65534".into()),
                outside: Some(Outside { no_route: 1, no_port: 2 }),
            }),
            cost: Some(Cost { agent_ms: 1.0, waits_ms: 2.0, runner_ms: 0.5 }),
            header: Some(header),
            fault: Some("f".into()),
            tests: vec![outcome],
            findings: vec![finding],
            exercised: [("A-1".to_owned(), 1)].into(),
            expected: [("A-1".to_owned(), "known".to_owned())].into(),
            requirements: vec![RequirementResult {
                id: "A-1".into(),
                grade: Grade::Fail,
                state: RequirementState::Broken,
                reason: Some("r".into()),
                expected: Some("known".into()),
                evidence: vec![RequirementEvidence {
                    test: Some("t".into()),
                    words: Some("w".into()),
                    frames: vec![sighting],
                }],
            }],
            conformance: Some(Conformance::NotConformant {
                requirements: vec!["A-1".into()],
                tests: vec!["t".into()],
            }),
            calibration: Some(Calibrated {
                found: [(
                    "read".to_owned(),
                    Observation { wording: Some("w".into()), how: Some("h".into()), took_ms: 1.0 },
                )]
                .into(),
                missing: [("plan".to_owned(), "no plan came".to_owned())].into(),
                first_answer_ms: 12.0,
                exits_at_eof: Some(true),
            }),
        }],
        interrupted: true,
        warnings: vec!["w".into()],
        stale: vec![StaleExpectation { line: 1, entry: "t".into(), why: "passes".into() }],
    }
}
