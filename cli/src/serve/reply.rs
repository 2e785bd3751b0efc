//! From a thread that answers a statement to the connection that waits for it.
//!
//! Statements run on threads of their own, because their answers are made by straight-line code;
//! connections are tasks. The first bytes of an answer are held back until there are enough of them
//! or all have come: only then it is decided what the head of the reply says, so that most failures
//! are told by it. What follows is handed over in pieces, of which few are ready at a time: a
//! client that reads slowly slows its statement down, and takes no memory.

use std::mem;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};

/// Bytes of a piece.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait for their connection, at most.
const MOST_PIECES: usize = 4;

/// How often a thread whose client takes nothing looks whether it should go on.
const LOOK: Duration = Duration::from_millis(100);

/// A piece of a reply; `None` is its end. A reply without one has been cut short.
pub(crate) type Piece = Option<Vec<u8>>;

/// The beginning of a reply: what its head says, and its first bytes.
#[derive(Debug)]
pub(crate) struct Begun<H> {
    pub(crate) head: H,
    pub(crate) bytes: Vec<u8>,
    /// What follows, if that is not all.
    pub(crate) rest: Option<mpsc::Receiver<Piece>>,
}

/// Where a thread writes the answer.
pub(crate) struct Reply<H> {
    begin: Option<oneshot::Sender<Begun<H>>>,
    pieces: Option<mpsc::Sender<Piece>>,
    /// Bytes that are not handed over yet.
    pub(crate) bytes: Vec<u8>,
    /// How many are held back at first.
    held_back: usize,
    /// How long a client may take for a piece.
    stall: Duration,
    /// Whether the answer is not wanted any more.
    is_over: Box<dyn Fn() -> bool + Send>,
}

/// Nobody waits for the answer any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

impl<H> Reply<H> {
    /// A reply, and what its connection waits for.
    pub(crate) fn new(
        held_back: usize,
        stall: Duration,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> (Reply<H>, oneshot::Receiver<Begun<H>>) {
        let (begin, begun) = oneshot::channel();
        let (begin, is_over) = (Some(begin), Box::new(is_over));
        let (pieces, bytes) = (None, Vec::new());
        (Reply { begin, pieces, bytes, held_back, stall, is_over }, begun)
    }

    /// Whether the head has not been sent yet.
    pub(crate) fn may_change_head(&self) -> bool {
        self.begin.is_some()
    }

    /// Whether there is enough to hand over.
    pub(crate) fn has_enough(&self) -> bool {
        let enough = if self.begin.is_some() { self.held_back } else { PIECE_BYTES };
        self.bytes.len() >= enough
    }

    /// Hands over what is there; `head` counts for the first time.
    pub(crate) fn hand_over(&mut self, head: H) -> Result<(), Gone> {
        let bytes = mem::take(&mut self.bytes);
        if let Some(begin) = self.begin.take() {
            let (send, rest) = mpsc::channel(MOST_PIECES);
            self.pieces = Some(send);
            let begun = Begun { head, bytes, rest: Some(rest) };
            return begin.send(begun).map_err(|_| Gone);
        }
        match bytes.is_empty() {
            true => Ok(()),
            false => self.send(Some(bytes)),
        }
    }

    /// Sends a piece, as soon as the client has taken one before.
    fn send(&self, mut piece: Piece) -> Result<(), Gone> {
        let Some(pieces) = &self.pieces else { return Ok(()) };
        let since = Instant::now();
        loop {
            match Handle::current().block_on(pieces.send_timeout(piece, LOOK)) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Closed(_)) => return Err(Gone),
                Err(SendTimeoutError::Timeout(again)) => piece = again,
            }
            if (self.is_over)() || since.elapsed() > self.stall {
                return Err(Gone);
            }
        }
    }

    /// Hands over the last bytes of a reply that has begun and cannot be completed: the client
    /// finds that its end is missing.
    pub(crate) fn cut_short(mut self, head: H) -> Result<(), Gone> {
        self.hand_over(head)
    }

    /// Hands over the last bytes. If none went before, they are the whole reply.
    pub(crate) fn end(mut self, head: H) -> Result<(), Gone> {
        let bytes = mem::take(&mut self.bytes);
        match self.begin.take() {
            Some(begin) => begin.send(Begun { head, bytes, rest: None }).map_err(|_| Gone),
            None => {
                self.bytes = bytes;
                self.hand_over(head)?;
                self.send(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_millis(150);

    /// Runs a thread that replies, and a task that takes the reply.
    fn run<T>(
        held_back: usize,
        write: impl FnOnce(Reply<u16>) -> Result<(), Gone> + Send + 'static,
        read: impl AsyncFnOnce(oneshot::Receiver<Begun<u16>>) -> T,
    ) -> (Result<(), Gone>, T) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        let (reply, begun) = Reply::new(held_back, STALL, || false);
        runtime.block_on(async {
            let written = tokio::task::spawn_blocking(move || write(reply));
            let read = read(begun).await;
            (written.await.unwrap(), read)
        })
    }

    #[test]
    fn a_short_reply_comes_at_once() {
        let write = |mut reply: Reply<u16>| {
            reply.bytes.extend(b"short");
            assert!(reply.may_change_head());
            reply.end(404)
        };
        let (written, begun) = run(10, write, async |begun| begun.await.unwrap());
        assert_eq!((begun.head, begun.bytes.as_slice()), (404, &b"short"[..]));
        assert!(written.is_ok() && begun.rest.is_none());
    }

    #[test]
    fn a_long_reply_comes_in_pieces() {
        let write = |mut reply: Reply<u16>| {
            for byte in 0..10 {
                reply.bytes.extend(vec![byte; PIECE_BYTES]);
                reply.hand_over(200)?;
            }
            reply.bytes.push(b'.');
            reply.end(500)
        };
        let (written, bytes) = run(1, write, async |begun| {
            let begun = begun.await.unwrap();
            assert_eq!(begun.head, 200);
            let (mut rest, mut bytes) = (begun.rest.unwrap(), begun.bytes);
            while let Some(piece) = rest.recv().await {
                match piece {
                    Some(piece) => bytes.extend(piece),
                    None => return bytes,
                }
            }
            Vec::new()
        });
        assert!(written.is_ok());
        assert_eq!(bytes.len(), 10 * PIECE_BYTES + 1);
        assert!(bytes.iter().take(10 * PIECE_BYTES).is_sorted());
    }

    #[test]
    fn a_client_that_goes_or_takes_nothing_ends_its_reply() {
        let write = |mut reply: Reply<u16>| {
            loop {
                reply.bytes.push(1);
                reply.hand_over(200)?;
            }
        };
        assert!(run(1, write, async |begun| drop(begun)).0.is_err());
        // It is held, and nothing is taken.
        assert!(run(1, write, async |begun| begun.await.unwrap()).0.is_err());
    }
}
