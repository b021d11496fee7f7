//! Custom methods and `_meta`.

use acp_proto::{Side, method};
use acp_rpc::Direction;

use crate::cx::Cx;
use crate::json::Json;
use crate::rule::Rule;
use crate::rules::schema::{Verdict, is_request};
use crate::state::State;

/// A method's name and whether it was used as it is meant.
pub(crate) fn method(state: &mut State, cx: &mut Cx<'_>, method: &str, verdict: Verdict, has_id: bool) {
    let side = cx.sender();
    let edition = state.edition();
    if method == method::INITIALIZE {
        return;
    }
    if side == Side::Agent && state.is_v1() {
        cx.saw(Rule::UnknownMethod, side);
    }
    if verdict == Verdict::Unknown {
        unknown(state, cx, method);
        return;
    }
    let Some(request) = is_request(edition, cx.dir, method) else { return };
    if state.is_v1() {
        cx.saw(Rule::WrongKind, side);
    }
    if request != has_id {
        let message = match request {
            true => format!("{method} is a request, but was sent without an id"),
            false => format!("{method} is a notification, but was sent with an id"),
        };
        let breach = cx.breach(Rule::WrongKind, side, message).at(if request { "/method" } else { "/id" });
        if method == method::SESSION_REQUEST_PERMISSION && side == Side::Agent {
            breach.names("PERM-01");
        }
    }
}

fn unknown(state: &mut State, cx: &mut Cx<'_>, method: &str) {
    let side = cx.sender();
    if method.starts_with('_') {
        if side == Side::Agent {
            cx.saw(Rule::ExtensionUnadvertised, side);
            if !state.agent.extensions {
                let message =
                    format!("{method} is used, but no _meta of the capabilities announces an extension");
                cx.breach(Rule::ExtensionUnadvertised, side, message).at("/method");
            }
        }
        return;
    }
    // `$/…` belongs to the protocol and may be ignored by whoever does not know it
    let optional = method.starts_with("$/");
    let other_way = is_request(state.edition(), cx.dir.flip(), method).is_some();
    let message = if other_way {
        let right = match cx.dir {
            Direction::ClientToAgent => "agent",
            Direction::AgentToClient => "client",
        };
        format!("{method} is a method that the {right} calls, not the {side}")
    } else {
        format!("{method} is not a method of the protocol; custom names start with an underscore")
    };
    let breach = cx.breach(Rule::UnknownMethod, side, message).at("/method");
    if optional {
        breach.warn();
    }
}

/// The reserved keys of `_meta` at the root.
pub(crate) fn meta(cx: &mut Cx<'_>, value: Json<'_>, pointer: &str) {
    let Some(meta) = value.some("_meta") else { return };
    let side = cx.sender();
    if side == Side::Client {
        return;
    }
    cx.saw_id("EXT-02");
    for (name, good) in
        [("traceparent", is_traceparent as fn(&str) -> bool), ("tracestate", is_list), ("baggage", is_list)]
    {
        let Some(found) = meta.get(name) else { continue };
        cx.saw(Rule::TraceContext, side);
        if !found.str().is_some_and(|text| good(&text)) {
            let message = format!("_meta.{name} is not what W3C Trace Context defines");
            cx.breach(Rule::TraceContext, side, message).at(format!("{pointer}/_meta/{name}"));
        }
    }
}

/// `00-<32 hex>-<16 hex>-<2 hex>`
fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    parts.len() >= 4 && hex(parts[0], 2) && hex(parts[1], 32) && hex(parts[2], 16) && hex(parts[3], 2)
}

/// `key=value,key=value`
fn is_list(text: &str) -> bool {
    text.is_empty() || text.split(',').all(|entry| entry.contains('='))
}
