//! Selects the columns of a typed input that a table can hold.

use std::path::Path;

use arrow_schema::Schema as ArrowSchema;

use crate::error::{Error, Result};
use crate::model::DataType;

/// The positions of the columns that a table can hold. Any other column is an error that names it
/// or, with `skip_unsupported`, is named in the second result.
pub(super) fn supported_columns(
    name: &Path,
    schema: &ArrowSchema,
    skip_unsupported: bool,
) -> Result<(Vec<usize>, Vec<String>)> {
    let (mut columns, mut skipped) = (Vec::new(), Vec::new());
    for (at, field) in schema.fields().iter().enumerate() {
        match DataType::from_arrow(field.data_type()) {
            Some(_) => columns.push(at),
            None if skip_unsupported => skipped.push(field.name().clone()),
            None => {
                return Err(Error::Unsupported(format!(
                    "{}: column '{}' has type {}, which a table cannot hold yet; \
                     leave such columns out with --skip-unsupported",
                    name.display(),
                    field.name(),
                    field.data_type()
                )));
            }
        }
    }
    Ok((columns, skipped))
}

/// The error that an input does not have a column whose type the user named.
pub(in crate::ingest) fn no_such_column<'a>(
    file: &Path,
    column: &str,
    columns: impl Iterator<Item = &'a str>,
) -> Error {
    let mut columns = columns.peekable();
    let shown: Vec<&str> = columns.by_ref().take(20).collect();
    Error::NotFound(format!(
        "{}: no column is called '{column}' (--schema); its columns are {}{}",
        file.display(),
        shown.join(", "),
        if columns.peek().is_some() { ", …" } else { "" },
    ))
}
