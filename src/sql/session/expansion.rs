//! Writes out what depends on the columns of a FROM, and on their values: COLUMNS(…), `* EXCLUDE`,
//! rows as JSON, PIVOT, UNPIVOT, ORDER BY ALL, and INSERT … BY NAME.
//!
//! Where this stands on the road of a query: just before planning. The columns are those of a
//! `SELECT *` from the same FROM; the values of a PIVOT without a list are asked for by a query of
//! their own, which sees the same generations as the statement.

use std::ops::ControlFlow;

use arrow_array::{Array, ArrayRef};
use arrow_cast::display::ArrayFormatter;
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr as PlannedExpr;
use datafusion::physical_plan::collect;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, FunctionArgExpr, Ident, ObjectName, Query, Select, SelectItem,
    Statement as SqlStatement, TableObject, Value,
};

use crate::error::{Error, Result};
use crate::sql::convert::listed;
use crate::sql::keys::expressions;
use crate::sql::names::parameters::Parameters;
use crate::sql::run::statistics::task_context;
use crate::sql::session::planned::Planned;
use crate::sql::session::statement::StatementPlanner;
use crate::sql::syntax::columns::{self, Choice, Known, Named};
use crate::sql::syntax::named_tables::NamedTable;
use crate::sql::syntax::pivots::{self, Longer, MOST_COLUMNS, Turned, Wider};
use crate::sql::syntax::short_forms::BY_NAME;
use crate::sql::syntax::sites::{self, Site};
use crate::sql::syntax::{folded, json_rows, scopes, sql_in, sql_of, volatile};
use crate::sql::types::times::PRINTED;
use crate::sql::walks::{function_call, visit_outer_expressions_mut};

/// How many SELECTs of a statement may need their columns: each is planned by itself.
const MOST_SITES: usize = 256;

impl StatementPlanner<'_> {
    /// The statement with all of that written out; `None` if it has none. Values that it then has
    /// are added to the parameters.
    pub(super) async fn expanded(
        &self,
        statement: &Statement,
        parameters: &mut Parameters,
        state: &SessionState,
    ) -> Result<Option<Statement>> {
        let needs_columns = |select: &Select| {
            pivots::are_in(select)
                || columns::are_in(select)
                || !json_rows::tables_in(select).is_empty()
                || select.projection.iter().any(columns::changes)
        };
        let mut changed: Option<Statement> = None;
        for _ in 0..MOST_SITES {
            let current = changed.as_ref().unwrap_or(statement);
            let Some(site) = sites::find(current, &needs_columns) else {
                let changed = self.ordered(changed, statement, state).await?;
                let changed = self.with_default_row(changed, statement).await?;
                return self.with_named_columns(changed, statement, parameters, state).await;
            };
            let mut next = current.clone();
            match pivots::first(&site.select)? {
                Some(turned) => {
                    let query = self.turned(&site, turned, parameters, state).await?;
                    site.change(&mut next, &mut |select| pivots::replace_first(select, &query));
                }
                None => {
                    let all = self.columns_of(site.all_columns(), state).await?;
                    let mut known = Known { all, of_tables: Vec::new() };
                    let rows = json_rows::tables_in(&site.select);
                    for table in columns::tables_in(&site.select)?.into_iter().chain(rows.clone()) {
                        let named = self.columns_of(site.columns_of(&table), state).await?;
                        known.of_tables.push((table, named));
                    }
                    let mut outcome = Ok(());
                    site.change(&mut next, &mut |select| {
                        outcome = with_columns(select, &known, state);
                        json_rows::write_out(select, &rows, &known);
                    });
                    outcome?;
                }
            }
            changed = Some(next);
        }
        Err(Error::LimitExceeded(format!(
            "more than {MOST_SITES} queries of a statement have a COLUMNS(…), a PIVOT or an UNPIVOT"
        )))
    }

    /// Replaces each ORDER BY ALL by the positions of the query's columns.
    async fn ordered(
        &self,
        mut changed: Option<Statement>,
        statement: &Statement,
        state: &SessionState,
    ) -> Result<Option<Statement>> {
        let mut from = 0;
        while let Some(found) = sites::find_ordered(changed.as_ref().unwrap_or(statement), from) {
            from = found.index + 1;
            match self.columns_of(found.rows.clone(), state).await {
                Ok(columns) => {
                    let next = changed.get_or_insert_with(|| statement.clone());
                    found.by_columns(next, columns.len());
                }
                // It may read columns of a query around it; DataFusion knows what `SELECT *` has.
                Err(_) if found.is_select => {}
                Err(error) => return Err(error),
            }
        }
        Ok(changed)
    }

    /// The columns that a query answers with.
    async fn columns_of(&self, query: Box<Query>, state: &SessionState) -> Result<Vec<Named>> {
        let statement = Statement::Statement(Box::new(SqlStatement::Query(query)));
        let statement = match self.in_any_case(&statement).await {
            Some(respelled) if respelled.is_needed => respelled.statement,
            _ => statement,
        };
        let resolved = scopes::resolve(state, &statement).await?;
        let statement = resolved.unwrap_or(statement);
        let plan = match state.statement_to_plan(statement.clone()).await {
            Ok(plan) => plan,
            Err(error) => return Err(self.unresolved(state, &statement, error).await),
        };
        let named = plan.schema().iter().map(|(table, field)| Named {
            table: table.map(|table| table.table().to_owned()),
            name: field.name().clone(),
        });
        Ok(named.collect())
    }

    /// The query that PIVOT or UNPIVOT stands for.
    async fn turned(
        &self,
        site: &Site,
        turned: Turned,
        parameters: &mut Parameters,
        state: &SessionState,
    ) -> Result<Box<Query>> {
        let source = match &turned {
            Turned::Wider(wider) => &wider.source,
            Turned::Longer(longer) => &longer.source,
        };
        let all = site.query(pivots::all_of_source(&site.select, source));
        let known = self.columns_of(all, state).await?;
        match turned {
            Turned::Wider(mut wider) => {
                if wider.keys.iter().any(|key| volatile::calls(&key.expr) > 0) {
                    return Err(volatile::refused("PIVOT"));
                }
                self.find_values(site, &mut wider, parameters).await?;
                let is_aggregate = |name: &str| state.aggregate_functions().contains_key(name);
                wider.query(&site.select, &known, &is_aggregate)
            }
            Turned::Longer(longer) => {
                let known = Known { all: known, of_tables: Vec::new() };
                let rows = rows_of(&longer, &known, state)?;
                Ok(longer.query(&site.select, &rows, &known.all))
            }
        }
    }

    /// Asks for the values of the keys that have no list.
    async fn find_values(
        &self,
        site: &Site,
        wider: &mut Wider,
        parameters: &mut Parameters,
    ) -> Result<()> {
        let source = wider.source.clone();
        for key in wider.keys.iter_mut().filter(|key| key.values.is_empty()) {
            let query = site.query(pivots::values_of(&site.select, &source, &key.expr));
            let statement = Statement::Statement(Box::new(SqlStatement::Query(query)));
            let Planned::Answer(plan) = Box::pin(self.plan(&statement, parameters)).await? else {
                return Err(Error::InvalidInput("the source of a PIVOT is a query".into()));
            };
            let batches = collect(plan, task_context(self.context, false)).await?;
            let arrays: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(0)).collect();
            if arrays.iter().map(|array| array.len()).sum::<usize>() > MOST_COLUMNS {
                return Err(Error::LimitExceeded(format!(
                    "{} has more than {MOST_COLUMNS} values; PIVOT makes a column of each; name \
                     those that you want: PIVOT t ON {0} IN ('a', 'b') USING …",
                    key.expr
                )));
            }
            key.values = match arrays.is_empty() {
                true => Vec::new(),
                false => {
                    let values = arrow_select::concat::concat(&arrays).map_err(arrow)?;
                    values_of(&values, parameters)?
                }
            };
        }
        Ok(())
    }

    /// Gives an INSERT … BY NAME the names of its query's columns.
    async fn with_named_columns(
        &self,
        changed: Option<Statement>,
        statement: &Statement,
        parameters: &Parameters,
        _: &SessionState,
    ) -> Result<Option<Statement>> {
        let current = changed.as_ref().unwrap_or(statement);
        let (rows, table) = match sql_in(current) {
            Some(SqlStatement::Insert(insert)) => match insert.columns.as_slice() {
                [one] if one.to_string() == BY_NAME => (insert.source.clone(), &insert.table),
                _ => return Ok(changed),
            },
            _ => return Ok(changed),
        };
        let Some(rows) = rows else { return Ok(changed) };
        let named = match table {
            TableObject::TableName(name) => NamedTable::new(name, None),
            _ => None,
        };
        let stored = match named {
            Some(named) => self.tables.find_in(named.schema.as_deref(), &named.table).await?,
            None => None,
        };
        let stored = stored.map(|table| table.schema());
        let query = Statement::Statement(Box::new(SqlStatement::Query(rows)));
        let Planned::Answer(plan) = Box::pin(self.plan(&query, parameters)).await? else {
            return Ok(changed);
        };
        let schema = plan.schema();
        let names = schema.fields().iter().map(|field| {
            let known = stored.as_ref().map_or(field.name().as_str(), |stored| {
                spelled_in(field.name(), stored.fields().iter().map(|field| field.name()))
            });
            Ident::with_quote('"', known)
        });
        let mut next = current.clone();
        if let Some(SqlStatement::Insert(insert)) = sql_of(&mut next) {
            insert.columns = names.map(|name| ObjectName::from(vec![name])).collect();
        }
        Ok(Some(next))
    }
}

/// A name as the one of these is spelled that has it in another case.
fn spelled_in<'n>(name: &'n str, known: impl Iterator<Item = &'n String> + Clone) -> &'n str {
    if known.clone().any(|one| one == name) {
        return name;
    }
    let mut alike = known.filter(|one| one.to_lowercase() == name.to_lowercase());
    match (alike.next(), alike.next()) {
        (Some(one), None) => one,
        _ => name,
    }
}

fn arrow(error: arrow_schema::ArrowError) -> Error {
    crate::sql::convert::from_arrow(error)
}

/// The values of a key in their order, each as a parameter, which keeps its type and all of its
/// digits, with its text.
fn values_of(values: &ArrayRef, parameters: &mut Parameters) -> Result<Vec<(Expr, String)>> {
    let format = PRINTED.with_display_error(false);
    let texts = ArrayFormatter::try_new(values, &format).map_err(arrow)?;
    let mut sorted: Vec<(ScalarValue, String)> = Vec::with_capacity(values.len());
    for at in 0..values.len() {
        let text = texts.value(at).try_to_string().map_err(arrow)?;
        sorted.push((ScalarValue::try_from_array(values, at)?, text));
    }
    sorted.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    let as_parameter = |(value, text)| (parameters.add_value(value), text);
    Ok(sorted.into_iter().map(as_parameter).collect())
}

/// The rows of columns of an UNPIVOT.
fn rows_of(longer: &Longer, known: &Known, state: &SessionState) -> Result<Vec<Vec<Expr>>> {
    let mut rows = Vec::new();
    for column in &longer.columns {
        let of_choice = |choice: &Choice| -> Result<Vec<Vec<Expr>>> {
            let chosen = chosen(choice, known, state)?;
            let plain = |one: &Named| Expr::Identifier(Ident::with_quote('"', &one.name));
            Ok(chosen.iter().map(|one| vec![plain(one)]).collect())
        };
        match column {
            FunctionArgExpr::Wildcard => {
                rows.extend(of_choice(&Choice::All { table: None, without: Vec::new() })?);
            }
            FunctionArgExpr::Expr(Expr::Tuple(row)) => rows.push(row.clone()),
            FunctionArgExpr::Expr(expr) => match columns::choice_in(expr)? {
                Some(choice) => rows.extend(of_choice(&choice)?),
                None => rows.push(vec![expr.clone()]),
            },
            _ => {
                return Err(Error::InvalidInput(
                    "UNPIVOT … ON takes columns, or COLUMNS(* EXCLUDE (id))".into(),
                ));
            }
        }
    }
    match rows.iter().find(|row| row.len() != longer.width()) {
        Some(row) => Err(Error::InvalidInput(format!(
            "UNPIVOT has {} columns of values, and {} columns for a row",
            longer.width(),
            row.len()
        ))),
        None => Ok(rows),
    }
}

/// Puts columns in the place of COLUMNS(…) and `* EXCLUDE`.
fn with_columns(select: &mut Select, known: &Known, state: &SessionState) -> Result<()> {
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let (expr, alias) = match &item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            item if columns::changes(item) => {
                items.extend(columns::changed(item, known)?);
                continue;
            }
            _ => {
                items.push(item);
                continue;
            }
        };
        let Some(choice) = columns::choice_in(expr)? else {
            items.push(item);
            continue;
        };
        for column in chosen(&choice, known, state)? {
            let name = match alias {
                Some(alias) => alias_of(&choice, alias, &column, state)?,
                None => column.name.clone(),
            };
            let expr = columns::with_column(expr, &column);
            items.push(match (&expr, alias) {
                (Expr::Identifier(_) | Expr::CompoundIdentifier(_), None) => {
                    SelectItem::UnnamedExpr(expr)
                }
                _ => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) },
            });
        }
    }
    select.projection = items;
    for condition in [&mut select.selection, &mut select.having, &mut select.qualify] {
        let Some(given) = condition.as_ref() else { continue };
        if let Some(choice) = columns::choice_in(given)? {
            *condition = columns::for_all(given, &chosen(&choice, known, state)?);
        }
    }
    Ok(())
}

/// The columns that are meant; an error if there are none.
fn chosen(choice: &Choice, known: &Known, state: &SessionState) -> Result<Vec<Named>> {
    let mut chosen = Vec::new();
    match choice {
        Choice::All { table, without } => {
            chosen = columns::without(known.of(table.as_ref()), without)?;
        }
        Choice::Names(names) => {
            for name in names {
                let is = |column: &&Named| column.name.eq_ignore_ascii_case(name);
                match known.all.iter().find(is) {
                    Some(column) => chosen.push(column.clone()),
                    None => return Err(columns::unknown(name, &known.all)),
                }
            }
        }
        Choice::Regex(pattern) => {
            for column in &known.all {
                let arguments = vec![text(&column.name), pattern.as_ref().clone()];
                if is_true(&function_call("regexp_like", arguments), state)? {
                    chosen.push(column.clone());
                }
            }
        }
        Choice::Lambda(parameter, body) => {
            for column in &known.all {
                let mut body = body.as_ref().clone();
                let _ = visit_outer_expressions_mut(&mut body, |part| {
                    if matches!(part, Expr::Identifier(name) if folded(name) == folded(parameter)) {
                        *part = text(&column.name);
                    }
                    ControlFlow::<()>::Continue(())
                });
                if is_true(&body, state)? {
                    chosen.push(column.clone());
                }
            }
        }
    }
    match chosen.is_empty() {
        false => Ok(chosen),
        true => Err(Error::InvalidInput(format!(
            "COLUMNS(…) names no column; there are: {}",
            listed(known.all.iter().map(|column| column.name.as_str()))
        ))),
    }
}

fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.to_owned()))
}

/// The alias of a column: `\1` in it is a group of the regular expression, `\0` all that it
/// matched.
fn alias_of(
    choice: &Choice,
    alias: &Ident,
    column: &Named,
    state: &SessionState,
) -> Result<String> {
    let Choice::Regex(pattern) = choice else { return Ok(alias.value.clone()) };
    if !alias.value.contains('\\') {
        return Ok(alias.value.clone());
    }
    let mut name = String::new();
    let mut rest = alias.value.chars().peekable();
    while let Some(character) = rest.next() {
        match rest.peek().and_then(|next| next.to_digit(10)).filter(|_| character == '\\') {
            Some(group) => {
                rest.next();
                let group = Expr::value(Value::Number(group.to_string(), false));
                let arguments = vec![text(&column.name), pattern.as_ref().clone(), group];
                let matched = constant(&function_call("regexp_extract", arguments), state)?;
                name.push_str(matched.try_as_str().flatten().unwrap_or_default());
            }
            None => name.push(character),
        }
    }
    Ok(name)
}

fn is_true(expr: &Expr, state: &SessionState) -> Result<bool> {
    Ok(matches!(constant(expr, state)?, ScalarValue::Boolean(Some(true))))
}

/// The value of an expression without columns.
fn constant(expr: &Expr, state: &SessionState) -> Result<ScalarValue> {
    let empty = DFSchema::empty();
    let unnamed = ExprWithAlias { expr: expr.clone(), alias: None };
    let planned = state.create_logical_expr_from_sql_expr(unnamed, &empty)?;
    match expressions::simplify_statement_expr(planned, &empty, state)? {
        PlannedExpr::Literal(value, _) => Ok(value),
        _ => Err(Error::InvalidInput(format!(
            "{expr} is not a constant, as what COLUMNS(…) takes must be"
        ))),
    }
}
