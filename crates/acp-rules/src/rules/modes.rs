//! Session modes.

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use acp_proto::Side;

use crate::rule::Rule;
use crate::session::{Modes, Session};
use crate::state::{Ask, Open, State};

/// `modes` in the answer to session/new, load or resume.
pub(crate) fn stated(state: &mut State, cx: &mut Cx<'_>, id: &str, result: Json<'_>) {
    let Some(modes) = result.some("modes") else { return };
    let side = Side::Agent;
    cx.saw(Rule::ModesInconsistent, side);
    let mut available: Vec<Box<str>> = Vec::new();
    for (index, mode) in modes.get("availableModes").into_iter().flat_map(Json::items).enumerate() {
        let Some(mode) = mode.get_str("id") else { continue };
        if available.iter().any(|other| **other == *mode) {
            let message = format!("the mode {mode:?} is listed twice");
            cx.breach(Rule::ModesInconsistent, side, message)
                .at(format!("/result/modes/availableModes/{index}/id"));
        }
        available.push(mode.into());
    }
    let current = modes.get_str("currentModeId").unwrap_or_default();
    if !available.iter().any(|mode| **mode == *current) {
        let message = format!("the current mode {current:?} is not among the available modes");
        cx.breach(Rule::ModesInconsistent, side, message).at("/result/modes/currentModeId");
    }
    let current = current.into();
    if let Some(session) = state.session(id) {
        session.modes = Some(Modes { available, current });
        session.mode_named = None;
    }
}

/// session/set_mode
pub(crate) fn set_mode(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Client;
    let mode = params.get_str("modeId").unwrap_or_default();
    let session = params.get_str("sessionId").and_then(|id| state.session(&id));
    let mut known = None;
    let mut in_turn = false;
    if let Some(session) = session {
        in_turn = !session.turns.is_empty();
        known = session.modes.as_ref().map(|modes| modes.available.iter().any(|other| **other == *mode));
        if known == Some(false) {
            let message = format!("the mode {mode:?} is not among the available modes");
            cx.breach(Rule::UnknownModeAccepted, side, message).at("/params/modeId");
        } else if known.is_some() {
            cx.saw(Rule::UnknownModeAccepted, side);
        }
        if session.settings.as_ref().is_some_and(|list| list.iter().any(|setting| setting.is_mode)) {
            let message = "session/set_mode is used although a config option for the mode is offered";
            cx.breach(Rule::ModeOverOption, side, message).at("/method");
        }
    }
    Ask::SetMode { mode: (*mode).into(), known, in_turn }
}

/// The answer to session/set_mode.
pub(crate) fn mode_set(state: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = Side::Agent;
    let Ask::SetMode { mode, known, in_turn } = &open.ask else { return };
    match known {
        Some(true) => {
            let id = if *in_turn { "MODE-03" } else { "MODE-02" };
            cx.saw_id(id);
            if answer.is_good() {
                if let Some(session) = open.session.as_deref().and_then(|id| state.session(id)) {
                    session.mode_named = Some((mode.clone(), open.mark));
                    changed(session, mode);
                }
            } else {
                let message = format!("the mode {mode:?} is available, but setting it failed");
                cx.breach(Rule::SetModeFails, side, message).names(id).with(open.mark);
            }
        }
        Some(false) => {
            cx.saw(Rule::UnknownModeAccepted, side);
            if answer.is_good() {
                let message = format!("the mode {mode:?} does not exist, but setting it succeeded");
                cx.breach(Rule::UnknownModeAccepted, side, message).with(open.mark);
            }
        }
        None => {}
    }
}

fn changed(session: &mut Session, mode: &str) {
    if let Some(modes) = &mut session.modes {
        modes.current = mode.into();
    }
}

/// current_mode_update
pub(crate) fn update(session: &mut Session, cx: &mut Cx<'_>, update: Json<'_>) {
    let Some(mode) = update.get_str("currentModeId") else { return };
    cx.saw(Rule::ModeUpdateUnknown, Side::Agent);
    let Some(modes) = &mut session.modes else { return };
    if !modes.available.iter().any(|other| **other == *mode) {
        let message = format!("the mode {mode:?} is not among the available modes");
        cx.breach(Rule::ModeUpdateUnknown, Side::Agent, message)
            .at("/params/update/currentModeId")
            .with(session.mark);
    }
    modes.current = (*mode).into();
    session.mode_named = Some((mode.into(), cx.mark()));
}
