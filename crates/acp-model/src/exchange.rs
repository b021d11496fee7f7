//! The part of a conversation that is being answered: from the person's last message on.

use std::sync::LazyLock;

use regex::Regex;

use crate::talk::{ModelPart, ModelRequest, ModelTurn, ToolResult};

/// Tags in which agents wrap words of their own.
const REMINDERS: &[&str] = &[
    "system-reminder",
    "system_reminder",
    "reminder",
    "environment_details",
    "environment_context",
    "environment",
    "user_instructions",
    "session_context",
    "workspace_info",
    "current_datetime",
    "available_tools",
    "context_files",
    "permissions instructions",
    "skills_instructions",
    "tips",
];

/// What is being answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelExchange {
    /// What was said in the person's name since the model's last final answer, oldest first, without the
    /// agent's own reminders; each with the tool results and rounds of calls that came after it.
    pub said: Vec<PersonMessage>,
    /// The tool results since then.
    pub results: Vec<ToolResult>,
    /// The calls since then, as name and input.
    pub calls: Vec<(String, String)>,
    /// The working folder, when the agent tells the model.
    pub cwd: Option<String>,
}

/// One message of the person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersonMessage {
    /// The words.
    pub text: String,
    /// Tool results after it.
    pub results: usize,
    /// Rounds of calls and results after it.
    pub rounds: usize,
}

impl ModelExchange {
    /// Finds it in a request. `reminders` are further tags of the agent's own words.
    pub fn of(request: &ModelRequest, reminders: &[String]) -> Self {
        let mut exchange = Self { cwd: find_cwd(request), ..Self::default() };
        let mut in_results = false;
        for turn in &request.turns {
            match turn {
                ModelTurn::User(parts) => {
                    let text = without_reminders(&crate::talk::user_text(parts), reminders);
                    if !text.trim().is_empty() {
                        exchange.said.push(PersonMessage { text, results: 0, rounds: 0 });
                    }
                }
                ModelTurn::Assistant(parts) => {
                    in_results = false;
                    let calls = parts.iter().filter_map(|part| match part {
                        ModelPart::Call(call) => Some((call.name.clone(), call.input.text())),
                        _ => None,
                    });
                    let before = exchange.calls.len();
                    exchange.calls.extend(calls);
                    let spoke = parts
                        .iter()
                        .any(|part| matches!(part, ModelPart::Text(text) if !text.trim().is_empty()));
                    if exchange.calls.len() == before && spoke {
                        exchange = Self { cwd: exchange.cwd, ..Self::default() };
                    }
                }
                ModelTurn::Result(result) => {
                    let new_round = !std::mem::replace(&mut in_results, true);
                    for said in &mut exchange.said {
                        said.results += 1;
                        said.rounds += usize::from(new_round);
                    }
                    exchange.results.push(result.clone());
                }
            }
        }
        exchange
    }

    /// The person's last message, with reminders already taken out.
    pub fn last_said(&self) -> Option<&PersonMessage> {
        self.said.last()
    }
}

/// Takes the agent's own words out of a message.
fn without_reminders(text: &str, more: &[String]) -> String {
    let mut text = text.to_owned();
    let tags = REMINDERS.iter().copied().chain(more.iter().map(String::as_str));
    for tag in tags {
        // `<tag …>` up to `</tag>`, by hand: the tags are few and the texts may be large.
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        let mut from = 0;
        while let Some(start) = text[from..].find(&open).map(|at| at + from) {
            let whole_name = text[start + open.len()..].starts_with(['>', ' ', '\n']);
            match text[start..].find(&close) {
                Some(end) if whole_name => text.replace_range(start..start + end + close.len(), ""),
                _ => from = start + open.len(),
            }
        }
    }
    text
}

/// The working folder, in the words that agents use for it: the plain ones first, because agents also tell of
/// other folders.
fn find_cwd(request: &ModelRequest) -> Option<String> {
    static TOLD: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        let plain = "working directory|working folder|current working dir(?:ectory)?|cwd|workspace directories|workspace(?: root| folder| path| directory)|project root";
        let vague = "working in the directory|current directory|workspace|directories|directory";
        let told = |words: &str| {
            // a path in quotes may have spaces in it
            let path = r#"(?:"(/[^"\n]+)"|`(/[^`\n]+)`|'(/[^'\n]+)'|(/[^\s<>"'`,;)]+))"#;
            Regex::new(&format!(
                r"(?i)(?:<cwd>|\b(?:{words})\b(?:\s+(?:is|path))?[^\w/\n]{{0,8}}?\s*(?:-\s*)?){path}"
            ))
            .ok()
        };
        // and so may one that fills the rest of its line, or a line of a list
        let line = Regex::new(&format!(
            r#"(?im)(?:<cwd>|\b(?:{plain}|working in the directory)\b[*]{{0,2}}:[*]{{0,2}}(?:[ \t]*\n[ \t]*[-*][ \t])?[ \t]*`?)(/[^\n<>"'`,;()]*[^\s<>"'`,;()])(?:`?\s*$|</cwd>)"#
        ));
        [line.ok(), told(plain), told(vague)].into_iter().flatten().collect()
    });
    let find = |told: &Regex, text: &str| {
        let path = told.captures(text)?.iter().skip(1).flatten().next()?;
        let path = path.as_str().trim_end_matches(['.', ':', '/', '*', '\\']);
        (!path.is_empty()).then(|| path.to_owned())
    };
    TOLD.iter().find_map(|told| {
        find(told, &request.system).or_else(|| request.user_texts().find_map(|(_, text)| find(told, &text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::talk::{Input, ModelCall, UserPart};

    fn user(text: &str) -> ModelTurn {
        ModelTurn::User(vec![UserPart::Text(text.to_owned())])
    }

    fn call(name: &str) -> ModelPart {
        ModelPart::Call(ModelCall {
            id: "c".to_owned(),
            name: name.to_owned(),
            namespace: None,
            input: Input::Text("{}".to_owned()),
        })
    }

    #[test]
    fn a_final_answer_ends_the_exchange_and_reminders_are_not_the_person() {
        let turns = vec![
            user("Read old.txt"),
            ModelTurn::Assistant(vec![ModelPart::Text("there".to_owned())]),
            user("<system-reminder>Read evil.txt</system-reminder>Read new.txt"),
            ModelTurn::Assistant(vec![ModelPart::Text("I will".to_owned()), call("a"), call("b")]),
            ModelTurn::Result(ToolResult { text: "1".to_owned(), ..ToolResult::default() }),
            ModelTurn::Result(ToolResult { text: "2".to_owned(), ..ToolResult::default() }),
            user("<system-reminder>go on</system-reminder>"),
        ];
        let exchange = ModelExchange::of(&ModelRequest { turns, ..ModelRequest::default() }, &[]);
        assert_eq!(exchange.said, [PersonMessage { text: "Read new.txt".to_owned(), results: 2, rounds: 1 }]);
        assert_eq!(exchange.results.len(), 2);
        assert_eq!(exchange.calls.len(), 2);
    }

    #[test]
    fn the_working_folder_is_found_in_the_words_of_agents() {
        let told = [
            "Working directory: /tmp/w/x\nIs git: no",
            "<env>\n<cwd>/tmp/w/x</cwd>",
            "The current working directory is /tmp/w/x.",
            "I'm currently working in the directory: /tmp/w/x\n",
            "Primary working directory: `/tmp/w/x`",
            "- **Workspace Directories:**\n  - /tmp/w/x\n",
        ];
        for text in told {
            let request = ModelRequest { system: text.to_owned(), ..ModelRequest::default() };
            assert_eq!(find_cwd(&request).as_deref(), Some("/tmp/w/x"), "{text}");
        }
        assert_eq!(
            find_cwd(&ModelRequest { system: "no folder here: a/b".to_owned(), ..ModelRequest::default() }),
            None
        );
    }

    #[test]
    fn the_working_folder_may_have_spaces_in_its_name() {
        let told = [
            " - Primary working directory: /tmp/two words/größe\n - Is a git repository: no",
            "<env>\n<cwd>/tmp/two words/größe</cwd>\n</env>",
            "I'm currently working in the directory: /tmp/two words/größe\nThe folder structure follows",
            "- **Workspace Directories:**\n  - /tmp/two words/größe\n- **Directory Structure:**\n",
            "The current working directory is `/tmp/two words/größe`. It is empty.",
            "{\"cwd\": \"/tmp/two words/größe\", \"shell\": \"sh\"}",
        ];
        for text in told {
            let request = ModelRequest { system: text.to_owned(), ..ModelRequest::default() };
            assert_eq!(find_cwd(&request).as_deref(), Some("/tmp/two words/größe"), "{text}");
        }
        let sentence = "Working directory: /tmp/w/x, which is empty";
        let request = ModelRequest { system: sentence.to_owned(), ..ModelRequest::default() };
        assert_eq!(find_cwd(&request).as_deref(), Some("/tmp/w/x"));
    }
}
