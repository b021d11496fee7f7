//! What a run shows on standard error while it goes on.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_campaign::campaign::ProgressListener;
use acp_campaign::{Progress, Watch};
use acp_comply::{TestOutcome, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;

use acp_chat::keys::Interrupts;

/// Whether to use colours on this stream.
pub fn colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How many columns this stream shows, if it is a screen.
pub fn columns(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream))?.ok()?;
    (size.ws_col > 20).then(|| usize::from(size.ws_col))
}

/// How many lines this stream shows, if it is a screen.
pub fn rows(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream))?.ok()?;
    (size.ws_row > 0).then(|| usize::from(size.ws_row))
}

/// The live display: a bar on a terminal; otherwise a line for each test that did not pass, or, with frames, for each test.
pub struct Shown {
    bar: Option<ProgressBar>,
    lines: Lines,
    running: Arc<Mutex<BTreeSet<String>>>,
}

/// Which tests get a line as they end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    None,
    /// Those that did not pass although they apply.
    Bad,
    All,
}

impl Shown {
    /// Begins the display. Frames on the screen and a bar do not go together.
    pub fn new(frames: bool) -> Shown {
        let bar = (std::io::stderr().is_terminal() && !frames).then(|| {
            let bar = ProgressBar::new(0);
            let style =
                ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed_precise} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let lines = if frames { Lines::All } else { Lines::Bad };
        Shown { bar, lines, running: Arc::default() }
    }

    /// A bar on a terminal, nothing otherwise.
    pub fn quiet() -> Shown {
        Shown { lines: Lines::None, ..Shown::new(false) }
    }

    /// Nothing but what has to be noticed.
    pub fn none() -> Shown {
        Shown { bar: None, lines: Lines::None, running: Arc::default() }
    }

    /// What the campaign tells its progress to.
    pub fn listener(&self) -> ProgressListener {
        let (bar, lines, running) = (self.bar.clone(), self.lines, Arc::clone(&self.running));
        Arc::new(move |progress| match (&bar, progress) {
            (bar, Progress::Noticed(agent, words)) => {
                let tell = || eprintln!("{agent}: {words}");
                bar.as_ref().map_or_else(tell, |bar| bar.suspend(tell));
            }
            (Some(bar), progress) => on_bar(bar, &running, progress),
            (None, Progress::Ended(agent, outcome)) if lines != Lines::None && !outcome.needs_second_run => {
                tell(lines, agent, outcome);
            }
            (None, Progress::Settled(agent, outcome)) if lines != Lines::None => tell(lines, agent, outcome),
            (None, _) => {}
        })
    }

    /// Takes the display away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line about a test that ended.
fn tell(lines: Lines, agent: &str, outcome: &TestOutcome) {
    let is_good = matches!(outcome.verdict, Verdict::Pass | Verdict::Na);
    if is_good && lines == Lines::Bad {
        return;
    }
    let reason = outcome.reason.as_deref().map(|reason| format!("  {reason}")).unwrap_or_default();
    eprintln!("{agent}  {:<7} {}{reason}", outcome.verdict.as_str(), outcome.id);
}

fn on_bar(bar: &ProgressBar, running: &Mutex<BTreeSet<String>>, progress: &Progress<'_>) {
    let Ok(mut running) = running.lock() else { return };
    match progress {
        Progress::Agent(agent, tests) => {
            bar.reset();
            bar.set_length(u64::try_from(*tests).unwrap_or(u64::MAX));
            bar.set_prefix(acp_text::line(agent));
        }
        Progress::Calibrating(agent, _) => {
            bar.set_prefix((*agent).to_owned());
            bar.set_message("finding out what this agent can do");
            return;
        }
        Progress::Noticed(..) | Progress::Settled(..) => {}
        Progress::Began(_, program) => {
            running.insert(program.id.clone());
        }
        Progress::Ended(_, outcome) => {
            running.remove(&outcome.id);
            bar.inc(1);
        }
    }
    bar.set_message(running.iter().take(4).cloned().collect::<Vec<_>>().join(" "));
}

/// Shows every frame on standard error.
pub fn frames() -> Watch {
    Arc::new(|test, arrow, bytes| {
        let text = String::from_utf8_lossy(bytes);
        eprintln!("{test} {arrow} {}", text.trim_end());
    })
}

/// Ctrl-C, or another signal to end, stops the run and reports what is known; the second one leaves at once. That
/// holds from the moment in which this returns: call it in a runtime, before any agent is started.
pub fn interrupt(stop: watch::Sender<bool>) {
    let Ok(mut signals) = Interrupts::listen() else { return };
    tokio::spawn(async move {
        signals.next().await;
        let _ = stop.send(true);
        // After a hangup nobody may be there to be told.
        let _ = writeln!(std::io::stderr(), "stopping; what is known follows (Ctrl-C again leaves at once)");
        signals.next().await;
        std::process::exit(130);
    });
}
