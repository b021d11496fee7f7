//! What a crash has left in the spool is sent once, in its place, or kept aside with a word.

use acp_nats::Subjects;
use acp_proxy::event::{Role, Text};
use async_nats::jetstream::{self, stream::Stream};

use super::*;

/// A server, and a spool in which a crash has left something.
struct Wreck {
    server: Server,
    world: Arc<World>,
    spool: tempfile::TempDir,
    context: jetstream::Context,
}

impl Wreck {
    /// Nothing when tests with NATS are left out.
    async fn found() -> Option<Wreck> {
        if server::left_out() {
            return None;
        }
        let server = Server::start();
        let (world, spool) = (Arc::new(World::default()), tempfile::tempdir().expect("a folder"));
        let context = jetstream::new(async_nats::connect(server.url()).await.expect("a connection"));
        let wreck = Wreck { server, world, spool, context };
        // The streams are there.
        let site = wreck.start().await;
        within(site.nats.ready()).await;
        site.stop().await;
        Some(wreck)
    }

    async fn start(&self) -> Site {
        Site::start(&self.server, &self.world, self.spool.path()).await
    }

    /// Stores events. They have no ids, as if they were stored so long ago that NATS has forgotten them.
    async fn store(&self, events: &[Event]) {
        for event in events {
            let subject = Subjects::default().event(&event.session);
            let sent = self.context.publish(subject, event.to_json().into()).await;
            sent.expect("sent").await.expect("stored");
        }
    }

    fn spool(&self, name: &str, lines: &[u8]) {
        std::fs::write(self.spool.path().join(name), lines).expect("written");
    }

    /// The names of the files with this ending.
    fn files(&self, ending: &str) -> Vec<String> {
        let files = std::fs::read_dir(self.spool.path()).expect("a folder").flatten();
        let files = files.filter(|file| file.path().extension().is_some_and(|found| found == ending));
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
    }

    /// The places of all events that are stored.
    async fn stored(&self) -> Vec<(u64, u64)> {
        let mut stream: Stream = self.context.get_stream("ACP_EVENTS").await.expect("a stream");
        let last = stream.info().await.expect("its state").state.last_sequence;
        let mut places = Vec::new();
        for sequence in 1..=last {
            // It may have been removed.
            if let Ok(message) = stream.get_raw_message(sequence).await {
                places.push(Event::parse(&message.payload).expect("an event").place());
            }
        }
        places
    }
}

fn event(epoch: u64, seq: u64, bytes: usize) -> Event {
    let text = Text { role: Role::Agent, message_id: None, text: "x".repeat(bytes), chunks: 1 };
    Event { session: "s".to_owned(), epoch, seq, at: 0, task: None, body: Body::Text(text) }
}

fn lines(events: &[Event]) -> Vec<u8> {
    events.iter().flat_map(|event| [event.to_json(), b"\n".to_vec()].concat()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_long_ago_is_not_sent_again_however_much_it_is() {
    let Some(wreck) = Wreck::found().await else { return };
    // More than is read from the spool at once, twice: all of it is stored, and then all but the end.
    let events: Vec<Event> = (1..=320).map(|seq| event(7, seq, 10_000)).collect();
    wreck.store(&events[..300]).await;
    for (spooled, sent) in [(300, 0), (320, 20)] {
        wreck.spool("s.7.000001.ndjson", &lines(&events[..spooled]));
        let site = wreck.start().await;
        within(site.nats.ready()).await;
        let report = site.nats.report();
        assert_eq!((report.stored, report.waiting, wreck.files("ndjson").len()), (sent, 0, 0));
        site.stop().await;
    }
    let all: Vec<(u64, u64)> = events.iter().map(Event::place).collect();
    assert_eq!(wreck.stored().await, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_somebody_else_has_since_is_not_taken_back_by_an_old_spool() {
    let Some(wreck) = Wreck::found().await else { return };
    // Nothing of the crashed proxy's epoch was ever stored.
    let (ours, theirs) = (event(7, 1, 10), event(8, 1, 10));
    wreck.store(std::slice::from_ref(&theirs)).await;
    wreck.spool("s.7.000001.ndjson", &lines(&[ours]));
    let site = wreck.start().await;
    within(site.nats.ready()).await;
    assert!(site.said().contains("another proxy has taken over session"), "{}", site.said());
    assert_eq!((site.nats.report().fenced, site.nats.report().waiting), (1, 0));
    assert_eq!(wreck.files("fenced"), ["s.7.000001.fenced"]);
    assert_eq!(wreck.stored().await, [theirs.place()]);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_are_no_events_are_told_and_kept() {
    let Some(wreck) = Wreck::found().await else { return };
    let torn =
        [lines(&[event(7, 1, 10)]), b"  \"seq\": 2,\n}\n".to_vec(), lines(&[event(7, 2, 10)])].concat();
    wreck.spool("s.7.000001.ndjson", &torn);
    wreck.spool("none.ndjson", b"{}\n");
    let site = wreck.start().await;
    within(site.nats.ready()).await;
    let said = site.said();
    assert!(
        said.contains("2 lines of session \"s\"") && said.contains("sent what was left of session \"s\": 2")
    );
    assert!(said.contains("none.unread is an event"), "{said}");
    let report = site.nats.report();
    assert_eq!((report.stored, report.waiting, wreck.files("ndjson").len()), (2, 0, 0));
    assert_eq!(wreck.files("unread").len(), 2);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_stored_before_others_that_a_crash_has_left_is_sent_again_in_its_place() {
    let Some(wreck) = Wreck::found().await else { return };
    // Others were here first; then the fifth was lost with the connection, and the proxy before it could look.
    let earlier: Vec<Event> = (1..=9).map(|seq| event(6, seq, 10)).collect();
    let events: Vec<Event> = (1..=8).map(|seq| event(7, seq, 10)).collect();
    wreck.store(&earlier).await;
    wreck.store(&events[..4]).await;
    for early in &events[5..7] {
        let id = format!("s:7:{}", early.seq);
        let message =
            jetstream::message::PublishMessage::build().message_id(id).payload(early.to_json().into());
        let sent = wreck.context.send_publish(Subjects::default().event("s"), message).await;
        sent.expect("sent").await.expect("stored");
    }
    wreck.spool("s.7.000001.ndjson", &lines(&events[2..]));
    let site = wreck.start().await;
    within(site.nats.ready()).await;
    assert!(site.said().contains("2 events of session \"s\" were stored before others"), "{}", site.said());
    let all: Vec<(u64, u64)> = earlier.iter().chain(&events).map(Event::place).collect();
    assert_eq!(wreck.stored().await, all);
    assert_eq!((site.nats.report().stored, wreck.files("ndjson").len()), (4, 0));
    site.stop().await;
}
