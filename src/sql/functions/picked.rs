//! Grouped `first_value` and `last_value` by one key, which `arg_max` and `arg_min` are made of.
//!
//! DataFusion (55.2) keeps the key of each group as an enum, and asks and replaces it row by row.
//! Here keys are numbers whose order is that of the rows. Values stay in arrays: of each batch, the
//! rows that came first so far are taken together, and what groups no longer refer to is left
//! behind once it is more than they do refer to. Keys of texts and other types, several keys, and
//! values without groups stay DataFusion's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array, new_null_array};
use arrow_schema::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, EmitTo, GroupsAccumulator};

use crate::sql::functions::key_numbers::{KeysAsNumbers, NO_ROW, Numbers};

/// The accumulator in place of that of `function`, which is `first_value` or `last_value`.
pub(in crate::sql) fn groups_accumulator(
    function: &AggregateUDF,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    let [key] = arguments.order_bys else { return function.create_groups_accumulator(arguments) };
    let data_type = key.expr.data_type(arguments.schema)?;
    let Some(numbers) = Numbers::of(&data_type) else {
        return function.create_groups_accumulator(arguments);
    };
    let is_last = function.name() == "last_value";
    Ok(Box::new(Picked {
        keys: KeysAsNumbers { data_type, numbers, options: key.options, is_last },
        ignore_nulls: arguments.ignore_nulls,
        value_type: arguments.return_field.data_type().clone(),
        best: Vec::new(),
        places: Vec::new(),
        chunks: Vec::new(),
        rows: 0,
        bytes: 0,
    }))
}

/// Where a value is: the array, and the row in it.
type Place = (u32, u32);

#[derive(Debug)]
struct Picked {
    keys: KeysAsNumbers,
    ignore_nulls: bool,
    value_type: DataType,
    /// The least key of each group, and the place of its value.
    best: Vec<u128>,
    places: Vec<Place>,
    chunks: Vec<ArrayRef>,
    /// The rows and the bytes of the chunks.
    rows: usize,
    bytes: usize,
}

/// The most chunks, and how many rows they may have beside one for each group.
const MOST_CHUNKS: usize = 1024;
const SPARE_ROWS: usize = 1 << 16;

impl Picked {
    fn update(
        &mut self,
        values: &ArrayRef,
        keys: &ArrayRef,
        groups: &[usize],
        counts: impl Fn(usize) -> bool,
        total_groups: usize,
    ) -> DataFusionResult<()> {
        self.best.resize(total_groups, NO_ROW);
        self.places.resize(total_groups, (0, 0));
        let keys = self.keys.encode(keys)?;
        let nulls = values.nulls().filter(|_| self.ignore_nulls);
        let new = self.chunks.len() as u32;
        let mut changed = Vec::new();
        for (row, (key, group)) in keys.into_iter().zip(groups).enumerate() {
            let (Some(best), Some(place)) =
                (self.best.get_mut(*group), self.places.get_mut(*group))
            else {
                return exec_err!("a group of a batch is beyond the number of groups");
            };
            if key >= *best || !counts(row) || nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            if *best == NO_ROW || place.0 != new {
                changed.push(*group);
            }
            *best = key;
            *place = (new, row as u32);
        }
        if changed.is_empty() {
            return Ok(());
        }
        let mut rows = Vec::with_capacity(changed.len());
        for (at, group) in changed.iter().enumerate() {
            if let Some(place) = self.places.get_mut(*group) {
                rows.push(place.1);
                place.1 = at as u32;
            }
        }
        self.push(arrow_select::take::take(values, &UInt32Array::from(rows), None)?);
        if self.chunks.len() >= MOST_CHUNKS || self.rows > 2 * self.best.len() + SPARE_ROWS {
            self.compact()?;
        }
        Ok(())
    }

    fn push(&mut self, chunk: ArrayRef) {
        // What is taken of views refers to all texts of the batch.
        let chunk: ArrayRef = match chunk.data_type() {
            DataType::Utf8View => Arc::new(chunk.as_string_view().gc()),
            DataType::BinaryView => Arc::new(chunk.as_binary_view().gc()),
            _ => chunk,
        };
        self.rows += chunk.len();
        self.bytes += chunk.get_array_memory_size();
        self.chunks.push(chunk);
    }

    /// Leaves behind what no group refers to.
    fn compact(&mut self) -> DataFusionResult<()> {
        let values = self.values_of(&self.best, &self.places)?;
        (self.rows, self.bytes) = (0, 0);
        self.chunks.clear();
        self.push(values);
        self.places.iter_mut().enumerate().for_each(|(at, place)| *place = (0, at as u32));
        Ok(())
    }

    /// The values of groups; null for those without a row.
    fn values_of(&self, best: &[u128], places: &[Place]) -> DataFusionResult<ArrayRef> {
        let data_type = self.chunks.first().map_or(&self.value_type, |chunk| chunk.data_type());
        if best.is_empty() {
            return Ok(new_empty_array(data_type));
        }
        let null = new_null_array(data_type, 1);
        let chunks = self.chunks.iter().chain([&null]).map(AsRef::as_ref).collect::<Vec<_>>();
        let of_null = (self.chunks.len(), 0);
        let indices = best.iter().zip(places).map(|(key, (chunk, row))| match *key {
            NO_ROW => of_null,
            _ => (*chunk as usize, *row as usize),
        });
        let values = arrow_select::interleave::interleave(&chunks, &indices.collect::<Vec<_>>())?;
        Ok(match *data_type == self.value_type {
            true => values,
            false => arrow_cast::cast(&values, &self.value_type)?,
        })
    }

    /// Takes groups out of the state: their keys and values.
    fn take(&mut self, emit_to: EmitTo) -> DataFusionResult<(Vec<u128>, ArrayRef)> {
        let best = emit_to.take_needed(&mut self.best);
        let places = emit_to.take_needed(&mut self.places);
        let values = self.values_of(&best, &places)?;
        if self.best.is_empty() {
            self.chunks.clear();
            (self.rows, self.bytes) = (0, 0);
        }
        Ok((best, values))
    }
}

impl GroupsAccumulator for Picked {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> DataFusionResult<()> {
        let [values, keys] = values else { return exec_err!("a value and a key were expected") };
        match filter {
            None => self.update(values, keys, groups, |_| true, total_groups),
            Some(filter) => {
                let counts = |row: usize| filter.is_valid(row) && filter.value(row);
                self.update(values, keys, groups, counts, total_groups)
            }
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        Ok(self.take(emit_to)?.1)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        let (best, values) = self.take(emit_to)?;
        let is_set = BooleanArray::from_iter(best.iter().map(|key| Some(*key != NO_ROW)));
        Ok(vec![values, self.keys.decode(&best)?, Arc::new(is_set)])
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> DataFusionResult<()> {
        let [values, keys, is_set] = values else { return exec_err!("three states were expected") };
        let is_set = is_set.as_boolean().clone();
        let counts = |row: usize| is_set.is_valid(row) && is_set.value(row);
        self.update(values, keys, groups, counts, total_groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let [values, keys] = values else { return exec_err!("a value and a key were expected") };
        let counts = |row: usize| {
            filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
                && !(self.ignore_nulls && values.is_null(row))
        };
        let is_set = BooleanArray::from_iter((0..values.len()).map(|row| Some(counts(row))));
        Ok(vec![Arc::clone(values), Arc::clone(keys), Arc::new(is_set)])
    }

    fn size(&self) -> usize {
        self.best.capacity() * size_of::<u128>()
            + self.places.capacity() * size_of::<Place>()
            + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringViewArray};
    use arrow_schema::SortOptions;
    use proptest::prelude::*;

    use super::*;

    const GROUPS: usize = 5;

    fn picked(options: SortOptions, is_last: bool, ignore_nulls: bool) -> Picked {
        let (data_type, numbers) = (DataType::Int64, Numbers::Signed);
        Picked {
            keys: KeysAsNumbers { data_type, numbers, options, is_last },
            ignore_nulls,
            value_type: DataType::Utf8View,
            best: Vec::new(),
            places: Vec::new(),
            chunks: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    proptest! {
        /// By the definition: the first row in a stable sort of the rows of a group.
        #[test]
        fn the_first_row_of_each_group_is_picked(
            rows in prop::collection::vec(
                (0..GROUPS, prop::option::of(-3i64..3), prop::option::of("[a-z]{0,20}"), any::<bool>()),
                0..60,
            ),
            batch in 1usize..9,
            emitted in 0..GROUPS,
            (descending, nulls_first, is_last, ignore_nulls) in any::<(bool, bool, bool, bool)>(),
        ) {
            let options = SortOptions { descending, nulls_first };
            let whole = || picked(options, is_last, ignore_nulls);
            let (mut own, mut states) = (whole(), Vec::new());
            for (number, rows) in rows.chunks(batch).enumerate() {
                let groups: Vec<usize> = rows.iter().map(|row| row.0).collect();
                let keys: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.1)));
                let values: ArrayRef =
                    Arc::new(StringViewArray::from_iter(rows.iter().map(|row| row.2.as_deref())));
                let filter = BooleanArray::from_iter(rows.iter().map(|row| Some(row.3)));
                let arguments = [values, keys];
                match number % 3 {
                    0 => own.update_batch(&arguments, &groups, Some(&filter), GROUPS).unwrap(),
                    1 => {
                        let state = own.convert_to_state(&arguments, Some(&filter)).unwrap();
                        states.push((state, groups));
                    }
                    _ => {
                        let mut part = whole();
                        part.update_batch(&arguments, &groups, Some(&filter), GROUPS).unwrap();
                        states.push((part.state(EmitTo::All).unwrap(), (0..GROUPS).collect()));
                    }
                }
                // In the order of the rows.
                for (state, groups) in states.drain(..) {
                    own.merge_batch(&state, &groups, GROUPS).unwrap();
                }
                if number % 4 == 3 {
                    own.compact().unwrap();
                }
            }
            own.best.resize(GROUPS, NO_ROW);
            own.places.resize(GROUPS, (0, 0));
            let mut found = Vec::new();
            for emit_to in [EmitTo::First(emitted), EmitTo::All] {
                let values = own.evaluate(emit_to).unwrap();
                found.extend(values.as_string_view().iter().map(|value| value.map(str::to_owned)));
            }
            let expected: Vec<Option<String>> = (0..GROUPS).map(|group| {
                let counts = |row: &&(usize, Option<i64>, Option<String>, bool)| {
                    row.0 == group && row.3 && !(ignore_nulls && row.2.is_none())
                };
                let mut of_group: Vec<_> = rows.iter().filter(counts).collect();
                // Of equal keys, the row that came first is picked in both directions.
                of_group.sort_by(|a, b| {
                    let by_null = a.1.is_none().cmp(&b.1.is_none());
                    let by_null = if nulls_first { by_null.reverse() } else { by_null };
                    let by_value = a.1.cmp(&b.1);
                    let order = match (a.1, b.1) {
                        (Some(_), Some(_)) if descending => by_value.reverse(),
                        (Some(_), Some(_)) => by_value,
                        _ => by_null,
                    };
                    if is_last { order.reverse() } else { order }
                });
                of_group.first().and_then(|row| row.2.clone())
            }).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
