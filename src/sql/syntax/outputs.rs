//! The columns that a SELECT can name: those of its tables, merged where they are joined by names;
//! and `*` written out as them.

use datafusion::common::Column;
use datafusion::logical_expr::{Join as PlannedJoin, JoinType, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sql::syntax::folded;
use crate::sql::syntax::using_names::constraint;

/// What a table has, or several that are joined.
pub(in crate::sql) struct Output {
    column: Column,
    /// Whether it is of both sides of a join.
    pub(in crate::sql) is_merged: bool,
}

impl Output {
    pub(in crate::sql) fn is_named(&self, name: &str) -> bool {
        self.column.name == name
    }

    /// The table that it is of.
    pub(in crate::sql) fn table(&self) -> String {
        self.column
            .relation
            .as_ref()
            .map_or_else(|| "a subquery".to_owned(), |table| table.table().to_owned())
    }

    /// How it is written if it is of both sides.
    pub(in crate::sql) fn of_both(&self) -> Expr {
        self.written(Span::empty())
    }

    pub(in crate::sql) fn written(&self, place: Span) -> Expr {
        let span = if self.is_merged { Span::empty() } else { place };
        let ident = |value: &String| Ident { value: value.clone(), quote_style: Some('"'), span };
        let table = self.column.relation.as_ref().map(|table| table.to_vec()).unwrap_or_default();
        let mut parts: Vec<Ident> = table.iter().chain([&self.column.name]).map(ident).collect();
        match parts.len() {
            1 => Expr::Identifier(parts.remove(0)),
            _ => Expr::CompoundIdentifier(parts),
        }
    }
}

/// A SELECT list without `*`.
pub(in crate::sql) fn list(select: &Select, from: &LogicalPlan) -> Option<Vec<SelectItem>> {
    let mut items = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(options) => {
                items.extend(chosen(all_of(&select.from, from)?, options)?)
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                let [table] = name.0.as_slice() else { return None };
                let table = folded(table.as_ident()?);
                let is_own = |output: &Output| {
                    output
                        .column
                        .relation
                        .as_ref()
                        .is_some_and(|relation| relation.to_vec() == [table.as_str()])
                };
                let own: Vec<Output> = columns_of(from).into_iter().filter(is_own).collect();
                // Of a table that there is not, DataFusion says so.
                if own.is_empty() {
                    return None;
                }
                items.extend(chosen(own, options)?);
            }
            SelectItem::QualifiedWildcard(..) => return None,
            other => items.push(other.clone()),
        }
    }
    Some(items)
}

/// Columns without those that an EXCLUDE or EXCEPT names, and with those that a REPLACE gives. Each
/// name means one.
fn chosen(
    mut outputs: Vec<Output>,
    options: &WildcardAdditionalOptions,
) -> Option<Vec<SelectItem>> {
    if options.opt_ilike.is_some() || options.opt_rename.is_some() || options.opt_alias.is_some() {
        return None;
    }
    let mut excluded: Vec<&Ident> = Vec::new();
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => excluded.push(only_part(name)?),
        Some(ExcludeSelectItem::Multiple(names)) => {
            for name in names {
                excluded.push(only_part(name)?);
            }
        }
        None => {}
    }
    if let Some(except) = &options.opt_except {
        excluded.push(&except.first_element);
        excluded.extend(&except.additional_elements);
    }
    for name in excluded {
        take(&mut outputs, &folded(name))?;
    }
    let place = options.wildcard_token.0.span;
    let mut items: Vec<SelectItem> =
        outputs.iter().map(|output| SelectItem::UnnamedExpr(output.written(place))).collect();
    for replaced in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let name = folded(&replaced.column_name);
        let alias = Ident::with_quote('"', &name);
        *items.get_mut(position(&outputs, &name)?)? =
            SelectItem::ExprWithAlias { expr: replaced.expr.clone(), alias };
    }
    Some(items)
}

/// All that a FROM gives, in the order of the standard; `None` where the plan has another shape.
pub(in crate::sql) fn all_of(from: &[TableWithJoins], plan: &LogicalPlan) -> Option<Vec<Output>> {
    let (last, before) = from.split_last()?;
    if before.is_empty() {
        return joined(last, &last.joins, plan);
    }
    let join = join_of(plan)?;
    let mut all = all_of(before, &join.left)?;
    all.extend(joined(last, &last.joins, &join.right)?);
    Some(all)
}

/// What a table and the first `joins` beside it give.
fn joined(from: &TableWithJoins, joins: &[Join], plan: &LogicalPlan) -> Option<Vec<Output>> {
    let Some((last, before)) = joins.split_last() else { return table(&from.relation, plan) };
    let join = join_of(plan)?;
    let left = joined(from, before, &join.left)?;
    let right = table(&last.relation, &join.right)?;
    match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => return Some(left),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => return Some(right),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {}
    }
    let keys = match constraint(&last.join_operator) {
        Some((JoinConstraint::Using(names), _)) => {
            names.iter().map(|name| only_part(name).map(folded)).collect::<Option<_>>()?
        }
        Some((JoinConstraint::Natural, _)) => {
            let is_shared = |name: &String| right.iter().any(|output| output.column.name == *name);
            left.iter().map(|output| output.column.name.clone()).filter(is_shared).collect()
        }
        _ => Vec::new(),
    };
    merged(left, right, &keys)
}

/// The columns of both, then those of the left side and of the right one.
fn merged(mut left: Vec<Output>, mut right: Vec<Output>, keys: &[String]) -> Option<Vec<Output>> {
    let mut all = Vec::new();
    for key in keys {
        take(&mut right, key)?;
        all.push(Output { is_merged: true, ..take(&mut left, key)? });
    }
    all.extend(left);
    all.extend(right);
    Some(all)
}

fn table(table: &TableFactor, plan: &LogicalPlan) -> Option<Vec<Output>> {
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            joined(table_with_joins, &table_with_joins.joins, plan)
        }
        _ => Some(columns_of(plan)),
    }
}

pub(in crate::sql) fn columns_of(plan: &LogicalPlan) -> Vec<Output> {
    plan.schema().columns().into_iter().map(|column| Output { column, is_merged: false }).collect()
}

fn join_of(plan: &LogicalPlan) -> Option<&PlannedJoin> {
    match plan {
        LogicalPlan::Join(join) => Some(join),
        // The condition of a join by what has no hash.
        LogicalPlan::Filter(filter) => join_of(&filter.input),
        _ => None,
    }
}

/// Takes the one column of a name out.
fn take(outputs: &mut Vec<Output>, name: &str) -> Option<Output> {
    let at = position(outputs, name)?;
    Some(outputs.remove(at))
}

/// Where the one column of a name stands.
fn position(outputs: &[Output], name: &str) -> Option<usize> {
    let mut named = outputs.iter().enumerate().filter(|(_, output)| output.column.name == name);
    let (at, _) = named.next()?;
    named.next().is_none().then_some(at)
}

fn only_part(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}
