//! A tour through everything an agent can be asked, in chapters.

use std::time::Duration;

use serde_json::{Value, json};

use super::AgentUnderTest;

/// A chapter: its name, and what happens in it on a fresh connection.
pub struct Chapter {
    pub name: &'static str,
    pub run: fn(&mut AgentUnderTest),
}

const SECOND: Duration = Duration::from_secs(1);

macro_rules! chapters {
    ($($name:literal => $run:expr),* $(,)?) => {
        /// All chapters.
        pub const CHAPTERS: &[Chapter] = &[$(Chapter { name: $name, run: $run }),*];
    };
}

chapters! {
    "versions" => |harness| {
        for version in [json!(2), json!(0), json!(999), json!(65536), json!("1"), json!(1)] {
            harness.ask("initialize", &json!({ "protocolVersion": version, "clientCapabilities": {} }));
        }
    },
    "capabilities" => |harness| {
        for caps in [json!({}), json!({ "future": {} }), json!({ "auth": { "terminal": true } })] {
            harness.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": caps }));
        }
        harness.ask("initialize", &json!({ "protocolVersion": 1 }));
        harness.ask("initialize", &json!({ "protocolVersion": 1, "_meta": { "odd": [[null]] } }));
    },
    "bad lines" => |harness| {
        for line in ["{oops", "42", "{}", "[]", r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#, ""] {
            harness.line(line);
        }
        for line in [
            r#"{"jsonrpc":"1.0","id":5,"method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":"abc","method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":6,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"_acp.test/params","params":3}"#,
        ] {
            harness.line(line);
        }
        let filler = "x".repeat(70_000);
        harness.ask("_acp.test/long", &json!({ "filler": filler }));
        harness.greet();
    },
    "unknown methods" => |harness| {
        harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
        harness.greet();
        harness.ask("this/method/does/not/exist", &json!({}));
        harness.ask("_acp.test/unknown", &json!({}));
        harness.tell("_acp.test/ping", &json!({}));
        harness.tell("this/notification", &json!({}));
        harness.tell("$/cancel_request", &json!({ "requestId": 12345 }));
        harness.tell("session/cancel", &json!({ "sessionId": "nobody" }));
        harness.ask("session/prompt", &json!({ "sessionId": "nobody", "prompt": [] }));
        harness.settle(SECOND);
    },
    "signing in" => |harness| {
        harness.greet();
        harness.ask("authenticate", &json!({ "methodId": "no-such" }));
        harness.ask("logout", &json!({}));
        harness.session();
        harness.ask("authenticate", &json!({ "methodId": "mock-login" }));
        harness.session();
    },
    "places" => |harness| {
        harness.greet();
        for params in [
            json!({ "cwd": "rel", "mcpServers": [] }),
            json!({ "cwd": "/work" }),
            json!({ "mcpServers": [] }),
            json!({ "cwd": "/work", "mcpServers": [], "additionalDirectories": ["rel"] }),
            json!({ "cwd": "/work", "mcpServers": [], "_meta": { "a": 1 } }),
        ] {
            harness.ask("session/new", &params);
        }
        harness.files.insert("/extra/there.txt".to_owned(), "over there".to_owned());
        harness.files.insert("/extra/notes.txt".to_owned(), "another".to_owned());
        let session = harness.session_with(&json!({ "additionalDirectories": ["/extra"] }));
        harness.prompt(&session, "Read /extra/there.txt");
        harness.prompt(&session, "Read notes.txt");
        harness.prompt(&session, "Create a file named /outside.txt with text 'escaped'.");
        harness.ask("session/load", &json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] }));
        harness.prompt(&session, "Read /extra/there.txt");
    },
    "many sessions" => |harness| {
        harness.greet();
        harness.ask("session/list", &json!({ "cwd": "/nowhere" }));
        for _ in 0..7 {
            harness.session();
        }
        harness.ask("session/new", &json!({ "cwd": "/other", "mcpServers": [] }));
        let mut cursor = json!({});
        for _ in 0..4 {
            let page = harness.ask("session/list", &cursor).unwrap_or_default();
            cursor = match page.pointer("/result/nextCursor") {
                Some(next) => json!({ "cursor": next }),
                None => break,
            };
        }
        harness.ask("session/list", &json!({ "cwd": "/other" }));
        harness.ask("session/list", &json!({ "cursor": "not-a-cursor" }));
        harness.settle(SECOND);
        harness.ask("session/list", &json!({}));
        harness.ask("session/list", &json!({}));
    },
    "close and delete" => |harness| {
        harness.greet();
        let session = harness.session_with(&json!({ "mcpServers": [server("one"), server("two")] }));
        harness.prompt(&session, "Say hello.");
        harness.ask("session/close", &json!({ "sessionId": session }));
        harness.prompt(&session, "Say hello.");
        harness.ask("session/close", &json!({ "sessionId": "nobody" }));
        harness.ask("session/delete", &json!({ "sessionId": session }));
        harness.ask("session/list", &json!({}));
        harness.ask("session/delete", &json!({ "sessionId": "nobody" }));
        harness.ask("session/delete", &json!({ "sessionId": "nobody" }));
        for wish in ["Think a bit then respond.", "Run the command 'sleep 60'."] {
            let busy = harness.session_with(&json!({ "mcpServers": [server("one")] }));
            let turn = harness.begin_prompt(&busy, wish);
            harness.settle(SECOND / 2);
            harness.ask("session/close", &json!({ "sessionId": busy }));
            harness.answer_to(turn);
        }
    },
    "load and resume" => |harness| {
        harness.greet();
        let session = harness.session();
        harness.prompt(&session, "Remember the word tamarind.");
        harness.prompt(&session, "Which word did I ask you to remember?");
        harness.prompt(&session, "Read notes.txt");
        harness.ask("session/load", &json!({ "sessionId": "nobody", "cwd": "/work", "mcpServers": [] }));
        let place = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [server("one")] });
        harness.ask("session/load", &place);
        harness.settle(SECOND);
        harness.ask("session/load", &place);
        harness.prompt(&session, "Say hello.");
        harness.ask("session/resume", &place);
        harness.prompt(&session, "Which word did I ask you to remember?");
        let other = harness.session();
        harness.prompt(&other, "Which word did I ask you to remember?");
        harness.prompt(&other, "Call the local MCP tool ping.");
    },
    "servers" => |harness| {
        harness.greet();
        let http = json!({ "type": "http", "name": "web", "url": "http://127.0.0.1:9/mcp", "headers": [] });
        let session = harness.session_with(&json!({ "mcpServers": [server("one"), server("two")] }));
        harness.prompt(&session, "Call the local MCP tool ping.");
        harness.session_with(&json!({ "mcpServers": [http] }));
    },
    "modes and options" => |harness| {
        harness.greet();
        let session = harness.session();
        for params in [json!({ "modeId": "plan" }), json!({ "modeId": "nope" }), json!({ "modeId": "code" })] {
            harness.ask("session/set_mode", &with(&session, params));
        }
        for params in [
            json!({ "configId": "model", "value": "mock-large" }),
            json!({ "configId": "mode", "value": "plan" }),
            json!({ "configId": "mode", "value": "code" }),
            json!({ "configId": "nope", "value": "x" }),
            json!({ "configId": "verbose", "value": true, "type": "boolean" }),
        ] {
            harness.ask("session/set_config_option", &with(&session, params));
        }
        harness.prompt(&session, "Switch to plan mode.");
        harness.prompt(&session, "Set your thought level to high.");
        let turn = harness.begin_prompt(&session, "Think a bit then respond.");
        harness.settle(SECOND / 2);
        harness.ask("session/set_mode", &with(&session, json!({ "modeId": "code" })));
        for params in [
            json!({ "configId": "model", "value": "mock-small" }),
            json!({ "configId": "mode", "value": "plan" }),
        ] {
            harness.ask("session/set_config_option", &with(&session, params));
        }
        harness.answer_to(turn);
        harness.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "mock-large" })));
        harness.ask("session/set_mode", &with("nobody", json!({ "modeId": "code" })));
    },
    "plain prompts" => |harness| {
        harness.greet();
        let session = harness.session();
        harness.prompt(&session, "Say hello.");
        for prompt in [
            json!({}),
            json!([{ "type": "nope" }]),
            json!([{ "type": "resource_link", "uri": "file:///work/notes.txt", "name": "notes.txt" }]),
            json!([{ "type": "image", "data": "AA==", "mimeType": "image/png" }]),
            json!([{ "type": "audio", "data": "AA==", "mimeType": "audio/wav" }]),
            json!([{ "type": "resource", "resource": { "uri": "x://y", "text": "z" } }]),
        ] {
            harness.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
        }
        for wish in [
            "Reply with exactly: naïve – 日本語 – 🦀", "Show me an image", "Run out of tokens.",
            "Draft a plan with three steps.", "/help", "Send me a notice.", "Compact your context.",
            "Remember the word damson.", "Which word did I ask you to remember?", "Announce your commands.", "/help",
        ] {
            harness.prompt(&session, wish);
        }
        harness.ask("session/load", &json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] }));
    },
    "tools" => |harness| {
        harness.greet();
        let session = harness.session();
        for wish in [
            "Read notes.txt and tell me its contents.",
            "Read missing.txt",
            "Read line 2 of lines.txt",
            "Create a file named made.txt with text 'done'.",
            "Replace 'thyme' with 'basil' in notes.txt.",
            "Run the command 'echo hello' and show me its output.",
            "Run the command 'false' and show me its output.",
            "Run the command 'sleep 60' and kill it after 200 ms.",
        ] {
            harness.prompt(&session, wish);
        }
        harness.verdict = "reject-once".to_owned();
        harness.prompt(&session, "Create a file named rejected.txt with text 'done'.");
    },
    "asking" => |harness| {
        harness.greet();
        let session = harness.session();
        for elicited in [
            json!({ "action": "accept", "content": { "favourite_colour": "green" } }),
            json!({ "action": "accept", "content": { "favourite_colour": 7 } }),
            json!({ "action": "decline" }),
            json!({ "action": "_x" }),
        ] {
            harness.elicited = elicited;
            harness.prompt(&session, "Ask me for my favourite colour with a form.");
            harness.prompt(&session, "Ask me to sign in.");
        }
        harness.prompt(&session, "Ask me for my password.");
    },
    "cancelling" => |harness| {
        harness.greet();
        let (session, other) = (harness.session(), harness.session());
        harness.tell("session/cancel", &json!({ "sessionId": session }));
        harness.prompt(&session, "Say hello.");
        let turn = harness.begin_prompt(&session, "Think a bit then respond.");
        let beside = harness.begin_prompt(&other, "Think a bit then respond.");
        harness.settle(SECOND / 2);
        harness.tell("session/cancel", &json!({ "sessionId": session }));
        harness.answer_to(turn);
        harness.answer_to(beside);
        harness.prompt(&session, "Say hello.");
        let turn = harness.begin_prompt(&session, "Think a bit then respond.");
        harness.settle(SECOND / 2);
        harness.tell("$/cancel_request", &json!({ "requestId": turn }));
        harness.answer_to(turn);
    },
    "cancelling in mid-question" => |harness| {
        harness.greet();
        let session = harness.session();
        harness.verdict = "-".to_owned();
        let turn = harness.begin_prompt(&session, "Create a file named made.txt with text 'done'.");
        harness.settle(SECOND / 2);
        harness.tell("session/cancel", &json!({ "sessionId": session }));
        harness.answer_to(turn);
        harness.verdict = String::new();
        harness.prompt(&session, "Create a file named made.txt with text 'done'.");
        harness.verdict = "allow-once".to_owned();
        harness.elicited = Value::Null;
        let turn = harness.begin_prompt(&session, "Ask me for my favourite colour with a form.");
        harness.settle(SECOND / 2);
        harness.tell("session/cancel", &json!({ "sessionId": session }));
        harness.answer_to(turn);
        let turn = harness.begin_prompt(&session, "Run the command 'sleep 60'.");
        harness.settle(SECOND / 2);
        harness.tell("session/cancel", &json!({ "sessionId": session }));
        harness.answer_to(turn);
    },
    "two sessions" => |harness| {
        harness.greet();
        let (first, second) = (harness.session(), harness.session());
        for wish in [
            "Read notes.txt and tell me its contents.",
            "Create a file named made.txt with text 'done'.",
            "Run the command 'echo hello'. Run the command 'echo again'.",
            "Ask me for my favourite colour with a form.",
            "Replace 'thyme' with 'basil' in notes.txt.",
            "Replace 'basil' with 'mint' in notes.txt.",
        ] {
            harness.prompt(&first, wish);
        }
        let busy = harness.begin_prompt(&first, "Run the command 'sleep 60'.");
        harness.settle(SECOND / 2);
        harness.tell("session/cancel", &json!({ "sessionId": second }));
        harness.settle(SECOND / 2);
        harness.tell("$/cancel_request", &json!({ "requestId": busy }));
        harness.answer_to(busy);
    },
    "refusing" => |harness| {
        harness.greet();
        let session = harness.session();
        harness.elicited = json!({ "action": "decline" });
        for wish in ["Ask me for my favourite colour with a form.", "Ask me to sign in."] {
            harness.prompt(&session, wish);
            harness.prompt(&session, wish);
        }
        for verdict in ["", "reject-once", "reject-always", "reject-always"] {
            harness.verdict = verdict.to_owned();
            harness.prompt(&session, "Create a file named made.txt with text 'done'.");
        }
    },
    "once loaded" => |harness| {
        harness.greet();
        let session = harness.session();
        harness.prompt(&session, "Say hello.");
        harness.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "no-such-value" })));
        harness.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "mock-large" })));
        harness.ask("session/set_mode", &with(&session, json!({ "modeId": "plan" })));
        let meta = json!({ "acp.test/odd": null });
        let place = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [], "_meta": meta });
        harness.ask("session/load", &place);
        harness.prompt(&session, "/help");
        harness.ask("session/set_mode", &with(&session, json!({ "modeId": "code", "_meta": meta })));
        harness.ask("session/set_config_option", &with(&session, json!({ "configId": "mode", "value": "plan" })));
        harness.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "mock-small" })));
        let other = harness.session();
        harness.ask("session/set_config_option", &with(&other, json!({ "configId": "model", "value": "mock-small" })));
        harness.files.insert("/work/herbs/notes.txt".to_owned(), "sage".to_owned());
        harness.prompt(&session, "Read herbs/notes.txt and tell me its contents.");
        harness.verdict = "reject-once".to_owned();
        harness.prompt(&session, "Create a file named made.txt with text 'done'.");
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        harness.ask("session/prompt", &json!({ "sessionId": session, "prompt": [image] }));
        harness.ask("session/prompt", &json!({ "sessionId": session, "prompt": [{ "type": "text" }] }));
        harness.prompt(&session, "Say hello.");
    },
    "cancelling again" => |harness| {
        harness.greet();
        let session = harness.session();
        harness.prompt(&session, "Remember the word damson.");
        for wish in [
            "Create a file named made.txt with text 'done'.",
            "Ask me to sign in.",
            "Draft a plan with three steps for tidying this folder.",
            "Run the command 'sleep 60'. Create a file named later.txt with text 'done'.",
            "Create a file named made.txt with text 'done'.",
        ] {
            harness.verdict = if wish.starts_with("Create") { "-" } else { "allow-once" }.to_owned();
            harness.elicited = Value::Null;
            let turn = harness.begin_prompt(&session, wish);
            harness.settle(SECOND / 2);
            harness.ask("_acp.test/unknown", &json!({}));
            harness.tell("session/cancel", &json!({ "sessionId": session }));
            harness.answer_to(turn);
        }
        harness.prompt(&session, "Which word did I ask you to remember?");
    },
    "situations" => |harness| {
        harness.line(r#"{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}"#);
        harness.greet();
        harness.line(r#"{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/work","mcpServers":[]}}"#);
        for method in ["session/prompts", "terminal/create", "session/load", "session/resume", "authenticate"] {
            harness.ask(method, &json!({ "cwd": "/work", "mcpServers": [] }));
        }
        for method in ["session/close", "session/delete", "session/load", "session/resume"] {
            harness.ask(method, &json!({}));
        }
        harness.ask("session/list", &json!({ "cwd": 7 }));
        harness.tell("session/list", &json!({}));
        let odd = harness.ask("session/new", &json!({ "cwd": "/work/two words & 100%25", "mcpServers": [server("my server")] }));
        let odd = odd.and_then(|odd| Some(odd.pointer("/result/sessionId")?.as_str()?.to_owned())).unwrap_or_default();
        harness.prompt(&odd, "Call the local MCP tool ping.");
        harness.prompt(&odd, "Run the command 'pwd' and show me its output.");
        harness.prompt(&odd, "Create a file named gannet.txt with text 'done'.");
        harness.prompt(&odd, "Create a file named /work/two words & 100%25-two/made.txt with text 'done'.");
        for id in [r#""""#, r#""7""#] {
            harness.line(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{odd}","prompt":[{{"type":"text","text":"Say hello."}}]}}}}"#
            ));
            harness.settle(SECOND);
        }
        harness.line(r#"{"jsonrpc":"2.0","id":"","method":"session/nothing","params":{}}"#);
        harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [], "additionalDirectories": ["/extra", "rel"] }));
        harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [{ "command": "/bin/cat", "args": [], "env": [] }] }));
    },
    "opened again" => |harness| {
        harness.greet();
        let (session, other) = (harness.session_with(&json!({ "mcpServers": [server("one"), server("two")] })), harness.session());
        let blocks = json!([
            { "type": "text", "text": "Say hello. First comes chervil." }, { "type": "text", "text": " Then comes lovage." },
            { "type": "resource_link", "uri": "file:///work/notes.txt", "name": "notes.txt" },
        ]);
        harness.ask("session/prompt", &json!({ "sessionId": session, "prompt": blocks }));
        for wish in ["Remember the word damson.", "Say 1.", "Say 2.", "Say 3.", "Say 4."] {
            harness.prompt(&session, wish);
        }
        harness.ask("session/set_mode", &with(&other, json!({ "modeId": "plan" })));
        for (method, more) in [
            ("session/load", json!({ "cwd": "rel" })),
            ("session/load", json!({})),
            ("session/resume", json!({})),
            ("session/load", json!({ "cwd": "/work" })),
            ("session/load", json!({ "cwd": "/work", "additionalDirectories": ["rel"] })),
            ("session/load", json!({ "cwd": "/work", "additionalDirectories": ["/extra"] })),
            ("session/load", json!({ "cwd": "/work", "mcpServers": [server("one"), server("two")] })),
            ("session/load", json!({ "cwd": "/work", "mcpServers": [{ "type": "http", "name": "web", "url": "http://127.0.0.1:9/mcp", "headers": [] }] })),
        ] {
            let mut params = with(&session, more);
            if params.get("mcpServers").is_none() {
                params["mcpServers"] = json!([]);
            }
            harness.ask(method, &params);
        }
        harness.prompt(&session, "Read notes.txt and tell me its contents.");
        let place = with(&session, json!({ "cwd": "/work", "mcpServers": [server("one"), server("two")] }));
        harness.ask("session/load", &place);
        let turn = harness.begin_prompt(&session, "Think a bit then respond.");
        harness.settle(SECOND / 2);
        harness.tell("session/cancel", &json!({ "sessionId": session }));
        harness.answer_to(turn);
        harness.prompt(&session, "Call the local MCP tool ping.");
        let turn = harness.begin_prompt(&other, "Think a bit then respond.");
        harness.settle(SECOND / 2);
        harness.ask("session/close", &json!({ "sessionId": session }));
        harness.answer_to(turn);
        harness.ask("session/load", &place);
        harness.prompt(&session, "Which word did I ask you to remember?");
        harness.ask("session/load", &json!({ "sessionId": "nobody", "cwd": "/work", "mcpServers": [] }));
        harness.prompt("nobody", "Say hello.");
        let turn = harness.begin_prompt(&session, "Think a bit then respond.");
        harness.settle(SECOND / 2);
        harness.ask("session/delete", &json!({ "sessionId": session }));
        harness.answer_to(turn);
        harness.ask("session/list", &json!({}));
    },
    "signing in again" => |harness| {
        harness.greet();
        harness.ask("authenticate", &json!({ "methodId": "mock-login" }));
        let session = harness.session();
        let place = with(&session, json!({ "cwd": "/work", "mcpServers": [] }));
        for method in ["session/load", "session/resume", "session/list"] {
            harness.ask(method, &place);
        }
        harness.ask("logout", &json!({}));
        harness.ask("authenticate", &json!({ "methodId": "no-such" }));
        harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
        harness.ask("authenticate", &json!({ "methodId": "mock-login" }));
        harness.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
    },
}

fn server(name: &str) -> Value {
    json!({ "name": name, "command": "/bin/mcp", "args": ["--quiet"], "env": [{ "name": "A", "value": "B" }] })
}

fn with(session: &str, mut params: Value) -> Value {
    params["sessionId"] = json!(session);
    params
}
