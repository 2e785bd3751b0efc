//! Grouped `approx_percentile_cont` (`approx_quantile`).
//!
//! DataFusion (55.2) merges the rows of each batch into the digest of their group, so that most of
//! the time goes into digests where a batch has few rows of each of many groups. Here groups
//! collect rows, and merge many at once. Digests, states and estimates are DataFusion's.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, new_empty_array};
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

/// How many rows of a group are merged at once.
const MOST_COLLECTED: usize = 512;

/// Whether a call is one of these.
pub(super) fn supports(arguments: &AccumulatorArgs<'_>) -> bool {
    let of = arguments.expr_fields.first().map(|field| field.data_type());
    !arguments.is_distinct && matches!(of, Some(DataType::Float32 | DataType::Float64))
}

/// The accumulator of groups in place of that of `function`.
pub(super) fn groups_accumulator(
    function: &Arc<AggregateUDF>,
    arguments: AccumulatorArgs<'_>,
) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
    let Some(of) = arguments.expr_fields.first().map(|field| field.data_type().clone()) else {
        return internal_err!("a percentile of no values");
    };
    let digests = Factory {
        function: Arc::clone(function),
        return_field: arguments.return_field,
        schema: arguments.schema.clone(),
        order_bys: arguments.order_bys.to_vec(),
        name: arguments.name.to_owned(),
        exprs: arguments.exprs.to_vec(),
        expr_fields: arguments.expr_fields.to_vec(),
    };
    // Arguments are checked here.
    let empty = digests.create()?.state()?;
    Ok(Box::new(Digests { digests, of, empty, groups: Vec::new(), bytes: 0 }))
}

/// Creates the accumulators of groups.
#[derive(Clone)]
struct Factory {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    order_bys: Vec<PhysicalSortExpr>,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Factory {
    fn create(&self) -> DataFusionResult<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &self.order_bys,
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

struct Digests {
    digests: Factory,
    of: DataType,
    /// The state of no rows.
    empty: Vec<ScalarValue>,
    groups: Vec<Group>,
    /// What all groups take.
    bytes: usize,
}

#[derive(Default)]
struct Group {
    /// What the digest does not have yet.
    collected: Vec<f64>,
    digest: Option<Box<dyn Accumulator>>,
}

impl Group {
    fn bytes(&self) -> usize {
        let digest = self.digest.as_ref().map_or(0, |digest| digest.size());
        self.collected.capacity() * size_of::<f64>() + digest
    }

    /// The digest, with all that was collected.
    fn digest(
        &mut self,
        factory: &Factory,
        of: &DataType,
    ) -> DataFusionResult<&mut Box<dyn Accumulator>> {
        if self.digest.is_none() {
            self.digest = Some(factory.create()?);
        }
        let Some(digest) = &mut self.digest else { return internal_err!("no digest") };
        if !self.collected.is_empty() {
            let values: ArrayRef =
                Arc::new(Float64Array::from(std::mem::take(&mut self.collected)));
            digest.update_batch(&[cast(&values, of)?])?;
        }
        Ok(digest)
    }
}

impl Digests {
    /// The groups that are handed out, which go.
    fn taken(&mut self, emit_to: EmitTo) -> Vec<Group> {
        let groups = emit_to.take_needed(&mut self.groups);
        let bytes = groups.iter().map(Group::bytes).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        groups
    }
}

impl GroupsAccumulator for Digests {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> DataFusionResult<()> {
        let Digests { digests, of, groups: all, bytes, .. } = self;
        all.resize_with(total_groups, Group::default);
        let Some(values) = values.first() else {
            return internal_err!("a percentile of no values");
        };
        let values = cast(values, &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        for (row, (value, group)) in values.values().iter().zip(groups).enumerate() {
            let passes = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            let Some(group) = all.get_mut(*group).filter(|_| passes && values.is_valid(row)) else {
                continue;
            };
            if group.collected.len() == group.collected.capacity() {
                let before = group.bytes();
                if group.collected.len() >= MOST_COLLECTED {
                    group.digest(digests, of)?;
                }
                group.collected.reserve(1);
                *bytes = (*bytes + group.bytes()).saturating_sub(before);
            }
            group.collected.push(*value);
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> DataFusionResult<()> {
        let Digests { digests, of, groups: all, bytes, .. } = self;
        all.resize_with(total_groups, Group::default);
        for (row, group) in groups.iter().enumerate() {
            let Some(group) = all.get_mut(*group) else { continue };
            let of_row: Vec<ArrayRef> = states.iter().map(|state| state.slice(row, 1)).collect();
            let before = group.bytes();
            group.digest(digests, of)?.merge_batch(&of_row)?;
            *bytes = (*bytes + group.bytes()).saturating_sub(before);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DataFusionResult<ArrayRef> {
        let groups = self.taken(emit_to);
        let answer = |mut group: Group| group.digest(&self.digests, &self.of)?.evaluate();
        let answers = groups.into_iter().map(answer);
        let answers = answers.collect::<DataFusionResult<Vec<_>>>()?;
        match answers.is_empty() {
            true => Ok(new_empty_array(&self.of)),
            false => ScalarValue::iter_to_array(answers),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> DataFusionResult<Vec<ArrayRef>> {
        let mut columns: Vec<Vec<ScalarValue>> = self.empty.iter().map(|_| Vec::new()).collect();
        for mut group in self.taken(emit_to) {
            let state = group.digest(&self.digests, &self.of)?.state()?;
            columns.iter_mut().zip(state).for_each(|(column, value)| column.push(value));
        }
        let column = |(values, empty): (Vec<ScalarValue>, &ScalarValue)| match values.is_empty() {
            true => Ok(new_empty_array(&empty.data_type())),
            false => ScalarValue::iter_to_array(values),
        };
        columns.into_iter().zip(&self.empty).map(column).collect()
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DataFusionResult<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let (digests, of, empty) = (self.digests.clone(), self.of.clone(), self.empty.clone());
        let mut each = Digests { digests, of, empty, groups: Vec::new(), bytes: 0 };
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Group>() + self.bytes
    }
}
