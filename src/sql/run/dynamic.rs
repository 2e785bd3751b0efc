//! Filters that operators above a scan find out while they run: the keys of a join's smaller side,
//! the worst of the first rows found so far, the results of subqueries.
//!
//! Where this stands on the road of a query: DataFusion's physical optimizer pushes them down once
//! the plan is made, when they are still empty. Before each block the scan reads their current
//! value and applies it like a WHERE.
//!
//! They are hints, and one that might fail is left out. A comparison with the result of a subquery
//! is pushed down for good: no operator above tests it again. Where the manifest proves that rows
//! are stored in the order that a sort asks for, or in its opposite, the scan promises that order
//! and reads from that end.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as Name, DataFusionError};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::{BinaryExpr as Binary, Cast, ColumnarValue, Expr, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{
    DynamicFilterTracking, PhysicalExpr, ScalarFunctionExpr, split_conjunction,
};
use datafusion::physical_expr_common::physical_expr::{
    is_volatile, snapshot_generation, snapshot_physical_expr,
};
use datafusion::scalar::ScalarValue;

use crate::expr::{Expression, Operand, Predicate, Traits};
use crate::query::Condition;
use crate::sql::convert::{PhysicalFunction, to_predicate};
use crate::sql::run::in_numbers::{InNumbers, NumberSet};
use crate::sql::run::number_sets::as_set;
use crate::sql::run::table::StoreTable;
use crate::sql::walks::is_comparison;

/// Longer lists are not held against zone maps; their bounds are.
const MAX_LIST: usize = 256;

/// The filters that a scan was handed.
#[derive(Clone, Debug, Default)]
pub(crate) struct DynamicFilters(Vec<(Arc<dyn PhysicalExpr>, Duty)>);

/// Whether somebody relies on a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Its owner tests rows once more: what might fail, or cannot be said, is left out.
    Hint,
    /// It was a part of a WHERE that needs the result of a subquery, and nobody else tests it.
    Exact,
}

impl Duty {
    /// What a filter is to a scan; `None` of those that it leaves to others.
    pub(crate) fn of(filter: &Arc<dyn PhysicalExpr>) -> Option<Duty> {
        let is_subquery = |expr: &Arc<dyn PhysicalExpr>| Ok(expr.is::<ScalarSubqueryExpr>());
        if DynamicFilterTracking::classify(filter).contains_dynamic_filter() {
            Some(Duty::Hint)
        } else if filter.exists(is_subquery).unwrap_or(false) && !is_volatile(filter) {
            Some(Duty::Exact)
        } else {
            None
        }
    }
}

impl DynamicFilters {
    /// The filters as they were handed down.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.0.iter().map(|(filter, _)| filter)
    }

    /// Visits the filters until `f` has seen enough.
    pub(crate) fn visit(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DataFusionResult<TreeNodeRecursion>,
    ) -> DataFusionResult<TreeNodeRecursion> {
        let mut visited = TreeNodeRecursion::Continue;
        for filter in self.iter() {
            visited = f(filter)?;
            if visited == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(visited)
    }

    /// These and more.
    pub(crate) fn with(&self, more: Vec<(Arc<dyn PhysicalExpr>, Duty)>) -> Self {
        DynamicFilters(self.0.iter().cloned().chain(more).collect())
    }

    /// Those on which somebody relies.
    pub(crate) fn exact(&self) -> Self {
        DynamicFilters(self.0.iter().filter(|(_, duty)| *duty == Duty::Exact).cloned().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number that changes whenever one of the filters does.
    pub(crate) fn generation(&self) -> u64 {
        self.iter().map(snapshot_generation).fold(0, u64::wrapping_add)
    }

    /// What the filters are now, as conditions on the columns of a scan.
    pub(crate) fn conditions(
        &self,
        table: &StoreTable,
        schema: &Schema,
    ) -> DataFusionResult<Vec<Condition>> {
        let mut conditions = Vec::new();
        for (filter, duty) in &self.0 {
            let found = now(filter, *duty, table, schema);
            match duty {
                Duty::Exact => conditions.extend(found?),
                Duty::Hint => conditions.extend(found.into_iter().flatten()),
            }
        }
        Ok(conditions)
    }
}

impl fmt::Display for DynamicFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", texts.join(", "))
    }
}

/// What one filter is now, part by part.
fn now(
    filter: &Arc<dyn PhysicalExpr>,
    duty: Duty,
    table: &StoreTable,
    schema: &Schema,
) -> DataFusionResult<Vec<Condition>> {
    let filter = snapshot_physical_expr(Arc::clone(filter))?;
    let mut parts = split_conjunction(&filter);
    if duty == Duty::Exact {
        return parts.into_iter().map(|part| condition(part, table, schema)).collect();
    }
    let mut conditions = Vec::new();
    while let Some(part) = parts.first() {
        let inputs = inputs(part);
        let alike = match inputs.len() {
            1 => parts.extract_if(.., |part| self::inputs(part) == inputs).collect(),
            _ => vec![parts.remove(0)],
        };
        let mut said = Vec::with_capacity(alike.len());
        for part in alike {
            if says_something(part, schema)? {
                said.push(condition(part, table, schema)?);
            }
        }
        let is_set = |said: &Condition| matches!(said.predicate, Predicate::InSet { .. });
        match said.iter().any(is_set) {
            true => conditions.extend(said),
            false => match as_set(&said, table, schema)? {
                Some(set) => conditions.push(set),
                None => conditions.extend(said),
            },
        }
    }
    Ok(conditions)
}

/// The columns that a part reads.
fn inputs(part: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut inputs: Vec<usize> = collect_columns(part).iter().map(Column::index).collect();
    inputs.sort_unstable();
    inputs
}

/// A part of a filter.
fn condition(
    part: &Arc<dyn PhysicalExpr>,
    table: &StoreTable,
    schema: &Schema,
) -> DataFusionResult<Condition> {
    let inputs = inputs(part);
    let schema = Arc::new(schema.project(&inputs)?);
    let physical = reassign_expr_columns(Arc::clone(part), &schema)?;
    let compiled = PhysicalFunction::new(physical, &schema)?;
    let expression = Expression {
        inputs,
        data_type: compiled.data_type().clone(),
        function: Some(Arc::new(compiled)),
        traits: Traits::default(),
        choice: None,
        text: part.to_string().into(),
    };
    let logical = passes(part);
    let predicate = match in_set(part, table) {
        Some(predicate) => predicate,
        None => to_predicate(&logical, table.snapshot().schema()),
    };
    Ok(Condition {
        partitions: table.partition_keys().predicate(&logical),
        ..Condition::new(expression, predicate)
    })
}

/// Of the numbers of a join's key, that a stored column is one of them.
fn in_set(part: &Arc<dyn PhysicalExpr>, table: &StoreTable) -> Option<Predicate> {
    let part = part.downcast_ref::<InNumbers>()?;
    let NumberSet::Bits(set) = &part.numbers.set else { return None };
    let name = part.column.downcast_ref::<Column>()?.name();
    let stored = table.snapshot().schema();
    let known = stored.position(name).and_then(|at| stored.columns().get(at))?;
    if known.data_type.to_arrow() != part.data_type {
        return None;
    }
    let operand = Operand { column: known.id, data_type: known.data_type.clone() };
    Some(Predicate::InSet { operand, set: Arc::clone(set) })
}

/// Whether a part of a hint leaves rows out, but none that its owner would keep, and cannot fail
/// for one that something between the scan and the owner leaves out.
fn says_something(part: &Arc<dyn PhysicalExpr>, schema: &Schema) -> DataFusionResult<bool> {
    let says = passes(part) != Expr::Literal(true.into(), None);
    Ok(says && !might_fail(part, schema)?)
}

/// What must be true of a row that passes a part of a filter. Below NOT, IS NULL and the like this
/// would not do: what is said here of a CASE may be false where the CASE is null.
fn passes(part: &Arc<dyn PhysicalExpr>) -> Expr {
    let Some(case) = part.downcast_ref::<CaseExpr>() else { return logical(part) };
    // A join has a result for each part of its keys, and at least one of them is true.
    let results = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
    let any = results.map(logical).reduce(Expr::or);
    any.map_or_else(unknown, |any| any.and(unknown()))
}

/// A filter as an expression of statements; what it has no expression for is a parameter, whose
/// value nobody knows.
fn logical(expr: &Arc<dyn PhysicalExpr>) -> Expr {
    let inner = |inner: &Arc<dyn PhysicalExpr>| Box::new(logical(inner));
    if let Some(column) = expr.downcast_ref::<Column>() {
        Expr::Column(Name::new_unqualified(column.name()))
    } else if let Some(literal) = expr.downcast_ref::<Literal>() {
        Expr::Literal(literal.value().clone(), None)
    } else if let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>() {
        result(subquery).map_or_else(unknown, |value| Expr::Literal(value, None))
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        Expr::BinaryExpr(Binary::new(inner(binary.left()), *binary.op(), inner(binary.right())))
    } else if let Some(not) = expr.downcast_ref::<NotExpr>() {
        Expr::Not(inner(not.arg()))
    } else if let Some(is) = expr.downcast_ref::<IsNullExpr>() {
        Expr::IsNull(inner(is.arg()))
    } else if let Some(is) = expr.downcast_ref::<IsNotNullExpr>() {
        Expr::IsNotNull(inner(is.arg()))
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        Expr::Cast(Cast::new(inner(cast.expr()), cast.cast_type().clone()))
    } else if let Some(list) =
        expr.downcast_ref::<InListExpr>().filter(|list| list.len() <= MAX_LIST)
    {
        let values = list.list().iter().map(logical).collect();
        Expr::InList(InList::new(inner(list.expr()), values, list.negated()))
    } else if let Some(part) = expr.downcast_ref::<InNumbers>() {
        of_numbers(part).unwrap_or_else(unknown)
    } else {
        unknown()
    }
}

/// What must be true of a column with the numbers of a join's key.
fn of_numbers(part: &InNumbers) -> Option<Expr> {
    let column = logical(&part.column);
    let value = |number: i64| Some(Expr::Literal(part.scalar(number)?, None));
    if let Some(few) = &part.numbers.few {
        let list = few.iter().map(|number| value(*number)).collect::<Option<Vec<_>>>()?;
        return Some(Expr::InList(InList::new(Box::new(column), list, false)));
    }
    let (least, greatest) = (value(part.numbers.least)?, value(part.numbers.greatest)?);
    let between = column.clone().gt_eq(least).and(column.lt_eq(greatest));
    Some(match part.numbers.set {
        NumberSet::Range => between,
        NumberSet::Bits(_) | NumberSet::Sparse(_) => between.and(unknown()),
    })
}

fn unknown() -> Expr {
    Expr::Placeholder(Placeholder::new_with_field(String::new(), None))
}

/// The result of a subquery, once it has run.
fn result(subquery: &ScalarSubqueryExpr) -> Option<ScalarValue> {
    match subquery.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty()))) {
        Ok(ColumnarValue::Scalar(value)) => Some(value),
        _ => None,
    }
}

/// Whether a row could make it fail.
fn might_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> DataFusionResult<bool> {
    let mut might = false;
    expr.apply(|expr| {
        might = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            // The last to find a row's part of a join's keys.
            let routing = *binary.op() == Operator::Modulo && binary.right().is::<Literal>();
            !routing && !is_comparison(*binary.op()) && !binary.op().is_logic_operator()
        } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            !CastExpr::check_bigger_cast(cast.cast_type(), &cast.expr().data_type(schema)?)
        } else if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            function.name() != "struct"
        } else {
            expr.is::<NegativeExpr>() || expr.is::<LikeExpr>()
        };
        Ok::<_, DataFusionError>(if might {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(might)
}
