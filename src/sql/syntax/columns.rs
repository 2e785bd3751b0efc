//! `COLUMNS('regex')`, `COLUMNS(*)`, `COLUMNS(t.*)`, `COLUMNS(['a', 'b'])`, `COLUMNS(c -> …)`, as
//! in DuckDB: an item of a SELECT becomes one for each column that fits, and a condition holds for
//! all of them.
//!
//! Where this stands on the road of a query: just before planning, once the columns of the FROM are
//! known. `session::expansion` finds out which of them fit.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, OneOrManyWithParens, RenameSelectItem,
    Select, SelectItem, SelectItemQualifiedWildcardKind, Value, ValueWithSpan, VisitMut,
};

use crate::error::{Error, Result};
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

/// Which columns are meant.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sql) enum Choice {
    /// All, or all of a table, without some.
    All { table: Option<String>, without: Vec<String> },
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
            Some(ObjectNamePart::Identifier(name)) => all(Some(folded(name))),
            _ => return Err(wrong()),
        },
        FunctionArgExpr::WildcardWithOptions(options) => {
            let excluded = match &options.opt_exclude {
                Some(ExcludeSelectItem::Single(name)) => vec![name.clone()],
                Some(ExcludeSelectItem::Multiple(names)) => names.clone(),
                None => return Err(wrong()),
            };
            Choice::All { table: None, without: last_names(&excluded) }
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

/// Whether an item renames columns: `* RENAME (a AS b)`.
pub(in crate::sql) fn renames(item: &SelectItem) -> bool {
    match item {
        SelectItem::Wildcard(options) => options.opt_rename.is_some(),
        SelectItem::QualifiedWildcard(_, options) => options.opt_rename.is_some(),
        _ => false,
    }
}

/// The columns of such an item, one by one. An unknown name is an error.
pub(in crate::sql) fn renamed(item: &SelectItem, columns: &[Named]) -> Result<Vec<SelectItem>> {
    let (options, table) = match item {
        SelectItem::Wildcard(options) => (options, None),
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) => (options, name.0.last().and_then(|part| part.as_ident()).map(folded)),
        other => return Ok(vec![other.clone()]),
    };
    let excluded: Vec<String> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => last_names(std::slice::from_ref(name)),
        Some(ExcludeSelectItem::Multiple(names)) => last_names(names),
        None => Vec::new(),
    };
    let renames = match &options.opt_rename {
        Some(RenameSelectItem::Single(one)) => vec![one.clone()],
        Some(RenameSelectItem::Multiple(several)) => several.clone(),
        None => Vec::new(),
    };
    let replaced: Vec<_> = options.opt_replace.iter().flat_map(|list| &list.items).collect();
    let is = |name: &Ident, column: &Named| folded(name) == column.name.to_lowercase();
    for name in renames.iter().map(|one| &one.ident) {
        if !columns.iter().any(|column| is(name, column)) {
            return Err(Error::InvalidInput(format!("no column {name} to RENAME")));
        }
    }
    let wanted = columns.iter().filter(|column| {
        (table.is_none() || column.table == table)
            && !excluded.iter().any(|name| *name == column.name.to_lowercase())
    });
    Ok(wanted
        .map(|column| {
            let replacement = replaced.iter().find(|one| is(&one.column_name, column));
            let rename = renames.iter().find(|one| is(&one.ident, column));
            let expr = replacement.map_or_else(|| column.to_expr(), |one| one.expr.clone());
            match (rename, replacement) {
                (Some(one), _) => SelectItem::ExprWithAlias { expr, alias: one.alias.clone() },
                (None, Some(_)) => {
                    let alias = Ident::with_quote('"', &column.name);
                    SelectItem::ExprWithAlias { expr, alias }
                }
                (None, None) => SelectItem::UnnamedExpr(expr),
            }
        })
        .collect())
}

fn last_names(names: &[ObjectName]) -> Vec<String> {
    names.iter().filter_map(|name| name.0.last()?.as_ident().map(folded)).collect()
}
