//! `*` and `a.*` as lists of columns, in the order of the standard: merged columns first, then the
//! others of the left table, then those of the right one.

use datafusion::common::Column;
use datafusion::sql::sqlparser::ast::{
    Select, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};

use crate::sql::syntax::folded;
use crate::sql::syntax::scopes::scope::{OutputColumn, only_part};

/// The list of a SELECT with its wildcards expanded to these columns, or to those of a table;
/// `None` if one cannot be.
pub(super) fn expanded(
    select: &Select,
    columns: &[OutputColumn],
    tables: &[Vec<Column>],
) -> Option<Vec<SelectItem>> {
    let mut items = Vec::new();
    for item in &select.projection {
        let expanded = match item {
            SelectItem::Wildcard(options) => selected(columns, options),
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => match only_part(name).map(folded) {
                Some(table) => selected(&of_table(&table, tables), options),
                None => None,
            },
            SelectItem::QualifiedWildcard(..) => None,
            other => Some(vec![other.clone()]),
        };
        match expanded {
            Some(expanded) => items.extend(expanded),
            None => return None,
        }
    }
    Some(items)
}

/// The columns of `a.*`, as they are in the table.
fn of_table(table: &str, tables: &[Vec<Column>]) -> Vec<OutputColumn> {
    let columns = tables.iter().flatten().cloned().map(OutputColumn::from);
    columns.filter(|column| column.is_of(table)).collect()
}

/// The columns of a wildcard. `None` if there are none, or it has options that are not written out:
/// DataFusion reports them.
fn selected(
    columns: &[OutputColumn],
    options: &WildcardAdditionalOptions,
) -> Option<Vec<SelectItem>> {
    let has_options = options.opt_ilike.is_some()
        || options.opt_exclude.is_some()
        || options.opt_except.is_some()
        || options.opt_replace.is_some()
        || options.opt_rename.is_some()
        || options.opt_alias.is_some();
    if columns.is_empty() || has_options {
        return None;
    }
    let span = options.wildcard_token.0.span;
    Some(columns.iter().map(|column| column.to_item(span)).collect())
}
