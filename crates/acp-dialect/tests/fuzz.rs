//! Arbitrary and damaged frames: nothing panics, and what goes on is one line of JSON or the original bytes.

mod common;

use acp_dialect::{Dialect, Side, Translated, TranslationOptions, Translator, detect};
use acp_rpc::Frame;
use acp_testkit::Mutator;
use common::{cases, foreign_dialects, read};

const ROUNDS: usize = 100_000;

fn corpus(dialect: Dialect) -> Vec<Vec<u8>> {
    let said = cases(dialect).into_iter().flat_map(|(_, path)| read(&path));
    let mut frames: Vec<Vec<u8>> = said.map(|said| said.line.frame.raw().to_vec()).collect();
    let canonical = cases(dialect)
        .into_iter()
        .filter_map(|(_, path)| std::fs::read_to_string(path.join("canonical.ndjson")).ok());
    for line in canonical.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()) {
        let start = line.find("\"frame\":").unwrap() + "\"frame\":".len();
        frames.push(line.as_bytes()[start..line.len() - 1].to_vec());
    }
    frames
}

fn check(input: &Frame, out: &Translated) {
    for out in &out.frames {
        if out.frame.raw() == input.raw() {
            continue;
        }
        assert!(out.frame.flaw().is_none(), "a flawed frame was made: {:?}\nfrom {input:?}", out.frame);
        assert!(!out.frame.raw().contains(&b'\n'), "two lines were made from {input:?}");
        let text = out.frame.text().unwrap();
        assert!(!text.contains("\u{E000}number:"), "a mark was left behind in {text}\nfrom {input:?}");
        assert!(Frame::parse(out.frame.raw().clone()).flaw().is_none(), "{text}");
    }
    for note in &out.notes {
        assert!(!note.message.is_empty());
    }
}

fn fuzz(dialect: Dialect, seed: u64) {
    let corpus = corpus(dialect);
    let good: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    let mut mutator = Mutator::new(seed, &good);
    let mut sides =
        [Side::Client, Side::Agent].map(|side| Translator::new(dialect, side, TranslationOptions::default()));
    for round in 0..ROUNDS {
        if round % 500 == 0 {
            sides = [Side::Client, Side::Agent]
                .map(|side| Translator::new(dialect, side, TranslationOptions::default()));
        }
        // Good frames between the damaged ones give the translators something to remember.
        let input = if round % 3 == 0 {
            Frame::parse(corpus[round / 3 % corpus.len()].clone())
        } else {
            Frame::parse(mutator.next_input().to_vec())
        };
        let translator = &mut sides[round % 2];
        let out = if round / 2 % 2 == 0 {
            translator.to_canonical(&input)
        } else {
            translator.from_canonical(&input)
        };
        check(&input, &out);
        if round % 1000 == 999 {
            translator.canonical_closed();
        }
        detect([&input]);
    }
}

#[test]
fn damaged_frames_of_2025_1_never_panic() {
    fuzz(Dialect::V2025_1, 1);
}

#[test]
fn damaged_frames_of_probe_never_panic() {
    fuzz(Dialect::PROBE, 2);
}

#[test]
fn damaged_frames_of_go_never_panic() {
    fuzz(Dialect::GO, 3);
}

#[test]
fn damaged_frames_of_delta_never_panic() {
    fuzz(Dialect::DELTA, 4);
}

#[test]
fn v1_is_the_identity_on_bytes() {
    for dialect in foreign_dialects() {
        for line in corpus(dialect) {
            let frame = Frame::parse(line);
            for side in [Side::Client, Side::Agent] {
                let mut same = Translator::new(Dialect::V1, side, TranslationOptions::default());
                for out in [same.to_canonical(&frame), same.from_canonical(&frame)] {
                    assert_eq!(out.frames.len(), 1);
                    assert_eq!(
                        out.frames[0].frame.raw().as_ptr(),
                        frame.raw().as_ptr(),
                        "the bytes were copied"
                    );
                    assert!(out.notes.is_empty());
                }
            }
        }
    }
}
