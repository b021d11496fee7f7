//! The person at the client, who answers questions.

use std::sync::Arc;
use std::time::Duration;

use acp_host::{Ask, Elicited, PermissionChoice, UserAnswer, UserQuestion};
use acp_policy::{PermissionOption, PermissionOutcome, PolicyVerdict, choose_option};
use acp_proto::method;
use acp_script::client_habits::{ElicitationAnswers, PermissionAnswers, WithoutChoice};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::forms;
use crate::state::Shared;

/// How long a question is looked at that is shown alone.
const LOOK: Duration = Duration::from_millis(150);

/// Answers questions until nobody can ask any more.
pub(crate) async fn answer_all(shared: Arc<Shared>, mut questions: mpsc::Receiver<UserQuestion>) {
    while let Some(question) = questions.recv().await {
        tokio::spawn(answer(Arc::clone(&shared), question));
    }
}

async fn answer(shared: Arc<Shared>, mut question: UserQuestion) {
    let Ok(_shown) = shared.screen.acquire().await else { return };
    if shared.nature.habits.one_question_at_a_time {
        tokio::time::sleep(LOOK).await;
    }
    match question.ask.clone() {
        Ask::Permission { title, options, .. } => {
            shared.tell(
                json!({ "event": "permission", "sessionId": question.session.clone(), "title": title }),
            );
            let mut answers = shared.permission.subscribe();
            loop {
                let with = *answers.borrow_and_update();
                if let Some(answer) = permission(with, shared.nature.habits.without_choice, &options) {
                    return question.answer(answer);
                }
                tokio::select! {
                    () = question.stale() => return,
                    changed = answers.changed() => if changed.is_err() {
                        return;
                    },
                }
            }
        }
        Ask::Access { method, .. } => {
            let refuses = method == method::TERMINAL_CREATE && shared.nature.habits.refuses_commands;
            question.answer(if refuses { UserAnswer::No } else { UserAnswer::Yes });
        }
        Ask::Form { schema, .. } => {
            let elicited = elicited(&shared, Some(&schema));
            question.answer(UserAnswer::Elicited(elicited));
        }
        Ask::Url { .. } => {
            let elicited = elicited(&shared, None);
            question.answer(UserAnswer::Elicited(elicited));
        }
    }
}

/// The answer to a permission question; none where it is left open.
fn permission(
    with: PermissionAnswers,
    without: WithoutChoice,
    options: &[PermissionChoice],
) -> Option<UserAnswer> {
    let offered: Vec<PermissionOption<'_>> =
        options.iter().map(|option| PermissionOption { id: &option.id, kind: option.kind }).collect();
    let choose = |verdict| match choose_option(verdict, &offered) {
        PermissionOutcome::Selected(id) => Some(UserAnswer::Option(id)),
        PermissionOutcome::Cancelled => None,
    };
    let chosen = match with {
        PermissionAnswers::Leave => return None,
        PermissionAnswers::Cancelled => None,
        PermissionAnswers::Reject => choose(PolicyVerdict::Deny),
        PermissionAnswers::Allow => choose(PolicyVerdict::Allow)
            .or_else(|| (without == WithoutChoice::Rejects).then(|| choose(PolicyVerdict::Deny)).flatten()),
    };
    Some(chosen.unwrap_or(UserAnswer::Cancelled))
}

/// The answer to a form, or to a page.
fn elicited(shared: &Shared, schema: Option<&Value>) -> Elicited {
    let form = std::mem::take(&mut shared.state().form);
    let action = match (&form.values, form.action) {
        (_, Some(action)) => action,
        (Some(_), None) => ElicitationAnswers::Accept,
        (None, None) => shared.nature.habits.elicit,
    };
    match (action, schema) {
        (ElicitationAnswers::Decline, _) => Elicited::Decline,
        (ElicitationAnswers::Cancel, _) => Elicited::Cancel,
        (ElicitationAnswers::Accept, None) => Elicited::Accept(serde_json::Map::new()),
        (ElicitationAnswers::Accept, Some(schema)) => {
            let values = forms::filled(schema, form.values.unwrap_or_default());
            let fits = !shared.manners.checks_forms() || forms::fits(schema, &values);
            if fits { Elicited::Accept(values) } else { Elicited::Decline }
        }
    }
}
