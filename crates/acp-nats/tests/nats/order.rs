//! What is stored is a beginning of what was said, whatever the connection and the stream have done.

use std::sync::atomic::Ordering;

use acp_nats::Subjects;
use acp_proxy::event::{Role, Text};
use async_nats::jetstream;

use super::*;

async fn jetstream(server: &Server) -> jetstream::Context {
    jetstream::new(async_nats::connect(server.url()).await.expect("a connection"))
}

/// A task that waits, with what it said before that stored.
async fn waiting(stage: &Stage) -> String {
    submit(&stage.client, &task("t", "wait")).await;
    let session = session_of(&stage.client, "t").await;
    let report = || stage.site.nats.report();
    until(|| report().waiting == 0 && report().stored >= 3, || stage.site.said()).await;
    // A proof that the session is its own holds for ten milliseconds.
    tokio::time::sleep(Duration::from_millis(50)).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_stepped_over_when_a_full_connection_breaks() {
    const COUNT: u64 = 12_000;
    let Some(stage) = Stage::set().await else { return };
    let Stage { mut server, world, site, client, spool: _spool } = stage;
    let tasks: Vec<String> = (0..4).map(|number| format!("t{number}")).collect();
    for id in &tasks {
        submit(&client, &task(id, &format!("count {COUNT}"))).await;
    }
    for round in 1..=2 {
        let sent = world.chunks.load(Ordering::Acquire);
        // While the connection is gone they go on, perhaps to their end.
        let goal = (sent + 2_000).min(tasks.len() as u64 * COUNT);
        let more = || world.chunks.load(Ordering::Acquire) >= goal;
        until(more, || "the agents are held back".to_owned()).await;
        // It takes no more, so that what is sent fills every buffer on the way; then all of that is lost.
        server.pause();
        let held = || site.nats.report().waiting;
        let mut before = u64::MAX;
        while std::mem::replace(&mut before, held()) != held() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server.kill();
        server.restart();
        until(|| site.nats.report().ready, || format!("lost {round} times: {}", site.said())).await;
    }
    drop(client);
    let client = super::client(&server).await;
    for id in &tasks {
        let ended = result(&client, id).await;
        let told = story(&client, &ended.session.expect("a session"), 1).await;
        assert_eq!(text_of(&told), (counted(COUNT), COUNT), "sent = stored");
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_too_early_is_sent_again_in_its_place() {
    let Some(stage) = Stage::set().await else { return };
    let session = waiting(&stage).await;
    let (subject, context) = (Subjects::default().event(&session), jetstream(&stage.server).await);
    let events = context.get_stream("ACP_EVENTS").await.expect("a stream");
    let last = events.get_last_raw_message_by_subject(&subject).await.expect("an event");
    let last = Event::parse(&last.payload).expect("one of ours");
    for ahead in [3, 4] {
        let early = Event { seq: last.seq + ahead, ..last.clone() };
        let id = format!("{session}:{}:{}", early.epoch, early.seq);
        let message =
            jetstream::message::PublishMessage::build().message_id(id).payload(early.to_json().into());
        let sent = context.send_publish(subject.clone(), message).await.expect("sent");
        assert!(!sent.await.expect("stored").duplicate);
    }
    stage.world.go.notify_one();
    assert_eq!(result(&stage.client, "t").await.stop_reason, "end_turn");
    story(&stage.client, &session, 1).await;
    let said = stage.site.said();
    assert!(said.contains("2 events of session") && said.contains("sent again, in order"), "{said}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_emptied_is_nobody_elses_session() {
    let Some(stage) = Stage::set().await else { return };
    let session = waiting(&stage).await;
    let context = jetstream(&stage.server).await;
    context.get_stream("ACP_EVENTS").await.expect("a stream").purge().await.expect("purged");
    stage.world.go.notify_one();
    assert_eq!(result(&stage.client, "t").await.stop_reason, "end_turn");
    let mut told = stage.client.events(&session, None).await.expect("a stream");
    let (_, first) = within(told.recv()).await.expect("more").expect("an event");
    assert_eq!((first.seq, stage.site.nats.report().fenced), (4, 0), "{}", stage.site.said());
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_server_takes_is_put_aside_and_holds_up_nobody() {
    if server::left_out() {
        return;
    }
    let (server, world, spool) =
        (Server::start(), Arc::new(World::default()), tempfile::tempdir().expect("a folder"));
    // A crash has left an event that is larger than what this server takes.
    let text = Text { role: Role::Agent, message_id: None, text: "x".repeat(2 << 20), chunks: 1 };
    let (session, body) = ("large".to_owned(), Body::Text(text));
    let event = Event { session, epoch: 1, seq: 1, at: 0, task: None, body };
    std::fs::write(spool.path().join("large.1.000001.ndjson"), format!("{event}\n")).expect("written");
    let site = Site::start(&server, &world, spool.path()).await;
    within(site.nats.ready()).await;
    assert!(site.said().contains("more than the 1048064 that NATS takes"), "{}", site.said());
    assert!(spool.path().join("large.1.000001.fenced").exists());
    assert_eq!(site.nats.report().waiting, 0);
    let client = client(&server).await;
    submit(&client, &task("t", "count 3")).await;
    assert_eq!(result(&client, "t").await.stop_reason, "end_turn");
    site.stop().await;
}

/// A visitor of a proxy that has not seen its server yet gets an update of 22 kB and a text of 40 kB; then the server
/// comes, and takes messages of at most so many bytes.
async fn large_before_the_server_is_there(most: usize) -> Option<(Stage, Visitor, String)> {
    if server::left_out() {
        return None;
    }
    let (folder, spool) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (mut server, world) = (input::taking(&folder, most), Arc::new(World::default()));
    server.kill();
    let site = Site::start(&server, &world, spool.path()).await;
    let visitor = Visitor::come(&site).await;
    let session = visitor.open().await;
    visitor.says(&session, "big 4500").await;
    server.restart();
    within(site.nats.ready()).await;
    until(|| site.nats.report().waiting == 0, || site.said()).await;
    let client = client(&server).await;
    Some((Stage { server, world, spool, site, client }, visitor, session))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_large_before_the_server_is_known_comes_in_parts() {
    let Some((stage, visitor, session)) = large_before_the_server_is_there(36_000).await else { return };
    let told = story(&stage.client, &session, 1).await;
    let parts = told.iter().filter(|event| matches!(&event.body, Body::Part(part) if part.of == "text"));
    assert_eq!((parts.count() > 1, stage.site.nats.report().stored), (true, told.len() as u64));
    visitor.leave().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_with_more_than_the_server_takes_is_put_aside_and_others_go_on() {
    let Some((stage, visitor, session)) = large_before_the_server_is_there(16_384).await else { return };
    let site = &stage.site;
    site.wait_for_words("(max_payload): nothing more of it is sent; what was not stored is in").await;
    // What came before it is stored, and counted.
    assert_eq!(site.nats.report().stored, 2);
    visitor.says(&session, "count 3").await;
    let other = visitor.open().await;
    visitor.says(&other, "count 3").await;
    story(&stage.client, &other, 1).await;
    until(|| site.nats.report().waiting == 0, || site.said()).await;
    assert_eq!(site.nats.report().fenced, 0);
    visitor.leave().await;
    let files = std::fs::read_dir(stage.spool.path()).expect("a folder").flatten();
    let aside = files.filter(|file| file.path().extension().is_some_and(|end| end == "fenced")).count();
    assert!(aside > 0, "what could not be stored is kept");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_look_at_the_stream_finds_is_counted() {
    let Some(stage) = Stage::set().await else { return };
    let session = waiting(&stage).await;
    let (subject, context) = (Subjects::default().event(&session), jetstream(&stage.server).await);
    let mut events = context.get_stream("ACP_EVENTS").await.expect("a stream");
    let last = events.get_last_raw_message_by_subject(&subject).await.expect("an event");
    let last = Event::parse(&last.payload).expect("one of ours");
    // The next event is stored, and its acknowledgement is lost.
    let next = Event { seq: last.seq + 1, ..last };
    let sent = context.publish(subject, next.to_json().into()).await.expect("sent");
    sent.await.expect("stored");
    stage.world.go.notify_one();
    assert_eq!(result(&stage.client, "t").await.stop_reason, "end_turn");
    let stored = events.info().await.expect("its state").state.messages;
    assert_eq!(stage.site.nats.report().stored, stored);
    stage.stop().await;
}
