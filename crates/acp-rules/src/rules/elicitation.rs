//! Elicitation: forms and URLs.

use crate::cx::Cx;
use crate::json::{Json, Kind, Tape};
use crate::judge::Answer;
use acp_proto::Side;

use crate::rule::Rule;
use crate::state::{Ask, Open, State};

/// Words in a field's name that mean a secret.
const SECRETS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "api_key",
    "apikey",
    "api key",
    "access_token",
    "private_key",
    "credential",
];

/// The longest form that is kept to judge the answer.
const FORM: usize = 32 * 1024;

/// elicitation/create
pub(crate) fn create(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Agent;
    let mode = params.get_str("mode").unwrap_or_default();
    let (advertised, known) = match &*mode {
        "form" => (state.client.form, true),
        "url" => (state.client.url, true),
        _ => (false, false),
    };
    cx.saw(Rule::ElicitUnadvertised, side);
    if !advertised {
        let message =
            format!("elicitation in mode {mode:?}, but the client did not advertise elicitation.{mode}");
        cx.breach(Rule::ElicitUnadvertised, side, message).also(&["INIT-08"]).at("/params/mode");
    }
    cx.saw(Rule::ElicitScope, side);
    if params.some("sessionId").is_some() && params.some("requestId").is_some() {
        cx.breach(Rule::ElicitScope, side, "the elicitation has both a sessionId and a requestId")
            .at("/params");
    }
    let mut form = None;
    if &*mode == "form" {
        form = form_of(cx, params, state.client.url);
    } else if &*mode == "url" {
        url(state, cx, params);
    }
    Ask::Elicit { form, known_mode: known, advertised }
}

fn form_of(cx: &mut Cx<'_>, params: Json<'_>, has_url: bool) -> Option<Box<str>> {
    let side = Side::Agent;
    let schema = params.get("requestedSchema")?;
    cx.saw(Rule::ElicitSecret, side);
    // a client without URL mode is no excuse to ask for a secret in a form
    let also: &'static [&'static str] = if has_url { &[] } else { &["ELI-09"] };
    also.iter().for_each(|id| cx.saw_id(id));
    cx.saw(Rule::ElicitFormUrl, side);
    for (key, property) in schema.get("properties").into_iter().flat_map(Json::fields) {
        let name = key.str().unwrap_or_default();
        let title = property.get_str("title").unwrap_or_default();
        let lower = format!("{name} {title}").to_lowercase();
        if SECRETS.iter().any(|word| lower.contains(word)) {
            let message = format!("the form field {name:?} seems to ask for a secret");
            cx.breach(Rule::ElicitSecret, side, message)
                .also(also)
                .at(format!("/params/requestedSchema/properties/{name}"));
        }
        let kind = property.get_str("type").unwrap_or_default();
        if kind == "object" || property.get("properties").is_some() {
            let message = format!("the form field {name:?} is an object; a form is flat");
            cx.breach(Rule::Schema, side, message)
                .names("ELI-05")
                .at(format!("/params/requestedSchema/properties/{name}"));
        }
        let texts = [property.get_str("title"), property.get_str("description")];
        if texts.iter().flatten().any(|text| names_url(text)) {
            let message = format!("the form field {name:?} has a URL in its text");
            cx.breach(Rule::ElicitFormUrl, side, message)
                .at(format!("/params/requestedSchema/properties/{name}"));
        }
    }
    let text = schema.raw();
    (text.len() <= FORM).then(|| text.into())
}

fn names_url(text: &str) -> bool {
    text.contains("http://") || text.contains("https://")
}

fn url(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) {
    let side = Side::Agent;
    let id = params.get_str("elicitationId").unwrap_or_default();
    cx.saw(Rule::ElicitIdTwice, side);
    if state.elicitations.get(&*id) == Some(&true) {
        let message = format!("the elicitationId {id:?} is in use already");
        cx.breach(Rule::ElicitIdTwice, side, message).at("/params/elicitationId");
    }
    if state.elicitations.len() < 4096 {
        state.elicitations.insert((*id).into(), true);
    }
    let url = params.get_str("url").unwrap_or_default();
    cx.saw(Rule::ElicitUrlPlain, side);
    cx.saw(Rule::ElicitUrlCredentials, side);
    let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| host.starts_with(name));
    if scheme != "https" && !local {
        cx.breach(Rule::ElicitUrlPlain, side, format!("the URL {url:?} is not https")).at("/params/url");
    }
    let query = url.split_once('?').map_or("", |(_, query)| query).to_lowercase();
    let telling = ["token=", "password=", "api_key=", "apikey=", "secret=", "email="];
    if authority.contains('@') || telling.iter().any(|word| query.contains(word)) {
        cx.breach(Rule::ElicitUrlCredentials, side, "the URL seems to carry credentials or personal data")
            .at("/params/url");
    }
}

/// elicitation/complete
pub(crate) fn complete(state: &mut State, cx: &mut Cx<'_>, params: Option<Json<'_>>) {
    let Some(id) = params.and_then(|params| params.get_str("elicitationId")) else { return };
    cx.saw(Rule::ElicitCompleteUnknown, Side::Agent);
    match state.elicitations.get_mut(&*id) {
        Some(open) => *open = false,
        None => {
            let message = format!("elicitation/complete for {id:?}, which was never asked");
            cx.breach(Rule::ElicitCompleteUnknown, Side::Agent, message).at("/params/elicitationId");
        }
    }
}

/// The client answers.
pub(crate) fn answered(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = Side::Client;
    let Ask::Elicit { form, known_mode, advertised } = &open.ask else { return };
    let action = match answer {
        Answer::Good(result) => result.get_str("action"),
        Answer::Bad(_) => None,
    };
    if action.as_deref() != Some("accept")
        && let Some(turn) =
            open.session.as_deref().and_then(|id| state.session(id)).and_then(|session| session.turn())
    {
        turn.declined = true;
        cx.saw_id("ELI-11");
    }
    if !advertised {
        let id = if *known_mode { "C-ELI-11" } else { "C-ELI-17" };
        cx.saw_id(id);
        if action.as_deref() == Some("accept") {
            let message = "an elicitation in a mode that the client does not have was accepted";
            cx.breach(Rule::ElicitModeAccepted, side, message).names(id).at("/result/action").with(open.mark);
        }
        return;
    }
    if let Some(action) = &action {
        cx.saw(Rule::ElicitAction, side);
        if !matches!(&**action, "accept" | "decline" | "cancel") {
            let message = format!("the action {action:?} is none of accept, decline and cancel");
            cx.breach(Rule::ElicitAction, side, message).at("/result/action").with(open.mark);
        }
    }
    if let (Some("accept"), Some(form), Answer::Good(result)) = (action.as_deref(), form, answer) {
        accepted(cx, open, form, result);
    }
}

/// Accepted content against the form.
fn accepted(cx: &mut Cx<'_>, open: &Open, form: &str, result: Json<'_>) {
    let side = Side::Client;
    cx.saw(Rule::ElicitContent, side);
    cx.saw_id("C-ELI-05");
    let mut tape = Tape::default();
    let Some(form) = tape.read(form) else { return };
    let content = result.some("content");
    for name in form.some("required").into_iter().flat_map(Json::items).filter_map(Json::str) {
        if content.is_none_or(|content| content.get(&name).is_none()) {
            let message = format!("the required value {name:?} is missing");
            cx.breach(Rule::ElicitContent, side, message).at("/result/content").with(open.mark);
        }
    }
    for (key, value) in content.into_iter().flat_map(Json::fields) {
        let name = key.str().unwrap_or_default();
        let Some(property) = form.path(&["properties", &name]) else { continue };
        if let Some(problem) = misfit(property, value) {
            let message = format!("the value {name:?} {problem}");
            cx.breach(Rule::ElicitContent, side, message)
                .at(format!("/result/content/{name}"))
                .with(open.mark);
        }
    }
}

/// Why a value does not fit a property of a form.
fn misfit(property: Json<'_>, value: Json<'_>) -> Option<String> {
    let kind = property.get_str("type").unwrap_or_default();
    let fits = match &*kind {
        "string" => value.kind() == Kind::String,
        "number" => value.kind() == Kind::Number,
        "integer" => value.is_integer(),
        "boolean" => value.kind() == Kind::Bool,
        "array" => value.kind() == Kind::Array,
        _ => true,
    };
    if !fits {
        return Some(format!("must be {kind}, it is {}", value.kind().word()));
    }
    if let Some(number) = value.f64() {
        let below = property.get("minimum").and_then(Json::f64).is_some_and(|min| number < min);
        let above = property.get("maximum").and_then(Json::f64).is_some_and(|max| number > max);
        return (below || above).then(|| "is out of range".to_owned());
    }
    let text = value.str()?;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let short = property.get("minLength").and_then(Json::i64).is_some_and(|min| length < min);
    let long = property.get("maxLength").and_then(Json::i64).is_some_and(|max| length > max);
    if short || long {
        return Some("has the wrong length".into());
    }
    let choices: Vec<_> = match (property.some("enum"), property.some("oneOf")) {
        (Some(list), _) => list.items().filter_map(Json::str).collect(),
        (None, Some(list)) => list.items().filter_map(|choice| choice.get_str("const")).collect(),
        (None, None) => return None,
    };
    (!choices.contains(&text)).then(|| "is not one of the choices".into())
}
