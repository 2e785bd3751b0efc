//! Counters, as Prometheus reads them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::admission::Admission;
use super::running::{PROTOCOLS, RunningStatements};

/// Bounds of the buckets of times, in seconds.
const BOUNDS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];

/// What a server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    /// Those that are open, by their protocol.
    pub(crate) open_by: [AtomicU64; PROTOCOLS.len()],
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) rows_out: AtomicU64,
    pub(crate) rows_in: AtomicU64,
    times: [AtomicU64; BOUNDS.len()],
    ended: AtomicU64,
    micros: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Metrics {
    /// A statement has ended, after this time.
    pub(crate) fn statement(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        add(&self.ended, 1);
        add(&self.micros, micros);
        if let Some(at) = BOUNDS.iter().position(|bound| time.as_secs_f64() <= *bound) {
            self.times.get(at).into_iter().for_each(|bucket| add(bucket, 1));
        }
    }
}

/// What is shown beside the counters.
pub(crate) struct Now<'a> {
    pub(crate) admission: &'a Admission,
    pub(crate) running: &'a RunningStatements,
    pub(crate) named_sessions: usize,
    /// Since the server began.
    pub(crate) uptime: Duration,
}

/// All counters of a server, in the text format of Prometheus.
pub(crate) fn show(metrics: &Metrics, now: &Now) -> String {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (begun, running) = now.running.counts();
    let limits = now.admission.limits();
    let dropped = now.running.finished.dropped();
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, help: &str, value: f64| {
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "# HELP sty_{name} {help}\n# TYPE sty_{name} {kind}\nsty_{name} {value}"
        );
    };
    let counts = [
        ("connections_total", "Connections that were accepted.", read(&metrics.connections)),
        ("statements_total", "Statements that have begun.", begun),
        ("statements_failed_total", "Statements that have failed.", read(&metrics.failed)),
        ("statements_refused_total", "Statements that might not begin.", read(&metrics.refused)),
        ("rows_sent_total", "Rows of answers.", read(&metrics.rows_out)),
        ("query_log_dropped_total", "Statements that the query log lacks.", dropped),
        ("rows_received_total", "Rows that were inserted.", read(&metrics.rows_in)),
    ];
    for (name, help, value) in counts {
        one(name, "counter", help, value as f64);
    }
    let gauges = [
        ("connections", "Connections that are open.", read(&metrics.open_connections)),
        ("statements_running", "Statements that run.", running as u64),
        ("statements_running_limit", "The most that run at a time.", limits.running as u64),
        ("statements_waiting", "Statements that wait.", now.admission.waiting() as u64),
        ("statements_waiting_limit", "The most that wait.", limits.waiting as u64),
        ("sessions_named", "Sessions that have a name.", now.named_sessions as u64),
    ];
    for (name, help, value) in gauges {
        one(name, "gauge", help, value as f64);
    }
    let uptime = now.uptime.as_secs_f64();
    one("uptime_seconds", "gauge", "Seconds since the server began.", uptime);
    let open = PROTOCOLS.into_iter().zip(metrics.open_by.iter().map(read));
    by_protocol("connections", "gauge", "Connections that are open.", open, &mut text);
    let begun = now.running.counts_by_protocol();
    let help = "Statements that have begun.";
    by_protocol("statements_total", "counter", help, begun, &mut text);
    times(metrics, &mut text);
    text
}

/// What is counted for each protocol.
fn by_protocol(
    name: &str,
    kind: &str,
    help: &str,
    counts: impl Iterator<Item = (&'static str, u64)>,
    text: &mut String,
) {
    let name = format!("sty_protocol_{name}");
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (protocol, count) in counts {
        let _ = writeln!(text, "{name}{{protocol=\"{protocol}\"}} {count}");
    }
}

fn times(metrics: &Metrics, text: &mut String) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let name = "sty_statement_seconds";
    text.push_str("# HELP sty_statement_seconds Times of statements.\n");
    text.push_str("# TYPE sty_statement_seconds histogram\n");
    let mut sum = 0;
    for (bound, count) in BOUNDS.iter().zip(&metrics.times) {
        sum += read(count);
        let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {sum}");
    }
    let (ended, seconds) = (read(&metrics.ended), read(&metrics.micros) as f64 / 1e6);
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {ended}");
    let _ = writeln!(text, "{name}_sum {seconds}\n{name}_count {ended}");
}
