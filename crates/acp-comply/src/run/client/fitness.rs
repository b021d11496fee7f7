//! Whether a test can be run with this client and this driver.

use super::super::{Run, TestEnding};

use crate::agent_table::AgentTable;
use crate::program::{ClientStep, PermissionHabit, StepKind};
use std::collections::BTreeSet;

impl Run {
    /// A reason not to begin a test of a client.
    pub(in super::super) fn client_hindrance(&self) -> Option<TestEnding> {
        let test = self.client_test()?;
        let na = |reason: String| Some(TestEnding::NotApplicable { reason, blocked: false });
        let can = &self.setup.can;
        let table = AgentTable::built_in();
        if let Some(area) = self.own_areas(&table).into_iter().find(|area| !can.own.contains(*area)) {
            return na(format!("the area {area:?} is the harness's, not the client's"));
        }
        if let Some(verb) = test.verbs.iter().find(|verb| !can.verbs.contains(*verb)) {
            return na(format!("the driver has no verb {verb:?}"));
        }
        if let Some(way) = self.answers_wanted(&table).into_iter().find(|way| !can.permissions.contains(way))
        {
            return na(format!("the driver cannot answer questions for permission with {way:?}"));
        }
        let needs = &self.program.needs;
        if let Some(reason) = needs.iter().find_map(|name| self.setup.missing.get(name)) {
            return Some(TestEnding::NotReached(reason.clone()));
        }
        let unknown = needs.iter().find(|name| !self.setup.found.contains_key(*name));
        unknown.map(|name| {
            let reason = format!("no test has shown that the client does {name:?} when it can");
            TestEnding::NotReached(reason)
        })
    }

    /// The areas that must be the client's own: as the file says, or as its claims say.
    fn own_areas<'r>(&'r self, table: &'r AgentTable) -> BTreeSet<&'r str> {
        match self.client_test() {
            Some(test) if !test.own.is_empty() => test.own.iter().map(String::as_str).collect(),
            _ => self.program.claims.iter().filter_map(|claim| table.area_of(claim.row())).collect(),
        }
    }

    /// The ways to answer questions for permission that the test uses. That a client allows is not asked for.
    fn answers_wanted(&self, table: &AgentTable) -> BTreeSet<String> {
        let habit =
            self.client_test().map(|test| test.permission).filter(|habit| *habit != PermissionHabit::Allow);
        let steps = self.arena.iter().filter_map(|step| {
            let StepKind::Client(step) = &step.kind else { return None };
            let ClientStep::Drive { verb, fields, .. } = step.as_ref() else { return None };
            let field = table.verbs.get(verb)?.permission.as_ref()?;
            fields.get(field)?.as_text().map(str::to_owned)
        });
        steps.chain(habit.map(|habit| habit.as_str().to_owned())).collect()
    }
}
