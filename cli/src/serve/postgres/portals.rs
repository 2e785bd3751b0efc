//! Statements that wait to run, and those that do: prepared ones, and portals, which are prepared
//! ones with their values.

use std::sync::{Arc, OnceLock};

use arrow_schema::SchemaRef;
use stylobate::{BatchStream, Described, Parameters, Session, Statement};

use super::columns::Column;
use super::errors::PgError;
use super::messages::Bind;
use super::own::Own;
use super::parameters;
use super::replies::{self, ColumnInfo};
use super::types::{PgType, TEXT};

/// What a statement does.
pub(super) enum Work {
    /// There is none.
    Empty,
    Own(Own),
    Ours(Box<Statement>),
    /// A portal of this name is made of the statement.
    Declare {
        name: String,
        is_held: bool,
        query: Arc<Prepared>,
    },
}

/// A statement that waits for its values.
pub(super) struct Prepared {
    pub(super) work: Work,
    pub(super) sql: String,
    /// The types that the client has declared; 0 if it leaves that to us.
    types: Vec<u32>,
    described: OnceLock<Described>,
}

/// A statement with its values.
pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) parameters: Parameters,
    result_formats: Vec<i16>,
    /// Whether the columns are told before the rows.
    pub(super) describes_rows: bool,
    /// Whether it stays beyond the end of its block.
    pub(super) is_held: bool,
    pub(super) state: State,
    /// The columns of its answer, once it has begun.
    pub(super) schema: Option<SchemaRef>,
}

/// How far a portal is.
pub(super) enum State {
    Waits,
    /// Some of its rows have been sent.
    Runs(Box<Rows>),
    /// It has ended, with this tag.
    HasEnded(String),
}

/// The rows of a statement that runs.
pub(super) struct Rows {
    pub(super) stream: BatchStream,
    pub(super) columns: Vec<Column>,
    /// The next row of these columns, and how many there are.
    pub(super) at: usize,
    pub(super) count: usize,
}

/// The columns of an answer.
pub(super) fn infos(schema: &arrow_schema::Schema) -> Vec<ColumnInfo> {
    let info = |field: &Arc<arrow_schema::Field>| ColumnInfo {
        name: field.name().clone(),
        pg_type: PgType::of(field.data_type()),
    };
    schema.fields().iter().map(info).collect()
}

impl Prepared {
    pub(super) fn new(work: Work, sql: &str, types: Vec<u32>) -> Prepared {
        Prepared { work, sql: sql.to_owned(), types, described: OnceLock::new() }
    }

    /// Whether it is known what the statement takes and gives.
    pub(super) fn is_described(&self) -> bool {
        match &self.work {
            Work::Ours(_) => self.described.get().is_some(),
            Work::Declare { query, .. } => query.is_described(),
            Work::Empty | Work::Own(_) => true,
        }
    }

    /// What the statement takes and gives.
    pub(super) fn described(&self, session: &Session) -> Result<&Described, PgError> {
        if let Some(known) = self.described.get() {
            return Ok(known);
        }
        if let Work::Declare { query, .. } = &self.work {
            return query.described(session);
        }
        let declared = self.types.iter().map(|oid| parameters::arrow_type(*oid));
        let declared = declared.collect::<Result<Vec<_>, _>>()?;
        let described = match &self.work {
            Work::Ours(statement) => session.describe(statement, &declared)?,
            Work::Empty | Work::Own(_) | Work::Declare { .. } => {
                Described { parameters: declared, answer: None }
            }
        };
        Ok(self.described.get_or_init(|| described))
    }

    fn declared(&self, at: usize) -> u32 {
        self.types.get(at).copied().unwrap_or(0)
    }

    /// The columns of the answer, if there is one.
    pub(super) fn columns(&self, session: &Session) -> Result<Option<Vec<ColumnInfo>>, PgError> {
        match &self.work {
            Work::Own(own) => return Ok(own_columns(own)),
            Work::Declare { .. } => return Ok(None),
            Work::Empty | Work::Ours(_) => {}
        }
        Ok(self.described(session)?.answer.as_ref().map(|schema| infos(schema)))
    }

    /// Tells of the parameters and columns, which are these.
    pub(super) fn describe(
        &self,
        session: &Session,
        columns: Option<&[ColumnInfo]>,
        out: &mut Vec<u8>,
    ) -> Result<(), PgError> {
        let known = &self.described(session)?.parameters;
        let oid =
            |(at, known): (usize, &Option<_>)| parameters::oid(self.declared(at), known.as_ref());
        let oids: Vec<u32> = known.iter().enumerate().map(oid).collect();
        replies::parameter_description(&oids, out);
        describe_columns(columns, |_| 0, out);
        Ok(())
    }
}

/// The columns of what a connection answers by itself.
pub(super) fn own_columns(own: &Own) -> Option<Vec<ColumnInfo>> {
    let text = |name: &str| {
        let pg_type = PgType { oid: TEXT, size: -1, modifier: -1 };
        ColumnInfo { name: name.to_owned(), pg_type }
    };
    match own {
        Own::Show(Some(name)) => Some(vec![text(name)]),
        Own::Show(None) => Some(vec![text("name"), text("setting"), text("description")]),
        _ => None,
    }
}

fn describe_columns(
    columns: Option<&[ColumnInfo]>,
    format: impl Fn(usize) -> i16,
    out: &mut Vec<u8>,
) {
    match columns {
        Some(columns) => replies::row_description(columns, format, out),
        None => replies::bare(b'n', out),
    }
}

impl Portal {
    pub(super) fn without_parameters(prepared: Arc<Prepared>) -> Portal {
        Portal {
            prepared,
            parameters: Parameters::default(),
            result_formats: Vec::new(),
            describes_rows: false,
            is_held: false,
            state: State::Waits,
            schema: None,
        }
    }

    /// Reads the values of a statement.
    pub(super) fn bind(
        session: &Session,
        prepared: Arc<Prepared>,
        bind: Bind,
    ) -> Result<Portal, PgError> {
        let mut values = Parameters::default();
        let known = match bind.values.is_empty() {
            true if prepared.described.get().is_none() => &[][..],
            _ => prepared.described(session)?.parameters.as_slice(),
        };
        if known.len() != bind.values.len() {
            let (needed, given) = (known.len(), bind.values.len());
            let what = format!("the statement takes {needed} values, and {given} are given");
            return Err(PgError::of("08P01", what));
        }
        for (at, (value, known)) in bind.values.iter().zip(known).enumerate() {
            let oid = parameters::oid(prepared.declared(at), known.as_ref());
            let format = format_of(&bind.formats, at);
            let array = parameters::read(oid, known.as_ref(), format, value.as_deref());
            let array = array.map_err(|error| {
                let what = format!("${}: {}", at + 1, error.message);
                PgError { message: what, ..error }
            })?;
            values.set_first_of(&(at + 1).to_string(), &array)?;
        }
        let mut portal = Portal::without_parameters(prepared);
        portal.parameters = values;
        portal.result_formats = bind.result_formats;
        Ok(portal)
    }

    /// The form in which a column is asked for; 1 is binary.
    pub(super) fn format(&self, column: usize) -> i16 {
        format_of(&self.result_formats, column)
    }

    /// The columns of its answer, if it has one: those with which it has begun, if it has.
    pub(super) fn columns(&self, session: &Session) -> Result<Option<Vec<ColumnInfo>>, PgError> {
        match &self.schema {
            Some(schema) => Ok(Some(infos(schema))),
            None => self.prepared.columns(session),
        }
    }

    /// Tells of the columns, which are these.
    pub(super) fn describe(&self, columns: Option<&[ColumnInfo]>, out: &mut Vec<u8>) {
        describe_columns(columns, |at| self.format(at), out);
    }

    /// From now on, rows are asked for in the forms in which another portal has them; returns those
    /// of before.
    pub(super) fn take_formats(&mut self, other: &Portal) -> Vec<i16> {
        std::mem::replace(&mut self.result_formats, other.result_formats.clone())
    }

    /// Rows are asked for in these forms again.
    pub(super) fn give_formats(&mut self, formats: Vec<i16>) {
        self.result_formats = formats;
    }

    /// Checks that the answer has the columns that the client was told of.
    pub(super) fn check_columns(&self, schema: &arrow_schema::Schema) -> Result<(), PgError> {
        let described = self.prepared.described.get().filter(|_| !self.describes_rows);
        let Some(told) = described else { return Ok(()) };
        let told = told.answer.as_ref().map(|schema| infos(schema)).unwrap_or_default();
        let given = infos(schema);
        let is_same = told.len() == given.len()
            && told.iter().zip(&given).all(|(told, given)| told.pg_type.oid == given.pg_type.oid);
        match is_same {
            true => Ok(()),
            false => Err(PgError::of(
                "0A000",
                "the columns of the answer are others than when the statement was prepared; \
                 prepare it again",
            )),
        }
    }
}

fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        all => all.get(at).copied().unwrap_or(0),
    }
}
