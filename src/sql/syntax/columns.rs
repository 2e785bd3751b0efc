//! `COLUMNS('regex')`, `COLUMNS(*)`, `COLUMNS(t.*)`, `COLUMNS(['a', 'b'])`, `COLUMNS(c -> …)`, as
//! in DuckDB: an item of a SELECT becomes one for each column that fits, and a condition holds for
//! all of them. Also `* EXCLUDE (a) REPLACE (1 AS b) RENAME (c AS d)`.
//!
//! Where this stands on the road of a query: just before planning, once the columns of the FROM are
//! known. `session::expansion` finds out which of them fit.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, OneOrManyWithParens, RenameSelectItem,
    Select, SelectItem, SelectItemQualifiedWildcardKind, Value, ValueWithSpan, VisitMut,
    WildcardAdditionalOptions,
};

use crate::error::{Error, Result};
use crate::sql::convert::{listed, suggestion};
use crate::sql::syntax::folded;
use crate::sql::walks::{visit_expressions, visit_outer_expressions_mut};

/// A column of a FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sql) struct Named {
    pub(in crate::sql) table: Option<String>,
    pub(in crate::sql) name: String,
}

impl Named {
    pub(in crate::sql) fn to_expr(&self) -> Expr {
        let ident = |name: &String| Ident::with_quote('"', name);
        match &self.table {
            Some(table) => Expr::CompoundIdentifier(vec![ident(table), ident(&self.name)]),
            None => Expr::Identifier(ident(&self.name)),
        }
    }
}

/// The columns of a FROM.
#[derive(Debug)]
pub(in crate::sql) struct Known {
    /// As `*` has them: those that a USING merges are of no table.
    pub(in crate::sql) all: Vec<Named>,
    /// As `t.*` has them, for each table that is asked for.
    pub(in crate::sql) of_tables: Vec<(Ident, Vec<Named>)>,
}

impl Known {
    /// All columns, or those of a table.
    pub(in crate::sql) fn of(&self, table: Option<&Ident>) -> &[Named] {
        let of_table = |table| self.of_tables.iter().find(|(known, _)| known == table);
        table.and_then(of_table).map_or(&self.all, |(_, columns)| columns)
    }
}

/// The tables of a SELECT whose columns are asked for: `COLUMNS(t.*)`, `t.* EXCLUDE (a)`.
pub(in crate::sql) fn tables_in(select: &Select) -> Result<Vec<Ident>> {
    let mut tables = Vec::new();
    let mut exprs: Vec<&Expr> = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                exprs.push(expr);
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _)
                if changes(item) =>
            {
                tables.extend(name.0.last().and_then(|part| part.as_ident()).cloned());
            }
            _ => {}
        }
    }
    let conditions = [&select.selection, &select.having, &select.qualify];
    exprs.extend(conditions.into_iter().flatten());
    for expr in exprs {
        if let Some(Choice::All { table: Some(table), .. }) = choice_in(expr)? {
            tables.push(table);
        }
    }
    Ok(tables)
}

/// Which columns are meant.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sql) enum Choice {
    /// All, or all of a table, without some.
    All { table: Option<Ident>, without: Vec<Vec<Ident>> },
    /// Those whose names match a regular expression.
    Regex(Box<Expr>),
    /// Those of these names.
    Names(Vec<String>),
    /// Those for whose names an expression is true, in which this is the name.
    Lambda(Ident, Box<Expr>),
}

/// Whether a SELECT names columns so, but for those within it, which are found before.
pub(in crate::sql) fn are_in(select: &Select) -> bool {
    has_call(&select.projection)
        || select.selection.as_ref().is_some_and(has_call_expr)
        || select.having.as_ref().is_some_and(has_call_expr)
        || select.qualify.as_ref().is_some_and(has_call_expr)
}

fn has_call(items: &[SelectItem]) -> bool {
    items.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            has_call_expr(expr)
        }
        _ => false,
    })
}

/// Whether an expression names columns so.
pub(in crate::sql) fn has_call_expr(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match call(part) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    })
    .is_break()
}

fn call(expr: &Expr) -> Option<&Function> {
    match expr {
        Expr::Function(function) => match function.name.0.as_slice() {
            [ObjectNamePart::Identifier(name)]
                if name.quote_style.is_none() && folded(name) == "columns" =>
            {
                Some(function)
            }
            _ => None,
        },
        _ => None,
    }
}

/// The columns that an expression names so; an error if it names several kinds of them.
pub(in crate::sql) fn choice_in(expr: &Expr) -> Result<Option<Choice>> {
    let mut found: Option<Choice> = None;
    let walked = visit_expressions(expr, |part| {
        let Some(call) = call(part) else { return ControlFlow::Continue(()) };
        match (choice(call), &found) {
            (Ok(choice), None) => found = Some(choice),
            (Ok(choice), Some(known)) if choice == *known => {}
            (Ok(_), Some(_)) => {
                return ControlFlow::Break(Error::InvalidInput(
                    "all COLUMNS(…) of one expression name the same columns".into(),
                ));
            }
            (Err(error), _) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    });
    match walked {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(found),
    }
}

fn choice(call: &Function) -> Result<Choice> {
    let wrong = || {
        Error::InvalidInput(
            "COLUMNS takes a regular expression, *, a list of names or a lambda: COLUMNS('a.*'), \
             COLUMNS(* EXCLUDE (id)), COLUMNS(['a', 'b']), COLUMNS(c -> c LIKE 'a%')"
                .into(),
        )
    };
    let FunctionArguments::List(list) = &call.args else { return Err(wrong()) };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return Err(wrong()) };
    let all = |table| Choice::All { table, without: Vec::new() };
    Ok(match argument {
        FunctionArgExpr::Wildcard => all(None),
        FunctionArgExpr::QualifiedWildcard(name) => match name.0.last() {
            Some(ObjectNamePart::Identifier(name)) => all(Some(name.clone())),
            _ => return Err(wrong()),
        },
        FunctionArgExpr::WildcardWithOptions(options) => {
            if options.opt_replace.is_some() || options.opt_rename.is_some() {
                return Err(wrong());
            }
            Choice::All { table: None, without: excluded(options) }
        }
        FunctionArgExpr::Expr(Expr::Array(list)) => {
            let text = |expr: &Expr| match expr {
                Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) => {
                    Some(name.clone())
                }
                _ => None,
            };
            let names: Option<Vec<String>> = list.elem.iter().map(text).collect();
            Choice::Names(names.ok_or_else(wrong)?)
        }
        FunctionArgExpr::Expr(Expr::Lambda(lambda)) => {
            let parameter = match &lambda.params {
                OneOrManyWithParens::One(parameter) => parameter,
                OneOrManyWithParens::Many(all) => all.first().ok_or_else(wrong)?,
            };
            Choice::Lambda(parameter.name.clone(), lambda.body.clone())
        }
        FunctionArgExpr::Expr(pattern) => Choice::Regex(Box::new(pattern.clone())),
    })
}

/// The expression with this column in the place of the calls.
pub(in crate::sql) fn with_column(expr: &Expr, column: &Named) -> Expr {
    let mut expr = expr.clone();
    put(&mut expr, &column.to_expr());
    expr
}

fn put(tree: &mut impl VisitMut, column: &Expr) {
    let _ = visit_outer_expressions_mut(tree, |part| {
        if call(part).is_some() {
            *part = column.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The condition for all of these columns.
pub(in crate::sql) fn for_all(condition: &Expr, columns: &[Named]) -> Option<Expr> {
    let one = |column| Expr::Nested(Box::new(with_column(condition, column)));
    columns.iter().map(one).reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// Whether an item is all columns with changes: `* EXCLUDE (a) REPLACE (1 AS b) RENAME (c AS d)`.
pub(in crate::sql) fn changes(item: &SelectItem) -> bool {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            options.opt_exclude.is_some()
                || options.opt_except.is_some()
                || options.opt_replace.is_some()
                || options.opt_rename.is_some()
        }
        _ => false,
    }
}

/// The columns of such an item, one by one. A name that no column has is an error.
pub(in crate::sql) fn changed(item: &SelectItem, known: &Known) -> Result<Vec<SelectItem>> {
    let (options, table) = match item {
        SelectItem::Wildcard(options) => (options, None),
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) => (options, name.0.last().and_then(|part| part.as_ident())),
        other => return Ok(vec![other.clone()]),
    };
    let columns = known.of(table);
    let excluded = excluded(options);
    let left = without(columns, &excluded)?;
    let find = |name: &Ident| match (named(name, None, &left), named(name, None, columns)) {
        (Err(_), Ok(_)) => Err(Error::InvalidInput(format!("EXCLUDE leaves out {name}"))),
        (found, _) => found,
    };
    let mut items: Vec<(Expr, Option<Ident>)> =
        left.iter().map(|column| (column.to_expr(), None)).collect();
    for one in options.opt_replace.iter().flat_map(|list| &list.items) {
        for at in find(&one.column_name)? {
            if let (Some(item), Some(column)) = (items.get_mut(at), left.get(at)) {
                *item = (one.expr.clone(), Some(Ident::with_quote('"', &column.name)));
            }
        }
    }
    let renames = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
        Some(RenameSelectItem::Multiple(several)) => several.as_slice(),
        None => &[],
    };
    for one in renames {
        for at in find(&one.ident)? {
            if let Some((_, alias)) = items.get_mut(at) {
                *alias = Some(one.alias.clone());
            }
        }
    }
    if items.is_empty() {
        return Err(Error::InvalidInput(format!("{item} leaves no column")));
    }
    Ok(items
        .into_iter()
        .map(|(expr, alias)| match alias {
            Some(alias) => SelectItem::ExprWithAlias { expr, alias },
            None => SelectItem::UnnamedExpr(expr),
        })
        .collect())
}

/// The columns without those of these names, each of which one must have.
pub(in crate::sql) fn without(columns: &[Named], names: &[Vec<Ident>]) -> Result<Vec<Named>> {
    let mut goes = vec![false; columns.len()];
    for name in names {
        let Some((name, table)) = name.split_last() else { continue };
        for at in named(name, table.last(), columns)? {
            goes.get_mut(at).into_iter().for_each(|goes| *goes = true);
        }
    }
    let left = columns.iter().zip(goes).filter(|(_, goes)| !goes);
    Ok(left.map(|(column, _)| column.clone()).collect())
}

/// Where the columns of a name are.
fn named(name: &Ident, table: Option<&Ident>, columns: &[Named]) -> Result<Vec<usize>> {
    let of_table = |column: &Named| {
        table.is_none_or(|table| column.table.as_ref().is_some_and(|of| is_meant(table, of)))
    };
    let at = |test: &dyn Fn(&str) -> bool| -> Vec<usize> {
        let all = columns.iter().enumerate();
        all.filter(|(_, one)| of_table(one) && test(&one.name)).map(|(at, _)| at).collect()
    };
    let exactly = at(&|known| known == folded(name));
    let found = if exactly.is_empty() { at(&|known| is_meant(name, known)) } else { exactly };
    match found.is_empty() {
        false => Ok(found),
        true => Err(unknown(&name.value, columns)),
    }
}

/// Whether an identifier means a name: one without quotes does in any case.
fn is_meant(ident: &Ident, name: &str) -> bool {
    match ident.quote_style {
        Some(_) => ident.value == name,
        None => ident.value.to_lowercase() == name.to_lowercase(),
    }
}

/// The error about a name that no column has.
pub(in crate::sql) fn unknown(name: &str, columns: &[Named]) -> Error {
    let names = || columns.iter().map(|column| column.name.as_str());
    let hint = match suggestion(name, names()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are: {}", listed(names())),
    };
    Error::InvalidInput(format!("no column {name}; {hint}"))
}

/// The names of an EXCLUDE or EXCEPT, which may have tables before them.
fn excluded(options: &WildcardAdditionalOptions) -> Vec<Vec<Ident>> {
    let names = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => std::slice::from_ref(name),
        Some(ExcludeSelectItem::Multiple(names)) => names.as_slice(),
        None => &[],
    };
    let mut all: Vec<Vec<Ident>> = names.iter().map(parts).collect();
    if let Some(except) = &options.opt_except {
        all.push(vec![except.first_element.clone()]);
        all.extend(except.additional_elements.iter().map(|name| vec![name.clone()]));
    }
    all
}

fn parts(name: &ObjectName) -> Vec<Ident> {
    name.0.iter().filter_map(|part| part.as_ident().cloned()).collect()
}

/// The name of the column that a name of several parts stands for: that of a field, such as
/// `geo.lat`, if one of the columns is called so, and else the last part.
pub(in crate::sql) fn meant(parts: &[Ident], columns: &[Named]) -> String {
    let named = |parts: &[Ident]| {
        let name = parts.iter().map(folded).collect::<Vec<_>>().join(".").to_lowercase();
        columns.iter().find(|column| column.name.to_lowercase() == name)
    };
    let of_table = || parts.get(1..).filter(|rest| rest.len() > 1).and_then(named);
    match named(parts).or_else(of_table) {
        Some(column) => column.name.clone(),
        None => parts.last().map(|name| name.value.clone()).unwrap_or_default(),
    }
}
