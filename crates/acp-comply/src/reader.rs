//! From the text of a `.jsont` file to a [`Program`], with everything that is wrong said at once.

mod answers;
mod checks;
mod claims;
mod client;
mod client_steps;
mod nearest;
mod steps;
mod unknown;

pub use nearest::did_you_mean;

use crate::diagnostic::{Diagnostic, DiagnosticLevel};
use crate::json::{Json, JsonError, JsonKind, raw_offset};
use crate::program::{
    ClientTest, Defaults, Handshake, Precondition, Program, SandboxFile, Step, Subject, UnmetSeverity,
};
use crate::wish::Wordings;
use acp_match::{Interpolated, Path, interpolate_text};
use acp_policy::Policy;
use acp_rules::{ClaimId, Side};
use answers::GivenIds;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What came out of reading a file.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The test, unless there was an error.
    pub program: Option<Program>,
    /// Errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Program {
    /// Reads a test file. `file` is its name, from which the test's id comes.
    pub fn read(file: &str, text: &str, defaults: &Defaults) -> Reading {
        let mut interpolated = interpolate_text(text, &defaults.phase_one(&defaults.client_capabilities));
        let mut parsed = Json::read(&interpolated.text);
        let mut capabilities = defaults.client_capabilities.clone();
        let own = parsed.as_ref().ok().and_then(|json| json.get("init")?.get("clientCapabilities"));
        if let Some(own) = own {
            // A test's own capabilities are also what its `${clientCapabilitiesDefault}` stands for.
            capabilities = defaults.capabilities_with(&own.to_value());
            interpolated = interpolate_text(text, &defaults.phase_one(&capabilities));
            parsed = Json::read(&interpolated.text);
        }
        let mut reader = Reader {
            file,
            text,
            interpolated,
            diagnostics: Vec::new(),
            vars: BTreeSet::new(),
            shown: BTreeSet::new(),
            not_understood: None,
            wishes: &defaults.wishes,
            given: GivenIds::new(),
            side: Side::Agent,
        };
        reader.vars.extend(defaults.variables.iter().cloned());
        let program = match parsed {
            Ok(json) => reader.program(&json, capabilities),
            Err(error) => {
                reader.broken(error);
                None
            }
        };
        let mut diagnostics = reader.diagnostics;
        diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        let bad = diagnostics.iter().any(Diagnostic::is_error);
        Reading { program: program.filter(|_| !bad), diagnostics }
    }
}

/// A test file: its name and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestSource {
    /// The name as it is shown; its last part gives the test's id.
    pub name: String,
    /// What it holds.
    pub text: String,
}

impl TestSource {
    /// A file of this name with this text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> TestSource {
        TestSource { name: name.into(), text: text.into() }
    }
}

/// Reads many files; everything that is wrong with any of them comes out. Two tests with one id are an error.
pub fn read_all(files: &[TestSource], defaults: &Defaults) -> (Vec<Program>, Vec<Diagnostic>) {
    let mut programs: Vec<Program> = Vec::new();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut diagnostics = Vec::new();
    for file in files {
        let reading = Program::read(&file.name, &file.text, defaults);
        diagnostics.extend(reading.diagnostics);
        let Some(program) = reading.program else { continue };
        if let Some(other) = ids.get(&program.id) {
            let message = format!("the test {} is also in {}", program.id, programs[*other].file);
            let twice = Diagnostic::new(DiagnosticLevel::Error, &file.name, &file.text, 0..1, message);
            diagnostics
                .push(twice.hint("a test's id is its file name, so file names differ across folders too"));
            continue;
        }
        ids.insert(program.id.clone(), programs.len());
        programs.push(program);
    }
    (programs, diagnostics)
}

/// All diagnostics for people: each with its source line and a caret, and a count at the end.
pub fn render_all(diagnostics: &[Diagnostic], files: &[TestSource], colour: bool) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let text =
            files.iter().find(|file| file.name == diagnostic.file).map_or("", |file| file.text.as_str());
        out.push_str(&diagnostic.render(text, colour));
        out.push_str("\n\n");
    }
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    let warnings = diagnostics.len() - errors;
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    out.push_str(&format!("{}, {}\n", plural(errors, "error"), plural(warnings, "warning")));
    out
}

pub(crate) struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    interpolated: Interpolated,
    diagnostics: Vec<Diagnostic>,
    /// Variables that are set at this point of the file.
    vars: BTreeSet<String>,
    /// Claims that some step shows or breaks.
    shown: BTreeSet<ClaimId>,
    /// The first part of the file that is not understood, in words.
    not_understood: Option<String>,
    /// The wishes that a prompt may name; when there are none, any may be named.
    wishes: &'t Wordings,
    /// Ids for steps that have none, by where the step stands.
    given: GivenIds,
    /// Whom the test is for.
    side: Side,
}

impl Reader<'_> {
    fn program(&mut self, json: &Json, client_capabilities: Value) -> Option<Program> {
        if !json.is_map() {
            self.error(json.span.clone(), format!("a test is a JSON object, this is {}", json.type_name()));
            return None;
        }
        self.side = self.side(json);
        let is_client = self.side == Side::Client;
        self.known_fields(json, &[if is_client { unknown::CLIENT_FILE } else { unknown::FILE }]);
        let id = id_of(self.file);
        let title = self.title(json);
        let severity = self.severity(json);
        let description = self.words_at(json, "description");
        if description.is_none() {
            self.warning(json.span.start..json.span.start + 1, "the test has no description")
                .hint("say in a sentence what the test verifies: \"description\": \"…\"");
        }
        let client = is_client.then(|| self.client_test(json));
        let (policy, handshake) = if is_client { (Policy::None, Handshake::Never) } else { self.init(json) };
        let sandbox = self.sandbox(json);
        let preconditions = self.preconditions(json);
        let exercised = self.exercised(json);
        let steps = self.top_steps(json);
        let client =
            client.map(|test| Box::new(ClientTest { verbs: client_steps::verbs_of(&steps), ..test }));
        let docs = self.words(json, "docs");
        let requirements = self.words(json, "requirements");
        let claims = self.file_claims(json);
        let needs = self.words(json, "needs");
        let may_end = self.flag(json, "mayEnd");
        let aliases = self.words(json, "aliases");
        let protocol_versions = self.versions(json);
        let model = self.list_at(json, "model").iter().map(Json::to_value).collect();
        let dialect = self.words_at(json, "dialect");
        let area = self.words_at(json, "area").unwrap_or_else(|| crate::areas::area_of(&id));
        Some(Program {
            area,
            file: self.file.to_owned(),
            title: title?,
            description,
            severity: severity?,
            docs,
            requirements,
            claims,
            needs,
            may_end,
            aliases,
            model,
            dialect,
            protocol_versions,
            preconditions,
            sandbox,
            client_capabilities,
            policy,
            handshake,
            exercised,
            not_understood: self.not_understood.take(),
            steps,
            client,
            id,
        })
    }

    fn title(&mut self, json: &Json) -> Option<String> {
        let title = self.words_at(json, "title");
        if title.is_none() && json.get("title").is_none() {
            self.error(json.span.start..json.span.start + 1, "the test has no title")
                .hint("add \"title\": \"…\": a sentence that says what holds when the test passes");
        }
        title
    }

    fn severity(&mut self, json: &Json) -> Option<UnmetSeverity> {
        let Some(member) = json.get("severity") else {
            self.error(json.span.start..json.span.start + 1, "the test has no severity")
                .hint("add \"severity\": \"required\", \"optional\" or \"advice\"");
            return None;
        };
        match member.as_text() {
            Some("required") => Some(UnmetSeverity::Required),
            Some("optional") => Some(UnmetSeverity::Optional),
            Some("advice") => Some(UnmetSeverity::Advice),
            _ => {
                self.error(member.span.clone(), "this is not a severity")
                    .hint("use \"required\", \"optional\" or \"advice\"");
                None
            }
        }
    }

    fn init(&mut self, json: &Json) -> (Policy, Handshake) {
        let mut found = (Policy::Yolo, Handshake::Lazy);
        let Some(init) = self.map_at(json, "init") else { return found };
        self.known_fields(init, &[unknown::INIT]);
        self.map_at(init, "clientCapabilities");
        if let Some((name, span)) = self.text_at(init, "permissionPolicy") {
            match name.parse() {
                Ok(policy @ (Policy::None | Policy::Read | Policy::Write | Policy::Yolo)) => found.0 = policy,
                _ => {
                    self.error(span, format!("{name:?} is not a policy for tests"))
                        .hint("use \"none\", \"read\", \"write\" or \"yolo\"");
                }
            }
        }
        match init.get("handshake").map(|value| (&value.kind, &value.span)) {
            None => {}
            Some((JsonKind::Bool(true), _)) => found.1 = Handshake::Always,
            Some((JsonKind::Bool(false), _)) => found.1 = Handshake::Never,
            Some((_, span)) => {
                self.error(span.clone(), "handshake is true or false");
            }
        }
        found
    }

    fn sandbox(&mut self, json: &Json) -> Vec<SandboxFile> {
        let Some(sandbox) = self.map_at(json, "sandbox") else { return Vec::new() };
        let known = if self.side == Side::Client { unknown::CLIENT_SANDBOX } else { unknown::SANDBOX };
        self.known_fields(sandbox, &[known]);
        self.files(sandbox, "files")
    }

    /// The files of one list; links are read elsewhere.
    fn files(&mut self, sandbox: &Json, list: &str) -> Vec<SandboxFile> {
        let is_client = self.side == Side::Client;
        let known = if is_client { unknown::CLIENT_FILES } else { unknown::SANDBOX_FILE };
        let mut files: Vec<SandboxFile> = Vec::new();
        for item in self.list_at(sandbox, list) {
            self.known_fields(item, &[known]);
            let Some((path, span)) = self.text_at(item, "path") else {
                if item.get("path").is_none() {
                    self.error(item.span.clone(), "a sandbox file needs a path");
                }
                continue;
            };
            if let Err(reason) = inside(&path) {
                self.error(span, format!("the path {path:?} {reason}"))
                    .hint("write it relative to the sandbox, as in \"src/main.txt\"");
                continue;
            }
            if files.iter().any(|file| file.path == path) {
                self.error(span, format!("the file {path:?} stands twice in the sandbox"));
                continue;
            }
            if is_client && item.get("link").is_some() {
                continue;
            }
            let contents = self.contents(item);
            files.push(SandboxFile { path, contents });
        }
        files
    }

    fn contents(&mut self, item: &Json) -> Vec<u8> {
        if let (Some(_), Some(second)) = (item.get("text"), item.get("base64")) {
            self.error(second.span.clone(), "a file has either text or base64, not both");
        }
        if let Some((text, _)) = self.text_at(item, "text") {
            return text.into_bytes();
        }
        self.base64(item).unwrap_or_default()
    }

    fn base64(&mut self, item: &Json) -> Option<Vec<u8>> {
        let (text, span) = self.text_at(item, "base64")?;
        match STANDARD.decode(&text) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.error(span, format!("this is not base64: {error}"));
                None
            }
        }
    }

    fn preconditions(&mut self, json: &Json) -> Vec<Precondition> {
        let mut found = Vec::new();
        for item in self.list_at(json, "preconditions") {
            let named = [
                ("agentCap", Subject::AgentCapabilities),
                ("cap", Subject::ClientCapabilities),
                ("agent", Subject::Introduction),
                ("session", Subject::Session),
                ("client", Subject::Client),
                ("driver", Subject::Driver),
            ];
            let side = self.side;
            let is_of_side = |subject: Subject| match subject {
                Subject::ClientCapabilities => true,
                Subject::Client | Subject::Driver => side == Side::Client,
                _ => side == Side::Agent,
            };
            let known: Vec<_> = named
                .into_iter()
                .filter(|(key, subject)| is_of_side(*subject) && item.get(key).is_some())
                .collect();
            self.known_fields(
                item,
                &[if side == Side::Client { unknown::CLIENT_PRECONDITION } else { unknown::PRECONDITION }],
            );
            if known.is_empty() && item.is_map() {
                self.not_understood("a precondition was not understood".to_owned());
                continue;
            }
            let [(key, subject)] = known.as_slice() else {
                self.error(item.span.clone(), "a precondition names one thing to look at")
                    .hint("use one of \"agentCap\", \"cap\", \"agent\", \"session\", with \"mustBe\"");
                continue;
            };
            let Some((text, span)) = self.text_at(item, key) else { continue };
            let path = match Path::parse(&text) {
                Ok(path) => path,
                Err(error) => {
                    self.error(span, error.to_string());
                    continue;
                }
            };
            let is_client = *subject == Subject::ClientCapabilities;
            if is_client && path.first() != Some("client") {
                self.error(span, format!("the path {text:?} does not begin with \"client.\""))
                    .hint("the agent's own capabilities are asked with \"agentCap\"");
                continue;
            }
            if json.get("dialect").is_none()
                && matches!(subject, Subject::AgentCapabilities | Subject::ClientCapabilities)
            {
                self.check_capability(&text, span, is_client);
            }
            let path = if is_client { path.rest() } else { path };
            let unwanted = item.get("mustNotBe").filter(|_| side == Side::Client);
            let must_be = unwanted.or(item.get("mustBe")).map_or(Value::Bool(true), Json::to_value);
            let is_negated = unwanted.is_some();
            found.push(Precondition { subject: *subject, path, must_be, is_negated });
        }
        found
    }

    fn versions(&mut self, json: &Json) -> Vec<u64> {
        let Some(list) = json.get("protocolVersions") else { return vec![1] };
        let versions: Option<Vec<u64>> =
            list.as_list().and_then(|items| items.iter().map(|item| item.to_value().as_u64()).collect());
        versions.filter(|versions| !versions.is_empty()).unwrap_or_else(|| {
            self.error(list.span.clone(), "protocolVersions is a list of version numbers, as in [1]");
            vec![1]
        })
    }

    fn top_steps(&mut self, json: &Json) -> Vec<Step> {
        let Some(list) = json.get("steps") else {
            self.error(json.span.start..json.span.start + 1, "the test has no steps")
                .hint("add \"steps\": [ … ]");
            return Vec::new();
        };
        if list.as_list().is_some_and(<[Json]>::is_empty) {
            self.warning(list.span.clone(), "the list of steps is empty, so the test shows nothing");
        }
        self.given = self.check_answers(json);
        self.steps(list)
    }

    // ---- small readers ---------------------------------------------------------------------------------------------

    fn map_at<'j>(&mut self, json: &'j Json, key: &str) -> Option<&'j Json> {
        let value = json.get(key)?;
        if !value.is_map() {
            self.wrong_type(key, "an object", value);
            return None;
        }
        Some(value)
    }

    fn list_at<'j>(&mut self, json: &'j Json, key: &str) -> &'j [Json] {
        let Some(value) = json.get(key) else { return &[] };
        value.as_list().unwrap_or_else(|| {
            self.wrong_type(key, "an array", value);
            &[]
        })
    }

    fn text_at(&mut self, json: &Json, key: &str) -> Option<(String, Range<usize>)> {
        let value = json.get(key)?;
        let Some(text) = value.as_text() else {
            self.wrong_type(key, "a string", value);
            return None;
        };
        Some((text.to_owned(), value.span.clone()))
    }

    /// Words for people, on one line. A test may come with a checkout, and is shown by many commands and reports.
    fn words_at(&mut self, json: &Json, key: &str) -> Option<String> {
        self.text_at(json, key).map(|(text, _)| acp_text::line(&text))
    }

    fn words(&mut self, json: &Json, key: &str) -> Vec<String> {
        self.texts(json, key).iter().map(|text| acp_text::line(text)).collect()
    }

    fn texts(&mut self, json: &Json, key: &str) -> Vec<String> {
        let mut found = Vec::new();
        for item in self.list_at(json, key) {
            match item.as_text() {
                Some(text) => found.push(text.to_owned()),
                None => self.wrong_type(key, "a list of strings", item),
            }
        }
        found
    }

    fn wrong_type(&mut self, key: &str, wanted: &str, value: &Json) {
        self.error(value.span.clone(), format!("{key:?} must be {wanted}, this is {}", value.type_name()));
    }

    // ---- saying it -------------------------------------------------------------------------------------------------

    fn error(&mut self, span: Range<usize>, message: impl Into<String>) -> Said<'_> {
        self.say(DiagnosticLevel::Error, span, message.into())
    }

    fn warning(&mut self, span: Range<usize>, message: impl Into<String>) -> Said<'_> {
        self.say(DiagnosticLevel::Warning, span, message.into())
    }

    fn say(&mut self, grade: DiagnosticLevel, span: Range<usize>, message: String) -> Said<'_> {
        let start = self.interpolated.original_offset(span.start);
        let end = self.interpolated.original_offset(span.end).max(start);
        self.diagnostics.push(Diagnostic::new(grade, self.file, self.text, start..end, message));
        Said(self.diagnostics.last_mut())
    }

    fn broken(&mut self, error: JsonError) {
        let said = self.error(error.span, error.message);
        if let Some(hint) = error.hint {
            said.hint(hint);
        }
    }

    /// The place of a byte of a decoded string leaf.
    fn inside_leaf(&self, leaf: &Json, decoded: usize, length: usize) -> Range<usize> {
        let literal = self.interpolated.text.get(leaf.span.clone()).unwrap_or("");
        let start = leaf.span.start + raw_offset(literal, decoded);
        let end = leaf.span.start + raw_offset(literal, decoded + length);
        start..end.max(start)
    }

    fn line_of(&self, offset: usize) -> usize {
        crate::diagnostic::place(self.text, self.interpolated.original_offset(offset)).0
    }
}

/// The diagnostic just made, for adding advice.
struct Said<'d>(Option<&'d mut Diagnostic>);

impl Said<'_> {
    fn hint(self, hint: impl Into<String>) {
        if let Some(diagnostic) = self.0 {
            diagnostic.hint = Some(hint.into());
        }
    }
}

fn id_of(file: &str) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    acp_text::line(name.strip_suffix(".jsont").unwrap_or(name))
}

/// Why a path does not stay inside the sandbox.
pub(crate) fn inside(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.starts_with('/') {
        return Err("is absolute");
    }
    if path.contains('\0') {
        return Err("holds a zero byte");
    }
    if path.split('/').any(|part| part == "..") {
        return Err("leaves the sandbox");
    }
    if path.split('/').all(|part| part.is_empty() || part == ".") || path.ends_with('/') {
        return Err("names a folder");
    }
    Ok(())
}
