//! The code engine at work, one engine per session, each call on a thread of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use acp_code::{Engine, Stop};
use acp_script::agent::{Token, ToolOutput, ToolUse};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use crate::connection::Event;

/// How long a call may take before it answers with what it has.
const LIMIT: Duration = Duration::from_secs(30);

/// The engines and what they work on.
pub(crate) struct Tools {
    events: UnboundedSender<Event>,
    engines: HashMap<String, (String, Arc<Engine>)>,
    running: HashMap<Token, Stop>,
}

impl Tools {
    pub(crate) fn new(events: UnboundedSender<Event>) -> Self {
        Self { events, engines: HashMap::new(), running: HashMap::new() }
    }

    pub(crate) fn start(&mut self, tool: ToolUse) {
        let events = self.events.clone();
        let engine = match self.engine(&tool.session, &tool.cwd) {
            Ok(engine) => engine,
            Err(reason) => {
                let _ = events.send(Event::Used { token: tool.token, answer: Err(reason) });
                return;
            }
        };
        let stop = Stop::after(LIMIT);
        self.running.insert(tool.token, stop.clone());
        tokio::task::spawn_blocking(move || {
            let answer = engine.call(&tool.name, &tool.arguments, &stop);
            let answer = answer.map_err(|error| error.to_string()).map(|text| ToolOutput {
                raw: json!({ "text": text }),
                text,
                locations: Vec::new(),
            });
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

    /// The session's engine, so that pages last; a new one when the session moved.
    fn engine(&mut self, session: &str, cwd: &str) -> Result<Arc<Engine>, String> {
        if let Some((known, engine)) = self.engines.get(session)
            && known == cwd
        {
            return Ok(engine.clone());
        }
        let engine = Arc::new(Engine::new(cwd).map_err(|error| error.to_string())?);
        self.engines.insert(session.to_owned(), (cwd.to_owned(), engine.clone()));
        Ok(engine)
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        self.running.values().for_each(Stop::cancel);
    }
}
