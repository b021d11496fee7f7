//! Tasks: done once, answered, cancelled, asked about, handed to whoever has the session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use acp_nats::payload::PermissionAsk;
use acp_nats::{Cancelled, Style, Subjects};
use acp_proxy::event::{Body, Decider};
use futures_util::StreamExt as _;

use super::*;

/// Who decided, and why.
pub(super) fn decided(story: &[Event]) -> (Decider, Option<String>) {
    let decision = story.iter().find_map(|event| match &event.body {
        Body::Decision(decision) => Some((decision.by, decision.reason.clone())),
        _ => None,
    });
    decision.expect("a decision")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_done_and_its_text_can_be_verified() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, spool, site, client } = stage;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut replies = listen(&plain, "my.replies").await;
    let mut asked = task("t1", "count 500");
    asked.reply_to = Some("my.replies".to_owned());
    submit(&client, &asked).await;
    let result = result(&client, "t1").await;
    let text = counted(500);
    assert_eq!((result.stop_reason.as_str(), result.length), ("end_turn", text.len() as u64));
    assert_eq!(result.artifacts[0].get(), r#"{"path":"/made"}"#);
    let reply: TaskResult =
        serde_json::from_slice(&within(replies.next()).await.expect("a reply").payload).expect("a result");
    assert_eq!((reply.task.as_str(), reply.sha256), ("t1", result.sha256));
    let story = story(&client, &result.session.expect("a session"), 1).await;
    assert_eq!(text_of(&story), (text, 500));
    assert!(story.iter().skip(1).all(|event| event.task.as_deref() == Some("t1")));
    let kinds: Vec<&str> = story.iter().map(|event| event.body.kind()).collect();
    assert_eq!((kinds[0], kinds[1], kinds[502]), ("session", "turn_start", "turn_end"));
    site.stop().await;
    assert_eq!(std::fs::read_dir(spool.path()).expect("a folder").count(), 2, "lock and tasks/, no events");
    assert_eq!(world.prompts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_task_is_never_prompted_twice_and_is_answered_each_time() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, client, .. } = &stage;
    let mut asked = task("again", "count 3");
    asked.reply_to = Some("my.replies".to_owned());
    submit(client, &asked).await;
    result(client, "again").await;
    // Past the queue's own memory of ids: the same task without one.
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut replies = listen(&plain, "my.replies").await;
    let context = async_nats::jetstream::new(plain);
    let payload = serde_json::to_vec(&asked).expect("JSON");
    for _ in 0..3 {
        let sent = context.publish(Subjects::default().task("counter"), payload.clone().into()).await;
        sent.expect("sent").await.expect("queued");
    }
    for _ in 0..3 {
        let reply = within(replies.next()).await.expect("a reply");
        let reply: TaskResult = serde_json::from_slice(&reply.payload).expect("a result");
        assert_eq!((reply.task.as_str(), reply.stop_reason.as_str()), ("again", "end_turn"));
    }
    assert_eq!(world.prompts(), 1, "{:?}", world.prompts);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_turn_is_cancelled_and_a_waiting_task_never_begins() {
    let Some(stage) = Stage::with(|plan| plan.work.at_once = 1).await else { return };
    let Stage { world, client, .. } = &stage;
    submit(client, &task("runs", "wait")).await;
    session_of(client, "runs").await;
    submit(client, &task("waits", "count 3")).await;
    assert_eq!(client.cancel("waits").await.expect("cancelled"), Cancelled::Task);
    until(|| world.prompts() == 1, || "the first does not run".to_owned()).await;
    assert_eq!(client.cancel("runs").await.expect("cancelled"), Cancelled::Turn);
    assert_eq!(result(client, "runs").await.stop_reason, "cancelled");
    assert_eq!(result(client, "waits").await.stop_reason, "cancelled");
    submit(client, &task("last", "count 1")).await;
    result(client, "last").await;
    assert_eq!(world.prompts(), 2, "the one that was taken back was not prompted");
    assert_eq!(client.cancel("last").await.expect("an answer"), Cancelled::TooLate);
    let error = client.cancel("never").await.expect_err("nobody has submitted it");
    assert!(error.to_string().contains("it is in no queue"), "{error}");
    stage.stop().await;
}

/// What is asked now, once something is.
async fn open_requests(client: &TaskClient) -> Vec<PermissionAsk> {
    let began = Instant::now();
    loop {
        let open = client.open_requests(Duration::from_millis(100)).await.expect("a list");
        if !open.is_empty() {
            return open;
        }
        assert!(began.elapsed() < PATIENCE, "nothing is asked");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permission_is_asked_for_and_nobody_or_nonsense_is_a_no() {
    let Some(stage) = Stage::with(|plan| plan.work.ask_for = PATIENCE).await else { return };
    let Stage { site, client, .. } = &stage;
    // Nobody listens.
    submit(client, &task("nobody", "ask")).await;
    let ended = result(client, "nobody").await;
    let told = story(client, &ended.session.expect("a session"), 1).await;
    assert_eq!(text_of(&told).0, "answered no");
    let kinds: Vec<&str> = told.iter().map(|event| event.body.kind()).collect();
    assert_eq!(kinds, ["session", "turn_start", "permission", "decision", "text", "turn_end"]);
    assert_eq!(decided(&told), (Decider::Nats, Some("nobody listens".to_owned())));
    site.wait_for_words("nobody listens").await;
    // Somebody allows it.
    let mut requests = client.requests().await.expect("a subscription");
    submit(client, &task("allowed", "ask")).await;
    let asked = within(requests.next()).await.expect("a request");
    assert_eq!(
        (asked.ask.task.as_deref(), asked.ask.title.as_str()),
        (Some("allowed"), "Run the command ls")
    );
    assert_eq!(asked.ask.subjects, ["/somewhere/else"], "what the title hides");
    assert_eq!(open_requests(client).await.len(), 1);
    asked.answer(Some("yes".to_owned())).await.expect("sent");
    let ended = result(client, "allowed").await;
    let told = story(client, &ended.session.expect("a session"), 1).await;
    assert_eq!(text_of(&told).0, "answered yes");
    assert_eq!(decided(&told), (Decider::Nats, Some("answered on the permission subject".to_owned())));
    // Somebody answers what was not offered.
    submit(client, &task("nonsense", "ask")).await;
    within(requests.next()).await.expect("a request").answer(Some("maybe".to_owned())).await.expect("sent");
    let ended = result(client, "nonsense").await;
    assert_eq!(text_of(&story(client, &ended.session.expect("a session"), 1).await).0, "answered no");
    assert_eq!(site.nats.report().unanswered, 1);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_nobody_answers_in_time_is_a_no() {
    let Some(stage) = Stage::with(|plan| plan.work.ask_for = Duration::from_millis(800)).await else {
        return;
    };
    let Stage { site, client, .. } = &stage;
    let mut requests = client.requests().await.expect("a subscription");
    submit(client, &task("silent", "ask")).await;
    let _kept = within(requests.next()).await.expect("a request");
    let ended = result(client, "silent").await;
    assert_eq!(text_of(&story(client, &ended.session.expect("a session"), 1).await).0, "answered no");
    site.wait_for_words("nobody answered in time").await;
    assert_eq!(site.nats.report().unanswered, 1);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_held_open_can_be_answered_later() {
    let Some(stage) = Stage::with(|plan| plan.work.hold = true).await else { return };
    let Stage { client, .. } = &stage;
    submit(client, &task("held", "ask")).await;
    let open = open_requests(client).await;
    let error = client.answer(&open[0], Some("maybe".to_owned())).await.expect_err("not offered");
    assert!(error.to_string().contains("yes, no"), "{error}");
    client.answer(&open[0], Some("yes".to_owned())).await.expect("answered");
    let ended = result(client, "held").await;
    assert_eq!(text_of(&story(client, &ended.session.expect("a session"), 1).await).0, "answered yes");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_stays_with_its_proxy_and_moves_when_that_is_gone() {
    if server::left_out() {
        return;
    }
    let (server, world) = (Server::start(), Arc::new(World::default()));
    world.loads.store(true, Ordering::Release);
    let spools = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let first = Site::start(&server, &world, spools[0].path()).await;
    let client = client(&server).await;
    submit(&client, &task("one", "count 5")).await;
    let session = result(&client, "one").await.session.expect("a session");
    let second = Site::start(&server, &world, spools[1].path()).await;
    second.nats.ready().await;
    for number in 0..6 {
        let mut more = task(&format!("more-{number}"), "count 2");
        more.session = Some(session.clone());
        submit(&client, &more).await;
        assert_eq!(result(&client, &more.id).await.session.as_ref(), Some(&session));
    }
    assert_eq!(world.opened.load(Ordering::Acquire), 1, "all in one agent, whoever took the task");
    let told = story(&client, &session, 7).await;
    assert!(told.iter().all(|event| event.epoch == told[0].epoch), "one proxy has published it all");
    first.stop().await;
    let mut after = task("after", "count 4");
    after.session = Some(session.clone());
    submit(&client, &after).await;
    assert_eq!(result(&client, "after").await.stop_reason, "end_turn");
    let told = story(&client, &session, 8).await;
    let loaded = told.iter().find_map(|event| match &event.body {
        Body::Session(opened) if opened.method == "session/load" => Some(opened.replayed),
        _ => None,
    });
    assert_eq!(loaded, Some(2), "what the agent told again is counted, not stored again");
    assert_eq!(text_of(&told).1, 5 + 6 * 2 + 4);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_sessions_stay_open_that_nobody_uses_and_others_are_loaded_again() {
    let Some(stage) = Stage::with(|plan| plan.work.most_idle = 1).await else { return };
    let Stage { world, site, client, .. } = &stage;
    world.loads.store(true, Ordering::Release);
    let mut sessions = Vec::new();
    for name in ["a", "b", "c"] {
        submit(client, &task(name, "count 2")).await;
        sessions.push(result(client, name).await.session.expect("a session"));
    }
    until(|| site.nats.report().sessions == 1, || format!("{:?}", site.nats.report())).await;
    // The last one is still here, the first one comes back.
    for (name, session, opened) in [("d", &sessions[2], 3), ("e", &sessions[0], 4)] {
        let mut more = task(name, "count 3");
        more.session = Some(session.clone());
        submit(client, &more).await;
        assert_eq!(result(client, name).await.stop_reason, "end_turn", "{}", site.said());
        assert_eq!(world.opened.load(Ordering::Acquire), opened);
    }
    assert_eq!(text_of(&story(client, &sessions[0], 2).await), (counted(2) + &counted(3), 5));
    stage.stop().await;
}

/// The context in the headers of a message, which must be of the trace.
fn carried(message: &async_nats::Message) -> String {
    let carried = message.headers.as_ref().and_then(|headers| headers.get("traceparent"));
    let carried = carried.unwrap_or_else(|| panic!("no trace: {message:?}")).as_str().to_owned();
    assert!(carried.starts_with(TRACE.split_at(36).0), "{carried}");
    carried
}

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_a_task_goes_on_in_all_that_comes_of_it() {
    let Some(stage) = Stage::set().await else { return };
    let Stage { server, world, client, site, .. } = &stage;
    within(site.nats.ready()).await;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut all = listen(&plain, "acp.v1.>").await;
    let mut replies = listen(&plain, "my.results").await;
    let asked = Task { reply_to: Some("my.results".to_owned()), ..task("t", "ask") };
    client.submit("counter", &asked, Some(TRACE)).await.expect("submitted");
    let mut seen = std::collections::BTreeMap::new();
    while !seen.contains_key("result") {
        let message = within(all.next()).await.expect("a message");
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        let kind = message.subject.rsplit('.').next().unwrap_or_default();
        // The session was opened before its turn was the task's.
        if kind == "control" || text.contains(r#""kind":"session""#) {
            continue;
        }
        assert_eq!(carried(&message) == TRACE, kind == "task", "a span of its own");
        let count: &mut i32 = seen.entry(kind.to_owned()).or_default();
        *count += 1;
        if let (Some(reply), "permission") = (message.reply, kind) {
            plain.publish(reply, r#"{"v":1,"option":"yes"}"#.into()).await.expect("answered");
        }
    }
    let seen: Vec<(&str, i32)> = seen.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(seen, [("event", 5), ("permission", 1), ("result", 1), ("status", 1), ("task", 1)]);
    site.wait_for_words("task \"t\" begins in session").await;
    site.wait_for_words("task \"t\" ends: end_turn").await;
    let told = carried(&within(replies.next()).await.expect("a reply"));
    let metas = world.metas.lock().expect("whole").clone();
    assert_eq!(metas, [serde_json::json!({ "traceparent": told })]);
    // The same again, which is only answered, and what is no task.
    let context = async_nats::jetstream::new(plain.clone());
    let again = serde_json::to_vec(&asked).expect("JSON");
    for payload in [again, br#"{"v":1,"id":"bad"}"#.to_vec()] {
        let headers =
            [("traceparent", TRACE)].map(|(name, value)| (name.parse().expect("a name"), value.into()));
        let (headers, subject) = (headers.into_iter().collect(), Subjects::default().task("counter"));
        let sent = context.publish_with_headers(subject, headers, payload.into()).await;
        sent.expect("sent").await.expect("queued");
    }
    assert_ne!(carried(&within(replies.next()).await.expect("a reply")), TRACE);
    loop {
        let message = within(all.next()).await.expect("a message");
        if message.subject.ends_with(".dead") {
            break assert_ne!(carried(&message), TRACE);
        }
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_subject_style_works_the_same() {
    if server::left_out() {
        return;
    }
    let (server, world, spool) =
        (Server::start(), Arc::new(World::default()), tempfile::tempdir().expect("a folder"));
    let subjects = Subjects { style: Style::Tasks };
    let site = Site::with(&server.url(), &world, spool.path(), |plan| plan.nats.subjects = subjects).await;
    let client = client_at(&server.url(), subjects).await;
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let mut results = listen(&plain, "agent.results.*").await;
    let mut states = listen(&plain, "agent.status.*").await;
    submit(&client, &task("t1", "count 5")).await;
    let message = within(results.next()).await.expect("a result");
    assert_eq!(message.subject.as_str(), "agent.results.t1");
    let state = within(states.next()).await.expect("a state");
    assert!(String::from_utf8_lossy(&state.payload).contains(r#""state":"begun""#));
    assert_eq!(result(&client, "t1").await.stop_reason, "end_turn");
    // Who uses the other style is told so.
    let stranger = client_at(&server.url(), Subjects::default()).await;
    for error in [
        stranger.submit("counter", &task("t2", "count 1"), None).await.expect_err("no stream"),
        stranger.status("t1").await.expect_err("no stream"),
    ] {
        assert!(error.to_string().contains("use --subject-style tasks"), "{error}");
    }
    site.stop().await;
}
