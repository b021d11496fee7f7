//! Bad bytes on the wire: each is reported, and the next good frame still works.

use acp_rpc::{Flaw, Frame, Line, Splitter};

const GOOD: &str = r#"{"jsonrpc":"2.0","method":"good"}"#;

fn read_all(limit: usize, bytes: &[u8]) -> Vec<Frame> {
    let mut splitter = Splitter::new(limit);
    let mut frames = Vec::new();
    for chunk in bytes.chunks(64 * 1024) {
        splitter.push(chunk);
        while let Some(line) = splitter.next_line() {
            frames.push(Frame::from(line));
        }
        assert!(splitter.pending() <= limit + 4 + 64 * 1024, "memory stays within the limit and one read");
    }
    frames.extend(splitter.finish().map(Frame::from));
    frames
}

#[track_caller]
fn bad_then_good(bad: &[u8], name: &str) {
    let mut bytes = bad.to_vec();
    bytes.push(b'\n');
    bytes.extend_from_slice(GOOD.as_bytes());
    bytes.push(b'\n');
    let frames = read_all(acp_rpc::DEFAULT_LINE_LIMIT, &bytes);
    let [first, second] = &frames[..] else { panic!("{} frames", frames.len()) };
    assert_eq!(first.flaw().map(Flaw::name), Some(name));
    assert_eq!(second.method(), Some("good"));
}

#[test]
fn a_hundred_thousand_brackets_do_not_overflow_the_stack() {
    bad_then_good(&b"[".repeat(100_000), "too-deep");
    bad_then_good(&b"{\"a\":".repeat(100_000), "too-deep");
    let mut inside = br#"{"jsonrpc":"2.0","method":"m","params":"#.to_vec();
    inside.extend(b"[".repeat(100_000));
    inside.extend(b"]".repeat(100_000));
    inside.push(b'}');
    bad_then_good(&inside, "too-deep");
}

#[test]
fn nul_bytes_empty_lines_and_cut_characters_are_passed() {
    bad_then_good(b"\0\0\0", "not-json");
    bad_then_good(b"", "blank");
    bad_then_good(b"   ", "blank");
    bad_then_good("{\"jsonrpc\":\"2.0\",\"method\":\"é\"}".as_bytes().split_at(28).0, "not-utf8");
    bad_then_good(b"\xed\xa0\x80", "not-utf8");
    bad_then_good(br#"{"jsonrpc":"2.0","method":"m","params":{"text":"cut \ud83d"}}"#, "lone-surrogate");
}

#[test]
fn a_line_of_fifty_mebibytes_is_read_whole_within_the_limit() {
    let text = "x".repeat(50 * 1024 * 1024);
    let bytes = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[\"{text}\"]}}\n{GOOD}\n");
    let frames = read_all(acp_rpc::DEFAULT_LINE_LIMIT, bytes.as_bytes());
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0].params().map(str::len), Some(text.len() + 4));
    assert_eq!(frames[1].method(), Some("good"));
}

#[test]
fn a_line_of_fifty_mebibytes_over_the_limit_is_reported_and_skipped() {
    let long = vec![b'x'; 50 * 1024 * 1024];
    let mut bytes = long.clone();
    bytes.extend_from_slice(format!("\r\n{GOOD}\r\n").as_bytes());
    let frames = read_all(1024 * 1024, &bytes);
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0].flaw(), Some(&Flaw::Oversized { len: long.len() as u64 }));
    assert_eq!(frames[0].raw().len(), 1024, "its head is kept");
    assert_eq!(frames[1].method(), Some("good"));
}

#[test]
fn the_last_line_needs_no_line_ending() {
    let frames = read_all(100, GOOD.as_bytes());
    assert_eq!(frames[0].method(), Some("good"));
    let mut splitter = Splitter::new(4);
    splitter.push(b"too long");
    assert_eq!(splitter.next_line(), None);
    assert_eq!(splitter.finish(), Some(Line::Oversized { len: 8, head: "too long".into() }));
    assert_eq!(splitter.finish(), None);
}

#[test]
fn a_byte_order_mark_counts_only_at_the_start() {
    let mut splitter = Splitter::default();
    splitter.push(b"\xEF\xBB\xBFa\r\n\xEF\xBB\xBFb\n");
    assert_eq!(splitter.next_line(), Some(Line::Text("a".into())));
    assert_eq!(splitter.next_line(), Some(Line::Text("\u{feff}b".into())));
    assert!(splitter.saw_bom());
    assert_eq!(splitter.crlf_lines(), 1);
    let mut nothing = Splitter::default();
    nothing.push(b"\xEF\xBB\xBF");
    assert_eq!(nothing.next_line(), None);
    assert_eq!(nothing.finish(), None);
}

#[test]
fn a_line_at_the_limit_passes_and_one_byte_more_does_not() {
    for ending in ["\n", "\r\n"] {
        let frames = read_all(GOOD.len(), format!("{GOOD}{ending}").as_bytes());
        assert_eq!(frames[0].flaw(), None);
        let frames = read_all(GOOD.len(), format!("{GOOD} {ending}").as_bytes());
        assert_eq!(frames[0].flaw(), Some(&Flaw::Oversized { len: GOOD.len() as u64 + 1 }));
    }
}

#[test]
fn lines_share_the_buffer_they_were_read_into() {
    let mut splitter = Splitter::default();
    let buffer = splitter.buffer_mut();
    buffer.extend_from_slice(b"one\ntwo\n");
    let start = buffer.as_ptr() as usize;
    let (Some(Line::Text(one)), Some(Line::Text(two))) = (splitter.next_line(), splitter.next_line()) else {
        panic!("two lines");
    };
    assert_eq!((one.as_ptr() as usize, two.as_ptr() as usize), (start, start + 4), "nothing was copied");
}
