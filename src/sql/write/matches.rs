//! The rows of a table that a join has found for a DELETE or UPDATE, and the values that it has for
//! them.
//!
//! Where this stands on the road of a query: `joined` has run the join, and puts calls of functions
//! that look rows up here (`matched`) into the conditions and new values of the statement. A row is
//! known by the columns that the statement reads of it: rows that have the same in all of these are
//! alike to the statement, so what holds for one of them holds for all. Values are the same here if
//! their bits are, so null is null, and 0.0 is not -0.0, of which an expression may make something
//! else.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_row::{OwnedRow, Row, RowConverter, Rows, SortField};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{Expr, lit};
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::{Error, Result};
use crate::ingest::assign::assign;
use crate::model::Column;
use crate::sql::convert::from_arrow;

/// Rows by what a statement reads of them, each with its new values.
pub(super) struct Matches {
    pub(super) keys: Vec<DataType>,
    pub(super) converter: RowConverter,
    pub(super) rows: Rows,
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub(super) bounds: Vec<Bounds>,
    /// Of each column that gets values, those of the rows.
    pub(super) values: Vec<ArrayRef>,
}

/// Matches to which rows are added.
pub(super) struct Finding {
    matches: Matches,
    names: Vec<String>,
    columns: Vec<Column>,
    /// The values of each row; none if there are no columns of them.
    values: Option<(RowConverter, Rows)>,
}

/// The least and the greatest of a key.
pub(super) struct Bounds {
    converter: RowConverter,
    least_greatest: Option<(OwnedRow, OwnedRow)>,
    has_null: bool,
}

fn converter(types: &[DataType]) -> Result<RowConverter> {
    let fields = types.iter().map(|data_type| SortField::new(data_type.clone()));
    RowConverter::new(fields.collect()).map_err(from_arrow)
}

impl Matches {
    pub(super) fn new(keys: Vec<DataType>) -> Result<Matches> {
        let converter_of_keys = converter(&keys)?;
        let bounds = keys.iter().map(|key| {
            let converter = converter(std::slice::from_ref(key))?;
            Ok(Bounds { converter, least_greatest: None, has_null: false })
        });
        Ok(Matches {
            bounds: bounds.collect::<Result<_>>()?,
            rows: converter_of_keys.empty_rows(0, 0),
            converter: converter_of_keys,
            keys,
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            values: Vec::new(),
        })
    }

    /// The place of a row with these keys.
    pub(super) fn place(&self, row: Row<'_>) -> Option<u32> {
        let hash = self.hasher.hash_one(row.as_ref());
        self.places.find(hash, |known| self.rows.row(*known as usize) == row).copied()
    }

    /// Adds a row that is not there yet.
    pub(super) fn push(&mut self, row: Row<'_>) -> Result<()> {
        let Ok(place) = u32::try_from(self.rows.num_rows()) else {
            let what = "DELETE or UPDATE finds more than 2³² different rows by a join";
            return Err(Error::LimitExceeded(what.into()));
        };
        self.rows.push(row);
        let Matches { rows, places, hasher, .. } = self;
        let hash = |place: &u32| hasher.hash_one(rows.row(*place as usize).as_ref());
        places.insert_unique(hash(&place), place, hash);
        Ok(())
    }

    /// For each row, its place; null if it is not there.
    pub(super) fn find(&self, keys: &[ArrayRef]) -> DataFusionResult<UInt32Array> {
        let keys = in_types(keys, &self.keys)?;
        let rows = self.converter.convert_columns(&keys)?;
        Ok(rows.iter().map(|row| self.place(row)).collect())
    }

    /// The bytes of memory that it takes.
    fn size(&self) -> usize {
        let values: usize = self.values.iter().map(|array| array.get_array_memory_size()).sum();
        self.rows.size() + self.places.capacity() * 8 + values
    }
}

/// Columns in the types in which they are compared.
fn in_types(columns: &[ArrayRef], types: &[DataType]) -> DataFusionResult<Vec<ArrayRef>> {
    let cast = |(column, data_type): (&ArrayRef, &DataType)| match column.data_type() == data_type {
        true => Ok(Arc::clone(column)),
        false => Ok(arrow_cast::cast(column, data_type)?),
    };
    columns.iter().zip(types).map(cast).collect()
}

/// Whether values are equal and less as SQL has it where their bytes are. Floats have two zeros,
/// and there are intervals of one length in several units.
fn is_ordered(data_type: &DataType) -> bool {
    !(data_type.is_floating()
        || data_type.is_nested()
        || matches!(data_type, DataType::Interval(_) | DataType::Dictionary(..)))
}

impl Bounds {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        if values.logical_null_count() > 0 {
            (self.has_null, self.least_greatest) = (true, None);
        }
        if self.has_null || !is_ordered(values.data_type()) {
            return Ok(());
        }
        let rows = self.converter.convert_columns(&[Arc::clone(values)]).map_err(from_arrow)?;
        let Some((least, greatest)) = rows.iter().min().zip(rows.iter().max()) else {
            return Ok(());
        };
        let (least, greatest) = (least.owned(), greatest.owned());
        self.least_greatest = Some(match self.least_greatest.take() {
            Some((before, after)) => (before.min(least), after.max(greatest)),
            None => (least, greatest),
        });
        Ok(())
    }

    /// Whether there are no others that SQL takes for equal to one of the values.
    pub(super) fn are_exact(&self) -> bool {
        self.least_greatest.is_some()
    }

    pub(super) fn ends(&self) -> DataFusionResult<Option<[Expr; 2]>> {
        match &self.least_greatest {
            Some((least, greatest)) => {
                let ends = literals(&self.converter, [least.row(), greatest.row()])?;
                Ok(ends.try_into().ok())
            }
            None => Ok(None),
        }
    }
}

/// The values of some rows of one column, as literals.
pub(super) fn literals<'a>(
    converter: &RowConverter,
    rows: impl IntoIterator<Item = Row<'a>>,
) -> DataFusionResult<Vec<Expr>> {
    let columns = converter.convert_rows(rows)?;
    let values = columns.iter().flat_map(|array| (0..array.len()).map(move |row| (array, row)));
    values.map(|(array, row)| ScalarValue::try_from_array(array, row).map(lit)).collect()
}

impl Finding {
    /// Without rows. `keys` are the names and types of what a statement reads of a row, `columns`
    /// those that get values.
    pub(super) fn new(keys: Vec<(String, DataType)>, columns: Vec<Column>) -> Result<Finding> {
        let (names, types): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
        let values = match columns.is_empty() {
            true => None,
            false => {
                let types: Vec<DataType> =
                    columns.iter().map(|column| column.data_type.to_arrow()).collect();
                let converter = converter(&types)?;
                let rows = converter.empty_rows(0, 0);
                Some((converter, rows))
            }
        };
        Ok(Finding { matches: Matches::new(types)?, names, columns, values })
    }

    /// Adds rows of the join: their keys, and then their values. It is an error if a row would get
    /// several values.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (keys, values) = batch.columns().split_at_checked(self.names.len()).unwrap_or_default();
        let keys = in_types(keys, &self.matches.keys)?;
        for (bounds, key) in self.matches.bounds.iter_mut().zip(&keys) {
            bounds.add(key)?;
        }
        let assigned = self.columns.iter().zip(values).map(|(column, values)| {
            let array = assign(column, values)?;
            arrow_cast::cast(&array, &column.data_type.to_arrow()).map_err(from_arrow)
        });
        let assigned = assigned.collect::<Result<Vec<_>>>()?;
        let rows = self.matches.converter.convert_columns(&keys).map_err(from_arrow)?;
        let Some((converter, known)) = &mut self.values else {
            for row in &rows {
                if self.matches.place(row).is_none() {
                    self.matches.push(row)?;
                }
            }
            return Ok(());
        };
        let given = converter.convert_columns(&assigned).map_err(from_arrow)?;
        for (at, (row, value)) in rows.iter().zip(given.iter()).enumerate() {
            match self.matches.place(row) {
                None => {
                    self.matches.push(row)?;
                    known.push(value);
                }
                Some(place) if known.row(place as usize) == value => {}
                Some(_) => return Err(several(&self.names, &keys, at)),
            }
        }
        Ok(())
    }

    /// The bytes of memory that it takes.
    pub(super) fn size(&self) -> usize {
        self.matches.size() + self.values.as_ref().map_or(0, |(_, rows)| rows.size())
    }

    pub(super) fn finish(mut self) -> Result<Matches> {
        if let Some((converter, rows)) = self.values {
            self.matches.values = converter.convert_rows(&rows).map_err(from_arrow)?;
        }
        Ok(self.matches)
    }
}

/// The error about a row that would get several values.
fn several(names: &[String], keys: &[ArrayRef], at: usize) -> Error {
    let named = names.iter().zip(keys).filter_map(|(name, key)| {
        let value = ScalarValue::try_from_array(key, at).ok()?;
        Some(format!("{name} = {value}"))
    });
    let named: Vec<String> = named.collect();
    Error::InvalidInput(format!(
        "UPDATE would give a row several values ({}), because several rows of the FROM match it; \
         make them one, as in FROM (SELECT id, max(x) AS x FROM s GROUP BY id) AS s",
        named.join(", ")
    ))
}
