//! `array_agg` and `string_agg` with ORDER BY or DISTINCT.
//!
//! DataFusion (55.2) keeps each value, and each key of the order, as an enum in a list of its
//! group, and sorts group by group, or all rows before. Here values stay in arrays ([`ordered`]),
//! and keys are rows of bytes (`arrow-row`); values are put in the order of their groups and keys
//! when they are handed out. Distinct values are kept as a GROUP BY of the group and the value
//! would keep them, and come in their own order. States are DataFusion's.

mod ordered;

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, StructArray, UInt32Array};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Fields, Schema, SortOptions};
use arrow_select::take::take;
use datafusion::common::{ScalarValue, exec_err, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion_functions_aggregate_common::utils::ordering_fields;

use self::ordered::{Chunk, Ordered, Sorted, key, list_array, owned};

/// Whether a call of `array_agg` or `string_agg` is one of these.
pub(super) fn supports(function: &str, arguments: &AccumulatorArgs<'_>) -> bool {
    Sequences::new(function, arguments).is_ok_and(|sequences| sequences.is_some())
}

/// The accumulator of a call that is one of these; `None` for others.
pub(super) fn groups_accumulator(
    function: &str,
    arguments: &AccumulatorArgs<'_>,
) -> DataFusionResult<Option<Box<dyn GroupsAccumulator>>> {
    Ok(Sequences::new(function, arguments)?.map(|sequences| Box::new(sequences) as _))
}

/// The accumulator of such a call without groups; `None` for others.
pub(super) fn accumulator(
    function: &str,
    arguments: &AccumulatorArgs<'_>,
) -> DataFusionResult<Option<Box<dyn Accumulator>>> {
    let sequences = Sequences::new(function, arguments)?;
    let one = |sequences| OneGroup(Mutex::new(Sequences { groups: 1, ..sequences }));
    Ok(sequences.map(|sequences| Box::new(one(sequences)) as _))
}

/// DataFusion asks for accumulators that threads share, which the keys of a GROUP BY are not.
#[derive(Debug)]
struct OneGroup(Mutex<Sequences>);

impl OneGroup {
    fn get(&mut self) -> &mut Sequences {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        let rows = values.first().map_or(0, |values| values.len());
        self.get().update_batch(values, &vec![0; rows], None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let rows = states.first().map_or(0, |states| states.len());
        self.get().merge_batch(states, &vec![0; rows], 1)
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        let sequences = self.get();
        let sorted = sequences.sorted()?;
        ScalarValue::try_from_array(&sequences.answer(&sorted)?, 0)
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        let sequences = self.get();
        let sorted = sequences.sorted()?;
        let states = sequences.states(&sorted)?;
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.lock().unwrap_or_else(PoisonError::into_inner).size()
    }
}

impl std::fmt::Debug for Sequences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sequences").field("groups", &self.groups).finish_non_exhaustive()
    }
}

struct Sequences {
    values_type: DataType,
    /// What is between texts; `None` for lists.
    separator: Option<String>,
    ignore_nulls: bool,
    /// The types of the keys of the order; the value itself where values are distinct.
    key_fields: Fields,
    converter: RowConverter,
    held: Held,
    groups: usize,
}

enum Held {
    All(Ordered),
    /// Pairs of a group and a value.
    Distinct(Box<dyn GroupValues>),
}

impl Sequences {
    fn new(function: &str, arguments: &AccumulatorArgs<'_>) -> DataFusionResult<Option<Sequences>> {
        let order = arguments.order_bys;
        if order.is_empty() && !arguments.is_distinct {
            return Ok(None);
        }
        let (Some(value), Some(field)) = (arguments.exprs.first(), arguments.expr_fields.first())
        else {
            return Ok(None);
        };
        let separator = match function {
            "array_agg" => None,
            _ => match arguments.exprs.get(1).and_then(|text| text.downcast_ref::<Literal>()) {
                Some(text) if text.value().is_null() => Some(String::new()),
                Some(text) => match text.value().try_as_str() {
                    Some(text) => Some(text.unwrap_or_default().to_owned()),
                    None => return Ok(None),
                },
                None => return Ok(None),
            },
        };
        // Backwards is another order, in which equal rows have none.
        let options = |options: SortOptions| match arguments.is_reversed {
            true => !options,
            false => options,
        };
        let values_type = field.data_type().clone();
        let (key_fields, options) = match (arguments.is_distinct, order) {
            (true, []) => (
                vec![Arc::new(Field::new("value", values_type.clone(), true))],
                vec![SortOptions::default().asc().nulls_last()],
            ),
            (true, [key]) if key.expr.eq(value) => (
                vec![Arc::new(Field::new("value", values_type.clone(), true))],
                vec![options(key.options)],
            ),
            (true, _) => return Ok(None),
            (false, order) => {
                let types = order.iter().map(|key| key.expr.data_type(arguments.schema));
                let types = types.collect::<DataFusionResult<Vec<_>>>()?;
                let options = order.iter().map(|key| options(key.options)).collect();
                (ordering_fields(order, &types), options)
            }
        };
        let sorted = key_fields.iter().zip(options).map(|(field, options): (_, SortOptions)| {
            SortField::new_with_options(field.data_type().clone(), options)
        });
        let sorted: Vec<SortField> = sorted.collect();
        if !RowConverter::supports_fields(&sorted) {
            return Ok(None);
        }
        let held = match arguments.is_distinct {
            true => Held::Distinct(pairs(&values_type)?),
            false => Held::All(Ordered::default()),
        };
        Ok(Some(Sequences {
            values_type,
            ignore_nulls: separator.is_some() || arguments.ignore_nulls,
            separator,
            key_fields: key_fields.into(),
            converter: RowConverter::new(sorted)?,
            held,
            groups: 0,
        }))
    }

    /// The values and the keys among the arguments of a call.
    fn arguments<'a>(
        &self,
        arguments: &'a [ArrayRef],
    ) -> DataFusionResult<(&'a ArrayRef, &'a [ArrayRef])> {
        let before_keys = if self.separator.is_some() { 2 } else { 1 };
        match (arguments.first(), arguments.get(before_keys..)) {
            (Some(values), keys) => Ok((values, keys.unwrap_or_default())),
            (None, _) => exec_err!("a call of array_agg or string_agg without a value"),
        }
    }

    /// Which rows count.
    fn counts(
        &self,
        values: &ArrayRef,
        filter: Option<&BooleanArray>,
    ) -> impl Fn(usize) -> bool + use<> {
        let nulls = values.logical_nulls().filter(|_| self.ignore_nulls);
        let filter = filter.cloned();
        move |row| {
            nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && filter.as_ref().is_none_or(|filter| filter.is_valid(row) && filter.value(row))
        }
    }

    /// Adds the rows of these numbers, of one group each.
    fn add(
        &mut self,
        values: &ArrayRef,
        keys: &[ArrayRef],
        rows: Vec<u32>,
        groups: Vec<u32>,
    ) -> DataFusionResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let rows = UInt32Array::from(rows);
        let values = owned(take(values, &rows, None)?);
        match &mut self.held {
            Held::Distinct(pairs) => {
                pairs.intern(&[Arc::new(UInt32Array::from(groups)), values], &mut Vec::new())
            }
            Held::All(ordered) => {
                let keys = keys.iter().map(|keys| take(keys, &rows, None));
                let keys = keys.collect::<Result<Vec<_>, _>>()?;
                let keys = self.converter.convert_columns(&keys)?;
                ordered.push(Chunk { values, keys }, groups);
                Ok(())
            }
        }
    }

    /// The values of all groups, in order, which stay here.
    fn sorted(&mut self) -> DataFusionResult<Sorted> {
        let groups = self.groups;
        if let Held::All(ordered) = &self.held {
            return Ok(Sorted::of(ordered.chunks.clone(), &ordered.places, groups));
        }
        let sorted = self.emit(EmitTo::All)?;
        self.groups = groups;
        if let (Held::Distinct(pairs), [chunk]) = (&mut self.held, &sorted.chunks[..]) {
            let mut of_rows = vec![0; chunk.values.len()];
            for place in &sorted.places {
                of_rows[place.row as usize] = place.group;
            }
            let of_rows: ArrayRef = Arc::new(UInt32Array::from(of_rows));
            pairs.intern(&[of_rows, Arc::clone(&chunk.values)], &mut Vec::new())?;
        }
        Ok(sorted)
    }

    fn answer(&self, sorted: &Sorted) -> DataFusionResult<ArrayRef> {
        match &self.separator {
            Some(separator) => sorted.texts(separator),
            None => sorted.lists(&self.values_type),
        }
    }

    fn states(&self, sorted: &Sorted) -> DataFusionResult<Vec<ArrayRef>> {
        let mut states = vec![sorted.lists(&self.values_type)?];
        if matches!(self.held, Held::All(_)) {
            let keys = sorted.places.iter().filter_map(|place| key(&sorted.chunks, place));
            let keys = self.converter.convert_rows(keys)?;
            let keys = StructArray::try_new(self.key_fields.clone(), keys, None)?;
            states.push(list_array(Arc::new(keys), sorted.lengths.iter().copied(), None)?);
        }
        Ok(states)
    }

    /// Hands out the values of groups, in order.
    fn emit(&mut self, emit_to: EmitTo) -> DataFusionResult<Sorted> {
        let emitted = match emit_to {
            EmitTo::All => self.groups,
            EmitTo::First(groups) => groups.min(self.groups),
        };
        self.groups -= emitted;
        match &mut self.held {
            Held::All(ordered) => ordered.emit(emitted, &self.converter),
            Held::Distinct(pairs) => {
                let columns = pairs.emit(EmitTo::All)?;
                // What is emitted leaves its hashes behind.
                *pairs = self::pairs(&self.values_type)?;
                let [groups, values] = <[ArrayRef; 2]>::try_from(columns)
                    .map_err(|_| internal_datafusion_err!("pairs of other than two columns"))?;
                let keys = self.converter.convert_columns(std::slice::from_ref(&values))?;
                let mut all = Ordered::default();
                all.push(
                    Chunk { values, keys },
                    groups.as_primitive::<UInt32Type>().values().to_vec(),
                );
                let sorted = all.emit(emitted, &self.converter)?;
                for rest in &all.chunks {
                    let groups = all.places.iter().map(|place| place.group);
                    let groups = UInt32Array::from_iter_values(groups);
                    pairs.intern(&[Arc::new(groups), Arc::clone(&rest.values)], &mut Vec::new())?;
                }
                Ok(sorted)
            }
        }
    }
}

impl GroupsAccumulator for Sequences {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> DataFusionResult<()> {
        self.groups = count;
        let (of_rows, keys) = self.arguments(values)?;
        let counts = self.counts(of_rows, filter);
        let rows = groups.iter().enumerate().filter(|(row, _)| counts(*row));
        let (rows, groups) = rows.map(|(row, group)| (row as u32, *group as u32)).unzip();
        self.add(of_rows, keys, rows, groups)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        count: usize,
    ) -> DataFusionResult<()> {
        self.groups = count;
        let lists = states.first().and_then(|states| states.as_list_opt::<i32>());
        let lists = lists.ok_or_else(|| internal_datafusion_err!("a state that is no list"))?;
        let (rows, of_rows) = items(lists, groups);
        let keys = match states.get(1).and_then(|keys| keys.as_list_opt::<i32>()) {
            Some(keys) => {
                let rows = UInt32Array::from(items(keys, groups).0);
                let keys = take(keys.values(), &rows, None)?;
                keys.as_struct().columns().to_vec()
            }
            None => Vec::new(),
        };
        let values = take(lists.values(), &UInt32Array::from(rows), None)?;
        let counts = self.counts(&values, None);
        let rows = of_rows.iter().enumerate().filter(|(row, _)| counts(*row));
        let (rows, of_rows) = rows.map(|(row, group)| (row as u32, *group)).unzip();
        self.add(&values, &keys, rows, of_rows)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        let sorted = self.emit(emit_to)?;
        self.answer(&sorted)
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        let sorted = self.emit(emit_to)?;
        self.states(&sorted)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let (of_rows, keys) = self.arguments(values)?;
        let counts = self.counts(of_rows, filter);
        let counts: Vec<bool> = (0..of_rows.len()).map(counts).collect();
        let rows = (0..).zip(&counts).filter_map(|(row, counts)| counts.then_some(row));
        let rows = UInt32Array::from_iter_values(rows);
        let lengths = || counts.iter().map(|counts| usize::from(*counts));
        let values = take(of_rows, &rows, None)?;
        let mut states =
            vec![list_array(values, lengths(), Some(NullBuffer::from(counts.as_slice())))?];
        if matches!(self.held, Held::All(_)) {
            let keys = keys.iter().map(|keys| take(keys, &rows, None));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            let keys = StructArray::try_new(self.key_fields.clone(), keys, None)?;
            states.push(list_array(Arc::new(keys), lengths(), None)?);
        }
        Ok(states)
    }

    fn size(&self) -> usize {
        match &self.held {
            Held::All(ordered) => ordered.size(),
            Held::Distinct(pairs) => pairs.size(),
        }
    }
}

/// What keeps distinct pairs of a group and a value.
fn pairs(values_type: &DataType) -> DataFusionResult<Box<dyn GroupValues>> {
    let group = Field::new("group", DataType::UInt32, false);
    let value = Field::new("value", values_type.clone(), true);
    new_group_values(Arc::new(Schema::new(vec![group, value])), &GroupOrdering::None)
}

/// The items of lists: their rows, and the group of each.
fn items(lists: &ListArray, groups: &[usize]) -> (Vec<u32>, Vec<u32>) {
    let (mut rows, mut of_rows) = (Vec::new(), Vec::new());
    for (list, (range, group)) in lists.value_offsets().windows(2).zip(groups).enumerate() {
        if let ([start, end], true) = (range, lists.is_valid(list)) {
            rows.extend(*start as u32..*end as u32);
            of_rows.resize(rows.len(), *group as u32);
        }
    }
    (rows, of_rows)
}
