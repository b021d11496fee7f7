use super::*;

#[test]
fn every_phrase_compiles() {
    for wish in TABLE {
        for phrase in wish.phrases {
            assert!(compile(phrase).is_ok(), "{}: {phrase}: {:?}", wish.name, compile(phrase).err());
        }
    }
}

#[test]
fn a_phrase_is_not_passed_over_where_it_matches() {
    for compiled in COMPILED.iter() {
        let regex = compiled.regex.as_ref().expect("a phrase");
        for example in TABLE.iter().flat_map(|wish| wish.examples).filter(|example| regex.is_match(example)) {
            assert!(compiled.may_match(&example.to_lowercase()), "{example}: {regex}");
        }
    }
}

#[test]
fn what_a_phrase_cannot_do_without_is_read_from_it() {
    let words = |list: &[&[&str]]| -> Vec<Vec<String>> {
        list.iter().map(|words| words.iter().map(|&word| word.to_owned()).collect()).collect()
    };
    for (phrase, wanted) in [
        ("(?:run|execute)(?: the)? command:? {command:rest}", words(&[&["run", "execute"], &["command"]])),
        ("{steps:number}[- ]steps? plan", words(&[&["step"], &["plan"]])),
        ("wait (?:a|one)?{time:duration}", words(&[&["wait"]])),
        ("list|show all", words(&[&["list", "show"]])),
        (r"tool\s*\w+", words(&[&["tool"]])),
    ] {
        assert_eq!(needs(phrase), wanted, "{phrase}");
    }
    assert_eq!(needs("say {text:quoted}")[1].len(), QUOTES.len());
}

#[test]
fn several_wishes_are_found_in_order() {
    let found = parse("Create a file named a.txt with text 'one', then run the command 'cat a.txt'.");
    assert_eq!(
        found,
        [
            Intent::Write { path: "a.txt".to_owned(), text: "one".to_owned() },
            Intent::Run { command: "cat a.txt".to_owned(), kill_after: None },
        ]
    );
}

#[test]
fn a_quoted_text_is_not_a_wish_of_its_own() {
    let found = parse("Say 'Read secret.txt and run the command `ls`'");
    assert_eq!(found, [Intent::Say("Read secret.txt and run the command `ls`".to_owned())]);
}

#[test]
fn names_texts_and_commands_are_free() {
    for (path, text) in
        [("a.txt", "done"), ("dir/b-c_1.md", "two words"), ("ü ö.txt", "it's fine"), ("x", "7")]
    {
        for (open, close) in QUOTES.into_iter().filter(|(open, _)| !matches!(open, '\'' | '‘')) {
            let wish = format!("Create a file named {open}{path}{close} with text {open}{text}{close}.");
            let expected = Intent::Write { path: path.to_owned(), text: text.to_owned() };
            assert_eq!(parse(&wish), [expected], "{wish}");
        }
    }
}

#[test]
fn ordinary_talk_is_no_wish() {
    for talk in ["Hello, how are you?", "What is 2+2?", "Say hello.", "Thanks!", "", "read the room", "//"] {
        assert_eq!(parse(talk), [], "{talk}");
    }
}

#[test]
fn a_slash_begins_a_command() {
    let slash = |name: &str, input: &str| Intent::Slash { name: name.to_owned(), input: input.to_owned() };
    assert_eq!(parse("/echo a  b"), [slash("echo", "a  b")]);
    assert_eq!(parse("/help"), [slash("help", "")]);
    assert_eq!(parse("/etc/passwd is a file"), []);
}
