//! Sessions over a cluster, and what a session does for other machines.
//!
//! Where this stands on the road of a query: an engine with a cluster plans with `distribute` as
//! the last rule, and runs plans over the exchange of `datafusion-distributed`. A machine of a
//! cluster gives each task of others a session of its own, whose state has the functions that plans
//! name, and whose threads and memory are those of its engine.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;
use datafusion_distributed::{
    DistributedConfig, DistributedExt, SessionStateBuilderExt, Worker, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext, WorkerSessionBuilder,
};
use futures::future::BoxFuture;
use http::header::HeaderName;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use tokio::runtime::{Builder, Handle, Runtime};
use tonic::Status;
use tonic::body::Body;
use tower::{Service, ServiceExt};

use super::Engine;
use crate::disk::LockWait;
use crate::error::{Error, Result};
use crate::ingest::load::LoadOptions;
use crate::maintain::ModifyOptions;
use crate::sql::cluster::calls::{Answering, Asked, code_of};
use crate::sql::cluster::changes::{CHANGE, DROP, OfChange, change, drop_here};
use crate::sql::cluster::codec::Codec;
use crate::sql::cluster::copies::{GIVE, give_files};
use crate::sql::cluster::distribute::{Distribute, Functions, route};
use crate::sql::cluster::moves::{MOVE, give};
use crate::sql::cluster::node::{self, OfNode};
use crate::sql::cluster::nodes::{Connections, Nodes, SECRET};
use crate::sql::cluster::state::{LEDGER, NAMES, STATE};
use crate::sql::cluster::status::TABLES;
use crate::sql::cluster::storing::{BECOME, STORE, become_same, take};
use crate::sql::cluster::tables::ClusterTables;
use crate::sql::names::catalog::Tables;
use crate::sql::names::lock;
use crate::sql::names::remote::{FindInCluster, InCluster};
use crate::sql::plan::planner::Planner;
use crate::sql::plan::pushdown::PositionalFilterPushdown;
use crate::sql::run::stops::stop_join;
use crate::sql::run::waiting_joins::WaitForNone;
use crate::sql::stack::WORKER_BYTES;
use crate::sql::work::handle::{OfSession, SessionHandle};
use crate::store::Store;

/// The longest question about a table, which names the chunks that are known.
const MOST_QUESTION: usize = 64 << 20;

/// A state whose plans run on the machines of a cluster.
pub(super) fn over(
    builder: SessionStateBuilder,
    nodes: &Arc<Nodes>,
    functions: Functions,
) -> DataFusionResult<SessionStateBuilder> {
    let connections = Connections(Arc::clone(nodes));
    let builder = builder
        // Parts of a plan that are computed once are not seen by the exchange.
        .with_query_planner(Arc::new(Planner { shares: false }))
        .with_physical_optimizer_rule(Arc::new(Distribute(functions)))
        .with_distributed_worker_resolver(connections.clone())
        .with_distributed_channel_resolver(connections)
        .with_distributed_user_codec(Codec)
        .with_distributed_route_tasks_handler(route)
        // LZ4 and back took a third of the processor time of a large shuffle.
        .with_distributed_compression(None)?
        .with_distributed_planner();
    // Where `distribute` has put no exchange, there is none: other machines have no other files.
    let mut builder = builder.with_distributed_max_tasks_per_stage(1)?;
    // The exchange turns it off, because it could send a part of a plan without the values of its
    // subqueries. `distribute` sends no expression with a subquery (`sendable`), and joins in their
    // place are planned in conditions and projections only, and take any number of rows for one.
    if let Some(config) = builder.config() {
        config.options_mut().optimizer.enable_physical_uncorrelated_scalar_subquery = true;
    }
    Ok(builder)
}

/// How sessions find tables of a cluster.
pub(super) fn names(tables: &Arc<ClusterTables>) -> InCluster {
    let (nodes, of_names) = (tables.node_names(), Arc::clone(tables));
    let names = Box::new(move || of_names.names());
    let tables = Arc::clone(tables);
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
    InCluster { names, nodes, find }
}

/// Gives each task of another machine a session of its own: its names, memory and threads.
struct TaskSessions {
    engine: Engine,
    /// What plans may name.
    functions: Arc<TaskContext>,
    calls: Arc<Calls>,
}

/// The header with the number of a call, which is set here.
const CALL: &str = "x-sty-call";

/// Sessions of calls that go on. Work that does not give its thread back, as a join of very many
/// rows, is not ended by dropping it: it looks at its session.
#[derive(Debug, Default)]
struct Calls {
    number: AtomicU64,
    sessions: Mutex<HashMap<u64, Weak<OfSession>>>,
}

impl Calls {
    /// A session begins for the call with these headers.
    fn begin(&self, headers: &HeaderMap, session: &Arc<OfSession>) {
        let number = headers.get(CALL).and_then(|number| number.to_str().ok()?.parse::<u64>().ok());
        let mut sessions = lock(&self.sessions);
        match number.and_then(|number| sessions.get_mut(&number)) {
            Some(of_call) => *of_call = Arc::downgrade(session),
            // Nobody waits any more.
            None => session.canceller.cancel(),
        }
    }
}

/// A call, whose session is cancelled when nobody waits for its answer. The answer to a task ends
/// with what the task has counted, once the statement is over.
struct Call {
    number: u64,
    calls: Arc<Calls>,
    /// Set at its end: work that waits for other writers, or for a sender, looks at it.
    ended: Arc<AtomicBool>,
}

impl Call {
    fn new(calls: &Arc<Calls>) -> Call {
        let number = calls.number.fetch_add(1, Ordering::Relaxed);
        lock(&calls.sessions).insert(number, Weak::new());
        Call { number, calls: Arc::clone(calls), ended: Arc::default() }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let session = lock(&self.calls.sessions).remove(&self.number);
        if let Some(session) = session.and_then(|session| session.upgrade()) {
            session.canceller.cancel();
        }
    }
}

#[async_trait]
impl WorkerSessionBuilder for TaskSessions {
    async fn build_session_state(
        &self,
        mut context: WorkerQueryContext,
    ) -> DataFusionResult<SessionState> {
        let begun = self.engine.begin();
        self.calls.begin(&context.headers, &begun.own);
        let mut config = context.builder.config().take().unwrap_or_default();
        let exchange = config.options().extensions.get::<DistributedConfig>().cloned();
        let mut options = begun.config.options().as_ref().clone();
        options.extensions.insert(exchange.unwrap_or_default());
        *config.options_mut() = options;
        let working = Box::new(begun.own.workers.keep());
        let of_node = OfNode::new(&begun.own, &begun.tables, &self.functions, working);
        let functions = &self.functions;
        let builder = SessionStateBuilder::new()
            .with_config(config.with_extension(Arc::new(of_node)))
            .with_runtime_env(begun.environment)
            .with_scalar_functions(functions.scalar_functions().values().cloned().collect())
            .with_aggregate_functions(functions.aggregate_functions().values().cloned().collect())
            .with_optimizer_rules(Vec::new())
            .with_physical_optimizer_rules(Vec::new())
            .with_distributed_user_codec(Codec)
            .with_distributed_worker_plan_rewrite_handler(finish);
        Ok(match self.engine.nodes() {
            Some(nodes) => builder.with_distributed_channel_resolver(Connections(nodes)),
            None => builder,
        }
        .build())
    }
}

/// The last steps of planning, for what runs here: joins hand filters to the scans below them, and
/// end when the task does. The operators stay the same, because those who sent them count what
/// each of them did.
fn finish(task: WorkerPlanRewriteEvent<'_>) -> DataFusionResult<WorkerPlanRewriteEventResponse> {
    let options = task.session_config.options();
    let plan = PositionalFilterPushdown(FilterPushdownPhase::Post).optimize(task.plan, options)?;
    let plan = WaitForNone.optimize(plan, options)?;
    let Some(session) = SessionHandle::of(options) else {
        return internal_err!("a task without a session");
    };
    let cancelled = session.canceller.after_now();
    let plan = plan.transform_up(|node| stop_join(node, &cancelled))?.data;
    Ok(WorkerPlanRewriteEventResponse::new(plan))
}

/// What a machine does for others, as a service over HTTP/2: tasks, what its tables are, and rows
/// that come and go. It has threads of its own, which are not those of the connection. Whoever
/// reaches it may read all tables, and write them unless the engine is one that only reads: its
/// caller checks that requests have the secret of the cluster.
#[derive(Clone)]
pub struct NodeService {
    inner: Worker,
    calls: Arc<Calls>,
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
    /// The header in which other machines say the secret of the cluster.
    pub const SECRET_HEADER: &str = SECRET;

    /// Answers a question about a table.
    async fn about_table(
        engine: Engine,
        question: Body,
        answer: fn(&Tables, &[u8]) -> Result<Vec<u8>>,
    ) -> std::result::Result<Bytes, Status> {
        let question = Limited::new(question, MOST_QUESTION).collect().await;
        let question = question.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let question = question.to_bytes();
        // It may open a table.
        let answer = tokio::task::spawn_blocking(move || answer(&engine.begin().tables, &question));
        match answer.await {
            Ok(Ok(answer)) => Ok(answer.into()),
            Ok(Err(error)) => {
                let (code, what) = code_of(&error);
                Err(Status::new(code, what))
            }
            Err(_) => Err(Status::unavailable("the node stops")),
        }
    }

    /// Reads or writes files of the store, and answers meanwhile; a failure is the last answer. It
    /// does not wait for other writers any more once the call has `ended`.
    fn write(
        engine: &Engine,
        ended: Arc<AtomicBool>,
        request: Body,
        write: impl FnOnce(&Store, &LoadOptions, &mut Asked, &mut Answering) -> Result<()>
        + Send
        + 'static,
    ) -> Response<Body> {
        let Some((store, options)) = engine.writing() else {
            return Status::permission_denied("the node only reads").into_http();
        };
        let wait = LockWait { cancelled: Arc::clone(&ended), ..store.wait().clone() };
        let (store, options) = (store.with_wait(wait), LoadOptions { cancelled: ended, ..options });
        let handle = Handle::current();
        let (mut answering, body) = Answering::new(&handle);
        let mut asked = Asked::new(request, &handle);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = write(&store, &options, &mut asked, &mut answering) {
                answering.fail(&error);
            }
        });
        Response::new(body)
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let call = Call::new(&self.calls);
        request.headers_mut().insert(HeaderName::from_static(CALL), call.number.into());
        let (service, engine) = (self.inner.clone().into_worker_server(), self.engine.clone());
        let (calls_of, ended) = (Arc::clone(&self.calls), Arc::clone(&call.ended));
        let answering = async move {
            let answer: fn(&Tables, &[u8]) -> Result<Vec<u8>> = match request.uri().path() {
                STATE => node::answer,
                LEDGER => node::ledger,
                TABLES => node::tables,
                NAMES => node::names,
                STORE => return Ok(NodeService::write(&engine, ended, request.into_body(), take)),
                MOVE => {
                    let give =
                        |store: &_, _: &_, asked: &mut _, say: &mut _| give(store, asked, say);
                    return Ok(NodeService::write(&engine, ended, request.into_body(), give));
                }
                GIVE => {
                    let give = |store: &_, _: &_, asked: &mut _, say: &mut _| {
                        give_files(store, asked, say)
                    };
                    return Ok(NodeService::write(&engine, ended, request.into_body(), give));
                }
                CHANGE => {
                    let (of, calls, headers) =
                        (engine.clone(), Arc::clone(&calls_of), request.headers().clone());
                    let change = move |store: &_, _: &_, asked: &mut _, say: &mut _| {
                        change(of.of_change(&calls, &headers)?, store, asked, say)
                    };
                    return Ok(NodeService::write(&engine, ended, request.into_body(), change));
                }
                DROP => {
                    let of = engine.clone();
                    let drop_here = move |store: &_, _: &_, asked: &mut _, say: &mut _| {
                        drop_here(&of.begin().tables, store, asked, say)
                    };
                    return Ok(NodeService::write(&engine, ended, request.into_body(), drop_here));
                }
                BECOME => {
                    let take = |store: &_, _: &_, asked: &mut _, say: &mut _| {
                        become_same(store, asked, say)
                    };
                    return Ok(NodeService::write(&engine, ended, request.into_body(), take));
                }
                _ => return service.oneshot(request).await,
            };
            Ok(match NodeService::about_table(engine, request.into_body(), answer).await {
                Ok(answer) => Response::new(Body::new(Full::from(answer))),
                Err(status) => status.into_http(),
            })
        };
        let answered = self.threads.0.as_ref().map(|threads| threads.spawn(answering));
        Box::pin(async move {
            let gone = || Status::unavailable("the node stops").into_http();
            let answer = match answered {
                Some(answered) => match answered.await {
                    Ok(answered) => answered?,
                    Err(_) => gone(),
                },
                None => gone(),
            };
            // The call lasts as long as its answer is read.
            Ok(answer.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _ = &call;
                    frame
                }))
            }))
        })
    }
}

impl Engine {
    /// What it takes to change rows for another machine, in a session that ends with the call.
    fn of_change(&self, calls: &Calls, headers: &HeaderMap) -> Result<OfChange> {
        let session = self.own_session()?;
        calls.begin(headers, &session.own);
        let options = ModifyOptions {
            threads: session.threads,
            memory_limit: Some(session.memory),
            cancelled: session.own.canceller.flag(),
            recorder: Arc::default(),
        };
        let (tables, state) = (Arc::clone(&session.tables), session.context.state());
        let own = Arc::clone(&session.own);
        Ok(OfChange { tables, functions: self.functions(), state, options, _session: own })
    }

    /// What this engine does for the other machines of a cluster, with its own tables.
    pub fn node_service(&self) -> Result<NodeService> {
        let threads = Builder::new_multi_thread()
            .worker_threads(self.threads().max(2))
            .thread_name("sty-node")
            .thread_stack_size(WORKER_BYTES)
            .enable_all()
            .build()
            .map_err(Error::too_few_threads)?;
        let (engine, functions) = (self.clone(), self.functions());
        let calls = Arc::<Calls>::default();
        let sessions = TaskSessions { engine, functions, calls: Arc::clone(&calls) };
        let inner = Worker::from_session_builder(sessions);
        let (threads, engine) = (Arc::new(Threads(Some(threads))), self.clone());
        Ok(NodeService { inner, calls, threads, engine })
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
