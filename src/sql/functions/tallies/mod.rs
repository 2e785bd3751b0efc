//! Aggregates that count how often each value occurs: `mode(x)`, `histogram(x)`, `top_k(x, n)`
//! (`approx_top_k`, ClickHouse's `topK(n)(x)`) and `quantile_disc(x, p)`.
//!
//! Where this stands on the road of a query: a session registers them. Null is no value. Of values
//! that are equally frequent the least comes first, so that the answer does not depend on threads.

mod coding;
mod counts;
mod groups;
mod interned;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, GroupsAccumulator, Signature,
    Volatility,
};
use datafusion::physical_expr::PhysicalExpr;

use self::coding::state_type;
use self::groups::Tallies;

use crate::sql::convert::type_name;
use crate::sql::functions::sliding;

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = AggregateUDF> {
    [Kind::Mode, Kind::Histogram, Kind::TopK, Kind::Quantile].into_iter().map(function)
}

/// `quantile_disc` of several fractions, of which a rule makes calls of one (`lower::quantiles`):
/// a struct.
pub(in crate::sql) fn quantiles_function() -> &'static Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(function(Kind::Quantiles)));
    &FUNCTION
}

fn function(kind: Kind) -> AggregateUDF {
    let signature = match kind {
        Kind::Mode | Kind::Histogram => Signature::any(1, Volatility::Immutable),
        Kind::TopK | Kind::Quantile => Signature::any(2, Volatility::Immutable),
        Kind::Quantiles => Signature::variadic_any(Volatility::Immutable),
    };
    let aliases = match kind {
        Kind::TopK => vec!["approx_top_k".to_owned()],
        _ => Vec::new(),
    };
    AggregateUDF::from(Tally { kind, signature, aliases })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Mode,
    Histogram,
    TopK,
    Quantile,
    /// Of several fractions, as the fields of a struct.
    Quantiles,
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
            Kind::Quantiles => "quantiles_disc",
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
            Kind::Quantiles => {
                DataType::Struct(quantile_fields(of, arguments.len().saturating_sub(1)))
            }
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
        Ok(vec![list("values", state_type(&of)), list("counts", DataType::Int64)])
    }

    fn accumulator(&self, given: AccumulatorArgs<'_>) -> DataFusionResult<Box<dyn Accumulator>> {
        self.tallies(&given)?.alone()
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        given: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.tallies(&given)?))
    }

    fn create_sliding_accumulator(
        &self,
        given: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        Ok(sliding::recomputed(&Arc::new(AggregateUDF::from(self.clone())), given))
    }
}

impl Tally {
    /// The accumulator of groups.
    fn tallies(&self, given: &AccumulatorArgs<'_>) -> DataFusionResult<Tallies> {
        let of = match given.expr_fields {
            [field, ..] => field.data_type().clone(),
            [] => return internal_err!("{}() has no argument", self.name()),
        };
        if self.kind == Kind::Mode && !given.order_bys.is_empty() {
            return plan_err!(
                "mode() takes no ORDER BY: of values that are equally frequent it takes the least"
            );
        }
        let numbers = given.exprs.get(1..).unwrap_or_default().iter();
        let numbers = numbers.map(|number| self.number(number));
        let numbers = numbers.collect::<DataFusionResult<Vec<_>>>()?;
        for number in &numbers {
            match self.kind {
                Kind::Quantile | Kind::Quantiles if !(-1.0..=1.0).contains(number) => {
                    return plan_err!(
                        "a quantile is from 0 to 1, or from 0 to -1 from the greatest value on, \
                         not {number}"
                    );
                }
                Kind::TopK if !(1.0..=1e6).contains(number) => {
                    return plan_err!("top_k() takes a count of values, from 1 to 1000000");
                }
                _ => {}
            }
        }
        Tallies::new(self.kind, numbers, given.is_distinct, of)
    }

    /// A constant argument.
    fn number(&self, expr: &Arc<dyn PhysicalExpr>) -> DataFusionResult<f64> {
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        match expr.evaluate(&nothing) {
            Ok(ColumnarValue::Scalar(value)) => match value.cast_to(&DataType::Float64) {
                Ok(ScalarValue::Float64(Some(number))) => Ok(number),
                _ => plan_err!("{}() takes a number after the value", self.name()),
            },
            _ => plan_err!("the second argument of {}() is a constant", self.name()),
        }
    }
}

/// The fields of so many quantiles.
fn quantile_fields(of: &DataType, count: usize) -> Fields {
    (0..count).map(|at| Field::new(at.to_string(), of.clone(), true)).collect()
}

fn entries_field(of: &DataType) -> FieldRef {
    Arc::new(Field::new("entries", DataType::Struct(entry_fields(of)), false))
}

fn entry_fields(of: &DataType) -> Fields {
    let key = Field::new("key", of.clone(), false);
    Fields::from(vec![key, Field::new("value", DataType::UInt64, true)])
}
