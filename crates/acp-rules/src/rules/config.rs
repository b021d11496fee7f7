//! Config options.

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use acp_proto::Side;

use crate::rule::Rule;
use crate::session::{Session, Setting};
use crate::state::{Ask, Open, State};

/// `configOptions` in the answer to session/new, load or resume.
pub(crate) fn stated(state: &mut State, cx: &mut Cx<'_>, id: &str, result: Json<'_>, pointer: &str) {
    let boolean = state.client.boolean_options;
    let Some(session) = state.session(id) else { return };
    if let Some(list) = result.some("configOptions") {
        session.settings = Some(read(cx, list, boolean, pointer));
    }
    both_ways(session, cx);
}

/// Modes and a mode option come together, and agree.
fn both_ways(session: &Session, cx: &mut Cx<'_>) {
    let option = session.settings.iter().flatten().find(|setting| setting.is_mode);
    let side = Side::Agent;
    match (&session.modes, option, &session.settings) {
        (Some(modes), Some(option), _) => {
            cx.saw(Rule::ModesOnly, side);
            in_sync(cx, &modes.current, &option.current);
        }
        (Some(_), None, Some(_)) => {
            let message = "modes are offered, but no config option of category mode";
            cx.breach(Rule::ModesOnly, side, message).at("/result/configOptions");
        }
        (None, Some(_), _) => {
            let message = "a config option of category mode is offered, but no modes";
            cx.breach(Rule::ModesOnly, side, message).at("/result/configOptions");
        }
        _ => {}
    }
}

fn in_sync(cx: &mut Cx<'_>, mode: &str, option: &str) {
    cx.saw(Rule::ModeOutOfSync, Side::Agent);
    if mode != option {
        let message = format!("the current mode is {mode:?}, but the mode option has {option:?}");
        cx.breach(Rule::ModeOutOfSync, Side::Agent, message);
    }
}

/// Reads and judges a list of options.
fn read(cx: &mut Cx<'_>, list: Json<'_>, boolean_known: bool, pointer: &str) -> Vec<Setting> {
    let side = Side::Agent;
    let mut out: Vec<Setting> = Vec::new();
    for (index, option) in list.items().enumerate().take(512) {
        let at = |name: &str| format!("{pointer}/{index}/{name}");
        let id = option.get_str("id").unwrap_or_default();
        cx.saw(Rule::OptionIdTwice, side);
        if out.iter().any(|other| *other.id == *id) {
            cx.breach(Rule::OptionIdTwice, side, format!("the option {id:?} is listed twice")).at(at("id"));
        }
        let category = option.some("category").and_then(Json::str);
        if let Some(category) = &category {
            cx.saw(Rule::OptionCategory, side);
            let known = ["mode", "model", "model_config", "thought_level"].contains(&&**category);
            if !known && !category.starts_with('_') {
                let message =
                    format!("the category {category:?} is neither known nor starts with an underscore");
                cx.breach(Rule::OptionCategory, side, message).at(at("category"));
            }
        }
        let boolean = option.get("type").is_some_and(|kind| kind.is("boolean"));
        let mut values = Vec::new();
        if boolean {
            if boolean_known {
                cx.saw(Rule::BooleanUnasked, side);
            } else {
                let message = format!(
                    "the option {id:?} is boolean, but the client did not advertise session.configOptions.boolean"
                );
                cx.breach(Rule::BooleanUnasked, side, message).also(&["INIT-08"]).at(at("type"));
            }
        } else {
            values = choices(option);
        }
        let current = match option.get("currentValue") {
            Some(value) => value.str().map_or_else(|| value.raw().into(), Into::into),
            None => Box::from(""),
        };
        if !boolean && option.get("options").is_some() {
            cx.saw(Rule::OptionValueUnknown, side);
            if !values.contains(&current) {
                let message = format!("the current value {current:?} of {id:?} is not among its options");
                cx.breach(Rule::OptionValueUnknown, side, message).at(at("currentValue"));
            }
        }
        out.push(Setting {
            id: id.into(),
            boolean,
            values,
            current,
            is_mode: category.as_deref() == Some("mode"),
        });
    }
    out
}

/// The values of a select, flat or grouped.
fn choices(option: Json<'_>) -> Vec<Box<str>> {
    let mut out = Vec::new();
    for choice in option.get("options").into_iter().flat_map(Json::items) {
        match choice.get("options") {
            Some(group) => {
                out.extend(group.items().filter_map(|choice| choice.get_str("value")).map(Into::into));
            }
            None => out.extend(choice.get_str("value").map(Into::into)),
        }
    }
    out
}

/// session/set_config_option
pub(crate) fn set_option(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Client;
    let id = params.get_str("configId").unwrap_or_default();
    let value = params.get("value");
    let typed_boolean = params.get("type").is_some_and(|kind| kind.is("boolean"));
    let text: Box<str> =
        value.map(|value| value.str().map_or_else(|| value.raw().into(), Into::into)).unwrap_or_default();
    let session = params.get_str("sessionId").and_then(|id| state.session(&id));
    let mut in_turn = false;
    let mut known = None;
    if let Some(session) = session {
        in_turn = !session.turns.is_empty();
        if let Some(settings) = &session.settings {
            let setting = settings.iter().find(|setting| *setting.id == *id);
            let fits = setting.is_some_and(|setting| match setting.boolean {
                true => typed_boolean,
                false => setting.values.contains(&text),
            });
            known = Some(fits);
            cx.saw(Rule::UnknownOptionAccepted, side);
            if !fits {
                let message = match setting {
                    None => format!("the option {id:?} is not offered"),
                    Some(setting) if setting.boolean => {
                        format!("the option {id:?} is boolean: send type \"boolean\"")
                    }
                    Some(_) => format!("the value {text:?} is not among the options of {id:?}"),
                };
                cx.breach(Rule::UnknownOptionAccepted, side, message).at("/params/value");
            }
            if setting.is_some_and(|setting| setting.is_mode) && session.modes.is_some() {
                cx.saw(Rule::ModeOverOption, side);
            }
        }
    }
    Ask::SetOption { id: (*id).into(), value: text, known, in_turn, boolean: typed_boolean }
}

/// The answer to session/set_config_option.
pub(crate) fn option_set(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = Side::Agent;
    let Ask::SetOption { id, value, known, in_turn, boolean } = &open.ask else { return };
    let boolean_known = state.client.boolean_options;
    let Some(session) = open.session.as_deref().and_then(|id| state.session(id)) else { return };
    if *known == Some(false) {
        cx.saw(Rule::UnknownOptionAccepted, side);
        if answer.is_good() {
            let message = format!("the value {value:?} of {id:?} does not exist, but setting it succeeded");
            cx.breach(Rule::UnknownOptionAccepted, side, message).with(open.mark);
        }
        return;
    }
    if *in_turn {
        cx.saw_id("CFG-08");
    }
    if *boolean {
        cx.saw_id("CFG-05");
    }
    let Answer::Good(result) = answer else {
        if *known == Some(true) {
            let name = if *in_turn { "CFG-08" } else { "CFG-05" };
            let breach = cx.breach(
                Rule::SetOptionFails,
                side,
                format!("the value {value:?} of {id:?} is offered, but setting it failed"),
            );
            let breach = breach.names(name).with(open.mark);
            // only booleans and changes during a turn are promised in so many words
            if !in_turn && !boolean {
                breach.warn();
            }
        }
        return;
    };
    let Some(list) = result.some("configOptions") else { return };
    cx.saw(Rule::OptionsPartial, side);
    let now = read(cx, list, boolean_known, "/result/configOptions");
    if let Some(before) = &session.settings {
        partial(cx, before, &now, id, open);
    }
    match now.iter().find(|setting| setting.id == *id) {
        Some(setting) if *known == Some(true) => {
            cx.saw(Rule::OptionNotApplied, side);
            if setting.current != *value {
                let message =
                    format!("{id:?} was set to {value:?}, but the answer says {:?}", setting.current);
                cx.breach(Rule::OptionNotApplied, side, message).at("/result/configOptions").with(open.mark);
            }
        }
        _ => {}
    }
    named_mode_shown(session, cx, &now, id, open);
    mode_changed(session, cx, &now);
    session.settings = Some(now);
}

/// The answer to a change of another option shows the mode that was named since the last list. While a turn runs, the
/// agent may change it itself.
fn named_mode_shown(session: &Session, cx: &mut Cx<'_>, now: &[Setting], set: &str, open: &Open) {
    let Some((mode, mark)) = &session.mode_named else { return };
    let Some(option) = now.iter().find(|setting| setting.is_mode && &*setting.id != set) else { return };
    if !session.turns.is_empty() || mark.index > open.mark.index {
        return;
    }
    cx.saw(Rule::ModeOutOfSync, Side::Agent);
    if option.current != *mode {
        let message = format!("the current mode is {mode:?}, but the mode option has {:?}", option.current);
        cx.breach(Rule::ModeOutOfSync, Side::Agent, message).at("/result/configOptions").with(*mark);
    }
}

/// The mode option changed, so the mode did too. Whether the agent announces it is seen at the next statement.
fn mode_changed(session: &mut Session, cx: &mut Cx<'_>, now: &[Setting]) {
    session.mode_named = None;
    let option = now.iter().find(|setting| setting.is_mode);
    if let (Some(modes), Some(option)) = (&mut session.modes, option) {
        cx.saw(Rule::ModeOutOfSync, Side::Agent);
        modes.current = option.current.clone();
    }
}

fn partial(cx: &mut Cx<'_>, before: &[Setting], now: &[Setting], set: &str, open: &Open) {
    let missing: Vec<&str> =
        before.iter().filter(|old| !now.iter().any(|new| new.id == old.id)).map(|old| &*old.id).collect();
    if missing.is_empty() {
        return;
    }
    let message = format!("the answer lacks the options {}", missing.join(", "));
    let only_the_set_one = now.iter().all(|setting| *setting.id == *set);
    let breach =
        cx.breach(Rule::OptionsPartial, Side::Agent, message).at("/result/configOptions").with(open.mark);
    // a change may take other options away; an answer with nothing but the changed one is no complete list
    if !only_the_set_one {
        breach.warn();
    }
}

/// config_option_update
pub(crate) fn update(session: &mut Session, cx: &mut Cx<'_>, update: Json<'_>, boolean_known: bool) {
    let Some(list) = update.some("configOptions") else { return };
    cx.saw(Rule::OptionUpdatePartial, Side::Agent);
    let now = read(cx, list, boolean_known, "/params/update/configOptions");
    if let Some(before) = &session.settings {
        let missing: Vec<&str> =
            before.iter().filter(|old| !now.iter().any(|new| new.id == old.id)).map(|old| &*old.id).collect();
        if !missing.is_empty() {
            let message = format!("config_option_update lacks the options {}", missing.join(", "));
            let breach = cx.breach(Rule::OptionUpdatePartial, Side::Agent, message);
            let breach = breach.at("/params/update/configOptions");
            // a change may take other options away; one option of several is no complete list
            let alone = now.len() == 1 && before.iter().any(|old| old.id == now[0].id);
            if !alone {
                breach.warn();
            }
        }
    }
    mode_changed(session, cx, &now);
    session.settings = Some(now);
}
