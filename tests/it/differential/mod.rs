//! Random statements over random tables get the same answers from the executor, from DataFusion's
//! operators on the same stored tables, and from DataFusion on the rows that were stored; on any
//! number of threads, in little memory, however a statement is spelled. The answers to related
//! statements fit each other.
//!
//! A database is one table of thousands of rows in all kinds of segments (`one_table`), or several
//! small tables that share names (`several_tables`). Statements are made by `sources` (FROM),
//! `expressions`, `subqueries`, and `statements` and `shapes` around them; `relations` hold between
//! answers.
//!
//! By hand: `STY_DIFFERENTIAL_CASES` statements from `STY_DIFFERENTIAL_SEED` on; the run ends after
//! `STY_DIFFERENTIAL_FAILURES` of them have failed. A failure names the seed of its table;
//! `STY_DIFFERENTIAL_TABLE` with `STY_DIFFERENTIAL_SQL` runs any statement on that table.

mod compare;
mod engines;
mod expressions;
#[cfg(feature = "cluster")]
mod nodes;
mod one_table;
pub(crate) mod random;
mod regressions;
mod relations;
mod several_tables;
mod shapes;
mod sources;
mod spelling;
mod statements;
mod subqueries;
mod tables;
mod types;
mod values;

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use compare::compare;
use engines::{Answer, Engines, PANIC, ask};
use random::Random;
use spelling::Spelling;
use statements::{Detour, Statement};
use tables::Database;

/// The number of statements in the test command.
const CASES: u64 = 120;
/// The number of statements over one table.
const STATEMENTS: u64 = 30;
const SEED: u64 = 20_150_601;
/// The message of DataFusion's internal errors.
const OTHERS_FAULT: &str = "bug in DataFusion's code";
/// Messages for names that DataFusion refuses, where `sty` plans with other names.
const OTHERS_NAMES: [&str; 3] = [
    "require unique expression names",
    "does not support named arguments",
    "duplicate unqualified field name",
];
/// Messages for a double that DECIMAL(30, 15) does not hold, to which DataFusion casts doubles
/// beside decimals.
const OTHERS_DECIMALS: [&str; 2] =
    ["too large to store in a Decimal128", "Cannot cast to Decimal128"];
/// The message for a sum of integers that their type does not hold.
const SUM_TOO_LARGE: &str = "a sum does not fit into";
/// Parts of a statement with two sides, where one need not run if the other has no rows.
const SIDES: [&str; 8] =
    ["JOIN", "INTERSECT", "EXCEPT", "IN (SELECT", "EXISTS", " ANY (", " ALL (", " LIMIT "];
/// Casts that round, and that DataFusion removes from comparisons.
const INTEGER_CASTS: [&str; 6] = [
    "TRY_CAST(",
    " AS BIGINT)",
    " AS INT)",
    " AS SMALLINT)",
    " AS TINYINT)",
    " AS BIGINT UNSIGNED)",
];
const OFF: &str = "native off";
const IN_MEMORY: &str = "rows in memory";
const ONE_THREAD: &str = "one thread";
const LITTLE_MEMORY: &str = "little memory";
#[cfg(feature = "cluster")]
const NODES: &str = "two nodes";
/// The beginning of an error about too little memory.
const TOO_LARGE: &str = "limit exceeded";
/// Sums of the executor may differ in their last digit if large numbers cancel out.
const NEARLY_EXACT: f64 = 1e-14;
/// The number of rows that a failure shows of an answer.
const SHOWN: usize = 12;

/// The outcomes of statements.
#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    native: u64,
    refused: u64,
    /// The executor had an answer where another engine failed for a row that may not have counted,
    /// or the other way round.
    lenient: u64,
    /// DataFusion was wrong by its own rules, as a detour has shown.
    datafusions_fault: u64,
    /// Errors by the beginnings of their messages, without digits.
    errors: BTreeMap<String, u64>,
    /// The number of statements that had the same answer in another spelling.
    respelled: u64,
    /// The number of relations that held.
    related: u64,
    /// The number of statements for which an engine had too little memory.
    too_large: u64,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn random_statements_have_the_same_answers_three_ways() {
    if let (Some(seed), Ok(sql)) =
        (variable("STY_DIFFERENTIAL_TABLE"), std::env::var("STY_DIFFERENTIAL_SQL"))
    {
        return run_one(seed, &sql);
    }
    let cases = variable("STY_DIFFERENTIAL_CASES");
    let seed = variable("STY_DIFFERENTIAL_SEED").unwrap_or(SEED);
    let allowed = variable("STY_DIFFERENTIAL_FAILURES").unwrap_or(1);
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    let (mut done, mut number) = (0, 0);
    while done < cases.unwrap_or(CASES) && (failures.len() as u64) < allowed {
        let table_seed = Random::for_item(seed, number).next() >> 16;
        number += 1;
        let database = random_database(table_seed);
        let engines = Engines::open(&database);
        for at in 0..STATEMENTS {
            let statement = statements::generate(table_seed, at, &database, Spelling::default());
            let spelling = Spelling::random(&mut Random::for_item(table_seed, at ^ 0xffff));
            let others = [spelling, Spelling::OTHER]
                .map(|spelling| statements::generate(table_seed, at, &database, spelling));
            done += 1;
            let checked = check(&engines, &statement, &others, &mut tally)
                .and_then(|()| check_relation(&engines, table_seed, at, &database, &mut tally));
            if let Err(what) = checked {
                let what = report(&what, table_seed, &database, &statement);
                if cases.is_some() {
                    eprintln!("{what}");
                }
                failures.push(what);
            }
        }
        if cases.is_some() && number % 20 == 0 {
            eprintln!("{done} statements, {} failures", failures.len());
        }
    }
    if cases.is_some() {
        eprintln!("{done} statements, {} failures, {tally:#?}", failures.len());
    }
    assert!(tally.native * 2 > done, "most statements are to run in the executor: {tally:?}");
    assert!(failures.is_empty(), "{} failures; the first:\n{}", failures.len(), failures[0]);
}

fn report(what: &str, seed: u64, database: &Database, statement: &Statement) -> String {
    format!("=== STY_DIFFERENTIAL_TABLE={seed}\n{}\n{}\n{what}\n", database.text, statement.sql)
}

/// The tables of a seed: one, or several that share column names.
fn random_database(seed: u64) -> Database {
    let r = &mut Random::new(seed);
    if r.chance(45) { one_table::generate(r) } else { several_tables::generate(r) }
}

/// Checks a relation after every fourth statement.
fn check_relation(
    engines: &Engines,
    seed: u64,
    at: u64,
    database: &Database,
    tally: &mut Tally,
) -> Result<(), String> {
    if !at.is_multiple_of(4) {
        return Ok(());
    }
    let relation = relations::generate(seed, at, database);
    let session = if at.is_multiple_of(8) { &engines.native } else { &engines.off };
    tally.related += u64::from(relation.check(&|sql| ask(session, sql).0)?);
    Ok(())
}

/// Runs one statement on the tables of a seed, and shows all answers.
fn run_one(seed: u64, sql: &str) {
    let database = random_database(seed);
    let engines = Engines::open(&database);
    eprintln!("{}", database.text);
    eprintln!("{}", shown("explained", &ask(&engines.native, &format!("EXPLAIN {sql}")).0));
    for (name, answer) in [
        ("native", ask(&engines.native, sql).0),
        ("native, one thread", ask(&engines.one_thread, sql).0),
        ("native, little memory", ask(&engines.in_little_memory, sql).0),
        ("off", ask(&engines.off, sql).0),
        #[cfg(feature = "cluster")]
        (NODES, ask(&engines.nodes.session, sql).0),
        ("memory", engines.memory(sql)),
    ] {
        eprintln!("{}", shown(name, &answer));
    }
}

/// Compares the answers to a statement, and to the same statement in other spellings.
fn check(
    engines: &Engines,
    statement: &Statement,
    others: &[Statement],
    tally: &mut Tally,
) -> Result<(), String> {
    let sql = &statement.sql;
    let (native, how) = ask(&engines.native, sql);
    tally.native += u64::from(how.partly || native.is_err());
    let (size, session) = if sql.len().is_multiple_of(2) {
        (ONE_THREAD, &engines.one_thread)
    } else {
        (LITTLE_MEMORY, &engines.in_little_memory)
    };
    let answers = [
        (OFF, ask(&engines.off, sql).0),
        (IN_MEMORY, engines.memory(sql)),
        (size, ask(session, sql).0),
        #[cfg(feature = "cluster")]
        (NODES, ask(&engines.nodes.session, sql).0),
    ];
    for (name, other) in &answers {
        let exact = *name == size && how.sums;
        let close = if exact { NEARLY_EXACT } else { statement.close };
        let statement = Statement { close, ..statement.clone() };
        agree(engines, &statement, others, &native, (name, other), tally).map_err(|what| {
            format!("{what}\n{}\n{}", shown("native", &native), shown(name, other))
        })?;
    }
    respelled(engines, statement, others, &native, tally)?;
    match native {
        Ok(_) => tally.answered += 1,
        Err(what) => {
            tally.refused += 1;
            let kind = what.chars().filter(|c| !c.is_ascii_digit()).take(70).collect();
            *tally.errors.entry(kind).or_default() += 1;
        }
    }
    Ok(())
}

/// Compares the executor's answer with another one.
fn agree(
    engines: &Engines,
    statement: &Statement,
    others: &[Statement],
    native: &Answer,
    (name, other): (&str, &Answer),
    tally: &mut Tally,
) -> Result<(), String> {
    let (sql, stored) = (&statement.sql, name != IN_MEMORY);
    match (native, other) {
        (Ok(a), Ok(b)) => {
            let all = |sql: &str| {
                if stored { ask(&engines.off, sql).0.ok() } else { engines.memory(sql).ok() }
            };
            let Err(what) = compare(statement, a, b, &all) else { return Ok(()) };
            let is_excused = || {
                is_known(engines, sql)
                    || are_doubles(a, b)
                    || is_datafusions_fault(engines, statement, others, a)
            };
            if stored || !is_excused() {
                return Err(format!("native and {name}: {what}"));
            }
            tally.datafusions_fault += 1;
        }
        (_, Err(what)) if name == LITTLE_MEMORY && what.starts_with(TOO_LARGE) => {
            tally.too_large += 1
        }
        (Err(what), _) if what.contains(PANIC) => return Err("a panic".into()),
        (_, Err(what)) if what.contains(PANIC) && stored => {
            return Err(format!("a panic with {name}"));
        }
        // DataFusion may not have run a side, or may have dropped rows because of a limit.
        (Err(_), Ok(_)) if SIDES.iter().any(|word| sql.contains(word)) && name != LITTLE_MEMORY => {
            tally.lenient += 1;
        }
        // Rounded up to the next integer, a number may be out of range.
        (Err(_), Ok(_)) if !stored && INTEGER_CASTS.iter().any(|cast| sql.contains(cast)) => {
            tally.lenient += 1
        }
        // DataFusion's sums of integers wrap.
        (Err(what), Ok(_)) if !stored && what.contains(SUM_TOO_LARGE) => tally.lenient += 1,
        (Err(_), Ok(_)) => return Err(format!("an error, and none with {name}")),
        (Ok(_), Err(what)) if what.contains(OTHERS_FAULT) || what == PANIC => tally.lenient += 1,
        (Ok(_), Err(what)) if OTHERS_NAMES.iter().any(|said| what.contains(said)) && !stored => {
            tally.lenient += 1
        }
        (Ok(_), Err(what)) if OTHERS_DECIMALS.iter().any(|said| what.contains(said)) && !stored => {
            tally.lenient += 1
        }
        (Ok(_), Err(_)) if statement.may_hide_errors => tally.lenient += 1,
        (Ok(_), Err(_)) => return Err(format!("an answer, and an error with {name}")),
        (Err(_), Err(_)) => {}
    }
    Ok(())
}

/// Compares the executor's answer with its answer to the statement in another spelling.
fn respelled(
    engines: &Engines,
    statement: &Statement,
    others: &[Statement],
    native: &Answer,
    tally: &mut Tally,
) -> Result<(), String> {
    let (Ok(a), Some(other)) = (native, others.first().filter(|other| other.sql != statement.sql))
    else {
        return Ok(());
    };
    let answer = ask(&engines.native, &other.sql).0;
    let what = match &answer {
        Ok(b) => match compare(statement, a, b, &|sql| ask(&engines.off, sql).0.ok()) {
            Ok(()) => {
                tally.respelled += 1;
                return Ok(());
            }
            Err(what) => what,
        },
        Err(what) if what.contains(PANIC) => what.clone(),
        Err(_) => {
            tally.lenient += 1;
            return Ok(());
        }
    };
    let spelled = &other.sql;
    Err(format!(
        "spelled as\n{spelled}\n{what}\n{}\n{}",
        shown("native", native),
        shown("respelled", &answer)
    ))
}

/// Whether DataFusion may be wrong by a fault that the other engines do not have: it truncates when
/// a fraction becomes an integer, a NaN with a sign bit comes before all numbers, DISTINCT ON tells
/// zeros apart, a small number with an exponent is zero beside decimals, dates are days in UTC
/// beside times of other zones, a column of FULL or RIGHT JOIN … USING is that of the left side,
/// and doubles beside decimals, or times of a coarser unit, are rounded.
fn is_known(engines: &Engines, sql: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| sql.contains(word));
    let has_merged = has(&["FULL JOIN", "RIGHT JOIN"]) && has(&[" USING (", "NATURAL "]);
    has(&INTEGER_CASTS)
        || has_merged
        || engines.has_zones
        || engines.casts_otherwise(sql)
        || (engines.has_floats && has(&["(-", " % ", " / ", "e-", "DISTINCT ON"]))
}

/// Whether DataFusion made a column of doubles one of decimals: it rounds doubles to the decimals
/// beside them.
fn are_doubles(a: &RecordBatch, b: &RecordBatch) -> bool {
    let (ours, theirs) = (a.schema(), b.schema());
    let mut columns = ours.fields().iter().zip(theirs.fields());
    columns.any(|(ours, theirs)| {
        *ours.data_type() == DataType::Float64 && theirs.data_type().is_decimal()
    })
}

/// Whether a different answer is DataFusion's own fault: DataFusion agrees with us if the statement
/// is written in another way.
fn is_datafusions_fault(
    engines: &Engines,
    statement: &Statement,
    others: &[Statement],
    a: &RecordBatch,
) -> bool {
    let sizes = |sql: &str| engines.memory(sql).ok();
    // What a spelling is compared with, such as all rows where a limit picks some, is spelled so.
    let confirms = |(spelled, detour): (&Statement, Detour)| {
        let all = engines.memory(&detour.sql).or_else(|_| ask(&engines.off, &detour.sql).0);
        all.is_ok_and(|all| compare(spelled, a, &slice(&all, &detour), &sizes).is_ok())
    };
    let whole = |other: &Statement| Detour { sql: other.sql.clone(), skip: 0, limit: usize::MAX };
    let detours = statement.detours.iter().map(|detour| (statement, detour.clone()));
    let respelled = others.iter().flat_map(|other| {
        let detours = std::iter::once(whole(other)).chain(other.detours.clone());
        detours.map(move |detour| (other, detour))
    });
    let exact = || {
        engines
            .with_decimals(&statement.sql)
            .is_ok_and(|all| compare(statement, a, &all, &sizes).is_ok())
    };
    detours.chain(respelled).any(confirms) || exact()
}

fn slice(batch: &RecordBatch, detour: &Detour) -> RecordBatch {
    let skip = detour.skip.min(batch.num_rows());
    batch.slice(skip, detour.limit.min(batch.num_rows() - skip))
}

fn shown(name: &str, answer: &Answer) -> String {
    match answer {
        Ok(batch) => {
            let few: RecordBatch = batch.slice(0, batch.num_rows().min(SHOWN));
            format!("{name}: {} rows\n{}", batch.num_rows(), compare::shown(&few))
        }
        Err(error) => format!("{name}: error: {error}"),
    }
}
