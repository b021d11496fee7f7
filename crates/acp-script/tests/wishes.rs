//! The table of wishes, as it is documented and as it is understood.

use acp_script::wishes::{TABLE, parse};

#[test]
fn every_example_means_what_the_table_says() {
    let mut understood = String::new();
    for wish in TABLE {
        for example in wish.examples {
            let intents = parse(example);
            assert_eq!(intents.len(), 1, "{example}: {intents:?}");
            understood.push_str(&format!("{example}\n    {:?}\n", intents[0]));
        }
    }
    acp_testkit::golden::check_file(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wishes.txt"), &understood);
}

#[test]
fn the_manual_lists_every_wish() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mock.md")).unwrap();
    for wish in TABLE {
        let row = format!("| {} | {} | {} |", wish.name, wish.examples[0].replace('|', "\\|"), wish.does);
        assert!(manual.contains(&row), "docs/mock.md lacks this row:\n{row}");
    }
}
