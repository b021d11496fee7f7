//! The capabilities of both sides, as initialize stated them. What was not stated is not supported.

use crate::json::Json;

/// What the client said it can do.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol")]
pub(crate) struct ClientCaps {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) terminal: bool,
    pub(crate) auth_terminal: bool,
    pub(crate) form: bool,
    pub(crate) url: bool,
    pub(crate) boolean_options: bool,
    pub(crate) notices: bool,
    pub(crate) compaction: bool,
}

impl ClientCaps {
    /// From the params of initialize.
    pub(crate) fn read(params: Json<'_>) -> Self {
        let Some(caps) = params.some("clientCapabilities") else { return Self::default() };
        let yes = |path: &[&str]| caps.path(path).and_then(Json::bool) == Some(true);
        let there = |path: &[&str]| caps.path(path).is_some_and(|v| !v.is_null());
        Self {
            read: yes(&["fs", "readTextFile"]),
            write: yes(&["fs", "writeTextFile"]),
            terminal: yes(&["terminal"]),
            auth_terminal: yes(&["auth", "terminal"]),
            form: there(&["elicitation", "form"]),
            url: there(&["elicitation", "url"]),
            boolean_options: there(&["session", "configOptions", "boolean"]),
            notices: there(&["session", "notices"]),
            compaction: there(&["session", "compaction"]),
        }
    }
}

/// What the agent said it can do.
#[derive(Debug, Default, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol")]
pub(crate) struct AgentCaps {
    pub(crate) load: bool,
    pub(crate) image: bool,
    pub(crate) audio: bool,
    pub(crate) embedded: bool,
    pub(crate) http: bool,
    pub(crate) sse: bool,
    pub(crate) list: bool,
    pub(crate) delete: bool,
    pub(crate) roots: bool,
    pub(crate) resume: bool,
    pub(crate) close: bool,
    pub(crate) logout: bool,
    /// Some `_meta` among the capabilities, where extensions are announced.
    pub(crate) extensions: bool,
    /// The agent says that it queues prompts.
    pub(crate) queues: bool,
    /// Authentication methods: id and whether it is for a terminal.
    pub(crate) auth: Vec<(Box<str>, bool)>,
}

impl AgentCaps {
    /// From the result of initialize.
    pub(crate) fn read(result: Json<'_>) -> Self {
        let mut out = Self::default();
        for method in result.get("authMethods").into_iter().flat_map(Json::items) {
            if let Some(id) = method.get_str("id") {
                let terminal = method.get("type").is_some_and(|kind| kind.is("terminal"));
                out.auth.push((id.into(), terminal));
            }
        }
        let Some(caps) = result.some("agentCapabilities") else { return out };
        let yes = |path: &[&str]| caps.path(path).and_then(Json::bool) == Some(true);
        let there = |path: &[&str]| caps.path(path).is_some_and(|v| !v.is_null());
        out.load = yes(&["loadSession"]);
        out.image = yes(&["promptCapabilities", "image"]);
        out.audio = yes(&["promptCapabilities", "audio"]);
        out.embedded = yes(&["promptCapabilities", "embeddedContext"]);
        out.http = yes(&["mcpCapabilities", "http"]);
        out.sse = yes(&["mcpCapabilities", "sse"]);
        out.list = there(&["sessionCapabilities", "list"]);
        out.delete = there(&["sessionCapabilities", "delete"]);
        out.roots = there(&["sessionCapabilities", "additionalDirectories"]);
        out.resume = there(&["sessionCapabilities", "resume"]);
        out.close = there(&["sessionCapabilities", "close"]);
        out.logout = there(&["auth", "logout"]);
        let text = result.raw();
        out.extensions =
            result.get("agentCapabilities").is_some_and(has_meta) || result.some("_meta").is_some();
        // there is no standard key; agents that queue say so in _meta under names like this
        out.queues = text.to_ascii_lowercase().contains("queue");
        out
    }
}

/// Whether there is a `_meta` in an object or in one of its members.
fn has_meta(value: Json<'_>) -> bool {
    value
        .fields()
        .any(|(name, member)| name.is("_meta") && !member.is_null() || member.is_object() && has_meta(member))
}
