//! Unquoted names in any case: `SELECT userid FROM hits` finds the column `UserID`.
//!
//! Where this stands on the road of a query: a statement that cannot be planned as it is written is
//! respelled before, and one that turns out to fail is respelled and planned once more. SQL folds
//! unquoted names to lower case, and a name that is found so is never looked for in other cases.
//! Here, a name that no table of the statement has in lower case, and that they have in exactly one
//! other spelling, gets that spelling, in quotes. The same name gets it everywhere in the
//! statement, also as an alias: that names differ only in case never tells them apart, as in
//! DuckDB.
//!
//! Names with dots, too: `geo.lat` finds the column `geo.lat`, which `sty ingest --flatten` makes
//! of a field of an object, where no table called `geo` has a column `lat`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Statement as SqlStatement, TableAlias, TableFactor, Visitor, VisitorMut,
    WildcardAdditionalOptions,
};

use crate::error::Error;
use crate::sql::syntax::{folded, sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The columns of a table of the statement, or the quoted names that it gives to columns.
pub(in crate::sql) struct KnownColumns {
    /// `None` where columns of several tables are meant.
    qualifier: Option<String>,
    /// Their spellings, by the name in lower case.
    spellings: HashMap<String, Vec<String>>,
}

impl KnownColumns {
    pub(in crate::sql) fn new(
        qualifier: Option<String>,
        names: impl Iterator<Item = String>,
    ) -> KnownColumns {
        let mut spellings: HashMap<String, Vec<String>> = HashMap::new();
        for name in names {
            spellings.entry(name.to_lowercase()).or_default().push(name);
        }
        KnownColumns { qualifier, spellings }
    }
}

/// A statement with other spellings of names.
pub(in crate::sql) struct Respelled {
    pub(in crate::sql) statement: Statement,
    /// Whether the statement cannot be planned as it was written: all of its names are known, and
    /// some that got another spelling are there in no other way.
    pub(in crate::sql) is_needed: bool,
    /// The names of the answer's columns as the statement writes them, where these are aliases that
    /// are spelled otherwise now; none if the answer has a `*`.
    aliases: Vec<Option<String>>,
    /// The names that got another spelling, in lower case.
    respelled: Vec<String>,
}

impl Respelled {
    /// Whether what is wrong with the statement as written is mended by the other spellings, so
    /// that `other` tells what is wrong with it besides.
    pub(in crate::sql) fn mends(&self, written: &Error, other: &Error) -> bool {
        let Some(name) = missing_column(written) else { return false };
        let is_respelled = |respelled: &String| {
            let table = name.strip_suffix(respelled.as_str());
            table.is_some_and(|table| table.is_empty() || table.ends_with('.'))
        };
        self.respelled.iter().any(is_respelled) && missing_column(other).as_ref() != Some(&name)
    }

    /// The names of the answer's columns, some of them as the statement writes them.
    pub(in crate::sql) fn names<'n>(&'n self, planned: Vec<&'n str>) -> Vec<&'n str> {
        let mut aliases = self.aliases.iter();
        let name = |planned| aliases.next().and_then(Option::as_deref).unwrap_or(planned);
        planned.into_iter().map(name).collect()
    }
}

/// The column that there is none of, in lower case.
fn missing_column(error: &Error) -> Option<String> {
    let Error::InvalidInput(what) = error else { return None };
    let rest = what.strip_prefix("no column ")?;
    let end = rest.find("; ").or_else(|| rest.find(" (line ")).unwrap_or(rest.len());
    rest.get(..end).map(str::to_lowercase)
}

/// The statement with names that `columns` have in one other spelling; `None` if there are none.
/// Nothing is known of the tables `unknown`.
pub(in crate::sql) fn respelled(
    statement: &Statement,
    mut columns: Vec<KnownColumns>,
    unknown: &[String],
) -> Option<Respelled> {
    let mut given = GivenNames::default();
    let _ = visit(sql_in(statement)?, &mut given);
    columns.push(KnownColumns::new(None, given.quoted.drain(..)));
    let is_folded = |(name, spellings): (&String, &Vec<String>)| {
        spellings.iter().all(|s| s == name) && !name.contains('.')
    };
    if columns.iter().all(|table| table.spellings.iter().all(is_folded)) {
        return None;
    }
    let mut changed = statement.clone();
    let inner = sql_of(&mut changed)?;
    let before = aliases(inner);
    let aliases_of_queries = given.queries.iter().chain(&given.derived).cloned().collect();
    let mut speller =
        Speller { columns, queries: aliases_of_queries, respelled: Vec::new(), is_needed: false };
    let _ = visit_mut(inner, &mut speller);
    if speller.respelled.is_empty() {
        return None;
    }
    let after = aliases(inner);
    let as_written = |(before, after)| if before == after { None } else { before };
    let aliases = before.into_iter().zip(after).map(as_written).collect();
    let is_needed = speller.is_needed
        || !given.others
            && unknown.iter().all(|table| given.queries.contains(table))
            && speller.respelled.iter().any(|name| !given.folded.contains(name));
    Some(Respelled { statement: changed, is_needed, aliases, respelled: speller.respelled })
}

/// The aliases of the columns that a query answers with; none if it has a `*`.
fn aliases(statement: &SqlStatement) -> Vec<Option<String>> {
    let SqlStatement::Query(query) = statement else { return Vec::new() };
    let mut body = query.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let SetExpr::Select(select) = body else { return Vec::new() };
    let alias = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(Some(folded(alias))),
        SelectItem::UnnamedExpr(_) => Some(None),
        _ => None,
    };
    select.projection.iter().map(alias).collect::<Option<_>>().unwrap_or_default()
}

/// The alias of a table factor, by reference or to be changed.
macro_rules! alias_of {
    ($factor:expr, $as:ident) => {
        match $factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias.$as(),
            _ => None,
        }
    };
}

/// The names that a statement gives.
#[derive(Default)]
struct GivenNames {
    /// The quoted ones of columns.
    quoted: Vec<String>,
    /// The others of columns, in lower case.
    folded: Vec<String>,
    /// Those of WITH queries.
    queries: Vec<String>,
    /// Those of queries in a FROM.
    derived: Vec<String>,
    /// Whether something gives columns their names that is neither a table nor a query.
    others: bool,
}

impl GivenNames {
    fn add(&mut self, name: &Ident) {
        match name.quote_style {
            Some(_) => self.quoted.push(name.value.clone()),
            None => self.folded.push(folded(name)),
        }
    }

    fn add_columns(&mut self, alias: &TableAlias) {
        alias.columns.iter().for_each(|column| self.add(&column.name));
    }
}

impl Visitor for GivenNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        query.with.iter().flat_map(|with| &with.cte_tables).for_each(|cte| {
            self.queries.push(folded(&cte.alias.name));
            self.add_columns(&cte.alias);
        });
        self.others |= matches!(*query.body, SetExpr::Values(_));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.add(alias);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.others |= !matches!(
            factor,
            TableFactor::Table { args: None, .. }
                | TableFactor::Derived { .. }
                | TableFactor::NestedJoin { .. }
        );
        if let Some(alias) = alias_of!(factor, as_ref) {
            self.add_columns(alias);
            if !matches!(factor, TableFactor::Table { .. }) {
                self.derived.push(folded(&alias.name));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Spells names as tables do.
struct Speller {
    columns: Vec<KnownColumns>,
    /// The names of queries, whose columns are not known.
    queries: Vec<String>,
    /// What got another spelling, in lower case.
    respelled: Vec<String>,
    /// Whether the statement cannot be planned as it was written.
    is_needed: bool,
}

impl Speller {
    /// The one spelling that a name has, if it is not that in lower case.
    fn spelling(&self, name: &str, qualifier: Option<&str>) -> Option<String> {
        let tables = self.columns.iter().filter(|table| match qualifier {
            Some(qualifier) => table.qualifier.as_deref() == Some(qualifier),
            None => true,
        });
        let mut spellings: Vec<&String> =
            tables.filter_map(|table| table.spellings.get(name)).flatten().collect();
        spellings.sort();
        spellings.dedup();
        match spellings.as_slice() {
            [one] if *one != name => Some((*one).clone()),
            [] if qualifier.is_some() => self.spelling(name, None),
            _ => None,
        }
    }

    /// The only column whose name consists of these parts, with dots between them.
    fn column_of_fields(&self, parts: &[Ident], qualifier: Option<&str>) -> Option<String> {
        let names: Vec<String> = parts.iter().map(folded).collect();
        let name = names.join(".");
        let is_meant = |spelling: &&String| {
            let fields = || spelling.split('.').zip(parts);
            fields().all(|(field, part)| part.quote_style.is_none() || field == part.value)
        };
        let tables = self.columns.iter().filter(|table| {
            qualifier.is_none_or(|qualifier| table.qualifier.as_deref() == Some(qualifier))
        });
        let name = name.to_lowercase();
        let spellings = tables.filter_map(|table| table.spellings.get(&name));
        let mut spellings: Vec<&String> = spellings.flatten().filter(is_meant).collect();
        let exact = parts.iter().map(folded).collect::<Vec<_>>().join(".");
        if spellings.contains(&&exact) {
            return Some(exact);
        }
        spellings.sort();
        spellings.dedup();
        match spellings.as_slice() {
            [one] => Some((*one).clone()),
            _ => None,
        }
    }

    /// The column that `geo.lat` or `t.geo.lat` means, unless `geo` is a table with a column `lat`.
    fn field(&self, parts: &[Ident]) -> Option<Expr> {
        let is_of_table = |qualifier: &Ident, name: &Ident| {
            let (qualifier, name) = (folded(qualifier), folded(name));
            self.columns.iter().any(|table| {
                table.qualifier.as_deref() == Some(&*qualifier)
                    && table.spellings.contains_key(&name.to_lowercase())
            })
        };
        match parts {
            [] | [_] => return None,
            [first, second] if is_of_table(first, second) => return None,
            [first, _] if self.queries.contains(&folded(first)) => return None,
            _ => {}
        }
        let quoted = |name: String| Ident::with_quote('"', name);
        if let [first, rest @ ..] = parts
            && rest.len() > 1
            && let Some(name) = self.column_of_fields(rest, Some(&folded(first)))
        {
            return Some(Expr::CompoundIdentifier(vec![first.clone(), quoted(name)]));
        }
        if let Some(name) = self.column_of_fields(parts, None) {
            return Some(Expr::Identifier(quoted(name)));
        }
        // The alias of a subquery.
        match parts {
            [first, rest @ ..] if rest.len() > 1 => {
                let name = self.column_of_fields(rest, None)?;
                Some(Expr::CompoundIdentifier(vec![first.clone(), quoted(name)]))
            }
            _ => None,
        }
    }

    /// Spells the name of a column that is changed.
    fn spell_changed(&mut self, name: &mut ObjectName) {
        let parts = name.0.iter().map(|part| part.as_ident().cloned());
        let parts: Vec<Ident> = parts.collect::<Option<_>>().unwrap_or_default();
        match self.field(&parts) {
            Some(Expr::Identifier(field)) => {
                // DataFusion takes such a name for that of another column, or refuses it.
                self.is_needed = true;
                self.respelled.push(folded(&field));
                *name = ObjectName::from(field);
            }
            Some(Expr::CompoundIdentifier(parts)) => *name = ObjectName::from(parts),
            _ => self.spell_last(name),
        }
    }

    fn spell(&mut self, name: &mut Ident, qualifier: Option<&str>) {
        if name.quote_style.is_some() {
            return;
        }
        let folded = folded(name);
        if let Some(spelling) = self.spelling(&folded, qualifier) {
            name.value = spelling;
            name.quote_style = Some('"');
            self.respelled.push(folded);
        }
    }

    /// Spells the last part of a name.
    fn spell_last(&mut self, name: &mut ObjectName) {
        let mut parts = name.0.iter_mut().rev().filter_map(|part| match part {
            ObjectNamePart::Identifier(name) => Some(name),
            ObjectNamePart::Function(_) => None,
        });
        let (Some(last), qualifier) = (parts.next(), parts.next()) else { return };
        let qualifier = qualifier.map(|name| folded(name));
        self.spell(last, qualifier.as_deref());
    }

    fn spell_columns(&mut self, alias: &mut TableAlias) {
        alias.columns.iter_mut().for_each(|column| self.spell(&mut column.name, None));
    }

    fn spell_wildcard(&mut self, options: &mut WildcardAdditionalOptions) {
        match &mut options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => self.spell_last(name),
            Some(ExcludeSelectItem::Multiple(names)) => {
                names.iter_mut().for_each(|name| self.spell_last(name));
            }
            None => {}
        }
        if let Some(except) = &mut options.opt_except {
            self.spell(&mut except.first_element, None);
            except.additional_elements.iter_mut().for_each(|name| self.spell(name, None));
        }
        if let Some(replace) = &mut options.opt_replace {
            replace.items.iter_mut().for_each(|item| self.spell(&mut item.column_name, None));
        }
    }
}

impl VisitorMut for Speller {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        match statement {
            SqlStatement::Insert(insert) => {
                insert.columns.iter_mut().for_each(|name| self.spell_changed(name));
            }
            SqlStatement::Update(update) => {
                for assignment in &mut update.assignments {
                    match &mut assignment.target {
                        AssignmentTarget::ColumnName(name) => self.spell_changed(name),
                        AssignmentTarget::Tuple(names) => {
                            names.iter_mut().for_each(|name| self.spell_changed(name));
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        query.with.iter_mut().flat_map(|with| &mut with.cte_tables).for_each(|cte| {
            self.spell_columns(&mut cte.alias);
        });
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => self.spell(alias, None),
                SelectItem::Wildcard(options)
                | SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(_),
                    options,
                ) => self.spell_wildcard(options),
                _ => {}
            }
        }
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if let Some(names) = using(&mut join.join_operator) {
                names.iter_mut().for_each(|name| self.spell_last(name));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(alias) = alias_of!(factor, as_mut) {
            self.spell_columns(alias);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.spell(name, None),
            Expr::CompoundIdentifier(parts) => {
                if let Some(field) = self.field(parts) {
                    let names: Vec<String> = parts.iter().map(folded).collect();
                    self.respelled.push(names.join("."));
                    *expr = field;
                } else if let [.., table, column] = parts.as_mut_slice() {
                    let qualifier = folded(table);
                    self.spell(column, Some(&qualifier));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The columns by which a join is made.
fn using(operator: &mut JoinOperator) -> Option<&mut Vec<ObjectName>> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => match constraint {
            JoinConstraint::Using(names) => Some(names),
            _ => None,
        },
        _ => None,
    }
}
