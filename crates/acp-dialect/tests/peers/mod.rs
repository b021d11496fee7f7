//! Two tiny scripted peers that speak any of the forms, each in its own words only.

#![expect(clippy::needless_pass_by_value, reason = "values are written in place")]

mod agent;
mod client;

pub use agent::Agent;
pub use client::Client;

use acp_rpc::Frame;
use serde_json::{Value, json};

fn request(id: impl Into<Value>, method: &str, params: Value) -> Frame {
    let id = id.into();
    Frame::parse(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
}

fn notification(method: &str, params: Value) -> Frame {
    Frame::parse(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
}

fn response(id: &Value, result: Value) -> Frame {
    Frame::parse(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
}

fn value(frame: &Frame) -> Value {
    serde_json::from_slice(frame.raw()).unwrap_or_else(|e| panic!("not JSON: {e}: {frame}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
