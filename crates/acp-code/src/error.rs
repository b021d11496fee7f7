//! What can go wrong before there are results.

use std::path::PathBuf;

/// A call that gave no results. Trouble with single files is a notice in the results instead.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The root is missing or is no folder.
    #[error("cannot use {path:?} as the root: {why}")]
    Root {
        /// The folder that was asked for.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A path leads out of the root.
    #[error("{path:?} lies outside the root {root:?}; give a path inside it")]
    Outside {
        /// The path that was asked for.
        path: String,
        /// The folder that holds everything that may be read.
        root: PathBuf,
    },
    /// A path does not exist or cannot be reached.
    #[error("cannot search in {path:?}: {why}")]
    Path {
        /// The path that was asked for.
        path: String,
        /// What the system said.
        why: String,
    },
    /// The words of a search do not form a query.
    #[error("cannot read the query at character {at}: {what}\n  {query}\n  {caret:>at$}", caret = "^")]
    Query {
        /// The query as given.
        query: String,
        /// Where reading stopped, counted from 1.
        at: usize,
        /// What is wrong there and what would be right.
        what: String,
    },
    /// A structural pattern that is no code of the language.
    #[error(
        "cannot read the pattern as {language} at line {line}, column {column}: {what}\n  {excerpt}\n  {caret:>column$}",
        caret = "^"
    )]
    Pattern {
        /// The language it was read as.
        language: String,
        /// Line of the first flaw, counted from 1.
        line: usize,
        /// Column of the first flaw, counted from 1.
        column: usize,
        /// What is wrong there.
        what: String,
        /// The pattern's line.
        excerpt: String,
    },
    /// No such language in this build.
    #[error("the language {name:?} is not built in; use one of: {known}")]
    Language {
        /// The name as given.
        name: String,
        /// The names that work.
        known: String,
    },
    /// A request that contradicts itself or has wrong values.
    #[error("cannot run {tool}: {what}")]
    Request {
        /// The tool's name.
        tool: &'static str,
        /// What is wrong and what to do.
        what: String,
    },
    /// No tool has this name.
    #[error("there is no tool {0:?}; the tools are search, query and extract")]
    NoSuchTool(String),
    /// [`crate::Stop::cancel`] was called.
    #[error("cancelled")]
    Cancelled,
}
