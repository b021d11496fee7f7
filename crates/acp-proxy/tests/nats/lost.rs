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
