//! What the names of a SELECT can mean.

use datafusion::common::{Column, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, SelectItem};
use datafusion::sql::sqlparser::tokenizer::Span;

/// The columns that the names of a SELECT can mean.
pub(super) struct Scope {
    /// All columns of its FROM, in the order of the standard.
    pub(super) columns: Vec<OutputColumn>,
    /// Whether the SELECT is in a subquery that can refer to the rows around it.
    pub(super) is_inner: bool,
    /// Whether this subquery is in a SELECT that joins by columns. All names that it knows then get
    /// their tables, so that those without are of the SELECTs around it.
    pub(super) is_in_merging: bool,
    /// Whether that has been done in the subqueries of this SELECT.
    pub(super) knows_subqueries: bool,
}

/// A column of a table, or of several tables that are joined by it.
#[derive(Clone)]
pub(super) struct OutputColumn {
    /// The column; of a merged one, that of the leftmost table.
    pub(super) column: Column,
    /// What a merged column is.
    pub(super) merged: Option<Expr>,
    /// The other spellings that a merged column has in the tables.
    pub(super) spellings: Vec<String>,
}

impl OutputColumn {
    pub(super) fn name(&self) -> &str {
        &self.column.name
    }

    /// Whether it has this name in a table.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name() == name || self.spellings.iter().any(|spelling| spelling == name)
    }

    /// The same in any case.
    pub(super) fn is_alike(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
            || (!name.is_ascii() && self.name().to_lowercase() == name.to_lowercase())
    }

    /// Whether both have a name in common.
    pub(super) fn shares_name_with(&self, other: &OutputColumn) -> bool {
        let mut names = std::iter::once(&self.column.name).chain(&self.spellings);
        names.any(|name| other.is_named(name))
    }

    /// This column, merged with that of another table into an expression.
    pub(super) fn merged_with(self, other: OutputColumn, merged: Expr) -> OutputColumn {
        let mut column = OutputColumn { merged: Some(merged), ..self };
        for name in std::iter::once(other.column.name).chain(other.spellings) {
            if !column.is_named(&name) {
                column.spellings.push(name);
            }
        }
        column
    }

    /// The name of its table.
    pub(super) fn table(&self) -> String {
        let relation = self.column.relation.as_ref();
        relation.map_or_else(|| "a subquery".to_owned(), |table| table.table().to_owned())
    }

    /// Whether `a.*` has it, where `a` is this name.
    pub(super) fn is_of(&self, table: &str) -> bool {
        self.column.relation.as_ref().is_some_and(|relation| relation.to_vec() == [table])
    }

    /// Whether it is one of several columns that are joined by each other.
    pub(super) fn is_merged(&self) -> bool {
        self.merged.is_some()
    }

    /// The item of a SELECT list that gives this column and its name.
    pub(super) fn to_item(&self, span: Span) -> SelectItem {
        let expr = self.to_expr(span);
        match is_computed(&expr) {
            true => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', self.name()) },
            false => SelectItem::UnnamedExpr(expr),
        }
    }

    /// The expression that means this column, without a place in the statement.
    pub(super) fn plain(&self) -> Expr {
        self.to_expr(Span::empty())
    }

    /// The expression that means this column, with a place in the statement.
    pub(super) fn to_expr(&self, span: Span) -> Expr {
        if let Some(merged) = &self.merged {
            return merged.clone();
        }
        let ident = |value: &String| Ident { value: value.clone(), quote_style: Some('"'), span };
        let table = self.column.relation.as_ref().map(|table| table.to_vec()).unwrap_or_default();
        let mut parts: Vec<Ident> = table.iter().chain([&self.column.name]).map(ident).collect();
        match parts.len() {
            1 => Expr::Identifier(parts.remove(0)),
            _ => Expr::CompoundIdentifier(parts),
        }
    }
}

impl From<Column> for OutputColumn {
    fn from(column: Column) -> OutputColumn {
        OutputColumn { column, merged: None, spellings: Vec::new() }
    }
}

/// Whether an expression for a column is more than the name of one.
pub(super) fn is_computed(expr: &Expr) -> bool {
    matches!(expr, Expr::Case { .. })
}

/// The index of the column of a name; an error if there are several. A merged column that tables
/// spell differently is found in any case.
pub(super) fn position(columns: &[OutputColumn], name: &str) -> DataFusionResult<Option<usize>> {
    match only(columns, name, |column| column.is_named(name))? {
        None => only(columns, name, |it| !it.spellings.is_empty() && it.is_alike(name)),
        found => Ok(found),
    }
}

/// The same of a column by which tables are joined: each is found in any case.
pub(super) fn key_position(
    columns: &[OutputColumn],
    name: &str,
) -> DataFusionResult<Option<usize>> {
    match only(columns, name, |column| column.is_named(name))? {
        None => only(columns, name, |column| column.is_alike(name)),
        found => Ok(found),
    }
}

/// The index of the one column that is meant by a name.
fn only(
    columns: &[OutputColumn],
    name: &str,
    is_meant: impl Fn(&OutputColumn) -> bool,
) -> DataFusionResult<Option<usize>> {
    let mut meant = columns.iter().enumerate().filter(|(_, column)| is_meant(column));
    match (meant.next(), meant.next()) {
        (Some((_, first)), Some((_, second))) => {
            let others = meant.map(|(_, column)| column);
            Err(ambiguous(name, [first, second].into_iter().chain(others)))
        }
        (first, _) => Ok(first.map(|(at, _)| at)),
    }
}

fn ambiguous<'c>(name: &str, meant: impl Iterator<Item = &'c OutputColumn>) -> DataFusionError {
    let tables = meant.map(OutputColumn::table).collect::<Vec<_>>().join(" and ");
    plan_datafusion_err!("'{name}' is a column of {tables}: name the table, too")
}

/// The name, if it has only one part.
pub(super) fn only_part(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}
