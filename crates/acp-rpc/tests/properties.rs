//! Properties: what is built reads back; a splitter does not care how bytes were cut; nothing panics.

use acp_rpc::transcript::TranscriptEntry;
use acp_rpc::{Direction, Frame, Id, Line, RpcError, Splitter, View};
use acp_testkit::Chunking;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        any::<i64>().prop_map(Id::Int),
        any::<String>().prop_map(Id::from),
        Just(Id::Null),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?"
            .prop_map(|text| Id::parse(&text).expect("a JSON number")),
    ]
}

/// Lines the slow and obvious way.
fn naive(bytes: &[u8], limit: usize) -> Vec<Line> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut pieces: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let last = pieces.pop().unwrap_or_default();
    let mut lines: Vec<&[u8]> =
        pieces.into_iter().map(|piece| piece.strip_suffix(b"\r").unwrap_or(piece)).collect();
    if !last.is_empty() {
        lines.push(last);
    }
    lines
        .into_iter()
        .map(|line| {
            let bytes = Bytes::copy_from_slice(line);
            match std::str::from_utf8(line) {
                _ if line.len() > limit => {
                    let head = bytes.slice(..line.len().min(1024));
                    Line::Oversized { len: line.len() as u64, head }
                }
                Ok(_) => Line::Text(bytes),
                Err(_) => Line::NotUtf8(bytes),
            }
        })
        .collect()
}

fn split(bytes: &[u8], limit: usize, mut chunking: Chunking, in_place: bool) -> Vec<Line> {
    let mut splitter = Splitter::new(limit);
    let mut lines = Vec::new();
    for piece in chunking.cut(bytes) {
        if in_place {
            splitter.buffer_mut().extend_from_slice(piece);
        } else {
            splitter.push(piece);
        }
        while let Some(line) = splitter.next_line() {
            lines.push(line);
        }
    }
    lines.extend(splitter.finish());
    lines
}

/// Streams with many line endings, marks and bad bytes.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        2 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\xEF\xBB\xBF".to_vec()),
        4 => "[a-zé{}\"]{0,12}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..6),
        1 => (1000..1100_usize).prop_map(|len| vec![b'x'; len]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// The same cases everywhere; `PROPTEST_RNG_SEED` asks for others.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(0x5EED),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_built_reads_back(id in id(), method: String, value in json_value()) {
        let params = json!([value]);
        let asked = Frame::request(&id, &method, &params);
        let read = Frame::parse(asked.raw().clone());
        let View::Request { id: read_id, method: read_method, params: read_params } = read.view() else {
            panic!("{read:?}");
        };
        prop_assert_eq!(read_id, &id);
        prop_assert_eq!(read_method, &method);
        prop_assert_eq!(read_params, Some(&*serde_json::to_string(&params).unwrap()));
        prop_assert_eq!(format!("{:?}", read.view()), format!("{:?}", asked.view()));

        let told = Frame::parse(Frame::notification(&method, &params).raw().clone());
        prop_assert_eq!((told.id(), told.method()), (None, Some(&*method)));
        let answered = Frame::parse(Frame::response(&id, &value).raw().clone());
        prop_assert_eq!(answered.result(), Some(&*serde_json::to_string(&value).unwrap()));
        let odd = Frame::request(&id, &method, &value);
        prop_assert_eq!(Frame::parse(odd.raw().clone()).flaw().cloned(), odd.flaw().cloned());
        let error = RpcError::new(-1, method).with_data(value);
        let failed = Frame::parse(Frame::failure(&id, &error).raw().clone());
        prop_assert_eq!(failed.id(), Some(&id));
    }

    #[test]
    fn a_splitter_equals_a_naive_one_under_any_chunking(
        bytes in stream(), limit in prop_oneof![0..20_usize, 1000..1100_usize], seed: u64, in_place: bool,
    ) {
        let expected = naive(&bytes, limit);
        prop_assert_eq!(&split(&bytes, limit, Chunking::seeded(seed), in_place), &expected);
        prop_assert_eq!(&split(&bytes, limit, Chunking::Fixed(1), in_place), &expected);
        prop_assert_eq!(&split(&bytes, limit, Chunking::Whole, in_place), &expected);
    }

    #[test]
    fn any_text_is_a_frame_that_agrees_with_serde_json(text: String) {
        let frame = Frame::parse(text.clone());
        prop_assert_eq!(frame.text(), Some(&*text));
        if frame.flaw().is_none() {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
        }
    }

    #[test]
    fn members_of_an_object_are_found_wherever_they_stand(
        params in json_value(), extra in json_value(), key in "[a-z]{7,9}", order in any::<u8>(),
    ) {
        let (method, key) = ("m", format!("x{key}"));
        let mut members = [
            ("jsonrpc".to_owned(), "\"2.0\"".to_owned()),
            ("method".to_owned(), format!("{method:?}")),
            ("params".to_owned(), json!([params]).to_string()),
            (key.clone(), extra.to_string()),
        ];
        members.rotate_left(usize::from(order % 4));
        if order & 4 != 0 { members.swap(0, 2); }
        let body: Vec<String> = members.iter().map(|(k, v)| format!(" {k:?}\t: {v} ")).collect();
        let frame = Frame::parse(format!("{{{}}}", body.join(",")));
        prop_assert_eq!(frame.flaw(), None);
        prop_assert_eq!(frame.params().map(str::to_owned), Some(json!([params]).to_string()));
        prop_assert_eq!(frame.unknown_members(), [key]);
    }

    #[test]
    fn a_transcript_entry_reads_back(secs in 0..1_000_000_u64, nanos in 0..1_000_000_000_u32, micros: bool,
                                     bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..50),
                                                          any::<String>().prop_map(String::into_bytes)]) {
        let nanos = if micros { nanos / 1000 * 1000 } else { nanos };
        let t = std::time::Duration::new(secs, nanos);
        let entry = TranscriptEntry { t, dir: Direction::AgentToClient, line: bytes.into() };
        let line = entry.to_json_line();
        prop_assert!(!line.contains('\n'));
        serde_json::from_str::<Value>(&line).unwrap();
        prop_assert_eq!(TranscriptEntry::parse(&line).unwrap(), entry);
    }
}
