//! The capability matrix: rows are capabilities, columns are agents, cells say what was declared and what was seen.
//!
//! A pure view of results. Which capabilities there are, where an agent declares them and which tests speak for them
//! stands in a JSON file (`data/matrix.json` by default), so that a new row needs no code.

mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use acp_comply::{AgentRun, Results, Verdict};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, context};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ReportError, summary};

/// The rows that are used when no others are given.
pub const DEFAULT_ROWS: &str = include_str!("../data/matrix.json");
/// The rows of the matrix of real agents, whose tests are in the suites `v1` and `questions`.
pub const AGENT_ROWS: &str = include_str!("../../../docs/matrix-rows.json");
const TEMPLATE: &str = include_str!("../templates/matrix.html");

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The name in the table.
    pub name: String,
    /// What it means, where the name does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Paths in the answer to the introduction where it is declared, one per dialect. Empty for what every agent must
    /// be able to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<String>,
    /// The agent must have been reached by an address that begins like this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transport: Vec<String>,
    /// The tests that speak for it: ids, `*` allowed.
    pub tests: Vec<String>,
    /// Tests that show it by the way, ids as above: one that failed for other reasons speaks for the capability all the
    /// same when the telling frame came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<String>,
    /// What the telling frame of the agent holds, most telling first; `result:` before it wants a successful response.
    #[serde(default)]
    pub look: Vec<String>,
    /// What of the telling frame the cell says: a path, `*` for every element of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub show: Option<String>,
    /// The cell says what its tests noted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notes: bool,
    /// Requirements of the capability: where the judge found one broken in a test of the row, it is not right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// The scripted model must have been told something in this list of its journal, and the cell says what: with
    /// `mcpTools`, the tools of MCP servers that reached it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
}

/// What was seen of a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapabilityState {
    /// Exercised, and right.
    Right,
    /// Supported or declared, but wrong.
    Wrong,
    /// Not supported.
    Unsupported,
    /// Not reached.
    Unreached,
}

impl CapabilityState {
    /// The sign in the table.
    pub fn sign(self) -> &'static str {
        match self {
            CapabilityState::Right => "✅",
            CapabilityState::Wrong => "⚠️",
            CapabilityState::Unsupported => "❌",
            CapabilityState::Unreached => "❓",
        }
    }
}

/// What an agent says about a capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// Where it says so.
    pub path: String,
    /// What stands there, as JSON text; `None` when nothing does.
    pub value: Option<String>,
    /// Whether that is a yes.
    pub yes: bool,
}

/// A test that speaks for a cell, and a piece of its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellEvidence {
    /// The test's id.
    pub test: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Why, when it is not a plain pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The telling frame, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
}

/// One agent and one capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixCell {
    /// What was seen.
    pub seen: CapabilityState,
    /// What the agent declares; `None` when this capability needs no declaration or none is known.
    pub declared: Option<Declared>,
    /// The cell in a sentence.
    pub words: String,
    /// What the sentence rests on.
    pub evidence: Vec<CellEvidence>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixColumn {
    /// The name in the table.
    pub name: String,
    /// Name and version as the agent gives them.
    pub title: String,
    /// The version that was installed, and when it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// How it was reached.
    pub targets: Vec<String>,
    /// One cell per row.
    pub cells: Vec<MatrixCell>,
}

/// The whole matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    /// The capabilities.
    pub rows: Vec<MatrixRow>,
    /// The agents.
    pub columns: Vec<MatrixColumn>,
}

/// The forms a matrix can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatrixFormat {
    /// A table with footnotes.
    Markdown,
    /// One self-contained page.
    Html,
    /// The matrix itself.
    Json,
}

impl Matrix {
    /// Makes the matrix. Runs of an agent with the same name and dialect, in whichever results, share a column, unless
    /// they were started by different command lines.
    pub fn of(results: &[Results], rows: Vec<MatrixRow>) -> Matrix {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let with_date = results.iter().flat_map(|results| {
            results.agents.iter().map(|agent| (results.started.get(..10).unwrap_or(&results.started), agent))
        });
        for (date, agent) in with_date {
            let name = match agent.dialect.as_deref() {
                Some(dialect) if dialect != "v1" => format!("{} ({dialect})", agent.name),
                _ => agent.name.clone(),
            };
            let fits = |group: &&mut Group<'_>| {
                group.name == name && group.runs.iter().all(|run| may_be_one(run, agent))
            };
            match groups.iter_mut().find(fits) {
                Some(group) => {
                    group.runs.push(agent);
                    group.dates.insert(date);
                }
                None => groups.push(Group { name, runs: vec![agent], dates: BTreeSet::from([date]) }),
            }
        }
        let columns = groups.iter().enumerate().map(|(at, group)| {
            let name = match groups[..at].iter().filter(|before| before.name == group.name).count() {
                0 => group.name.clone(),
                before => format!("{}-{}", group.name, before + 1),
            };
            column(name, group, &rows)
        });
        let columns = columns.collect();
        Matrix { rows, columns }
    }

    /// Reads rows from JSON.
    pub fn rows(text: &str) -> Result<Vec<MatrixRow>, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Renders the matrix. The text ends in a newline.
    pub fn render(&self, format: MatrixFormat) -> Result<String, ReportError> {
        Ok(match format {
            MatrixFormat::Markdown => self.markdown(),
            MatrixFormat::Html => self.harmless()?.html()?,
            MatrixFormat::Json => {
                let mut text = acp_text::json(&serde_json::to_string_pretty(self)?).into_owned();
                text.push('\n');
                text
            }
        })
    }

    /// The same with every text on one line and without what steers or hides.
    fn harmless(&self) -> Result<Matrix, serde_json::Error> {
        fn clean(value: &mut Value) {
            match value {
                Value::String(text) => *text = acp_text::line(text),
                Value::Array(items) => items.iter_mut().for_each(clean),
                Value::Object(members) => members.values_mut().for_each(clean),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        let mut value = serde_json::to_value(self)?;
        clean(&mut value);
        serde_json::from_value(value)
    }

    fn markdown(&self) -> String {
        let mut out = String::from("| Capability |");
        for column in &self.columns {
            let _ = write!(out, " {} |", escape(&column.name));
        }
        out.push_str("\n|---|");
        out.push_str(&"---|".repeat(self.columns.len()));
        out.push('\n');
        let mut notes = String::new();
        let mut number = 0;
        for (n, row) in self.rows.iter().enumerate() {
            let _ = write!(out, "| {} |", escape(&row.name));
            for column in &self.columns {
                number += 1;
                let cell = &column.cells[n];
                let _ = write!(out, " {}{} [^{number}] |", cell.seen.sign(), cell.declared_words());
                let _ = write!(
                    notes,
                    "[^{number}]: {}, {}: {}",
                    escape(&column.name),
                    escape(&row.name),
                    escape(&cell.words)
                );
                for evidence in &cell.evidence {
                    let _ = write!(notes, " · {} {}", evidence.verdict, evidence.test);
                    if let Some(reason) = &evidence.reason {
                        let _ = write!(notes, ": {}", escape(reason));
                    }
                    if let Some(excerpt) = &evidence.excerpt {
                        let _ = write!(notes, " {}", code(excerpt));
                    }
                }
                notes.push('\n');
            }
            out.push('\n');
        }
        let _ = write!(out, "\n{LEGEND}\n\n");
        for column in &self.columns {
            let run = column.run.as_ref().map(|run| format!(" ({})", escape(run))).unwrap_or_default();
            let _ = writeln!(
                out,
                "- **{}**: {}{run}, reached by {}",
                escape(&column.name),
                escape(&column.title),
                column.targets.iter().map(|target| code(target)).collect::<Vec<_>>().join(" and ")
            );
        }
        let _ = write!(out, "\n{notes}");
        out
    }

    fn html(&self) -> Result<String, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.add_template("matrix", TEMPLATE)?;
        let lines: Vec<BTreeMap<&str, Value>> = self
            .rows
            .iter()
            .enumerate()
            .map(|(n, row)| {
                let cells = self.columns.iter().map(|column| {
                    let cell = &column.cells[n];
                    serde_json::json!({
                        "sign": cell.seen.sign(),
                        "seen": cell.seen,
                        "declared": cell.declared_words().trim(),
                        "words": cell.words,
                        "evidence": cell.evidence,
                    })
                });
                BTreeMap::from([
                    ("name", Value::from(row.name.as_str())),
                    ("about", Value::from(row.about.as_deref().unwrap_or_default())),
                    ("cells", Value::from(cells.collect::<Vec<_>>())),
                ])
            })
            .collect();
        environment.get_template("matrix")?.render(context! {
            columns => Serde(&self.columns),
            lines => Serde(lines),
            legend => LEGEND,
        })
    }
}

const LEGEND: &str = "✅ exercised and right · ⚠️ supported or declared, but wrong · ❌ not supported · ❓ not reached; the note says why";

impl MatrixCell {
    fn declared_words(&self) -> &'static str {
        match &self.declared {
            Some(declared) if declared.yes => " declared",
            Some(_) => " not declared",
            None => "",
        }
    }
}

/// The runs that make one column.
struct Group<'a> {
    name: String,
    runs: Vec<&'a AgentRun>,
    dates: BTreeSet<&'a str>,
}

/// Whether two runs of one name are runs of one agent. A name may be no more than that of the program, `npx` or `python3`,
/// so what was started by another command line is another agent, unless it has a version, that is, a profile.
fn may_be_one(a: &AgentRun, b: &AgentRun) -> bool {
    let is_address = |run: &AgentRun| run.target.contains("://") && !run.target.contains(' ');
    a.target == b.target || is_address(a) || is_address(b) || (a.version.is_some() && b.version.is_some())
}

fn column(name: String, group: &Group<'_>, rows: &[MatrixRow]) -> MatrixColumn {
    let runs = &group.runs;
    let version = runs.iter().find_map(|run| run.version.as_deref());
    let dates: Vec<&str> = group.dates.iter().copied().collect();
    let titled =
        runs.iter().find(|run| run.header.as_ref().is_some_and(|header| header.agent_info.is_some()));
    let mut targets: Vec<String> = Vec::new();
    for run in runs {
        if !targets.contains(&run.target) {
            targets.push(run.target.clone());
        }
    }
    MatrixColumn {
        title: titled.or(runs.first()).map_or_else(String::new, |run| summary::title(run)),
        run: version.map(|version| format!("version {version}, run on {}", dates.join(" and "))),
        cells: rows.iter().map(|row| seen::cell(row, runs)).collect(),
        name,
        targets,
    }
}

/// Text that means nothing to Markdown.
fn escape(text: &str) -> String {
    acp_text::line(&summary::one_line(text))
        .replace('\\', "\\\\")
        .replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('[', "\\[")
        .replace('`', "\\`")
}

/// Text as code, whatever is in it.
fn code(text: &str) -> String {
    let text = acp_text::line(&summary::one_line(text));
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest == 0 { format!("{fence}{text}{fence}") } else { format!("{fence} {text} {fence}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_rows_can_be_read_and_begin_with_the_introduction() {
        let rows = Matrix::rows(DEFAULT_ROWS).unwrap();
        assert_eq!(rows.len(), 9);
        assert_eq!(rows[0].name, "initialize");
        assert_eq!(rows[8].name, "TCP mode");
    }
}
