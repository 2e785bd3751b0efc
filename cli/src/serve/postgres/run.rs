//! Runs a portal: sends rows as they come, up to as many as are asked for, and says what was done.

use std::sync::Arc;

use stylobate::BatchStream;

use super::backend::{Backend, Running, Stop, no_portal};
use super::columns::{Column, columns};
use super::errors::PgError;
use super::output::Output;
use super::own::{Mode, Own};
use super::portals::{Portal, Rows, State, Work, infos, own_columns};
use super::replies::{self, Status};
use super::tags;
use super::{binary, text};
use crate::serve::metrics::add;
use crate::serve::running::rows_changed_in;

/// Rows between two looks whether there is enough to hand over.
const ROWS_AT_ONCE: usize = 256;

/// What has become of a statement.
pub(super) enum Advanced {
    /// It has no rows, and this tag.
    Change(String),
    /// This many rows have been sent; `is_end` says that there are no more.
    Rows { count: u64, is_end: bool },
}

/// A statement that has begun.
pub(super) enum Opened {
    /// It gives no rows and has done what it does, which this tag says.
    Change(String),
    Rows(Box<Rows>),
}

impl Backend {
    /// Runs a portal; 0 rows means all of them.
    pub(super) fn run_portal(
        &mut self,
        portal: &mut Portal,
        most_rows: usize,
        out: &mut Output,
    ) -> Result<(), Stop> {
        let prepared = Arc::clone(&portal.prepared);
        match (&prepared.work, std::mem::replace(&mut portal.state, State::Waits)) {
            (_, State::HasEnded(tag)) => {
                replies::complete(&tag, &mut out.bytes);
                portal.state = State::HasEnded(tag);
            }
            (Work::Empty, _) => replies::bare(b'I', &mut out.bytes),
            (Work::Own(own), _) => {
                let tag = self.run_own(own, portal, out)?;
                replies::complete(&tag, &mut out.bytes);
                portal.state = State::HasEnded(tag);
            }
            (Work::Declare { name, is_held, query }, _) => {
                self.declare(name, *is_held, query, portal, out)?;
                replies::complete("DECLARE CURSOR", &mut out.bytes);
            }
            (Work::Ours(_), state) => {
                portal.state = state;
                match self.advance(portal, most_rows, true, out)? {
                    Advanced::Change(tag) => {
                        replies::complete(&tag, &mut out.bytes);
                        portal.state = State::HasEnded(tag);
                    }
                    // There may be no more: the client finds that out by asking.
                    Advanced::Rows { is_end: false, .. } => replies::bare(b's', &mut out.bytes),
                    Advanced::Rows { count, .. } => {
                        let tag = |count| tags::of_rows(&prepared.sql, count);
                        replies::complete(&tag(count), &mut out.bytes);
                        portal.state = State::HasEnded(tag(0));
                    }
                }
            }
        }
        Ok(())
    }

    /// Begins a statement of the library, or goes on with it.
    pub(super) fn advance(
        &mut self,
        portal: &mut Portal,
        most_rows: usize,
        sends: bool,
        out: &mut Output,
    ) -> Result<Advanced, Stop> {
        if matches!(portal.state, State::HasEnded(_)) {
            return Ok(Advanced::Rows { count: 0, is_end: true });
        }
        let running = self.begin(&portal.prepared.sql);
        let done = self.go_on(portal, most_rows, sends, &running, out);
        self.hand_on_notes(&running, out);
        running.tell_failure(&done);
        done
    }

    /// Sends the client the notes about an answer, such as missing rows.
    pub(super) fn hand_on_notes(&self, running: &Running, out: &mut Output) {
        let notes = self.session.take_notes();
        for note in &notes {
            warn("01000", note, out);
        }
        running.tell(|told| told.note(&notes));
    }

    fn go_on(
        &mut self,
        portal: &mut Portal,
        most_rows: usize,
        sends: bool,
        running: &Running,
        out: &mut Output,
    ) -> Result<Advanced, Stop> {
        let rows = match std::mem::replace(&mut portal.state, State::Waits) {
            State::Runs(rows) => rows,
            State::Waits | State::HasEnded(_) => match self.open(portal, running, out)? {
                Opened::Change(tag) => return Ok(Advanced::Change(tag)),
                Opened::Rows(rows) => rows,
            },
        };
        self.send_rows(portal, rows, most_rows, sends, running, out)
    }

    /// Plans the statement of a portal and starts it: its rows are those that there are now,
    /// whenever they are asked for.
    pub(super) fn open(
        &mut self,
        portal: &mut Portal,
        running: &Running,
        out: &mut Output,
    ) -> Result<Opened, Stop> {
        let prepared = Arc::clone(&portal.prepared);
        let Work::Ours(statement) = &prepared.work else {
            return Err(PgError::of("XX000", "the portal has no query").into());
        };
        self.check_may_write(&prepared.sql)?;
        self.set_by_calls(&prepared.sql, out)?;
        self.provide_catalogs(&prepared.sql)?;
        let stream = self.session.execute(statement, &portal.parameters);
        let stream = stream.map_err(|error| running.failure(error))?;
        let schema = stream.schema();
        if stream.has_committed() || schema.fields().is_empty() {
            return Ok(Opened::Change(self.finish_change(&prepared.sql, stream, running)?));
        }
        portal.check_columns(&schema)?;
        if portal.describes_rows {
            portal.describe(Some(&infos(&schema)), &mut out.bytes);
        }
        portal.schema = Some(schema);
        Ok(Opened::Rows(Box::new(Rows { stream, columns: Vec::new(), at: 0, count: 0 })))
    }

    /// Runs a statement that gives no rows to its end; returns its tag.
    fn finish_change(
        &mut self,
        sql: &str,
        stream: BatchStream,
        running: &Running,
    ) -> Result<String, PgError> {
        let has_committed = stream.has_committed();
        let mut rows = None;
        for batch in stream {
            let batch = batch.map_err(|error| running.failure(error))?;
            rows = Some(rows.unwrap_or(0) + rows_changed_in(&batch));
        }
        self.block.has_written |= has_committed;
        let rows = rows.filter(|_| has_committed);
        running.tell(|told| told.rows_written = rows.unwrap_or_default());
        if sql.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("insert")) {
            add(&self.server.metrics.rows_in, rows.unwrap_or_default());
        }
        Ok(tags::of_change(sql, rows))
    }

    /// Sends rows, or only counts them; 0 means all of them.
    fn send_rows(
        &mut self,
        portal: &mut Portal,
        mut rows: Box<Rows>,
        most: usize,
        sends: bool,
        running: &Running,
        out: &mut Output,
    ) -> Result<Advanced, Stop> {
        let most = if most == 0 { usize::MAX } else { most };
        let mut left = most;
        loop {
            while rows.at < rows.count && left > 0 {
                let until = rows.count.min(rows.at.saturating_add(left.min(ROWS_AT_ONCE)));
                if sends {
                    let before = out.bytes.len();
                    for row in rows.at..until {
                        write_row(&rows.columns, row, |at| portal.format(at), &mut out.bytes);
                    }
                    let count = (until - rows.at) as u64;
                    add(&self.server.metrics.rows_out, count);
                    running.tell(|told| {
                        told.rows += count;
                        told.bytes += out.bytes.len().saturating_sub(before) as u64;
                        told.rows_read = self.session.progress().now().map(|read| read.rows);
                    });
                }
                left -= until - rows.at;
                rows.at = until;
                out.pass_on()?;
            }
            if left == 0 {
                portal.state = State::Runs(rows);
                return Ok(Advanced::Rows { count: most as u64, is_end: false });
            }
            match rows.stream.next() {
                None => break,
                Some(batch) => {
                    let batch = batch.map_err(|error| running.failure(error))?;
                    rows.columns = columns(&batch, self.settings.has_iso_intervals())?;
                    (rows.at, rows.count) = (0, batch.num_rows());
                }
            }
        }
        portal.state = State::HasEnded(String::new());
        Ok(Advanced::Rows { count: (most - left) as u64, is_end: true })
    }

    /// What the block may do from now on, and how it is isolated until it ends.
    fn set_mode(&mut self, mode: &Mode, out: &mut Output) {
        self.block.read_only = mode.read_only.unwrap_or(self.block.read_only);
        if let Some(level) = mode.isolation {
            self.warn_of_isolation(level, out);
            self.settings.set_local("transaction_isolation", level);
        }
    }

    /// Runs what a connection answers by itself; returns its tag.
    fn run_own(&mut self, own: &Own, portal: &Portal, out: &mut Output) -> Result<String, Stop> {
        let done = self.answer_own(own, portal, out);
        self.isolate();
        done
    }

    fn answer_own(&mut self, own: &Own, portal: &Portal, out: &mut Output) -> Result<String, Stop> {
        let tag = match own {
            Own::Begin { mode } => {
                if self.block.status == Status::InBlock {
                    warn("25001", "a block is open already", out);
                } else {
                    self.block.has_written = false;
                    self.block.read_only = false;
                    self.block.status = Status::InBlock;
                    let level = self.settings.get("default_transaction_isolation").to_owned();
                    self.settings.set_local("transaction_isolation", &level);
                }
                self.set_mode(mode, out);
                "BEGIN"
            }
            Own::Commit | Own::Rollback => return Ok(self.end_block(own, out).to_owned()),
            Own::Savepoint(_) | Own::Release(_) | Own::RollbackTo(_) => self.savepoint(own, out)?,
            Own::SetTransaction { mode, of_session: true } => {
                let on_or_off = |yes: bool| if yes { "on" } else { "off" };
                let read_only = mode.read_only.map(on_or_off);
                let isolation = mode.isolation;
                isolation.into_iter().for_each(|level| self.warn_of_isolation(level, out));
                for (name, value) in [
                    ("default_transaction_read_only", read_only),
                    ("default_transaction_isolation", isolation),
                    ("transaction_isolation", isolation),
                ] {
                    let Some(value) = value else { continue };
                    let told = self.settings.set(name, Some(value.to_owned()), false)?;
                    if let Some((name, value)) = told {
                        replies::parameter(name, &value, &mut out.bytes);
                    }
                }
                "SET"
            }
            Own::SetTransaction { mode, of_session: false } => {
                if self.block.status == Status::InBlock {
                    self.set_mode(mode, out);
                }
                "SET"
            }
            Own::Set { name, value, is_local } => {
                self.set(name, value.clone(), *is_local, out)?;
                if value.is_some() { "SET" } else { "RESET" }
            }
            Own::Show(name) => {
                self.show(own, name.as_deref(), portal, out);
                "SHOW"
            }
            Own::ResetAll => {
                self.reset_settings(out)?;
                "RESET"
            }
            Own::Discard(what) => {
                self.discard(*what, out)?;
                what.tag()
            }
            Own::Deallocate(name) => {
                if !self.forget(name.as_deref()) || name.is_none() {
                    // One that PREPARE has made, perhaps.
                    let name =
                        name.as_ref().map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
                    let name = name.as_deref().unwrap_or("ALL");
                    let statement = self.parse(&format!("DEALLOCATE {name}"))?;
                    self.session.execute(&statement, &stylobate::Parameters::default())?;
                }
                if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" }
            }
            Own::Declare { .. } => "DECLARE CURSOR",
            Own::Fetch { name, rows, sends } => {
                let count = self.fetch(name, *rows, *sends, portal, out)?;
                return Ok(format!("{} {count}", if *sends { "FETCH" } else { "MOVE" }));
            }
            Own::Close(Some(name)) => {
                self.portals.remove(name).ok_or_else(|| no_portal(name))?;
                "CLOSE CURSOR"
            }
            Own::Close(None) => {
                self.portals.clear();
                "CLOSE CURSOR ALL"
            }
            Own::CopyIn(copy) => return self.copy_in(copy, &portal.prepared.sql, out),
            Own::CopyOut(copy) => return self.copy_out(copy, &portal.prepared.sql, out),
            Own::Nothing(tag) => tag,
        };
        Ok(tag.to_owned())
    }

    fn end_block(&mut self, own: &Own, out: &mut Output) -> &'static str {
        let status = self.block.status;
        if status == Status::Idle {
            warn("25P01", "no block is open", out);
        }
        let rolls_back = *own == Own::Rollback || status == Status::Failed;
        if rolls_back {
            self.warn_of_written(out);
        }
        self.block.status = Status::Idle;
        self.savepoints.clear();
        self.block.has_written = false;
        self.block.read_only = false;
        self.settings.end_block();
        self.portals.retain(|_, portal| portal.is_held);
        if rolls_back { "ROLLBACK" } else { "COMMIT" }
    }

    /// What a block has stored stays: each statement is a commit of its own.
    pub(super) fn warn_of_written(&mut self, out: &mut Output) {
        if self.block.has_written {
            let warning =
                PgError::of("01000", "what the statements of the block have stored stays");
            let hint = "each statement is a commit of its own; generations before can be read as \
                        table@generation";
            replies::warning(&warning.hint(hint), &mut out.bytes);
        }
    }

    /// Answers SHOW.
    fn show(&self, own: &Own, name: Option<&str>, portal: &Portal, out: &mut Output) {
        if portal.describes_rows {
            portal.describe(own_columns(own).as_deref(), &mut out.bytes);
        }
        let row = |values: &[&str], out: &mut Vec<u8>| {
            replies::message(b'D', out, |out| {
                out.extend_from_slice(&(values.len() as i16).to_be_bytes());
                for value in values {
                    out.extend_from_slice(&(value.len() as i32).to_be_bytes());
                    out.extend_from_slice(value.as_bytes());
                }
            });
        };
        match name {
            Some("transaction_read_only") if self.block.read_only => row(&["on"], &mut out.bytes),
            Some(name) => row(&[self.settings.get(name)], &mut out.bytes),
            None => {
                for (name, value) in self.settings.all() {
                    row(&[name, value, ""], &mut out.bytes);
                }
            }
        }
    }
}

fn warn(code: &'static str, what: &str, out: &mut Output) {
    replies::warning(&PgError::of(code, what), &mut out.bytes);
}

/// Appends a row.
fn write_row(columns: &[Column], row: usize, format: impl Fn(usize) -> i16, out: &mut Vec<u8>) {
    replies::message(b'D', out, |out| {
        out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for (at, column) in columns.iter().enumerate() {
            if format(at) == 1 {
                binary::write_with_length(column, row, out);
            } else if column.is_null(row) {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
            } else {
                let start = replies::begin_length(out);
                text::write(column, row, out);
                replies::end_length(start, out);
            }
        }
    });
}
