//! Fallback, headers of one's own, and one exchange to see whether a provider works.

use acp_agent::provider::{Choice, Limit, Stop, check, open};
use serde_json::json;

use super::raw::{Answer, Raw, events, http};
use super::{ask, notices, text, with_key, words};

fn says(words: &str) -> Answer {
    Answer::Bytes(events(&[
        json!({"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": "stop"}]}),
        json!("[DONE]"),
    ]))
}

fn refuses(status: &str, message: &str) -> Answer {
    let body = json!({"error": {"message": message}}).to_string();
    Answer::Bytes(http(status, "application/json", "retry-after: 3600\r\n", &body))
}

fn chain(first: &Raw, second: &Raw) -> Choice {
    let choice = |base: &Raw, model: &str| Choice {
        provider: "openai-chat".to_owned(),
        model: Some(model.to_owned()),
        base_url: Some(base.url.clone()),
        ..Choice::default()
    };
    let small = Limit { id: "second".to_owned(), context: Some(4000), output: Some(1000) };
    let second = Choice { limits: vec![small], ..choice(second, "second") };
    Choice { fallback: vec![second], ..choice(first, "first") }
}

#[tokio::test]
async fn a_busy_provider_is_left_for_the_next_one_and_the_person_is_told() {
    for status in ["429 Too Many Requests", "503 Service Unavailable", "529 Overloaded"] {
        let first = Raw::start(vec![refuses(status, "on fire")]).await;
        let second = Raw::start(vec![says("the second answers")]).await;
        let provider = open(&chain(&first, &second), &with_key).expect("settings").expect("a provider");
        for round in 0..2 {
            let mut request = words("hello");
            request.model = "first".to_owned();
            let (outcome, pieces) = ask(&*provider, request).await;
            assert_eq!(
                (outcome, text(&pieces).as_str()),
                (Ok(Stop::EndTurn), "the second answers"),
                "{status}"
            );
            let told = notices(&pieces);
            // The first one is left alone for a while.
            assert_eq!(
                told.iter().any(|words| words.contains("asking openai-chat instead")),
                round == 0,
                "{told:?}"
            );
        }
        assert_eq!(first.asked().len(), 1, "{status}");
        let asked = second.asked();
        assert_eq!((asked.len(), &asked[0].body["model"]), (2, &json!("second")), "{status}");
        assert_eq!(asked[0].body["max_tokens"], 1000, "no longer than the second one can answer");
        assert_eq!(provider.models()[0].id, "first");
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_question_or_the_key_is_no_reason_to_ask_another_one() {
    for status in ["400 Bad Request", "401 Unauthorized", "404 Not Found"] {
        let first = Raw::start(vec![refuses(status, "no")]).await;
        let second = Raw::start(vec![says("the second answers")]).await;
        let provider = open(&chain(&first, &second), &with_key).expect("settings").expect("a provider");
        let (outcome, _) = ask(&*provider, words("hello")).await;
        assert!(outcome.is_err_and(|error| error.to_string().contains("no")), "{status}");
        assert!(second.asked().is_empty(), "{status}");
    }
}

#[tokio::test]
async fn an_answer_that_has_begun_is_not_given_to_another_one() {
    let half = Answer::Bytes(events(&[
        json!({"choices": [{"index": 0, "delta": {"content": "half "}}]}),
        json!({"error": {"type": "overloaded_error", "message": "too many"}}),
    ]));
    let first = Raw::start(vec![half]).await;
    let second = Raw::start(vec![says("the second answers")]).await;
    let provider = open(&chain(&first, &second), &with_key).expect("settings").expect("a provider");
    let (outcome, pieces) = ask(&*provider, words("hello")).await;
    assert!(outcome.is_err() && text(&pieces) == "half " && second.asked().is_empty());
}

#[tokio::test]
async fn headers_of_ones_own_are_sent_and_their_secrets_are_never_shown() {
    let server = Raw::start(vec![refuses("400 Bad Request", "bad team-secret-77 and gateway-key-88")]).await;
    let headers = [("X-Team", "team-secret-77"), ("authorization", "Basic ${GATEWAY}"), ("x-plain", "a: b")];
    let choice = Choice {
        provider: "openai-chat".to_owned(),
        model: Some("m".to_owned()),
        base_url: Some(server.url.clone()),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..Choice::default()
    };
    let env = |name: &str| (name == "GATEWAY").then(|| "gateway-key-88".to_owned());
    let provider = open(&choice, &env).expect("settings").expect("a provider");
    let (outcome, _) = ask(&*provider, words("hello")).await;
    let error = outcome.expect_err("refused").to_string();
    assert!(error.contains("bad [key] and [key]"), "{error}");
    let asked = server.asked().remove(0);
    assert_eq!(asked.header("x-team"), Some("team-secret-77"));
    assert_eq!(asked.header("authorization"), Some("Basic gateway-key-88"));
    assert_eq!(asked.header("x-plain"), Some("a: b"));
    for (name, value, expected) in [
        ("bad name", "x", "no name of a header"),
        ("x", "a\nb", "not a valid header value"),
        ("x", "${NOBODY}", "NOBODY is not set"),
    ] {
        let choice = Choice { headers: vec![(name.to_owned(), value.to_owned())], ..choice.clone() };
        let error = open(&choice, &env).err().expect("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_check_asks_each_provider_once() {
    let first = Raw::start(vec![refuses("503 Service Unavailable", "on fire")]).await;
    let second = Raw::start(vec![says("OK")]).await;
    let checked = check(&chain(&first, &second), &with_key).await.expect("settings");
    assert_eq!(checked.len(), 2);
    let error = checked[0].outcome.as_ref().expect_err("it is on fire").to_string();
    assert!(error.contains("status 503: on fire"), "{error}");
    assert_eq!((checked[1].model.as_str(), first.asked().len(), second.asked().len()), ("second", 1, 1));
    let said = checked[1].outcome.as_ref().expect("it works");
    assert!(said.starts_with("answered \"OK\""), "{said}");
    assert!(check(&Choice::default(), &with_key).await.expect("settings").is_empty());
}
