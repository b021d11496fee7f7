use acp_script::agent::Later;

use super::*;

fn question(history: Vec<Value>, rounds: Vec<usize>) -> ModelQuestion {
    ModelQuestion {
        session: "s".to_owned(),
        cwd: "/work".to_owned(),
        model: "m".to_owned(),
        thought_level: "medium".to_owned(),
        history,
        rounds: rounds.into_iter().map(|at| Round { at, ..Round::default() }).collect(),
        ..ModelQuestion::default()
    }
}

fn said(by: &str, text: &str) -> Value {
    json!({ "sessionUpdate": by, "content": { "type": "text", "text": text } })
}

fn called(id: &str, text: &str) -> Value {
    json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "name": "search", "rawInput": { "query": id },
        "status": "completed", "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
    })
}

const ALL: Abilities = Abilities { edit: true, delegate: true };

fn shape(request: &ChatRequest) -> Vec<String> {
    let name = |block: &Block| match block {
        Block::Text(text) => text.clone(),
        Block::Image { .. } => "image".to_owned(),
        Block::ToolCall { id, .. } => format!("call {id}"),
        Block::ToolResult { id, .. } => format!("result {id}"),
        Block::Seal(seal) => format!("seal {seal}"),
    };
    let line = |message: &Message| {
        let blocks: Vec<String> = message.blocks.iter().map(name).collect();
        format!("{:?}: {}", message.role, blocks.join(", "))
    };
    request.messages.iter().map(line).collect()
}

#[test]
fn calls_of_one_answer_stand_together_and_those_of_the_next_apart() {
    let history = vec![
        said("user_message_chunk", "find"),
        said("agent_message_chunk", "looking"),
        called("a", "x"),
        called("b", "y"),
        called("c", "z"),
        said("agent_message_chunk", "found"),
    ];
    let request = request(&question(history, vec![1, 4, 5]), ALL, 200_000);
    assert_eq!(
        shape(&request),
        [
            "User: find",
            "Assistant: looking, call a, call b",
            "User: result a, result b",
            "Assistant: call c",
            "User: result c",
            "Assistant: found",
        ]
    );
}

fn marked(mut entry: Value, mark: &str) -> Value {
    entry["_meta"] = json!({ mark: true });
    entry
}

#[test]
fn seals_stay_in_the_answer_they_came_with_and_calls_in_the_models_order() {
    let plan = || json!({ "sessionUpdate": "plan", "entries": [] });
    let child = || marked(called("x", "inner"), "acp.workbench/delegate");
    let history = vec![
        said("user_message_chunk", "go"),
        said("agent_message_chunk", "first"),
        plan(),
        called("a", ""),
        // Two tasks side by side: the second was done first.
        child(),
        called("c", ""),
        child(),
        child(),
        called("b", ""),
        said("agent_message_chunk", "last"),
    ];
    let seal = |calls, at, text: &str| SealedThought { calls, at, text: text.to_owned() };
    let round = |at, calls: &[&str], seals: &[SealedThought]| Round {
        refused: false,
        cut: None,
        at,
        calls: calls.iter().map(|id| (*id).to_owned()).collect(),
        seals: seals.to_vec(),
        later: Vec::new(),
    };
    let mut question = question(history, Vec::new());
    question.rounds = vec![
        round(1, &["a"], &[seal(0, 1, "s1"), seal(0, 2, "s2"), seal(1, 2, "s3")]),
        round(
            4,
            &["b", "c"],
            &[seal(1, 4, "s4"), seal(2, 4, "s5"), seal(3, 4, "of a call that never began")],
        ),
        round(9, &[], &[seal(0, 9, "s6"), seal(0, 10, "s7")]),
        round(10, &[], &[]),
    ];
    assert_eq!(
        shape(&request(&question, ALL, 200_000)),
        [
            "User: go",
            "Assistant: seal s1, first, seal s2, call a, seal s3",
            "User: result a",
            "Assistant: call b, seal s4, call c, seal s5",
            "User: result b, result c",
            "Assistant: seal s6, last, seal s7",
        ]
    );
}

#[test]
fn what_was_said_behind_a_call_is_told_behind_it() {
    let history = vec![
        said("user_message_chunk", "go"),
        said("agent_message_chunk", "first"),
        said("agent_message_chunk", "then"),
        said("agent_message_chunk", "last"),
        called("b", ""),
        called("a", ""),
    ];
    let later = |calls, at| Later { calls, at };
    let mut question = question(history, vec![1, 6]);
    question.rounds[0] = Round {
        at: 1,
        calls: vec!["a".to_owned(), "b".to_owned()],
        seals: vec![SealedThought { calls: 1, at: 3, text: "s".to_owned() }],
        later: vec![later(1, 2), later(2, 3)],
        ..Round::default()
    };
    let told =
        ["User: go", "Assistant: first, call a, then, seal s, call b, last", "User: result a, result b"];
    assert_eq!(shape(&request(&question, ALL, 200_000)), told);
    // Nothing is lost when a call never began.
    question.rounds[0].later[1].calls = 3;
    assert_eq!(shape(&request(&question, ALL, 200_000)), told);
}

#[test]
fn what_children_did_thoughts_plans_and_notices_are_not_told() {
    let history = vec![
        said("user_message_chunk", "go"),
        marked(said("agent_message_chunk", "no servers"), "acp.workbench/notice"),
        said("agent_thought_chunk", "hm"),
        json!({ "sessionUpdate": "plan", "entries": [] }),
        marked(called("x", "inner"), "acp.workbench/delegate"),
    ];
    assert_eq!(shape(&request(&question(history, vec![1]), ALL, 200_000)), ["User: go"]);
}

#[test]
fn a_conversation_always_begins_with_the_person() {
    let history = vec![said("agent_message_chunk", "a notice"), said("user_message_chunk", "hello")];
    let shape = shape(&request(&question(history, Vec::new()), ALL, 200_000));
    assert!(shape[0].starts_with("User:") && shape[1].starts_with("Assistant:"), "{shape:?}");
}

#[test]
fn a_long_result_keeps_its_beginning_and_its_end() {
    let long = format!("begin {} end", "é".repeat(40_000));
    let history = vec![said("user_message_chunk", "go"), called("a", &long)];
    let request = request(&question(history, Vec::new()), ALL, 200_000);
    let Some(Block::ToolResult { text, .. }) = request.messages.last().and_then(|last| last.blocks.last())
    else {
        panic!("{:?}", request.messages)
    };
    assert!(text.starts_with("begin") && text.ends_with("end") && text.contains("left out"));
    assert!(text.len() < RESULT + 100, "{}", text.len());
}

#[test]
fn an_answer_that_was_cut_off_is_followed_by_the_wish_to_go_on_until_the_person_says_something_else() {
    let history = vec![said("user_message_chunk", "write"), said("agent_message_chunk", "half a sen")];
    let mut question = question(history, vec![1, 2]);
    question.rounds[0].cut = Some(Cut { dropped: vec!["write_file".to_owned()] });
    let request = request(&question, ALL, 100);
    let shape = shape(&request);
    assert_eq!(&shape[..2], ["User: write", "Assistant: half a sen"]);
    assert!(shape[2].starts_with("User: [Your last answer was cut off"), "{shape:?}");
    assert!(shape[2].contains("calls of write_file were incomplete") && shape.len() == 3, "{shape:?}");
    question.history.push(said("user_message_chunk", "never mind"));
    question.rounds[1].at = 3;
    let later = self::shape(&super::request(&question, ALL, 100));
    assert_eq!(later, ["User: write", "Assistant: half a sen", "User: never mind"]);
}

#[test]
fn how_a_command_ended_is_told_before_its_output() {
    for (raw, told) in [
        (json!({ "exitCode": 3, "output": "x" }), "exit code 3\nx"),
        (
            json!({ "exitCode": null, "killedAfter": 20.0, "output": "x" }),
            "killed because it ran longer than 20.0 s\nx",
        ),
    ] {
        let mut call = called("1", "x");
        call["rawOutput"] = raw;
        assert_eq!(result(&call), told);
    }
}

#[test]
fn tools_follow_the_mode_and_the_flags() {
    let names = |question: &ModelQuestion, abilities| -> Vec<String> {
        request(question, abilities, 200_000).tools.into_iter().map(|tool| tool.name).collect()
    };
    let mut asked = question(Vec::new(), Vec::new());
    asked.mcp = vec![acp_script::agent::McpTool { name: "mcp__s__t".to_owned(), ..Default::default() }];
    let all = names(&asked, ALL);
    for name in
        ["search", "query", "extract", "read_file", "write_file", "run_command", "delegate", "mcp__s__t"]
    {
        assert!(all.iter().any(|known| known == name), "{name} in {all:?}");
    }
    let careful = names(&asked, Abilities { edit: false, delegate: false });
    assert!(!careful.iter().any(|name| name == "write_file" || name == "edit_file" || name == "delegate"));
    asked.planning = true;
    let planning = names(&asked, ALL);
    assert!(planning.iter().any(|name| name == "update_plan"));
    assert!(
        !planning.iter().any(|name| name == "run_command" || name == "write_file" || name.starts_with("mcp"))
    );
    asked.planning = false;
    asked.delegated = true;
    assert!(!names(&asked, ALL).iter().any(|name| name == "delegate"));
}

#[test]
fn images_and_resources_are_told_and_sounds_described() {
    let block = |content: Value| json!({ "sessionUpdate": "user_message_chunk", "content": content });
    let history = vec![
        block(json!({ "type": "image", "mimeType": "image/png", "data": "AA==" })),
        block(json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } })),
        block(json!({ "type": "resource_link", "name": "b", "uri": "file:///b" })),
        block(json!({ "type": "audio", "mimeType": "audio/wav", "data": "AA==" })),
    ];
    let shape = shape(&request(&question(history, Vec::new()), ALL, 200_000));
    assert_eq!(shape.len(), 1);
    assert!(shape[0].contains("image") && shape[0].contains("inside") && shape[0].contains("[b](file:///b)"));
}

#[test]
fn images_that_no_vendor_takes_are_described() {
    let image = |mime: &str, data: &str| {
        let content = json!({ "type": "image", "mimeType": mime, "data": data });
        json!({ "sessionUpdate": "user_message_chunk", "content": content })
    };
    let history = vec![
        image("image/svg+xml", "PHN2Zy8+"),
        image("image/png", "not base64!"),
        image("image/png", ""),
        image("image/webp", "AA=="),
    ];
    let shape = shape(&request(&question(history, Vec::new()), ALL, 200_000));
    assert_eq!(
        shape,
        [
            "User: [an image, image/svg+xml, which you cannot see], [an image, image/png, which came damaged], \
          [an image, image/png, which came damaged], image"
        ]
    );
}

#[test]
fn what_a_provider_did_not_take_is_not_told_again() {
    let history = vec![
        said("user_message_chunk", "one"),
        said("user_message_chunk", "lost by the network"),
        said("user_message_chunk", "refused"),
        said("user_message_chunk", "refused too"),
        marked(said("agent_message_chunk", "no servers"), "acp.workbench/notice"),
        said("user_message_chunk", "next"),
    ];
    let mut question = question(history, vec![1, 2, 5, 6]);
    question.rounds[2].refused = true;
    assert_eq!(shape(&request(&question, ALL, 200_000)), ["User: one, lost by the network, next"]);
}

#[test]
fn a_call_with_nothing_to_show_is_told_in_words() {
    for (name, input, status, words) in [
        ("read_file", json!({ "path": "a" }), "completed", "(the file is empty)"),
        ("read_file", json!({ "line": 99 }), "completed", "(there is no line 99: the file ends before it)"),
        ("read_file", json!({ "limit": 0 }), "completed", "(no lines were asked for)"),
        ("search_file", json!({ "search": "x" }), "completed", "(no line of the file has it)"),
        ("mcp__a__b", json!({}), "completed", "(it is done and has nothing to show)"),
        ("mcp__a__b", json!({}), "failed", "(it failed, and did not say why)"),
    ] {
        let mut call = called("1", "");
        (call["name"], call["rawInput"], call["status"]) = (name.into(), input, status.into());
        assert_eq!(result(&call), words, "{name}");
    }
}
