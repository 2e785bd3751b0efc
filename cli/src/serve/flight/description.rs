//! Describes a statement to a client before it runs: its parameters, and the columns of its answer.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::types::sent_type;

/// What a statement takes and gives.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    /// The parameters; `None` where the statement does not tell the type.
    pub(super) parameters: Vec<Option<DataType>>,
    /// What they are called, if they have names.
    pub(super) names: Vec<String>,
    /// The columns of the answer; `None` if there is none.
    pub(super) answer: Option<SchemaRef>,
}

impl Description {
    /// The columns of the answer: none, if there is no answer.
    pub(super) fn columns(&self) -> SchemaRef {
        self.answer.clone().unwrap_or_else(|| Schema::empty().into())
    }

    /// The parameters as columns of the values that clients bind. What takes any type takes text.
    pub(super) fn parameter_columns(&self) -> Schema {
        let field = |(place, known): (usize, &Option<DataType>)| {
            let data_type = known.as_ref().map_or(DataType::Utf8, sent_type);
            let name = self.names.get(place).cloned();
            Field::new(name.unwrap_or_else(|| format!("${}", place + 1)), data_type, true)
        };
        Schema::new(self.parameters.iter().enumerate().map(field).collect::<Vec<_>>())
    }

    /// Values by position, also where a client has named them.
    pub(super) fn in_order(&self, values: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let schema = values.schema();
        let place_of = |name: &String| {
            schema.fields().iter().position(|field| field.name().trim_start_matches('$') == name)
        };
        let places: Option<Vec<usize>> = self.names.iter().map(place_of).collect();
        match places.filter(|places| !places.is_empty()) {
            Some(places) => values.project(&places),
            None => Ok(values),
        }
    }

    /// The types of the parameters with these values, if some depend on the values: those that the
    /// statement tells, to which values are cast, and else those of the values.
    pub(super) fn types_with(&self, values: Option<&RecordBatch>) -> Option<Vec<Option<DataType>>> {
        let values = values?;
        let types = values.columns().iter().enumerate().map(|(place, array)| {
            let known = self.parameters.get(place).cloned().flatten();
            known.or_else(|| Some(array.data_type().clone()))
        });
        let types: Vec<_> = types.collect();
        let is_known = self.parameters.iter().all(Option::is_some);
        (!is_known).then_some(types)
    }
}
