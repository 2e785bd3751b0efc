//! Aggregates of parts of a partition, which make that of the whole.
//!
//! Which rows an aggregate with a FILTER takes is known to DataFusion's windows (55.2) alone, so
//! these are computed for each batch, and merged.

use arrow_array::types::{Decimal128Type, DecimalType};
use arrow_schema::DataType;
use datafusion::common::{ScalarValue, exec_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

/// How values of parts are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    Add,
    Least,
    Greatest,
}

impl Merge {
    /// `None` for aggregates that need more than their values.
    pub(super) fn of(aggregate: &AggregateFunctionExpr) -> Option<Merge> {
        let field = aggregate.field();
        let is_number = || {
            matches!(
                field.data_type(),
                DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Decimal128(..)
            )
        };
        let merge = match aggregate.fun().name() {
            "count" | "sum" if is_number() => Merge::Add,
            "min" | "bool_and" => Merge::Least,
            "max" | "bool_or" => Merge::Greatest,
            _ => return None,
        };
        (!aggregate.is_distinct() || merge != Merge::Add).then_some(merge)
    }

    /// The value of both parts. That of a part without rows is null.
    pub(super) fn both(self, a: ScalarValue, b: ScalarValue) -> DataFusionResult<ScalarValue> {
        if a.is_null() || b.is_null() {
            return Ok(if a.is_null() { b } else { a });
        }
        Ok(match self {
            Merge::Add => return sum(a, b),
            Merge::Least if b < a => b,
            Merge::Greatest if b > a => b,
            Merge::Least | Merge::Greatest => a,
        })
    }
}

fn sum(a: ScalarValue, b: ScalarValue) -> DataFusionResult<ScalarValue> {
    match (a, b) {
        // Others would get another type.
        (
            ScalarValue::Decimal128(Some(a), precision, scale),
            ScalarValue::Decimal128(Some(b), ..),
        ) => {
            let fits = |sum: &i128| Decimal128Type::is_valid_decimal_precision(*sum, precision);
            let sum = a.checked_add(b).filter(fits);
            let sum = sum.ok_or_else(|| {
                exec_datafusion_err!("a window's sum has more than {precision} digits")
            })?;
            Ok(ScalarValue::Decimal128(Some(sum), precision, scale))
        }
        (a, b) => a.add_checked(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_rows_change_nothing() {
        let (null, two) = (ScalarValue::Int64(None), ScalarValue::Int64(Some(2)));
        for merge in [Merge::Add, Merge::Least, Merge::Greatest] {
            assert_eq!(merge.both(null.clone(), two.clone()).unwrap(), two);
            assert_eq!(merge.both(two.clone(), null.clone()).unwrap(), two);
        }
    }

    #[test]
    fn values_are_merged() {
        let number = |n: i64| ScalarValue::Int64(Some(n));
        assert_eq!(Merge::Add.both(number(2), number(3)).unwrap(), number(5));
        assert_eq!(Merge::Least.both(number(2), number(3)).unwrap(), number(2));
        assert_eq!(Merge::Greatest.both(number(2), number(3)).unwrap(), number(3));
        let nan = ScalarValue::Float64(Some(f64::NAN));
        let one = ScalarValue::Float64(Some(1.0));
        assert_eq!(Merge::Least.both(nan.clone(), one.clone()).unwrap(), one);
        assert_eq!(Merge::Greatest.both(one, nan.clone()).unwrap(), nan);
        let decimal = |n| ScalarValue::Decimal128(Some(n), 22, 2);
        assert_eq!(Merge::Add.both(decimal(150), decimal(250)).unwrap(), decimal(400));
        assert!(Merge::Add.both(decimal(i128::MAX), decimal(1)).is_err());
    }
}
