//! `min` and `max` of lists and structs, in the order of ORDER BY: null is the greatest item.
//!
//! Where this stands on the road of a query: accumulators of `aggregates`. DataFusion (55.2)
//! compares the structs field by field and takes two for equal whose first different field is null
//! in one of them. Here a value is kept as a row of arrow's row format, whose bytes have the order
//! of the values.

use std::mem::size_of_val;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow_row::{OwnedRow, RowConverter, SortField};
use arrow_schema::{DataType, SortOptions};
use arrow_select::take::take;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// Whether values of a type are compared here.
pub(super) fn has(data_type: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    matches!(data_type, FixedSizeList(..) | LargeList(_) | List(_) | Struct(_))
        && RowConverter::supports_fields(&[field(data_type)])
}

/// The accumulator of all rows.
pub(super) fn accumulator(
    greatest: bool,
    data_type: &DataType,
) -> DataFusionResult<Box<dyn Accumulator>> {
    Ok(Box::new(Extremes::new(greatest, data_type)?))
}

/// The accumulator of groups.
pub(super) fn groups_accumulator(
    greatest: bool,
    data_type: &DataType,
) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    Ok(Box::new(Extremes::new(greatest, data_type)?))
}

fn field(data_type: &DataType) -> SortField {
    let options = SortOptions { descending: false, nulls_first: false };
    SortField::new_with_options(data_type.clone(), options)
}

#[derive(Debug)]
struct Extremes {
    greatest: bool,
    data_type: DataType,
    converter: RowConverter,
    /// The extreme value of each group; `None` where a group has no value yet.
    kept: Vec<Option<OwnedRow>>,
    /// The bytes of these rows.
    bytes: usize,
}

impl Extremes {
    fn new(greatest: bool, data_type: &DataType) -> DataFusionResult<Extremes> {
        let converter = RowConverter::new(vec![field(data_type)])?;
        let data_type = data_type.clone();
        Ok(Extremes { greatest, data_type, converter, kept: Vec::new(), bytes: 0 })
    }

    /// Takes in the rows that count, each with its group.
    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: impl Iterator<Item = usize>,
        counts: impl Fn(usize) -> bool,
        total_groups: usize,
    ) -> DataFusionResult<()> {
        let [values] = values else { return exec_err!("min and max take one argument") };
        self.kept.resize(total_groups, None);
        let rows = self.converter.convert_columns(std::slice::from_ref(values))?;
        for (at, (row, group)) in rows.iter().zip(groups).enumerate() {
            let Some(kept) = self.kept.get_mut(group) else {
                return exec_err!("a group of a batch is beyond the number of groups");
            };
            if values.is_null(at) || !counts(at) {
                continue;
            }
            let known = kept.as_ref().map_or(0, |kept| kept.as_ref().len());
            let is_better = kept.as_ref().is_none_or(|kept| match self.greatest {
                true => row > kept.row(),
                false => row < kept.row(),
            });
            if is_better {
                self.bytes = self.bytes + row.as_ref().len() - known;
                *kept = Some(row.owned());
            }
        }
        Ok(())
    }

    /// The values of groups.
    fn values(&self, groups: &[Option<OwnedRow>]) -> DataFusionResult<ArrayRef> {
        let none = self.converter.convert_columns(&[new_null_array(&self.data_type, 1)])?;
        let rows = groups.iter().map(|kept| match kept {
            Some(kept) => kept.row(),
            None => none.row(0),
        });
        let mut columns = self.converter.convert_rows(rows)?;
        match columns.pop() {
            Some(values) if *values.data_type() == self.data_type => Ok(values),
            Some(values) => Ok(arrow_cast::cast(&values, &self.data_type)?),
            None => exec_err!("a row without a value"),
        }
    }

    fn memory(&self) -> usize {
        let places = self.kept.capacity() * size_of::<Option<OwnedRow>>();
        size_of_val(self) + self.converter.size() + places + self.bytes
    }
}

impl Accumulator for Extremes {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        self.update(values, std::iter::repeat(0), |_| true, 1)
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        match self.kept.is_empty() {
            true => ScalarValue::try_from(&self.data_type),
            false => ScalarValue::try_from_array(&self.values(&self.kept)?, 0),
        }
    }

    fn size(&self) -> usize {
        self.memory()
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        Ok(vec![Accumulator::evaluate(self)?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        Accumulator::update_batch(self, states)
    }
}

impl GroupsAccumulator for Extremes {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> DataFusionResult<()> {
        let counts =
            |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        self.update(values, groups.iter().copied(), counts, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        let emitted = emit_to.take_needed(&mut self.kept);
        let bytes = emitted.iter().flatten().map(|kept| kept.as_ref().len()).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.values(&emitted)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        Ok(vec![GroupsAccumulator::evaluate(self, emit_to)?])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> DataFusionResult<()> {
        GroupsAccumulator::update_batch(self, states, groups, None, total_groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let ([values], Some(filter)) = (values, filter) else { return Ok(values.to_vec()) };
        let counts = |row: &u64| filter.is_valid(*row as usize) && filter.value(*row as usize);
        let rows = (0..values.len() as u64).map(|row| Some(row).filter(counts));
        Ok(vec![take(values, &UInt64Array::from_iter(rows), None)?])
    }

    fn size(&self) -> usize {
        self.memory()
    }
}
