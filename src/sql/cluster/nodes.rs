//! Connections to the machines of a cluster, and failures that name the machine.
//!
//! Connections are the cluster's own, on a thread of its own: they outlive the statements that use
//! them. A machine that does not answer a ping within a second is gone, and so are the statements
//! that wait for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerResolver, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::BoxStream;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use tonic::body::Body;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};
use tower::ServiceExt;
use url::Url;

use super::description::ClusterDescription;
use crate::error::{Error, Result};
use crate::sql::names::lock;
use crate::sql::run::parts::Node;

/// The header with the secret.
pub(in crate::sql) const SECRET: &str = "x-sty-secret";
/// How long a machine may take to take a connection, and how long a silent one may be silent.
const CONNECT: Duration = Duration::from_millis(450);
const PING: Duration = Duration::from_millis(300);
const PONG: Duration = Duration::from_millis(600);
/// The longest answer about a table.
const MOST_ANSWER: usize = 1 << 30;

/// The machines of a cluster.
#[derive(Debug)]
pub(in crate::sql) struct Nodes {
    pub(in crate::sql) description: ClusterDescription,
    channels: Mutex<HashMap<Url, Channel>>,
    /// Drives the connections; there until it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Nodes {
    pub(in crate::sql) fn new(description: ClusterDescription) -> Result<Nodes> {
        description.check()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sty-nodes")
            .enable_all()
            .build()
            .map_err(Error::too_few_threads)?;
        Ok(Nodes { description, channels: Mutex::default(), runtime: Some(runtime) })
    }

    /// The connection to an address, which is made when it is first used.
    fn channel(&self, url: &Url) -> Result<BoxCloneSyncChannel> {
        let secret = HeaderValue::from_str(&self.description.secret);
        let mut secret =
            secret.map_err(|_| Error::InvalidInput("the secret has no plain text".into()))?;
        secret.set_sensitive(true);
        if !self.description.nodes.iter().any(|node| node.url == *url) {
            return Err(Error::InvalidInput(format!("{url} is no node of the cluster")));
        }
        let mut channels = lock(&self.channels);
        let channel = match channels.get(url) {
            Some(channel) => channel.clone(),
            None => {
                let wrong = |error: tonic::transport::Error| {
                    Error::InvalidInput(format!("{url}: {}", innermost(&error)))
                };
                let mut endpoint = Endpoint::from_shared(url.to_string()).map_err(wrong)?;
                if let Some(authorities) =
                    self.description.authorities.as_ref().filter(|_| url.scheme() == "https")
                {
                    let tls =
                        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities));
                    endpoint = endpoint.tls_config(tls).map_err(wrong)?;
                }
                let endpoint = endpoint
                    .connect_timeout(CONNECT)
                    .tcp_nodelay(true)
                    .http2_keep_alive_interval(PING)
                    .keep_alive_timeout(PONG)
                    .keep_alive_while_idle(false);
                let _entered = self.runtime.as_ref().map(|runtime| runtime.enter());
                channels.entry(url.clone()).or_insert(endpoint.connect_lazy()).clone()
            }
        };
        let with_secret = channel.map_request(move |mut request: Request<Body>| {
            request.headers_mut().insert(HeaderName::from_static(SECRET), secret.clone());
            request
        });
        Ok(BoxCloneSyncChannel::new(with_secret))
    }

    /// The name of the machine at an address.
    fn name(&self, url: &Url) -> &str {
        let node = self.description.nodes.iter().find(|node| node.url == *url);
        node.map_or("?", |node| &node.name)
    }

    /// Asks a machine something that has one answer, at a path of its own.
    pub(super) async fn ask(&self, node: &Node, path: &str, question: Vec<u8>) -> Result<Bytes> {
        let request = Request::post(path).body(Body::new(Full::from(question)));
        let request = request.map_err(|error| lost(node, &error))?;
        let answer = self.call(node, request).await?;
        let body = Limited::new(answer, MOST_ANSWER).collect().await;
        Ok(body.map_err(|error| lost(node, &*error))?.to_bytes())
    }

    /// Sends a machine a request, and returns the body of its answer once it begins.
    pub(super) async fn call(&self, node: &Node, request: Request<Body>) -> Result<Body> {
        let channel = self.channel(&node.url)?;
        let answer = channel.oneshot(request).await.map_err(|error| lost(node, &error))?;
        if let Some(status) = Status::from_header_map(answer.headers()) {
            return Err(of_status(&node.name, &node.url, &status));
        }
        if !answer.status().is_success() {
            let what = format!("node {} ({}): HTTP {}", node.name, node.url, answer.status());
            return Err(Error::Unreachable(format!("{what}; is it sty serve --node?")));
        }
        Ok(answer.into_body())
    }

    /// Has something done beside all else, as long as the connections are there.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(future));
        }
    }

    /// Waits for a moment. Sessions have no timers.
    pub(super) async fn pause(&self, duration: Duration) {
        if let Some(runtime) = &self.runtime {
            let _ = runtime.spawn(async move { tokio::time::sleep(duration).await }).await;
        }
    }

    /// Waits for what is done with the machines, on the caller's thread.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => Ok(runtime.block_on(future)),
            None => Err(Error::Cancelled),
        }
    }

    /// The same, until the statement is cancelled: machines may wait for other writers meanwhile.
    pub(super) fn wait_unless<T>(
        &self,
        cancelled: &AtomicBool,
        future: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let stop = async {
            while !cancelled.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK_TIME).await;
            }
        };
        self.wait(async {
            match select(std::pin::pin!(stop), std::pin::pin!(future)).await {
                Either::Left(_) => Err(Error::Cancelled),
                Either::Right((done, _)) => done,
            }
        })?
    }
}

/// The time between two looks whether a statement is cancelled.
const LOOK_TIME: Duration = Duration::from_millis(50);

/// A machine that does not answer, or no longer does.
fn lost(node: &Node, why: &(dyn std::error::Error + 'static)) -> Error {
    Error::Unreachable(format!("node {} ({}): {}", node.name, node.url, innermost(why)))
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What a machine said instead of an answer.
pub(super) fn of_status(name: &str, url: &Url, status: &Status) -> Error {
    let what = format!("node {name} ({url}): {}", status.message());
    match status.code() {
        Code::NotFound => Error::NotFound(what),
        Code::ResourceExhausted => Error::LimitExceeded(what),
        Code::Unimplemented => Error::Unsupported(what),
        Code::Aborted => Error::Busy(what),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => {
            Error::Unreachable(what)
        }
        _ => Error::InvalidInput(what),
    }
}

/// The innermost reason: that of the system, where a connection failed.
pub(super) fn innermost(mut error: &(dyn std::error::Error + 'static)) -> String {
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}

/// What is said of a machine that is gone. One that was to give rows to another one is gone in the
/// words of that other one: machines tell each other texts.
const GONE: &str = "it is gone, in the middle of a statement";
/// What is said of a table that is another one by now. Machines tell each other the texts of errors
/// and not their kinds, so this is by what it is known.
pub(in crate::sql) const CHANGED: &str = "for which the statement was planned";

/// What connections say of themselves, where it is known by its text alone.
const LOST: [&str; 7] = [
    "transport error",
    "tcp connect error",
    "connection error",
    "h2 protocol error",
    "http2 error",
    "hyper::Error",
    "error trying to connect",
];

/// Says of which machine a failure is, and which kind of failure it is: what a connection says is
/// no failure of the statement.
fn of_node(name: &str, url: &Url, error: DataFusionError) -> DataFusionError {
    let named = |what: String| match what.starts_with("node ") {
        true => what,
        false => format!("node {name} ({url}): {what}"),
    };
    let gone = || Error::Unreachable(named(GONE.into()));
    let ours = match of_connection(&error) {
        Some(status) if is_lost(status) => gone(),
        Some(status) => of_status(name, url, status),
        None => match Error::from(error) {
            Error::InvalidInput(what) if what.contains(GONE) => {
                let other = what.find("node ").and_then(|at| what.get(at..));
                Error::Unreachable(named(other.unwrap_or(&what).to_owned()))
            }
            Error::InvalidInput(what) if what.contains(CHANGED) => Error::Busy(named(what)),
            Error::InvalidInput(what) if LOST.iter().any(|lost| what.contains(lost)) => gone(),
            Error::InvalidInput(what) => Error::InvalidInput(named(what)),
            Error::LimitExceeded(what) => Error::LimitExceeded(named(what)),
            Error::Unsupported(what) => Error::Unsupported(named(what)),
            Error::Unreachable(what) => Error::Unreachable(named(what)),
            Error::Busy(what) => Error::Busy(named(what)),
            other => other,
        },
    };
    ours.into()
}

/// The end of a call, if it has none of the statement's errors: those come as such.
fn of_connection(error: &DataFusionError) -> Option<&Status> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        let boxed = || error.downcast_ref::<Box<Status>>().map(|status| &**status);
        if let Some(status) = error.downcast_ref::<Status>().or_else(boxed) {
            return Some(status);
        }
        next = error.source();
    }
    None
}

/// Whether a call has ended because its connection did: then what is below it was the reason, or
/// the machine had no time to give one.
fn is_lost(status: &Status) -> bool {
    use std::error::Error as _;
    let is_of_connection = matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded
    );
    is_of_connection || status.source().is_some()
}

/// How statements find machines and their connections.
#[derive(Clone)]
pub(in crate::sql) struct Connections(pub(in crate::sql) Arc<Nodes>);

impl WorkerResolver for Connections {
    fn get_urls(&self) -> DataFusionResult<Vec<Url>> {
        Ok(self.0.description.nodes.iter().map(|node| node.url.clone()).collect())
    }
}

#[async_trait]
impl ChannelResolver for Connections {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> DataFusionResult<Box<dyn WorkerChannel>> {
        Ok(Box::new(NamedChannel {
            inner: create_worker_client(self.0.channel(url)?),
            name: self.0.name(url).into(),
            url: url.clone(),
        }))
    }
}

/// A connection whose failures say which machine it is to.
struct NamedChannel {
    inner: Box<dyn WorkerChannel>,
    name: Arc<str>,
    url: Url,
}

impl NamedChannel {
    fn naming<T: 'static>(
        &self,
        stream: BoxStream<'static, DataFusionResult<T>>,
    ) -> BoxStream<'static, DataFusionResult<T>> {
        let (name, url) = (Arc::clone(&self.name), self.url.clone());
        stream.map(move |item| item.map_err(|error| of_node(&name, &url, error))).boxed()
    }
}

#[async_trait]
impl WorkerChannel for NamedChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        set_plan_request: SetPlanRequest,
        c2w_stream: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> DataFusionResult<BoxStream<'static, DataFusionResult<WorkerToCoordinatorMsg>>> {
        let answer = self
            .inner
            .coordinator_channel(headers, set_plan_request, c2w_stream, metrics, task_ctx)
            .await;
        let messages = answer.map_err(|error| of_node(&self.name, &self.url, error))?;
        Ok(self.naming(messages))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        task_ctx: &Arc<TaskContext>,
    ) -> DataFusionResult<Vec<BoxStream<'static, DataFusionResult<RecordBatch>>>> {
        let answer = self.inner.execute_task(headers, request, metrics, task_ctx).await;
        let streams = answer.map_err(|error| of_node(&self.name, &self.url, error))?;
        Ok(streams.into_iter().map(|stream| self.naming(stream)).collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> DataFusionResult<GetWorkerInfoResponse> {
        let answer = self.inner.get_worker_info(request).await;
        answer.map_err(|error| of_node(&self.name, &self.url, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: DataFusionError) -> Error {
        let url = Url::parse("http://10.0.0.2:8815/").unwrap();
        of_node("b", &url, error).into()
    }

    #[test]
    fn what_a_connection_says_is_that_its_machine_is_gone() {
        let all = [
            Status::unavailable("http2 error"),
            Status::unknown("transport error"),
            Status::cancelled("operation was canceled"),
            Status::from_error(Box::new(std::io::Error::other("keep-alive timed out"))),
        ];
        let texts = ["http2 error", "hyper::Error(Http2, KeepAliveTimedOut)"];
        let of_texts = texts.map(|text| DataFusionError::Execution(text.into()));
        let all = all.map(|status| DataFusionError::External(Box::new(status)));
        for error in all.into_iter().chain(of_texts) {
            match said(DataFusionError::Shared(Arc::new(error))) {
                Error::Unreachable(what) => {
                    assert_eq!(what, format!("node b (http://10.0.0.2:8815/): {GONE}"));
                }
                other => panic!("{other:?}"),
            }
        }
        // Of a machine that another one has asked.
        let relayed = format!("Error during flight stream: node c (http://c/): {GONE}");
        match said(DataFusionError::Execution(relayed)) {
            Error::Unreachable(what) => assert_eq!(what, format!("node c (http://c/): {GONE}")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_machine_says_stays_what_it_is() {
        let changed = format!("table h has generation 18, not the one {CHANGED} (generation 17)");
        let of_text = |text: &str| said(DataFusionError::Execution(text.into()));
        assert!(matches!(of_text(&changed), Error::Busy(what) if what.starts_with("node b (")));
        assert!(matches!(of_text("divide by zero"), Error::InvalidInput(_)));
        let full = DataFusionError::ResourcesExhausted("memory".into());
        assert!(matches!(said(full), Error::LimitExceeded(_)));
        let secret = Status::unauthenticated("the secret is another one");
        let refused = said(DataFusionError::External(Box::new(secret)));
        assert!(matches!(refused, Error::InvalidInput(what) if what.contains("the secret")));
    }
}
