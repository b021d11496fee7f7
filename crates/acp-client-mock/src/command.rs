//! Agents as programs.

use std::ffi::OsString;

use acp_link::child::{self, Child, SpawnOptions};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::launch::{AgentLaunch, AgentProcess, AgentStarter, AgentStdio, EndSignal, StartedAgent};
use crate::plain_child;

/// Starts an agent with a command, as the product's client does.
#[derive(Clone, Debug)]
pub struct CommandStarter {
    program: OsString,
    args: Vec<OsString>,
}

impl CommandStarter {
    /// A program and its usual arguments.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }

    fn words(&self, launch: &AgentLaunch) -> Vec<OsString> {
        self.args.iter().cloned().chain(launch.added.iter().map(OsString::from)).collect()
    }
}

impl AgentStarter for CommandStarter {
    fn start(&self, launch: AgentLaunch) -> BoxFuture<'_, Result<StartedAgent, String>> {
        let is_usual = launch.stdio == AgentStdio::Pipes && launch.reads_stderr && launch.ends_descendants;
        async move {
            let args = self.words(&launch);
            if !is_usual {
                return plain_child::start(&self.program, &args, &launch);
            }
            let env = launch.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let options =
                SpawnOptions { env, cwd: Some(launch.cwd), ..SpawnOptions::new(&self.program).args(args) };
            let (link, child) = child::spawn(&options).map_err(|error| error.to_string())?;
            Ok(StartedAgent { link, process: Some(Box::new(child)) })
        }
        .boxed()
    }
}

impl AgentProcess for Child {
    fn signal(&mut self, signal: EndSignal, _: bool) {
        match signal {
            EndSignal::Term => self.terminate(),
            EndSignal::Kill => self.kill(),
        }
    }

    fn wait(&mut self) -> BoxFuture<'_, Option<i32>> {
        Child::wait(self).map(|exit| exit.code).boxed()
    }

    fn abandon(self: Box<Self>) {
        // A client that has crashed kills nobody.
        std::mem::forget(self);
    }
}
