//! The body of a request, for a thread that reads it.

use std::io::{self, Read};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::sync::mpsc;

use super::reply::Piece;

/// Pieces that wait for the thread, at most.
const MOST_PIECES: usize = 4;

/// What was read of a body, and what follows.
#[derive(Debug)]
pub(crate) struct Body {
    piece: Bytes,
    rest: Option<mpsc::Receiver<io::Result<Bytes>>>,
}

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// Nothing came for too long.
    Stalled,
    /// The connection is broken.
    Broken(hyper::Error),
}

impl Body {
    /// Waits for a body, or for its beginning: no thread is busy before there is work. What follows
    /// comes as it is asked for.
    pub(crate) async fn begin(
        mut incoming: Incoming,
        most: usize,
        stall: Duration,
    ) -> Result<Body, BodyError> {
        let mut pieces: Vec<Bytes> = Vec::new();
        let mut bytes = 0;
        while bytes <= most {
            match next(&mut incoming, stall).await? {
                Some(piece) => {
                    bytes += piece.len();
                    pieces.push(piece);
                }
                None => return Ok(Body { piece: joined(pieces), rest: None }),
            }
        }
        let (send, rest) = mpsc::channel(MOST_PIECES);
        tokio::spawn(async move {
            loop {
                let piece = match next(&mut incoming, stall).await {
                    Ok(Some(piece)) => Ok(piece),
                    Ok(None) => break,
                    Err(BodyError::Stalled) => {
                        Err(io::Error::new(io::ErrorKind::TimedOut, "the body has stalled"))
                    }
                    Err(BodyError::Broken(error)) => Err(io::Error::other(error)),
                };
                let is_error = piece.is_err();
                if send.send(piece).await.is_err() || is_error {
                    break;
                }
            }
        });
        Ok(Body { piece: joined(pieces), rest: Some(rest) })
    }

    /// What has come so far.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.piece
    }

    /// A body that is nothing.
    pub(crate) fn none() -> Body {
        Body { piece: Bytes::new(), rest: None }
    }
}

async fn next(incoming: &mut Incoming, stall: Duration) -> Result<Option<Bytes>, BodyError> {
    loop {
        match tokio::time::timeout(stall, incoming.frame()).await {
            Err(_) => return Err(BodyError::Stalled),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(BodyError::Broken(error)),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                // Trailers say nothing to us.
                Err(_) => continue,
            },
        }
    }
}

/// Waits for the next piece, on any thread: rows of an INSERT are read within the engine's own
/// runtime, where tokio's way to wait panics.
fn wait_for<T>(from: &mut mpsc::Receiver<T>) -> Option<T> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // A task may take so many pieces before it lets others run; a thread need not.
    let next = tokio::task::unconstrained(std::future::poll_fn(|context| from.poll_recv(context)));
    let mut next = std::pin::pin!(next);
    loop {
        match next.as_mut().poll(&mut context) {
            Poll::Ready(piece) => return piece,
            Poll::Pending => thread::park(),
        }
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.rest.as_mut().and_then(wait_for) {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let bytes = self.piece.len().min(into.len());
        let taken = self.piece.split_to(bytes);
        if let Some(into) = into.get_mut(..bytes) {
            into.copy_from_slice(&taken);
        }
        Ok(bytes)
    }
}

/// A reply's body: bytes, or pieces as they come, while something is held.
pub(crate) struct ReplyBody {
    first: Option<Bytes>,
    rest: Option<mpsc::Receiver<Piece>>,
    /// Whether it is known that the reply has been cut short.
    is_cut: bool,
    _held: Option<Arc<dyn Send + Sync>>,
}

impl ReplyBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> ReplyBody {
        let first = Some(bytes.into()).filter(|bytes| !bytes.is_empty());
        ReplyBody { first, rest: None, is_cut: false, _held: None }
    }

    /// These bytes, and what follows; until it has ended, or the client is gone, something is held.
    pub(crate) fn pieces(
        first: Vec<u8>,
        rest: mpsc::Receiver<Piece>,
        held: Arc<dyn Send + Sync>,
    ) -> ReplyBody {
        let first = Some(Bytes::from(first)).filter(|bytes| !bytes.is_empty());
        ReplyBody { first, rest: Some(rest), is_cut: false, _held: Some(held) }
    }
}

impl hyper::body::Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        let frame = |bytes: Bytes| Some(Ok(hyper::body::Frame::data(bytes)));
        if let Some(first) = self.first.take() {
            return Poll::Ready(frame(first));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        match rest.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Some(bytes))) => Poll::Ready(frame(bytes.into())),
            Poll::Ready(Some(None)) => Poll::Ready(None),
            Poll::Ready(None) if !self.is_cut => {
                // The connection sends what it has when there is nothing more for the moment; an
                // error drops it, and with it the text that says what is wrong.
                self.is_cut = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            // The client must not take what it has for the whole.
            Poll::Ready(None) => {
                Poll::Ready(Some(Err(io::Error::other("the answer has been cut short"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match (&self.first, &self.rest) {
            (first, None) => {
                hyper::body::SizeHint::with_exact(first.as_ref().map_or(0, Bytes::len) as u64)
            }
            _ => hyper::body::SizeHint::default(),
        }
    }
}
