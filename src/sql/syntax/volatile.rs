//! Functions that give another value each time that they are called.
//!
//! What writes an expression out several times must not do so with a call of one: each copy would
//! have a value of its own.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Visit};

use crate::error::Error;
use crate::sql::walks::visit_expressions;

/// Their names.
pub(in crate::sql) const NAMES: [&str; 7] = [
    "current_setting",
    "file_row_index",
    "gen_random_uuid",
    "input_file_name",
    "rand",
    "random",
    "uuid",
];

/// How many calls of them there are in a tree.
pub(in crate::sql) fn calls(tree: &impl Visit) -> usize {
    let mut count = 0;
    let _ = visit_expressions(tree, |part| {
        if let Expr::Function(call) = part {
            let name = call.name.to_string();
            count += usize::from(NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)));
        }
        ControlFlow::<()>::Continue(())
    });
    count
}

/// The error of a call of one, where `what` needs its value several times.
pub(in crate::sql) fn refused(what: &str) -> Error {
    Error::InvalidInput(format!(
        "{what} needs the value of an argument several times, and random() would differ; compute \
         it in a subquery first: SELECT … FROM (SELECT *, random() AS r FROM t)"
    ))
}
