//! Where `acp agent` is started.

use std::path::PathBuf;
use std::process::Command;

use acp_testkit::live::heeding_signals;
pub(crate) use acp_testkit::live::{LiveAgent as Talk, PATIENCE};
use tempfile::TempDir;

pub(crate) const ACP: &str = env!("CARGO_BIN_EXE_acp");

/// A working folder and a state folder.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("work")).expect("a folder");
        std::fs::write(folder.path().join("work/notes.txt"), "rosemary\nthyme\n").expect("a file");
        Self { folder }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// `acp agent` with everything allowed, in this place.
    pub(crate) fn agent(&self, more: &[&str]) -> Command {
        let mut command = heeding_signals(ACP);
        command
            .args(["agent", "--allow-edit", "--enable-delegate", "--enable-mcp", "--path"])
            .arg(self.work())
            .arg("--state-dir")
            .arg(self.state())
            .args(more)
            .current_dir(self.folder.path())
            .env_remove("DEBUG")
            .env("XDG_STATE_HOME", self.folder.path().join("xdg"));
        command
    }
}
