use std::time::Duration;

use acp_link::process_guard::ProcessGuard;
use acp_policy::PolicyRules;
use agent_client_protocol_schema::v1::{
    BooleanConfigOptionCapabilities, ClientCapabilities, ClientSessionCapabilities, CompactionCapabilities,
    ElicitationCapabilities, ElicitationFormCapabilities, ElicitationUrlCapabilities, FileSystemCapabilities,
    Implementation, NoticeCapabilities, SessionConfigOptionsCapabilities,
};
use tokio::sync::mpsc;

use crate::{ProviderLimits, UserQuestion};

/// How a client presents itself and behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Name and version told to the agent.
    pub info: Implementation,
    /// What the agent may use. Whatever is off here is also refused.
    pub capabilities: ClientCapabilities,
    /// What is allowed.
    pub rules: PolicyRules,
    /// How much may be used.
    pub limits: ProviderLimits,
    /// Where questions to a person go; without it nobody is asked and the answer is no.
    pub person: Option<mpsc::Sender<UserQuestion>>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// Who ends terminals when we cannot; without it they outlive a kill of ours.
    pub process_guard: Option<ProcessGuard>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            info: Implementation::new("acp-workbench", env!("CARGO_PKG_VERSION"))
                .title("ACP Workbench".to_owned()),
            capabilities: all_capabilities(),
            rules: PolicyRules::default(),
            limits: ProviderLimits::default(),
            person: None,
            timeouts: Timeouts::default(),
            process_guard: None,
        }
    }
}

/// How long to wait for an answer; `None` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// `initialize`: agents that install themselves first are slow.
    pub initialize: Option<Duration>,
    /// `authenticate`, behind which a person may be logging in.
    pub authenticate: Option<Duration>,
    /// Opening and loading sessions.
    pub session: Option<Duration>,
    /// A whole turn.
    pub prompt: Option<Duration>,
    /// Everything else.
    pub request: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            initialize: Some(Duration::from_secs(60)),
            authenticate: Some(Duration::from_secs(600)),
            session: Some(Duration::from_secs(120)),
            prompt: None,
            request: Some(Duration::from_secs(30)),
        }
    }
}

/// Everything that the providers and the update types of this version can serve.
fn all_capabilities() -> ClientCapabilities {
    let elicitation = ElicitationCapabilities::new()
        .form(ElicitationFormCapabilities::default())
        .url(ElicitationUrlCapabilities::default());
    let booleans =
        SessionConfigOptionsCapabilities::new().boolean(BooleanConfigOptionCapabilities::default());
    let session = ClientSessionCapabilities::new()
        .config_options(booleans)
        .notices(NoticeCapabilities::default())
        .compaction(CompactionCapabilities::default());
    ClientCapabilities::new()
        .fs(FileSystemCapabilities::new().read_text_file(true).write_text_file(true))
        .terminal(true)
        .elicitation(elicitation)
        .session(session)
}
