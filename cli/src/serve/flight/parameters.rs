//! The values that clients bind to the parameters of a statement: a batch, of which each row is for
//! one run.

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use stylobate::Parameters;
use tonic::Status;

use super::errors::{Stop, invalid};

/// The values of a row, for parameters of these types. Columns are `$1`, `$2` and so on, in order.
pub(super) fn row(
    batch: &RecordBatch,
    row: usize,
    types: &[Option<DataType>],
) -> Result<Parameters, Stop> {
    let mut values = Parameters::default();
    for (place, array) in batch.columns().iter().enumerate() {
        let known = types.get(place).and_then(Option::as_ref);
        let value = value(&array.slice(row, 1), known)
            .map_err(|error| invalid(format!("the value of parameter {}: {error}", place + 1)))?;
        values.set_first_of(&(place + 1).to_string(), &value)?;
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
        // In `? + ?`, nothing tells the types but the values themselves.
        Some(DataType::Null) => Ok(given.clone()),
        // A decimal keeps its digits.
        Some(known) if is_decimal(known) && is_decimal(given.data_type()) => Ok(given.clone()),
        Some(known) if known != given.data_type() => {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(given, known, &options)
        }
        _ => Ok(given.clone()),
    }
}

/// Checks that a statement with so many parameters gets a value for each.
pub(super) fn check_count(needed: usize, values: &RecordBatch) -> Result<(), Status> {
    let given = values.num_columns();
    match given == needed {
        true => Ok(()),
        false => {
            let what = format!("the statement takes {needed} values, and {given} are bound");
            Err(invalid(what))
        }
    }
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
        let unknown = [Some(DataType::Null), Some(DataType::Null)];
        assert!(!row(&batch, 1, &unknown).unwrap().is_empty());
        assert!(check_count(2, &batch).is_ok() && check_count(3, &batch).is_err());
    }
}
