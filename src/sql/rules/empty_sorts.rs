//! Sorts of rows without columns: `count(*)` of `ORDER BY random() LIMIT 70`, say.
//!
//! Where this stands on the road of a query: a logical rule, after columns that nobody reads are
//! dropped. DataFusion's sort with a limit (55.2) fails for such rows: "must either specify a row
//! count or at least one column". Their order is nothing that could be seen, so that the limit
//! alone is left.

use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Limit, LogicalPlan, lit};

use crate::sql::walks::Rewritten;

pub(in crate::sql) fn limit_empty_rows(node: LogicalPlan) -> Rewritten<LogicalPlan> {
    let LogicalPlan::Sort(sort) = node else { return Ok(Transformed::no(node)) };
    if !sort.input.schema().fields().is_empty() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let fetch = sort.fetch.map(|rows| Box::new(lit(i64::try_from(rows).unwrap_or(i64::MAX))));
    Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip: None, fetch, input: sort.input })))
}
