//! The names in acp-proto are those of the protocol's own schemas, version by version.

use std::collections::BTreeSet;

use acp_proto::{
    ErrorCode, Method, PermissionOptionKind, ProtocolVersion, Side, StopReason, ToolCallStatus, ToolKind,
    UpdateKind, Vocabulary,
};
use serde_json::Value;

/// The definitions of a version: its unstable schema has the stable one's and more.
fn definitions(version: ProtocolVersion) -> Value {
    let text = match version {
        ProtocolVersion::V1 => include_str!("../data/schema/v1u.json"),
        ProtocolVersion::V2 => include_str!("../data/schema/v2u.json"),
    };
    serde_json::from_str::<Value>(text).expect("a schema")["$defs"].take()
}

fn alternatives(definition: &Value) -> impl Iterator<Item = &Value> {
    ["oneOf", "anyOf"].into_iter().filter_map(|key| definition[key].as_array()).flatten()
}

/// The constants of a definition's alternatives, or of the named property of each.
fn constants<'a>(definition: &'a Value, property: Option<&str>) -> BTreeSet<&'a str> {
    let of = |alternative: &'a Value| match property {
        Some(name) => alternative["properties"][name]["const"].as_str(),
        None => alternative["const"].as_str(),
    };
    alternatives(definition).filter_map(of).collect()
}

fn ours<T: Vocabulary>(version: ProtocolVersion) -> BTreeSet<&'static str> {
    T::ALL.iter().filter(|word| word.is_in(version)).map(|word| word.as_str()).collect()
}

#[test]
fn methods_and_their_handlers_are_those_of_the_schema() {
    for version in ProtocolVersion::ALL {
        let definitions = definitions(version);
        let described = definitions.as_object().expect("definitions").values().filter_map(|definition| {
            Some((definition["x-method"].as_str()?, definition["x-side"].as_str()?))
        });
        let mut theirs = BTreeSet::new();
        for (name, side) in described {
            theirs.insert(name);
            let method = Method::from_name(name).unwrap_or_else(|| panic!("{name} is not in acp-proto"));
            let handler = method.handler().map(Side::as_str);
            assert!(
                handler.is_none_or(|handler| handler == side),
                "{name} goes to the {side}, not {handler:?}"
            );
        }
        assert_eq!(ours::<Method>(version), theirs, "the methods of version {version}");
    }
}

#[test]
fn the_other_names_are_those_of_the_schema() {
    for version in ProtocolVersion::ALL {
        let definitions = definitions(version);
        let update = constants(&definitions["SessionUpdate"], Some("sessionUpdate"));
        assert_eq!(ours::<UpdateKind>(version), update, "the updates of version {version}");
        let stop = match version {
            ProtocolVersion::V1 => constants(&definitions["StopReason"], None),
            ProtocolVersion::V2 => constants(&definitions["IdleStateUpdate"], Some("stopReason")),
        };
        assert_eq!(ours::<StopReason>(version), stop, "the stop reasons of version {version}");
        assert_eq!(ours::<ToolKind>(version), constants(&definitions["ToolKind"], None));
        assert_eq!(ours::<ToolCallStatus>(version), constants(&definitions["ToolCallStatus"], None));
        assert_eq!(
            ours::<PermissionOptionKind>(version),
            constants(&definitions["PermissionOptionKind"], None)
        );
        for code in alternatives(&definitions["ErrorCode"]).filter_map(|code| code["const"].as_i64()) {
            assert!(!matches!(ErrorCode::from(code), ErrorCode::Other(_)), "{code} is not in acp-proto");
        }
    }
}
