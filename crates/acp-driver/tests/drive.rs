//! A small machine over a link inside this process.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use acp_driver::{Machine, Output, drive};
use acp_link::{Arrival, Link, LinkClosed, Receiver, memory};
use bytes::Bytes;
use tokio::sync::mpsc;

/// Says every line back `echoes` times, and what it is told beside the link.
struct Echo {
    echoes: usize,
    out: VecDeque<Bytes>,
    wakes: Option<Instant>,
    told: mpsc::UnboundedReceiver<&'static str>,
    /// Says nothing until it is told something.
    is_blocked: bool,
    heard: usize,
}

fn echo(echoes: usize) -> (Echo, mpsc::UnboundedSender<&'static str>) {
    let (tell, told) = mpsc::unbounded_channel();
    let out = VecDeque::new();
    (Echo { echoes, out, wakes: None, told, is_blocked: false, heard: 0 }, tell)
}

impl Machine for Echo {
    type Event = &'static str;
    type Ending = &'static str;

    fn receive(&mut self, arrival: Arrival, _: &Receiver) {
        self.heard += 1;
        self.out.extend(std::iter::repeat_n(arrival.line.bytes().clone(), self.echoes));
    }

    fn input_ended(&mut self, _: &Receiver) -> Option<&'static str> {
        Some("the input ended")
    }

    fn poll(&mut self) -> Output<&'static str> {
        if self.is_blocked {
            return Output::Blocked;
        }
        match self.out.pop_front() {
            Some(line) if &line[..] == b"end" => Output::End("told to end"),
            Some(line) => Output::Line(line),
            None => Output::Idle,
        }
    }

    fn next_deadline(&mut self, is_free: bool) -> Option<Instant> {
        self.wakes.filter(|_| is_free)
    }

    fn tick(&mut self) {
        self.wakes = None;
        self.out.push_back(Bytes::from_static(b"tick"));
    }

    async fn event(&mut self, _: bool) -> &'static str {
        match self.told.recv().await {
            Some(word) => word,
            None => std::future::pending().await,
        }
    }

    fn happened(&mut self, word: &'static str) {
        self.is_blocked = false;
        self.out.push_back(Bytes::from_static(word.as_bytes()));
    }

    fn unwritable(&mut self, _: LinkClosed, _: bool) -> Option<&'static str> {
        Some("unwritable")
    }
}

async fn line(link: &mut Link) -> String {
    let arrival = tokio::time::timeout(Duration::from_secs(20), link.rx.recv()).await.expect("in time");
    String::from_utf8_lossy(arrival.expect("a line").line.bytes()).into_owned()
}

#[tokio::test]
async fn whoever_does_not_read_still_is_heard() {
    const LINES: usize = 2000;
    let (mut ours, theirs) = memory(4);
    let (mut machine, _tell) = echo(3);
    let driven = tokio::spawn(async move {
        let ending = drive(&mut ours, &mut machine).await;
        let _ = ours.tx.finish().await;
        (ending, machine.heard)
    });
    let Link { tx, rx } = theirs;
    for number in 0..LINES {
        tx.send(number.to_string()).await.expect("it reads on while nobody reads what it says");
    }
    tx.close();
    let mut theirs = Link { tx, rx };
    for number in 0..LINES {
        for _ in 0..3 {
            assert_eq!(line(&mut theirs).await, number.to_string());
        }
    }
    assert_eq!(theirs.rx.recv().await, None);
    assert_eq!(driven.await.expect("no panic"), ("the input ended", LINES));
}

#[tokio::test]
async fn what_can_be_said_at_once_is_said_after_the_end_of_the_input() {
    let (mut ours, mut theirs) = memory(1);
    let (mut machine, tell) = echo(400);
    machine.is_blocked = true;
    theirs.tx.send("x").await.expect("room");
    theirs.tx.close();
    let driven = tokio::spawn(async move {
        let ending = drive(&mut ours, &mut machine).await;
        let _ = ours.tx.finish().await;
        ending
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!driven.is_finished(), "its output waits for an event");
    tell.send("go").expect("it listens");
    for _ in 0..400 {
        assert_eq!(line(&mut theirs).await, "x");
    }
    assert_eq!(line(&mut theirs).await, "go");
    assert_eq!(theirs.rx.recv().await, None);
    assert_eq!(driven.await.expect("no panic"), "the input ended");
}

#[tokio::test]
async fn an_end_comes_after_what_was_said_before_it() {
    let (mut ours, mut theirs) = memory(1);
    let (mut machine, _tell) = echo(1);
    machine.out.extend(["a", "b", "end", "c"].map(|word| Bytes::from_static(word.as_bytes())));
    let driven = tokio::spawn(async move {
        let ending = drive(&mut ours, &mut machine).await;
        let _ = ours.tx.finish().await;
        ending
    });
    assert_eq!((line(&mut theirs).await, line(&mut theirs).await), ("a".to_owned(), "b".to_owned()));
    assert_eq!(theirs.rx.recv().await, None);
    assert_eq!(driven.await.expect("no panic"), "told to end");
}

#[tokio::test]
async fn events_and_the_clock_have_their_turn_while_the_other_side_never_stops() {
    let (mut ours, mut theirs) = memory(1000);
    let (mut machine, tell) = echo(0);
    machine.wakes = Some(Instant::now());
    let flood = theirs.tx.clone();
    let flooding = tokio::spawn(async move { while flood.send("x").await.is_ok() {} });
    let driven = tokio::spawn(async move { drive(&mut ours, &mut machine).await });
    assert_eq!(line(&mut theirs).await, "tick");
    tell.send("told").expect("it listens");
    assert_eq!(line(&mut theirs).await, "told");
    driven.abort();
    flooding.abort();
}
