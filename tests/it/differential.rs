//! The same answers from the executor, from DataFusion's operators on the same stored table, and from DataFusion on the
//! rows that were stored, for random statements over random tables.
//!
//! By hand: `STY_DIFFERENTIAL_CASES` statements from `STY_DIFFERENTIAL_SEED` on, of which `STY_DIFFERENTIAL_FAILURES` may
//! fail before the run ends. A failure names the seed of its table; `STY_DIFFERENTIAL_TABLE` with
//! `STY_DIFFERENTIAL_SQL` asks that table anything.

mod compare;
mod expressions;
pub(crate) mod random;
mod regressions;
mod statements;
mod tables;
mod values;
mod ways;

use std::collections::BTreeMap;

use arrow_array::RecordBatch;

use compare::compare;
use random::Random;
use statements::{Detour, Order, Statement};
use tables::Table;
use ways::{Answer, Native, Ways, ask};

/// Statements in the test command.
const CASES: u64 = 120;
/// Statements over one table.
const STATEMENTS: u64 = 30;
const SEED: u64 = 20_150_601;
/// What DataFusion says where a plan of its own surprises it.
const OTHERS_FAULT: &str = "bug in DataFusion's code";
/// What is in statements of which a side need not be asked where the other has no rows.
const SIDES: [&str; 4] = ["JOIN", "INTERSECT", "EXCEPT", "IN (SELECT"];
/// Rows of an answer that a failure shows.
const SHOWN: usize = 12;

/// What became of statements.
#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    native: u64,
    refused: u64,
    /// The executor had an answer where another way failed for a row that may not have counted.
    lenient: u64,
    /// DataFusion was wrong by its own rules, which a detour has shown.
    theirs: u64,
    /// The beginnings of messages, without digits.
    errors: BTreeMap<String, u64>,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn random_statements_have_the_same_answers_three_ways() {
    if let (Some(seed), Ok(sql)) = (variable("STY_DIFFERENTIAL_TABLE"), std::env::var("STY_DIFFERENTIAL_SQL")) {
        return one(seed, &sql);
    }
    let cases = variable("STY_DIFFERENTIAL_CASES");
    let seed = variable("STY_DIFFERENTIAL_SEED").unwrap_or(SEED);
    let allowed = variable("STY_DIFFERENTIAL_FAILURES").unwrap_or(1);
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    let (mut done, mut number) = (0, 0);
    while done < cases.unwrap_or(CASES) && (failures.len() as u64) < allowed {
        let table_seed = Random::of(seed, number).next() >> 16;
        number += 1;
        let table = tables::generate(table_seed);
        let ways = Ways::over(&table);
        for statement in 0..STATEMENTS {
            let statement = statements::generate(&mut Random::of(table_seed, statement), &table);
            done += 1;
            if let Err(what) = check(&ways, &statement, &mut tally) {
                let what = report(&what, table_seed, &table, &statement);
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

fn report(what: &str, seed: u64, table: &Table, statement: &Statement) -> String {
    format!("=== STY_DIFFERENTIAL_TABLE={seed}\n{}\n{}\n{what}\n", table.text, statement.sql)
}

/// Asks one table one thing, and shows all answers.
fn one(seed: u64, sql: &str) {
    let table = tables::generate(seed);
    let ways = Ways::over(&table);
    eprintln!("{}", table.text);
    eprintln!("{}", shown("explained", &ask(&ways.native, &format!("EXPLAIN {sql}")).0));
    for (name, answer) in [
        ("native", ask(&ways.native, sql).0),
        ("native, one thread", ask(&ways.alone, sql).0),
        ("off", ask(&ways.off, sql).0),
        ("memory", ways.memory(sql)),
    ] {
        eprintln!("{}", shown(name, &answer));
    }
}

/// What is wrong with the answers to a statement.
fn check(ways: &Ways, statement: &Statement, tally: &mut Tally) -> Result<(), String> {
    let sql = &statement.sql;
    let ((native, how), (alone, _)) = (ask(&ways.native, sql), ask(&ways.alone, sql));
    let (off, memory) = (ask(&ways.off, sql).0, ways.memory(sql));
    let sizes = |sql: &str| ways.memory(sql).ok();
    let failed = |what: String, other: &Answer| {
        Err(format!("{what}\n{}\n{}", shown("native", &native), shown("other", other)))
    };
    tally.native += u64::from(how.partly || native.is_err());
    for (name, other) in [("native off", &off), ("rows in memory", &memory), ("one thread", &alone)] {
        match (&native, other) {
            (Ok(a), Ok(b)) => {
                let exactly = name == "one thread" && how.sums;
                let sums = if exactly { Vec::new() } else { statement.sums.clone() };
                let statement = Statement { sums, ..statement.clone() };
                let Err(what) = compare(&statement, a, b, &sizes) else { continue };
                if is_theirs(ways, &statement, name, how, (a, b)) {
                    tally.theirs += 1;
                } else {
                    return failed(format!("native and {name}: {what}"), other);
                }
            }
            // A side that DataFusion did not come to ask.
            (Err(_), Ok(_)) if SIDES.iter().any(|word| sql.contains(word)) && name != "one thread" => {
                tally.lenient += 1;
            }
            // Rows that a limit has made it leave out.
            (Err(_), Ok(_)) if sql.contains(" LIMIT ") && name != "one thread" => tally.lenient += 1,
            (Err(_), Ok(_)) => return failed(format!("an error, and none with {name}"), other),
            (Ok(_), Err(what)) if what.contains(OTHERS_FAULT) => tally.lenient += 1,
            (Ok(_), Err(_)) if statement.may_hide_errors && name != "one thread" => tally.lenient += 1,
            (Ok(_), Err(_)) => return failed(format!("an answer, and an error with {name}"), other),
            (Err(what), Err(_)) if what.contains("panic") => return failed("a panic".into(), other),
            (Err(_), Err(_)) => {}
        }
    }
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

/// Whether different answers are DataFusion's fault, by its own rules.
fn is_theirs(
    ways: &Ways,
    statement: &Statement,
    name: &str,
    how: Native,
    (a, b): (&RecordBatch, &RecordBatch),
) -> bool {
    let sizes = |sql: &str| ways.memory(sql).ok();
    let confirms = |way: &Detour| {
        let all = ways.memory(&way.sql).or_else(|_| ask(&ways.off, &way.sql).0);
        all.is_ok_and(|all| compare(statement, a, &slice(&all, way), &sizes).is_ok())
    };
    // Its min and max depend on the order of rows where floats are NaN: both answers may be its own.
    let extremes = ["min(", "max("].iter().any(|call| statement.sql.contains(call));
    // Statistics have led it to leave out a sort, by intervals that it carries back through casts.
    let unsorted = Statement { order: Order::Any, ..statement.clone() };
    let sorts = matches!(statement.order, Order::Total);
    (!how.sums && extremes)
        || (name == "native off" && sorts && compare(&unsorted, a, b, &sizes).is_ok())
        || (name != "one thread" && statement.detours.iter().any(confirms))
}

fn slice(batch: &RecordBatch, way: &Detour) -> RecordBatch {
    let skip = way.skip.min(batch.num_rows());
    batch.slice(skip, way.limit.min(batch.num_rows() - skip))
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
