use serde_json::{Value, json};

use super::Edits;
use crate::agent::config::Declarations;

const RUST: &str = "struct A;\n\nimpl A {\n    /// One.\n    fn one(&self) -> u8 {\n        1\n    }\n\n    fn two(&self) -> u8 {\n        2\n    }\n}\n";

/// Knows `one` and `twice`, as the code engine would.
fn declarations() -> Declarations {
    Declarations::new(|_, _, symbol| match symbol {
        "A.one" | "one" => Ok(vec![[4, 7]]),
        "twice" => Ok(vec![[4, 7], [9, 11]]),
        other => Err(format!("no {other:?} here")),
    })
}

fn edited(text: &str, arguments: &Value) -> Result<String, String> {
    let mut arguments = arguments.clone();
    if arguments.get("path").is_none() {
        arguments["path"] = json!("a.rs");
    }
    let (path, edits) = Edits::parse(&arguments, declarations())?;
    edits.apply(&path, text)
}

#[test]
fn a_text_is_replaced_where_it_stands() {
    let changed = edited("a\nb\nc\n", &json!({"old": "b", "new": "x"}));
    assert_eq!(changed.as_deref(), Ok("a\nx\nc\n"));
}

#[test]
fn other_indentation_is_no_reason_to_fail_and_the_files_own_is_kept() {
    for (text, old, new, wanted) in [
        // Given from the left margin.
        (
            "mod m {\n    fn a() {\n        b();\n    }\n}\n",
            "fn a() {\n    b();\n}",
            "fn a() {\n    if x {\n        c();\n    }\n}",
            "mod m {\n    fn a() {\n        if x {\n            c();\n        }\n    }\n}\n",
        ),
        // Spaces for tabs.
        (
            "def f():\n\tif x:\n\t\treturn 1\n",
            "    if x:\n        return 1",
            "    if x:\n        y()\n        return 2",
            "def f():\n\tif x:\n\t\ty()\n\t\treturn 2\n",
        ),
        // Only the first line is given without its own.
        (
            "    a = [\n        1,\n    ]\n",
            "a = [\n        1, \n    ]",
            "a = [\n        2,\n    ]",
            "    a = [\n        2,\n    ]\n",
        ),
        // Blanks at line ends, a blank line, spaces around signs.
        ("x = f( a,b )  \n\ny = 1\n", "x = f(a, b)\ny = 1\n", "x = g(a)\ny = 2\n", "x = g(a)\ny = 2\n"),
        // Other line ends.
        ("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n"),
        // Lines that go leave nothing behind.
        ("a\n    b\nc\n", "b \n", "", "a\nc\n"),
    ] {
        let changed = edited(text, &json!({"old": old, "new": new}));
        assert_eq!(changed.as_deref(), Ok(wanted), "{old}");
    }
}

#[test]
fn lines_are_replaced_inserted_and_removed() {
    let text = "a\nb\nc\nd";
    for (edit, wanted) in [
        (json!({"start_line": 2, "end_line": 3, "new": "x"}), "a\nx\nd"),
        (json!({"start_line": 2, "new": "x\ny\n"}), "a\nx\ny\nc\nd"),
        (json!({"start_line": 1, "end_line": 2, "new": ""}), "c\nd"),
        (json!({"start_line": 4, "new": "x"}), "a\nb\nc\nx"),
        (json!({"after_line": 0, "new": "x"}), "x\na\nb\nc\nd"),
        (json!({"after_line": 4, "new": "x"}), "a\nb\nc\nd\nx\n"),
        (json!({"path": "a.rs:2-3", "new": "x\n"}), "a\nx\nd"),
    ] {
        assert_eq!(edited(text, &edit).as_deref(), Ok(wanted), "{edit}");
    }
    let beyond = edited(text, &json!({"start_line": 4, "end_line": 9, "new": ""}));
    assert_eq!(beyond, Err("a.rs has only 4 lines".to_owned()));
}

#[test]
fn a_declaration_is_replaced_by_its_name_and_moves_to_its_place() {
    let new = "fn one(&self) -> u8 {\n    11\n}";
    let wanted = RUST.replace(
        "    /// One.\n    fn one(&self) -> u8 {\n        1\n    }\n",
        "    fn one(&self) -> u8 {\n        11\n    }\n",
    );
    for edit in [json!({"symbol": "A.one", "new": new}), json!({"path": "a.rs#one", "new": new})] {
        assert_eq!(edited(RUST, &edit).as_deref(), Ok(&*wanted), "{edit}");
    }
    let inside = edited(RUST, &json!({"symbol": "one", "old": "u8", "new": "u16"})).expect("an edit");
    assert_eq!(inside, RUST.replace("fn one(&self) -> u8", "fn one(&self) -> u16"));
    let unclear = edited(RUST, &json!({"symbol": "twice", "new": ""})).expect_err("two of them");
    assert!(unclear.contains("(lines 4-7, 9-11)"), "{unclear}");
}

#[test]
fn several_edits_are_made_together_or_not_at_all() {
    let both =
        json!({"edits": [{"old": "fn two", "new": "fn second"}, {"symbol": "one", "old": "1", "new": "10"}]});
    let changed = edited(RUST, &both).expect("both");
    assert!(changed.contains("fn second") && changed.contains("        10\n"), "{changed}");
    let one_fails = json!({"edits": [{"old": "fn two", "new": "x"}, {"old": "fn three", "new": "y"}]});
    let why = edited(RUST, &one_fails).expect_err("no such text");
    assert!(why.starts_with("edit 2 of 2, so nothing was changed: a.rs does not hold"), "{why}");
    let overlap =
        json!({"edits": [{"start_line": 3, "end_line": 5, "new": "x"}, {"start_line": 5, "new": "y"}]});
    let why = edited(RUST, &overlap).expect_err("the same line twice");
    assert!(why.contains("edits 1 and 2 overlap at line 5"), "{why}");
}

#[test]
fn a_text_in_several_places_needs_more_words_or_all() {
    let why = edited("x\ny\nx\n", &json!({"old": "x", "new": "z"})).expect_err("two of them");
    assert!(why.contains("2 times (lines 1, 3)"), "{why}");
    assert_eq!(
        edited("x\ny\nx\n", &json!({"old": "x", "new": "z", "all": true})).as_deref(),
        Ok("z\ny\nz\n")
    );
    let third = json!({"old": "x", "new": "z", "start_line": 3});
    assert_eq!(edited("x\ny\nx\n", &third).as_deref(), Ok("x\ny\nz\n"));
}

#[test]
fn what_is_not_there_is_answered_with_the_nearest() {
    let why = edited(RUST, &json!({"old": "    fn one(&self) -> u16 {\n        1", "new": ""}))
        .expect_err("not there");
    assert!(
        why.contains("The nearest is at lines 5-6:\n5\t    fn one(&self) -> u8 {\n6\t        1"),
        "{why}"
    );
    let why = edited("alpha\n", &json!({"old": "zzz qqq", "new": ""})).expect_err("not there");
    assert!(why.contains("nothing that comes near"), "{why}");
}

#[test]
fn an_edit_that_says_nothing_is_refused_before_the_file_is_read() {
    for (edit, why) in [
        (json!({"new": "x"}), "needs \"old\""),
        (json!({"old": " ", "new": "x"}), "is empty"),
        (json!({"old": "x"}), "needs \"new\""),
        (json!({"edits": []}), "at least one edit"),
        (json!({"start_line": 3, "end_line": 2, "new": ""}), "are no lines"),
        (json!({"start_line": 3, "symbol": "x", "new": ""}), "one place"),
        (json!({"after_line": 3, "old": "x", "new": ""}), "after_line inserts"),
    ] {
        let refused = edited("x", &edit).expect_err("no edit");
        assert!(refused.contains(why), "{edit}: {refused}");
    }
    assert!(edited("x", &json!({"old": "x", "new": "x"})).is_err_and(|why| why.contains("stay as it is")));
}
