//! Tasks that wait for a session: each begins when it is free, and none keeps others waiting.

use std::sync::atomic::Ordering;

use acp_nats::Subjects;
use acp_nats::payload::Op;
use async_nats::jetstream;
use futures_util::StreamExt as _;

use super::seats::{goes_on, taken};
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_tasks_than_there_is_room_for_wait_for_a_session_and_all_are_done() {
    let plan = |plan: &mut Plan| (plan.work.at_once, plan.work.most_waiting) = (2, 2);
    let Some(stage) = Stage::with(plan).await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    submit(client, &task("runs", "wait")).await;
    let session = session_of(client, "runs").await;
    let waiting = ["a", "b", "c", "d", "e"];
    for name in waiting {
        submit(client, &goes_on(name, "count 2", &session)).await;
    }
    submit(client, &task("other", "count 1")).await;
    // Two wait without a place, the third has the last one.
    taken(server, 4).await;
    world.go.notify_one();
    for name in waiting.into_iter().chain(["runs", "other"]) {
        assert_eq!(result(client, name).await.stop_reason, "end_turn", "{name}: {}", site.said());
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_begins_when_its_session_is_free_whatever_others_do() {
    let Some(stage) = Stage::with(|plan| plan.work.at_once = 2).await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    submit(client, &task("first", "wait")).await;
    let session = session_of(client, "first").await;
    submit(client, &goes_on("second", "count 2", &session)).await;
    taken(server, 2).await;
    submit(client, &task("long", "wait")).await;
    until(|| world.prompts() == 2, || site.said()).await;
    until(|| world.chunks.load(Ordering::Acquire) == 2, || site.said()).await;
    client.cancel("first").await.expect("cancelled");
    assert_eq!(result(client, "second").await.stop_reason, "end_turn", "{}", site.said());
    assert!(client.result("long").await.expect("an answer").is_none());
    world.go.notify_one();
    assert_eq!(result(client, "long").await.stop_reason, "end_turn");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_comes_twice_while_it_runs_or_waits_is_done_once() {
    let Some(stage) = Stage::with(|plan| plan.work.at_once = 2).await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut replies = plain.subscribe("my.replies").await.expect("a subscription");
    let _ = plain.request("nobody.listens", "".into()).await;
    let context = jetstream::new(plain);
    let asked = |task: Task| Task { reply_to: Some("my.replies".to_owned()), ..task };
    let runs = asked(task("runs", "wait"));
    submit(client, &runs).await;
    let session = session_of(client, "runs").await;
    let waits = asked(goes_on("waits", "count 2", &session));
    submit(client, &waits).await;
    // Past the queue's own memory of ids.
    for again in [&runs, &waits] {
        let payload = serde_json::to_vec(again).expect("JSON");
        let sent = context.publish(Subjects::default().task("counter"), payload.into()).await;
        sent.expect("sent").await.expect("queued");
    }
    taken(server, 4).await;
    submit(client, &task("other", "count 1")).await;
    assert_eq!(result(client, "other").await.stop_reason, "end_turn", "{}", site.said());
    world.go.notify_one();
    let mut answered = Vec::new();
    for _ in 0..4 {
        let reply = within(replies.next()).await.expect("a reply");
        let reply: TaskResult = serde_json::from_slice(&reply.payload).expect("a result");
        answered.push((reply.task, reply.stop_reason));
    }
    answered.sort();
    let once = |name: &str| (name.to_owned(), "end_turn".to_owned());
    assert_eq!(answered, [once("runs"), once("runs"), once("waits"), once("waits")]);
    assert_eq!(world.prompts(), 3, "{:?}", world.prompts);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_tasks_wait_for_is_not_idle() {
    // What is closed is lost: the agent loads no sessions.
    let Some(stage) = Stage::with(|plan| plan.work.most_idle = 0).await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    submit(client, &task("runs", "wait")).await;
    let session = session_of(client, "runs").await;
    for name in ["a", "b"] {
        submit(client, &goes_on(name, "wait", &session)).await;
    }
    taken(server, 3).await;
    for count in 1..=3 {
        until(|| world.prompts() == count, || site.said()).await;
        world.go.notify_one();
    }
    for name in ["runs", "a", "b"] {
        assert_eq!(result(client, name).await.stop_reason, "end_turn", "{name}: {}", site.said());
    }
    assert_eq!((world.opened.load(Ordering::Acquire), site.nats.report().dead), (1, 0));
    until(|| site.nats.report().sessions == 0, || "it stays open".to_owned()).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_begins_in_a_session_that_is_being_closed() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    submit(client, &task("runs", "wait")).await;
    let session = session_of(client, "runs").await;
    until(|| world.chunks.load(Ordering::Acquire) == 1, || site.said()).await;
    submit(client, &goes_on("waits", "count 2", &session)).await;
    taken(server, 2).await;
    client.control(&session, Op::Close).await.expect("closed");
    assert_eq!(result(client, "runs").await.stop_reason, "cancelled");
    assert_eq!(result(client, "waits").await.stop_reason, "end_turn", "{}", site.said());
    assert_eq!(world.opened.load(Ordering::Acquire), 2, "it was closed, and loaded again: {}", site.said());
    stage.stop().await;
}
