//! `acp info`: what an agent says about itself.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use acp_chat::raw::{INITIALIZE, initialize_request, unheard};
use acp_chat::{Raw, RawOptions};
use acp_host::retry::Meaning;
use acp_policy::{Policy, PolicyRules};
use acp_proto::method;
use acp_rpc::{Direction, Frame, RpcError};
use acp_text::line as clean;
use serde_json::{Value, json};

use crate::out;
use crate::outputs::OutputFormat;
use crate::talk::duration;
use crate::target::TargetArgs;
use crate::trouble::Trouble;

/// How long an agent may take to announce its commands after it opened a session.
const COMMANDS_WITHIN: Duration = Duration::from_millis(300);

/// Arguments of `acp info`.
#[derive(clap::Args)]
#[command(after_help = crate::help::INFO)]
pub struct InfoArgs {
    /// Which agent.
    #[command(flatten)]
    target: TargetArgs,
    /// Open no session: show only what the agent says when it is initialized
    #[arg(long)]
    no_session: bool,
    /// Log in with this method of the agent before the session is opened
    #[arg(long, value_name = "METHOD")]
    auth: Option<String>,
    /// The session's working folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    cwd: PathBuf,
    /// Give up after this long without an answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// text for people, or json with the agent's answers as they came
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: OutputFormat,
}

/// What was found out.
struct Info {
    agent: String,
    initialize: Value,
    initialize_time: Duration,
    session: Option<Result<Value, Value>>,
    session_time: Duration,
    commands: Vec<Value>,
}

/// Asks the agent and prints what it says.
pub fn run(args: &InfoArgs) -> anyhow::Result<ExitCode> {
    if args.target.isolate {
        acp_campaign::isolate::enter()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let found = runtime.block_on(ask(args));
    runtime.shutdown_background();
    let info = match found {
        Ok(info) => info,
        Err(trouble) => return Ok(ExitCode::from(trouble.tell(args.format == OutputFormat::Json)?)),
    };
    match args.format {
        OutputFormat::Json => out::print(acp_text::json(&format!("{:#}\n", info.to_json())).as_bytes())?,
        OutputFormat::Text => out::print(acp_text::block(&info.to_text()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(args: &InfoArgs) -> Result<Info, Trouble> {
    let rules = PolicyRules { policy: Policy::None, ..PolicyRules::default() };
    let options = RawOptions {
        dialect: args.target.dialect().map_err(Trouble::usage)?,
        cwd: args.cwd.clone(),
        rules,
        timeout: args.timeout,
        record: None,
    };
    let target = args.target.resolve().map_err(Trouble::usage)?;
    let mut raw = Raw::open(&target, options).await?;
    let found = questions(args, &mut raw).await;
    raw.close().await;
    found
}

async fn questions(args: &InfoArgs, raw: &mut Raw) -> Result<Info, Trouble> {
    let mut commands = Vec::new();
    let mut seen = |direction: Direction, frame: &Frame| {
        if let (Direction::AgentToClient, Some(found)) = (direction, commands_in(frame)) {
            commands = found;
        }
    };
    let began = Instant::now();
    let initialize = raw.request(INITIALIZE, &initialize_request(), args.timeout, &mut seen).await;
    let initialize = result(INITIALIZE, &initialize.map_err(unheard)?).map_err(|error| {
        Trouble::failed(anyhow::anyhow!("the agent refused {INITIALIZE}: {}", refusal(&error)))
    })?;
    let initialize_time = began.elapsed();
    if let Some(method) = &args.auth {
        let answer =
            raw.request(method::AUTHENTICATE, &json!({ "methodId": method }), args.timeout, &mut seen).await;
        result(method::AUTHENTICATE, &answer?)
            .map_err(|error| Trouble::failed(anyhow::anyhow!("the login failed: {}", refusal(&error))))?;
    }
    let began = Instant::now();
    let mut session = None;
    if !args.no_session {
        let params = json!({ "cwd": raw.workspace.cwd, "mcpServers": [] });
        let answer = raw.request(method::SESSION_NEW, &params, args.timeout, &mut seen).await?;
        session = Some(result(method::SESSION_NEW, &answer));
    }
    let session_time = began.elapsed();
    if let Some(Ok(opened)) = &session {
        raw.listen(COMMANDS_WITHIN, &mut seen).await;
        if initialize
            .pointer("/agentCapabilities/sessionCapabilities/close")
            .is_some_and(|offered| !offered.is_null())
        {
            let close = json!({ "sessionId": opened["sessionId"] });
            let _ = raw.request(method::SESSION_CLOSE, &close, args.timeout, &mut |_, _| {}).await;
        }
    }
    Ok(Info { agent: raw.agent.clone(), initialize, initialize_time, session, session_time, commands })
}

/// The result of a response, or its error.
fn result(method: &str, response: &Frame) -> Result<Value, Value> {
    let parsed = |text: Option<&str>| text.and_then(|text| serde_json::from_str(text).ok());
    match parsed(response.result()) {
        Some(result) => Ok(result),
        None => Err(parsed(response.error())
            .unwrap_or_else(|| json!({ "message": format!("the answer to {method} is not readable") }))),
    }
}

/// The commands that an update announces.
fn commands_in(frame: &Frame) -> Option<Vec<Value>> {
    if frame.method() != Some(method::SESSION_UPDATE) {
        return None;
    }
    let params: Value = serde_json::from_str(frame.params()?).ok()?;
    params["update"]["availableCommands"].as_array().cloned()
}

fn refusal(error: &Value) -> String {
    match RpcError::parse(&error.to_string()) {
        Ok(error) => clean(&error.to_string()),
        Err(_) => clean(&error.to_string()),
    }
}

impl Info {
    fn to_json(&self) -> Value {
        json!({
            "agent": self.agent,
            method::INITIALIZE: self.initialize,
            "session": self.session.as_ref().and_then(|session| session.as_ref().ok()),
            "sessionError": self.session.as_ref().and_then(|session| session.as_ref().err()),
            "commands": self.commands,
            "initializeMs": millis(self.initialize_time),
            "sessionMs": self.session.as_ref().map(|_| millis(self.session_time)),
        })
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        let said = &self.initialize["agentInfo"];
        let name = word(&said["title"]).or_else(|| word(&said["name"])).unwrap_or_else(|| clean(&self.agent));
        let version = word(&said["version"]).map(|version| format!(" {version}")).unwrap_or_default();
        let _ = writeln!(text, "{name}{version}");
        row(&mut text, "protocol", &plain(&self.initialize["protocolVersion"]));
        row(&mut text, method::INITIALIZE, &format!("answered in {} ms", millis(self.initialize_time)));
        let mut capabilities = Vec::new();
        leaves(&self.initialize["agentCapabilities"], String::new(), &mut capabilities);
        list(&mut text, "capabilities", &capabilities, "none declared");
        let logins: Vec<_> =
            items(&self.initialize["authMethods"]).map(|method| described(method, "id")).collect();
        list(&mut text, "logins", &logins, "none needed");
        match &self.session {
            None => {}
            Some(Err(error)) => row(&mut text, "session", &self.no_session(error)),
            Some(Ok(session)) => self.session_text(&mut text, session),
        }
        text
    }

    fn no_session(&self, error: &Value) -> String {
        let needs_login = RpcError::parse(&error.to_string())
            .is_ok_and(|error| Meaning::of(&error) == Meaning::AuthRequired);
        let hint =
            if needs_login { "; log in with --auth METHOD to see modes, options and commands" } else { "" };
        format!("refused: {}{hint}", refusal(error))
    }

    fn session_text(&self, text: &mut String, session: &Value) {
        row(text, "session", &format!("opened in {} ms", millis(self.session_time)));
        let current = word(&session["modes"]["currentModeId"]).unwrap_or_default();
        let mode = |mode: &Value| {
            let (id, words) = described(mode, "id");
            let mark = if id == current { " (current)" } else { "" };
            (format!("{id}{mark}"), words)
        };
        let modes: Vec<_> = items(&session["modes"]["availableModes"]).map(mode).collect();
        list(text, "modes", &modes, "none");
        let options: Vec<_> = items(&session["configOptions"]).map(option).collect();
        list(text, "options", &options, "none");
        let command = |command: &Value| {
            let (name, words) = described(command, "name");
            (format!("/{name}"), words)
        };
        let commands: Vec<_> = self.commands.iter().map(command).collect();
        list(text, "commands", &commands, "none announced");
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn word(value: &Value) -> Option<String> {
    value.as_str().map(clean)
}

/// A value on one line: a string without its quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    word(value).unwrap_or_else(|| clean(&value.to_string()))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Every capability with what is said of it: `{}` and `true` mean yes, `false` and `null` mean no.
fn leaves(value: &Value, place: String, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, member) in members.iter().filter(|(key, _)| *key != "_meta") {
                let key = clean(key);
                leaves(member, if place.is_empty() { key } else { format!("{place}.{key}") }, found);
            }
        }
        _ if place.is_empty() => {}
        Value::Object(_) | Value::Bool(true) => found.push((place, "yes".to_owned())),
        Value::Bool(false) | Value::Null => found.push((place, "no".to_owned())),
        other => found.push((place, plain(other))),
    }
}

/// Something with an id, a name and perhaps a description.
fn described(item: &Value, id: &str) -> (String, String) {
    let mut words: Vec<String> = Vec::new();
    words.extend(if id == "name" { None } else { word(&item["name"]) });
    words.extend(word(&item["description"]));
    (plain(&item[id]), words.join(": "))
}

/// A config option with its current value and its choices.
fn option(option: &Value) -> (String, String) {
    let grouped = |choice: &Value| match choice["options"].as_array() {
        Some(inner) => inner.iter().map(|choice| plain(&choice["value"])).collect::<Vec<_>>(),
        None => vec![plain(&choice["value"])],
    };
    let choices: Vec<String> = items(&option["options"]).flat_map(grouped).collect();
    let choices = if choices.is_empty() { String::new() } else { format!(" (of {})", choices.join(", ")) };
    let name = word(&option["name"]).map(|name| format!("{name}: ")).unwrap_or_default();
    (plain(&option["id"]), format!("{name}{}{choices}", plain(&option["currentValue"])))
}

fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "  {name:<13} {value}");
}

fn list(text: &mut String, name: &str, rows: &[(String, String)], none: &str) {
    if rows.is_empty() {
        return row(text, name, none);
    }
    let _ = writeln!(text, "  {name}");
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(48);
    for (name, words) in rows {
        let _ = writeln!(text, "    {}", format!("{name:<width$}  {words}").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_listed_by_their_place() {
        let mut found = Vec::new();
        let said = json!({"loadSession": true, "promptCapabilities": {"image": false}, "sessionCapabilities": {"list": {}},
            "_meta": {"x": 1}, "ours": "later"});
        leaves(&said, String::new(), &mut found);
        let rows: Vec<String> = found.iter().map(|(name, words)| format!("{name} {words}")).collect();
        assert_eq!(
            rows,
            ["loadSession yes", "promptCapabilities.image no", "sessionCapabilities.list yes", "ours later"]
        );
    }

    #[test]
    fn options_show_their_value_and_choices() {
        let said = json!({"id": "model", "name": "Model", "currentValue": "a",
            "options": [{"name": "G", "options": [{"value": "a"}, {"value": "b"}]}]});
        assert_eq!(option(&said), ("model".to_owned(), "Model: a (of a, b)".to_owned()));
        let said = json!({"id": "fast", "name": "Fast", "type": "boolean", "currentValue": true});
        assert_eq!(option(&said).1, "Fast: true");
    }
}
