//! Every params and result against the protocol's schema, and which requirement a flaw breaks.

use std::collections::HashSet;

use acp_proto::{Side, method, update};
use acp_rpc::Direction;

use crate::cx::Cx;
use crate::json::Json;
use crate::registry::registry;
use crate::rule::Rule;
use crate::schema::{Edition, Flaw, Method, ShapeId, What, flaws, is_clean};

/// At most so many flaws of one frame are told.
const PER_FRAME: usize = 5;

/// Which part of an exchange is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Params,
    Result,
}

impl Part {
    fn pointer(self) -> &'static str {
        match self {
            Self::Params => "/params",
            Self::Result => "/result",
        }
    }
}

/// What the check was of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The direction of the request or notification.
    pub(crate) asked: Direction,
    pub(crate) method: &'a str,
    pub(crate) part: Part,
    pub(crate) edition: Edition,
}

/// What came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As the schema says, custom fields or not.
    Good,
    /// Not as the schema says.
    Bad,
    /// The schema does not have the method.
    Unknown,
}

/// Judges one value and reports what is wrong with it.
pub(crate) fn check(cx: &mut Cx<'_>, subject: Subject<'_>, value: Option<Json<'_>>) -> Verdict {
    let Some((method, edition)) = find(subject) else { return Verdict::Unknown };
    let side = cx.sender();
    let schema = edition.schema();
    let (shape, may_be_left_out) = match subject.part {
        Part::Params => (method.params, method.params_optional),
        Part::Result => match method.result {
            Some(id) => (id, method.result_nullable),
            None => return Verdict::Good,
        },
    };
    exercise(cx, subject, value);
    let Some(value) = value.filter(|value| !(may_be_left_out && value.is_null())) else {
        if may_be_left_out {
            return Verdict::Good;
        }
        let id = requirement(side, subject, "", "", What::Missing);
        let what = match subject.part {
            Part::Params => "the params are missing",
            Part::Result => "the result is null",
        };
        cx.breach(Rule::Schema, side, format!("{}: {what}", subject.method)).names(id);
        return Verdict::Bad;
    };
    if edition == subject.edition && is_clean(&schema.shapes, shape, value) {
        return Verdict::Good;
    }
    let found = flaws(&schema.shapes, shape, value);
    if edition != subject.edition {
        return unstable_method(cx, subject, &found);
    }
    report(cx, subject, value, &found)
}

/// The method in the schema of the connection, or else in its unstable extension.
fn find(subject: Subject<'_>) -> Option<(&'static Method, Edition)> {
    let stable = subject.edition.schema().method(subject.asked, subject.method);
    stable.map(|method| (method, subject.edition)).or_else(|| {
        let edition = subject.edition.unstable();
        edition.schema().method(subject.asked, subject.method).map(|method| (method, edition))
    })
}

/// Whether the schema has the method as a request (`Some(true)`) or as a notification (`Some(false)`).
pub(crate) fn is_request(edition: Edition, asked: Direction, method: &str) -> Option<bool> {
    find(Subject { asked, method, part: Part::Params, edition }).map(|(method, _)| method.result.is_some())
}

fn unstable_method(cx: &mut Cx<'_>, subject: Subject<'_>, found: &[Flaw]) -> Verdict {
    let side = cx.sender();
    if subject.part == Part::Params {
        cx.breach(Rule::Unstable, side, format!("{} is an unstable method", subject.method)).at("/method");
    }
    for flaw in found.iter().take(PER_FRAME) {
        let message = format!("{} (unstable): {}: {}", subject.method, place(&flaw.pointer), flaw.message);
        cx.breach(Rule::Unstable, side, message).at(format!("{}{}", subject.part.pointer(), flaw.pointer));
    }
    Verdict::Good
}

fn report(cx: &mut Cx<'_>, subject: Subject<'_>, value: Json<'_>, found: &[Flaw]) -> Verdict {
    let side = cx.sender();
    let unstable = subject.edition.unstable();
    let in_unstable: Option<HashSet<String>> =
        unstable.schema().method(subject.asked, subject.method).and_then(|method| match subject.part {
            Part::Params => Some(pointers(unstable, method.params, value)),
            Part::Result => method.result.map(|id| pointers(unstable, id, value)),
        });
    let known = |flaw: &Flaw| in_unstable.as_ref().is_some_and(|list| !list.contains(&flaw.pointer));
    // what breaks the schema is told before what is only new to it
    let (bad, odd): (Vec<&Flaw>, Vec<&Flaw>) =
        found.iter().partition(|flaw| flaw.what != What::Unknown && !known(flaw));
    let variant = variant(subject, value).unwrap_or_default();
    for flaw in bad.iter().chain(&odd).take(PER_FRAME) {
        let pointer = format!("{}{}", subject.part.pointer(), flaw.pointer);
        let message = format!("{}{}: {}{}", subject.method, of(&variant), at(&flaw.pointer), flaw.message);
        if known(flaw) {
            cx.breach(Rule::Unstable, side, message.replace("is not part of the protocol", "is unstable"))
                .at(pointer);
            continue;
        }
        if flaw.what == What::Unknown {
            unknown_field(cx, subject, flaw, &variant, message, pointer);
            continue;
        }
        let id = match has_page_field(&variant, value) {
            true => "MODE-05/page",
            false => requirement(side, subject, &variant, &flaw.pointer, flaw.what),
        };
        let also: &'static [&'static str] = match variant.as_str() {
            update::AVAILABLE_COMMANDS_UPDATE => &["CMD-01"],
            _ if side == Side::Agent && has_snake_twin(value, flaw) => &["RPC-17"],
            _ => &[],
        };
        cx.breach(Rule::Schema, side, message).names(id).also(also).at(pointer);
    }
    if bad.is_empty() { Verdict::Good } else { Verdict::Bad }
}

/// What is missing is there in snake case.
fn has_snake_twin(value: Json<'_>, flaw: &Flaw) -> bool {
    let Some((parent, name)) = flaw.pointer.rsplit_once('/') else { return false };
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    let way: Vec<&str> = parent.split('/').skip(1).collect();
    let holder = if way.is_empty() { Some(value) } else { value.path(&way) };
    flaw.what == What::Missing && snake != name && holder.is_some_and(|holder| holder.get(&snake).is_some())
}

/// A mode update with the field that the page's example has.
fn has_page_field(variant: &str, value: Json<'_>) -> bool {
    let update = value.get("update").filter(|_| variant == update::CURRENT_MODE_UPDATE);
    update.is_some_and(|update| update.get_str("modeId").is_some() && update.get("currentModeId").is_none())
}

/// Where a value is not as the schema says.
fn pointers(edition: Edition, shape: ShapeId, value: Json<'_>) -> HashSet<String> {
    flaws(&edition.schema().shapes, shape, value).into_iter().map(|flaw| flaw.pointer).collect()
}

fn unknown_field(
    cx: &mut Cx<'_>,
    subject: Subject<'_>,
    flaw: &Flaw,
    variant: &str,
    message: String,
    pointer: String,
) {
    let side = cx.sender();
    if flaw.pointer == "/update/modeId" && variant == update::CURRENT_MODE_UPDATE {
        // told as the missing currentModeId
        return;
    }
    if subject.method == method::INITIALIZE
        && flaw.pointer.starts_with("/authMethods")
        && flaw.pointer.ends_with("/command")
    {
        // a rule of its own says it better
        return;
    }
    if flaw.pointer.contains("Capabilities/") {
        cx.breach(Rule::UnknownCapability, side, message).at(pointer);
        return;
    }
    let is_snake =
        flaw.pointer.rsplit('/').next().is_some_and(|name| name.trim_start_matches('_').contains('_'));
    let also: &'static [&'static str] = if is_snake && side == Side::Agent { &["RPC-17"] } else { &[] };
    let breach = cx.breach(Rule::UnknownField, side, message).also(also).at(pointer);
    if variant == update::SESSION_INFO_UPDATE {
        breach.names("INFO-01");
    }
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("{pointer}: ") }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

fn of(variant: &str) -> String {
    if variant.is_empty() { String::new() } else { format!(" ({variant})") }
}

/// The kind of a session update.
fn variant(subject: Subject<'_>, value: Json<'_>) -> Option<String> {
    if subject.method != method::SESSION_UPDATE {
        return None;
    }
    value.path(&["update", "sessionUpdate"])?.str().map(std::borrow::Cow::into_owned)
}

/// The requirement that a flaw breaks.
fn requirement(side: Side, subject: Subject<'_>, variant: &str, pointer: &str, what: What) -> &'static str {
    let id = match (subject.edition, side) {
        (Edition::V1 | Edition::V1Unstable, Side::Agent) => of_agent(subject, variant, pointer, what),
        (Edition::V1 | Edition::V1Unstable, Side::Client) => of_client(subject, pointer),
        (_, Side::Agent) => "INIT-06",
        (_, Side::Client) => "C-INIT-06",
    };
    debug_assert!(IDS.contains(&id), "{id} is missing from the list of schema requirements");
    id
}

fn of_agent(subject: Subject<'_>, variant: &str, pointer: &str, what: What) -> &'static str {
    let within = |name: &str| pointer.starts_with(name);
    if pointer.ends_with("/_meta") {
        return "EXT-02";
    }
    let is_list_of_update = pointer == "/update/configOptions";
    if pointer.contains("/configOptions")
        && !is_list_of_update
        && subject.method != method::SESSION_SET_CONFIG_OPTION
    {
        return "CFG-01";
    }
    match subject.method {
        method::INITIALIZE if within("/protocolVersion") && what == What::Missing => "INIT-01",
        method::INITIALIZE if within("/protocolVersion") => "INIT-03",
        method::INITIALIZE if pointer.is_empty() => "INIT-01",
        method::INITIALIZE if within("/agentCapabilities") => "INIT-11",
        method::INITIALIZE if within("/authMethods") => "AUTH-01",
        method::AUTHENTICATE => "AUTH-04",
        method::LOGOUT => "AUTH-08",
        method::SESSION_NEW if within("/sessionId") => "SES-01",
        method::SESSION_NEW | method::SESSION_LOAD | method::SESSION_RESUME if within("/modes") => "MODE-01",
        method::SESSION_LOAD => "SES-06",
        method::SESSION_LIST => "SES-16",
        method::SESSION_CLOSE => "SES-14",
        method::SESSION_DELETE => "SES-28",
        method::SESSION_SET_MODE => "MODE-02",
        method::SESSION_SET_CONFIG_OPTION => "CFG-04",
        method::SESSION_PROMPT if what == What::Missing && within("/stopReason") => "PT-01",
        method::SESSION_PROMPT if within("/stopReason") => "PT-02",
        method::SESSION_UPDATE => of_update(variant, pointer),
        method::SESSION_REQUEST_PERMISSION if within("/options/") => "PERM-02",
        method::SESSION_REQUEST_PERMISSION => "PERM-01",
        method::ELICITATION_CREATE if within("/requestedSchema") => "ELI-05",
        method::ELICITATION_CREATE => "ELI-03",
        method if method.starts_with("terminal/") => "TERM-07",
        _ => "INIT-06",
    }
}

fn of_update(variant: &str, pointer: &str) -> &'static str {
    let within = |name: &str| pointer.strip_prefix("/update").is_some_and(|rest| rest.starts_with(name));
    match variant {
        _ if within("/sessionUpdate") || !pointer.starts_with("/update") => "PT-04",
        update::TOOL_CALL if within("/toolCallId") || within("/title") => "TC-02",
        update::TOOL_CALL | update::TOOL_CALL_UPDATE if within("/kind") || within("/status") => "TC-04",
        update::TOOL_CALL | update::TOOL_CALL_UPDATE if within("/content") && pointer.ends_with("Text") => {
            "DIFF-02"
        }
        update::TOOL_CALL | update::TOOL_CALL_UPDATE if within("/content") => "TC-08",
        update::TOOL_CALL | update::TOOL_CALL_UPDATE if within("/locations") => "TC-09",
        update::TOOL_CALL_UPDATE if within("/toolCallId") => "TC-05",
        update::PLAN => "PLAN-02",
        update::CURRENT_MODE_UPDATE => "MODE-05",
        // the list itself, not one of its options
        update::CONFIG_OPTION_UPDATE if pointer == "/update/configOptions" => "CFG-07",
        update::CONFIG_OPTION_UPDATE => "CFG-01",
        update::SESSION_INFO_UPDATE => "INFO-01",
        update::USAGE_UPDATE => "PT-06",
        update::NOTICE => "INFO-03",
        update::USER_MESSAGE_CHUNK | update::AGENT_MESSAGE_CHUNK | update::AGENT_THOUGHT_CHUNK
            if within("/content") =>
        {
            "CNT-06"
        }
        _ => "PT-04",
    }
}

fn of_client(subject: Subject<'_>, pointer: &str) -> &'static str {
    match subject.method {
        method::INITIALIZE if pointer.starts_with("/protocolVersion") => "C-INIT-02",
        _ if pointer.starts_with("/mcpServers/") => "C-MCP-02",
        method::SESSION_LOAD => "C-SES-02",
        method::SESSION_RESUME => "C-SES-04",
        method::SESSION_CLOSE => "C-SES-06",
        method::SESSION_REQUEST_PERMISSION => "C-PERM-01",
        method::ELICITATION_CREATE => "C-ELI-08",
        method::TERMINAL_CREATE => "C-TERM-01",
        method::TERMINAL_OUTPUT => "C-TERM-03",
        method::TERMINAL_WAIT_FOR_EXIT => "C-TERM-04",
        method::SESSION_SET_CONFIG_OPTION => "C-CFG-07",
        method::SESSION_SET_MODE => "C-CFG-09",
        _ => "C-INIT-06",
    }
}

const IDS: &[&str] = &[
    "INIT-01",
    "INIT-03",
    "INIT-06",
    "INIT-11",
    "EXT-02",
    "AUTH-01",
    "AUTH-02",
    "AUTH-04",
    "AUTH-08",
    "SES-01",
    "SES-06",
    "SES-11",
    "SES-14",
    "SES-16",
    "SES-17",
    "SES-28",
    "MODE-01",
    "MODE-02",
    "MODE-05",
    "CFG-01",
    "CFG-04",
    "CFG-05",
    "CFG-07",
    "PT-01",
    "PT-02",
    "PT-04",
    "PT-06",
    "PT-11",
    "TC-02",
    "TC-04",
    "TC-05",
    "TC-08",
    "TC-09",
    "DIFF-02",
    "PLAN-02",
    "INFO-01",
    "INFO-03",
    "CNT-06",
    "PERM-01",
    "PERM-02",
    "ELI-03",
    "ELI-05",
    "TERM-07",
    "CMD-01",
    "RPC-17",
    "EXT-01",
    "EXT-09",
    "C-INIT-02",
    "C-INIT-06",
    "C-MCP-02",
    "C-SES-02",
    "C-SES-04",
    "C-SES-06",
    "C-PERM-01",
    "C-ELI-08",
    "C-TERM-01",
    "C-TERM-03",
    "C-TERM-04",
    "C-CFG-07",
    "C-CFG-09",
    "C-EXT-01",
    "C-EXT-04",
];

/// Every requirement that the schema check can put to the test.
pub(crate) fn requirements() -> impl Iterator<Item = &'static str> {
    IDS.iter().copied()
}

/// Marks what a checked value puts to the test.
fn exercise(cx: &mut Cx<'_>, subject: Subject<'_>, value: Option<Json<'_>>) {
    if subject.edition != Edition::V1 {
        return;
    }
    let side = cx.sender();
    cx.saw(Rule::Schema, side);
    cx.saw(Rule::UnknownField, side);
    let ids: &[&str] = match (side, subject.method) {
        (Side::Agent, method::SESSION_UPDATE) => return exercise_update(cx, value),
        (Side::Agent, method) => exercised_by_agent(method, value),
        (Side::Client, method) => exercised_by_client(method),
    };
    for id in ids {
        cx.saw_id(id);
    }
}

fn exercised_by_agent(method: &str, value: Option<Json<'_>>) -> &'static [&'static str] {
    match method {
        method::INITIALIZE
            if value
                .is_some_and(|v| v.some("authMethods").is_some_and(|list| list.items().next().is_some())) =>
        {
            &["INIT-01", "INIT-03", "INIT-11", "EXT-09", "AUTH-01", "AUTH-02", "RPC-17"]
        }
        method::INITIALIZE => &["INIT-01", "INIT-03", "INIT-11", "EXT-09", "RPC-17"],
        method::AUTHENTICATE => &["AUTH-04"],
        method::LOGOUT => &["AUTH-08"],
        method::SESSION_NEW => &["SES-01"],
        method::SESSION_LOAD => &["SES-06"],
        method::SESSION_RESUME => &["SES-11"],
        method::SESSION_LIST => &["SES-16"],
        method::SESSION_CLOSE => &["SES-14"],
        method::SESSION_DELETE => &["SES-28"],
        method::SESSION_SET_CONFIG_OPTION => &["CFG-01"],
        method::SESSION_PROMPT => &["PT-01", "PT-02", "PT-11"],
        method::SESSION_REQUEST_PERMISSION => &["PERM-01", "PERM-02"],
        method::ELICITATION_CREATE => &["ELI-03", "ELI-05"],
        method if method.starts_with("terminal/") => &["TERM-07"],
        _ => &[],
    }
}

fn exercised_by_client(method: &str) -> &'static [&'static str] {
    match method {
        method::INITIALIZE => &["C-INIT-02", "C-EXT-04"],
        method::SESSION_LOAD => &["C-SES-02"],
        method::SESSION_RESUME => &["C-SES-04"],
        method::SESSION_CLOSE => &["C-SES-06"],
        method::ELICITATION_CREATE => &["C-ELI-08"],
        method::TERMINAL_OUTPUT => &["C-TERM-03"],
        method::TERMINAL_WAIT_FOR_EXIT => &["C-TERM-04"],
        _ => &[],
    }
}

/// The places of the requirements that updates put to the test, looked up once: this runs on every chunk.
fn exercise_update(cx: &mut Cx<'_>, value: Option<Json<'_>>) {
    let Some(update) = value.and_then(|value| value.get("update")) else { return };
    let Some(kind) = update.get_str("sessionUpdate") else { return };
    static PLACES: std::sync::OnceLock<[Vec<u16>; 4]> = std::sync::OnceLock::new();
    let places = PLACES.get_or_init(|| {
        let find = |ids: &[&str]| ids.iter().filter_map(|id| registry().place(id)).collect();
        [
            find(&["PT-04"]),
            find(&["PT-04", "CNT-06"]),
            find(&["PT-04", "TC-04", "TC-05"]),
            find(&["PT-04", "TC-02", "TC-04"]),
        ]
    });
    let which = match &*kind {
        update::AGENT_MESSAGE_CHUNK | update::AGENT_THOUGHT_CHUNK | update::USER_MESSAGE_CHUNK => 1,
        update::TOOL_CALL_UPDATE => 2,
        update::TOOL_CALL => 3,
        _ => 0,
    };
    for place in &places[which] {
        cx.saw_place(*place);
    }
    let more: &[&str] = match &*kind {
        update::PLAN => &["PLAN-02"],
        update::SESSION_INFO_UPDATE => &["INFO-01"],
        update::USAGE_UPDATE => &["PT-06"],
        update::NOTICE => &["INFO-03"],
        update::AVAILABLE_COMMANDS_UPDATE => &["CMD-01"],
        update::CONFIG_OPTION_UPDATE => &["CFG-01"],
        update::CURRENT_MODE_UPDATE => &["MODE-05"],
        update::TOOL_CALL | update::TOOL_CALL_UPDATE if update.some("content").is_some() => &["TC-08"],
        _ => &[],
    };
    for id in more {
        cx.saw_id(id);
    }
}
