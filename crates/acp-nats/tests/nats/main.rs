//! The proxy on NATS, against a real nats-server: nothing is lost, nothing comes twice, nothing out of order.

mod access;
mod agent;
mod control;
mod faults;
mod input;
mod left;
mod lost;
mod order;
mod room;
mod seats;
#[allow(dead_code, reason = "others use the rest")]
mod server;
mod story;
mod tasks;
mod turns;
mod workspace;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acp_nats::aggregate::AggregateLimits;
use acp_nats::payload::{Prompt, Task, TaskResult};
use acp_nats::{
    Access, Nats, NatsError, NatsSettings, Subjects, TaskClient, TaskClientError, TaskProgress, TaskSettings,
};
use acp_proxy::event::{Body, Event};
use acp_proxy::{Proxy, ProxyLog};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use agent::World;
use server::{PATIENCE, Server};
use story::{check, ends, text_of};

/// How a proxy inside a test works.
struct Plan {
    nats: NatsSettings,
    work: TaskSettings,
    proxy: acp_proxy::ProxySettings,
}

/// A server, the world of its agents, a proxy between them, and somebody who submits tasks.
struct Stage {
    server: Server,
    world: Arc<World>,
    spool: tempfile::TempDir,
    site: Site,
    client: TaskClient,
}

impl Stage {
    /// Nothing when tests with NATS are left out.
    async fn set() -> Option<Stage> {
        Stage::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Plan)) -> Option<Stage> {
        if server::left_out() {
            return None;
        }
        Some(Stage::on(Server::start(), change).await)
    }

    async fn on(server: Server, change: impl FnOnce(&mut Plan)) -> Stage {
        let world = Arc::new(World::default());
        let spool = tempfile::tempdir().expect("a folder");
        let site = Site::with(&server.url(), &world, spool.path(), change).await;
        let client = client(&server).await;
        Stage { server, world, spool, site, client }
    }

    async fn stop(self) {
        self.site.stop().await;
    }
}

/// A proxy inside the test.
struct Site {
    nats: Nats,
    proxy: Arc<Proxy>,
    said: Arc<std::sync::Mutex<Vec<String>>>,
    stop: watch::Sender<bool>,
    working: JoinHandle<()>,
}

impl Site {
    async fn start(server: &Server, world: &Arc<World>, spool: &Path) -> Site {
        Site::with(&server.url(), world, spool, |_| {}).await
    }

    async fn with(url: &str, world: &Arc<World>, spool: &Path, change: impl FnOnce(&mut Plan)) -> Site {
        let work = TaskSettings {
            lost_after: Duration::from_secs(1),
            work_dir: "/tmp".into(),
            reply_to: vec!["my".to_owned()],
            ..TaskSettings::default()
        };
        let mut plan = Plan { nats: settings(url, spool), work, proxy: acp_proxy::ProxySettings::default() };
        change(&mut plan);
        let said = Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = said.clone();
        let log = ProxyLog::lines(move |line| {
            eprintln!("{line}");
            kept.lock().expect("whole").push(line.to_string());
        });
        let began = Instant::now();
        let nats = loop {
            match Nats::start(plan.nats.clone(), log.clone()).await {
                Ok(nats) => break nats,
                // One that was stopped lets go of its spool with its last task.
                Err(NatsError::SpoolInUse(_)) if began.elapsed() < PATIENCE => {}
                Err(error) => panic!("{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let proxy = Proxy::new(plan.proxy, agent::opener(world), log);
        let proxy = Arc::new(proxy.observed_by(Arc::new(nats.clone())));
        let (stop, stopped) = watch::channel(false);
        let working = tokio::spawn({
            let (nats, proxy) = (nats.clone(), proxy.clone());
            async move { nats.run_tasks(proxy, plan.work, stopped).await }
        });
        Site { nats, proxy, said, stop, working }
    }

    fn said(&self) -> String {
        self.said.lock().expect("whole").join("\n")
    }

    async fn wait_for_words(&self, words: &str) {
        until(|| self.said().contains(words), || format!("{words:?} was not said, but:\n{}", self.said()))
            .await;
    }

    /// Ends it as SIGTERM would.
    async fn stop(self) {
        self.stop.send(true).expect("it works");
        within(self.working).await.expect("it stops");
        self.nats.flush(PATIENCE).await;
    }
}

fn settings(url: &str, spool: &Path) -> NatsSettings {
    NatsSettings {
        access: Access { url: url.to_owned(), ..Access::default() },
        agent: "counter".to_owned(),
        subjects: Subjects::default(),
        limits: AggregateLimits::none(),
        window: 256,
        spool: spool.to_owned(),
        spool_limit: 256 * 1024 * 1024,
        replicas: 1,
        live: false,
    }
}

/// A client of the relay.
struct Visitor {
    client: acp_host::AcpClient,
    events: acp_host::Events,
    relay: JoinHandle<acp_proxy::Outcome>,
    _stop: watch::Sender<bool>,
}

impl Visitor {
    async fn come(site: &Site) -> Visitor {
        let (stop, stopped) = watch::channel(false);
        let (ours, theirs) = acp_link::memory(64);
        let proxy = site.proxy.clone();
        let relay = tokio::spawn(async move { proxy.serve(theirs, stopped).await });
        let (client, events) = acp_host::AcpClient::connect(ours, None, acp_host::ClientOptions::default());
        within(client.initialize()).await.expect("initialized");
        Visitor { client, events, relay, _stop: stop }
    }

    async fn open(&self) -> String {
        let opened = within(self.client.new_session(&acp_host::Workspace::at("/tmp"))).await;
        opened.expect("a session").session_id.0.to_string()
    }

    async fn load(&self, session: &str) {
        let loaded = within(self.client.load_session(session, &acp_host::Workspace::at("/tmp"))).await;
        loaded.expect("loaded");
    }

    /// A whole turn.
    async fn says(&self, session: &str, text: &str) {
        let turn = self.client.prompt_text(session, text).await.expect("sent");
        within(turn.end()).await.expect("ended");
    }

    async fn leave(self) {
        drop((self.client, self.events));
        within(self.relay).await.expect("the relay ends");
    }
}

/// Waits for something, and says what is wrong when it does not come.
async fn until(mut holds: impl FnMut() -> bool, what: impl Fn() -> String) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{}", what());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

async fn client(server: &Server) -> TaskClient {
    client_at(&server.url(), Subjects::default()).await
}

async fn client_at(url: &str, subjects: Subjects) -> TaskClient {
    let access = Access { url: url.to_owned(), ..Access::default() };
    TaskClient::connect(&access, subjects, &ProxyLog::current()).await.expect("a connection")
}

fn task(id: &str, text: &str) -> Task {
    Task {
        v: 1,
        id: id.to_owned(),
        prompt: Prompt::Text(text.to_owned()),
        session: None,
        cwd: None,
        mcp_servers: Vec::new(),
        reply_to: None,
    }
}

/// Submits a task once there is a queue.
async fn submit(client: &TaskClient, task: &Task) {
    let (began, mut again) = (Instant::now(), false);
    while let Err(error) = client.submit("counter", task, None).await {
        if again && matches!(error, TaskClientError::Known(_)) {
            // It was queued, and the word of that came too late.
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{error}");
        again = true;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Everything that is said on a subject from now on, whoever says it.
async fn listen(plain: &async_nats::Client, subject: &'static str) -> async_nats::Subscriber {
    let heard = plain.subscribe(subject).await.expect("a subscription");
    // A round trip, so that the server knows of it.
    let _ = plain.request("nobody.listens", "".into()).await;
    heard
}

/// The server takes what is unacknowledged for two seconds for lost, and delivers it again.
fn hasty(plan: &mut Plan) {
    plan.work.ack_wait = Duration::from_secs(2);
}

async fn result(client: &TaskClient, task: &str) -> TaskResult {
    let mut progress = within(client.follow(task)).await.expect("a stream");
    loop {
        if let Some(TaskProgress::Ended(result)) = within(progress.recv()).await {
            return *result;
        }
    }
}

/// The session of a task, once it has begun.
async fn session_of(client: &TaskClient, task: &str) -> String {
    let began = Instant::now();
    loop {
        if let Ok(Some(status)) = client.status(task).await
            && let Some(session) = status.session
        {
            return session;
        }
        assert!(began.elapsed() < PATIENCE, "the task does not begin");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All events of a session up to (and with) the `ends`th end of a turn, with the checks that hold for every session:
/// within an epoch numbers go up by one from one, no epoch comes back, and each turn's text is what its end says.
async fn story(client: &TaskClient, session: &str, ends: usize) -> Vec<Event> {
    let mut events = client.events(session, None).await.expect("a stream");
    let (mut story, mut seen): (Vec<Event>, usize) = (Vec::new(), 0);
    while seen < ends {
        let (_, event) = within(events.recv()).await.expect("more").expect("an event");
        seen += usize::from(matches!(event.body, Body::TurnEnd(_)));
        story.push(event);
    }
    check(&story);
    story
}

fn counted(count: u64) -> String {
    (0..count).map(|number| format!("{number} ")).collect()
}
