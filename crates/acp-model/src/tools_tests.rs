use super::*;

fn tool(name: &str, properties: &Value, required: &[&str]) -> ModelTool {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    ModelTool { name: name.to_owned(), schema, ..ModelTool::default() }
}

fn text() -> Value {
    json!({"type": "string"})
}

const W: Place<'static> = Place { cwd: Some("/w"), present: None };

fn pick(wanted: &WantedTool, tools: &[ModelTool]) -> (String, Value) {
    let chosen = choose(wanted, tools, &BTreeMap::new(), W).unwrap();
    let args = match chosen.input {
        Input::Json(args) => args,
        Input::Text(text) => text.into(),
    };
    (chosen.name, args)
}

fn read(path: &str) -> WantedTool {
    WantedTool::Read { path: path.to_owned(), line: None, limit: None }
}

#[test]
fn the_tools_of_known_agents_are_found_by_name_and_filled_by_shape() {
    let claude = [
        tool(
            "Bash",
            &json!({"command": text(), "description": text(), "timeout": {"type": "number"}}),
            &["command"],
        ),
        tool("BashOutput", &json!({"bash_id": text()}), &["bash_id"]),
        tool("Read", &json!({"file_path": text(), "offset": {"type": "number"}}), &["file_path"]),
        tool("Write", &json!({"file_path": text(), "content": text()}), &["file_path", "content"]),
        tool(
            "Edit",
            &json!({"file_path": text(), "old_string": text(), "new_string": text()}),
            &["file_path", "old_string", "new_string"],
        ),
        tool(
            "TodoWrite",
            &json!({"todos": {"type": "array", "items": {"type": "object", "properties": {"content": text(), "status": {"enum": ["pending", "in_progress", "completed"]}, "activeForm": text()}, "required": ["content", "status", "activeForm"]}}}),
            &["todos"],
        ),
    ];
    assert_eq!(pick(&read("a.txt"), &claude), ("Read".to_owned(), json!({"file_path": "/w/a.txt"})));
    let run = WantedTool::Run { command: "echo 'hi'".to_owned() };
    assert_eq!(pick(&run, &claude), ("Bash".to_owned(), json!({"command": "echo 'hi'"})));
    let write = WantedTool::Write { path: "/x/o".to_owned(), text: "done".to_owned() };
    assert_eq!(pick(&write, &claude), ("Write".to_owned(), json!({"file_path": "/x/o", "content": "done"})));
    let edit = WantedTool::Edit { path: "o".to_owned(), old: "a".to_owned(), new: "b".to_owned() };
    assert_eq!(pick(&edit, &claude).1, json!({"file_path": "/w/o", "old_string": "a", "new_string": "b"}));
    let plan = WantedTool::Plan { steps: vec!["one".to_owned(), "two".to_owned()] };
    let expected = json!({"todos": [{"content": "one", "status": "in_progress", "activeForm": "one"}, {"content": "two", "status": "pending", "activeForm": "two"}]});
    assert_eq!(pick(&plan, &claude), ("TodoWrite".to_owned(), expected));
}

#[test]
fn odd_shapes_are_filled() {
    let cline = [
        tool(
            "read_files",
            &json!({"files": {"type": "array", "items": {"type": "object", "properties": {"path": text()}, "required": ["path"]}}}),
            &["files"],
        ),
        tool("run_commands", &json!({"commands": {"type": "array", "items": text()}}), &["commands"]),
        tool("apply_patch", &json!({"input": text()}), &["input"]),
    ];
    assert_eq!(pick(&read("a"), &cline), ("read_files".to_owned(), json!({"files": [{"path": "/w/a"}]})));
    let run = WantedTool::Run { command: "ls".to_owned() };
    assert_eq!(pick(&run, &cline), ("run_commands".to_owned(), json!({"commands": ["ls"]})));
    let write = WantedTool::Write { path: "o.txt".to_owned(), text: "a\nb".to_owned() };
    let patch = "*** Begin Patch\n*** Add File: o.txt\n+a\n+b\n*** End Patch";
    assert_eq!(pick(&write, &cline), ("apply_patch".to_owned(), json!({"input": patch})));
    let editor = [tool(
        "str_replace_editor",
        &json!({"command": {"type": "string", "enum": ["view", "create"]}, "path": text(), "file_text": text()}),
        &["command", "path"],
    )];
    assert_eq!(pick(&read("a"), &editor).1, json!({"path": "/w/a", "command": "view"}));
    let refused = choose(&run, &editor, &BTreeMap::new(), Place::default()).unwrap_err();
    assert_eq!(refused.to_string(), "no offered tool serves the intent \"run\"; offered: str_replace_editor");
}

#[test]
fn an_agent_with_nothing_but_a_shell_still_reads_writes_and_searches() {
    let codex = [tool("exec_command", &json!({"cmd": text(), "justification": text()}), &["cmd"])];
    assert_eq!(pick(&read("my file"), &codex).1, json!({"cmd": "cat 'my file'"}));
    let write = WantedTool::Write { path: "o".to_owned(), text: "it's".to_owned() };
    assert_eq!(pick(&write, &codex).1, json!({"cmd": "printf '%s\\n' 'it'\\''s' > o"}));
    let lines = WantedTool::Read { path: "a".to_owned(), line: Some(2), limit: Some(3) };
    assert_eq!(pick(&lines, &codex).1, json!({"cmd": "sed -n '2,4p' a"}));
}

#[test]
fn a_profile_comes_first_and_drops_what_the_tool_does_not_offer() {
    let hints = BTreeMap::from([(
        "run".to_owned(),
        ToolHint {
            tools: vec!["missing".to_owned(), "exec".to_owned()],
            args: Some(json!({"cmd": "${command}", "sandbox": "none"})),
        },
    )]);
    let tools = [
        tool("bash", &json!({"command": text()}), &[]),
        tool("exec", &json!({"cmd": text(), "why": text()}), &["cmd", "why"]),
    ];
    let chosen =
        choose(&WantedTool::Run { command: "ls".to_owned() }, &tools, &hints, Place::default()).unwrap();
    assert_eq!(
        (chosen.name.as_str(), chosen.input),
        ("exec", Input::Json(json!({"cmd": "ls", "why": "scripted why"})))
    );
}

#[test]
fn a_patch_is_made_for_the_file_as_it_is() {
    let hints = BTreeMap::from([(
        "edit".to_owned(),
        ToolHint {
            tools: vec!["exec".to_owned()],
            args: Some(json!({"cmd": "apply_patch <<'EOF'\n${patch}\nEOF"})),
        },
    )]);
    let tools = [tool("exec", &json!({"cmd": text()}), &["cmd"])];
    let edit = WantedTool::Edit { path: "n".to_owned(), old: "thyme".to_owned(), new: "basil".to_owned() };
    let place = Place { cwd: Some("/w"), present: Some("rosemary and thyme") };
    let chosen = choose(&edit, &tools, &hints, place).unwrap();
    let command = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: n\n@@\n-rosemary and thyme\n+rosemary and basil\n*** End Patch\nEOF";
    assert_eq!(chosen.input, Input::Json(json!({"cmd": command})));
}

#[test]
fn a_question_finds_the_tool_that_asks_the_person() {
    let ask = WantedTool::Ask { question: "What is your name?".to_owned(), topic: "name".to_owned() };
    let option = json!({"type": "object", "properties": {"label": text(), "description": text()}, "required": ["label", "description"]});
    let entry = json!({"type": "object", "properties": {"id": text(), "header": text(), "question": text(), "options": {"type": "array", "items": option}, "multiSelect": {"type": "boolean"}}, "required": ["question", "options", "multiSelect"]});
    let tools = [
        tool("Task", &json!({"prompt": text()}), &["prompt"]),
        tool("request_user_input", &json!({"questions": {"type": "array", "items": entry}}), &["questions"]),
    ];
    let described = |label: &str| json!({"label": label, "description": "scripted description"});
    let expected = json!({"questions": [{
        "id": "name", "header": "Question", "question": "What is your name?", "multiSelect": false,
        "options": [described("This one"), described("Another one")],
    }]});
    assert_eq!(pick(&ask, &tools), ("request_user_input".to_owned(), expected));
    let plain = [tool("ask_user", &json!({"question": text(), "choices": text()}), &["question"])];
    assert_eq!(pick(&ask, &plain), ("ask_user".to_owned(), json!({"question": "What is your name?"})));
    assert_eq!(choose(&ask, &tools[..1], &BTreeMap::new(), W).unwrap_err().intent, "ask");
}

#[test]
fn mcp_tools_are_found_under_any_prefix() {
    let ping = |server: Option<&str>| WantedTool::Mcp {
        server: server.map(str::to_owned),
        tool: "ping".to_owned(),
        args: Map::new(),
    };
    for name in ["mcp__stub__ping", "stub_ping", "stub-ping", "mcp_stub_ping", "stub.ping", "ping"] {
        let tools = [tool("shopping", &json!({}), &[]), tool(name, &json!({}), &[])];
        assert_eq!(pick(&ping(None), &tools).0, name);
    }
    let two = [tool("mcp__one__ping", &json!({}), &[]), tool("mcp__two__ping", &json!({}), &[])];
    assert_eq!(pick(&ping(Some("two")), &two).0, "mcp__two__ping");
    let grouped =
        [ModelTool { namespace: Some("mcp__stub".to_owned()), ..tool("list_files", &json!({}), &[]) }];
    let list =
        WantedTool::Mcp { server: Some("stub".to_owned()), tool: "list-files".to_owned(), args: Map::new() };
    assert_eq!(
        choose(&list, &grouped, &BTreeMap::new(), Place::default()).unwrap().namespace.as_deref(),
        Some("mcp__stub")
    );
    assert!(choose(&ping(Some("three")), &two, &BTreeMap::new(), Place::default()).is_err());
}
