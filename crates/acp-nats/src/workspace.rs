//! Where the session of a task works, and with what: as the proxy says, else as the task says, else as before.

use std::path::PathBuf;

use acp_host::Workspace;
use agent_client_protocol_schema::v1::McpServer;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::payload::Task;
use super::task_runner::TaskRunner;
use super::task_session::Refusal;
use tracing::Level;

/// What a session was opened with.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Before {
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    mcp_servers: Vec<Box<RawValue>>,
}

impl TaskRunner {
    /// The workspace of a session that is opened, or loaded again, for a task.
    pub(super) async fn workspace(&self, task: &Task) -> Result<Workspace, Refusal> {
        let before = self.before(task).await?;
        let cwd = match (&self.proxy.settings().duties.cwd, &task.cwd) {
            (Some(fixed), asked) => {
                if let Some(asked) = asked.as_ref().filter(|asked| *asked != fixed) {
                    let words = format!(
                        "task {:?} asks for the folder {asked:?}, and works in {fixed:?} like all (--work-dir)",
                        task.id
                    );
                    self.shared().say(Level::WARN, &words);
                }
                PathBuf::from(fixed)
            }
            (None, asked) => {
                let asked = asked.clone().or(before.cwd);
                asked.map_or_else(|| self.settings.work_dir.clone(), PathBuf::from)
            }
        };
        let (whose, servers) = match task.mcp_servers.is_empty() {
            false => ("the task's", &task.mcp_servers),
            // What is stored of a session is also what others could store there.
            true if !self.settings.task_mcp => ("no", &task.mcp_servers),
            true => ("the session's", &before.mcp_servers),
        };
        let servers: Result<Vec<McpServer>, _> =
            servers.iter().map(|server| serde_json::from_str(server.get())).collect();
        let mcp_servers =
            servers.map_err(|error| Refusal::Never(format!("{whose} mcpServers cannot be used: {error}")))?;
        Ok(Workspace { cwd, mcp_servers, ..Workspace::default() })
    }

    /// What the task's session was opened with the last time, as far as the task does not say it.
    async fn before(&self, task: &Task) -> Result<Before, Refusal> {
        let Some(session) = &task.session else { return Ok(Before::default()) };
        if task.cwd.is_some() && !task.mcp_servers.is_empty() {
            return Ok(Before::default());
        }
        let params = self.shared().opened_with(session).await.map_err(|why| {
            Refusal::Again(format!("what session {session:?} was opened with cannot be read: {why}"))
        })?;
        Ok(params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default())
    }
}
