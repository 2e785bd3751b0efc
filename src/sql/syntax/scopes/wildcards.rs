//! `*` and `a.*` as lists of columns, in the order of the standard: merged columns first, then the
//! others of the left table, then those of the right one.

use datafusion::common::Column;
use datafusion::error::Result as DataFusionResult;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind,
    WildcardAdditionalOptions,
};

use crate::sql::syntax::folded;
use crate::sql::syntax::scopes::scope::{OutputColumn, only_part, position};

/// The list of a SELECT with its wildcards expanded to these columns, or to those of a table;
/// `None` if one cannot be.
pub(super) fn expanded(
    select: &Select,
    columns: &[OutputColumn],
    tables: &[Vec<Column>],
) -> DataFusionResult<Option<Vec<SelectItem>>> {
    let mut items = Vec::new();
    for item in &select.projection {
        let expanded = match item {
            SelectItem::Wildcard(options) => selected(columns.to_vec(), options)?,
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => match only_part(name).map(folded) {
                Some(table) => selected(of_table(&table, tables), options)?,
                None => None,
            },
            SelectItem::QualifiedWildcard(..) => None,
            other => Some(vec![other.clone()]),
        };
        match expanded {
            Some(expanded) => items.extend(expanded),
            None => return Ok(None),
        }
    }
    Ok(Some(items))
}

/// The columns of `a.*`, as they are in the table.
fn of_table(table: &str, tables: &[Vec<Column>]) -> Vec<OutputColumn> {
    let columns = tables.iter().flatten().cloned().map(OutputColumn::from);
    columns.filter(|column| column.is_of(table)).collect()
}

/// The columns of a wildcard: without those of EXCLUDE or EXCEPT, and with the expressions of
/// REPLACE. `None` if there are none, or a name is unknown: DataFusion reports it.
fn selected(
    mut columns: Vec<OutputColumn>,
    options: &WildcardAdditionalOptions,
) -> DataFusionResult<Option<Vec<SelectItem>>> {
    if columns.is_empty()
        || options.opt_ilike.is_some()
        || options.opt_rename.is_some()
        || options.opt_alias.is_some()
    {
        return Ok(None);
    }
    let mut excluded: Vec<Option<&Ident>> = Vec::new();
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => excluded.push(only_part(name)),
        Some(ExcludeSelectItem::Multiple(names)) => excluded.extend(names.iter().map(only_part)),
        None => {}
    }
    if let Some(except) = &options.opt_except {
        excluded.push(Some(&except.first_element));
        excluded.extend(except.additional_elements.iter().map(Some));
    }
    for name in excluded {
        let Some(name) = name.map(folded) else { return Ok(None) };
        let Some(at) = position(&columns, &name)? else { return Ok(None) };
        columns.remove(at);
    }
    let span = options.wildcard_token.0.span;
    let mut items: Vec<SelectItem> = columns.iter().map(|column| column.to_item(span)).collect();
    for replaced in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        let name = folded(&replaced.column_name);
        let Some(item) = position(&columns, &name)?.and_then(|at| items.get_mut(at)) else {
            return Ok(None);
        };
        let alias = Ident::with_quote('"', &name);
        *item = SelectItem::ExprWithAlias { expr: replaced.expr.clone(), alias };
    }
    Ok(Some(items))
}
