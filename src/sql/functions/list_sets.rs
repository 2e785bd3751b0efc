//! `list_has_any`, `list_has_all` and `list_intersect`, for which nulls are not equal to each
//! other.
//!
//! Where this stands on the road of a query: a session registers them in place of DataFusion's
//! (55.2), which find a null where one is sought; `@>` and `<@` are planned with them in
//! `elements`. Here nulls are left out of the second list before DataFusion's function is called:
//! as in DuckDB, nothing is found by them, and they need not be found.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef};
use arrow_select::take::take;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::functions_nested::array_has::{array_has_all_udf, array_has_any_udf};
use datafusion::functions_nested::set_ops::array_intersect_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// All of them.
pub(in crate::sql) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let others = [array_has_any_udf(), array_intersect_udf()].map(without_equal_nulls);
    others.into_iter().chain([HAS_ALL.as_ref().clone()])
}

/// Whether a list has all items of another one.
pub(super) fn has_all(list: Expr, items: Expr) -> Expr {
    HAS_ALL.call(vec![list, items])
}

static HAS_ALL: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(without_equal_nulls(array_has_all_udf())));

fn without_equal_nulls(inner: Arc<ScalarUDF>) -> ScalarUDF {
    ScalarUDF::from(OfTwoLists { inner })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfTwoLists {
    /// DataFusion's function.
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for OfTwoLists {
    delegate! {
        name() -> &str;
        aliases() -> &[String];
        signature() -> &Signature;
        return_type(arguments: &[DataType]) -> DataFusionResult<DataType>;
        return_field_from_args(arguments: ReturnFieldArgs<'_>) -> DataFusionResult<FieldRef>;
        documentation() -> Option<&Documentation>;
    }

    fn invoke_with_args(&self, mut given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        if let Some(sought) = given.args.get_mut(1) {
            *sought = match &*sought {
                ColumnarValue::Array(lists) => ColumnarValue::Array(without_nulls(lists)?),
                ColumnarValue::Scalar(list) => {
                    let list = without_nulls(&list.to_array()?)?;
                    ColumnarValue::Scalar(ScalarValue::try_from_array(&list, 0)?)
                }
            };
        }
        self.inner.invoke_with_args(given)
    }
}

/// Lists without the nulls among their items; anything but lists as it is.
fn without_nulls(lists: &ArrayRef) -> DataFusionResult<ArrayRef> {
    match lists.data_type() {
        DataType::List(_) => kept(lists.as_list::<i32>(), lists),
        DataType::LargeList(_) => kept(lists.as_list::<i64>(), lists),
        DataType::FixedSizeList(item, _) => {
            without_nulls(&cast(lists, &DataType::List(Arc::clone(item)))?)
        }
        _ => Ok(Arc::clone(lists)),
    }
}

fn kept<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    unchanged: &ArrayRef,
) -> DataFusionResult<ArrayRef> {
    let nulls = lists.values().logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let (Some(nulls), DataType::List(item) | DataType::LargeList(item)) =
        (nulls, lists.data_type())
    else {
        return Ok(Arc::clone(unchanged));
    };
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    for bounds in lists.value_offsets().windows(2) {
        let [from, to] = bounds else { continue };
        let before = places.len();
        let items = from.as_usize()..to.as_usize();
        places.extend(items.filter(|at| nulls.is_valid(*at)).map(|at| at as u64));
        lengths.push(places.len() - before);
    }
    let items = take(lists.values(), &UInt64Array::from(places), None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let rows = lists.nulls().cloned();
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, items, rows)?))
}
