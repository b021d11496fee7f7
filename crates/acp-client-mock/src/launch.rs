//! How a client starts its agent, and what it can do to the process.

use std::path::PathBuf;

use acp_link::Link;
use futures_util::future::BoxFuture;

/// One start of the agent.
#[derive(Clone, Debug)]
pub struct AgentLaunch {
    /// Which one, counted from 1.
    pub number: usize,
    /// Arguments behind the usual ones.
    pub added: Vec<String>,
    /// Variables on top of the usual ones.
    pub env: Vec<(String, String)>,
    /// The folder that it starts in.
    pub cwd: PathBuf,
    /// What its standard input and output are.
    pub stdio: AgentStdio,
    /// Whether somebody reads its standard error. If not, that is a pipe that fills up.
    pub reads_stderr: bool,
    /// Whether what it starts is ended with it.
    pub ends_descendants: bool,
}

/// What an agent's standard input and output are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentStdio {
    /// Pipes, as they should be.
    Pipes,
    /// A pseudo-terminal.
    Tty,
    /// A socket, with one binary message for each frame.
    BinaryMessages,
}

/// An agent that runs.
pub struct StartedAgent {
    /// The connection to it.
    pub link: Link,
    /// Its process, if it has one that the client may end.
    pub process: Option<Box<dyn AgentProcess>>,
}

/// Starts agents. Called once for each launch.
pub trait AgentStarter: Send + Sync + 'static {
    /// Starts the agent; an error says what went wrong.
    fn start(&self, launch: AgentLaunch) -> BoxFuture<'_, Result<StartedAgent, String>>;
}

/// What ends a process that does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// It is told to terminate.
    Term,
    /// It is killed.
    Kill,
}

/// An agent's process as its client treats it. An agent in memory takes note of what it is told.
pub trait AgentProcess: Send {
    /// Ends it, or tells it to end. `descendants` is whether what it started is meant too.
    fn signal(&mut self, signal: EndSignal, descendants: bool);

    /// Waits for its end, and returns its exit code if it has one. Cancel safe.
    fn wait(&mut self) -> BoxFuture<'_, Option<i32>>;

    /// The client has crashed: the process is left alone.
    fn abandon(self: Box<Self>) {}
}
