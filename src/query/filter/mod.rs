//! Filtering on encoded data: which rows of a slice pass.
//!
//! Where this stands on the road of a query: `prune` has left the blocks in which rows may match;
//! here each condition is judged once more by the block's zone map (often it holds for all rows),
//! then in the cheapest form that it has:
//!
//! 0. a sample, by the places of rows alone;
//! 1. a range of dictionary codes or of integers, those that stand for doubles among them, compared
//!    in the narrowest word that holds them, or a set of integers, looked up by it;
//! 2. a set of dictionary codes, after the condition was evaluated once for each value of the
//!    dictionary; if it is a pattern, and other conditions have left hardly any rows, it looks at
//!    the texts of these alone;
//! 3. a pattern or a constant on the bytes of texts that have no dictionary; equality looks at
//!    their lengths first;
//! 4. the condition itself over decoded columns, for the rows that the others have left.
//!
//! All but the last run in the order that has dropped most rows for what it costs so far.
//!
//! Conditions that may fail keep the order in which they were written. A condition that can hold
//! for nothing but the outliers of a frame looks at the patches alone: `total > 100`, where the
//! window of packed codes ends at 40, reads 6 % of the rows. Where few rows are left, the next
//! condition fetches just these.

mod decimals;
mod dictionaries;
mod mask;
mod range;
mod texts;

use self::decimals::DecimalRange;
use self::dictionaries::Unjudged;
pub(crate) use self::dictionaries::{OnCodes, OnDictionaries};
pub(crate) use self::mask::MaskBuilder;
use self::range::WordRange;
use self::texts::TextTest;
use super::Condition;
use super::open::OpenBlock;
use super::prune::Verdict;
use super::slice::Slice;
use super::stats::{Counters, Form, Statistic, Tally};
use super::words::truth;
use crate::block::Stream;
use crate::error::Result;
use crate::expr::{IntegerSet, Predicate, Sample, SamplePart};
use crate::model::Column;

/// If fewer than one row in this many is selected, a top-n fetches the numbers of these rows and
/// does not compare those of all rows.
const FEW_NUMBERS: usize = 4;
/// The same for texts.
const FEW_TEXTS: usize = 32;

/// Conditions over columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter<'a> {
    pub(crate) conditions: &'a [Condition],
    /// The columns that expressions name by position.
    pub(crate) columns: &'a [Column],
    /// Of the segment whose blocks are filtered.
    pub(crate) on_dictionaries: &'a OnDictionaries,
}

/// One condition in the form that a block allows.
#[derive(Debug)]
enum Test<'f> {
    Sampled(&'f Sample),
    Codes { at: usize, low: u32, high: u32 },
    Words { at: usize, range: WordRange },
    Set { at: usize, all: WordRange, set: &'f IntegerSet },
    Decimals { at: usize, range: DecimalRange },
    CodeSet { at: usize, set: &'f [u8] },
    Text { at: usize, test: TextTest<'f>, negated: bool },
    Unjudged(Unjudged<'f>),
    General(&'f Condition),
}

/// The tests that rows of a block have to pass; none if all do.
#[derive(Debug)]
pub(crate) struct Tests<'f> {
    /// Each with the number of its condition.
    tests: Vec<(usize, Test<'f>)>,
}

impl<'f> Filter<'f> {
    /// What rows of a block have to pass of the conditions from a number on, in the order that has
    /// been quickest so far; `None` if none can.
    pub(crate) fn tests(
        &self,
        from: usize,
        block: &OpenBlock<'f>,
        tally: &mut Tally,
    ) -> Result<Option<Tests<'f>>> {
        let (mut tests, mut proven) = (Vec::new(), Vec::new());
        let mut out = |statistic: Statistic, number: usize| {
            block.count_pruned(statistic, Some(number), &mut tally.counters);
            Ok(None)
        };
        for (number, condition) in self.conditions.iter().enumerate().skip(from) {
            if let Predicate::Sampled(sample) = &condition.predicate {
                match block.part_of(sample) {
                    SamplePart::None => return out(Statistic::Sample, number),
                    SamplePart::Some => tests.push((number, Test::Sampled(sample))),
                    SamplePart::All => proven.push(number),
                }
                continue;
            }
            match block.judge(&condition.predicate) {
                Verdict::Never => return out(Statistic::ZoneBounds, number),
                Verdict::Always => {
                    proven.push(number);
                    continue;
                }
                Verdict::Maybe => {}
            }
            match self.test(number, condition, block)? {
                Some(test) => tests.push((number, test)),
                None => return out(Statistic::Dictionary, number),
            }
        }
        if tests.len() > 1 {
            tests = in_order(tests, block, &tally.counters)?;
        }
        proven.into_iter().for_each(|number| tally.counters.proven(number, block.rows));
        tests.iter().for_each(|(number, test)| tally.counters.form(*number, test.form()));
        Ok(Some(Tests { tests }))
    }

    fn test(
        &self,
        number: usize,
        condition: &'f Condition,
        block: &OpenBlock<'f>,
    ) -> Result<Option<Test<'f>>> {
        let Some(at) = condition.expression.only_input() else {
            return Ok(Some(Test::General(condition)));
        };
        if let Some(pattern) = Unjudged::new(self, number, condition, at, block) {
            return Ok(Some(Test::Unjudged(pattern)));
        }
        match self.on_codes(number, condition, at, block)? {
            OnCodes::Range(low, high) if low > high => return Ok(None),
            OnCodes::Range(low, high) => {
                return Ok(Some(Test::Codes { at, low: *low, high: *high }));
            }
            OnCodes::Set(set) => return Ok(Some(Test::CodeSet { at, set })),
            OnCodes::No => {}
        }
        let Some(column) = self.columns.get(at) else { return Ok(Some(Test::General(condition))) };
        let test = Test::range(&condition.predicate, column, at, block);
        let test = test.or_else(|| Test::set(&condition.predicate, column, at, block));
        let test = test.or_else(|| Test::text(&condition.predicate, column, at, block));
        Ok(Some(test.unwrap_or(Test::General(condition))))
    }
}

/// The tests that drop most rows for what they cost before the others.
fn in_order<'f>(
    tests: Vec<(usize, Test<'f>)>,
    block: &OpenBlock<'f>,
    counters: &Counters,
) -> Result<Vec<(usize, Test<'f>)>> {
    let rank = |(number, test): (usize, Test<'f>)| {
        let dropped = counters.conditions.get(number).map_or(0.5, |tested| tested.step.dropped());
        Ok((test.cost(block)? / dropped, (number, test)))
    };
    let mut ranked = tests.into_iter().map(rank).collect::<Result<Vec<_>>>()?;
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(ranked.into_iter().map(|(_, test)| test).collect())
}

impl<'f> Test<'f> {
    /// A predicate as a test of texts, if it is one on this column of a block.
    fn text(
        predicate: &'f Predicate,
        column: &Column,
        at: usize,
        block: &OpenBlock<'_>,
    ) -> Option<Self> {
        let (test, negated) = TextTest::new(predicate, column)?;
        if !block.stored(at)?.data_type().is_text() {
            return None;
        }
        let Stream::Bytes(_) = block.column(at).ok()??.reader().stream() else { return None };
        Some(Test::Text { at, test, negated })
    }

    /// What the test costs for all rows, about: 1 for a comparison of bytes.
    fn cost(&self, block: &OpenBlock<'_>) -> Result<f64> {
        let (at, range) = match self {
            // What may fail is asked in the order in which it was written.
            Test::General(_) => return Ok(f64::INFINITY),
            Test::Sampled(_) => return Ok(0.0),
            Test::CodeSet { at, .. } => {
                let codes = block.column(*at)?.map(|block| block.reader().stream());
                return Ok(match codes {
                    Some(Stream::Codes(codes)) => 4.0 * codes.decoding_cost(),
                    _ => 4.0,
                });
            }
            Test::Unjudged(pattern) => return Ok(pattern.cost(block)),
            Test::Text { test: TextTest::Same(_), .. } => return Ok(16.0),
            Test::Text { .. } => return Ok(256.0),
            Test::Codes { at, low, high } => {
                let values =
                    block.stored(*at).and_then(|c| c.record().dictionary).map_or(0, |d| d.values);
                (
                    *at,
                    WordRange {
                        base: 0,
                        span: values.into(),
                        low: (*low).into(),
                        high: (*high).into(),
                        outside: false,
                    },
                )
            }
            Test::Words { at, range } => (*at, *range),
            // A place is looked up for each value.
            Test::Set { at, all, .. } => return Ok(2.0 * all.cost(block.column(*at)?)),
            Test::Decimals { at, range } => (*at, range.range),
        };
        Ok(range.cost(block.column(at)?))
    }

    fn form(&self) -> Form {
        match self {
            Test::Codes { .. } => Form::Codes,
            Test::Words { .. } | Test::Set { .. } => Form::Words,
            Test::Decimals { range, .. } if range.of_bits => Form::Words,
            Test::Decimals { .. } => Form::Decimals,
            Test::CodeSet { .. } | Test::Unjudged(_) => Form::CodeSet,
            Test::Text { .. } => Form::Pattern,
            Test::Sampled(_) => Form::Place,
            Test::General(_) => Form::Decoded,
        }
    }

    /// A predicate as a set of numbers, if it is one on this column of a block.
    fn set(
        predicate: &'f Predicate,
        column: &Column,
        at: usize,
        block: &OpenBlock<'_>,
    ) -> Option<Self> {
        let Predicate::InSet { operand, set } = predicate else { return None };
        let same = operand.is(column);
        let all = WordRange::all(column, at, block).filter(|_| same)?;
        Some(Test::Set { at, all, set })
    }

    /// A predicate as a range of numbers, if it is one on this column of a block.
    fn range(
        predicate: &Predicate,
        column: &Column,
        at: usize,
        block: &OpenBlock<'_>,
    ) -> Option<Self> {
        if let Some(range) = WordRange::new(predicate, column, at, block) {
            return Some(Test::Words { at, range });
        }
        if let Some((low, high)) = range::codes(predicate, column, at, block) {
            return Some(Test::Codes { at, low, high });
        }
        DecimalRange::new(predicate, column, at, block).map(|range| Test::Decimals { at, range })
    }
}

/// Leaves only rows selected for which a predicate on a column is true, where it is a range of
/// codes, numbers or texts; else the slice stays as it is.
pub(crate) fn narrow(
    predicate: &Predicate,
    column: &Column,
    at: usize,
    slice: &mut Slice<'_, '_>,
    mask: &mut MaskBuilder,
) -> Result<()> {
    // Fetching the values of few rows is quicker than comparing those of all rows.
    let is_worth = |test: &Test<'_>| match test {
        Test::Words { .. } | Test::Decimals { .. } => {
            slice.len() * FEW_NUMBERS >= slice.range.len()
        }
        Test::Text { .. } => slice.len() * FEW_TEXTS >= slice.range.len(),
        _ => true,
    };
    let test = Test::range(predicate, column, at, slice.block);
    let test = test.or_else(|| Test::text(predicate, column, at, slice.block));
    match test.filter(is_worth) {
        // It is nobody's condition: nothing counts it.
        Some(test) => {
            Tests { tests: vec![(usize::MAX, test)] }.apply(slice, mask, &mut Tally::default())
        }
        None => Ok(()),
    }
}

impl Tests<'_> {
    /// Leaves the rows of a slice that pass selected.
    pub(crate) fn apply(
        &self,
        slice: &mut Slice<'_, '_>,
        mask: &mut MaskBuilder,
        tally: &mut Tally,
    ) -> Result<()> {
        mask.begin(slice);
        let mut rows_in = slice.len();
        for (number, test) in &self.tests {
            match test {
                Test::Sampled(sample) => mask.sampled(slice, sample),
                Test::Codes { at, low, high } => mask.codes(slice, *at, *low, *high)?,
                Test::Words { at, range } => mask.words(slice, *at, range)?,
                Test::Set { at, all, set } => mask.set(slice, *at, all, set)?,
                Test::Decimals { at, range } => mask.decimals(slice, *at, range)?,
                Test::CodeSet { at, set } => mask.code_set(slice, *at, set)?,
                Test::Text { at, test, negated } => mask.texts(slice, *at, *test, *negated)?,
                Test::Unjudged(pattern) => pattern.apply(slice, mask)?,
                Test::General(_) => continue,
            }
            let left = mask.left(slice.range.len());
            tally.counters.tested(*number, rows_in, left, tally.clock.lap());
            if left == 0 {
                slice.select(Vec::new());
                return Ok(());
            }
            rows_in = left;
        }
        mask.select(slice, rows_in);
        for (number, test) in &self.tests {
            let Test::General(condition) = test else { continue };
            let rows_in = slice.len();
            if rows_in == 0 {
                break;
            }
            let holds = truth(&slice.evaluate(&condition.expression)?);
            tally.counters.tested(
                *number,
                rows_in,
                rows_in - holds.null_count(),
                tally.clock.lap(),
            );
            if holds.null_count() == 0 {
                continue;
            }
            let rows = match slice.selected() {
                None => holds.valid_indices().map(|row| row as u32).collect(),
                Some(selected) => {
                    holds.valid_indices().filter_map(|i| selected.get(i).copied()).collect()
                }
            };
            slice.select(rows);
        }
        Ok(())
    }

    /// Whether every row passes.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }
}
