//! Whether a task can begin at all: agents that cannot be opened, places for sessions, names that two sessions have.

use std::sync::atomic::Ordering;

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
    assert!(trouble.contains("not installed"), "{trouble}");
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
