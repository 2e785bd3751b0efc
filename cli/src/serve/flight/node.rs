//! What other machines of a cluster ask: their tasks, and the state of a table. They are known by
//! the secret of the cluster, not as users.

use std::convert::Infallible;
use std::sync::Arc;

use arrow_flight::Action;
use stylobate::NodeService;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{Bytes, Service as _};

use super::call::Shared;
use super::errors::of_failure;
use crate::errors::Failure;
use crate::serve::users::same;

/// The header with the secret.
const SECRET: &str = "x-sty-secret";

/// Marks a call as that of another machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherNode;

/// Whether a call comes from another machine; an error if it says so and does not know the secret.
pub(super) fn is_node(shared: &Shared, headers: &HeaderMap) -> Result<bool, Status> {
    let Some(said) = headers.get(SECRET) else { return Ok(false) };
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

/// Whether a path is that of tasks.
pub(super) fn is_task(path: &str) -> bool {
    NodeService::takes(path)
}

/// Answers a task of another machine.
pub(super) async fn task(
    shared: Arc<Shared>,
    request: Request<Body>,
) -> Result<Response<Body>, Infallible> {
    match &shared.server.node {
        Some((service, _)) => service.clone().call(request).await,
        None => Ok(Status::unavailable("there is no node").into_http()),
    }
}

/// Answers a question of another machine; `None` if it is an action of a client.
pub(super) async fn question(
    shared: &Arc<Shared>,
    action: &Action,
) -> Option<Result<Bytes, Status>> {
    let (service, _) = shared.server.node.as_ref()?;
    let (service, action) = (service.clone(), action.clone());
    // It may open a table.
    let answered =
        tokio::task::spawn_blocking(move || service.answer(&action.r#type, &action.body));
    match answered.await {
        Ok(answer) => answer.map(|answer| match answer {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(of_failure(&Failure::from(error))),
        }),
        Err(_) => Some(Err(Status::unavailable("the server ends"))),
    }
}
