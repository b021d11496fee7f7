//! Bad input: each is told by name, and nothing else suffers from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use acp_nats::payload::DeadLetter;
use acp_nats::{Cancelled, Subjects};
use acp_proxy::event::Body;
use async_nats::jetstream::{self, stream};
use futures_util::StreamExt as _;

use super::*;

/// The dead letters so far, as they come.
async fn dead_letters(server: &Server) -> async_nats::Subscriber {
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    listen(&plain, "acp.v1.agent.*.dead").await
}

async fn letter(letters: &mut async_nats::Subscriber) -> DeadLetter {
    let message = within(letters.next()).await.expect("a letter");
    serde_json::from_slice(&message.payload).expect("a dead letter")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_tasks_are_dead_letters_with_a_reason() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    site.nats.ready().await;
    let mut letters = dead_letters(server).await;
    let context = jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    let bad: [(&[u8], &str); 12] = [
        (b"", "not a task"),
        (b"\xff\xfe", "not a task"),
        (b"[]", "not a task"),
        (br#"{"v":2,"id":"x","prompt":"p"}"#, "version 2"),
        (br#"{"v":1,"id":"","prompt":"p"}"#, "id"),
        (br#"{"v":1,"id":"x","prompt":7}"#, "prompt must be text"),
        (br#"{"v":1,"id":"x","prompt":"p","cwd":"here"}"#, "not absolute"),
        (br#"{"v":1,"id":"x","prompt":"p","replyTo":"a.>"}"#, "replyTo"),
        (br#"{"v":1,"id":"x","prompt":"p","replyTo":"acp.v1.task.y.result"}"#, "not for replies"),
        (br#"{"v":1,"id":"x","prompt":"p","replyTo":"agent.results.y"}"#, "not for replies"),
        (br#"{"v":1,"id":"x","prompt":"p","replyTo":"$JS.API.STREAM.PURGE.ACP_EVENTS"}"#, "not for replies"),
        (br#"{"v":1,"id":"x","prompt":"p","priority":1}"#, "unknown field `priority`"),
    ];
    for (payload, reason) in bad {
        let sent = context.publish(Subjects::default().task("counter"), payload.to_vec().into()).await;
        sent.expect("sent").await.expect("queued");
        let letter = letter(&mut letters).await;
        assert!(letter.reason.contains(reason), "{reason}: {letter:?}");
        match std::str::from_utf8(payload) {
            Ok(text) => assert_eq!(letter.payload.as_deref(), Some(text)),
            Err(_) => assert_eq!(letter.base64.as_deref(), Some("//4=")),
        }
    }
    submit(client, &task("good", "count 1")).await;
    result(client, "good").await;
    assert_eq!((world.prompts(), site.nats.report().dead), (1, 12));
    // Of what has an id, the first one has used it.
    let first = result(client, "x").await;
    assert!(first.error.is_some_and(|error| error.get().contains("version 2")));
    // The task is taken off the queue after its result is there.
    left(&context, 0).await;
    stage.stop().await;
}

/// Waits until so many tasks are in the queue: what is done with is taken off.
async fn left(context: &jetstream::Context, count: u64) {
    let mut queue = context.get_stream("ACP_TASKS").await.expect("the queue");
    let began = Instant::now();
    while queue.info().await.expect("its state").state.messages != count {
        assert!(began.elapsed().as_secs() < 60, "the queue does not come to {count}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn queue(context: &jetstream::Context, agent: &str, payload: &str) {
    let sent = context.publish(Subjects::default().task(agent), payload.to_owned().into()).await;
    sent.expect("sent").await.expect("queued");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_what_is_no_task_is_answered_if_it_has_an_id() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    site.nats.ready().await;
    let mut letters = dead_letters(server).await;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut replies = listen(&plain, "my.results").await;
    let context = jetstream::new(plain);
    for (id, rest, why) in [
        ("cwd", r#""prompt":"p","cwd":"rel/x""#, "not absolute"),
        ("empty", r#""prompt":[]"#, "prompt"),
        ("none", r#""replyTo":"my.results""#, "missing field `prompt`"),
        ("more", r#""prompt":"p","more":1"#, "unknown field `more`"),
        ("session", r#""prompt":"p","session":"""#, "session"),
        ("reply", r#""prompt":"p","replyTo":"acp.v1.task.victim.result""#, "not for replies"),
    ] {
        queue(&context, "counter", &format!(r#"{{"v":1,"id":"{id}",{rest}}}"#)).await;
        assert_eq!(letter(&mut letters).await.task.as_deref(), Some(id));
        let rejected = result(client, id).await;
        assert_eq!((rejected.stop_reason.as_str(), rejected.session), ("rejected", None));
        assert!(rejected.error.is_some_and(|error| error.get().contains(why)), "{id}");
    }
    assert!(client.result("victim").await.expect("a stream").is_none());
    let reply: TaskResult =
        serde_json::from_slice(&within(replies.next()).await.expect("a reply").payload).expect("a result");
    assert_eq!((reply.task.as_str(), reply.stop_reason.as_str()), ("none", "rejected"));
    assert_eq!(client.cancel("cwd").await.expect("known"), Cancelled::TooLate);
    // One that waits for a proxy is taken back like any task.
    queue(&context, "nobody", r#"{"v":1,"id":"waits"}"#).await;
    assert_eq!(client.cancel("waits").await.expect("found"), Cancelled::Task);
    assert_eq!((world.prompts(), site.nats.report().dead), (0, 6));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_task_takes_no_result_from_a_task_with_its_id() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, site, client, .. } = &stage;
    site.nats.ready().await;
    let mut letters = dead_letters(server).await;
    let context = jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    submit(client, &task("ours", "wait")).await;
    session_of(client, "ours").await;
    // Another proxy has begun this one.
    let begun =
        r#"{"v":1,"task":"theirs","agent":"counter","state":"begun","session":"s","proxy":"p","at":1}"#;
    let sent = context.publish(Subjects::default().status("theirs"), begun.into()).await;
    sent.expect("sent").await.expect("stored");
    for id in ["ours", "theirs"] {
        queue(&context, "counter", &format!(r#"{{"v":1,"id":"{id}"}}"#)).await;
        assert_eq!(letter(&mut letters).await.task.as_deref(), Some(id));
    }
    left(&context, 1).await;
    for id in ["ours", "theirs"] {
        assert!(client.result(id).await.expect("a stream").is_none(), "{id}");
    }
    world.go.notify_one();
    assert_eq!(result(client, "ours").await.stop_reason, "end_turn");
    queue(&context, "counter", r#"{"v":1,"id":"ours"}"#).await;
    letter(&mut letters).await;
    left(&context, 0).await;
    assert_eq!(result(client, "ours").await.stop_reason, "end_turn");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_cannot_begin_is_tried_three_times_and_then_answered() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, client, .. } = &stage;
    let mut letters = dead_letters(server).await;
    let folder = tempfile::Builder::new().suffix("forbidden").tempdir().expect("a folder");
    let cwd = folder.path().to_str().map(str::to_owned);
    submit(client, &Task { cwd, ..task("hard", "count 1") }).await;
    let letter = letter(&mut letters).await;
    assert_eq!(letter.delivered, 3);
    assert!(
        letter.reason.contains("tried 3 times") && letter.reason.contains("no more sessions"),
        "{letter:?}"
    );
    assert_eq!(result(client, "hard").await.stop_reason, "rejected");
    submit(client, &task("easy", "count 1")).await;
    assert_eq!(result(client, "easy").await.stop_reason, "end_turn");
    // One that goes on with a session that nobody has, and the agent cannot load.
    let mut lost = task("lost", "count 1");
    lost.session = Some("gone".to_owned());
    submit(client, &lost).await;
    assert_eq!(result(client, "lost").await.stop_reason, "rejected");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_the_agent_does_not_take_is_refused_and_its_session_goes_on() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { world, client, .. } = &stage;
    submit(client, &task("runs", "wait")).await;
    let session = session_of(client, "runs").await;
    let image = serde_json::json!({ "type": "image", "mimeType": "image/png", "data": "AA==" });
    for (name, block, why) in [
        ("image", image, "promptCapabilities.image"),
        ("strange", serde_json::json!({ "type": "song" }), "song"),
    ] {
        let mut asked = task(name, "");
        let block = serde_json::value::to_raw_value(&block).expect("JSON");
        (asked.prompt, asked.session) = (Prompt::Blocks(vec![block]), Some(session.clone()));
        submit(client, &asked).await;
        let refused = result(client, name).await;
        assert_eq!(refused.stop_reason, "rejected");
        assert!(refused.error.as_ref().expect("a reason").get().contains(why), "{refused:?}");
    }
    world.go.notify_one();
    assert_eq!(result(client, "runs").await.stop_reason, "end_turn");
    let mut more = task("more", "count 2");
    more.session = Some(session.clone());
    submit(client, &more).await;
    assert_eq!(result(client, "more").await.stop_reason, "end_turn");
    assert_eq!((world.prompts(), world.opened.load(Ordering::Acquire)), (2, 1));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_with_a_hostile_name_has_a_subject_of_its_own() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { spool, client, .. } = &stage;
    let folder = spool.path().join("hostile");
    std::fs::create_dir(&folder).expect("a folder");
    let mut asked = task("../../t *.>", "count 20");
    asked.cwd = Some(folder.display().to_string());
    submit(client, &asked).await;
    let ended = result(client, &asked.id).await;
    let session = ended.session.expect("a session");
    assert!(session.contains('\n') && session.contains('>'), "{session:?}");
    let told = story(client, &session, 1).await;
    assert_eq!(text_of(&told), (counted(20), 20));
    let mut wanted = task("again", "count 3");
    wanted.session = Some(session.clone());
    submit(client, &wanted).await;
    assert_eq!(result(client, "again").await.session, Some(session));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_no_message_can_carry_comes_in_parts() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { client, .. } = &stage;
    submit(client, &task("big", "big 600000")).await;
    let ended = result(client, "big").await;
    let told = story(client, &ended.session.expect("a session"), 1).await;
    let mut whole = String::new();
    for event in &told {
        if let Body::Part(part) = &event.body {
            assert_eq!(part.of, "update");
            whole += &part.text;
        }
    }
    let Ok(Body::Update(update)) = Body::parse("update", &whole) else { panic!("{} bytes", whole.len()) };
    let update: serde_json::Value = serde_json::from_str(update.update.get()).expect("JSON");
    assert_eq!(update["content"]["data"], "\"A\u{e9}".repeat(600_000));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_was_lost_three_times_is_answered_though_others_are_at_work() {
    let Some(stage) = Stage::with(hasty).await else { return };
    let Stage { server, world, spool, site, client } = stage;
    submit(&client, &task("first", "count 1")).await;
    result(&client, "first").await;
    site.stop().await;
    let mut letters = dead_letters(&server).await;
    // Somebody takes a task again and again and is lost each time, and nobody hears that it was too often. Another one is
    // in somebody's hands when the proxy comes back.
    let context = jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    let consumer: jetstream::consumer::PullConsumer =
        context.get_consumer_from_stream("acp-counter", "ACP_TASKS").await.expect("the consumer");
    let next = async |patience: Duration| {
        let batch = consumer.batch().max_messages(1).expires(patience).messages();
        batch.await.expect("a batch").next().await
    };
    submit(&client, &task("lost", "count 1")).await;
    for _ in 0..3 {
        let message = within(next(PATIENCE)).await.expect("a message").expect("a message");
        message.ack_with(jetstream::AckKind::Nak(None)).await.expect("sent");
    }
    assert!(next(Duration::from_millis(200)).await.is_none(), "it is delivered no more");
    submit(&client, &task("held", "count 1")).await;
    within(next(PATIENCE)).await.expect("a message").expect("a message");
    let site = Site::start(&server, &world, spool.path()).await;
    let letter = letter(&mut letters).await;
    assert!(letter.reason.contains("delivered 3 times and never begun"), "{letter:?}");
    assert_eq!(result(&client, "lost").await.stop_reason, "rejected");
    assert_eq!(result(&client, "held").await.stop_reason, "end_turn", "{}", site.said());
    site.stop().await;
}

/// A server that takes small messages only.
pub(super) fn small(folder: &tempfile::TempDir) -> Server {
    taking(folder, 16384)
}

/// A server that takes messages of at most so many bytes.
pub(super) fn taking(folder: &tempfile::TempDir, most: usize) -> Server {
    let config = folder.path().join("nats.conf");
    std::fs::write(&config, format!("max_payload: {most}\n")).expect("written");
    Server::with(&["-c", &config.display().to_string()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_larger_than_the_server_takes_is_cut_into_parts_or_left_out_by_name() {
    if server::left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let stage = Stage::on(small(&folder), |_| {}).await;
    let Stage { server, site, client, .. } = &stage;
    within(site.nats.ready()).await;
    // An answer and an update: whole in the events, the answer left out of the result.
    for (name, text, of) in [("answer", "answer 40000", "turn_end"), ("update", "big 10000", "update")] {
        submit(client, &task(name, text)).await;
        let ended = result(client, name).await;
        assert_eq!(ended.stop_reason, "end_turn");
        let answer = ended.result.expect("an answer");
        assert_eq!(answer.get().contains("too large for one message"), name == "answer", "{answer}");
        let session = ended.session.expect("a session");
        let mut events = client.events(&session, None).await.expect("a stream");
        let (mut whole, mut told) = (String::new(), Vec::new());
        while Body::parse(of, &whole).is_err() {
            let (_, event) = within(events.recv()).await.expect("more").expect("an event");
            if let Body::Part(part) = &event.body {
                assert_eq!(part.of, of);
                whole += &part.text;
            }
            told.push(event);
        }
        check(&told);
        assert!(whole.len() > 40_000, "{}", whole.len());
    }
    // A request for permission: asked without its params.
    let mut requests = client.requests().await.expect("a subscription");
    submit(client, &task("asks", "ask 40000")).await;
    let asked = within(requests.next()).await.expect("a request");
    assert!(asked.ask.params.get().contains("too large for one message"), "{}", asked.ask.params);
    asked.answer(Some("yes".to_owned())).await.expect("sent");
    assert_eq!(result(client, "asks").await.stop_reason, "end_turn");
    // A task that is malformed, and twice as large once it is quoted.
    let mut letters = dead_letters(server).await;
    let context = jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    let bad = "\"".repeat(15_000);
    let sent = context.publish(Subjects::default().task("counter"), bad.into()).await;
    sent.expect("sent").await.expect("queued");
    let letter = letter(&mut letters).await;
    assert!(letter.reason.contains("the payload of 15000 bytes is cut"), "{}", letter.reason);
    // A task that the server does not take.
    let large = task("large", &"x".repeat(20_000));
    let error = client.submit("counter", &large, None).await.expect_err("too large");
    assert!(error.to_string().contains("at most 16384"), "{error}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_with_other_settings_is_refused_by_name_and_left_alone() {
    if server::left_out() {
        return;
    }
    let (server, world, spool) =
        (Server::start(), Arc::new(World::default()), tempfile::tempdir().expect("a folder"));
    let context = jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
    let theirs = stream::Config {
        name: "ACP_EVENTS".to_owned(),
        subjects: vec!["acp.v1.session.*.event".to_owned()],
        retention: stream::RetentionPolicy::Interest,
        ..stream::Config::default()
    };
    context.create_stream(theirs).await.expect("created");
    let site = Site::start(&server, &world, spool.path()).await;
    let why = within(site.nats.fatal()).await;
    assert!(why.contains("ACP_EVENTS") && why.contains("retention is Interest, not Limits"), "{why}");
    let kept = context.get_stream("ACP_EVENTS").await.expect("still there");
    assert_eq!(kept.cached_info().config.retention, stream::RetentionPolicy::Interest);
    // One that would not take every event, or no more when it is full.
    context.delete_stream("ACP_EVENTS").await.expect("deleted");
    let theirs = stream::Config {
        name: "ACP_EVENTS".to_owned(),
        subjects: vec!["acp.v1.session.*.event".to_owned()],
        max_age: Duration::from_secs(7 * 24 * 3600),
        max_message_size: 64 * 1024,
        max_messages_per_subject: 1000,
        discard: stream::DiscardPolicy::New,
        ..stream::Config::default()
    };
    context.create_stream(theirs).await.expect("created");
    let small = tempfile::tempdir().expect("a folder");
    let site = Site::start(&server, &world, small.path()).await;
    let why = within(site.nats.fatal()).await;
    let limit = "max_msg_size is 65536, not at least the server's max_payload of 1048576";
    assert!(why.contains("discard is New, not Old") && why.contains(limit), "{why}");
    assert!(why.contains("max_msgs_per_subject is 1000, not unlimited"), "{why}");
    // Another name on the same subjects.
    context.delete_stream("ACP_EVENTS").await.expect("deleted");
    let theirs = stream::Config {
        name: "MINE".to_owned(),
        subjects: vec!["acp.v1.>".to_owned()],
        ..stream::Config::default()
    };
    context.create_stream(theirs).await.expect("created");
    let other = tempfile::tempdir().expect("a folder");
    let site = Site::start(&server, &world, other.path()).await;
    let why = within(site.nats.fatal()).await;
    assert!(why.contains("ACP_EVENTS") && why.contains("the stream MINE has some of these"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_is_left_as_it_is_and_its_ack_wait_holds_for_all() {
    let Some(stage) = Stage::with(hasty).await else { return };
    let Stage { server, world, site, client, spool: _spool } = stage;
    submit(&client, &task("first", "count 1")).await;
    result(&client, "first").await;
    site.stop().await;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let queue = jetstream::new(plain.clone()).get_stream("ACP_TASKS").await.expect("the queue");
    let mut acks = listen(&plain, "$JS.ACK.ACP_TASKS.acp-counter.>").await;
    let spool = tempfile::tempdir().expect("a folder");
    let slow = |plan: &mut Plan| plan.work.ack_wait = Duration::from_secs(90);
    let site = Site::with(&server.url(), &world, spool.path(), slow).await;
    site.wait_for_words("delivered again after 2s, not 90s").await;
    let found = queue.consumer_info("acp-counter").await.expect("it is there").config;
    assert_eq!(found.ack_wait, Duration::from_secs(2));
    // It says that it is at work as often as the others expect.
    submit(&client, &task("long", "wait")).await;
    for _ in 0..6 {
        assert_eq!(&*within(acks.next()).await.expect("an acknowledgement").payload, b"+WPI");
    }
    world.go.notify_one();
    assert_eq!(result(&client, "long").await.stop_reason, "end_turn", "{}", site.said());
    site.stop().await;
    // One that delivers more often than a task is tried is none of ours.
    queue.delete_consumer("acp-counter").await.expect("deleted");
    let other = jetstream::consumer::pull::Config {
        durable_name: found.durable_name,
        filter_subject: found.filter_subject,
        max_deliver: 7,
        ..jetstream::consumer::pull::Config::default()
    };
    queue.create_consumer(other).await.expect("created");
    let spool = tempfile::tempdir().expect("a folder");
    let site = Site::start(&server, &world, spool.path()).await;
    site.wait_for_words("the consumer acp-counter of the stream ACP_TASKS exists with other settings").await;
    let trouble = site.nats.trouble().queue.expect("a trouble");
    assert!(trouble.contains("max_deliver is 7, not 3"), "{trouble}");
    submit(&client, &task("last", "count 1")).await;
    queue.delete_consumer("acp-counter").await.expect("deleted");
    assert_eq!(result(&client, "last").await.stop_reason, "end_turn", "{}", site.said());
    assert_eq!(site.nats.trouble().queue, None);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_proxies_never_share_a_spool() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, spool, .. } = &stage;
    let error =
        Nats::start(settings(&server.url(), spool.path()), ProxyLog::current()).await.err().expect("in use");
    assert!(error.to_string().contains("--spool"), "{error}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_a_client_makes_up_leave_nothing_behind() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { site, spool, .. } = &stage;
    let visitor = Visitor::come(site).await;
    for number in 0..200 {
        visitor.client.cancel(&format!("made-up-{number}")).await;
    }
    let session = visitor.open().await;
    visitor.says(&session, "count 1").await;
    let files = || std::fs::read_dir(spool.path()).expect("a folder").flatten();
    let spooled =
        || files().filter(|file| file.path().extension().is_some_and(|end| end == "ndjson")).count();
    assert!(site.nats.report().sessions == 1 && spooled() <= 1, "{:?}", site.nats.report());
    visitor.leave().await;
    let gone = || site.nats.report().sessions == 0 && spooled() == 0;
    until(gone, || format!("{:?}", site.nats.report())).await;
    stage.stop().await;
}
