//! Two peers talk to each other while their bytes are cut in every way.

use std::time::Duration;

use acp_rpc::{Frame, Id, Line, Peer, Received};
use acp_testkit::{Chunking, Mail, World, WorldEnd, WorldSide};
use serde_json::json;

/// Asks ten times, takes updates in between, and closes when all is answered.
#[derive(Default)]
struct Client {
    peer: Peer,
    updates: usize,
    answers: Vec<Id>,
    expired: usize,
}

impl WorldSide for Client {
    fn start(&mut self, now: Duration, mail: &mut Mail) {
        for n in 0..10 {
            let timeout = Duration::from_millis(if n == 9 { 50 } else { 1000 });
            let (_, frame) = self.peer.request(now, "prompt", &json!({"n": n}), Some(timeout)).unwrap();
            mail.send(&frame);
        }
    }

    fn receive(&mut self, now: Duration, line: Line, mail: &mut Mail) {
        match self.peer.receive(now, line.into()) {
            Received::Notified { .. } => self.updates += 1,
            Received::Asked { id, .. } => mail.send(&self.peer.respond(&id, &"yes").unwrap()),
            Received::Answered { id, .. } => self.answers.push(id),
            other => panic!("{other:?}"),
        }
    }

    fn tick(&mut self, now: Duration, mail: &mut Mail) {
        self.expired += self.peer.tick(now).len();
        mail.close();
    }

    fn next_deadline(&mut self) -> Option<Duration> {
        self.peer.next_deadline()
    }
}

/// Sends updates, asks back before it answers, and never answers the tenth.
#[derive(Default)]
struct Agent {
    peer: Peer,
    waiting: Vec<(Id, Id)>,
    ended: bool,
}

impl WorldSide for Agent {
    fn receive(&mut self, now: Duration, line: Line, mail: &mut Mail) {
        match self.peer.receive(now, Frame::from(line)) {
            Received::Asked { frame, .. } if frame.params() == Some(r#"{"n":9}"#) => {}
            Received::Asked { id, .. } => {
                mail.send(&self.peer.notify("update", &json!({"text": "é\n"})));
                let (mine, frame) = self.peer.request(now, "permission", &(), None).unwrap();
                mail.send(&frame);
                self.waiting.push((mine, id));
            }
            Received::Answered { id, .. } => {
                let at = self.waiting.iter().position(|(mine, _)| *mine == id).unwrap();
                let (_, theirs) = self.waiting.remove(at);
                mail.send(&self.peer.respond(&theirs, &json!({})).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }

    fn ended(&mut self, _: Duration, mail: &mut Mail) {
        self.ended = true;
        mail.close();
    }
}

#[test]
fn two_peers_understand_each_other_under_any_chunking() {
    let ways = [Chunking::Whole, Chunking::Fixed(1), Chunking::Fixed(7)];
    for chunking in ways.into_iter().chain((0..50).map(Chunking::seeded)) {
        let mut world = World::new(Client::default(), Agent::default()).chunked(chunking.clone());
        let played = world.play();
        assert_eq!(played.ended, WorldEnd::Quiet);
        assert_eq!(played.now, Duration::from_millis(50), "the clock jumped to the deadline");
        assert_eq!(played.transcript.len(), 10 + 4 * 9, "{chunking:?}");
        let (client, agent) = world.sides();
        assert_eq!((client.updates, client.answers.len(), client.expired), (9, 9, 1));
        assert!(agent.ended && agent.waiting.is_empty());
    }
}

#[test]
fn a_world_that_never_rests_is_stopped() {
    let echo = |_: Duration, line: Line, mail: &mut Mail| mail.send(&Frame::from(line));
    let mut world = World::new(echo, echo).at_most(1000);
    world.client_mail().raw(b"ball\n");
    assert_eq!(world.play().ended, WorldEnd::TooLong);
}
