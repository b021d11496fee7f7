//! The model of a test: its rules, plain wishes without any, and what a bad agent comes to.

use serde_json::{Value, json};

use crate::{acp, agent, end_of_turn, results, write_test};

fn run(manner: &str, prompt: &str, rules: &Value, after: &Value) -> (Option<i32>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_test(folder.path(), "model-test", prompt, rules, after);
    let (output, results) = results(acp().args(["comply", &file, "--command", &agent(manner)]));
    (output.status.code(), results["agents"][0]["tests"][0].clone())
}

fn reason(test: &Value) -> &str {
    test["reason"].as_str().unwrap_or_default()
}

#[test]
fn the_rules_of_a_test_drive_the_agents_model() {
    let rules = json!([{"when": "plums?", "do": [
        {"call": {"intent": "write", "path": "plum.txt", "text": "for ${sandbox}"}}, {"text": "Picked."}
    ]}]);
    let after = json!([
        { "expect": {"messages": [{"notification": {"method": "^session/update$", "params": {"update": {"content": {"text": "Picked"}}}}}]} },
        end_of_turn(),
        { "expectFile": {"path": "plum.txt", "text": "^for /.*sandbox$"} }
    ]);
    let (code, test) = run("good", "Pick plums", &rules, &after);
    assert_eq!((code, &test["verdict"]), (Some(0), &json!("PASS")), "{test}");
    let asked: Vec<&Value> =
        test["model"].as_array().expect("a journal").iter().filter(|e| e["event"] == "request").collect();
    assert_eq!(asked.len(), 2, "{test}");
    assert_eq!(asked[0]["decision"]["calls"][0]["tool"], "write_file");
    assert_eq!(asked[1]["tools"], "as before");
}

#[test]
fn without_rules_plain_wishes_are_understood() {
    let after = json!([end_of_turn(), { "expectFile": {"path": "jam.txt", "text": "^damson$"} }]);
    let (code, test) = run("good", "Create a file named jam.txt with text 'damson'", &json!([]), &after);
    assert_eq!((code, &test["verdict"]), (Some(0), &json!("PASS")), "{test}");
}

#[test]
fn an_agent_without_the_tool_makes_the_test_not_applicable() {
    let (code, test) = run(
        "no-tools",
        "Create a file named jam.txt with text 'damson'",
        &json!([]),
        &json!([end_of_turn()]),
    );
    assert_eq!((code, &test["verdict"], &test["blocked"]), (Some(0), &json!("NA"), &json!(false)), "{test}");
    assert!(reason(&test).contains("no tool for \"write\"") && reason(&test).contains("sing"), "{test}");
    assert!(test["model"][0]["decision"]["unfit"].is_object(), "{test}");
}

#[test]
fn a_wish_that_no_model_can_grant_makes_the_test_not_applicable() {
    let (_, test) = run("good", "Send a notice", &json!([]), &json!([end_of_turn()]));
    assert_eq!(test["verdict"], "NA", "{test}");
    assert!(reason(&test).contains("no model can make an agent do"), "{test}");
}

#[test]
fn an_agent_that_goes_in_circles_is_stopped_and_the_journal_shows_it() {
    let (code, test) =
        run("forgets", "Create a file named jam.txt with text 'damson'", &json!([]), &json!([end_of_turn()]));
    assert_eq!((code, &test["verdict"], &test["blocked"]), (Some(3), &json!("NA"), &json!(true)), "{test}");
    assert!(reason(&test).contains("in circles") && reason(&test).contains("50"), "{test}");
    let journal = test["model"].as_array().expect("a journal");
    assert!(journal.iter().any(|entry| entry["decision"]["loop"].is_string()), "{test}");
    assert!(journal.iter().any(|entry| entry["event"] == "left out"), "a long journal is shortened");
}

#[test]
fn an_agent_that_calls_another_endpoint_is_told_apart_from_one_that_fails() {
    let (code, test) = run("elsewhere", "Say hello", &json!([]), &json!([end_of_turn()]));
    assert_eq!((code, &test["verdict"], &test["blocked"]), (Some(3), &json!("NA"), &json!(true)), "{test}");
    assert!(reason(&test).contains("POST /v9/think"), "{test}");
}

#[test]
fn an_agent_that_gives_up_on_a_stalled_model_fails_with_the_reason() {
    let rules = json!([{"do": [{"stall": true}]}]);
    let (code, test) = run("gives-up", "Say hello", &rules, &json!([end_of_turn()]));
    assert_eq!((code, &test["verdict"]), (Some(1), &json!("FAIL")), "{test}");
    assert!(reason(&test).contains("the response to request 2 is not as expected"), "{test}");
    let notes = test["notes"].to_string();
    assert!(notes.contains("the scripted model was asked 1 times"), "{notes}");
}

#[test]
fn a_stalled_model_ends_with_the_tests_own_time() {
    let rules = json!([{"do": [{"stall": true}]}]);
    let after =
        json!([{ "expect": {"timeoutMs": 700, "messages": [{"response": {"id": 2, "result": {}}}]} }]);
    let (code, test) = run("good", "Say hello", &rules, &after);
    assert_eq!((code, &test["verdict"]), (Some(1), &json!("FAIL")), "{test}");
    assert!(reason(&test).contains("did not come within 700 ms"), "{test}");
}

#[test]
fn bad_rules_are_found_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = json!([{"do": [{"sing": "x"}]}]);
    let file = write_test(folder.path(), "bad-rules", "Say hello", &rules, &json!([]));
    let output = acp().args(["comply", &file]).output().expect("acp starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("bad-rules.jsont") && said.contains("rules[0].do[0]: there is no action"),
        "{said}"
    );
}

#[test]
fn results_say_whose_time_the_tests_took() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_test(
        folder.path(),
        "timed",
        "Say hello",
        &json!([]),
        &json!([end_of_turn(), {"delayMs": 300}]),
    );
    let (_, results) = results(acp().args(["comply", &file, "--command", &agent("good")]));
    let cost = &results["agents"][0]["cost"];
    let part = |name: &str| cost[name].as_f64().unwrap_or(-1.0);
    assert!(part("agentMs") > 0.0 && part("waitsMs") >= 300.0 && part("runnerMs") > 0.0, "{cost}");
    let isolation = &results["agents"][0]["isolation"];
    assert_eq!(isolation["own"], json!(["home", "temporary folder", "process group"]), "{isolation}");
}
