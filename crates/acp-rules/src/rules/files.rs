//! fs/read_text_file and fs/write_text_file.

use crate::cx::Cx;
use crate::json::Json;
use crate::judge::Answer;
use acp_proto::Side;

use crate::rule::Rule;
use crate::rules::paths::is_absolute;
use crate::rules::{permissions, turns};
use crate::state::{Ask, Open, State};

/// fs/read_text_file
pub(crate) fn read(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    let side = Side::Agent;
    cx.saw_id("FS-01");
    if !state.client.read {
        let message = "fs/read_text_file is called, but the client did not advertise fs.readTextFile";
        cx.breach(Rule::ReadUnadvertised, side, message).also(&["FS-01", "INIT-08"]).at("/method");
    }
    if let Some(line) = params.some("line").and_then(Json::i64) {
        cx.saw(Rule::FileLine, side);
        if line < 1 {
            let message = "the read starts at line 0, but lines are counted from 1";
            cx.breach(Rule::FileLine, side, message).at("/params/line");
        }
    }
    turns::new_work(state, cx, params, "a file");
    Ask::Read { relative: path(cx, params), limit: params.some("limit").and_then(Json::i64) }
}

/// fs/write_text_file
pub(crate) fn write(state: &mut State, cx: &mut Cx<'_>, params: Json<'_>) -> Ask {
    cx.saw_id("FS-01");
    if !state.client.write {
        let message = "fs/write_text_file is called, but the client did not advertise fs.writeTextFile";
        cx.breach(Rule::WriteUnadvertised, Side::Agent, message).also(&["FS-01", "INIT-08"]).at("/method");
    }
    turns::new_work(state, cx, params, "writing a file");
    permissions::effect(state, cx, params, "a file is written");
    Ask::Write { relative: path(cx, params) }
}

/// Gives whether the path is relative.
fn path(cx: &mut Cx<'_>, params: Json<'_>) -> bool {
    cx.saw(Rule::FilePath, Side::Agent);
    cx.saw(Rule::FileSession, Side::Agent);
    let path = params.get_str("path").unwrap_or_default();
    let relative = !is_absolute(&path);
    if relative {
        let message = format!("the path {path:?} is not absolute");
        cx.breach(Rule::FilePath, Side::Agent, message).at("/params/path");
    }
    relative
}

/// The client answers.
pub(crate) fn answered(_: &mut State, cx: &mut Cx<'_>, open: &Open, answer: Answer<'_>) {
    let side = Side::Client;
    let (relative, limit) = match open.ask {
        Ask::Read { relative, limit } => (relative, limit),
        Ask::Write { relative } => (relative, None),
        _ => return,
    };
    if relative {
        cx.saw(Rule::FilePath, side);
        if answer.is_good() {
            let message = format!("{} succeeded with a relative path", open.method);
            cx.breach(Rule::FilePath, side, message).with(open.mark);
        }
    }
    let (Some(limit), Answer::Good(result)) = (limit.and_then(|limit| usize::try_from(limit).ok()), answer)
    else {
        return;
    };
    cx.saw(Rule::ReadOverLimit, side);
    let lines = result.get_str("content").map_or(0, |text| text.lines().count());
    if lines > limit {
        let message = format!("{lines} lines were returned, {limit} were asked for");
        cx.breach(Rule::ReadOverLimit, side, message).at("/result/content").with(open.mark);
    }
}
