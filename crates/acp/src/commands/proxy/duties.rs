//! What a proxy does besides passing lines on.

use acp_proxy::Duties;
use acp_script::faults::parse_spec;
use anyhow::Context;

use crate::patterns;
use crate::settings::FileSettings;
use acp_chat::mcp;

/// The flags for that.
#[derive(clap::Args, Debug)]
pub struct DutyArgs {
    /// Decide permission requests: default (pass every one on), acceptEdits, bypassPermissions, plan, none, read, write,
    /// yolo, or a policy of acp.toml; what the policy would ask about is passed on to the client
    #[arg(long, value_name = "POLICY", help_heading = "Policy")]
    policy: Option<String>,
    /// Allow a tool without asking the client, for instance 'Bash(git:read)' or Read
    #[arg(long, value_name = "PATTERN", help_heading = "Policy")]
    allow: Vec<String>,
    /// Never allow a tool; stronger than everything else
    #[arg(long, value_name = "PATTERN", help_heading = "Policy")]
    deny: Vec<String>,
    /// An MCP server that every session gets: NAME=COMMAND ARGS…, NAME=http://…, NAME=sse+http://…, or a JSON file with
    /// mcpServers
    #[arg(long, value_name = "SERVER", help_heading = "Policy")]
    mcp: Vec<String>,
    /// At most this many sessions at once, over all clients
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_sessions: Option<usize>,
    /// Inject this fault between the agent and the proxy: ACTION[=VALUE][@METHOD][#N], for instance
    /// drop@session/update#3, or JSON
    #[arg(long, value_name = "SPEC", help_heading = "Chaos")]
    fault: Vec<String>,
    /// Seed for random faults, so that runs can be repeated
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Chaos")]
    fault_seed: u64,
}

impl DutyArgs {
    /// What they say.
    pub fn duties(&self) -> anyhow::Result<Duties> {
        let rules = FileSettings::load()?.rules(self.policy.as_deref(), &self.allow, &self.deny)?;
        if let Some(rules) = &rules {
            patterns::warn("acp proxy", &rules.allow);
        }
        let servers = mcp::servers(&self.mcp)?.into_iter().map(|server| {
            let value = serde_json::to_value(server)?;
            Ok((value["name"].as_str().unwrap_or_default().to_owned(), value.to_string()))
        });
        let mut faults = Vec::new();
        for spec in &self.fault {
            let fault = parse_spec(spec).with_context(|| format!("--fault {spec:?}"))?;
            if let Some(why) = acp_proxy::impossible(&fault) {
                anyhow::bail!("--fault {spec:?}: {why}");
            }
            crate::faults::warn("acp proxy", spec, &fault);
            faults.push(fault);
        }
        Ok(Duties {
            rules,
            mcp_servers: servers.collect::<anyhow::Result<_>>()?,
            max_sessions: self.max_sessions,
            faults,
            seed: self.fault_seed,
            ..Duties::default()
        })
    }
}
