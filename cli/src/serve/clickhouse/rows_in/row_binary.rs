//! `RowBinary`: the values of each row one after the other, with names and types before the first
//! or without.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::arrange;
use super::build::Build;
use super::input::Input;
use crate::errors::Failure;
use crate::serve::clickhouse::types::Type;

/// A batch ends at this many rows or bytes.
const BATCH_ROWS: usize = 1 << 16;
const BATCH_BYTES: u64 = 8 << 20;

/// What is before the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Nothing,
    Names,
    NamesAndTypes,
}

/// Reads one body.
pub(super) struct RowBinaryReader<'a> {
    input: Input<'a>,
    declared: SchemaRef,
    head: Head,
    /// The types of the body's columns and which declared ones they are, once its head is read.
    columns: Option<(Vec<Type>, Vec<usize>)>,
}

impl<'a> RowBinaryReader<'a> {
    pub(super) fn new(input: Input<'a>, declared: &SchemaRef, head: Head) -> Self {
        RowBinaryReader { input, declared: SchemaRef::clone(declared), head, columns: None }
    }

    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.input.start_batch();
        let (types, places) = match self.columns.take() {
            Some(columns) => columns,
            // An empty body need not even have a head.
            None if self.input.is_at_end()? => return Ok(None),
            None => self.read_head()?,
        };
        let batch = self.read_rows(&types, &places);
        self.columns = Some((types, places));
        batch
    }

    fn read_head(&mut self) -> Result<(Vec<Type>, Vec<usize>), Failure> {
        let fields = self.declared.fields();
        if self.head == Head::Nothing {
            let types = fields.iter().map(|field| Type::of_field(field)).collect();
            return Ok((types, (0..fields.len()).collect()));
        }
        let columns = self.input.varuint()?;
        if columns > fields.len() as u64 {
            let wrong = format!("{columns} columns, and the statement has {}", fields.len());
            return Err(self.input.wrong(&wrong));
        }
        let names = (0..columns).map(|_| self.input.name());
        let names = names.collect::<Result<Vec<String>, Failure>>()?;
        let places = arrange::places(&names, &self.declared)?;
        let types = match self.head {
            Head::NamesAndTypes => {
                let types = (0..columns).map(|_| Type::parse(&self.input.name()?));
                types.collect::<Result<Vec<Type>, Failure>>()?
            }
            _ => places.iter().map(|place| Type::of_field(self.declared.field(*place))).collect(),
        };
        Ok((types, places))
    }

    fn read_rows(
        &mut self,
        types: &[Type],
        places: &[usize],
    ) -> Result<Option<RecordBatch>, Failure> {
        let target = |place: &usize| self.declared.field(*place).data_type();
        let builds = types.iter().zip(places);
        let mut builds: Vec<Build> =
            builds.map(|(found, place)| Build::new(found, Some(target(place)))).collect();
        let mut rows = 0;
        while rows < BATCH_ROWS && self.input.taken() < BATCH_BYTES && !self.input.is_at_end()? {
            if builds.is_empty() {
                return Err(self.input.wrong("rows without columns"));
            }
            for build in &mut builds {
                build.row(&mut self.input)?;
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = builds.into_iter().map(|build| build.finish(&mut self.input));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        arrange::batch(arrays, places, rows, &self.declared).map(Some)
    }
}
