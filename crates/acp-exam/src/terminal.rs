//! A pseudo-terminal between two pipes: what comes in is typed, what is shown comes out. A process of its own, so that a
//! supervisor can stand before it while the client leads the terminal's session.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;

use pty_process::blocking::{Command, open};
use std::os::unix::process::ExitStatusExt;

/// The hidden command that makes a program such a terminal.
pub const ARGUMENT: &str = "__terminal";

const ROWS: u16 = 40;
const COLUMNS: u16 = 200;

/// Runs the program that the arguments name in a terminal; its exit code is ours.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{ARGUMENT}: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(args: impl IntoIterator<Item = OsString>) -> Result<u8, Box<dyn std::error::Error>> {
    let mut args = args.into_iter();
    let program = args.next().ok_or("name a program")?;
    let (pty, pts) = open()?;
    pty.resize(pty_process::Size::new(ROWS, COLUMNS))?;
    let mut child = Command::new(program).args(args).env("TERM", "xterm-256color").spawn(pts)?;
    let mut screen = File::from(rustix::io::dup(&pty)?);
    let shown = std::thread::spawn(move || {
        let (mut piece, mut output) = ([0; 4096], std::io::stdout());
        while let Ok(count @ 1..) = screen.read(&mut piece) {
            if output.write_all(&piece[..count]).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        let (mut piece, mut input, mut keys) = ([0; 4096], std::io::stdin(), pty);
        while let Ok(count @ 1..) = input.read(&mut piece) {
            if keys.write_all(&piece[..count]).is_err() {
                return;
            }
        }
        // Nobody types any more, but the terminal stays until the client leaves it.
        loop {
            std::thread::park();
        }
    });
    let status = child.wait()?;
    // Who still holds the terminal does not hold us.
    let deadline = std::time::Instant::now() + std::time::Duration::from_millis(200);
    while !shown.is_finished() && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
