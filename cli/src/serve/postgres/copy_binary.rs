//! The binary form of COPY: a signature, and for each row the number of its values and each value
//! after its length.

use std::io::Read;

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::DataType;

use super::errors::PgError;
use super::parameters;
use super::types::PgType;

/// How the form begins: its name, no flags, no extension.
pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The part of it that is always the same.
const NAME_BYTES: usize = 11;
/// Rows and bytes of a batch, and bytes of a value, at most.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 8 << 20;
const MOST_VALUE_BYTES: usize = 256 << 20;
/// What a value takes beside its bytes until its batch is complete.
const BESIDE_VALUE: usize = 64;

/// Rows that come in binary, as batches of the types of a table's columns.
pub(super) struct BinaryRows<R> {
    input: R,
    types: Vec<(u32, DataType)>,
    has_begun: bool,
    has_ended: bool,
    row: u64,
}

impl<R: Read> BinaryRows<R> {
    pub(super) fn new(input: R, columns: &[DataType]) -> BinaryRows<R> {
        let types = columns.iter().map(|of| (PgType::of(of).oid, of.clone())).collect();
        BinaryRows { input, types, has_begun: false, has_ended: false, row: 0 }
    }

    fn wrong(&self, what: &str) -> PgError {
        PgError::of("22P04", format!("COPY in binary, row {}: {what}", self.row + 1))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], PgError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), PgError> {
        let read = self.input.read_exact(bytes);
        read.map_err(|error| self.wrong(&format!("the rows end too early: {error}")))
    }

    /// Reads the signature and what follows it.
    fn begin(&mut self) -> Result<(), PgError> {
        let head: [u8; SIGNATURE.len()] = self.take()?;
        let [.., a, b, c, d] = head;
        if head.get(..NAME_BYTES) != SIGNATURE.get(..NAME_BYTES) {
            return Err(self.wrong("the rows do not begin with PGCOPY"));
        }
        let extension = u32::from_be_bytes([a, b, c, d]);
        let skipped = std::io::copy(
            &mut self.input.by_ref().take(u64::from(extension)),
            &mut std::io::sink(),
        );
        skipped.map_err(|error| self.wrong(&error.to_string()))?;
        self.has_begun = true;
        Ok(())
    }

    /// The number of values of the next row; none where the rows end, as PostgreSQL takes it, also
    /// without the mark for that.
    fn count(&mut self) -> Result<Option<i16>, PgError> {
        let mut first = Vec::new();
        let read = self.input.by_ref().take(1).read_to_end(&mut first);
        read.map_err(|error| self.wrong(&error.to_string()))?;
        let Some(first) = first.first() else { return Ok(None) };
        let [second] = self.take()?;
        Ok(Some(i16::from_be_bytes([*first, second])))
    }

    /// The next value; its bytes grow only as they come.
    fn value(&mut self, at: usize) -> Result<(ArrayRef, usize), PgError> {
        let length = i32::from_be_bytes(self.take()?);
        let Some((oid, target)) = self.types.get(at).cloned() else {
            return Err(self.wrong("there are too many values"));
        };
        if length == -1 {
            return Ok((new_null_array(&target, 1), 0));
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST_VALUE_BYTES);
        let length = length.ok_or_else(|| self.wrong("a value is too long"))?;
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(length as u64).read_to_end(&mut bytes);
        if read.map_err(|error| self.wrong(&error.to_string()))? < length {
            return Err(self.wrong("the rows end too early"));
        }
        let value = parameters::read(oid, Some(&target), 1, Some(&bytes));
        // A number has as many digits as it was sent with.
        let value = value.and_then(|value| exactly(&value, &target));
        let value = value.map_err(|error| {
            let message = self.wrong(&error.message).message;
            PgError { message, ..error }
        });
        Ok((value?, length))
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, PgError> {
        if !self.has_begun {
            self.begin()?;
        }
        let mut columns: Vec<Vec<ArrayRef>> = vec![Vec::new(); self.types.len()];
        let (mut rows, mut bytes) = (0, 0);
        while !self.has_ended && rows < BATCH_ROWS && bytes < BATCH_BYTES {
            let Some(count) = self.count()?.filter(|count| *count != -1) else {
                self.has_ended = true;
                break;
            };
            if usize::try_from(count) != Ok(self.types.len()) {
                let what = format!("{count} values, and {} are needed", self.types.len());
                return Err(self.wrong(&what));
            }
            for (at, column) in columns.iter_mut().enumerate() {
                let (value, length) = self.value(at)?;
                column.push(value);
                bytes += length + BESIDE_VALUE;
            }
            rows += 1;
            self.row += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let joined = columns.iter().enumerate().map(|(at, parts)| {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok((format!("c{at}"), arrow_select::concat::concat(&parts)?, true))
        });
        let joined: Result<Vec<(String, ArrayRef, bool)>, arrow_schema::ArrowError> =
            joined.collect();
        let batch = joined.and_then(RecordBatch::try_from_iter_with_nullable);
        batch.map(Some).map_err(|error| PgError::of("22000", error.to_string()))
    }
}

/// A value in the type of its column; an error if that has no place for it.
fn exactly(value: &ArrayRef, target: &DataType) -> Result<ArrayRef, PgError> {
    let stored = parameters::cast(value, target)?;
    match parameters::cast(&stored, value.data_type()) {
        Ok(back) if *back == **value => Ok(stored),
        _ => Err(PgError::of("22003", format!("{target} does not hold the value as it is"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int32Type;

    fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>, PgError> {
        let mut rows = BinaryRows::new(bytes, &[DataType::Int32, DataType::Utf8]);
        std::iter::from_fn(|| rows.next_batch().transpose()).collect()
    }

    #[test]
    fn rows_are_read_and_what_is_cut_off_is_an_error() {
        let rows =
            b"\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x01x\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
        let all = [SIGNATURE, rows].concat();
        let batches = read(&all).unwrap();
        assert_eq!(batches.len(), 1);
        let column = batches[0].column(0).as_primitive::<Int32Type>();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some(7), None]);
        assert_eq!(batches[0].column(1).as_string::<i32>().value(0), "x");
        // Whole rows need no mark behind them.
        let ends = [all.len() - 2, all.len() - 12, SIGNATURE.len()];
        for cut in 0..all.len() {
            match read(&all[..cut]) {
                Ok(_) => assert!(ends.contains(&cut), "{cut}"),
                Err(error) => assert_eq!((error.code, ends.contains(&cut)), ("22P04", false)),
            }
        }
        assert!(read(&[&[0; 19], &all[19..]].concat()).is_err());
    }
}
