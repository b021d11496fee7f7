//! Faults: what was sent is stored, in order, once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use acp_nats::Subjects;
use acp_proxy::event::{Body, TurnEnd};
use futures_util::StreamExt as _;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_server_is_killed_three_times() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { mut server, world, site, client, spool: _spool } = stage;
    submit(&client, &task("long", "talk 1000")).await;
    let session = session_of(&client, "long").await;
    for kill in 1..=3 {
        let sent = world.chunks.load(Ordering::Acquire);
        until(|| world.chunks.load(Ordering::Acquire) >= sent + 150, || "the agent is held back".to_owned())
            .await;
        server.kill();
        // The agent goes on: its events wait in the spool.
        let sent = world.chunks.load(Ordering::Acquire);
        until(|| world.chunks.load(Ordering::Acquire) >= sent + 150, || "the agent is held back".to_owned())
            .await;
        server.restart();
        let lost = format!("{kill} times lost");
        until(|| site.nats.report().ready, || format!("{lost}: {}", site.said())).await;
    }
    world.go.notify_one();
    drop(client);
    let client = super::client(&server).await;
    let ended = result(&client, "long").await;
    assert_eq!(ended.stop_reason, "end_turn");
    let told = story(&client, &session, 1).await;
    let count = world.chunks.load(Ordering::Acquire);
    assert_eq!(text_of(&told), (counted(count), count), "sent = stored");
    assert_eq!(world.prompts(), 1);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_stalls_for_five_seconds_holds_the_agent_back() {
    const COUNT: u64 = 30_000;
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    submit(client, &task("long", &format!("count {COUNT} 0 2000"))).await;
    until(|| world.chunks.load(Ordering::Acquire) == 2000, || "it does not begin".to_owned()).await;
    server.pause();
    world.go.notify_one();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let held = world.chunks.load(Ordering::Acquire);
    let waiting = site.nats.report().waiting;
    server.resume();
    assert!(held < COUNT, "the agent was not held back");
    assert!(waiting < 10_000, "{waiting} events wait in memory");
    let ended = result(client, "long").await;
    let told = story(client, &ended.session.expect("a session"), 1).await;
    assert_eq!(text_of(&told), (counted(COUNT), COUNT), "sent = stored");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_consumer_slows_nobody_and_misses_nothing() {
    const COUNT: u64 = 5000;
    let Some(stage) = Stage::set().await else { return };
    let Stage { client, .. } = &stage;
    submit(client, &task("long", &format!("count {COUNT}"))).await;
    let session = session_of(client, "long").await;
    let mut events = client.events(&session, None).await.expect("a stream");
    let (mut told, mut over) = (Vec::new(), false);
    while !over {
        let (_, event) = within(events.recv()).await.expect("more").expect("an event");
        over = matches!(event.body, Body::TurnEnd(_));
        told.push(event);
        if told.len() == 100 {
            // It reads nothing more until everything is over.
            result(client, "long").await;
        }
    }
    check(&told);
    assert_eq!(text_of(&told), (counted(COUNT), COUNT), "sent = stored = read");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_gone_leaves_an_interrupted_turn() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, client, .. } = &stage;
    submit(client, &task("dies", "die")).await;
    let ended = result(client, "dies").await;
    assert_eq!(ended.stop_reason, TurnEnd::INTERRUPTED);
    assert!(ended.error.expect("a reason").get().contains("the agent is gone"));
    let told = story(client, &ended.session.expect("a session"), 1).await;
    assert_eq!(text_of(&told).0, "farewell");
    submit(client, &task("lives", "count 2")).await;
    assert_eq!(result(client, "lives").await.stop_reason, "end_turn");
    assert_eq!(world.prompts(), 2);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_proxy_on_the_same_session_fences_the_first() {
    let Some(stage) = Stage::with(hasty).await else { return };
    let Stage { server, world, spool, site, client } = &stage;
    world.loads.store(true, Ordering::Release);
    submit(client, &task("t1", "wait")).await;
    let session = session_of(client, "t1").await;
    until(|| site.nats.report().waiting == 0 && site.nats.report().stored >= 3, || site.said()).await;
    // A client of another proxy takes the session over.
    let other = tempfile::tempdir().expect("a folder");
    let second = Site::start(server, world, other.path()).await;
    let visitor = Visitor::come(&second).await;
    visitor.load(&session).await;
    visitor.says(&session, "count 50").await;
    until(|| second.nats.report().waiting == 0, || second.said()).await;
    // The first finds out with its next event, and stores nothing of it.
    world.go.notify_one();
    site.wait_for_words("another proxy has taken over session").await;
    assert_eq!((site.nats.report().stored, site.nats.report().fenced), (3, 1));
    let aside = std::fs::read_dir(spool.path()).expect("a folder").flatten();
    let aside = aside.filter(|file| file.path().extension().is_some_and(|end| end == "fenced")).count();
    assert!(aside > 0, "what could not be stored is kept");
    // Its task is answered, and whoever has the session now goes on undisturbed.
    assert_eq!(result(client, "t1").await.stop_reason, TurnEnd::INTERRUPTED);
    visitor.says(&session, "count 20").await;
    let told = story(client, &session, 2).await;
    let theirs: Vec<Event> = told.iter().filter(|event| event.epoch > told[0].epoch).cloned().collect();
    assert_eq!((told.len() - theirs.len(), text_of(&theirs)), (3, (counted(50) + &counted(20), 70)));
    assert_eq!(second.nats.report().fenced, 0, "{}", second.said());
    visitor.leave().await;
    second.stop().await;
    // The first goes on with others.
    submit(client, &task("t2", "count 7")).await;
    let ended = result(client, "t2").await;
    assert_eq!(text_of(&story(client, &ended.session.expect("a session"), 1).await).1, 7);
    stage.stop().await;
}

async fn story_so_far(client: &TaskClient, session: &str, count: usize) -> Vec<Event> {
    let mut events = client.events(session, None).await.expect("a stream");
    let mut story = Vec::new();
    while story.len() < count {
        story.push(within(events.recv()).await.expect("more").expect("an event").1);
    }
    story
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_the_relay_is_published_too_and_may_come_back() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    let first = Visitor::come(site).await;
    let session = first.open().await;
    let turn = first.client.prompt_text(&session, "wait").await.expect("sent");
    until(|| world.chunks.load(Ordering::Acquire) == 1, || "it does not begin".to_owned()).await;
    // It goes away in mid-turn.
    drop(turn);
    first.leave().await;
    let again = Visitor::come(site).await;
    again.load(&session).await;
    again.says(&session, "count 50").await;
    let told = story(client, &session, 2).await;
    let reasons: Vec<&str> = ends(&told).iter().map(|end| end.stop_reason.as_str()).collect();
    assert_eq!(reasons, [TurnEnd::INTERRUPTED, "end_turn"]);
    assert_eq!(text_of(&told), (format!("begun {}", counted(50)), 51), "sent = stored");
    again.leave().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_at_fifty_tokens_a_second_is_fewer_than_eight_messages_a_second() {
    let Some(stage) = Stage::with(|plan| plan.nats.limits = AggregateLimits::default()).await else { return };
    let Stage { client, .. } = &stage;
    submit(client, &task("slow", "count 100 20000")).await;
    let ended = result(client, "slow").await;
    let told = story(client, &ended.session.expect("a session"), 1).await;
    assert_eq!(text_of(&told), (counted(100), 100));
    let (first, last) = (told[0].at, told[told.len() - 1].at);
    let pieces = told.iter().filter(|event| matches!(event.body, Body::Text(_))).count();
    let seconds = f64::from(u32::try_from(last - first).expect("short")) / 1000.0;
    assert!((pieces as f64) < 8.0 * seconds + 1.0, "{pieces} messages in {seconds} s");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_frame_is_live_and_not_stored() {
    let Some(stage) = Stage::with(|plan| plan.nats.live = true).await else { return };
    let Stage { server, client, .. } = &stage;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut live = listen(&plain, "acp.v1.live.*").await;
    submit(client, &task("t", "count 3")).await;
    let mut methods = Vec::new();
    while methods.len() < 5 {
        let frame = acp_rpc::Frame::parse(within(live.next()).await.expect("a frame").payload);
        methods.push(frame.method().unwrap_or("response").to_owned());
    }
    let update = "session/update";
    assert_eq!(methods, ["response", "session/prompt", update, update, update]);
    result(client, "t").await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_begins_before_nats_is_there_is_not_taken_for_what_a_crash_left() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { mut server, world, site, client, spool: _spool } = stage;
    site.stop().await;
    server.kill();
    let own = tempfile::tempdir().expect("a folder");
    let site = Site::start(&server, &world, own.path()).await;
    let visitor = Visitor::come(&site).await;
    let session = visitor.open().await;
    visitor.says(&session, "count 20").await;
    let spooled = || {
        std::fs::read_dir(own.path())
            .expect("a folder")
            .flatten()
            .filter(|file| file.path().extension().is_some_and(|end| end == "ndjson"))
            .count()
    };
    until(|| spooled() == 1, || "nothing waits".to_owned()).await;
    server.restart();
    until(|| site.nats.report().ready && site.nats.report().waiting == 0, || site.said()).await;
    assert!(!site.said().contains("what was left"), "{}", site.said());
    visitor.says(&session, "count 30").await;
    assert_eq!(spooled(), 1, "its events still go through the spool");
    drop(client);
    let client = super::client(&server).await;
    let told = story(&client, &session, 2).await;
    assert_eq!(text_of(&told), (counted(20) + &counted(30), 50), "sent = stored");
    visitor.leave().await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_left_is_sent_once_and_never_after_somebody_else() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, spool, site, client } = stage;
    submit(&client, &task("t", "count 10")).await;
    let session = result(&client, "t").await.session.expect("a session");
    site.stop().await;
    let told = story_so_far(&client, &session, 14).await;
    check(&told);
    let last = &told[13];
    assert!(matches!(last.body, Body::Closed(_)), "{last}");
    let leave = |events: &[&Event]| {
        let text: String = events.iter().map(|event| format!("{event}\n")).collect();
        let name = format!("{session}.{}.000001.ndjson", events[0].epoch);
        std::fs::write(spool.path().join(name), text).expect("written");
    };
    let files = |end: &str| {
        let files = std::fs::read_dir(spool.path()).expect("a folder").flatten();
        files.filter(|file| file.path().extension().is_some_and(|found| found == end)).count()
    };
    // All of it was stored, and nobody lived to say so.
    leave(&[last]);
    let site = Site::start(&server, &world, spool.path()).await;
    within(site.nats.ready()).await;
    assert_eq!((files("ndjson"), site.nats.report().stored), (0, 0));
    site.stop().await;
    // Some of it was.
    let next = Event { seq: last.seq + 1, ..last.clone() };
    leave(&[last, &next]);
    let site = Site::start(&server, &world, spool.path()).await;
    within(site.nats.ready()).await;
    let told = story_so_far(&client, &session, 15).await;
    check(&told);
    assert_eq!((files("ndjson"), site.nats.report().stored), (0, 1));
    site.stop().await;
    // Somebody else has the session since.
    let theirs = Event { epoch: last.epoch + 1, seq: 1, ..last.clone() };
    let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    let sent = context.publish(Subjects::default().event(&session), theirs.to_json().into()).await;
    sent.expect("sent").await.expect("stored");
    let late = Event { seq: last.seq + 2, ..last.clone() };
    leave(&[&late]);
    let site = Site::start(&server, &world, spool.path()).await;
    within(site.nats.ready()).await;
    assert_eq!((files("ndjson"), files("fenced"), site.nats.report().stored), (0, 1, 0));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_sees_what_happens_after_the_server_was_started_again() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { mut server, world, site, client, spool: _spool } = stage;
    submit(&client, &task("t", "wait")).await;
    let session = session_of(&client, "t").await;
    let mut progress = within(client.follow("t")).await.expect("a stream");
    let mut events = within(client.events(&session, None)).await.expect("a stream");
    let mut told = Vec::new();
    while !matches!(told.last(), Some(Body::Text(_))) {
        told.push(within(events.recv()).await.expect("more").expect("an event").1.body);
    }
    server.kill();
    server.restart();
    world.go.notify_one();
    while !matches!(told.last(), Some(Body::TurnEnd(_))) {
        told.push(within(events.recv()).await.expect("more").expect("an event").1.body);
    }
    let kinds: Vec<&str> = told.iter().map(Body::kind).collect();
    assert_eq!(kinds, ["session", "turn_start", "text", "text", "turn_end"], "nothing twice");
    while !matches!(within(progress.recv()).await, Some(TaskProgress::Ended(_))) {}
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_taken_from_a_server_that_has_forgotten_everything() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { mut server, site, client, world: _world, spool: _spool } = stage;
    submit(&client, &task("before", "count 1")).await;
    result(&client, "before").await;
    server.kill();
    server.forget();
    server.restart();
    submit(&client, &task("after", "count 2")).await;
    assert_eq!(result(&client, "after").await.stop_reason, "end_turn", "{}", site.said());
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_deleted_is_made_again() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, site, client, .. } = &stage;
    submit(client, &task("first", "count 1")).await;
    result(client, "first").await;
    let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    for name in ["ACP_EVENTS", "ACP_RESULTS", "ACP_TASKS"] {
        let began = Instant::now();
        context.delete_stream(name).await.expect("deleted");
        // The queue is missed by itself, the others when they are needed.
        if name != "ACP_TASKS" {
            submit(client, &task(name, "count 3")).await;
        }
        while context.get_stream(name).await.is_err() {
            assert!(began.elapsed() < PATIENCE, "{name} is not made again: {}", site.said());
            // Who asks without a pause takes the server's time for making it.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        if name == "ACP_TASKS" {
            submit(client, &task(name, "count 3")).await;
        }
        let ended = result(client, name).await;
        assert_eq!(ended.stop_reason, "end_turn", "{}", site.said());
        let told = story(client, &ended.session.expect("a session"), 1).await;
        assert_eq!(text_of(&told), (counted(3), 3));
    }
    assert!(site.nats.report().ready);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_ended_while_nats_was_gone_is_not_said_to_be_interrupted_when_we_stop() {
    let Some(stage) = Stage::with(|plan| plan.work.grace = Duration::from_secs(3)).await else { return };
    let Stage { mut server, world, spool, site, client } = stage;
    submit(&client, &task("late", "wait")).await;
    session_of(&client, "late").await;
    until(|| world.chunks.load(Ordering::Acquire) > 0, || "the turn does not begin".to_owned()).await;
    server.kill();
    world.go.notify_one();
    let spooled = || {
        let files = std::fs::read_dir(spool.path()).expect("a folder").flatten();
        files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect::<String>()
    };
    until(|| spooled().contains("turn_end"), || format!("the turn does not end:\n{}", spooled())).await;
    site.stop.send(true).expect("it works");
    let Site { nats, proxy, said, working, .. } = site;
    within(working).await.expect("it stops");
    let said = said.lock().expect("whole").join("\n");
    assert!(said.contains("tasks that have ended, and will be answered when NATS is back"), "{said}");
    assert!(!said.contains("interrupted"), "{said}");
    // As it was said.
    server.restart();
    nats.flush(PATIENCE).await;
    drop((nats, proxy));
    let site = Site::start(&server, &world, spool.path()).await;
    assert_eq!(result(&client, "late").await.stop_reason, "end_turn");
    site.stop().await;
}
