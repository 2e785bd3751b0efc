//! `Values`: rows of literals of SQL, as they stand behind VALUES of an INSERT.

use arrow_array::RecordBatch;

use crate::errors::Failure;
use crate::serve::clickhouse::columns::columns;
use crate::serve::clickhouse::text::{Spelling, write};

/// Writes one answer.
#[derive(Default)]
pub(super) struct ValuesWriter {
    has_rows: bool,
}

impl ValuesWriter {
    pub(super) fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        let columns = columns(batch)?;
        for row in 0..batch.num_rows() {
            if std::mem::replace(&mut self.has_rows, true) {
                out.push(b',');
            }
            for (at, column) in columns.iter().enumerate() {
                out.push(if at > 0 { b',' } else { b'(' });
                write(column, row, Spelling::Quoted, out);
            }
            out.push(b')');
        }
        Ok(())
    }
}
