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

#[test]
fn every_number_is_there_before_anything_has_happened() {
    let metrics = Metrics::default();
    let office = Office::new(Duties::default(), &metrics);
    let all = [
        "acp_proxy_sessions_total",
        "acp_proxy_sessions_refused_total",
        "acp_proxy_turns_total{stop_reason=\"end_turn\"}",
        "acp_proxy_turns_total{stop_reason=\"other\"}",
        "acp_proxy_permissions_total{verdict=\"deny\"}",
    ];
    let has = |number: &str, count: u64| metrics.to_text().contains(&format!("\n{number} {count}\n"));
    assert!(all.iter().all(|number| has(number, 0)), "{}", metrics.to_text());
    office.count(&counts::REFUSED, "");
    office.count(&counts::TURNS, "unheard of");
    assert!(has(all[1], 1) && has(all[3], 1) && has(all[2], 0), "{}", metrics.to_text());
}
