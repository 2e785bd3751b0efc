//! Compares two answers: bit for bit, except for sums of floats.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType::{self, Decimal128, Int32, Int64, Time64, Timestamp, UInt64};
use arrow_schema::TimeUnit::{Microsecond, Nanosecond};
use arrow_schema::{Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;

use super::statements::{Order, Statement};

/// An answer prepared for comparison: exact columns as bytes, and the sums.
struct Prepared {
    batch: RecordBatch,
    rows: Rows,
    sums: Vec<Float64Array>,
    /// The row numbers in order, or sorted by the values alone.
    row_order: Vec<usize>,
}

/// The columns that are compared as sums of floats: those that are floats at all.
fn sums_of(batch: &RecordBatch, sums: &[usize]) -> Vec<usize> {
    let float = |at: &&usize| {
        batch.columns().get(**at).is_some_and(|sum| *sum.data_type() == DataType::Float64)
    };
    sums.iter().filter(float).copied().collect()
}

fn to_rows(columns: &[ArrayRef], rows: usize) -> Rows {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let converter = RowConverter::new(fields).unwrap();
    if columns.is_empty() {
        // The batch has rows without columns.
        let nothing: ArrayRef = Arc::new(arrow_array::BooleanArray::from(vec![false; rows]));
        return to_rows(&[nothing], rows);
    }
    converter.convert_columns(columns).unwrap()
}

fn prepare(batch: &RecordBatch, sums: &[usize], keep_order: bool) -> Prepared {
    let exact: Vec<ArrayRef> = (0..batch.num_columns())
        .filter(|at| !sums.contains(at))
        .map(|at| batch.column(at).clone())
        .collect();
    let rows = to_rows(&exact, batch.num_rows());
    let sums: Vec<Float64Array> =
        sums.iter().map(|at| batch.column(*at).as_primitive::<Float64Type>().clone()).collect();
    let mut row_order: Vec<usize> = (0..batch.num_rows()).collect();
    if !keep_order {
        let value =
            |column: &Float64Array, at: usize| column.is_valid(at).then(|| column.value(at));
        let by_sum = |a: usize, b: usize, column: &Float64Array| match (
            value(column, a),
            value(column, b),
        ) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        let by_sums = |a: usize, b: usize| {
            sums.iter()
                .map(|column| by_sum(a, b, column))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        row_order.sort_by(|a, b| rows.row(*a).cmp(&rows.row(*b)).then_with(|| by_sums(*a, *b)));
    }
    Prepared { batch: batch.clone(), rows, sums, row_order }
}

/// Says what is different. `ask` answers the statement's `sizes`, or the unlimited statement of
/// [`Order::Some`].
pub(crate) fn compare(
    statement: &Statement,
    a: &RecordBatch,
    b: &RecordBatch,
    ask: &dyn Fn(&str) -> Option<RecordBatch>,
) -> Result<(), String> {
    let (a, b) = if statement.zeros_are_one { (&one_zero(a), &one_zero(b)) } else { (a, b) };
    let (a, b) = (&with_cut_medians(statement, a, b), &in_units_of(statement, a, b));
    // With one count of distinct values, DataFusion may sum twice, and the precision of decimals
    // grows twice. Its floor and ceil of decimals have no digit more for 9.9, which becomes 10.
    let grows = ["DISTINCT", "floor(", "ceil("].iter().any(|word| statement.sql.contains(word));
    let data_type = |data_type: &DataType| match data_type {
        DataType::Decimal128(_, scale) if grows => DataType::Decimal128(38, *scale),
        same => same.clone(),
    };
    // DataFusion names columns after what it has planned, and we as they are written.
    let types = |batch: &RecordBatch| -> Vec<DataType> {
        batch.schema().fields().iter().map(|field| data_type(field.data_type())).collect()
    };
    if types(a) != types(b) {
        return Err(format!("columns of types {:?} and {:?}", types(a), types(b)));
    }
    if a.num_rows() != b.num_rows() {
        let only = first_difference(a, b);
        return Err(format!("{} rows and {} rows; {only}", a.num_rows(), b.num_rows()));
    }
    match &statement.order {
        Order::Some(all) => {
            let all =
                ask(all).map(|all| if statement.zeros_are_one { one_zero(&all) } else { all });
            let all = all.map(|all| in_units_of(statement, a, &all));
            [a, b].into_iter().try_for_each(|part| is_part(part, all.as_ref()))
        }
        Order::By(columns) => by_keys(columns, a, b),
        order => {
            let (ordered, sums) = (matches!(order, Order::Total), sums_of(a, &statement.sums));
            let (a, b) = (prepare(a, &sums, ordered), prepare(b, &sums, ordered));
            let sizes = || {
                let batch = ask(statement.sizes.as_deref()?)?;
                let same = batch.num_rows() == a.row_order.len() && sums_of(&batch, &sums) == sums;
                same.then(|| prepare(&batch, &sums, ordered))
            };
            all_the_same(&a, &b, statement.close, &sizes)
        }
    }
}

/// An answer with 0.0 in place of -0.0.
fn one_zero(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        if let Some(floats) = column.as_primitive_opt::<Float64Type>() {
            return Arc::new(floats.unary::<_, Float64Type>(|value| value + 0.0));
        }
        match column.as_primitive_opt::<Float32Type>() {
            Some(floats) => Arc::new(floats.unary::<_, Float32Type>(|value| value + 0.0)),
            None => column.clone(),
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options).unwrap()
}

/// An answer in which medians of decimals have no more digits than in the other: DataFusion cuts
/// the last one of its own.
fn with_cut_medians(statement: &Statement, a: &RecordBatch, b: &RecordBatch) -> RecordBatch {
    if !statement.sql.contains("median(") {
        return a.clone();
    }
    let (known, others) = (a.schema(), b.schema());
    let columns = a.columns().iter().zip(known.fields()).enumerate();
    let (fields, columns): (Vec<_>, Vec<_>) = columns
        .map(|(at, (column, field))| -> (Arc<Field>, ArrayRef) {
            let wanted = others.fields().get(at).map(|field| field.data_type());
            match (field.data_type(), wanted) {
                (Decimal128(_, more), Some(Decimal128(precision, scale))) if *more == scale + 1 => {
                    let cut = column.as_primitive::<Decimal128Type>();
                    let cut = cut.unary::<_, Decimal128Type>(|value| value / 10);
                    let cut = cut.with_precision_and_scale(*precision, *scale).unwrap();
                    let data_type = Decimal128(*precision, *scale);
                    (Arc::new(field.as_ref().clone().with_data_type(data_type)), Arc::new(cut))
                }
                _ => (Arc::clone(field), Arc::clone(column)),
            }
        })
        .unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(a.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

/// An answer whose times have microseconds, and whose lengths and numbers of rows are signed and of
/// 64 bits, if those of the other are: DataFusion makes nanoseconds of dates, lengths of 32 bits,
/// and unsigned numbers.
fn in_units_of(statement: &Statement, a: &RecordBatch, b: &RecordBatch) -> RecordBatch {
    let has_lengths = statement.sql.contains("length(");
    let numbering = ["row_number(", "rank(", "ntile("];
    let numbers_rows = numbering.iter().any(|function| statement.sql.contains(function));
    let (wanted, schema) = (a.schema(), b.schema());
    let column = |(at, column): (usize, &ArrayRef)| -> (Arc<Field>, ArrayRef) {
        let field = Arc::clone(&schema.fields()[at]);
        match (wanted.fields().get(at).map(|field| field.data_type()), field.data_type()) {
            (Some(Timestamp(Microsecond, zone)), Timestamp(Nanosecond, same)) if zone == same => {}
            (Some(Time64(Microsecond)), Time64(Nanosecond)) => {}
            (Some(Int64), Int32) if has_lengths => {}
            (Some(Int64), UInt64) if numbers_rows => {}
            _ => return (field, column.clone()),
        }
        let data_type = wanted.field(at).data_type();
        let field = field.as_ref().clone().with_data_type(data_type.clone());
        (Arc::new(field), arrow_cast::cast(column, data_type).unwrap())
    };
    let (fields, columns): (Vec<_>, Vec<_>) = b.columns().iter().enumerate().map(column).unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(b.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

/// The first row at which answers of different lengths differ.
fn first_difference(a: &RecordBatch, b: &RecordBatch) -> String {
    let sums: Vec<usize> =
        (0..a.num_columns()).filter(|at| *a.column(*at).data_type() == DataType::Float64).collect();
    let sums = if sums.len() == a.num_columns() { Vec::new() } else { sums };
    let (a, b) = (prepare(a, &sums, false), prepare(b, &sums, false));
    let parts =
        a.row_order.iter().zip(&b.row_order).find(|(x, y)| a.rows.row(**x) != b.rows.row(**y));
    parts.map_or_else(String::new, |(x, y)| {
        format!("they part at\n{}\n{}", shown(&a.batch.slice(*x, 1)), shown(&b.batch.slice(*y, 1)))
    })
}

fn all_the_same(
    a: &Prepared,
    b: &Prepared,
    close: f64,
    sizes: &dyn Fn() -> Option<Prepared>,
) -> Result<(), String> {
    let mut known: Option<Option<Prepared>> = None;
    for (number, (x, y)) in a.row_order.iter().zip(&b.row_order).enumerate() {
        if a.rows.row(*x) != b.rows.row(*y) {
            let shown = |p: &Prepared, at: usize| shown(&p.batch.slice(at, 1));
            return Err(format!("row {number} differs:\n{}\n{}", shown(a, *x), shown(b, *y)));
        }
        for (at, (left, right)) in a.sums.iter().zip(&b.sums).enumerate() {
            if left.is_valid(*x) != right.is_valid(*y) {
                return Err(format!("row {number} differs in whether a sum is null"));
            }
            if left.is_null(*x) || is_close(left.value(*x), right.value(*y), 0.0, close) {
                continue;
            }
            let known = known.get_or_insert_with(sizes).as_ref();
            let size = known.and_then(|known| {
                let place = *known.row_order.get(number)?;
                Some(known.sums.get(at)?.value(place))
            });
            if !is_close(left.value(*x), right.value(*y), size.unwrap_or(0.0), close) {
                return Err(format!(
                    "row {number}: sums {:e} and {:e}",
                    left.value(*x),
                    right.value(*y)
                ));
            }
        }
    }
    Ok(())
}

/// Whether two sums are close. `size` is the sum of the absolute values of what was added.
fn is_close(a: f64, b: f64, size: f64, close: f64) -> bool {
    if a == b || (a.is_nan() && b.is_nan()) || size.is_nan() || size == f64::INFINITY {
        return true;
    }
    (a - b).abs() <= close * a.abs().max(b.abs()).max(size)
}

/// Whether every row of `part` is in `all`, at least as often.
fn is_part(part: &RecordBatch, all: Option<&RecordBatch>) -> Result<(), String> {
    let Some(all) = all else { return Ok(()) };
    let (part, all) = (prepare(part, &[], false), prepare(all, &[], false));
    let mut rest = all.row_order.iter();
    for place in &part.row_order {
        let row = part.rows.row(*place);
        let found =
            rest.find(|at| all.rows.row(**at) >= row).is_some_and(|at| all.rows.row(*at) == row);
        if !found {
            return Err("a row that is not one of the answer without a limit".into());
        }
    }
    Ok(())
}

/// Whether the keys are the same in order, and all rows except those with the last key.
fn by_keys(columns: &[usize], a: &RecordBatch, b: &RecordBatch) -> Result<(), String> {
    let keys = |batch: &RecordBatch| {
        let keys: Vec<ArrayRef> = columns.iter().map(|at| batch.column(*at).clone()).collect();
        to_rows(&keys, batch.num_rows())
    };
    let (left, right) = (keys(a), keys(b));
    let differs = left.iter().zip(right.iter()).position(|(a, b)| a != b);
    if let Some(at) = differs {
        return Err(format!("row {at} differs in what is ordered by"));
    }
    let last = left.num_rows().checked_sub(1).map(|at| left.row(at));
    let sure = left.iter().position(|row| Some(row) == last).unwrap_or(0);
    let cut = |batch: &RecordBatch| prepare(&batch.slice(0, sure), &[], false);
    all_the_same(&cut(a), &cut(b), 0.0, &|| None)
}

pub(crate) fn shown(batch: &RecordBatch) -> String {
    pretty_format_batches(std::slice::from_ref(batch))
        .map_or_else(|error| error.to_string(), |table| table.to_string())
}
