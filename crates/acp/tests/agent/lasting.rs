//! What a long life leaves behind: nothing.

use serde_json::json;

use crate::talk::{Place, Talk};

#[test]
fn closed_sessions_hold_no_files_open() {
    let place = Place::new();
    let mut talk = Talk::v1(place.agent(&[]), &json!({}));
    let descriptors = format!("/proc/{}/fd", talk.child.id());
    let open = || std::fs::read_dir(&descriptors).expect("its descriptors").count();
    let mut visit = |wishes: &[&str]| {
        let session = talk.session(&place.work(), &json!([]));
        for wish in wishes {
            assert_eq!(talk.prompt(&session, wish)["result"]["stopReason"], "end_turn");
        }
        assert!(talk.ask("session/close", &json!({ "sessionId": session })).get("result").is_some());
    };
    visit(&["Read notes.txt", "Search for 'thyme'", "Run the command 'true'"]);
    let before = open();
    for _ in 0..24 {
        visit(&["Read notes.txt"]);
    }
    let after = open();
    // Threads come and go with some of their own.
    assert!(after < before + 12, "{before} descriptors before, {after} after");
}
