//! initialize, versions, capabilities, authentication.

use acp_proto::{Side, error_code, method};
use acp_rpc::Direction;

use crate::caps::{AgentCaps, ClientCaps};
use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use crate::rule::Rule;
use crate::schema::Edition;
use crate::state::{Ask, Open, Phase, State};

/// The newest version that exists (as a draft).
const LATEST: i64 = 2;

/// The most messages before initialize that are told.
const SPOKE_FIRST: usize = 20;

/// The schema that an initialize request is written for.
pub(crate) fn edition_of(params: Option<Json<'_>>) -> Edition {
    let version = params.and_then(|params| params.get("protocolVersion")).and_then(Json::i64);
    let has_info = params.is_some_and(|params| params.get("info").is_some());
    if version.is_some_and(|version| version >= 2) && has_info { Edition::V2 } else { Edition::V1 }
}

/// Nothing comes before initialize. Gives whether the message was too early.
pub(crate) fn gate(state: &mut State, cx: &mut Cx<'_>, method: &str) -> bool {
    if method == method::INITIALIZE || method.starts_with('$') {
        return false;
    }
    match (cx.dir, state.phase) {
        (Direction::ClientToAgent, Phase::Fresh) => {
            let id = match method {
                method::SESSION_LIST => "C-SES-07",
                method::SESSION_PROMPT => "C-PT-01",
                _ => "C-INIT-01",
            };
            let message = format!("{method} is sent before initialize");
            cx.breach(Rule::BeforeInitialize, Side::Client, message).names(id).at("/method");
            state.asked_early = true;
            true
        }
        (Direction::ClientToAgent, Phase::Asked) => true,
        // nobody knows yet whether the client will send initialize at all
        (Direction::AgentToClient, Phase::Fresh) if !method.starts_with('_') => {
            if !state.asked_early && state.spoke_first.len() < SPOKE_FIRST {
                let mark = cx.mark();
                state.spoke_first.push((mark, method.into()));
            }
            !state.asked_early
        }
        (Direction::AgentToClient, Phase::Asked) if !method.starts_with('_') => {
            if !state.asked_early {
                let message = format!("{method} is sent before initialize was answered");
                cx.breach(Rule::BeforeInitialize, Side::Agent, message).at("/method");
            }
            !state.asked_early
        }
        (Direction::ClientToAgent, Phase::Agreed(version)) => {
            go_on(state, cx, version);
            false
        }
        _ => false,
    }
}

/// The client goes on with the version that the agent chose.
fn go_on(state: &State, cx: &mut Cx<'_>, version: i64) {
    cx.saw(Rule::BeforeInitialize, Side::Client);
    let Some(requested) = state.requested.filter(|requested| *requested != version) else { return };
    cx.saw(Rule::VersionUnsupported, Side::Client);
    if version > requested || version < 1 {
        let message = format!(
            "the client offered version {requested}, the agent answered {version}, and the client goes on"
        );
        cx.breach(Rule::VersionUnsupported, Side::Client, message);
    }
}

/// The client asks.
pub(crate) fn initialize(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Client;
    let second = state.phase != Phase::Fresh;
    cx.saw(Rule::SecondInitialize, side);
    if second {
        cx.breach(Rule::SecondInitialize, side, "initialize is sent again on the same connection")
            .at("/method");
    } else {
        state.phase = Phase::Asked;
        for (mark, method) in std::mem::take(&mut state.spoke_first) {
            let message = format!("{method} is sent before initialize");
            cx.breach(Rule::BeforeInitialize, Side::Agent, message).by(mark);
        }
    }
    let requested = params.get("protocolVersion").and_then(Json::i64);
    if !second || state.requested.is_none() {
        state.requested = requested;
    }
    cx.saw(Rule::CapabilitiesUnstated, side);
    cx.saw(Rule::InfoMissing, side);
    let v2 = params.get("info").is_some();
    if !v2 && params.some("clientCapabilities").is_none() {
        cx.breach(Rule::CapabilitiesUnstated, side, "initialize has no clientCapabilities").at("/params");
    }
    if !v2 && params.some("clientInfo").is_none() {
        cx.breach(Rule::InfoMissing, side, "initialize has no clientInfo").at("/params");
    }
    if let Some(caps) = params.some("clientCapabilities") {
        cx.saw_id("C-INIT-09");
        let _ = caps;
    }
    state.client = ClientCaps::read(params);
    Ask::Initialize { requested, second, odd_capability: has_odd_capability(params), has_info: v2 }
}

fn has_odd_capability(params: Json<'_>) -> bool {
    let known = ["fs", "terminal", "session", "auth", "elicitation", "_meta"];
    let caps = params.some("clientCapabilities");
    caps.is_some_and(|caps| caps.fields().any(|(key, _)| !known.iter().any(|name| key.is(name))))
}

/// The agent answers.
pub(crate) fn answered(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let Ask::Initialize { requested, second, odd_capability, has_info } = open.ask else {
        // the params were bad: take what the answer says, judge nothing
        if let Answer::Good(result) = answer {
            taken(state, result);
        }
        return;
    };
    match answer {
        Answer::Bad(_) if second => {}
        Answer::Bad(code) => {
            // an agent that speaks version 2 needs what that version calls for
            let lacks_info = code == Some(error_code::INVALID_PARAMS)
                && !has_info
                && requested.is_some_and(|version| version >= 2);
            refused(state, cx, open, requested, code, lacks_info);
        }
        Answer::Good(result) => {
            if odd_capability {
                cx.saw_id("INIT-09");
            }
            let version = result.get("protocolVersion").and_then(Json::i64);
            if let Some(version) = version {
                negotiated(cx, open, requested, version);
            }
            state.phase = Phase::Agreed(version.unwrap_or(1));
            state.agent = AgentCaps::read(result);
            if version != Some(2) {
                stated(state, cx, result);
            }
        }
    }
}

/// Takes what an answer to initialize says, and judges nothing.
pub(crate) fn taken(state: &mut State, result: Json<'_>) {
    if let Some(version) = result.get("protocolVersion").and_then(Json::i64) {
        state.phase = Phase::Agreed(version);
        state.agent = AgentCaps::read(result);
    }
}

fn refused(
    state: &mut State,
    cx: &mut Cx<'_>,
    open: &Open,
    requested: Option<i64>,
    code: Option<i64>,
    lacks_info: bool,
) {
    state.phase = Phase::Refused;
    let says_so = cx.frame.and_then(acp_rpc::Frame::error).is_some_and(|error| error.contains("info"));
    if lacks_info && says_so || code == Some(error_code::AUTH_REQUIRED) {
        return;
    }
    if requested.is_some_and(|version| (0..=65535).contains(&version)) {
        let message = format!(
            "initialize with version {} was answered with an error instead of the agent's latest version",
            requested.unwrap_or_default()
        );
        let breach = cx.breach(Rule::InitializeRefused, Side::Agent, message).with(open.mark);
        // an agent of the second version refuses what lies below everything it has
        if code == Some(error_code::UNSUPPORTED_VERSION) || lacks_info {
            breach.names("INIT-05/v2");
        }
    }
}

fn negotiated(cx: &mut Cx<'_>, open: &Open, requested: Option<i64>, version: i64) {
    let side = Side::Agent;
    let Some(requested) = requested else { return };
    let exists = (1..=LATEST).contains(&requested);
    if exists {
        cx.saw(Rule::VersionNotEchoed, side);
        if version < 1 {
            let message = format!("the agent answered with version {version}, which does not exist");
            cx.breach(Rule::VersionEchoed, side, message).at("/result/protocolVersion").with(open.mark);
        } else if version > requested {
            let message = format!("version {requested} was requested, the agent answered {version}");
            cx.breach(Rule::VersionNotEchoed, side, message).at("/result/protocolVersion").with(open.mark);
        }
    } else {
        cx.saw(Rule::VersionEchoed, side);
        if version == requested {
            let message = format!("version {requested} does not exist, but the agent agreed to it");
            cx.breach(Rule::VersionEchoed, side, message).at("/result/protocolVersion").with(open.mark);
        }
    }
}

/// What the agent says about itself.
fn stated(state: &State, cx: &mut Cx<'_>, result: Json<'_>) {
    let side = Side::Agent;
    cx.saw(Rule::CapabilitiesUnstated, side);
    cx.saw(Rule::InfoMissing, side);
    cx.saw(Rule::HttpUnsupported, side);
    cx.saw_id("INIT-01");
    cx.saw_id("INIT-10");
    if result.some("agentCapabilities").is_none() {
        cx.breach(Rule::CapabilitiesUnstated, side, "the initialize result has no agentCapabilities")
            .at("/result");
    }
    if result.some("agentInfo").is_none() {
        cx.breach(Rule::InfoMissing, side, "the initialize result has no agentInfo").at("/result");
    }
    if !state.agent.http {
        let message = "mcpCapabilities.http is not true: MCP servers over HTTP are not supported";
        cx.breach(Rule::HttpUnsupported, side, message).at("/result/agentCapabilities");
    }
    auth_methods(state, cx, result);
}

fn auth_methods(state: &State, cx: &mut Cx<'_>, result: Json<'_>) {
    let side = Side::Agent;
    let mut seen: Vec<String> = Vec::new();
    for (index, method) in result.some("authMethods").into_iter().flat_map(Json::items).enumerate() {
        cx.saw(Rule::AuthMethodTwice, side);
        cx.saw(Rule::AuthMethodCommand, side);
        if let Some(id) = method.get_str("id") {
            if seen.iter().any(|other| *other == id) {
                let message = format!("the authentication method {id:?} is listed twice");
                cx.breach(Rule::AuthMethodTwice, side, message).at(format!("/result/authMethods/{index}/id"));
            }
            seen.push(id.into_owned());
        }
        if !method.get("type").is_some_and(|kind| kind.is("terminal")) {
            continue;
        }
        cx.saw(Rule::TerminalAuthUnasked, side);
        if !state.client.auth_terminal {
            let message =
                "a terminal authentication method is offered, but the client did not advertise auth.terminal";
            let at = format!("/result/authMethods/{index}/type");
            cx.breach(Rule::TerminalAuthUnasked, side, message).also(&["INIT-08"]).at(at);
        }
        if method.get("command").is_some() {
            let message = "a terminal authentication method names a command; only args and env are allowed";
            cx.breach(Rule::AuthMethodCommand, side, message)
                .at(format!("/result/authMethods/{index}/command"));
        }
    }
    if !state.client.auth_terminal {
        cx.saw(Rule::TerminalAuthUnasked, side);
    }
}

/// authenticate
pub(crate) fn authenticate(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Client;
    cx.saw(Rule::AuthMethodUnknown, side);
    cx.saw(Rule::TerminalAuthCalled, side);
    let id = params.get_str("methodId").unwrap_or_default();
    let method = state.agent.auth.iter().find(|(known, _)| **known == *id);
    match method {
        None => {
            let message = format!("authenticate with {id:?}, which is not among authMethods");
            cx.breach(Rule::AuthMethodUnknown, side, message).at("/params/methodId");
        }
        Some((_, true)) => {
            let message = format!("{id:?} is a terminal method: it is not called by authenticate");
            cx.breach(Rule::TerminalAuthCalled, side, message).at("/params/methodId");
        }
        Some(_) => {}
    }
    Ask::Authenticate { offered: method.is_some() }
}

/// The answer to authenticate.
pub(crate) fn authenticated(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let Ask::Authenticate { offered } = open.ask else { return };
    if offered {
        state.authenticated |= answer.is_good();
        if answer.is_good() {
            state.logged_out = None;
        }
        return;
    }
    cx.saw(Rule::AuthUnknownAccepted, Side::Agent);
    if answer.is_good() {
        let message = "authenticate succeeded with a method that was not offered";
        cx.breach(Rule::AuthUnknownAccepted, Side::Agent, message).with(open.mark);
    }
}

/// logout
pub(crate) fn logout(state: &mut State, cx: &mut Cx<'_>) -> Ask {
    state.authenticated = false;
    cx.saw(Rule::LogoutUnadvertised, Side::Client);
    cx.saw_id("C-INIT-07");
    if !state.agent.logout {
        let message = "logout is called, but the agent did not advertise auth.logout";
        cx.breach(Rule::LogoutUnadvertised, Side::Client, message).also(&["C-INIT-07"]).at("/method");
    }
    Ask::Logout
}

/// The answer to logout.
pub(crate) fn logged_out(state: &mut State, cx: &Cx<'_>, answer: Answer<'_>) {
    if answer.is_good() {
        state.logged_out = Some(cx.mark());
    }
}
