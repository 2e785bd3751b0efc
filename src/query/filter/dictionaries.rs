//! Conditions on the dictionaries of segments: which codes pass, found out once for each segment.

use std::sync::{Arc, OnceLock};

use arrow_array::Array;

use super::Filter;
use super::mask::MaskBuilder;
use super::texts::TextTest;
use crate::error::Result;
use crate::query::Condition;
use crate::query::open::OpenBlock;
use crate::query::slice::Slice;
use crate::query::words::truth;

/// A pattern is not tested on a dictionary of at least this many values before rows need it.
const LARGE: u64 = 1 << 12;

/// What conditions are on the dictionaries of one segment, each found out when it is first asked
/// for, by whichever thread comes first.
#[derive(Clone, Debug)]
pub(crate) struct OnDictionaries {
    /// Of the first conditions, which hold as long as the segment is read.
    lasting: Arc<[OnceLock<OnCodes>]>,
    /// Of the conditions after those, which may soon be others.
    passing: Arc<[OnceLock<OnCodes>]>,
}

impl OnDictionaries {
    pub(crate) fn new(lasting: usize, passing: usize) -> Self {
        OnDictionaries { lasting: slots(lasting), passing: slots(passing) }
    }

    /// How many conditions hold as long as the segment is read.
    pub(crate) fn lasting(&self) -> usize {
        self.lasting.len()
    }

    /// Whether nobody has asked for a lasting condition yet.
    pub(super) fn is_unknown(&self, condition: usize) -> bool {
        self.lasting.get(condition).is_some_and(|known| known.get().is_none())
    }

    /// For other passing conditions.
    #[cfg(feature = "sql")]
    pub(crate) fn with_passing(&self, passing: usize) -> Self {
        OnDictionaries { lasting: Arc::clone(&self.lasting), passing: slots(passing) }
    }
}

fn slots(conditions: usize) -> Arc<[OnceLock<OnCodes>]> {
    (0..conditions).map(|_| OnceLock::new()).collect()
}

/// A condition on the codes of a segment's dictionary.
#[derive(Clone, Debug)]
pub(crate) enum OnCodes {
    /// It is not on a column with a dictionary, or cannot be evaluated for all of its values.
    No,
    /// True for the codes from one to another.
    Range(u32, u32),
    /// True for the codes whose place holds 1.
    Set(Box<[u8]>),
}

impl OnCodes {
    /// Of the codes whose byte is 1.
    pub(super) fn new(passes: Box<[u8]>) -> Self {
        let passing = |byte: &u8| *byte != 0;
        let (Some(first), Some(last)) =
            (passes.iter().position(passing), passes.iter().rposition(passing))
        else {
            return OnCodes::Range(1, 0);
        };
        if passes.get(first..=last).is_some_and(|passes| passes.iter().all(passing)) {
            return OnCodes::Range(first as u32, last as u32);
        }
        OnCodes::Set(passes)
    }
}

impl<'f> Filter<'f> {
    pub(super) fn on_codes(
        &self,
        number: usize,
        condition: &Condition,
        at: usize,
        block: &OpenBlock<'_>,
    ) -> Result<&'f OnCodes> {
        static NO: OnCodes = OnCodes::No;
        let OnDictionaries { lasting, passing } = self.on_dictionaries;
        // Of a condition that may soon be another, the dictionary must pay for the one block.
        let (slot, most) = match number.checked_sub(lasting.len()) {
            None => (lasting.get(number), block.segment.segment.rows() / 2),
            Some(number) => (passing.get(number), block.rows as u64),
        };
        let Some(slot) = slot else { return Ok(&NO) };
        // Who comes second waits instead of looking at the same values.
        let mut failed = Ok(());
        let known = slot.get_or_init(|| {
            self.judge_codes(condition, at, block, most).unwrap_or_else(|error| {
                failed = Err(error);
                OnCodes::No
            })
        });
        failed.map(|()| known)
    }

    /// What a condition is on a dictionary of at most `most` values.
    fn judge_codes(
        &self,
        condition: &Condition,
        at: usize,
        block: &OpenBlock<'_>,
        most: u64,
    ) -> Result<OnCodes> {
        let (Some(stored), Some(column)) = (block.stored(at), self.columns.get(at)) else {
            return Ok(OnCodes::No);
        };
        let Some(described) = stored.record().dictionary else { return Ok(OnCodes::No) };
        // As many values as rows: those of the rows that are left are fewer.
        if u64::from(described.values) + 1 > most {
            return Ok(OnCodes::No);
        }
        if stored.data_type().is_text()
            && let Some((test, negated)) = TextTest::new(&condition.predicate, column)
            && let Some(found) = test.on_dictionary(stored, negated)?
        {
            return Ok(found);
        }
        let Some(dictionary) = stored.dictionary()? else { return Ok(OnCodes::No) };
        let Ok(values) = arrow_cast::cast(&dictionary, &column.data_type.to_arrow()) else {
            return Ok(OnCodes::No);
        };
        // An error may be due to a value that no row has, or none of those that the other
        // conditions leave.
        let Ok(outcomes) = condition.expression.evaluate(&[values], dictionary.len()) else {
            return Ok(OnCodes::No);
        };
        Ok(OnCodes::new(truth(&outcomes).iter().map(u8::from).collect()))
    }
}

/// A pattern on a large dictionary on which it was not tested yet. If other conditions leave hardly
/// any rows, it is tested on their texts alone.
#[derive(Debug)]
pub(super) struct Unjudged<'f> {
    filter: Filter<'f>,
    /// Of the condition.
    number: usize,
    condition: &'f Condition,
    /// The column.
    at: usize,
    test: TextTest<'f>,
    negated: bool,
}

impl<'f> Unjudged<'f> {
    /// `None` if the condition is not such a pattern, or the only condition.
    pub(super) fn new(
        filter: &Filter<'f>,
        number: usize,
        condition: &'f Condition,
        at: usize,
        block: &OpenBlock<'_>,
    ) -> Option<Self> {
        let (stored, column) = (block.stored(at)?, filter.columns.get(at)?);
        let values = u64::from(stored.record().dictionary?.values) + 1;
        let is_large = values >= LARGE && values <= block.segment.segment.rows() / 2;
        let is_unknown = filter.on_dictionaries.is_unknown(number);
        if filter.conditions.len() < 2 || !is_unknown || !is_large {
            return None;
        }
        let (test, negated) = TextTest::new(&condition.predicate, column)?;
        let is_pattern = matches!(test, TextTest::Like(_)) && stored.data_type().is_text();
        let filter = *filter;
        is_pattern.then_some(Unjudged { filter, number, condition, at, test, negated })
    }

    /// What the test on the dictionary costs for all rows, about: 1 for a comparison of bytes.
    pub(super) fn cost(&self, block: &OpenBlock<'_>) -> f64 {
        let dictionary = block.stored(self.at).and_then(|stored| stored.record().dictionary);
        let values = dictionary.map_or(0, |dictionary| dictionary.values);
        4.0 + 256.0 * f64::from(values) / block.segment.segment.rows().max(1) as f64
    }

    /// Leaves the rows that pass.
    pub(super) fn apply(&self, slice: &Slice<'_, '_>, mask: &mut MaskBuilder) -> Result<()> {
        let Unjudged { filter, number, condition, at, test, negated } = self;
        if mask.has_few_texts(slice, *at) {
            return mask.coded_texts(slice, *at, *test, *negated);
        }
        match filter.on_codes(*number, condition, *at, slice.block)? {
            OnCodes::Range(low, high) => mask.codes(slice, *at, *low, *high),
            OnCodes::Set(set) => mask.code_set(slice, *at, set),
            // Another thread has failed, and says why.
            OnCodes::No => mask.coded_texts(slice, *at, *test, *negated),
        }
    }
}
