//! A connection of a client: lets it in, takes its messages, and hands over what its statements
//! answer. It is a task; statements run on threads of their own (`backend`).

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::backend::{Backend, needs_place};
use super::errors::PgError;
use super::messages::{First, Inbox, Message};
use super::output::{CopyPiece, Output, Piece};
use super::replies::{self, Status};
use super::scram;
use super::settings::{Settings, is_known};
use crate::serve::cancels::CurrentStatement;
use crate::serve::reply::MOST_PIECES;
use crate::serve::server::Server;
use crate::serve::users::User;

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;
/// Bytes that wait while a statement runs, before no more are read.
const MOST_WAITING: usize = 1 << 20;
/// The most messages that are answered at once.
const MOST_MESSAGES: usize = 1024;

/// How long a client that is refused has to say what it wants.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// The connection has ended, as they do.
struct Closed;

impl From<std::io::Error> for Closed {
    fn from(_: std::io::Error) -> Closed {
        Closed
    }
}

/// Serves a connection until it ends. A client has `time` to begin.
pub(crate) async fn connection(
    server: Arc<Server>,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    time: Duration,
    end: watch::Receiver<bool>,
) {
    let mut plain = Wire::over(stream);
    let Ok(Ok(begun)) = tokio::time::timeout(time, begin(&server, &mut plain, &tls)).await else {
        return;
    };
    match begun {
        Begun::Over => {}
        Begun::Start(parameters) => session(server, plain, parameters, false, time, end).await,
        Begun::Tls(acceptor) => {
            let encrypting = async {
                let stream = plain.reading.unsplit(plain.writing);
                let mut wire = Wire::over(acceptor.accept(stream).await?);
                match begin(&server, &mut wire, &None).await? {
                    Begun::Start(parameters) => Ok((wire, parameters)),
                    Begun::Over | Begun::Tls(_) => Err(Closed),
                }
            };
            if let Ok(Ok((wire, parameters))) = tokio::time::timeout(time, encrypting).await {
                session(server, wire, parameters, true, time, end).await;
            }
        }
    }
}

/// Refuses a client beyond the limit of connections. The error follows the client's start-up
/// message, because libraries do not show an error that comes earlier. A request to cancel a
/// statement is served.
pub(crate) async fn refuse(server: Arc<Server>, stream: TcpStream, has_tls: bool) {
    let mut wire = Wire::over(stream);
    // With a certificate, the client would begin TLS next; the refusal comes before that.
    let begun = match has_tls {
        true => Ok(Ok(Begun::Start(Vec::new()))),
        false => tokio::time::timeout(REFUSAL_TIME, begin(&server, &mut wire, &None)).await,
    };
    if let Ok(Ok(Begun::Start(_))) = begun {
        let _ = wire.refuse(&PgError::of("53300", "there are too many connections")).await;
    }
}

/// The bytes of a connection.
struct Wire<S> {
    reading: ReadHalf<S>,
    writing: WriteHalf<S>,
    inbox: Inbox,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite> Wire<S> {
    fn over(stream: S) -> Wire<S> {
        let (reading, writing) = tokio::io::split(stream);
        Wire { reading, writing, inbox: Inbox::default(), buffer: vec![0; READ_BYTES] }
    }

    /// Reads what has come.
    async fn read(&mut self) -> Result<(), Closed> {
        match self.reading.read(&mut self.buffer).await? {
            0 => Err(Closed),
            count => {
                self.inbox.push(self.buffer.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Closed> {
        self.writing.write_all(bytes).await?;
        Ok(self.writing.flush().await?)
    }

    /// Tells of an error that ends the connection.
    async fn refuse(&mut self, error: &PgError) -> Closed {
        let mut bytes = Vec::new();
        replies::error(error, true, &mut bytes);
        // Best effort: the client may be gone.
        let _ = self.write(&bytes).await;
        Closed
    }

    /// The next message; what is none ends the connection.
    async fn message(&mut self, is_in: bool) -> Result<Message, Closed> {
        loop {
            match self.inbox.take(is_in) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => self.read().await?,
                Err(error) => return Err(self.refuse(&error).await),
            }
        }
    }
}

/// How a connection has begun.
enum Begun {
    /// It has done what it was for.
    Over,
    Start(Vec<(String, String)>),
    Tls(TlsAcceptor),
}

/// Takes the first messages of a connection, up to the one that begins a session. Where there is a
/// certificate, a session begins only over TLS.
async fn begin<S: AsyncRead + AsyncWrite>(
    server: &Server,
    wire: &mut Wire<S>,
    tls: &Option<TlsAcceptor>,
) -> Result<Begun, Closed> {
    loop {
        let first = match wire.inbox.take_first() {
            Ok(Some(first)) => first,
            Ok(None) => {
                wire.read().await?;
                continue;
            }
            Err(error) => return Err(wire.refuse(&error).await),
        };
        match (first, tls) {
            (First::Gss, _) | (First::Tls, None) => wire.write(b"N").await?,
            (First::Tls, Some(acceptor)) => {
                // What came in the clear behind the request is not of the client, perhaps.
                if wire.inbox.len() > 0 {
                    let what = "bytes came before TLS had begun";
                    return Err(wire.refuse(&PgError::of("08P01", what)).await);
                }
                wire.write(b"S").await?;
                return Ok(Begun::Tls(acceptor.clone()));
            }
            (First::Cancel { number, secret }, _) => {
                server.cancels.cancel(number, secret);
                return Ok(Begun::Over);
            }
            (First::Start { .. }, Some(_)) => {
                let error = PgError::of("28000", "this server speaks TLS only");
                return Err(wire.refuse(&error.hint("connect with sslmode=require")).await);
            }
            (First::Start { minor, parameters }, None) => {
                let names = parameters.iter().map(|(name, _)| name.as_str());
                let unknown: Vec<&str> = names.filter(|name| name.starts_with("_pq_.")).collect();
                if minor > 0 || !unknown.is_empty() {
                    let mut bytes = Vec::new();
                    replies::negotiate_version(&unknown, &mut bytes);
                    wire.write(&bytes).await?;
                }
                return Ok(Begun::Start(parameters));
            }
        }
    }
}

/// Serves a session, once the client has proved who it is.
async fn session<S: AsyncRead + AsyncWrite>(
    server: Arc<Server>,
    mut wire: Wire<S>,
    parameters: Vec<(String, String)>,
    is_encrypted: bool,
    time: Duration,
    end: watch::Receiver<bool>,
) {
    let given = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let name = given("user").unwrap_or_default();
    let proving = tokio::time::timeout(time, prove(&server, &mut wire, &name));
    let Ok(Ok(user)) = proving.await else { return };
    let current = Arc::<CurrentStatement>::default();
    let Some(key) = server.cancels.register(&current) else {
        let error = PgError::of("58000", "the system gives no random numbers");
        let _ = wire.refuse(&error).await;
        return;
    };
    let mut settings = Settings::default();
    settings.keep("session_authorization", &user.name);
    settings.keep("ssl", if is_encrypted { "on" } else { "off" });
    let asked = parameters.iter().map(|(name, value)| (name.clone(), value.clone()));
    for (name, value) in asked.chain(in_options(&given("options").unwrap_or_default())) {
        let name = name.to_ascii_lowercase();
        // Clients name the zone of their machine here; times are told in UTC nevertheless.
        if is_known(&name)
            && let Err(error) = settings.set(&name, Some(value), false)
            && name == "client_encoding"
        {
            let _ = wire.refuse(&error).await;
            return;
        }
    }
    settings.begin();
    let mut bytes = Vec::new();
    for (name, value) in settings.all_reported() {
        replies::parameter(name, value, &mut bytes);
    }
    replies::cancel_key(key.number, key.secret, &mut bytes);
    let database = given("database").unwrap_or_else(|| name.clone());
    let (shared, number, of_session) = (Arc::clone(&current), key.number, Arc::clone(&server));
    let opening = tokio::task::spawn_blocking(move || {
        Backend::new(of_session, user, database, number, shared, settings)
    });
    let backend = match opening.await {
        Ok(Ok(backend)) => backend,
        Ok(Err(failure)) => {
            let _ = wire.refuse(&PgError::of_statement(&failure, None)).await;
            return;
        }
        Err(_) => return,
    };
    replies::ready(Status::Idle, &mut bytes);
    let mut backend = Some(backend);
    if wire.write(&bytes).await.is_ok() {
        // How it ends is of no interest to anybody.
        let _ = serve(&server, &mut backend, wire, &current, end).await;
    }
    drop(key);
    current.client_is_gone();
    // What has been begun may take its time to end.
    drop(tokio::task::spawn_blocking(move || drop(backend)));
}

/// Settings in the options of a command line: `-c name=value`.
fn in_options(options: &str) -> Vec<(String, String)> {
    let words = options.split_whitespace().filter(|word| *word != "-c");
    let pair = |word: &str| {
        let word = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).unwrap_or(word);
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    words.filter_map(pair).collect()
}

/// Who the client is, once it has proved that.
async fn prove<S: AsyncRead + AsyncWrite>(
    server: &Server,
    wire: &mut Wire<S>,
    name: &str,
) -> Result<Arc<User>, Closed> {
    if name.is_empty() {
        return Err(wire.refuse(&PgError::of("28000", "a user is to be named")).await);
    }
    let mut bytes = Vec::new();
    if server.users.are_any() {
        replies::authentication_ok(&mut bytes);
        wire.write(&bytes).await?;
        return Ok(server.users.anyone_named(name));
    }
    let (verifier, user) = server.users.verifier(name);
    replies::authentication_scram(scram::MECHANISM, &mut bytes);
    wire.write(&bytes).await?;
    let Message::Proof(first) = wire.message(false).await? else { return Err(Closed) };
    let begun = match scram::begin(&first, verifier) {
        Ok(begun) => begun,
        Err(error) => return Err(wire.refuse(&error).await),
    };
    bytes.clear();
    replies::authentication_step(false, &begun.server_first, &mut bytes);
    wire.write(&bytes).await?;
    let Message::Proof(last) = wire.message(false).await? else { return Err(Closed) };
    let proved = match begun.finish(&last) {
        Ok(proved) => proved,
        Err(error) => return Err(wire.refuse(&error).await),
    };
    let (Some(last), Some(user)) = (proved, user) else {
        let what = format!("{name}: there is no such user, or the password is not right");
        return Err(wire.refuse(&PgError::of("28P01", what)).await);
    };
    bytes.clear();
    replies::authentication_step(true, &last, &mut bytes);
    replies::authentication_ok(&mut bytes);
    wire.write(&bytes).await?;
    Ok(user)
}

/// Answers messages until the client or the server ends.
async fn serve<S: AsyncRead + AsyncWrite>(
    server: &Server,
    slot: &mut Option<Backend>,
    mut wire: Wire<S>,
    current: &Arc<CurrentStatement>,
    mut end: watch::Receiver<bool>,
) -> Result<(), Closed> {
    loop {
        let batch = match batch(&mut wire.inbox) {
            Ok(batch) => batch,
            Err(error) => return Err(wire.refuse(&error).await),
        };
        if batch.is_empty() {
            tokio::select! {
                read = wire.read() => read?,
                () = ending(&mut end) => {
                    return Err(wire.refuse(&PgError::of("57P01", "the server ends")).await);
                }
            }
            continue;
        }
        let ends = batch.iter().any(|message| matches!(message, Message::End));
        let place = match batch.iter().any(needs_place) {
            false => None,
            true => {
                let entering = server.admission.enter();
                let mut entering = std::pin::pin!(entering);
                loop {
                    tokio::select! {
                        place = entering.as_mut() => break Some(place),
                        read = wire.read(), if wire.inbox.len() < MOST_WAITING => read?,
                    }
                }
            }
        };
        let (pieces, mut written) = mpsc::channel(MOST_PIECES);
        let (copied, rows) = mpsc::channel(MOST_PIECES);
        let mut out = Output::new(pieces, rows, Arc::clone(current), server.limits.stall);
        let mut backend = slot.take().ok_or(Closed)?;
        let working = tokio::task::spawn_blocking(move || {
            let done = backend.run(batch, place, &mut out);
            done.map(|()| backend)
        });
        while let Some(piece) = hand_over(&mut wire, &mut written, current).await? {
            match piece {
                Piece::Bytes(bytes) => take(&mut wire, &bytes, server.limits.stall).await?,
                Piece::CopyBegins => receive_rows(&mut wire, &copied).await?,
            }
        }
        *slot = match working.await {
            Ok(Ok(backend)) => Some(backend),
            // The client is gone, or a panic has said what went wrong.
            Ok(Err(_)) | Err(_) => return Err(Closed),
        };
        if ends {
            return Ok(());
        }
    }
}

/// Waits until the server is told to end.
async fn ending(end: &mut watch::Receiver<bool>) {
    let _ = end.wait_for(|ends| *ends).await;
}

/// Messages that are answered together: up to the one that ends a group of them.
fn batch(inbox: &mut Inbox) -> Result<Vec<Message>, PgError> {
    let mut batch = Vec::new();
    while batch.len() < MOST_MESSAGES
        && let Some(message) = inbox.take(true)?
    {
        let ends =
            matches!(message, Message::Query(_) | Message::Sync | Message::Flush | Message::End);
        // What remains of a COPY that has failed counts for nothing.
        let is_of_copy =
            matches!(message, Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_));
        if !is_of_copy {
            batch.push(message);
        }
        if ends {
            break;
        }
    }
    Ok(batch)
}

/// The next piece of what is written. Meanwhile, what the client sends is kept, and it is noticed
/// when it is gone.
async fn hand_over<S: AsyncRead + AsyncWrite>(
    wire: &mut Wire<S>,
    written: &mut mpsc::Receiver<Piece>,
    current: &CurrentStatement,
) -> Result<Option<Piece>, Closed> {
    loop {
        tokio::select! {
            biased;
            piece = written.recv() => return Ok(piece),
            read = wire.read(), if wire.inbox.len() < MOST_WAITING => {
                if read.is_err() {
                    current.client_is_gone();
                    return Err(Closed);
                }
            }
        }
    }
}

/// Sends bytes, as far as the client takes them in time.
async fn take<S: AsyncRead + AsyncWrite>(
    wire: &mut Wire<S>,
    bytes: &[u8],
    stall: Duration,
) -> Result<(), Closed> {
    let mut writing = std::pin::pin!(wire.writing.write_all(bytes));
    match tokio::time::timeout(stall, writing.as_mut()).await {
        Ok(written) => written?,
        Err(_) => return Err(Closed),
    }
    Ok(wire.writing.flush().await?)
}

/// Hands the rows of a COPY to its thread until the client has sent them all, or the thread wants
/// no more.
async fn receive_rows<S: AsyncRead + AsyncWrite>(
    wire: &mut Wire<S>,
    copied: &mpsc::Sender<CopyPiece>,
) -> Result<(), Closed> {
    loop {
        let message = loop {
            match wire.inbox.take(true) {
                Ok(Some(message)) => break message,
                Ok(None) => {}
                Err(error) => return Err(wire.refuse(&error).await),
            }
            // What the thread writes now is that it has failed, which waits until it has ended.
            tokio::select! {
                read = wire.read() => read?,
                () = copied.closed() => return Ok(()),
            }
        };
        let (piece, ends) = match message {
            Message::CopyData(rows) => (CopyPiece::Rows(rows), false),
            Message::CopyDone => (CopyPiece::Done, true),
            Message::CopyFail(why) => (CopyPiece::Failed(why), true),
            Message::Sync | Message::Flush => continue,
            Message::End => return Err(Closed),
            _ => (CopyPiece::Failed("another message came".to_owned()), true),
        };
        // If the thread is gone, the rest of the rows are left out later.
        if copied.send(piece).await.is_err() || ends {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_command_line_are_settings() {
        let of = |options: &str| in_options(options);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let both = [pair("statement_timeout", "5s"), pair("jit", "off")];
        assert_eq!(of("-c statement_timeout=5s --jit=off"), both);
        assert_eq!(of("-cjit=off"), [pair("jit", "off")]);
        assert!(of("-c").is_empty() && of("").is_empty());
    }
}
