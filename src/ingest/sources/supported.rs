//! Selects the columns of a typed input that a table can hold.

use std::path::Path;

use arrow_schema::Schema as ArrowSchema;

use super::flat;
use crate::error::{Error, Result};
use crate::model::DataType;

/// Which columns of a typed input to read.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// Those that a table can hold.
    Supported(Others),
    /// All of them, of any type.
    All,
    /// The columns for which this returns true, of any type; at least one, so that rows can be
    /// counted.
    Read(&'a dyn Fn(&str) -> bool),
}

/// What to do with columns of types that a table cannot hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// They are an error.
    Refuse,
    Skip,
    /// The fields of structs become columns, and lists and maps texts; what is left is an error,
    /// or skipped.
    Flatten {
        skip: bool,
    },
}

/// The positions of the columns to read, and the names of those that are skipped.
pub(super) fn supported_columns(
    name: &Path,
    schema: &ArrowSchema,
    wanted: Wanted<'_>,
) -> Result<(Vec<usize>, Vec<String>)> {
    let others = match wanted {
        Wanted::Supported(others) => others,
        Wanted::All => return Ok(((0..schema.fields().len()).collect(), Vec::new())),
        Wanted::Read(is_read) => {
            let fields = schema.fields().iter().enumerate();
            let mut columns: Vec<usize> =
                fields.filter(|(_, field)| is_read(field.name())).map(|(at, _)| at).collect();
            if columns.is_empty() && !schema.fields().is_empty() {
                columns.push(0);
            }
            return Ok((columns, Vec::new()));
        }
    };
    let (mut columns, mut skipped) = (Vec::new(), Vec::new());
    for (at, field) in schema.fields().iter().enumerate() {
        let unsupported = match others {
            Others::Flatten { .. } => flat::unsupported(field),
            Others::Refuse | Others::Skip => DataType::from_field(field)
                .is_none()
                .then(|| (field.name().clone(), field.data_type().clone())),
        };
        match (unsupported, others) {
            (None, _) => columns.push(at),
            (Some(_), Others::Skip | Others::Flatten { skip: true }) => {
                skipped.push(field.name().clone())
            }
            (Some((column, data_type)), _) => {
                let flatten = if matches!(others, Others::Flatten { .. }) {
                    ""
                } else {
                    "store fields of structs as columns, and lists as JSON texts, with --flatten; "
                };
                return Err(Error::Unsupported(format!(
                    "{}: column '{column}' has type {data_type}, which a table cannot hold; \
                     {flatten}leave such columns out with --skip-unsupported",
                    name.display(),
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
