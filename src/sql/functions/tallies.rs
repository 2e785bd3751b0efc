//! Aggregates that count how often each value occurs: `mode(x)`, `histogram(x)`, `top_k(x, n)`
//! (`approx_top_k`, ClickHouse's `topK(n)(x)`) and `quantile_disc(x, p)`.
//!
//! Where this stands on the road of a query: a session registers them. Null is no value. Of values
//! that are equally frequent the least comes first, so that the answer does not depend on threads.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, StructArray, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::{ScalarValue, exec_datafusion_err, internal_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};

use crate::sql::convert::type_name;
use crate::sql::functions::sliding;

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = AggregateUDF> {
    [Kind::Mode, Kind::Histogram, Kind::TopK, Kind::Quantile].into_iter().map(|kind| {
        let signature = match kind {
            Kind::Mode | Kind::Histogram => Signature::any(1, Volatility::Immutable),
            Kind::TopK | Kind::Quantile => Signature::any(2, Volatility::Immutable),
        };
        let aliases = match kind {
            Kind::TopK => vec!["approx_top_k".to_owned()],
            _ => Vec::new(),
        };
        AggregateUDF::from(Tally { kind, signature, aliases })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Mode,
    Histogram,
    TopK,
    Quantile,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tally {
    kind: Kind,
    signature: Signature,
    aliases: Vec<String>,
}

impl AggregateUDFImpl for Tally {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Mode => "mode",
            Kind::Histogram => "histogram",
            Kind::TopK => "top_k",
            Kind::Quantile => "quantile_disc",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let Some(of) = arguments.first() else {
            return plan_err!("{}() takes a value", self.name());
        };
        if of.is_nested() {
            return plan_err!("{}() takes plain values, not {}", self.name(), type_name(of));
        }
        Ok(match self.kind {
            Kind::Mode | Kind::Quantile => of.clone(),
            Kind::Histogram => DataType::Map(entries_field(of), false),
            Kind::TopK => DataType::List(Arc::new(Field::new_list_field(of.clone(), true))),
        })
    }

    fn state_fields(&self, given: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        let of = match given.input_fields {
            [field, ..] => field.data_type().clone(),
            [] => return internal_err!("{}() has no argument", self.name()),
        };
        let list = |name: &str, of: DataType| {
            Arc::new(Field::new_list(name, Field::new_list_field(of, true), true))
        };
        Ok(vec![list("values", of), list("counts", DataType::Int64)])
    }

    fn accumulator(&self, given: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        let of = match given.expr_fields {
            [field, ..] => field.data_type().clone(),
            [] => return internal_err!("{}() has no argument", self.name()),
        };
        if self.kind == Kind::Mode && !given.order_bys.is_empty() {
            return plan_err!(
                "mode() takes no ORDER BY: of values that are equally frequent it takes the least"
            );
        }
        let number = match given.exprs.get(1) {
            Some(expr) => {
                let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
                match expr.evaluate(&nothing) {
                    Ok(ColumnarValue::Scalar(value)) => match value.cast_to(&DataType::Float64) {
                        Ok(ScalarValue::Float64(Some(number))) => number,
                        _ => return plan_err!("{}() takes a number after the value", self.name()),
                    },
                    _ => {
                        return plan_err!("the second argument of {}() is a constant", self.name());
                    }
                }
            }
            None => 0.0,
        };
        match self.kind {
            Kind::Quantile if !(-1.0..=1.0).contains(&number) => {
                return plan_err!(
                    "a quantile is from 0 to 1, or from 0 to -1 from the greatest value on, not \
                     {number}"
                );
            }
            Kind::TopK if !(1.0..=1e6).contains(&number) => {
                return plan_err!("top_k() takes a count of values, from 1 to 1000000");
            }
            _ => {}
        }
        let counts = Counts { is_distinct: given.is_distinct, ..Counts::new(of)? };
        Ok(Box::new(TallyAccumulator { kind: self.kind, number, counts }))
    }

    fn create_sliding_accumulator(
        &self,
        given: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        Ok(sliding::recomputed(&Arc::new(AggregateUDF::from(self.clone())), given))
    }
}

fn entries_field(of: &DataType) -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(entry_fields(of)), false))
}

fn entry_fields(of: &DataType) -> Fields {
    let key = Field::new("key", of.clone(), false);
    Fields::from(vec![key, Field::new("value", DataType::UInt64, true)])
}

/// How often each value occurs. Values are kept as bytes that sort as they do.
#[derive(Debug)]
struct Counts {
    of: DataType,
    converter: RowConverter,
    counts: HashMap<Box<[u8]>, u64>,
    /// Whether each value counts once.
    is_distinct: bool,
    /// The bytes of the values.
    bytes: usize,
}

impl Counts {
    fn new(of: DataType) -> DataFusionResult<Counts> {
        let converter = RowConverter::new(vec![SortField::new(of.clone())])?;
        Ok(Counts { of, converter, counts: HashMap::new(), is_distinct: false, bytes: 0 })
    }

    /// Counts values, each as often as `times` says, or once.
    fn add(&mut self, values: &ArrayRef, times: Option<&[i64]>) -> DataFusionResult<()> {
        let values = with_one_zero(values);
        let rows = self.converter.convert_columns(&[Arc::clone(&values)])?;
        for (at, row) in rows.iter().enumerate() {
            if values.is_null(at) {
                continue;
            }
            let times =
                times.and_then(|times| times.get(at)).map_or(1, |times| times.unsigned_abs());
            match self.counts.get_mut(row.as_ref()) {
                Some(_) if self.is_distinct => {}
                Some(count) => *count += times,
                None => {
                    self.bytes += row.as_ref().len();
                    self.counts.insert(row.as_ref().into(), times);
                }
            }
        }
        Ok(())
    }

    /// All values with their counts, in the order of the values.
    fn sorted(&self) -> Vec<(&[u8], u64)> {
        let mut sorted: Vec<(&[u8], u64)> =
            self.counts.iter().map(|(value, count)| (&**value, *count)).collect();
        sorted.sort_unstable();
        sorted
    }

    fn values<'a>(&self, of: impl Iterator<Item = &'a [u8]>) -> DataFusionResult<ArrayRef> {
        let parser = self.converter.parser();
        let rows: Vec<_> = of.map(|bytes| parser.parse(bytes)).collect();
        if rows.is_empty() {
            return Ok(arrow_array::new_empty_array(&self.of));
        }
        let mut columns = self.converter.convert_rows(rows)?;
        columns.pop().ok_or_else(|| exec_datafusion_err!("a value was lost"))
    }

    fn size(&self) -> usize {
        let slot = size_of::<(Box<[u8]>, u64)>() + 1;
        self.bytes + self.counts.capacity() * slot + self.converter.size()
    }
}

/// Equal floats as equal bytes.
fn with_one_zero(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let one = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        DataType::Float32 => {
            let one = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        _ => Arc::clone(values),
    }
}

#[derive(Debug)]
struct TallyAccumulator {
    kind: Kind,
    /// The fraction of a quantile, negative from the greatest value on, or how many values are
    /// wanted.
    number: f64,
    counts: Counts,
}

impl TallyAccumulator {
    /// A single value, or null.
    fn one(&self, value: Option<&[u8]>) -> DataFusionResult<ScalarValue> {
        match value {
            Some(value) => {
                ScalarValue::try_from_array(&self.counts.values(std::iter::once(value))?, 0)
            }
            None => ScalarValue::try_from(&self.counts.of),
        }
    }

    fn quantile(&self) -> DataFusionResult<ScalarValue> {
        let sorted = self.counts.sorted();
        let rows: u64 = sorted.iter().map(|(_, count)| count).sum();
        let wanted = rows as f64 - (rows as f64 - self.number.abs() * rows as f64).floor();
        let mut before = 0;
        let is_found = |(_, count): &&(_, u64)| {
            before += count;
            before as f64 >= wanted.max(1.0)
        };
        let found = match self.number < 0.0 {
            true => sorted.iter().rev().find(is_found),
            false => sorted.iter().find(is_found),
        };
        self.one(found.map(|(value, _)| *value))
    }

    fn histogram(&self) -> DataFusionResult<ScalarValue> {
        let sorted = self.counts.sorted();
        if sorted.is_empty() {
            return ScalarValue::try_from(&DataType::Map(entries_field(&self.counts.of), false));
        }
        let keys = self.counts.values(sorted.iter().map(|(value, _)| *value))?;
        let counts: UInt64Array = sorted.iter().map(|(_, count)| Some(*count)).collect();
        let entries = StructArray::try_new(
            entry_fields(&self.counts.of),
            vec![keys, Arc::new(counts)],
            None,
        )?;
        let offsets = OffsetBuffer::from_lengths([entries.len()]);
        let field = entries_field(&self.counts.of);
        let map = MapArray::try_new(field, offsets, entries, None, false)?;
        ScalarValue::try_from_array(&map, 0)
    }

    fn most_frequent(&self, count: usize) -> Vec<&[u8]> {
        let mut sorted = self.counts.sorted();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        sorted.into_iter().take(count).map(|(value, _)| value).collect()
    }
}

impl Accumulator for TallyAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        match values.first() {
            Some(values) => self.counts.add(values, None),
            None => Ok(()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let [values, counts] = states else { return internal_err!("a state has two lists") };
        let (values, counts) = (values.as_list::<i32>(), counts.as_list::<i32>());
        for at in 0..values.len() {
            if values.is_null(at) || counts.is_null(at) {
                continue;
            }
            let counts = counts.value(at);
            self.counts
                .add(&values.value(at), Some(counts.as_primitive::<Int64Type>().values()))?;
        }
        Ok(())
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let sorted = self.counts.sorted();
        let values = self.counts.values(sorted.iter().map(|(value, _)| *value))?;
        let counts = sorted.iter().map(|(_, count)| i64::try_from(*count).ok());
        let counts: arrow_array::Int64Array = counts.collect();
        Ok(vec![list(values)?, list(Arc::new(counts))?])
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        match self.kind {
            Kind::Mode => self.one(self.most_frequent(1).first().copied()),
            Kind::Quantile => self.quantile(),
            Kind::Histogram => self.histogram(),
            Kind::TopK => {
                let values = self.most_frequent(self.number as usize);
                list(self.counts.values(values.into_iter())?)
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.size()
    }
}

/// A list of these values.
fn list(values: ArrayRef) -> DataFusionResult<ScalarValue> {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    Ok(ScalarValue::List(Arc::new(ListArray::try_new(field, offsets, values, None)?)))
}
