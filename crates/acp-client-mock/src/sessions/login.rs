//! Logging in.

use std::sync::Arc;

use acp_host::AcpClient;
use serde_json::Value;

use super::{connect, connected, launch, open};
use crate::ending;
use crate::launch::StartedAgent;
use crate::state::Shared;

/// Logs in with this method, or with the first one, and opens the session that had been refused.
pub(super) async fn login(shared: &Arc<Shared>, wanted: Option<String>) -> Result<(), String> {
    let client = connected(shared).await?;
    let methods = methods(shared);
    let is_wanted = |method: &&Value| wanted.as_deref().is_none_or(|wanted| id(method) == wanted);
    let Some(method) = methods.iter().find(is_wanted) else {
        return Err(match wanted {
            Some(wanted) => format!("the agent does not offer the login {wanted:?}"),
            None => "the agent offers no login".to_owned(),
        });
    };
    match is_terminal(method) {
        true => in_terminal(shared, method).await?,
        false => authenticate(&client, method).await?,
    }
    let wants_session = shared.state().wants_login;
    if wants_session { open(shared).await } else { Ok(()) }
}

/// Logs in with the first method that needs no terminal, if there is one.
pub(super) async fn with_first_method(shared: &Arc<Shared>, client: &AcpClient) -> Result<(), String> {
    match methods(shared).iter().find(|method| !is_terminal(method)) {
        Some(method) => authenticate(client, method).await,
        None => Ok(()),
    }
}

async fn authenticate(client: &AcpClient, method: &Value) -> Result<(), String> {
    client.authenticate(id(method)).await.map(drop).map_err(|error| error.to_string())
}

fn methods(shared: &Shared) -> Vec<Value> {
    let state = shared.state();
    let agent = state.connection.as_ref().map(|open| &open.agent);
    agent.and_then(|agent| agent.get("authMethods")?.as_array()).cloned().unwrap_or_default()
}

fn id(method: &Value) -> &str {
    method.get("id").and_then(Value::as_str).unwrap_or_default()
}

fn is_terminal(method: &Value) -> bool {
    method.get("type").and_then(Value::as_str) == Some("terminal")
}

/// Starts the agent's program for the login, and anew when that has worked.
async fn in_terminal(shared: &Arc<Shared>, method: &Value) -> Result<(), String> {
    let mut launch = launch(shared);
    let args = method.get("args").and_then(Value::as_array).into_iter().flatten();
    launch.added = args.filter_map(|word| word.as_str().map(str::to_owned)).collect();
    let env = method.get("env").and_then(Value::as_object).into_iter().flatten();
    launch.env = env.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    shared.manners.prepare_login(&mut launch);
    let StartedAgent { mut link, process } = shared.agents.start(launch).await?;
    // What it prints is for the person.
    let read = async { while link.rx.recv().await.is_some() {} };
    let code = match process {
        None => (read.await, Some(0)).1,
        Some(mut process) => {
            let silent = async {
                read.await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                code = process.wait() => code,
                () = silent => None,
            }
        }
    };
    if code != Some(0) {
        return Err(format!("the login with {:?} failed: its program ended with {code:?}", id(method)));
    }
    if shared.manners.reconnects_after_login() {
        ending::end_agent(shared).await;
        connect(shared).await?;
    }
    Ok(())
}
