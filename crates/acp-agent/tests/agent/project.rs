//! What a project tells the agent, and what the agent writes about a project.

use serde_json::json;

use crate::harness::{Place, Talk, server};
use crate::raw::Raw;
use crate::thinking::{agent, says, thinks};

fn skill(place: &Place) {
    let folder = place.work().join(".agents/skills/release");
    std::fs::create_dir_all(&folder).expect("folders");
    let text = "---\nname: release\ndescription: How a release is made\n---\nTag it, then push.\n";
    std::fs::write(folder.join("SKILL.md"), text).expect("a skill");
}

#[tokio::test]
async fn a_model_is_told_what_the_project_says_and_reads_a_skill_when_it_wants_one() {
    let place = Place::new();
    place.write("AGENTS.md", "Use four spaces.");
    skill(&place);
    let model = Raw::start(vec![
        thinks("anthropic", "t1", "skill", &json!({ "name": "release" })),
        thinks("anthropic", "t2", "skill", &json!({ "name": "nothing" })),
        says("anthropic", "Tagged."),
    ])
    .await;
    let mut talk = Talk::v1(&agent(&place, "anthropic", &model), &json!({})).await;
    let session = talk.session(&place.work()).await;
    let answer = talk.prompt(&session, "Make a release").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let asked = model.asked();
    let system = asked[0].body["system"].to_string();
    for part in [
        "Use four spaces.",
        "- release: How a release is made",
        "Working folder: ",
        "is asked before files are changed",
    ] {
        assert!(system.contains(part), "{part:?} in {system}");
    }
    assert!(!system.contains("Tag it"), "a skill is read when it is wanted: {system}");
    let body = asked[1].body.to_string();
    assert!(body.contains("Tag it, then push."), "{body}");
    let body = asked[2].body.to_string();
    assert!(body.contains("there are: release"), "{body}");
    let asked_for = talk.heard.iter().filter(|frame| frame["method"] == "session/request_permission").count();
    assert_eq!(asked_for, 0, "reading needs no permission");
}

#[tokio::test]
async fn init_writes_instructions_once_and_only_with_permission() {
    let place = Place::new();
    place.write("Cargo.toml", "[package]\nname = \"x\"\n");
    let mut talk = Talk::v1(&server(place.settings()), &json!({})).await;
    let session = talk.session(&place.work()).await;
    talk.permission = "reject-once";
    talk.prompt(&session, "/init").await;
    assert_eq!(place.read("AGENTS.md"), None);
    talk.permission = "allow-once";
    talk.prompt(&session, "/init").await;
    let written = place.read("AGENTS.md").expect("it is written");
    assert!(written.contains("cargo test") && written.contains("Rust"), "{written}");
    talk.prompt(&session, "/init").await;
    assert!(talk.words().contains("AGENTS.md is there already"), "{}", talk.words());
    assert_eq!(place.read("AGENTS.md"), Some(written));
}
