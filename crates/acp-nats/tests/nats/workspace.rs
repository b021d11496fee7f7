//! Where the sessions of tasks work.

use std::sync::atomic::Ordering;

use super::*;

/// With what a session was opened: the method, and its params.
fn opened(story: &[Event]) -> Vec<(String, serde_json::Value)> {
    let opened = story.iter().filter_map(|event| match &event.body {
        Body::Session(opened) => {
            Some((opened.method.clone(), serde_json::from_str(opened.params.get()).expect("JSON")))
        }
        _ => None,
    });
    opened.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_folder_of_the_proxy_is_stronger_than_the_folder_of_a_task() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixed = folder.path().to_str().expect("text").to_owned();
    let plan = |plan: &mut Plan| plan.proxy.duties.cwd = Some(fixed.clone());
    let Some(stage) = Stage::with(plan).await else { return };
    let Stage { site, client, .. } = &stage;
    for (name, cwd) in [("a", "/etc"), ("b", "/is/not/here")] {
        submit(client, &Task { cwd: Some(cwd.to_owned()), ..task(name, "count 1") }).await;
        let ended = result(client, name).await;
        assert_eq!(ended.stop_reason, "end_turn", "{}", site.said());
        let told = story(client, &ended.session.expect("a session"), 1).await;
        assert_eq!(opened(&told)[0].1["cwd"], fixed);
        site.wait_for_words(&format!("task {name:?} asks for the folder {cwd:?}")).await;
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_loaded_again_works_where_and_with_what_it_did() {
    let plan = |plan: &mut Plan| (plan.work.most_idle, plan.work.task_mcp) = (0, true);
    let Some(stage) = Stage::with(plan).await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    let server = serde_json::json!({ "name": "tools", "command": "/bin/true", "args": [], "env": [] });
    let mcp_servers = vec![serde_json::value::to_raw_value(&server).expect("JSON")];
    submit(client, &Task { cwd: Some("/var".to_owned()), mcp_servers, ..task("first", "count 1") }).await;
    let session = result(client, "first").await.session.expect("a session");
    let rounds = [("again", None, "/var"), ("elsewhere", Some("/usr"), "/usr"), ("there", None, "/usr")];
    for (name, cwd, _) in rounds {
        // It is closed at once, and loaded for the next one.
        until(|| site.nats.report().sessions == 0, || format!("{:?}", site.nats.report())).await;
        let (cwd, session) = (cwd.map(str::to_owned), Some(session.clone()));
        submit(client, &Task { cwd, session, ..task(name, "count 1") }).await;
        assert_eq!(result(client, name).await.stop_reason, "end_turn", "{}", site.said());
    }
    let told = opened(&story(client, &session, 4).await);
    assert_eq!(told.len(), 4);
    for ((method, params), (name, _, cwd)) in told[1..].iter().zip(rounds) {
        assert_eq!((method.as_str(), params["cwd"].as_str()), ("session/load", Some(cwd)), "{name}");
        assert_eq!(params["mcpServers"][0]["name"], "tools", "{name}");
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_brings_no_mcp_servers_and_is_answered_nowhere_else_unless_the_proxy_was_told_so() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut heard = listen(&plain, "orders.>").await;
    let tools = serde_json::json!({ "name": "tools", "command": "/bin/true", "args": [], "env": [] });
    let mcp_servers = vec![serde_json::value::to_raw_value(&tools).expect("JSON")];
    submit(client, &Task { mcp_servers, ..task("tools", "count 1") }).await;
    submit(client, &Task { reply_to: Some("orders.new".to_owned()), ..task("orders", "count 1") }).await;
    for (name, flag) in [("tools", "--task-mcp"), ("orders", "--reply-to")] {
        let ended = result(client, name).await;
        let error = ended.error.expect("a reason");
        assert_eq!(ended.stop_reason, "rejected", "{}", site.said());
        assert!(error.get().contains(flag), "{error}");
    }
    assert_eq!(world.prompts(), 0);
    let silent = tokio::time::timeout(Duration::from_millis(100), futures_util::StreamExt::next(&mut heard));
    assert!(silent.await.is_err(), "nothing is sent where replies may not go");
    stage.stop().await;
}
