//! The journal on a real disk: whole after any cut, rotated, mended, and honest when it cannot be written.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use acp_proxy::ProxyLog;
use acp_proxy::journal::{
    ClosedRecord, Journal, JournalSettings, Lines, OnFailure, OpenedRecord, Reader, Record, RecordedLines,
    Sync, conversations, conversations_of, recover, segments,
};
use acp_proxy::metrics::Metrics;
use acp_proxy::replay::Recording;
use acp_rpc::Direction;
use bytes::Bytes;

type LoggedLines = Arc<Mutex<Vec<String>>>;

fn listener() -> (ProxyLog, LoggedLines) {
    let told = LoggedLines::default();
    let kept = told.clone();
    (ProxyLog::lines(move |line| kept.lock().expect("whole").push(line.to_string())), told)
}

fn settings(folder: &Path) -> JournalSettings {
    JournalSettings { sync: Sync::System, ..JournalSettings::new(folder) }
}

fn create(settings: JournalSettings) -> (Journal, LoggedLines) {
    let (log, told) = listener();
    (Journal::create(settings, &Metrics::default(), log).expect("a journal"), told)
}

fn opened(conversation: u64) -> OpenedRecord {
    OpenedRecord {
        conversation,
        at: "2026-01-01T00:00:00Z".into(),
        agent: "mock".into(),
        client_dialect: "v1".into(),
        agent_dialect: "v1".into(),
        again: false,
    }
}

fn lines(conversation: u64, number: u64) -> Lines {
    let text = format!("{{\"number\":{number},\"of\":{conversation}}}\n");
    let (t, what) = (Duration::from_micros(number), RecordedLines::Block(Bytes::from(text)));
    Lines { conversation, t, dir: Direction::AgentToClient, what }
}

/// The numbers in the lines of a conversation, in order.
fn numbers(folder: &Path, conversation: u64) -> Vec<u64> {
    let (found, _) = conversations(folder, None).expect("conversations");
    let mut numbers = Vec::new();
    for found in found.iter().filter(|found| found.name.ends_with(&format!(".{conversation}"))) {
        for (_, _, line) in &found.spoken {
            let value: serde_json::Value = serde_json::from_slice(line).expect("JSON");
            assert_eq!(value["of"], conversation);
            numbers.push(value["number"].as_u64().expect("a number"));
        }
    }
    numbers
}

fn only_segment(folder: &Path) -> PathBuf {
    let mut found = segments(folder).expect("segments");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn what_was_written_is_read_in_order_conversation_by_conversation() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = create(settings(folder.path()));
    for conversation in [1, 2] {
        journal.open(opened(conversation)).expect("kept");
    }
    for number in 0..500 {
        journal.lines(lines(1 + number % 2, number)).expect("kept");
    }
    let closed = ClosedRecord { conversation: 1, t: 9, outcome: "the client left".into() };
    journal.close(closed.clone()).expect("kept");
    journal.finish().expect("finished");
    assert!(only_segment(folder.path()).extension().is_some_and(|ending| ending == "journal"));
    assert_eq!(numbers(folder.path(), 1), (0..500).step_by(2).collect::<Vec<_>>());
    assert_eq!(numbers(folder.path(), 2), (1..500).step_by(2).collect::<Vec<_>>());
    let (found, notices) = conversations(folder.path(), None).expect("conversations");
    assert_eq!((found[0].closed.as_ref(), notices.len()), (Some(&closed), 0));
    let name = found[1].name.clone();
    let (found, _) = conversations(folder.path(), Some(&name)).expect("one");
    assert_eq!((found.len(), found[0].spoken.len()), (1, 250));
}

/// The sharpest knife: the file may end at any byte, and each whole record before that place is read.
#[test]
fn a_segment_cut_at_any_byte_keeps_every_whole_record_and_is_mended() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = create(settings(folder.path()));
    journal.open(opened(1)).expect("kept");
    let mut ends = Vec::new();
    let open = only_segment(folder.path());
    for number in 0..20 {
        journal.lines(lines(1, number)).expect("kept");
        ends.push(open.metadata().expect("its length").len());
    }
    let whole = std::fs::read(&open).expect("the segment");
    let first = ends[0];
    for cut in first..=whole.len() as u64 {
        let place = tempfile::tempdir().expect("a folder");
        let left = place.path().join("20260101T000000000Z-1-000001.open");
        std::fs::write(&left, &whole[..usize::try_from(cut).expect("small")]).expect("a copy");
        let expected = ends.iter().filter(|end| **end <= cut).count() as u64;
        assert_eq!(numbers(place.path(), 1), (0..expected).collect::<Vec<_>>(), "read at {cut}");
        let mended = recover(place.path()).expect("mended");
        assert_eq!(mended.len(), 1);
        assert_eq!(mended[0].records, expected + 1, "cut at {cut}");
        let torn = cut - ends.iter().rev().find(|end| **end <= cut).copied().unwrap_or_default();
        assert_eq!(mended[0].cut, torn, "cut at {cut}");
        assert_eq!(numbers(place.path(), 1), (0..expected).collect::<Vec<_>>(), "mended at {cut}");
        let mut reader = Reader::open(&mended[0].path).expect("a segment");
        let last = reader.by_ref().last();
        assert!(matches!(last, Some((_, Record::End(_)))), "{last:?}");
        assert!(reader.notices().is_empty());
        assert_eq!(recover(place.path()).expect("nothing to mend"), []);
    }
}

#[test]
fn nobody_else_can_read_what_was_said() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("state/journal");
    let (journal, _) = create(settings(&folder));
    journal.finish().expect("finished");
    let mode = |path: &Path| path.metadata().expect("its mode").permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&only_segment(&folder))), (0o700, 0o600));
}

#[test]
fn a_damaged_record_is_passed_over_with_a_notice_and_the_rest_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = create(settings(folder.path()));
    journal.open(opened(1)).expect("kept");
    (0..10).for_each(|number| journal.lines(lines(1, number)).expect("kept"));
    journal.finish().expect("finished");
    let path = only_segment(folder.path());
    let mut bytes = std::fs::read(&path).expect("the segment");
    let at = bytes.windows(11).position(|part| part == b"\"number\":4,").expect("the fifth");
    bytes[at + 9] = b'9';
    std::fs::write(&path, bytes).expect("damaged");
    assert_eq!(numbers(folder.path(), 1), [0, 1, 2, 3, 5, 6, 7, 8, 9]);
    let (_, notices) = conversations(folder.path(), None).expect("conversations");
    assert_eq!(notices.len(), 1);
    assert!(notices[0].to_string().contains("its checksum is wrong"), "{}", notices[0]);
}

#[test]
fn a_wrong_length_costs_one_record_and_mending_cuts_nothing_that_was_passed_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = create(settings(folder.path()));
    journal.open(opened(1)).expect("kept");
    let open = only_segment(folder.path());
    let mut ends = Vec::new();
    for number in 0..10 {
        journal.lines(lines(1, number)).expect("kept");
        ends.push(usize::try_from(open.metadata().expect("its length").len()).expect("small"));
    }
    let whole = std::fs::read(&open).expect("the segment");
    // The length of the fifth record (index 4) begins where the fourth ends; the last one has nothing behind it.
    for (record, bit) in [(4, 0x01), (4, 0x80), (9, 0x01)] {
        for byte in 0..4 {
            let place = tempfile::tempdir().expect("a folder");
            let mut bytes = whole.clone();
            bytes[ends[record - 1] + byte] ^= bit;
            std::fs::write(place.path().join("20260101T000000000Z-1-000001.open"), &bytes).expect("a copy");
            let others: Vec<u64> = (0..10).filter(|number| *number != record as u64).collect();
            let (found, notices) = conversations(place.path(), None).expect("read");
            assert_eq!((found.len(), notices.len()), (1, 1), "{record}, byte {byte}");
            assert_eq!(numbers(place.path(), 1), others, "{record}, byte {byte}");
            let mended = recover(place.path()).expect("mended");
            assert_eq!(numbers(place.path(), 1), others, "{record}, byte {byte}, mended");
            let length =
                usize::try_from(mended[0].path.metadata().expect("its length").len()).expect("small");
            assert!(record == 9 || length > bytes.len(), "nothing is cut from the middle");
        }
    }
}

#[test]
fn segments_that_are_finished_or_removed_while_the_journal_is_read_hide_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = create(settings(folder.path()));
    journal.open(opened(1)).expect("kept");
    journal.lines(lines(1, 0)).expect("kept");
    let mut listed = segments(folder.path()).expect("segments");
    journal.finish().expect("finished");
    assert!(!listed[0].exists(), "it has its final name now");
    listed.push(folder.path().join("20200101T000000000Z-7-000001.journal"));
    let (found, notices) = conversations_of(&listed, None).expect("read");
    assert_eq!((found.len(), found[0].spoken.len()), (1, 1));
    assert_eq!(notices.len(), 1);
    assert!(notices[0].to_string().ends_with("it was removed while the journal was read"), "{}", notices[0]);
}

#[test]
fn a_file_that_is_no_segment_hides_nothing_else_and_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = create(settings(folder.path()));
    journal.open(opened(1)).expect("kept");
    (0..3).for_each(|number| journal.lines(lines(1, number)).expect("kept"));
    let name = format!("{}.1", journal.run());
    journal.finish().expect("finished");
    // Killed at once; after a loss of power; of a version that is not known yet.
    let left: [(&str, &[u8], &str); 3] =
        [("1", b"", "journal"), ("2", &[0; 8192], "unread"), ("3", b"acp-journal 3\nmore", "open")];
    let path =
        |run: &str, ending: &str| folder.path().join(format!("20200101T000000000Z-{run}-000001.{ending}"));
    for (run, bytes, _) in left {
        std::fs::write(path(run, "open"), bytes).expect("a file");
    }
    for wanted in [None, Some(name.as_str())] {
        let (found, notices) = conversations(folder.path(), wanted).expect("the others are read");
        assert_eq!((found.len(), found[0].spoken.len(), notices.len()), (1, 3, 3), "{notices:?}");
        assert!(notices[1].to_string().contains("8192 bytes are passed over"), "{}", notices[1]);
    }
    let (told, listed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let listing = Recording::each_of_journal(
        folder.path(),
        |notice| told.lock().expect("whole").push(notice.to_string()),
        |recording| {
            listed.lock().expect("whole").push(recording.name);
            Ok(())
        },
    );
    listing.expect("listed");
    assert_eq!(
        (told.into_inner().expect("whole").len(), listed.into_inner().expect("whole")),
        (3, vec![name])
    );
    // The next run puts aside what nobody can read, and says so.
    let (next, told) = create(settings(folder.path()));
    next.finish().expect("finished");
    for (run, bytes, ending) in left {
        let kept = std::fs::read(path(run, ending)).expect("it is kept");
        assert!(kept == bytes || run == "1", "{run}");
    }
    let told = told.lock().expect("whole").join("\n");
    assert!(told.contains("Z-2-000001.unread and not read") && !told.contains("Z-3-"), "{told}");
    assert_eq!(conversations(folder.path(), None).expect("read").1.len(), 1);
}

#[test]
fn a_new_run_mends_what_a_killed_one_left_and_leaves_a_living_one_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (living, _) = create(settings(folder.path()));
    living.open(opened(1)).expect("kept");
    living.lines(lines(1, 0)).expect("kept");
    // What a killed process leaves: its bytes, and no lock.
    let dead = folder.path().join("20200101T000000000Z-7-000003.open");
    let bytes = std::fs::read(only_segment(folder.path())).expect("the segment");
    std::fs::write(&dead, &bytes[..bytes.len() - 5]).expect("a torn copy");
    let (second, told) = create(settings(folder.path()));
    let told = told.lock().expect("whole").join("\n");
    assert!(told.contains("20200101T000000000Z-7-000003.journal was left unfinished"), "{told}");
    assert!(told.contains("bytes of an unfinished one were cut off"), "{told}");
    assert!(!told.contains(living.run()), "{told}");
    living.lines(lines(1, 1)).expect("the living one goes on");
    living.finish().expect("finished");
    second.finish().expect("finished");
    let open = segments(folder.path()).expect("segments");
    assert!(open.iter().all(|path| path.extension().is_some_and(|ending| ending == "journal")), "{open:?}");
}

#[test]
fn runs_that_begin_in_the_same_moment_are_kept_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let journals: Vec<_> = (0..20).map(|_| create(settings(folder.path())).0).collect();
    journals.iter().for_each(|journal| journal.finish().expect("finished"));
    assert_eq!(segments(folder.path()).expect("segments").len(), 20);
}

#[test]
fn segments_are_rotated_by_size_and_each_knows_its_conversations() {
    let folder = tempfile::tempdir().expect("a folder");
    let (journal, _) = create(JournalSettings { segment_bytes: 4096, ..settings(folder.path()) });
    journal.open(opened(1)).expect("kept");
    journal.open(opened(2)).expect("kept");
    journal.close(ClosedRecord { conversation: 2, t: 0, outcome: "left".into() }).expect("kept");
    (0..1000).for_each(|number| journal.lines(lines(1, number)).expect("kept"));
    journal.finish().expect("finished");
    let found = segments(folder.path()).expect("segments");
    assert!(found.len() > 10, "{}", found.len());
    assert_eq!(numbers(folder.path(), 1), (0..1000).collect::<Vec<_>>());
    let mut before = 0;
    for path in &found {
        for (number, _) in Reader::open(path).expect("a segment") {
            assert_eq!(number, before + 1, "the records of a run are numbered without a gap");
            before = number;
        }
    }
    let mut last = Reader::open(&found[found.len() - 1]).expect("a segment");
    let Some((_, Record::Opened(again))) = last.next() else {
        panic!("a segment begins with its conversations")
    };
    assert_eq!((again.conversation, again.again), (1, true));
    assert!(!last.any(|(_, record)| matches!(record, Record::Opened(_))), "2 was over");
}

#[test]
fn segments_are_rotated_by_age_and_old_ones_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = folder.path().join("20200101T000000000Z-7-000001.journal");
    std::fs::write(&old, b"acp-journal 1\n").expect("a file");
    let past = std::time::SystemTime::now() - Duration::from_secs(3600);
    OpenOptions::new().write(true).open(&old).and_then(|file| file.set_modified(past)).expect("an old file");
    let age = JournalSettings {
        segment_age: Duration::ZERO,
        keep: Duration::from_secs(1800),
        ..settings(folder.path())
    };
    let (journal, told) = create(age);
    assert!(!old.exists());
    assert!(told.lock().expect("whole").iter().any(|line| line.contains("is old enough to go")));
    journal.open(opened(1)).expect("kept");
    (0..5).for_each(|number| journal.lines(lines(1, number)).expect("kept"));
    journal.finish().expect("finished");
    assert_eq!(segments(folder.path()).expect("segments").len(), 7);
    assert_eq!(numbers(folder.path(), 1), [0, 1, 2, 3, 4]);
}

/// The folder becomes unusable: the next segment cannot be begun.
fn break_folder(folder: &Path) -> PathBuf {
    let away = folder.with_extension("away");
    std::fs::rename(folder, &away).expect("moved");
    away
}

#[test]
fn a_journal_that_cannot_be_written_says_so_and_recovers_with_the_exact_gap() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("journal");
    let every = JournalSettings { segment_bytes: 0, on_failure: OnFailure::GoOn, ..settings(&folder) };
    let (journal, told) = create(every);
    journal.open(opened(1)).expect("kept");
    (0..3).for_each(|number| journal.lines(lines(1, number)).expect("kept"));
    let away = break_folder(&folder);
    (3..8).for_each(|number| journal.lines(lines(1, number)).expect("going on without"));
    assert!(journal.failure().is_some());
    std::fs::rename(&away, &folder).expect("moved back");
    // It is tried again after a while.
    let began = Instant::now();
    let mut number = 8;
    while journal.failure().is_some() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not tried again");
        std::thread::sleep(Duration::from_millis(20));
        journal.lines(lines(1, number)).expect("going on");
        number += 1;
    }
    journal.finish().expect("finished");
    let kept = numbers(&folder, 1);
    assert_eq!(kept[..3], [0, 1, 2]);
    let (found, _) = conversations(&folder, None).expect("conversations");
    assert_eq!(found[0].missing + kept.len() as u64, number, "kept and missing are all there was");
    let told = told.lock().expect("whole").join("\n");
    assert!(told.contains("the journal cannot be written"), "{told}");
    assert!(told.contains(&format!("{} records are missing from it", found[0].missing)), "{told}");
}

#[test]
fn a_journal_that_must_be_kept_refuses_what_it_cannot_keep() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("journal");
    let (journal, _) = create(JournalSettings { segment_bytes: 0, ..settings(&folder) });
    journal.open(opened(1)).expect("kept");
    journal.lines(lines(1, 0)).expect("kept");
    let away = break_folder(&folder);
    let error = journal.lines(lines(1, 1)).expect_err("nowhere to write");
    assert!(error.to_string().contains("--journal-full continue"), "{error}");
    std::fs::rename(&away, &folder).expect("moved back");
    journal.open(opened(2)).expect("a new conversation is tried at once");
    journal.finish().expect("finished");
    assert_eq!(numbers(&folder, 1), [0], "what was refused is not there");
}
