//! The system prompt: what a model is told before the conversation.

use std::fmt::Write as _;
use std::path::Path;

use acp_policy::Policy;
use acp_script::agent::ModelQuestion;
use serde_json::json;

use crate::instructions::Reader;
use crate::provider::{ChatRequest, ToolSpec};

const LOOKING: &str = "\n# Looking\n\
    - Look before you answer or change anything: what you remember of other projects may be wrong here.\n\
    - search finds code by words, query by its shape, extract shows whole blocks (file#Symbol, or #Symbol wherever it is \
    declared), list_files and glob show what files there are, read_file shows a text. They need no permission: use them \
    instead of commands such as ls, find, grep, cat and sed.\n\
    - Make calls that do not need each other's results in one answer.\n";

const CHANGING: &str = "\n# Changing\n\
    - Read what you change, and keep to the style that is there. Do what was asked, and no more than that.\n\
    - edit_file changes parts of a file: by the text that stands there, by lines, or a whole declaration by its name. Make \
    several edits of one file in one call: all of them are made, or none. write_file is for new files.\n\
    - When an edit fails, its message shows what stands there: correct the edit and try again.\n\
    - After a change, run what the project has to check it (a build, its tests), and say truthfully what came of it.\n\
    - Never write keys or passwords into files, and change nothing outside of the working folder.\n";

const COMMANDS: &str = "\n# Commands\n\
    - run_command runs a command line in the working folder, without a terminal: nothing can be typed. Give a timeout to \
    what may not end.\n\
    - A command that failed tells why: read it before you try another one.\n";

const PLANNING: &str = "\n# Plan\n\
    - For a task of three or more steps, show a plan with update_plan before you begin. Keep it current: one step is in \
    progress, and a step is completed as soon as it is done.\n\
    - A message that begins with /plan wants a plan and nothing else: look, show it with update_plan, and change nothing.\n\
    - A message that begins with /init wants the file AGENTS.md in the working folder: look at the files, the build, the tests \
    and the style of the project, then write in at most 60 lines what an agent must know to work here: what it is, how it \
    is built, tested and checked, how it is laid out, and which customs its code keeps. Improve a file that is there \
    already instead of replacing it.\n";

const ANSWERS: &str = "\n# Answers\n\
    - Answer in the language of the person, briefly, in Markdown. Begin with the result; leave out praise and repetition.\n\
    - Name places as path:line, so that the person can open them.\n\
    - Always end with words to the person: what you did, what you found, and what is left open.\n";

/// The system prompt for this question, all but what the project says.
pub(crate) fn system(question: &ModelQuestion) -> String {
    let mut text = String::from(
        "You are a coding agent. A person works with you on the files of a project, from an editor or a terminal.\n\n\
         # Environment\n",
    );
    let _ = writeln!(text, "- Working folder: {}", question.cwd);
    text.push_str("- Paths that you give to tools may be relative to it.\n");
    if !question.roots.is_empty() {
        let _ = writeln!(text, "- You may also use {}.", question.roots.join(", "));
    }
    let _ = writeln!(text, "- System: {}", std::env::consts::OS);
    text.push_str(LOOKING);
    if !question.planning {
        text.push_str(CHANGING);
        text.push_str(COMMANDS);
    }
    text.push_str(PLANNING);
    text.push_str("\n# Permissions\n");
    text.push_str(permissions(question));
    text.push_str(ANSWERS);
    if question.delegated {
        text.push_str(
            "\nYou work on a task that was handed to you. Nobody can answer questions. End with the result.\n",
        );
    }
    match question.thought_level.as_str() {
        "low" => text.push_str("\nAnswer at once, without long thinking.\n"),
        "high" => text.push_str("\nThink carefully, step by step, before you act.\n"),
        _ => {}
    }
    text
}

/// What is asked of the person before it is done.
fn permissions(question: &ModelQuestion) -> &'static str {
    if question.planning {
        return "- You are planning: change nothing and run nothing. Look, then give a plan with update_plan and explain it.\n";
    }
    match question.policy {
        Policy::BypassPermissions | Policy::Yolo => {
            "- Nothing is asked before it is done. Be careful with what cannot be undone.\n"
        }
        Policy::AcceptEdits | Policy::Write => {
            "- Files are changed without a question. Commands may need the person's permission.\n\
             - What the person rejects is not done: do not try the same in another way, but ask what is wanted.\n"
        }
        _ => {
            "- The person is asked before files are changed and commands are run. Make each of them clear by itself.\n\
             - What the person rejects is not done: do not try the same in another way, but ask what is wanted.\n"
        }
    }
}

/// Adds what the project says to a request: its instructions, and its skills with the tool that reads them.
pub(crate) fn add_project(request: &mut ChatRequest, question: &ModelQuestion, reader: &Reader) {
    let cwd = Path::new(&question.cwd);
    let instructions = reader.instructions(cwd);
    if !instructions.is_empty() {
        request.system.push_str(
            "\n# Instructions of the project\n\
             Keep to them; where two disagree, the later one counts, and the person's own words count most.\n",
        );
        for file in instructions {
            let _ = write!(
                request.system,
                "\n<instructions file=\"{}\">\n{}\n</instructions>\n",
                file.path,
                file.text.trim()
            );
        }
    }
    let skills = reader.skills(cwd);
    if skills.is_empty() || question.closed.contains(&"skill") {
        return;
    }
    request
        .system
        .push_str("\n# Skills\nBefore a task that one of these is about, read it with the tool skill:\n");
    for skill in &skills {
        let _ = writeln!(request.system, "- {}: {}", skill.name, skill.description);
    }
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    request.tools.push(ToolSpec {
        name: "skill".to_owned(),
        description: "Read how this project wants a task to be done".to_owned(),
        schema: json!({
            "type": "object",
            "properties": { "name": { "type": "string", "enum": names } },
            "required": ["name"],
        }),
    });
}
