//! What can be typed.

use acp_proto::update;
use serde_json::{Value, json};

/// The commands: name, description, hint for what may follow.
const COMMANDS: [(&str, &str, Option<&str>); 8] = [
    ("run", "run the tests, or those of an area", Some("area or test")),
    ("list", "list the areas, or the tests of one", Some("area")),
    ("report", "write the report", None),
    ("next", "run the next test that ends the turn", None),
    ("skip", "leave the next test out", None),
    ("redo", "run the tests again that did not pass, or one", Some("test")),
    ("stop", "stop the exam", None),
    ("trace", "write the conversation to a file", None),
];

/// What someone typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Run(String),
    List(String),
    Report,
    Next,
    Skip,
    Redo(String),
    Stop,
    Trace,
    Other,
}

impl Wish {
    /// Reads what was typed.
    pub fn parse(text: &str) -> Wish {
        let mut words = text.trim().splitn(2, char::is_whitespace);
        let name = words.next().unwrap_or_default();
        let rest = words.next().unwrap_or_default().trim().to_owned();
        match name.strip_prefix('/') {
            Some("run") => Wish::Run(rest),
            Some("list") => Wish::List(rest),
            Some("report") => Wish::Report,
            Some("next") => Wish::Next,
            Some("skip") => Wish::Skip,
            Some("redo") => Wish::Redo(rest),
            Some("stop") => Wish::Stop,
            Some("trace") => Wish::Trace,
            _ => Wish::Other,
        }
    }
}

/// The update that announces the commands.
pub(super) fn announcement() -> Value {
    let commands: Vec<Value> = COMMANDS
        .iter()
        .map(|(name, description, hint)| {
            let mut command = json!({ "name": name, "description": description });
            if let Some(hint) = hint {
                command["input"] = json!({ "hint": hint });
            }
            command
        })
        .collect();
    json!({ "sessionUpdate": update::AVAILABLE_COMMANDS_UPDATE, "availableCommands": commands })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_announced_command_is_understood() {
        for (name, _, _) in COMMANDS {
            assert_ne!(Wish::parse(&format!(" /{name} fs \n")), Wish::Other, "{name}");
        }
        assert_eq!(Wish::parse("/run  fs.* "), Wish::Run("fs.*".to_owned()));
        assert_eq!(Wish::parse("please run"), Wish::Other);
    }
}
