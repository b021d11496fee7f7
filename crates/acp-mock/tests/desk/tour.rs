//! A tour through everything an agent can be asked, in chapters.

use std::time::Duration;

use serde_json::{Value, json};

use super::Desk;

/// A chapter: its name, and what happens in it on a fresh connection.
pub struct Chapter {
    pub name: &'static str,
    pub run: fn(&mut Desk),
}

const SECOND: Duration = Duration::from_secs(1);

macro_rules! chapters {
    ($($name:literal => $run:expr),* $(,)?) => {
        /// All chapters.
        pub const CHAPTERS: &[Chapter] = &[$(Chapter { name: $name, run: $run }),*];
    };
}

chapters! {
    "versions" => |desk| {
        for version in [json!(2), json!(0), json!(999), json!(65536), json!("1"), json!(1)] {
            desk.ask("initialize", &json!({ "protocolVersion": version, "clientCapabilities": {} }));
        }
    },
    "capabilities" => |desk| {
        for caps in [json!({}), json!({ "future": {} }), json!({ "auth": { "terminal": true } })] {
            desk.ask("initialize", &json!({ "protocolVersion": 1, "clientCapabilities": caps }));
        }
        desk.ask("initialize", &json!({ "protocolVersion": 1 }));
        desk.ask("initialize", &json!({ "protocolVersion": 1, "_meta": { "odd": [[null]] } }));
    },
    "bad lines" => |desk| {
        for line in ["{oops", "42", "{}", "[]", r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#, ""] {
            desk.line(line);
        }
        for line in [
            r#"{"jsonrpc":"1.0","id":5,"method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":"abc","method":"initialize","params":{"protocolVersion":1}}"#,
            r#"{"jsonrpc":"2.0","id":6,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"_acp.test/params","params":3}"#,
        ] {
            desk.line(line);
        }
        let filler = "x".repeat(70_000);
        desk.ask("_acp.test/long", &json!({ "filler": filler }));
        desk.greet();
    },
    "unknown methods" => |desk| {
        desk.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
        desk.greet();
        desk.ask("this/method/does/not/exist", &json!({}));
        desk.ask("_acp.test/unknown", &json!({}));
        desk.tell("_acp.test/ping", &json!({}));
        desk.tell("this/notification", &json!({}));
        desk.tell("$/cancel_request", &json!({ "requestId": 12345 }));
        desk.tell("session/cancel", &json!({ "sessionId": "nobody" }));
        desk.ask("session/prompt", &json!({ "sessionId": "nobody", "prompt": [] }));
        desk.settle(SECOND);
    },
    "signing in" => |desk| {
        desk.greet();
        desk.ask("authenticate", &json!({ "methodId": "no-such" }));
        desk.ask("logout", &json!({}));
        desk.session();
        desk.ask("authenticate", &json!({ "methodId": "mock-login" }));
        desk.session();
    },
    "places" => |desk| {
        desk.greet();
        for params in [
            json!({ "cwd": "rel", "mcpServers": [] }),
            json!({ "cwd": "/work" }),
            json!({ "mcpServers": [] }),
            json!({ "cwd": "/work", "mcpServers": [], "additionalDirectories": ["rel"] }),
            json!({ "cwd": "/work", "mcpServers": [], "_meta": { "a": 1 } }),
        ] {
            desk.ask("session/new", &params);
        }
        desk.files.insert("/extra/there.txt".to_owned(), "over there".to_owned());
        desk.files.insert("/extra/notes.txt".to_owned(), "another".to_owned());
        let session = desk.session_with(&json!({ "additionalDirectories": ["/extra"] }));
        desk.prompt(&session, "Read /extra/there.txt");
        desk.prompt(&session, "Read notes.txt");
        desk.prompt(&session, "Create a file named /outside.txt with text 'escaped'.");
        desk.ask("session/load", &json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] }));
        desk.prompt(&session, "Read /extra/there.txt");
    },
    "many sessions" => |desk| {
        desk.greet();
        desk.ask("session/list", &json!({ "cwd": "/nowhere" }));
        for _ in 0..7 {
            desk.session();
        }
        desk.ask("session/new", &json!({ "cwd": "/other", "mcpServers": [] }));
        let mut cursor = json!({});
        for _ in 0..4 {
            let page = desk.ask("session/list", &cursor).unwrap_or_default();
            cursor = match page.pointer("/result/nextCursor") {
                Some(next) => json!({ "cursor": next }),
                None => break,
            };
        }
        desk.ask("session/list", &json!({ "cwd": "/other" }));
        desk.ask("session/list", &json!({ "cursor": "not-a-cursor" }));
        desk.settle(SECOND);
        desk.ask("session/list", &json!({}));
        desk.ask("session/list", &json!({}));
    },
    "close and delete" => |desk| {
        desk.greet();
        let session = desk.session_with(&json!({ "mcpServers": [server("one"), server("two")] }));
        desk.prompt(&session, "Say hello.");
        desk.ask("session/close", &json!({ "sessionId": session }));
        desk.prompt(&session, "Say hello.");
        desk.ask("session/close", &json!({ "sessionId": "nobody" }));
        desk.ask("session/delete", &json!({ "sessionId": session }));
        desk.ask("session/list", &json!({}));
        desk.ask("session/delete", &json!({ "sessionId": "nobody" }));
        desk.ask("session/delete", &json!({ "sessionId": "nobody" }));
        for wish in ["Think a bit then respond.", "Run the command 'sleep 60'."] {
            let busy = desk.session_with(&json!({ "mcpServers": [server("one")] }));
            let turn = desk.begin_prompt(&busy, wish);
            desk.settle(SECOND / 2);
            desk.ask("session/close", &json!({ "sessionId": busy }));
            desk.answer_to(turn);
        }
    },
    "load and resume" => |desk| {
        desk.greet();
        let session = desk.session();
        desk.prompt(&session, "Remember the word tamarind.");
        desk.prompt(&session, "Which word did I ask you to remember?");
        desk.prompt(&session, "Read notes.txt");
        desk.ask("session/load", &json!({ "sessionId": "nobody", "cwd": "/work", "mcpServers": [] }));
        let place = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [server("one")] });
        desk.ask("session/load", &place);
        desk.settle(SECOND);
        desk.ask("session/load", &place);
        desk.prompt(&session, "Say hello.");
        desk.ask("session/resume", &place);
        desk.prompt(&session, "Which word did I ask you to remember?");
        let other = desk.session();
        desk.prompt(&other, "Which word did I ask you to remember?");
        desk.prompt(&other, "Call the local MCP tool ping.");
    },
    "servers" => |desk| {
        desk.greet();
        let http = json!({ "type": "http", "name": "web", "url": "http://127.0.0.1:9/mcp", "headers": [] });
        let session = desk.session_with(&json!({ "mcpServers": [server("one"), server("two")] }));
        desk.prompt(&session, "Call the local MCP tool ping.");
        desk.session_with(&json!({ "mcpServers": [http] }));
    },
    "modes and options" => |desk| {
        desk.greet();
        let session = desk.session();
        for params in [json!({ "modeId": "plan" }), json!({ "modeId": "nope" }), json!({ "modeId": "code" })] {
            desk.ask("session/set_mode", &with(&session, params));
        }
        for params in [
            json!({ "configId": "model", "value": "mock-large" }),
            json!({ "configId": "mode", "value": "plan" }),
            json!({ "configId": "mode", "value": "code" }),
            json!({ "configId": "nope", "value": "x" }),
            json!({ "configId": "verbose", "value": true, "type": "boolean" }),
        ] {
            desk.ask("session/set_config_option", &with(&session, params));
        }
        desk.prompt(&session, "Switch to plan mode.");
        desk.prompt(&session, "Set your thought level to high.");
        let turn = desk.begin_prompt(&session, "Think a bit then respond.");
        desk.settle(SECOND / 2);
        desk.ask("session/set_mode", &with(&session, json!({ "modeId": "code" })));
        for params in [
            json!({ "configId": "model", "value": "mock-small" }),
            json!({ "configId": "mode", "value": "plan" }),
        ] {
            desk.ask("session/set_config_option", &with(&session, params));
        }
        desk.answer_to(turn);
        desk.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "mock-large" })));
        desk.ask("session/set_mode", &with("nobody", json!({ "modeId": "code" })));
    },
    "plain prompts" => |desk| {
        desk.greet();
        let session = desk.session();
        desk.prompt(&session, "Say hello.");
        for prompt in [
            json!({}),
            json!([{ "type": "nope" }]),
            json!([{ "type": "resource_link", "uri": "file:///work/notes.txt", "name": "notes.txt" }]),
            json!([{ "type": "image", "data": "AA==", "mimeType": "image/png" }]),
            json!([{ "type": "audio", "data": "AA==", "mimeType": "audio/wav" }]),
            json!([{ "type": "resource", "resource": { "uri": "x://y", "text": "z" } }]),
        ] {
            desk.ask("session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
        }
        for wish in [
            "Reply with exactly: naïve – 日本語 – 🦀", "Show me an image", "Run out of tokens.",
            "Draft a plan with three steps.", "/help", "Send me a notice.", "Compact your context.",
            "Remember the word damson.", "Which word did I ask you to remember?", "Announce your commands.", "/help",
        ] {
            desk.prompt(&session, wish);
        }
        desk.ask("session/load", &json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] }));
    },
    "tools" => |desk| {
        desk.greet();
        let session = desk.session();
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
            desk.prompt(&session, wish);
        }
        desk.verdict = "reject-once".to_owned();
        desk.prompt(&session, "Create a file named rejected.txt with text 'done'.");
    },
    "asking" => |desk| {
        desk.greet();
        let session = desk.session();
        for elicited in [
            json!({ "action": "accept", "content": { "favourite_colour": "green" } }),
            json!({ "action": "accept", "content": { "favourite_colour": 7 } }),
            json!({ "action": "decline" }),
            json!({ "action": "_x" }),
        ] {
            desk.elicited = elicited;
            desk.prompt(&session, "Ask me for my favourite colour with a form.");
            desk.prompt(&session, "Ask me to sign in.");
        }
        desk.prompt(&session, "Ask me for my password.");
    },
    "cancelling" => |desk| {
        desk.greet();
        let (session, other) = (desk.session(), desk.session());
        desk.tell("session/cancel", &json!({ "sessionId": session }));
        desk.prompt(&session, "Say hello.");
        let turn = desk.begin_prompt(&session, "Think a bit then respond.");
        let beside = desk.begin_prompt(&other, "Think a bit then respond.");
        desk.settle(SECOND / 2);
        desk.tell("session/cancel", &json!({ "sessionId": session }));
        desk.answer_to(turn);
        desk.answer_to(beside);
        desk.prompt(&session, "Say hello.");
        let turn = desk.begin_prompt(&session, "Think a bit then respond.");
        desk.settle(SECOND / 2);
        desk.tell("$/cancel_request", &json!({ "requestId": turn }));
        desk.answer_to(turn);
    },
    "cancelling in mid-question" => |desk| {
        desk.greet();
        let session = desk.session();
        desk.verdict = "-".to_owned();
        let turn = desk.begin_prompt(&session, "Create a file named made.txt with text 'done'.");
        desk.settle(SECOND / 2);
        desk.tell("session/cancel", &json!({ "sessionId": session }));
        desk.answer_to(turn);
        desk.verdict = String::new();
        desk.prompt(&session, "Create a file named made.txt with text 'done'.");
        desk.verdict = "allow-once".to_owned();
        desk.elicited = Value::Null;
        let turn = desk.begin_prompt(&session, "Ask me for my favourite colour with a form.");
        desk.settle(SECOND / 2);
        desk.tell("session/cancel", &json!({ "sessionId": session }));
        desk.answer_to(turn);
        let turn = desk.begin_prompt(&session, "Run the command 'sleep 60'.");
        desk.settle(SECOND / 2);
        desk.tell("session/cancel", &json!({ "sessionId": session }));
        desk.answer_to(turn);
    },
    "two sessions" => |desk| {
        desk.greet();
        let (first, second) = (desk.session(), desk.session());
        for wish in [
            "Read notes.txt and tell me its contents.",
            "Create a file named made.txt with text 'done'.",
            "Run the command 'echo hello'. Run the command 'echo again'.",
            "Ask me for my favourite colour with a form.",
            "Replace 'thyme' with 'basil' in notes.txt.",
            "Replace 'basil' with 'mint' in notes.txt.",
        ] {
            desk.prompt(&first, wish);
        }
        let busy = desk.begin_prompt(&first, "Run the command 'sleep 60'.");
        desk.settle(SECOND / 2);
        desk.tell("session/cancel", &json!({ "sessionId": second }));
        desk.settle(SECOND / 2);
        desk.tell("$/cancel_request", &json!({ "requestId": busy }));
        desk.answer_to(busy);
    },
    "refusing" => |desk| {
        desk.greet();
        let session = desk.session();
        desk.elicited = json!({ "action": "decline" });
        for wish in ["Ask me for my favourite colour with a form.", "Ask me to sign in."] {
            desk.prompt(&session, wish);
            desk.prompt(&session, wish);
        }
        for verdict in ["", "reject-once", "reject-always", "reject-always"] {
            desk.verdict = verdict.to_owned();
            desk.prompt(&session, "Create a file named made.txt with text 'done'.");
        }
    },
    "once loaded" => |desk| {
        desk.greet();
        let session = desk.session();
        desk.prompt(&session, "Say hello.");
        desk.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "no-such-value" })));
        desk.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "mock-large" })));
        desk.ask("session/set_mode", &with(&session, json!({ "modeId": "plan" })));
        let meta = json!({ "acp.test/odd": null });
        let place = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [], "_meta": meta });
        desk.ask("session/load", &place);
        desk.prompt(&session, "/help");
        desk.ask("session/set_mode", &with(&session, json!({ "modeId": "code", "_meta": meta })));
        desk.ask("session/set_config_option", &with(&session, json!({ "configId": "mode", "value": "plan" })));
        desk.ask("session/set_config_option", &with(&session, json!({ "configId": "model", "value": "mock-small" })));
        let other = desk.session();
        desk.ask("session/set_config_option", &with(&other, json!({ "configId": "model", "value": "mock-small" })));
        desk.files.insert("/work/herbs/notes.txt".to_owned(), "sage".to_owned());
        desk.prompt(&session, "Read herbs/notes.txt and tell me its contents.");
        desk.verdict = "reject-once".to_owned();
        desk.prompt(&session, "Create a file named made.txt with text 'done'.");
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        desk.ask("session/prompt", &json!({ "sessionId": session, "prompt": [image] }));
        desk.ask("session/prompt", &json!({ "sessionId": session, "prompt": [{ "type": "text" }] }));
        desk.prompt(&session, "Say hello.");
    },
    "cancelling again" => |desk| {
        desk.greet();
        let session = desk.session();
        desk.prompt(&session, "Remember the word damson.");
        for wish in [
            "Create a file named made.txt with text 'done'.",
            "Ask me to sign in.",
            "Draft a plan with three steps for tidying this folder.",
            "Run the command 'sleep 60'. Create a file named later.txt with text 'done'.",
            "Create a file named made.txt with text 'done'.",
        ] {
            desk.verdict = if wish.starts_with("Create") { "-" } else { "allow-once" }.to_owned();
            desk.elicited = Value::Null;
            let turn = desk.begin_prompt(&session, wish);
            desk.settle(SECOND / 2);
            desk.ask("_acp.test/unknown", &json!({}));
            desk.tell("session/cancel", &json!({ "sessionId": session }));
            desk.answer_to(turn);
        }
        desk.prompt(&session, "Which word did I ask you to remember?");
    },
    "situations" => |desk| {
        desk.line(r#"{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}"#);
        desk.greet();
        desk.line(r#"{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/work","mcpServers":[]}}"#);
        for method in ["session/prompts", "terminal/create", "session/load", "session/resume", "authenticate"] {
            desk.ask(method, &json!({ "cwd": "/work", "mcpServers": [] }));
        }
        for method in ["session/close", "session/delete", "session/load", "session/resume"] {
            desk.ask(method, &json!({}));
        }
        desk.ask("session/list", &json!({ "cwd": 7 }));
        desk.tell("session/list", &json!({}));
        let odd = desk.ask("session/new", &json!({ "cwd": "/work/two words & 100%25", "mcpServers": [server("my server")] }));
        let odd = odd.and_then(|odd| Some(odd.pointer("/result/sessionId")?.as_str()?.to_owned())).unwrap_or_default();
        desk.prompt(&odd, "Call the local MCP tool ping.");
        desk.prompt(&odd, "Run the command 'pwd' and show me its output.");
        desk.prompt(&odd, "Create a file named gannet.txt with text 'done'.");
        desk.prompt(&odd, "Create a file named /work/two words & 100%25-two/made.txt with text 'done'.");
        for id in [r#""""#, r#""7""#] {
            desk.line(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{odd}","prompt":[{{"type":"text","text":"Say hello."}}]}}}}"#
            ));
            desk.settle(SECOND);
        }
        desk.line(r#"{"jsonrpc":"2.0","id":"","method":"session/nothing","params":{}}"#);
        desk.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [], "additionalDirectories": ["/extra", "rel"] }));
        desk.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [{ "command": "/bin/cat", "args": [], "env": [] }] }));
    },
    "opened again" => |desk| {
        desk.greet();
        let (session, other) = (desk.session_with(&json!({ "mcpServers": [server("one"), server("two")] })), desk.session());
        let blocks = json!([
            { "type": "text", "text": "Say hello. First comes chervil." }, { "type": "text", "text": " Then comes lovage." },
            { "type": "resource_link", "uri": "file:///work/notes.txt", "name": "notes.txt" },
        ]);
        desk.ask("session/prompt", &json!({ "sessionId": session, "prompt": blocks }));
        for wish in ["Remember the word damson.", "Say 1.", "Say 2.", "Say 3.", "Say 4."] {
            desk.prompt(&session, wish);
        }
        desk.ask("session/set_mode", &with(&other, json!({ "modeId": "plan" })));
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
            desk.ask(method, &params);
        }
        desk.prompt(&session, "Read notes.txt and tell me its contents.");
        let place = with(&session, json!({ "cwd": "/work", "mcpServers": [server("one"), server("two")] }));
        desk.ask("session/load", &place);
        let turn = desk.begin_prompt(&session, "Think a bit then respond.");
        desk.settle(SECOND / 2);
        desk.tell("session/cancel", &json!({ "sessionId": session }));
        desk.answer_to(turn);
        desk.prompt(&session, "Call the local MCP tool ping.");
        let turn = desk.begin_prompt(&other, "Think a bit then respond.");
        desk.settle(SECOND / 2);
        desk.ask("session/close", &json!({ "sessionId": session }));
        desk.answer_to(turn);
        desk.ask("session/load", &place);
        desk.prompt(&session, "Which word did I ask you to remember?");
        desk.ask("session/load", &json!({ "sessionId": "nobody", "cwd": "/work", "mcpServers": [] }));
        desk.prompt("nobody", "Say hello.");
        let turn = desk.begin_prompt(&session, "Think a bit then respond.");
        desk.settle(SECOND / 2);
        desk.ask("session/delete", &json!({ "sessionId": session }));
        desk.answer_to(turn);
        desk.ask("session/list", &json!({}));
    },
    "signing in again" => |desk| {
        desk.greet();
        desk.ask("authenticate", &json!({ "methodId": "mock-login" }));
        let session = desk.session();
        let place = with(&session, json!({ "cwd": "/work", "mcpServers": [] }));
        for method in ["session/load", "session/resume", "session/list"] {
            desk.ask(method, &place);
        }
        desk.ask("logout", &json!({}));
        desk.ask("authenticate", &json!({ "methodId": "no-such" }));
        desk.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
        desk.ask("authenticate", &json!({ "methodId": "mock-login" }));
        desk.ask("session/new", &json!({ "cwd": "/work", "mcpServers": [] }));
    },
}

fn server(name: &str) -> Value {
    json!({ "name": name, "command": "/bin/mcp", "args": ["--quiet"], "env": [{ "name": "A", "value": "B" }] })
}

fn with(session: &str, mut params: Value) -> Value {
    params["sessionId"] = json!(session);
    params
}
