//! Who sits where: sessions whose agents die, proxies that stop, claims that were never stored, results that come twice.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use acp_nats::Subjects;
use acp_nats::payload::TaskState;
use async_nats::jetstream;
use futures_util::StreamExt as _;

use super::*;

pub(super) fn goes_on(id: &str, text: &str, session: &str) -> Task {
    Task { session: Some(session.to_owned()), ..task(id, text) }
}

/// Hands a task to whoever has the session, as a proxy would: what is said to that.
pub(super) async fn hand(
    plain: &async_nats::Client,
    session: &str,
    task: &serde_json::Value,
    ack: &str,
) -> String {
    let delivery = serde_json::json!({ "payload": task, "ack": ack, "delivered": 1, "trace": "00\r\nX: y" });
    let control = serde_json::json!({ "v": 1, "op": "task", "delivery": delivery });
    let answer = plain.request(Subjects::default().control(session), control.to_string().into()).await;
    String::from_utf8_lossy(&answer.expect("an answer").payload).into_owned()
}

/// Waits until so many tasks are in somebody's hands.
pub(super) async fn taken(server: &Server, count: usize) {
    let context = jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    let queue = context.get_stream("ACP_TASKS").await.expect("the queue");
    let began = Instant::now();
    while queue.consumer_info("acp-counter").await.expect("a consumer").num_ack_pending < count {
        assert!(began.elapsed() < PATIENCE, "the tasks are not taken");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_wait_for_a_session_go_on_with_it_when_its_agent_dies() {
    let Some(stage) = Stage::with(|plan| plan.work.at_once = 8).await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    submit(client, &task("first", "wait")).await;
    let session = session_of(client, "first").await;
    submit(client, &goes_on("fatal", "die", &session)).await;
    taken(server, 2).await;
    let waiting = ["a", "b", "c"];
    for name in waiting {
        submit(client, &goes_on(name, "count 2", &session)).await;
    }
    taken(server, 5).await;
    world.go.notify_one();
    assert_eq!(result(client, "first").await.stop_reason, "end_turn");
    assert_eq!(result(client, "fatal").await.stop_reason, "interrupted");
    for name in waiting {
        assert_eq!(result(client, name).await.stop_reason, "end_turn", "{name}: {}", site.said());
    }
    submit(client, &goes_on("last", "count 1", &session)).await;
    assert_eq!(result(client, "last").await.stop_reason, "end_turn");
    assert_eq!((world.prompts(), world.opened.load(Ordering::Acquire)), (6, 2), "{}", site.said());
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_was_handed_over_has_its_grace_too_and_none_is_after_that() {
    let plan = |plan: &mut Plan| (plan.work.at_once, plan.work.grace) = (1, PATIENCE);
    let Some(stage) = Stage::with(plan).await else { return };
    let Stage { server, world, site: first, client, spool: _spool } = stage;
    world.loads.store(true, Ordering::Release);
    submit(&client, &task("one", "count 1")).await;
    let session = result(&client, "one").await.session.expect("a session");
    // The only place of the first is taken: what comes now, the second takes and hands over.
    submit(&client, &task("blocks", "wait")).await;
    until(|| world.prompts() == 2, || first.said()).await;
    let other = tempfile::tempdir().expect("a folder");
    let second = Site::start(&server, &world, other.path()).await;
    submit(&client, &goes_on("handed", "wait", &session)).await;
    until(|| world.prompts() == 3, || first.said()).await;
    first.stop.send(true).expect("it works");
    client.cancel("blocks").await.expect("cancelled");
    assert_eq!(result(&client, "blocks").await.stop_reason, "cancelled");
    // Whatever is handed over now is refused, be it a task that has ended long ago.
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let old = serde_json::to_value(goes_on("one", "count 1", &session)).expect("JSON");
    let began = Instant::now();
    while !hand(&plain, &session, &old, "$JS.ACK.ACP_TASKS.acp-counter.1.9.9.1.0")
        .await
        .contains("being closed")
    {
        assert!(began.elapsed() < PATIENCE, "it still takes tasks: {}", first.said());
    }
    submit(&client, &goes_on("late", "count 2", &session)).await;
    taken(&server, 2).await;
    world.go.notify_one();
    assert_eq!(result(&client, "handed").await.stop_reason, "end_turn", "{}", first.said());
    within(first.working).await.expect("it stops");
    assert_eq!(result(&client, "late").await.stop_reason, "end_turn", "{}", second.said());
    assert_eq!(world.opened.load(Ordering::Acquire), 3, "the second has loaded the session");
    assert_eq!(second.nats.report().dead, 0);
    second.stop().await;
}

/// Leaves a claim of the task `t` in a spool.
fn claimed(spool: &Path, claim: &serde_json::Value) -> PathBuf {
    let file = spool.join("tasks/t.json");
    std::fs::create_dir_all(spool.join("tasks")).expect("a folder");
    std::fs::write(&file, claim.to_string()).expect("written");
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_end_came_in_parts_has_ended() {
    if server::left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Stage { server, world, spool, site, client } = Stage::on(input::small(&folder), |_| {}).await;
    submit(&client, &task("t", "answer 40000")).await;
    let session = result(&client, "t").await.session.expect("a session");
    site.stop().await;
    // The proxy was lost between the end of the turn and the result.
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let results = jetstream::new(plain.clone()).get_stream("ACP_RESULTS").await.expect("the results");
    results.purge().filter(Subjects::default().result("t")).await.expect("purged");
    let mut replies = listen(&plain, "my.replies").await;
    let claim = serde_json::json!({ "task": "t", "session": session, "replyTo": "my.replies" });
    claimed(spool.path(), &claim);
    let site = Site::start(&server, &world, spool.path()).await;
    let reply = within(replies.next()).await.expect("a reply");
    let reply: TaskResult = serde_json::from_slice(&reply.payload).expect("a result");
    assert_eq!(reply.stop_reason, "end_turn", "{}", site.said());
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_was_never_stored_ends_nobody_elses_task() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, client, .. } = &stage;
    submit(client, &task("t", "wait")).await;
    let session = session_of(client, "t").await;
    until(|| world.prompts() == 1, || "it does not begin".to_owned()).await;
    for session in ["another", &session] {
        let spool = tempfile::tempdir().expect("a folder");
        let claim = claimed(spool.path(), &serde_json::json!({ "task": "t", "session": session }));
        let returned = Site::start(server, world, spool.path()).await;
        until(|| !claim.exists(), || returned.said()).await;
        assert!(client.result("t").await.expect("an answer").is_none(), "{}", returned.said());
        returned.stop().await;
    }
    world.go.notify_one();
    assert_eq!(result(client, "t").await.stop_reason, "end_turn");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_comes_second_is_not_told() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, client, .. } = &stage;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut replies = listen(&plain, "my.replies").await;
    let mut asked = task("t", "wait");
    asked.reply_to = Some("my.replies".to_owned());
    submit(client, &asked).await;
    until(|| world.prompts() == 1, || "it does not begin".to_owned()).await;
    let stored = serde_json::json!({
        "v": 1, "task": "t", "agent": "counter", "at": 1, "stopReason": "interrupted", "length": 0, "sha256": "",
    });
    let message =
        jetstream::message::PublishMessage::build().payload(stored.to_string().into()).message_id("t:result");
    let sent = jetstream::new(plain).send_publish(Subjects::default().result("t"), message).await;
    sent.expect("sent").await.expect("stored");
    world.go.notify_one();
    let reply = within(replies.next()).await.expect("a reply");
    let reply: TaskResult = serde_json::from_slice(&reply.payload).expect("a result");
    assert_eq!(reply.stop_reason, "interrupted", "what is stored is told");
    let status = client.status("t").await.expect("an answer").expect("a state");
    assert_eq!(status.state, TaskState::Ended);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_waits_for_its_session_is_not_begun_when_we_stop() {
    let Some(stage) = Stage::with(|plan| plan.work.grace = PATIENCE).await else { return };
    let Stage { server, world, spool: _spool, site, client } = stage;
    world.loads.store(true, Ordering::Release);
    submit(&client, &task("runs", "wait")).await;
    let session = session_of(&client, "runs").await;
    submit(&client, &goes_on("waits", "count 2", &session)).await;
    taken(&server, 2).await;
    site.stop.send(true).expect("it works");
    // It stops taking tasks before it waits for those that run.
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let old = serde_json::to_value(goes_on("runs", "wait", &session)).expect("JSON");
    let ack = "$JS.ACK.ACP_TASKS.acp-counter.1.9.9.1.0";
    while !hand(&plain, &session, &old, ack).await.contains("being closed") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.go.notify_one();
    assert_eq!(result(&client, "runs").await.stop_reason, "end_turn");
    within(site.working).await.expect("it stops");
    assert!(!world.prompts.lock().expect("whole").iter().any(|prompt| prompt == "count 2"));
    let other = tempfile::tempdir().expect("a folder");
    let next = Site::start(&server, &world, other.path()).await;
    assert_eq!(result(&client, "waits").await.stop_reason, "end_turn", "{}", next.said());
    assert_eq!(next.nats.report().dead, 0);
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_wait_for_a_busy_session_keep_no_others_waiting() {
    let Some(stage) = Stage::with(|plan| plan.work.at_once = 2).await else { return };
    let Stage { server, world, client, .. } = &stage;
    submit(client, &task("runs", "wait")).await;
    let session = session_of(client, "runs").await;
    for name in ["a", "b"] {
        submit(client, &goes_on(name, "count 2", &session)).await;
    }
    taken(server, 3).await;
    submit(client, &task("other", "count 1")).await;
    assert_eq!(result(client, "other").await.stop_reason, "end_turn");
    world.go.notify_one();
    for name in ["runs", "a", "b"] {
        assert_eq!(result(client, name).await.stop_reason, "end_turn");
    }
    stage.stop().await;
}
