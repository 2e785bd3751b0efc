//! Connections: accepts them, with TLS where it is asked for, has their requests answered, and ends
//! them in order when the server ends.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::flight;
use super::http;
use super::metrics::add;
use super::postgres;
use super::running::PROTOCOLS;
use super::server::Server;
use crate::errors::{Failure, IoResult as _};

/// How long a client may take for the head of a request, and for the beginning of TLS.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// What a client is told for which there is no connection any more.
const HTTP_REFUSAL: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
                            Content-Length: 0\r\nConnection: close\r\n\r\n";
/// The most bytes of a head.
const HEAD_BYTES: usize = 256 << 10;
/// How long a server that has no descriptor left for a connection waits for one.
const PAUSE: Duration = Duration::from_millis(20);
/// How long replies to statements that were ended may take.
const LAST_REPLIES: Duration = Duration::from_secs(1);
/// How often the server looks after statements and sessions.
const TIDY: Duration = Duration::from_millis(50);

/// The certificate of a server, and whether its files have changed.
pub(crate) struct Tls {
    certificate: std::path::PathBuf,
    key: std::path::PathBuf,
    acceptor: RwLock<(Acceptors, Option<SystemTime>)>,
}

/// What accepts connections over TLS.
#[derive(Clone)]
struct Acceptors {
    plain: TlsAcceptor,
    /// For clients that must be told that HTTP/2 is spoken.
    http2: TlsAcceptor,
}

impl Tls {
    /// Reads certificate and key, which are PEM.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Tls, Failure> {
        let acceptors = acceptors(certificate, key)?;
        let changed = changed(certificate, key);
        let (certificate, key) = (certificate.to_path_buf(), key.to_path_buf());
        Ok(Tls { certificate, key, acceptor: RwLock::new((acceptors, changed)) })
    }

    fn acceptors(&self) -> Acceptors {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Reads the files again if they are others than before. What is wrong with them is returned,
    /// and the certificate before stays.
    fn reload(&self) -> Result<bool, Failure> {
        let now = changed(&self.certificate, &self.key);
        if now == self.acceptor.read().unwrap_or_else(PoisonError::into_inner).1 {
            return Ok(false);
        }
        let read = acceptors(&self.certificate, &self.key);
        let mut known = self.acceptor.write().unwrap_or_else(PoisonError::into_inner);
        known.1 = now;
        known.0 = read?;
        Ok(true)
    }
}

fn changed(certificate: &Path, key: &Path) -> Option<SystemTime> {
    let of = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    of(certificate).max(of(key))
}

fn acceptors(certificate: &Path, key: &Path) -> Result<Acceptors, Failure> {
    let wrong = |path: &Path, what: String| Failure::usage(format!("{}: {what}", path.display()));
    let pem = std::fs::read(certificate).with_path(certificate)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| wrong(certificate, format!("is no PEM: {error}")))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "has no certificate in PEM".to_owned()));
    }
    let pem = std::fs::read(key).with_path(key)?;
    let private = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| wrong(key, format!("has no private key in PEM: {error}")))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, private);
    let config = config.map_err(|error| wrong(certificate, error.to_string()))?;
    let mut http2 = config.clone();
    http2.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = |config| TlsAcceptor::from(Arc::new(config));
    Ok(Acceptors { plain: acceptor(config), http2: acceptor(http2) })
}

/// What is spoken at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Postgres,
    Flight,
}

impl Protocol {
    /// Its place among all.
    fn place(self) -> usize {
        let name = match self {
            Protocol::Http => "http",
            Protocol::Postgres => "postgres",
            Protocol::Flight => "flight",
        };
        PROTOCOLS.iter().position(|known| *known == name).unwrap_or_default()
    }
}

/// Opens an address.
pub(crate) async fn open(address: SocketAddr, protocol: Protocol) -> Result<TcpListener, Failure> {
    let opened = TcpListener::bind(address).await;
    opened.map_err(|error| {
        let failure = Failure::failed(format!("cannot listen at {address}: {error}"));
        let option = match protocol {
            Protocol::Http => "--http",
            Protocol::Postgres => "--pg",
            Protocol::Flight => "--flight",
        };
        let what = "another program has it, or it is none of this machine's";
        failure.hint(format!("{what}; {option} names others"))
    })
}

/// Serves a protocol until it is told to end.
pub(crate) async fn serve(
    server: Arc<Server>,
    listener: TcpListener,
    protocol: Protocol,
    tls: Option<Arc<Tls>>,
    mut end: watch::Receiver<bool>,
) {
    let flight = flight::Shared::new(Arc::clone(&server));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = end.wait_for(|ends| *ends) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (server, tls, end) = (Arc::clone(&server), tls.clone(), end.clone());
                let spoken = match protocol {
                    Protocol::Http => Speaker::Http,
                    Protocol::Postgres => Speaker::Postgres,
                    Protocol::Flight => Speaker::Flight(Arc::clone(&flight)),
                };
                tokio::spawn(async move {
                    // Best effort: one for which there is no room is told why.
                    match Open::one_of(&server, protocol) {
                        Some(open) => connection(open, stream, spoken, tls, end).await,
                        None => refuse(server, stream, protocol, tls.is_some()).await,
                    }
                });
            }
            // There are too many files, say. Those that wait are accepted later.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// What a connection speaks, with what those of its protocol share.
enum Speaker {
    Http,
    Postgres,
    Flight(Arc<flight::Shared>),
}

/// Counts a connection as long as it is open.
struct Open {
    server: Arc<Server>,
    protocol: Protocol,
}

impl Open {
    /// One more connection; `None` if there are too many.
    fn one_of(server: &Arc<Server>, protocol: Protocol) -> Option<Open> {
        add(&server.metrics.connections, 1);
        let open = Open { server: Arc::clone(server), protocol };
        open.of_protocol().for_each(|count| add(count, 1));
        let before = open.count().fetch_add(1, Ordering::Relaxed);
        (before < server.limits.connections as u64).then_some(open)
    }

    fn count(&self) -> &AtomicU64 {
        &self.server.metrics.open_connections
    }

    fn of_protocol(&self) -> impl Iterator<Item = &AtomicU64> {
        self.server.metrics.open_by.get(self.protocol.place()).into_iter()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
        for count in self.of_protocol() {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Tells a client that there are too many connections, as far as its protocol has words for it.
async fn refuse(server: Arc<Server>, mut stream: TcpStream, protocol: Protocol, has_tls: bool) {
    match protocol {
        // Best effort: the client may be gone.
        Protocol::Http => drop(stream.write_all(HTTP_REFUSAL.as_bytes()).await),
        Protocol::Postgres => postgres::refuse(server, stream, has_tls).await,
        Protocol::Flight => {}
    }
}

async fn connection(
    open: Open,
    stream: TcpStream,
    spoken: Speaker,
    tls: Option<Arc<Tls>>,
    end: watch::Receiver<bool>,
) {
    let server = Arc::clone(&open.server);
    let _ = stream.set_nodelay(true);
    let acceptors = tls.map(|tls| tls.acceptors());
    match (spoken, acceptors) {
        (Speaker::Postgres, acceptors) => {
            let acceptor = acceptors.map(|acceptors| acceptors.plain);
            postgres::connection(server, stream, acceptor, HEAD_TIME, end).await;
        }
        (Speaker::Http, None) => requests(server, stream, end).await,
        (Speaker::Http, Some(acceptors)) => {
            let begun = tokio::time::timeout(HEAD_TIME, acceptors.plain.accept(stream)).await;
            if let Ok(Ok(stream)) = begun {
                requests(server, stream, end).await;
            }
        }
        (Speaker::Flight(shared), None) => {
            flight::connection(shared, stream, HEAD_TIME, end).await;
        }
        (Speaker::Flight(shared), Some(acceptors)) => {
            let begun = tokio::time::timeout(HEAD_TIME, acceptors.http2.accept(stream)).await;
            if let Ok(Ok(stream)) = begun {
                flight::connection(shared, stream, HEAD_TIME, end).await;
            }
        }
    }
    drop(open);
}

/// Answers the requests of a connection.
async fn requests(
    server: Arc<Server>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut end: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, io::Error>(http::answer(server, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // A connection that breaks has nobody to be told.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = end.wait_for(|ends| *ends) => {}
    }
    // What it has asked is still answered.
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Looks after statements and sessions until the server is told to end by `ends`; then lets nothing
/// begin, gives what runs some time, and ends it. `warn` says what is wrong with a certificate.
pub(crate) async fn look_after(
    server: &Server,
    tls: Option<&Tls>,
    ends: impl Fn() -> bool,
    end: &watch::Sender<bool>,
    time_to_end: Duration,
    warn: impl Fn(&str),
) {
    let mut looked = Instant::now();
    while !ends() {
        tokio::time::sleep(TIDY).await;
        server.tidy();
        if looked.elapsed() > Duration::from_secs(1) {
            looked = Instant::now();
            match tls.map(Tls::reload) {
                Some(Ok(true)) => warn("the certificate has been read again"),
                Some(Err(failure)) => {
                    warn(&format!("the certificate stays as it was: {}", failure.message));
                }
                _ => {}
            }
        }
    }
    server.admission.close();
    let _ = end.send(true);
    let is_idle = || {
        server.running.counts().1 == 0
            && server.metrics.open_connections.load(Ordering::Relaxed) == 0
    };
    let asked = Instant::now();
    while !is_idle() && asked.elapsed() < time_to_end {
        tokio::time::sleep(TIDY).await;
        server.running.end_late();
    }
    server.running.end_all();
    let ended = Instant::now();
    while !is_idle() && ended.elapsed() < HEAD_TIME {
        // Idle connections of clients that do not read are not waited for.
        if server.running.counts().1 == 0 && ended.elapsed() > LAST_REPLIES {
            break;
        }
        tokio::time::sleep(TIDY).await;
    }
}
