//! A statement that came over HTTP, on a thread of its own: reads the body, runs the statement,
//! writes the reply.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use stylobate::{BatchStream, Session};

use super::dialect;
use super::errors::HttpError;
use super::insert::{self, NotStored};
use super::request::{self, Asked};
use super::statement;
use super::system;
use super::words::ReadStatement;
use super::writing::{Head, Stop, Writing, new_id};
use crate::errors::Failure;
use crate::serve::body::Body;
use crate::serve::clickhouse::formats::{Finished, Format, Writer};
use crate::serve::metrics::add;
use crate::serve::reply::Reply;
use crate::serve::running::{self, Ended, RunningStatement};
use crate::serve::server::Server;
use crate::serve::sessions::NoSession;
use crate::serve::users::User;

/// The longest text of a statement, in bytes. Rows behind an INSERT are none.
const MOST_TEXT: u64 = 1 << 20;
/// The statement of a request, once it runs, for those that may end it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedStatement(Arc<Begun>);

#[derive(Debug, Default)]
struct Begun {
    statement: OnceLock<Arc<RunningStatement>>,
    is_given_up: std::sync::atomic::AtomicBool,
}

impl SharedStatement {
    pub(crate) fn get(&self) -> Option<&Arc<RunningStatement>> {
        self.0.statement.get()
    }

    /// Nobody waits for it any more.
    pub(crate) fn give_up(&self) {
        self.0.is_given_up.store(true, std::sync::atomic::Ordering::Release);
        // It may have begun meanwhile.
        self.get().iter().for_each(|statement| statement.end(Ended::Gone));
    }

    fn begin(&self, statement: &Arc<RunningStatement>) {
        let _ = self.0.statement.set(Arc::clone(statement));
        if self.0.is_given_up.load(std::sync::atomic::Ordering::Acquire) {
            statement.end(Ended::Gone);
        }
    }
}

/// A statement that has not begun, and whether it was asked to end.
pub(crate) fn shared_statement()
-> (SharedStatement, impl Fn() -> bool + Clone + Send + Sync + 'static) {
    let shared = SharedStatement::default();
    let asked = shared.clone();
    (shared, move || asked.get().is_some_and(|statement| statement.ended().is_some()))
}

/// Whether a statement asks about the server, and must not wait behind others.
pub(crate) fn is_about_server(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    matches!(first.as_str(), "kill" | "show" | "describe" | "desc" | "exists")
        || (first == "select" && text.len() < 1000 && asks_about_server(text))
}

/// Whether a text names a table about the server, other than the log, which may be large.
fn asks_about_server(text: &str) -> bool {
    text.contains("system.") && !text.contains("system.query_log")
}

/// What a statement may do and take, by its URL and its SETTINGS.
struct Bounds {
    time: Option<Duration>,
    rows: Option<u64>,
    read_only: bool,
}

impl Bounds {
    fn of(asked: &Asked, settings: &[(String, String)]) -> Result<Bounds, HttpError> {
        let Asked { most_time: time, most_rows: rows, read_only, .. } = asked;
        let mut bounds = Bounds { time: *time, rows: *rows, read_only: *read_only };
        for (name, value) in settings {
            let bound = || request::bound(name, value);
            match name.as_str() {
                "max_execution_time" => bounds.time = request::seconds(bound()?),
                "max_result_rows" => bounds.rows = request::rows(bound()?),
                "readonly" => bounds.read_only |= bound()? > 0.0,
                // Others mean nothing here.
                _ => {}
            }
        }
        Ok(bounds)
    }
}

/// A statement of a request.
pub(crate) struct Work {
    pub(crate) server: Arc<Server>,
    pub(crate) user: Arc<User>,
    pub(crate) asked: Asked,
    pub(crate) running: SharedStatement,
}

impl Work {
    /// Runs the statement, and writes the reply.
    pub(crate) fn run(self, body: Body, reply: Reply<Head>) {
        let mut writing = Writing::new(reply, &self.asked);
        match self.answer(body, &mut writing) {
            Ok(()) => drop(writing.end()),
            Err(Stop::Gone) => {}
            Err(Stop::Error(error)) => {
                add(&self.server.metrics.failed, 1);
                drop(writing.end_with(&error));
            }
        }
    }

    fn answer(&self, body: Body, writing: &mut Writing) -> Result<(), Stop> {
        let body = self.asked.body.decode(body).map_err(|error| unreadable(&error))?;
        let (text, rows, is_cut) = self.text(body)?;
        let read = statement::read(&dialect::rewrite(&text)?, &self.asked.values, is_cut)?;
        let query_id = self.asked.query_id.clone().unwrap_or_else(new_id);
        writing.query_id.clone_from(&query_id);
        let rows = read.rows_from.map(|from| {
            let here = text.as_bytes().get(from..).unwrap_or_default();
            io::Cursor::new(here.to_vec()).chain(rows)
        });
        let bounds = Bounds::of(&self.asked, &read.settings)?;
        self.in_session(&bounds, |session| {
            let asked = running::Asked {
                id: query_id,
                user: self.user.name.clone(),
                protocol: "http",
                sql: shortened(
                    text.get(..read.rows_from.unwrap_or(text.len())).unwrap_or_default(),
                ),
                most: self.server.time_of(bounds.time),
            };
            let entry = self.server.running.begin_alone(asked, session).ok_or_else(|| {
                HttpError::of(216, "a statement of this name runs already (query_id)")
            })?;
            self.running.begin(&entry.statement);
            let done = match rows {
                Some(rows) => self.insert(session, &read, rows, writing),
                None => self.query(session, &read, &bounds, writing),
            };
            let ended = entry.end();
            let done = match done {
                Err(Failed::Gone) => Err(Stop::Gone),
                Err(Failed::Here(error)) => Err(Stop::Error(error)),
                Err(Failed::Statement(failure)) => {
                    Err(HttpError::of_statement(&failure, ended).into())
                }
                Ok(unchanged) => Ok(unchanged && ended.is_none()),
            };
            entry.statement.tell(|told| writing.tell(&done, told));
            drop(entry);
            done
        })
    }

    /// The text of the statement, and what follows it in the body; and whether that is all of it
    /// that is text, or the first rows of a long INSERT … VALUES are.
    fn text(
        &self,
        mut body: Box<dyn Read + Send>,
    ) -> Result<(String, Box<dyn Read + Send>, bool), HttpError> {
        let mut text = self.asked.query.clone().unwrap_or_default().into_bytes();
        let inserts = |text: &[u8], is_cut: bool| {
            let text = String::from_utf8_lossy(text);
            let read = statement::read(&text, &self.asked.values, is_cut);
            read.is_ok_and(|read| read.rows_from.is_some())
        };
        if !text.is_empty() {
            if inserts(&text, false) {
                text.push(b'\n');
                return Ok((utf8(text)?, body, false));
            }
            text.push(b'\n');
        }
        body.by_ref().take(MOST_TEXT).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
        if (text.len() as u64) < MOST_TEXT {
            // Rows of an INSERT need not be text.
            return match inserts(&text, false) {
                true => split_rows(text).map(|(text, rows)| (text, rows, false)),
                false => Ok((utf8(text)?, Box::new(io::empty()), false)),
            };
        }
        if !inserts(&text, true) {
            let what = format!("a statement has at most {MOST_TEXT} bytes");
            return Err(HttpError::of(62, what));
        }
        let (text, rows) = split_rows(text)?;
        Ok((text, Box::new(rows.chain(body)), true))
    }

    /// Does something in the session that the client asks for.
    fn in_session(
        &self,
        bounds: &Bounds,
        work: impl FnOnce(&Session) -> Result<bool, Stop>,
    ) -> Result<(), Stop> {
        let sessions = &self.server.sessions;
        let failed = |failure: Failure| HttpError::of_statement(&failure, None);
        let Some((name, time)) = &self.asked.session else {
            let session = sessions.borrow(&self.user, bounds.read_only).map_err(failed)?;
            if work(&session)? {
                sessions.give_back(&self.user, bounds.read_only, session);
            }
            return Ok(());
        };
        let named = sessions.named(&self.user, name, *time, self.asked.session_exists);
        let named = named.map_err(|why| match why {
            NoSession::Unknown => HttpError::of(372, format!("there is no session {name}")),
            NoSession::Full => HttpError::of(202, "there are too many sessions with names"),
            NoSession::Failed(failure) => failed(failure),
        })?;
        let session = match named.try_lock() {
            Ok(session) => session,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(HttpError::of(373, format!("session {name} runs a statement")).into());
            }
        };
        session.canceller().reset();
        session.only_read(bounds.read_only);
        let done = work(&session).map(drop);
        session.take_notes();
        drop(session);
        sessions.used(&self.user, name);
        done
    }

    /// Runs statements and writes the answer; tells whether the session is as it was.
    fn query(
        &self,
        session: &Session,
        read: &ReadStatement,
        bounds: &Bounds,
        writing: &mut Writing,
    ) -> Result<bool, Failed> {
        let (server, user) = (&self.server, &self.user);
        if let Some(answer) = system::answer(&read.sql, session, server, user)? {
            return self.write_answer(&answer, read, writing).map(|()| true);
        }
        // What is wrong with the format is said before anything is stored.
        self.format(read)?;
        for name in &read.system {
            let table = system::table(name, session, server, user)?;
            let table = table
                .ok_or_else(|| HttpError::of(60, format!("there is no table system.{name}")))?;
            session.add_table(&format!("{}{name}", system::PREFIX), table)?;
        }
        let done = self.run_query(session, read, bounds, writing);
        for name in &read.system {
            session.remove_table(&format!("{}{name}", system::PREFIX))?;
        }
        done
    }

    fn run_query(
        &self,
        session: &Session,
        read: &ReadStatement,
        bounds: &Bounds,
        writing: &mut Writing,
    ) -> Result<bool, Failed> {
        let statements = session.parse(&read.sql).map_err(not_parsed)?;
        let [statement] = statements.as_slice() else {
            let what = match statements.len() {
                0 => "there is no statement",
                _ => "a request has one statement",
            };
            return Err(Failed::Here(HttpError::of(62, what)));
        };
        if statement.copy_target().is_some() {
            return Err(Failed::Here(HttpError::of(164, "COPY … TO writes no files here")));
        }
        let unchanged = !statement.changes_session();
        let mut stream = session.execute(statement, &read.parameters)?;
        writing.note(session.take_notes());
        if stream.has_committed() || stream.schema().fields().is_empty() {
            // What is stored stays, whatever becomes of the reply, which says how many rows.
            let rows = running::rows_changed(&mut stream)?;
            if stream.has_committed() {
                add(&self.server.metrics.rows_in, rows);
                writing.written_rows = Some(rows);
            }
            return Ok(unchanged);
        }
        let mut writer = self.writer(read, &stream.schema(), writing)?;
        self.write_rows(session, &mut stream, bounds, &mut writer, writing)?;
        let read_rows = session.progress().now().map(|read| read.rows);
        drop(stream);
        writer.finish(writing, read_rows)?;
        Ok(unchanged)
    }

    /// Writes an answer that is there as a whole.
    fn write_answer(
        &self,
        answer: &RecordBatch,
        read: &ReadStatement,
        writing: &mut Writing,
    ) -> Result<(), Failed> {
        if answer.num_columns() == 0 {
            return Ok(());
        }
        let mut writer = self.writer(read, &answer.schema(), writing)?;
        writer.rows = answer.num_rows() as u64;
        writer.batch(answer, writing)?;
        Ok(writer.finish(writing, None)?)
    }

    fn write_rows(
        &self,
        session: &Session,
        stream: &mut BatchStream,
        bounds: &Bounds,
        writer: &mut RowWriter,
        writing: &mut Writing,
    ) -> Result<(), Failed> {
        for batch in stream {
            let batch = batch?;
            writing.note(session.take_notes());
            add(&self.server.metrics.rows_out, batch.num_rows() as u64);
            writer.rows += batch.num_rows() as u64;
            if let Some(most) = bounds.rows.filter(|most| writer.rows > *most) {
                let what = format!("the answer has more than {most} rows (max_result_rows)");
                return Err(Failed::Here(HttpError::of(241, what)));
            }
            writer.batch(&batch, writing).map_err(Failed::from)?;
        }
        // One that was planned anew may have notes and no row.
        writing.note(session.take_notes());
        Ok(())
    }

    /// Stores the rows of an INSERT.
    fn insert(
        &self,
        session: &Session,
        read: &ReadStatement,
        rows: impl Read + Send + 'static,
        writing: &mut Writing,
    ) -> Result<bool, Failed> {
        let name = read.format.as_deref().unwrap_or_default();
        let stored = insert::run(session, &read.sql, name, 0, rows).map_err(|why| match why {
            NotStored::Failure(failure) => Failed::Statement(failure),
            NotStored::Here(error) => Failed::Here(error),
        })?;
        add(&self.server.metrics.rows_in, stored);
        writing.written_rows = Some(stored);
        Ok(true)
    }

    /// The format of the answer, as it was named.
    fn format<'a>(&'a self, read: &'a ReadStatement) -> Result<(&'a str, Format), HttpError> {
        let name = read.format.as_deref().or(self.asked.format.as_deref());
        let name = name.unwrap_or("TabSeparated");
        let format = Format::named(name);
        let format = format.map_err(|failure| {
            let code = 73;
            HttpError { code, ..HttpError::of_statement(&failure, None) }
        })?;
        Ok((name, format))
    }

    fn writer(
        &self,
        read: &ReadStatement,
        schema: &SchemaRef,
        writing: &mut Writing,
    ) -> Result<RowWriter, HttpError> {
        let (name, format) = self.format(read)?;
        let writer = Writer::new(format, schema, self.asked.revision);
        let writer = writer.map_err(|failure| HttpError::of_statement(&failure, None))?;
        writing.format = Some((name.to_owned(), format.content_type()));
        Ok(RowWriter { writer, rows: 0, started: Instant::now() })
    }
}

/// Writes the rows of an answer.
struct RowWriter {
    writer: Writer,
    rows: u64,
    started: Instant,
}

impl RowWriter {
    fn batch(&mut self, batch: &RecordBatch, writing: &mut Writing) -> Result<(), Stop> {
        let before = writing.plain.len();
        let written = self.writer.write(batch, &mut writing.plain);
        writing.result_rows = self.rows;
        writing.result_bytes += (writing.plain.len() - before) as u64;
        written.map_err(|failure| HttpError::of_statement(&failure, None))?;
        writing.pass_on()
    }

    fn finish(self, writing: &mut Writing, rows_read: Option<u64>) -> Result<(), Stop> {
        let seconds = self.started.elapsed().as_secs_f64();
        let (rows, rows_read) = (self.rows, rows_read.unwrap_or(self.rows));
        writing.result_rows = rows;
        writing.read_rows = rows_read;
        let finished = Finished { rows, seconds, rows_read, bytes_read: 0 };
        let written = self.writer.finish(&finished, &mut writing.plain);
        written.map_err(|failure| HttpError::of_statement(&failure, None))?;
        writing.pass_on()
    }
}

/// Why a statement has no answer, before it is known why it was ended.
enum Failed {
    Statement(Failure),
    Here(HttpError),
    Gone,
}

impl From<stylobate::Error> for Failed {
    fn from(error: stylobate::Error) -> Failed {
        Failed::Statement(error.into())
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed::Statement(failure)
    }
}

impl From<HttpError> for Failed {
    fn from(error: HttpError) -> Failed {
        Failed::Here(error)
    }
}

impl From<Stop> for Failed {
    fn from(stop: Stop) -> Failed {
        match stop {
            Stop::Error(error) => Failed::Here(error),
            Stop::Gone => Failed::Gone,
        }
    }
}

/// The text of an INSERT, with rows behind it as far as these are text, and the rest of them.
fn split_rows(text: Vec<u8>) -> Result<(String, Box<dyn Read + Send>), HttpError> {
    let error = match String::from_utf8(text) {
        Ok(text) => return Ok((text, Box::new(io::empty()))),
        Err(error) => error,
    };
    let valid = error.utf8_error().valid_up_to();
    let mut text = error.into_bytes();
    let rest = text.split_off(valid);
    Ok((utf8(text)?, Box::new(io::Cursor::new(rest))))
}

fn utf8(text: Vec<u8>) -> Result<String, HttpError> {
    String::from_utf8(text).map_err(|_| HttpError::of(62, "the statement is no UTF-8"))
}

fn unreadable(error: &io::Error) -> HttpError {
    HttpError::of(117, format!("the body cannot be read: {error}"))
}

/// The failure of a text that is no statement.
fn not_parsed(error: stylobate::Error) -> Failed {
    match error {
        stylobate::Error::InvalidInput(what) => Failed::Here(HttpError::of(62, what)),
        other => other.into(),
    }
}

/// The beginning of a long statement, for lists of statements.
fn shortened(sql: &str) -> String {
    const MOST: usize = 4096;
    sql.get(..sql.floor_char_boundary(MOST.min(sql.len()))).unwrap_or(sql).trim().to_owned()
}
