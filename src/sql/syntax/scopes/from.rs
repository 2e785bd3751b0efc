//! The columns of a FROM: those of its tables, merged where tables are joined by them.

use std::vec::IntoIter;

use datafusion::common::Column;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Join, JoinConstraint, JoinOperator, TableFactor,
    TableWithJoins, Value,
};

use crate::sql::syntax::folded;
use crate::sql::syntax::scopes::clauses;
use crate::sql::syntax::scopes::scope::{OutputColumn, Scope, key_position, only_part};

/// The tables and derived tables of a FROM, in its order.
pub(super) fn tables_of(from: &[TableWithJoins]) -> Vec<TableFactor> {
    let mut tables = Vec::new();
    for from in from {
        for table in std::iter::once(&from.relation).chain(from.joins.iter().map(|j| &j.relation)) {
            match table {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    tables.extend(tables_of(std::slice::from_ref(table_with_joins)));
                }
                other => tables.push(other.clone()),
            }
        }
    }
    tables
}

/// The columns of each of `count` tables, from the plan of `SELECT *` from their cross join; `None`
/// if the plan has an unexpected shape.
pub(super) fn of_tables(plan: &LogicalPlan, count: usize) -> Option<Vec<Vec<Column>>> {
    let LogicalPlan::Projection(all) = plan else { return None };
    let mut plan = all.input.as_ref();
    let mut tables = Vec::with_capacity(count);
    for _ in 1..count {
        let LogicalPlan::Join(join) = plan else { return None };
        tables.push(join.right.schema().columns());
        plan = &join.left;
    }
    tables.push(plan.schema().columns());
    tables.reverse();
    Some(tables)
}

/// Whether tables are joined by columns.
pub(in crate::sql) fn joins_by_columns(from: &[TableWithJoins]) -> bool {
    let nested = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, .. } => {
            joins_by_columns(std::slice::from_ref(table_with_joins))
        }
        _ => false,
    };
    let by_columns = |operator: &JoinOperator| match constraint(operator) {
        Some((constraint, _)) => {
            matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
        }
        None => false,
    };
    from.iter().any(|from| {
        let in_join = |join: &Join| by_columns(&join.join_operator) || nested(&join.relation);
        nested(&from.relation) || from.joins.iter().any(in_join)
    })
}

/// Gives the names in the conditions of joins their tables, makes joins by columns joins by
/// conditions, and collects the columns of a FROM. Returns whether the FROM was understood.
pub(super) fn resolve_from(
    from: &mut [TableWithJoins],
    tables: Vec<Vec<Column>>,
    scope: &mut Scope,
) -> DataFusionResult<bool> {
    let mut tables = tables.into_iter();
    let mut all = Vec::new();
    for from in from {
        let Some(columns) = joined(from, &mut tables, scope)? else { return Ok(false) };
        all.extend(columns);
    }
    scope.columns = all;
    Ok(true)
}

/// The columns of joined tables. The scope has them only while a condition is resolved.
fn joined(
    from: &mut TableWithJoins,
    tables: &mut IntoIter<Vec<Column>>,
    scope: &mut Scope,
) -> DataFusionResult<Option<Vec<OutputColumn>>> {
    let Some(mut all) = table_columns(&mut from.relation, tables, scope)? else { return Ok(None) };
    for join in &mut from.joins {
        let left = all.len();
        let Some(right) = table_columns(&mut join.relation, tables, scope)? else {
            return Ok(None);
        };
        all.extend(right);
        let Some((constraint, kept)) = constraint_mut(&mut join.join_operator) else { continue };
        let keys = match constraint {
            JoinConstraint::On(condition) => {
                scope.columns = all;
                clauses::resolve_names(condition, scope)?;
                all = std::mem::take(&mut scope.columns);
                None
            }
            JoinConstraint::Using(names) => {
                match names.iter().map(|name| only_part(name).map(folded)).collect() {
                    Some(keys) => Some(keys),
                    None => return Ok(None),
                }
            }
            JoinConstraint::Natural => Some(shared_names(&all, left)?),
            JoinConstraint::None => None,
        };
        let right = all.split_off(left);
        all = match keys {
            Some(keys) => {
                let Some((columns, condition)) = merged(all, right, &keys, kept)? else {
                    return Ok(None);
                };
                *constraint = JoinConstraint::On(condition);
                columns
            }
            None => match kept {
                Kept::LeftOnly => all,
                Kept::RightOnly => right,
                Kept::Left | Kept::Right | Kept::FirstKnown => {
                    all.extend(right);
                    all
                }
            },
        };
    }
    Ok(Some(all))
}

fn table_columns(
    table: &mut TableFactor,
    tables: &mut IntoIter<Vec<Column>>,
    scope: &mut Scope,
) -> DataFusionResult<Option<Vec<OutputColumn>>> {
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            joined(table_with_joins, tables, scope)
        }
        _ => Ok(tables.next().map(|columns| columns.into_iter().map(Into::into).collect())),
    }
}

/// The names that the columns from `left` on share with those before them, in any case where none
/// is the same.
fn shared_names(all: &[OutputColumn], left: usize) -> DataFusionResult<Vec<String>> {
    let (left, right) = all.split_at(left);
    let mut shared = Vec::new();
    for column in left {
        let is_alike = |other: &&OutputColumn| {
            other.is_alike(column.name()) && !left.iter().any(|it| it.shares_name_with(other))
        };
        if right.iter().any(|other| column.shares_name_with(other)) {
            shared.push(column.name().to_owned());
        } else if let Some(other) = right.iter().find(is_alike) {
            // An error if several are alike.
            key_position(left, other.name())?;
            shared.push(column.name().to_owned());
        }
    }
    Ok(shared)
}

/// The columns of a join by `keys`, the merged ones first, and its condition. `None` if a side has
/// no such column: DataFusion reports it.
fn merged(
    mut left: Vec<OutputColumn>,
    mut right: Vec<OutputColumn>,
    keys: &[String],
    kept: Kept,
) -> DataFusionResult<Option<(Vec<OutputColumn>, Expr)>> {
    let mut columns = Vec::new();
    let mut condition: Option<Expr> = None;
    for key in keys {
        let (one, other) = (key_position(&left, key)?, key_position(&right, key)?);
        let (Some(one), Some(other)) = (one, other) else { return Ok(None) };
        let side = |columns: &[OutputColumn], at: usize| columns.get(at).map(OutputColumn::plain);
        let (Some(first), Some(second)) = (side(&left, one), side(&right, other)) else {
            return Ok(None);
        };
        let equal = binary(first.clone(), BinaryOperator::Eq, second.clone());
        condition = Some(match condition {
            Some(others) => binary(others, BinaryOperator::And, equal),
            None => equal,
        });
        let merged = match kept {
            Kept::LeftOnly | Kept::RightOnly => continue,
            Kept::Left => first,
            Kept::Right => second,
            Kept::FirstKnown => first_known(first, second),
        };
        columns.push(left.remove(one).merged_with(right.remove(other), merged));
    }
    if kept != Kept::RightOnly {
        columns.extend(left);
    }
    if kept != Kept::LeftOnly {
        columns.extend(right);
    }
    // Tables that share no name are all joined with each other.
    let condition = condition.unwrap_or_else(|| Expr::value(Value::Boolean(true)));
    Ok(Some((columns, condition)))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The first of two that is not null. It becomes one CASE of all columns of a chain of joins: the
/// size of a CASE within another would double with each join.
fn first_known(left: Expr, right: Expr) -> Expr {
    let (mut conditions, last_of_left) = choices(left);
    let condition = Expr::IsNotNull(Box::new(last_of_left.clone()));
    conditions.push(CaseWhen { condition, result: last_of_left });
    let (of_right, last) = choices(right);
    conditions.extend(of_right);
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: Some(Box::new(last)),
    }
}

/// What a merged column is chosen from: what comes first, each if it is not null, and the last one.
fn choices(column: Expr) -> (Vec<CaseWhen>, Expr) {
    match column {
        Expr::Case { conditions, else_result: Some(last), .. } => (conditions, *last),
        other => (Vec::new(), other),
    }
}

/// Which columns a join has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Those of both sides; merged ones are the left side's.
    Left,
    /// Those of both sides; merged ones are the right side's.
    Right,
    /// Those of both sides; merged ones are the left side's unless it is null.
    FirstKnown,
    LeftOnly,
    RightOnly,
}

/// The constraint of a join, and the columns that it has, by reference or to be changed.
macro_rules! constraint_of {
    ($operator:expr) => {
        Some(match $operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::CrossJoin(constraint)
            | JoinOperator::StraightJoin(constraint)
            | JoinOperator::AsOf { constraint, .. }
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint) => (constraint, Kept::Left),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (constraint, Kept::Right)
            }
            JoinOperator::FullOuter(constraint) => (constraint, Kept::FirstKnown),
            JoinOperator::Semi(constraint)
            | JoinOperator::LeftSemi(constraint)
            | JoinOperator::Anti(constraint)
            | JoinOperator::LeftAnti(constraint) => (constraint, Kept::LeftOnly),
            JoinOperator::RightSemi(constraint) | JoinOperator::RightAnti(constraint) => {
                (constraint, Kept::RightOnly)
            }
            JoinOperator::CrossApply
            | JoinOperator::OuterApply
            | JoinOperator::ArrayJoin
            | JoinOperator::LeftArrayJoin
            | JoinOperator::InnerArrayJoin => return None,
        })
    };
}

fn constraint(operator: &JoinOperator) -> Option<(&JoinConstraint, Kept)> {
    constraint_of!(operator)
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<(&mut JoinConstraint, Kept)> {
    constraint_of!(operator)
}
