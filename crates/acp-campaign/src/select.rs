//! Which tests of a suite to run.

use std::sync::Arc;

use acp_comply::{Program, UnmetSeverity};
use globset::{Glob, GlobSet, GlobSetBuilder};

/// A choice of tests. What is empty chooses everything.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    ids: Option<GlobSet>,
    areas: Vec<String>,
    requirements: Vec<String>,
    severities: Vec<UnmetSeverity>,
    shard: Option<(usize, usize)>,
}

/// A choice that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// A bad glob.
    #[error("--test: {0}")]
    Glob(globset::Error),
    /// A bad shard.
    #[error("--shard {0:?}: write it as I/N with 1 ≤ I ≤ N, for instance 2/4")]
    Shard(String),
}

impl Selection {
    /// Only tests whose id matches one of these globs.
    pub fn ids(mut self, globs: &[String]) -> Result<Selection, SelectError> {
        if !globs.is_empty() {
            let mut set = GlobSetBuilder::new();
            for glob in globs {
                set.add(Glob::new(glob).map_err(SelectError::Glob)?);
            }
            self.ids = Some(set.build().map_err(SelectError::Glob)?);
        }
        Ok(self)
    }

    /// Only tests of these areas, in any case of letters.
    #[must_use]
    pub fn areas(mut self, areas: &[String]) -> Selection {
        self.areas = areas.iter().map(|area| area.to_lowercase()).collect();
        self
    }

    /// Only tests that claim one of these requirements.
    #[must_use]
    pub fn requirements(mut self, requirements: &[String]) -> Selection {
        self.requirements = requirements.iter().map(|id| id.to_uppercase()).collect();
        self
    }

    /// Only tests of these severities.
    #[must_use]
    pub fn severities(mut self, severities: &[UnmetSeverity]) -> Selection {
        self.severities = severities.to_vec();
        self
    }

    /// Only one part of several, as `I/N`.
    pub fn shard(mut self, shard: Option<&str>) -> Result<Selection, SelectError> {
        if let Some(text) = shard {
            let bad = || SelectError::Shard(text.to_owned());
            let (part, parts) = text.split_once('/').ok_or_else(bad)?;
            let part: usize = part.trim().parse().map_err(|_| bad())?;
            let parts: usize = parts.trim().parse().map_err(|_| bad())?;
            if part == 0 || part > parts {
                return Err(bad());
            }
            self.shard = Some((part - 1, parts));
        }
        Ok(self)
    }

    /// The tests that are chosen, in their order.
    pub fn choose(&self, programs: &[Arc<Program>]) -> Vec<Arc<Program>> {
        let chosen = programs.iter().filter(|program| self.takes(program));
        match self.shard {
            None => chosen.cloned().collect(),
            Some((part, parts)) => chosen
                .enumerate()
                .filter(|(n, _)| n % parts == part)
                .map(|(_, program)| Arc::clone(program))
                .collect(),
        }
    }

    fn takes(&self, program: &Program) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.is_match(&program.id))
            && (self.areas.is_empty() || self.areas.contains(&program.area.to_lowercase()))
            && (self.requirements.is_empty()
                || program.requirements.iter().any(|id| self.requirements.contains(&id.to_uppercase())))
            && (self.severities.is_empty() || self.severities.contains(&program.severity))
    }
}
