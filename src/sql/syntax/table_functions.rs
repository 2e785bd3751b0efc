//! Tables that functions make: `FROM unnest([1, 2]) t(x)`, and the column of `range`,
//! `generate_series` and `unnest`, which has the name of the function, as in DuckDB, or that of the
//! table, as in PostgreSQL.
//!
//! Where this stands on the road of a query: after parsing. For DataFusion (55.2), `unnest` is a
//! word of its own, and the column of a series is called `value`; it still is in a statement that
//! has this word. Names of functions are in small letters there, and their arguments constants.
//! Here a name has any case, and a call that reads columns of the tables before it, or of a query
//! around it, becomes a LATERAL subquery over the list that the function of this name makes.
//! Several lists, `unnest(a, b)`, stand side by side, the shorter ones with nulls behind them.
//! `numbers(n)` and `numbers(first, n)` of ClickHouse are a range whose column is called `number`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, Query,
    SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor,
    TableFunctionArgs, TableWithJoins, Value, Visitor, VisitorMut,
};

use crate::sql::syntax::folded;
use crate::sql::syntax::show::parsed;
use crate::sql::walks::{for_each_select, function_call, visit, visit_expressions, visit_mut};

const SERIES: [&str; 2] = ["generate_series", "range"];
const UNNEST: &str = "unnest";
const NUMBERS: &str = "numbers";

/// The column of a series for DataFusion.
const VALUE: &str = "value";

pub(in crate::sql) fn name_columns(statement: &mut Statement) {
    let mut names = Names { has_value: false };
    let mut series = Series(false);
    let _ = visit(statement, &mut series);
    if series.0 {
        names.has_value = has_value(&statement.to_string());
    }
    let _ = visit_mut(statement, &mut names);
}

struct Names {
    /// Whether the word `value` is in the statement, if a series is.
    has_value: bool,
}

/// Whether a statement has a series.
struct Series(bool);

impl Visitor for Series {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let name = match table {
            TableFactor::Table { name, args: Some(_), .. } => name,
            TableFactor::Function { name, .. } => name,
            _ => return ControlFlow::Continue(()),
        };
        let name = name.0.last().and_then(|part| part.as_ident()).map(folded);
        self.0 |= name.is_some_and(|name| SERIES.contains(&name.as_str()));
        ControlFlow::Continue(())
    }
}

/// Whether a text has the word `value`.
fn has_value(text: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    text.split(|char| !is_part(char)).any(|word| word.eq_ignore_ascii_case(VALUE))
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut found = false;
        for_each_select(&mut query.body, &mut |select| {
            tables_mut(&mut select.from).for_each(as_table);
            found |= tables_mut(&mut select.from)
                .any(|table| function(table).is_some() || is_numbers(table));
        });
        if !found {
            return ControlFlow::Continue(());
        }
        let used = used_names(query);
        for_each_select(&mut query.body, &mut |select| {
            for (at, table) in tables_mut(&mut select.from).enumerate() {
                name_column(table, &used, self.has_value);
                // The first one has no table before it.
                if let TableFactor::Derived { lateral, .. } = table
                    && at == 0
                {
                    *lateral = false;
                }
            }
        });
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(_), .. } = table
            && let [ObjectNamePart::Identifier(name)] = name.0.as_mut_slice()
        {
            name.value = folded(name);
        }
        ControlFlow::Continue(())
    }
}

/// The tables of a FROM, those within parentheses, too.
fn tables_mut(from: &mut [TableWithJoins]) -> impl Iterator<Item = &mut TableFactor> {
    fn add<'t>(from: &'t mut TableWithJoins, to: &mut Vec<&'t mut TableFactor>) {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for table in std::iter::once(&mut from.relation).chain(joined) {
            match table {
                TableFactor::NestedJoin { table_with_joins, .. } => add(table_with_joins, to),
                table => to.push(table),
            }
        }
    }
    let mut tables = Vec::new();
    from.iter_mut().for_each(|from| add(from, &mut tables));
    tables.into_iter()
}

/// `LATERAL generate_series(1, t.a)` without the word, which changes nothing.
fn as_table(table: &mut TableFactor) {
    let TableFactor::Function { lateral: true, name, args, with_ordinality: false, alias } = table
    else {
        return;
    };
    let Some(Statement::Query(mut query)) = parsed("SELECT 1 FROM range(1)") else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(mut plain) = select.from.pop().map(|from| from.relation) else { return };
    if let TableFactor::Table { name: to, args: Some(given), alias: named, .. } = &mut plain {
        (*to, given.args, *named) = (name.clone(), args.clone(), alias.clone());
        if function(&plain).is_some() || is_numbers(&plain) {
            *table = plain;
        }
    }
}

fn reads_columns(args: &Vec<FunctionArg>) -> bool {
    visit_expressions(args, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// `LATERAL (SELECT unnest(rows) FROM (SELECT list AS rows) …)`.
fn lateral(
    function: &str,
    given: &TableFunctionArgs,
    alias: Option<TableAlias>,
) -> Option<TableFactor> {
    let argument = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let mut lists: Vec<Expr> = given.args.iter().map(argument).collect::<Option<_>>()?;
    if function != UNNEST {
        lists = vec![function_call(function, lists)];
    }
    let names: Vec<String> = (0..lists.len()).map(|at| format!("sty__list{at}")).collect();
    let each =
        |write: &dyn Fn(&String) -> String| names.iter().map(write).collect::<Vec<_>>().join(", ");
    let (unnested, named) =
        (each(&|name| format!("unnest({name})")), each(&|name| format!("{name} AS {name}")));
    let text = format!("SELECT {unnested} FROM (SELECT {named}) AS sty__lists");
    let Statement::Query(mut query) = parsed(&text)? else { return None };
    let SetExpr::Select(outer) = query.body.as_mut() else { return None };
    let TableFactor::Derived { subquery, .. } = &mut outer.from.first_mut()?.relation else {
        return None;
    };
    let SetExpr::Select(inner) = subquery.body.as_mut() else { return None };
    for (item, list) in inner.projection.iter_mut().zip(lists) {
        let SelectItem::ExprWithAlias { expr, .. } = item else { return None };
        *expr = list;
    }
    // Without another name, the column of a series is called `value`.
    let alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    let columns = match alias.columns.is_empty() {
        true => vec![TableAliasColumnDef { name: Ident::new(VALUE), data_type: None }],
        false => alias.columns,
    };
    let alias = Some(TableAlias { columns, ..alias });
    Some(TableFactor::Derived { lateral: true, subquery: query, alias, sample: None })
}

/// Names of columns, each with that of the table if it stands before it.
type UsedNames = HashSet<(Option<String>, String)>;

fn used_names(query: &Query) -> UsedNames {
    let mut used = UsedNames::new();
    let _ = visit_expressions(query, |expr| {
        match expr {
            Expr::Identifier(name) => {
                used.insert((None, folded(name)));
            }
            Expr::CompoundIdentifier(parts) => {
                if let [.., table, name] = parts.as_slice() {
                    used.insert((Some(folded(table)), folded(name)));
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    used
}

/// The name of the function that makes a table of one column, or `unnest` of several lists.
fn function(table: &TableFactor) -> Option<String> {
    let TableFactor::Table { name, args: Some(TableFunctionArgs { args, settings: None }), .. } =
        table
    else {
        return None;
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    let name = folded(name);
    let is_list = name == UNNEST && !args.is_empty();
    (is_list || SERIES.contains(&name.as_str())).then_some(name)
}

/// Whether a table is ClickHouse's `numbers(n)` or `numbers(first, n)`.
fn is_numbers(table: &TableFactor) -> bool {
    let TableFactor::Table { name, args: Some(TableFunctionArgs { args, settings: None }), .. } =
        table
    else {
        return false;
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return false };
    folded(name) == NUMBERS && matches!(args.len(), 1 | 2)
}

/// Makes a range of `numbers`.
fn range_of_numbers(table: &mut TableFactor) {
    let TableFactor::Table { name, args: Some(given), alias, .. } = table else { return };
    let argument = |at: usize| match given.args.get(at) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr.clone()),
        _ => None,
    };
    let nested = |expr: Expr| Expr::Nested(Box::new(expr));
    let ends = match (argument(0), argument(1)) {
        (Some(count), None) => (Expr::value(Value::Number("0".into(), false)), count),
        (Some(first), Some(count)) => {
            let end = Expr::BinaryOp {
                left: Box::new(nested(first.clone())),
                op: BinaryOperator::Plus,
                right: Box::new(nested(count)),
            };
            (first, end)
        }
        _ => return,
    };
    given.args = vec![ends.0, ends.1]
        .into_iter()
        .map(|end| FunctionArg::Unnamed(FunctionArgExpr::Expr(end)))
        .collect();
    *name = ObjectName::from(Ident::new("range"));
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(NUMBERS),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: Ident::new("number"), data_type: None });
    }
}

fn name_column(table: &mut TableFactor, used: &UsedNames, has_value: bool) {
    if is_numbers(table) {
        range_of_numbers(table);
    }
    let Some(function) = function(table) else { return };
    let TableFactor::Table { args: Some(given), alias, .. } = table else { return };
    let list = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list.clone()),
        _ => None,
    };
    let lists: Option<Vec<Expr>> =
        given.args.iter().map(list).collect::<Option<Vec<_>>>().filter(|_| function == UNNEST);
    if alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) {
        let name = alias.as_ref().map_or_else(|| function.clone(), |alias| folded(&alias.name));
        let is_used = |table: Option<&str>, column: &str| {
            used.contains(&(table.map(str::to_owned), column.to_owned()))
        };
        let called_as_function = is_used(None, &function) || is_used(Some(&name), &function);
        let column = match () {
            () if called_as_function => Some(&function),
            () if is_used(None, &name) => Some(&name),
            () => (lists.is_some() || !has_value).then_some(&function),
        };
        if let Some(column) = column {
            let columns =
                vec![TableAliasColumnDef { name: Ident::with_quote('"', column), data_type: None }];
            match alias {
                Some(alias) => alias.columns = columns,
                None => {
                    let name = Ident::new(function.clone());
                    *alias = Some(TableAlias { explicit: true, name, columns, at: None });
                }
            }
        }
    }
    if let (Some(lists), Some(alias)) = (&lists, alias.as_mut()) {
        name_others(lists.len(), &mut alias.columns);
    }
    if reads_columns(&given.args)
        && let Some(rows) = lateral(&function, given, alias.take())
    {
        *table = rows;
        return;
    }
    if let Some(array_exprs) = lists {
        *table = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        };
    }
}

/// Names the columns of further lists: `unnest_1` is that of the second one.
fn name_others(lists: usize, columns: &mut Vec<TableAliasColumnDef>) {
    for at in columns.len()..lists {
        let name = if at == 0 { UNNEST.to_owned() } else { format!("{UNNEST}_{at}") };
        columns.push(TableAliasColumnDef { name: Ident::new(name), data_type: None });
    }
}
