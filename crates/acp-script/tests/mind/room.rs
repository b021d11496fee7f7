//! Answers and conversations that become too long for the model.

use acp_script::agent::{AgentConfig, QuestionKind, Thought, ThoughtEnd};
use serde_json::{Value, json};

use crate::harness::{AgentUnderTest, config};

fn harness(caps: &Value) -> AgentUnderTest {
    AgentUnderTest::new(AgentConfig { model: true, ..config() }, caps)
}

fn text(words: &str) -> Thought {
    Thought::Text(words.to_owned())
}

fn done() -> Thought {
    Thought::End(ThoughtEnd::Done)
}

fn overflow() -> Thought {
    Thought::End(ThoughtEnd::Overflow("it takes 9 of 8 tokens".to_owned()))
}

#[test]
fn an_answer_that_was_cut_off_is_told_and_goes_on() {
    let mut harness = harness(&json!({}));
    let prompt = harness.prompt("Write a poem");
    harness.thinks([
        text("Roses are "),
        Thought::Dropped("write_file".to_owned()),
        Thought::End(ThoughtEnd::MaxTokens),
    ]);
    let (_, again) = harness.questions.last().expect("asked again");
    assert_eq!((harness.questions.len(), again.cuts, again.wanted), (2, 1, QuestionKind::Answer));
    let cut = again.rounds[0].cut.as_ref().expect("the model is told that it was cut off");
    assert_eq!(cut.dropped, ["write_file"]);
    harness.thinks([text("red."), done()]);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    let words = harness.words();
    assert!(words.contains("Roses are ") && words.ends_with("red."), "{words}");
    assert!(words.contains("call of write_file was incomplete and was not made"), "{words}");
    // An answer that came to its end begins the count anew.
    harness.prompt("And now?");
    assert_eq!(harness.questions.last().expect("a question").1.cuts, 0);
}

#[test]
fn an_answer_that_is_cut_off_again_and_again_ends_the_turn_in_words() {
    let mut harness = harness(&json!({}));
    let prompt = harness.prompt("Count to a million");
    for _ in 0..4 {
        assert!(harness.find(prompt).is_none());
        harness.thinks([text("1 2 3 "), Thought::End(ThoughtEnd::MaxTokens)]);
    }
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "max_tokens");
    assert!(
        harness.words().contains("4 times in a row") && harness.words().contains("--max-tokens"),
        "{}",
        harness.words()
    );
}

#[test]
fn clients_that_know_notices_hear_of_a_cut_there() {
    let mut harness = harness(&json!({ "session": { "notices": {} } }));
    harness.prompt("Write a poem");
    harness.thinks([text("Roses"), Thought::End(ThoughtEnd::MaxTokens)]);
    let notice = harness.updates().into_iter().find(|update| update["sessionUpdate"] == "notice").cloned();
    assert_eq!(notice.expect("a notice")["title"], "The answer was cut off");
    assert_eq!(harness.words(), "Roses");
}

/// A session in which a model has used a tool twice.
fn long(caps: &Value) -> (AgentUnderTest, i64) {
    let mut harness = harness(caps);
    let prompt = harness.prompt("How does authentication work?");
    for n in 0..2 {
        harness.thinks([
            Thought::Call { name: "search".to_owned(), arguments: json!({ "query": n }) },
            Thought::Usage { input: 90, output: 10 },
            done(),
        ]);
        let token = harness.tools.last().expect("a tool").token;
        let found = format!("result {n} {}", "x".repeat(4000));
        let found = acp_script::agent::ToolOutput { text: found, ..Default::default() };
        harness.agent.tool_answered(token, Ok(found));
        harness.run();
    }
    (harness, prompt)
}

#[test]
fn what_the_provider_has_counted_is_told_with_the_next_question() {
    let (harness, _) = long(&json!({}));
    let (_, question) = harness.questions.last().expect("a question");
    let counted = question.counted.expect("a count");
    assert_eq!(counted.tokens, 100);
    // All but what the last tool answered.
    assert_eq!(counted.entries, question.history.len() - 1);
    assert!(harness.questions[0].1.counted.is_none());
}

#[test]
fn a_conversation_that_does_not_fit_is_taken_in_short_by_the_model_and_the_turn_goes_on() {
    let (mut harness, prompt) = long(&json!({ "session": { "compaction": {} } }));
    harness.thinks([Thought::Context(8000), overflow()]);
    let (_, summary) = harness.questions.last().expect("a summary is asked for");
    assert_eq!(summary.wanted, QuestionKind::Summary);
    let told = json!(summary.history).to_string();
    assert!(
        told.contains("How does auth") && told.contains("result 0") && !told.contains("result 1"),
        "{told}"
    );

    harness.thinks([Thought::Thinking("Hm.".to_owned()), text("They asked "), text("about login."), done()]);
    let (_, again) = harness.questions.last().expect("asked again");
    assert_eq!((again.wanted, again.counted), (QuestionKind::Anyway, None));
    let first = again.history[0]["content"]["text"].as_str().unwrap_or_default();
    assert!(first.contains("They asked about login."), "{first}");
    assert!(
        first.ends_with("The request that is being worked on:\nHow does authentication work?"),
        "{first}"
    );
    assert!(json!(again.history[1..]).to_string().contains("result 1"), "the newest result stays");
    let kinds: Vec<&str> = harness.updates().iter().filter_map(|it| it["sessionUpdate"].as_str()).collect();
    assert!(kinds.contains(&"compaction_update") && kinds.contains(&"usage_update"), "{kinds:?}");

    harness.thinks([text("By login."), Thought::Usage { input: 40, output: 2 }, done()]);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    let words = harness.words();
    assert!(words.contains("too long for the model") && words.ends_with("By login."), "{words}");
    assert!(!words.contains("They asked"), "the summary is for the model");
    let last =
        harness.updates().into_iter().rfind(|it| it["sessionUpdate"] == "usage_update").expect("usage");
    assert_eq!((&last["used"], &last["size"]), (&json!(42), &json!(8000)));
}

#[test]
fn without_a_summary_the_persons_words_and_the_last_answers_stand_for_the_rest() {
    let (mut harness, prompt) = long(&json!({}));
    harness.thinks([Thought::Context(8000), overflow()]);
    harness.thinks([Thought::End(ThoughtEnd::Failed("no route".to_owned()))]);
    let (_, again) = harness.questions.last().expect("asked again");
    let first = again.history[0]["content"]["text"].as_str().unwrap_or_default();
    assert!(first.contains("Person: How does authentication work?"), "{first}");
    harness.thinks([text("By login."), done()]);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
}

#[test]
fn a_prompt_that_is_too_long_by_itself_is_refused_in_words_and_left_out_of_later_questions() {
    let mut harness = harness(&json!({}));
    let prompt = harness.prompt("An endless prompt");
    harness.thinks([overflow()]);
    // There is nothing to take in short.
    assert_eq!(harness.questions.last().map(|(_, question)| question.wanted), Some(QuestionKind::Anyway));
    harness.thinks([overflow()]);
    let words = harness.answer(prompt)["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("9 of 8 tokens; the session goes on without this prompt"), "{words}");
    harness.prompt("A short one");
    let (_, question) = harness.questions.last().expect("a question");
    assert_eq!((question.wanted, question.overflows), (QuestionKind::Answer, 0));
    assert!(question.rounds.iter().any(|round| round.refused));
}

#[test]
fn the_wish_to_compact_is_done_by_the_model() {
    let mut config = AgentConfig { model: true, ..config() };
    config.persona.commands = vec![acp_script::agent::SlashCommand::new("compact", "Keep it in short", "")];
    let mut harness = AgentUnderTest::new(config, &json!({}));
    harness.prompt("Remember the rose");
    harness.thinks([text("I do."), done()]);
    let prompt = harness.prompt("/compact");
    let (_, summary) = harness.questions.last().expect("a summary is asked for");
    assert_eq!(summary.wanted, QuestionKind::Summary);
    assert!(!json!(summary.history).to_string().contains("/compact"));
    harness.thinks([text("A rose."), done()]);
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "end_turn");
    harness.prompt("Which flower?");
    let told = json!(harness.questions.last().expect("a question").1.history).to_string();
    assert!(told.contains("A rose.") && !told.contains("I do.") && !told.contains("/compact"), "{told}");
}

#[test]
fn cancelling_while_a_summary_is_written_ends_the_turn_and_keeps_the_conversation() {
    let (mut harness, prompt) = long(&json!({}));
    harness.thinks([Thought::Context(8000), overflow()]);
    harness.cancel();
    assert_eq!(harness.answer(prompt)["result"]["stopReason"], "cancelled");
    assert_eq!(harness.abandoned, [harness.questions.last().expect("a question").0]);
    let kept = harness.stored.as_ref().expect("a record");
    assert!(kept.digest.is_none() && json!(kept.history).to_string().contains("result 0"));
}
