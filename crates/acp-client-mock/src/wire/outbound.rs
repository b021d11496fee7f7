//! What waits to be written to one side.

use std::collections::VecDeque;

use acp_link::{Sender, TrySendError};
use bytes::Bytes;
use futures_util::FutureExt;

/// Something to write.
pub(super) enum Piece {
    /// A line, which gets its line end.
    Line(Bytes),
    /// Bytes as they are, in a write of their own.
    Raw(Bytes),
}

/// A queue that is handed to a link as fast as that takes it.
#[derive(Default)]
pub(super) struct Outbound {
    pieces: VecDeque<Piece>,
    /// Whether the last piece must be written before the next.
    flushes: bool,
}

impl Outbound {
    pub(super) fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
    }

    /// Writes what can be written; true if something has to wait for [`Outbound::writable`].
    pub(super) fn advance(&mut self, tx: &Sender) -> bool {
        while !self.flushes {
            let sent = match self.pieces.front() {
                None => return false,
                Some(Piece::Line(line)) => tx.try_send(line),
                Some(Piece::Raw(bytes)) => match tx.send_raw(bytes).now_or_never() {
                    None => Err(TrySendError::Full),
                    Some(sent) => sent.map_err(TrySendError::Closed),
                },
            };
            match sent {
                Ok(()) => self.flushes = matches!(self.pieces.pop_front(), Some(Piece::Raw(_))),
                Err(TrySendError::Full) => return true,
                // The other side does not read any more; that it has gone is told by the end of its output.
                Err(TrySendError::Closed(_)) => self.pieces.clear(),
            }
        }
        true
    }

    /// Waits until [`Outbound::advance`] can go on. Cancel safe.
    pub(super) async fn writable(&mut self, tx: &Sender) {
        let _ = match self.flushes {
            true => tx.flush().await,
            false => tx.ready().await,
        };
        self.flushes = false;
    }
}
