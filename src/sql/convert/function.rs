//! DataFusion's physical expressions as functions of columns.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};

use super::error::from_arrow;
use super::parts::{LONG_CONSTANT, PART_BYTES, check_together, in_parts, is_text, text_bytes};
use crate::error::{Error, Result};
use crate::expr::Function;

/// A physical expression over the columns of a schema.
#[derive(Debug)]
pub(crate) struct PhysicalFunction {
    physical: Arc<dyn PhysicalExpr>,
    /// The inputs in order, then the results of the parts. All are nullable: functions are tried on
    /// null and on values that no row has, even where the table forbids them.
    schema: SchemaRef,
    /// Subexpressions that are computed in another way, each with the index of its only input.
    parts: Vec<(usize, Arc<dyn Function>)>,
    /// The declared type of the result.
    data_type: DataType,
    /// How often texts are named.
    texts: usize,
    /// Bytes of long constants, which are repeated for each row.
    constants: usize,
    /// The most bytes of a result that is put together of parts.
    most: usize,
}

impl PhysicalFunction {
    pub(crate) fn new(physical: Arc<dyn PhysicalExpr>, schema: &Schema) -> DataFusionResult<Self> {
        let data_type = physical.data_type(schema)?;
        let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
        let schema =
            Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Vec<FieldRef>>()));
        let texts = texts(&physical, &schema);
        let constants = constants(&physical);
        let (parts, most) = (Vec::new(), usize::MAX);
        Ok(PhysicalFunction { physical, schema, parts, data_type, texts, constants, most })
    }

    /// Refuses results of more bytes, unless they are made at once.
    pub(crate) fn within(self, most: usize) -> Self {
        PhysicalFunction { most, ..self }
    }

    /// Lets functions of one input compute the last columns of the schema. Each comes with the
    /// index of its input.
    pub(crate) fn with_parts(self, parts: Vec<(usize, Arc<dyn Function>)>) -> Self {
        PhysicalFunction { parts, ..self }
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }
}

/// How often an expression names texts.
fn texts(physical: &Arc<dyn PhysicalExpr>, schema: &Schema) -> usize {
    let column = physical.downcast_ref::<Column>();
    let field = column.and_then(|column| schema.fields().get(column.index()));
    let own = usize::from(field.is_some_and(|field| is_text(field.data_type())));
    physical.children().into_iter().fold(own, |sum, part| sum.saturating_add(texts(part, schema)))
}

/// The bytes of the long constants of an expression. Those of a list (`IN`) are short, and many.
fn constants(physical: &Arc<dyn PhysicalExpr>) -> usize {
    let literal = physical.downcast_ref::<Literal>().map_or(0, |literal| literal.value().size());
    let own = if literal < LONG_CONSTANT { 0 } else { literal };
    physical.children().into_iter().fold(own, |sum, part| sum.saturating_add(constants(part)))
}

impl Function for PhysicalFunction {
    fn evaluate(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let held: usize = inputs.iter().map(|input| input.get_buffer_memory_size()).sum();
        let repeated = |rows: usize| rows.saturating_mul(self.constants);
        if held.saturating_mul(self.texts).saturating_add(repeated(rows)) <= PART_BYTES {
            return self.evaluate_all(inputs, rows);
        }
        let bytes = |inputs: &[ArrayRef], rows: usize| {
            text_bytes(inputs).saturating_mul(self.texts).saturating_add(repeated(rows))
        };
        in_parts(inputs, rows, self.most, &bytes, &|inputs, rows| self.evaluate_all(inputs, rows))
    }
}

impl PhysicalFunction {
    /// The values of some rows; where functions in between would make too long texts of them, of
    /// one half after the other.
    fn evaluate_all(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        match self.evaluate_at_once(inputs, rows) {
            Err(Error::LimitExceeded(_)) if rows > 1 => {}
            result => return result,
        }
        let half = |start: usize, rows: usize| {
            let inputs: Vec<ArrayRef> =
                inputs.iter().map(|input| input.slice(start, rows)).collect();
            self.evaluate_all(&inputs, rows)
        };
        let halves = [half(0, rows / 2)?, half(rows / 2, rows - rows / 2)?];
        check_together(&halves, self.most)?;
        let [first, second] = halves;
        arrow_select::concat::concat(&[&first, &second]).map_err(from_arrow)
    }

    fn evaluate_at_once(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let mut columns = inputs.to_vec();
        for (input, part) in &self.parts {
            let input = inputs
                .get(*input)
                .ok_or_else(|| Error::InvalidInput(format!("there is no input {input}")))?;
            columns.push(part.evaluate(std::slice::from_ref(input), rows)?);
        }
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let batch = batch.map_err(from_arrow)?;
        let value = self.physical.evaluate(&batch)?;
        let values = value.into_array(rows)?;
        if *values.data_type() == self.data_type {
            return Ok(values);
        }
        // After simplification, round() of a decimal may have another scale than when the type of a
        // CASE around it was determined.
        arrow_cast::cast(&values, &self.data_type).map_err(from_arrow)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Int32Array, StringArray, new_null_array};
    use arrow_schema::Field;
    use datafusion::physical_expr::expressions::IsNullExpr;

    use super::*;

    #[test]
    fn long_texts_are_evaluated_in_parts() {
        let schema = Schema::new(vec![Field::new("a", DataType::Utf8, true)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        let compiled = PhysicalFunction::new(column, &schema).unwrap();
        let texts = |row: usize| (!row.is_multiple_of(7)).then(|| "x".repeat(row * 10));
        let texts: ArrayRef = Arc::new((0..3000).map(texts).collect::<StringArray>());
        assert!(texts.get_buffer_memory_size() > PART_BYTES);
        assert_eq!(&compiled.evaluate(&[Arc::clone(&texts)], 3000).unwrap(), &texts);
    }

    #[test]
    fn columns_that_are_never_null_are_evaluated_on_null() {
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, false)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("a", 0));
        let compiled = PhysicalFunction::new(Arc::clone(&column), &schema).unwrap();
        assert_eq!(
            compiled.evaluate(&[new_null_array(&DataType::Int32, 2)], 2).unwrap().null_count(),
            2
        );
        let is_null = PhysicalFunction::new(Arc::new(IsNullExpr::new(column)), &schema).unwrap();
        let found =
            is_null.evaluate(&[Arc::new(Int32Array::from(vec![Some(1), None]))], 2).unwrap();
        assert_eq!(found.to_data(), BooleanArray::from(vec![false, true]).to_data());
    }
}
