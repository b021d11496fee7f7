//! The exam's folder inside the workspace: one folder per test, and all of it removed at the end.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use acp_comply::Program;
use acp_match::{Fill, Template, Vars};

/// Editors that rewrite files leave these as they are.
const UNTOUCHED: &str = "root = true\n\n[*]\nend_of_line = unset\ninsert_final_newline = unset\n\
                         trim_trailing_whitespace = unset\ncharset = unset\n";

/// The folder. It is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: tempfile::TempDir,
    tests: usize,
}

impl Scratch {
    /// Makes it in the folder of a session.
    pub fn make(workspace: &Path) -> Result<Scratch, String> {
        let make = || {
            let folder = tempfile::Builder::new().prefix("acp-exam-").tempdir_in(workspace)?;
            std::fs::write(folder.path().join(".editorconfig"), UNTOUCHED)?;
            Ok(Scratch { folder, tests: 0 })
        };
        make().map_err(|error: std::io::Error| {
            format!("cannot make a folder in {}: {error}", workspace.display())
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A new folder for a test.
    pub fn next(&mut self) -> Result<PathBuf, String> {
        self.tests += 1;
        let folder = self.folder.path().join(self.tests.to_string());
        std::fs::create_dir_all(&folder)
            .and_then(|()| folder.canonicalize())
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))
    }
}

/// Writes the files that a test declares.
pub(super) fn fill(folder: &Path, program: &Program, vars: &Vars) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("cannot write the test's files: {error}");
    for file in &program.sandbox {
        write(&folder.join(&file.path), &file.contents).map_err(fault)?;
    }
    for link in program.client.iter().flat_map(|test| &test.links) {
        let target = Template::parse(&link.target)
            .and_then(|template| template.render(vars, Fill::Raw))
            .map_err(|error| format!("the link {}: {error}", link.path))?;
        symlink(target, folder.join(&link.path)).map_err(fault)?;
    }
    Ok(())
}

fn write(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, contents)
}
