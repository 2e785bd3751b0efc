//! Sessions over a cluster, and what a session does for other machines.
//!
//! Where this stands on the road of a query: an engine with a cluster plans with `distribute` as
//! the last rule, and runs plans over the exchange of `datafusion-distributed`. A machine of a
//! cluster gives each task of others a session of its own, whose state has the functions that plans
//! name, and whose threads and memory are those of its engine.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion_distributed::{
    DistributedConfig, DistributedExt, SessionStateBuilderExt, Worker, WorkerQueryContext,
    WorkerSessionBuilder,
};
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use tokio::runtime::{Builder, Runtime};
use tonic::Status;
use tonic::body::Body;
use tower::{Service, ServiceExt};

use super::Engine;
use crate::error::{Error, Result};
use crate::sql::cluster::codec::Codec;
use crate::sql::cluster::distribute::route;
use crate::sql::cluster::functions::hidden;
use crate::sql::cluster::node::{self, OfNode};
use crate::sql::cluster::nodes::{Connections, Nodes};
use crate::sql::cluster::tables::{ClusterTables, STATE};

use crate::sql::names::lock;
use crate::sql::names::remote::{FindInCluster, InCluster};
use crate::sql::stack::WORKER_BYTES;

/// The longest question about a table, which names the chunks that are known.
const MOST_QUESTION: usize = 64 << 20;

/// A state whose plans run on the machines of a cluster.
pub(super) fn over(
    builder: SessionStateBuilder,
    nodes: &Arc<Nodes>,
) -> DataFusionResult<SessionStateBuilder> {
    let connections = Connections(Arc::clone(nodes));
    let builder = builder
        .with_distributed_worker_resolver(connections.clone())
        .with_distributed_channel_resolver(connections)
        .with_distributed_user_codec(Codec)
        .with_distributed_route_tasks_handler(route)
        .with_distributed_planner();
    // Where `distribute` has put no exchange, there is none: other machines have no other files.
    builder.with_distributed_max_tasks_per_stage(1)
}

/// How sessions find tables of a cluster.
pub(super) fn names(tables: &Arc<ClusterTables>) -> InCluster {
    let (names, tables) = (tables.names(), Arc::clone(tables));
    let find: FindInCluster = Box::new(move |partial, name| {
        let tables = Arc::clone(&tables);
        Box::pin(async move {
            let notes = Mutex::new(Vec::new());
            let note = |text| lock(&notes).push(text);
            let found = match partial {
                true => tables.find(&name, Some(&note)).await,
                false => tables.find(&name, None).await,
            };
            (found, std::mem::take(&mut *lock(&notes)))
        })
    });
    InCluster { names, find }
}

/// Gives each task of another machine a session of its own.
struct TaskSessions(Engine);

#[async_trait]
impl WorkerSessionBuilder for TaskSessions {
    async fn build_session_state(
        &self,
        mut context: WorkerQueryContext,
    ) -> DataFusionResult<SessionState> {
        let session = self.0.own_session()?;
        let mut config = context.builder.config().take().unwrap_or_default();
        let exchange = config.options().extensions.get::<DistributedConfig>().cloned();
        let mut options = session.context.copied_config().options().as_ref().clone();
        options.extensions.insert(exchange.unwrap_or_default());
        *config.options_mut() = options;
        let working = session.own.workers.keep();
        let of_node = OfNode::new(&session.own, &session.tables, Box::new(working));
        let mut builder = SessionStateBuilder::new_from_existing(session.context.state());
        let functions = builder.scalar_functions().get_or_insert_default();
        functions.extend(hidden(session.memory).map(Arc::new));
        Ok(builder
            .with_config(config.with_extension(Arc::new(of_node)))
            .with_distributed_user_codec(Codec)
            .build())
    }
}

/// What a machine does for others, as a service over HTTP/2: tasks, and what its tables are. It has
/// threads of its own, which are not those of the connection. Whoever reaches it may read all
/// tables: its caller checks that requests have the secret of the cluster.
#[derive(Clone)]
pub struct NodeService {
    inner: Worker,
    threads: Arc<Threads>,
    engine: Engine,
}

/// Threads of tasks; they end with the last clone of the service.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl NodeService {
    /// Answers a question about a table.
    async fn state(engine: Engine, question: Body) -> std::result::Result<Bytes, Status> {
        let question = Limited::new(question, MOST_QUESTION).collect().await;
        let question = question.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let question = question.to_bytes();
        // It may open a table.
        let answer = tokio::task::spawn_blocking(move || {
            let session = engine.own_session()?;
            node::answer(&session.tables, &question)
        });
        match answer.await {
            Ok(Ok(answer)) => Ok(answer.into()),
            Ok(Err(error)) => Err(match error {
                Error::NotFound(what) => Status::not_found(what),
                Error::LimitExceeded(what) => Status::resource_exhausted(what),
                other => Status::internal(other.to_string()),
            }),
            Err(_) => Err(Status::unavailable("the node stops")),
        }
    }
}

impl std::fmt::Debug for NodeService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeService").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for NodeService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, std::result::Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (service, engine) = (self.inner.clone().into_worker_server(), self.engine.clone());
        let answering = async move {
            if request.uri().path() != STATE {
                return service.oneshot(request).await;
            }
            Ok(match NodeService::state(engine, request.into_body()).await {
                Ok(answer) => Response::new(Body::new(Full::from(answer))),
                Err(status) => status.into_http(),
            })
        };
        let call = self.threads.0.as_ref().map(|threads| threads.spawn(answering));
        Box::pin(async move {
            let gone = || Status::unavailable("the node stops").into_http();
            match call {
                Some(call) => match call.await {
                    Ok(answered) => answered,
                    Err(_) => Ok(gone()),
                },
                None => Ok(gone()),
            }
        })
    }
}

impl Engine {
    /// What this engine does for the other machines of a cluster, with its own tables.
    pub fn node_service(&self) -> Result<NodeService> {
        let threads = Builder::new_multi_thread()
            .worker_threads(self.threads().max(2))
            .thread_name("sty-node")
            .thread_stack_size(WORKER_BYTES)
            .enable_all()
            .build()
            .map_err(Error::too_few_threads)?;
        let inner = Worker::from_session_builder(TaskSessions(self.clone()));
        Ok(NodeService { inner, threads: Arc::new(Threads(Some(threads))), engine: self.clone() })
    }
}
