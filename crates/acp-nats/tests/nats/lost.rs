//! Proxies that lose sight of NATS, and of each other, and come back.

use std::sync::atomic::Ordering;

use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A way to the server that can be closed.
struct Way {
    url: String,
    open: watch::Sender<bool>,
}

impl Way {
    async fn to(server: &Server) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("nats://{}", listener.local_addr().expect("an address"));
        let (open, is_open) = watch::channel(true);
        let there = server.address();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut is_open = is_open.clone();
                tokio::spawn(async move {
                    if !*is_open.borrow_and_update() {
                        return;
                    }
                    let mut far = TcpStream::connect(there).await.expect("the server");
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = is_open.changed() => {}
                    }
                });
            }
        });
        Way { url, open }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_goes_on_though_its_proxy_is_out_of_reach_for_a_while() {
    if server::left_out() {
        return;
    }
    let (server, world) = (Server::start(), Arc::new(World::default()));
    let way = Way::to(&server).await;
    let spools = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let first = Site::with(&way.url, &world, spools[0].path(), hasty).await;
    let client = client(&server).await;
    submit(&client, &task("long", "wait")).await;
    let session = session_of(&client, "long").await;
    until(|| world.chunks.load(Ordering::Acquire) == 1, || first.said()).await;
    let patient = |plan: &mut Plan| {
        hasty(plan);
        plan.work.lost_after = PATIENCE;
    };
    let second = Site::with(&server.url(), &world, spools[1].path(), patient).await;
    second.nats.ready().await;
    way.open.send_replace(false);
    // Its task is delivered to the other one, which finds nobody in its session.
    second.wait_for_words("out of reach").await;
    way.open.send_replace(true);
    until(|| first.nats.report().ready, || first.said()).await;
    world.go.notify_one();
    let ended = result(&client, "long").await;
    assert_eq!(ended.stop_reason, "end_turn", "{}\n{}", first.said(), second.said());
    assert_eq!(text_of(&story(&client, &session, 1).await).0, "begun done");
    first.stop().await;
    second.stop().await;
}

/// A proxy that claims a task just when it has lost sight of NATS, and waits for the word of that in vain.
async fn claims_in_vain(server: &Server, way: &Way, world: &Arc<World>, spool: &Path) -> Site {
    let site = Site::with(&way.url, world, spool, hasty).await;
    within(site.nats.ready()).await;
    world.hold.store(true, Ordering::Release);
    submit(&client(server).await, &task("t", "count 3")).await;
    until(|| world.held.load(Ordering::Acquire) == 1, || site.said()).await;
    way.open.send_replace(false);
    until(|| !site.nats.report().ready, || site.said()).await;
    world.hold.store(false, Ordering::Release);
    world.go.notify_one();
    site.wait_for_words("cannot claim task").await;
    site
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_stored_after_an_outage_is_the_proxys_own() {
    if server::left_out() {
        return;
    }
    let (server, world) = (Server::start(), Arc::new(World::default()));
    let (way, spool) = (Way::to(&server).await, tempfile::tempdir().expect("a folder"));
    let site = claims_in_vain(&server, &way, &world, spool.path()).await;
    way.open.send_replace(true);
    let client = client(&server).await;
    let ended = result(&client, "t").await;
    assert_eq!(ended.stop_reason, "end_turn", "{}", site.said());
    assert_eq!(text_of(&story(&client, &ended.session.expect("a session"), 1).await).0, counted(3));
    assert_eq!(world.prompts(), 1);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_session_ends_before_its_prompt_is_done_in_another_one() {
    if server::left_out() {
        return;
    }
    let (server, world) = (Server::start(), Arc::new(World::default()));
    let (way, spool) = (Way::to(&server).await, tempfile::tempdir().expect("a folder"));
    let site = claims_in_vain(&server, &way, &world, spool.path()).await;
    // The agent ends, and the claim names a session that is no more.
    world.leave.notify_one();
    way.open.send_replace(true);
    let ended = result(&client(&server).await, "t").await;
    assert_eq!(ended.stop_reason, "end_turn", "{}", site.said());
    assert_eq!((world.prompts(), world.opened.load(Ordering::Acquire)), (1, 2));
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_was_claimed_and_not_prompted_before_a_crash_is_done_by_the_next_proxy() {
    if server::left_out() {
        return;
    }
    let (server, world) = (Server::start(), Arc::new(World::default()));
    let spool = tempfile::tempdir().expect("a folder");
    let site = Site::with(&server.url(), &world, spool.path(), hasty).await;
    within(site.nats.ready()).await;
    site.stop().await;
    // As a proxy leaves it that is killed after its claim is stored and before it sends the prompt.
    let claim = serde_json::json!({ "task": "t", "session": "gone" });
    let claims = spool.path().join("tasks");
    std::fs::create_dir_all(&claims).expect("a folder");
    std::fs::write(claims.join("t.claiming"), claim.to_string()).expect("written");
    let status = serde_json::json!({
        "v": 1, "task": "t", "agent": "counter", "state": "begun", "session": "gone", "proxy": "dead", "at": 1,
    });
    let plain = async_nats::connect(server.url()).await.expect("a connection");
    let context = async_nats::jetstream::new(plain);
    let sent = context.publish(Subjects::default().status("t"), status.to_string().into()).await;
    sent.expect("sent").await.expect("stored");
    let client = client(&server).await;
    let queued = serde_json::json!({ "v": 1, "id": "t", "prompt": "count 2" });
    let sent = context.publish(Subjects::default().task("counter"), queued.to_string().into()).await;
    sent.expect("sent").await.expect("stored");
    let site = Site::with(&server.url(), &world, spool.path(), hasty).await;
    let ended = result(&client, "t").await;
    assert_eq!((ended.stop_reason.as_str(), world.prompts()), ("end_turn", 1), "{}", site.said());
    assert_ne!(ended.session.as_deref(), Some("gone"));
    site.stop().await;
}
