//! The editors' settings in the manual are read by our own client, and start this agent.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::driver::{KEY, Model, acp};
use super::folder;

/// The JSON blocks of the manual.
fn settings() -> Vec<Value> {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent.md");
    let text = std::fs::read_to_string(&manual).expect("the manual");
    let blocks = text.split("```json\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let parse =
        |block: &str| serde_json::from_str(block).unwrap_or_else(|error| panic!("{error} in {block}"));
    blocks.map(parse).collect()
}

#[test]
fn the_settings_for_editors_start_this_agent() {
    let folder = folder();
    let model = Model::start(folder.path(), &json!([{"when": "hello", "do": {"text": "from the editor"}}]));
    let mut tried = 0;
    for settings in settings() {
        let Some(servers) =
            ["agent_servers", "acp.agents"].iter().find_map(|name| settings[*name].as_object())
        else {
            continue;
        };
        let mut server = servers["ACP Workbench"].clone();
        server["command"] = env!("CARGO_BIN_EXE_acp").into();
        let env = server["env"].as_object_mut().expect("an environment");
        let names: Vec<String> = env.keys().cloned().collect();
        assert_eq!(names.len(), 1, "one key: {names:?}");
        for name in names {
            env.insert(name.replace("_API_KEY", "_BASE_URL"), model.url.clone().into());
            env.insert(name, KEY.into());
        }
        env.insert("XDG_STATE_HOME".to_owned(), folder.path().display().to_string().into());
        let file = folder.path().join("settings.json");
        std::fs::write(&file, json!({"agent_servers": {"ACP Workbench": server}}).to_string())
            .expect("a file");
        let ran = acp()
            .args(["prompt", "--agent", "ACP Workbench", "--settings"])
            .arg(&file)
            .arg("hello")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("acp runs");
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && out.contains("from the editor"), "{settings:#}: {out}{err}");
        tried += 1;
    }
    assert_eq!(tried, 3, "Zed, JetBrains and VS Code");
}
