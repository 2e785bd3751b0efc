//! Whole fragments over a stored table, on one core: unpack and filter, group by a dictionary
//! column, average by key.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use stylobate::internal::expr::{Comparison, Expression, Function, Operand, Predicate, Traits};
use stylobate::internal::model::Scalar;
use stylobate::internal::query::{
    Aggregate, AggregateFunction, Condition, Context, Fragment, GroupLimits, Output, Recorder, run,
};
use stylobate::{Column, LoadOptions, Schema, Snapshot, Store, TableOptions, load_batches};

const ROWS: usize = 4 << 20;
/// Rows of a stored batch.
const BATCH: usize = 1 << 16;

/// A 4-bit and an 8-bit text key, an 11-bit integer and a 14-bit decimal, in no particular order.
fn batch(seed: u64) -> RecordBatch {
    let mut state = seed;
    let mut next = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let names = |most: u64, next: &mut dyn FnMut(u64) -> u64| -> ArrayRef {
        Arc::new(
            (0..BATCH).map(|_| Some(format!("name {}", next(most)))).collect::<StringViewArray>(),
        )
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("few", names(14, &mut next)),
        ("some", names(200, &mut next)),
        ("number", Arc::new((0..BATCH).map(|_| next(2000) as i64).collect::<Int64Array>())),
        (
            "fare",
            Arc::new((0..BATCH).map(|_| next(16_000) as f64 / 100.0).collect::<Float64Array>()),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn stored(dir: &Path) -> Snapshot {
    let table = Store::open(dir.join("db")).table("t").unwrap();
    let writer = table.writer(Some((Schema::default(), TableOptions::default()))).unwrap();
    let batches = (0..ROWS / BATCH).map(|at| Ok(batch(at as u64)));
    load_batches(writer, batches, &LoadOptions::default()).unwrap();
    table.snapshot().unwrap()
}

#[derive(Debug)]
struct BelowLimit;

impl Function for BelowLimit {
    fn evaluate(&self, inputs: &[ArrayRef], _: usize) -> stylobate::Result<ArrayRef> {
        let values = inputs[0].as_primitive::<Int64Type>();
        Ok(Arc::new(BooleanArray::from_unary(values, |value| value < LIMIT)))
    }
}

/// One row in ten passes.
const LIMIT: i64 = 200;

fn column(snapshot: &Snapshot, name: &str) -> Column {
    snapshot.schema().columns().iter().find(|column| &*column.name == name).unwrap().clone()
}

fn value(at: usize, column: &Column) -> Expression {
    Expression {
        inputs: vec![at],
        function: None,
        data_type: column.data_type.to_arrow(),
        traits: Traits::default(),
        choice: None,
        text: (&*column.name).into(),
    }
}

fn aggregate(
    function: AggregateFunction,
    input: Option<Expression>,
    data_type: DataType,
) -> Aggregate {
    Aggregate {
        function,
        input,
        filter: None,
        distinct: false,
        data_type,
        text: "aggregate".into(),
    }
}

fn fragment(
    columns: Vec<Column>,
    conditions: Vec<Condition>,
    keys: usize,
    aggregates: Vec<Aggregate>,
) -> Fragment {
    let keys: Vec<Expression> =
        columns.iter().enumerate().take(keys).map(|(at, column)| value(at, column)).collect();
    let types =
        keys.iter().map(|key| &key.data_type).chain(aggregates.iter().map(|a| &a.data_type));
    let fields: Vec<Field> =
        types.map(|data_type| Field::new("column", data_type.clone(), true)).collect();
    let schema = Arc::new(ArrowSchema::new(fields));
    Fragment { columns, conditions, output: Output::Aggregate { keys, aggregates }, schema }
}

fn fragments(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let snapshot = stored(dir.path());
    let count = || aggregate(AggregateFunction::Count, None, DataType::Int64);
    let number = column(&snapshot, "number");
    let below = Condition {
        expression: Expression {
            function: Some(Arc::new(BelowLimit)),
            data_type: DataType::Boolean,
            ..value(0, &number)
        },
        predicate: Predicate::Compare {
            operand: Operand { column: number.id, data_type: number.data_type.clone() },
            comparison: Comparison::Less,
            value: Scalar::Int(LIMIT.into()),
        },
        partitions: Predicate::Unknown,
    };
    let (few, some, fare) =
        (column(&snapshot, "few"), column(&snapshot, "some"), column(&snapshot, "fare"));
    let average = aggregate(AggregateFunction::Average, Some(value(1, &fare)), DataType::Float64);
    let cases = [
        (
            "count where number < 200 (11 bit)",
            fragment(vec![number], vec![below], 0, vec![count()]),
        ),
        ("count by few (4 bit)", fragment(vec![few.clone()], vec![], 1, vec![count()])),
        ("count by some (8 bit)", fragment(vec![some], vec![], 1, vec![count()])),
        ("avg of fare (14 bit) by few", fragment(vec![few, fare], vec![], 1, vec![average])),
    ];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut group = criterion.benchmark_group("fragments");
    group.sample_size(20).throughput(Throughput::Elements(ROWS as u64));
    for (name, fragment) in &cases {
        group.bench_function(*name, |bencher| bencher.iter(|| answer(fragment, &snapshot, &pool)));
    }
    group.finish();
}

fn answer(fragment: &Fragment, snapshot: &Snapshot, pool: &rayon::ThreadPool) -> usize {
    let directory = std::env::temp_dir();
    let context = Context {
        pool,
        cancelled: &|| false,
        reserve: &|_| Ok(()),
        release: &|_| {},
        temp_dir: &directory,
        limits: GroupLimits::default(),
        recorder: &Recorder::default(),
        timed: false,
    };
    let mut answer = run(fragment, snapshot, &context).unwrap();
    let mut rows = 0;
    loop {
        rows += answer.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        if !answer.more().unwrap() {
            return rows;
        }
    }
}

criterion_group!(benches, fragments);
criterion_main!(benches);
