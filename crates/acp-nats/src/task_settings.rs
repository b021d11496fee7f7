//! How a proxy does tasks, and what it takes from whoever submits them.

use std::path::PathBuf;
use std::time::Duration;

use acp_policy::PolicyRules;

use super::error::NatsRefusal;
use super::payload::Task;
use super::subject::token;

/// How tasks are done.
#[derive(Clone, Debug)]
pub struct TaskSettings {
    /// How many at once.
    pub at_once: usize,
    /// How many more may wait for their sessions without keeping others from being taken.
    pub most_waiting: usize,
    /// How long a task may be silent before it is delivered again. It is not silent while it is worked on.
    pub ack_wait: Duration,
    /// How long a proxy that has begun a task may be out of reach before the task is over.
    pub lost_after: Duration,
    /// What is allowed without asking.
    pub rules: PolicyRules,
    /// Whether a task may bring MCP servers: commands that the agent starts on this machine.
    pub task_mcp: bool,
    /// Subjects at and below which results may be sent, besides inboxes and the task's own `acp.reply.TASK`.
    pub reply_to: Vec<String>,
    /// Where agents work when the task does not say.
    pub work_dir: PathBuf,
    /// How long an answer to a permission request is waited for.
    pub ask_for: Duration,
    /// Whether a request stays open that long although nobody listens.
    pub hold: bool,
    /// How long a session stays open that has nothing to do.
    pub idle: Duration,
    /// How many such sessions stay open: each has an agent of its own. The one that was used longest ago goes first.
    pub most_idle: usize,
    /// How long running tasks may take to end when we are told to stop, and again after they are cancelled.
    pub grace: Duration,
}

impl Default for TaskSettings {
    fn default() -> Self {
        TaskSettings {
            at_once: 4,
            most_waiting: 256,
            ack_wait: Duration::from_secs(30),
            lost_after: Duration::from_secs(40),
            rules: PolicyRules::default(),
            task_mcp: false,
            reply_to: Vec::new(),
            work_dir: PathBuf::from("/"),
            ask_for: Duration::from_secs(60),
            hold: false,
            idle: Duration::from_secs(600),
            most_idle: 16,
            grace: Duration::from_secs(10),
        }
    }
}

impl TaskSettings {
    /// Whether a task asks for nothing that its submitter may not have from this proxy: why not.
    pub(super) fn accepts(&self, task: &Task) -> Result<(), NatsRefusal> {
        if !self.task_mcp && !task.mcp_servers.is_empty() {
            return Err(
                "the task brings mcpServers, and this proxy takes none from tasks (--task-mcp)".into()
            );
        }
        match &task.reply_to {
            Some(subject) if !self.may_reply(&task.id, subject) => Err(format!(
                "the task's replyTo cannot be used: {subject:?} is neither an inbox (_INBOX.…) nor in acp.reply.{} (--reply-to allows more)",
                token(&task.id)
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// Whether a task's result may be sent to a subject. The proxy may publish where a submitter may not.
    pub(super) fn may_reply(&self, task: &str, subject: &str) -> bool {
        let own = format!("acp.reply.{}", token(task));
        ["_INBOX", &own].into_iter().chain(self.reply_to.iter().map(String::as_str)).any(|space| {
            subject.strip_prefix(space).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_to_inboxes_to_the_task_itself_and_where_the_operator_allows_it() {
        let work = TaskSettings { reply_to: vec!["my.results".to_owned()], ..TaskSettings::default() };
        for subject in ["_INBOX.a.b", "acp.reply.t", "acp.reply.t.more", "my.results", "my.results.of.mine"] {
            assert!(work.may_reply("t", subject), "{subject}");
        }
        for subject in ["orders.new", "_INBOXES.a", "acp.reply.other", "acp.reply.t2", "my", "my.resultsx"] {
            assert!(!work.may_reply("t", subject), "{subject}");
        }
        assert!(work.may_reply("a b", "acp.reply.=YSBi"));
    }
}
