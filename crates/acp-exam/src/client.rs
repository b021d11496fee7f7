//! A client under test: its driver, and where its files are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::ClientDriver;

/// A client that can be started.
#[derive(Clone, Debug)]
pub struct ClientUnderTest {
    /// How it is started and used.
    pub driver: Arc<ClientDriver>,
    /// The files that belong to the driver (`${driver}`).
    pub folder: PathBuf,
    /// Where its programs are (`${bin}`).
    pub bin: PathBuf,
    /// Where its packages are (`${packages}`).
    pub packages: PathBuf,
    /// The program that is the agent: one with the hidden command `exam-stub`, such as `acp` itself.
    pub program: PathBuf,
    /// A time limit to give to the client, far beyond what a test takes (`${limit}`).
    pub patience: Duration,
}

impl ClientUnderTest {
    /// The name in reports.
    pub fn name(&self) -> &str {
        &self.driver.name
    }
}
