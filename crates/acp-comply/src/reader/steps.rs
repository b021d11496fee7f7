//! Reading steps and expected messages.

use super::answers::with_id;
use super::nearest::nearest;
use super::{Reader, Side, client_steps, inside, unknown};
use crate::json::{Json, JsonKind};
use crate::program::{
    Envelope, Expect, Expected, FileWant, MessageCapture, MessageKind, RawBytes, Step, StepKind,
};
use acp_match::Path;
use serde_json::Value;
use std::ops::Range;
use std::time::Duration;

/// Every step kind of this version.
const KINDS: [&str; 14] = [
    "newSession",
    "send",
    "expect",
    "forbid",
    "delayMs",
    "raw",
    "close",
    "restart",
    "reconnect",
    "pauseRead",
    "repeat",
    "expectExit",
    "expectFile",
    "expectMcp",
];

/// An hour: a longer wait is a mistake in the file.
const LONGEST_MS: f64 = 3_600_000.0;
const MOST_REPEATS: u64 = 100_000;
const MOST_STEPS: u64 = 500_000;

/// How many steps these come to when repetitions are written out.
fn written_out(steps: &[Step]) -> u64 {
    let count = |step: &Step| match &step.kind {
        StepKind::Repeat { times, steps } => u64::from(*times).saturating_mul(written_out(steps)),
        _ => 1,
    };
    steps.iter().map(count).fold(0, u64::saturating_add)
}

impl Reader<'_> {
    pub(super) fn steps(&mut self, list: &Json) -> Vec<Step> {
        let Some(items) = list.as_list() else {
            self.wrong_type("steps", "an array", list);
            return Vec::new();
        };
        items.iter().enumerate().filter_map(|(index, item)| self.step(index + 1, item)).collect()
    }

    fn step(&mut self, number: usize, item: &Json) -> Option<Step> {
        if !item.is_map() {
            self.error(item.span.clone(), format!("a step is an object, this is {}", item.type_name()));
            return None;
        }
        let line = self.line_of(item.span.start);
        let kinds = self.kinds();
        let known: Vec<_> =
            item.members().iter().filter(|member| kinds.contains(&member.key.as_str())).collect();
        let kind = match known.as_slice() {
            [] => self.unknown_step(number, item),
            [one] => {
                self.known_fields(item, &[kinds, unknown::BESIDE_STEP]);
                self.kind(&one.key, &one.value, item)?
            }
            [first, second, ..] => {
                let message = format!("this step is both {:?} and {:?}", first.key, second.key);
                self.error(second.key_span.clone(), message)
                    .hint("a step does one thing: make two steps of it");
                return None;
            }
        };
        let marks = self.step_marks(item, &kind);
        let unless = self.words_at(item, "unless");
        Some(Step { line, kind, marks, unless })
    }

    /// The kinds of steps that a test of this side has.
    fn kinds(&self) -> &'static [&'static str] {
        match self.side {
            Side::Agent => &KINDS,
            Side::Client => &client_steps::KINDS,
        }
    }

    fn unknown_step(&mut self, number: usize, item: &Json) -> StepKind {
        let name = item.members().first().map_or("(empty)", |member| member.key.as_str()).to_owned();
        let kinds = self.kinds();
        let hint = match nearest(&name, kinds.iter().copied()) {
            Some(kind) => format!("did you mean {kind:?}?"),
            None => format!("known kinds are {}", kinds.join(", ")),
        };
        self.warning(item.span.clone(), format!("unknown step kind {name:?}: the test is not run"))
            .hint(hint);
        self.not_understood(format!("step {number} was not understood"));
        StepKind::Unknown(name)
    }

    fn kind(&mut self, name: &str, value: &Json, item: &Json) -> Option<StepKind> {
        let object = !matches!(name, "delayMs" | "send" | "close" | "restart" | "reconnect");
        if object && !value.is_map() {
            self.wrong_type(name, "an object", value);
            return None;
        }
        let fields = match name {
            "newSession" => unknown::NEW_SESSION,
            "expect" => unknown::EXPECT,
            "forbid" => unknown::FORBID,
            "raw" => unknown::RAW,
            "pauseRead" => unknown::PAUSE_READ,
            "repeat" => unknown::REPEAT,
            "expectExit" => unknown::EXPECT_EXIT,
            "expectFile" => unknown::EXPECT_FILE,
            _ => &[],
        };
        if !fields.is_empty() {
            self.known_fields(value, &[fields]);
        }
        match name {
            "newSession" => self.new_session(value, item),
            "send" => self.send(value, item),
            "expect" => self.expect(value),
            "forbid" => self.forbid(value),
            "delayMs" => Some(StepKind::Delay(self.millis(value, name)?)),
            "raw" => self.raw(value),
            "close" => Some(StepKind::Close),
            "restart" => Some(StepKind::Restart),
            "reconnect" => Some(StepKind::Reconnect),
            "pauseRead" => Some(StepKind::PauseRead(self.needed_millis(value, "ms")?)),
            "repeat" => self.repeat(value),
            "expectExit" => self.expect_exit(value),
            "expectFile" => self.expect_file(value),
            "expectMcp" => self.expect_mcp(value),
            _ => self.client_step(name, value),
        }
    }

    fn new_session(&mut self, value: &Json, item: &Json) -> Option<StepKind> {
        let mcp_servers = value.get("mcpServers").cloned();
        if let Some(servers) = &mcp_servers {
            if servers.as_list().is_none() {
                self.wrong_type("mcpServers", "an array", servers);
            }
            self.check_templates(servers);
        }
        let capture = self.text_at(value, "capture").map(|(name, _)| name);
        self.vars.insert("sessionId".to_owned());
        self.vars.extend(capture.clone());
        let answer = self.given.get(&item.span.start).map(Json::to_value);
        Some(StepKind::NewSession { mcp_servers, capture, answer })
    }

    fn send(&mut self, value: &Json, item: &Json) -> Option<StepKind> {
        if !value.is_map() && value.as_list().is_none() {
            self.error(
                value.span.clone(),
                format!("a frame is a JSON object, this is {}", value.type_name()),
            )
            .hint("to write anything else on the wire use a \"raw\" step");
            return None;
        }
        self.check_frame(value);
        let mut frame = value.clone();
        let mut flag = item.get("expectError").cloned();
        if let JsonKind::Map(members) = &mut frame.kind
            && let Some(index) = members.iter().position(|member| member.key == "expectError")
        {
            flag = Some(members.remove(index).value);
        }
        let expect_error = match flag.map(|flag| (flag.kind, flag.span)) {
            None => false,
            Some((JsonKind::Bool(value), _)) => value,
            Some((_, span)) => {
                self.error(span, "expectError is true or false");
                false
            }
        };
        if let Some(id) = self.given.get(&item.span.start) {
            with_id(&mut frame, id.clone());
        } else if expect_error && value.is_map() && value.get("id").is_none() {
            self.error(value.span.clone(), "a notification has no answer, so no error can be expected")
                .hint("give the frame an \"id\"");
        }
        Some(StepKind::Send { frame, expect_error })
    }

    fn expect(&mut self, value: &Json) -> Option<StepKind> {
        let timeout = self.timeout(value, 10_000);
        if value.get("messages").is_none() {
            self.error(value.span.clone(), "an expect step needs \"messages\"");
            return None;
        }
        let messages: Vec<Expected> =
            self.list_at(value, "messages").iter().filter_map(|item| self.expected(item)).collect();
        let captures = self.captures(value);
        let ordered = value.get("ordered").is_some().then(|| self.flag(value, "ordered"));
        let fresh = self.flag(value, "fresh");
        let otherwise_na = self.words_at(value, "otherwiseNa");
        let may_wait = self.words_at(value, "mayWait");
        let names = messages.iter().flat_map(|message| &message.captures).chain(&captures);
        let names: Vec<String> = names.map(|capture| capture.var.clone()).collect();
        self.vars.extend(names);
        Some(StepKind::Expect(Expect { timeout, messages, captures, ordered, fresh, otherwise_na, may_wait }))
    }

    fn expected(&mut self, item: &Json) -> Option<Expected> {
        if !item.is_map() {
            self.error(
                item.span.clone(),
                format!("an expected message is an object, this is {}", item.type_name()),
            );
            return None;
        }
        self.known_fields(item, &[unknown::ENVELOPE, unknown::BESIDE_MESSAGE, self.client_envelope()]);
        let alternatives = match item.get("anyOf") {
            Some(list) => {
                let alternatives: Vec<Envelope> =
                    self.list_at(item, "anyOf").iter().filter_map(|item| self.alternative(item)).collect();
                if alternatives.is_empty() {
                    self.error(list.span.clone(), "anyOf needs at least one envelope");
                }
                alternatives
            }
            None => vec![self.envelope(item)?],
        };
        let alternatives: Vec<Envelope> = alternatives.into_iter().chain(self.accepts(item)).collect();
        let optional = self.flag(item, "optional");
        if let Some(shows) = item.get("shows") {
            self.check_shows_something(optional, shows);
        }
        let times = match item.get("times").map(|times| (times.to_value().as_u64(), &times.span)) {
            None => 1,
            Some((Some(times @ 1..=MOST_REPEATS), _)) => usize::try_from(times).unwrap_or(1),
            Some((_, span)) => {
                self.error(span.clone(), format!("times is a whole number from 1 to {MOST_REPEATS}"));
                1
            }
        };
        Some(Expected {
            alternatives,
            optional,
            times,
            captures: self.captures(item),
            marks: self.marks(item),
        })
    }

    pub(super) fn envelope(&mut self, item: &Json) -> Option<Envelope> {
        let kinds = [MessageKind::Response, MessageKind::Notification, MessageKind::ClientRequest];
        let found: Vec<_> =
            kinds.into_iter().filter_map(|kind| Some((kind, item.get(kind.as_str())?))).collect();
        let (kind, body) = match found.as_slice() {
            [(kind, body)] => (*kind, *body),
            [] => {
                self.error(item.span.clone(), "an expected message is a response, a notification or a clientRequest")
                    .hint("write { \"response\": { … } }, { \"notification\": { … } } or { \"clientRequest\": { … } }");
                return None;
            }
            [_, (second, body), ..] => {
                let message = format!("this message is also a {}", second.as_str());
                self.error(body.span.clone(), message)
                    .hint("an envelope is one thing: write two, or use anyOf");
                return None;
            }
        };
        if !body.is_map() {
            self.wrong_type(kind.as_str(), "an object", body);
            return None;
        }
        let mut pattern_json = body.clone();
        let mut reply = item.get("reply").cloned();
        if kind == MessageKind::ClientRequest
            && let JsonKind::Map(members) = &mut pattern_json.kind
            && let Some(index) = members.iter().position(|member| member.key == "reply")
        {
            reply = Some(members.remove(index).value);
        }
        if let Some(reply) = &reply {
            self.check_templates(reply);
            let is_frame = reply.get("method").is_some();
            if kind == MessageKind::Response || (kind == MessageKind::Notification && !is_frame) {
                self.error(reply.span.clone(), format!("a {} is not answered", kind.as_str()))
                    .hint("a reply stands beside a clientRequest; beside a notification it is a whole frame with a method");
            }
        }
        self.check_pattern(&pattern_json);
        let no_reply = self.flag(item, "noReply");
        let is_client = self.side == Side::Client;
        let launch = if is_client { self.which_launch(item) } else { None };
        let within = item.get("withinMs").filter(|_| is_client);
        let within = within.and_then(|time| self.millis(time, "withinMs"));
        let line = self.line_of(body.span.start);
        Some(Envelope {
            kind,
            pattern: pattern_json.to_value(),
            reply,
            no_reply,
            line,
            breaks: Vec::new(),
            inconclusive: None,
            witness: Vec::new(),
            provides: Vec::new(),
            launch,
            within,
        })
    }

    /// One of several envelopes, with what its own coming says.
    pub(super) fn alternative(&mut self, item: &Json) -> Option<Envelope> {
        self.known_fields(item, &[unknown::ENVELOPE, unknown::BESIDE_ACCEPTED, self.client_envelope()]);
        let mut envelope = self.envelope(item)?;
        envelope.witness = self.claims(item, "witness");
        envelope.provides = self.texts(item, "provides");
        if let Some(shows) = item.get("shows") {
            self.error(shows.span.clone(), "one of several alternatives shows nothing by itself")
                .hint("put \"shows\" beside \"anyOf\"");
        }
        Some(envelope)
    }

    pub(super) fn captures(&mut self, value: &Json) -> Vec<MessageCapture> {
        let mut found = Vec::new();
        for item in self.list_at(value, "captures") {
            self.known_fields(item, &[unknown::CAPTURE]);
            let (Some((path, span)), Some((var, _))) =
                (self.text_at(item, "path"), self.text_at(item, "var"))
            else {
                self.error(item.span.clone(), "a capture needs \"path\" and \"var\"");
                continue;
            };
            let note = self.words_at(item, "note");
            let part = self.part(item);
            let or = self.texts(item, "or");
            let or = or.iter().filter_map(|path| self.path(path, item.span.clone())).collect();
            let unless = self.words_at(item, "unless");
            let unlike = self.text_at(item, "unlike").and_then(|(path, span)| self.path(&path, span));
            if let Some(path) = self.path(&path, span) {
                found.push(MessageCapture { path, or, unlike, unless, part, var, note });
            }
        }
        found
    }

    /// The regular expression of a capture, with its group.
    fn part(&mut self, item: &Json) -> Option<String> {
        let (part, _) = self.text_at(item, "match")?;
        self.check_pattern(item.get("match")?);
        Some(part)
    }

    fn path(&mut self, path: &str, span: Range<usize>) -> Option<Path> {
        match Path::parse(path) {
            Ok(path) => Some(path),
            Err(error) => {
                self.error(span, error.to_string());
                None
            }
        }
    }

    fn forbid(&mut self, value: &Json) -> Option<StepKind> {
        let timeout = self.timeout(value, 5_000);
        let methods = self.texts(value, "methods");
        let messages: Vec<Envelope> =
            self.list_at(value, "messages").iter().filter_map(|item| self.envelope(item)).collect();
        if methods.is_empty() && messages.is_empty() {
            self.error(value.span.clone(), "a forbid step needs \"methods\"").hint(
                "name the methods that must not come, as in [\"terminal/*\"], or \"messages\" as in expect",
            );
            return None;
        }
        Some(StepKind::Forbid { timeout, methods, messages })
    }

    fn raw(&mut self, value: &Json) -> Option<StepKind> {
        match (value.get("text"), value.get("base64")) {
            (Some(leaf), None) => {
                let (text, _) = self.text_at(value, "text")?;
                self.check_frame(leaf);
                Some(StepKind::Raw(RawBytes::Text(text)))
            }
            (None, Some(_)) => self.base64(value).map(|bytes| StepKind::Raw(RawBytes::Bytes(bytes))),
            _ => {
                self.error(value.span.clone(), "a raw step has either \"text\" or \"base64\"");
                None
            }
        }
    }

    fn repeat(&mut self, value: &Json) -> Option<StepKind> {
        let times = value.get("times").and_then(|times| times.to_value().as_u64());
        let Some(times @ 1..=MOST_REPEATS) = times else {
            let span = value.get("times").map_or(&value.span, |times| &times.span).clone();
            self.error(span, format!("repeat needs \"times\", a whole number from 1 to {MOST_REPEATS}"));
            return None;
        };
        let Some(list) = value.get("steps") else {
            self.error(value.span.clone(), "repeat needs \"steps\"");
            return None;
        };
        let outer = self.vars.insert("iteration".to_owned());
        let steps = self.steps(list);
        if times.saturating_mul(written_out(&steps)) > MOST_STEPS {
            self.error(value.span.clone(), format!("this repeats to more than {MOST_STEPS} steps"));
            return None;
        }
        if outer {
            self.vars.remove("iteration");
        }
        Some(StepKind::Repeat { times: u32::try_from(times).unwrap_or(u32::MAX), steps })
    }

    fn expect_exit(&mut self, value: &Json) -> Option<StepKind> {
        let timeout = self.timeout(value, 10_000);
        let code = match value.get("code") {
            None => None,
            Some(code) => match code.to_value().as_i64().and_then(|code| i32::try_from(code).ok()) {
                Some(code) => Some(code),
                None => {
                    self.wrong_type("code", "a whole number", code);
                    return None;
                }
            },
        };
        Some(StepKind::ExpectExit { timeout, code })
    }

    fn expect_file(&mut self, value: &Json) -> Option<StepKind> {
        let Some((path, span)) = self.text_at(value, "path") else {
            self.error(value.span.clone(), "expectFile needs \"path\"");
            return None;
        };
        self.check_templates(value.get("path")?);
        let outside = path.strip_prefix("${outside}/").filter(|_| self.side == Side::Client);
        let relative = path.strip_prefix("${sandbox}/").unwrap_or(&path);
        if let Err(reason) = inside(outside.unwrap_or(relative)) {
            self.error(span, format!("the path {path:?} {reason}")).hint("write it relative to the sandbox");
            return None;
        }
        let absent = self.flag(value, "absent");
        let exact = match (value.get("exact"), value.get("base64")) {
            (Some(exact), _) => {
                self.text_at(value, "exact")?;
                self.check_templates(exact);
                Some(FileWant::Exact(exact.clone()))
            }
            (None, Some(_)) => Some(FileWant::Bytes(self.base64(value)?)),
            (None, None) => None,
        };
        if let (Some(_), Some(text)) = (&exact, value.get("text")) {
            self.error(text.span.clone(), "a file matches a pattern or is exactly something, not both");
            return None;
        }
        let want = match (value.get("text"), absent) {
            (None, false) if exact.is_some() => exact?,
            (None, true) if exact.is_some() => {
                self.error(value.span.clone(), "a file that must be absent has no text");
                return None;
            }
            (Some(text), true) => {
                self.error(text.span.clone(), "a file that must be absent has no text");
                return None;
            }
            (None, true) => FileWant::Absent,
            (None, false) => FileWant::Present,
            (Some(text), false) => {
                self.text_at(value, "text")?;
                self.check_pattern(text);
                FileWant::Text(text.clone())
            }
        };
        Some(StepKind::ExpectFile { path: relative.to_owned(), want, timeout: self.timeout(value, 0) })
    }

    fn expect_mcp(&mut self, value: &Json) -> Option<StepKind> {
        if value.get("tool").is_none() && value.get("method").is_none() {
            self.error(value.span.clone(), "expectMcp needs \"tool\" or \"method\"");
            return None;
        }
        let mut call = value.clone();
        if let JsonKind::Map(members) = &mut call.kind {
            members.retain(|member| !matches!(member.key.as_str(), "timeoutMs" | "absent" | "keep"));
        }
        self.check_pattern(&call);
        let absent = self.flag(value, "absent");
        let keep = self.flag(value, "keep");
        let default = if absent { 200 } else { 5_000 };
        Some(StepKind::ExpectMcp { call, absent, keep, timeout: self.timeout(value, default) })
    }

    /// What an envelope of this side may have besides.
    fn client_envelope(&self) -> &'static [&'static str] {
        if self.side == Side::Client { unknown::CLIENT_ENVELOPE } else { &[] }
    }

    pub(super) fn flag(&mut self, value: &Json, key: &str) -> bool {
        match value.get(key).map(|flag| (&flag.kind, &flag.span)) {
            None => false,
            Some((JsonKind::Bool(flag), _)) => *flag,
            Some((_, span)) => {
                self.error(span.clone(), format!("{key} is true or false"));
                false
            }
        }
    }

    pub(super) fn timeout(&mut self, value: &Json, default: u64) -> Duration {
        match value.get("timeoutMs") {
            None => Duration::from_millis(default),
            Some(given) => self.millis(given, "timeoutMs").unwrap_or(Duration::from_millis(default)),
        }
    }

    fn needed_millis(&mut self, value: &Json, key: &str) -> Option<Duration> {
        let Some(given) = value.get(key) else {
            self.error(value.span.clone(), format!("{key:?} is missing"));
            return None;
        };
        self.millis(given, key)
    }

    pub(super) fn millis(&mut self, value: &Json, key: &str) -> Option<Duration> {
        match value.to_value() {
            Value::Number(number) if number.as_f64().is_some_and(|ms| (0.0..=LONGEST_MS).contains(&ms)) => {
                Some(Duration::from_secs_f64(number.as_f64().unwrap_or(0.0) / 1000.0))
            }
            Value::Number(_) => {
                self.error(value.span.clone(), format!("{key} is a time in milliseconds from 0 to an hour"));
                None
            }
            _ => {
                self.wrong_type(key, "a number of milliseconds", value);
                None
            }
        }
    }
}
