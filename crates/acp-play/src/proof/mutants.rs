//! Small changes of a test: each makes it stricter or laxer.

use acp_comply::Program;
use acp_comply::program::{Envelope, Expect, Expected, Marks, MessageKind, Step, StepKind};
use acp_rules::ClaimId;
use serde_json::Value;

/// A test with one change.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The changed test.
    pub program: Program,
    /// Which way it goes.
    pub change: Mutation,
    /// What it takes away.
    pub aim: MutationAim,
    /// The line of the change in the file, from 1.
    pub line: usize,
    /// What was changed, in a few words.
    pub what: String,
}

/// Which way a change goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// The test asks for more: a legal variant must fail it.
    Stricter,
    /// The test asks for less: a defect must slip through.
    Laxer,
}

/// What a change takes away, which decides who must notice it, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MutationAim {
    /// A condition of the whole test. A legal agent that it left out must get another verdict, or another reason for it.
    Applies,
    /// Something that a check allowed. A legal agent must get another verdict, or a claim in another state.
    Excuse,
    /// Something that keeps the test from blaming an agent for the wrong thing, or from passing without a witness. An
    /// agent, legal or not, must get another verdict, or a claim in another state.
    Guard,
    /// A check of a claim. A defect that it caught must go without the complaint, get a lighter one, or be caught by
    /// another step.
    Check,
}

/// Keys whose values say which message is meant, and not what it must be like.
const NAMES: [&str; 6] = ["id", "method", "sessionUpdate", "sessionId", "jsonrpc", "toolCallId"];

/// Every small change of a test.
pub fn mutants(program: &Program) -> Vec<Mutant> {
    let mut found = Vec::new();
    let (change, aim, line) = (Mutation::Stricter, MutationAim::Applies, 1);
    for at in 0..program.preconditions.len() {
        let mut changed = program.clone();
        let gone = changed.preconditions.remove(at);
        let what = format!("the precondition {} is gone", gone.describe());
        found.push(Mutant { program: changed, change, aim, line, what });
    }
    for (at, need) in program.needs.iter().enumerate() {
        let mut changed = program.clone();
        changed.needs.remove(at);
        let what = format!("the need of {need:?} is gone");
        found.push(Mutant { program: changed, change, aim, line, what });
    }
    steps(program, &program.steps, &mut Vec::new(), &mut found);
    found
}

/// Changes of the steps below a place; the place is a way through repetitions.
fn steps(program: &Program, below: &[Step], way: &mut Vec<usize>, found: &mut Vec<Mutant>) {
    for (at, step) in below.iter().enumerate() {
        way.push(at);
        let mut add = |aim: MutationAim, line: usize, what: String, edit: &dyn Fn(&mut Step)| {
            let mut changed = program.clone();
            if let Some(step) = find(&mut changed.steps, way) {
                edit(step);
                let change = if aim == MutationAim::Check { Mutation::Laxer } else { Mutation::Stricter };
                found.push(Mutant { program: changed, change, aim, line, what });
            }
        };
        marks(program, step, &below[at + 1..], &mut add);
        match &step.kind {
            StepKind::Expect(expect) => expectation(step, expect, &mut add),
            StepKind::Forbid { methods, messages, .. } => forbidden(step, methods, messages, &mut add),
            StepKind::ExpectFile { .. } | StepKind::ExpectMcp { .. } | StepKind::ExpectExit { .. } => {
                if let Some(aim) = aim_of(&step.marks) {
                    let what = format!("the step {} is gone", step.kind.name());
                    add(aim, step.line, what, &|step| step.kind = nothing());
                }
            }
            StepKind::Send { expect_error: true, .. } => {
                if let Some(aim) = aim_of(&step.marks) {
                    add(aim, step.line, "the answer may be a result".to_owned(), &|step| {
                        if let StepKind::Send { expect_error, .. } = &mut step.kind {
                            *expect_error = false;
                        }
                    });
                }
            }
            StepKind::Repeat { steps: inner, .. } => {
                let inner = inner.clone();
                steps(program, &inner, way, found);
            }
            _ => {}
        }
        way.pop();
    }
}

type Add<'a> = dyn FnMut(MutationAim, usize, String, &dyn Fn(&mut Step)) + 'a;

/// What is taken away with a step or a message: a check when it shows something, a guard when it is a witness. What is
/// neither shows nothing: an agent that does not meet it ends the test without a verdict, and [`marks`] changes that.
fn aim_of(marks: &Marks) -> Option<MutationAim> {
    match (marks.shows.is_empty(), marks.witness.is_empty()) {
        (false, _) => Some(MutationAim::Check),
        (true, false) => Some(MutationAim::Guard),
        (true, true) => None,
    }
}

fn names(claims: &[ClaimId]) -> String {
    claims.iter().map(ClaimId::as_str).collect::<Vec<_>>().join(", ")
}

fn marks(program: &Program, step: &Step, rest: &[Step], add: &mut Add<'_>) {
    let shown = if step.marks.shows.is_empty() { &program.claims } else { &step.marks.shows };
    if waits_for_any_answer(step) && breaks_when_unanswered(program, rest, shown) {
        return;
    }
    if !step.marks.shows.is_empty() {
        let what = format!("the step does not show {}", names(&step.marks.shows));
        add(MutationAim::Check, step.line, what, &|step| step.marks.shows.clear());
        return;
    }
    let is_excused = match &step.kind {
        StepKind::Expect(expect) => expect.otherwise_na.is_some() || step.unless.is_some(),
        _ => step.unless.is_some(),
    };
    if is_excused {
        let what = "an unmet step breaks what the test claims".to_owned();
        add(MutationAim::Guard, step.line, what, &|step| {
            step.unless = None;
            step.marks.shows.clone_from(&program.claims);
            if let StepKind::Expect(expect) = &mut step.kind {
                expect.otherwise_na = None;
            }
        });
    }
}

/// Whether a step waits for answers of whatever kind, so that only a missing answer does not meet it.
fn waits_for_any_answer(step: &Step) -> bool {
    let StepKind::Expect(expect) = &step.kind else { return false };
    expect.messages.iter().flat_map(|message| &message.alternatives).all(is_any_answer)
}

/// Whether a missing answer breaks these claims without this step, too: a request that is never answered breaks what the next
/// step would show. That is so as long as the agent waits for nothing from the test.
fn breaks_when_unanswered(program: &Program, rest: &[Step], shown: &[ClaimId]) -> bool {
    let is_left_waiting = |step: &Step| match &step.kind {
        StepKind::Expect(expect) => {
            expect.messages.iter().flat_map(|message| &message.alternatives).any(|envelope| envelope.no_reply)
        }
        _ => false,
    };
    let shows = |step: &Step| {
        let StepKind::Expect(expect) = &step.kind else { return step.marks.shows.clone() };
        let own = expect.messages.iter().flat_map(|message| &message.marks.shows);
        step.marks.shows.iter().chain(own).cloned().collect()
    };
    let mut later = rest.iter().filter(|step| !matches!(step.kind, StepKind::Forbid { .. })).map(shows);
    let next = later.find(|shows| !shows.is_empty()).unwrap_or_default();
    !program.steps.iter().any(is_left_waiting) && shown.iter().all(|claim| next.contains(claim))
}

fn expectation(step: &Step, expect: &Expect, add: &mut Add<'_>) {
    for (at, message) in expect.messages.iter().enumerate() {
        let line = message.alternatives.first().map_or(step.line, |first| first.line);
        let of = aim_of(&message.marks).into_iter().chain(aim_of(&step.marks)).max();
        message_changes(at, message, (line, of), expect, add);
        for (which, envelope) in message.alternatives.iter().enumerate() {
            let own = (!envelope.witness.is_empty()).then_some(MutationAim::Guard);
            pattern_changes((at, which), envelope, of.or(own), add);
        }
    }
}

fn message_changes(
    at: usize,
    message: &Expected,
    of: (usize, Option<MutationAim>),
    expect: &Expect,
    add: &mut Add<'_>,
) {
    let (line, aim) = of;
    let allowed = allowed_by(aim);
    let edited = move |step: &mut Step, edit: &dyn Fn(&mut Expected)| {
        if let StepKind::Expect(expect) = &mut step.kind
            && let Some(message) = expect.messages.get_mut(at)
        {
            edit(message);
        }
    };
    if message.optional {
        add(allowed, line, "an optional message is demanded".to_owned(), &|step| {
            edited(step, &|message| message.optional = false);
        });
    } else if let (Some(aim), true) = (aim, can_be_left_out(message, expect)) {
        add(aim, line, "a message is optional".to_owned(), &|step| {
            edited(step, &|message| message.optional = true);
        });
    }
    if message.alternatives.len() > 1 {
        for (which, gone) in message.alternatives.iter().enumerate() {
            // What is accepted although it breaks something, or says nothing, is not legal, or not surely.
            let is_plain = gone.breaks.is_empty() && gone.inconclusive.is_none();
            let aim = if is_plain { allowed } else { MutationAim::Guard };
            add(aim, line, format!("alternative {} is gone", which + 1), &|step| {
                edited(step, &|message| drop(message.alternatives.remove(which)));
            });
        }
    }
    if !message.marks.shows.is_empty() {
        let what = format!("the message does not show {}", names(&message.marks.shows));
        add(MutationAim::Check, line, what, &|step| {
            edited(step, &|message| message.marks.shows.clear());
        });
    }
}

/// What is taken away with something that a step or message with this aim allows. Where nothing is checked, an agent that is
/// not allowed something is not blamed, but it is not tested either, whether it is legal or not.
fn allowed_by(aim: Option<MutationAim>) -> MutationAim {
    if aim == Some(MutationAim::Check) { MutationAim::Excuse } else { MutationAim::Guard }
}

/// Whether it makes a difference that a message may be left out: nothing is taken from it, and it is more than any answer
/// to a request, which is missed in every test.
fn can_be_left_out(message: &Expected, expect: &Expect) -> bool {
    message.captures.is_empty()
        && expect.captures.is_empty()
        && !message.alternatives.iter().any(is_any_answer)
}

/// Whether every answer to a request is meant.
fn is_any_answer(envelope: &Envelope) -> bool {
    let keys = envelope.pattern.as_object();
    envelope.kind == MessageKind::Response && keys.is_some_and(|keys| keys.keys().all(|key| key == "id"))
}

fn pattern_changes(place: (usize, usize), envelope: &Envelope, aim: Option<MutationAim>, add: &mut Add<'_>) {
    let (at, which) = place;
    let mut leaves = Vec::new();
    gather(&envelope.pattern, String::new(), &mut leaves);
    for (pointer, pattern) in leaves {
        let edit = |text: String| {
            let pointer = pointer.clone();
            move |step: &mut Step| {
                if let StepKind::Expect(expect) = &mut step.kind
                    && let Some(envelope) =
                        expect.messages.get_mut(at).and_then(|message| message.alternatives.get_mut(which))
                    && let Some(leaf) = envelope.pattern.pointer_mut(&pointer)
                {
                    *leaf = Value::String(text.clone());
                }
            }
        };
        if let (Some(aim), true) = (aim, pattern != "." && !pattern.contains("${")) {
            let what = format!("{pointer} may be anything instead of {pattern}");
            add(aim, envelope.line, what, &edit(".".to_owned()));
        }
        for (cut, tighter) in tightened(&pattern) {
            let what = format!("{pointer} may not be {cut}");
            add(allowed_by(aim), envelope.line, what, &edit(tighter));
        }
    }
}

fn forbidden(step: &Step, methods: &[String], messages: &[Envelope], add: &mut Add<'_>) {
    let Some(aim) = aim_of(&step.marks) else { return };
    for (at, method) in methods.iter().enumerate() {
        add(aim, step.line, format!("{method} is not forbidden"), &|step| {
            if let StepKind::Forbid { methods, .. } = &mut step.kind {
                methods.remove(at);
            }
        });
    }
    for (at, message) in messages.iter().enumerate() {
        add(aim, message.line, "a message is not forbidden".to_owned(), &|step| {
            if let StepKind::Forbid { messages, .. } = &mut step.kind {
                messages.remove(at);
            }
        });
    }
}

/// The patterns at the leaves of an expectation, with their pointers, but for those that only name the message.
fn gather(pattern: &Value, pointer: String, leaves: &mut Vec<(String, String)>) {
    match pattern {
        Value::String(text) => leaves.push((pointer, text.clone())),
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| !NAMES.contains(&key.as_str())) {
                let key = key.replace('~', "~0").replace('/', "~1");
                gather(value, format!("{pointer}/{key}"), leaves);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                gather(value, format!("{pointer}/{at}"), leaves);
            }
        }
        _ => {}
    }
}

/// The patterns that are left when one choice of `^(a|b|c)$` is gone, each with what is gone.
fn tightened(pattern: &str) -> Vec<(String, String)> {
    let Some(inner) = pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$")) else {
        return Vec::new();
    };
    if inner.contains(['(', ')', '[', '\\']) || !inner.contains('|') {
        return Vec::new();
    }
    let choices: Vec<&str> = inner.split('|').collect();
    (0..choices.len())
        .map(|gone| {
            let kept: Vec<&str> =
                choices.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, choice)| *choice).collect();
            (choices[gone].to_owned(), format!("^({})$", kept.join("|")))
        })
        .collect()
}

fn nothing() -> StepKind {
    StepKind::Delay(std::time::Duration::ZERO)
}

fn find<'a>(steps: &'a mut [Step], way: &[usize]) -> Option<&'a mut Step> {
    let (first, rest) = way.split_first()?;
    let step = steps.get_mut(*first)?;
    if rest.is_empty() {
        return Some(step);
    }
    match &mut step.kind {
        StepKind::Repeat { steps, .. } => find(steps, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_comply::Defaults;

    fn changes(steps: &str) -> Vec<(Mutation, String)> {
        let text = format!(
            r#"{{"title": "t", "description": "d", "severity": "required", "docs": [],
            "requirements": ["PT-02"], "preconditions": [{{"agentCap": "loadSession", "mustBe": true}}], "sandbox": {{"files": []}},
            "steps": [{{"newSession": {{}}}}, {{"send": {{"jsonrpc": "2.0", "id": 2, "method": "x"}}}}, {steps}]}}"#
        );
        let reading = Program::read("t.jsont", &text, &Defaults::default());
        let program = reading.program.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
        mutants(&program).into_iter().map(|mutant| (mutant.change, mutant.what)).collect()
    }

    #[test]
    fn each_part_of_an_expectation_is_changed_once() {
        let found = changes(
            r#"{"expect": {"timeoutMs": 10, "messages": [{"response": {"id": 2, "result": {"stopReason": "^(a|b)$"}}},
               {"notification": {"method": "x"}, "optional": true}]}, "shows": ["PT-02"]}"#,
        );
        let said = |change: Mutation| -> Vec<&str> {
            found.iter().filter(|(of, _)| *of == change).map(|(_, what)| what.as_str()).collect()
        };
        assert_eq!(
            said(Mutation::Stricter),
            [
                "the precondition agentCap loadSession must be true is gone",
                "/result/stopReason may not be a",
                "/result/stopReason may not be b",
                "an optional message is demanded",
            ]
        );
        assert_eq!(
            said(Mutation::Laxer),
            [
                "the step does not show PT-02",
                "a message is optional",
                "/result/stopReason may be anything instead of ^(a|b)$"
            ]
        );
    }

    #[test]
    fn a_condition_on_the_way_is_only_taken_for_a_check() {
        let found = changes(
            r#"{"expect": {"timeoutMs": 10, "messages": [{"response": {"id": 2, "result": {"stopReason": "^x$"}}}]},
               "unless": "nothing came"}"#,
        );
        let what: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).skip(1).collect();
        assert_eq!(what, ["an unmet step breaks what the test claims"]);
    }

    #[test]
    fn a_wait_for_any_answer_is_not_changed_when_the_next_step_shows_the_same() {
        let any =
            r#"{"expect": {"timeoutMs": 10, "messages": [{"response": {"id": 2}}]}, "unless": "no answer"}"#;
        let shown = r#"{"expect": {"timeoutMs": 10, "messages": [{"notification": {"method": "x"}}]}, "shows": ["PT-02"]}"#;
        let is_changed = |steps: &str| {
            changes(steps).iter().any(|(_, what)| what == "an unmet step breaks what the test claims")
        };
        assert!(!is_changed(&format!("{any}, {shown}")));
        assert!(is_changed(any), "nothing else breaks the claim");
    }

    #[test]
    fn what_is_allowed_on_the_way_is_a_guard() {
        let text = r#"{"title": "t", "description": "d", "severity": "required", "docs": [], "requirements": ["PT-02"],
            "sandbox": {"files": []}, "steps": [{"newSession": {}}, {"expect": {"messages": [{"anyOf":
            [{"notification": {"method": "a"}}, {"notification": {"method": "b"}}]}]}, "unless": "nothing came"}]}"#;
        let program = Program::read("t.jsont", text, &Defaults::default()).program.expect("a test");
        let gone = |mutant: &Mutant| mutant.what.ends_with("is gone");
        let aims: Vec<MutationAim> =
            mutants(&program).iter().filter(|mutant| gone(mutant)).map(|mutant| mutant.aim).collect();
        assert_eq!(aims, [MutationAim::Guard, MutationAim::Guard]);
    }

    #[test]
    fn what_is_forbidden_is_allowed_once_each() {
        let found = changes(r#"{"forbid": {"timeoutMs": 10, "methods": ["a", "b"]}, "shows": ["PT-02"]}"#);
        let lax = found.iter().filter(|(change, _)| *change == Mutation::Laxer).count();
        assert_eq!(lax, 3, "the step shows nothing, or one of two is allowed");
    }
}
