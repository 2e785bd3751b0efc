//! Finds rows with a value that their column cannot hold, in a chunk whose rows can all be split.
//!
//! Types widen as in good chunks: a column climbs along the lattice as its values need it, and a
//! value that fits no wider type is bad. One case differs: if the wider type would lose values of
//! earlier rows (an integer beyond 2⁵³ as a double), the column keeps its type and the value that
//! needs the wider type is bad. Otherwise one fraction among large integers would reject all of
//! them.

use super::chunks::CsvChunk;
use super::rules::unquoted;
use super::sample::type_of_value;
use super::schema::CsvSchema;
use super::split::{Field, Splitter, Tile};
use crate::model::DataType;

/// A value that is not of its column's type, or not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadValue {
    pub(super) column: u32,
    /// Offset of the value in its row.
    pub(super) at: u32,
    pub(super) len: u32,
    /// Index into [`BadValues::types`] of the type that it should have; out of range if it should
    /// be UTF-8.
    pub(super) expected: u32,
}

/// The bad values of a chunk.
pub(super) struct BadValues {
    /// The first bad value of each row.
    pub(super) by_row: Vec<Option<BadValue>>,
    /// Types that bad values do not fit.
    pub(super) types: Vec<DataType>,
}

/// Checks the values of a chunk without a header whose rows can all be split.
pub(super) fn find_bad_values(schema: &CsvSchema, chunk: &CsvChunk) -> BadValues {
    let mut check =
        ChunkCheck { schema, chunk, by_row: Vec::new(), types: Vec::new(), tile_start: 0 };
    let mut columns: Vec<ColumnCheck> =
        (0..schema.columns.len()).filter_map(|at| ColumnCheck::new(schema, at)).collect();
    let mut splitter = check.splitter();
    // The rows can be split, so there is no other error.
    while let Ok(Some(tile)) = splitter.next_tile() {
        check.tile_start = check.by_row.len();
        check.by_row.resize(check.tile_start + tile.rows(), None);
        for column in &mut columns {
            column.check(&mut check, tile);
        }
    }
    BadValues { by_row: check.by_row, types: check.types }
}

struct ChunkCheck<'a> {
    schema: &'a CsvSchema,
    chunk: &'a CsvChunk,
    by_row: Vec<Option<BadValue>>,
    types: Vec<DataType>,
    /// Number of the current tile's first row.
    tile_start: usize,
}

impl<'a> ChunkCheck<'a> {
    fn splitter(&self) -> Splitter<'a> {
        let schema = self.schema;
        Splitter::new(&self.chunk.text, 0, schema.columns.len(), schema.delimiter, schema.quote)
    }

    fn is_bad(&self, row: usize) -> bool {
        self.by_row.get(row).is_some_and(Option::is_some)
    }

    fn mark_bad(&mut self, tile: Tile<'_>, row: usize, column: usize, expected: Option<&DataType>) {
        let start = tile.row_start(row);
        let field = tile.field(row, column);
        let expected = match expected {
            None => usize::MAX,
            Some(expected) => self.types.iter().position(|t| t == expected).unwrap_or_else(|| {
                self.types.push(expected.clone());
                self.types.len() - 1
            }),
        };
        if let Some(bad_value) = self.by_row.get_mut(self.tile_start + row) {
            // All of these are less than 2³⁰, or are `usize::MAX`, which stays out of range.
            *bad_value = Some(BadValue {
                column: column as u32,
                at: field.start.saturating_sub(start) as u32,
                len: field.len as u32,
                expected: expected as u32,
            });
        }
    }
}

/// A column and its type so far.
struct ColumnCheck {
    position: usize,
    fixed: bool,
    data_type: DataType,
    /// Wider types that earlier rows do not fit.
    refused: Vec<DataType>,
}

impl ColumnCheck {
    fn new(schema: &CsvSchema, position: usize) -> Option<Self> {
        let column = schema.columns.get(position)?;
        let (fixed, data_type) = (column.fixed, column.data_type.clone());
        Some(ColumnCheck { position, fixed, data_type, refused: Vec::new() })
    }

    fn check(&mut self, check: &mut ChunkCheck<'_>, tile: Tile<'_>) {
        let mut from = 0;
        while let Some(row) = self.next_misfit(check, tile, from) {
            from = row;
            if !check.is_bad(check.tile_start + row) {
                if self.widen(check, tile, row) {
                    continue;
                }
                let expected = (!self.is_text()).then_some(&self.data_type);
                check.mark_bad(tile, row, self.position, expected);
            }
            from = row + 1;
        }
    }

    /// Whether any UTF-8 text is a value. A column without values so far becomes what its values
    /// need.
    fn is_text(&self) -> bool {
        self.data_type == DataType::Utf8 || !self.fixed && self.data_type == DataType::Null
    }

    /// The first row from `from` on whose value does not fit.
    fn next_misfit(&self, check: &ChunkCheck<'_>, tile: Tile<'_>, from: usize) -> Option<usize> {
        let rest = tile.skip(from);
        let misfit = if self.is_text() {
            let text = tile.text();
            let bytes =
                |field: Field| text.get(field.start..field.start + field.len).unwrap_or_default();
            rest.column(self.position).position(|field| std::str::from_utf8(bytes(field)).is_err())
        } else {
            let rules = check.schema.rules(self.position, &self.data_type);
            check
                .schema
                .builder(self.position, &self.data_type, self.fixed)
                .push(rest, self.position, rules)
                .err()
        };
        misfit.map(|row| from + row)
    }

    /// Widens the column to fit a value, if a wider type exists that earlier rows fit, too.
    fn widen(&mut self, check: &ChunkCheck<'_>, tile: Tile<'_>, row: usize) -> bool {
        if self.fixed || self.is_text() {
            return false;
        }
        let field = tile.field(row, self.position);
        let mut scratch = Vec::new();
        let value = unquoted(tile.text(), field, &check.schema.rules, &mut scratch);
        let found = type_of_value(value, check.schema.layout(self.position));
        let wider = self.data_type.join(&found).filter(|wider| *wider != self.data_type);
        let Some(wider) = wider.filter(|wider| !self.refused.contains(wider)) else { return false };
        if self.data_type.widens_exactly_if(&wider)
            && !self.fits_before(check, &wider, check.tile_start + row)
        {
            self.refused.push(wider);
            return false;
        }
        self.data_type = wider;
        true
    }

    /// Whether the good rows before `row` parse as this type.
    fn fits_before(&self, check: &ChunkCheck<'_>, data_type: &DataType, row: usize) -> bool {
        let (mut splitter, mut before) = (check.splitter(), 0);
        while let Ok(Some(tile)) = splitter.next_tile() {
            let mut from = 0;
            loop {
                let column = check.schema.builder(self.position, data_type, false).push(
                    tile.skip(from),
                    self.position,
                    check.schema.rules(self.position, data_type),
                );
                let Err(misfit) = column else { break };
                let at = before + from + misfit;
                if at >= row {
                    return true;
                }
                if !check.is_bad(at) {
                    return false;
                }
                from += misfit + 1;
            }
            before += tile.rows();
            if before >= row {
                break;
            }
        }
        true
    }
}
