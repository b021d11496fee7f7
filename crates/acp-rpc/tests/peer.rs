//! Who owes whom an answer.

use std::time::Duration;

use acp_proto::error_code;
use acp_rpc::{
    Frame, Id, NotOutstanding, Peer, PeerLimits, Received, ReplyError, RequestError, RpcError, Violation,
};
use serde_json::json;

const T0: Duration = Duration::ZERO;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[track_caller]
fn violation(received: Received) -> Violation {
    match received {
        Received::Violation(violation, _) => violation,
        other => panic!("{other:?} is no violation"),
    }
}

#[track_caller]
fn ask(peer: &mut Peer, id: impl Into<Id>) -> Id {
    match peer.receive(T0, Frame::request(&id.into(), "m", &())) {
        Received::Asked { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_finds_its_request_whatever_the_order() {
    let mut peer = Peer::default();
    let (first, _) = peer.request(T0, "one", &(), None).unwrap();
    let (second, _) = peer.request(T0, "two", &(), None).unwrap();
    for (id, expected) in [(second, "two"), (first, "one")] {
        let received = peer.receive(T0, Frame::response(&id, &1));
        assert_eq!(received.method(), Some(expected));
        assert!(matches!(received, Received::Answered { .. }));
    }
    assert_eq!(peer.outstanding().count(), 0);
}

#[test]
fn a_second_answer_a_late_one_and_one_nobody_asked_for_have_names() {
    let mut peer = Peer::default();
    let (id, _) = peer.request(T0, "m", &(), None).unwrap();
    peer.receive(T0, Frame::response(&id, &1));
    assert_eq!(
        violation(peer.receive(T0, Frame::response(&id, &1))),
        Violation::DuplicateResponse { id: id.clone() }
    );

    let (late, _) = peer.request(T0, "slow", &(), Some(ms(10))).unwrap();
    assert_eq!(peer.next_deadline(), Some(ms(10)));
    assert!(peer.tick(ms(9)).is_empty());
    let expired = peer.tick(ms(10));
    assert_eq!((expired.len(), &expired[0].id, &*expired[0].method), (1, &late, "slow"));
    assert_eq!(peer.next_deadline(), None);
    let answer = Frame::failure(&late, &RpcError::internal("x"));
    assert_eq!(violation(peer.receive(ms(11), answer)), Violation::LateResponse { id: late });

    let unknown = Frame::response(&Id::from("nobody"), &1);
    assert_eq!(violation(peer.receive(T0, unknown)).name(), "unknown-response");
    let null = Frame::failure(&Id::Null, &RpcError::new(-32700, "parse error"));
    assert_eq!(violation(peer.receive(T0, null)), Violation::NullIdResponse);
}

#[test]
fn an_id_must_come_back_with_its_type() {
    for (sent, got) in [
        (Id::Int(5), Id::from("5")),
        (Id::from("5"), Id::Int(5)),
        (Id::Int(5), Id::parse("5.0").unwrap()),
        (Id::from("5.0"), Id::parse("5.0").unwrap()),
        (Id::parse("1e999").unwrap(), Id::from("1e999")),
    ] {
        let mut peer = Peer::default();
        peer.sent(T0, &Frame::request(&sent, "m", &()), None).unwrap();
        let found = violation(peer.receive(T0, Frame::response(&got, &1)));
        assert_eq!(found, Violation::IdTypeChanged { sent: sent.clone(), got });
        assert!(matches!(peer.receive(T0, Frame::response(&sent, &1)), Received::Answered { .. }));
    }
}

#[test]
fn a_reply_is_owed_once() {
    let mut peer = Peer::default();
    let id = ask(&mut peer, "a");
    assert!(peer.owes(&id));
    assert_eq!(
        peer.respond(&id, &json!({})).unwrap().to_string(),
        r#"{"jsonrpc":"2.0","id":"a","result":{}}"#
    );
    assert_eq!(peer.respond(&id, &1), Err(ReplyError::AlreadyAnswered(id.clone())));
    assert_eq!(peer.fail(&id, &RpcError::internal("x")), Err(ReplyError::AlreadyAnswered(id)));
    assert_eq!(peer.respond(&Id::Int(9), &1), Err(ReplyError::NotOwed(Id::Int(9))));
    assert_eq!(ask(&mut peer, "a"), Id::from("a"), "a settled id may be used again");
}

#[test]
fn an_answer_that_cannot_be_written_is_still_owed() {
    let mut peer = Peer::default();
    let id = ask(&mut peer, 1);
    let bad = std::collections::HashMap::from([((1, 2), 3)]);
    assert!(matches!(peer.respond(&id, &bad), Err(ReplyError::NotSerializable(..))));
    assert!(peer.respond(&id, &1).is_ok());
}

#[test]
fn an_id_in_use_is_refused_on_both_sides() {
    let mut peer = Peer::default();
    let frame = Frame::request(&Id::from("mine"), "m", &());
    peer.sent(T0, &frame, None).unwrap();
    assert_eq!(peer.sent(T0, &frame, None), Err(RequestError::IdInUse(Id::from("mine"))));
    ask(&mut peer, 7);
    let again = peer.receive(T0, Frame::request(&Id::Int(7), "m", &()));
    assert_eq!(violation(again), Violation::IdInUse { id: Id::Int(7) });
    assert!(peer.respond(&Id::Int(7), &1).is_ok(), "the first request is still owed its answer");
}

#[test]
fn ids_made_here_step_around_ids_that_are_in_use() {
    let mut peer = Peer::default();
    peer.sent(T0, &Frame::request(&Id::Int(1), "m", &()), None).unwrap();
    assert_eq!(peer.request(T0, "m", &(), None).unwrap().0, Id::Int(2));
    assert_eq!(peer.request(T0, "m", &(), None).unwrap().0, Id::Int(3));
}

#[test]
fn both_sides_may_use_the_same_id_at_once() {
    let mut peer = Peer::default();
    let (id, _) = peer.request(T0, "ours", &(), None).unwrap();
    ask(&mut peer, id.clone());
    assert!(matches!(peer.receive(T0, Frame::response(&id, &1)), Received::Answered { .. }));
    assert!(peer.respond(&id, &1).is_ok());
}

#[test]
fn a_request_can_be_taken_back_from_either_side() {
    let mut peer = Peer::default();
    let (id, _) = peer.request(T0, "long", &(), None).unwrap();
    let cancel = peer.cancel(&id).unwrap();
    assert_eq!(
        cancel.to_string(),
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#
    );
    let refused = Frame::failure(&id, &RpcError::new(error_code::REQUEST_CANCELLED, "cancelled"));
    assert!(matches!(peer.receive(T0, refused), Received::Answered { .. }), "its answer is still awaited");
    assert_eq!(peer.cancel(&id), Err(NotOutstanding(id)));

    let theirs = ask(&mut peer, 1.0e0 as i64);
    let told = peer.receive(T0, cancel.clone());
    assert!(matches!(&told, Received::CancelAsked { id, owed: true, .. } if *id == theirs), "{told:?}");
    peer.fail(&theirs, &RpcError::new(error_code::REQUEST_CANCELLED, "cancelled")).unwrap();
    assert!(matches!(peer.receive(T0, cancel), Received::CancelAsked { owed: false, .. }));
    for params in [json!({}), json!([]), json!({"requestId": null}), json!({"requestId": [1]})] {
        let bad = peer.receive(T0, Frame::notification("$/cancel_request", &params));
        assert_eq!(violation(bad), Violation::BadCancel, "{params}");
    }
}

#[test]
fn a_flood_does_not_grow_the_peer() {
    let limits = PeerLimits { outstanding: 10, owed: 10, remembered: 10, id_len: 16 };
    let mut peer = Peer::new(limits);
    for n in 0..1000 {
        let received = peer.receive(T0, Frame::request(&Id::Int(n), "m", &()));
        assert_eq!(
            matches!(received, Received::Violation(Violation::TooManyRequests { limit: 10 }, _)),
            n >= 10
        );
        assert!(matches!(
            peer.receive(T0, Frame::response(&Id::Int(n), &1)),
            Received::Violation(Violation::UnknownResponse { .. }, _)
        ));
    }
    assert_eq!(peer.owed().count(), 10);
    let long = Frame::request(&Id::from("x".repeat(17)), "m", &());
    assert_eq!(violation(peer.receive(T0, long)), Violation::IdTooLong { len: 17 });
    let long = Frame::response(&Id::from("x".repeat(17)), &1);
    assert_eq!(violation(peer.receive(T0, long)), Violation::IdTooLong { len: 17 });

    for _ in 0..10 {
        peer.request(T0, "m", &(), Some(ms(5))).unwrap();
    }
    assert_eq!(peer.request(T0, "m", &(), None), Err(RequestError::TooMany(10)));
    assert_eq!(peer.tick(ms(5)).len(), 10);
}

#[test]
fn only_the_last_settled_ids_are_remembered() {
    let mut peer = Peer::new(PeerLimits { remembered: 2, ..PeerLimits::default() });
    let ids: Vec<Id> = (0..3)
        .map(|_| {
            let (id, _) = peer.request(T0, "m", &(), None).unwrap();
            peer.receive(T0, Frame::response(&id, &1));
            id
        })
        .collect();
    let names: Vec<_> =
        ids.iter().map(|id| violation(peer.receive(T0, Frame::response(id, &1))).name()).collect();
    assert_eq!(names, ["unknown-response", "duplicate-response", "duplicate-response"]);
}

#[test]
fn a_deadline_belongs_to_one_use_of_an_id() {
    let mut peer = Peer::default();
    let frame = Frame::request(&Id::from("x"), "m", &());
    peer.sent(T0, &frame, Some(ms(10))).unwrap();
    peer.receive(ms(1), Frame::response(&Id::from("x"), &1));
    peer.sent(ms(2), &frame, Some(ms(100))).unwrap();
    assert_eq!(peer.next_deadline(), Some(ms(102)));
    assert!(peer.tick(ms(50)).is_empty());
    assert_eq!(peer.tick(ms(102)).len(), 1);
}

#[test]
fn closing_gives_back_what_was_open() {
    let mut peer = Peer::default();
    peer.request(ms(2), "b", &(), None).unwrap();
    peer.request(ms(1), "a", &(), Some(ms(1))).unwrap();
    let open: Vec<_> = peer.close().into_iter().map(|open| open.method).collect();
    assert_eq!(open, ["a".into(), "b".into()]);
    assert_eq!(peer.next_deadline(), None);
}

#[test]
fn a_batch_is_received_element_by_element() {
    let mut peer = Peer::default();
    let (id, _) = peer.request(T0, "m", &(), None).unwrap();
    let line = format!(r#"[{},{},1]"#, Frame::response(&id, &1), Frame::request(&Id::Int(4), "q", &()));
    let Received::Batch(parts) = peer.receive(T0, Frame::parse(line)) else { panic!() };
    assert!(matches!(
        &parts[..],
        [Received::Answered { .. }, Received::Asked { .. }, Received::Violation(Violation::Malformed(_), _)]
    ));
}

#[test]
fn what_is_remembered_comes_back_with_the_answer_or_without_one() {
    let mut peer = Peer::<u8, &str>::remembering(PeerLimits { outstanding: 3, ..PeerLimits::default() });
    let (answered, _) = peer.request_with(T0, "a", &(), None, "answered").unwrap();
    let (late, _) = peer.request_with(T0, "b", &(), Some(ms(5)), "late").unwrap();
    peer.request_with(T0, "c", &(), None, "open").unwrap();
    let not_sent = peer.request_with(T0, "d", &(), None, "too many").unwrap_err();
    assert_eq!((not_sent.why, not_sent.ours), (RequestError::TooMany(3), "too many"));

    assert_eq!(peer.ours(&late), Some(&"late"));
    let Received::Answered { ours, .. } = peer.receive(T0, Frame::response(&answered, &1)) else { panic!() };
    assert_eq!(ours, "answered");
    assert_eq!(peer.tick(ms(5)).into_iter().map(|expired| expired.ours).collect::<Vec<_>>(), ["late"]);
    assert_eq!(peer.close().into_iter().map(|open| open.ours).collect::<Vec<_>>(), ["open"]);
}

#[test]
fn what_is_remembered_about_their_request_is_gone_with_its_answer() {
    let mut peer = Peer::<Option<&str>, ()>::remembering(PeerLimits::default());
    let id = Id::from("x");
    assert!(matches!(peer.receive(T0, Frame::request(&id, "m", &())), Received::Asked { .. }));
    assert_eq!(peer.theirs(&id), Some(&mut None));
    *peer.theirs(&id).unwrap() = Some("being worked on");
    assert_eq!(peer.theirs(&id), Some(&mut Some("being worked on")));
    peer.respond(&id, &1).unwrap();
    assert_eq!(peer.theirs(&id), None);
}
