//! The SQL test suite in `tests/slt/`: every file runs twice against an empty store of its own,
//! with and without the executor, and must give the same answers.
//!
//! `STY_SLT=name` runs the files whose names contain `name`. `STY_SLT_COMPLETE=1` writes the
//! answers of this build into the files instead of checking them, for a person to read. The labels
//! for `onlyif` and `skipif` are `native` and `datafusion`.

use std::path::{Path, PathBuf};

use arrow_array::{Array, RecordBatch, UInt64Array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use sqllogictest::{
    ColumnType, DB, DBOutput, MakeConnection, Runner, default_normalizer, default_validator,
    strict_column_validator,
};
use stylobate::{Error, Parameters, Session, SessionOptions, Store};

use crate::project;

/// Kinds of columns, as the letters after `query` name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Integer,
    /// Floats and decimals.
    Real,
    Date,
    /// Timestamps and times.
    Time,
    Text,
    Other,
}

const LETTERS: [(Kind, char); 7] = [
    (Kind::Bool, 'B'),
    (Kind::Integer, 'I'),
    (Kind::Real, 'R'),
    (Kind::Date, 'D'),
    (Kind::Time, 'P'),
    (Kind::Text, 'T'),
    (Kind::Other, '?'),
];

impl ColumnType for Kind {
    fn from_char(letter: char) -> Option<Kind> {
        LETTERS.iter().find(|(_, known)| *known == letter).map(|(kind, _)| *kind)
    }

    fn to_char(&self) -> char {
        LETTERS.iter().find(|(known, _)| known == self).map_or('?', |(_, letter)| *letter)
    }
}

impl Kind {
    fn from_arrow(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Boolean => Kind::Bool,
            other if other.is_integer() => Kind::Integer,
            other if other.is_floating() || other.is_decimal() => Kind::Real,
            DataType::Date32 => Kind::Date,
            DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
            _ => Kind::Other,
        }
    }
}

/// One connection: a session over the store.
struct Connection(Session);

impl Connection {
    fn open(store: &Path, native: bool) -> Result<Connection, Error> {
        let options =
            SessionOptions { threads: Some(2), create: true, ..SessionOptions::default() };
        let mut connection = Connection(Session::open(&Store::open(store), &options)?);
        connection.run(if native { "SET sty.native = on" } else { "SET sty.native = off" })?;
        Ok(connection)
    }
}

impl DB for Connection {
    type Error = Error;
    type ColumnType = Kind;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Kind>, Error> {
        let mut answer = DBOutput::StatementComplete(0);
        let adds = |sql: &str| sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("INSERT"));
        self.0.run(sql, &Parameters::default(), |stream| {
            let types: Vec<Kind> = stream
                .schema()
                .fields()
                .iter()
                .map(|field| Kind::from_arrow(field.data_type()))
                .collect();
            let batches = stream.collect::<Result<Vec<_>, _>>()?;
            answer = match types.as_slice() {
                [] => DBOutput::StatementComplete(0),
                [Kind::Integer] if adds(sql) => DBOutput::StatementComplete(added(&batches)),
                _ => DBOutput::Rows { types, rows: batches.iter().flat_map(cells).collect() },
            };
            Ok(())
        })?;
        Ok(answer)
    }

    fn engine_name(&self) -> &str {
        "stylobate"
    }
}

/// The column of the answer to an INSERT.
fn added(batches: &[RecordBatch]) -> u64 {
    let counts =
        batches.iter().filter_map(|batch| batch.column(0).as_any().downcast_ref::<UInt64Array>());
    counts.flat_map(|counts| counts.values().iter()).sum()
}

/// The rows of a batch as text: NULL, and `(empty)` for the empty text.
fn cells(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let cell = |column: &ArrayFormatter<'_>, row| match column.value(row).to_string() {
        text if text.is_empty() => "(empty)".to_owned(),
        text => text,
    };
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| cell(column, row)).collect())
        .collect()
}

fn files() -> Vec<PathBuf> {
    let wanted = std::env::var("STY_SLT").unwrap_or_default();
    let directory = project().join("tests/slt");
    let mut files: Vec<PathBuf> =
        directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".slt") && name.contains(&wanted)
    });
    files.sort();
    files
}

/// Runs a file with or without the executor, and says what is wrong.
fn check(file: &Path, native: bool) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    let mut runner = Runner::new(|| std::future::ready(Connection::open(&store, native)));
    runner.add_label(if native { "native" } else { "datafusion" });
    runner.with_column_validator(strict_column_validator);
    if native && std::env::var_os("STY_SLT_COMPLETE").is_some() {
        return complete(&mut runner, file);
    }
    let way = if native { "with" } else { "without" };
    runner.run_file(file).map_err(|error| format!("{way} the executor: {}", error.display(false)))
}

fn complete<M: MakeConnection<Conn = Connection>>(
    runner: &mut Runner<Connection, M>,
    file: &Path,
) -> Result<(), String> {
    let done = runner.update_test_file(
        file,
        " ",
        default_validator,
        default_normalizer,
        strict_column_validator,
    );
    futures::executor::block_on(done).map_err(|error| error.to_string())
}

#[test]
fn sqllogictests() {
    let files = files();
    assert!(!files.is_empty(), "no file in tests/slt matches STY_SLT");
    // Most of the time is spent waiting for the disk.
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let both = |file: &Path| [true, false].map(|native| check(file, native).err());
        let running: Vec<_> = files.iter().map(|file| scope.spawn(move || both(file))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).flatten().collect()
    });
    assert!(wrong.is_empty(), "{} failures:\n\n{}", wrong.len(), wrong.join("\n\n"));
}
