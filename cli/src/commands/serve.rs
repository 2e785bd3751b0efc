//! `sty serve`: answers many clients over the network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use stylobate::internal::disk::default_limit;
use stylobate::{Engine, LockWait, SessionOptions};
use tokio::sync::{Semaphore, watch};

#[cfg(feature = "cluster")]
use crate::args::cluster::ClusterArg;
use crate::args::resources::{IoArg, WaitArg};
use crate::context::Context;
use crate::errors::Failure;
use crate::serve::admission::{Admission, AdmissionLimits};
use crate::serve::cancels::Cancels;
use crate::serve::listen::{self, Protocol, Tls};
use crate::serve::metrics::Metrics;
use crate::serve::query_log::QueryLog;
use crate::serve::server::{Limits, Server};
use crate::serve::sessions::Sessions;
use crate::serve::users::{self, Users, Verifier};
use crate::signals;
use crate::units::{parse_duration, parse_size};
use crate::watch as process_watch;

/// Threads that carry bytes between connections and statements, at most.
const MOST_CARRIERS: usize = 8;
/// Threads for statements beside those that run: about the server, or beginning.
const THREADS_BESIDE: usize = 64;
/// KiB of bodies that wait for a thread, at most.
const BODY_KIB: usize = 256 << 10;
/// How many passwords are compared at a time. One takes some milliseconds.
const PASSWORDS: usize = 2;
/// How long a statement waits for a table that another one writes, unless --wait says so.
const WAIT: Duration = Duration::from_secs(30);
/// Sessions with names, at most.
const MOST_NAMED: usize = 10_000;

/// Answer many clients: over HTTP as ClickHouse does, as PostgreSQL does, by Flight SQL
///
/// Clients of ClickHouse and curl send statements to http://127.0.0.1:8123/ and get answers in the
/// format that they ask for; http://127.0.0.1:8123/play is a page for browsers, with tables and
/// charts; with --pg, clients of PostgreSQL connect, too, and with --flight, those of Arrow Flight
/// SQL, such as the drivers of ADBC and JDBC. Statements run
/// side by side and share the memory limit; a client that is gone, or a statement whose time
/// (--timeout) is over, ends it. SIGTERM and Ctrl-C let what runs come to its end (--grace), and a
/// second one ends at once.
///
/// Without a file of users, anyone who reaches the address may read and write; so another address
/// than this machine's own needs --users, or --anyone. Statements reach no files outside the store
/// unless --files allows it.
///
/// Examples:
///   sty serve db
///   curl 'http://127.0.0.1:8123/?query=SELECT+count(*)+FROM+trips'
///   echo 'SELECT 1 FORMAT JSON' | curl http://127.0.0.1:8123/ --data-binary @-
///   curl 'localhost:8123/?query=INSERT+INTO+t+FORMAT+CSV' --data-binary @rows.csv
///   sty serve db --pg 5432 --flight 32010
///   sty serve --new-password < secret.txt >> users.toml
///   sty serve db --http 0.0.0.0:80 --users u.toml --tls-cert c.pem --tls-key k.pem
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArgs {
    /// The store
    #[arg(value_name = "STORE", required_unless_present_any = ["new_password", "new_token"])]
    store: Option<PathBuf>,
    /// Where HTTP is spoken: a port of this machine, or an address and a port; port 0 is any free
    /// one
    #[arg(long, value_name = "ADDRESS", default_value = "8123", value_parser = parse_address)]
    #[arg(env = "STY_HTTP", hide_env = true)]
    http: SocketAddr,
    /// Where PostgreSQL's protocol is spoken, too: a port of this machine, or an address and a port
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    #[arg(env = "STY_PG", hide_env = true)]
    pg: Option<SocketAddr>,
    /// Where Arrow Flight SQL is spoken, too: a port of this machine, or an address and a port
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    #[arg(env = "STY_FLIGHT", hide_env = true)]
    flight: Option<SocketAddr>,
    /// Do for other machines of the cluster what they ask, at the address of Flight
    #[cfg(feature = "cluster")]
    #[arg(long, requires_all = ["flight", "cluster"], env = "STY_NODE", hide_env = true)]
    node: bool,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    cluster: ClusterArg,
    /// A TOML file of the users: [users.NAME] with password or token, read_only, tables
    #[arg(long, value_name = "FILE", env = "STY_USERS", hide_env = true)]
    users: Option<PathBuf>,
    /// Let anyone in who reaches the address, without a file of users
    #[arg(long, conflicts_with = "users")]
    anyone: bool,
    /// The certificate, and those that vouch for it, in PEM; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "STY_TLS_CERT", hide_env = true)]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", env = "STY_TLS_KEY", hide_env = true)]
    tls_key: Option<PathBuf>,
    /// Refuse statements that write to the store
    #[arg(long, env = "STY_READ_ONLY", hide_env = true)]
    read_only: bool,
    /// Let statements read files outside the store: FROM '/data/x.csv'
    #[arg(long)]
    files: bool,
    /// Statements that run at a time, at most
    #[arg(long, value_name = "N", default_value_t = 32)]
    max_running: usize,
    /// Statements that wait for their turn, at most; more are refused
    #[arg(long, value_name = "N", default_value_t = 4096)]
    max_waiting: usize,
    /// How long a statement waits for its turn, at most
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    max_wait: Duration,
    /// Connections at a time, at most
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    max_connections: usize,
    /// Memory of one statement, at most [default: half of --memory-limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    statement_memory: Option<u64>,
    /// How long statements that run may go on once the server is asked to end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// Where sorts and groups spill [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR", env = "STY_TEMP_DIR", hide_env = true)]
    temp_dir: Option<PathBuf>,
    /// Write each statement that has ended to the table query_log of the store, which keeps 30
    /// days, or another time (--query-log=7d, --query-log=forever)
    #[arg(long, value_name = "TIME", value_parser = parse_keep, conflicts_with = "read_only")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "30d")]
    #[arg(env = "STY_QUERY_LOG", hide_env = true)]
    query_log: Option<Duration>,
    #[command(flatten)]
    io: IoArg,
    #[command(flatten)]
    wait: WaitArg,
    /// Print what the file of users keeps of a password, which is read from stdin; and do nothing
    /// else
    #[arg(long, conflicts_with_all = ["store", "new_token"])]
    new_password: bool,
    /// Print a new token, and what the file of users keeps of it; and do nothing else
    #[arg(long, conflicts_with = "store")]
    new_token: bool,
}

fn parse_keep(text: &str) -> Result<Duration, String> {
    let wrong = |_| format!("'{text}' is no time; write for example 30d, 12h or forever");
    if text == "forever" { Ok(Duration::MAX) } else { parse_duration(text).map_err(wrong) }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| "a port, or an address such as 0.0.0.0:8123 is needed".to_owned())
}

/// Runs `sty serve`.
pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<(), Failure> {
    if args.new_password {
        return new_password();
    }
    if args.new_token {
        let (token, kept) = users::new_token()?;
        context.note("the token is shown once; the file of users keeps its hash:");
        return print(&format!("# {token}\ntoken = '{kept}'\n"));
    }
    let Some(store) = &args.store else { return Err(Failure::usage("a store is needed")) };
    let users = match &args.users {
        Some(path) => Users::read(path, args.read_only)?,
        None => Users::anyone(args.read_only)?,
    };
    let reachable = [Some(args.http), args.pg, args.flight].into_iter().flatten();
    if let Some(address) = reachable.into_iter().find(|address| !address.ip().is_loopback())
        && users.are_any()
        && !args.anyone
    {
        let what = format!("{address} can be reached from other machines, by anyone");
        let failure = Failure::usage(what);
        return Err(failure.hint("--users FILE says who may come in; --anyone lets everyone in"));
    }
    let tls = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
    let tls = tls.map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
    let server = Arc::new(server(args, store, users, context)?);
    let log = args.query_log.map(|keep| {
        let (store, context) = (context.store(store), *context);
        QueryLog::begin(&server, store, keep, reads_cluster(args), move |text| context.warn(text))
    });
    let log = log.transpose()?;
    raise_open_files();
    process_watch::leave_end_to_command();
    process_watch::remove_at_end(server.sessions.engine().spill_directories());
    let carriers = context.thread_count().clamp(1, MOST_CARRIERS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(carriers)
        .max_blocking_threads(args.max_running.saturating_add(THREADS_BESIDE))
        .thread_name("sty-serve")
        .enable_all()
        .build()
        .map_err(stylobate::Error::too_few_threads)?;
    let served = runtime.block_on(serve(args, server, tls.map(Arc::new), context));
    // What does not end in time is not waited for.
    runtime.shutdown_background();
    log.into_iter().for_each(QueryLog::end);
    served
}

/// Whether statements read the tables of a cluster: their sessions store nothing.
fn reads_cluster(args: &ServeArgs) -> bool {
    #[cfg(feature = "cluster")]
    let reads = args.cluster.cluster.is_some();
    #[cfg(not(feature = "cluster"))]
    let reads = false;
    reads
}

async fn serve(
    args: &ServeArgs,
    server: Arc<Server>,
    tls: Option<Arc<Tls>>,
    context: &Context,
) -> Result<(), Failure> {
    let store = args.store.as_deref().unwrap_or_else(|| std::path::Path::new("."));
    let (end, ends) = watch::channel(false);
    let spoken = [
        Some((args.http, Protocol::Http)),
        args.pg.map(|address| (address, Protocol::Postgres)),
        args.flight.map(|address| (address, Protocol::Flight)),
    ];
    let mut listeners = Vec::new();
    for (address, protocol) in spoken.into_iter().flatten() {
        let listener = listen::open(address, protocol).await?;
        let address = listener.local_addr().map_err(|error| Failure::failed(error.to_string()))?;
        let scheme = match protocol {
            Protocol::Http if tls.is_some() => "https",
            Protocol::Http => "http",
            Protocol::Postgres => "postgresql",
            Protocol::Flight if tls.is_some() => "grpc+tls",
            Protocol::Flight => "grpc",
        };
        listeners.push((listener, protocol, format!("{scheme}://{address}/")));
    }
    let page = listeners.first().map(|(_, _, url)| format!("a page for browsers: {url}play"));
    for (listener, protocol, url) in listeners {
        context.note(&format!("serving {} at {url}", store.display()));
        let (server, tls) = (Arc::clone(&server), tls.clone());
        tokio::spawn(listen::serve(server, listener, protocol, tls, ends.clone()));
    }
    if let Some(page) = page {
        context.note(&page);
    }
    let stopped = signals::cancellation();
    listen::look_after(
        &server,
        tls.as_deref(),
        || stopped.load(Ordering::Relaxed),
        &end,
        args.grace,
        |text| context.warn(text),
    )
    .await;
    context.note("ended");
    Ok(())
}

fn server(
    args: &ServeArgs,
    store: &std::path::Path,
    users: Users,
    context: &Context,
) -> Result<Server, Failure> {
    let all = context.memory_limit.unwrap_or_else(default_limit);
    #[cfg(feature = "cluster")]
    let cluster = args.cluster.read()?;
    let options = SessionOptions {
        threads: context.threads,
        memory_limit: Some(all),
        statement_memory: Some(args.statement_memory.unwrap_or(all / 2).min(all)),
        temp_dir: args.temp_dir.clone(),
        io: Some(args.io.io()),
        create: false,
        read_only: args.read_only,
        no_files: !args.files,
        keep_plans: true,
        #[cfg(feature = "cluster")]
        cluster: cluster.clone(),
        ..SessionOptions::default()
    };
    let wait = LockWait { most: args.wait.or(WAIT), ..LockWait::default() };
    let store_of = context.store(store).with_wait(wait);
    let engine = Engine::open(&store_of, &options).map_err(|error| {
        let empty =
            format!("an empty directory is a store without tables: mkdir {}", store.display());
        Failure::from(error).hint(empty)
    })?;
    let limits = AdmissionLimits {
        running: args.max_running.max(1),
        waiting: args.max_waiting,
        patience: args.max_wait,
    };
    #[cfg(feature = "cluster")]
    let node = match cluster.filter(|_| args.node) {
        Some(cluster) => Some((engine.node_service()?, cluster.secret)),
        None => None,
    };
    let own_pages_only = users.are_any() && !args.anyone;
    Ok(Server {
        #[cfg(feature = "cluster")]
        node,
        sessions: Sessions::new(engine, MOST_NAMED),
        users,
        admission: Admission::new(limits),
        about_server: Admission::new(AdmissionLimits { running: 16, waiting: 256, ..limits }),
        bodies: Arc::new(Semaphore::new(BODY_KIB)),
        passwords: Semaphore::new(PASSWORDS),
        running: Arc::default(),
        metrics: Metrics::default(),
        cancels: Cancels::default(),
        started: Instant::now(),
        limits: Limits {
            time: context.timeout,
            stall: Duration::from_secs(60),
            connections: args.max_connections,
            own_pages_only,
        },
    })
}

/// Prints what the file of users keeps of the password on stdin.
fn new_password() -> Result<(), Failure> {
    let mut password = String::new();
    let read = std::io::stdin().read_line(&mut password);
    read.map_err(|error| Failure::failed(format!("the password cannot be read: {error}")))?;
    let password = password.trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        return Err(Failure::usage("the password is empty").hint("it is a line of stdin"));
    }
    print(&format!("password = '{}'\n", Verifier::new(password)?.show()))
}

fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut output = crate::output::Output::stdout()?;
    output.write_all(text.as_bytes()).map_err(|error| output.failure(&error))
}

/// Lets the process have as many files open as it may: each connection is one.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where the system refuses, fewer connections are open at a time.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
