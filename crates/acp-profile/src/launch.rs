//! A profile made concrete: every `${…}` filled in.

use std::collections::BTreeMap;

use acp_match::{Fill, Template, Vars};
use serde_json::Value;

use crate::Profile;

/// The variables that profiles may use, with what they stand for.
pub const VARIABLES: &[(&str, &str)] = &[
    ("home", "the agent's private home folder"),
    ("workspace", "the session's working folder"),
    ("tmp", "the agent's private temporary folder"),
    ("modelUrl", "the address of the scripted model, without a path"),
    ("model", "the model's name"),
    ("bin", "the folder of the installed programs"),
    ("packages", "the folder into which the packages are installed"),
    ("port", "the TCP port to listen on"),
    ("sessionId", "the session, in setup requests"),
];

/// What to start, and what to do before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Files to write first.
    pub files: Vec<HomeFile>,
    /// Commands to run first.
    pub prepare: Vec<Vec<String>>,
}

/// A file of the private home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeFile {
    /// Its path below the home folder.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A `${…}` that cannot be filled.
#[derive(Debug, thiserror::Error)]
#[error("profile {profile:?}, {place}: {reason}")]
pub struct ResolveError {
    /// The profile's name.
    pub profile: String,
    /// The field.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

impl Profile {
    /// Fills in the variables for a start over standard input and output.
    pub fn resolve(&self, vars: &Vars) -> Result<Launch, ResolveError> {
        self.launch(&self.args, vars)
    }

    /// The same for a start that listens on TCP; `None` when the agent cannot.
    pub fn resolve_tcp(&self, vars: &Vars) -> Option<Result<Launch, ResolveError>> {
        Some(self.launch(self.tcp_args.as_ref()?, vars))
    }

    /// The requests to send after session/new.
    pub fn setup_requests(&self, vars: &Vars) -> Result<Vec<Value>, ResolveError> {
        let filled = self.setup.iter().enumerate().map(|(index, request)| {
            let mut request = request.clone();
            Template::render_value(&mut request, vars)
                .map_err(|(at, error)| self.unfilled(format!("setup/{index}{at}"), error.to_string()))?;
            Ok(request)
        });
        filled.collect()
    }

    fn launch(&self, args: &[String], vars: &Vars) -> Result<Launch, ResolveError> {
        let mut vars = vars.clone();
        if let Some(model) = self.model.as_ref().filter(|model| !model.name.is_empty())
            && !vars.contains("model")
        {
            vars.set("model", model.name.clone());
        }
        let list = |place: &str, list: &[String]| -> Result<Vec<String>, ResolveError> {
            let filled =
                list.iter().enumerate().map(|(n, text)| self.fill(&format!("{place}[{n}]"), text, &vars));
            filled.collect()
        };
        let env = self
            .env
            .iter()
            .map(|(name, text)| Ok((name.clone(), self.fill(&format!("env.{name}"), text, &vars)?)));
        let files = self.home.iter().map(|(path, content)| self.home_file(path, content, &vars));
        let prepare = self.prepare.iter().map(|command| list("prepare", command));
        Ok(Launch {
            command: self.fill("command", &self.command, &vars)?,
            args: list("args", args)?,
            env: env.collect::<Result<_, ResolveError>>()?,
            files: files.collect::<Result<_, _>>()?,
            prepare: prepare.collect::<Result<_, _>>()?,
        })
    }

    fn home_file(&self, path: &str, content: &Value, vars: &Vars) -> Result<HomeFile, ResolveError> {
        let place = format!("home[{path:?}]");
        let text = match content {
            Value::String(text) => self.fill(&place, text, vars)?,
            other => {
                let mut value = other.clone();
                Template::render_value(&mut value, vars)
                    .map_err(|(at, error)| self.unfilled(format!("{place}{at}"), error.to_string()))?;
                serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
            }
        };
        Ok(HomeFile { path: path.to_owned(), text })
    }

    fn fill(&self, place: &str, text: &str, vars: &Vars) -> Result<String, ResolveError> {
        Template::parse(text)
            .and_then(|template| template.render(vars, Fill::Raw))
            .map_err(|error| self.unfilled(place.to_owned(), error.to_string()))
    }

    fn unfilled(&self, place: String, reason: String) -> ResolveError {
        ResolveError { profile: self.name.clone(), place, reason }
    }
}
