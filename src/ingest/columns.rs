//! Column builders: batches in row order → the rows of one segment.
//!
//! A segment closes at 2²⁰ rows or a bound in bytes, whichever comes first. Both are counted on the values alone,
//! so the cut does not depend on threads or timing. A batch may bring a column under a narrower or wider type than
//! the one before it; the segment stores the join, and the table keeps the join of all segments.

use std::ops::ControlFlow;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};

use crate::block::canonical;
use crate::error::{Error, Result};
use crate::model::{ColumnId, DataType, Schema};
use crate::segment::writer::{InputColumn, SegmentInput};

/// Integers beyond this are not all representable as f64.
pub const EXACT_IN_F64: u64 = 1 << 53;

/// Collects batches for one segment.
#[derive(Debug)]
pub struct SegmentBuilder {
    columns: Vec<Building>,
    rows: usize,
    bytes: usize,
    limits: SegmentLimits,
}

/// When a segment is full.
#[derive(Clone, Copy, Debug)]
pub struct SegmentLimits {
    /// Rows.
    pub rows: usize,
    /// Bytes of values in memory.
    pub bytes: usize,
    /// Rows of a block.
    pub block_rows: usize,
}

#[derive(Debug)]
struct Building {
    id: ColumnId,
    name: String,
    data_type: DataType,
    arrays: Vec<ArrayRef>,
}

impl SegmentBuilder {
    /// An empty builder.
    pub fn new(limits: SegmentLimits) -> Self {
        SegmentBuilder { columns: Vec::new(), rows: 0, bytes: 0, limits }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds as many rows of `batch` (its columns are those of `schema` with these ids, in any order) as fit.
    /// `Break` carries the rows that did not: the segment is full.
    pub fn push(&mut self, batch: &RecordBatch, ids: &[ColumnId]) -> Result<ControlFlow<RecordBatch>> {
        let room = self.limits.rows - self.rows;
        let (now, rest) = if batch.num_rows() > room {
            (batch.slice(0, room), Some(batch.slice(room, batch.num_rows() - room)))
        } else {
            (batch.clone(), None)
        };
        for (i, id) in ids.iter().enumerate() {
            let name = batch.schema_ref().field(i).name().clone();
            self.add(*id, &name, now.column(i))?;
        }
        self.rows += now.num_rows();
        let full = self.rows >= self.limits.rows || self.bytes >= self.limits.bytes;
        Ok(match rest {
            Some(rest) => ControlFlow::Break(rest),
            None if full => ControlFlow::Break(batch.slice(0, 0)),
            None => ControlFlow::Continue(()),
        })
    }

    fn add(&mut self, id: ColumnId, name: &str, array: &ArrayRef) -> Result<()> {
        let data_type = stored_type(name, array)?;
        let array = match canonical(array.data_type(), &data_type) {
            Some(readable) => cast(name, array, &readable)?,
            None => array.clone(),
        };
        self.bytes += array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
        let rows = self.rows;
        let at = match self.columns.iter().position(|c| c.id == id) {
            Some(at) => at,
            None => {
                let arrays = if rows > 0 { vec![crate::block::nothing(rows, &DataType::Null)] } else { Vec::new() };
                let name = name.to_string();
                self.columns.push(Building { id, name, data_type: DataType::Null, arrays });
                self.columns.len() - 1
            }
        };
        let column = &mut self.columns[at];
        column.data_type = join(name, &column.data_type, &data_type)?;
        column.arrays.push(array);
        Ok(())
    }

    /// The collected rows, every column under one type; the builder is empty afterwards.
    pub fn finish(&mut self) -> Result<SegmentInput> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let mut columns = std::mem::take(&mut self.columns);
        columns.sort_by_key(|c| c.id);
        let columns = columns.into_iter().map(|column| column.finish(rows)).collect::<Result<Vec<_>>>()?;
        Ok(SegmentInput { rows, block_rows: self.limits.block_rows, columns })
    }
}

impl Building {
    fn finish(mut self, rows: usize) -> Result<InputColumn> {
        let have: usize = self.arrays.iter().map(|a| a.len()).sum();
        if have < rows {
            self.arrays.push(crate::block::nothing(rows - have, &self.data_type));
        }
        for array in &mut self.arrays {
            if let Some(readable) = canonical(array.data_type(), &self.data_type) {
                *array = widen(&self.name, array, &self.data_type, &readable)?;
            }
        }
        Ok(InputColumn { id: self.id, data_type: self.data_type, arrays: self.arrays })
    }
}

/// The stored type of an Arrow column, or why there is none.
pub fn stored_type(name: &str, array: &ArrayRef) -> Result<DataType> {
    DataType::from_arrow(array.data_type()).ok_or_else(|| {
        Error::Unsupported(format!("column '{name}' has type {}, which a table cannot hold yet", array.data_type()))
    })
}

/// The join of two types of one column, or the reason why there is none.
pub fn join(name: &str, have: &DataType, new: &DataType) -> Result<DataType> {
    have.join(new).ok_or_else(|| {
        Error::InvalidInput(format!(
            "column '{name}' is {have} and cannot also hold {new} without loss; \
             give its type with --schema {name}:TYPE, or load into another table"
        ))
    })
}

fn cast(name: &str, array: &ArrayRef, to: &arrow_schema::DataType) -> Result<ArrayRef> {
    let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
    arrow_cast::cast_with_options(array, to, &options)
        .map_err(|e| Error::InvalidInput(format!("column '{name}' does not convert to {to}: {e}")))
}

fn widen(name: &str, array: &ArrayRef, to: &DataType, readable: &arrow_schema::DataType) -> Result<ArrayRef> {
    if *to == DataType::Float64 {
        let beyond = |v: u64| v > EXACT_IN_F64;
        let inexact = match array.data_type() {
            arrow_schema::DataType::Int64 => array
                .as_primitive::<Int64Type>()
                .iter()
                .flatten()
                .find(|v| beyond(v.unsigned_abs()))
                .map(i128::from),
            arrow_schema::DataType::UInt64 => {
                array.as_primitive::<UInt64Type>().iter().flatten().find(|v| beyond(*v)).map(i128::from)
            }
            _ => None,
        };
        if let Some(value) = inexact {
            return Err(Error::InvalidInput(format!(
                "column '{name}' holds {value}, which float64 cannot hold exactly, beside fractions; \
                 give its type with --schema {name}:decimal(p,s) or {name}:utf8"
            )));
        }
    }
    cast(name, array, readable)
}

/// Ids of a batch's columns in the table, adding those that are new; the table's types widen to hold the batch.
pub fn match_columns(schema: &mut Schema, batch: &RecordBatch) -> Result<Vec<ColumnId>> {
    let mut ids = Vec::with_capacity(batch.num_columns());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let data_type = stored_type(field.name(), array)?;
        let id = match schema.position(field.name()) {
            Some(at) => {
                let column = &schema.columns()[at];
                let (id, joined) = (column.id, join(field.name(), &column.data_type, &data_type)?);
                if joined != column.data_type {
                    schema.set_type(at, joined);
                }
                id
            }
            None => schema.add(field.name(), data_type)?,
        };
        ids.push(id);
    }
    Ok(ids)
}
