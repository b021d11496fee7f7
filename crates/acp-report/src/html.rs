//! One self-contained page: summary, filter, failures first, a section per test with the conversation and the findings.

mod lanes;

use acp_comply::{AgentRun, RequirementState, Results, RunStanding, Side, TestOutcome, Verdict};
use acp_proto::Direction;
use acp_rules::registry;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;
use serde_json::Value;

use crate::summary;
use lanes::{LANES, Lanes};

const TEMPLATE: &str = include_str!("../templates/report.html");

/// What a level says that is not a word of the specification.
const LEVELS: [(&str, &str); 2] = [
    ("doc", "The specification states it as a fact, or its schema requires it"),
    ("drv", "It follows from the specification, which does not state it"),
];

pub(crate) fn render(results: &Results) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("report", TEMPLATE)?;
    let agents: Vec<Agent> =
        results.agents.iter().enumerate().map(|(n, agent)| Agent::new(n, results, agent)).collect();
    let areas = areas(results);
    let levels = levels(&agents);
    environment.get_template("report")?.render(context! {
        started => to_the_minute(&results.started),
        tool => format!("{} {}", results.tool.name, results.tool.version),
        suite => results.suite.name.as_str(),
        took => summary::millis(results.duration_ms),
        interrupted => results.interrupted,
        stale => Serde(results.stale.clone()),
        methodology => summary::METHODOLOGY,
        areas => areas,
        levels => levels,
        levels_explained => std::collections::BTreeMap::from(LEVELS),
        lanes => LANES,
        agents => Serde(agents),
    })
}

/// `2026-01-02T03:04:05.678Z` for people.
fn to_the_minute(time: &str) -> String {
    match (time.get(..10), time.get(10..11), time.get(11..16)) {
        (Some(day), Some("T"), Some(minute)) if time.ends_with('Z') => format!("{day} {minute} UTC"),
        _ => time.to_owned(),
    }
}

fn areas(results: &Results) -> Vec<String> {
    let mut areas: Vec<String> = Vec::new();
    for test in results.agents.iter().flat_map(|agent| &agent.tests) {
        if !areas.contains(&test.area) {
            areas.push(test.area.clone());
        }
    }
    areas
}

/// The levels of the requirements that tests claim, the strongest first.
fn levels(agents: &[Agent]) -> Vec<&'static str> {
    let mut levels: Vec<_> =
        agents.iter().flat_map(|agent| &agent.tests).flat_map(|test| &test.levels).collect();
    levels.sort();
    levels.dedup();
    levels.into_iter().map(|(_, word)| *word).collect()
}

#[derive(Serialize)]
struct Agent {
    key: String,
    name: String,
    title: String,
    target: String,
    fault: Option<String>,
    caps: String,
    modes: String,
    counts: String,
    holds: bool,
    standing: String,
    bars: Vec<Bar>,
    broken: Vec<Broken>,
    tests: Vec<Test>,
    findings: Vec<Finding>,
}

/// A requirement that the agent breaks.
#[derive(Serialize)]
struct Broken {
    word: &'static str,
    id: String,
    level: &'static str,
    text: String,
    reason: String,
    expected: Option<String>,
    /// The test that shows it.
    test: Option<String>,
}

#[derive(Serialize)]
struct Bar {
    word: &'static str,
    count: usize,
    percent: String,
}

#[derive(Serialize)]
struct Test {
    key: String,
    id: String,
    title: String,
    description: Option<String>,
    severity: &'static str,
    area: String,
    verdict: &'static str,
    vacuous: bool,
    reason: Option<String>,
    expected: Option<String>,
    notes: Vec<String>,
    took: String,
    requirements: Vec<String>,
    /// How strongly the requirements bind, the strongest first, with their order.
    levels: Vec<(usize, &'static str)>,
    reproduce: String,
    aliases: Vec<String>,
    docs: Vec<Link>,
    steps: Vec<Step>,
    difference: Option<Difference>,
    findings: Vec<Finding>,
    exit: Option<String>,
    stderr: String,
    frames: Vec<Frame>,
    elided: usize,
}

#[derive(Serialize)]
struct Link {
    url: String,
    name: String,
}

#[derive(Serialize)]
struct Step {
    line: usize,
    kind: String,
    state: &'static str,
    took: String,
    detail: Option<String>,
}

#[derive(Serialize)]
struct Difference {
    line: usize,
    expected: String,
    closest: Option<String>,
    differences: Vec<String>,
}

#[derive(Serialize)]
struct Finding {
    severity: String,
    requirement: String,
    rule: String,
    message: String,
    hint: Option<String>,
    test: Option<String>,
    evidence: Vec<String>,
}

#[derive(Serialize)]
struct Frame {
    at: String,
    arrow: &'static str,
    side: &'static str,
    lane: usize,
    lane_name: &'static str,
    gist: String,
    text: String,
    marked: bool,
}

impl Agent {
    fn new(n: usize, results: &Results, agent: &AgentRun) -> Agent {
        let tally = agent.tally();
        let total = tally.total().max(1);
        let bars = [
            ("PASS", tally.pass),
            ("FAIL", tally.fail),
            ("WARN", tally.warn),
            ("PARTIAL", tally.partial),
            ("NA", tally.na),
            ("ERROR", tally.error),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| Bar {
            word,
            count,
            percent: format!("{:.2}", 100.0 * count as f64 / total as f64),
        })
        .collect();
        Agent {
            key: format!("a{n}"),
            name: agent.name.clone(),
            title: summary::title(agent),
            target: agent.target.clone(),
            fault: agent.fault.clone(),
            caps: summary::caps(agent),
            modes: summary::modes(agent),
            counts: summary::counts(&tally),
            holds: results.conformance(agent).standing() == RunStanding::Conformant,
            standing: results.conformance(agent).to_string(),
            bars,
            broken: broken(agent),
            tests: tests(n, results, agent),
            findings: agent
                .findings
                .iter()
                .filter(|finding| finding.blame == Side::Agent)
                .map(Finding::new)
                .collect(),
        }
    }
}

/// The requirements that are broken: failures first, known ones and warnings after them.
fn broken(agent: &AgentRun) -> Vec<Broken> {
    let of = |state: RequirementState, is_known: bool| {
        let is_such = move |row: &&acp_comply::RequirementResult| {
            row.state == state && row.expected.is_some() == is_known
        };
        agent.requirements.iter().filter(is_such).map(move |row| {
            let known = registry().get(&row.id);
            Broken {
                word: if state == RequirementState::Broken { "FAIL" } else { "WARN" },
                id: row.id.clone(),
                level: known.map_or("", |known| known.level.as_str()),
                text: known.map(|known| known.text.clone()).unwrap_or_default(),
                reason: row.reason.clone().unwrap_or_default(),
                expected: row.expected.clone(),
                test: row.evidence.iter().find_map(|evidence| evidence.test.clone()),
            }
        })
    };
    let (failed, warned) = (RequirementState::Broken, RequirementState::Warned);
    of(failed, false).chain(of(failed, true)).chain(of(warned, false)).chain(of(warned, true)).collect()
}

/// The tests of an agent: what failed first, then what warned, then what passed, then what did not apply.
fn tests(n: usize, results: &Results, agent: &AgentRun) -> Vec<Test> {
    let rank = |test: &&TestOutcome| match test.verdict {
        Verdict::Fail | Verdict::Error if test.expected.is_none() => 0,
        Verdict::Fail | Verdict::Error => 1,
        Verdict::Warn => 2,
        Verdict::Partial => 3,
        Verdict::Na => 5,
        _ => 4,
    };
    let mut tests: Vec<&TestOutcome> = agent.tests.iter().collect();
    tests.sort_by_key(rank);
    let run = run_of(results, agent);
    tests.into_iter().map(|test| Test::new(n, test, format!("{run} --test {} --verbose", test.id))).collect()
}

/// Whether a target is where an agent listens, not how one is started.
fn is_address(target: &str) -> bool {
    let scheme = target.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// The command that runs this agent again, without a test.
fn run_of(results: &Results, agent: &AgentRun) -> String {
    let target = &agent.target;
    let mut line = "acp comply".to_owned();
    // One suite by its name or folder; several stand in the name with blanks between them.
    if results.suite.name != "v1" && !results.suite.name.contains(' ') {
        line += &format!(" --suite {}", quoted(&results.suite.name));
    }
    let (flag, value) = match target {
        _ if agent.version.is_some() => ("agent", &agent.name),
        target if is_address(target) => ("connect", target),
        target => ("command", target),
    };
    line += &format!(" --{flag} {}", quoted(value));
    if let Some(dialect) = agent.dialect.as_deref().filter(|dialect| *dialect != "v1") {
        line += &format!(" --dialect {}", quoted(dialect));
    }
    line
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The levels of requirements, the strongest first.
fn levels_of(requirements: &[String]) -> Vec<(usize, &'static str)> {
    let level = |id: &String| registry().get(id.split('/').next().unwrap_or(id)).map(|row| row.level);
    let mut levels: Vec<_> = requirements.iter().filter_map(level).collect();
    levels.sort();
    levels.dedup();
    levels.into_iter().map(|level| (level as usize, level.as_str())).collect()
}

impl Test {
    fn new(n: usize, test: &TestOutcome, reproduce: String) -> Test {
        let mut lanes = Lanes::default();
        let marked: Vec<f64> = test
            .findings
            .iter()
            .flat_map(|finding| &finding.evidence)
            .map(|evidence| evidence.at_ms)
            .chain(test.claims.iter().flat_map(|claim| &claim.frames).map(|frame| frame.at_ms))
            .collect();
        Test {
            key: format!("a{n}-{}", test.id),
            id: test.id.clone(),
            title: test.title.clone(),
            description: test.description.clone(),
            severity: test.severity.as_str(),
            area: test.area.clone(),
            verdict: test.verdict.as_str(),
            vacuous: test.vacuous,
            reason: test.reason.clone(),
            expected: test.expected.clone(),
            notes: test.notes.clone(),
            took: summary::millis(test.duration_ms),
            requirements: test.requirements.clone(),
            levels: levels_of(&test.requirements),
            reproduce,
            aliases: test.aliases.clone(),
            docs: test
                .docs
                .iter()
                .filter(|url| url.starts_with("https://") || url.starts_with("http://"))
                .map(|url| Link { url: url.clone(), name: summary::link_name(url) })
                .collect(),
            steps: test
                .steps
                .iter()
                .map(|step| Step {
                    line: step.line,
                    kind: step.kind.clone(),
                    state: match step.state {
                        acp_comply::StepState::Done => "done",
                        acp_comply::StepState::Unmet => "unmet",
                        acp_comply::StepState::Skipped => "skipped",
                    },
                    took: summary::millis(step.took_ms),
                    detail: step.detail.clone(),
                })
                .collect(),
            difference: test.difference.as_ref().map(|difference| Difference {
                line: difference.line,
                expected: pretty(&difference.expected),
                closest: difference.closest.as_deref().map(pretty_text),
                differences: difference.differences.clone(),
            }),
            findings: test.findings.iter().map(Finding::new).collect(),
            exit: test.exit.as_ref().map(ToString::to_string),
            stderr: test.exit.as_ref().map(|exit| exit.stderr.trim().to_owned()).unwrap_or_default(),
            frames: test
                .transcript
                .iter()
                .map(|line| {
                    let lane = lanes.next(line.dir, &line.text);
                    Frame {
                        at: format!("{:.1}", line.at_ms),
                        arrow: if line.dir == Direction::ClientToAgent { "→" } else { "←" },
                        side: line.dir.sender().as_str(),
                        lane,
                        lane_name: LANES[lane],
                        gist: gist(&line.text),
                        text: pretty_text(&line.text),
                        marked: line.dir == Direction::AgentToClient
                            && marked.iter().any(|at| (at - line.at_ms).abs() < 0.001),
                    }
                })
                .collect(),
            elided: test.elided,
        }
    }
}

impl Finding {
    fn new(finding: &acp_comply::FindingRef) -> Finding {
        Finding {
            severity: finding.grade.as_str().to_uppercase(),
            requirement: finding.requirement.clone(),
            rule: finding.rule.clone(),
            message: finding.message.clone(),
            hint: finding.hint.clone(),
            test: finding.test.clone(),
            evidence: finding
                .evidence
                .iter()
                .map(|evidence| format!("{:.1} ms {} {}", evidence.at_ms, evidence.dir, evidence.excerpt))
                .collect(),
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn pretty_text(text: &str) -> String {
    serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |value| pretty(&value))
}

/// One line that says what a frame is.
fn gist(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return format!("not JSON: {}", text.chars().take(80).collect::<String>());
    };
    let id = value.get("id").map(|id| format!(" #{id}")).unwrap_or_default();
    if let Some(method) = value.get("method").and_then(Value::as_str) {
        let kind = value.pointer("/params/update/sessionUpdate").and_then(Value::as_str);
        return format!("{method}{id}{}", kind.map(|kind| format!(" {kind}")).unwrap_or_default());
    }
    if let Some(error) = value.get("error") {
        let code = error.get("code").map(ToString::to_string).unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        return format!("error{id} {code} {message}");
    }
    format!("result{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("my-agent"), "my-agent");
        assert_eq!(quoted("sh -c 'a'"), "'sh -c '\\''a'\\'''");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_strongest_level_comes_first() {
        let one = |word: &str| {
            let mut all = registry().all().iter();
            all.find(|row| row.level.as_str() == word).expect("one").id.clone()
        };
        let ids = [one("SHOULD"), format!("{}/part", one("MUST")), one("MUST"), "none".to_owned()];
        let levels = levels_of(&ids);
        assert_eq!(levels.iter().map(|(_, word)| *word).collect::<Vec<_>>(), ["MUST", "SHOULD"]);
    }
}
