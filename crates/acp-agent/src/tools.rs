//! The code engine at work, one engine per session and folder, each call on a thread of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_code::{CodeAnswer, CodeError, Engine, StopSignal, extract};
use acp_host::with_real_names;
use acp_script::agent::{Fence, Token, ToolOutput, ToolUse};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::connection::Event;
use crate::findings;
use crate::instructions::Reader;
use crate::local_tools::within;
use crate::survey;

/// How long a call may take before it answers with what it has.
const LIMIT: Duration = Duration::from_secs(30);

/// The engines and what they work on.
pub(crate) struct Tools {
    events: UnboundedSender<Event>,
    fence: Fence,
    reader: Reader,
    engines: HashMap<(String, String), Arc<Engine>>,
    running: HashMap<Token, StopSignal>,
}

impl Tools {
    /// Engines that stay inside of the fence.
    pub(crate) fn new(events: UnboundedSender<Event>, fence: Fence, reader: Reader) -> Self {
        Self { events, fence, reader, engines: HashMap::new(), running: HashMap::new() }
    }

    pub(crate) fn start(&mut self, tool: ToolUse) {
        let (events, token) = (self.events.clone(), tool.token);
        let reach = match self.reach(&tool) {
            Ok(reach) => reach,
            Err(why) => {
                let answer = match why {
                    Unusable::Denied(reason) => Ok(ToolOutput::denied(reason)),
                    Unusable::Broken(reason) => Err(reason),
                };
                let _ = events.send(Event::Used { token, answer });
                return;
            }
        };
        let stop = StopSignal::after(LIMIT);
        self.running.insert(token, stop.clone());
        let reader = self.reader.clone();
        tokio::task::spawn_blocking(move || {
            let answer = match reach.output(&tool, &reader, &stop) {
                Ok(output) => Ok(output),
                Err(error @ CodeError::Outside { .. }) => {
                    Ok(ToolOutput::denied(format!("{}: {error}", tool.name)))
                }
                Err(error) => Err(error.to_string()),
            };
            let _ = events.send(Event::Used { token, answer });
        });
    }

    pub(crate) fn done(&mut self, token: Token) {
        self.running.remove(&token);
    }

    pub(crate) fn abandon(&mut self, token: Token) {
        if let Some(stop) = self.running.remove(&token) {
            stop.cancel();
        }
    }

    /// Lets go of a session's engines.
    pub(crate) fn close_session(&mut self, session: &str) {
        self.engines.retain(|(its, _), _| its != session);
    }

    /// The engines of the folders that a call is about, or why one of them cannot be used.
    fn reach(&mut self, tool: &ToolUse) -> Result<Reach, Unusable> {
        let named = tool.arguments.get("path").and_then(Value::as_str);
        let folder = folder(tool, named.unwrap_or_default()).to_owned();
        let mut reach = Reach { engine: self.engine(tool, &folder)?, folder, further: Vec::new() };
        let files = tool.arguments.get("files").and_then(Value::as_array).into_iter().flatten();
        for folder in files.filter_map(Value::as_str).map(|file| self::folder(tool, file)) {
            if folder != reach.folder && !reach.further.iter().any(|(known, _)| known == folder) {
                reach.further.push((folder.to_owned(), self.engine(tool, folder)?));
            }
        }
        Ok(reach)
    }

    /// The session's engine for this folder, kept so that pages last.
    fn engine(&mut self, tool: &ToolUse, folder: &str) -> Result<Arc<Engine>, Unusable> {
        // The folder may have become a link since the session began.
        if let Err(reason) = within(&self.fence, folder) {
            return Err(Unusable::Denied(format!("{}: {reason}", tool.name)));
        }
        let key = (tool.session.clone(), folder.to_owned());
        // It has no pages, and rules of its own.
        let lasts = tool.name != "extract";
        if let Some(engine) = self.engines.get(&key).filter(|_| lasts) {
            return Ok(engine.clone());
        }
        let mut engine = Engine::new(folder).map_err(|error| Unusable::Broken(error.to_string()))?;
        if !tool.deny.is_empty() {
            // By the folder's name as it was given, and by its real one.
            let deny = with_real_names(&tool.deny, Path::new(&tool.cwd));
            let rules = ToolUse { deny, ..tool.clone() };
            let mut names = vec![PathBuf::from(folder), engine.root().to_owned()];
            names.dedup();
            let hides = move |file: &str| {
                names.iter().any(|folder| rules.hides(&folder.join(file).to_string_lossy()))
            };
            engine = engine.with_hidden(hides);
        }
        let engine = Arc::new(engine);
        if lasts {
            self.engines.insert(key, engine.clone());
        }
        Ok(engine)
    }
}

/// Why a folder cannot be looked at.
enum Unusable {
    Denied(String),
    Broken(String),
}

/// What a call may look at.
struct Reach {
    folder: String,
    engine: Arc<Engine>,
    /// Other folders, which files of an `extract` lie in.
    further: Vec<(String, Arc<Engine>)>,
}

impl Reach {
    fn output(&self, tool: &ToolUse, reader: &Reader, stop: &StopSignal) -> Result<ToolOutput, CodeError> {
        match tool.name.as_str() {
            "survey" => survey::output(&self.engine, Path::new(&tool.cwd), stop),
            "skill" => {
                let refused = |what: String| CodeError::Request { tool: "skill", what };
                let name = tool.arguments.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| refused("`name` is missing".to_owned()))?;
                let text = reader.skill(Path::new(&tool.cwd), name).map_err(refused)?;
                Ok(ToolOutput { text, ..ToolOutput::default() })
            }
            _ => {
                let answer = self.answer(tool, stop)?;
                Ok(findings::output(&answer, Path::new(&self.folder), tool.verbose))
            }
        }
    }

    fn answer(&self, tool: &ToolUse, stop: &StopSignal) -> Result<CodeAnswer, CodeError> {
        if self.further.is_empty() {
            return self.engine.answer(&tool.name, &tool.arguments, stop);
        }
        let request = extract::ExtractRequest::deserialize(&tool.arguments)
            .map_err(|error| CodeError::Request { tool: "extract", what: error.to_string() })?;
        let further = |file: &str| self.further.iter().find(|(it, _)| it == folder(tool, file));
        let mut results = Engine::extract_among(&request, stop, |file| {
            further(file).map_or(&*self.engine, |(_, engine)| engine)
        })?;
        // Two folders may have files of the same name: what lies elsewhere is named in full.
        for piece in &mut results.results {
            if let Some((folder, _)) = further(&piece.request) {
                piece.file = Path::new(folder).join(&piece.file).to_string_lossy().into_owned();
            }
        }
        Ok(CodeAnswer::Extract(results, request.format))
    }
}

/// The folder of the session that a path is about: the one that it lies in when it is absolute, or the working folder.
fn folder<'t>(tool: &'t ToolUse, path: &str) -> &'t str {
    let within = |root: &&String| Path::new(path).starts_with(root);
    let roots = tool.roots.iter().filter(within).filter(|_| !within(&&tool.cwd));
    roots.max_by_key(|root| root.len()).unwrap_or(&tool.cwd)
}

impl Drop for Tools {
    fn drop(&mut self) {
        self.running.values().for_each(StopSignal::cancel);
    }
}

#[cfg(test)]
mod tests {
    use acp_policy::ToolPatterns;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn files_of_several_roots_are_taken_each_from_its_own() {
        let place = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one", "two"].map(|name| place.path().join(name));
        for (folder, file, code) in [
            (&one, "same.rs", "fn of_one() {}"),
            (&two, "same.rs", "fn of_two() {}"),
            (&one, "own.rs", "fn own() {}"),
        ] {
            std::fs::create_dir_all(folder).expect("a folder");
            std::fs::write(folder.join(file), code).expect("a file");
        }
        let (own, far) = (one.join("own.rs"), two.join("same.rs"));
        let (events, mut heard) = mpsc::unbounded_channel();
        let reader = Reader::new(Fence::default(), &ToolPatterns::default());
        let mut tools = Tools::new(events, Fence::default(), reader);
        tools.start(ToolUse {
            token: 1,
            session: "s".to_owned(),
            name: "extract".to_owned(),
            arguments: json!({ "files": ["same.rs", format!("{}:1", far.display()), own, place.path().join("x")] }),
            cwd: one.to_string_lossy().into_owned(),
            roots: vec![two.to_string_lossy().into_owned()],
            verbose: false,
            deny: ToolPatterns::default(),
        });
        let Some(Event::Used { answer: Ok(output), .. }) = heard.recv().await else { panic!("no answer") };
        let results = output.raw["results"].as_array().expect("results");
        let found: Vec<_> = results.iter().map(|it| (&it["file"], it["code"].as_str())).collect();
        let (near, beside) = (json!("same.rs"), json!(place.path().join("x")));
        assert_eq!(
            found,
            [
                (&near, Some("fn of_one() {}")),
                (&json!(far), Some("fn of_two() {}")),
                (&json!("own.rs"), Some("fn own() {}")),
                (&beside, None),
            ]
        );
        let at = |path| json!({ "path": path, "line": 1 });
        assert_eq!(output.locations, [at(one.join("same.rs")), at(far), at(own)]);
    }
}
