//! What other machines of a cluster ask: their tasks, and the state of a table. They are known by
//! the secret of the cluster, not as users.

use std::convert::Infallible;
use std::sync::Arc;

use stylobate::NodeService;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::codegen::http::{HeaderMap, Request, Response};

use super::call::Shared;
use crate::serve::users::same;

/// Whether a call comes from another machine; an error if it says so and does not know the secret.
pub(super) fn is_node(shared: &Shared, headers: &HeaderMap) -> Result<bool, Status> {
    let Some(said) = headers.get(NodeService::SECRET_HEADER) else { return Ok(false) };
    match &shared.server.node {
        Some((_, secret)) if same(said.as_bytes(), secret.as_bytes()) => Ok(true),
        Some(_) => Err(Status::unauthenticated(
            "the secret of the cluster is another one here: all machines need the same",
        )),
        None => Err(Status::failed_precondition(
            "this server does nothing for other machines: it needs --node",
        )),
    }
}

/// Answers another machine.
pub(super) async fn answer(
    shared: Arc<Shared>,
    request: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    match &shared.server.node {
        Some((service, _)) => service.clone().call(request).await,
        None => Ok(Status::unavailable("there is no node").into_http()),
    }
}
