//! Fragments over a stored table against the same computed row by row.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema};

use super::run::{Answer, refusal};
use super::*;
use crate::encoding::Encoding;
use crate::error::Result;
use crate::expr::{Comparison, Expression, Function, Operand, Predicate, Traits};
use crate::ingest::load::{LoadOptions, load};
use crate::ingest::resume::IfLoaded;
use crate::ingest::sources::expand;
use crate::model::{Scalar, Schema};
use crate::store::{Snapshot, Store, TableOptions};

/// A row: few whole numbers, few texts, decimals, rising numbers, many numbers.
#[derive(Clone, Debug)]
pub(super) struct Row {
    few: Option<i64>,
    pub(super) text: Option<&'static str>,
    pub(super) decimal: Option<f64>,
    pub(super) rising: i64,
    many: i64,
}

const TEXTS: [&str; 5] = ["", "aa", "ab", "b", "zebra"];

pub(super) fn rows(n: usize, seed: u64) -> Vec<Row> {
    let mut state = seed;
    let mut random = move |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let row = |i: usize| Row {
        few: (random(10) > 0).then(|| random(7) as i64 - 3),
        text: (random(20) > 0).then(|| TEXTS[random(5) as usize]),
        decimal: (random(15) > 0).then(|| random(5_000) as f64 / 100.0 - 7.0),
        rising: (seed as usize * n + i) as i64,
        many: random(1 << 31) as i64 * 1_000_003,
    };
    (0..n).map(row).collect()
}

pub(super) fn store(dir: &Path, parts: &[Vec<Row>]) -> Snapshot {
    let parts: Vec<(Vec<Row>, Option<Encoding>)> =
        parts.iter().map(|part| (part.clone(), None)).collect();
    store_as(dir, &parts)
}

#[expect(clippy::disallowed_methods, reason = "inputs of a test")]
pub(super) fn store_as(dir: &Path, parts: &[(Vec<Row>, Option<Encoding>)]) -> Snapshot {
    let table = Store::open(dir.join("db")).table("t").unwrap();
    for (i, (part, force)) in parts.iter().enumerate() {
        let mut text = String::from("few,text,decimal,rising,many\n");
        for row in part {
            let few = row.few.map_or(String::new(), |v| v.to_string());
            let word = row.text.map_or(String::new(), |v| format!("\"{v}\""));
            let decimal = row.decimal.map_or(String::new(), |v| v.to_string());
            text += &format!("{few},{word},{decimal},{},{}\n", row.rising, row.many);
        }
        let path = dir.join(format!("{i}.csv"));
        std::fs::write(&path, text).unwrap();
        let writer = table.writer(Some((Schema::default(), TableOptions::default()))).unwrap();
        // Parts may be equal.
        let if_loaded = IfLoaded::Again;
        let options =
            LoadOptions { force: *force, threads: 2, if_loaded, ..LoadOptions::default() };
        load(writer, expand(&[path.to_string_lossy().into_owned()]).unwrap(), &options).unwrap();
    }
    table.snapshot().unwrap()
}

pub(super) fn column(at: usize) -> Expression {
    let data_type = match at {
        1 => ArrowType::Utf8View,
        2 => ArrowType::Float64,
        _ => ArrowType::Int64,
    };
    Expression {
        inputs: vec![at],
        function: None,
        data_type,
        traits: Traits::default(),
        choice: None,
        text: at.to_string().into(),
    }
}

pub(super) type Compute = fn(&[ArrayRef]) -> ArrayRef;

#[derive(Debug)]
struct Native(Compute);

impl Function for Native {
    fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        Ok(self.0(inputs))
    }
}

pub(super) fn computed(
    inputs: Vec<usize>,
    data_type: ArrowType,
    traits: Traits,
    compute: Compute,
) -> Expression {
    let function: Option<Arc<dyn Function>> = Some(Arc::new(Native(compute)));
    Expression { inputs, function, data_type, traits, choice: None, text: "f".into() }
}

pub(super) fn aggregate(function: AggregateFunction, input: Option<usize>) -> Aggregate {
    let data_type = match (function, input) {
        (AggregateFunction::Count, _) => ArrowType::Int64,
        (_, Some(at)) => column(at).data_type,
        _ => ArrowType::Null,
    };
    Aggregate {
        function,
        input: input.map(column),
        filter: None,
        distinct: false,
        order: None,
        data_type,
        text: "a".into(),
    }
}

pub(super) fn answer(
    snapshot: &Snapshot,
    conditions: Vec<Condition>,
    output: Output,
) -> RecordBatch {
    let fragment = fragment(snapshot, conditions, output);
    let directory = std::env::temp_dir();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let context = Context {
        pool: &pool,
        cancelled: &|| false,
        reserve: &|_| Ok(()),
        release: &|_| {},
        temp_dir: &directory,
        limits: GroupLimits::default(),
        known_rows: true,
        states: false,
        recorder: &Recorder::default(),
        timed: false,
    };
    all_of(&fragment, run(&fragment, snapshot, &context).unwrap()).unwrap()
}

/// The batches of an answer as one.
pub(super) fn all_of(fragment: &Fragment, mut answer: Answer<'_>) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    loop {
        batches.append(&mut answer.batches);
        if !answer.more()? {
            return Ok(arrow_select::concat::concat_batches(&fragment.schema, &batches).unwrap());
        }
    }
}

pub(super) fn fragment(
    snapshot: &Snapshot,
    conditions: Vec<Condition>,
    output: Output,
) -> Fragment {
    let types: Vec<ArrowType> = match &output {
        Output::Aggregate { keys, aggregates, .. } => {
            let keys = keys.iter().map(|key| key.data_type.clone());
            keys.chain(aggregates.iter().map(|a| a.data_type.clone())).collect()
        }
        Output::Top { expressions, .. } => {
            expressions.iter().map(|e| e.data_type.clone()).collect()
        }
    };
    let fields = types.into_iter().enumerate().map(|(i, t)| Field::new(i.to_string(), t, true));
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    let columns = snapshot.schema().columns().to_vec();
    let fragment = Fragment { columns, conditions, output, schema, states: false };
    assert_eq!(refusal(&fragment), None);
    fragment
}

/// Rows of an answer as text, sorted.
pub(super) fn shown(batch: &RecordBatch) -> Vec<String> {
    let cell = |at: usize| {
        move |column: &ArrayRef| match column.is_null(at) {
            true => "null".to_owned(),
            false => arrow_cast::display::array_value_to_string(column, at).unwrap(),
        }
    };
    let mut rows: Vec<String> = (0..batch.num_rows())
        .map(|at| batch.columns().iter().map(cell(at)).collect::<Vec<_>>().join("|"))
        .collect();
    rows.sort();
    rows
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or("null".to_owned(), |v| v.to_string())
}

/// count(*), count(decimal), sum(rising), min(decimal), max(text) of groups of rows.
fn expected(all: &[Row], key: impl Fn(&Row) -> Option<String>) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in all {
        if let Some(key) = key(row) {
            groups.entry(key).or_default().push(row);
        }
    }
    let line = |(key, rows): (String, Vec<&Row>)| {
        let decimals = || rows.iter().filter_map(|r| r.decimal);
        let least = decimals().min_by(f64::total_cmp).map(|v| format!("{v:?}"));
        let sum: i64 = rows.iter().map(|r| r.rising).sum();
        let word = text(rows.iter().filter_map(|r| r.text).max());
        format!("{key}{}|{}|{sum}|{}|{word}", rows.len(), decimals().count(), text(least))
    };
    let mut lines: Vec<String> = groups.into_iter().map(line).collect();
    lines.sort();
    lines
}

pub(super) fn aggregates() -> Vec<Aggregate> {
    use AggregateFunction::{Count, Max, Min, Sum};
    vec![
        aggregate(Count, None),
        aggregate(Count, Some(2)),
        aggregate(Sum, Some(3)),
        aggregate(Min, Some(2)),
        aggregate(Max, Some(1)),
    ]
}

fn halved(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Int64Type>();
    Arc::new(values.iter().map(|v| v.map(|v| v.div_euclid(1000))).collect::<Int64Array>())
}

fn rounded(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Float64Type>();
    Arc::new(values.iter().map(|v| v.map(|v| (v + 7.0).floor())).collect::<Float64Array>())
}

fn is_positive(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_primitive::<Int64Type>();
    Arc::new(values.iter().map(|v| v.map(|v| v > 0)).collect::<BooleanArray>())
}

fn is_a(inputs: &[ArrayRef]) -> ArrayRef {
    let values = inputs[0].as_string_view();
    Arc::new(values.iter().map(|v| v.map(|v| v == "aa" || v == "zebra")).collect::<BooleanArray>())
}

fn never(inputs: &[ArrayRef]) -> ArrayRef {
    Arc::new(BooleanArray::from(vec![false; inputs[0].len()]))
}

#[test]
fn groups_of_every_kind() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [rows(70_000, 1), rows(3_000, 2), rows(9_000, 3)];
    let all: Vec<Row> = parts.concat();
    let snapshot = store(dir.path(), &parts);
    let check = |keys: Vec<Expression>,
                 conditions: Vec<Condition>,
                 key: &dyn Fn(&Row) -> Option<String>| {
        let output = Output::Aggregate { keys, aggregates: aggregates(), first: None };
        assert_eq!(shown(&answer(&snapshot, conditions, output)), expected(&all, key));
    };
    let ordered = Traits { monotone: true, ..Traits::default() };
    let integral = Traits { monotone: true, integral: true, ..Traits::default() };
    // One group, codes in bytes, dictionaries, both, an expression per value, one that keeps order,
    // of floats.
    check(vec![], vec![], &|_| Some(String::new()));
    check(vec![column(0)], vec![], &|r| Some(format!("{}|", text(r.few))));
    check(vec![column(1)], vec![], &|r| Some(format!("{}|", text(r.text))));
    check(vec![column(1), column(0)], vec![], &|r| {
        Some(format!("{}|{}|", text(r.text), text(r.few)))
    });
    let positive = || computed(vec![0], ArrowType::Boolean, Traits::default(), is_positive);
    check(vec![positive(), column(1)], vec![], &|r| {
        Some(format!("{}|{}|", text(r.few.map(|v| v > 0)), text(r.text)))
    });
    let thousands = || computed(vec![3], ArrowType::Int64, ordered, halved);
    check(vec![thousands()], vec![], &|r| Some(format!("{}|", r.rising / 1000)));
    let floor = || computed(vec![2], ArrowType::Float64, integral, rounded);
    check(vec![floor()], vec![], &|r| {
        Some(format!("{}|", text(r.decimal.map(|v| format!("{:?}", (v + 7.0).floor())))))
    });
    // Numbers too far apart for a direct index, and keys without codes.
    check(vec![column(4)], vec![], &|r| Some(format!("{}|", r.many)));
    check(vec![column(2), column(0)], vec![], &|r| {
        Some(format!("{}|{}|", text(r.decimal.map(|v| format!("{v:?}"))), text(r.few)))
    });
    // Filters on words, on codes, and on anything.
    let compare = |at: usize, comparison, value| Predicate::Compare {
        operand: Operand {
            column: snapshot.schema().columns()[at].id,
            data_type: crate::model::DataType::Int64,
        },
        comparison,
        value: Scalar::Int(value),
    };
    let word = || Condition::new(positive(), compare(0, Comparison::Greater, 0));
    let codes = || {
        Condition::new(
            computed(vec![1], ArrowType::Boolean, Traits::default(), is_a),
            Predicate::Unknown,
        )
    };
    let general = || Condition::new(positive(), Predicate::Unknown);
    let is_word = |r: &Row| r.few.is_some_and(|v| v > 0);
    let is_code = |r: &Row| r.text.is_some_and(|v| v == "aa" || v == "zebra");
    check(vec![column(1)], vec![word()], &|r| is_word(r).then(|| format!("{}|", text(r.text))));
    check(vec![column(0)], vec![codes()], &|r| is_code(r).then(|| format!("{}|", text(r.few))));
    check(vec![thousands()], vec![codes(), word()], &|r| {
        (is_code(r) && is_word(r)).then(|| format!("{}|", r.rising / 1000))
    });
    for (comparison, holds) in [
        (Comparison::Less, (|v| v < 1.25) as fn(f64) -> bool),
        (Comparison::LessOrEqual, |v| v <= 1.25),
        (Comparison::Equal, |v| v == 1.25),
        (Comparison::Greater, |v| v > 1.25),
        (Comparison::GreaterOrEqual, |v| v >= 1.25),
    ] {
        let operand = Operand {
            column: snapshot.schema().columns()[2].id,
            data_type: crate::model::DataType::Float64,
        };
        let predicate = Predicate::Compare { operand, comparison, value: Scalar::Float(1.25) };
        // The predicate alone must do: this expression would let nothing pass.
        let expression = computed(vec![2], ArrowType::Boolean, Traits::default(), never);
        check(vec![column(0)], vec![Condition::new(expression, predicate)], &|r| {
            r.decimal.is_some_and(holds).then(|| format!("{}|", text(r.few)))
        });
    }
    check(vec![], vec![general(), codes()], &|r| (is_code(r) && is_word(r)).then(String::new));
}

/// Doubles as their bits, as decimals with exceptions and on a grid are compared as they are
/// stored.
#[test]
fn comparisons_of_stored_doubles() {
    for force in [Encoding::Bits, Encoding::Alp, Encoding::Dyadic] {
        let dir = tempfile::tempdir().unwrap();
        let mut all = rows(20_000, 6);
        for (at, row) in all.iter_mut().enumerate() {
            // Some were f32, and some are no decimals.
            row.decimal = row.decimal.map(|v| match at % 5 {
                0 | 1 => v + 7.0,
                2 | 3 => f64::from((v / 3.0 + 7.0) as f32),
                _ => (v + 7.0) / 3.0,
            });
        }
        let snapshot = store_as(dir.path(), &[(all.clone(), Some(force))]);
        let single = all.iter().skip(2).step_by(5).find_map(|row| row.decimal).unwrap();
        let near = [single.next_down(), single, single.next_up()];
        for limit in [-1.0, 0.0, 0.01, 1.0 / 3.0, 8.25, 49.99, 1e9].into_iter().chain(near) {
            let operators = [
                (Comparison::Less, f64::lt as fn(&f64, &f64) -> bool),
                (Comparison::LessOrEqual, f64::le),
                (Comparison::Equal, f64::eq),
                (Comparison::Greater, f64::gt),
                (Comparison::GreaterOrEqual, f64::ge),
            ];
            for (comparison, holds) in operators {
                let id = snapshot.schema().columns()[2].id;
                let operand = Operand { column: id, data_type: crate::model::DataType::Float64 };
                let predicate =
                    Predicate::Compare { operand, comparison, value: Scalar::Float(limit) };
                // The expression says no: only the comparison on what is stored may be asked.
                let expression = computed(vec![2], ArrowType::Boolean, Traits::default(), never);
                let output = Output::Aggregate {
                    keys: vec![],
                    aggregates: vec![aggregate(AggregateFunction::Count, None)],
                    first: None,
                };
                let batch = answer(&snapshot, vec![Condition::new(expression, predicate)], output);
                let passed =
                    all.iter().filter(|row| row.decimal.is_some_and(|v| holds(&v, &limit))).count();
                let found = batch.column(0).as_primitive::<Int64Type>().value(0);
                assert_eq!(found, passed as i64, "{force:?} {comparison:?} {limit}");
            }
        }
    }
}

/// Patterns on texts with and without a dictionary, of all rows and of the few that another
/// condition has left.
#[test]
fn patterns_of_stored_texts() {
    for force in [None, Some(Encoding::Plain)] {
        let dir = tempfile::tempdir().unwrap();
        let all = rows(20_000, 8);
        let snapshot = store_as(dir.path(), &[(all.clone(), force)]);
        let column_of = |at: usize| snapshot.schema().columns()[at].clone();
        let holds: fn(&[ArrayRef]) -> ArrayRef = |inputs| {
            let texts = inputs[0].as_string_view();
            Arc::new(texts.iter().map(|t| t.map(|t| t.ends_with('b'))).collect::<BooleanArray>())
        };
        for (negated, few) in [(false, false), (true, false), (false, true), (true, true)] {
            let operand = Operand { column: column_of(1).id, data_type: column_of(1).data_type };
            let like = Predicate::Like { operand, pattern: crate::expr::Pattern::like(b"%b") };
            let not: fn(&[ArrayRef]) -> ArrayRef = |inputs| {
                let texts = inputs[0].as_string_view();
                Arc::new(
                    texts.iter().map(|t| t.map(|t| !t.ends_with('b'))).collect::<BooleanArray>(),
                )
            };
            let compute = if negated { not } else { holds };
            let predicate = if negated { Predicate::Not(Box::new(like)) } else { like };
            let expression = computed(vec![1], ArrowType::Boolean, Traits::default(), compute);
            let mut conditions = vec![Condition::new(expression, predicate)];
            if few {
                let operand =
                    Operand { column: column_of(3).id, data_type: column_of(3).data_type };
                let value = Scalar::Int(i128::from(all[100].rising));
                let predicate = Predicate::Compare { operand, comparison: Comparison::Less, value };
                let expression = computed(vec![3], ArrowType::Boolean, Traits::default(), never);
                conditions.push(Condition::new(expression, predicate));
            }
            let output = Output::Aggregate {
                keys: vec![],
                aggregates: vec![aggregate(AggregateFunction::Count, None)],
                first: None,
            };
            let batch = answer(&snapshot, conditions, output);
            let passes = |row: &&Row| row.text.is_some_and(|text| text.ends_with('b') != negated);
            let passed = all.iter().take(if few { 100 } else { all.len() }).filter(passes).count();
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), passed as i64);
        }
    }
}

/// A first key that is only compared whole, and rows that come late.
#[test]
fn the_first_rows_by_text() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [rows(70_000, 4), rows(20_000, 5)];
    let snapshot = store(dir.path(), &parts);
    let all: Vec<Row> = parts.concat();
    let by = |at, descending| OrderBy { expression: column(at), descending, nulls_first: false };
    let output = Output::Top {
        order: vec![by(1, false), by(3, true)],
        limit: 50,
        skip: 0,
        expressions: vec![column(3), column(1)],
    };
    let batch = answer(&snapshot, vec![], output);
    let mut sorted: Vec<&Row> = all.iter().filter(|row| row.text.is_some()).collect();
    sorted.sort_by(|a, b| a.text.cmp(&b.text).then(b.rising.cmp(&a.rising)));
    let ids: Vec<i64> = sorted.iter().take(50).map(|r| r.rising).collect();
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), ids.as_slice());
}

#[test]
fn the_first_rows() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [rows(70_000, 4), rows(20_000, 5)];
    let all: Vec<Row> = parts.concat();
    let snapshot = store(dir.path(), &parts);
    for (descending, nulls_first) in [(true, false), (false, false), (true, true)] {
        let by = |at| OrderBy { expression: column(at), descending, nulls_first };
        let output = Output::Top {
            order: vec![by(2), by(3)],
            limit: 50,
            skip: 0,
            expressions: vec![column(3), column(2), column(1)],
        };
        let batch = answer(&snapshot, vec![], output);
        let mut sorted: Vec<&Row> = all.iter().collect();
        sorted.sort_by(|a, b| {
            let nulls = a.decimal.is_none().cmp(&b.decimal.is_none());
            let nulls = if nulls_first { nulls.reverse() } else { nulls };
            let values = a
                .decimal
                .unwrap_or(0.0)
                .total_cmp(&b.decimal.unwrap_or(0.0))
                .then(a.rising.cmp(&b.rising));
            nulls.then(if descending { values.reverse() } else { values })
        });
        let ids: Vec<i64> = sorted.iter().take(50).map(|r| r.rising).collect();
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().values(), ids.as_slice());
    }
}
