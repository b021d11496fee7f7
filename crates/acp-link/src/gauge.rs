//! Whether the other side has read what was written, where the system says so.
//!
//! The kernel is asked instead of waiting: that serves clients that take one read for one message.

use std::os::fd::BorrowedFd;

/// Looks at what waits in a pipe or a local socket.
#[derive(Debug)]
pub(crate) struct Gauge(imp::Kind);

impl Gauge {
    /// For this end of a pipe or of a local socket; nothing else can be looked into.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Option<Gauge> {
        imp::of(fd).map(Gauge)
    }

    /// Whether nothing waits to be read, or for nobody; `None` when the system does not say.
    pub(crate) fn is_empty(&self) -> Option<bool> {
        imp::waiting(&self.0).map(|bytes| bytes == 0)
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

    #[derive(Debug)]
    pub(super) enum Kind {
        /// A pipe counts what is in it, at either end.
        Pipe(OwnedFd),
        /// A local socket's queue is told by the kernel's socket diagnosis.
        Socket { diagnosis: OwnedFd, inode: u32 },
    }

    pub(super) fn of(fd: BorrowedFd<'_>) -> Option<Kind> {
        let fd = fd.try_clone_to_owned().ok()?;
        let about = std::fs::File::from(fd.try_clone().ok()?).metadata().ok()?;
        if about.file_type().is_fifo() {
            return Some(Kind::Pipe(fd));
        }
        let local = net::getsockname(&fd).ok()?.address_family() == AddressFamily::UNIX;
        if !about.file_type().is_socket() || !local {
            return None;
        }
        let diagnosis = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(net::netlink::SOCK_DIAG),
        )
        .ok()?;
        let kind = Kind::Socket { diagnosis, inode: u32::try_from(about.ino()).ok()? };
        waiting(&kind).map(|_| kind)
    }

    pub(super) fn waiting(kind: &Kind) -> Option<u64> {
        match kind {
            // What its reader left in it stays there.
            Kind::Pipe(fd) if is_left(fd) => Some(0),
            Kind::Pipe(fd) => rustix::io::ioctl_fionread(fd).ok(),
            Kind::Socket { diagnosis, inode } => {
                net::send(diagnosis, &question(*inode), SendFlags::DONTWAIT).ok()?;
                let mut answer = [0; 512];
                let (count, _) = net::recv(diagnosis, &mut answer[..], RecvFlags::empty()).ok()?;
                written(answer.get(..count)?).map(u64::from)
            }
        }
    }

    /// Whether nobody has the reading end any more.
    fn is_left(pipe: &OwnedFd) -> bool {
        let mut pipes = [PollFd::new(pipe, PollFlags::empty())];
        let asked = poll(&mut pipes, Some(&Timespec::default()));
        asked.is_ok() && pipes[0].revents().contains(PollFlags::ERR)
    }

    const HEADER: usize = 16;
    const BY_FAMILY: u16 = 20;
    const SHOW_QUEUES: u32 = 0x10;
    const QUEUES: u16 = 4;

    /// `SOCK_DIAG_BY_FAMILY` for one local socket: how much waits on either side of it?
    fn question(inode: u32) -> Vec<u8> {
        let mut message = Vec::new();
        let mut words = |words: &[u32]| words.iter().for_each(|word| message.extend(word.to_ne_bytes()));
        let kind_and_flags = [BY_FAMILY.to_ne_bytes(), 1_u16.to_ne_bytes()].concat();
        let family = [u8::try_from(AddressFamily::UNIX.as_raw()).unwrap_or(1), 0, 0, 0];
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
        // Length, kind and flags, number, sender; family, any state, which socket, what to show, any cookie.
        words(&[40, word(&kind_and_flags), 1, 0]);
        words(&[word(&family), u32::MAX, inode, SHOW_QUEUES, u32::MAX, u32::MAX]);
        message
    }

    /// The bytes that the other side has not read, from the answer.
    fn written(answer: &[u8]) -> Option<u32> {
        let half = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
        if half(4)? != BY_FAMILY {
            return None;
        }
        // Behind the header and the fixed part come attributes: length, kind, value, to a multiple of four.
        let mut at = HEADER + 16;
        while let (Some(length), Some(kind)) = (half(at), half(at + 2)) {
            if kind == QUEUES {
                return Some(u32::from_ne_bytes(answer.get(at + 8..at + 12)?.try_into().ok()?));
            }
            at += usize::from(length.max(4)).next_multiple_of(4);
        }
        None
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::os::fd::BorrowedFd;

    #[derive(Debug)]
    pub(super) enum Kind {}

    pub(super) fn of(_: BorrowedFd<'_>) -> Option<Kind> {
        None
    }

    pub(super) fn waiting(kind: &Kind) -> Option<u64> {
        match *kind {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn check(mut writer: impl Write + AsFd, mut reader: impl Read) {
        let gauge = Gauge::of(writer.as_fd()).expect("a gauge");
        assert_eq!(gauge.is_empty(), Some(true));
        writer.write_all(b"two words").expect("room");
        assert_eq!(gauge.is_empty(), Some(false));
        let mut some = [0; 4];
        reader.read_exact(&mut some).expect("some");
        assert_eq!(gauge.is_empty(), Some(false), "half of it was read");
        let mut rest = [0; 5];
        reader.read_exact(&mut rest).expect("the rest");
        assert_eq!(gauge.is_empty(), Some(true));
        writer.write_all(b"more").expect("room");
        assert_eq!(gauge.is_empty(), Some(false));
        drop(reader);
        assert_eq!(gauge.is_empty(), Some(true), "nobody is left to read it");
    }

    #[test]
    fn a_pipe_says_when_it_has_been_read() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        check(writer, reader);
    }

    #[test]
    fn a_local_socket_says_when_it_has_been_read() {
        let (writer, reader) = UnixStream::pair().expect("a pair");
        check(writer, reader);
    }

    #[test]
    fn a_file_says_nothing() {
        let file = std::fs::File::open("/dev/null").expect("a file");
        assert!(Gauge::of(file.as_fd()).is_none());
    }
}
