//! PIVOT and UNPIVOT as queries: an aggregate with a FILTER for each value of a key; a row for each
//! of several columns.
//!
//! Where this stands on the road of a query: just before planning. `session::expansion` finds out
//! the columns of what is turned, and the values of the keys.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, NullInclusion, PivotValueSource, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Value, ValueWithSpan,
};

use crate::error::{Error, Result};
use crate::sql::syntax::columns::{Named, meant};
use crate::sql::syntax::folded;
use crate::sql::syntax::rewrite::bare;
use crate::sql::syntax::short_forms::{KEYS, ON, PIVOT, UNPIVOT, UNPIVOT_NULLS, USING};
use crate::sql::syntax::sites::{plain, query};
use crate::sql::syntax::standard::name_subqueries;
use crate::sql::walks::{function_call, visit_expressions, visit_outer_expressions_mut};

/// A table or a query, turned.
#[derive(Clone, Debug)]
pub(in crate::sql) enum Turned {
    Wider(Wider),
    Longer(Longer),
}

/// PIVOT.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Wider {
    pub(in crate::sql) source: TableFactor,
    pub(in crate::sql) keys: Vec<Key>,
    /// With their names.
    aggregates: Vec<(Expr, Option<String>)>,
    /// `None` for all columns that are not named elsewhere.
    group_by: Option<Vec<Expr>>,
}

/// An expression whose values become columns.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Key {
    pub(in crate::sql) expr: Expr,
    /// With the names of their columns; none if all values are meant.
    pub(in crate::sql) values: Vec<(Expr, String)>,
}

/// UNPIVOT.
#[derive(Clone, Debug)]
pub(in crate::sql) struct Longer {
    pub(in crate::sql) source: TableFactor,
    /// Rows of columns.
    pub(in crate::sql) columns: Vec<FunctionArgExpr>,
    /// What stands for columns in the column of names, where that is not their own.
    labels: Vec<(Expr, String)>,
    name: Ident,
    values: Vec<Ident>,
    keeps_nulls: bool,
}

/// Whether a SELECT has a turned table in its FROM.
pub(in crate::sql) fn are_in(select: &Select) -> bool {
    tables(&select.from).any(is_turned)
}

fn tables(from: &[TableWithJoins]) -> impl Iterator<Item = &TableFactor> {
    from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    })
}

fn is_turned(table: &TableFactor) -> bool {
    match table {
        TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => true,
        TableFactor::Table { name, args: Some(_), .. } => {
            matches!(name.to_string().as_str(), PIVOT | UNPIVOT | UNPIVOT_NULLS)
        }
        _ => false,
    }
}

/// The first turned table of a SELECT.
pub(in crate::sql) fn first(select: &Select) -> Result<Option<Turned>> {
    tables(&select.from).find(|table| is_turned(table)).map(read).transpose()
}

/// Puts a query in the place of the first turned table of a SELECT.
pub(in crate::sql) fn replace_first(select: &mut Select, query: &Query) {
    let mut all = select.from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|j| &mut j.relation))
    });
    if let Some(table) = all.find(|table| is_turned(table)) {
        let alias = match table {
            TableFactor::Pivot { alias, .. }
            | TableFactor::Unpivot { alias, .. }
            | TableFactor::Table { alias, .. } => alias.take(),
            _ => None,
        };
        let subquery = Box::new(query.clone());
        *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    }
    name_subqueries(select);
}

fn read(table: &TableFactor) -> Result<Turned> {
    match table {
        TableFactor::Pivot {
            table,
            aggregate_functions,
            value_column,
            value_source,
            default_on_null,
            ..
        } => {
            let has_no_list = match value_source {
                PivotValueSource::Any(order) => !order.is_empty(),
                other => matches!(other, PivotValueSource::Subquery(_)),
            };
            if default_on_null.is_some() || has_no_list {
                return Err(Error::Unsupported(
                    "PIVOT takes a list of values, and no DEFAULT ON NULL or ANY ORDER BY; write \
                     PIVOT t ON key USING aggregate for all values that there are"
                        .into(),
                ));
            }
            let values = match value_source {
                PivotValueSource::List(values) => values.iter().map(value).collect(),
                _ => Vec::new(),
            };
            let [expr] = value_column.as_slice() else {
                return Err(Error::Unsupported(
                    "PIVOT … FOR takes one key; write PIVOT t ON a, b USING … for several".into(),
                ));
            };
            let aggregates = aggregate_functions
                .iter()
                .map(|one| (one.expr.clone(), one.alias.as_ref().map(|alias| alias.value.clone())));
            Ok(Turned::Wider(Wider {
                source: table.as_ref().clone(),
                keys: vec![Key { expr: expr.clone(), values }],
                aggregates: aggregates.collect(),
                group_by: None,
            }))
        }
        TableFactor::Unpivot { table, value, null_inclusion, name, columns, .. } => {
            let Expr::Identifier(value) = value else {
                return Err(Error::Unsupported(
                    "UNPIVOT … FOR takes one column of values; write \
                     UNPIVOT t ON (a, b), (c, d) INTO NAME n VALUE v, w for several"
                        .into(),
                ));
            };
            Ok(Turned::Longer(Longer {
                source: table.as_ref().clone(),
                columns: columns
                    .iter()
                    .map(|one| FunctionArgExpr::Expr(one.expr.clone()))
                    .collect(),
                labels: columns
                    .iter()
                    .filter_map(|one| Some((one.expr.clone(), one.alias.as_ref()?.value.clone())))
                    .collect(),
                name: name.clone(),
                values: vec![value.clone()],
                keeps_nulls: matches!(null_inclusion, Some(NullInclusion::IncludeNulls)),
            }))
        }
        TableFactor::Table { name, args: Some(given), .. } => {
            let mut parts = given.args.iter();
            let source = match parts.next().and_then(expr_of) {
                Some(Expr::Subquery(query)) => derived(query.clone()),
                _ => return Err(misread()),
            };
            match name.to_string().as_str() {
                PIVOT => wider(source, parts).map(Turned::Wider),
                other => longer(source, parts, other == UNPIVOT_NULLS).map(Turned::Longer),
            }
        }
        _ => Err(misread()),
    }
}

fn misread() -> Error {
    Error::InvalidInput(
        "PIVOT is written as PIVOT t ON key USING sum(n) GROUP BY column, UNPIVOT as \
         UNPIVOT t ON a, b INTO NAME n VALUE v"
            .into(),
    )
}

fn expr_of(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// The name of a call among the parts, and its arguments.
fn part(argument: &FunctionArg) -> Result<(String, Vec<FunctionArgExpr>)> {
    let Some(Expr::Function(Function { name, args: FunctionArguments::List(list), .. })) =
        expr_of(argument)
    else {
        return Err(misread());
    };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(argument) => Ok(argument.clone()),
        _ => Err(misread()),
    });
    Ok((name.to_string(), arguments.collect::<Result<_>>()?))
}

fn plain_exprs(arguments: Vec<FunctionArgExpr>) -> Result<Vec<Expr>> {
    let plain = |argument| match argument {
        FunctionArgExpr::Expr(expr) => Ok(expr),
        _ => Err(misread()),
    };
    arguments.into_iter().map(plain).collect()
}

fn wider<'a>(source: TableFactor, parts: impl Iterator<Item = &'a FunctionArg>) -> Result<Wider> {
    let mut wider = Wider { source, keys: Vec::new(), aggregates: Vec::new(), group_by: None };
    for argument in parts {
        let (name, arguments) = part(argument)?;
        let mut arguments = plain_exprs(arguments)?.into_iter();
        match name.as_str() {
            ON => {
                let expr = arguments.next().ok_or_else(misread)?;
                let unnamed = arguments.map(|expr| value(&ExprWithAlias { expr, alias: None }));
                wider.keys.push(Key { expr, values: unnamed.collect() });
            }
            USING => {
                let expr = arguments.next().ok_or_else(misread)?;
                let alias = arguments.next().and_then(|alias| text_of(&alias));
                wider.aggregates.push((expr, alias));
            }
            KEYS => wider.group_by = Some(arguments.collect()),
            _ => return Err(misread()),
        }
    }
    Ok(wider)
}

fn longer<'a>(
    source: TableFactor,
    parts: impl Iterator<Item = &'a FunctionArg>,
    keeps_nulls: bool,
) -> Result<Longer> {
    let (mut columns, mut names) = (Vec::new(), Vec::new());
    for argument in parts {
        let (name, mut arguments) = part(argument)?;
        match name.as_str() {
            ON => columns.append(&mut arguments),
            _ => {
                for expr in plain_exprs(arguments)? {
                    match expr {
                        Expr::Identifier(name) => names.push(name),
                        _ => return Err(misread()),
                    }
                }
            }
        }
    }
    let mut names = names.into_iter();
    let name = names.next().ok_or_else(misread)?;
    let labels = Vec::new();
    Ok(Longer { source, columns, labels, name, values: names.collect(), keeps_nulls })
}

/// A value of a key, and the name of its column.
fn value(given: &ExprWithAlias) -> (Expr, String) {
    let name = match &given.alias {
        Some(alias) => alias.value.clone(),
        None => text_of(&given.expr).unwrap_or_else(|| given.expr.to_string()),
    };
    (given.expr.clone(), name)
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            Some(text.clone())
        }
        _ => None,
    }
}

fn derived(subquery: Box<Query>) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery, alias: None, sample: None }
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn from(source: &TableFactor) -> Vec<TableWithJoins> {
    vec![TableWithJoins { relation: source.clone(), joins: Vec::new() }]
}

/// All values of a key as texts, and in their own type, in order.
pub(in crate::sql) fn values_of(like: &Select, source: &TableFactor, key: &Expr) -> SetExpr {
    let item = |expr: Expr, name: &str| SelectItem::ExprWithAlias { expr, alias: quoted(name) };
    let mut distinct = plain(like, vec![item(key.clone(), "value")], from(source));
    distinct.selection = Some(Expr::IsNotNull(Box::new(Expr::Nested(Box::new(key.clone())))));
    distinct.group_by = GroupByExpr::Expressions(vec![key.clone()], Vec::new());
    SetExpr::Select(Box::new(distinct))
}

impl Wider {
    /// The query that PIVOT stands for. All keys have values, and `columns` are those of the
    /// source. `is_aggregate` tells functions apart.
    pub(in crate::sql) fn query(
        &self,
        like: &Select,
        columns: &[Named],
        is_aggregate: &dyn Fn(&str) -> bool,
    ) -> Result<Box<Query>> {
        let groups = match &self.group_by {
            Some(groups) => groups.clone(),
            None => self.other_columns(columns),
        };
        let mut items: Vec<SelectItem> =
            groups.iter().cloned().map(SelectItem::UnnamedExpr).collect();
        let mut combined: Vec<(Option<Expr>, String)> = vec![(None, String::new())];
        for key in &self.keys {
            let mut next = Vec::new();
            for (condition, name) in &combined {
                for (value, of_value) in &key.values {
                    let left = Box::new(Expr::Nested(Box::new(key.expr.clone())));
                    let equal = match value {
                        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => Expr::IsNull(left),
                        value => {
                            let (op, right) = (BinaryOperator::Eq, Box::new(value.clone()));
                            Expr::BinaryOp { left, op, right }
                        }
                    };
                    let equal = Expr::Nested(Box::new(equal));
                    let name = match condition {
                        None => of_value.clone(),
                        Some(_) => format!("{name}_{of_value}"),
                    };
                    next.push((Some(and(condition.clone(), equal)), name));
                }
            }
            combined = next;
            if combined.len().saturating_mul(self.aggregates.len()) > MOST_COLUMNS {
                return Err(Error::LimitExceeded(format!(
                    "PIVOT would make more than {MOST_COLUMNS} columns; name the values: \
                     PIVOT t ON key IN ('a', 'b') USING …"
                )));
            }
        }
        for (condition, name) in combined {
            let Some(condition) = condition else { continue };
            for (aggregate, alias) in &self.aggregates {
                let named = match alias {
                    Some(alias) => format!("{name}_{alias}"),
                    None if self.aggregates.len() > 1 => format!("{name}_{aggregate}"),
                    None => name.clone(),
                };
                let expr = filtered(aggregate, &condition, is_aggregate)?;
                items.push(SelectItem::ExprWithAlias { expr, alias: quoted(&named) });
            }
        }
        let mut select = plain(like, items, from(&self.source));
        select.group_by = GroupByExpr::Expressions(groups, Vec::new());
        Ok(query(None, SetExpr::Select(Box::new(select))))
    }

    /// The columns that neither a key nor an aggregate names.
    fn other_columns(&self, columns: &[Named]) -> Vec<Expr> {
        let mut named: Vec<String> = Vec::new();
        let exprs = self
            .keys
            .iter()
            .map(|key| &key.expr)
            .chain(self.aggregates.iter().map(|(expr, _)| expr));
        for expr in exprs {
            let _ = visit_expressions(expr, |part| {
                match part {
                    Expr::Identifier(name) => named.push(folded(name).to_lowercase()),
                    Expr::CompoundIdentifier(parts) => {
                        named.push(meant(parts, columns).to_lowercase());
                    }
                    _ => {}
                }
                ControlFlow::<()>::Continue(())
            });
        }
        let is_other = |column: &&Named| !named.contains(&column.name.to_lowercase());
        columns
            .iter()
            .filter(is_other)
            .map(|column| Expr::Identifier(quoted(&column.name)))
            .collect()
    }
}

/// The most columns that PIVOT makes.
pub(in crate::sql) const MOST_COLUMNS: usize = 4_096;

fn and(left: Option<Expr>, right: Expr) -> Expr {
    match left {
        Some(left) => {
            Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
        }
        None => right,
    }
}

/// An expression with a condition for its aggregates.
fn filtered(expr: &Expr, condition: &Expr, is_aggregate: &dyn Fn(&str) -> bool) -> Result<Expr> {
    let (mut expr, mut found) = (expr.clone(), false);
    let _ = visit_outer_expressions_mut(&mut expr, |part| {
        if let Expr::Function(call) = part
            && is_aggregate(&call.name.to_string().to_ascii_lowercase())
        {
            let both = and(call.filter.take().map(Expr::Nested), condition.clone());
            call.filter = Some(Box::new(both));
            found = true;
        }
        ControlFlow::<()>::Continue(())
    });
    match found {
        true => Ok(expr),
        false => Err(Error::InvalidInput(format!(
            "PIVOT … USING takes aggregates such as sum(n) or first(n), not {expr}"
        ))),
    }
}

impl Longer {
    /// The query that UNPIVOT stands for. `rows` are its columns, one row for each row of the
    /// answer, with their names; `all` are those of the source.
    pub(in crate::sql) fn query(
        &self,
        like: &Select,
        rows: &[Vec<Expr>],
        all: &[Named],
    ) -> Box<Query> {
        let name_of = |expr: &Expr| match bare(expr) {
            Expr::Identifier(name) => name.value.clone(),
            Expr::CompoundIdentifier(parts) => meant(parts, all),
            other => other.to_string(),
        };
        let used: Vec<String> =
            rows.iter().flatten().map(|expr| name_of(expr).to_lowercase()).collect();
        let others = all.iter().filter(|column| !used.contains(&column.name.to_lowercase()));
        let mut items: Vec<SelectItem> = others
            .map(|column| SelectItem::UnnamedExpr(Expr::Identifier(quoted(&column.name))))
            .collect();
        let list = |elem: Vec<Expr>| Expr::Array(Array { elem, named: false });
        let unnested = |elem: Vec<Expr>, alias: &Ident| SelectItem::ExprWithAlias {
            expr: function_call("unnest", vec![list(elem)]),
            alias: alias.clone(),
        };
        let label_of = |expr: &Expr| {
            let label = self.labels.iter().find(|(of, _)| of == expr);
            label.map_or_else(|| name_of(expr), |(_, label)| label.clone())
        };
        let names = rows.iter().map(|row| {
            let name = row.iter().map(label_of).collect::<Vec<_>>().join("_");
            Expr::value(Value::SingleQuotedString(name))
        });
        items.push(unnested(names.collect(), &self.name));
        for (at, value) in self.values.iter().enumerate() {
            let column = rows.iter().filter_map(|row| row.get(at).cloned());
            items.push(unnested(column.collect(), value));
        }
        let all = query(None, SetExpr::Select(Box::new(plain(like, items, from(&self.source)))));
        if self.keeps_nulls {
            return all;
        }
        let mut rest =
            plain(like, vec![SelectItem::Wildcard(Default::default())], from(&derived(all)));
        // A row goes if all its values are null.
        rest.selection = self
            .values
            .iter()
            .map(|value| Expr::IsNotNull(Box::new(Expr::Identifier(value.clone()))))
            .reduce(|left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: BinaryOperator::Or,
                right: Box::new(right),
            });
        query(None, SetExpr::Select(Box::new(rest)))
    }

    /// How many columns of values there are.
    pub(in crate::sql) fn width(&self) -> usize {
        self.values.len()
    }
}

/// The source of a turned table alone, as a FROM.
pub(in crate::sql) fn all_of_source(like: &Select, source: &TableFactor) -> SetExpr {
    let all = vec![SelectItem::Wildcard(Default::default())];
    SetExpr::Select(Box::new(plain(like, all, from(source))))
}
