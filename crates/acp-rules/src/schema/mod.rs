//! The protocol's schemas by version, method and direction, compiled once.
//!
//! The schemas are compiled into shapes that walk the raw text without allocating, so checking every frame costs a
//! fraction of parsing it. The `jsonschema` crate is a dev-dependency: a property test holds the shapes against it.

mod check;
mod shape;

use std::sync::OnceLock;

use acp_proto::method;
use acp_rpc::Direction;
use serde_json::Value;

use crate::hash::StaticMap;

pub(crate) use check::{Flaw, What, flaws, is_clean};
pub(crate) use shape::{ShapeId, Shapes};

/// The version of the crate `agent-client-protocol-schema` that the schemas were derived from.
pub const SCHEMA_VERSION: &str = "1.15.1";

/// Which schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edition {
    V1,
    V1Unstable,
    V2,
    V2Unstable,
}

impl Edition {
    /// The same version with its unstable surfaces.
    pub(crate) fn unstable(self) -> Self {
        match self {
            Self::V1 | Self::V1Unstable => Self::V1Unstable,
            Self::V2 | Self::V2Unstable => Self::V2Unstable,
        }
    }

    /// The schema, compiled at its first use.
    pub(crate) fn schema(self) -> &'static Schema {
        static COMPILED: [OnceLock<Schema>; 4] = [const { OnceLock::new() }; 4];
        COMPILED[self as usize].get_or_init(|| Schema::load(self.source()))
    }

    fn source(self) -> &'static str {
        match self {
            Self::V1 => include_str!("../../data/schema/v1.json"),
            Self::V1Unstable => include_str!("../../data/schema/v1u.json"),
            Self::V2 => include_str!("../../data/schema/v2.json"),
            Self::V2Unstable => include_str!("../../data/schema/v2u.json"),
        }
    }
}

/// What the schema says about one method in one direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Method {
    pub(crate) params: ShapeId,
    /// `None` for a notification.
    pub(crate) result: Option<ShapeId>,
    /// Whether `params` may be left out and the result may be `null`.
    pub(crate) params_optional: bool,
    pub(crate) result_nullable: bool,
}

/// One compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) shapes: Shapes,
    /// By the direction of the request or notification.
    methods: [StaticMap<Box<str>, Method>; 2],
    /// `session/update`, which is most of what there is.
    update: Option<Method>,
}

impl Schema {
    /// The schemas are part of the program; one that cannot be compiled checks nothing, and a test fails on it.
    fn load(source: &'static str) -> Self {
        let value: Value = serde_json::from_str(source).unwrap_or_default();
        match Shapes::compile(&value) {
            Ok(shapes) => {
                let methods = methods(&value, &shapes);
                let update = methods[1].get(method::SESSION_UPDATE).copied();
                Self { shapes, methods, update }
            }
            Err(problem) => {
                debug_assert!(false, "schema: {problem}");
                let empty = Value::from_iter([("$defs", Value::Object(serde_json::Map::new()))]);
                let shapes =
                    Shapes::compile(&empty).unwrap_or_else(|_| unreachable!("an empty schema compiles"));
                Self { shapes, methods: Default::default(), update: None }
            }
        }
    }

    /// The method when it is called in this direction.
    #[inline]
    pub(crate) fn method(&self, dir: Direction, name: &str) -> Option<&Method> {
        if name == method::SESSION_UPDATE && dir == Direction::AgentToClient {
            return self.update.as_ref();
        }
        self.methods[slot(dir)].get(name)
    }
}

#[inline]
pub(crate) fn slot(dir: Direction) -> usize {
    match dir {
        Direction::ClientToAgent => 0,
        Direction::AgentToClient => 1,
    }
}

fn methods(schema: &Value, shapes: &Shapes) -> [StaticMap<Box<str>, Method>; 2] {
    let mut out: [StaticMap<Box<str>, Method>; 2] = Default::default();
    let defs = schema.get("$defs").and_then(Value::as_object);
    let all = || defs.into_iter().flatten();
    for (name, def) in all() {
        let (Some(method), Some(side)) = (text(def, "x-method"), text(def, "x-side")) else { continue };
        if name.ends_with("Response") {
            continue;
        }
        let answer = all().find(|(name, def)| {
            name.ends_with("Response")
                && text(def, "x-method") == Some(method)
                && text(def, "x-side") == Some(side)
        });
        let Some(params) = shapes.named(name) else { continue };
        let is_request = name.ends_with("Request");
        let result = answer.filter(|_| is_request).and_then(|(name, _)| shapes.named(name));
        let entry = Method {
            params,
            result,
            params_optional: shapes.get(params).required.is_empty() && shapes.get(params).union.is_none(),
            result_nullable: result.is_some_and(|id| {
                let shape = shapes.get(id);
                shape.required.is_empty() && shape.union.is_none()
            }),
        };
        for (slot, handled_by) in [(0, "agent"), (1, "client")] {
            if side == handled_by || side == "protocol" {
                out[slot].insert(method.into(), entry);
            }
        }
    }
    out
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
