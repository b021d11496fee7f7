//! The checklist: one entry per area.

use std::collections::BTreeMap;

use acp_comply::Verdict;
use acp_proto::update;
use serde_json::{Value, json};

/// How far the areas are.
#[derive(Debug, Default)]
pub(super) struct Checklist {
    areas: Vec<(String, usize)>,
    done: BTreeMap<String, Vec<Verdict>>,
}

impl Checklist {
    /// A list for tests of these areas, in their order.
    pub fn new<'a>(areas: impl Iterator<Item = &'a str>) -> Checklist {
        let mut list = Checklist::default();
        for area in areas {
            match list.areas.iter_mut().find(|(known, _)| known == area) {
                Some((_, tests)) => *tests += 1,
                None => list.areas.push((area.to_owned(), 1)),
            }
        }
        list
    }

    /// Takes a verdict in.
    pub fn take(&mut self, area: &str, verdict: Verdict) {
        self.done.entry(area.to_owned()).or_default().push(verdict);
    }

    /// The whole plan as an update; `now` is the area that runs.
    pub fn update(&self, now: Option<&str>) -> Value {
        let entry = |(area, tests): &(String, usize)| {
            let done = self.done.get(area).map_or(&[][..], Vec::as_slice);
            let hold = done.iter().filter(|verdict| **verdict == Verdict::Pass).count();
            let fail = done.iter().filter(|verdict| **verdict == Verdict::Fail).count();
            let status = match done.len() {
                count if count >= *tests => "completed",
                _ if now == Some(area) => "in_progress",
                _ => "pending",
            };
            let mut content = format!("{area} {}/{tests}: {hold} hold", done.len());
            if fail > 0 {
                content.push_str(&format!(", {fail} fail"));
            }
            json!({ "content": content, "priority": "medium", "status": status })
        };
        let entries: Vec<Value> = self.areas.iter().map(entry).collect();
        json!({ "sessionUpdate": update::PLAN, "entries": entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_completed_with_its_last_test() {
        let mut list = Checklist::new(["Files", "Files", "Terminals"].into_iter());
        list.take("Files", Verdict::Pass);
        let plan = list.update(Some("Files"));
        assert_eq!(plan["entries"][0]["content"], "Files 1/2: 1 hold");
        assert_eq!(plan["entries"][0]["status"], "in_progress");
        list.take("Files", Verdict::Fail);
        let plan = list.update(Some("Terminals"));
        assert_eq!(plan["entries"][0]["content"], "Files 2/2: 1 hold, 1 fail");
        assert_eq!(plan["entries"][0]["status"], "completed");
        assert_eq!(plan["entries"][1]["status"], "in_progress");
    }
}
