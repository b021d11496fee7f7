//! The code engine at work, one engine per session and folder, each call on a thread of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_code::{CodeError, Engine, Stop};
use acp_script::agent::{Fence, Token, ToolOutput, ToolUse};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use crate::connection::Event;
use crate::findings;
use crate::hands::within;

/// How long a call may take before it answers with what it has.
const LIMIT: Duration = Duration::from_secs(30);

/// The engines and what they work on.
pub(crate) struct Tools {
    events: UnboundedSender<Event>,
    fence: Fence,
    engines: HashMap<(String, String), Arc<Engine>>,
    running: HashMap<Token, Stop>,
}

impl Tools {
    /// Engines that stay inside of the fence.
    pub(crate) fn new(events: UnboundedSender<Event>, fence: Fence) -> Self {
        Self { events, fence, engines: HashMap::new(), running: HashMap::new() }
    }

    pub(crate) fn start(&mut self, tool: ToolUse) {
        let events = self.events.clone();
        let folder = folder(&tool).to_owned();
        // The folder may have become a link since the session began.
        if let Err(reason) = within(&self.fence, &folder) {
            let answer = Ok(ToolOutput::denied(format!("{}: {reason}", tool.name)));
            let _ = events.send(Event::Used { token: tool.token, answer });
            return;
        }
        let engine = match self.engine(&tool, &folder) {
            Ok(engine) => engine,
            Err(reason) => {
                let _ = events.send(Event::Used { token: tool.token, answer: Err(reason) });
                return;
            }
        };
        let stop = Stop::after(LIMIT);
        self.running.insert(tool.token, stop.clone());
        tokio::task::spawn_blocking(move || {
            let answer = engine.answer(&tool.name, &tool.arguments, &stop);
            let answer = match answer {
                Ok(answer) => Ok(findings::output(&answer, Path::new(&folder), tool.verbose)),
                Err(error @ CodeError::Outside { .. }) => {
                    Ok(ToolOutput::denied(format!("{}: {error}", tool.name)))
                }
                Err(error) => Err(error.to_string()),
            };
            let _ = events.send(Event::Used { token: tool.token, answer });
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

    /// The session's engine for this folder, kept so that pages last.
    fn engine(&mut self, tool: &ToolUse, folder: &str) -> Result<Arc<Engine>, String> {
        let key = (tool.session.clone(), folder.to_owned());
        // It has no pages, and rules of its own.
        let lasts = tool.name != "extract";
        if let Some(engine) = self.engines.get(&key).filter(|_| lasts) {
            return Ok(engine.clone());
        }
        let mut engine = Engine::new(folder).map_err(|error| error.to_string())?;
        if !tool.deny.is_empty() {
            // By the folder's name as it was given, and by its real one.
            let (rules, names) = (tool.clone(), [PathBuf::from(folder), engine.root().to_owned()]);
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

/// The folder of the session that a call is about: the one that its first absolute path lies in, or the working folder.
fn folder(tool: &ToolUse) -> &str {
    let named = tool.arguments.get("path").into_iter();
    let files = tool.arguments.get("files").and_then(Value::as_array).into_iter().flatten();
    let path = named.chain(files).filter_map(Value::as_str).find(|path| path.starts_with('/'));
    let within = |root: &&String| path.is_some_and(|path| Path::new(path).starts_with(root));
    let roots = tool.roots.iter().filter(within).filter(|_| !within(&&tool.cwd));
    roots.max_by_key(|root| root.len()).unwrap_or(&tool.cwd)
}

impl Drop for Tools {
    fn drop(&mut self) {
        self.running.values().for_each(Stop::cancel);
    }
}
