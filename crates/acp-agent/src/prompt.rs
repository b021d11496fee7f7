//! The system prompt: what a model is told before the conversation.

use acp_script::agent::Question;

/// The system prompt for this question.
pub(crate) fn system(question: &Question) -> String {
    let mut text = format!(
        "You are a coding agent. You work in the folder {}. Paths that you give to tools may be relative to it.\n\
         Use the tools to look before you answer, and to do what you are asked; say briefly what you did.\n\
         search finds code by words, query by its shape, extract shows whole blocks. Keep the plan current with \
         update_plan when a task has several steps. A message that begins with /plan wants a plan and nothing else: \
         look, show it with update_plan, and change nothing.",
        question.cwd
    );
    if !question.roots.is_empty() {
        text.push_str(&format!("\nYou may also use {}.", question.roots.join(", ")));
    }
    if question.planning {
        text.push_str(
            "\nYou are planning: change nothing. Look, then give a plan with update_plan and explain it.",
        );
    }
    if question.delegated {
        text.push_str(
            "\nYou work on a task that was handed to you. Nobody can answer questions. End with the result.",
        );
    }
    match question.thought_level.as_str() {
        "low" => text.push_str("\nAnswer at once, without long thinking."),
        "high" => text.push_str("\nThink carefully, step by step, before you act."),
        _ => {}
    }
    text
}
