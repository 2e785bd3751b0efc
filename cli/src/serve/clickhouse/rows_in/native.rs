//! `Native`: blocks of columns. `formats::native` has a picture of them.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::arrange;
use super::build::Build;
use super::input::Input;
use crate::errors::Failure;
use crate::serve::clickhouse::refusals::unsupported;
use crate::serve::clickhouse::revision::WITH_SERIALIZATION;
use crate::serve::clickhouse::types::Type;

/// Reads one body.
pub(super) struct NativeReader<'a> {
    input: Input<'a>,
    declared: SchemaRef,
    revision: u32,
}

impl<'a> NativeReader<'a> {
    pub(super) fn new(input: Input<'a>, declared: &SchemaRef, revision: u32) -> Self {
        NativeReader { input, declared: SchemaRef::clone(declared), revision }
    }

    /// The next block that has rows.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Failure> {
        while !self.input.is_at_end()? {
            self.input.start_batch();
            if let Some(batch) = self.block()? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn block(&mut self) -> Result<Option<RecordBatch>, Failure> {
        if self.revision > 0 {
            self.info()?;
        }
        let (columns, rows) = (self.input.varuint()?, self.input.varuint()?);
        let (mut names, mut arrays) = (Vec::new(), Vec::new());
        for _ in 0..columns {
            if names.len() == self.declared.fields().len() {
                let wrong = format!("{columns} columns, and the statement has {}", names.len());
                return Err(self.input.wrong(&wrong));
            }
            let name = self.input.name()?;
            let found = Type::parse(&self.input.name()?)?;
            if self.revision >= WITH_SERIALIZATION && self.input.byte()? != 0 {
                let message = format!("column '{name}' is in a sparse form, which cannot be read");
                return Err(unsupported(message));
            }
            if rows > 0 {
                let target = self.declared.fields().find(&name);
                let mut build = Build::new(&found, target.map(|(_, field)| field.data_type()));
                let in_column = |failure| of_column(failure, &name);
                build.prefix(&mut self.input).map_err(in_column)?;
                build.column(&mut self.input, rows).map_err(in_column)?;
                arrays.push(build.finish(&mut self.input).map_err(in_column)?);
            }
            names.push(name);
        }
        if rows == 0 {
            return Ok(None);
        }
        if columns == 0 {
            return Err(self.input.wrong(&format!("{rows} rows without columns")));
        }
        let places = arrange::places(&names, &self.declared)?;
        // A column has been read, so that there are as many bytes.
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        arrange::batch(arrays, &places, rows, &self.declared).map(Some)
    }

    /// Numbered fields about a distributed aggregation, which mean nothing here.
    fn info(&mut self) -> Result<(), Failure> {
        loop {
            match self.input.varuint()? {
                0 => return Ok(()),
                1 => {
                    self.input.byte()?;
                }
                2 => {
                    self.input.array::<4>()?;
                }
                other => {
                    return Err(self.input.wrong(&format!("field {other} of a block's head")));
                }
            }
        }
    }
}

fn of_column(mut failure: Failure, name: &str) -> Failure {
    failure.message = format!("column '{name}': {}", failure.message).into_boxed_str();
    failure
}
