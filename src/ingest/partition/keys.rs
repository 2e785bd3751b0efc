//! Partition keys: expressions, compiled and named.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::limits;
use crate::model::{Column, DataType, PartitionKey, Schema};

/// Compiles SQL expressions to functions.
pub trait Compile: Debug + Send + Sync {
    /// Compiles an expression over columns, which it names by position.
    fn compile(&self, expression: &str, columns: &[Column]) -> Result<Expression>;
}

/// Knows columns by name, and no other expressions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ColumnsOnly;

impl Compile for ColumnsOnly {
    fn compile(&self, expression: &str, columns: &[Column]) -> Result<Expression> {
        let at = columns.iter().position(|column| &*column.name == expression);
        let Some((at, column)) = at.and_then(|at| Some((at, columns.get(at)?))) else {
            return Err(Error::NotFound(format!(
                "there is no column '{expression}' to partition by"
            )));
        };
        Ok(Expression::column(at, column))
    }
}

/// The partition keys for a list of expressions such as `year(pickup) AS year`, `vendor_id`.
pub fn partition_keys(
    requests: &[String],
    schema: &Schema,
    compile: &dyn Compile,
) -> Result<Vec<PartitionKey>> {
    let mut keys: Vec<PartitionKey> = Vec::with_capacity(requests.len());
    for request in requests {
        let (expression, name) = split_alias(request);
        let compiled = compile.compile(expression, schema.columns())?;
        // Texts of intervals that are equal need not be.
        let known = DataType::from_arrow(&compiled.data_type);
        let data_type = known.filter(|of| *of != DataType::Interval).ok_or_else(|| {
            Error::Unsupported(format!(
                "'{expression}' has type {}, which cannot be a partition key",
                compiled.data_type
            ))
        })?;
        let columns = compiled.inputs.iter().filter_map(|at| schema.columns().get(*at));
        let columns: Vec<_> = columns.map(|column| (Arc::clone(&column.name), column.id)).collect();
        let name: Arc<str> = name.map_or_else(|| plain_name(expression), str::to_owned).into();
        if keys.iter().any(|key| key.name == name) {
            return Err(Error::InvalidInput(format!(
                "two partition keys are named '{name}'; name one with AS"
            )));
        }
        keys.push(PartitionKey { name, expression: expression.into(), columns, data_type });
    }
    if keys.len() > limits::MAX_PARTITION_KEYS {
        return Err(Error::LimitExceeded(format!(
            "{} partition keys; at most {}",
            keys.len(),
            limits::MAX_PARTITION_KEYS
        )));
    }
    Ok(keys)
}

/// Splits `expression AS name`.
pub(super) fn split_alias(request: &str) -> (&str, Option<&str>) {
    let lower = request.to_ascii_lowercase();
    let at = lower.rfind(" as ").filter(|at| {
        let name = request.get(at + 4..).unwrap_or_default().trim();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    match at {
        Some(at) => {
            (request.get(..at).unwrap_or_default().trim(), request.get(at + 4..).map(str::trim))
        }
        None => (request.trim(), None),
    }
}

/// A key name for an expression: letters, digits and underscores.
pub(super) fn plain_name(expression: &str) -> String {
    let mut name = String::new();
    for c in expression.chars() {
        if c.is_alphanumeric() || c == '_' {
            name.push(c);
        } else if !name.ends_with('_') && !name.is_empty() {
            name.push('_');
        }
    }
    name.trim_end_matches('_').to_owned()
}
