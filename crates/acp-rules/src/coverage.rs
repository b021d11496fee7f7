//! Which requirements a conversation put to the test, and how they fared.

use serde::Serialize;

use crate::registry::{Requirement, registry};

/// How a requirement fared in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequirementStanding {
    /// The situation arose and every rule held.
    Held,
    /// A rule of it was broken.
    Broken,
    /// Rules exist, but the situation never arose.
    NeverReached,
    /// Frames alone do not show it.
    NotJudged,
}

/// One requirement's row.
#[derive(Debug, Clone, Serialize)]
pub struct CoverageRow {
    /// The requirement.
    pub requirement: &'static str,
    /// How it fared.
    pub standing: RequirementStanding,
    /// The first frame that put it to the test, or that broke it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
}

impl CoverageRow {
    /// Whether the situation arose.
    #[must_use]
    pub fn exercised(&self) -> bool {
        matches!(self.standing, RequirementStanding::Held | RequirementStanding::Broken)
    }

    /// Whether rules for it exist.
    #[must_use]
    pub fn passive(&self) -> bool {
        self.standing != RequirementStanding::NotJudged
    }
}

/// The whole registry against one conversation.
#[derive(Debug, Clone, Serialize)]
pub struct Coverage {
    /// One row per requirement, in the registry's order.
    pub rows: Vec<CoverageRow>,
}

impl Coverage {
    /// The row of a requirement.
    #[must_use]
    pub fn get(&self, requirement: &str) -> Option<&CoverageRow> {
        self.rows.iter().find(|row| row.requirement == requirement)
    }

    /// How many rows stand so.
    #[must_use]
    pub fn count(&self, standing: RequirementStanding) -> usize {
        self.rows.iter().filter(|row| row.standing == standing).count()
    }

    /// Adds another conversation: broken beats held, held beats never reached.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            let worse = match (mine.standing, theirs.standing) {
                (RequirementStanding::Broken, _)
                | (_, RequirementStanding::NotJudged | RequirementStanding::NeverReached) => false,
                (_, RequirementStanding::Broken) => true,
                (mine, RequirementStanding::Held) => mine != RequirementStanding::Held,
            };
            if worse {
                *mine = theirs.clone();
            }
        }
    }
}

/// The marks from which coverage is made, one place per requirement; 0 = never, else the frame's number + 1.
#[derive(Debug)]
pub(crate) struct Marks {
    exercised: Vec<u64>,
    broken: Vec<u64>,
}

impl Marks {
    pub(crate) fn new() -> Self {
        let count = registry().all().len();
        Self { exercised: vec![0; count], broken: vec![0; count] }
    }

    #[inline]
    pub(crate) fn exercise(&mut self, place: u16, index: u64) {
        let mark = &mut self.exercised[usize::from(place)];
        if *mark == 0 {
            *mark = index + 1;
        }
    }

    pub(crate) fn break_(&mut self, place: u16, index: u64) {
        let mark = &mut self.broken[usize::from(place)];
        if *mark == 0 {
            *mark = index + 1;
        }
    }

    pub(crate) fn coverage(&self, passive: &[bool]) -> Coverage {
        let rows = registry()
            .all()
            .iter()
            .enumerate()
            .map(|(place, row)| self.row(place, row, passive[place]))
            .collect();
        Coverage { rows }
    }

    fn row(&self, place: usize, requirement: &'static Requirement, passive: bool) -> CoverageRow {
        let (standing, first) = match (self.broken[place], self.exercised[place]) {
            (0, 0) if passive => (RequirementStanding::NeverReached, 0),
            (0, 0) => (RequirementStanding::NotJudged, 0),
            (0, first) => (RequirementStanding::Held, first),
            (first, _) => (RequirementStanding::Broken, first),
        };
        CoverageRow { requirement: &requirement.id, standing, first: first.checked_sub(1) }
    }
}
