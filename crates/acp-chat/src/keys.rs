//! The person's side: lines from the terminal, Ctrl-C, and a terminal that is left as it was found.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::{OptionalActions, Termios};
use tokio::signal::unix::SignalKind;
use tokio::sync::oneshot;

use acp_link::signals::EndSignals;

/// Whether a person can be asked: both ends of the conversation with them are a terminal.
pub fn person_present() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Puts the terminal back on drop, whatever a line editor or a killed agent did to it.
#[derive(Debug)]
pub struct SaneTerminal {
    modes: Option<Termios>,
    edits: bool,
}

/// Pasted text without marks around it: a line editor that is ended in mid-line cannot say that any more.
const NO_PASTE_MARKS: &str = "\x1b[?2004l";

impl SaneTerminal {
    /// Remembers how it is now.
    pub fn remember() -> SaneTerminal {
        SaneTerminal { modes: rustix::termios::tcgetattr(rustix::stdio::stdin()).ok(), edits: false }
    }

    /// The same where lines are edited.
    pub fn remember_for_editing() -> SaneTerminal {
        let edits = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let mut sane = SaneTerminal::remember();
        sane.edits = edits;
        sane
    }
}

impl Drop for SaneTerminal {
    fn drop(&mut self) {
        if self.edits {
            let mut out = std::io::stdout();
            let _ = out.write_all(NO_PASTE_MARKS.as_bytes()).and_then(|()| out.flush());
        }
        if let Some(termios) = &self.modes {
            let _ = rustix::termios::tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, termios);
        }
    }
}

/// The signals that end things.
#[derive(Debug)]
pub struct Interrupts(EndSignals);

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C: cancel, and quit the second time.
    Cancel,
    /// End now.
    Quit,
}

impl Interrupts {
    /// From now on signals do not end the program by themselves.
    pub fn listen() -> std::io::Result<Interrupts> {
        EndSignals::listen().map(Interrupts)
    }

    /// The next one.
    pub async fn next(&mut self) -> Interrupt {
        match self.0.next().await {
            kind if kind == SignalKind::interrupt() => Interrupt::Cancel,
            _ => Interrupt::Quit,
        }
    }
}

/// One line typed at the terminal; `None` at its end. Dropping the future gives the input back: nothing is read that
/// nobody waits for.
pub async fn typed_line() -> Option<String> {
    struct Stop(Arc<AtomicBool>);
    impl Drop for Stop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = Stop(Arc::default());
    let stopped = Arc::clone(&stop.0);
    let (tell, line) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = tell.send(wait_for_line(&stopped));
    });
    line.await.ok().flatten()
}

fn wait_for_line(stopped: &AtomicBool) -> Option<String> {
    let stdin = rustix::stdio::stdin();
    let patience = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let mut line = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match rustix::event::poll(&mut ready, Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        // A terminal in its usual mode hands over one line at a time.
        let mut buffer = [0_u8; 4096];
        let count = rustix::io::read(stdin, &mut buffer).ok()?;
        line.extend_from_slice(&buffer[..count]);
        if count == 0 && line.is_empty() {
            return None;
        }
        if count == 0 || line.ends_with(b"\n") {
            return Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned());
        }
    }
    None
}
