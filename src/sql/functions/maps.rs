//! `map(keys, values)`, which takes as many values as keys in each row.
//!
//! Where this stands on the road of a query: a session registers it in place of DataFusion's
//! (55.2), which only counts the lists: where a row has fewer values than keys, it takes those of
//! the next row. Here a row whose lists differ in length is an error, and one with a list that is
//! null is null.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_nested::map::map_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// The function.
pub(in crate::sql) fn function() -> ScalarUDF {
    ScalarUDF::from(OfEqualLengths { inner: map_udf() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfEqualLengths {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for OfEqualLengths {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        return_field_from_args(arguments: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        documentation() -> Option<&Documentation>;
    }

    fn invoke_with_args(&self, mut given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [keys, values] = given.args.as_slice() else {
            return exec_err!("map() takes a list of keys and a list of values");
        };
        let are_constant = given.args.iter().all(|of| matches!(of, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { given.number_rows };
        let (keys, values) = (lists(&keys.to_array(rows)?)?, lists(&values.to_array(rows)?)?);
        let nulls = NullBuffer::union(keys.nulls(), values.nulls());
        let lengths = keys.offsets().lengths().zip(values.offsets().lengths());
        for (row, (of_keys, of_values)) in lengths.enumerate() {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            if of_keys != of_values && !is_null {
                return exec_err!(
                    "map() takes as many values as keys; a row has {of_keys} keys and \
                     {of_values} values"
                );
            }
        }
        // DataFusion's leaves the rows out where the keys are null.
        let (item, offsets, items, _) = keys.into_parts();
        let keys = ListArray::try_new(item, offsets, items, nulls)?;
        let (keys, values): (ArrayRef, ArrayRef) = (Arc::new(keys), Arc::new(values));
        given.args = vec![ColumnarValue::Array(keys), ColumnarValue::Array(values)];
        given.number_rows = rows;
        let maps = self.inner.invoke_with_args(given)?;
        Ok(match are_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&maps.into_array(1)?, 0)?),
            false => maps,
        })
    }
}

/// Lists of any kind as those of the usual one.
fn lists(given: &ArrayRef) -> DataFusionResult<ListArray> {
    Ok(match given.data_type() {
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            cast(given, &DataType::List(Arc::clone(item)))?.as_list().clone()
        }
        DataType::List(_) => given.as_list().clone(),
        _ => return exec_err!("map() takes a list of keys and a list of values"),
    })
}
