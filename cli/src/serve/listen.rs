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

use super::http;
use super::metrics::add;
use super::postgres;
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
    acceptor: RwLock<(TlsAcceptor, Option<SystemTime>)>,
}

impl Tls {
    /// Reads certificate and key, which are PEM.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Tls, Failure> {
        let acceptor = acceptor(certificate, key)?;
        let changed = changed(certificate, key);
        let (certificate, key) = (certificate.to_path_buf(), key.to_path_buf());
        Ok(Tls { certificate, key, acceptor: RwLock::new((acceptor, changed)) })
    }

    fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Reads the files again if they are others than before. What is wrong with them is returned,
    /// and the certificate before stays.
    fn reload(&self) -> Result<bool, Failure> {
        let now = changed(&self.certificate, &self.key);
        if now == self.acceptor.read().unwrap_or_else(PoisonError::into_inner).1 {
            return Ok(false);
        }
        let read = acceptor(&self.certificate, &self.key);
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

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Failure> {
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
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// What is spoken at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Postgres,
}

/// Opens an address.
pub(crate) async fn open(address: SocketAddr, protocol: Protocol) -> Result<TcpListener, Failure> {
    let opened = TcpListener::bind(address).await;
    opened.map_err(|error| {
        let failure = Failure::failed(format!("cannot listen at {address}: {error}"));
        let option = match protocol {
            Protocol::Http => "--http",
            Protocol::Postgres => "--pg",
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
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = end.wait_for(|ends| *ends) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (server, tls, end) = (Arc::clone(&server), tls.clone(), end.clone());
                tokio::spawn(connection(server, stream, protocol, tls, end));
            }
            // There are too many files, say. Those that wait are accepted later.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Counts a connection as long as it is open.
struct Open(Arc<Server>);

impl Open {
    /// One more connection; `None` if there are too many.
    fn one_of(server: &Arc<Server>) -> Option<Open> {
        add(&server.metrics.connections, 1);
        let open = Open(Arc::clone(server));
        let before = open.count().fetch_add(1, Ordering::Relaxed);
        (before < server.limits.connections as u64).then_some(open)
    }

    fn count(&self) -> &AtomicU64 {
        &self.0.metrics.open_connections
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(
    server: Arc<Server>,
    mut stream: TcpStream,
    protocol: Protocol,
    tls: Option<Arc<Tls>>,
    end: watch::Receiver<bool>,
) {
    let Some(_open) = Open::one_of(&server) else {
        // Best effort: a client that reads is told why.
        let refusal = match protocol {
            Protocol::Http => HTTP_REFUSAL.as_bytes().to_vec(),
            Protocol::Postgres => postgres::too_many_connections(),
        };
        let _ = stream.write_all(&refusal).await;
        return;
    };
    let _ = stream.set_nodelay(true);
    match (protocol, tls) {
        (Protocol::Postgres, tls) => {
            let acceptor = tls.map(|tls| tls.acceptor());
            postgres::connection(server, stream, acceptor, HEAD_TIME, end).await;
        }
        (Protocol::Http, None) => requests(server, stream, end).await,
        (Protocol::Http, Some(tls)) => {
            let begun = tokio::time::timeout(HEAD_TIME, tls.acceptor().accept(stream)).await;
            if let Ok(Ok(stream)) = begun {
                requests(server, stream, end).await;
            }
        }
    }
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
