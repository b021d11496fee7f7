//! Faults, with counts: what the agent has said is stored, in order, once.

use async_nats::jetstream;

use super::*;

/// As far as nobody counts.
const ENDLESS: &str = "Count to 1000000";

/// An agent that counts and writes down what it says.
struct Counting {
    folder: PathBuf,
    command: String,
}

impl Counting {
    /// With a pause after each number, or with none.
    fn new(place: &Place, pause: &str) -> Counting {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tasks/counting.sh");
        let folder = place.path.join("counting");
        std::fs::create_dir(&folder).expect("a folder");
        let command = format!("sh {script} {} {pause}", folder.display());
        Counting { folder, command }
    }

    /// It does not stop after the first number.
    fn go(&self) {
        std::fs::write(self.folder.join("go"), "").expect("a file");
    }

    fn kill(&self) {
        let pid = std::fs::read_to_string(self.folder.join("pid")).expect("its number");
        let killed = Command::new("kill").args(["-9", pid.trim()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
    }

    /// How many numbers it has written down: `begun` before it says one, `said` afterwards.
    fn count(&self, file: &str) -> u64 {
        let text = std::fs::read_to_string(self.folder.join(file)).expect("what it wrote down");
        text.lines().count() as u64
    }
}

/// How many numbers are stored, each once and in order.
fn stored(story: &[Event]) -> u64 {
    let (text, chunks) = story::text_of(story);
    assert_counts(&text);
    assert_eq!(text.split_whitespace().count() as u64, chunks, "{text}");
    chunks
}

#[tokio::test]
async fn a_proxy_that_is_killed_in_mid_turn_loses_no_event_and_prompts_once() {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    let agent = Counting::new(&place, "0.01");
    agent.go();
    let start = || place.proxy_of(Command::new(ACP), &agent.command, "one", &[]);
    let mut proxy = start();
    place.submit(&[ENDLESS, "--id", "long"]);
    let client = place.client().await;
    let session = session_of(&client, "long").await;
    let before = events(&client, &session, |story| chunks(story) >= 10).await;
    proxy.kill();
    let left = spooled(&proxy.spool);
    let again = start();
    let ended = result(&client, "long").await;
    assert_eq!(ended.stop_reason, "interrupted", "{}", again.said());
    let story = events(&client, &session, |story| !story::ends(story).is_empty()).await;
    // What was stored, and what lay in the spool, is stored; and nothing that was not said.
    let places: Vec<(u64, u64)> = story.iter().map(Event::place).collect();
    for event in before.iter().chain(&left) {
        assert!(places.contains(&event.place()), "sent = stored: {event}");
    }
    assert!(stored(&story) <= agent.count("begun"));
    assert_eq!(turns(&story), 1);
    let end = story::ends(&story)[0];
    assert_eq!((end.length, &end.sha256), (ended.length, &ended.sha256));
    // It works again.
    place.submit(&["Count to 2", "--id", "short"]);
    assert_eq!(result(&client, "short").await.stop_reason, "end_turn");
}

#[tokio::test]
async fn an_agent_that_is_killed_leaves_what_it_said_and_an_interrupted_turn() {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    let agent = Counting::new(&place, "0.01");
    agent.go();
    let proxy = place.proxy_of(Command::new(ACP), &agent.command, "one", &[]);
    place.submit(&[ENDLESS, "--id", "long"]);
    let client = place.client().await;
    let session = session_of(&client, "long").await;
    events(&client, &session, |story| chunks(story) >= 5).await;
    agent.kill();
    let ended = result(&client, "long").await;
    assert_eq!(ended.stop_reason, "interrupted", "{}", proxy.said());
    let (begun, said) = (agent.count("begun"), agent.count("said"));
    let story = events(&client, &session, |story| !story::ends(story).is_empty()).await;
    let stored = stored(&story);
    assert!((said..=begun).contains(&stored) && begun <= said + 1, "{said} were said, {stored} are stored");
    place.submit(&["Count to 2", "--id", "short"]);
    assert_eq!(result(&client, "short").await.stop_reason, "end_turn");
}

/// The spool's disk is full while NATS is gone. It becomes free again only through what NATS takes.
#[tokio::test]
async fn a_spool_that_was_full_is_sent_when_nats_is_back() {
    const COUNT: u64 = 2000;
    if server::left_out() {
        return;
    }
    let mut place = Place::new();
    let agent = Counting::new(&place, "");
    // No file may have more than about a hundred kilobytes.
    let mut small = Command::new("sh");
    small.args(["-c", r#"trap '' XFSZ; ulimit -f 200; exec "$@""#, "sh", ACP]);
    let proxy = place.proxy_of(small, &agent.command, "one", &["--nats-window", "8", "--ops", "127.0.0.1:0"]);
    let ops = proxy.ops();
    place.submit(&[&format!("Count to {COUNT}"), "--id", "long"]);
    let client = place.client().await;
    let session = session_of(&client, "long").await;
    events(&client, &session, |story| chunks(story) == 1).await;
    place.server.kill();
    agent.go();
    let ready = |enough: &dyn Fn(u16, &str) -> bool| {
        let began = Instant::now();
        loop {
            let (status, text) = ops_page::get(ops, "/readyz");
            if enough(status, &text) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{text}{}", proxy.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    ready(&|_, text| text.contains("spool: cannot write to the spool in"));
    place.server.restart();
    let client = place.client().await;
    assert_eq!(result(&client, "long").await.stop_reason, "end_turn", "{}", proxy.said());
    let story = events(&client, &session, |story| !story::ends(story).is_empty()).await;
    assert_eq!((stored(&story), agent.count("said")), (COUNT, COUNT), "sent = stored");
    ready(&|status, _| status == 200);
    assert_eq!(ops_page::numbers(ops)["acp_nats_events_waiting"], 0.0);
}

#[tokio::test]
async fn a_result_is_shown_though_the_end_of_its_turn_is_not_stored() {
    if server::left_out() {
        return;
    }
    let place = Place::new();
    let proxy = place.proxy("one", &[]);
    place.submit(&["Count slowly to 2", "--id", "t"]);
    let session = result(&place.client().await, "t").await.session.expect("a session");
    let context = jetstream::new(async_nats::connect(place.server.url()).await.expect("a connection"));
    let stream = context.get_stream("ACP_EVENTS").await.expect("a stream");
    stream.purge().await.expect("purged");
    let watch = || output(place.tasks_command(&["watch", "t"]));
    assert_eq!(watch().await.status.code(), Some(0), "{}", proxy.said());
    // Somebody else has the session: what they store of it is theirs.
    let body = Body::Closed(acp_proxy::event::SessionClosed { reason: "over".to_owned() });
    let theirs = Event { session, epoch: u64::MAX, seq: 1, at: 0, task: Some("other".to_owned()), body };
    let subject = Subjects::default().event(&theirs.session);
    let sent = context.publish(subject, theirs.to_json().into()).await.expect("sent");
    sent.await.expect("stored");
    let shown = watch().await;
    assert_eq!(shown.status.code(), Some(0), "{}", proxy.said());
    assert!(String::from_utf8_lossy(&shown.stderr).contains("task t ended: end_turn"));
}
