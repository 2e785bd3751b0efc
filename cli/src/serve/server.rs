//! What all connections of a server share.

use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "cluster")]
use stylobate::NodeService;
use tokio::sync::Semaphore;

use super::admission::Admission;
use super::cancels::Cancels;
use super::metrics::{self, Metrics};
use super::running::RunningStatements;
use super::sessions::Sessions;
use super::users::Users;

/// A server.
pub(crate) struct Server {
    pub(crate) sessions: Sessions,
    pub(crate) users: Users,
    pub(crate) admission: Admission,
    /// Of statements about the server, which do not wait behind others.
    pub(crate) about_server: Admission,
    /// KiB of bodies that wait for a thread.
    pub(crate) bodies: Arc<Semaphore>,
    /// Passwords that are compared at a time.
    pub(crate) passwords: Semaphore,
    pub(crate) running: Arc<RunningStatements>,
    pub(crate) metrics: Metrics,
    pub(crate) cancels: Cancels,
    pub(crate) started: Instant,
    pub(crate) limits: Limits,
    /// What is done for the other machines of a cluster, and the secret that they know.
    #[cfg(feature = "cluster")]
    pub(crate) node: Option<(NodeService, Arc<str>)>,
}

/// What one statement or connection may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long a statement may take.
    pub(crate) time: Option<Duration>,
    /// How long a client may take to send the next bytes, or to take them.
    pub(crate) stall: Duration,
    /// Connections at a time, of all protocols.
    pub(crate) connections: usize,
    /// Whether requests of pages of other sites are refused: nobody has to say who he is.
    pub(crate) own_pages_only: bool,
}

impl Server {
    /// How long a statement may take, of which its client says how long.
    pub(crate) fn time_of(&self, asked: Option<Duration>) -> Option<Duration> {
        self.limits.time.into_iter().chain(asked).min()
    }

    /// All counters, in the text format of Prometheus.
    pub(crate) fn metrics_text(&self) -> String {
        let now = metrics::Now {
            admission: &self.admission,
            running: &self.running,
            named_sessions: self.sessions.count_named(),
            uptime: self.started.elapsed(),
        };
        metrics::show(&self.metrics, &now)
    }

    /// What is done now and then, several times a second.
    pub(crate) fn tidy(&self) {
        self.running.end_late();
        self.sessions.tidy();
    }
}
