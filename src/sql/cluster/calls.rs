//! Calls whose request and answer go on at the same time, as messages and bytes.
//!
//! ```text
//! answer    { kind u8 · length u32 · payload }…; kind FAILED has a code u32 and a text
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use futures::SinkExt;
use futures::channel::mpsc;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::runtime::Handle;
use tonic::body::Body;
use tonic::{Code, Status};

use super::nodes::{Nodes, innermost, of_status};
use crate::bytes::{Cursor, Writer};
use crate::error::{Error, Result};
use crate::sql::run::parts::Node;

/// The longest message.
const MOST_SAID: usize = 1 << 30;
/// Pieces that wait to be sent.
const WAITING: usize = 4;

/// The kind of message that ends a call without success.
pub(super) const FAILED: u8 = 0;

/// Pieces of a body, or why it ends before its end.
type Pieces = mpsc::Sender<io::Result<Frame<Bytes>>>;

/// A body that is sent while it is made.
fn streamed() -> (Pieces, Body) {
    let (to, pieces) = mpsc::channel(WAITING);
    (to, Body::new(StreamBody::new(pieces)))
}

/// The request of a call, as far as it is not sent.
pub(super) struct Asking {
    node: Arc<Node>,
    to: Pieces,
}

impl Asking {
    pub(super) async fn put(&mut self, piece: impl Into<Bytes>) -> Result<()> {
        let sent = self.to.send(Ok(Frame::data(piece.into()))).await;
        sent.map_err(|_| lost(&self.node, "it is gone, in the middle of a call"))
    }

    /// Sends a length, and as many bytes.
    pub(super) async fn put_head(&mut self, head: Vec<u8>) -> Result<()> {
        self.put(Bytes::copy_from_slice(&(head.len() as u64).to_le_bytes())).await?;
        self.put(head).await
    }

    /// Ends the request before its end, so that it is not taken for whole.
    pub(super) async fn break_off(&mut self, why: &Error) {
        let _ = self.to.send(Err(io::Error::other(why.to_string()))).await;
    }
}

/// The answer of a call, as far as it has come.
pub(super) struct Answer {
    node: Arc<Node>,
    body: Body,
    came: BytesMut,
}

/// A request that begins, and the answer to it once it begins.
pub(super) fn call<'n>(
    nodes: &'n Nodes,
    node: &'n Arc<Node>,
    path: &str,
) -> (Asking, impl Future<Output = Result<Answer>> + use<'n>) {
    let (to, body) = streamed();
    let request = Request::post(path).body(body);
    let answering = async move {
        let request = request.map_err(|error| Error::InvalidInput(error.to_string()))?;
        let body = nodes.call(node, request).await?;
        Ok(Answer { node: Arc::clone(node), body, came: BytesMut::new() })
    };
    (Asking { node: Arc::clone(node), to }, answering)
}

impl Answer {
    /// The next message; a failure if it is one.
    pub(super) async fn next(&mut self) -> Result<(u8, Bytes)> {
        let head = self.take(1 + size_of::<u32>()).await?;
        let mut head = Cursor::new(&head);
        let (kind, length) = (head.u8()?, head.u32()? as usize);
        if length > MOST_SAID {
            return Err(self.lost("its answer is none"));
        }
        let payload = self.take(length).await?;
        if kind != FAILED {
            return Ok((kind, payload));
        }
        let mut payload = Cursor::new(&payload);
        let code = Code::from_i32(i32::try_from(payload.u32()?).unwrap_or_default());
        let status = Status::new(code, payload.text(MOST_SAID)?);
        Err(of_status(&self.node.name, &self.node.url, &status))
    }

    /// The next message, which is to be of this kind.
    pub(super) async fn expect(&mut self, kind: u8) -> Result<Bytes> {
        match self.next().await? {
            (of, payload) if of == kind => Ok(payload),
            _ => Err(self.lost("its answer is to something else")),
        }
    }

    async fn take(&mut self, bytes: usize) -> Result<Bytes> {
        while self.came.len() < bytes {
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.came.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(self.lost(&innermost(&error))),
                None => return Err(self.lost("it is gone, in the middle of a call")),
            }
        }
        Ok(self.came.split_to(bytes).freeze())
    }

    pub(super) fn lost(&self, why: &str) -> Error {
        lost(&self.node, why)
    }
}

fn lost(node: &Node, why: &str) -> Error {
    Error::Unreachable(format!("node {} ({}): {why}", node.name, node.url))
}

/// How the answer to a call is given, on a thread that may wait.
pub(in crate::sql) struct Answering {
    to: Pieces,
    handle: Handle,
}

impl Answering {
    /// What gives an answer, and its body.
    pub(in crate::sql) fn new(handle: &Handle) -> (Answering, Body) {
        let (to, body) = streamed();
        (Answering { to, handle: handle.clone() }, body)
    }

    pub(super) fn say(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut out = Writer::new();
        out.u8(kind);
        out.blob(payload);
        let sent = self.handle.block_on(self.to.send(Ok(Frame::data(out.into_vec().into()))));
        sent.map_err(|_| Error::Unreachable("the connection is closed".into()))
    }

    /// Says why the call has failed, if anybody listens.
    pub(in crate::sql) fn fail(&mut self, error: &Error) {
        let mut out = Writer::new();
        let (code, what) = code_of(error);
        out.u32(code as u32);
        out.blob(what.as_bytes());
        let _ = self.say(FAILED, out.as_slice());
    }
}

/// The request of a call, read on a thread that may wait.
pub(in crate::sql) struct Asked {
    body: Body,
    came: Bytes,
    handle: Handle,
}

impl Asked {
    pub(in crate::sql) fn new(body: Body, handle: &Handle) -> Asked {
        Asked { body, came: Bytes::new(), handle: handle.clone() }
    }

    /// A length, and as many bytes.
    pub(super) fn head(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; size_of::<u64>()];
        self.read_exact(&mut length).map_err(broken)?;
        let length = u64::from_le_bytes(length);
        if length > MOST_SAID as u64 {
            return Err(Error::LimitExceeded(format!("a manifest of {length} bytes at once")));
        }
        let mut head = Vec::new();
        Read::take(&mut *self, length).read_to_end(&mut head).map_err(broken)?;
        Ok(head)
    }

    /// The next byte; `None` if the request ends.
    pub(super) fn word(&mut self) -> Option<u8> {
        let mut word = [0];
        self.read_exact(&mut word).ok().map(|()| word[0])
    }
}

fn broken(error: io::Error) -> Error {
    Error::io("the request", error)
}

impl Read for Asked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.came.is_empty() {
            // The connection's pings end the wait for a sender that is gone.
            match self.handle.block_on(self.body.frame()) {
                Some(Ok(frame)) => self.came = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.came.len());
        self.came.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

/// How a failure is told to another machine; [`of_status`] reads it.
pub(in crate::sql) fn code_of(error: &Error) -> (Code, String) {
    let code = match error {
        Error::NotFound(_) => Code::NotFound,
        Error::LimitExceeded(_) => Code::ResourceExhausted,
        Error::InvalidInput(_) => Code::InvalidArgument,
        Error::Unsupported(_) => Code::Unimplemented,
        Error::Busy(_) => Code::Aborted,
        _ => Code::Internal,
    };
    (code, error.to_string())
}
