//! What INSERT, UPDATE and DELETE say in other words than DataFusion (55.2) plans: a WITH before
//! them, DEFAULT in the place of a value, and lists of columns in SET.
//!
//! Where this stands on the road of a query: first after parsing, so that all that follows sees
//! the statement itself. A WITH goes into the queries of the statement that may name its tables:
//! those of its FROM or USING, of its conditions and of its values. A table of the WITH that stands
//! in the FROM itself becomes a query for all of it. The table that is changed is never one of
//! them, as in PostgreSQL.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectNamePart, Query, SetExpr, Statement,
    TableAlias, TableFactor, TableWithJoins, UpdateTableFromKind, Value, VisitorMut, With,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::error::{Error, Result};
use crate::sql::syntax::folded;
use crate::sql::syntax::show::parsed;
use crate::sql::walks::visit_mut;

pub(in crate::sql) fn reword(statement: &mut Statement) -> Result<()> {
    if let Statement::Query(query) = statement
        && let Some(changing) = without_with(query)
    {
        *statement = changing;
    }
    refuse(statement)?;
    match statement {
        Statement::Insert(insert) => {
            let mut body = insert.source.as_mut().map(|source| source.body.as_mut());
            while let Some(SetExpr::Query(inner)) = body {
                body = Some(inner.body.as_mut());
            }
            if let Some(SetExpr::Values(values)) = body {
                let rows = values.rows.iter_mut();
                rows.flat_map(|row| &mut row.content).for_each(default_as_null);
            }
            Ok(())
        }
        Statement::Update(update) => {
            update.assignments = one_by_one(std::mem::take(&mut update.assignments))?;
            for assignment in &mut update.assignments {
                default_as_null(&mut assignment.value);
                fold(&mut assignment.target);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// `SET A = 1` sets `a`, as names are folded everywhere else.
fn fold(target: &mut AssignmentTarget) {
    let AssignmentTarget::ColumnName(name) = target else { return };
    for part in &mut name.0 {
        if let ObjectNamePart::Identifier(part) = part {
            part.value = folded(part);
        }
    }
}

fn refuse(statement: &Statement) -> Result<()> {
    let (returning, on) = match statement {
        Statement::Insert(insert) => (&insert.returning, insert.on.is_some()),
        Statement::Update(update) => (&update.returning, false),
        Statement::Delete(delete) => (&delete.returning, false),
        _ => return Ok(()),
    };
    let refused = |what: &str| Err(Error::Unsupported(what.to_owned()));
    if returning.is_some() {
        return refused(
            "RETURNING: a statement that writes answers with the count of its rows; a SELECT with \
             the same condition gives the rows, over PostgreSQL in one block of BEGIN and COMMIT",
        );
    }
    if on {
        return refused(
            "ON CONFLICT and ON DUPLICATE KEY, because tables have no keys; UPDATE … FROM changes \
             the rows that are there, and INSERT INTO … SELECT … WHERE NOT EXISTS (…) adds others",
        );
    }
    Ok(())
}

/// No column has a default: DEFAULT is null.
fn default_as_null(value: &mut Expr) {
    if matches!(value, Expr::Identifier(name) if is_default(name)) {
        *value = Expr::value(Value::Null);
    }
}

fn is_default(name: &Ident) -> bool {
    name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default")
}

/// `SET (a, b) = (1, 2)` as `SET a = 1, b = 2`.
fn one_by_one(assignments: Vec<Assignment>) -> Result<Vec<Assignment>> {
    let mut single = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let names = match assignment.target {
            AssignmentTarget::ColumnName(_) => {
                single.push(assignment);
                continue;
            }
            AssignmentTarget::Tuple(names) => names,
        };
        let values = match assignment.value {
            Expr::Tuple(values) => values,
            Expr::Nested(value) => vec![*value],
            value => {
                return Err(Error::Unsupported(format!(
                    "SET (…) = {value}: columns in parentheses get a list of values, as in SET (a, \
                     b) = (1, 2); UPDATE … SET a = s.x, b = s.y FROM (SELECT …) AS s WHERE … takes \
                     several values from a query"
                )));
            }
        };
        if names.len() != values.len() {
            return Err(Error::InvalidInput(format!(
                "SET names {} columns and has {} values for them",
                names.len(),
                values.len()
            )));
        }
        let pairs = names.into_iter().zip(values);
        single.extend(
            pairs.map(|(name, value)| Assignment {
                target: AssignmentTarget::ColumnName(name),
                value,
            }),
        );
    }
    Ok(single)
}

/// The INSERT, UPDATE or DELETE behind a WITH, whose tables are in the queries of it.
fn without_with(query: &mut Query) -> Option<Statement> {
    let mut statement = match query.body.as_mut() {
        SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
            statement.clone()
        }
        _ => return None,
    };
    let Some(with) = query.with.take() else { return Some(statement) };
    let names = with.cte_tables.iter().map(|cte| folded(&cte.alias.name)).collect();
    let mut moved = Moved { with, names, depth: 0 };
    match &mut statement {
        Statement::Insert(insert) => {
            if let Some(source) = &mut insert.source {
                moved.add_to(source);
            }
        }
        Statement::Update(update) => {
            // The table that is changed is one of the store.
            if let Some(
                UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from),
            ) = &mut update.from
            {
                moved.add_to_tables(from);
            }
            for assignment in &mut update.assignments {
                let _ = visit_mut(&mut assignment.value, &mut moved);
            }
            if let Some(condition) = &mut update.selection {
                let _ = visit_mut(condition, &mut moved);
            }
        }
        Statement::Delete(delete) => {
            if let Some(using) = &mut delete.using {
                moved.add_to_tables(using);
            }
            if let Some(condition) = &mut delete.selection {
                let _ = visit_mut(condition, &mut moved);
            }
        }
        _ => {}
    }
    Some(statement)
}

/// Adds a WITH to the outermost queries.
struct Moved {
    with: With,
    names: Vec<String>,
    /// How many queries the walk is in.
    depth: usize,
}

impl Moved {
    /// Those of a query itself come later, and may read these.
    fn add_to(&self, query: &mut Query) {
        let with = self.with.clone();
        match &mut query.with {
            Some(own) => {
                own.recursive |= with.recursive;
                own.cte_tables.splice(0..0, with.cte_tables);
            }
            none => *none = Some(with),
        }
    }

    fn add_to_tables(&mut self, tables: &mut [TableWithJoins]) {
        for table in tables {
            let _ = visit_mut(table, self);
        }
    }

    /// The query for all of a table of the WITH, under the name that it has in the FROM.
    fn all_of(&self, factor: &TableFactor) -> Option<TableFactor> {
        let TableFactor::Table { name, alias, args: None, sample, .. } = factor else {
            return None;
        };
        let [part] = name.0.as_slice() else { return None };
        let named = part.as_ident()?;
        if !self.names.contains(&folded(named)) {
            return None;
        }
        let Some(Statement::Query(subquery)) = parsed(&format!("SELECT * FROM {named}")) else {
            return None;
        };
        let own = TableAlias {
            explicit: true,
            name: Ident { span: Span::empty(), ..named.clone() },
            columns: Vec::new(),
            at: None,
        };
        let alias = Some(alias.clone().unwrap_or(own));
        Some(TableFactor::Derived { lateral: false, subquery, alias, sample: sample.clone() })
    }
}

impl VisitorMut for Moved {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.depth == 0
            && let Some(query) = self.all_of(factor)
        {
            *factor = query;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.add_to(query);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
