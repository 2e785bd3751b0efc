//! Conditions on the bytes of texts: patterns, and comparisons with a constant.
//!
//! Texts are decoded a vector at a time and looked at together, in memory that is used again; a
//! segment's dictionary is never decoded whole for them.

use std::cmp::Ordering;

use super::OnCodes;
use crate::block::Stream;
use crate::budget::Budget;
use crate::encoding::strings::{Strings, StringsOut};
use crate::error::Result;
use crate::expr::{Comparison, Pattern, Predicate};
use crate::limits::VECTOR;
use crate::model::{Column, Scalar};
use crate::segment::reader;

/// What texts are tested for.
#[derive(Clone, Copy, Debug)]
pub(super) enum TextTest<'f> {
    Like(&'f Pattern),
    /// They are these bytes.
    Same(&'f [u8]),
    /// They sort before these bytes.
    Before(&'f [u8]),
    /// They sort before these bytes, or are the same.
    UpTo(&'f [u8]),
}

/// Memory for one vector of texts.
#[derive(Debug, Default)]
pub(super) struct TextScratch {
    lengths: Vec<u32>,
    texts: StringsOut,
}

/// How two texts stand in an order. Most often the first bytes tell.
#[inline]
fn order(text: &[u8], other: &[u8]) -> Ordering {
    text.first().cmp(&other.first()).then_with(|| text.cmp(other))
}

impl<'f> TextTest<'f> {
    /// A predicate as a test of a column's texts, and whether those pass that fail it.
    pub(super) fn new(predicate: &'f Predicate, column: &Column) -> Option<(Self, bool)> {
        let (predicate, negated) = match predicate {
            Predicate::Not(inner) => (&**inner, true),
            predicate => (predicate, false),
        };
        let (operand, test, negated) = match predicate {
            Predicate::Like { operand, pattern } => (operand, TextTest::Like(pattern), negated),
            Predicate::Compare { operand, comparison, value: Scalar::Bytes(bytes) } => {
                let (test, flipped) = match comparison {
                    Comparison::Equal => (TextTest::Same(bytes), false),
                    Comparison::NotEqual => (TextTest::Same(bytes), true),
                    Comparison::Less => (TextTest::Before(bytes), false),
                    Comparison::GreaterOrEqual => (TextTest::Before(bytes), true),
                    Comparison::LessOrEqual => (TextTest::UpTo(bytes), false),
                    Comparison::Greater => (TextTest::UpTo(bytes), true),
                };
                (operand, test, negated != flipped)
            }
            _ => return None,
        };
        (operand.is(column) && column.data_type.is_text()).then_some((test, negated))
    }

    /// Whether a text passes.
    pub(super) fn passes(self, text: &[u8]) -> bool {
        match self {
            TextTest::Like(pattern) => pattern.matches(text),
            TextTest::Same(same) => text == same,
            TextTest::Before(bytes) => order(text, bytes).is_lt(),
            TextTest::UpTo(bytes) => order(text, bytes).is_le(),
        }
    }

    /// Clears the mask of the texts that fail, or with `negated` of those that pass. The first text
    /// is row `start`, a multiple of [`VECTOR`].
    pub(super) fn mask(
        self,
        strings: &Strings<'_>,
        start: usize,
        negated: bool,
        mask: &mut [u8],
        scratch: &mut TextScratch,
        budget: &Budget,
    ) -> Result<()> {
        let TextScratch { lengths, texts } = scratch;
        texts.charge_to(budget)?;
        for (start, mask) in (start..).step_by(VECTOR).zip(mask.chunks_mut(VECTOR)) {
            if mask.iter().all(|byte| *byte == 0) {
                continue;
            }
            let rows = start..start + mask.len();
            lengths.clear();
            if let TextTest::Same(same) = self
                && strings.lengths(rows.clone(), lengths)?
            {
                let is_long = |length: &u32| *length as usize == same.len();
                if same.is_empty() || !lengths.iter().any(is_long) {
                    let lengths = mask.iter_mut().zip(&*lengths);
                    lengths.for_each(|(byte, len)| *byte &= u8::from(is_long(len) != negated));
                    continue;
                }
            }
            texts.clear();
            strings.decode(rows, texts)?;
            match self {
                TextTest::Like(pattern) => pattern.mask(&texts.data, &texts.ends, negated, mask),
                test => {
                    for (row, byte) in mask.iter_mut().enumerate().filter(|(_, byte)| **byte != 0) {
                        *byte = u8::from(test.passes(texts.value(row)) != negated);
                    }
                }
            }
        }
        Ok(())
    }

    /// The test on the dictionary of a column, from its stored texts; `None` where the dictionary
    /// is decoded already.
    pub(super) fn on_dictionary(
        self,
        stored: &reader::Column,
        negated: bool,
    ) -> Result<Option<OnCodes>> {
        let Some(reader) = stored.undecoded_dictionary()? else { return Ok(None) };
        let Stream::Bytes(strings) = reader.stream() else { return Ok(None) };
        let budget = reader.budget();
        let _charge = budget.charge(strings.rows() + 1)?;
        let mut passes = vec![1; strings.rows() + 1];
        // No test holds for null.
        if let Some((null, passes)) = passes.split_first_mut() {
            *null = 0;
            self.mask(strings, 0, negated, passes, &mut TextScratch::default(), budget)?;
        }
        Ok(Some(OnCodes::new(passes.into())))
    }
}
