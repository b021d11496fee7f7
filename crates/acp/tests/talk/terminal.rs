//! A pseudo-terminal with a program on it and hands on the keys.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};
use rustix::termios::LocalModes;

use crate::{HEEDING, PATIENCE};

pub struct Terminal {
    keys: Pty,
    screen: Arc<Mutex<String>>,
    /// Takes what is shown, until nobody has the terminal any more.
    reader: Option<JoinHandle<()>>,
    pub child: Child,
    /// How much of the screen earlier waits have seen.
    seen: usize,
}

impl Terminal {
    pub fn start(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Terminal {
        Self::start_on(40, 200, folder, args, env)
    }

    /// On a screen with so many rows and columns.
    pub fn start_on(rows: u16, columns: u16, folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Terminal {
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(pty_process::Size::new(rows, columns)).expect("a size");
        let mut command = Command::new("env").args(HEEDING).args(args).current_dir(folder);
        command = command.env("TERM", "xterm-256color");
        command = command.env_remove("NO_COLOR");
        for (name, value) in env {
            command = command.env(name, value);
        }
        let child = command.spawn(pts).expect("acp starts");
        let screen = Arc::<Mutex<String>>::default();
        let (shown, keys) = (Arc::clone(&screen), pty);
        let reader = std::fs::File::from(rustix::io::dup(&keys).expect("a second handle"));
        let reader = std::thread::spawn(move || {
            let mut reader = reader;
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                shown.lock().expect("the screen").push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Terminal { keys, screen, reader: Some(reader), child, seen: 0 }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    pub fn screen(&self) -> String {
        self.screen.lock().expect("the screen").clone()
    }

    /// Waits until a text appears after what earlier waits have found.
    pub fn wait_for(&mut self, text: &str) {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if let Some(at) = screen[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{text:?} did not appear; the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end, and for all that is shown until then, and returns the exit code.
    pub fn end(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            let shown = self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            if let Some(status) = self.child.try_wait().expect("a status")
                && shown
            {
                if let Some(reader) = self.reader.take() {
                    reader.join().expect("the screen was read");
                }
                return status.code().unwrap_or(-1);
            }
            assert!(began.elapsed() < PATIENCE, "it does not end; the screen:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a line is typed into the editor (not sane), or into nothing or a question (sane).
    pub fn wait_until_sane(&self, sane: bool) {
        let began = Instant::now();
        while self.is_sane() != sane {
            assert!(began.elapsed() < PATIENCE, "sane is not {sane}; the screen:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether the terminal shows what is typed, line by line, and Ctrl-C interrupts.
    pub fn is_sane(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.keys).expect("modes").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
