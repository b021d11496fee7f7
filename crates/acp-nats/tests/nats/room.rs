//! Whether a task can begin at all: agents that cannot be opened, places for sessions, names that two sessions have.

use std::sync::atomic::Ordering;

use acp_nats::payload::Op;

use super::seats::hand;
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_outlast_an_agent_that_cannot_be_opened() {
    const MANY: usize = 1000;
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.refuse.store(MANY, Ordering::Release);
    submit(client, &task("one", "count 1")).await;
    // More often than a task is delivered.
    until(|| world.refuse.load(Ordering::Acquire) <= MANY - 5, || site.said()).await;
    let trouble = site.nats.trouble().agent.expect("a trouble");
    assert_eq!(trouble, "the agent is not installed", "it has refused nothing");
    submit(client, &task("two", "count 2")).await;
    world.refuse.store(0, Ordering::Release);
    for name in ["one", "two"] {
        assert_eq!(result(client, name).await.stop_reason, "end_turn", "{name}: {}", site.said());
    }
    assert_eq!((world.prompts(), site.nats.report().dead), (2, 0));
    assert_eq!(site.nats.trouble().agent, None);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_outlast_an_agent_that_opens_no_sessions() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    let folder = tempfile::tempdir().expect("a folder");
    let own = Task { cwd: folder.path().to_str().map(str::to_owned), ..task("own", "count 2") };
    for task in [&task("plain", "count 1"), &own] {
        world.shut.store(true, Ordering::Release);
        submit(client, task).await;
        until(|| site.nats.trouble().agent.is_some(), || site.said()).await;
        let trouble = site.nats.trouble().agent.expect("it stays until the agent opens sessions");
        assert!(trouble.contains("no more sessions"), "{trouble}");
        world.shut.store(false, Ordering::Release);
        assert_eq!(result(client, &task.id).await.stop_reason, "end_turn", "{}", site.said());
    }
    assert_eq!((world.prompts(), site.nats.report().dead), (2, 0));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_of_a_task_gives_way_to_a_client_when_nobody_uses_it() {
    let Some(stage) = Stage::with(|plan| plan.proxy.duties.max_sessions = Some(1)).await else { return };
    let Stage { world, site, client, .. } = &stage;
    submit(client, &task("runs", "wait")).await;
    until(|| world.prompts() == 1, || site.said()).await;
    let visitor = Visitor::come(site).await;
    let workspace = acp_host::Workspace::at("/tmp");
    let refused = within(visitor.client.new_session(&workspace)).await.expect_err("it is in use");
    assert!(refused.to_string().contains("--max-sessions"), "{refused}");
    world.go.notify_one();
    assert_eq!(result(client, "runs").await.stop_reason, "end_turn");
    // A moment after its result is told.
    let began = Instant::now();
    while let Err(error) = within(visitor.client.new_session(&workspace)).await {
        assert!(began.elapsed() < PATIENCE, "{error}: {}", site.said());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    visitor.leave().await;
    submit(client, &task("last", "count 1")).await;
    assert_eq!(result(client, "last").await.stop_reason, "end_turn", "{}", site.said());
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_put_back_whatever_its_trace_is() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    submit(client, &task("one", "count 1")).await;
    let session = result(client, "one").await.session.expect("a session");
    world.refuse.store(1, Ordering::Release);
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let handed = serde_json::to_value(task("two", "count 2")).expect("JSON");
    let answer = hand(&plain, &session, &handed, "$JS.ACK.ACP_TASKS.acp-counter.1.9.9.1.0").await;
    assert!(answer.contains(r#""ok":true"#), "{answer}");
    assert_eq!(result(client, "two").await.stop_reason, "end_turn", "{}", site.said());
    assert!(site.said().contains("put back into the queue"), "{}", site.said());
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_nobody_uses_make_room_for_those_that_are_needed() {
    let Some(stage) = Stage::with(|plan| plan.proxy.duties.max_sessions = Some(2)).await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    let mut sessions = Vec::new();
    for name in ["a", "b", "c", "d"] {
        submit(client, &task(name, "count 2")).await;
        let ended = result(client, name).await;
        assert_eq!(ended.stop_reason, "end_turn", "{name}: {}", site.said());
        sessions.push(ended.session.expect("a session"));
    }
    // The one that went first comes back.
    submit(client, &Task { session: Some(sessions[0].clone()), ..task("e", "count 3") }).await;
    assert_eq!(result(client, "e").await.stop_reason, "end_turn", "{}", site.said());
    assert_eq!(text_of(&story(client, &sessions[0], 2).await), (counted(2) + &counted(3), 5));
    assert_eq!((world.prompts(), site.nats.report().dead), (5, 0));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_waits_while_every_place_is_in_use() {
    let Some(stage) = Stage::with(|plan| plan.proxy.duties.max_sessions = Some(2)).await else { return };
    let Stage { world, site, client, .. } = &stage;
    let visitor = Visitor::come(site).await;
    visitor.open().await;
    let tasks: Vec<String> = (0..4).map(|number| format!("t{number}")).collect();
    for name in &tasks {
        submit(client, &task(name, "wait")).await;
    }
    for count in 1..=tasks.len() {
        until(|| world.prompts() == count, || site.said()).await;
        assert_eq!(site.nats.report().tasks, 1, "{}", site.said());
        world.go.notify_one();
    }
    for name in &tasks {
        assert_eq!(result(client, name).await.stop_reason, "end_turn", "{name}: {}", site.said());
    }
    assert_eq!((world.prompts(), site.nats.report().dead), (4, 0));
    visitor.leave().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_one_name_are_never_mixed() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.closes.store(true, Ordering::Release);
    *world.name.lock().expect("whole") = Some("sess_1".to_owned());
    submit(client, &task("e1", "wait")).await;
    until(|| world.chunks.load(Ordering::Acquire) == 1, || site.said()).await;
    // Another task, and a client: each with an agent of its own, which begins to count at one.
    submit(client, &task("e2", "count 3")).await;
    let refused = result(client, "e2").await;
    assert_eq!(refused.stop_reason, "rejected");
    let why = refused.error.expect("a reason");
    assert!(why.get().contains("sess_1") && why.get().contains("in use"), "{why}");
    let visitor = Visitor::come(site).await;
    let session = visitor.open().await;
    site.wait_for_words("nothing of a session \"sess_1\" is published").await;
    visitor.says(&session, "count 5").await;
    world.go.notify_one();
    assert_eq!(result(client, "e1").await.stop_reason, "end_turn");
    let told = story(client, "sess_1", 1).await;
    assert_eq!(text_of(&told).0, "begun done", "{told:?}");
    // Once it is free, the name is the next one's.
    client.control("sess_1", Op::Close).await.expect("closed");
    until(|| site.nats.report().sessions == 0, || site.said()).await;
    visitor.says(&session, "count 2").await;
    let told = story(client, "sess_1", 2).await;
    assert_eq!(text_of(&told).0, format!("begun done{}", counted(2)));
    assert_eq!(world.prompts(), 3);
    visitor.leave().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_loads_the_session_of_a_task_has_it_from_then_on() {
    let Some(stage) = Stage::with(hasty).await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    submit(client, &task("t1", "wait")).await;
    let session = session_of(client, "t1").await;
    until(|| world.chunks.load(Ordering::Acquire) == 1, || site.said()).await;
    let visitor = Visitor::come(site).await;
    visitor.load(&session).await;
    visitor.says(&session, "count 4").await;
    world.go.notify_one();
    let ended = result(client, "t1").await;
    assert_eq!((ended.stop_reason.as_str(), ended.length), ("interrupted", 6), "{}", site.said());
    submit(client, &Task { session: Some(session.clone()), ..task("t2", "count 1") }).await;
    let refused = result(client, "t2").await.error.expect("a reason");
    assert!(refused.get().contains("belongs to a client"), "{refused}");
    visitor.says(&session, "count 3").await;
    let told = story(client, &session, 2).await;
    assert!(ends(&told).iter().all(|end| end.stop_reason == "end_turn"), "{told:?}");
    assert_eq!(text_of(&told).0, format!("begun {}{}", counted(4), counted(3)));
    visitor.leave().await;
    stage.stop().await;
}
