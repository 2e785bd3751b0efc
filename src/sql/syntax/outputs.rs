//! The columns that a SELECT can name: those of its tables, merged where tables are joined by them.
//! Wildcards are expanded to these columns.

use datafusion::common::Column;
use datafusion::logical_expr::{Join as PlannedJoin, JoinType, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, Join, JoinConstraint, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::sql::syntax::folded;
use crate::sql::syntax::using_names::constraint;

/// A column of a table, or of several joined tables.
pub(in crate::sql) struct OutputColumn {
    column: Column,
    /// Whether both sides of a join are joined by it.
    pub(in crate::sql) is_merged: bool,
}

impl OutputColumn {
    pub(in crate::sql) fn is_named(&self, name: &str) -> bool {
        self.column.name == name
    }

    /// The name of its table.
    pub(in crate::sql) fn table(&self) -> String {
        self.column
            .relation
            .as_ref()
            .map_or_else(|| "a subquery".to_owned(), |table| table.table().to_owned())
    }

    /// The expression for a merged column.
    pub(in crate::sql) fn merged_expr(&self) -> Expr {
        self.to_expr(Span::empty())
    }

    /// The qualified name. Only that of a merged column has an empty span.
    fn to_expr(&self, span: Span) -> Expr {
        let span = if self.is_merged { Span::empty() } else { span };
        let ident = |value: &String| Ident { value: value.clone(), quote_style: Some('"'), span };
        let table = self.column.relation.as_ref().map(|table| table.to_vec()).unwrap_or_default();
        let mut parts: Vec<Ident> = table.iter().chain([&self.column.name]).map(ident).collect();
        match parts.len() {
            1 => Expr::Identifier(parts.remove(0)),
            _ => Expr::CompoundIdentifier(parts),
        }
    }
}

/// The SELECT list with its wildcards expanded; `None` if one cannot be.
pub(in crate::sql) fn expand_list(select: &Select, from: &LogicalPlan) -> Option<Vec<SelectItem>> {
    let mut items = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(options) => {
                items.extend(select_columns(all_columns(&select.from, from)?, options)?)
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                let [table] = name.0.as_slice() else { return None };
                let table = folded(table.as_ident()?);
                let belongs = |output: &OutputColumn| {
                    output
                        .column
                        .relation
                        .as_ref()
                        .is_some_and(|relation| relation.to_vec() == [table.as_str()])
                };
                let own: Vec<OutputColumn> = columns_of(from).into_iter().filter(belongs).collect();
                // If there is no such table, DataFusion reports it.
                if own.is_empty() {
                    return None;
                }
                items.extend(select_columns(own, options)?);
            }
            SelectItem::QualifiedWildcard(..) => return None,
            other => items.push(other.clone()),
        }
    }
    Some(items)
}

/// The columns of a wildcard: without those of EXCLUDE or EXCEPT, and with the expressions of
/// REPLACE. `None` if one of their names is unknown or ambiguous.
fn select_columns(
    mut outputs: Vec<OutputColumn>,
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
    let span = options.wildcard_token.0.span;
    let mut items: Vec<SelectItem> =
        outputs.iter().map(|output| SelectItem::UnnamedExpr(output.to_expr(span))).collect();
    for replaced in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let name = folded(&replaced.column_name);
        let alias = Ident::with_quote('"', &name);
        *items.get_mut(position(&outputs, &name)?)? =
            SelectItem::ExprWithAlias { expr: replaced.expr.clone(), alias };
    }
    Some(items)
}

/// All columns of a FROM, in the order of the standard; `None` if the plan has an unexpected shape.
pub(in crate::sql) fn all_columns(
    from: &[TableWithJoins],
    plan: &LogicalPlan,
) -> Option<Vec<OutputColumn>> {
    let (last, before) = from.split_last()?;
    if before.is_empty() {
        return joined(last, &last.joins, plan);
    }
    let join = join_of(plan)?;
    let mut all = all_columns(before, &join.left)?;
    all.extend(joined(last, &last.joins, &join.right)?);
    Some(all)
}

fn joined(from: &TableWithJoins, joins: &[Join], plan: &LogicalPlan) -> Option<Vec<OutputColumn>> {
    let Some((last, before)) = joins.split_last() else {
        return table_columns(&from.relation, plan);
    };
    let join = join_of(plan)?;
    let left = joined(from, before, &join.left)?;
    let right = table_columns(&last.relation, &join.right)?;
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

/// The merged columns, then the others of the left side, then those of the right side.
fn merged(
    mut left: Vec<OutputColumn>,
    mut right: Vec<OutputColumn>,
    keys: &[String],
) -> Option<Vec<OutputColumn>> {
    let mut all = Vec::new();
    for key in keys {
        take(&mut right, key)?;
        all.push(OutputColumn { is_merged: true, ..take(&mut left, key)? });
    }
    all.extend(left);
    all.extend(right);
    Some(all)
}

fn table_columns(table: &TableFactor, plan: &LogicalPlan) -> Option<Vec<OutputColumn>> {
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            joined(table_with_joins, &table_with_joins.joins, plan)
        }
        _ => Some(columns_of(plan)),
    }
}

fn columns_of(plan: &LogicalPlan) -> Vec<OutputColumn> {
    plan.schema()
        .columns()
        .into_iter()
        .map(|column| OutputColumn { column, is_merged: false })
        .collect()
}

fn join_of(plan: &LogicalPlan) -> Option<&PlannedJoin> {
    match plan {
        LogicalPlan::Join(join) => Some(join),
        // A join by keys that cannot be hashed has its condition above.
        LogicalPlan::Filter(filter) => join_of(&filter.input),
        _ => None,
    }
}

/// Removes the only column of a name.
fn take(outputs: &mut Vec<OutputColumn>, name: &str) -> Option<OutputColumn> {
    let at = position(outputs, name)?;
    Some(outputs.remove(at))
}

/// The index of the only column of a name.
fn position(outputs: &[OutputColumn], name: &str) -> Option<usize> {
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
