//! Two links inside one process.

use std::time::Duration;

use acp_link::{LinkEnd, TrySendError, memory};
use acp_rpc::Line;

fn text(line: &'static str) -> Line {
    Line::Text(line.into())
}

#[tokio::test]
async fn lines_arrive_in_order_on_the_other_side() {
    let (mut left, mut right) = memory(4);
    left.tx.send("one").await.unwrap();
    left.tx.send("two").await.unwrap();
    right.tx.send("back").await.unwrap();
    assert_eq!(right.rx.recv().await.unwrap().line, text("one"));
    assert_eq!(right.rx.recv().await.unwrap().line, text("two"));
    assert_eq!(left.rx.recv().await.unwrap().line, text("back"));
}

#[tokio::test]
async fn raw_bytes_are_cut_into_lines_by_the_receiver() {
    let (left, mut right) = memory(8);
    left.tx.send_raw("a\nb").await.unwrap();
    left.tx.send_raw(&b"c\r\n\xff\n"[..]).await.unwrap();
    left.tx.send_raw("last").await.unwrap();
    left.tx.close();
    let mut lines = Vec::new();
    while right.rx.recv_many(&mut lines, 100).await > 0 {}
    let lines: Vec<Line> = lines.into_iter().map(|arrival| arrival.line).collect();
    assert_eq!(lines, [text("a"), text("bc"), Line::NotUtf8((&b"\xff"[..]).into()), text("last")]);
    assert_eq!(right.rx.end(), Some(&LinkEnd::Eof));
}

#[tokio::test]
async fn a_full_queue_makes_the_sender_wait_and_loses_nothing() {
    let (left, mut right) = memory(2);
    left.tx.try_send(b"1").unwrap();
    left.tx.try_send(b"2").unwrap();
    assert_eq!(left.tx.try_send(b"3"), Err(TrySendError::Full));
    let waiting = tokio::time::timeout(Duration::from_millis(20), left.tx.send("3")).await;
    assert!(waiting.is_err(), "the third send must wait");
    assert_eq!(right.rx.recv().await.unwrap().line, text("1"));
    left.tx.send("3").await.unwrap();
    assert_eq!(right.rx.recv().await.unwrap().line, text("2"));
    assert_eq!(right.rx.recv().await.unwrap().line, text("3"));
}

#[tokio::test]
async fn dropping_every_sender_ends_the_other_side() {
    let (left, mut right) = memory(2);
    let again = left.tx.clone();
    drop(left);
    again.send("still here").await.unwrap();
    drop(again);
    assert_eq!(right.rx.recv().await.unwrap().line, text("still here"));
    assert_eq!(right.rx.recv().await, None);
    assert_eq!(right.rx.recv().await, None, "the end is final");
}

#[tokio::test]
async fn sending_to_nobody_is_an_error_that_says_so() {
    let (left, right) = memory(2);
    drop(right);
    let error = left.tx.send("hello").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot send: the other side no longer reads");
    assert!(left.tx.flush().await.is_ok(), "nothing was accepted, so nothing is missing");
}

#[tokio::test]
async fn flush_waits_for_the_reader_and_finish_for_the_end() {
    let (left, mut right) = memory(2);
    left.tx.send("x").await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(20), left.tx.flush()).await;
    assert!(early.is_err(), "nobody has taken it yet");
    let reader = tokio::spawn(async move { while right.rx.recv().await.is_some() {} });
    left.tx.finish().await.unwrap();
    reader.await.unwrap();
}
