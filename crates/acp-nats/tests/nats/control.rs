//! What sessions are told: those of tasks, and those of clients; and what a policy decides in their place.

use std::sync::atomic::Ordering;

use acp_nats::Subjects;
use acp_nats::payload::{Controlled, Op};
use acp_policy::{Policy, PolicyRules};
use acp_proxy::Outcome;
use acp_proxy::event::{Body, Decider};

use super::seats::hand;
use super::tasks::decided;
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_closed_by_control() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    submit(client, &task("t", "wait")).await;
    let session = session_of(client, "t").await;
    until(|| world.chunks.load(Ordering::Acquire) > 0, || "it does not begin".to_owned()).await;
    let who = client.control(&session, Op::Who).await.expect("an answer");
    assert_eq!(who.task.as_deref(), Some("t"));
    client.control(&session, Op::Close).await.expect("closed");
    assert_eq!(result(client, "t").await.stop_reason, "cancelled");
    until(|| site.nats.report().sessions == 0, || "it is still open".to_owned()).await;
    not_served(client, &session).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_a_client_is_cancelled_and_closed_by_control_too() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    let visitor = Visitor::come(site).await;
    let session = visitor.open().await;
    let turn = visitor.client.prompt_text(&session, "wait").await.expect("sent");
    until(|| world.chunks.load(Ordering::Acquire) == 1, || "it does not begin".to_owned()).await;
    let who = served(client, &session).await;
    assert!(who.proxy.is_some() && who.task.is_none(), "{who:?}");
    client.control(&session, Op::Cancel).await.expect("cancelled");
    within(turn.end()).await.expect("ended");
    let error = client.control(&session, Op::Cancel).await.expect_err("nothing runs");
    assert!(error.to_string().contains("no turn is running"), "{error}");
    // With a second session on the same connection, closing one would end both.
    let second = visitor.open().await;
    visitor.says(&second, "count 1").await;
    let error = client.control(&session, Op::Close).await.expect_err("not alone");
    assert!(error.to_string().contains("2 sessions"), "{error}");
    let told = story(client, &session, 1).await;
    assert_eq!(ends(&told)[0].stop_reason, "cancelled");
    let frames: Vec<&str> = told.iter().filter_map(frame).collect();
    assert!(
        frames.len() == 1 && frames[0].contains("session/cancel"),
        "what it was told is seen: {frames:?}"
    );
    visitor.leave().await;
    not_served(client, &session).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_its_client_closes_is_over_though_the_client_stays() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.closes.store(true, Ordering::Release);
    let visitor = Visitor::come(site).await;
    let (first, second) = (visitor.open().await, visitor.open().await);
    visitor.says(&first, "count 2").await;
    served(client, &second).await;
    within(visitor.client.close_session(&first)).await.expect("closed");
    until(|| site.nats.report().sessions == 1, || format!("{:?}", site.nats.report())).await;
    not_served(client, &first).await;
    let mut events = client.events(&first, None).await.expect("a stream");
    let mut kinds = Vec::new();
    while kinds.last() != Some(&"closed") {
        kinds.push(within(events.recv()).await.expect("more").expect("an event").1.body.kind());
    }
    let turn = ["turn_start", "text", "text", "turn_end"];
    assert_eq!(kinds, [&["session"][..], &turn, &["frame", "frame", "closed"]].concat());
    // The other one has the connection for itself now.
    client.control(&second, Op::Close).await.expect("closed");
    within(visitor.relay).await.expect("the relay ends");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_taken_over_only_where_the_server_wants_its_acknowledgement() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, client, .. } = &stage;
    submit(client, &task("t", "count 1")).await;
    let session = result(client, "t").await.session.expect("a session");
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mine = ["acp.v1.task.other.result", "$JS.API.STREAM.PURGE.ACP_EVENTS", "$JS.ACK.MINE.mine.1.1.1.1.0"];
    for ack in mine {
        let forged = serde_json::json!({ "v": 1, "id": "forged", "prompt": "count 1", "session": session });
        let answer = hand(&plain, &session, &forged, ack).await;
        assert!(answer.contains("none of the consumer acp-counter of ACP_TASKS"), "{answer}");
    }
    // A trace that no header can carry harms nobody.
    let song = serde_json::json!([{ "type": "song" }]);
    let handed = serde_json::json!({ "v": 1, "id": "handed", "prompt": song, "session": session });
    let answer = hand(&plain, &session, &handed, "$JS.ACK.ACP_TASKS.acp-counter.1.9.9.1.0").await;
    assert!(answer.contains(r#""ok":true"#), "{answer}");
    assert_eq!(result(client, "handed").await.stop_reason, "rejected");
    assert_eq!(world.prompts(), 1);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_whose_session_was_taken_over_answers_for_it_no_more() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    submit(client, &task("t", "count 1")).await;
    let of_task = result(client, "t").await.session.expect("a session");
    let idle = Visitor::come(site).await;
    let of_client = idle.open().await;
    idle.says(&of_client, "count 2").await;
    let spool = tempfile::tempdir().expect("a folder");
    let second = Site::start(server, world, spool.path()).await;
    for session in [&of_task, &of_client] {
        served(client, session).await;
        let visitor = Visitor::come(&second).await;
        visitor.load(session).await;
        visitor.says(session, "count 3").await;
        until(|| second.nats.report().waiting == 0, || second.said()).await;
        visitor.leave().await;
        not_served(client, session).await;
    }
    idle.leave().await;
    second.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_its_session_back_answers_for_it_again() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    let (first, second) = (Visitor::come(site).await, Visitor::come(site).await);
    let session = first.open().await;
    served(client, &session).await;
    second.load(&session).await;
    first.load(&session).await;
    served(client, &session).await;
    let mut stolen = task("stolen", "count 1");
    stolen.session = Some(session.clone());
    submit(client, &stolen).await;
    let refused = result(client, "stolen").await.error.expect("a reason");
    assert!(refused.get().contains("belongs to a client"), "{refused}");
    assert_eq!(world.prompts(), 0);
    first.leave().await;
    second.leave().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_cancelled_only_where_it_runs() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    submit(client, &task("runs", "wait")).await;
    let session = session_of(client, "runs").await;
    until(|| world.chunks.load(Ordering::Acquire) == 1, || site.said()).await;
    let visitor = Visitor::come(site).await;
    let own = visitor.open().await;
    served(client, &own).await;
    // Tasks that proxies had begun which are gone.
    let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    for (name, session, why) in
        [("lost", &session, "\"runs\" does"), ("older", &own, "a client has the session")]
    {
        let begun = serde_json::json!({
            "v": 1, "task": name, "agent": "counter", "state": "begun", "session": session, "proxy": "p", "at": 1,
        });
        let subject = Subjects::default().status(name);
        let sent = context.publish(subject, begun.to_string().into()).await;
        sent.expect("sent").await.expect("stored");
        let error = client.cancel(name).await.expect_err("it does not run").to_string();
        assert!(error.contains(why), "{error}");
    }
    world.go.notify_one();
    assert_eq!(result(client, "runs").await.stop_reason, "end_turn");
    visitor.leave().await;
    stage.stop().await;
}

/// Who serves a session, once somebody does.
async fn served(client: &TaskClient, session: &str) -> Controlled {
    let began = Instant::now();
    loop {
        match client.control(session, Op::Who).await {
            Ok(who) => return who,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until nobody serves a session. What is told in the moment in which it ends may have no answer.
async fn not_served(client: &TaskClient, session: &str) {
    let began = Instant::now();
    loop {
        match client.control(session, Op::Who).await {
            Err(error) if error.to_string().contains("no proxy serves") => return,
            answer => assert!(began.elapsed() < PATIENCE, "{answer:?}"),
        }
    }
}

fn frame(event: &Event) -> Option<&str> {
    match &event.body {
        Body::Frame(passed) => Some(passed.frame.get()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_that_its_session_was_closed_and_no_task_takes_it_away_before() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    let visitor = Visitor::come(site).await;
    let session = visitor.open().await;
    let turn = visitor.client.prompt_text(&session, "wait").await.expect("sent");
    until(|| world.chunks.load(Ordering::Acquire) == 1, || "it does not begin".to_owned()).await;
    served(client, &session).await;
    let mut stolen = task("stolen", "count 1");
    stolen.session = Some(session.clone());
    submit(client, &stolen).await;
    let refused = result(client, "stolen").await;
    assert_eq!(refused.stop_reason, "rejected");
    assert!(refused.error.expect("a reason").get().contains("belongs to a client"));
    client.control(&session, Op::Close).await.expect("closed");
    within(turn.end()).await.expect("ended");
    let Visitor { relay, .. } = visitor;
    let why = "the session was closed by control";
    assert_eq!(within(relay).await.expect("it ends"), Outcome::Closed(why.to_owned()));
    let mut events = client.events(&session, None).await.expect("a stream");
    let reason = loop {
        let (_, event) = within(events.recv()).await.expect("more").expect("an event");
        if let Body::Closed(closed) = event.body {
            break closed.reason;
        }
    };
    assert_eq!(reason, why);
    assert_eq!((world.prompts(), site.nats.report().fenced), (1, 0));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_policy_decides_is_told_in_its_place_with_the_reason() {
    let rules = PolicyRules { policy: Policy::Read, ..PolicyRules::default() };
    let set = Stage::with(|plan| {
        plan.proxy.duties.rules = Some(rules.clone());
        plan.work.rules = rules;
    });
    let Some(stage) = set.await else { return };
    let Stage { world, site, client, .. } = &stage;
    submit(client, &task("t", "ask")).await;
    let session = result(client, "t").await.session.expect("a session");
    let visitor = Visitor::come(site).await;
    let own = visitor.open().await;
    visitor.says(&own, "ask").await;
    for session in [session, own] {
        let told = story(client, &session, 1).await;
        let kinds: Vec<&str> = told.iter().map(|event| event.body.kind()).collect();
        assert_eq!(kinds, ["session", "turn_start", "permission", "decision", "text", "turn_end"]);
        assert_eq!(text_of(&told).0, "answered no");
        let (by, reason) = decided(&told);
        assert_eq!(by, Decider::Policy);
        assert!(reason.as_ref().is_some_and(|reason| reason.contains("policy read denies")), "{reason:?}");
    }
    assert_eq!(world.answers.lock().expect("whole").len(), 2, "each request is answered once");
    visitor.leave().await;
    stage.stop().await;
}
