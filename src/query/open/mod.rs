//! Segments and blocks that survive pruning, open.
//!
//! Where this stands on the road of a query: between `prune`, which judges statistics, and `slice`,
//! `filter`, `group` and `aggregate`, which look at values. Nothing here knows what those find out:
//! each keeps its own caches, in a [`PerSegment`] or [`PerBlock`] if they are by segment or block.

mod block;
pub(crate) mod opener;
pub(crate) mod prefetch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::{Array, ArrayRef};

pub(crate) use self::block::{ColumnTotals, OpenBlock};
use crate::budget::Charge;
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::model::Column;
use crate::segment::{self, Segment};
use crate::store::known_rows::OfSegment;

/// A segment with the columns that a fragment reads.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: Arc<Segment>,
    /// Its place in the table.
    pub(crate) number: usize,
    /// `None` where the segment lacks the column: all its rows are null.
    pub(crate) columns: Vec<Option<Arc<segment::Column>>>,
    /// The rows that meet the conditions that it is read under, as far as they are known.
    pub(crate) known: Option<Arc<OfSegment>>,
    /// Functions of one column of texts, evaluated for its dictionary; `None` where they failed.
    evaluated: Mutex<Vec<(Expression, Arc<Evaluated>)>>,
    /// What was counted as read: the segment, then each column's dictionary, then each block of
    /// each column.
    counted: Vec<AtomicBool>,
}

/// The results of a function for the values of a dictionary, and their charge.
type Evaluated = OnceLock<Option<(ArrayRef, Charge)>>;

impl OpenSegment {
    /// The results of a function for all values of the dictionary of its only column, made once;
    /// `None` if it fails for some, or there is no memory for them.
    pub(crate) fn evaluated(
        &self,
        expression: &Expression,
        dictionary: &ArrayRef,
    ) -> Option<ArrayRef> {
        let slot = {
            let mut known = self.evaluated.lock().unwrap_or_else(PoisonError::into_inner);
            match known.iter().find(|(known, _)| known.is_same(expression)) {
                Some((_, slot)) => Arc::clone(slot),
                None => {
                    known.push((expression.clone(), Arc::default()));
                    known.last().map(|(_, slot)| Arc::clone(slot))?
                }
            }
        };
        let make = || {
            let results =
                expression.evaluate(std::slice::from_ref(dictionary), dictionary.len()).ok()?;
            let whole =
                results.len() == dictionary.len() && *results.data_type() == expression.data_type;
            let charge = self.segment.budget().charge(results.get_array_memory_size()).ok()?;
            whole.then_some((results, charge))
        };
        slot.get_or_init(make).as_ref().map(|(results, _)| Arc::clone(results))
    }

    /// Finds the columns of `columns` in a segment.
    pub(crate) fn open(segment: Arc<Segment>, number: usize, columns: &[Column]) -> Result<Self> {
        let columns: Vec<_> =
            columns.iter().map(|column| segment.column(column.id)).collect::<Result<_>>()?;
        columns.iter().flatten().for_each(|column| column.prefetch_dictionary());
        Ok(OpenSegment {
            counted: (0..=columns.len() * (segment.blocks() + 1))
                .map(|_| AtomicBool::new(false))
                .collect(),
            segment,
            number,
            columns,
            known: None,
            evaluated: Mutex::default(),
        })
    }

    /// Adds the rows that are known to meet the conditions.
    pub(crate) fn with_known(self, known: Option<Arc<OfSegment>>) -> Self {
        OpenSegment { known, ..self }
    }

    /// Asks the disk for blocks of a column.
    pub(crate) fn prefetch(&self, at: usize, blocks: impl Iterator<Item = usize>) {
        if let Some(column) = self.columns.get(at).and_then(Option::as_deref) {
            column.prefetch(blocks);
        }
    }

    /// Whether this is the first time that something is counted.
    fn is_new(&self, at: usize) -> bool {
        self.counted.get(at).is_some_and(|counted| !counted.swap(true, Ordering::Relaxed))
    }

    /// Stored bytes of a block's columns.
    fn block_bytes(&self, b: usize) -> u64 {
        self.columns.iter().flatten().map(|column| column.block_bytes(b)).sum()
    }
}

/// A block of an open segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef {
    /// Position in [`Survivors::segments`].
    pub(crate) segment: usize,
    pub(crate) block: usize,
}

/// Everything that pruning has left.
#[derive(Debug, Default)]
pub(crate) struct Survivors {
    pub(crate) segments: Vec<Arc<OpenSegment>>,
    /// In the order in which the segments were opened.
    pub(crate) blocks: Vec<BlockRef>,
}

impl Survivors {
    /// Rows of the segments.
    pub(crate) fn rows(&self) -> u64 {
        self.segments.iter().map(|open| open.segment.rows()).sum()
    }

    /// How a segment stores a column of the fragment; `None` where it lacks it.
    pub(crate) fn stored(&self, at: usize) -> impl Iterator<Item = Option<&segment::Column>> {
        self.segments.iter().map(move |open| open.columns.get(at).and_then(Option::as_deref))
    }
}

/// A value for each segment, computed once by the thread that needs it first.
#[derive(Debug)]
pub(crate) struct PerSegment<T>(Vec<OnceLock<T>>);

impl<T> PerSegment<T> {
    pub(crate) fn new(survivors: &Survivors) -> Self {
        PerSegment(survivors.segments.iter().map(|_| OnceLock::new()).collect())
    }

    /// The value of a segment, computed by `make` the first time.
    pub(crate) fn get_or_init(&self, segment: usize, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.get(segment).map(|slot| slot.get_or_init(make))
    }
}

/// A value for each block, computed once by the thread that needs it first.
#[derive(Debug)]
pub(crate) struct PerBlock<T>(Vec<Vec<OnceLock<T>>>);

impl<T> PerBlock<T> {
    pub(crate) fn new(survivors: &Survivors) -> Self {
        let slots =
            |open: &Arc<OpenSegment>| (0..open.segment.blocks()).map(|_| OnceLock::new()).collect();
        PerBlock(survivors.segments.iter().map(slots).collect())
    }

    /// The value of a block, computed by `make` the first time.
    pub(crate) fn get_or_init(&self, at: BlockRef, make: impl FnOnce() -> T) -> Option<&T> {
        Some(self.0.get(at.segment)?.get(at.block)?.get_or_init(make))
    }
}

fn no_column_error(at: usize) -> Error {
    Error::InvalidInput(format!("the fragment has no column {at}"))
}
