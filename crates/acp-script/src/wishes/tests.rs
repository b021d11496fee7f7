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
fn dump() {
    for wish in TABLE {
        for example in wish.examples {
            println!("{:20} {example:60} {:?}", wish.name, parse(example));
        }
    }
    for text in [
        "Say hello.",
        "Draft a plan with three steps for tidying this folder.",
        "Ask me for my favourite colour with a form.",
        "Create a file named /a/b/outside.txt with text 'escaped'.",
        "Read line 2 of lines.txt and tell me its contents.",
        "Ask me for my password.",
        "Reply with exactly: naïve – 日本語 – 🦀 – ∑",
        "Run the command 'sleep 60' and kill it after 200 ms.",
        "Set your thought level to high.",
        "Switch to plan mode.",
        "Rename this session to 'orchard'.",
        "Read /x/extra/there.txt and tell me its contents.",
        "Create a file named a.txt with text 'one', then run the command 'cat a.txt'.",
        "Hello, how are you?",
        "What is 2+2?",
        "Write 'it's fine' to b.txt",
        "Create file x.txt with contents hello world",
        "Please use the terminal to run `ls -la /`",
        "Create a file named \"my file.txt\" with the content \"a b\"",
        "Create a file named output with text 'x'",
        "Read the file README",
        "Tell me about src/main.rs",
        "Read the file ./a/b-c_d.txt.",
        "Write hello to out.txt",
        "Please create a file called notes.md containing: first line",
    ] {
        println!("{:20} {text:60} {:?}", "-", parse(text));
    }
}
