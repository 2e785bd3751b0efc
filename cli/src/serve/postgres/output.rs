//! From the thread of a statement to its connection, and back for the rows of a COPY.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::serve::cancels::CurrentStatement;
use crate::serve::reply::{self, Gone, PIECE_BYTES, TooLate};

/// What a connection gets from the thread of a statement.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// From now on, the client sends the rows of a COPY.
    CopyBegins,
}

/// What the thread of a COPY gets from its connection.
#[derive(Debug)]
pub(super) enum CopyPiece {
    Rows(Vec<u8>),
    Done,
    Failed(String),
}

/// Where a thread writes.
pub(super) struct Output {
    /// Bytes that are not handed over yet.
    pub(super) bytes: Vec<u8>,
    pieces: mpsc::Sender<Piece>,
    rows: Arc<Mutex<mpsc::Receiver<CopyPiece>>>,
    current: Arc<CurrentStatement>,
    /// How long a client may take for a piece.
    stall: Duration,
}

impl Output {
    pub(super) fn new(
        pieces: mpsc::Sender<Piece>,
        rows: mpsc::Receiver<CopyPiece>,
        current: Arc<CurrentStatement>,
        stall: Duration,
    ) -> Output {
        let rows = Arc::new(Mutex::new(rows));
        Output { bytes: Vec::new(), pieces, rows, current, stall }
    }

    /// Hands over what has been written, if it is enough.
    pub(super) fn pass_on(&mut self) -> Result<(), Gone> {
        if self.bytes.len() < PIECE_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Hands over what has been written.
    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.send(Piece::Bytes(bytes))
    }

    fn send(&self, piece: Piece) -> Result<(), Gone> {
        reply::send(&self.pieces, piece, self.stall, || self.current.is_over())
    }

    /// Lets the client send rows.
    pub(super) fn begin_copy(&mut self) -> Result<CopyRows, Gone> {
        self.flush()?;
        self.send(Piece::CopyBegins)?;
        let (rows, stall) = (Arc::clone(&self.rows), self.stall);
        Ok(CopyRows { rows, stall, bytes: Vec::new(), at: 0, end: End::Open, said: Arc::default() })
    }
}

/// The rows of a COPY, as the client sends them.
pub(super) struct CopyRows {
    rows: Arc<Mutex<mpsc::Receiver<CopyPiece>>>,
    stall: Duration,
    bytes: Vec<u8>,
    at: usize,
    end: End,
    /// Why the client gave up, for those who do not see errors of reading.
    said: Arc<Mutex<Option<String>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Done,
    Failed,
}

impl CopyRows {
    /// Tells why the client gave up, once it has.
    pub(super) fn failure(&self) -> Arc<Mutex<Option<String>>> {
        Arc::clone(&self.said)
    }

    fn fail(&mut self, what: String) -> io::Error {
        self.end = End::Failed;
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.clone());
        io::Error::other(what)
    }
}

impl Read for CopyRows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.bytes.len() {
            match self.end {
                End::Open => {}
                End::Done => return Ok(0),
                End::Failed => return Err(io::Error::other("the rows have been given up")),
            }
            let next = {
                let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
                reply::receive(&mut rows, Some(self.stall))
            };
            match next {
                Ok(Some(CopyPiece::Rows(bytes))) => (self.bytes, self.at) = (bytes, 0),
                Ok(Some(CopyPiece::Done)) => self.end = End::Done,
                Ok(Some(CopyPiece::Failed(why))) => {
                    return Err(self.fail(format!("COPY was given up by the client: {why}")));
                }
                Ok(None) => return Err(self.fail("the client is gone".to_owned())),
                Err(TooLate) => {
                    return Err(self.fail("the client has sent no rows for long".to_owned()));
                }
            }
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        let (taken, _) = rest.split_at(count);
        buffer[..count].copy_from_slice(taken);
        self.at += count;
        Ok(count)
    }
}
