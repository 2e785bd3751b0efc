//! Fragments as EXPLAIN shows them.

use std::fmt;

use crate::query::fragment::direction;
use crate::query::{ByColumn, Condition, FirstGroups, Fragment, OrderBy, Output};

/// A fragment on one line, as EXPLAIN shows it.
pub(crate) fn describe(
    fragment: &Fragment,
    table: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "StoreFragment: table={table}")?;
    match &fragment.output {
        Output::Aggregate { keys, aggregates, first } => {
            list(f, "group", keys.iter().map(|key| &*key.text))?;
            list(f, "aggregates", aggregates.iter().map(|aggregate| &*aggregate.text))?;
            if let Some(FirstGroups { order, limit }) = first {
                let texts = keys.iter().map(|key| &*key.text);
                let texts: Vec<&str> = texts.chain(aggregates.iter().map(|a| &*a.text)).collect();
                let by = |by: &ByColumn| {
                    let text = texts.get(by.column).copied().unwrap_or_default();
                    direction(text, by.descending, by.nulls_first)
                };
                let order: Vec<String> = order.iter().map(by).collect();
                list(f, "order", order.iter().map(String::as_str))?;
                write!(f, ", first={limit}")?;
            }
        }
        Output::Top { order, limit, skip, expressions } => {
            let order: Vec<String> = order.iter().map(OrderBy::to_string).collect();
            list(f, "order", order.iter().map(String::as_str))?;
            write!(f, ", limit={limit}")?;
            if *skip > 0 {
                write!(f, ", skip={skip}")?;
            }
            list(f, "columns", expressions.iter().map(|expression| &*expression.text))?;
        }
    }
    list(
        f,
        "filter",
        fragment.conditions.iter().map(|Condition { expression, .. }| &*expression.text),
    )
}

fn list<'a>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    items: impl Iterator<Item = &'a str>,
) -> fmt::Result {
    let items: Vec<&str> = items.collect();
    if items.is_empty() { Ok(()) } else { write!(f, ", {name}=[{}]", items.join(", ")) }
}
