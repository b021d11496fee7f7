//! Which provider, which address, which key: decided at the start, with an error instead of another provider.

use acp_agent::provider::{Choice, ModelSettings, ProviderError, SCRIPTED, open};

use super::raw::{Raw, http};
use super::{KEY, ask, words};

fn none(_: &str) -> Option<String> {
    None
}

fn only<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
}

fn named(provider: &str) -> Choice {
    Choice { provider: provider.to_owned(), ..Choice::default() }
}

fn error(choice: &Choice, env: &dyn Fn(&str) -> Option<String>) -> String {
    match open(choice, env) {
        Err(error) => error.to_string(),
        Ok(opened) => panic!("{choice:?} opened: {:?}", opened.map(|provider| provider.name().to_owned())),
    }
}

#[test]
fn the_scripted_one_is_the_default_and_needs_nothing() {
    let all_keys = |name: &str| name.ends_with("_KEY").then(|| KEY.to_owned());
    for name in ["", SCRIPTED] {
        assert!(open(&named(name), &none).expect("nothing is missing").is_none());
        // A key that happens to be there does not send anything anywhere.
        assert!(open(&named(name), &all_keys).expect("nothing is missing").is_none());
    }
}

#[test]
fn a_provider_without_its_key_is_an_error_that_says_where_to_put_one() {
    for (name, variable) in [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ] {
        for env in [&none as &dyn Fn(&str) -> Option<String>, &only(&[(variable, " \n")])] {
            let error = error(&named(name), env);
            assert!(
                error.starts_with("cannot use the provider ") && error.contains("there is no key"),
                "{error}"
            );
            assert!(error.contains(variable) && error.contains("https://"), "{error}");
        }
    }
    // Another vendor's key is no key.
    assert!(error(&named("openai"), &only(&[("ANTHROPIC_API_KEY", KEY)])).contains("there is no key"));
}

#[test]
fn an_unknown_provider_is_told_which_there_are() {
    assert_eq!(
        error(&named("openia"), &none),
        "there is no provider \"openia\"; there are scripted, anthropic, openai, openai-chat, openai-responses, google, \
         ollama, bedrock"
    );
}

#[test]
fn what_is_no_address_is_named_with_its_source() {
    for (base, words) in [
        ("api.example.com/v1", "does not begin with http"),
        ("ftp://example.com", "does not begin with http"),
        ("http://", "empty host"),
        ("http://a b", "invalid"),
    ] {
        let choice = Choice { base_url: Some(base.to_owned()), ..named("openai") };
        let from_flag = error(&choice, &none);
        assert!(from_flag.contains("--base-url is no address: ") && from_flag.contains(words), "{from_flag}");
        let from_env = error(&named("openai"), &only(&[("OPENAI_BASE_URL", base)]));
        assert!(from_env.contains("OPENAI_BASE_URL is no address: "), "{from_env}");
    }
}

#[test]
fn odd_keys_and_limits_are_refused_without_being_shown() {
    let shown = error(&named("openai"), &only(&[("OPENAI_API_KEY", "sk-two\nlines")]));
    assert!(shown.contains("OPENAI_API_KEY has characters") && !shown.contains("sk-two"), "{shown}");
    let env = [("OPENAI_API_KEY", KEY), ("ACP_MODEL_STALL", "soon")];
    let shown = error(&named("openai"), &only(&env));
    assert!(shown.contains("ACP_MODEL_STALL must be a number of seconds, not \"soon\""), "{shown}");
}

#[test]
fn settings_never_show_their_key() {
    for name in ["anthropic", "openai", "google", "ollama"] {
        let env = |name: &str| name.ends_with("_API_KEY").then(|| KEY.to_owned());
        let settings = ModelSettings::read(name, &named(name), &env).expect("settings");
        assert!(!format!("{settings:?}").contains(KEY), "{name}");
    }
}

#[test]
fn the_models_known_without_asking_begin_with_the_chosen_one() {
    let key = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_MODEL", "claude-haiku-4-5")];
    let ids = |choice: &Choice, env: &dyn Fn(&str) -> Option<String>| -> Vec<String> {
        let provider = open(choice, env).expect("settings").expect("not the scripted one");
        provider.models().into_iter().map(|model| model.id).collect()
    };
    let by_env = ids(&named("anthropic"), &only(&key));
    assert_eq!(by_env[0], "claude-haiku-4-5");
    assert_eq!(by_env.iter().filter(|id| *id == "claude-haiku-4-5").count(), 1);
    let by_flag = Choice { model: Some("claude-next".to_owned()), ..named("anthropic") };
    assert_eq!(ids(&by_flag, &only(&key))[0], "claude-next");
    assert_eq!(ids(&named("ollama"), &none), ["auto"]);
}

/// The path and the key's header of a question.
async fn asks(provider: &str, base: &str, env: &[(&str, &str)]) -> (String, Option<String>) {
    let server = Raw::bytes(http("400 Bad Request", "text/plain", "", "no")).await;
    let base = base.replace("SERVER", &server.url).replace("HOST", server.url.trim_start_matches("http://"));
    let mut env: Vec<_> = env.to_vec();
    let mut choice = Choice { model: Some("m".to_owned()), ..named(provider) };
    match provider {
        "ollama" => env.push(("OLLAMA_HOST", &base)),
        _ => choice.base_url = Some(base.clone()),
    }
    let provider = open(&choice, &only(&env)).expect("settings").expect("not the scripted one");
    let (outcome, _) = ask(&*provider, words("x")).await;
    assert!(matches!(outcome, Err(ProviderError::Refused { status: 400, .. })), "{outcome:?}");
    let asked = server.asked().pop().expect("a request");
    let key = ["authorization", "x-api-key", "x-goog-api-key"].iter().find_map(|name| asked.header(name));
    (asked.path().to_owned(), key.map(str::to_owned))
}

#[tokio::test]
async fn addresses_work_with_and_without_their_version() {
    for (provider, base, path) in [
        ("openai", "SERVER", "/v1/chat/completions"),
        ("openai", "SERVER/", "/v1/chat/completions"),
        ("openai", "SERVER/v1", "/v1/chat/completions"),
        ("openai", "SERVER/api/paas/v4/", "/api/paas/v4/chat/completions"),
        ("openai", "SERVER/v1/chat/completions", "/v1/chat/completions"),
        ("openai-responses", "SERVER/openai/v1", "/openai/v1/responses"),
        ("anthropic", "SERVER", "/v1/messages"),
        ("anthropic", "SERVER/anthropic/v1", "/anthropic/v1/messages"),
        ("anthropic", "SERVER/gate", "/gate/v1/messages"),
        ("google", "SERVER/v1beta", "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("google", "SERVER", "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("ollama", "SERVER", "/v1/chat/completions"),
        ("ollama", "HOST", "/v1/chat/completions"),
        ("ollama", "SERVER/v1", "/v1/chat/completions"),
    ] {
        // Another address than the vendor's may work without a key, and gets none.
        assert_eq!(asks(provider, base, &[]).await, (path.to_owned(), None), "{provider} {base}");
    }
}

#[tokio::test]
async fn a_token_is_a_bearer() {
    let key = [("ANTHROPIC_API_KEY", "k1")];
    assert_eq!(asks("anthropic", "SERVER", &key).await.1.as_deref(), Some("k1"));
    let token = [("ANTHROPIC_AUTH_TOKEN", "t1")];
    assert_eq!(asks("anthropic", "SERVER", &token).await.1.as_deref(), Some("Bearer t1"));
    let google = [("GOOGLE_API_KEY", "g1")];
    assert_eq!(asks("google", "SERVER", &google).await.1.as_deref(), Some("g1"));
}
