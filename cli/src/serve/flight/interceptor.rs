//! What each call passes first: who calls is found before anything of the message is read, and the
//! size of messages is bounded.

use std::convert::Infallible;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Context, Poll, Service as HttpService};

use super::authentication::{caller, who_are_you};
use super::call::{Caller, Shared};
#[cfg(feature = "cluster")]
use super::node;
use super::received::MOST_MESSAGE;
use super::service::Service;

/// The most bytes of a message without rows.
const MOST_SMALL: usize = 4 << 20;
/// The calls of which messages have rows, and the one that needs no header.
const PUT: &str = "/DoPut";
const HANDSHAKE: &str = "/Handshake";

/// Lets calls in whose caller is known.
#[derive(Clone)]
pub(super) struct Interceptor {
    shared: Arc<Shared>,
    small: FlightServiceServer<Service>,
    with_rows: FlightServiceServer<Service>,
}

impl Interceptor {
    pub(super) fn new(shared: Arc<Shared>) -> Interceptor {
        let server = FlightServiceServer::new(Service(Arc::clone(&shared)));
        let small = server.clone().max_decoding_message_size(MOST_SMALL);
        let with_rows = server.max_decoding_message_size(MOST_MESSAGE);
        Interceptor { shared, small, with_rows }
    }
}

impl HttpService<Request<Body>> for Interceptor {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let (mut head, body) = request.into_parts();
        let path = head.uri.path();
        let is_handshake = path.ends_with(HANDSHAKE);
        let mut inner = match path.ends_with(PUT) {
            true => self.with_rows.clone(),
            false => self.small.clone(),
        };
        Box::pin(async move {
            #[cfg(feature = "cluster")]
            match node::is_node(&shared, &head.headers) {
                Ok(true) => return node::answer(shared, Request::from_parts(head, body)).await,
                Ok(false) => {}
                Err(status) => return Ok(status.into_http()),
            }
            match caller(&shared, &head.headers).await {
                Ok(Some(user)) => drop(head.extensions.insert(Caller(user))),
                // The first message of a handshake may say who it is.
                Ok(None) if is_handshake => {}
                Ok(None) => return Ok(who_are_you().into_http()),
                Err(status) => return Ok(status.into_http()),
            }
            inner.call(Request::from_parts(head, body)).await
        })
    }
}
