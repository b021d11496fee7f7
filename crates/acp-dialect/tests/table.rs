//! The table of every method, notification, field, capability and error code of the forms, run against the goldens.
//!
//! `tests/table/<form>.tsv` has one row per item: verdict, where its value lands in v1 (`path` the same value,
//! `path=json` that value, `path?` anything, `-` nowhere), the note that must be there, and what happens in words.
//! An item of an example frame without a row fails, and so does a row without an example.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use acp_dialect::{Dialect, NoteKind};
use acp_rpc::{Direction, Frame};
use acp_testkit::Rng;
use common::{Line, Seen, Speaker, cases, foreign_dialects, options, play, read};
use serde_json::Value;

/// Values that belong to the peers and not to the form.
const OPAQUE: [&str; 5] = ["arguments", "credentials", "experimental", "input", "messages"];
/// Cases that are not about the form's own frames.
const OTHER: [&str; 4] = ["-v1-", "bad-input", "in-practice", "mode-after-new"];

#[derive(Debug)]
struct Row {
    verdict: String,
    lands: String,
    note: String,
    what: String,
}

fn rows(dialect: Dialect) -> BTreeMap<String, Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/table/{dialect}.tsv"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [item, verdict, lands, note, what] = cells.as_slice() else {
            panic!("{dialect}: not five cells: {line}")
        };
        let [verdict, lands, note, what] = [verdict, lands, note, what].map(|cell| (*cell).to_owned());
        assert!(["lossless", "lossy", "absent", "refused"].contains(&verdict.as_str()), "{dialect}: {line}");
        assert!(!what.is_empty(), "{dialect}: {item} does not say what happens");
        let old = rows.insert((*item).to_owned(), Row { verdict, lands, note, what });
        assert!(old.is_none(), "{dialect}: {item} is there twice");
    }
    rows
}

/// An item in a frame, and its value.
type Item = (String, Value);

fn tag(map: &serde_json::Map<String, Value>) -> String {
    let word = |name: &str| map.get(name).and_then(Value::as_str);
    let call = word("kind").filter(|kind| matches!(*kind, "tool_call" | "tool_call_update"));
    word("type")
        .or_else(|| word("sessionUpdate"))
        .or(call)
        .map_or_else(String::new, |word| format!("[{word}]"))
}

fn walk(path: &str, value: &Value, name: &str, items: &mut Vec<Item>) {
    let opaque = OPAQUE.contains(&name)
        || (matches!(name, "env" | "headers") && value.is_object())
        || (name == "result" && path.contains(".data"));
    match value {
        Value::Object(map) if !opaque && !map.is_empty() => {
            let tag = tag(map);
            for (key, value) in map.iter().filter(|(key, _)| *key != "_meta") {
                walk(&format!("{path}{tag}.{key}"), value, key, items);
            }
        }
        Value::Array(list)
            if !opaque && !list.is_empty() && list.iter().all(|x| x.is_object() || x.is_array()) =>
        {
            for value in list {
                walk(path, value, name, items);
            }
        }
        _ => items.push((path.to_owned(), value.clone())),
    }
}

/// The methods of requests, by the direction in which they went and their id.
#[derive(Default)]
struct Methods(HashMap<(&'static str, String), String>);

impl Methods {
    fn learn(&mut self, line: &Line) {
        let frame = line.value();
        if let (Some(method), Some(id)) = (frame["method"].as_str(), frame.get("id")) {
            self.0.insert((line.dir.as_str(), id.to_string()), method.to_owned());
        }
    }

    fn items(&self, line: &Line) -> Vec<Item> {
        let frame = line.value();
        let mut items = Vec::new();
        if let Some(method) = frame["method"].as_str() {
            walk(
                method,
                frame.get("params").unwrap_or(&Value::Object(serde_json::Map::new())),
                "",
                &mut items,
            );
        } else if let Some(error) = frame.get("error") {
            items.push((format!("error {}", error["code"]), error["code"].clone()));
        } else {
            let asked = self.0.get(&(line.dir.flip().as_str(), frame["id"].to_string()));
            let asked = asked.unwrap_or_else(|| panic!("an answer to nothing: {frame}"));
            walk(&format!("{asked}.result"), &frame["result"], "result", &mut items);
        }
        items
    }
}

/// All values at a dotted path; `*` is any element.
fn at<'a>(value: &'a Value, path: &[&str], found: &mut Vec<&'a Value>) {
    let Some((first, rest)) = path.split_first() else { return found.push(value) };
    match value {
        Value::Array(list) if *first == "*" => list.iter().for_each(|value| at(value, rest, found)),
        Value::Object(map) => {
            if let Some(value) = map.get(*first) {
                at(value, rest, found);
            }
        }
        _ => {}
    }
}

/// Splits a path, keeping the dots of `acp-dialect/2025.1`.
fn parts(path: &str) -> Vec<String> {
    path.replace("2025.1", "2025\u{0}1").split('.').map(|part| part.replace('\u{0}', ".")).collect()
}

fn lands(lands: &str, source: &Value, frames: &[Value]) -> bool {
    let (path, wanted) = match (lands.strip_suffix('?'), lands.split_once('=')) {
        (Some(path), _) => (path, None),
        (None, Some((path, json))) => {
            (path, Some(serde_json::from_str(json).unwrap_or_else(|_| Value::from(json))))
        }
        (None, None) => (lands, Some(source.clone())),
    };
    let parts = parts(path);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    frames.iter().for_each(|frame| at(frame, &parts, &mut found));
    found.iter().any(|value| wanted.as_ref().is_none_or(|wanted| *value == wanted))
}

/// One place where an item stands in an example.
struct Place<'a> {
    case: &'a str,
    n: u64,
    value: &'a Value,
    seen: &'a Seen,
    methods: &'a Methods,
}

fn check_place(item: &str, row: &Row, place: &Place<'_>) -> Result<bool, String> {
    let Place { case, n, value, seen, methods } = place;
    let later: Vec<Value> = seen.canonical.iter().filter(|line| line.n >= *n).map(Line::value).collect();
    if row.lands != "-" && !lands(&row.lands, value, &later) {
        return Err(format!("{case} line {n}: {value} does not land at {}", row.lands));
    }
    if row.verdict == "lossless" {
        let back = seen.returned.iter().filter(|line| line.n >= *n).flat_map(|line| methods.items(line));
        if !back.into_iter().any(|(name, back)| name == *item && back == **value) {
            return Err(format!(
                "{case} line {n}: {value} does not come back, but the table calls it lossless"
            ));
        }
    }
    let noted = seen.notes.iter().any(|(at, _, note)| at == n && format!("{note}").starts_with(&row.note));
    Ok(!row.note.is_empty() && noted)
}

fn check(dialect: Dialect) {
    let rows = rows(dialect);
    let mut problems = Vec::new();
    let mut met: BTreeMap<&str, bool> = BTreeMap::new();
    for (case, path) in cases(dialect) {
        let said = read(&path);
        let seen = play(dialect, &said, &options());
        let mut methods = Methods::default();
        said.iter().filter(|said| said.by == Speaker::Foreign).for_each(|said| methods.learn(&said.line));
        seen.returned.iter().for_each(|line| methods.learn(line));
        for said in &said {
            let n = said.line.n;
            if said.by == Speaker::Middle {
                check_v1(&said.line, &case, &seen, &rows, &mut met, &mut problems);
                continue;
            }
            if OTHER.iter().any(|other| case.contains(other)) {
                continue;
            }
            for (item, value) in methods.items(&said.line) {
                let Some((item, row)) = rows.get_key_value(&item) else {
                    problems.push(format!("{case} line {n}: {item} has no row"));
                    continue;
                };
                match check_place(
                    item,
                    row,
                    &Place { case: &case, n, value: &value, seen: &seen, methods: &methods },
                ) {
                    Ok(noted) => *met.entry(item).or_default() |= noted,
                    Err(problem) => problems.push(format!("{item}: {problem}")),
                }
            }
        }
    }
    for (item, row) in &rows {
        match met.get(item.as_str()) {
            None => problems.push(format!("{item}: no example has it")),
            Some(false) if row.verdict != "lossless" => {
                problems.push(format!("{item} is {}, but no note says {:?}", row.verdict, row.note));
            }
            Some(_) => {}
        }
    }
    assert!(problems.is_empty(), "{dialect}: {} problem(s)\n{}", problems.len(), problems.join("\n"));
}

/// What a v1 peer says and the form may have no word for.
fn check_v1<'r>(
    line: &Line,
    case: &str,
    seen: &Seen,
    rows: &'r BTreeMap<String, Row>,
    met: &mut BTreeMap<&'r str, bool>,
    problems: &mut Vec<String>,
) {
    let frame = line.value();
    let item = match (frame["method"].as_str(), frame["params"]["update"]["sessionUpdate"].as_str()) {
        (Some(method), Some(variant)) => format!("v1 {method}[{variant}]"),
        (Some(method), None) => format!("v1 {method}"),
        (None, _) if frame.get("error").is_some() => format!("v1 error {}", frame["error"]["code"]),
        (None, _) => return,
    };
    let Some((item, row)) = rows.get_key_value(&item) else {
        return problems.push(format!("{case} line {}: {item} has no row", line.n));
    };
    let noted = seen.notes.iter().filter(|(n, _, _)| *n == line.n);
    let kinds: Vec<(NoteKind, String)> = noted.map(|(_, _, note)| (note.kind, note.to_string())).collect();
    // A replay may wait for the answer that ends it.
    let on_time = |out: &Line| out.n == line.n || (case.contains("load") && out.n > line.n);
    let went = seen.returned.iter().any(|out| on_time(out) && out.dir == line.dir);
    let back = seen.canonical.iter().any(|out| out.n == line.n && out.dir != line.dir);
    if !went && kinds.is_empty() {
        problems.push(format!("{item}: {case} line {}: dropped without a word", line.n));
    }
    if row.verdict == "refused" && (went || !back) {
        problems.push(format!("{item}: {case} line {}: not refused", line.n));
    }
    *met.entry(item).or_default() |=
        !row.note.is_empty() && kinds.iter().any(|(_, note)| note.starts_with(&row.note));
}

#[test]
fn the_table_of_2025_1_holds() {
    check(Dialect::V2025_1);
}

#[test]
fn the_table_of_probe_holds() {
    check(Dialect::PROBE);
}

#[test]
fn the_table_of_go_holds() {
    check(Dialect::GO);
}

#[test]
fn the_table_of_delta_holds() {
    check(Dialect::DELTA);
}

/// Fields whose value is the speaker's own: any value must come through.
const FREE: [&str; 24] = [
    "text",
    "content",
    "name",
    "version",
    "title",
    "description",
    "data",
    "token",
    "instructions",
    "output",
    "chunk",
    "message",
    "optionId",
    "toolCallId",
    "terminal_id",
    "session_id",
    "sessionId",
    "id",
    "prompt",
    "response",
    "startTime",
    "size",
    "index",
    "createdAt",
];

/// The same conversation with other values in its free fields; equal values stay equal, so that ids still fit.
fn vary(value: &mut Value, free: bool, known: &mut HashMap<String, Value>, rng: &mut Rng) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                vary(value, FREE.contains(&key.as_str()), known, rng);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| vary(value, false, known, rng)),
        Value::String(text) if free => {
            let other = known.entry(text.clone()).or_insert_with(|| any_text(rng).into()).clone();
            *value = other;
        }
        Value::Number(_) if free => *value = (rng.next_u64() >> rng.below(60)).into(),
        _ => {}
    }
}

fn any_text(rng: &mut Rng) -> String {
    const BITS: [&str; 14] =
        ["a", "Z", " ", "\"", "\\", "\n", "\t", "é", "漢", "🦀", "\u{E000}", "</x>", "{\"a\":1.50}", "\u{1}"];
    (0..=rng.below(12)).filter_map(|_| rng.pick(&BITS)).copied().collect::<String>()
        + &rng.next_u64().to_string()
}

fn check_any_values(dialect: Dialect, seed: u64) {
    let rows = rows(dialect);
    let mut rng = Rng::new(seed);
    let mut varied = 0;
    for (case, path) in
        cases(dialect).into_iter().filter(|(case, _)| !OTHER.iter().any(|other| case.contains(other)))
    {
        for round in 0..8 {
            let mut known = HashMap::new();
            let mut said = read(&path);
            for said in &mut said {
                let mut frame = said.line.value();
                for part in ["params", "result"] {
                    if let Some(part) = frame.get_mut(part) {
                        vary(part, false, &mut known, &mut rng);
                    }
                }
                said.line.frame = Frame::parse(frame.to_string());
            }
            varied += known.len();
            let seen = play(dialect, &said, &options());
            let mut methods = Methods::default();
            said.iter().for_each(|said| methods.learn(&said.line));
            seen.returned.iter().for_each(|line| methods.learn(line));
            for said in said.iter().filter(|said| said.by == Speaker::Foreign) {
                for (item, value) in methods.items(&said.line) {
                    let Some((item, row)) =
                        rows.get_key_value(&item).filter(|(_, row)| row.verdict == "lossless")
                    else {
                        continue;
                    };
                    let place =
                        Place { case: &case, n: said.line.n, value: &value, seen: &seen, methods: &methods };
                    if let Err(problem) = check_place(item, row, &place) {
                        panic!("{dialect} seed {seed} round {round}: {item}: {problem}\n{}", said.line.frame);
                    }
                }
            }
        }
    }
    assert!(varied > 100, "{dialect}: only {varied} values were varied");
}

#[test]
fn lossless_items_come_back_whatever_their_values() {
    for (seed, dialect) in (1..).zip(foreign_dialects()) {
        check_any_values(dialect, seed);
    }
}

/// Every error code that a form lists is one that a peer of that form can get to see.
#[test]
fn every_listed_error_code_is_emitted() {
    let listed: [(Dialect, &[i64]); 3] = [
        (Dialect::V2025_1, &[-32700, -32600, -32601, -32602, -32603, -32001, -32002, -32003, -32004]),
        (Dialect::PROBE, &[-32700, -32600, -32601, -32602, -32603, -32001, -32002, -32003, -32004]),
        (Dialect::GO, &[-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, -32003]),
    ];
    for (dialect, codes) in listed {
        let mut emitted = Vec::new();
        for (_, path) in cases(dialect) {
            let seen = play(dialect, &read(&path), &options());
            let errors = seen.returned.iter().filter(|line| line.dir == Direction::AgentToClient);
            emitted.extend(errors.filter_map(|line| line.value()["error"]["code"].as_i64()));
        }
        for code in codes {
            assert!(emitted.contains(code), "{dialect}: nobody ever sees {code}");
        }
    }
}

/// The user's page shows the same tables.
#[test]
fn the_manual_shows_the_tables() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dialects.md");
    let mut text = std::fs::read_to_string(&page).expect("docs/dialects.md");
    for dialect in foreign_dialects() {
        let (open, close) = (format!("<!-- table {dialect} -->\n"), format!("<!-- end {dialect} -->"));
        let start = text.find(&open).unwrap_or_else(|| panic!("docs/dialects.md lacks {open}")) + open.len();
        let end = text.find(&close).unwrap_or_else(|| panic!("docs/dialects.md lacks {close}"));
        text.replace_range(start..end, &manual(dialect));
    }
    acp_testkit::golden::check_file(page, &text);
}

fn manual(dialect: Dialect) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut text = "| item | verdict | what happens |\n|---|---|---|\n".to_owned();
    for (item, row) in &rows(dialect) {
        writeln!(text, "| `{}` | {} | {} |", cell(item), row.verdict, cell(&row.what)).unwrap();
    }
    text
}
