//! Plans, slash commands, compactions.

use crate::cx::Cx;
use crate::json::Json;
use acp_proto::{Side, stop_reason};

use crate::rule::Rule;
use crate::session::{Plan, Session, Stage, Status};

/// plan
pub(crate) fn update(session: &mut Session, cx: &mut Cx<'_>, update: Json<'_>) {
    let side = Side::Agent;
    let mut entries: Vec<(Box<str>, bool)> = Vec::new();
    for entry in update.get("entries").into_iter().flat_map(Json::items).take(1024) {
        let content = entry.get_str("content").unwrap_or_default();
        entries.push((content.into(), entry.get("status").is_some_and(|status| status.is("completed"))));
    }
    session.has_planned |= !entries.is_empty();
    if session.stage == Stage::Loading {
        session.plan = None;
        return;
    }
    let mark = cx.mark();
    let turn = session.turn_number();
    let mut times = 1;
    cx.saw_id("PLAN-01");
    if let Some(before) = session.plan.as_ref().filter(|plan| plan.sent_in_turn == turn) {
        cx.saw(Rule::PlanPartial, side);
        times = before.times + 1;
        // an update that only has known entries, and fewer of them: the rest was left out, not planned anew
        let only_known =
            entries.iter().all(|(content, _)| before.entries.iter().any(|(old, _)| old == content));
        let dropped: Vec<&str> = before
            .entries
            .iter()
            .filter(|(old, done)| !done && !entries.iter().any(|(content, _)| content == old))
            .map(|(old, _)| &**old)
            .collect();
        if only_known && !entries.is_empty() && !dropped.is_empty() {
            let message = format!(
                "the plan update leaves out {} unfinished entries, such as {:?}",
                dropped.len(),
                dropped[0]
            );
            let earlier = before.mark;
            cx.breach(Rule::PlanPartial, side, message).at("/params/update/entries").with(earlier);
        }
    }
    session.plan = Some(Plan { mark, entries, sent_in_turn: turn, times });
}

/// A plan without entries; one that was sent once and never again, although the turn went through.
pub(crate) fn turn_ended(session: &mut Session, cx: &mut Cx<'_>, turn: u64, stop: Option<&str>) {
    let Some(plan) = session.plan.as_ref().filter(|plan| plan.sent_in_turn == turn) else {
        return;
    };
    // an empty list takes an earlier plan back; without one, it reports nothing
    if session.whole && !session.has_planned {
        let message = "the turn ended, and no plan of the session has a single entry";
        cx.breach(Rule::PlanEmpty, Side::Agent, message).with(plan.mark);
    }
    if stop != Some(stop_reason::END_TURN) {
        return;
    }
    cx.saw(Rule::PlanStale, Side::Agent);
    let own = || session.tools.values().filter(|tool| tool.turn == turn && !tool.replayed);
    // a plan of which nothing could be done has no progress to report
    let is_stuck = own().next().is_some() && own().all(|tool| tool.status != Status::Completed);
    let is_untouched = plan.entries.len() > 1 && plan.entries.iter().all(|(_, done)| !done);
    if plan.times == 1 && is_untouched && !is_stuck {
        let message = "the turn ended, but the plan was never updated: no entry is completed";
        cx.breach(Rule::PlanStale, Side::Agent, message).with(plan.mark);
    }
}

/// available_commands_update
pub(crate) fn commands(session: &mut Session, cx: &mut Cx<'_>, update: Json<'_>) {
    let list = update.get("availableCommands");
    if !session.commands.is_empty() {
        cx.saw_id("CMD-02");
    }
    let names = list.into_iter().flat_map(Json::items).filter_map(|command| command.get_str("name"));
    session.commands = names.take(1024).map(Into::into).collect();
}

/// compaction_update: one final status.
pub(crate) fn compaction(session: &mut Session, cx: &mut Cx<'_>, update: Json<'_>) {
    let (Some(id), Some(status)) = (update.get_str("compactionId"), update.get_str("status")) else { return };
    let is_final = matches!(&*status, "completed" | "failed" | "cancelled");
    let ended = session.compactions.get(&*id).copied().unwrap_or(false);
    if is_final || ended {
        cx.saw(Rule::CompactionReopened, Side::Agent);
    }
    if ended {
        let message = format!("the compaction {id:?} had ended, and goes on with status {status}");
        cx.breach(Rule::CompactionReopened, Side::Agent, message).at("/params/update/status");
    }
    if session.compactions.len() < 1024 {
        session.compactions.insert(id.into(), ended || is_final);
    }
}
