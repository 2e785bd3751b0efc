//! Which functions of windows are computed here, and their values for a batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::aggregates::{Evaluate, evaluator};
use super::bounds::Bounds;
use super::frames::{Leaving, Start};
use super::numbers::{Number, Numbers};
use super::picked::{Before, Edge};
use crate::sql::run::whole_partitions::one_value::takes_all_rows;

/// The most rows that `lag` and `lead` look back and ahead: so many are copied for each batch.
const MOST_SHIFTED: i64 = 1 << 12;

/// What a window computes.
pub(super) struct Function {
    kind: Kind,
    argument: Option<Arc<dyn PhysicalExpr>>,
    /// Whether all peers have the value of the last one of them.
    pub(super) is_of_peers: bool,
}

enum Kind {
    Number(Number, Numbers),
    Edge(Edge, Before),
    Lag {
        offset: u64,
        default: ScalarValue,
        before: Before,
    },
    /// Its column has the argument until the rows that follow are known.
    Lead {
        offset: u64,
        default: ScalarValue,
    },
    Aggregate {
        evaluate: Evaluate,
        start: Start,
    },
}

impl Function {
    /// `None` for what DataFusion's operator computes.
    pub(super) fn of(window: &Arc<dyn WindowExpr>, schema: &Schema) -> Option<Function> {
        let field = window.field().ok()?;
        let result = field.data_type();
        let any = window.as_any();
        if let Some(plain) = any.downcast_ref::<PlainAggregateWindowExpr>() {
            return Function::aggregate(window, plain.get_aggregate_expr(), result, schema);
        }
        if let Some(sliding) = any.downcast_ref::<SlidingAggregateWindowExpr>() {
            return Function::aggregate(window, sliding.get_aggregate_expr(), result, schema);
        }
        let standard = any.downcast_ref::<StandardWindowExpr>()?;
        let call = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
        // The last two fields, and there is no other way to see them.
        let described = format!("{call:?}");
        let ends = |flags: &str| described.ends_with(flags);
        let ignores_nulls = ends("is_reversed: false, ignore_nulls: true }");
        if !ignores_nulls && !ends("is_reversed: false, ignore_nulls: false }") {
            return None;
        }
        let number = |number| {
            let kind = Kind::Number(number, Numbers::default());
            (*result == DataType::Int64).then_some(Function {
                kind,
                argument: None,
                is_of_peers: false,
            })
        };
        let name = call.fun().name();
        match name {
            "row_number" => return number(Number::Row),
            "rank" => return number(Number::Rank),
            "dense_rank" => return number(Number::DenseRank),
            _ => {}
        }
        let argument = call.args().first()?;
        if argument.data_type(schema).ok()? != *result {
            return None;
        }
        let argument = Some(Arc::clone(argument));
        match name {
            "first_value" | "last_value" => {
                let (start, is_of_peers) = Start::of(window, schema)?;
                let kind = Kind::Edge(
                    Edge { last: name == "last_value", ignores_nulls },
                    Before::default(),
                );
                (start == Start::Partition).then_some(Function { kind, argument, is_of_peers })
            }
            "lag" | "lead" if !ignores_nulls => {
                let literal = |at: usize| match call.args().get(at) {
                    Some(argument) => Some(Some(argument.downcast_ref::<Literal>()?.value())),
                    None => Some(None),
                };
                let offset = match literal(1)? {
                    Some(offset) => match offset.cast_to(&DataType::Int64).ok()? {
                        ScalarValue::Int64(offset) => offset?,
                        _ => return None,
                    },
                    None => 1,
                };
                let default = match literal(2)? {
                    Some(default) if default.data_type() == *result => default.clone(),
                    Some(default) if !default.is_null() => return None,
                    _ => ScalarValue::try_from(result).ok()?,
                };
                if !(0..=MOST_SHIFTED).contains(&offset) {
                    return None;
                }
                let offset = offset.unsigned_abs();
                let kind = match name {
                    "lag" => Kind::Lag { offset, default, before: Before::default() },
                    _ => Kind::Lead { offset, default },
                };
                Some(Function { kind, argument, is_of_peers: false })
            }
            _ => None,
        }
    }

    fn aggregate(
        window: &Arc<dyn WindowExpr>,
        aggregate: &AggregateFunctionExpr,
        result: &DataType,
        schema: &Schema,
    ) -> Option<Function> {
        let is_plain = !aggregate.is_distinct()
            && !aggregate.is_reversed()
            && aggregate.order_bys().is_empty()
            && takes_all_rows(window);
        let mut arguments = aggregate.expressions();
        let argument = arguments.pop().filter(|_| is_plain && arguments.is_empty())?;
        let (start, is_of_peers) = Start::of(window, schema)?;
        let name = aggregate.fun().name();
        let moves = start != Start::Partition;
        let evaluate = evaluator(name, &argument.data_type(schema).ok()?, result, moves)?;
        let kind = Kind::Aggregate { evaluate, start };
        Some(Function { kind, argument: Some(argument), is_of_peers })
    }

    /// Whether it needs to know where peers begin.
    pub(super) fn goes_by_peers(&self) -> bool {
        let is_rank = matches!(self.kind, Kind::Number(Number::Rank | Number::DenseRank, _));
        self.is_of_peers || is_rank
    }

    /// Where its frames start, if they move.
    pub(super) fn moving_start(&self) -> Option<&Start> {
        match &self.kind {
            Kind::Aggregate { start, .. } if *start != Start::Partition => Some(start),
            _ => None,
        }
    }

    /// How far it looks ahead, and its value where there is no such row.
    pub(super) fn ahead(&self) -> Option<(u64, &ScalarValue)> {
        match &self.kind {
            Kind::Lead { offset, default } => Some((*offset, default)),
            _ => None,
        }
    }

    /// The values of a batch, as if no row had peers.
    pub(super) fn evaluate(
        &mut self,
        batch: &RecordBatch,
        bounds: &Bounds,
        leaving: &[(Leaving, Vec<u32>)],
    ) -> DataFusionResult<ArrayRef> {
        let rows = batch.num_rows();
        let argument = self.argument.as_ref();
        let argument = argument.map(|argument| argument.evaluate(batch)?.into_array(rows));
        let argument = argument.transpose()?;
        let of_argument = || {
            argument.ok_or_else(|| internal_datafusion_err!("a window's function without argument"))
        };
        match &mut self.kind {
            Kind::Number(number, numbers) => Ok(numbers.evaluate(*number, bounds, rows)),
            Kind::Edge(edge, before) => before.edge(*edge, &of_argument()?, bounds),
            Kind::Lag { offset, default, before } => {
                before.lag(*offset, default, &of_argument()?, bounds)
            }
            Kind::Lead { .. } => of_argument(),
            Kind::Aggregate { evaluate, start } => {
                let leaving = leaving.iter().find(|(leaving, _)| leaving.start == *start);
                evaluate(&of_argument()?, bounds, leaving.map(|(_, rows)| rows.as_slice()))
            }
        }
    }
}
