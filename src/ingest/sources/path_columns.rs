//! Columns whose values come from an input's path: the `key=value` parts of a Hive-partitioned
//! directory, and the path itself.
//!
//! Values are percent-decoded; `__HIVE_DEFAULT_PARTITION__` is null, and so is a key that an
//! input's path lacks. Types are inferred over all inputs of a load, as those of CSV columns are
//! over rows. A column of the file takes precedence over one of its path.

use std::path::{Component, Path};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt32Array, new_null_array,
};
use arrow_schema::{Field as ArrowField, Schema};
use percent_encoding::percent_decode_str;

use super::csv::column::ColumnBuilder;
use super::csv::rules::FieldRules;
use super::csv::split::Field;
use super::input::Input;
use crate::error::{ArrowResult, Error, Result};
use crate::ingest::infer::TypeCandidates;
use crate::model::DataType;

/// Hive's spelling of null.
const NULL_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Columns that are constant over an input.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathColumns {
    /// Fields and one-row arrays.
    columns: Vec<(ArrowField, ArrayRef)>,
}

impl PathColumns {
    /// Appends the columns that the batch does not have itself.
    pub(crate) fn add_to(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let missing: Vec<_> = self
            .columns
            .iter()
            .filter(|(field, _)| batch.schema_ref().index_of(field.name()).is_err())
            .collect();
        if missing.is_empty() {
            return Ok(batch);
        }
        let first = UInt32Array::from_value(0, batch.num_rows());
        let mut fields: Vec<_> = batch.schema_ref().fields().iter().cloned().collect();
        let mut columns = batch.columns().to_vec();
        for (field, value) in missing {
            fields.push(Arc::new(field.clone()));
            columns.push(arrow_select::take::take(value, &first, None).or_invalid()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .or_invalid()
    }

    /// Names and types.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &ArrowField> {
        self.columns.iter().map(|(field, _)| field)
    }

    /// Fields with their values, as arrays of one row.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&ArrowField, &ArrayRef)> {
        self.columns.iter().map(|(field, value)| (field, value))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(field, _)| field.name().as_str())
    }
}

/// The path columns of each input. `partitions` says whether to look for keys in the paths;
/// `filename` names a column for the path itself. Types in `fixed` are used as they are, and types
/// in `prior` if all values fit.
pub(crate) fn path_columns(
    inputs: &[Input],
    partitions: bool,
    filename: Option<&str>,
    fixed: &[(String, DataType)],
    prior: &[(String, DataType)],
) -> Result<Vec<PathColumns>> {
    let of_path =
        |input: &Input| input.file().filter(|_| partitions).map(path_keys).unwrap_or_default();
    let found: Vec<Vec<(String, Option<String>)>> = inputs.iter().map(of_path).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in found.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut all = vec![PathColumns::default(); inputs.len()];
    for name in names {
        let value = |keys: &Vec<(String, Option<String>)>| {
            keys.iter().find(|(key, _)| key == name)?.1.clone()
        };
        let values: Vec<Option<String>> = found.iter().map(value).collect();
        for (columns, array) in
            all.iter_mut().zip(typed_values(name, &values, inputs, fixed, prior)?)
        {
            let field = ArrowField::new(name, array.data_type().clone(), true);
            let named = fixed.iter().find(|(known, _)| known == name);
            let field = match named {
                Some((_, data_type)) => data_type.marked(field),
                None => field,
            };
            columns.columns.push((field, array));
        }
    }
    if let Some(filename) = filename {
        for (columns, input) in all.iter_mut().zip(inputs) {
            let path = StringArray::from(vec![input.name().to_string_lossy().into_owned()]);
            columns.columns.retain(|(field, _)| field.name() != filename);
            let field = ArrowField::new(filename, arrow_schema::DataType::Utf8, true);
            columns.columns.push((field, Arc::new(path)));
        }
    }
    Ok(all)
}

/// The `key=value` parts of a path's directories.
fn path_keys(path: &Path) -> Vec<(String, Option<String>)> {
    let mut keys: Vec<(String, Option<String>)> = Vec::new();
    for component in path.parent().unwrap_or(Path::new("")).components() {
        let Component::Normal(name) = component else { continue };
        let Some((key, value)) = name.to_str().and_then(|name| name.split_once('=')) else {
            continue;
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let key = decoded(key);
        if !key.is_empty() && keys.iter().all(|(known, _)| *known != key) {
            keys.push((key, (value != NULL_VALUE).then(|| decoded(value))));
        }
    }
    keys
}

/// Each value as a one-row array, all of one type.
fn typed_values(
    name: &str,
    values: &[Option<String>],
    inputs: &[Input],
    fixed: &[(String, DataType)],
    prior: &[(String, DataType)],
) -> Result<Vec<ArrayRef>> {
    let known = |types: &[(String, DataType)]| {
        types.iter().find(|(known, _)| known == name).map(|(_, t)| t.clone())
    };
    if let Some(data_type) = known(fixed) {
        let each = values.iter().zip(inputs).map(|(value, input)| {
            one_row_array(value.as_deref(), &data_type, true).ok_or_else(|| {
                let (path, value) = (input.name().display(), value.as_deref().unwrap_or_default());
                Error::InvalidInput(format!(
                    "{path}: '{value}', which its path gives for column '{name}', is not of type \
                     {data_type}; --schema gives that type"
                ))
            })
        });
        return each.collect();
    }
    let as_type = |data_type: &DataType| -> Option<Vec<ArrayRef>> {
        values.iter().map(|value| one_row_array(value.as_deref(), data_type, false)).collect()
    };
    let mut candidates = TypeCandidates::default();
    values.iter().flatten().for_each(|value| candidates.add(value.as_str().into()));
    let prior =
        known(prior).filter(|prior| *prior != DataType::Null).and_then(|prior| as_type(&prior));
    let arrays =
        prior.or_else(|| as_type(&candidates.data_type())).or_else(|| as_type(&DataType::Utf8));
    Ok(arrays
        .unwrap_or_else(|| vec![new_null_array(&arrow_schema::DataType::Null, 1); values.len()]))
}

fn one_row_array(value: Option<&str>, data_type: &DataType, fixed: bool) -> Option<ArrayRef> {
    let rules = FieldRules { quote: b'"', nulls: Vec::new(), empty_is_null: true, trims: false };
    let mut column = ColumnBuilder::new(data_type, fixed);
    let field =
        value.map_or(Field::NONE, |value| Field { len: value.len(), quoted: true, ..Field::NONE });
    column
        .push_fields(value.unwrap_or_default().as_bytes(), std::iter::once(field), &rules)
        .ok()?;
    column.finish().ok()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, Int64Array};

    use super::*;

    fn shown(paths: &[&str], fixed: &[(String, DataType)]) -> Result<Vec<Vec<String>>> {
        let inputs: Vec<Input> = paths.iter().map(|path| Input::path(*path)).collect();
        let batch = || {
            RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)])
                .unwrap()
        };
        let each =
            path_columns(&inputs, true, Some("file"), fixed, &[])?.into_iter().map(|columns| {
                let batch = columns.add_to(batch()).unwrap();
                let cell = |(field, column): (&Arc<ArrowField>, &ArrayRef)| {
                    assert_eq!(column.len(), 2);
                    let value = arrow_cast::display::array_value_to_string(column, 1).unwrap();
                    format!(
                        "{}: {} = {value}",
                        field.name(),
                        DataType::from_arrow(field.data_type()).unwrap()
                    )
                };
                batch.schema_ref().fields().iter().zip(batch.columns()).skip(1).map(cell).collect()
            });
        Ok(each.collect())
    }

    #[test]
    fn columns_of_paths() {
        let rows = shown(
            &[
                "data/year=2015/day=2015-01-01/city=a%2Fb/x.csv",
                "data/year=__HIVE_DEFAULT_PARTITION__/day=2015-01-02/city=7/n=5/x.csv",
                "y=1.csv",
            ],
            &[],
        );
        assert_eq!(
            rows.unwrap(),
            [
                vec![
                    "year: int64 = 2015",
                    "day: date = 2015-01-01",
                    "city: utf8 = a/b",
                    "file: utf8 = data/year=2015/day=2015-01-01/city=a%2Fb/x.csv"
                ],
                vec![
                    "year: int64 = ",
                    "day: date = 2015-01-02",
                    "city: utf8 = 7",
                    "file: utf8 = data/year=__HIVE_DEFAULT_PARTITION__/day=2015-01-02/city=7/n=5/\
                 x.csv"
                ],
                vec!["year: int64 = ", "day: date = ", "city: utf8 = ", "file: utf8 = y=1.csv"],
            ]
        );
        let fixed =
            |name: &str, data_type| shown(&["a=1/x", "a=x/x"], &[(name.to_owned(), data_type)]);
        assert_eq!(fixed("a", DataType::Utf8).unwrap()[0][0], "a: utf8 = 1");
        assert!(fixed("a", DataType::Int8).unwrap_err().to_string().contains("'x'"));
    }
}
