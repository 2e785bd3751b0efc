//! What a connection is on the thread of its statements: a session of the library, the statements
//! and portals that the client has named, its block, its settings. Messages come in batches; each
//! is answered before the next.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use stylobate::Session;

use super::catalog;
use super::compat;
use super::errors::{PgError, not_a_query};
use super::known::Known;
use super::messages::{Message, Target};
use super::output::Output;
use super::own::{self, Own};
use super::portals::{Portal, Prepared, Work};
use super::replies::{self, ColumnInfo, Status};
use super::settings::Settings;
use super::tags;
use super::words;
use crate::errors::Failure;
use crate::serve::admission::{Place, Refused};
use crate::serve::cancels::CurrentStatement;
use crate::serve::finished::{Done, OTHER_FAILURE};
use crate::serve::metrics::add;
use crate::serve::reply::Gone;
use crate::serve::running::{self, Entry};
use crate::serve::server::Server;
use crate::serve::users::User;

/// Statements and portals that a client may name at a time.
const MOST_NAMED: usize = 10_000;

/// A connection.
pub(super) struct Backend {
    pub(super) server: Arc<Server>,
    pub(super) user: Arc<User>,
    pub(super) session: Session,
    pub(super) database: String,
    /// The number by which its statements are cancelled.
    pub(super) number: i32,
    pub(super) current: Arc<CurrentStatement>,
    pub(super) settings: Settings,
    pub(super) block: Block,
    /// The savepoints of the block, in the order in which they were made, each with how often it
    /// was made in a row: some clients make one before each statement and release none.
    pub(super) savepoints: Vec<(String, u64)>,
    statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    /// Whether messages are left out up to the next Sync, after an error.
    skips: bool,
    /// Whether a COPY from the client has ended in this batch: what it sent beside the rows counts
    /// for nothing.
    pub(super) has_copied: bool,
}

/// The block that BEGIN opens. Each statement is a commit of its own nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) status: Status,
    /// Whether something has been stored since it began.
    pub(super) has_written: bool,
    pub(super) read_only: bool,
}

/// Why a message is not answered as it should be.
pub(super) enum Stop {
    Error(PgError),
    Gone,
}

impl From<PgError> for Stop {
    fn from(error: PgError) -> Stop {
        Stop::Error(error)
    }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Stop {
        Stop::Gone
    }
}

impl From<stylobate::Error> for Stop {
    fn from(error: stylobate::Error) -> Stop {
        Stop::Error(error.into())
    }
}

impl Backend {
    pub(super) fn new(
        server: Arc<Server>,
        user: Arc<User>,
        database: String,
        number: i32,
        current: Arc<CurrentStatement>,
        settings: Settings,
    ) -> Result<Backend, Failure> {
        let session = server.sessions.open(&user, false)?;
        Ok(Backend {
            server,
            user,
            session,
            database,
            number,
            current,
            settings,
            block: Block { status: Status::Idle, has_written: false, read_only: false },
            savepoints: Vec::new(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            skips: false,
            has_copied: false,
        })
    }

    /// Answers messages. `place` is that of the first statement among them that needs one.
    pub(super) fn run(
        &mut self,
        batch: Vec<Message>,
        place: Option<Result<Place, Refused>>,
        out: &mut Output,
    ) -> Result<(), Gone> {
        let mut refused = match &place {
            Some(Err(refused)) => Some(*refused),
            _ => None,
        };
        self.has_copied = false;
        for message in batch {
            let is_query = matches!(message, Message::Query(_));
            let is_sync = matches!(message, Message::Sync);
            if self.skips && !is_sync && !is_query {
                continue;
            }
            if self.has_copied && matches!(message, Message::Sync | Message::Flush) {
                continue;
            }
            let done = match refused.filter(|_| needs_place(&message)) {
                Some(why) => {
                    refused = None;
                    add(&self.server.metrics.refused, 1);
                    Err(PgError::of_refusal(why).into())
                }
                None => self.answer(message, out),
            };
            match done {
                Ok(()) => {}
                Err(Stop::Gone) => return Err(Gone),
                Err(Stop::Error(error)) => {
                    self.fail(&error, out);
                    self.skips = !is_query;
                }
            }
            if is_query {
                self.skips = false;
                self.end_of_statements();
                replies::ready(self.block.status, &mut out.bytes);
            }
            out.pass_on()?;
        }
        out.flush()
    }

    /// Tells of an error, which also ends the block.
    pub(super) fn fail(&mut self, error: &PgError, out: &mut Output) {
        add(&self.server.metrics.failed, 1);
        replies::error(error, false, &mut out.bytes);
        if self.block.status == Status::InBlock {
            self.block.status = Status::Failed;
            self.portals.clear();
        }
    }

    /// Outside of a block, portals live as long as a statement.
    fn end_of_statements(&mut self) {
        if self.block.status == Status::Idle {
            self.portals.retain(|_, portal| portal.is_held);
        }
    }

    /// The columns of a statement's answer, if it has one.
    pub(super) fn columns(&self, prepared: &Prepared) -> Result<Option<Vec<ColumnInfo>>, PgError> {
        match &prepared.work {
            Work::Own(Own::Fetch { name, sends: true, .. }) => {
                let cursor = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                cursor.columns(&self.session)
            }
            _ => prepared.columns(&self.session),
        }
    }

    fn answer(&mut self, message: Message, out: &mut Output) -> Result<(), Stop> {
        match message {
            Message::Query(sql) => self.query(&sql, out),
            Message::Parse { name, sql, types } => {
                let prepared = self.prepare(&sql, types)?;
                if !name.is_empty() {
                    if self.statements.contains_key(&name) {
                        let what = format!("a statement is prepared under the name '{name}'");
                        return Err(PgError::of("42P05", what).into());
                    }
                    check_count(self.statements.len())?;
                }
                self.statements.insert(name, Arc::new(prepared));
                replies::bare(b'1', &mut out.bytes);
                Ok(())
            }
            Message::Bind(bind) => {
                let prepared = self.statement(&bind.statement)?;
                self.check_block(&prepared.work)?;
                if !bind.portal.is_empty() {
                    if self.portals.contains_key(&bind.portal) {
                        let what = format!("there is a portal of the name '{}'", bind.portal);
                        return Err(PgError::of("42P03", what).into());
                    }
                    check_count(self.portals.len())?;
                }
                if !bind.values.is_empty() {
                    self.plan(&prepared)?;
                }
                let name = bind.portal.clone();
                let portal = Portal::bind(&self.session, prepared, bind)?;
                self.portals.insert(name, portal);
                replies::bare(b'2', &mut out.bytes);
                Ok(())
            }
            Message::Describe(Target::Statement, name) => {
                let prepared = self.statement(&name)?;
                self.check_block(&prepared.work)?;
                self.plan(&prepared)?;
                let columns = self.columns(&prepared)?;
                prepared.describe(&self.session, columns.as_deref(), &mut out.bytes)?;
                Ok(())
            }
            Message::Describe(Target::Portal, name) => {
                let portal = self.portals.get(&name).ok_or_else(|| no_portal(&name))?;
                self.plan(&portal.prepared)?;
                let columns = self.columns(&portal.prepared)?;
                portal.describe(columns.as_deref(), &mut out.bytes);
                Ok(())
            }
            Message::Execute { portal, most_rows } => self.execute(&portal, most_rows, out),
            Message::Close(target, name) => {
                match target {
                    Target::Statement => drop(self.statements.remove(&name)),
                    Target::Portal => drop(self.portals.remove(&name)),
                }
                replies::bare(b'3', &mut out.bytes);
                Ok(())
            }
            Message::Flush => Ok(out.flush()?),
            Message::Sync => {
                self.skips = false;
                self.end_of_statements();
                replies::ready(self.block.status, &mut out.bytes);
                Ok(())
            }
            // What remains of a COPY that has failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::Proof(_) | Message::End => Ok(()),
            Message::Unknown(kind) => {
                let what = format!("a message of the kind {:?} is not known", char::from(kind));
                Err(PgError::of("08P01", what).into())
            }
        }
    }

    /// Runs the statements of a text, each to its end before the next.
    fn query(&mut self, text: &str, out: &mut Output) -> Result<(), Stop> {
        let mut all = Vec::new();
        for sql in words::statements(text) {
            all.push(Arc::new(self.prepare(sql, Vec::new())?));
        }
        if all.is_empty() {
            replies::bare(b'I', &mut out.bytes);
        }
        for prepared in all {
            self.check_block(&prepared.work)?;
            let mut portal = Portal::without_parameters(prepared);
            portal.describes_rows = true;
            self.run_portal(&mut portal, 0, out)?;
        }
        Ok(())
    }

    fn execute(&mut self, name: &str, most_rows: usize, out: &mut Output) -> Result<(), Stop> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        self.check_block(&portal.prepared.work)?;
        let done = self.run_portal(&mut portal, most_rows, out);
        if done.is_ok() && self.block.status != Status::Failed {
            self.portals.insert(name.to_owned(), portal);
        }
        done
    }

    /// Reads a statement as far as that is possible before it runs.
    fn prepare(&self, sql: &str, types: Vec<u32>) -> Result<Prepared, PgError> {
        let mut parts = words::statements(sql).into_iter();
        let Some(sql) = parts.next() else { return Ok(Prepared::new(Work::Empty, "", types)) };
        if parts.next().is_some() {
            let what = "a message holds one statement to prepare";
            return Err(PgError::of("42601", what));
        }
        if let Some(own) = own::read(sql)? {
            if let Own::Declare { name, is_held, query } = own {
                let inner = self.prepare(&query, types.clone())?;
                // It starts at once, and must not change anything before it is refused.
                let asks = |it: &Work| matches!(it, Work::Ours(it) if !it.changes_session());
                if !asks(&inner.work) || tags::may_write(&query) {
                    return Err(not_a_query());
                }
                let work = Work::Declare { name, is_held, query: Arc::new(inner) };
                return Ok(Prepared::new(work, sql, types));
            }
            return Ok(Prepared::new(Work::Own(own), sql, types));
        }
        let types = compat::declared(sql, types);
        let statement = self.parse(sql)?;
        if statement.copy_target().is_some() {
            let what = "COPY … TO writes no files here; TO STDOUT sends rows";
            return Err(PgError::of("0A000", what));
        }
        Ok(Prepared::new(Work::Ours(Box::new(statement)), sql, types))
    }

    /// A statement of the library in its own words.
    pub(super) fn parse(&self, sql: &str) -> Result<stylobate::Statement, PgError> {
        self.provide_catalogs(sql)?;
        let mut parsed = self.session.parse(&compat::rewritten(sql, &self.known()))?.into_iter();
        match (parsed.next(), parsed.next()) {
            (Some(statement), None) => Ok(statement),
            _ => Err(PgError::of("42601", "one statement is needed")),
        }
    }

    /// Makes the catalogs that a statement names as they are now.
    pub(super) fn provide_catalogs(&self, sql: &str) -> Result<(), PgError> {
        catalog::provide(&self.session, sql, &self.known())
    }

    fn known(&self) -> Known<'_> {
        Known {
            user: &self.user.name,
            database: &self.database,
            number: self.number,
            settings: &self.settings,
        }
    }

    fn statement(&self, name: &str) -> Result<Arc<Prepared>, PgError> {
        let found = self.statements.get(name).cloned();
        found.ok_or_else(|| {
            PgError::of("26000", format!("no statement is prepared under the name '{name}'"))
        })
    }

    /// Forgets a statement that a client has named; all if there is no name. Tells whether it was
    /// there.
    pub(super) fn forget(&mut self, name: Option<&str>) -> bool {
        match name {
            Some(name) => self.statements.remove(name).is_some(),
            None => {
                self.statements.clear();
                true
            }
        }
    }

    /// In a block that has failed, only its end is taken.
    fn check_block(&self, work: &Work) -> Result<(), PgError> {
        let ends = matches!(work, Work::Own(Own::Commit | Own::Rollback | Own::RollbackTo(_)));
        match self.block.status {
            Status::Failed if !ends => {
                let what = "a statement of the block has failed; it takes none until ROLLBACK";
                Err(PgError::of("25P02", what))
            }
            _ => Ok(()),
        }
    }

    /// Whether statements that write are refused now.
    pub(super) fn check_may_write(&self, sql: &str) -> Result<(), PgError> {
        let settings = ["default_transaction_read_only", "transaction_read_only"];
        let read_only = self.block.read_only
            || settings.iter().any(|name| super::settings::is_on(self.settings.get(name)));
        match read_only && tags::may_write(sql) {
            true => Err(PgError::of("25006", "the block is read-only: nothing is written")),
            false => Ok(()),
        }
    }

    /// A statement begins.
    pub(super) fn begin(&self, sql: &str) -> Running {
        self.session.canceller().reset();
        let most = self.server.time_of(self.settings.statement_timeout());
        let (number, user) = (self.number, self.user.name.clone());
        let id = format!("pg-{number}");
        let sql = sql.get(..sql.floor_char_boundary(sql.len().min(MOST_SHOWN))).unwrap_or(sql);
        let asked = running::Asked { id, user, protocol: "postgres", sql: sql.to_owned(), most };
        let entry = self.server.running.begin(asked, &self.session);
        self.current.begin(&entry.statement);
        let (server, current) = (Arc::clone(&self.server), Arc::clone(&self.current));
        Running { entry, current, server, started: Instant::now(), is_counted: true }
    }

    /// A statement is planned, to tell what it takes and gives, which may take its time, too.
    fn plan(&self, prepared: &Prepared) -> Result<(), PgError> {
        if prepared.is_described() {
            return Ok(());
        }
        let mut running = self.begin(&prepared.sql);
        running.goes_on_later();
        let described = prepared.described(&self.session);
        described.map(drop).map_err(|error| running.or_ended(error))
    }
}

/// The bytes of a long statement that lists of statements show.
const MOST_SHOWN: usize = 4096;

/// A statement that runs, for those that may end it.
pub(super) struct Running {
    entry: Entry,
    current: Arc<CurrentStatement>,
    server: Arc<Server>,
    started: Instant,
    is_counted: bool,
}

impl Running {
    /// Tells what it has done, for the query log.
    pub(super) fn tell(&self, tell: impl FnOnce(&mut Done)) {
        self.entry.statement.tell(tell);
    }

    /// What has begun is counted and logged when it goes on.
    pub(super) fn goes_on_later(&mut self) {
        self.is_counted = false;
        self.tell(|told| told.is_planned_only = true);
    }

    /// Tells how it has failed, if it has.
    pub(super) fn tell_failure<T>(&self, done: &Result<T, Stop>) {
        if let Err(Stop::Error(error)) = done {
            let message = format!("{}: {}", error.code, error.message);
            self.tell(|told| told.fail(OTHER_FAILURE, &message));
        }
    }

    /// The error of a statement; if it was ended, that is the reason.
    fn or_ended(&self, error: PgError) -> PgError {
        match self.entry.statement.ended() {
            Some(_) => self.failure(stylobate::Error::Cancelled),
            None => error,
        }
    }

    /// Its failure; if it was ended, that is the reason.
    pub(super) fn failure(&self, failure: impl Into<Failure>) -> PgError {
        PgError::of_statement(&failure.into(), self.entry.statement.ended())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.current.has_ended();
        if self.is_counted {
            self.server.metrics.statement(self.started.elapsed());
        }
    }
}

pub(super) fn no_portal(name: &str) -> PgError {
    PgError::of("34000", format!("there is no portal of the name '{name}'"))
}

pub(super) fn check_count(count: usize) -> Result<(), PgError> {
    match count < MOST_NAMED {
        true => Ok(()),
        false => Err(PgError::of("53400", format!("more than {MOST_NAMED} names"))),
    }
}

/// Whether a message waits for its turn: it plans or runs a statement.
pub(super) fn needs_place(message: &Message) -> bool {
    match message {
        Message::Query(sql) | Message::Parse { sql, .. } => !tags::is_about_connection(sql),
        Message::Execute { .. } => true,
        _ => false,
    }
}
