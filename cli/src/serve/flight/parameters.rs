//! The values that clients bind to the parameters of a statement: a batch, of which each row is for
//! one run.

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use stylobate::Parameters;
use tonic::Status;

use super::errors::{Stop, invalid};

/// The values of a row, for parameters of these types. Columns are `$1`, `$2` and so on by
/// position, and also what they are called, for statements that name their parameters.
pub(super) fn row(
    batch: &RecordBatch,
    row: usize,
    types: &[Option<DataType>],
) -> Result<Parameters, Stop> {
    let mut values = Parameters::default();
    let schema = batch.schema();
    for (place, (array, field)) in batch.columns().iter().zip(schema.fields()).enumerate() {
        let known = types.get(place).and_then(Option::as_ref);
        let value = value(&array.slice(row, 1), known)
            .map_err(|error| invalid(format!("the value of parameter {}: {error}", place + 1)))?;
        values.set_first_of(&(place + 1).to_string(), &value)?;
        if let Some(name) = name_of(field.name()) {
            values.set_first_of(name, &value)?;
        }
    }
    Ok(values)
}

/// A value in the type in which the statement takes it.
fn value(given: &ArrayRef, known: Option<&DataType>) -> Result<ArrayRef, arrow_schema::ArrowError> {
    let known = match known {
        Some(DataType::Dictionary(_, values)) => Some(values.as_ref()),
        other => other,
    };
    let is_decimal = |it: &DataType| it.is_decimal();
    match known {
        Some(known) if given.data_type() == &DataType::Null => Ok(new_null_array(known, 1)),
        // A decimal keeps its digits.
        Some(known) if is_decimal(known) && is_decimal(given.data_type()) => Ok(given.clone()),
        Some(known) if known != given.data_type() => {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(given, known, &options)
        }
        _ => Ok(given.clone()),
    }
}

/// Checks that a statement with so many parameters gets a value for each. One that names its
/// parameters has none with numbers.
pub(super) fn check_count(needed: usize, values: &RecordBatch) -> Result<(), Status> {
    let given = values.num_columns();
    let by_name =
        needed == 0 && values.schema().fields().iter().all(|field| name_of(field.name()).is_some());
    match given == needed || by_name {
        true => Ok(()),
        false => {
            let what = format!("the statement takes {needed} values, and {given} are bound");
            Err(invalid(what))
        }
    }
}

/// The name of a parameter that is called so, if it is no number.
fn name_of(column: &str) -> Option<&str> {
    let name = column.trim_start_matches('$');
    let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (begins && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    #[test]
    fn values_take_the_types_of_their_places() {
        let columns: [(&str, ArrayRef); 2] = [
            ("$1", Arc::new(StringArray::from(vec!["1", "x"]))),
            ("city", Arc::new(Int64Array::from(vec![1, 2]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let types = [Some(DataType::Int64), None];
        assert!(!row(&batch, 0, &types).unwrap().is_empty());
        assert!(matches!(row(&batch, 1, &types), Err(Stop::Status(_))));
        assert!(check_count(2, &batch).is_ok() && check_count(3, &batch).is_err());
        // `$1` is no name.
        assert!(check_count(0, &batch).is_err());
        assert!(check_count(0, &batch.project(&[1]).unwrap()).is_ok());
    }
}
