//! `only_value(x)`: the value of a scalar subquery, or an error if it has more than one row.

use std::mem::size_of_val;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility,
};

/// Calls the aggregate.
pub(super) fn only_value(expr: Expr) -> Expr {
    AggregateUDF::from(OnlyValue { signature: Signature::any(1, Volatility::Immutable) })
        .call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl AggregateUDFImpl for OnlyValue {
    fn name(&self) -> &'static str {
        "only_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> DataFusionResult<Box<dyn Accumulator>> {
        Ok(Box::new(OnlyValueAccumulator {
            value: ScalarValue::try_from(arguments.return_field.data_type())?,
            rows: 0,
        }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DataFusionResult<Vec<FieldRef>> {
        let value = Field::new("value", arguments.return_field.data_type().clone(), true);
        Ok(vec![value.into(), Field::new("rows", DataType::UInt64, false).into()])
    }
}

#[derive(Debug)]
struct OnlyValueAccumulator {
    value: ScalarValue,
    rows: u64,
}

impl OnlyValueAccumulator {
    fn add(&mut self, rows: u64) -> DataFusionResult<()> {
        self.rows = self.rows.saturating_add(rows);
        if self.rows > 1 {
            return exec_err!("a scalar subquery gave more than one row");
        }
        Ok(())
    }
}

impl Accumulator for OnlyValueAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DataFusionResult<()> {
        let Some(values) = values.first().filter(|values| !values.is_empty()) else {
            return Ok(());
        };
        self.add(values.len() as u64)?;
        self.value = ScalarValue::try_from_array(values, 0)?;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DataFusionResult<()> {
        let [values, rows] = states else { return Ok(()) };
        for at in 0..rows.len() {
            let ScalarValue::UInt64(Some(rows)) = ScalarValue::try_from_array(rows, at)? else {
                continue;
            };
            self.add(rows)?;
            if rows > 0 {
                self.value = ScalarValue::try_from_array(values, at)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> DataFusionResult<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }

    fn evaluate(&mut self) -> DataFusionResult<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() - size_of_val(&self.value)
    }
}
