//! A statement of a call: waits for its turn, runs on a thread of its own in a session of its user,
//! and ends when nobody waits for it.

use std::cell::Cell;
use std::sync::{Arc, OnceLock, TryLockError};
use std::time::Instant;

use arrow_flight::FlightData;
use stylobate::{Session, Statement};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{Context, Pin, Poll};

use super::call::Call;
use super::errors::{Stop, invalid, of_refusal, of_stop, status};
use super::tickets::{id_of, random};
use crate::serve::admission::Place;
use crate::serve::cancels::CurrentStatement;
use crate::serve::finished::OTHER_FAILURE;
use crate::serve::metrics::add;
use crate::serve::reply::{self, Gone, MOST_PIECES};
use crate::serve::running;
use crate::serve::sessions::NoSession;

/// The longest text of a statement, in bytes.
const MOST_TEXT: usize = 1 << 20;
/// The bytes of a long statement that lists of statements show.
const MOST_SHOWN: usize = 4096;

/// A statement of a call.
pub(super) struct Work {
    pub(super) call: Call,
    /// The name of the statement while it runs.
    id: String,
    pub(super) sql: String,
    /// Whether it is about the server, and does not wait behind others.
    about_server: bool,
    pub(super) current: Arc<CurrentStatement>,
}

/// A session while a statement uses it.
pub(super) struct Used<'a> {
    pub(super) session: &'a Session,
    /// Whether later statements would find it changed.
    changed: Cell<bool>,
}

impl Used<'_> {
    /// Reads a text with one statement.
    pub(super) fn parse(&self, sql: &str) -> Result<Statement, Stop> {
        if sql.len() > MOST_TEXT {
            return Err(invalid(format!("a statement has at most {MOST_TEXT} bytes")).into());
        }
        let mut parsed = self.session.parse(sql)?.into_iter();
        let (Some(statement), None) = (parsed.next(), parsed.next()) else {
            return Err(invalid("one statement is needed").into());
        };
        if statement.copy_target().is_some() {
            let what = "COPY … TO writes no files here";
            return Err(status(tonic::Code::Unimplemented, what).into());
        }
        if statement.changes_session() {
            self.changed.set(true);
        }
        Ok(statement)
    }
}

impl Work {
    /// A statement with a name, or with one of its own.
    pub(super) fn new(call: Call, id: Option<String>, sql: String) -> Result<Work, Status> {
        let id = id.map_or_else(|| random::<16>().map(|it| id_of(&it)), Ok)?;
        let current = Arc::default();
        Ok(Work { call, id, sql, about_server: false, current })
    }

    /// What is asked about the server, with what lists of statements show.
    pub(super) fn about_server(call: Call, what: &str) -> Result<Work, Status> {
        Ok(Work { about_server: true, ..Work::new(call, None, what.to_owned())? })
    }

    async fn enter(&self) -> Result<Place, Status> {
        let server = &self.call.shared.server;
        let admission = match self.about_server {
            true => &server.about_server,
            false => &server.admission,
        };
        admission.enter().await.map_err(|refused| {
            add(&server.metrics.refused, 1);
            of_refusal(refused)
        })
    }

    /// Runs on a thread, and waits for the result. If the call is given up, the statement ends.
    pub(super) async fn on_thread<T: Send + 'static>(
        self,
        work: impl FnOnce(&Work, &Used) -> Result<T, Stop> + Send + 'static,
    ) -> Result<T, Status> {
        let place = self.enter().await?;
        let _ends = EndsStatement(Arc::clone(&self.current));
        let thread = tokio::task::spawn_blocking(move || {
            let _place = place;
            self.run(|used| work(&self, used))
        });
        thread.await.map_err(|_| without_answer())?
    }

    /// Runs on a thread that sends messages; returns them as they come.
    pub(super) async fn streamed(
        self,
        work: impl FnOnce(&Work, &Used, &Sending) -> Result<(), Stop> + Send + 'static,
    ) -> Result<Answer, Status> {
        let place = self.enter().await?;
        let ends = EndsStatement(Arc::clone(&self.current));
        let (pieces, written) = mpsc::channel(MOST_PIECES);
        let why = Arc::<OnceLock<Status>>::default();
        let answer = Answer { written, why: Arc::clone(&why), is_over: false, _ends: ends };
        drop(tokio::task::spawn_blocking(move || {
            let _place = place;
            let stall = self.call.shared.server.limits.stall;
            let sending = Sending { pieces, current: Arc::clone(&self.current), stall };
            let done = self.run(|used| work(&self, used, &sending));
            match done {
                // Whoever takes it may be gone.
                Ok(()) => {
                    let _ = sending.send_piece(None);
                }
                Err(status) => drop(why.set(status)),
            }
        }));
        Ok(answer)
    }

    /// Runs the statement on this thread.
    fn run<T>(&self, work: impl FnOnce(&Used) -> Result<T, Stop>) -> Result<T, Status> {
        let started = Instant::now();
        let server = &self.call.shared.server;
        let done = self.in_session(work);
        server.metrics.statement(started.elapsed());
        done.inspect_err(|_| add(&server.metrics.failed, 1))
    }

    /// Does something in the session that the client asks for.
    fn in_session<T>(&self, work: impl FnOnce(&Used) -> Result<T, Stop>) -> Result<T, Status> {
        let (sessions, user) = (&self.call.shared.server.sessions, &self.call.user);
        let Some((name, time)) = &self.call.session else {
            let session = sessions.borrow(user, false).map_err(|it| of_stop(it.into(), None))?;
            let (done, unchanged) = self.entered(&session, work);
            if unchanged {
                sessions.give_back(user, false, session);
            }
            return done;
        };
        let named = sessions.named(user, name, *time, false).map_err(|why| match why {
            NoSession::Failed(failure) => of_stop(failure.into(), None),
            NoSession::Unknown | NoSession::Full => {
                Status::resource_exhausted("there are too many sessions with names")
            }
        })?;
        let session = match named.try_lock() {
            Ok(session) => session,
            // A statement before has ended in a panic, and its session is as it was.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Status::aborted(format!("session {name} runs a statement")));
            }
        };
        session.canceller().reset();
        let (done, _) = self.entered(&session, work);
        session.take_notes();
        drop(session);
        sessions.used(user, name);
        done
    }

    /// Does something as a statement that others see and may end; tells whether its session is as
    /// it was.
    fn entered<T>(
        &self,
        session: &Session,
        work: impl FnOnce(&Used) -> Result<T, Stop>,
    ) -> (Result<T, Status>, bool) {
        let server = &self.call.shared.server;
        let shown = self.sql.floor_char_boundary(self.sql.len().min(MOST_SHOWN));
        let asked = running::Asked {
            id: self.id.clone(),
            user: self.call.user.name.clone(),
            protocol: "flight",
            sql: self.sql.get(..shown).unwrap_or(&self.sql).trim().to_owned(),
            most: server.time_of(self.call.most),
        };
        let Some(entry) = server.running.begin_alone(asked, session) else {
            let what = "the answer of this ticket is being fetched already";
            return (Err(Status::failed_precondition(what)), true);
        };
        self.current.begin(&entry.statement);
        let used = Used { session, changed: Cell::new(false) };
        let done = work(&used);
        self.current.has_ended();
        let ended = entry.end();
        let unchanged = !used.changed.get() && ended.is_none() && done.is_ok();
        let done = done.map_err(|stop| of_stop(stop, ended));
        if let Err(status) = &done {
            let message = format!("{:?}: {}", status.code(), status.message());
            entry.statement.tell(|told| told.fail(OTHER_FAILURE, &message));
        }
        (done, unchanged)
    }

    /// Counts rows that the statement has stored or changed.
    pub(super) fn has_stored(&self, rows: u64) {
        add(&self.call.shared.server.metrics.rows_in, rows);
        self.current.tell(|told| told.rows_written += rows);
    }

    /// Counts rows of the answer.
    pub(super) fn has_sent(&self, rows: u64) {
        add(&self.call.shared.server.metrics.rows_out, rows);
        self.current.tell(|told| told.rows += rows);
    }
}

/// Ends the statement of a call when nobody waits for it.
struct EndsStatement(Arc<CurrentStatement>);

impl Drop for EndsStatement {
    fn drop(&mut self) {
        self.0.client_is_gone();
    }
}

/// A message of an answer; `None` is its end.
type Piece = Option<FlightData>;

/// Where the thread of a statement sends messages.
pub(super) struct Sending {
    pieces: mpsc::Sender<Piece>,
    current: Arc<CurrentStatement>,
    stall: std::time::Duration,
}

impl Sending {
    /// Sends a message, as soon as the client has taken those before.
    pub(super) fn send(&self, message: FlightData) -> Result<(), Gone> {
        self.send_piece(Some(message))
    }

    fn send_piece(&self, piece: Piece) -> Result<(), Gone> {
        reply::send(&self.pieces, piece, self.stall, || self.current.is_over())
    }
}

/// The messages of an answer, as they come. Dropping it ends the statement.
pub(super) struct Answer {
    written: mpsc::Receiver<Piece>,
    /// Why the answer has no end.
    why: Arc<OnceLock<Status>>,
    is_over: bool,
    _ends: EndsStatement,
}

impl Stream for Answer {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let piece = std::task::ready!(self.written.poll_recv(context));
        Poll::Ready(match piece {
            Some(Some(message)) => Some(Ok(message)),
            Some(None) => {
                self.is_over = true;
                None
            }
            None => {
                self.is_over = true;
                Some(Err(self.why.get().cloned().unwrap_or_else(without_answer)))
            }
        })
    }
}

fn without_answer() -> Status {
    Status::internal("the statement ended without an answer")
}
