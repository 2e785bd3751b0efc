//! Numbers for distinct values of any type.

use arrow_array::{Array, ArrayRef};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use super::index::Index;
use super::key_column::{Bytes, KeyColumn};
use crate::error::{ArrowResult, Result};
use crate::query::slice::take;
use crate::query::words::one_zero;

/// Numbers distinct values in the order of their first appearance.
pub(crate) struct Interner {
    converter: RowConverter,
    known: Bytes,
    index: Index,
    parts: Vec<ArrayRef>,
}

impl Interner {
    pub(crate) fn new(data_type: &ArrowType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())]);
        let converter = converter.or_unsupported()?;
        Ok(Interner {
            converter,
            known: Bytes::default(),
            index: Index::default(),
            parts: Vec::new(),
        })
    }

    /// How many values there are, null among them.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn intern(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let values = &one_zero(values);
        let converted =
            self.converter.convert_columns(std::slice::from_ref(values)).or_invalid()?;
        let mut rows = Bytes::default();
        converted.iter().for_each(|row| rows.push(row.as_ref()));
        let (mut hashes, mut codes) = (Vec::new(), Vec::with_capacity(values.len()));
        rows.hashes(&mut hashes);
        let mut next = self.known.len() as u32;
        self.known.find(&mut self.index, &rows, &hashes, &mut codes)?;
        let mut new = Vec::new();
        for (at, code) in (0u32..).zip(&codes) {
            if *code == next {
                new.push(at);
                next += 1;
            }
        }
        if !new.is_empty() {
            self.parts.push(take(values, &new)?);
        }
        Ok(codes)
    }

    pub(crate) fn values(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(|part| &**part).collect();
        arrow_select::concat::concat(&parts).or_invalid()
    }
}
