//! `age(a, b)`: the years, months and days from b to a as one would count them by hand, as in
//! PostgreSQL and DuckDB.
//!
//! Where this stands on the road of a query: a session registers it; `syntax/macros` gives it its
//! name, and the meaning of `age(t)`: up to midnight of today.

use std::sync::Arc;

use arrow_array::IntervalMonthDayNanoArray;
use arrow_array::types::IntervalMonthDayNano;
use arrow_schema::{DataType, IntervalUnit};
use datafusion::common::{ScalarValue, exec_datafusion_err, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::sql::functions::differences::{DAY, micros};
use crate::sql::types::times::{date_of_days, days_to_month};

/// The function.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(Age { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Age {
    signature: Signature,
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &'static str {
        "sty__age"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let is_time = |of: &DataType| {
            matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
                || of.is_null()
        };
        match arguments.iter().all(is_time) {
            true => Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
            false => plan_err!("age() takes dates or timestamps: age(a, b), or age(t) until today"),
        }
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let rows = if given.args.iter().all(is_constant) { 1 } else { given.number_rows };
        let arrays = ColumnarValue::values_to_arrays(&given.args)?;
        let [to, from] = arrays.as_slice() else { return plan_err!("age() takes two times") };
        let (to, from) = (micros(to)?, micros(from)?);
        let ages = to.iter().zip(from.iter()).map(|pair| match pair {
            (Some(to), Some(from)) => age(to, from).map(Some).ok_or_else(|| {
                exec_datafusion_err!("the times of age() are too far from each other")
            }),
            _ => Ok(None),
        });
        let ages = ages.collect::<DataFusionResult<IntervalMonthDayNanoArray>>()?;
        Ok(match given.args.iter().all(is_constant) && rows == ages.len() {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&ages, 0)?),
            false => ColumnarValue::Array(Arc::new(ages)),
        })
    }
}

/// What lies between two times in microseconds since 1970.
fn age(to: i64, from: i64) -> Option<IntervalMonthDayNano> {
    let is_backwards = to < from;
    let (later, earlier) = if is_backwards { (from, to) } else { (to, from) };
    let (day, first_day) = (later.div_euclid(DAY), earlier.div_euclid(DAY));
    let (date, first) = (date_of_days(day), date_of_days(first_day));
    let mut months = (date.0 - first.0) * 12 + date.1 - first.1;
    let mut days = date.2 - first.2;
    let mut rest = later.rem_euclid(DAY) - earlier.rem_euclid(DAY);
    if rest < 0 {
        (rest, days) = (rest + DAY, days - 1);
    }
    if days < 0 {
        // The days that are left of the month in which the earlier time is.
        let month = first.0 * 12 + first.1 - 1;
        (months, days) = (months - 1, days + days_to_month(month + 1) - days_to_month(month));
    }
    let sign = if is_backwards { -1 } else { 1 };
    Some(IntervalMonthDayNano::new(
        i32::try_from(months * sign).ok()?,
        i32::try_from(days * sign).ok()?,
        rest * sign * 1_000,
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn ages_are_counted_in_months_and_days() {
        let at = |year: i64, month: i64, day: i64| {
            (days_to_month(year * 12 + month - 1) + day - 1) * DAY
        };
        let parts = |to, from| {
            let age = age(to, from).unwrap();
            (age.months, age.days, age.nanoseconds / 1_000)
        };
        assert_eq!(parts(at(2024, 3, 31), at(2024, 2, 29)), (1, 2, 0));
        assert_eq!(parts(at(2024, 2, 29), at(2024, 3, 31)), (-1, -2, 0));
        assert_eq!(parts(at(2024, 3, 1), at(2024, 1, 31)), (1, 1, 0));
        assert_eq!(parts(at(2023, 3, 1), at(2023, 2, 28)), (0, 1, 0));
        assert_eq!(parts(at(2024, 1, 1) + 5, at(2023, 12, 31) + 6), (0, 0, DAY - 1));
        assert_eq!(parts(at(1, 1, 1), at(1, 1, 1)), (0, 0, 0));
    }
}
