//! `FROM read_csv('x.csv', delimiter => ';')`: functions that read files, with options.
//!
//! Where this stands on the road of a query: after parsing. A call becomes the name of a table, its
//! own text in double quotes, so that all that comes later treats it as the name of a file;
//! `names::file_calls` reads the options out of that text again.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Statement, TableAlias, TableFactor, VisitorMut,
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
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: Ident::new(function),
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
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
