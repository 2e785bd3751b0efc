//! A connection of a client, which speaks HTTP/2 from its first byte.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{oneshot, watch};
use tokio::time::Sleep;
use tonic::codegen::tokio_stream::{self, StreamExt as _};
use tonic::transport::Server as Http2;
use tonic::transport::server::Connected;

use super::call::Shared;
use super::interceptor::Interceptor;

/// What a connection begins with, in bytes.
const PREFACE: usize = 24;
/// Bytes that a client may send ahead, in a call and in all of a connection.
const WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// The longest frame.
const FRAME: u32 = 256 << 10;
/// Calls of a connection at a time, and bytes of their headers.
const MOST_CALLS: u32 = 256;
const HEADER_BYTES: u32 = 64 << 10;
/// How often a silent client is asked whether it is there, and how long it may take to say so.
const ASK: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(20);

/// Answers the calls of a connection, until it ends or the server does. A client has `time` to
/// begin.
pub(in crate::serve) async fn connection<S>(
    shared: Arc<Shared>,
    stream: S,
    time: Duration,
    mut end: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (open, closed) = oneshot::channel();
    let wire =
        Wire { stream, begins: Some(Box::pin(tokio::time::sleep(time))), read: 0, _open: open };
    // No other connection comes.
    let incoming = tokio_stream::once(Ok::<_, io::Error>(wire)).chain(tokio_stream::pending());
    let over = async move {
        tokio::select! {
            _ = closed => {}
            _ = end.wait_for(|ends| *ends) => {}
        }
    };
    let served = Http2::builder()
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_concurrent_streams(MOST_CALLS)
        .http2_max_header_list_size(HEADER_BYTES)
        .http2_keepalive_interval(Some(ASK))
        .http2_keepalive_timeout(Some(ANSWER))
        .serve_with_incoming_shutdown(Interceptor::new(shared), incoming, over);
    // A connection that breaks has nobody to be told. What was asked is still answered.
    let _ = served.await;
}

/// The bytes of a connection. One that does not begin in time is broken.
struct Wire<S> {
    stream: S,
    /// When the client must have begun.
    begins: Option<Pin<Box<Sleep>>>,
    read: usize,
    /// Dropped with the connection.
    _open: oneshot::Sender<()>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(begins) = &mut self.begins
            && begins.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read = self.read.saturating_add(buffer.filled().len() - before);
        if self.read >= PREFACE {
            self.begins = None;
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<S> Connected for Wire<S> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
