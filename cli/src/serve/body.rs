//! The body of a request, for a thread that reads it, and the body of a reply.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::reply::Piece;

/// Pieces that wait for the thread, at most.
const MOST_PIECES: usize = 4;
/// How often a thread that waits for a piece looks whether it should go on.
const LOOK: Duration = Duration::from_millis(100);

/// What was read of a body, and what follows.
pub(crate) struct Body {
    piece: Bytes,
    rest: Option<Rest>,
    /// What its beginning takes of the room for all of them.
    _counted: Option<OwnedSemaphorePermit>,
}

/// The room for what has come of bodies and waits for a thread, in KiB.
pub(crate) struct Room<'a> {
    pub(crate) all: &'a Arc<Semaphore>,
    /// How long a body waits for more of it.
    pub(crate) patience: Duration,
}

/// What follows, piece by piece; `None` is its end.
struct Rest {
    // Of the standard library, because the threads that read a body are threads of a runtime, too,
    // which may not wait for a channel of that.
    pieces: Mutex<Receiver<io::Result<Option<Bytes>>>>,
    /// A permit for each piece that may wait.
    room: Arc<Semaphore>,
    /// Whether nobody wants the rows any more.
    is_over: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// Nothing came for too long.
    Stalled,
    /// There was no room for it for too long.
    NoRoom,
    /// The connection is broken, or ended before the body.
    Broken(String),
}

impl Body {
    /// Waits for a body, or for its beginning: no thread is busy before there is work. What follows
    /// comes as it is asked for, until `is_over` says that the statement has ended.
    pub(crate) async fn begin(
        mut incoming: Incoming,
        most: usize,
        stall: Duration,
        room: Room<'_>,
        is_over: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Body, BodyError> {
        let mut counted: Option<OwnedSemaphorePermit> = None;
        let mut left = incoming.size_hint().exact();
        let mut pieces: Vec<Bytes> = Vec::new();
        let mut bytes = 0;
        while bytes <= most {
            match next(&mut incoming, &mut left, stall).await? {
                Some(piece) => {
                    // A client that sends little and slowly takes no room from others.
                    let (before, after) = (bytes, bytes + piece.len());
                    let more = room.take(after.div_ceil(1024) - usize::div_ceil(before, 1024));
                    match (&mut counted, more.await?) {
                        (Some(counted), more) => counted.merge(more),
                        (none, more) => *none = Some(more),
                    }
                    bytes = after;
                    pieces.push(piece);
                }
                None => return Ok(Body { piece: joined(pieces), rest: None, _counted: counted }),
            }
        }
        let (send, receive) = channel();
        let places = Arc::new(Semaphore::new(MOST_PIECES));
        tokio::spawn(forward(incoming, left, stall, send, Arc::clone(&places)));
        let (pieces_to_come, is_over) = (Mutex::new(receive), Box::new(is_over));
        let rest = Rest { pieces: pieces_to_come, room: places, is_over };
        Ok(Body { piece: joined(pieces), rest: Some(rest), _counted: counted })
    }

    /// What has come so far.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.piece
    }

    /// A body that is nothing.
    pub(crate) fn none() -> Body {
        Body { piece: Bytes::new(), rest: None, _counted: None }
    }
}

impl Room<'_> {
    async fn take(&self, kib: usize) -> Result<OwnedSemaphorePermit, BodyError> {
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let taken = Arc::clone(self.all).acquire_many_owned(kib);
        let taken = tokio::time::timeout(self.patience, taken).await;
        taken.ok().and_then(Result::ok).ok_or(BodyError::NoRoom)
    }
}

/// Hands pieces on, as there is room for them, up to the end or an error.
async fn forward(
    mut incoming: Incoming,
    mut left: Option<u64>,
    stall: Duration,
    send: Sender<io::Result<Option<Bytes>>>,
    room: Arc<Semaphore>,
) {
    loop {
        let Ok(permit) = room.acquire().await else { return };
        permit.forget();
        let piece = next(&mut incoming, &mut left, stall).await.map_err(|error| match error {
            BodyError::Stalled | BodyError::NoRoom => {
                io::Error::new(io::ErrorKind::TimedOut, "the body has stalled")
            }
            BodyError::Broken(what) => io::Error::other(what),
        });
        let is_last = !matches!(piece, Ok(Some(_)));
        if send.send(piece).is_err() || is_last {
            return;
        }
    }
}

/// The next piece of a body, or none at its end; `left` bytes of it are to come, if that is known.
async fn next(
    incoming: &mut Incoming,
    left: &mut Option<u64>,
    stall: Duration,
) -> Result<Option<Bytes>, BodyError> {
    loop {
        match tokio::time::timeout(stall, incoming.frame()).await {
            Err(_) => return Err(BodyError::Stalled),
            Ok(None) if left.is_some_and(|left| left > 0) => {
                return Err(BodyError::Broken("it ended before its length".to_owned()));
            }
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(BodyError::Broken(error.to_string())),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    *left = left.map(|left| left.saturating_sub(data.len() as u64));
                    return Ok(Some(data));
                }
                // Trailers say nothing to us.
                Err(_) => continue,
            },
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

impl Rest {
    /// Waits for a piece.
    fn wait(&self) -> io::Result<Option<Bytes>> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match pieces.recv_timeout(LOOK) {
                Ok(piece) => {
                    self.room.add_permits(1);
                    return piece;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the body was cut short"));
                }
                Err(RecvTimeoutError::Timeout) if (self.is_over)() => {
                    return Err(io::Error::other("the statement was asked to end"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.rest.as_ref().map(Rest::wait).transpose()?.flatten() {
                Some(piece) => self.piece = piece,
                None => {
                    self.rest = None;
                    return Ok(0);
                }
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
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        use std::task::Poll;
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
