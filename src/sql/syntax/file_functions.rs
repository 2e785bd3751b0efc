//! `FROM read_csv('x.csv', delimiter => ';')`: functions that read files, with options.
//!
//! Where this stands on the road of a query: after parsing. A call becomes the name of a table, its
//! own text in double quotes, so that all that comes later treats it as the name of a file;
//! `names::file_calls` reads the options out of that text again. `FROM stdin` becomes `FROM "-"`
//! likewise, unless a WITH query has this name; `"stdin"` in quotes is a table.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, Statement, TableAlias, TableFactor, VisitorMut,
};

use crate::sql::syntax::folded;
use crate::sql::walks::visit_mut;

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
const STDIN: (&str, &str) = ("stdin", "-");

/// Puts names in the place of calls, and of the standard input.
pub(in crate::sql) fn as_names(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut AsNames { hides_stdin: false });
}

struct AsNames {
    /// Whether a WITH query has its name.
    hides_stdin: bool,
}

impl VisitorMut for AsNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hides_stdin |= tables.any(|table| folded(&table.alias.name) == STDIN.0);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = table
            && let [part] = name.0.as_slice()
            && part.as_ident().is_some_and(|name| is_stdin(name) && !self.hides_stdin)
        {
            *name = ObjectName::from(vec![Ident::with_quote('"', STDIN.1)]);
            alias.get_or_insert_with(|| named(STDIN.0));
        }
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
