//! Numbers for distinct values of any type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_row::{RowConverter, SortField};
use arrow_schema::DataType as ArrowType;

use crate::error::{Error, Result};
use crate::query::slice::take;
use crate::query::words::one_zero;

/// Numbers distinct values in the order of their first appearance.
pub(super) struct Interner {
    converter: RowConverter,
    rows: HashMap<Box<[u8]>, u32>,
    parts: Vec<ArrayRef>,
}

impl Interner {
    pub(super) fn new(data_type: &ArrowType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())]);
        let converter = converter.map_err(|e| Error::Unsupported(e.to_string()))?;
        Ok(Interner { converter, rows: HashMap::new(), parts: Vec::new() })
    }

    pub(super) fn intern(&mut self, values: &ArrayRef) -> Result<Vec<u32>> {
        let failed = |e: arrow_schema::ArrowError| Error::InvalidInput(e.to_string());
        let values = &one_zero(values);
        let rows = self.converter.convert_columns(&[Arc::clone(values)]).map_err(failed)?;
        let mut codes = Vec::with_capacity(values.len());
        let mut new = Vec::new();
        for (at, row) in (0u32..).zip(rows.iter()) {
            let next = self.rows.len() as u32;
            let code = match self.rows.get(row.as_ref()) {
                Some(known) => *known,
                None => {
                    self.rows.insert(row.as_ref().into(), next);
                    new.push(at);
                    next
                }
            };
            codes.push(code);
        }
        if !new.is_empty() {
            self.parts.push(take(values, &new)?);
        }
        Ok(codes)
    }

    pub(super) fn values(&self) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(|part| &**part).collect();
        arrow_select::concat::concat(&parts).map_err(|e| Error::InvalidInput(e.to_string()))
    }
}
