//! A link over our own standard input and output, for programs that are themselves the agent (or a proxy).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::gauge::Gauge;
use crate::{Link, LinkSettings, stream};

/// Takes over standard input and output.
///
/// Afterwards standard input is empty and whatever else this program prints to standard output goes to standard
/// error, so that neither a stray `println!` nor a child process can disturb the protocol. A pipe or socket is
/// used without waiting for it and without changing the mode of a descriptor that others share; a file or a
/// terminal gets a thread.
///
/// Call once. Before the program exits, wait for [`Sender::finish`](crate::Sender::finish).
pub fn own(wire: &LinkSettings) -> io::Result<Link> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let gauge = Gauge::of(output.as_fd());
    let link = stream::link(reader(input)?, writer(output)?, wire);
    link.tx.outbox().measure_with(gauge);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(link)
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

enum Kind {
    Pipe,
    Socket,
    Other,
}

fn kind(fd: BorrowedFd<'_>) -> io::Result<Kind> {
    let kind = File::from(fd.try_clone_to_owned()?).metadata()?.file_type();
    Ok(if kind.is_fifo() {
        Kind::Pipe
    } else if kind.is_socket() {
        Kind::Socket
    } else {
        Kind::Other
    })
}

fn reader(fd: OwnedFd) -> io::Result<Reader> {
    Ok(match kind(fd.as_fd())? {
        Kind::Pipe => match reopened(&fd, File::options().read(true)) {
            Some(file) => Box::new(pipe::Receiver::from_file(file)?),
            None => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        },
        Kind::Socket => Box::new(Socket::new(fd, Interest::READABLE)?),
        Kind::Other => Box::new(Threaded::start(fd.into())?),
    })
}

fn writer(fd: OwnedFd) -> io::Result<Writer> {
    Ok(match kind(fd.as_fd())? {
        Kind::Pipe => match reopened(&fd, File::options().write(true)) {
            Some(file) => Box::new(pipe::Sender::from_file(file)?),
            None => Box::new(pipe::Sender::from_owned_fd(fd)?),
        },
        Kind::Socket => Box::new(Socket::new(fd, Interest::WRITABLE)?),
        Kind::Other => Box::new(tokio::fs::File::from_std(fd.into())),
    })
}

/// The same pipe through a file description of our own: non-blocking mode belongs to the description, and ours may
/// be shared with a shell, a sibling or our own standard error.
#[cfg(target_os = "linux")]
fn reopened(fd: &OwnedFd, options: &mut std::fs::OpenOptions) -> Option<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    options.custom_flags(nonblocking).open(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
fn reopened(_: &OwnedFd, _: &mut std::fs::OpenOptions) -> Option<File> {
    None
}

/// A socket used without waiting, call by call, so that its mode stays as it was given to us.
struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    fn new(fd: OwnedFd, interest: Interest) -> io::Result<Socket> {
        Ok(Socket(stream::watched(fd, interest)?))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        use rustix::net::{RecvFlags, recv};
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let unfilled = buf.initialize_unfilled();
            let attempt = guard.try_io(|fd| Ok(recv(fd, &mut *unfilled, RecvFlags::DONTWAIT)?));
            match attempt {
                Ok(Ok((count, _))) => {
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        use rustix::net::{SendFlags, send};
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            match guard.try_io(|fd| Ok(send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(outcome) => return Poll::Ready(outcome),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Not an error when the other side has gone first.
        let _ = rustix::net::shutdown(self.0.get_ref(), rustix::net::Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}

/// A file or terminal, read by a thread that is at most a few chunks ahead.
struct Threaded {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Threaded {
    fn start(mut file: File) -> io::Result<Threaded> {
        let (tx, chunks) = mpsc::channel(2);
        let read = move || {
            let mut buf = vec![0; 64 * 1024];
            loop {
                let chunk = match file.read(&mut buf) {
                    Ok(0) => return,
                    Ok(count) => Ok(Bytes::copy_from_slice(&buf[..count])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = chunk.is_err();
                if tx.blocking_send(chunk).is_err() || failed {
                    return;
                }
            }
        };
        // Not a task of the blocking pool: a runtime waits for those when it ends, and a terminal may never answer.
        std::thread::Builder::new().name("acp-stdin".into()).spawn(read)?;
        Ok(Threaded { chunks, current: Bytes::new() })
    }
}

impl AsyncRead for Threaded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.current.is_empty() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.current = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..count]);
        self.current.advance(count);
        Poll::Ready(Ok(()))
    }
}
