//! Parquet and Arrow files of one pattern that have a column in several types, as files of several
//! years do: those that agree are a table, and the rows of all tables are united in types that hold
//! the values of each without loss, as those of an ingest are.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::ViewTable;
use datafusion::datasource::default_table_source::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit};

use crate::error::{Error, Result};
use crate::model::DataType;

/// The files, by their places, that have their common columns in the same types; at least one
/// group, in the order of their first files.
pub(super) fn groups(schemas: &[Schema]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Schema, Vec<usize>)> = Vec::new();
    for (at, schema) in schemas.iter().enumerate() {
        let schema = schema.clone().with_metadata(Default::default());
        let merged = groups.iter().map(|(known, _)| {
            let both = [known.clone(), schema.clone()];
            Schema::try_merge(both).ok()
        });
        let found = merged.enumerate().find_map(|(group, merged)| Some((group, merged?)));
        match found.and_then(|(group, merged)| Some((groups.get_mut(group)?, merged))) {
            Some(((known, files), merged)) => {
                *known = merged;
                files.push(at);
            }
            None => groups.push((schema, vec![at])),
        }
    }
    groups.into_iter().map(|(_, files)| files).collect()
}

/// One table of the rows of all tables, each with a file of it.
pub(super) fn united(
    tables: &[(Arc<dyn TableProvider>, &Path)],
) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let mut columns: Vec<(String, ArrowType, &Path)> = Vec::new();
    for (table, file) in tables {
        for field in table.schema().fields() {
            let known = columns.iter_mut().find(|(name, ..)| name == field.name());
            let Some((name, known, first)) = known else {
                columns.push((field.name().clone(), field.data_type().clone(), *file));
                continue;
            };
            *known = joined(known, field.data_type())
                .ok_or_else(|| clash(name, (&*known, *first), (field.data_type(), *file)))?;
        }
    }
    let mut all: Option<LogicalPlanBuilder> = None;
    for (table, _) in tables {
        let schema = table.schema();
        let exprs = columns.iter().map(|(name, data_type, _)| -> Result<Expr, DataFusionError> {
            let expr = match schema.field_with_name(name) {
                Ok(field) if field.data_type() == data_type => {
                    Expr::Column(Column::from_name(name))
                }
                Ok(_) => cast(Expr::Column(Column::from_name(name)), data_type.clone()),
                Err(_) => lit(ScalarValue::try_from(data_type)?),
            };
            Ok(expr.alias(name))
        });
        let exprs = exprs.collect::<Result<Vec<_>, DataFusionError>>()?;
        let rows = LogicalPlanBuilder::scan("file", provider_as_source(Arc::clone(table)), None)?;
        let rows = rows.project(exprs)?;
        all = Some(match all {
            Some(all) => all.union(rows.build()?)?,
            None => rows,
        });
    }
    let none = || DataFusionError::from(Error::NotFound("there is no file to read".into()));
    Ok(Arc::new(ViewTable::new(all.ok_or_else(none)?.build()?, None)))
}

/// A type that holds the values of both without loss. That of large integers and floats depends on
/// the values, which are not known.
fn joined(one: &ArrowType, other: &ArrowType) -> Option<ArrowType> {
    if one == other {
        return Some(one.clone());
    }
    let (one, other) = (DataType::from_arrow(one)?, DataType::from_arrow(other)?);
    let is_large = |of: &DataType| matches!(of, DataType::Int64 | DataType::UInt64);
    let both = one.join(&other)?;
    let is_exact = both != DataType::Float64 || !is_large(&one) && !is_large(&other);
    is_exact.then(|| both.to_arrow())
}

#[cold]
fn clash(
    name: &str,
    (one, first): (&ArrowType, &Path),
    (other, second): (&ArrowType, &Path),
) -> Error {
    let shown = |of: &ArrowType| {
        DataType::from_arrow(of).map_or_else(|| of.to_string(), |known| known.to_string())
    };
    Error::InvalidInput(format!(
        "column '{name}' is {} in {} and {} in {}, and no type holds both without loss; read the \
         files one by one, with a cast",
        shown(one),
        first.display(),
        shown(other),
        second.display()
    ))
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn types_are_joined_where_no_value_can_change() {
        use ArrowType::{
            Boolean, Float32, Float64, Int32, Int64, LargeUtf8, UInt32, Utf8, Utf8View,
        };
        for (one, other, both) in [
            (Int32, Int64, Some(Int64)),
            (UInt32, Int32, Some(Int64)),
            (Int32, Float64, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Utf8, LargeUtf8, Some(Utf8View)),
            (ArrowType::Null, Boolean, Some(Boolean)),
            (Int64, Float64, None),
            (Int64, Utf8, None),
        ] {
            assert_eq!(joined(&one, &other), both, "{one} {other}");
            assert_eq!(joined(&other, &one), both, "{other} {one}");
        }
    }

    #[test]
    fn files_that_agree_are_one_group() {
        let schema = |columns: &[(&str, ArrowType)]| {
            let field = |(name, of): &(&str, ArrowType)| Field::new(*name, of.clone(), true);
            Schema::new(columns.iter().map(field).collect::<Vec<_>>())
        };
        let (int, long) = (ArrowType::Int32, ArrowType::Int64);
        let schemas = [
            schema(&[("a", int.clone())]),
            schema(&[("a", long.clone()), ("b", int.clone())]),
            schema(&[("b", int.clone())]),
            schema(&[("a", long), ("b", int)]),
        ];
        assert_eq!(groups(&schemas), [vec![0, 2], vec![1, 3]]);
    }
}
