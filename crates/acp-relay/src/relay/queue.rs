//! What waits for one side of a relay: lines in one piece where they can be, so that a burst is handed over at once.

use std::collections::VecDeque;

use acp_link::{Sender, TrySendError};
use bytes::{Buf, Bytes};
use memchr::memchr;

/// A buffer that grew past this for a large frame is given back to the allocator.
const KEEP_CAPACITY: usize = 512 * 1024;

/// Frames that wait, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    /// An empty buffer for the next piece.
    spare: Vec<u8>,
}

#[derive(Debug)]
enum Piece {
    /// Whole lines that were made here, each with its newline.
    Made(Vec<u8>),
    /// Whole lines as they came, each with its line ending.
    Came(Bytes),
    /// One message with newlines in it.
    Message(Bytes),
}

/// The other side can no longer be written to.
pub(super) type Gone = ();

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| piece.len() == 0)
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// Adds whole lines as they came.
    pub(super) fn lines(&mut self, lines: &Bytes) {
        self.pieces.push_back(Piece::Came(lines.clone()));
    }

    /// Adds one frame, which has no line ending yet.
    pub(super) fn line(&mut self, line: &Bytes) {
        if memchr(b'\n', line).is_some() {
            self.pieces.push_back(Piece::Message(line.clone()));
            return;
        }
        let buffer = self.open();
        buffer.extend_from_slice(line);
        buffer.push(b'\n');
    }

    /// Where the next whole lines are to be written.
    pub(super) fn open(&mut self) -> &mut Vec<u8> {
        if !matches!(self.pieces.back(), Some(Piece::Made(_))) {
            self.pieces.push_back(Piece::Made(std::mem::take(&mut self.spare)));
        }
        match self.pieces.back_mut() {
            Some(Piece::Made(buffer)) => buffer,
            _ => &mut self.spare,
        }
    }

    /// Hands over what waits, as far as there is room.
    pub(super) fn drain(&mut self, tx: &Sender) -> Result<(), Gone> {
        while let Some(mut piece) = self.pieces.pop_front() {
            if piece.len() > 0 && !piece.hand_over(tx)? {
                self.pieces.push_front(piece);
                return Ok(());
            }
            if let Piece::Made(buffer) = piece
                && buffer.capacity() <= KEEP_CAPACITY
            {
                self.spare = buffer;
            }
        }
        Ok(())
    }

    /// Hands over one frame, if there is one and room for it; whether that was done.
    pub(super) fn send_one(&mut self, tx: &Sender) -> Result<bool, Gone> {
        while let Some(piece) = self.pieces.pop_front() {
            let mut lines = match piece {
                Piece::Made(lines) => Bytes::from(lines),
                Piece::Came(lines) => lines,
                Piece::Message(_) => {
                    let sent = piece.hand_over_message(tx)?;
                    if !sent {
                        self.pieces.push_front(piece);
                    }
                    return Ok(sent);
                }
            };
            let Some(end) = memchr(b'\n', &lines) else { continue };
            let sent = taken(tx.try_send_lines(&lines[..=end]))?;
            if sent {
                lines.advance(end + 1);
            }
            if !lines.is_empty() {
                self.pieces.push_front(Piece::Came(lines));
            }
            return Ok(sent);
        }
        Ok(false)
    }
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Made(lines) => lines.len(),
            Self::Came(bytes) | Self::Message(bytes) => bytes.len(),
        }
    }

    /// Whether there was room.
    fn hand_over(&mut self, tx: &Sender) -> Result<bool, Gone> {
        match self {
            Self::Made(lines) => taken(tx.try_hand_over(lines)),
            Self::Came(lines) => taken(tx.try_send_lines(lines)),
            Self::Message(_) => self.hand_over_message(tx),
        }
    }

    /// A message with newlines in it, which are white space between the parts of a frame, is one line where frames are
    /// lines.
    fn hand_over_message(&self, tx: &Sender) -> Result<bool, Gone> {
        let Self::Message(message) = self else { return Ok(false) };
        if tx.sends_messages() {
            return taken(tx.try_send(message));
        }
        let line: Vec<u8> = message.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }).collect();
        taken(tx.try_send(&line))
    }
}

fn taken(sent: Result<(), TrySendError>) -> Result<bool, Gone> {
    sent.map(|()| true).or_else(|error| match error {
        TrySendError::Full => Ok(false),
        TrySendError::Closed(_) => Err(()),
    })
}
