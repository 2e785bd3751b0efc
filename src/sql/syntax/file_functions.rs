//! `FROM read_csv('x.csv', delimiter => ';')`: functions that read files, with options.
//!
//! Where this stands on the road of a query: after parsing. A call becomes the name of a table, its
//! own text in double quotes, so that all that comes later treats it as the name of a file;
//! `names::file_calls` reads the options out of that text again. `FROM stdin` becomes `FROM "-"`
//! while the statement is planned, unless something else has this name.

use std::ops::ControlFlow;

use datafusion::sql::parser;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, Statement, TableAlias, TableFactor, Visitor, VisitorMut,
};

use crate::sql::syntax::{folded, sql_in, sql_of};
use crate::sql::walks::{visit, visit_mut};

/// The names that functions have here and in DuckDB, with ours.
const FUNCTIONS: [(&str, &str); 9] = [
    ("read_csv", "read_csv"),
    ("read_csv_auto", "read_csv"),
    ("read_json", "read_json"),
    ("read_json_auto", "read_json"),
    ("read_ndjson", "read_json"),
    ("read_ndjson_auto", "read_json"),
    ("read_parquet", "read_parquet"),
    ("parquet_scan", "read_parquet"),
    ("read_arrow", "read_arrow"),
];

/// The standard input as a table, and the name of the file that it is.
pub(in crate::sql) const STDIN: (&str, &str) = ("stdin", "-");

/// Puts names in the place of calls.
pub(in crate::sql) fn as_names(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut AsNames);
}

struct AsNames;

impl VisitorMut for AsNames {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args, .. } = table
            && let [part] = name.0.as_slice()
            && let Some(function) = part.as_ident().map(folded).and_then(|name| ours(&name))
            && let Some(given) = args.take()
        {
            let given: Vec<String> = given.args.iter().map(ToString::to_string).collect();
            let call = format!("{function}({})", given.join(", "));
            *name = ObjectName::from(vec![Ident::with_quote('"', call)]);
            alias.get_or_insert_with(|| named(function));
        }
        ControlFlow::Continue(())
    }
}

/// The statement with the standard input where it says `FROM stdin`; `None` if it does not.
pub(in crate::sql) fn with_stdin(statement: &parser::Statement) -> Option<parser::Statement> {
    if visit(sql_in(statement)?, &mut NamesStdin).is_continue() {
        return None;
    }
    let mut statement = statement.clone();
    let _ = visit_mut(sql_of(&mut statement)?, &mut StdinAsName { hiding: 0 });
    Some(statement)
}

/// Finds a table of this name.
struct NamesStdin;

impl Visitor for NamesStdin {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        match name.0.as_slice() {
            [part] if part.as_ident().is_some_and(is_stdin) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct StdinAsName {
    /// Queries around this place in which a WITH query has the name.
    hiding: usize,
}

impl VisitorMut for StdinAsName {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hiding += usize::from(hides_stdin(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hiding -= usize::from(hides_stdin(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = table
            && let [part] = name.0.as_slice()
            && part.as_ident().is_some_and(is_stdin)
            && self.hiding == 0
        {
            *name = ObjectName::from(vec![Ident::with_quote('"', STDIN.1)]);
            alias.get_or_insert_with(|| named(STDIN.0));
        }
        ControlFlow::Continue(())
    }
}

fn hides_stdin(query: &Query) -> bool {
    let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.any(|table| folded(&table.alias.name) == STDIN.0)
}

fn is_stdin(name: &Ident) -> bool {
    name.quote_style.is_none() && folded(name) == STDIN.0
}

fn named(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None }
}

/// Our name of a function that reads files.
fn ours(name: &str) -> Option<&'static str> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, ours)| *ours)
}

/// Whether a name of a table is the text of such a call.
pub(in crate::sql) fn is_call(name: &str) -> bool {
    let function = name.strip_suffix(')').and_then(|call| Some(call.split_once('(')?.0));
    function.is_some_and(|function| ours(function) == Some(function))
}
