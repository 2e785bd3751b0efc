//! `list_sum(l)`, `list_max(l)` and the like: an aggregate over the elements of each list, as in
//! DuckDB.
//!
//! Where this stands on the road of a query: a session registers them. The answer has the type that
//! the aggregate has over rows: DataFusion's own `array_sum` (55.2) makes a double of integers. All
//! lists of a batch are the groups of one aggregation.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_select::concat::concat;
use arrow_select::take::take;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, EmitTo, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;

use crate::sql::convert::type_name;

/// The aggregates, as they are called behind `list_` and `array_`, and as they are called here.
pub(in crate::sql) const AGGREGATES: [(&str, &str); 20] = [
    ("approx_count_distinct", "approx_distinct"),
    ("avg", "avg"),
    ("bit_and", "bit_and"),
    ("bit_or", "bit_or"),
    ("bit_xor", "bit_xor"),
    ("bool_and", "bool_and"),
    ("bool_or", "bool_or"),
    ("count", "count"),
    ("histogram", "histogram"),
    ("max", "max"),
    ("mean", "avg"),
    ("median", "median"),
    ("min", "min"),
    ("mode", "mode"),
    ("stddev", "stddev"),
    ("stddev_pop", "stddev_pop"),
    ("stddev_samp", "stddev"),
    ("sum", "sum"),
    ("var_pop", "var_pop"),
    ("var_samp", "var_samp"),
];

/// All of them. `aggregate` finds an aggregate by its name.
pub(in crate::sql) fn functions(
    aggregate: impl Fn(&str) -> Option<Arc<AggregateUDF>>,
) -> Vec<ScalarUDF> {
    let one = |(name, called): (&str, &str)| {
        Some(ScalarUDF::from(OfLists {
            name: format!("list_{name}"),
            aliases: [format!("array_{name}")],
            aggregate: aggregate(called)?,
            signature: Signature::any(1, Volatility::Immutable),
        }))
    };
    AGGREGATES.into_iter().filter_map(one).collect()
}

#[derive(Debug)]
struct OfLists {
    name: String,
    aliases: [String; 1],
    aggregate: Arc<AggregateUDF>,
    signature: Signature,
}

impl PartialEq for OfLists {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OfLists {}

impl Hash for OfLists {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl OfLists {
    /// The elements of a list as the aggregate takes them.
    fn elements(&self, list: &DataType) -> DataFusionResult<FieldRef> {
        let of = match list {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::FixedSizeList(field, _) => field.data_type(),
            other => return plan_err!("{}() takes a list, not {}", self.name, type_name(other)),
        };
        let given = Arc::new(Field::new("value", of.clone(), true));
        let coerced = fields_with_udf(&[given], self.aggregate.as_ref())?;
        match coerced.as_slice() {
            [one] => Ok(Arc::clone(one)),
            _ => plan_err!("{}() takes one argument", self.name),
        }
    }
}

impl ScalarUDFImpl for OfLists {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> DataFusionResult<DataType> {
        let [list] = arguments else { return plan_err!("{}() takes a list", self.name) };
        if list.is_null() {
            return Ok(DataType::Null);
        }
        Ok(self.aggregate.return_field(&[self.elements(list)?])?.data_type().clone())
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [list] = given.args.as_slice() else {
            return plan_err!("{}() takes a list", self.name);
        };
        if list.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        }
        let elements = self.elements(&list.data_type())?;
        let of_lists = |lists: &ArrayRef| -> DataFusionResult<ArrayRef> {
            let item = Field::new_list_field(elements.data_type().clone(), true);
            let lists = cast(lists, &DataType::List(Arc::new(item)))?;
            let schema = Arc::new(Schema::new(vec![Arc::clone(&elements)]));
            let column = Arc::new(Column::new(elements.name(), 0));
            let aggregate = AggregateExprBuilder::new(Arc::clone(&self.aggregate), vec![column])
                .schema(schema)
                .alias(&self.name)
                .build()?;
            aggregated(lists.as_list::<i32>(), &aggregate)
        };
        Ok(match list {
            ColumnarValue::Array(lists) => ColumnarValue::Array(of_lists(lists)?),
            ColumnarValue::Scalar(list) => {
                let answer = of_lists(&list.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?)
            }
        })
    }
}

/// An answer for each list: null for one that is null, and that of no rows for an empty one.
fn aggregated(lists: &ListArray, aggregate: &AggregateFunctionExpr) -> DataFusionResult<ArrayRef> {
    let of_none = aggregate.create_accumulator()?.evaluate()?.to_array()?;
    // Groups have rows: DataFusion's states take that for granted.
    let (mut answers, mut places, mut groups) = (0, Vec::new(), Vec::new());
    for (at, length) in lists.offsets().lengths().enumerate() {
        let is_empty = length == 0 || lists.is_null(at);
        groups.extend(std::iter::repeat_n(answers, length));
        answers += usize::from(length > 0);
        places.push(match is_empty {
            false => Some(answers as u64),
            true => lists.is_valid(at).then_some(0),
        });
    }
    let of_groups = match aggregate.groups_accumulator_supported() && answers > 0 {
        true => {
            let first = lists.value_offsets().first().map_or(0, |first| *first as usize);
            let values = lists.values().slice(first, groups.len());
            let mut states = aggregate.create_groups_accumulator()?;
            states.update_batch(&[values], &groups, None, answers)?;
            states.evaluate(EmitTo::All)?
        }
        false => {
            let one = |list: ArrayRef| {
                let mut state = aggregate.create_accumulator()?;
                state.update_batch(&[list])?;
                state.evaluate()?.to_array()
            };
            let lengths = lists.offsets().lengths().enumerate();
            let filled = lengths.filter(|(_, length)| *length > 0);
            let each = filled.map(|(at, _)| one(lists.value(at)));
            let each = each.collect::<DataFusionResult<Vec<_>>>()?;
            match each.is_empty() {
                true => of_none.slice(0, 0),
                false => concat(&each.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
            }
        }
    };
    let all = concat(&[of_none.as_ref(), of_groups.as_ref()])?;
    Ok(take(&all, &UInt64Array::from(places), None)?)
}
