//! `acp info`, `acp call`, `acp doctor`, `acp init`, `acp suites show`, `acp.toml` and `acp help`, from the outside.

mod call;
mod config;
mod docs;
mod doctor;
mod info;
mod init;
mod slips;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program under test.
const ACP: &str = env!("CARGO_BIN_EXE_acp");

/// A folder to work in, with folders for cache and state.
struct Place {
    _temp: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let temp = tempfile::tempdir().expect("a folder");
        let path = temp.path().canonicalize().expect("a real path");
        Place { _temp: temp, path }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, text).expect("a file");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.path)
            .env("XDG_STATE_HOME", self.path.join(".state"))
            .env("ACP_CACHE_DIR", self.path.join(".cache"))
            .env_remove("ACP_CONFIG")
            .env_remove("ACP_AGENT")
            .env_remove("ACP_POLICY")
            .stdin(Stdio::null());
        command
    }

    /// Runs `acp` to its end: exit code, standard output, standard error.
    fn acp(&self, args: &[&str]) -> (i32, String, String) {
        texts(&self.command(ACP, args).output().expect("acp runs"))
    }
}

fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// `PATH` with our own program first, under its name.
fn path_with_acp() -> std::ffi::OsString {
    let own = Path::new(ACP).parent().expect("a folder").to_owned();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&rest))).expect("a PATH")
}
