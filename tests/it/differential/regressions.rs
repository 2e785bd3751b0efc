//! Faults that random statements have found, as small tables and statements.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StringArray};
use stylobate::internal::encoding::Options;
use stylobate::{DataType, Profile, Schema};

use super::engines::Engines;
use super::random::Random;
use super::statements::Statement;
use super::tables::{Database, Part, store};
use super::{Tally, check};

/// Columns `a`, `b`, …, each with its type and its segments. A segment has its type if that is
/// narrower, and its values: `-` is null, `''` the empty text, and `×3` the values so far three
/// times.
type Columns = &'static [(&'static str, &'static [&'static str])];

const FOUND: &[(Columns, &[&str])] = &[
    // All 64-bit words, and null: one more group than 64 bits count.
    (
        &[("int64", &["-9223372036854775808 9223372036854775807 - 0 0 7"])],
        &["SELECT a, count(*) FROM t GROUP BY 1", "SELECT a + 1, count(*) FROM t GROUP BY 1"],
    ),
    (
        &[("int64", &["-9223372036854775808 9223372036854775807 0 0 7"])],
        &["SELECT a, count(*) FROM t GROUP BY 1"],
    ),
    (
        &[("int64", &["-9000000000000000000 9000000000000000000 0 0 7"])],
        &[
            "SELECT CAST(a AS BIGINT), count(*) FROM t GROUP BY 1",
            "SELECT a / 2 * 2, count(*) FROM t GROUP BY 1",
        ],
    ),
    // A NaN sum has the same bits on any number of threads.
    (
        &[
            ("int32", &["1 2 ×700", "1 2 ×500", "2"]),
            ("float64", &["NaN 1.5 ×700", "inf -inf NaN 2 ×250", "1"]),
        ],
        &[
            "SELECT a, sum(b), avg(b - b), sum(-b) FILTER (WHERE true) FROM t GROUP BY 1",
            "SELECT sum(b), avg(b + 1) FROM t",
        ],
    ),
    // CASE has the type it was given, whatever scale round() of a decimal has once its arguments
    // are known.
    (
        &[("decimal(12,2)", &["1.55 - -7.25 12 ×40"]), ("int32", &["1 2 3 4 ×40"])],
        &["SELECT CASE WHEN b > 9 THEN b ELSE round(a, -1) END > 0, count(*) FROM t WHERE b > 9 \
             GROUP BY 1"],
    ),
    // Top-n by text and decimals, some of them missing.
    (
        &[
            ("utf8", &["- - - b ×400", "- ×2000", "- a"]),
            ("decimal(12,2)", &["- - 1.5 -2 ×400", "- ×2000", "- 7"]),
            ("int32", &["4 3 2 1 ×400", "0 ×2000", "-9 -8"]),
        ],
        &[
            "SELECT a, c FROM t ORDER BY a, c LIMIT 5",
            "SELECT a, c FROM t ORDER BY a DESC NULLS LAST, c DESC LIMIT 1000",
            "SELECT b, c FROM t ORDER BY b DESC NULLS LAST, c LIMIT 3000",
            "SELECT b, c FROM t WHERE b IS NULL ORDER BY b, c LIMIT 1",
        ],
    ),
    // Rows that FILTER rejects cannot fail.
    (
        &[("int32", &["0 1 2 - 4 ×300", "0 0"]), ("int32", &["7 8 9 - 1 ×300", "1 1"])],
        &[
            "SELECT sum(b % a) FILTER (WHERE a > 0), count(*) FROM t",
            "SELECT b, sum(b / a) FILTER (WHERE a > 0), min(b / a) FILTER (WHERE a > 1) FROM t \
             WHERE b > 1 GROUP BY 1",
            "SELECT sum(b % a) FILTER (WHERE a > 0), sum(b % a) FROM t",
        ],
    ),
    // Dictionary codes of values that are further apart than 32 bits.
    (
        &[
            ("time(us)", &["00:00:01 22:00:00 23:00:00 23:59:59.000001 ×2000"]),
            ("int32", &["1 2 3 4 ×2000"]),
        ],
        &["SELECT a, count(*), sum(b) FROM t GROUP BY 1", "SELECT DISTINCT b, a FROM t"],
    ),
    // Values that differ from their neighbours are not all distinct.
    (
        &[("int32", &["1 2 3 ×700", "2 1"]), ("utf8", &["a b c ×700", "b a"])],
        &[
            "SELECT count(DISTINCT a), count(DISTINCT b) FROM t",
            "SELECT count(DISTINCT a) FROM t",
            "SELECT count(DISTINCT b) FROM t",
        ],
    ),
    // In a column of one value, only the rows that pass are counted.
    (
        &[
            ("int32", &["5 5 5 5 ×500"]),
            ("int32", &["1 2 3 - ×500"]),
            ("float64", &["0.5 - 2.25 1.75 ×500"]),
        ],
        &[
            "SELECT sum(a + 1), avg(a), count(a * b), sum(b + 1), avg(c * 2), sum(a * b - c) FROM \
             t WHERE b <> 2",
            "SELECT sum(abs(a)), count(*) FROM t WHERE b > 1",
            "SELECT sum(b * 2), sum(coalesce(b, 7)), sum(c / b), avg(b) FROM t",
        ],
    ),
    // The sign of a zero counts where it is not a key.
    (
        &[
            (
                "float64",
                &[
                    "-0.0 3.141592653589793 2.718281828459045 -0.0 1.4142135623730951 ×900",
                    "-0.0 1.7320508075688772 ×40",
                ],
            ),
            ("float32", &["-0.0 3.1415927 2.7182817 -0.0 1.4142135 ×900", "4.0 -0.0 ×40"]),
        ],
        &[
            // As text, because the tolerance of a sum depends on its size, which is infinite.
            "SELECT CAST(sum(1 / a) AS TEXT), CAST(sum(1 / b) AS TEXT), count(1 / a) FROM t",
            "SELECT 1 / a, count(*) FROM t GROUP BY 1",
            "SELECT sum(b / 0.0 - b / -0.0), sum(a * a / 0.0 - a * a / -0.0) FROM t WHERE b > 0",
        ],
    ),
    // To a join, both zeros are equal, even if its keys are pushed down to a scan.
    (
        &[("float64", &["-0.0 2.0 ×900", "0.0 1.0 ×40"]), ("int32", &["1 2 ×900", "3 4 ×40"])],
        &[
            "SELECT count(*) FROM t WHERE a IN (SELECT DISTINCT a FROM t WHERE b > 2)",
            "SELECT count(*), sum(x.b) FROM t AS x JOIN (SELECT a FROM t WHERE b = 3 LIMIT 1) AS \
             y ON x.a = y.a",
        ],
    ),
    // Keys have one zero, which is positive.
    (
        &[
            ("float64", &["-0.0 0.0 1.5 -0.0 ×700", "0.0 -0.0", "-"]),
            ("float32", &["-0.0 0.0 2.5 2.5 ×700"]),
        ],
        &[
            "SELECT a, count(*) FROM t GROUP BY 1",
            "SELECT b, count(*) FROM t GROUP BY 1",
            "SELECT a, b, count(*) FROM t GROUP BY 1, 2",
            "SELECT -abs(a), count(*) FROM t GROUP BY 1",
            "SELECT a * b, min(a) IS NULL FROM t GROUP BY 1",
            "SELECT DISTINCT ceil(a * -0.1) FROM t",
        ],
    ),
];

fn part(text: &str, data_type: &DataType) -> (DataType, ArrayRef) {
    let (stored, values) = match text.split_once(':') {
        Some((stored, values)) if stored.parse::<DataType>().is_ok() => {
            (stored.parse().unwrap(), values)
        }
        _ => (data_type.clone(), text),
    };
    let mut all: Vec<Option<String>> = Vec::new();
    for word in values.split_whitespace() {
        match word {
            "-" => all.push(None),
            "''" => all.push(Some(String::new())),
            word => match word.strip_prefix('×').and_then(|times| times.parse().ok()) {
                Some(times) => all = std::iter::repeat_n(all, times).flatten().collect(),
                None => all.push(Some(word.to_owned())),
            },
        }
    }
    let array: ArrayRef = Arc::new(StringArray::from(all));
    let values = arrow_cast::cast(&array, &stored.to_arrow()).unwrap();
    assert_eq!(values.null_count(), array.null_count(), "{text} as {stored}");
    (stored, values)
}

fn table(columns: Columns) -> Database {
    let mut schema = Schema::default();
    for ((data_type, _), name) in columns.iter().zip('a'..) {
        schema.add(&name.to_string(), data_type.parse().unwrap()).unwrap();
    }
    let segments = columns.iter().map(|(_, segments)| segments.len()).max().unwrap_or(0);
    let segment = |at: usize| {
        let columns: Vec<Option<(DataType, ArrayRef)>> = columns
            .iter()
            .map(|(t, all)| all.get(at).map(|text| part(text, &t.parse().unwrap())))
            .collect();
        let rows = columns.iter().flatten().map(|(_, values)| values.len()).max().unwrap_or(0);
        Part { columns, rows, options: Options::new(Profile::Balanced), commits: true }
    };
    store(
        &schema,
        1024,
        (0..segments).map(segment).collect(),
        format!("{columns:?}"),
        &mut Random::new(1),
    )
}

#[test]
fn what_random_statements_found_stays_right() {
    for (columns, statements) in FOUND {
        let table = table(columns);
        let engines = Engines::open(&table);
        for sql in *statements {
            let adds = ["sum(", "avg("].iter().any(|call| sql.contains(call));
            let sums = if adds { (0..columns.len() * 2).collect() } else { Vec::new() };
            let statement = Statement { sums, ..Statement::plain((*sql).to_owned()) };
            if let Err(what) = check(&engines, &statement, &[], &mut Tally::default()) {
                panic!("{columns:?}\n{sql}\n{what}");
            }
        }
    }
}
