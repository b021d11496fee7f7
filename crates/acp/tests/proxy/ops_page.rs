//! The pages for operators.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The status and the text under a path.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("asked");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// The numbers, by name and labels. Every line must be as Prometheus reads it.
pub fn numbers(address: SocketAddr) -> BTreeMap<String, f64> {
    let (status, text) = get(address, "/metrics");
    assert_eq!(status, 200);
    let mut types = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "told twice: {line}");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().unwrap_or_default();
            let kind = types.get(name).unwrap_or_else(|| panic!("no type before {line}"));
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(series == name || series.ends_with("\"}"), "{line}");
            numbers.insert(series.to_owned(), value.parse().expect("a number"));
        }
    }
    numbers
}
