//! The stub's own three streams. Each has a thread of its own, so that one that nobody reads holds up nothing else.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use rustix::stdio::dup2_stdout;
use tokio::sync::{mpsc, oneshot};

use super::Happened;

/// How long an end waits for what is still to be written.
const FLUSH: Duration = Duration::from_secs(2);

/// Reads standard input until its end.
pub(super) fn input(tell: mpsc::Sender<Happened>) {
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let bytes = match input.fill_buf() {
                Ok(bytes) => bytes.to_vec(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => Vec::new(),
            };
            if bytes.is_empty() {
                let _ = tell.blocking_send(Happened::InputEnded);
                return;
            }
            input.consume(bytes.len());
            if tell.blocking_send(Happened::Input(bytes)).is_err() {
                return;
            }
        }
    });
}

enum ForOutput {
    Bytes(Vec<u8>),
    Close,
    Flush(oneshot::Sender<()>),
}

/// Standard output.
pub(super) struct Output(mpsc::UnboundedSender<ForOutput>);

impl Output {
    pub fn start() -> Output {
        let (send, mut next) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut is_open = true;
            while let Some(order) = next.blocking_recv() {
                match order {
                    ForOutput::Bytes(bytes) if is_open => is_open = write_out(&bytes).is_ok(),
                    ForOutput::Bytes(_) => {}
                    ForOutput::Close => {
                        is_open = false;
                        close();
                    }
                    ForOutput::Flush(done) => drop(done.send(())),
                }
            }
        });
        Output(send)
    }

    pub fn write(&self, bytes: Vec<u8>) {
        let _ = self.0.send(ForOutput::Bytes(bytes));
    }

    pub fn close(&self) {
        let _ = self.0.send(ForOutput::Close);
    }

    /// Waits until everything is written, as long as that makes sense.
    pub async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        let _ = self.0.send(ForOutput::Flush(done));
        let _ = tokio::time::timeout(FLUSH, is_done).await;
    }
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// Another file in place of standard output: who reads it sees the end.
fn close() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = dup2_stdout(&null);
    }
}

/// Standard error.
pub(super) struct Errors(mpsc::UnboundedSender<(Vec<u8>, u32)>);

impl Errors {
    pub fn start(tell: mpsc::Sender<Happened>) -> Errors {
        let (send, mut next) = mpsc::unbounded_channel::<(Vec<u8>, u32)>();
        std::thread::spawn(move || {
            while let Some((bytes, times)) = next.blocking_recv() {
                let mut errors = io::stderr().lock();
                let written = (0..times).try_for_each(|_| errors.write_all(&bytes));
                if written.is_ok() && tell.blocking_send(Happened::ErrorsTaken).is_err() {
                    return;
                }
            }
        });
        Errors(send)
    }

    pub fn write(&self, bytes: Vec<u8>, times: u32) {
        let _ = self.0.send((bytes, times));
    }
}
