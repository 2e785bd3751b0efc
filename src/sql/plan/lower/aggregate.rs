//! Aggregates as fragments.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::{
    AggregateFunction as Call, AggregateFunctionParams, Case, NullTreatment,
};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, logical_plan};

use super::expression::Compiler;
use super::source::{Input, Refusal, without_alias};
use crate::expr::Expression;
use crate::query::fragment::direction;
use crate::query::words::is_ranked;
use crate::query::{Aggregate, AggregateFunction, Fragment, OrderBy, Output};
use crate::sql::run::node::FragmentNode;

/// The fragment for `plan`, which is `aggregate`.
pub(super) fn lower(
    aggregate: &logical_plan::Aggregate,
    plan: &LogicalPlan,
    props: &ExecutionProps,
) -> Result<FragmentNode, Refusal> {
    let (group, called) = (&aggregate.group_expr, &aggregate.aggr_expr);
    if group.iter().any(|key| matches!(key, Expr::GroupingSet(_))) {
        return Err("grouping sets".into());
    }
    let fields = aggregate.schema.fields();
    if fields.len() != group.len() + called.len() || fields.is_empty() {
        return Err("an unusual schema".into());
    }
    let input = Input::new(&aggregate.input)?;
    let mut compiler = Compiler::new(&input, props);
    let conditions = compiler.conditions()?;
    let keys = group.iter().map(|key| self::key(&mut compiler, key)).collect::<Result<_, _>>()?;
    let aggregates = called.iter().zip(fields.iter().skip(group.len()));
    let aggregates = aggregates
        .map(|(call, field)| self::call(&mut compiler, call, field, group))
        .collect::<Result<_, _>>()?;
    let fragment = Fragment {
        columns: compiler.columns(),
        conditions,
        output: Output::Aggregate { keys, aggregates, first: None },
        schema: Arc::clone(aggregate.schema.inner()),
        states: false,
    };
    Ok(FragmentNode::new(fragment, &input.table, plan.clone(), Vec::new()))
}

fn key(compiler: &mut Compiler<'_>, key: &Expr) -> Result<Expression, Refusal> {
    let key = compiler.expression(key)?;
    if is_comparable(&key.data_type) || key.data_type == DataType::Null {
        return Ok(key);
    }
    Err(format!("a key of type {}", key.data_type))
}

/// Whether values of the type can be keys and compared.
pub(super) fn is_comparable(data_type: &DataType) -> bool {
    is_ordered(data_type)
        || matches!(
            data_type,
            DataType::Boolean | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        )
}

/// Whether fragments compute min() and max() of this type.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType as T;
    data_type.is_integer()
        || matches!(
            data_type,
            T::Float32
                | T::Float64
                | T::Boolean
                | T::Date32
                | T::Timestamp(..)
                | T::Time32(_)
                | T::Time64(_)
                | T::Decimal128(..)
                | T::Utf8
                | T::LargeUtf8
                | T::Utf8View
        )
}

fn call(
    compiler: &mut Compiler<'_>,
    call: &Expr,
    field: &Field,
    group: &[Expr],
) -> Result<Aggregate, Refusal> {
    let Expr::AggregateFunction(Call { func, params }) = without_alias(call) else {
        return Err(format!("an expression of kind {}", call.variant_name()));
    };
    let name = func.name();
    if PICKING.contains(&name) {
        return picked(compiler, name, params, field, group);
    }
    if !params.order_by.is_empty() {
        return Err(format!("ORDER BY in {name}"));
    }
    if params.null_treatment.is_some() {
        return Err(format!("RESPECT or IGNORE NULLS in {name}"));
    }
    let function = match name {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Average,
        // False is less than true, and null counts for neither.
        "min" | "bool_and" => AggregateFunction::Min,
        "max" | "bool_or" => AggregateFunction::Max,
        "var" => AggregateFunction::Variance { sample: true },
        "var_pop" => AggregateFunction::Variance { sample: false },
        "stddev" => AggregateFunction::Deviation { sample: true },
        "stddev_pop" => AggregateFunction::Deviation { sample: false },
        // An exact count is a valid approximation.
        "approx_distinct" => AggregateFunction::Count,
        other => return Err(format!("the aggregate {other}")),
    };
    let [argument] = params.args.as_slice() else {
        return Err(format!("{name} of several values"));
    };
    let input = match without_alias(argument) {
        Expr::Literal(value, _) if name == "count" && !value.is_null() && !params.distinct => None,
        argument => Some(compiler.expression(argument)?),
    };
    let distinct = params.distinct || name == "approx_distinct";
    if let Some(input) = &input {
        check_argument(function, name, &input.data_type, distinct)?;
    }
    let filter = params.filter.as_deref().map(|filter| compiler.expression(filter)).transpose()?;
    // The minimum of the distinct values is the minimum of all.
    let distinct = distinct && function == AggregateFunction::Count;
    let text = text(name, params.distinct && distinct, input.as_ref(), filter.as_ref());
    let (input, filter) = match params.filter.as_deref().filter(|_| distinct) {
        // Values that the filter rejects become null, and null is not counted.
        Some(filter) => (Some(compiler.expression(&if_passes(filter, argument))?), None),
        None => (input, filter),
    };
    Ok(Aggregate {
        function,
        input,
        filter,
        distinct,
        order: None,
        data_type: field.data_type().clone(),
        text: text.into(),
    })
}

/// The functions that take the value of one row.
const PICKING: &[&str] = &["first_value", "last_value"];

/// The value of the first row of an order. The last one is the first of the opposite order.
fn picked(
    compiler: &mut Compiler<'_>,
    name: &str,
    params: &AggregateFunctionParams,
    field: &Field,
    group: &[Expr],
) -> Result<Aggregate, Refusal> {
    let [argument] = params.args.as_slice() else {
        return Err(format!("{name} of several values"));
    };
    if params.distinct {
        return Err(format!("{name} of distinct values"));
    }
    let is_last = name == "last_value";
    // Rows of a group do not differ in its keys.
    let is_key =
        |by: &SortExpr| group.iter().any(|key| without_alias(key) == without_alias(&by.expr));
    let mut by = params.order_by.iter().filter(|by| !is_key(by));
    let (by, others) = (by.next(), by.next());
    if others.is_some() {
        return Err(format!("an ORDER BY of several keys in {name}"));
    }
    let argument = without_alias(argument);
    let input = compiler.expression(argument)?;
    let mut called = input.text.to_string();
    let order = by.map(|by| {
        let expression = compiler.expression(&by.expr)?;
        if !is_ranked(&expression.data_type) {
            return Err(format!("{name} by a key of type {}", expression.data_type));
        }
        let (descending, nulls_first) = (by.asc == is_last, by.nulls_first != is_last);
        called += &format!(" ORDER BY {}", direction(&expression.text, !by.asc, by.nulls_first));
        Ok(OrderBy { expression, descending, nulls_first })
    });
    let order = order.transpose()?;
    let mut ignore_nulls = match params.null_treatment {
        Some(NullTreatment::IgnoreNulls) => {
            called += " IGNORE NULLS";
            true
        }
        Some(NullTreatment::RespectNulls) | None => false,
    };
    let mut filter =
        params.filter.as_deref().map(|filter| compiler.expression(filter)).transpose()?;
    let text = match &filter {
        Some(filter) => format!("{name}({called}) FILTER (WHERE {})", filter.text),
        None => format!("{name}({called})"),
    };
    // What `arg_max` says of nulls needs no look at the values by themselves.
    let mut ignore_null_keys = false;
    if let Some(parts) = params.filter.as_deref().map(split_conjunction) {
        let leaves_out = |part: &Expr, of: Option<&Expr>| match part {
            Expr::IsNotNull(it) => of.is_some_and(|of| without_alias(it) == without_alias(of)),
            _ => false,
        };
        let key = by.map(|by| &by.expr);
        let is_known = |part: &&Expr| leaves_out(part, Some(argument)) || leaves_out(part, key);
        if parts.iter().all(is_known) {
            ignore_nulls |= parts.iter().any(|part| leaves_out(part, Some(argument)));
            ignore_null_keys = parts.iter().any(|part| leaves_out(part, key));
            filter = None;
        }
    }
    // Of equal rows the first one is taken in both directions, but of all rows without groups,
    // and in no order, the last one.
    let last = is_last && (params.order_by.is_empty() || group.is_empty());
    let function = AggregateFunction::Picked { ignore_nulls, ignore_null_keys, last };
    Ok(Aggregate {
        function,
        input: Some(input),
        filter,
        distinct: false,
        order,
        data_type: field.data_type().clone(),
        text: text.into(),
    })
}

/// `argument` where `filter` holds, else null.
fn if_passes(filter: &Expr, argument: &Expr) -> Expr {
    let when = (Box::new(filter.clone()), Box::new(without_alias(argument).clone()));
    Expr::Case(Case { expr: None, when_then_expr: vec![when], else_expr: None })
}

fn check_argument(
    function: AggregateFunction,
    name: &str,
    data_type: &DataType,
    distinct: bool,
) -> Result<(), Refusal> {
    use DataType as T;
    let accepted = match function {
        AggregateFunction::Count => !distinct || is_comparable(data_type),
        AggregateFunction::Sum => {
            matches!(data_type, T::Int64 | T::UInt64 | T::Float64 | T::Decimal128(..))
        }
        AggregateFunction::Average => {
            matches!(data_type, T::Int64 | T::Float64 | T::Decimal128(..))
        }
        AggregateFunction::Variance { .. } | AggregateFunction::Deviation { .. } => {
            *data_type == T::Float64
        }
        AggregateFunction::Min | AggregateFunction::Max => is_ordered(data_type),
        // These have an order, and come another way.
        AggregateFunction::Picked { .. } => false,
    };
    if !accepted {
        return Err(format!("{name} of type {data_type}"));
    }
    let same = matches!(
        function,
        AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max
    );
    if distinct && !same {
        return Err(format!("{name} of distinct values"));
    }
    Ok(())
}

fn text(
    name: &str,
    distinct: bool,
    input: Option<&Expression>,
    filter: Option<&Expression>,
) -> String {
    let distinct = if distinct { "DISTINCT " } else { "" };
    let input = input.map_or("*", |input| &*input.text);
    match filter {
        Some(filter) => format!("{name}({distinct}{input}) FILTER (WHERE {})", filter.text),
        None => format!("{name}({distinct}{input})"),
    }
}
