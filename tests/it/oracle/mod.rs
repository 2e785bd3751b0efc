//! Random statements, answered by SQLite too: over small tables that share column names, in stores
//! of several segments, with and without the executor.
//!
//! By hand: `STY_ORACLE_CASES` statements from `STY_ORACLE_SEED` on; the run ends after
//! `STY_ORACLE_FAILURES` of them have failed. A failure names the seed of its tables and a smaller
//! statement that fails too; `STY_ORACLE_TABLES` with `STY_ORACLE_SQL` runs any statement on those
//! tables.

mod expressions;
mod joins;
mod shrink;
mod statements;
mod tables;

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::both::{Answer, Both};
use super::differential::random::Random;
use tables::Tables;

/// The number of statements in the test command.
const CASES: u64 = 600;
/// The number of statements over the tables of one seed.
const STATEMENTS: u64 = 60;
const SEED: u64 = 20_251_015;
const THREADS: [usize; 3] = [1, 2, 4];
/// The number of statements in a hundred that may be refused.
const REFUSED: u64 = 40;

/// An answer row by row, or the message of the error.
type Rows = Result<Vec<Vec<String>>, String>;

/// The same tables in all engines.
struct Stores {
    both: Both,
    sqlite: Connection,
    _directory: tempfile::TempDir,
}

#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    /// The number of answers with rows.
    filled: u64,
    /// Errors by message without names and numbers, with the first statement of each.
    refused: BTreeMap<String, (u64, String)>,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn sqlite_answers_alike() {
    if let (Some(seed), Ok(sql)) = (variable("STY_ORACLE_TABLES"), std::env::var("STY_ORACLE_SQL"))
    {
        return run_one(seed, &sql);
    }
    let cases = variable("STY_ORACLE_CASES");
    let seed = variable("STY_ORACLE_SEED").unwrap_or(SEED);
    let allowed = variable("STY_ORACLE_FAILURES").unwrap_or(1);
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    let (mut done, mut number) = (0, 0);
    while done < cases.unwrap_or(CASES) && (failures.len() as u64) < allowed {
        let table_seed = Random::for_item(seed, number).next() >> 16;
        number += 1;
        let (tables, stores) = open(table_seed);
        for statement in 0..STATEMENTS {
            let mut r = Random::for_item(table_seed, statement);
            let statement = statements::generate(&mut r, &tables.relations);
            done += 1;
            let Err(what) =
                check(&stores, &statement.sql(), statement.is_ordered(), Some(&mut tally))
            else {
                continue;
            };
            // A statement with its order is not reduced, since the order would no longer be by all
            // columns.
            let fails = |sql: &str| check(&stores, sql, false, None).is_err();
            let small = if fails(&statement.body) {
                shrink::smaller(&statement.body, &fails)
            } else {
                statement.sql()
            };
            let again = check(&stores, &small, false, None).err().unwrap_or(what);
            let report = format!(
                "=== STY_ORACLE_TABLES={table_seed}\n{}\nsmaller: {small}\n{again}\n",
                statement.sql()
            );
            if cases.is_some() {
                eprintln!("{report}");
            }
            failures.push(format!("{}\n{report}", tables.statements.join(";\n")));
            if failures.len() as u64 >= allowed {
                break;
            }
        }
        if cases.is_some() && number % 50 == 0 {
            eprintln!("{done} statements, {} failures", failures.len());
        }
    }
    if cases.is_some() {
        eprintln!("{done} statements, {} failures, {tally:#?}", failures.len());
    }
    assert!(failures.is_empty(), "{} failures; the first:\n{}", failures.len(), failures[0]);
    assert!(
        tally.answered * 100 >= done * (100 - REFUSED),
        "most statements are to be answered: {tally:#?}"
    );
    assert!(tally.filled * 3 >= tally.answered, "answers are to have rows: {tally:#?}");
}

fn open(seed: u64) -> (Tables, Stores) {
    let tables = Tables::random(&mut Random::new(seed));
    let directory = tempfile::tempdir().unwrap();
    let threads = THREADS[(seed % THREADS.len() as u64) as usize];
    let (both, sqlite) = tables.store(&directory.path().join("db"), threads);
    (tables, Stores { both, sqlite, _directory: directory })
}

/// Runs one statement on the tables of a seed, and shows all answers.
fn run_one(seed: u64, sql: &str) {
    let (tables, stores) = open(seed);
    eprintln!("{};", tables.statements.join(";\n"));
    let [explained, _] = stores.both.ask(&format!("EXPLAIN {sql}"));
    for row in printed(explained).into_iter().flatten().flatten() {
        eprintln!("{row}");
    }
    let [on, off] = stores.both.ask(sql);
    eprintln!("sqlite:   {:?}", sqlites(&stores.sqlite, sql));
    eprintln!("executor: {:?}", printed(on));
    eprintln!("without:  {:?}", printed(off));
}

/// Compares the answers to a statement.
fn check(
    stores: &Stores,
    sql: &str,
    ordered: bool,
    tally: Option<&mut Tally>,
) -> Result<(), String> {
    let expected = match sqlites(&stores.sqlite, sql) {
        Ok(rows) => rows,
        // A statement may become meaningless while it is reduced.
        Err(_) if tally.is_none() => return Ok(()),
        Err(what) => return Err(format!("SQLite: {what}")),
    };
    let [on, off] = stores.both.ask(sql).map(printed);
    let sorted = |rows: &[Vec<String>]| {
        let mut rows = rows.to_vec();
        if !ordered {
            rows.sort();
        }
        rows
    };
    let differ = || {
        format!(
            "sqlite:   {}\nexecutor: {}\nwithout:  {}",
            shown(&Ok(expected.clone())),
            shown(&on),
            shown(&off)
        )
    };
    match (&on, &off) {
        (Ok(on), Ok(off)) => {
            let wanted = sorted(&expected);
            if sorted(on) != wanted || sorted(off) != wanted {
                return Err(differ());
            }
            if let Some(tally) = tally {
                tally.answered += 1;
                tally.filled += u64::from(!expected.is_empty());
            }
            Ok(())
        }
        (Err(what), Err(other)) if !what.contains("panic") && !other.contains("panic") => {
            if let Some(tally) = tally {
                let kind = kind_of(what);
                tally.refused.entry(kind).or_insert_with(|| (0, sql.to_owned())).0 += 1;
            }
            Ok(())
        }
        _ => Err(differ()),
    }
}

fn kind_of(message: &str) -> String {
    message
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .take(70)
        .collect()
}

fn shown(rows: &Rows) -> String {
    match rows {
        Ok(rows) => {
            let few: Vec<String> = rows.iter().take(12).map(|row| row.join(", ")).collect();
            format!("{} rows: {}", rows.len(), few.join(" | "))
        }
        Err(what) => format!("error: {}", what.chars().take(300).collect::<String>()),
    }
}

fn sqlites(sqlite: &Connection, sql: &str) -> Rows {
    let run = || {
        let mut statement = sqlite.prepare(sql)?;
        let width = statement.column_count();
        let mut rows = statement.query(())?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let cells =
                (0..width).map(|at| row.get_ref(at).map(cell)).collect::<Result<Vec<_>, _>>()?;
            all.push(cells);
        }
        Ok::<_, rusqlite::Error>(all)
    };
    run().map_err(|error| error.to_string())
}

fn cell(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => real(value),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        ValueRef::Blob(_) => "a blob".into(),
    }
}

fn real(value: f64) -> String {
    format!("{value:.9}")
}

fn printed(answer: Answer) -> Rows {
    answer.map(|batches| batches.iter().flat_map(rows).collect())
}

/// The rows of a batch as SQLite would give them: booleans are the integers 0 and 1.
fn rows(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let column = |array: &arrow_array::ArrayRef| -> Vec<String> {
        let data_type = array.data_type();
        if data_type.is_floating() {
            let floats = cast(array, &DataType::Float64).unwrap();
            let floats = floats.as_primitive::<Float64Type>();
            return floats.iter().map(|value| value.map_or("NULL".into(), real)).collect();
        }
        let array = if *data_type == DataType::Boolean {
            cast(array, &DataType::Int8).unwrap()
        } else {
            array.clone()
        };
        let is_text =
            matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
        let formatter = ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
        let text = |row| match formatter.value(row).to_string() {
            text if is_text && !arrow_array::Array::is_null(&array, row) => format!("'{text}'"),
            text => text,
        };
        (0..array.len()).map(text).collect()
    };
    let columns: Vec<Vec<String>> = batch.columns().iter().map(column).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect()
}
