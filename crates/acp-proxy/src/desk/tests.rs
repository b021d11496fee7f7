use super::*;

#[test]
fn a_request_id_that_is_used_twice_keeps_no_place_and_no_turn() {
    let (metrics, talk) = (Metrics::default(), Talk::new(Arc::new(|_| {})));
    let duties = Duties { max_sessions: Some(3), ..Duties::default() };
    let office = Office::new(duties, &metrics);
    let lines = [
        r#"{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/"}}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
    ];
    for _ in 0..3 {
        let mut desk = Desk::new(office.clone(), talk.clone(), 1, None, None, None);
        for line in lines {
            for _ in 0..2 {
                let handling = desk.client_says(&Bytes::from_static(line.as_bytes()));
                assert!(matches!(handling, Handling::Instead(_) | Handling::Pass), "{handling:?}");
            }
        }
    }
    assert_eq!(*office.open.borrow(), 0);
    let numbers = metrics.to_text();
    assert!(numbers.contains("acp_proxy_sessions 0\n"), "{numbers}");
    assert!(numbers.contains("acp_proxy_turns_running 0\n"), "{numbers}");
}
